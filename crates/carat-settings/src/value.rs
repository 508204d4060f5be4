//! Types of setting values. Each parses text once and prints its one canonical spelling.

use std::fmt;
use std::path::{Path, PathBuf};

/// The typed value of a setting; its `Display` is the canonical spelling.
pub trait SettingValue: fmt::Display + Sized + Send + Sync + 'static {
    /// The accepted words, for suggesting the nearest one; empty where other text is accepted too.
    const WORDS: &'static [&'static str] = &[];

    /// The value that `text` means; `None` where it is not accepted.
    fn parse(text: &str) -> Option<Self>;

    /// What is accepted, for errors and help.
    fn accepted() -> String {
        alternatives(Self::WORDS)
    }
}

/// Defines an enum whose variants are words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name { $($variant,)* }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$variant => $word,)* })
            }
        }

        impl $crate::value::SettingValue for $name {
            const WORDS: &'static [&'static str] = &[$($word,)*];

            fn parse(text: &str) -> Option<Self> {
                match text {
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use words;

words! {
    Switch { Off = "off", On = "on", }
}

/// A whole number from `LEAST` to `MOST`.
#[derive(Debug)]
pub(crate) struct WholeNumber<const LEAST: u64, const MOST: u64>(pub u64);

impl<const LEAST: u64, const MOST: u64> fmt::Display for WholeNumber<LEAST, MOST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const LEAST: u64, const MOST: u64> SettingValue for WholeNumber<LEAST, MOST> {
    fn parse(text: &str) -> Option<Self> {
        let number: u64 = text.parse().ok()?;
        (LEAST..=MOST).contains(&number).then_some(Self(number))
    }

    fn accepted() -> String {
        // The largest number stands for no limit.
        match MOST {
            u64::MAX => format!("a whole number from {LEAST}"),
            _ => format!("a whole number from {LEAST} to {MOST}"),
        }
    }
}

/// A decimal number from `LEAST` to `MOST`.
#[derive(Debug)]
pub(crate) struct DecimalNumber<const LEAST: u32, const MOST: u32>(f64);

impl<const LEAST: u32, const MOST: u32> fmt::Display for DecimalNumber<LEAST, MOST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const LEAST: u32, const MOST: u32> SettingValue for DecimalNumber<LEAST, MOST> {
    fn parse(text: &str) -> Option<Self> {
        let number: f64 = text.parse().ok()?;
        // No range contains NaN, so `nan` is refused as well.
        (f64::from(LEAST)..=f64::from(MOST)).contains(&number).then_some(Self(number))
    }

    fn accepted() -> String {
        format!("a number from {LEAST} to {MOST}")
    }
}

/// A decimal number above `LEAST`, at most `MOST`.
#[derive(Debug)]
pub(crate) struct NumberAbove<const LEAST: u32, const MOST: u32>(pub(crate) f64);

impl<const LEAST: u32, const MOST: u32> fmt::Display for NumberAbove<LEAST, MOST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const LEAST: u32, const MOST: u32> SettingValue for NumberAbove<LEAST, MOST> {
    fn parse(text: &str) -> Option<Self> {
        let number: f64 = text.parse().ok()?;
        // Strict, because Ruby ignores the bound itself (`ruby_gc_set_params`, gc.c).
        (number > f64::from(LEAST) && number <= f64::from(MOST)).then_some(Self(number))
    }

    fn accepted() -> String {
        format!("a number above {LEAST}, at most {MOST}")
    }
}

/// An amount of memory in bytes, from `LEAST` to `MOST`; `k`, `m` and `g` multiply by 1024.
#[derive(Debug)]
pub(crate) struct MemorySize<const LEAST: u64 = 0, const MOST: u64 = { u64::MAX }>(pub(crate) u64);

impl<const LEAST: u64, const MOST: u64> fmt::Display for MemorySize<LEAST, MOST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const LEAST: u64, const MOST: u64> SettingValue for MemorySize<LEAST, MOST> {
    fn parse(text: &str) -> Option<Self> {
        // By characters, because the last one can have several bytes.
        let (digits, unit) = match text.char_indices().last()? {
            (at, 'k' | 'K') => (&text[..at], 1 << 10),
            (at, 'm' | 'M') => (&text[..at], 1 << 20),
            (at, 'g' | 'G') => (&text[..at], 1 << 30),
            _ => (text, 1),
        };
        // Checked, because `99999999999g` would wrap around to a small size.
        let bytes = digits.parse::<u64>().ok()?.checked_mul(unit)?;
        (LEAST..=MOST).contains(&bytes).then_some(Self(bytes))
    }

    fn accepted() -> String {
        let least = (LEAST > 0).then(|| format!(", at least `{}`", size(LEAST)));
        let most = (MOST < u64::MAX).then(|| format!(", at most `{}`", size(MOST)));
        let bounds = [least, most].into_iter().flatten().collect::<String>();
        format!("bytes, also as `512k`, `16m` or `1g`{bounds}")
    }
}

/// Bytes as a user would write them.
fn size(bytes: u64) -> String {
    let units = [(30, "g"), (20, "m"), (10, "k")];
    // Zero is a multiple of every unit.
    let unit = units.iter().find(|(shift, _)| bytes.is_multiple_of(1 << shift) && bytes > 0);
    unit.map_or(bytes.to_string(), |(shift, name)| format!("{}{name}", bytes >> shift))
}

/// An absolute path.
#[derive(Debug)]
pub(crate) struct AbsolutePath(pub PathBuf);

impl fmt::Display for AbsolutePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl SettingValue for AbsolutePath {
    fn parse(text: &str) -> Option<Self> {
        // A relative path would be another file in the working directory of the server.
        Path::new(text).is_absolute().then(|| Self(PathBuf::from(text)))
    }

    fn accepted() -> String {
        "an absolute path".into()
    }
}

/// Text that is passed on unchanged.
#[derive(Debug)]
pub(crate) struct FreeText(String);

impl fmt::Display for FreeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl SettingValue for FreeText {
    fn parse(text: &str) -> Option<Self> {
        // Not every place where a variable is written can hold a line break or a NUL.
        (!text.contains(['\0', '\n'])).then(|| Self(text.to_owned()))
    }

    fn accepted() -> String {
        "text without a line break".into()
    }
}

/// The words as a list for messages.
pub(crate) fn alternatives(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical<V: SettingValue>(text: &str) -> Option<String> {
        V::parse(text).map(|value| value.to_string())
    }

    #[test]
    fn the_bounds_of_a_size_are_said() {
        assert_eq!(MemorySize::<0>::accepted(), "bytes, also as `512k`, `16m` or `1g`");
        let bounded = MemorySize::<16384, { 32 << 20 }>::accepted();
        assert!(bounded.ends_with(", at least `16k`, at most `32m`"), "{bounded}");
    }

    #[test]
    fn equal_values_have_one_spelling() {
        type Factor = DecimalNumber<1, 4>;
        type Number = WholeNumber<1, 64>;
        for (text, parsed, expected) in [
            ("1m", canonical::<MemorySize>("1m"), Some("1048576")),
            ("1048576", canonical::<MemorySize>("1048576"), Some("1048576")),
            ("2x", canonical::<MemorySize>("2x"), None),
            ("", canonical::<MemorySize>(""), None),
            ("20 digits", canonical::<MemorySize>("99999999999999999999"), None),
            ("é", canonical::<MemorySize>("é"), None),
            ("2", canonical::<Number>("2"), Some("2")),
            ("0", canonical::<Number>("0"), None),
            ("-1", canonical::<Number>("-1"), None),
            ("65", canonical::<Number>("65"), None),
            ("1.10", canonical::<Factor>("1.10"), Some("1.1")),
            ("NaN", canonical::<Factor>("NaN"), None),
            ("4.1", canonical::<Factor>("4.1"), None),
            ("on", canonical::<Switch>("on"), Some("on")),
            ("ON", canonical::<Switch>("ON"), None),
            ("/lib/x.so", canonical::<AbsolutePath>("/lib/x.so"), Some("/lib/x.so")),
            ("x.so", canonical::<AbsolutePath>("x.so"), None),
            ("1.0", canonical::<NumberAbove<1, 4>>("1.0"), None),
            ("1.01", canonical::<NumberAbove<1, 4>>("1.01"), Some("1.01")),
            ("NaN", canonical::<NumberAbove<0, 1>>("NaN"), None),
            ("15k", canonical::<MemorySize<16384>>("15k"), None),
            ("16k", canonical::<MemorySize<16384>>("16k"), Some("16384")),
            ("2k", canonical::<MemorySize<0, 1024>>("2k"), None),
            ("two lines", canonical::<FreeText>("a\nb"), None),
        ] {
            assert_eq!(parsed.as_deref(), expected, "{text}");
        }
    }
}
