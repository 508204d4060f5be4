//! Percentages as users write them: `"0.25%"`, `"+5%"`.

use serde::{Deserialize, Deserializer};
use std::fmt;

/// A share written as a percentage, kept as a fraction: `"+5%"` is 0.05.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Percent(pub f64);

impl Percent {
    /// Parses a percentage; the error message gives an example.
    pub fn parse(text: &str) -> Result<Self, String> {
        // The sign is required: `0.05` could mean a fraction or a percentage.
        let number = text.trim().strip_suffix('%').map(str::trim);
        match number.and_then(|number| number.parse::<f64>().ok()) {
            // `inf` and `NaN` are numbers to the parser, but no shares.
            Some(value) if value.is_finite() => Ok(Self(value / 100.0)),
            _ => {
                Err(format!("`{text}` is not a percentage; write for example \"0.25%\" or \"+5%\""))
            }
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A tenth of a millionth hides that a hundred times 0.07 is 7.000000000000001.
        write!(f, "{}%", (self.0 * 1e9).round() / 1e7)
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_shown_as_it_is_written() {
        for text in ["1%", "0.25%", "7%", "-2%"] {
            assert_eq!(Percent::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn percentages_are_kept_as_fractions() {
        for (text, fraction) in [("0.25%", 0.0025), ("+5%", 0.05), ("-2 %", -0.02)] {
            assert!((Percent::parse(text).unwrap().0 - fraction).abs() < 1e-12, "{text}");
        }
        for text in ["5", "%", "inf%", "five%"] {
            assert!(Percent::parse(text).is_err(), "{text}");
        }
    }
}
