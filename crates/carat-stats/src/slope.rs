//! The slope of a short series, robust against single values: for series that are too short to classify.
//!
//! The slope is the median of the slopes between all pairs of points (H. Theil, Proc. Kon. Ned. Akad. v. Wetensch. 53, 1950),
//! its interval the range of slopes that Kendall's rank correlation does not reject (P. K. Sen, Journal of the American
//! Statistical Association 63, 1968).

use crate::summary::median;

/// Points of a series that are used; longer ones are thinned, because all pairs are compared.
const POINTS: usize = 400;

/// A slope and its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// Median of the slopes between all pairs of points.
    pub rate: f64,
    /// Interval of 99 %.
    pub interval: (f64, f64),
    /// Points that it is from.
    pub points: usize,
}

/// Quantile of the normal distribution for an interval of 99 %.
const QUANTILE: f64 = 2.576;

/// The slope of pairs of position and amount; `None` where there are too few points for an interval.
pub fn slope(series: &[(f64, f64)]) -> Option<Slope> {
    let every = series.len().div_ceil(POINTS).max(1);
    let points: Vec<(f64, f64)> = series.iter().copied().step_by(every).collect();
    let mut slopes: Vec<f64> = Vec::new();
    for (at, one) in points.iter().enumerate() {
        // Readings at the same position have no slope between them.
        let later = points[at + 1..].iter().filter(|other| other.0 > one.0);
        slopes.extend(later.map(|other| (other.1 - one.1) / (other.0 - one.0)));
    }
    slopes.retain(|slope| slope.is_finite());
    slopes.sort_by(f64::total_cmp);
    let (pairs, n) = (slopes.len() as f64, points.len() as f64);
    // Variance of Kendall's statistic without ties.
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    // `QUANTILE` deviations of Kendall's score, as ranks counted from the lowest slope (Sen, 1968).
    let low = (pairs - QUANTILE * deviation) / 2.0;
    if low < 0.0 || slopes.is_empty() {
        return None;
    }
    let low = low as usize;
    let high = slopes.len() - 1 - low;
    Some(Slope {
        rate: median(&slopes)?,
        interval: (slopes[low.min(high)], slopes[high]),
        points: points.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_has_its_slope_whatever_one_point_does() {
        let mut series: Vec<(f64, f64)> =
            (0..20).map(|x| (f64::from(x), 100.0 + 3.0 * f64::from(x))).collect();
        let exact = slope(&series).unwrap();
        assert_eq!((exact.rate, exact.interval, exact.points), (3.0, (3.0, 3.0), 20));
        series[7].1 = 10_000.0;
        let robust = slope(&series).unwrap();
        assert!((robust.rate - 3.0).abs() < 1e-9, "{robust:?}");
        assert!(robust.interval.0 > 2.9 && robust.interval.1 < 3.1, "{robust:?}");
    }

    /// The ninth slope of 45 from either end: √(10·9·25/18) deviations of Kendall's score, 2.576 times, leave 8 below.
    #[test]
    fn the_limits_are_the_slopes_of_the_ranks_that_sen_gives() {
        let amounts = [3.0, 1.0, 4.0, 1.5, 9.0, 2.6, 5.3, 5.8, 9.7, 9.3];
        let series: Vec<(f64, f64)> = (0..10).map(f64::from).zip(amounts).collect();
        let found = slope(&series).unwrap();
        let figures = [found.interval.0, found.rate, found.interval.1];
        for (figure, reference) in figures.into_iter().zip([-0.08, 0.8, 1.75]) {
            assert!((figure - reference).abs() < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn the_interval_of_noise_includes_zero_and_few_points_have_none() {
        // A fixed sequence without order.
        let noise: Vec<(f64, f64)> =
            (0..40).map(|x| (f64::from(x), f64::from(x * 7919 % 13))).collect();
        let found = slope(&noise).unwrap();
        assert!(found.interval.0 < 0.0 && found.interval.1 > 0.0, "{found:?}");
        assert_eq!(slope(&noise[..4]), None);
        assert_eq!(slope(&[]), None);
        assert_eq!(slope(&[(1.0, 1.0); 30]), None, "no two positions");
    }

    #[test]
    fn a_long_series_is_thinned() {
        let series: Vec<(f64, f64)> =
            (0..5000).map(|x| (f64::from(x), 2.0 * f64::from(x))).collect();
        let found = slope(&series).unwrap();
        assert!(found.points <= POINTS && (found.rate - 2.0).abs() < 1e-9);
    }
}
