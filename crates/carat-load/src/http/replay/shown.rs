//! How messages show what was read.

use carat_model::{one_line, shorten};

/// Most characters of a line.
const SHOWN: usize = 100;

/// The start of a foreign text on one line.
pub(super) fn shown(text: &str) -> String {
    shorten(&one_line(text), SHOWN)
}

/// The message of an error in JSON, with its place, and without the texts that it quotes: they may be secrets.
pub(super) fn json_error(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let whole = error.to_string();
    let message = whole.strip_suffix(&place).unwrap_or(&whole);
    // serde quotes the text that it did not expect, which may be a password.
    match (message.find("string \""), message.rfind("\", expected")) {
        (Some(start), Some(end)) if start < end => {
            format!(
                "{}{place}",
                shown(&format!("{}a text{}", &message[..start], &message[end + 1..]))
            )
        }
        _ => format!("{}{place}", shown(message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_that_is_shown() {
        assert_eq!(shown("a\x1b[31mb\u{202e}c\r"), "ab\u{fffd}c");
        assert_eq!(shown(&"é".repeat(300)), format!("{}…", "é".repeat(SHOWN - 1)));
    }

    #[test]
    fn an_error_in_json_does_not_quote_its_texts() {
        let error = serde_json::from_str::<Vec<u8>>("\n[\"Bearer s3cret\", 1]").unwrap_err();
        let message = json_error(&error);
        assert!(!message.contains("s3cret"), "{message}");
        assert!(message.contains("a text, expected u8 at line 2"), "{message}");
        let error = serde_json::from_str::<Vec<u8>>("[1").unwrap_err();
        assert!(json_error(&error).contains("EOF while parsing"), "{error}");
    }
}
