//! The process that runs an experiment.

use carat_proc::process::Identity;
use std::path::PathBuf;

/// The carat that runs an experiment, and what a later one has to clean up if it is killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    pub identity: Identity,
    /// Token in the environment of every process that it starts.
    pub token: String,
    pub directory: PathBuf,
}
