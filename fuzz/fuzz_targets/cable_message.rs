//! A message means the same whether its shape is already known or not, and nothing makes its reader panic.

#![no_main]

#[path = "../bodies/cable_message.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
