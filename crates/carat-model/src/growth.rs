//! The growth found in recordings and results, part by part.

use serde::{Deserialize, Serialize};

/// A part whose amount is tracked over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrackedPart {
    /// All memory: resident memory of a single process, proportional memory of a tree.
    Memory,
    /// Memory that exactly one process maps.
    Private,
    /// Memory that several processes map.
    Shared,
    /// Ruby objects that survived several collections.
    KeptObjects,
    /// Memory in use by malloc.
    MallocLive,
    /// Memory that malloc holds and that is not allocated.
    MallocFree,
    /// Slots of the objects that the roots reach, and what those hold in malloc: no garbage, and nothing that is free.
    KeptMemory,
}

/// The unit of the work that growth is measured against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgressUnit {
    /// Requests answered, wherever they are known.
    Requests,
    /// Seconds, which measure the work only if the load is even.
    Seconds,
}

/// The class of growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrowthKind {
    /// No growth that matters.
    Flat,
    /// It grows more and more slowly.
    LevellingOff,
    /// It still rises, but more slowly than it did: a warm-up, a cache that fills, or growth like a logarithm or a root.
    Rising,
    /// It grows by a constant amount per request or second.
    Linear,
    /// One jump, and no other growth that matters.
    Stepwise,
    /// Memory that processes shared has become private.
    SharingEroding,
    /// The run is too short or too noisy.
    Undecided,
}

/// The growth of one part. Amounts are bytes, or the number of kept objects.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PartGrowth {
    pub part: TrackedPart,
    /// Class of its growth.
    pub kind: GrowthKind,
    /// Unit of the work.
    pub progress: ProgressUnit,
    /// Requests or seconds over which it was observed.
    pub over: f64,
    /// Amount per request or second; `None` where the series is too short to fit.
    pub rate: Option<f64>,
    /// Lower and upper limit of the rate, each with 5 % error.
    pub interval: Option<(f64, f64)>,
    /// Upper limit (5 % error) of the linear rate over the second half.
    pub at_most: Option<f64>,
    /// The level that it approaches, if it can be estimated.
    pub asymptote: Option<f64>,
    /// Size of the jump of a stepwise growth. For eroding sharing, the memory no longer shared, as a negative number.
    pub step: Option<f64>,
    /// Whether it oscillates in a sawtooth, as memory does that is returned to the kernel.
    pub oscillating: bool,
    /// Where undecided: total requests or seconds that would probably decide.
    pub needed: Option<f64>,
    /// The rate below which growth does not matter; `None` in files of an older carat, and for sharing.
    #[serde(default)]
    pub tolerance: Option<f64>,
    /// What the rate amounts to in a day; `None` unless the growth is linear.
    #[serde(default)]
    pub per_day: Option<DailyGrowth>,
    /// The length of the run; `None` in files of an older carat, and for sharing.
    #[serde(default)]
    pub observed: Option<GrowthEvidence>,
    /// What `linear` requires, where the run is shorter than that.
    #[serde(default)]
    pub required: Option<GrowthEvidence>,
    /// What readings from outside show; `None` where the part was judged from samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readings: Option<ReadingEvidence>,
    /// The most bytes that Ruby's compiler may have taken, where that may explain the growth, which is then undecided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiler: Option<f64>,
    /// The most bytes of the tree that were in swap. All memory has them; private memory has not, and is undecided where they
    /// changed by more than what does not matter. `None` where nothing was in swap, and for every other part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap: Option<f64>,
}

/// What readings of kept objects show of their growth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReadingEvidence {
    /// Readings that count.
    pub readings: u32,
    /// Progress at the first reading at which the growth was found to be linear.
    pub proven_at: Option<f64>,
    /// The least amount that would follow if the growth ended like that of a cache that fills; `None` if no such end fits.
    pub to_come: Option<f64>,
}

/// The length of a run: what it had, or what `linear` requires. Unknown is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GrowthEvidence {
    /// Requests that the tree answered; of several trials, the median.
    pub requests: Option<f64>,
    /// Full collections of a Ruby process after the first eighth of the run: the mean of the processes and trials.
    pub full_collections: Option<f64>,
    /// Seconds of the load, or of the recording where carat drove none; the sum of the trials.
    pub seconds: f64,
}

/// A rate extrapolated to a day: bytes, or the number of kept objects.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DailyGrowth {
    /// Amount per day.
    pub amount: f64,
    /// Lower and upper limit, each with 5 % error.
    pub interval: Option<(f64, f64)>,
    /// Requests per second of the load; 1 where growth is measured against seconds.
    pub progress_per_s: f64,
}

/// The growth of one variant's parts over its load, from all its trials together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantGrowth {
    pub variant: String,
    /// Every part with enough samples.
    pub parts: Vec<PartGrowth>,
}

impl PartGrowth {
    /// Whether the run does not say how the part grows.
    pub fn is_undecided(&self) -> bool {
        self.kind == GrowthKind::Undecided
    }

    /// A part without any figure.
    pub fn without_figures(
        part: TrackedPart,
        kind: GrowthKind,
        progress: ProgressUnit,
        over: f64,
    ) -> Self {
        Self {
            part,
            kind,
            progress,
            over,
            rate: None,
            interval: None,
            at_most: None,
            asymptote: None,
            step: None,
            oscillating: false,
            needed: None,
            tolerance: None,
            per_day: None,
            observed: None,
            required: None,
            readings: None,
            compiler: None,
            swap: None,
        }
    }
}

impl TrackedPart {
    /// Label for tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Memory => "all memory",
            Self::Private => "private (USS)",
            Self::Shared => "shared",
            Self::KeptObjects => "kept objects",
            Self::MallocLive => "malloc live",
            Self::MallocFree => "malloc free",
            Self::KeptMemory => "kept memory",
        }
    }
}

impl ProgressUnit {
    /// The singular of the unit.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Requests => "request",
            Self::Seconds => "second",
        }
    }
}
