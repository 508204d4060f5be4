//! The proof: fresh blocks of default and candidate. Only this supports a claim.
//!
//! The same rules end a confirmation on a real server and in [`simulate`](crate::simulate).

use carat_stats::{Look, Sequence, Walsh};

/// Blocks from which on an estimate beyond a limit ends the confirmation: it would hardly be proven to be within.
const FUTILE_FROM: u32 = 15;
/// Total error of the claim that memory is smaller, over all attempts.
const MEMORY_ERROR: f64 = 0.05;
/// Twice the error of a limit: only one side of its interval is used.
const LIMIT_ERROR: f64 = 0.10;
/// Standard normal quantile of the power for which [`Confirmation::blocks_to_show`] plans: 4 of 5.
const POWER: f64 = 0.8416;
/// Variance of the mean as a share of that of the Hodges-Lehmann estimate, for normal differences.
const EFFICIENCY: f64 = 0.955;

/// How a confirmation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmationEnd {
    /// Memory is smaller and every limit holds.
    Confirmed,
    /// The limit with this index is broken, or too unlikely to be shown.
    LimitBroken(usize),
    /// Memory is not smaller by what matters.
    NotSmaller,
    /// The blocks are spent: memory is smaller, but a limit is neither kept nor broken.
    Undecided,
}

/// The rules of one confirmation.
#[derive(Debug, Clone)]
pub struct Confirmation {
    memory: Sequence,
    limit: Sequence,
}

/// Attempts share the error: each confirms a candidate chosen anew (Bonferroni).
fn shares(attempts: u32) -> f64 {
    f64::from(attempts.max(1))
}

impl Confirmation {
    /// The rules for one of `attempts` confirmations that share the error, each of at most `blocks` blocks.
    pub fn new(attempts: u32, blocks: u32) -> Self {
        let memory = Sequence::new(Self::alpha_of(attempts), blocks);
        // Memory and limits are judged at the same looks, because one end needs both.
        let looks: Vec<u32> = memory.looks.iter().map(|look| look.blocks).collect();
        let limit = Sequence::at(&looks, LIMIT_ERROR / shares(attempts));
        Self { memory, limit }
    }

    /// Error of the claim of each of `attempts` confirmations that memory is smaller, as a fraction.
    pub fn alpha_of(attempts: u32) -> f64 {
        MEMORY_ERROR / shares(attempts)
    }

    /// The fewest blocks with which one of `attempts` confirmations can confirm anything.
    pub fn fewest_blocks(attempts: u32) -> u32 {
        // Confidence grows with blocks, so the first that suffices is the least.
        (1..).find(|&blocks| Self::new(attempts, blocks).can_confirm()).unwrap_or(u32::MAX)
    }

    fn can_confirm(&self) -> bool {
        // Too few blocks have a look whose interval reaches less than the required confidence.
        self.memory.looks.iter().any(|look| self.memory.meets_confidence(*look))
    }

    /// The next number of blocks after which there is a look, beyond `blocks`.
    pub fn next_look(&self, blocks: usize) -> Option<u32> {
        self.memory.looks.iter().map(|look| look.blocks).find(|&look| look as usize > blocks)
    }

    /// Blocks in which four of five candidates without an effect on a metric are shown to keep its `limit`, where `noise` is
    /// the standard deviation of one trial. Both are logarithms.
    pub fn blocks_to_show(&self, limit: f64, noise: f64) -> u32 {
        let bound = self.limit.looks.last().map_or(f64::INFINITY, |look| look.bound);
        let first = self.next_look(0).unwrap_or(0);
        // A block holds two trials, so its difference has twice the variance of one.
        let blocks = 2.0 * ((bound + POWER) * noise / limit).powi(2) / EFFICIENCY;
        // Beyond the largest number the conversion saturates.
        (blocks.ceil() as u32).max(first)
    }

    /// How it ended, and the interval of the logarithm of the memory's ratio at that look; `None` while more blocks are
    /// needed. Each block has one difference of logarithms, candidate less default and higher is worse, per metric: memory,
    /// then one for each limit. A saving smaller than `margin`, a logarithm below 0, does not matter.
    pub fn end(
        &self,
        blocks: &[Vec<f64>],
        margin: f64,
        limits: &[f64],
    ) -> Option<(ConfirmationEnd, Option<(f64, f64)>)> {
        let mut kept = vec![false; limits.len()];
        let mut smaller = false;
        let mut interval = None;
        for (look, limit_look) in self.memory.looks.iter().zip(&self.limit.looks) {
            // Not enough blocks for this look: the caller runs more.
            let seen = blocks.get(..look.blocks as usize)?;
            if let Some((low, high)) = interval_of(seen, 0, &self.memory, look) {
                interval = Some((low, high));
                // All intervals of a sequence hold simultaneously, so what was proven once stays.
                smaller |= high < 0.0;
                // The whole interval is above: even the best end of it is no saving that matters.
                if !smaller && low > margin {
                    return Some((ConfirmationEnd::NotSmaller, interval));
                }
            }
            if let Some(broken) = self.update_limits(seen, limit_look, limits, &mut kept) {
                return Some((ConfirmationEnd::LimitBroken(broken), interval));
            }
            if smaller && kept.iter().all(|&kept| kept) {
                return Some((ConfirmationEnd::Confirmed, interval));
            }
        }
        // The budget is spent. What is not proven smaller must not be called smaller.
        let end = if smaller { ConfirmationEnd::Undecided } else { ConfirmationEnd::NotSmaller };
        Some((end, interval))
    }

