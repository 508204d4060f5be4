//! What a reading says about jemalloc alone: plain data.

use super::decay::DecayTimes;
use serde::{Deserialize, Serialize};

/// The memory of jemalloc at one moment, in its own terms. `stats.…` are the names of the same figures in `mallctl`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JemallocCensus {
    /// The jemallocs of the process; nearly always one.
    pub copies: Vec<JemallocCopy>,
    /// Bytes of regions in use, those in caches of threads and jemalloc's own included (`stats.allocated`).
    pub allocated_bytes: u64,
    /// Bytes of extents in use (`stats.active`).
    pub active_bytes: u64,
    /// Bytes of slabs.
    pub slab_bytes: u64,
    /// Unused extents whose pages were not returned (`pdirty`).
    pub dirty: PageAmount,
    /// Unused extents whose pages the kernel may take (`pmuzzy`).
    pub muzzy: PageAmount,
    /// Unused address space (`stats.retained`).
    pub retained: PageAmount,
    /// Memory of its own: tables, records, arenas.
    pub base: PageAmount,
    /// Arenas with extents, in the order of [`crate::malloc::MallocCensus::arenas`].
    pub arenas: Vec<JemallocArena>,
    /// Slabs by the size of their regions, the smallest first.
    pub slabs: Vec<SlabClass>,
    /// Regions that have an extent of their own, by class.
    pub large: Vec<LargeClass>,
    /// The decay times in effect, each with the number of its arenas; empty if they were not found.
    pub decay: Vec<(DecayTimes, u64)>,
    /// Whether a thread returns unused pages in the background; `None` if the threads of the process are unknown.
    pub background_thread: Option<bool>,
    /// Whether the process was forked and has executed no program since, in which case jemalloc has ended its background thread;
    /// `None` if that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked: Option<bool>,
    /// Entries of thread caches that are no region in use, as they were taken out or freed since.
    pub stale_cached: u64,
    /// Slabs whose bitmap contradicted their count even when they were read again.
    pub torn_slabs: u64,
    /// Bytes in memory of the regions that are pages of Ruby's heap (Ruby 2.7 and 3.0).
    pub heap_page_bytes: u64,
    /// When it was read, in nanoseconds of the machine's clock; `None` if the clock was not read.
    pub read_at_ns: Option<u64>,
}

impl JemallocCensus {
    /// For how long no thread has looked for pages of an arena to return, in milliseconds.
    pub fn quiet_ms(&self, arena: &JemallocArena) -> Option<u64> {
        Some(self.read_at_ns?.checked_sub(arena.looked_at_ns?)? / 1_000_000)
    }
}

/// One jemalloc in a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JemallocCopy {
    /// Name of the file that contains it.
    pub file: String,
    /// The release that its data have the form of: `5.2` or `5.3`.
    pub form: String,
    /// Bytes of its pages.
    pub page_bytes: u64,
    /// Bits of an address that it distinguishes.
    pub address_bits: u32,
    /// Votes for the place of its data and against it.
    pub votes: (u64, u64),
}

/// Pages: extents, or blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageAmount {
    /// Number of extents or blocks.
    pub stretches: u64,
    pub bytes: u64,
    /// Those of the bytes that are in memory.
    pub present: u64,
}

impl PageAmount {
    /// Counts one.
    pub(super) const fn add(&mut self, bytes: u64, present: u64) {
        self.stretches = self.stretches.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.present = self.present.saturating_add(present);
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            stretches: self.stretches.saturating_add(other.stretches),
            bytes: self.bytes.saturating_add(other.bytes),
            present: self.present.saturating_add(other.present),
        }
    }
}

/// One arena in jemalloc's terms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JemallocArena {
    /// Place of its jemalloc among [`JemallocCensus::copies`].
    pub copy: usize,
    /// Its number there.
    pub number: u64,
    /// Bytes of its regions in use.
    pub allocated_bytes: u64,
    /// Bytes of its extents in use.
    pub active_bytes: u64,
    /// Its dirty extents.
    pub dirty: PageAmount,
    /// Its muzzy extents.
    pub muzzy: PageAmount,
    /// Its retained extents.
    pub retained: PageAmount,
    /// Its decay times; `None` if they were not found.
    pub decay: Option<DecayTimes>,
    /// When a thread that used it last looked for pages to return, in nanoseconds of the machine's clock
    /// (`CLOCK_MONOTONIC`).
    pub looked_at_ns: Option<u64>,
}

/// Slabs with regions of one size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlabClass {
    /// Bytes of a region.
    pub size: u64,
    /// Number of slabs.
    pub slabs: u64,
    pub bytes: u64,
    /// Those of the bytes that are in memory.
    pub present: u64,
    /// Regions in use, without those in caches.
    pub in_use: u64,
    /// Regions in caches of threads.
    pub cached: u64,
    /// Free regions.
    pub free: u64,
}

impl SlabClass {
    /// Bytes in use of the slabs: the share of them says how fragmented the class is.
    pub const fn used_bytes(&self) -> u64 {
        self.in_use.saturating_mul(self.size)
    }
}

/// Regions of one class with an extent of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeClass {
    /// Bytes of the class; since 5.3.1 a region can be smaller.
    pub size: u64,
    /// Number of regions, those in caches included.
    pub regions: u64,
    pub bytes: u64,
}
