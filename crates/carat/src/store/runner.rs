//! Who runs the experiment of a results file.

use crate::process::Identity;
use std::path::PathBuf;

/// The carat that runs the experiment, and what it leaves behind if it is killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    /// Its process.
    pub identity: Identity,
    /// The token that everything it started carries.
    pub token: String,
    /// Its private directory.
    pub directory: PathBuf,
}
