//! Messages are the same however the kernel cuts their frames, memory stays bounded, and nothing panics.

#![no_main]

#[path = "../bodies/websocket_frame.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
