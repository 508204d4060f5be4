//! Units, and the formatting of amounts with their unit.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};

/// An amount of memory in bytes. It is printed in decimal units, as in the published experiments.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Converts the "kB" of `/proc`, which are KiB (proc(5)).
    pub fn from_kib(kib: u64) -> Self {
        Self(kib.saturating_mul(1024))
    }

    /// The difference, or zero where `other` is larger.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Decimal megabytes.
    pub fn megabytes(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// Saturates: amounts come from files of unknown origin.
impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), Self::add)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            // Three or four significant digits each: differences of a percent must stay visible.
            0..1_000 => format!("{} B", self.0),
            1_000..100_000 => format!("{:.1} kB", self.0 as f64 / 1e3),
            100_000..100_000_000 => format!("{:.2} MB", self.megabytes()),
            100_000_000..10_000_000_000 => format!("{:.1} MB", self.megabytes()),
            _ => format!("{:.2} GB", self.0 as f64 / 1e9),
        };
        f.pad(&text)
    }
}

/// The unit of a metric; the words are those of JSON and SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes of memory.
    Bytes,
    Seconds,
    /// Events per second.
    PerSecond,
    /// A share between 0 and 1.
    Fraction,
    /// A multiple of another amount.
    Ratio,
    /// A plain count.
    Count,
}

impl Unit {
    /// The value in the magnitude that reads best, with its unit.
    pub fn show(self, value: f64) -> String {
        // The magnitude is chosen for the amount, so the sign is written before it.
        with_minus(value, self.show_amount(value.abs()))
    }

    fn show_amount(self, value: f64) -> String {
        match self {
            Self::Bytes => Bytes(value as u64).to_string(),
            Self::Seconds if value < 1e-3 => format!("{:.0} µs", value * 1e6),
            Self::Seconds if value < 1.0 => format!("{:.2} ms", value * 1e3),
            Self::Seconds => format!("{value:.2} s"),
            Self::PerSecond => format!("{value:.1}/s"),
            Self::Fraction => format!("{:.2} %", value * 100.0),
            Self::Ratio => format!("{value:.2} ×"),
            Self::Count => format!("{value:.0}"),
        }
    }
}

/// The text of the amount of `value`, with a minus sign before it if the value is negative. What is rounded to zero has no sign.
pub fn with_minus(value: f64, amount: String) -> String {
    let is_zero = !amount.contains(|c: char| matches!(c, '1'..='9'));
    if value < 0.0 && !is_zero { format!("−{amount}") } else { amount }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_saturate() {
        let most = Bytes(u64::MAX);
        assert_eq!([most, Bytes(1)].into_iter().sum::<Bytes>(), most);
        assert_eq!((most + most, Bytes(1) - most), (most, Bytes(0)));
    }

    #[test]
    fn bytes_are_printed_with_a_suitable_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (16_384, "16.4 kB"),
            (567_222, "0.57 MB"),
            (70_595_031, "70.60 MB"),
            (326_000_000, "326.0 MB"),
            (18_000_000_000, "18.00 GB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn a_kilobyte_of_proc_is_1024_bytes() {
        assert_eq!(Bytes::from_kib(3), Bytes(3072));
    }

    #[test]
    fn values_are_shown_with_their_unit() {
        for (unit, value, text) in [
            (Unit::Bytes, -567_222.0, "−0.57 MB"),
            (Unit::Bytes, -0.4, "0 B"),
            (Unit::Seconds, -0.0123, "−12.30 ms"),
            (Unit::Fraction, -0.000_001, "0.00 %"),
            (Unit::Seconds, 0.000_25, "250 µs"),
            (Unit::Seconds, 0.0123, "12.30 ms"),
            (Unit::Seconds, 12.0, "12.00 s"),
            (Unit::PerSecond, 812.34, "812.3/s"),
            (Unit::Fraction, 0.001, "0.10 %"),
            (Unit::Ratio, 1.249, "1.25 ×"),
            (Unit::Count, 351.0, "351"),
        ] {
            assert_eq!(unit.show(value), text);
        }
    }
}
