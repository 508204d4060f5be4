//! A heap dump of any bytes is refused with a reason or read, and what is read of it has sums that agree.

#![no_main]

#[path = "../bodies/heap_dump.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
