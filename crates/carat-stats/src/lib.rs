//! The statistics of memory experiments: numbers in, numbers out.
//!
//! No I/O, no clock; randomness comes in as a seeded generator.

pub mod budget;
pub mod family;
pub mod normal;
pub mod sequence;
pub mod signed_rank;
pub mod walsh;

pub use sequence::{Look, Sequence};
pub use walsh::Walsh;
