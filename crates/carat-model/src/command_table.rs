//! The table of a command in an experiment file.

use crate::Span;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// `[prepare]`, `[cleanup]` and `[load.command]`, as serde reads them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandTable {
    /// Program and arguments, with placeholders.
    pub command: Vec<String>,
    /// Working directory instead of the server's.
    pub dir: Option<PathBuf>,
    /// Variables over the server's.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Deadline.
    pub within: Option<Span>,
}
