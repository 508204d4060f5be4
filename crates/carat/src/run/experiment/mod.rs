//! A whole experiment: trials in randomised blocks until there is a verdict or every planned block has run.
//!
//! An [`EventHandler`] receives the progress. Every trial is in the results file before the next begins, so a killed run
//! resumes where it stopped, with the same plan.

mod blocks;
mod changed;
mod events;
mod launch;
mod open;

mod replay;
mod schedule;

pub(crate) use blocks::failure_detail;
pub use blocks::{ExperimentRun, RunError};
pub use changed::ChangeError;
pub use events::{EventHandler, ExperimentEvent};
pub use launch::{
    ExperimentError, ExperimentRequest, FakeTrials, MachineBench, OpenExperiment,
    PreparedExperiment,
};
pub use open::{OpenError, OpenOptions, OpenedResults, experiment_info, open, this_runner};

pub use replay::{Replay, ReplayEnd, SettledBlocks, replay, results_of};
pub use schedule::BlockSchedule;
