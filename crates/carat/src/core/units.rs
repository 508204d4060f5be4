//! Amounts that print themselves with their unit.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};

/// An amount of memory in bytes; prints in decimal megabytes, as the published experiments do.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// From the "kB" of `/proc`, which means KiB (proc(5)).
    pub fn from_kib(kib: u64) -> Self {
        Self(kib.saturating_mul(1024))
    }

    /// The difference, or nothing where `other` is larger.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Decimal megabytes.
    pub fn megabytes(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// Stays at the most there is: amounts come from files that anybody may have written.
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
            0..1_000 => format!("{} B", self.0),
            1_000..100_000 => format!("{:.1} kB", self.0 as f64 / 1e3),
            100_000..100_000_000 => format!("{:.2} MB", self.megabytes()),
            100_000_000..10_000_000_000 => format!("{:.1} MB", self.megabytes()),
            _ => format!("{:.2} GB", self.0 as f64 / 1e9),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_absurd_amounts_stay_at_the_most_there_is() {
        let most = Bytes(u64::MAX);
        assert_eq!([most, Bytes(1)].into_iter().sum::<Bytes>(), most);
        assert_eq!((most + most, Bytes(1) - most), (most, Bytes(0)));
    }

    #[test]
    fn bytes_print_with_the_unit_a_reader_expects() {
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
}
