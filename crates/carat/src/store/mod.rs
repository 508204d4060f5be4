//! The results file: one experiment, one SQLite file, one transaction per trial.
//!
//! The plan is to it a text and a hash.

mod error;
mod file;
mod format;
mod rows;
mod runner;
mod salvage;

pub use error::StoreError;
pub use file::{Header, Store};
pub use runner::Runner;
pub use salvage::{Salvaged, salvage};
