//! How much of our own memory a table of chunks and a search in it take.

use crate::malloc::{ChunkTable, MallocCensus};
use crate::need::{MemoryNeed, NeedPart};
use crate::owners::search::ChunkSearch;
use crate::reach::reach_bytes;

/// The part by which chunks may become more between two readings: one of so many.
const GROWTH: u64 = 50;

/// The chunks that are to be kept, and the slots of the heap if what is reached is to be marked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChunkLoad {
    /// Number of chunks.
    pub chunks: u64,
    /// Bytes of the chunks.
    pub bytes: u64,
    /// Slots of the heap that are marked.
    pub slots: u64,
}

impl ChunkLoad {
    /// What a second reading will find, after one that only counted; the process may allocate meanwhile.
    pub fn of(census: &MallocCensus, slots: u64) -> Self {
        let chunks = census.listed();
        let bytes = census.total().system_bytes.saturating_add(census.mapped.amount.bytes);
        let (chunks, bytes) = (chunks + chunks / GROWTH, bytes.saturating_add(bytes / GROWTH));
        Self { chunks, bytes, slots }
    }

    /// What the table of chunks and a search in it take.
    pub fn need(self, process: u32) -> MemoryNeed {
        let search = ChunkSearch::bytes(self.chunks) + reach_bytes(self.slots, self.chunks);
        let bytes = self.table().saturating_add(search);
        MemoryNeed { process, part: NeedPart::Chunks, bytes }
    }

    /// What the table alone takes.
    pub(crate) fn table(self) -> u64 {
        let chunks = self.chunks.saturating_mul(ChunkTable::CHUNK_BYTES);
        chunks.saturating_add(ChunkTable::index_bytes(self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_takes_about_twenty_bytes() {
        let load = ChunkLoad { chunks: 10_000_000, bytes: 1 << 30, slots: 0 };
        let need = load.need(7).bytes;
        assert!((200_000_000..230_000_000).contains(&need), "{need}");
    }
}
