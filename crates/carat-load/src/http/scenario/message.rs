//! What a message shows of a response.

use carat_model::{one_line, shorten};

/// Most characters of a body.
const SHOWN: usize = 120;

/// The beginning of a body on one line.
pub(super) fn beginning(body: &[u8]) -> String {
    if body.is_empty() {
        return "the body is empty".to_owned();
    }
    // Four bytes for each character at most, so that a long body is not decoded for its beginning.
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN)]);
    format!("the body begins `{}`", shorten(&one_line(&text), SHOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_body_is_one_short_line() {
        assert_eq!(beginning(b""), "the body is empty");
        assert_eq!(beginning(b"a\r\n\x1b[1m  b"), "the body begins `a b`");
        let long = beginning(&[b'x'; 1000]);
        assert_eq!(long, format!("the body begins `{}…`", "x".repeat(SHOWN - 1)));
    }
}
