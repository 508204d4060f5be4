//! The normal distribution and Student's t distribution.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// P(Z > z) of the standard normal.
pub fn tail(z: f64) -> f64 {
    Normal::standard().sf(z)
}

/// The z with P(Z > z) = `p`, for 0 < `p` < 1.
pub fn upper_quantile(p: f64) -> f64 {
    // By symmetry: 1 − `p` would lose the digits of a small `p`.
    -Normal::standard().inverse_cdf(p)
}

/// Density of the standard normal.
pub(crate) fn density(z: f64) -> f64 {
    const ONE_OVER_SQRT_TAU: f64 = 0.398_942_280_401_432_7;
    ONE_OVER_SQRT_TAU * (-0.5 * z * z).exp()
}

/// The t with P(T > t) = `p` under Student's t with `df` degrees of freedom, for 0 < `p` < 1.
///
/// Infinite for less than one degree of freedom, where an estimate is unbounded.
pub fn t_upper_quantile(p: f64, df: f64) -> f64 {
    StudentsT::new(0.0, 1.0, df).map_or(f64::INFINITY, |t| -t.inverse_cdf(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_printed_tables() {
        for (got, want) in [
            (upper_quantile(0.025), 1.959_964),
            (upper_quantile(0.05), 1.644_854),
            (t_upper_quantile(0.025, 9.0), 2.262_157),
            (t_upper_quantile(0.05, 30.0), 1.697_261),
            (tail(1.959_964), 0.025),
        ] {
            assert!((got - want).abs() < 2e-6, "{got} is not {want}");
        }
        assert_eq!(t_upper_quantile(0.05, 0.0), f64::INFINITY);
    }
}
