//! Judges several claims together at every look, with one error rate for all of them.
//!
//! This is Holm's procedure inside a group sequence. Every claim starts at α divided by the number of
//! claims. When one is decided "different", the remaining claims are tested again at α divided by
//! their number. Sources: S. Holm, Scandinavian Journal of Statistics 6 (1979); Y. Ye, A. Li, L. Liu and B.
//! Yao, "A group sequential Holm procedure with multiple primary endpoints", Statistics in Medicine
//! 32 (2013). Equivalence is two one-sided tests, D. J. Schuirmann, J. Pharmacokinetics and
//! Biopharmaceutics 15 (1987): the interval of twice the error lies inside the margin.

use crate::{Look, Sequence, Walsh};

/// The looks and cuts of every step of Holm's procedure.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    /// `levels[m - 1]` is for m claims that are not yet decided "different".
    levels: Vec<Level>,
}

/// The two sequences of one step of Holm's procedure.
#[derive(Debug, Clone, PartialEq)]
struct Level {
    difference: Sequence,
    equivalence: Sequence,
}

/// The decision about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The typical difference is below zero.
    Less,
    /// The typical difference is above zero.
    More,
    /// The typical difference lies inside the margin.
    Equivalent,
    /// The pairs so far support none of the others.
    Undecided,
}

/// The state of one claim after its pairs so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The decision; once made it stays.
    pub decision: Decision,
    /// Pairs after which it was made; `None` while undecided.
    pub decided_after: Option<u32>,
    /// The last look if its interval agrees with the decision, otherwise the look that decided; `None`
    /// before the first look.
    ///
    /// Equivalence is two one-sided tests, so its interval has twice the error.
    pub look: Option<Look>,
}

/// One claim to judge: paired differences by block, `None` for a block that does not count.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Differences (usually of logarithms), in the order of the blocks.
    pub pairs: Vec<Option<f64>>,
    /// Differences between these two limits do not matter.
    pub margin: (f64, f64),
}

impl Design {
    /// The design for a two-sided family-wise error `alpha`, `claims` claims and at most `budget`
    /// blocks.
    pub fn new(alpha: f64, claims: usize, budget: u32) -> Self {
        Self::in_rounds(alpha, claims, budget, 1)
    }

    /// The design whose looks are after multiples of `round` blocks, so that each look has complete rounds only.
    pub fn in_rounds(alpha: f64, claims: usize, budget: u32, round: u32) -> Self {
        // An experiment without claims still has a design, so that its looks can be printed.
        let levels = 1..=claims.max(1);
        let levels = levels.map(|open| Level::new(alpha / open as f64, budget, round));
        Self { levels: levels.collect() }
    }

    /// The sequence of differences while `open` claims are not yet decided "different".
    pub fn difference(&self, open: usize) -> &Sequence {
        &self.level(open).difference
    }

    /// The sequence with twice the error, for equivalence and guards.
    pub fn equivalence(&self, open: usize) -> &Sequence {
        &self.level(open).equivalence
    }

    fn level(&self, open: usize) -> &Level {
        &self.levels[open.clamp(1, self.levels.len()) - 1]
    }

    /// Replays every block in order and decides each claim.
    pub fn judge(&self, claims: &[Claim]) -> Vec<Judged> {
        let mut running: Vec<Running> = claims.iter().map(Running::new).collect();
        let blocks = claims.iter().map(|claim| claim.pairs.len()).max().unwrap_or(0);
        for block in 0..blocks {
            // Looks count pairs, not blocks: a block that was dropped must not use up a look.
            for claim in &mut running {
                claim.take(block);
            }
            let mut open = count_open(&running);
            // A decided claim raises the level of the others: they look at the same pairs again.
            loop {
                for claim in &mut running {
                    claim.look(self.level(open), open);
                }
                let left = count_open(&running);
                if left == open || left == 0 {
                    break;
                }
                open = left;
            }
        }
        running.into_iter().map(|claim| claim.finish(self)).collect()
    }
}

impl Level {
    fn new(alpha: f64, budget: u32, round: u32) -> Self {
        let difference = Sequence::in_rounds(alpha, budget, round);
        // Both at the same pairs: a verdict of equivalence needs the interval of the same look.
        let blocks: Vec<u32> = difference.looks.iter().map(|look| look.blocks).collect();
        let equivalence = Sequence::at(&blocks, 2.0 * difference.alpha);
        Self { difference, equivalence }
    }
}

