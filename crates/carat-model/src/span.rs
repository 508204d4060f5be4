//! Time spans in text form: `"60s"`, `"500ms"`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// A time span, written `"90s"`, `"500ms"`, `"2m"`, `"1h"` or `"7d"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// A longer one is a typing error, and some moments that far ahead do not fit the clock.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl Span {
    /// A span of `seconds`.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// A span of `millis` milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// The span in seconds.
    pub fn as_seconds(self) -> f64 {
        self.0.as_secs_f64()
    }

    /// Whole microseconds, at most `u32::MAX`.
    pub fn as_micros(self) -> u32 {
        // A quantum of more than an hour is no quantum, so saturating loses nothing.
        u32::try_from(self.0.as_micros()).unwrap_or(u32::MAX)
    }

    /// Parses a span.
    ///
    /// # Errors
    /// A message with an example where `text` is not a span of at most ten years.
    pub fn parse(text: &str) -> Result<Self, String> {
        let seconds = parse(text).ok_or_else(|| {
            format!(
                "`{text}` is not a span of time; write for example \"30s\", \"500ms\" or \"2m\""
            )
        })?;
        // `try_from` also refuses NaN and what does not fit, instead of panicking.
        match Duration::try_from_secs_f64(seconds) {
            Ok(span) if span <= LONGEST => Ok(Self(span)),
            _ => Err(format!(
                "`{text}` is longer than ten years; write for example \"30s\" or \"2h\""
            )),
        }
    }
}

/// Seconds, at least zero.
fn parse(text: &str) -> Option<f64> {
    // A number without a unit is refused: seconds and milliseconds are too easily confused.
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    let seconds = number.trim().parse::<f64>().ok()? * seconds;
    // Also refuses NaN.
    (seconds >= 0.0).then_some(seconds)
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_parsed() {
        for (text, millis) in [
            ("60s", 60_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("1.5s", 1_500),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(Span::parse(text).unwrap().0.as_millis(), millis, "{text}");
        }
    }

    #[test]
    fn a_span_without_a_unit_or_below_zero_is_rejected_with_an_example() {
        for text in ["60", "", "s", "-1s", "1 fortnight", "NaNs", "1e400s", "-0.1ms"] {
            let message = Span::parse(text).unwrap_err();
            assert!(message.contains("\"30s\""), "{text}: {message}");
        }
    }

    #[test]
    fn a_span_that_no_clock_reaches_is_rejected() {
        for text in ["9999999999999999999s", &format!("{}s", "9".repeat(400)), "87601h"] {
            let message = Span::parse(text).unwrap_err();
            assert!(message.contains("longer than ten years"), "{text}: {message}");
        }
        assert_eq!(Span::parse("87600h").unwrap().0, LONGEST);
        assert!(std::time::Instant::now().checked_add(LONGEST).is_some());
    }
}
