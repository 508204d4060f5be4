//! Group sequences: the looks, the error that each may spend, and the cuts of the repeated intervals.
//!
//! A test repeated after every block has a far higher error rate than its nominal one. Here the data
//! are examined only after 8, 10, 12, 15, … blocks, and each look spends a part of the error, so that
//! all intervals of one sequence hold simultaneously. Sources: P. Armitage, C. K. McPherson and B. C.
//! Rowe, JRSS A 132 (1969) for the recursion; K. K. G. Lan and D. L. DeMets, Biometrika 70 (1983)
//! for spending; C. Jennison and B. W. Turnbull, JRSS B 51 (1989) for repeated intervals.

use crate::walsh::Walsh;
use crate::{normal, signed_rank};

/// Looks of every sequence. A sequence starts where its error allows and ends at its budget.
const LOOKS: [u32; 14] = [8, 10, 12, 15, 18, 22, 27, 33, 40, 50, 60, 72, 86, 100];
/// Beyond the table, the ratio of each look to the one before.
const STEP: f64 = 1.2;
/// Share of the error spent at the first look; the others share the rest equally.
const FIRST_SHARE: f64 = 0.158;
/// Points of the grid on which the density of the undecided sum is kept; odd, for Simpson's rule.
const GRID: usize = 257;

/// One interim analysis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// Blocks at this look.
    pub blocks: u32,
    /// Bound for a standardised sum of normal differences.
    pub bound: f64,
    /// Walsh averages left out at each end; `None` where there are too few blocks for an interval.
    pub cut: Option<usize>,
    /// Simultaneous confidence of the intervals up to this look, as a fraction.
    pub confidence: f64,
    /// The confidence that the sequence requires; an interval below it decides nothing.
    pub required: f64,
}

impl Look {
    /// Whether the interval at this look reaches the confidence of its sequence.
    pub fn is_sufficient(&self) -> bool {
        // Sums of probabilities differ in their last digits; an exact cut must not fail for that.
        self.cut.is_some() && self.confidence >= self.required - 1e-12
    }
}

/// All looks of one comparison at one total error.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    /// The two-sided error of all looks together, as a fraction.
    pub alpha: f64,
    /// The looks in order.
    pub looks: Vec<Look>,
}

impl Sequence {
    /// The sequence for a two-sided error `alpha` and at most `budget` blocks.
    ///
    /// A budget too small for the first look becomes one single look with the exact signed-rank
    /// interval. Where even that cannot reach 1 − `alpha`, the look carries its true confidence.
    pub fn new(alpha: f64, budget: u32) -> Self {
        Self::in_rounds(alpha, budget, 1)
    }

    /// The same with every look rounded up to a multiple of `round` blocks, which must not be zero.
    pub fn in_rounds(alpha: f64, budget: u32, round: u32) -> Self {
        Self::at(&rounded_looks(alpha, budget, round), alpha)
    }

    /// The fewest blocks that can decide in [`Self::in_rounds`], without its tables; `None` where the budget allows none.
    pub fn fewest_blocks(alpha: f64, budget: u32, round: u32) -> Option<u32> {
        match *rounded_looks(alpha, budget, round) {
            [only] => single_look(only, alpha).is_sufficient().then_some(only),
            // The first of several is where its share of the error suffices.
            [first, ..] => Some(first),
            [] => None,
        }
    }

    /// The sequence for a two-sided error `alpha` with looks after `blocks` blocks.
    pub fn at(blocks: &[u32], alpha: f64) -> Self {
        // One look spends all of its error at once, so it can be exact instead of a recursion.
        let looks = match blocks {
            [only] => vec![single_look(*only, alpha)],
            _ => repeated_looks(blocks, alpha),
        };
        Self { alpha, looks }
    }

    /// The look that falls on exactly `blocks` blocks.
    pub fn look_at(&self, blocks: u32) -> Option<Look> {
        self.looks.iter().find(|look| look.blocks == blocks).copied()
    }

