//! A list of URLs of any bytes is read or refused, and what is read can be sent.

#![no_main]

#[path = "../bodies/replay.rs"]
mod body;

use carat_model::load::ReplayFormat;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input, Some(ReplayFormat::Urls)));
