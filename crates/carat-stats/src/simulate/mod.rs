//! Simulated experiments whose truth is known, to hold the procedures to what they promise.
//!
//! Used at few replications by the tests and at many by `bin/bench stats`. Every figure depends on
//! a seed alone.

mod blocks;
mod noise;
mod order;
mod series;

pub use blocks::{Replication, SimulatedExperiment, peeking_errs};
pub use noise::{Noise, SeededRng};
pub use order::{Disturbance, Order};
pub use series::{Soak, SoakShape};
