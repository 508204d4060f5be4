//! Fisher's exact test: whether one variant fails more often than another.
//!
//! Source: R. A. Fisher, *Statistical Methods for Research Workers*, section 21.02.

use statrs::function::factorial::ln_binomial;

/// Two-sided p value for `a` of `n` and `b` of `m` trials under the same probability.
///
/// The sum over all tables with the same margins that are at most as probable as the observed one; 1
/// where there is nothing to compare.
pub fn exact((a, n): (u64, u64), (b, m): (u64, u64)) -> f64 {
    let successes = a + b;
    // Equal probabilities may differ by rounding.
    let observed = probability(a, n, m, successes) * (1.0 + 1e-7);
    (successes.saturating_sub(m)..=successes.min(n))
        .map(|first| probability(first, n, m, successes))
        .filter(|&p| p <= observed)
        .sum::<f64>()
        .min(1.0)
}

/// The hypergeometric probability of `first` among `n` where `n + m` trials have `successes`.
fn probability(first: u64, n: u64, m: u64, successes: u64) -> f64 {
    // Logarithms, because binomials of a few thousand trials overflow.
    let ln = ln_binomial(n, first) + ln_binomial(m, successes - first);
    (ln - ln_binomial(n + m, successes)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// scipy 1.x: `fisher_exact([[a, n - a], [b, m - b]])`; the second row is Fisher's own tea
    /// tasting.
    #[test]
    fn p_values_are_those_of_scipy() {
        for (one, other, want) in [
            ((8, 10), (1, 6), 0.034_965_034_965),
            ((3, 4), (1, 4), 0.485_714_285_714),
            ((0, 20), (6, 20), 0.020_196_020_196),
            ((0, 20), (0, 20), 1.0),
            ((5, 5), (5, 5), 1.0),
            ((0, 0), (3, 9), 1.0),
        ] {
            let got = exact(one, other);
            assert!((got - want).abs() < 1e-9, "{one:?} {other:?}: {got} is not {want}");
        }
    }

    #[test]
    fn which_variant_comes_first_does_not_matter() {
        for a in 0..=7 {
            for b in 0..=9 {
                let turned = exact((b, 9), (a, 7));
                assert!((exact((a, 7), (b, 9)) - turned).abs() < 1e-12, "{a} of 7, {b} of 9");
            }
        }
    }
}
