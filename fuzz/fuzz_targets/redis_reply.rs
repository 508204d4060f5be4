//! A reply of Redis is the same however it is split.

#![no_main]

#[path = "../bodies/redis_reply.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
