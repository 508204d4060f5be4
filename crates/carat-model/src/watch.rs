//! What `carat watch` keeps of the Rubies of a host: who they are, samples, readings, and how they ended.

use crate::host::{ProcessRole, ServerName};
use crate::ledger::PartKind;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Name and version of the JSON of `carat watch last`.
pub const LAST_SCHEMA: &str = "carat.watch-last/1";

/// One process that is or was followed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedProcess {
    /// Its number in the store; no pid, which the kernel uses again.
    pub number: i64,
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_ticks: u64,
    /// The process that leads its tree.
    pub tree: u32,
    pub server: ServerName,
    pub role: ProcessRole,
    /// The place of a worker among the others, where its title says.
    pub worker: Option<u32>,
    /// Its command line as it may be shown.
    pub title: String,
    /// Version of Ruby.
    pub ruby: Option<String>,
    pub allocator: Option<String>,
    /// The path of its control group, as far as it is visible.
    pub group: Option<String>,
    /// When it was seen first, in Unix milliseconds.
    pub first_ms: u64,
    /// How it ended; `None` while it runs, as far as is known.
    pub end: Option<ProcessEnd>,
}

/// The memory of one process at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchSample {
    /// Unix time in milliseconds.
    pub at_ms: u64,
    pub rss: Option<Bytes>,
    /// Resident memory without a file behind it.
    pub anonymous: Option<Bytes>,
    /// Proportional memory, which is expensive and therefore not in every sample.
    pub pss: Option<Bytes>,
    /// Memory that only it maps; known where `pss` is.
    pub private: Option<Bytes>,
    pub swap: Option<Bytes>,
    pub threads: Option<u32>,
}

impl WatchSample {
    /// The figure by which it is compared with others: resident memory, which every sample has, with what is in swap. Without
    /// that a process would shrink while the kernel moves its memory there.
    pub fn size(&self) -> Option<Bytes> {
        Some(self.rss? + self.swap.unwrap_or_default())
    }
}

/// What the sizes of these samples consist of, in words.
pub fn name_of_sizes<'a>(samples: impl IntoIterator<Item = &'a WatchSample>) -> &'static str {
    let swaps = samples.into_iter().any(|sample| sample.swap.is_some_and(|swap| swap.0 > 0));
    if swaps { "RSS and swap" } else { "RSS" }
}

/// What is charged to the control group of a process at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSample {
    /// Its path, as far as it is visible.
    pub group: String,
    /// Unix time in milliseconds.
    pub at_ms: u64,
    /// What counts against its nearest limit.
    pub used: Option<Bytes>,
    /// That limit; `None` where there is none.
    pub limit: Option<Bytes>,
    /// Processes of it that the kernel killed because memory ran out.
    pub oom_kills: Option<u64>,
}

/// Why a census was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CensusReason {
    /// The first of the process.
    #[default]
    First,
    /// It grew by a twentieth since the one before.
    Grew,
    /// Its group crossed a share of its limit.
    NearLimit,
    /// Its group or the machine waits for memory.
    Pressure,
    /// An hour has passed.
    Hourly,
}

impl CensusReason {
    /// Why, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::First => "the first one",
            Self::Grew => "it had grown",
            Self::NearLimit => "its limit came nearer",
            Self::Pressure => "memory was short",
            Self::Hourly => "an hour had passed",
        }
    }
}

/// The composition of the memory of one process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchCensus {
    /// Unix time in milliseconds.
    pub at_ms: u64,
    pub reason: CensusReason,
    /// Proportional memory.
    pub pss: Option<Bytes>,
    /// The parts of it.
    pub parts: Vec<(PartKind, Bytes)>,
    /// Objects in Ruby's heap; `None` where the heap could not be read.
    pub objects: Option<u64>,
    /// The classes with most bytes, the largest first.
    pub classes: Vec<WatchedClass>,
    /// Whether classes were left out because the list was full.
    pub cut: bool,
    /// Who keeps the class that had grown most, where that was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<WatchedKeeper>,
    /// What could not be read, and why.
    pub unknown: Vec<String>,
    /// Processor time of the reading, in seconds.
    pub cpu_seconds: f64,
}

