//! Nothing that a scenario reads of a response makes it panic.

#![no_main]

#[path = "../bodies/scenario.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
