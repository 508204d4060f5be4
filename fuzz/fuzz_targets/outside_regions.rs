//! Every mapping that the reader from outside parses from any `maps` has pages, and none overlaps another.

#![no_main]

#[path = "../bodies/outside_regions.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
