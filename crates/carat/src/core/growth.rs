//! What growth was found, part by part: plain data for recordings and results.

use serde::{Deserialize, Serialize};

/// What is followed over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrackedPart {
    /// All memory: resident memory of a single process, proportional memory of a tree.
    Memory,
    /// Memory that one process alone maps.
    Private,
    /// Memory that several processes map.
    Shared,
    /// Ruby objects that survived several collections, each in a slot of the heap.
    KeptObjects,
    /// Memory in use by malloc.
    MallocLive,
    /// Memory that malloc holds and nobody uses.
    MallocFree,
}

/// What amounts are counted against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgressUnit {
    /// Requests answered: the right choice wherever they are known.
    Requests,
    /// Seconds: only as good as the load is even.
    Seconds,
}

/// The kinds of growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrowthKind {
    /// Nothing that matters.
    Flat,
    /// It grows, but ever more slowly.
    LevellingOff,
    /// It grows by the same amount with every request or second.
    Linear,
    /// One jump, and nothing else that matters.
    Stepwise,
    /// What processes shared has become private.
    SharingEroding,
    /// Too short or too noisy to say.
    Undecided,
}

/// One part of a run, classified. Amounts are bytes; of kept objects, their number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PartGrowth {
    /// The part.
    pub part: TrackedPart,
    /// What it is found to be.
    pub kind: GrowthKind,
    /// What it was counted against.
    pub progress: ProgressUnit,
    /// Requests or seconds that it was seen over.
    pub over: f64,
    /// Amount per request or second; `None` of a series too short to fit.
    pub rate: Option<f64>,
    /// Lower and upper limit of the rate, each with 5 % error.
    pub interval: Option<(f64, f64)>,
    /// Upper limit (5 % error) of the plain rate over the second half.
    pub at_most: Option<f64>,
    /// Where it levels off, if that can be said.
    pub asymptote: Option<f64>,
    /// Size of the one jump of a stepwise growth; of eroding sharing what is no longer shared, below nought.
    pub step: Option<f64>,
    /// Whether it rises and falls like a saw, as memory that is given back does.
    pub oscillating: bool,
    /// Where undecided: requests or seconds in all that would probably decide.
    pub needed: Option<f64>,
}

/// The growth of one variant's parts over its load, all its trials together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantGrowth {
    /// The variant.
    pub variant: String,
    /// Every part that was seen often enough.
    pub parts: Vec<PartGrowth>,
}

impl TrackedPart {
    /// A short name for tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Memory => "all memory",
            Self::Private => "private (USS)",
            Self::Shared => "shared",
            Self::KeptObjects => "kept objects",
            Self::MallocLive => "malloc live",
            Self::MallocFree => "malloc free",
        }
    }
}

impl ProgressUnit {
    /// One of it, in words.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Requests => "request",
            Self::Seconds => "second",
        }
    }
}
