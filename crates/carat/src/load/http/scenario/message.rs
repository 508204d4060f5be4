//! What a message shows of a response.

/// Most characters of a body.
const SHOWN: usize = 120;

/// The beginning of a body on one line.
pub(super) fn beginning(body: &[u8]) -> String {
    if body.is_empty() {
        return "the body is empty".to_owned();
    }
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN)]);
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let shown: String = line.chars().take(SHOWN).collect();
    let more = if shown.len() < line.len() || body.len() > 4 * SHOWN { "…" } else { "" };
    format!("the body begins `{shown}{more}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_body_is_one_short_line() {
        assert_eq!(beginning(b""), "the body is empty");
        assert_eq!(beginning(b"a\r\n\x1b[1m  b"), "the body begins `a [1m b`");
        let long = beginning(&[b'x'; 1000]);
        assert_eq!(long, format!("the body begins `{}…`", "x".repeat(SHOWN)));
    }
}
