//! After how many blocks a comparison will probably be decided, from its blocks so far.
//!
//! The blocks so far say little about the effect and the noise, and the same truth is decided after few blocks or many. So a
//! forecast is a range. Effect and noise are drawn from what the blocks leave open (Student's t and chi squared, as for
//! normal differences), the sum of differences goes on from there as a random walk, and every look is made as in the design.

use crate::Sequence;
use crate::normal::{t_upper_quantile, upper_quantile};
use crate::signed_rank;
use crate::simulate::SeededRng;
use crate::walsh::Walsh;

/// The share of comparisons that are decided within the range of their forecast.
pub const CHANCE: f64 = 0.8;
/// Blocks up to which a forecast looks.
pub const FORESEEN: u32 = 400;
/// Fewest pairs: fewer leave the noise open by more than a factor of three.
const ENOUGH_PAIRS: usize = 5;
/// Continuations that are drawn; their quantiles are known to about two percentage points.
const DRAWS: usize = 500;
/// The same blocks always have the same forecast.
const SEED: u64 = 1;

/// What decides a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ForecastGoal {
    /// A difference from zero, or equivalence: both ends of the interval lie between these limits.
    Difference {
        /// Differences between these limits do not matter.
        margin: (f64, f64),
    },
    /// The interval lies on one side of this difference.
    Change(f64),
    /// The interval of twice the error lies on one side of this limit: one side of it has the whole error.
    Limit(f64),
}

/// Numbers of blocks, those so far included, between which a comparison is decided with a chance of [`CHANCE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForecastRange {
    /// One in ten is decided earlier; [`FORESEEN`] if that is even later.
    pub low: u32,
    /// One in ten is decided later; `None` if that is after more than [`FORESEEN`] blocks.
    pub high: Option<u32>,
}

/// The looks of a forecast: those of one claim with the two-sided error `alpha`.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecaster {
    difference: Sequence,
    equivalence: Sequence,
}

/// What is known of a typical difference after some pairs.
struct KnownDifference {
    pairs: f64,
    estimate: f64,
    /// The standard deviation of normal differences with an interval of the same width.
    deviation: f64,
}

impl Forecaster {
    /// The looks up to [`FORESEEN`] blocks, each after a multiple of `round` blocks.
    pub fn new(alpha: f64, round: u32) -> Self {
        let difference = Sequence::in_rounds(alpha, FORESEEN, round);
        let blocks: Vec<u32> = difference.looks.iter().map(|look| look.blocks).collect();
        Self { difference, equivalence: Sequence::at(&blocks, 2.0 * alpha) }
    }

    /// When the comparison with these undecided `pairs` is decided; `None` if there are too few to say.
    pub fn range(&self, pairs: &[f64], goal: ForecastGoal) -> Option<ForecastRange> {
        let known = KnownDifference::of(pairs)?;
        let mut rng = SeededRng::new(SEED);
        // Undecided continuations sort behind all others, and the range then has no upper end.
        let mut ends: Vec<u32> =
            (0..DRAWS).map(|_| self.end(&known, goal, &mut rng).unwrap_or(u32::MAX)).collect();
        ends.sort_unstable();
        let tail = 0.5 * (1.0 - CHANCE);
        let low = ends[(tail * DRAWS as f64) as usize];
        let high = ends[DRAWS - 1 - (tail * DRAWS as f64) as usize];
        Some(ForecastRange { low: low.min(FORESEEN), high: (high <= FORESEEN).then_some(high) })
    }

