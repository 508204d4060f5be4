//! Whatever stands in `stat`, `status`, `smaps_rollup` or `pagemap`, it is understood or not, and nothing panics.

#![no_main]

#[path = "../bodies/proc_text.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
