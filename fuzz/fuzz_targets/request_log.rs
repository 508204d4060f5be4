//! A log of any bytes is read or refused in every format and in the one that is found, and what is read can be sent.

#![no_main]

#[path = "../bodies/replay.rs"]
mod body;

use carat_model::load::ReplayFormat;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    for format in [ReplayFormat::AccessLog, ReplayFormat::Rails, ReplayFormat::Lograge] {
        body::check(input, Some(format));
    }
    body::check(input, None);
});