    /// The look that decides one continuation.
    fn end(&self, known: &KnownDifference, goal: ForecastGoal, rng: &mut SeededRng) -> Option<u32> {
        // Few pairs leave the noise open: each continuation has one of the deviations that fit.
        let deviation = known.deviation * (known.pairs - 1.0).sqrt() / chi(known.pairs - 1.0, rng);
        let effect = known.estimate + deviation / known.pairs.sqrt() * rng.normal();
        let (mut pairs, mut sum) = (known.pairs, known.pairs * known.estimate);
        for (look, wider) in self.difference.looks.iter().zip(&self.equivalence.looks) {
            // Looks within the pairs so far did not decide, or there would be nothing to forecast.
            let more = f64::from(look.blocks) - pairs;
            if more <= 0.0 {
                continue;
            }
            sum += more * effect + more.sqrt() * deviation * rng.normal();
            pairs = f64::from(look.blocks);
            // The looks decide by ranks; of normal differences this interval is about as wide.
            let error = deviation / pairs.sqrt();
            if goal.is_decided(sum / pairs, error * look.bound, error * wider.bound) {
                return Some(look.blocks);
            }
        }
        None
    }
}

impl ForecastGoal {
    /// Whether intervals of half the width `half`, and `wide` for twice the error, decide.
    fn is_decided(self, estimate: f64, half: f64, wide: f64) -> bool {
        match self {
            Self::Difference { margin: (low, high) } => {
                // Strict as in the judge: an interval that ends at zero decides nothing.
                estimate.abs() > half || (low < estimate - wide && estimate + wide < high)
            }
            Self::Change(change) => (estimate - change).abs() > half,
            Self::Limit(limit) => (estimate - limit).abs() > wide,
        }
    }
}

impl KnownDifference {
    fn of(pairs: &[f64]) -> Option<Self> {
        let n = pairs.len();
        if n < ENOUGH_PAIRS {
            return None;
        }
        let walsh = Walsh::new(pairs);
        // Ranks, because the verdict uses them: one outlier must not change the forecast much.
        let cut = signed_rank::cut(n, 0.1)?;
        let (low, high) = walsh.interval(cut)?;
        // Cuts are whole numbers, so the real error of this one is used, not the 10 % asked for.
        let error = signed_rank::error_of_cut(n, cut);
        let count = n as f64;
        let quantile = t_upper_quantile(0.5 * error, count - 1.0);
        let deviation = 0.5 * (high - low) * count.sqrt() / quantile;
        Some(Self { pairs: count, estimate: walsh.estimate()?, deviation })
    }
}

/// The range in which a standard deviation lies with the chance `chance`, from its estimate with `df` degrees of freedom.
pub fn deviation_range(deviation: f64, df: f64, chance: f64) -> (f64, f64) {
    let quantile = upper_quantile(0.5 * (1.0 - chance));
    let scaled = deviation * df.sqrt();
    (scaled / chi_of(df, quantile), scaled / chi_of(df, -quantile))
}

/// The root of a chi squared number (E. B. Wilson and M. M. Hilferty, PNAS 17, 1931).
fn chi(df: f64, rng: &mut SeededRng) -> f64 {
    chi_of(df, rng.normal())
}

