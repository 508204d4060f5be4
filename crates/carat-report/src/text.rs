//! Texts as they are laid out: lines, columns, dates.

use carat_model::Variant;
pub use carat_model::{one_line, shorten};
use std::fmt;
use time::OffsetDateTime;
use unicode_width::UnicodeWidthStr as _;

/// The text with its first letter in upper case; a name such as p95 stays as it is.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    if letters.clone().nth(1).is_some_and(|second| second.is_ascii_digit()) {
        return text.to_owned();
    }
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What a variant sets, with this sign between a name and its value.
pub fn settings_text(variant: &Variant, sign: &str) -> String {
    if variant.settings.is_empty() {
        return "none".to_owned();
    }
    let pairs = variant.settings.iter().map(|(name, value)| format!("{name}{sign}{value}"));
    pairs.collect::<Vec<_>>().join(", ")
}

/// The text that a function writes.
pub(crate) fn written(write: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out);
    out
}

/// The text in lines of at most `most` characters; a longer word is broken. At least one line.
pub fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        while !rest.is_empty() {
            let used = lines.last().map_or(0, |line| line.chars().count());
            let space = usize::from(used > 0);
            if used + space + rest.len() <= most {
                push_word(&mut lines, &rest, space);
                break;
            }
            // Broken only at the start of a line, where it cannot fit as a whole.
            if rest.len() > most && used == 0 {
                let after = rest.split_off(most);
                push_word(&mut lines, &rest, 0);
                rest = after;
            }
            lines.push(String::new());
        }
    }
    lines
}

/// Adds a word to the last line.
fn push_word(lines: &mut [String], word: &[char], spaces: usize) {
    if let Some(line) = lines.last_mut() {
        line.push_str(&" ".repeat(spaces));
        line.extend(word);
    }
}

/// Columns of a text in a terminal.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Spaces that fill a text up to that many columns. Wide characters take two, so the width of a format would be wrong.
pub(crate) fn fill(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(columns(text)))
}

/// A Unix time in UTC; `None` beyond what a calendar has.
pub(crate) fn utc(unix_ms: u64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(i64::try_from(unix_ms / 1000).ok()?).ok()
}

/// The date of a Unix time in UTC, such as 2026-11-21.
pub fn day(unix_ms: u64) -> String {
    utc(unix_ms).map_or_else(|| "unknown date".to_owned(), |time| time.date().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_wrapped_at_words_and_a_long_word_is_broken() {
        for (given, most, lines) in [
            ("", 8, vec![""]),
            ("two arenas", 20, vec!["two arenas"]),
            (
                "prepared fork without compaction",
                14,
                vec!["prepared fork", "without", "compaction"],
            ),
            ("abcdefghij", 4, vec!["abcd", "efgh", "ij"]),
            ("a bcdefgh", 4, vec!["a", "bcde", "fgh"]),
        ] {
            assert_eq!(wrapped(given, most), lines, "{given}");
        }
    }

    #[test]
    fn wide_characters_take_two_columns_and_combining_ones_none() {
        assert_eq!((columns("abc"), columns("日本"), columns("e\u{301}")), (3, 4, 1));
    }

    #[test]
    fn days_follow_the_calendar() {
        for (ms, text) in [
            (0, "1970-01-01"),
            (951_782_400_000, "2000-02-29"),
            (1_790_000_000_000, "2026-09-21"),
            (4_107_542_399_000, "2100-02-28"),
        ] {
            assert_eq!(day(ms), text);
        }
    }
}
