//! How the trials of each variant ended, compared with the baseline's.

use crate::analysis::pairs::Blocks;
use crate::core::Outcome;
use carat_stats::fisher;
use std::collections::BTreeMap;

/// How the scored trials of one variant ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcomes {
    /// The variant.
    pub variant: String,
    /// Trials by outcome.
    pub counts: BTreeMap<Outcome, u32>,
    /// Fisher's exact p value of its failures against the baseline's: exploratory, never corrected.
    /// `None` of the baseline itself.
    pub p: Option<f64>,
}

impl Outcomes {
    /// Its scored trials.
    pub fn trials(&self) -> u32 {
        self.counts.values().sum()
    }

    /// Trials in which the server itself failed: it crashed, was killed or never became ready.
    pub fn failed(&self) -> u32 {
        let fault = |outcome| {
            matches!(outcome, Outcome::Crashed | Outcome::OomKilled | Outcome::NeverReady)
        };
        self.counts.iter().filter(|&(&outcome, _)| fault(outcome)).map(|(_, count)| count).sum()
    }

    /// Whether it fails too often to be compared: at least three times and in more than half of its
    /// trials.
    pub(crate) fn fails_too_often(&self) -> bool {
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
        let table = |of: &Outcomes| (u64::from(of.failed()), u64::from(of.trials()));
        outcomes.p = compared.first().map(|base| fisher::exact(table(base), table(&outcomes)));
        compared.push(outcomes);
    }
    compared
}
