//! What a budget of blocks can find, and how many blocks a difference takes.
//!
//! The rule was fitted to simulations of the whole procedure, looks included: with N = 37·(cv/Δ)²
//! blocks a difference Δ is found in about 94 of 100 experiments, and no difference at all is
//! called equivalent within ±Δ in about 92 of 100 (`bin/bench stats` prints the table).

/// Blocks per squared ratio of spread to difference.
const BLOCKS_PER_SQUARE: f64 = 37.0;
/// Fewer blocks than these are never a safe budget: the rank intervals are too coarse.
pub const SMALLEST_BUDGET: u32 = 15;
/// Budgets below this have a single look at which nearly every pair must agree.
const COARSE_BELOW: u32 = 8;
/// How much larger a difference must be there; fitted like the rule itself.
const COARSE: f64 = 4.0 / 3.0;
/// From this many pairs on a spread is worth telling.
const ENOUGH_PAIRS: usize = 5;

/// The spread of one trial as a fraction, from paired differences of logarithms.
///
/// Robust (1.4826 × the median absolute deviation, over √2 because a pair holds two trials) and
/// blind: it does not say which variant is smaller, so looking at it costs no error. `None` below
/// five pairs.
pub fn spread(pairs: &[f64]) -> Option<f64> {
    if pairs.len() < ENOUGH_PAIRS {
        return None;
    }
    let middle = median(pairs)?;
    let deviations: Vec<f64> = pairs.iter().map(|d| (d - middle).abs()).collect();
    median(&deviations).map(|mad| 1.4826 * mad / std::f64::consts::SQRT_2)
}

/// Blocks that decide about a difference `difference` where single trials spread by `spread`, both
/// as fractions. `None` where the difference is nothing: no number of blocks proves that.
pub fn blocks_for(spread: f64, difference: f64) -> Option<u32> {
    let blocks = (BLOCKS_PER_SQUARE * (spread / difference).powi(2)).ceil();
    (difference > 0.0 && blocks < f64::from(u32::MAX)).then_some(SMALLEST_BUDGET.max(blocks as u32))
}

/// The smallest difference, as a fraction, that `budget` blocks will probably decide about.
///
/// `None` below six blocks: they cannot decide anything at 95 %, however large it is.
pub fn detectable(spread: f64, budget: u32) -> Option<f64> {
    let coarse = if budget < COARSE_BELOW { COARSE } else { 1.0 };
    (budget >= 6).then(|| coarse * spread * (BLOCKS_PER_SQUARE / f64::from(budget)).sqrt())
}

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(0.5 * (sorted[last / 2] + sorted[last - last / 2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effect_of_the_second_experiment_fits_the_smallest_budget() {
        assert_eq!(blocks_for(0.0041, 0.008), Some(SMALLEST_BUDGET));
        assert_eq!(blocks_for(0.0041, 0.0025), Some(100));
        assert_eq!(blocks_for(0.0041, 0.0), None);
    }

    #[test]
    fn what_is_detectable_is_what_the_budget_was_made_for() {
        let found = detectable(0.0041, 100).unwrap();
        assert!((found - 0.002_494).abs() < 1e-6, "{found}");
        assert!(blocks_for(0.0041, found).unwrap().abs_diff(100) <= 1);
    }

    #[test]
    fn one_wild_pair_does_not_spoil_the_spread() {
        let pairs = [-0.004, -0.002, 0.0, 0.002, 0.004, 0.003, -0.003, 0.001];
        let mut wild = pairs;
        wild[4] = 9.0;
        let (calm, spoilt) = (spread(&pairs).unwrap(), spread(&wild).unwrap());
        assert!(spoilt < 1.5 * calm, "{spoilt} against {calm}");
        assert_eq!(spread(&pairs[..4]), None);
    }
}
