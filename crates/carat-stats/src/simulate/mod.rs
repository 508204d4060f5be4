//! Simulated experiments with a known truth, to check the error rates of the procedures.
//!
//! The tests use few replications, `bin/bench stats` many. Every figure depends only on a seed.

mod blocks;
mod noise;
mod order;
mod readings;
mod series;

pub use blocks::{Replication, SimulatedExperiment, repeated_t_test_errs};
pub use noise::{Noise, SeededRng};
pub use order::{Disturbance, Order};
pub use readings::{KeptShape, SimulatedReadings};
pub use series::{Soak, SoakShape};
