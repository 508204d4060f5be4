//! Trials of one block, paired with the baseline of the same block.
//!
//! A pair counts where both of its trials ended well. That never looks at a measured value; but a
//! crash can have to do with memory, so what was dropped is counted by outcome and shown.

use crate::core::{Better, Outcome, Trial, Unit, metric};
use std::collections::BTreeMap;

/// A trial that cost its variant a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The block.
    pub block: u32,
    /// The variant whose trial did not count.
    pub variant: String,
    /// How that trial ended.
    pub outcome: Outcome,
}

/// Scored trials by block; block 0 only warms the machine up.
#[derive(Debug)]
pub(crate) struct Blocks<'a> {
    blocks: BTreeMap<u32, BTreeMap<&'a str, &'a Trial>>,
}

impl<'a> Blocks<'a> {
    pub(crate) fn new(trials: &'a [Trial]) -> Self {
        let mut blocks: BTreeMap<u32, BTreeMap<&str, &Trial>> = BTreeMap::new();
        for trial in trials.iter().filter(|trial| trial.block > 0) {
            blocks.entry(trial.block).or_default().entry(&trial.variant).or_insert(trial);
        }
        Self { blocks }
    }

    /// Blocks that were begun.
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

    /// Whether two blocks have begun and none of the trials that ended well has a value of `name`.
    pub(crate) fn unmeasured(&self, name: &str) -> bool {
        let mut well = self.trials().filter(|trial| trial.outcome == Outcome::Ok).peekable();
        well.peek().is_some()
            && self.blocks.len() >= 2
            && well.all(|trial| !trial.metrics.contains_key(name))
    }

    /// Seconds of a typical complete block, all its trials together.
    pub(crate) fn seconds(&self) -> Option<f64> {
        let trials = self.blocks.values().map(BTreeMap::len).max()?;
        let complete = self.blocks.values().filter(|block| block.len() == trials);
        let sums: Vec<f64> =
            complete.map(|block| block.values().map(|trial| trial.seconds).sum()).collect();
        carat_stats::budget::median(&sums)
    }

    /// The pairs of `variant` with `baseline` in the metric `name`, one entry per block.
    pub(crate) fn pairs(&self, baseline: &str, variant: &str, name: &str) -> Pairs {
        let value = |block: &BTreeMap<&str, &Trial>, of: &str| {
            let trial = block.get(of).filter(|trial| trial.outcome == Outcome::Ok)?;
            trial.metrics.get(name).copied().filter(|value| value.is_finite())
        };
        Pairs::new(name, self.each(|block| Some((value(block, baseline)?, value(block, variant)?))))
    }

    /// Something of every block, in their order.
    pub(crate) fn each<T>(&self, of: impl Fn(&BTreeMap<&'a str, &'a Trial>) -> T) -> Vec<T> {
        self.blocks.values().map(of).collect()
    }
}

/// Values of baseline and variant, one entry per block, and the scale they are compared on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pairs {
    values: Vec<Option<(f64, f64)>>,
    scale: ComparisonScale,
    better: Better,
}

/// How two values become one difference.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ComparisonScale {
    /// ln(variant / baseline), for values above 0.
    Log,
    /// The plain difference, for a metric that is itself a share.
    Share,
    /// The difference as a share of this typical value, where some values are 0.
    Of(f64),
    /// Nothing is typical where the baseline is mostly 0: no share can be given.
    Incomparable,
}

impl Pairs {
    /// Pairs of one metric, `None` for blocks that do not count.
    pub(crate) fn new(name: &str, values: Vec<Option<(f64, f64)>>) -> Self {
        let info = metric::find(name);
        let known = || values.iter().flatten();
        let sizes: Vec<f64> = known().map(|(base, _)| base.abs()).collect();
        let typical = carat_stats::budget::median(&sizes).unwrap_or(0.0);
        let scale = match info.map(|info| info.unit) {
            Some(Unit::Fraction) => ComparisonScale::Share,
            _ if known().all(|&(base, other)| base > 0.0 && other > 0.0) => ComparisonScale::Log,
            _ if typical > 0.0 => ComparisonScale::Of(typical),
            _ if known().all(|(base, other)| base == other) => ComparisonScale::Of(1.0),
            _ => ComparisonScale::Incomparable,
        };
        Self { values, scale, better: info.map_or(Better::Lower, |info| info.better) }
    }

