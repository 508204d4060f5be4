//! A results file of any bytes is refused with a reason or read, is never changed by that, and what is salvaged
//! from it can be read.
//!
//! The first byte of an input says whether the rest is the file or is laid over a sound one: two bytes of place,
//! one of length, then as many bytes.

#![no_main]

#[path = "../bodies/results_file.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
