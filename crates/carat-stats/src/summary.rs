//! Medians, their intervals, and figures of the end of a run: its level, and whether it still rises.

/// The median; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    // With an odd number both places are the middle, so one formula serves both cases.
    Some(0.5 * (sorted[last / 2] + sorted[last - last / 2]))
}

/// The median over the last quarter of a run, whose `series` holds pairs of progress (requests
/// served or time) and amount.
///
/// A median, because memory that is returned to the kernel produces a sawtooth, and the last value then
/// depends on chance. `None` for an empty series.
pub fn late_median(series: &[(f64, f64)]) -> Option<f64> {
    let (start, end) = (series.first()?.0, series.last()?.0);
    // By progress, not by number: samples are not evenly spaced.
    let late = series.iter().filter(|(at, _)| *at >= start + 0.75 * (end - start));
    median(&late.map(|&(_, amount)| amount).collect::<Vec<f64>>())
}

/// The rise at the end of a run: the median over its last eighth against the eighth before, as a
/// share.
///
/// `None` where an eighth is empty.
pub fn late_rise(series: &[(f64, f64)]) -> Option<f64> {
    // Medians of eighths: the last sample of a sawtooth would be a rise or a fall by chance.
    let (before, last) = (median_within(series, 0.75, 0.875)?, median_within(series, 0.875, 1.0)?);
    (before > 0.0).then_some(last / before - 1.0)
}

/// The median between two shares of the length of `series`.
fn median_within(series: &[(f64, f64)], from: f64, to: f64) -> Option<f64> {
    let (start, end) = (series.first()?.0, series.last()?.0);
    let inside = series.iter().filter(|(at, _)| {
        // A series of one point has no length. The share is then not a number and lies in no range.
        let share = (at - start) / (end - start);
        from <= share && share <= to
    });
    median(&inside.map(|&(_, amount)| amount).collect::<Vec<f64>>())
}

/// The interval of the median of the distribution of `values`, from their order; `None` where there are too few for the
/// confidence, a fraction.
///
/// It leaves out as many values at each end as a fair coin allows (W. R. Thompson, Annals of Mathematical Statistics 7, 1936).
pub fn median_interval(values: &[f64], confidence: f64) -> Option<(f64, f64)> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len() as f64;
    // The chance that exactly `left` values lie below the median, and that at most so many do.
    let (mut chance, mut tail) = (0.5_f64.powf(n), 0.5_f64.powf(n));
    // Even the range of all values has too little confidence.
    if 2.0 * tail > 1.0 - confidence {
        return None;
    }
    let mut left = 0;
    loop {
        // The next binomial probability from the one before: factorials would overflow.
        chance *= (n - left as f64) / (left as f64 + 1.0);
        // Checked before the value is left out, so the interval never has less than its confidence.
        if 2.0 * (tail + chance) > 1.0 - confidence {
            return Some((sorted[left], sorted[sorted.len() - 1 - left]));
        }
        tail += chance;
        left += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_late_median_uses_only_the_last_quarter() {
        let series: Vec<(f64, f64)> =
            (0..=100).map(|i| (f64::from(i), if i < 75 { 9.0 } else { 5.0 })).collect();
        assert_eq!(late_median(&series), Some(5.0));
        // A recording may begin at any progress.
        let later: Vec<_> = series.iter().map(|(at, amount)| (at + 1_000.0, *amount)).collect();
        assert_eq!(late_median(&later), Some(5.0));
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

    #[test]
    fn the_interval_of_a_median_leaves_out_what_the_confidence_allows() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        // The ranks 6 and 15 of 20 are those of the usual tables for 95 %.
        assert_eq!(median_interval(&values, 0.95), Some((6.0, 15.0)));
        assert_eq!(median_interval(&values[..6], 0.95), Some((1.0, 6.0)));
        assert_eq!(median_interval(&values[..5], 0.95), None);
        assert_eq!(median_interval(&[], 0.95), None);
        // One value left out at each end of five has exactly 1 − 2·6/32.
        assert_eq!(median_interval(&values[..5], 0.625), Some((2.0, 4.0)));
    }
}