    /// The interval at `look`; `None` where it would not reach the confidence of the sequence.
    pub(crate) fn interval(&self, look: Look, walsh: &Walsh) -> Option<(f64, f64)> {
        // A look may carry less confidence than required, to be printed; it decides nothing.
        walsh.interval(look.cut.filter(|_| self.meets_confidence(look))?)
    }

    /// Whether the interval at `look` reaches the confidence of the sequence.
    pub fn meets_confidence(&self, look: Look) -> bool {
        Look { required: 1.0 - self.alpha, ..look }.is_sufficient()
    }
}

/// The smallest n whose most extreme outcome, of probability 2^(1−n), is within the error of the
/// first look.
fn first_look(alpha: f64) -> u32 {
    // 2^(1−n) ≤ share, solved for n. The floor rounds n up, because the logarithm is negative.
    (1 - (FIRST_SHARE * alpha).log2().floor() as i32).unsigned_abs()
}

/// The numbers of blocks at the looks.
fn looks(alpha: f64, budget: u32) -> Vec<u32> {
    let first = first_look(alpha);
    // Two looks need two numbers of blocks, so a budget at the first look is a single look too.
    if budget <= first {
        return vec![budget];
    }
    let mut looks = vec![first];
    looks.extend(LOOKS.into_iter().filter(|&n| first < n && n < budget));
    while let Some(&last) = looks.last() {
        let next = (f64::from(last) * STEP).round() as u32;
        if last < LOOKS[LOOKS.len() - 1] || next >= budget {
            break;
        }
        looks.push(next);
    }
    // The last look is at the budget, because every block of it may still decide.
    looks.push(budget);
    looks
}

/// The looks, each after a multiple of `round` blocks.
fn rounded_looks(alpha: f64, budget: u32, round: u32) -> Vec<u32> {
    let rounded = looks(alpha, budget).into_iter().map(|n| n.next_multiple_of(round));
    let mut blocks: Vec<u32> = rounded.collect();
    // Rounding up can put two looks on the same block, and a look may be spent once only.
    blocks.dedup();
    blocks
}

fn single_look(blocks: u32, alpha: f64) -> Look {
    let n = blocks as usize;
    // Five blocks decide nothing at 95 %, but their range with its true confidence may be printed.
    let cut = signed_rank::cut(n, alpha).or((blocks >= 3).then_some(0));
    let confidence = cut.map_or(0.0, |c| 1.0 - signed_rank::error_of_cut(n, c));
    let bound = normal::upper_quantile(alpha / 2.0);
    Look { blocks, bound, cut, confidence, required: 1.0 - alpha }
}

fn repeated_looks(blocks: &[u32], alpha: f64) -> Vec<Look> {
    let first = FIRST_SHARE * alpha;
    let steps = blocks.len().saturating_sub(1).max(1) as f64;
    let spent: Vec<f64> =
        (0..blocks.len()).map(|k| first + (alpha - first) * k as f64 / steps).collect();
    blocks
        .iter()
        .zip(bounds(blocks, &spent))
        .map(|(&blocks, bound)| {
            let cut = signed_rank::cut(blocks as usize, 2.0 * normal::tail(bound));
            Look { blocks, bound, cut, confidence: 1.0 - alpha, required: 1.0 - alpha }
        })
        .collect()
}

/// Two-sided bounds for the standardised sum after `blocks` blocks, so that the error spent up to
/// look k is `spent[k]` (Armitage, McPherson and Rowe).
pub fn bounds(blocks: &[u32], spent: &[f64]) -> Vec<f64> {
    let mut undecided: Option<Undecided> = None;
    let mut before = 0.0;
    let mut bounds = Vec::with_capacity(blocks.len());
    for (&n, &total) in blocks.iter().zip(spent) {
        // Equal shares can round to nothing, for which the bound would be infinite.
        let may_spend = (total - before).max(1e-12);
        let bound = match &undecided {
            None => normal::upper_quantile(may_spend / 2.0),
            Some(density) => density.bound_spending(f64::from(n), may_spend),
        };
        undecided = Some(match undecided {
            None => Undecided::first(f64::from(n), bound),
            Some(density) => density.carried_to(f64::from(n), bound),
        });
        bounds.push(bound);
        before = total;
    }
    bounds
}

