//! Student's interval of a mean.
//!
//! Source: Student, "The probable error of a mean", Biometrika 6 (1908). It assumes roughly normal values, as means of
//! several blocks are, and is the only choice for few values: rank intervals of six values have one width.

use crate::normal::t_upper_quantile;

/// The mean of `values` and its interval at a `confidence`, a fraction; `None` with fewer than two values.
pub fn interval(values: &[f64], confidence: f64) -> Option<(f64, (f64, f64))> {
    let n = values.len() as f64;
    let freedom = n - 1.0;
    // One value has no variance, and the quantile has no degree of freedom.
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / freedom;
    let half = t_upper_quantile(0.5 * (1.0 - confidence), freedom) * (variance / n).sqrt();
    Some((mean, (mean - half, mean + half)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Student's own data, the additional hours of sleep: `t.test(extra ~ group, data = sleep, paired = TRUE)` of R gives
    /// a mean of 1.58 and the interval 0.7001142 to 2.4598858.
    #[test]
    fn the_interval_of_additional_sleep_is_that_of_r() {
        let hours = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
        let (mean, (low, high)) = interval(&hours, 0.95).unwrap();
        assert!((mean - 1.58).abs() < 1e-12);
        assert!((low - 0.700_114_2).abs() < 1e-6 && (high - 2.459_885_8).abs() < 1e-6);
    }

    #[test]
    fn one_value_has_no_interval() {
        assert_eq!(interval(&[1.0], 0.95), None);
        assert_eq!(interval(&[], 0.95), None);
    }
}
