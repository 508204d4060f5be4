//! Counts the outcomes of each variant and compares them with the baseline's.

use crate::pairs::Blocks;
use carat_model::Outcome;
use carat_stats::fisher;
use std::collections::BTreeMap;

/// Outcomes of the scored trials of one variant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcomes {
    pub variant: String,
    /// Trials by outcome.
    pub counts: BTreeMap<Outcome, u32>,
    /// Fisher's exact p value of its failures against the baseline's, exploratory and not corrected.
    /// `None` for the baseline itself.
    pub p: Option<f64>,
}

impl Outcomes {
    /// Number of scored trials.
    pub(crate) fn trials(&self) -> u32 {
        self.counts.values().sum()
    }

    /// Trials in which the server failed: it crashed, was killed or never became ready.
    pub(crate) fn failed(&self) -> u32 {
        [Outcome::Crashed, Outcome::OomKilled, Outcome::NeverReady]
            .iter()
            .filter_map(|outcome| self.counts.get(outcome))
            .sum()
    }

    fn failures(&self) -> (u64, u64) {
        (u64::from(self.failed()), u64::from(self.trials()))
    }

    /// Whether it fails too often for a comparison: at least three times and in more than half of its
    /// trials.
    pub(crate) fn fails_too_often(&self) -> bool {
        // Three, or a single unlucky start would end an experiment of two blocks.
        self.failed() >= 3 && 2 * self.failed() > self.trials()
    }
}

/// The outcomes of every variant, in order; the first is the baseline.
pub(crate) fn compare(blocks: &Blocks, variants: &[String]) -> Vec<Outcomes> {
    let mut compared: Vec<Outcomes> = Vec::new();
    for variant in variants {
        let mut counts = BTreeMap::new();
        for trial in blocks.trials().filter(|trial| trial.variant == *variant) {
            *counts.entry(trial.outcome).or_insert(0) += 1;
        }
        let mut outcomes = Outcomes { variant: variant.clone(), counts, p: None };
        outcomes.p =
            // Against the first, which is the baseline and has none itself.
            compared.first().map(|base| fisher::exact(base.failures(), outcomes.failures()));
        compared.push(outcomes);
    }
    compared
}