    /// Differences on the scale of comparison by block; `None` where the block does not count.
    pub(crate) fn differences(&self) -> Vec<Option<f64>> {
        let difference = |(base, other): (f64, f64)| match self.scale {
            ComparisonScale::Log => Some((other / base).ln()),
            ComparisonScale::Share => Some(other - base),
            ComparisonScale::Of(typical) => Some((other - base) / typical),
            ComparisonScale::Incomparable => None,
        };
        self.values.iter().map(|pair| pair.and_then(difference)).collect()
    }

    /// Differences of the blocks that count.
    pub(crate) fn known(&self) -> Vec<f64> {
        self.differences().into_iter().flatten().collect()
    }

    /// Differences in the metric's own unit, of the blocks that count.
    pub(crate) fn plain(&self) -> Vec<f64> {
        self.values.iter().flatten().map(|(base, other)| other - base).collect()
    }

    /// The differences turned so that upwards is worse.
    pub(crate) fn worsenings(&self) -> Vec<f64> {
        let sign = if self.better == Better::Lower { 1.0 } else { -1.0 };
        self.known().into_iter().map(|d| sign * d).collect()
    }

    /// A worsening by the share `limit`, on the scale of `worsenings`.
    pub(crate) fn limit(&self, limit: f64) -> f64 {
        match (self.scale, self.better) {
            (ComparisonScale::Log, Better::Lower) => limit.ln_1p(),
            (ComparisonScale::Log, Better::Higher) => -(-limit).ln_1p(),
            _ => limit,
        }
    }

    /// Differences by the share `margin` either way, on the scale of `differences`.
    pub(crate) fn margin(&self, margin: f64) -> (f64, f64) {
        match self.scale {
            ComparisonScale::Log => ((-margin).ln_1p(), margin.ln_1p()),
            _ => (-margin, margin),
        }
    }

    /// A difference on the scale of comparison as a fraction.
    pub(crate) fn as_ratio(&self, difference: f64) -> f64 {
        match self.scale {
            ComparisonScale::Log => difference.exp_m1(),
            _ => difference,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A trial with nothing but what pairing looks at.
    pub(crate) fn trial(block: u32, variant: &str, metrics: &[(&str, f64)]) -> Trial {
        Trial {
            id: format!("{block}-{variant}"),
            block,
            position: 0,
            variant: variant.to_owned(),
            outcome: Outcome::Ok,
            detail: None,
            started_ms: 0,
            seconds: 30.0,
            metrics: metrics.iter().map(|&(name, value)| (name.to_owned(), value)).collect(),
            samples: Vec::new(),
            load_window_ms: None,
            load: None,
            notes: Vec::new(),
            log_tail: String::new(),
        }
    }

    #[test]
    fn the_warm_up_block_is_never_scored() {
        let trials: Vec<Trial> = (0..3)
            .flat_map(|b| ["a", "b"].map(|v| trial(b, v, &[("memory.pss.final", 1.0)])))
            .collect();
        assert_eq!(Blocks::new(&trials).pairs("a", "b", "memory.pss.final").known(), [0.0, 0.0]);
    }

    #[test]
    fn a_pair_counts_only_where_both_trials_ended_well() {
        let mut trials: Vec<Trial> =
            (1..4).flat_map(|b| ["a", "b"].map(|v| trial(b, v, &[("errors", 0.5)]))).collect();
        trials[1].outcome = Outcome::OomKilled;
        trials[2].metrics.clear();
        let blocks = Blocks::new(&trials);
        assert_eq!(blocks.pairs("a", "b", "errors").differences(), [None, None, Some(0.0)]);
        let dropped = Dropped { block: 1, variant: "b".to_owned(), outcome: Outcome::OomKilled };
        assert_eq!(blocks.dropped(), [dropped]);
    }

    #[test]
    fn values_are_compared_on_the_scale_that_suits_them() {
        let pairs = |name, base, other| Pairs::new(name, vec![Some((base, other))]);
        let log = pairs("memory.pss.final", 100.0, 80.0);
        assert!((log.as_ratio(log.known()[0]) + 0.2).abs() < 1e-12);
        assert_eq!(pairs("errors", 0.0, 0.002).known(), [0.002]);
        assert_eq!(pairs("gc.major.count", 4.0, 0.0).known(), [-1.0]);
        assert_eq!(pairs("gc.major.count", 0.0, 0.0).known(), [0.0]);
        assert!(pairs("gc.major.count", 0.0, 3.0).known().is_empty());
    }

    #[test]
    fn a_fall_of_throughput_is_a_worsening() {
        let pairs = Pairs::new("throughput", vec![Some((100.0, 97.0))]);
        assert!(pairs.worsenings()[0] > pairs.limit(0.02));
        assert!(pairs.worsenings()[0] < pairs.limit(0.031));
    }
}
