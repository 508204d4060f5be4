//! A recording: the memory of one process tree over time, and what follows from it.

use super::{Ledger, LoadReport, PartGrowth, Sample, SamplerCost};
use serde::{Deserialize, Serialize};

/// Name and version of a recording's file.
pub const RECORDING_SCHEMA: &str = "carat.recording/3";

/// The memory of one process tree over time: a [`Head`] and what the [`Entry`]s after it said.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// What it is of.
    pub head: Head,
    /// The tree's memory.
    pub samples: Vec<Sample>,
    /// Moments that explain a change.
    pub markers: Vec<Marker>,
    /// The last ledger; `None` where the tree ended before one could be made.
    pub ledger: Option<Ledger>,
    /// What growth there was, by part.
    pub growth: Vec<PartGrowth>,
    /// What was known at the end; `None` where carat was killed before it.
    pub end: Option<End>,
}

/// The first line of a recording's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// [`RECORDING_SCHEMA`].
    pub schema: String,
    /// What was recorded: a command, or the title of a process that ran already.
    pub what: String,
    /// Unix time of the start in milliseconds: a label, never a duration.
    pub started_ms: u64,
}

/// Every further line of a recording's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The tree's memory at one moment.
    Sample(Box<Sample>),
    /// A moment that explains a change.
    Marker(Marker),
    /// What the memory was made of; a later one takes its place.
    Ledger(Ledger),
    /// What growth there was, by part.
    Growth(Vec<PartGrowth>),
    /// The last line.
    End(Box<End>),
}

/// What is known when a recording ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// How it ended, in words.
    pub ended: String,
    /// Load that carat drove meanwhile; `None` where it drove none.
    pub load: Option<RecordedLoad>,
    /// What recording cost.
    pub cost: SamplerCost,
    /// What a reader should know before trusting the figures.
    pub warnings: Vec<String>,
}

impl Recording {
    /// A recording of which nothing but its head is known.
    pub fn new(head: Head) -> Self {
        Self {
            head,
            samples: Vec::new(),
            markers: Vec::new(),
            ledger: None,
            growth: Vec::new(),
            end: None,
        }
    }

    /// Load that carat drove meanwhile.
    pub fn load(&self) -> Option<&RecordedLoad> {
        self.end.as_ref()?.load.as_ref()
    }

    /// How it ended, in words.
    pub fn ended(&self) -> &str {
        self.end.as_ref().map_or("cut off: carat was killed or still records", |end| &end.ended)
    }

    /// Takes what one more line of the file says.
    pub fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Sample(sample) => self.samples.push(*sample),
            Entry::Marker(marker) => self.markers.push(marker),
            Entry::Ledger(ledger) => self.ledger = Some(ledger),
            Entry::Growth(growth) => self.growth = growth,
            Entry::End(end) => self.end = Some(*end),
        }
    }
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
