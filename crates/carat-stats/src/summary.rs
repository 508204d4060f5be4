//! Summaries of one set of values: quantiles with intervals, and the late level of a run.

use crate::budget::median;
use statrs::distribution::{Binomial, DiscreteCDF};

/// A quantile of independent values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile {
    /// The value, interpolated linearly between neighbours.
    pub value: f64,
    /// Order statistics between which the true quantile lies; `None` where there are too few values.
    pub interval: Option<(f64, f64)>,
}

/// The median over the last quarter of a run, whose `series` holds pairs of progress (requests
/// served or time) and amount.
///
/// A median, because memory that is returned to the kernel produces a sawtooth, and the last value then
/// depends on chance. `None` for an empty series.
pub fn late_median(series: &[(f64, f64)]) -> Option<f64> {
    let (start, end) = (series.first()?.0, series.last()?.0);
    let late = series.iter().filter(|(at, _)| *at >= start + 0.75 * (end - start));
    median(&late.map(|&(_, amount)| amount).collect::<Vec<f64>>())
}

/// The rise at the end of a run: the median over its last eighth against the eighth before, as a
/// share.
///
/// `None` where an eighth is empty.
pub fn late_rise(series: &[(f64, f64)]) -> Option<f64> {
    let (before, last) = (median_within(series, 0.75, 0.875)?, median_within(series, 0.875, 1.0)?);
    (before > 0.0).then_some(last / before - 1.0)
}

/// The median between two shares of the length of `series`.
fn median_within(series: &[(f64, f64)], from: f64, to: f64) -> Option<f64> {
    let (start, end) = (series.first()?.0, series.last()?.0);
    let inside = series.iter().filter(|(at, _)| {
        let share = (at - start) / (end - start);
        from <= share && share <= to
    });
    median(&inside.map(|&(_, amount)| amount).collect::<Vec<f64>>())
}

/// The `share` quantile of independent `values`, with an interval of at least `confidence`.
///
/// The interval's ends are order statistics by the binomial distribution (H. A. David and H. N.
/// Nagaraja, *Order Statistics*, section 7.1), whatever the distribution of the values. Values of one
/// process are not independent: use one value per trial.
pub fn quantile(values: &[f64], share: f64, confidence: f64) -> Option<Quantile> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    let value = below + place.fract() * (above - below);
    let interval = ranks(sorted.len(), share, confidence)
        .map(|(low, high)| (sorted[low - 1], sorted[high - 1]));
    Some(Quantile { value, interval })
}

/// Ranks, counted from 1, between which the `share` quantile of `n` values lies with at least
/// `confidence`.
fn ranks(n: usize, share: f64, confidence: f64) -> Option<(usize, usize)> {
    let binomial = Binomial::new(share, n as u64).ok()?;
    let beyond = 0.5 * (1.0 - confidence);
    let low = binomial.inverse_cdf(beyond) as usize;
    let high = binomial.inverse_cdf(1.0 - beyond) as usize + 1;
    (low >= 1 && high <= n).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::proptest;

    /// Ranks of the 95 % interval of a median in printed tables (Conover, *Practical Nonparametric
    /// Statistics*; scipy: `binom.ppf(0.025, n, 0.5)` and `binom.ppf(0.975, n, 0.5) + 1`).
    #[test]
    fn ranks_are_those_of_printed_tables() {
        for (n, want) in [
            (5, None),
            (6, Some((1, 6))),
            (10, Some((2, 9))),
            (20, Some((6, 15))),
            (50, Some((18, 33))),
        ] {
            assert_eq!(ranks(n, 0.5, 0.95), want, "n = {n}");
        }
        assert_eq!(ranks(40, 0.95, 0.95), None);
    }

    #[test]
    fn quantiles_of_known_values() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let found = quantile(&values, 0.5, 0.95).unwrap();
        assert_eq!((found.value, found.interval), (10.5, Some((6.0, 15.0))));
        assert_eq!(quantile(&[], 0.5, 0.95), None);
    }

    #[test]
    fn the_late_median_uses_only_the_last_quarter() {
        let series: Vec<(f64, f64)> =
            (0..=100).map(|i| (f64::from(i), if i < 75 { 9.0 } else { 5.0 })).collect();
        assert_eq!(late_median(&series), Some(5.0));
        assert_eq!(late_median(&[]), None);
    }

    #[test]
    fn the_late_rise_is_a_share_of_the_level() {
        let rising: Vec<(f64, f64)> =
            (0..=80).map(|i| (f64::from(i), 100.0 + f64::from(i))).collect();
        let rise = late_rise(&rising).unwrap();
        assert!((rise - 10.0 / 165.0).abs() < 1e-9, "{rise}");
        let flat: Vec<(f64, f64)> = (0..=80).map(|i| (f64::from(i), 100.0)).collect();
        assert_eq!(late_rise(&flat), Some(0.0));
    }

    proptest! {
        #[test]
        fn higher_confidence_never_narrows_an_interval(values in proptest::collection::vec(-1e6..1e6_f64, 12..60)) {
            let at = |confidence| quantile(&values, 0.5, confidence).unwrap().interval.unwrap();
            let ((low, high), (lower, higher)) = (at(0.9), at(0.95));
            assert!(lower <= low && high <= higher);
        }
    }
}