    /// Marks the limits that are proven; returns the first that is broken or futile.
    fn update_limits(
        &self,
        seen: &[Vec<f64>],
        look: &Look,
        limits: &[f64],
        kept: &mut [bool],
    ) -> Option<usize> {
        for (index, limit) in limits.iter().enumerate() {
            // A limit that was proven stays so; a later interval must not take it back.
            let interval = interval_of(seen, index + 1, &self.limit, look).filter(|_| !kept[index]);
            let Some((low, high)) = interval else { continue };
            // Futility only ends an attempt without a claim, so it costs no error.
            let estimate = walsh_of(seen, index + 1).estimate();
            let futile = look.blocks >= FUTILE_FROM && estimate.is_some_and(|found| found > *limit);
            if high < *limit {
                kept[index] = true;
            } else if low > *limit || futile {
                return Some(index);
            }
        }
        None
    }
}

fn walsh_of(blocks: &[Vec<f64>], metric: usize) -> Walsh {
    Walsh::new(&blocks.iter().map(|block| block[metric]).collect::<Vec<_>>())
}

/// The interval at a look; `None` where too few blocks reach the confidence of the sequence.
fn interval_of(
    blocks: &[Vec<f64>],
    metric: usize,
    sequence: &Sequence,
    look: &Look,
) -> Option<(f64, f64)> {
    walsh_of(blocks, metric).interval(look.cut.filter(|_| sequence.meets_confidence(*look))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    use carat_stats::simulate::SeededRng;

    const LIMITS: [f64; 1] = [0.05];
    const MARGIN: f64 = -0.01;

    fn confirmation() -> Confirmation {
        Confirmation::new(2, 60)
    }

    fn end(blocks: &[Vec<f64>]) -> Option<(ConfirmationEnd, Option<(f64, f64)>)> {
        confirmation().end(blocks, MARGIN, &LIMITS)
    }

    /// Blocks with these differences, each moved a little so that no two are equal.
    fn blocks(count: usize, memory: f64, latency: f64) -> Vec<Vec<f64>> {
        let side = |n: usize| if n.is_multiple_of(2) { 0.002 } else { -0.002 };
        let shift = |n: usize| side(n) * (1.0 + n as f64 / count as f64);
        (0..count).map(|n| vec![memory + shift(n), latency - shift(n)]).collect()
    }

    #[test]
    fn fewer_blocks_than_the_error_allows_confirm_nothing() {
        assert_eq!([1, 2, 4].map(Confirmation::fewest_blocks), [6, 7, 8]);
        for (blocks, expected) in
            [(6, ConfirmationEnd::NotSmaller), (7, ConfirmationEnd::Confirmed)]
        {
            let rules = Confirmation::new(2, blocks);
            let differences = self::blocks(blocks as usize, -0.2, 0.0);
            assert_eq!(rules.end(&differences, MARGIN, &LIMITS).unwrap().0, expected, "{blocks}");
        }
    }

    #[test]
    fn a_saving_within_the_limits_is_confirmed_at_the_first_look_and_not_before() {
        let first = confirmation().next_look(0).unwrap() as usize;
        assert_eq!(end(&blocks(first - 1, -0.2, 0.0)), None);
        let (ended, interval) = end(&blocks(first, -0.2, 0.0)).unwrap();
        assert_eq!(ended, ConfirmationEnd::Confirmed);
        let (low, high) = interval.unwrap();
        assert!(low < -0.2 && -0.2 < high && high < -0.19, "{low} {high}");
    }

    #[test]
    fn no_saving_and_a_broken_limit_end_it() {
        for (memory, latency, expected) in
            [(0.0, 0.0, ConfirmationEnd::NotSmaller), (-0.2, 0.2, ConfirmationEnd::LimitBroken(0))]
        {
            assert_eq!(end(&blocks(60, memory, latency)).unwrap().0, expected);
        }
    }

    #[test]
    fn a_limit_that_is_probably_broken_is_given_up_early() {
        // Every second block far beyond the limit, the others far within: the estimate lies just beyond.
        let mut noisy = blocks(60, -0.2, 0.06);
        for (n, block) in noisy.iter_mut().enumerate() {
            block[1] += if n.is_multiple_of(2) { 0.5 } else { -0.5 };
        }
        let given_up = (1..=60).find(|&n| end(&noisy[..n]).is_some()).unwrap();
        assert_eq!(end(&noisy[..given_up]).unwrap().0, ConfirmationEnd::LimitBroken(0));
        assert!((15..30).contains(&given_up), "{given_up}");
    }

    #[test]
    fn looks_end_with_the_blocks_of_the_plan() {
        let rules = confirmation();
        let mut looks = Vec::new();
        while let Some(next) = rules.next_look(looks.last().map_or(0, |&last: &u32| last as usize))
        {
            looks.push(next);
        }
        assert_eq!(looks.first(), Some(&9));
        assert_eq!(looks.last(), Some(&60));
    }

    #[test]
    fn four_of_five_confirmations_show_a_limit_within_the_blocks_that_were_forecast() {
        let rules = confirmation();
        let noise = 0.08;
        let planned = rules.blocks_to_show(LIMITS[0], noise);
        assert!((50..=75).contains(&planned), "{planned}");
        let mut rng = SeededRng::new(17);
        let mut difference = || noise * std::f64::consts::SQRT_2 * rng.normal();
        let shown = (0..200).filter(|_| {
            let blocks: Vec<Vec<f64>> = (0..60).map(|_| vec![-0.2, difference()]).collect();
            rules.end(&blocks, MARGIN, &LIMITS).unwrap().0 == ConfirmationEnd::Confirmed
        });
        let shown = shown.count();
        assert!((130..=185).contains(&shown), "{shown} of 200");
        assert!(rules.blocks_to_show(LIMITS[0], 2.0 * noise) > 3 * planned);
        assert_eq!(rules.blocks_to_show(LIMITS[0], 0.0), 9);
    }
}
