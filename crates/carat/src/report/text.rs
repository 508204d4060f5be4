//! Text from other programs, made safe to display.

use crate::core::is_printable;
use std::iter::Peekable;
use std::str::Chars;
use time::OffsetDateTime;
use unicode_width::UnicodeWidthStr as _;

/// The text without escape sequences, control characters other than line feed and tab, and invisible characters that
/// change the order of the others.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_escape(&mut rest),
            '\n' | '\t' => out.push(c),
            '\r' => {}
            c if !is_printable(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// [`plain`] text on one line.
pub(crate) fn one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text with its first letter in upper case.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// At most `most` characters, the last of them an ellipsis if something was cut off.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(std::iter::once('…')).collect()
}

/// The text in lines of at most `most` characters; a longer word is broken. At least one line.
pub(crate) fn wrapped(text: &str, most: usize) -> Vec<String> {
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
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// The date of a Unix time in UTC, such as 2026-11-21.
pub fn day(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).ok();
    let time = seconds.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    time.map_or_else(|| "unknown date".to_owned(), |time| time.date().to_string())
}

/// Skips to the final byte of a CSI sequence, to the terminator of an OSC sequence, or one character.
fn skip_escape(rest: &mut Peekable<Chars<'_>>) {
    match rest.next() {
        Some('[') => {
            for c in rest.by_ref() {
                if ('\u{40}'..='\u{7e}').contains(&c) {
                    return;
                }
            }
        }
        Some(']') => {
            while let Some(c) = rest.next() {
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
