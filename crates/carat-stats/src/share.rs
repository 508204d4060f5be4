//! The interval of a share.

use crate::normal::upper_quantile;

/// The interval of the share of which `found` of `n` independent samples are an estimate (E. B. Wilson, "Probable inference, the
/// law of succession, and statistical inference", JASA 22, 1927). It keeps about its level even for a handful of samples.
///
/// From 0 to 1 without a sample. `found` is at most `n`, and `level` lies between 0 and 1.
pub fn share_interval(found: u64, n: u64, level: f64) -> (f64, f64) {
    if n == 0 {
        return (0.0, 1.0);
    }
    let (n, share) = (n as f64, found as f64 / n as f64);
    let z = upper_quantile((1.0 - level) / 2.0);
    let middle = share + z * z / (2.0 * n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z * z / n;
    // The ends are exact, which rounding would miss.
    let low = if found == 0 { 0.0 } else { (middle - half) / scale };
    let high = if share >= 1.0 { 1.0 } else { (middle + half) / scale };
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_printed_tables() {
        // R. G. Newcombe, Statistics in Medicine 17, 1998, table I, method 3.
        for (found, n, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let interval = share_interval(found, n, 0.95);
            assert!(
                (interval.0 - low).abs() < 5e-5 && (interval.1 - high).abs() < 5e-5,
                "{interval:?}"
            );
        }
        assert_eq!(share_interval(0, 0, 0.95), (0.0, 1.0));
        assert_eq!(share_interval(5, 5, 0.95).1, 1.0);
    }
}
