//! Whatever stands in `maps` or `smaps`, every mapping that comes out has addresses and a weight between 0 and 1.

#![no_main]

#[path = "../bodies/maps.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
