//! Placeholders in texts that users write: `{port}`, `{env.API_KEY}`.

use crate::nearest;

/// A part of a text with placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextPart<'a> {
    /// Stays as it is.
    Literal(&'a str),
    /// The name of a placeholder, without braces.
    Placeholder(&'a str),
}

/// Splits a text into its parts.
///
/// Braces around anything that is not a placeholder's name stay as they are, so a text can contain JSON and Ruby blocks.
pub fn text_parts(text: &str) -> Vec<TextPart<'_>> {
    let mut parts = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(open) = text[at..].find('{').map(|place| at + place) {
        let after = &text[open + 1..];
        // The nearest closing brace: a name contains none.
        match after.find('}').map(|close| &after[..close]).filter(|name| is_placeholder_name(name))
        {
            Some(name) => {
                if open > from {
                    parts.push(TextPart::Literal(&text[from..open]));
                }
                parts.push(TextPart::Placeholder(name));
                at = open + name.len() + 2;
                from = at;
            }
            // Only behind this brace: another one may follow inside, as in JSON.
            None => at = open + 1,
        }
    }
    if from < text.len() {
        parts.push(TextPart::Literal(&text[from..]));
    }
    parts
}

/// Whether a text can be the name of a placeholder.
pub fn is_placeholder_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

/// What is said of a placeholder that is none of those that are known at its place.
pub fn unknown_placeholder<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let meant = nearest(name, known.iter().copied());
    let meant = meant.map(|one| format!(" (did you mean {{{one}}}?)")).unwrap_or_default();
    let known: Vec<String> = known.iter().map(|one| format!("{{{one}}}")).collect();
    format!("unknown placeholder {{{name}}}{meant}; known here: {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_placeholder_is_answered_with_the_nearest_of_the_known_ones() {
        let known = ["port", "dir"];
        assert_eq!(
            unknown_placeholder("prot", known),
            "unknown placeholder {prot} (did you mean {port}?); known here: {port}, {dir}"
        );
        assert_eq!(
            unknown_placeholder("zebra", known),
            "unknown placeholder {zebra}; known here: {port}, {dir}"
        );
    }

    #[test]
    fn a_text_is_split_at_names_in_braces_and_nowhere_else() {
        use TextPart::{Literal, Placeholder};
        let cases: [(&str, &[TextPart<'_>]); 6] = [
            ("", &[]),
            ("a{b}c", &[Literal("a"), Placeholder("b"), Literal("c")]),
            ("{env.API_KEY}{x}", &[Placeholder("env.API_KEY"), Placeholder("x")]),
            ("{\"a\": {b}}", &[Literal("{\"a\": "), Placeholder("b"), Literal("}")]),
            ("{ {|x| x} ${HOME} {", &[Literal("{ {|x| x} ${HOME} {")]),
            ("é{a}", &[Literal("é"), Placeholder("a")]),
        ];
        for (text, parts) in cases {
            assert_eq!(text_parts(text), parts, "{text}");
        }
    }
}
