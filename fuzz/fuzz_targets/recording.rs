//! A recording of any bytes is refused with a reason or read, and what is read of it can be judged and drawn.

#![no_main]

#[path = "../bodies/recording.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