/// The same for a normal number `z`.
fn chi_of(df: f64, z: f64) -> f64 {
    let ninth = 2.0 / (9.0 * df);
    // Below 0.05 the approximation fails: a cube root of chi squared is never negative.
    let cube = (1.0 - ninth + ninth.sqrt() * z).max(0.05);
    (df * cube.powi(3)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{Claim, Design};
    use crate::simulate::{Noise, SimulatedExperiment};

    const MARGIN: f64 = 0.0025;

    fn goal() -> ForecastGoal {
        ForecastGoal::Difference { margin: ((-MARGIN).ln_1p(), MARGIN.ln_1p()) }
    }

    #[derive(Debug)]
    struct Missed {
        all: u32,
        early: u32,
        late: u32,
    }

    /// Of simulated experiments that `pairs` blocks leave undecided: those that end earlier and later than forecast.
    fn missed(noise: Noise, effect: f64, pairs: usize) -> Missed {
        let ForecastGoal::Difference { margin } = goal() else { unreachable!() };
        let design = Design::new(0.05, 1, FORESEEN);
        let forecaster = Forecaster::new(0.05, 1);
        let experiment =
            SimulatedExperiment { blocks: FORESEEN, ..SimulatedExperiment::new(noise, &[effect]) };
        let mut rng = SeededRng::new(11);
        let mut missed = Missed { all: 0, early: 0, late: 0 };
        for _ in 0..40 {
            let differences = experiment.differences(&mut rng).remove(0);
            let known = differences.iter().copied().map(Some).collect();
            let end = design.judge(&[Claim { pairs: known, margin }])[0].decided_after;
            if end.is_some_and(|end| end <= pairs as u32) {
                continue;
            }
            let range = forecaster.range(&differences[..pairs], goal()).unwrap();
            missed.all += 1;
            missed.early += u32::from(end.is_some_and(|end| end < range.low));
            missed.late +=
                u32::from(range.high.is_some_and(|high| end.is_none_or(|end| end > high)));
        }
        missed
    }

    #[test]
    fn the_deviation_of_few_pairs_follows_from_their_interval_by_students_quantile() {
        // Of the 21 averages of 1 to 6 the third is 2 and the nineteenth 5; their error is 6/64. The upper 3/64 of Student's
        // distribution with 5 degrees of freedom begin at 2.065708 (by numerical integration).
        let pairs: Vec<f64> = (1..=6).map(f64::from).collect();
        let known = KnownDifference::of(&pairs).unwrap();
        let expected = 0.5 * (5.0 - 2.0) * 6_f64.sqrt() / 2.065_708;
        assert!((known.deviation / expected - 1.0).abs() < 1e-3, "{}", known.deviation);
        assert!((known.estimate - 3.5).abs() < 1e-9, "{}", known.estimate);
        assert!(KnownDifference::of(&pairs[..4]).is_none());
    }

    #[test]
    fn four_of_five_comparisons_are_decided_within_their_forecast() {
        let (mut early, mut late, mut all) = (0, 0, 0);
        for noise in [Noise::Normal, Noise::TwoClusters, Noise::Outliers] {
            for (effect, pairs) in [(-0.008, 6), (-0.002, 12), (0.0, 8)] {
                let missed = missed(noise, effect, pairs);
                (early, late, all) = (early + missed.early, late + missed.late, all + missed.all);
                assert!(4 * missed.late <= missed.all, "{noise:?} {effect} {pairs}: {missed:?}");
            }
        }
        assert!(all > 200 && 5 * (early + late) <= all, "{early} earlier, {late} later of {all}");
    }

    #[test]
    fn the_range_of_a_deviation_is_that_of_chi_squared_tables() {
        // 80 % of chi squared with 5 degrees of freedom lie between 1.610 and 9.236, with 20 between 12.443 and 28.412.
        for (df, low, high) in [(5.0, 1.610, 9.236), (20.0, 12.443, 28.412_f64)] {
            let (from, to) = deviation_range(1.0, df, CHANCE);
            assert!((from - (df / high).sqrt()).abs() < 0.01, "{from}");
            assert!((to - (df / low).sqrt()).abs() < 0.03, "{to}");
        }
    }

    #[test]
    fn a_large_effect_is_decided_at_the_first_look() {
        let pairs = [0.20, 0.22, 0.21, 0.19, 0.23, 0.20];
        for (alpha, first) in [(0.05, 8), (0.05 / 3.0, 10)] {
            let forecaster = Forecaster::new(alpha, 1);
            let range = ForecastRange { low: first, high: Some(first) };
            assert_eq!(forecaster.range(&pairs, goal()), Some(range));
            assert_eq!(Sequence::fewest_blocks(alpha, FORESEEN, 1), Some(first));
            assert_eq!(forecaster.range(&pairs[..4], goal()), None);
        }
    }

    #[test]
    fn what_more_blocks_than_are_foreseen_would_decide_has_no_end() {
        let pairs = [0.2, -0.2, 0.1, -0.1, 0.05, -0.05, 0.15, -0.15, 0.01, -0.01];
        let range = Forecaster::new(0.05, 1).range(&pairs, goal()).unwrap();
        assert_eq!(range.high, None);
    }
}
