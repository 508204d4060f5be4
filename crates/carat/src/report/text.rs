//! Text from elsewhere, made harmless to look at.

/// The text without what a terminal or a reader's eye would obey: escape sequences, control characters
/// other than line feed and tab, and characters that reverse the direction of writing.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_escape(&mut rest),
            '\n' | '\t' => out.push(c),
            '\r' => {}
            c if c.is_control() || is_invisible_order(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// [`plain`], and on one line.
pub(crate) fn one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text with its first letter as a capital.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// At most `most` characters, the last of them an ellipsis where something was cut.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(std::iter::once('…')).collect()
}

/// Columns that a text takes in a terminal: wide East Asian characters and emoji take two.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(|c| if is_wide(c) { 2 } else { 1 }).sum()
}

/// The day of a Unix time in UTC (proleptic Gregorian calendar, counted in eras of 400 years from March on).
pub fn day(unix_ms: u64) -> String {
    let days = (unix_ms / 86_400_000) as i64 + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{date:02}")
}

/// Ends at the final byte of a CSI sequence, at the terminator of an OSC sequence, or after one character.
fn skip_escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
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

fn is_invisible_order(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn is_wide(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}')
        || matches!(c, '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}')
        || matches!(c, '\u{1f300}'..='\u{1faff}' | '\u{20000}'..='\u{3fffd}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_gone() {
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
