//! The proof: fresh blocks of default and candidate. Only this supports a claim.

use carat_stats::{Look, Sequence, Walsh};

/// Blocks from which on an estimate beyond a limit ends the confirmation: it would hardly be proven to be within.
const FUTILE_FROM: u32 = 15;
/// Total error of the claim that memory is smaller, over all attempts.
const MEMORY_ERROR: f64 = 0.05;
/// Twice the error of a limit: only one side of its interval is used.
const LIMIT_ERROR: f64 = 0.10;

/// What a confirmation has to show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfirmationPlan<'a> {
    /// Most blocks.
    pub blocks: u32,
    /// Attempts that share the error.
    pub attempts: u32,
    /// The smallest saving that matters, as a logarithm below 0.
    pub margin: f64,
    /// Upper limit of each metric but the first, as the logarithm of a ratio to the default.
    pub limits: &'a [f64],
}

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
pub struct Confirmation<'a> {
    plan: ConfirmationPlan<'a>,
    memory: Sequence,
    limit: Sequence,
}

impl<'a> Confirmation<'a> {
    /// The rules for this plan.
    pub fn new(plan: ConfirmationPlan<'a>) -> Self {
        let attempts = f64::from(plan.attempts.max(1));
        let memory = Sequence::new(MEMORY_ERROR / attempts, plan.blocks);
        let looks: Vec<u32> = memory.looks.iter().map(|look| look.blocks).collect();
        let limit = Sequence::at(&looks, LIMIT_ERROR / attempts);
        Self { plan, memory, limit }
    }

    /// The next number of blocks after which there is a look, beyond `blocks`.
    pub fn next_look(&self, blocks: usize) -> Option<u32> {
        self.memory.looks.iter().map(|look| look.blocks).find(|&look| look as usize > blocks)
    }

    /// How it ended, and the interval of the logarithm of the memory's ratio at that look; `None` while more blocks are
    /// needed. Each block has one difference of logarithms, candidate less default, per metric.
    pub fn end(&self, blocks: &[Vec<f64>]) -> Option<(ConfirmationEnd, Option<(f64, f64)>)> {
        let mut kept = vec![false; self.plan.limits.len()];
        let mut smaller = false;
        let mut interval = None;
        for (look, limit_look) in self.memory.looks.iter().zip(&self.limit.looks) {
            let seen = blocks.get(..look.blocks as usize)?;
            if let Some((low, high)) = interval_of(seen, 0, look) {
                interval = Some((low, high));
                smaller |= high < 0.0;
                if !smaller && low > self.plan.margin {
                    return Some((ConfirmationEnd::NotSmaller, interval));
                }
            }
            if let Some(broken) = self.update_limits(seen, limit_look, &mut kept) {
                return Some((ConfirmationEnd::LimitBroken(broken), interval));
            }
            if smaller && kept.iter().all(|&kept| kept) {
                return Some((ConfirmationEnd::Confirmed, interval));
            }
        }
        let end = if smaller { ConfirmationEnd::Undecided } else { ConfirmationEnd::NotSmaller };
        Some((end, interval))
    }

    /// Marks the limits that are proven; returns the first that is broken or futile.
    fn update_limits(&self, seen: &[Vec<f64>], look: &Look, kept: &mut [bool]) -> Option<usize> {
        for (index, limit) in self.plan.limits.iter().enumerate() {
            let interval = interval_of(seen, index + 1, look).filter(|_| !kept[index]);
            let Some((low, high)) = interval else { continue };
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

fn interval_of(blocks: &[Vec<f64>], metric: usize, look: &Look) -> Option<(f64, f64)> {
    walsh_of(blocks, metric).interval(look.cut?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: [f64; 1] = [0.05];

    fn confirmation() -> Confirmation<'static> {
        Confirmation::new(ConfirmationPlan {
            blocks: 60,
            attempts: 2,
            margin: -0.01,
            limits: &LIMITS,
        })
    }

    /// Blocks with these differences, each moved a little so that no two are equal.
    fn blocks(count: usize, memory: f64, latency: f64) -> Vec<Vec<f64>> {
        let side = |n: usize| if n.is_multiple_of(2) { 0.002 } else { -0.002 };
        let shift = |n: usize| side(n) * (1.0 + n as f64 / count as f64);
        (0..count).map(|n| vec![memory + shift(n), latency - shift(n)]).collect()
    }

    #[test]
    fn a_saving_within_the_limits_is_confirmed_at_the_first_look_and_not_before() {
        let rules = confirmation();
        let first = rules.next_look(0).unwrap() as usize;
        assert_eq!(rules.end(&blocks(first - 1, -0.2, 0.0)), None);
        let (end, interval) = rules.end(&blocks(first, -0.2, 0.0)).unwrap();
        assert_eq!(end, ConfirmationEnd::Confirmed);
        let (low, high) = interval.unwrap();
        assert!(low < -0.2 && -0.2 < high && high < -0.19, "{low} {high}");
    }

    #[test]
    fn no_saving_and_a_broken_limit_end_it() {
        let rules = confirmation();
        let ended = |memory, latency| rules.end(&blocks(60, memory, latency)).unwrap().0;
        assert_eq!(ended(0.0, 0.0), ConfirmationEnd::NotSmaller);
        assert_eq!(ended(-0.2, 0.2), ConfirmationEnd::LimitBroken(0));
    }

    #[test]
    fn a_limit_that_is_probably_broken_is_given_up_early() {
        let rules = confirmation();
        // Every second block far beyond the limit, the others far within: the estimate lies just beyond.
        let mut noisy = blocks(60, -0.2, 0.06);
        for (n, block) in noisy.iter_mut().enumerate() {
            block[1] += if n.is_multiple_of(2) { 0.5 } else { -0.5 };
        }
        let given_up = (1..=60).find(|&n| rules.end(&noisy[..n]).is_some()).unwrap();
        assert_eq!(rules.end(&noisy[..given_up]).unwrap().0, ConfirmationEnd::LimitBroken(0));
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
}