fn count_open(running: &[Running]) -> usize {
    running.iter().filter(|claim| !claim.judged.decision.is_difference()).count()
}

impl Decision {
    /// Whether the decision is that there is a difference.
    pub fn is_difference(self) -> bool {
        matches!(self, Self::Less | Self::More)
    }
}

/// A claim while its blocks are replayed.
struct Running<'a> {
    claim: &'a Claim,
    taken: Vec<f64>,
    judged: Judged,
    /// Pairs and open claims at the last look, so that no look is repeated.
    looked: (u32, usize),
    /// The step of Holm's procedure at which the claim was decided.
    decided_with: Option<usize>,
}

impl<'a> Running<'a> {
    fn new(claim: &'a Claim) -> Self {
        let judged = Judged { decision: Decision::Undecided, decided_after: None, look: None };
        Self { claim, taken: Vec::new(), judged, looked: (0, 0), decided_with: None }
    }

    fn take(&mut self, block: usize) {
        self.taken.extend(self.claim.pairs.get(block).copied().flatten());
    }

    /// Looks at an undecided claim if a look is due that has not been made at this level.
    fn look(&mut self, level: &Level, open: usize) {
        let blocks = self.taken.len() as u32;
        if self.decided_with.is_some() || self.looked == (blocks, open) {
            return;
        }
        self.looked = (blocks, open);
        // A level has looks of its own: with less error its first look is later.
        let Some(look) = level.difference.look_at(blocks) else { return };
        let (decision, look) = self.decision(level, look);
        let decided = decision != Decision::Undecided;
        // An interval that never reached its confidence would be read as if it had.
        let look = look.cut.is_some().then_some(look);
        self.judged = Judged { decision, decided_after: decided.then_some(blocks), look };
        self.decided_with = decided.then_some(open);
    }

    /// Takes the interval of the last look if it agrees with the decision. All intervals of a
    /// sequence hold simultaneously, so the one with the most pairs may be shown.
    fn finish(mut self, design: &Design) -> Judged {
        let Some(level) = self.decided_with.map(|open| design.level(open)) else {
            return self.judged;
        };
        let taken = self.taken.len() as u32;
        // Pairs after the last look belong to no look and would add an unpaid one.
        let last = level.difference.looks.iter().rfind(|look| look.blocks <= taken).copied();
        if let Some(last) = last.filter(|last| Some(last.blocks) != self.judged.decided_after) {
            self.taken.truncate(last.blocks as usize);
            // The decision stays whatever comes later; only an interval that agrees is shown.
            let (decision, look) = self.decision(level, last);
            if decision == self.judged.decision {
                self.judged.look = Some(look);
            }
        }
        self.judged
    }

    /// The decision at `look`, and the look whose interval supports it.
    fn decision(&self, level: &Level, look: Look) -> (Decision, Look) {
        let walsh = Walsh::new(&self.taken);
        // Difference first: an interval inside the margin may exclude zero all the same.
        match level.difference.interval(look, &walsh) {
            Some((_, high)) if high < 0.0 => return (Decision::Less, look),
            Some((low, _)) if low > 0.0 => return (Decision::More, look),
            _ => {}
        }
        let (lowest, highest) = self.claim.margin;
        let Some(wider) = level.equivalence.look_at(look.blocks) else {
            return (Decision::Undecided, look);
        };
        // Strict: an interval that touches the margin does not exclude a difference that matters.
        match level.equivalence.interval(wider, &walsh) {
            Some((low, high)) if lowest < low && high < highest => (Decision::Equivalent, wider),
            _ => (Decision::Undecided, look),
        }
    }
}

/// Whether a guarded metric stays within its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardResult {
    /// Proven to be below the limit.
    Within,
    /// Proven to be above the limit.
    Beyond,
    /// Neither.
    Unknown,
}

