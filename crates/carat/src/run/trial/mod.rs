//! One trial: one variant, started, warmed, loaded, measured and stopped once.
//!
//! The [`TrialRunner`] trait has a real implementation, which starts real servers, and a fake one, with which
//! the order, the resuming and the text of whole experiments are tested in milliseconds.

mod fake;
mod interrupt;
mod prepare;
mod real;
mod runner;
mod service;
mod site;

pub use fake::{FakeRunner, FakeVariant};
pub use interrupt::Interrupt;
pub use prepare::{PrepareError, Prepared, prepare};
pub use real::{ProcessRunner, Workshop};
pub use runner::{Phase, Progress, TrialError, TrialPlan, TrialRunner};
