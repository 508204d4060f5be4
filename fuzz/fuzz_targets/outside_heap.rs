//! Whatever a process holds in place of symbols, heap pages and classes, reading it ends and its sums agree.

#![no_main]

#[path = "../bodies/outside_heap.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