impl WatchCensus {
    /// Whether nothing of the process could be read.
    pub fn is_empty(&self) -> bool {
        self.pss.is_none() && self.classes.is_empty()
    }
}

/// The objects of one class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedClass {
    pub name: String,
    pub objects: u64,
    pub slot_bytes: u64,
    /// What they hold from malloc; `None` where the holders were not read.
    pub malloc_bytes: Option<u64>,
}

impl WatchedClass {
    /// Bytes of its slots, and of malloc where that is known.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.slot_bytes.saturating_add(self.malloc_bytes.unwrap_or_default()))
    }
}

/// Who keeps the objects of the class that grew most between two readings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedKeeper {
    /// Unix time in milliseconds of the reading at which it was looked for: a later one may repeat it.
    pub at_ms: u64,
    pub class: String,
    /// Objects of the class at that time.
    pub objects: u64,
    /// Who keeps them, or why that is unknown.
    pub text: String,
    pub is_known: bool,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessEnd {
    /// Unix time in milliseconds; when it was noticed.
    pub at_ms: u64,
    pub cause: EndCause,
    /// What was known, a sentence each without a capital and a full stop.
    pub evidence: Vec<String>,
}

/// Why a process is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// The kernel killed it because memory ran out.
    Oom,
    /// Probably the same: its group counted such a kill meanwhile, and nothing says of which process.
    ProbablyOom,
    /// A signal ended it, by number.
    Signal(i32),
    /// It exited with this code.
    Exited(i32),
    /// It is gone, and nothing says how.
    Unknown,
    /// It became another program, which is no Ruby.
    Replaced,
    /// It ended while nobody watched.
    Unwatched,
}

impl EndCause {
    /// The cause in words, for the end of a sentence that begins with the process.
    pub fn words(self) -> String {
        match self {
            Self::Oom => "was killed by the kernel because memory ran out".into(),
            Self::ProbablyOom => "was probably killed by the kernel because memory ran out".into(),
            Self::Signal(9) => "was killed by SIGKILL".into(),
            Self::Signal(number) => format!("was ended by {}", signal_name(number)),
            Self::Exited(0) => "exited normally".into(),
            Self::Exited(code) => format!("exited with code {code}"),
            Self::Unknown => "is gone: whether it exited or was killed is unknown".into(),
            Self::Replaced => "became another program by exec".into(),
            Self::Unwatched => "ended while no watch was running".into(),
        }
    }
}

/// The name of a signal (signal(7)); its number where it has none here.
fn signal_name(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return format!("signal {number}"),
    };
    name.into()
}

/// Something that happened while watching.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchEvent {
    /// Unix time in milliseconds.
    pub at_ms: u64,
    /// The process that it is about.
    pub process: Option<i64>,
    pub text: String,
}

/// The last words of a process: everything that is known of its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastWords {
    pub process: WatchedProcess,
    /// The samples that are kept, the oldest first.
    pub samples: Vec<WatchSample>,
    /// The last sample of its control group before its end.
    pub group: Option<GroupSample>,
    /// The census that the last one is compared with, and the last one; a single one is the last.
    pub earlier: Option<WatchCensus>,
    pub last: Option<WatchCensus>,
}

/// What was kept of a period.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedPeriod {
    /// Unix times in milliseconds.
    pub from_ms: u64,
    pub to_ms: u64,
    /// Every process that was followed, with its samples.
    pub processes: Vec<WatchedCurve>,
    pub events: Vec<WatchEvent>,
}

/// The samples of one process in a period.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedCurve {
    pub process: WatchedProcess,
    pub samples: Vec<WatchSample>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_is_not_known_is_never_told_as_one() {
        assert_eq!(EndCause::Signal(15).words(), "was ended by SIGTERM");
        assert_eq!(EndCause::Signal(63).words(), "was ended by signal 63");
        assert!(EndCause::Unknown.words().contains("unknown"));
        assert!(EndCause::ProbablyOom.words().contains("probably"));
        let json = serde_json::to_string(&EndCause::Exited(3)).unwrap();
        assert_eq!(json, "{\"exited\":3}");
    }
}
