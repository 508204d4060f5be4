//! A whole experiment: trials in randomised blocks until there is a verdict or the budget is spent.
//!
//! The runner knows nothing of terminals: it tells a [`Listener`] what happens. What it did is in the
//! results file after every trial, so that a killed run goes on where it stopped, with the same plan.

mod events;
mod open;
mod runner;

pub use events::{Event, Listener};
pub use open::{OpenError, OpenOptions, experiment_info, open, question, this_runner};
pub use runner::{Run, RunError};
