//! What the runtime tells about itself: one small file per Ruby process.
//!
//! The runtime must work where no probe is loaded (`carat exec`), so it has a file of its own in the
//! folder named by [`PAGES`](crate::env::PAGES), called `PID.runtime`. Every field is written by that
//! process alone and may be read at any moment; a child of a fork gets a file of its own.

use core::sync::atomic::{AtomicU64, Ordering};

/// First field of a report: the letters `CARATRT` and the version of this layout.
pub const RUNTIME_MAGIC: u64 = u64::from_be_bytes(*b"CARATRT\x01");

/// Ending of a report's file name, after the pid.
pub const RUNTIME_SUFFIX: &str = ".runtime";

/// The fields of a report, in their order in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Field {
    /// [`RUNTIME_MAGIC`], written last.
    Magic,
    /// The writer's process id.
    Pid,
    /// The malloc that was found: 1 glibc, 2 jemalloc, 3 mimalloc, 4 tcmalloc, 5 another.
    Malloc,
    /// Compactions that the runtime asked for.
    Compactions,
    /// Nanoseconds that they took in all.
    CompactionTime,
    /// 1 while every full GC compacts.
    AutoCompact,
    /// Preparations for a fork: 1 after it has happened, in the parent and in its children.
    Prepared,
    /// Nanoseconds that the preparation took.
    PreparationTime,
    /// Trims after a full GC.
    Trims,
    /// Nanoseconds that they took in all.
    TrimTime,
    /// Bytes of resident memory that they returned in all.
    TrimYield,
    /// Nanoseconds that the slowest one took.
    TrimSlowest,
    /// Nanoseconds that now must pass between two trims.
    TrimInterval,
    /// Full GCs after which no trim was due yet.
    TrimsSkipped,
    /// Free slots that sealing filled.
    SealedSlots,
    /// Bytes of malloc holes that sealing filled.
    SealedBytes,
    /// 1 in a child that allocates from an arena or heap of its own.
    OwnArena,
    /// Full GCs run in idle moments.
    PacedCollections,
    /// 1 where the kernel may merge this process's pages.
    Merging,
    /// 1 where huge pages are allowed again.
    HugePages,
    /// Settings that could not be put into effect.
    Failures,
}

/// Fields of a report.
pub const FIELDS: usize = Field::Failures as usize + 1;

/// The words of [`Field`], in its order.
pub const FIELD_NAMES: [&str; FIELDS] = [
    "magic",
    "pid",
    "malloc",
    "compactions",
    "compaction_time",
    "auto_compact",
    "prepared",
    "preparation_time",
    "trims",
    "trim_time",
    "trim_yield",
    "trim_slowest",
    "trim_interval",
    "trims_skipped",
    "sealed_slots",
    "sealed_bytes",
    "own_arena",
    "paced_collections",
    "merging",
    "huge_pages",
    "failures",
];

/// One process's report: 64 words, the rest of them zero.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RuntimeReport([AtomicU64; 64]);

const _: () = {
    assert!(size_of::<RuntimeReport>() == 512);
    assert!(FIELDS <= 64);
};

impl RuntimeReport {
    /// A report in which nothing has happened.
    pub const fn empty() -> Self {
        Self([const { AtomicU64::new(0) }; 64])
    }

    /// The value of a field.
    pub fn read(&self, field: Field) -> u64 {
        self.0[field as usize].load(Ordering::Relaxed)
    }

    /// Replaces the value of a field.
    pub fn write(&self, field: Field, value: u64) {
        self.0[field as usize].store(value, Ordering::Relaxed);
    }

    /// Adds to the value of a field.
    pub fn add(&self, field: Field, amount: u64) {
        self.0[field as usize].fetch_add(amount, Ordering::Relaxed);
    }

    /// The field of that number; `None` above the last.
    pub fn word(&self, number: usize) -> Option<&AtomicU64> {
        self.0.get(..FIELDS)?.get(number)
    }

    /// Copies every value of `other`, so that a child starts from what its parent did.
    pub fn copy_from(&self, other: &Self) {
        for (to, from) in self.0.iter().zip(&other.0) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// The fields of a report file by name; `None` where it is no report of this version.
pub fn parse_report(bytes: &[u8]) -> Option<[u64; FIELDS]> {
    let mut values = [0; FIELDS];
    for (value, word) in values.iter_mut().zip(bytes.chunks_exact(8)) {
        *value = u64::from_ne_bytes(word.try_into().ok()?);
    }
    (bytes.len() >= size_of::<RuntimeReport>() && values[0] == RUNTIME_MAGIC).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_back_what_was_written() {
        let report = RuntimeReport::empty();
        report.write(Field::Magic, RUNTIME_MAGIC);
        report.add(Field::Trims, 2);
        report.add(Field::Trims, 3);
        let bytes: Vec<u8> =
            report.0.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
        let values = parse_report(&bytes).expect("a report");
        assert_eq!(values[Field::Trims as usize], 5);
        assert_eq!(FIELD_NAMES[Field::Trims as usize], "trims");
        assert_eq!(FIELD_NAMES[Field::Failures as usize], "failures");
        assert_eq!(parse_report(&bytes[..100]), None);
        assert_eq!(parse_report(&[0; 512]), None);
    }
}
