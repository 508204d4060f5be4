//! What a program allocates where, from samples by bytes.

use super::Bytes;
use serde::{Deserialize, Serialize};

/// Allocations of a process tree during a part of a recording.
///
/// Samples are taken by bytes of slots: each stands for the same number of bytes, on average. What an object holds in malloc is not
/// counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AllocationProfile {
    /// Time that was sampled, of the process that was sampled longest.
    pub seconds: f64,
    pub processes: u32,
    pub samples: u64,
    /// Mean bytes of slots from one sample to the next.
    pub every: Bytes,
    /// Objects that were allocated meanwhile.
    pub objects: u64,
    /// Samples for whose place a process had no room.
    pub unplaced: u64,
    pub cost: AllocationCost,
    /// Classes at their places with most samples first; the rest is left out.
    pub sites: Vec<AllocationSite>,
}

/// What sampling took from the program.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AllocationCost {
    /// Nanoseconds that it added to each allocation, measured in the processes when it began; `None` where one could not measure it.
    pub object_ns: Option<f64>,
    /// Nanoseconds of a sample.
    pub sample_ns: f64,
    /// Seconds of all objects and samples; `None` where the part of the objects is unknown.
    pub spent_s: Option<f64>,
    /// Their share of the processes' processor time; `None` where that is unknown.
    pub share: Option<f64>,
}

/// One class at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AllocationSite {
    /// The class's name, or what the object is where it has no class.
    pub class: String,
    /// File, and line within it; `None` where no Ruby code ran.
    pub path: Option<String>,
    pub line: Option<u64>,
    pub samples: u64,
    /// Share of the bytes of slots.
    pub share: f64,
    /// Interval of 95 % of the share.
    pub interval: (f64, f64),
}
