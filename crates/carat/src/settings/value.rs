//! What a setting accepts, and its one canonical spelling.

use std::path::Path;

/// The values a setting accepts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Values {
    /// One of these words.
    Words(&'static [&'static str]),
    /// A whole number from the first to the second.
    Count(u64, u64),
    /// An amount of memory in bytes; `k`, `m` and `g` multiply by 1024.
    Size,
    /// A decimal number from the first to the second.
    Ratio(f64, f64),
    /// One of these words, or the absolute path of a file.
    WordsOrPath(&'static [&'static str]),
    /// An absolute path.
    Path,
    /// Text that is passed on as it is.
    Text,
    /// A table of environment variables.
    Variables,
}

impl Values {
    /// The canonical spelling of `value`, or `None` where it is not accepted.
    pub fn canonical(self, value: &str) -> Option<String> {
        let value = value.trim();
        match self {
            Self::Words(words) => words.contains(&value).then(|| value.to_owned()),
            Self::WordsOrPath(words) => {
                (words.contains(&value) || Path::new(value).is_absolute()).then(|| value.to_owned())
            }
            Self::Path => Path::new(value).is_absolute().then(|| value.to_owned()),
            Self::Count(least, most) => {
                let count: u64 = value.parse().ok()?;
                (least..=most).contains(&count).then(|| count.to_string())
            }
            Self::Size => parse_size(value).map(|bytes| bytes.to_string()),
            Self::Ratio(least, most) => {
                let ratio: f64 = value.parse().ok()?;
                (least..=most).contains(&ratio).then(|| ratio.to_string())
            }
            Self::Variables => None,
            Self::Text => {
                // A line break or a NUL cannot stand in every place where a variable ends up.
                (!value.contains(['\0', '\n'])).then(|| value.to_owned())
            }
        }
    }

    /// What is accepted, in words for errors and help.
    pub fn describe(self) -> String {
        match self {
            Self::Words(words) => alternatives(words),
            Self::WordsOrPath(words) => format!("{} or an absolute path", alternatives(words)),
            Self::Path => "an absolute path".into(),
            Self::Count(least, u64::MAX) => format!("a whole number from {least}"),
            Self::Count(least, most) => format!("a whole number from {least} to {most}"),
            Self::Size => "bytes, also as `512k`, `16m` or `1g`".into(),
            Self::Ratio(least, most) => format!("a number from {least} to {most}"),
            Self::Text => "text".into(),
            Self::Variables => "a table of variables, or `env.NAME=value`".into(),
        }
    }

    /// The accepted words, for finding the nearest one; empty where any text is.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Self::Words(words) | Self::WordsOrPath(words) => words,
            _ => &[],
        }
    }
}

fn alternatives(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn parse_size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_one_spelling() {
        for (values, written, canonical) in [
            (Values::Size, "1m", Some("1048576")),
            (Values::Size, "1048576", Some("1048576")),
            (Values::Size, "2x", None),
            (Values::Size, "", None),
            (Values::Size, "99999999999999999999", None),
            (Values::Size, "é", None),
            (Values::Count(1, 64), " 2 ", Some("2")),
            (Values::Count(1, 64), "0", None),
            (Values::Count(1, 64), "-1", None),
            (Values::Ratio(1.0, 4.0), "1.10", Some("1.1")),
            (Values::Ratio(1.0, 4.0), "NaN", None),
            (Values::Words(&["off", "on"]), "on", Some("on")),
            (Values::Words(&["off", "on"]), "ON", None),
            (Values::WordsOrPath(&["system"]), "/lib/x.so", Some("/lib/x.so")),
            (Values::WordsOrPath(&["system"]), "x.so", None),
            (Values::Text, "a\nb", None),
        ] {
            assert_eq!(values.canonical(written).as_deref(), canonical, "{values:?} {written:?}");
        }
    }
}
