//! A whole experiment: trials in randomised blocks until there is a verdict or the budget is spent.
//!
//! An [`EventHandler`] receives the progress. Every finished trial is in the results file, so that a killed run
//! resumes with the same plan.

mod events;
mod open;
mod runner;

pub use events::{EventHandler, ExperimentEvent};
pub use open::{OpenError, OpenOptions, experiment_info, open, question, this_runner};
pub use runner::{ExperimentRun, RunError};
