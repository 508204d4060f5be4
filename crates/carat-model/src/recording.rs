//! A recording: the memory of one process tree over time.

use super::{
    AllocationProfile, Bytes, GroupLimit, Ledger, LoadReport, PartGrowth, ProgressUnit, Sample,
    SamplerCost,
};
use carat_outside::who::Way;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name and version of a recording's file.
pub const RECORDING_SCHEMA: &str = "carat.recording/3";

/// The memory of one process tree over time: a [`RecordingInfo`] and the content of the [`Entry`]s after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// What was recorded, and when.
    pub info: RecordingInfo,
    /// Memory of the tree.
    pub samples: Vec<Sample>,
    /// Moments that explain a change.
    pub markers: Vec<Marker>,
    /// The last ledger; `None` where the tree ended before the first.
    pub ledger: Option<Ledger>,
    /// Resident machine code of Ruby's compiler, by process, when recording began or, if a load was driven, when it first
    /// answered; `None` where that is not known.
    pub jit_code_before: Option<BTreeMap<u32, Bytes>>,
    pub growth: Vec<PartGrowth>,
    /// Written when recording ended; `None` where carat was killed or still records.
    pub end: Option<RecordingEnd>,
}

/// The first line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingInfo {
    /// [`RECORDING_SCHEMA`].
    pub schema: String,
    /// What was recorded: a command, or the title of a process that was already running.
    pub what: String,
    /// Unix time of the start in milliseconds: a label, never a duration.
    pub started_ms: u64,
    /// Program and arguments, if carat started it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// Every further line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// Memory of the tree at one moment.
    Sample(Box<Sample>),
    /// A moment that explains a change.
    Marker(Marker),
    /// Composition of the memory; a later one replaces an earlier one.
    Ledger(Ledger),
    /// Resident machine code of Ruby's compiler, by process; a later one replaces an earlier one.
    JitCodeBefore(BTreeMap<u32, Bytes>),
    Growth(Vec<PartGrowth>),
    /// The last line.
    End(Box<RecordingEnd>),
}

/// Facts that are known when a recording ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingEnd {
    /// How it ended, for display.
    pub ended: String,
    /// The load that carat drove during the recording, if any.
    pub load: Option<RecordedLoad>,
    /// The cost of recording.
    pub cost: SamplerCost,
    /// What a reader should know before trusting the figures.
    pub warnings: Vec<String>,
    /// Classes whose objects become more, where `--look` asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassGrowth>,
    /// The limit of memory that the tree's control groups reach first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<GroupLimit>,
    /// Whether its control groups could not be seen, so that their limits are unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limit_unseen: bool,
    /// Why objects that are kept could not be read from outside; `None` if they were, or nobody tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// The rate of growth so far; `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlook: Option<GrowthOutlook>,
    /// What was allocated where, where `--allocations` asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocations: Option<AllocationProfile>,
}

/// The latest rate of growth, and when the limit of memory would be reached at that rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GrowthOutlook {
    /// Whether the growth is proven to be linear, in this or another part.
    pub proven: bool,
    /// Bytes per second in the second half, proven or not.
    pub per_second: f64,
    /// Lower and upper limit, each with 5 % error.
    pub interval: (f64, f64),
    /// Seconds until the limit is reached at that rate; `None` without a limit, or where it may not grow.
    pub limit_in_s: Option<f64>,
    /// The same at the upper and at the lower limit of the rate.
    pub limit_between_s: Option<(f64, f64)>,
}

/// A class whose number of objects grows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassGrowth {
    /// The class's name.
    pub class: String,
    /// Unit of the work.
    pub progress: ProgressUnit,
    /// Objects at the last reading, in all processes.
    pub objects: u64,
    /// Objects per unit of the work.
    pub rate: f64,
    /// Interval of 99 % of the rate.
    pub interval: (f64, f64),
    /// Readings that it is from.
    pub readings: u32,
    /// Mean bytes of an object at the end, with what it holds in malloc where that could be read.
    pub bytes_each: Option<f64>,
    /// What keeps the objects that were added, at the last reading; `None` where most of them are not kept in one way, or
    /// that could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_by: Option<Way>,
}

impl Recording {
    /// A recording without any entry.
    pub fn new(info: RecordingInfo) -> Self {
        Self {
            info,
            samples: Vec::new(),
            markers: Vec::new(),
            ledger: None,
            jit_code_before: None,
            growth: Vec::new(),
            end: None,
        }
    }

    /// The load that carat drove during the recording.
    pub fn load(&self) -> Option<&RecordedLoad> {
        self.end.as_ref()?.load.as_ref()
    }

    /// How it ended, for display.
    pub fn ended(&self) -> &str {
        self.end.as_ref().map_or("cut off: carat was killed or still records", |end| &end.ended)
    }

    /// Adds one more line of the file.
    pub fn add(&mut self, entry: Entry) {
        match entry {
            Entry::Sample(sample) => self.samples.push(*sample),
            Entry::Marker(marker) => self.markers.push(marker),
            // The latest replaces the others: the composition is that of the end.
            Entry::Ledger(ledger) => self.ledger = Some(ledger),
            Entry::JitCodeBefore(code) => self.jit_code_before = Some(code),
            Entry::Growth(growth) => self.growth = growth,
            Entry::End(end) => self.end = Some(*end),
        }
    }
}

/// A load that carat drove during a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedLoad {
    /// The address of the server.
    pub url: String,
    /// The generator's report; `None` where the recording ended before the load.
    pub report: Option<LoadReport>,
    /// How it was requested; unknown in a recording of an older carat.
    #[serde(default)]
    pub plan: RecordedLoadPlan,
}

/// What was requested of a load that carat drove during a recording, where it differs from the defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedLoadPlan {
    /// Open connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Number of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// File of the scenarios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// File that was replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
}

/// A moment that explains a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// Milliseconds since the recording began.
    pub at_ms: u64,
    /// What happened.
    pub what: MarkerKind,
}

/// The event of a marker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MarkerKind {
    /// A process joined the tree.
    Fork {
        slot: u32,
        /// Its process id.
        pid: u32,
    },
    /// A process left the tree.
    Exit {
        slot: u32,
        /// Its process id.
        pid: u32,
    },
    /// A full garbage collection ran in a process of the tree.
    MajorGc,
    /// Carat began to send requests.
    LoadBegins,
    /// The last request was answered.
    LoadEnds,
    /// The user pressed a key.
    User,
}
