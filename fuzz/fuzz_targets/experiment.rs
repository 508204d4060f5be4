//! An experiment file is understood or refused with a reason, and what is understood has a load and an identity.

#![no_main]

#[path = "../bodies/experiment.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
