//! A response means the same however the kernel cuts it, and nothing makes its reader panic.

#![no_main]

#[path = "../bodies/http_response.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
