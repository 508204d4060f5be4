//! Whatever stands in a probe's page, reading it ends, stays within its rooms, and never panics.
//!
//! The first byte of an input says what of a sound page's beginning is put before the rest, so that mutations
//! come past the first word; between two reads of the same place the page may change, as a live one does.

#![no_main]

#[path = "../bodies/probe_page.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| body::check(input));
