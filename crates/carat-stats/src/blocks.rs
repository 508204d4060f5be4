//! The difference that a budget of blocks can detect, and the blocks that a difference requires.
//!
//! The rule was fitted to simulations of the whole procedure, looks included. With N = 37·(cv/Δ)²
//! blocks a difference Δ is found in about 94 of 100 experiments, and no difference at all is
//! called equivalent within ±Δ in about 92 of 100 (`bin/bench stats` prints the table).

use crate::normal;
use crate::summary::median;

/// Blocks per squared ratio of spread to difference.
const BLOCKS_PER_SQUARE: f64 = 37.0;
/// Smallest safe budget: with fewer blocks the rank intervals are too coarse.
pub const SMALLEST_BUDGET: u32 = 15;
/// Budgets below this have a single look, at which nearly every pair must agree.
const COARSE_BELOW: u32 = 8;
/// The factor by which a difference must be larger there; fitted like the rule itself.
const COARSE: f64 = 4.0 / 3.0;
/// Fewest pairs for an estimate of the standard deviation.
const ENOUGH_PAIRS: usize = 5;

/// The standard deviation of one trial as a fraction, from paired differences of logarithms.
///
/// The estimate is robust: 1.4826 × the median absolute deviation, over √2 because a pair holds two
/// trials. It is also blind: it does not show which variant is smaller, so using it costs no error.
/// `None` below five pairs.
pub fn spread(pairs: &[f64]) -> Option<f64> {
    if pairs.len() < ENOUGH_PAIRS {
        return None;
    }
    let middle = median(pairs)?;
    let deviations: Vec<f64> = pairs.iter().map(|d| (d - middle).abs()).collect();
    median(&deviations).map(|mad| 1.4826 * mad / std::f64::consts::SQRT_2)
}

/// The range in which the true value of [`spread`] lies with a chance of at least 80 %, from the estimate and its pairs.
///
/// The logarithm of a median absolute deviation of n normal values has a standard deviation of about 1.16/√n (P. J. Rousseeuw
/// and C. Croux, Journal of the American Statistical Association 88, 1993: its efficiency is 37 %).
pub fn spread_range(spread: f64, pairs: usize) -> (f64, f64) {
    let factor =
        (normal::upper_quantile(0.1) * 1.16 / (pairs.saturating_sub(2).max(1) as f64).sqrt()).exp();
    (spread / factor, spread * factor)
}

/// Blocks that decide about a difference of `difference` where single trials have the standard
/// deviation `spread`, both as fractions. `None` where the difference is zero: no number of blocks
/// proves that.
pub fn blocks_for(spread: f64, difference: f64) -> Option<u32> {
    // A tiny difference needs more blocks than can be counted: no answer, not a saturated one.
    let blocks = (BLOCKS_PER_SQUARE * (spread / difference).powi(2)).ceil();
    (difference > 0.0 && blocks < f64::from(u32::MAX)).then_some(SMALLEST_BUDGET.max(blocks as u32))
}

/// The smallest difference, as a fraction, that `budget` blocks will probably decide about.
///
/// `None` below six blocks: they cannot decide anything at 95 %, however large the difference.
pub fn detectable(spread: f64, budget: u32) -> Option<f64> {
    // A single look leaves out no average, so its interval is wider than the rule assumes.
    let coarse = if budget < COARSE_BELOW { COARSE } else { 1.0 };
    (budget >= 6).then(|| coarse * spread * (BLOCKS_PER_SQUARE / f64::from(budget)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::SeededRng;

    #[test]
    fn the_effect_of_the_second_experiment_fits_the_smallest_budget() {
        assert_eq!(blocks_for(0.0041, 0.008), Some(SMALLEST_BUDGET));
        assert_eq!(blocks_for(0.0041, 0.0025), Some(100));
        assert_eq!(blocks_for(0.0041, 0.0), None);
    }

    #[test]
    fn the_detectable_difference_requires_the_budget() {
        let found = detectable(0.0041, 100).unwrap();
        assert!((found - 0.002_494).abs() < 1e-6, "{found}");
        assert!(blocks_for(0.0041, found).unwrap().abs_diff(100) <= 1);
    }

    #[test]
    fn with_few_blocks_a_difference_must_be_a_third_larger_and_below_six_none_is_found() {
        let found = [5, 7, 8].map(|budget| detectable(0.01, budget));
        assert_eq!(found[0], None);
        // 4/3·0.01·√(37/7) and 0.01·√(37/8).
        assert!((found[1].unwrap() - 0.030_654_242).abs() < 1e-8, "{found:?}");
        assert!((found[2].unwrap() - 0.021_505_813).abs() < 1e-8, "{found:?}");
    }

    #[test]
    fn the_range_of_the_spread_holds_the_truth_in_four_of_five_pilots() {
        let mut rng = SeededRng::new(8);
        for pairs in [5, 6, 8, 15, 40] {
            let held = (0..2000).filter(|_| {
                let drawn: Vec<f64> = (0..pairs).map(|_| 2.0_f64.sqrt() * rng.normal()).collect();
                let (low, high) = spread_range(spread(&drawn).unwrap(), pairs);
                low <= 1.0 && 1.0 <= high
            });
            let held = held.count();
            assert!((1560..1900).contains(&held), "{held} of 2000 with {pairs} pairs");
        }
    }

    #[test]
    fn one_outlier_changes_the_spread_little() {
        let pairs = [-0.004, -0.002, 0.0, 0.002, 0.004, 0.003, -0.003, 0.001];
        let mut wild = pairs;
        wild[4] = 9.0;
        let (calm, spoilt) = (spread(&pairs).unwrap(), spread(&wild).unwrap());
        assert!(spoilt < 1.5 * calm, "{spoilt} against {calm}");
        assert_eq!(spread(&pairs[..4]), None);
    }
}
