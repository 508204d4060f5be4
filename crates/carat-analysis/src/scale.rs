//! The scale on which two values of a metric are compared.
//!
//! It follows from the metric alone, except for a typical value. That is taken from the first pairs, with which no verdict
//! is possible yet, so that no later pair changes a difference on which a verdict rests.

use carat_model::metric::Metric;
use carat_model::{Better, Unit};
use carat_stats::summary::median;

/// Pairs that fix the typical value: five blocks decide nothing (`docs/explanation/method.md`).
const FIRST_PAIRS: usize = 5;
/// The difference of two values of which one is zero where that has no size: beyond every other, so that ranks are right.
const BEYOND_ALL: f64 = 1e9;

/// The scale on which two values are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ComparisonScale {
    /// ln(variant / baseline).
    Log,
    /// The difference itself, for a metric that is a share.
    Share,
    /// The difference as a share of this typical value of the baseline, for a metric that can be zero.
    Of(f64),
    /// Only the direction of the difference: the baseline is mostly zero and has no typical value.
    Direction,
}

impl ComparisonScale {
    /// The scale for a metric, `None` for an unknown one, of which these are all pairs so far.
    pub(crate) fn of(metric: Option<&Metric>, pairs: impl Iterator<Item = (f64, f64)>) -> Self {
        match metric {
            Some(metric) if metric.unit == Unit::Fraction => Self::Share,
            Some(metric) if metric.can_be_zero() => {
                // The first pairs only: a later one must not change differences that were judged.
                let first: Vec<f64> = pairs.take(FIRST_PAIRS).map(|(base, _)| base.abs()).collect();
                // A typical value of zero has no shares; then only the direction counts.
                median(&first).filter(|&typical| typical > 0.0).map_or(Self::Direction, Self::Of)
            }
            _ => Self::Log,
        }
    }

    /// The difference of a pair; it never depends on another pair, but for the first ones.
    pub(crate) fn difference(self, (base, other): (f64, f64)) -> f64 {
        match self {
            // Both above zero, or the logarithm is infinite.
            Self::Log if base > 0.0 && other > 0.0 => (other / base).ln(),
            Self::Log | Self::Direction if base == other => 0.0,
            // Ranks need an order only, so any size beyond all others will do.
            Self::Log | Self::Direction => BEYOND_ALL.copysign(other - base),
            Self::Share => other - base,
            Self::Of(typical) => (other - base) / typical,
        }
    }

    /// A worsening by the share `limit`.
    pub(crate) fn limit(self, limit: f64, better: Better) -> f64 {
        match (self, better) {
            (Self::Log, Better::Lower) => limit.ln_1p(),
            // Worse means less here, and a fall by a share is not the inverse of a rise by it.
            (Self::Log, Better::Higher) => -(-limit).ln_1p(),
            _ => limit,
        }
    }

    /// The limits of differences by the share `margin`.
    pub(crate) fn margin(self, margin: f64) -> (f64, f64) {
        match self {
            Self::Log => ((-margin).ln_1p(), margin.ln_1p()),
            _ => (-margin, margin),
        }
    }

    /// The difference of this fraction.
    pub(crate) fn of_ratio(self, ratio: f64) -> f64 {
        match self {
            Self::Log => ratio.ln_1p(),
            _ => ratio,
        }
    }

    /// A difference as a fraction; infinite where it has no size.
    pub(crate) fn as_ratio(self, difference: f64) -> f64 {
        match self {
            Self::Log => difference.exp_m1(),
            // A direction without a size must not be printed as a percentage.
            Self::Direction if difference != 0.0 => difference * f64::INFINITY,
            _ => difference,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::metric;

    fn scale(name: &str, pairs: &[(f64, f64)]) -> ComparisonScale {
        ComparisonScale::of(metric::find(name), pairs.iter().copied())
    }

    #[test]
    fn the_scale_follows_the_metric_and_no_later_pair_changes_it() {
        let late_zeros = [(4.0, 4.0), (4.0, 2.0), (5.0, 3.0), (4.0, 1.0), (3.0, 4.0), (0.0, 0.0)];
        for (name, expected) in [
            ("memory.pss.final", ComparisonScale::Log),
            ("not.a.metric", ComparisonScale::Log),
            ("errors", ComparisonScale::Share),
            ("gc.major.count", ComparisonScale::Of(4.0)),
            ("memory.system.final", ComparisonScale::Of(4.0)),
        ] {
            assert_eq!(scale(name, &late_zeros[..5]), expected, "{name}");
            assert_eq!(scale(name, &late_zeros), expected, "{name}");
        }
        assert_eq!(scale("gc.major.count", &[(0.0, 3.0)]), ComparisonScale::Direction);
    }

    #[test]
    fn a_value_of_zero_has_the_right_direction_on_every_scale() {
        for scale in [ComparisonScale::Log, ComparisonScale::Of(2.0), ComparisonScale::Direction] {
            assert_eq!(scale.difference((0.0, 0.0)), 0.0, "{scale:?}");
            assert!(scale.difference((0.0, 3.0)) >= 1.0, "{scale:?}");
            assert!(scale.difference((3.0, 0.0)) <= -1.0, "{scale:?}");
        }
        assert_eq!(
            ComparisonScale::Log.as_ratio(ComparisonScale::Log.difference((3.0, 0.0))),
            -1.0
        );
        assert_eq!(ComparisonScale::Direction.as_ratio(BEYOND_ALL), f64::INFINITY);
    }
}
