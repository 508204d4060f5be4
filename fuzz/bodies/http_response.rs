//! A response means the same however it is split, and no input causes a panic.
//!
//! The first byte of an input is the size of the pieces; the rest is what the server sends.

use carat_load::http::response::{ParsedResponse, ResponseError, ResponseParser};

const BODY: &[u8] = b"hello, world";

/// The result of parsing the pieces: a response, an error, or an incomplete response with the result of closing.
type Outcome = Result<ParsedResponse, (ResponseError, Option<ResponseError>)>;

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>, no_body: bool) -> Outcome {
    let mut response = ResponseParser::default();
    response.reset(no_body);
    let mut whole = None;
    for piece in pieces {
        if whole.is_some() {
            return Err((ResponseError::Surplus, None));
        }
        whole = response.take(piece, Some(BODY)).map_err(|error| (error, None))?;
        assert!(response.has_begun());
    }
    match whole {
        Some(whole) => Ok(whole),
        None => response.end(Some(BODY)).map_err(|error| (ResponseError::Early, Some(error))),
    }
}

/// Panics if that does not hold.
pub(crate) fn check(input: &[u8]) {
    let Some((size, bytes)) = input.split_first() else { return };
    for no_body in [false, true] {
        let once = read(std::iter::once(bytes).filter(|bytes| !bytes.is_empty()), no_body);
        assert_eq!(once, read(bytes.chunks(usize::from(*size).max(1)), no_body));
    }
}
