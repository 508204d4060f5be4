//! Text from other programs, made safe to display.

pub use carat_outside::printable::is_printable;
use std::iter::Peekable;
use std::str::Chars;

/// The text without escape sequences, control characters other than line feed and tab, and invisible characters that
/// change the order of the others.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            // Escape sequences can move the cursor and rewrite what was shown.
            '\u{1b}' => skip_escape(&mut rest),
            '\n' | '\t' => out.push(c),
            // A carriage return would let a line overwrite itself.
            '\r' => {}
            // Characters that reverse the direction make a text read as another (Trojan Source).
            c if !is_printable(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// [`plain`] text on one line.
pub fn one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// At most `most` characters, with an ellipsis at the end if something was cut off. A parenthesis that was cut is closed.
pub fn shorten(text: &str, most: usize) -> String {
    // Looks one character further than allowed, without counting a long text.
    if text.char_indices().nth(most).is_none() {
        return text.to_owned();
    }
    let start = |length: usize| text.chars().take(length);
    let is_open = |length| {
        let count = |wanted: char| start(length).filter(|c| *c == wanted).count();
        count('(') > count(')')
    };
    match most.saturating_sub(2) {
        inside if is_open(inside) => start(inside).chain(['…', ')']).collect(),
        // The parenthesis would be all that is left of what is in it.
        before if is_open(before + 1) => start(before).chain(['…']).collect(),
        _ => start(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Skips to the final byte of a CSI sequence, to the terminator of an OSC sequence, or one character.
fn skip_escape(rest: &mut Peekable<Chars<'_>>) {
    match rest.next() {
        Some('[') => {
            // Final bytes of a CSI sequence are 0x40 to 0x7E (ECMA-48, 5.4).
            for c in rest.by_ref() {
                if ('\u{40}'..='\u{7e}').contains(&c) {
                    return;
                }
            }
        }
        Some(']') => {
            while let Some(c) = rest.next() {
                // An OSC ends with BEL in practice, with ESC \ by the standard (ECMA-48, 8.3.89).
                if c == '\u{7}' {
                    return;
                }
                if c == '\u{1b}' {
                    rest.next_if_eq(&'\\');
                    return;
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, proptest};

    #[test]
    fn escape_sequences_and_control_characters_are_removed() {
        for (given, shown) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}rest", "rest"),
            ("\u{1b}]8;;http://x\u{1b}\\link", "link"),
            ("a\u{7}b", "a\u{fffd}b"),
            ("a\u{9b}31mb", "a\u{fffd}31mb"),
            ("txt\u{202e}exe", "txt\u{fffd}exe"),
            ("one\r\ntwo\tthree", "one\ntwo\tthree"),
            ("\u{1b}[", ""),
        ] {
            assert_eq!(plain(given), shown, "{given:?}");
        }
    }

    #[test]
    fn a_text_is_shortened_by_characters_not_bytes() {
        assert_eq!(shorten("größer als", 6), "größe…");
        assert_eq!(shorten("größer", 6), "größer");
    }

    #[test]
    fn a_parenthesis_that_is_cut_is_closed() {
        assert_eq!(shorten("invalid (GET / → 500 ×2, more)", 20), "invalid (GET / → 5…)");
        assert_eq!(shorten("invalid (GET /)", 10), "invalid …");
        assert_eq!(shorten("a (b) cdefg", 8), "a (b) c…");
    }

    proptest! {
        #[test]
        fn every_character_of_a_plain_text_is_printable_and_a_line_is_one_line(
            text in proptest::collection::vec(any::<char>(), 0..200),
        ) {
            let text: String = text.into_iter().collect();
            let shown = |c: char| is_printable(c) || matches!(c, '\n' | '\t');
            assert!(plain(&text).chars().all(shown), "{text:?}");
            assert_eq!(plain(&plain(&text)), plain(&text));
            assert!(one_line(&text).chars().all(is_printable), "{text:?}");
            assert!(shorten(&text, 20).chars().count() <= 20);
        }
    }
}
