//! One trial: one variant, started, warmed up, loaded, measured and stopped once.
//!
//! The [`TrialRunner`] trait has two implementations: [`ProcessRunner`] starts real servers, and [`FakeRunner`] lets
//! tests run whole experiments in milliseconds.

mod census;
mod command;
mod fake;
mod load_command;
mod paths;
mod prepare;
mod process_runner;
mod run_steps;
mod running;
mod side_process;
mod steps;
mod types;

pub use fake::{FakeRunner, FakeVariant};
pub use paths::RunContext;
pub(crate) use prepare::roots;
pub use prepare::{PrepareError, PreparedVariant, prepare_variants};
pub use process_runner::ProcessRunner;
pub use types::{TrialError, TrialPhase, TrialPlan, TrialProgress, TrialRunner};
