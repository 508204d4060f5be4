//! Whatever a process holds in place of malloc's arenas, chunks and lists, reading it ends and its sums agree.

#![no_main]

#[path = "../bodies/outside_malloc.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