/// Density of the sum of differences over the paths that no look has decided yet.
struct Undecided {
    blocks: f64,
    /// Grid points of the sum, evenly spaced.
    sums: Vec<f64>,
    /// Probability around each grid point (Simpson's rule).
    weights: Vec<f64>,
}

impl Undecided {
    fn on_grid(blocks: f64, bound: f64, density: impl Fn(f64) -> f64) -> Self {
        let edge = bound * blocks.sqrt();
        let step = 2.0 * edge / (GRID - 1) as f64;
        let sums: Vec<f64> = (0..GRID).map(|i| -edge + step * i as f64).collect();
        let weights =
            sums.iter().enumerate().map(|(i, &s)| density(s) * step * simpson(i) / 3.0).collect();
        Self { blocks, sums, weights }
    }

    fn first(blocks: f64, bound: f64) -> Self {
        let sd = blocks.sqrt();
        Self::on_grid(blocks, bound, |s| normal::density(s / sd) / sd)
    }

    fn carried_to(&self, blocks: f64, bound: f64) -> Self {
        let sd = (blocks - self.blocks).sqrt();
        Self::on_grid(blocks, bound, |s| {
            let terms = self.sums.iter().zip(&self.weights);
            terms.map(|(from, w)| w * normal::density((s - from) / sd)).sum::<f64>() / sd
        })
    }

    /// The bound at `blocks` that is first crossed there with probability `may_spend`.
    fn bound_spending(&self, blocks: f64, may_spend: f64) -> f64 {
        // Beyond ten standard deviations lies less than any error that a look can spend.
        let (mut low, mut high) = (0.0, 10.0);
        for _ in 0..48 {
            let middle = 0.5 * (low + high);
            if self.crossing(blocks, middle) > may_spend {
                low = middle;
            } else {
                high = middle;
            }
        }
        0.5 * (low + high)
    }

    /// The probability of first crossing `bound` at `blocks`.
    fn crossing(&self, blocks: f64, bound: f64) -> f64 {
        let sd = (blocks - self.blocks).sqrt();
        let edge = bound * blocks.sqrt();
        let terms = self.sums.iter().zip(&self.weights);
        // Paths are symmetric about 0, so the upper edge counts for both.
        2.0 * terms.map(|(from, w)| w * normal::tail((edge - from) / sd)).sum::<f64>()
    }
}

