//! Pairs the trials of one block: a variant with the baseline or with a control.
//!
//! A pair counts if both of its trials succeeded, whatever their values. A crash can depend on memory,
//! though, so dropped trials are counted by outcome and reported.

use crate::question::VariantComparison;
use crate::scale::ComparisonScale;
use carat_model::{Better, Outcome, Trial, metric};
use carat_stats::Walsh;
use std::collections::BTreeMap;

/// A trial that did not count, and with it the block of its variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    pub block: u32,
    /// The variant of the trial.
    pub variant: String,
    /// The outcome of the trial.
    pub outcome: Outcome,
}

/// Scored trials by block. Block 0 warms the machine up and is not scored.
#[derive(Debug)]
pub(crate) struct Blocks<'a> {
    blocks: BTreeMap<u32, BTreeMap<&'a str, &'a Trial>>,
}

impl<'a> Blocks<'a> {
    pub(crate) fn new(trials: &'a [Trial]) -> Self {
        let mut blocks: BTreeMap<u32, BTreeMap<&str, &Trial>> = BTreeMap::new();
        for trial in trials.iter().filter(|trial| trial.block > 0) {
            // The first trial of a variant in a block counts, should a file have two.
            blocks.entry(trial.block).or_default().entry(&trial.variant).or_insert(trial);
        }
        Self { blocks }
    }

    /// Blocks that have begun.
    pub(crate) fn count(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Every trial that did not count.
    pub(crate) fn dropped(&self) -> Vec<Dropped> {
        self.trials()
            .filter(|trial| trial.outcome != Outcome::Ok)
            .map(|trial| Dropped {
                block: trial.block,
                variant: trial.variant.clone(),
                outcome: trial.outcome,
            })
            .collect()
    }

    /// Every scored trial, by block.
    pub(crate) fn trials(&self) -> impl Iterator<Item = &'a Trial> {
        self.blocks.values().flat_map(|block| block.values().copied())
    }

    /// Whether two blocks have begun and no successful trial has a value of the metric `name`.
    pub(crate) fn unmeasured(&self, name: &str) -> bool {
        // Two blocks, because in the first one a trial may lack the value by chance.
        let mut valid = self.trials().filter(|trial| trial.outcome == Outcome::Ok).peekable();
        valid.peek().is_some()
            && self.blocks.len() >= 2
            && valid.all(|trial| !trial.metrics.contains_key(name))
    }

    /// Median duration of a complete block in seconds, all its trials together.
    pub(crate) fn seconds(&self) -> Option<f64> {
        let trials = self.blocks.values().map(BTreeMap::len).max()?;
        // A block that is not complete took less time than the next one will.
        let complete = self.blocks.values().filter(|block| block.len() == trials);
        let sums: Vec<f64> =
            complete.map(|block| block.values().map(|trial| trial.seconds).sum()).collect();
        carat_stats::summary::median(&sums)
    }

    /// The pairs of a variant with the baseline or a control in the metric `name`, one entry per block.
    pub(crate) fn pairs(&self, compared: VariantComparison, name: &str) -> Pairs {
        let VariantComparison { variant, reference } = compared;
        let pairs = self.each(|block| {
            Some((value(block.get(reference)?, name)?, value(block.get(variant)?, name)?))
        });
        Pairs::new(name, pairs)
    }

    /// Applies a function to the trials by variant of every block, in order.
    pub(crate) fn each<T>(&self, of: impl Fn(&BTreeMap<&'a str, &'a Trial>) -> T) -> Vec<T> {
        self.blocks.values().map(of).collect()
    }
}

/// The value of a trial that counts.
pub(crate) fn value(trial: &Trial, metric: &str) -> Option<f64> {
    // The outcome decides whether a trial counts, never its value.
    let metrics = (trial.outcome == Outcome::Ok).then_some(&trial.metrics)?;
    // A value that is not a number would poison every average of the pairs.
    metrics.get(metric).copied().filter(|value| value.is_finite())
}

/// Values of baseline and variant, one entry per block, and the scale they are compared on.
#[derive(Debug, Clone, PartialEq)]
pub struct Pairs {
    values: Vec<Option<(f64, f64)>>,
    scale: ComparisonScale,
    better: Better,
}

impl Pairs {
    /// Pairs of one metric, `None` for blocks that do not count.
    pub fn new(name: &str, values: Vec<Option<(f64, f64)>>) -> Self {
        let metric = metric::find(name);
        let scale = ComparisonScale::of(metric, values.iter().copied().flatten());
        Self { values, scale, better: metric.map_or(Better::Lower, |metric| metric.better) }
    }

    /// The same pairs on the scale of others, so that the differences of both can be compared.
    pub fn on_scale_of(self, others: &Self) -> Self {
        Self { scale: others.scale, ..self }
    }

    /// Differences on the scale of comparison by block; `None` where the block does not count.
    pub fn differences(&self) -> Vec<Option<f64>> {
        self.values.iter().map(|pair| pair.map(|pair| self.scale.difference(pair))).collect()
    }

    /// Differences of the blocks that count.
    pub fn known(&self) -> Vec<f64> {
        self.differences().into_iter().flatten().collect()
    }

