//! Whatever a process holds in place of the data of jemalloc, reading it ends and its sums agree.

#![no_main]

#[path = "../bodies/outside_jemalloc.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