/// The weight of a grid point in Simpson's rule.
fn simpson(i: usize) -> f64 {
    match i {
        0 => 1.0,
        i if i == GRID - 1 => 1.0,
        i if i % 2 == 1 => 4.0,
        _ => 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(alpha: f64) -> Vec<usize> {
        Sequence::at(&looks(0.05, 100), alpha).looks.iter().map(|l| l.cut.unwrap()).collect()
    }

    /// Tabulated critical values of Pocock's test for five equal looks at 5 % are 2.413 each; under
    /// Pocock-type spending α·ln(1 + (e − 1)t) they are these (Lan and DeMets 1983, table 1 gives
    /// 2.44, 2.43, 2.41, 2.40, 2.39).
    #[test]
    fn bounds_are_those_published_for_pocock_type_spending() {
        let spent: Vec<f64> =
            (1..=5).map(|k| 0.05 * (1.0 + (1_f64.exp() - 1.0) * f64::from(k) / 5.0).ln()).collect();
        let got = bounds(&[1, 2, 3, 4, 5], &spent);
        for (got, want) in got.iter().zip([2.438, 2.427, 2.410, 2.397, 2.386]) {
            assert!((got - want).abs() < 1e-3, "{got} is not {want}");
        }
    }

    #[test]
    fn the_cuts_of_a_budget_of_100_blocks_are_the_published_ones() {
        assert_eq!(looks(0.05, 100), LOOKS);
        assert_eq!(cuts(0.05), [0, 2, 6, 14, 26, 46, 81, 135, 217, 367, 562, 852, 1270, 1780]);
        assert_eq!(cuts(0.10), [1, 4, 8, 18, 31, 54, 91, 150, 237, 395, 601, 904, 1338, 1866]);
    }

    #[test]
    fn smaller_errors_start_later() {
        for (alpha, first) in
            [(0.05, 8), (0.025, 9), (0.05 / 3.0, 10), (0.0125, 10), (0.01, 11), (0.10, 7)]
        {
            assert_eq!(first_look(alpha), first, "alpha = {alpha}");
        }
        assert_eq!(looks(0.025, 20), [9, 10, 12, 15, 18, 20]);
        assert_eq!(looks(0.01, 20), [11, 12, 15, 18, 20]);
    }

    #[test]
    fn beyond_the_table_each_look_is_a_fifth_later_and_has_the_confidence_of_all() {
        let late = looks(0.05, 300);
        assert_eq!(late[..14], LOOKS);
        assert_eq!(late[14..], [120, 144, 173, 208, 250, 300]);
        for look in Sequence::at(&looks(0.05, 20), 0.05).looks {
            assert_eq!((look.confidence, look.required), (0.95, 0.95), "{look:?}");
        }
    }

    #[test]
    fn the_last_look_is_at_the_budget() {
        for budget in [8, 9, 13, 37, 99, 100, 101, 120, 137, 200] {
            let looks = looks(0.05, budget);
            assert_eq!(looks.last(), Some(&budget));
            assert!(looks.windows(2).all(|w| w[0] < w[1]), "{looks:?}");
        }
    }

    #[test]
    fn a_small_budget_is_one_exact_look_with_its_true_confidence() {
        for (budget, cut, confidence) in [
            (2, None, 0.0),
            (3, Some(0), 0.75),
            (5, Some(0), 0.9375),
            (6, Some(0), 0.968_75),
            (7, Some(2), 0.953_125),
            (8, Some(3), 0.960_937_5),
        ] {
            let sequence = Sequence::new(0.05, budget);
            let look = sequence.look_at(budget).unwrap();
            assert_eq!((sequence.looks.len(), look.cut), (1, cut), "budget {budget}");
            assert!((look.confidence - confidence).abs() < 1e-12, "budget {budget}");
            assert_eq!(sequence.meets_confidence(look), budget >= 6, "budget {budget}");
        }
    }

    #[test]
    fn the_fewest_blocks_are_those_of_the_first_look_that_suffices() {
        for claims in [1, 2, 3, 7, 40] {
            for (budget, round) in (1..=14).chain([30]).flat_map(|n| [(n, 1), (n, 3), (n, 9)]) {
                let alpha = 0.05 / f64::from(claims);
                let sequence = Sequence::in_rounds(alpha, budget, round);
                let first = sequence.looks.iter().find(|look| look.is_sufficient());
                let fewest = Sequence::fewest_blocks(alpha, budget, round);
                assert_eq!(fewest, first.map(|look| look.blocks), "{claims} {budget} {round}");
            }
        }
    }

    #[test]
    fn a_smaller_error_never_narrows_an_interval() {
        for budget in [40, 100] {
            let (strict, lax) =
                (Sequence::new(0.05, budget), Sequence::at(&looks(0.05, budget), 0.1));
            for (s, l) in strict.looks.iter().zip(&lax.looks) {
                assert!(s.cut < l.cut && s.bound > l.bound, "{} blocks", s.blocks);
            }
        }
    }
}
