//! A message means the same with and without a template for it, and no input causes a panic.
//!
//! Every line of an input is a message; if its first byte is `o`, payloads are objects instead of strings.

use carat_load::cable::codec::CableCodec;
use carat_model::CableOptions;

/// The run whose mark the seeds carry.
const RUN: u32 = 7;

/// Panics if that does not hold.
pub(crate) fn check(input: &[u8]) {
    let payload_object = input.first() == Some(&b'o');
    // Shorter than usual, so that mutations reach complete messages.
    let table = CableOptions { payload: 40, payload_object, ..CableOptions::default() };
    let load = table.load("ws://127.0.0.1").expect("the default load is valid");
    let mut warm = CableCodec::new(&load, RUN);
    for message in input.split(|byte| *byte == b'\n') {
        let fresh = CableCodec::new(&load, RUN).parse(message);
        assert_eq!(warm.parse(message), fresh);
    }
}
