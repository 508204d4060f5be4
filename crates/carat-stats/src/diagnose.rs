//! Exploratory diagnostics of values. They cause warnings and decide nothing.

use crate::normal;
use crate::summary::median;

/// Values that fall into two groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clusters {
    /// Share of the values in the upper group.
    pub upper: f64,
    /// Centre of the lower and of the upper group.
    pub centres: (f64, f64),
}

/// Fewest values for a split, and fewest in the smaller group.
const ENOUGH: usize = 15;
const SMALLEST_GROUP: usize = 3;
/// Ashman's D above which two groups are reported (K. M. Ashman, C. M. Bird and S. E. Zepf,
/// Astronomical Journal 108, 1994). They use 2 for groups known beforehand, but the best split of a
/// normal sample already has 2.65. This value is calibrated: about 1 in 100 normal samples of fifteen
/// is split, and fewer of larger samples.
const APART: f64 = 5.5;

/// Splits `values` where the two sides vary least.
///
/// `None` for fewer than fifteen values, or where the two sides are not separate groups.
pub fn clusters(values: &[f64]) -> Option<Clusters> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    if sorted.len() < ENOUGH {
        return None;
    }
    sorted.sort_unstable_by(f64::total_cmp);
    // One or two values are outliers, not a group; of many values a group has at least a tenth.
    let smallest = SMALLEST_GROUP.max(sorted.len() / 10);
    let splits = smallest..=sorted.len() - smallest;
    let (_, at) = splits
        .map(|at| (squares(&sorted[..at]) + squares(&sorted[at..]), at))
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (low, high) = sorted.split_at(at);
    let variance = squares(low) / low.len() as f64 + squares(high) / high.len() as f64;
    let gap = mean(high) - mean(low);
    // A product, not a quotient: two groups without any variance are apart too.
    let apart = gap > 0.0 && gap * std::f64::consts::SQRT_2 > APART * variance.sqrt();
    let upper = high.len() as f64 / sorted.len() as f64;
    apart.then(|| Clusters { upper, centres: (mean(low), mean(high)) })
}

/// The change over all of `values`, in the order of measurement, where they have a trend.
///
/// Kendall's test against time at 0.1 % (H. B. Mann, Econometrica 13, 1945); the size is Theil and
/// Sen's slope times the number of values. `None` where there is no trend.
pub fn drift(values: &[f64]) -> Option<f64> {
    let n = values.len();
    // Of seven values even a perfect order does not reach 0.1 % with the normal approximation.
    if n < 8 {
        return None;
    }
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    let mut score = 0.0;
    for (i, early) in values.iter().enumerate() {
        for (j, late) in values.iter().enumerate().skip(i + 1) {
            let rise = late - early;
            slopes.push(rise / (j - i) as f64);
            // The sign of 0.0 is 1, but a tie counts for neither direction.
            score += if rise == 0.0 { 0.0 } else { rise.signum() };
        }
    }
    let count = n as f64;
    let sd = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    let p = 2.0 * normal::tail(score.abs() / sd);
    (p < 0.001).then(|| median(&slopes).unwrap_or(0.0) * (count - 1.0))
}

/// The correlation of neighbours in `values`, where it is significant at 1 %.
///
/// Differences of blocks should be independent; where they are not, intervals are too narrow.
pub fn neighbour_correlation(values: &[f64]) -> Option<f64> {
    if values.len() < 15 {
        return None;
    }
    let middle = mean(values);
    let together: f64 = values.windows(2).map(|p| (p[0] - middle) * (p[1] - middle)).sum();
    let all = squares(values);
    let correlation = together / all;
    let bound = normal::upper_quantile(0.005) / (values.len() as f64).sqrt();
    // Negative correlation makes intervals wider than necessary, which needs no warning.
    (all > 0.0 && correlation > bound).then_some(correlation)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn squares(values: &[f64]) -> f64 {
    let middle = mean(values);
    values.iter().map(|v| (v - middle) * (v - middle)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Noise, SeededRng};

    fn share_with_clusters(noise: Noise, n: usize) -> f64 {
        let mut rng = SeededRng::new(31);
        let found = (0..2000).filter(|_| clusters(&noise.draw(n, &mut rng)).is_some()).count();
        found as f64 / 2000.0
    }

    #[test]
    fn two_heap_sizes_are_split_and_one_is_not() {
        assert!(share_with_clusters(Noise::TwoClusters, 30) > 0.9);
        for n in [15, 20, 50] {
            let false_alarms = share_with_clusters(Noise::Normal, n);
            assert!(false_alarms < 0.015, "{n} values: {false_alarms}");
        }
    }

    #[test]
    fn the_groups_are_described() {
        let values: Vec<f64> =
            (0..20).map(|i| if i % 4 == 0 { 8.0 } else { 2.0 } + f64::from(i) / 100.0).collect();
        let found = clusters(&values).unwrap();
        assert_eq!(found.upper, 0.25);
        assert!((found.centres.1 - found.centres.0 - 6.0).abs() < 0.1);
        assert_eq!(clusters(&[1.0; 20]), None);
        assert_eq!(clusters(&values[..14]), None);
    }

    #[test]
    fn drift_is_detected_and_rarely_where_there_is_none() {
        let mut rng = SeededRng::new(32);
        let calm = (0..1000).filter(|_| drift(&Noise::Normal.draw(30, &mut rng)).is_some());
        assert!(calm.count() <= 5);
        let drifting = drift(&Noise::Drift.draw(60, &mut rng)).unwrap();
        assert!((drifting - 5.0).abs() < 1.5, "{drifting}");
    }

    #[test]
    fn correlated_neighbours_are_detected() {
        let mut rng = SeededRng::new(33);
        let found = |noise: Noise, rng: &mut SeededRng| {
            (0..500).filter(|_| neighbour_correlation(&noise.draw(100, rng)).is_some()).count()
        };
        let agreeing = found(Noise::Autocorrelated, &mut rng);
        assert!(agreeing > 250, "{agreeing}");
        assert!(found(Noise::Normal, &mut rng) <= 10);
        assert_eq!(neighbour_correlation(&[1.0; 20]), None);
    }
}