    /// Differences in the metric's own unit, of the blocks that count.
    pub fn plain(&self) -> Vec<f64> {
        self.values.iter().flatten().map(|(base, other)| other - base).collect()
    }

    /// Whether a difference has no percentage, because the baseline of a metric that can be zero is so in some pair.
    pub fn in_own_unit(&self) -> bool {
        let can_be_zero = matches!(self.scale, ComparisonScale::Of(_) | ComparisonScale::Direction);
        can_be_zero && self.values.iter().flatten().any(|(base, _)| *base == 0.0)
    }

    /// The differences of the blocks that count, as fractions, or in the metric's unit where that is the only figure.
    pub fn sizes(&self) -> Vec<f64> {
        match self.in_own_unit() {
            true => self.plain(),
            false => self.known().into_iter().map(|one| self.as_ratio(one)).collect(),
        }
    }

    /// The difference of the typical pair, in the unit of [`sizes`](Self::sizes), by the estimator of every verdict; `None`
    /// without pairs, and where it has no size.
    pub fn typical(&self) -> Option<f64> {
        let typical = match self.in_own_unit() {
            true => Walsh::new(&self.plain()).estimate(),
            false => Walsh::new(&self.known()).estimate().map(|one| self.as_ratio(one)),
        };
        typical.filter(|size| size.is_finite())
    }

    /// The differences with the sign that makes higher worse, one entry per block.
    pub fn worsenings(&self) -> Vec<Option<f64>> {
        // Guards test a worsening, whichever direction that is.
        let sign = if self.better == Better::Lower { 1.0 } else { -1.0 };
        self.differences().into_iter().map(|difference| Some(sign * difference?)).collect()
    }

    /// The worsenings of the blocks that count.
    pub fn known_worsenings(&self) -> Vec<f64> {
        self.worsenings().into_iter().flatten().collect()
    }

    /// A worsening by the share `limit`, on the scale of `worsenings`.
    pub fn limit(&self, limit: f64) -> f64 {
        self.scale.limit(limit, self.better)
    }

    /// The limits of differences by the share `margin`, on the scale of `differences`.
    pub fn margin(&self, margin: f64) -> (f64, f64) {
        self.scale.margin(margin)
    }

    /// The difference of this fraction, on the scale of comparison.
    pub fn of_ratio(&self, ratio: f64) -> f64 {
        self.scale.of_ratio(ratio)
    }

    /// A difference on the scale of comparison as a fraction; infinite where it has no size.
    pub fn as_ratio(&self, difference: f64) -> f64 {
        self.scale.as_ratio(difference)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const B_TO_A: VariantComparison = VariantComparison { variant: "b", reference: "a" };

    /// A trial with only the fields that pairing uses.
    pub(crate) fn trial(block: u32, variant: &str, metrics: &[(&str, f64)]) -> Trial {
        Trial {
            id: format!("{block}-{variant}"),
            seconds: 30.0,
            metrics: metrics.iter().map(|&(name, value)| (name.to_owned(), value)).collect(),
            ..Trial::bare(block, variant)
        }
    }

    #[test]
    fn the_warm_up_block_is_never_scored() {
        let trials: Vec<Trial> = (0..3)
            .flat_map(|b| ["a", "b"].map(|v| trial(b, v, &[("memory.pss.final", 1.0)])))
            .collect();
        assert_eq!(Blocks::new(&trials).pairs(B_TO_A, "memory.pss.final").known(), [0.0, 0.0]);
    }

    #[test]
    fn a_pair_counts_only_if_both_trials_succeeded() {
        let mut trials: Vec<Trial> =
            (1..4).flat_map(|b| ["a", "b"].map(|v| trial(b, v, &[("errors", 0.5)]))).collect();
        trials[1].outcome = Outcome::OomKilled;
        trials[2].metrics.clear();
        let blocks = Blocks::new(&trials);
        assert_eq!(blocks.pairs(B_TO_A, "errors").differences(), [None, None, Some(0.0)]);
        let dropped = Dropped { block: 1, variant: "b".to_owned(), outcome: Outcome::OomKilled };
        assert_eq!(blocks.dropped(), [dropped]);
    }

    #[test]
    fn a_difference_to_a_baseline_with_zeros_is_no_share() {
        for (name, values, in_own_unit, typical) in [
            ("gc.count", [(0.0, 2.0), (2.0, 4.0), (1.0, 3.0)], true, 2.0),
            ("gc.count", [(0.0, 1.0), (0.0, 1.0), (0.0, 1.0)], true, 1.0),
            ("gc.count", [(4.0, 0.0), (4.0, 0.0), (4.0, 0.0)], false, -1.0),
            ("errors", [(0.0, 0.5), (0.0, 0.5), (0.0, 0.5)], false, 0.5),
        ] {
            let pairs = Pairs::new(name, values.map(Some).to_vec());
            assert_eq!(
                (pairs.in_own_unit(), pairs.typical()),
                (in_own_unit, Some(typical)),
                "{name}"
            );
        }
    }

    #[test]
    fn lower_throughput_is_a_worsening() {
        let pairs = Pairs::new("throughput", vec![Some((100.0, 97.0))]);
        assert!(pairs.known_worsenings()[0] > pairs.limit(0.02));
        assert!(pairs.known_worsenings()[0] < pairs.limit(0.031));
    }
}
