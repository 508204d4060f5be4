//! What a process tree weighs at one moment, and what its memory is made of.
//!
//! Reads through [`ProcRoot`](crate::process::ProcRoot); which processes belong to the tree is decided by
//! `process`, what follows from many samples by `carat-stats`. The one idea: proportional memory is dear to
//! read and makes the observed process wait, so its price is measured and kept to a share of one core.

mod budget;
mod directory;
mod fields;
mod rollup;
mod sampler;
mod slots;
mod status;

pub use budget::Budget;
pub use rollup::{Rollup, parse_rollup};
pub use sampler::{SampleOptions, Sampler};
pub use slots::Slots;
pub use status::{Status, parse_status};
