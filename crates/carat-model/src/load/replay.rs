//! Replayed traffic of an HTTP load: the file and what is taken from it.

use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// Largest factor of a pace; more is a mistake.
const FASTEST: f64 = 1e6;

/// The format of a file of recorded traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayFormat {
    /// A path or URL per line
    Urls,
    /// Common or combined format as of Apache, or JSON per line as of nginx and Caddy
    AccessLog,
    /// `Started GET "/" for …`, as Rails writes it
    Rails,
    /// Lograge's `method=GET path=/ …` or a line of JSON per request
    Lograge,
    /// What a browser exports
    Har,
    /// OpenAPI 3 in JSON or YAML
    #[value(name = "openapi")]
    #[serde(rename = "openapi")]
    OpenApi,
}

impl fmt::Display for ReplayFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Urls => "list of URLs",
            Self::AccessLog => "access log",
            Self::Rails => "Rails log",
            Self::Lograge => "Lograge log",
            Self::Har => "HAR",
            Self::OpenApi => "OpenAPI file",
        })
    }
}

/// How fast recorded times pass: `"recorded"`, or a factor such as `"2x"`, which is twice as fast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplayPace(pub f64);

impl ReplayPace {
    /// Parses a pace; the error message gives an example.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "recorded" {
            return Ok(Self(1.0));
        }
        match text.strip_suffix('x').and_then(|factor| factor.parse::<f64>().ok()) {
            // Refuses NaN and infinity too: neither is within the range.
            Some(factor) if factor > 0.0 && factor <= FASTEST => Ok(Self(factor)),
            _ => Err(format!("`{text}` is not a pace; write \"recorded\", or a factor as \"2x\"")),
        }
    }
}

impl<'de> Deserialize<'de> for ReplayPace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// A file of recorded traffic whose requests are sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpReplay {
    /// The file.
    pub file: String,
    /// Its format; found out from its content if `None`.
    #[serde(default)]
    pub format: Option<ReplayFormat>,
    /// How many times as fast as recorded; as fast as the connections allow if `None`.
    #[serde(default)]
    pub pace: Option<f64>,
    /// Whether requests other than GET and HEAD are sent too.
    #[serde(default)]
    pub all_methods: bool,
    /// Whether recorded cookies and other credentials are sent.
    #[serde(default)]
    pub private_headers: bool,
    /// SHA-256 of the file's content in hex, which must not change between trials; any content if `None`.
    #[serde(default)]
    pub sha256: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_the_recorded_one_or_a_factor() {
        for (text, factor) in [("recorded", 1.0), ("2x", 2.0), ("0.5x", 0.5)] {
            assert_eq!(ReplayPace::parse(text), Ok(ReplayPace(factor)));
        }
        for text in ["", "x", "2", "0x", "-1x", "infx", "nanx", "1e9x", "Recorded"] {
            let error = ReplayPace::parse(text).unwrap_err();
            assert!(error.contains("\"2x\""), "{error}");
        }
    }
}
