//! What one moment says about the memory of the process tree.

use super::Bytes;
use serde::{Deserialize, Serialize};

/// One moment of the tree. Unknown is `None`, never 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Milliseconds since the trial or recording began.
    pub at_ms: u64,
    /// Processes in the tree at this moment.
    pub processes: u32,
    /// Resident memory; only where the tree is one process, because RSS is never summed.
    pub rss: Option<Bytes>,
    /// Proportional memory of the tree: each shared page is divided by its sharers (proc(5), `Pss`).
    pub pss: Option<Bytes>,
    /// Memory that exactly one process maps.
    pub uss: Option<Bytes>,
    /// Memory of the tree in swap.
    pub swap: Option<Bytes>,
}
