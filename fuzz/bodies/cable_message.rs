//! A message means the same whether its shape is already known or not, and nothing makes its reader panic.
//!
//! Every line of an input is a message; where its first byte is `o`, payloads are objects instead of strings.

use carat::core::CableOptions;
use carat::load::cable::codec::CableCodec;

/// The run whose mark the seeds carry.
const RUN: u32 = 7;

/// Fails where that does not hold.
pub(crate) fn check(input: &[u8]) {
    let payload_object = input.first() == Some(&b'o');
    // Shorter than usual, so that whole messages are within reach of mutations.
    let table = CableOptions { payload: 40, payload_object, ..CableOptions::default() };
    let load = table.load("ws://127.0.0.1").expect("the usual load is one");
    let mut experienced = CableCodec::new(&load, RUN);
    for message in input.split(|byte| *byte == b'\n') {
        let fresh = CableCodec::new(&load, RUN).parse(message);
        assert_eq!(experienced.parse(message), fresh);
    }
}
