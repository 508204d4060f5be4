//! The results file: one experiment, one SQLite file, one transaction per trial. And the file of a recording: lines of JSON.
//!
//! The plan is to the results file a text and a hash.

mod error;
mod file;
mod format;
pub mod recording;
mod rows;
mod runner;
mod salvage;

pub use error::StoreError;
pub use file::Store;
pub use runner::Runner;
pub use salvage::{Salvaged, salvage};
