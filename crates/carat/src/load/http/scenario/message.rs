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

/// A text without the values of variables of the environment, which are never stored.
pub(super) fn masked(text: String, variables: &[(String, String)]) -> String {
    variables
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .fold(text, |text, (name, value)| text.replace(value.as_str(), &format!("{{env.{name}}}")))
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

    #[test]
    fn the_values_of_variables_are_not_shown() {
        let variables =
            [("KEY".to_owned(), "s3cret".to_owned()), ("NONE".to_owned(), String::new())];
        assert_eq!(masked("a s3cret b".to_owned(), &variables), "a {env.KEY} b");
    }
}
