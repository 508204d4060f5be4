//! The results file: one experiment, one SQLite file, one transaction per trial.
//!
//! The plan is to it a text and a hash.

mod error;
mod file;
mod rows;
mod runner;

pub use error::StoreError;
pub use file::{Header, Store};
pub use runner::Runner;
