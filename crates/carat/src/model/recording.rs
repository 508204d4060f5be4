//! A recording: the memory of one process tree over time, and what follows from it.

use super::{Ledger, LoadReport, PartGrowth, Sample, SamplerCost};
use serde::{Deserialize, Serialize};

/// Name and version of a recording's JSON.
pub const RECORDING_SCHEMA: &str = "carat.recording/2";

/// The memory of one process tree over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// [`RECORDING_SCHEMA`].
    pub schema: String,
    /// What was recorded: a command, or the title of a process that ran already.
    pub what: String,
    /// Unix time of the start in milliseconds: a label, never a duration.
    pub started_ms: u64,
    /// How it ended, in words.
    pub ended: String,
    /// The tree's memory.
    pub samples: Vec<Sample>,
    /// Moments that explain a change.
    pub markers: Vec<Marker>,
    /// Load that carat drove meanwhile; `None` where it drove none.
    #[serde(default)]
    pub load: Option<RecordedLoad>,
    /// What growth there was, by part.
    pub growth: Vec<PartGrowth>,
    /// The last ledger; `None` where the tree ended before one could be made.
    pub ledger: Option<Ledger>,
    /// What recording cost.
    pub cost: SamplerCost,
    /// What a reader should know before trusting the figures.
    pub warnings: Vec<String>,
}

/// Load that carat drove meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedLoad {
    /// Where it went.
    pub url: String,
    /// What came out; `None` where the recording ended before the load did.
    pub report: Option<LoadReport>,
}

/// A moment that explains a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// Milliseconds since the recording began.
    pub at_ms: u64,
    /// What happened.
    pub what: MarkerKind,
}

/// What a marker says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MarkerKind {
    /// A process joined the tree.
    Fork {
        /// Its slot.
        slot: u32,
        /// Its process id.
        pid: u32,
    },
    /// A process left the tree.
    Exit {
        /// Its slot.
        slot: u32,
        /// Its process id.
        pid: u32,
    },
    /// A full collection ran somewhere in the tree.
    MajorGc,
    /// Carat began to send requests.
    LoadBegins,
    /// The last request was answered.
    LoadEnds,
    /// The user pressed a key.
    User,
}
