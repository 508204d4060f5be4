//! Files that carat writes: results (one SQLite file per experiment, one transaction per trial) and recordings (lines of JSON).
//!
//! A results file stores the plan as text and hash and does not interpret it.

mod attempt;
mod error;
mod file;
mod foreign;
mod format;
mod fresh;
mod merge;
pub mod recording;
mod rows;
mod runner;
mod salvage;

pub use attempt::BlockAttempt;
pub use error::StoreError;
pub use file::Store;
pub(crate) use format::is_results_file;
pub(crate) use fresh::{FreshFile, rename_new};
pub use merge::{MergeError, MergedParts};
pub use runner::Runner;
pub use salvage::{Salvaged, salvage, salvage_trials};