/// Judges a guard: non-inferiority of `pairs`, where higher is worse, against `limit`.
///
/// Each side has half the error of `sequence`; the first decision stays.
pub fn guard(sequence: &Sequence, pairs: &[f64], limit: f64) -> GuardResult {
    for &look in &sequence.looks {
        // Looks are in order, so one that lacks pairs ends the search.
        let Some(pairs) = pairs.get(..look.blocks as usize) else { break };
        match sequence.interval(look, &Walsh::new(pairs)) {
            Some((_, high)) if high < limit => return GuardResult::Within,
            Some((low, _)) if low > limit => return GuardResult::Beyond,
            _ => {}
        }
    }
    GuardResult::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(pairs: &[f64]) -> Claim {
        Claim { pairs: pairs.iter().copied().map(Some).collect(), margin: (-0.01, 0.01) }
    }

    fn judge_one(pairs: &[f64], budget: u32) -> Judged {
        Design::new(0.05, 1, budget).judge(&[claim(pairs)])[0]
    }

    #[test]
    fn eight_pairs_of_one_sign_decide_and_seven_do_not() {
        let eight = [-0.02, -0.03, -0.01, -0.02, -0.05, -0.02, -0.03, -0.04];
        assert_eq!(judge_one(&eight, 100).decision, Decision::Less);
        assert_eq!(judge_one(&eight, 100).decided_after, Some(8));
        assert_eq!(judge_one(&eight.map(|d| -d), 100).decision, Decision::More);
        assert_eq!(judge_one(&eight[..7], 100).decision, Decision::Undecided);
        assert_eq!(judge_one(&eight[..7], 100).look, None);
    }

    #[test]
    fn six_pairs_decide_only_where_six_are_the_budget() {
        let six = [0.02, 0.03, 0.01, 0.02, 0.05, 0.02];
        assert_eq!(judge_one(&six, 6).decision, Decision::More);
        let five = judge_one(&six[..5], 5);
        assert_eq!(five.decision, Decision::Undecided);
        assert!((five.look.unwrap().confidence - 0.9375).abs() < 1e-12);
    }

    #[test]
    fn small_differences_are_equivalent() {
        let pairs = [0.001, -0.002, 0.0, 0.001, -0.001, 0.002, -0.003, 0.001];
        assert_eq!(judge_one(&pairs, 100).decision, Decision::Equivalent);
    }

    #[test]
    fn a_block_that_does_not_count_changes_nothing() {
        let full = claim(&[-0.02, -0.03, -0.01, -0.02, -0.05, -0.02, -0.03, -0.04]);
        let mut gaps = full.clone();
        gaps.pairs.insert(3, None);
        gaps.pairs.insert(0, None);
        let design = Design::new(0.05, 1, 100);
        assert_eq!(design.judge(&[full]), design.judge(&[gaps]));
    }

    #[test]
    fn a_decision_stays_when_later_pairs_contradict_it() {
        let mut pairs = vec![-0.02; 8];
        pairs.extend([0.9; 10]);
        let judged = judge_one(&pairs, 100);
        assert_eq!((judged.decision, judged.decided_after), (Decision::Less, Some(8)));
        assert_eq!(judged.look.unwrap().blocks, 8);
    }

    #[test]
    fn a_decided_claim_passes_its_error_to_the_others() {
        // One pair of the second rank against the trend. The look after ten pairs leaves out two
        // averages at each end at an error of 5 %, but only one at 2.5 %.
        let clear = claim(&[-0.5; 10]);
        let faint = [0.205, -0.2, -0.21, -0.22, -0.23, -0.24, -0.25, -0.26, -0.27, -0.28];
        let design = Design::new(0.05, 2, 100);
        let both = design.judge(&[clear, claim(&faint)]);
        let alone = design.judge(&[claim(&[0.0; 10]), claim(&faint)]);
        assert_eq!(both[1].decision, Decision::Less);
        assert_eq!(alone[1].decision, Decision::Undecided);
    }

    #[test]
    fn a_guard_is_judged_one_sided() {
        let sequence = Design::new(0.05, 1, 100).equivalence(1).clone();
        let slightly_up = [0.01, 0.02, 0.0, 0.01, 0.02, 0.01, 0.015, 0.005];
        assert_eq!(guard(&sequence, &slightly_up, 0.05), GuardResult::Within);
        assert_eq!(guard(&sequence, &slightly_up, 0.001), GuardResult::Beyond);
        assert_eq!(guard(&sequence, &slightly_up, 0.01), GuardResult::Unknown);
        assert_eq!(guard(&sequence, &[0.0; 12], 0.001), GuardResult::Within);
        assert_eq!(guard(&sequence, &slightly_up[..5], 0.05), GuardResult::Unknown);
    }
}
