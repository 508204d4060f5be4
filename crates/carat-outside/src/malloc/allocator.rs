//! What every allocator's reader does.
//!
//! Who holds chunks, what the roots reach, and why pages are private is found out from [`MallocReading`] alone, so that those
//! parts know no allocator.

use crate::malloc::data::{MallocCensus, NoMalloc};
use crate::malloc::table::ChunkTable;
use crate::memory::Memory;

/// What to read of malloc.
#[derive(Clone, Copy)]
pub struct MallocRequest<'a> {
    /// Whether an address lies in a page of Ruby's heap.
    pub is_heap_page: &'a dyn Fn(u64) -> bool,
    /// Whether the table of all chunks is wanted, which requires [`ChunkTable::CHUNK_BYTES`] for each.
    pub keep: bool,
}

/// Malloc's memory, and its chunks if they were to be kept.
#[derive(Debug, Clone, Default)]
pub struct MallocReading {
    /// What was counted.
    pub census: MallocCensus,
    /// Every chunk; empty unless they were to be kept.
    pub chunks: ChunkTable,
    /// Where its memory lies, by address: chunks, free memory, and what it reserved. Those that touch are one stretch.
    pub(super) stretches: Vec<(u64, u64)>,
}

impl MallocReading {
    /// Whether an address lies in malloc's memory.
    pub fn covers(&self, address: u64) -> bool {
        covers(&self.stretches, address)
    }
}

/// Whether an address lies in one of these stretches, which are in the order of addresses.
pub(super) fn covers(stretches: &[(u64, u64)], address: u64) -> bool {
    let at = stretches.partition_point(|stretch| stretch.1 <= address);
    stretches.get(at).is_some_and(|stretch| address >= stretch.0)
}

/// An allocator whose chunks can be listed from outside.
pub(super) trait Allocator {
    /// Counts its memory, and lists its chunks with address, size and state.
    ///
    /// # Errors
    /// If its data were not found, or contradict each other.
    fn read(
        &self,
        memory: &mut dyn Memory,
        request: &MallocRequest<'_>,
    ) -> Result<MallocReading, NoMalloc>;
}
