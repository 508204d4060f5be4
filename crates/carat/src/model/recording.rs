//! A recording: the memory of one process tree over time, and what follows from it.

use super::{Bytes, Ledger, Sample, SamplerCost};
use serde::{Deserialize, Serialize};

/// Name and version of a recording's JSON.
pub const RECORDING_SCHEMA: &str = "carat.recording/1";

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
    /// What the probes inside Ruby said meanwhile, summed over the tree.
    pub inside: Vec<InsideSample>,
    /// Moments that explain a change.
    pub markers: Vec<Marker>,
    /// What growth there was, by component.
    pub growth: Vec<ComponentGrowth>,
    /// The last ledger; `None` where the tree ended before one could be made.
    pub ledger: Option<Ledger>,
    /// What recording cost.
    pub cost: SamplerCost,
    /// What a reader should know before trusting the figures.
    pub warnings: Vec<String>,
}

/// What the probes of a tree say at one moment; a figure that any of them lacks is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsideSample {
    /// Milliseconds since the recording began.
    pub at_ms: u64,
    /// Processes with a probe.
    pub probes: u32,
    /// Full collections.
    pub major_gcs: Option<u64>,
    /// Objects alive after the last full collection.
    pub live_after_major: Option<u64>,
    /// In use from malloc.
    pub malloc_live: Option<Bytes>,
    /// Held by malloc and not in use.
    pub malloc_free: Option<Bytes>,
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
    /// The user pressed a key.
    User,
}

/// The growth of one component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComponentGrowth {
    /// What was looked at, such as `tree` or `malloc live`.
    pub component: String,
    /// `flat`, `levelling off`, `linear`, `stepwise`, `sharing eroding` or `undecided`.
    pub kind: String,
    /// Unit of the rate: `bytes per second` or `objects per second`.
    pub unit: String,
    /// The rate.
    pub rate: Option<f64>,
    /// Its interval: each limit with 5 % error.
    pub interval: Option<(f64, f64)>,
    /// Where it levels off, if that can be said.
    pub asymptote: Option<f64>,
    /// Size of the one jump of a stepwise growth; of eroding sharing what is no longer shared, below nought.
    pub step: Option<f64>,
    /// Where undecided: seconds in all that would probably decide.
    pub needed_s: Option<f64>,
}
