//! Readings of running Rubies from outside.

use carat_outside::census::Census;
use carat_outside::unshared::UnsharedTable;
use serde::{Deserialize, Serialize};

/// Name and version of the part of a JSON document that holds readings from outside.
pub const OUTSIDE_SCHEMA: &str = "carat.census/2";

/// The readings of a process tree from outside.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OutsideReading {
    /// [`OUTSIDE_SCHEMA`].
    pub schema: String,
    /// One for each Ruby that was read.
    pub processes: Vec<Census>,
    /// Rubies that were not read: process number and reason with its remedy.
    pub refused: Vec<(u32, String)>,
    /// Why pages of forked processes are private, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unshared: Vec<UnsharedTable>,
}
