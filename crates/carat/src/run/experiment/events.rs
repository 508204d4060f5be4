//! Events of a running experiment, for its display.

use crate::run::trial::{TrialPlan, TrialProgress};
use carat_analysis::Judgement;
use carat_model::Trial;

/// An event of a running experiment.
#[derive(Debug)]
pub enum ExperimentEvent<'a> {
    /// The first trial is about to start.
    Begin {
        /// Trials in the results file, finished by an earlier run.
        done: usize,
    },
    TrialBegins(&'a TrialPlan),
    /// A trial made progress.
    TrialProgresses(TrialProgress),
    /// A trial ended and is in the results file.
    TrialEnds(&'a Trial),
    /// Every trial of a block ended.
    BlockEnds {
        block: u32,
        /// What follows from all blocks so far.
        judgement: &'a Judgement,
    },
}

/// Receives the events of a running experiment.
pub trait EventHandler {
    fn handle(&mut self, event: &ExperimentEvent<'_>);
}
