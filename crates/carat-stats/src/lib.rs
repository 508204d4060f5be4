//! The statistics of memory experiments: numbers in, numbers out.
//!
//! No I/O and no clock; random numbers come from a seeded generator. `docs/explanation/method.md` explains the methods to a reader
//! who knows a t test. Each module names the source of its formulas.

pub mod blocks;
pub mod curve;
pub mod diagnose;
pub mod family;
pub mod fisher;
pub mod forecast;
pub mod growth;
pub mod heterogeneity;
mod least_squares;
pub mod normal;
pub mod sequence;
pub mod share;
pub mod signed_rank;
pub mod simulate;
pub mod slope;
pub mod steady;
pub mod student;
pub mod summary;
mod trend;
pub mod walsh;

pub use sequence::{Look, Sequence};
pub use walsh::Walsh;
