//! Figures of the end of a run: its level, and whether it still rises.

use crate::budget::median;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
