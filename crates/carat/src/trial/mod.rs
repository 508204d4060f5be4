//! One trial: one variant, started, warmed, loaded, measured and stopped once.
//!
//! The [`Bench`] trait has a real implementation, which starts real servers, and a fake one, with which
//! the order, the resuming and the text of whole experiments are tested in milliseconds.

mod bench;
mod fake;
mod figures;
mod interrupt;
mod prepare;
mod real;
mod service;
mod site;

pub use bench::{Bench, Phase, Progress, TrialError, TrialPlan};
pub use fake::{FakeBench, FakeVariant};
pub use interrupt::Interrupt;
pub use prepare::{PrepareError, Prepared, prepare};
pub use real::{RealBench, Workshop};
