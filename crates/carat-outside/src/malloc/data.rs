//! What a reading says about malloc: plain data.

use crate::malloc::jemalloc::JemallocCensus;
use serde::{Deserialize, Serialize};

/// Cells of one arena in the picture.
pub(super) const MAP_CELLS: u64 = 1024;

/// Chunks and their bytes. Bytes include the 8 bytes of header that each chunk has. A chunk may lie on pages that were never
/// touched, such as a stack that is mostly unused: those take address space and no memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkAmount {
    /// Number of chunks.
    pub chunks: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// Those of the bytes that are in memory.
    pub present: u64,
}

impl ChunkAmount {
    /// So many chunks and bytes, all of them in memory.
    pub const fn resident(chunks: u64, bytes: u64) -> Self {
        Self { chunks, bytes, present: bytes }
    }

    /// Counts one chunk of so many bytes, of which so many are in memory.
    pub const fn add(&mut self, bytes: u64, present: u64) {
        self.chunks = self.chunks.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.present = self.present.saturating_add(present);
    }

    /// Takes one chunk out again.
    pub(super) const fn remove(&mut self, bytes: u64, present: u64) {
        self.chunks = self.chunks.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.present = self.present.saturating_sub(present);
    }

    /// The sum of both.
    pub const fn plus(self, other: Self) -> Self {
        Self {
            chunks: self.chunks.saturating_add(other.chunks),
            bytes: self.bytes.saturating_add(other.bytes),
            present: self.present.saturating_add(other.present),
        }
    }
}

/// Chunks of one size, or of sizes from this one up to the next of the list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkSize {
    /// Bytes of a chunk, its header included; the smallest of a range.
    pub size: u64,
    /// The chunks.
    pub amount: ChunkAmount,
}

/// The memory of malloc at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MallocCensus {
    /// Of glibc the main arena first, then the others in the order of its own list; of jemalloc those with extents, by number.
    pub arenas: Vec<ArenaCensus>,
    /// Chunks with a mapping of their own.
    pub mapped: MappedChunks,
    /// Caches of threads that were found. With none, what they hold counts as in use.
    pub thread_caches: u64,
    /// How often an arena was read again because it changed meanwhile.
    pub readings_again: u64,
    /// Where this glibc keeps what.
    pub layout: MallocLayout,
    /// What jemalloc alone has; `None` for glibc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jemalloc: Option<JemallocCensus>,
}

/// Chunks that malloc maps one by one (`M_MMAP_THRESHOLD`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedChunks {
    /// The chunks that were found.
    pub amount: ChunkAmount,
    /// Bytes of their pages that are in memory.
    pub resident_bytes: u64,
    /// The bytes that glibc itself counts (`mp_.mmapped_mem`); `None` if its counter was not found.
    pub counted_bytes: Option<u64>,
}

/// One arena.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ArenaCensus {
    /// Whether it is the one in the program break.
    pub main: bool,
    /// Number of its heaps: contiguous stretches of memory; of jemalloc its extents that have memory.
    pub heaps: u64,
    /// Bytes that it has from the kernel, of glibc by its own count (`system_mem`): the sum of what follows up to
    /// `missing_bytes`.
    pub system_bytes: u64,
    /// Chunks in use, without those in fastbins and thread caches.
    pub in_use: ChunkAmount,
    /// Free chunks in bins; of jemalloc free regions of slabs.
    pub free: ChunkAmount,
    /// Freed chunks in fastbins, which malloc does not yet merge.
    pub fastbins: ChunkAmount,
    /// Freed chunks in the caches of threads.
    pub thread_cached: ChunkAmount,
    /// Bytes of the free chunk at the end.
    pub top_bytes: u64,
    /// Those of them that are in memory.
    pub top_present_bytes: u64,
    /// Unused extents whose pages jemalloc keeps for a while: dirty and muzzy ones.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub idle: ChunkAmount,
    /// Bytes of malloc's own headers at the start and end of heaps; of jemalloc its own regions, and what large regions
    /// leave of their pages, as far as they are in memory.
    pub header_bytes: u64,
    /// Bytes of the arena that could not be read chunk by chunk; everything else here leaves them out.
    pub missing_bytes: u64,
    /// Bytes of its pages that are in memory.
    pub resident_bytes: u64,
    /// Bytes that `malloc_trim(0)` would return from between chunks: whole resident pages inside free chunks, after fastbins
    /// are merged. Of jemalloc what a purge would return.
    pub trimmable_free_bytes: u64,
    /// Bytes that `malloc_trim(0)` would return from the top; 0 but for the main arena.
    pub trimmable_top_bytes: u64,
    /// Free chunks by size: those of bins in ranges of powers of two, free regions of slabs by class.
    pub free_by_size: Vec<ChunkSize>,
    /// Its resident pages by how full they are.
    pub occupancy: Occupancy,
    /// The arena from its lowest to its highest address, for a picture: the mean percentage of live bytes of the resident
    /// pages of each cell; at most 1,024 cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub map: Vec<u8>,
}

impl ArenaCensus {
    /// Bytes in memory that it holds and nobody uses: in bins or slabs, in fastbins, in caches of threads, at the top, and in
    /// unused extents.
    pub const fn free_bytes(&self) -> u64 {
        let freed = self.free.plus(self.fastbins).plus(self.thread_cached).plus(self.idle);
        freed.present.saturating_add(self.top_present_bytes)
    }
}

/// Resident pages by the share of their bytes that are in use: 0 to 9 %, 10 to 19 %, …, 90 to 99 %, 100 %.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Bytes of the pages.
    pub page_bytes: [u64; 11],
    /// Bytes in use on those pages, headers of chunks included.
    pub live_bytes: [u64; 11],
    /// Bytes of the pages of the first class on which nothing is in use.
    pub empty_bytes: u64,
}

impl Occupancy {
    /// Bytes of all pages.
    pub fn pages(&self) -> u64 {
        self.page_bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Bytes of pages that hold something but are used to less than a tenth: memory that a few chunks keep resident.
    pub const fn nearly_free(&self) -> u64 {
        self.page_bytes[0].saturating_sub(self.empty_bytes)
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = *self;
        for at in 0..sum.page_bytes.len() {
            sum.page_bytes[at] = sum.page_bytes[at].saturating_add(other.page_bytes[at]);
            sum.live_bytes[at] = sum.live_bytes[at].saturating_add(other.live_bytes[at]);
        }
        sum.empty_bytes = sum.empty_bytes.saturating_add(other.empty_bytes);
        sum
    }
}

/// Where this glibc keeps what. All of it was learned from the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MallocLayout {
    /// Offset of the bins in `struct malloc_state`.
    pub bins_at: u64,
    /// Number of fastbins; 0 in 2.43, which has none.
    pub fastbins: u64,
    /// Bytes of `struct heap_info`; `None` without another arena than the main one.
    pub heap_header: Option<u64>,
    /// Alignment of an arena's heaps; `None` without another arena than the main one.
    pub heap_alignment: Option<u64>,
}

impl MallocCensus {
    /// Sums over all arenas.
    pub fn total(&self) -> ArenaCensus {
        let mut sum = ArenaCensus::default();
        for arena in &self.arenas {
            add(&mut sum.heaps, arena.heaps);
            add(&mut sum.system_bytes, arena.system_bytes);
            add(&mut sum.top_bytes, arena.top_bytes);
            add(&mut sum.top_present_bytes, arena.top_present_bytes);
            add(&mut sum.header_bytes, arena.header_bytes);
            add(&mut sum.missing_bytes, arena.missing_bytes);
            add(&mut sum.resident_bytes, arena.resident_bytes);
            add(&mut sum.trimmable_free_bytes, arena.trimmable_free_bytes);
            add(&mut sum.trimmable_top_bytes, arena.trimmable_top_bytes);
            sum.in_use = sum.in_use.plus(arena.in_use);
            sum.free = sum.free.plus(arena.free);
            sum.fastbins = sum.fastbins.plus(arena.fastbins);
            sum.thread_cached = sum.thread_cached.plus(arena.thread_cached);
            sum.idle = sum.idle.plus(arena.idle);
            sum.occupancy = sum.occupancy.plus(&arena.occupancy);
            merge_sizes(&mut sum.free_by_size, &arena.free_by_size);
        }
        sum
    }

    /// Bytes that `malloc_trim(0)`, or a purge of jemalloc, would return to the kernel.
    pub fn trimmable_bytes(&self) -> u64 {
        let total = self.total();
        total.trimmable_free_bytes.saturating_add(total.trimmable_top_bytes)
    }

    /// Entries of the table of chunks at most.
    pub fn listed(&self) -> u64 {
        let blocks = self.jemalloc.as_ref().map_or(0, |own| own.base.stretches);
        let ends = self.total().heaps.max(self.arenas.len() as u64);
        self.chunks().saturating_add(ends).saturating_add(blocks)
    }

    /// Every chunk that was seen.
    pub fn chunks(&self) -> u64 {
        let total = self.total();
        let parts =
            [total.in_use, total.free, total.fastbins, total.thread_cached, self.mapped.amount];
        parts.iter().fold(0, |sum, part| sum.saturating_add(part.chunks))
    }
}

const fn is_nothing(amount: &ChunkAmount) -> bool {
    amount.chunks == 0 && amount.bytes == 0
}

/// The numbers come from the observed process, so a sum may not fit.
const fn add(sum: &mut u64, amount: u64) {
    *sum = sum.saturating_add(amount);
}

fn merge_sizes(into: &mut Vec<ChunkSize>, from: &[ChunkSize]) {
    for one in from {
        match into.binary_search_by_key(&one.size, |have| have.size) {
            Ok(at) => into[at].amount = into[at].amount.plus(one.amount),
            Err(at) => into.insert(at, *one),
        }
    }
}

/// Why malloc's memory is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoMalloc {
    /// The C library is musl.
    #[error("its C library is musl, whose malloc keeps no headers that could be read from outside")]
    Musl,
    /// It was built for another kind of processor: an emulator runs it, whose own data lie among the program's.
    #[error(
        "{file} was built for another kind of processor than carat, so its malloc is not looked for"
    )]
    OtherMachine {
        /// Name of the library that tells.
        file: String,
    },
    /// Another allocator does the work.
    #[error(
        "its allocator is {name}, which is not walked: only glibc's malloc and jemalloc are; at most {} MB in memory are its own",
        present.div_ceil(1_000_000)
    )]
    Other {
        /// Its name, or that of its file.
        name: String,
        /// Bytes in memory of the mappings that can be its own.
        present: u64,
    },
    /// jemalloc's tree was not found.
    #[error(
        "its allocator is jemalloc ({file}), whose data were not found: the best place for them has {votes} votes, and \
         {against} against it"
    )]
    NoTree {
        /// Name of the file that contains it.
        file: String,
        /// Votes for the best place.
        votes: u64,
        /// Votes against it.
        against: u64,
    },
    /// jemalloc's huge-page allocator is on.
    #[error(
        "its jemalloc manages huge pages itself (HPA), which keeps unused pages where they are not known"
    )]
    HugePageAllocator,
    /// What jemalloc keeps contradicts itself.
    #[error("what its jemalloc keeps contradicts itself: {wrong} of {all} {what}")]
    Contradictory {
        /// What was examined.
        what: &'static str,
        /// How many contradict.
        wrong: u64,
        /// Of how many.
        all: u64,
    },
    /// No `main_arena`.
    #[error("glibc's main arena was not found in the data of its C library")]
    NoMainArena,
    /// The list of arenas is broken.
    #[error("glibc's list of arenas does not lead back to the main arena")]
    OpenRing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_the_sum_of_all_arenas_and_merges_sizes() {
        let size =
            |size, chunks| ChunkSize { size, amount: ChunkAmount::resident(chunks, size * chunks) };
        let arena = |sizes: &[ChunkSize]| ArenaCensus {
            system_bytes: 100,
            in_use: ChunkAmount::resident(2, 64),
            trimmable_free_bytes: 4096,
            free_by_size: sizes.to_vec(),
            ..ArenaCensus::default()
        };
        let arenas = vec![arena(&[size(32, 1), size(128, 2)]), arena(&[size(64, 1), size(128, 5)])];
        let mut census = MallocCensus { arenas, ..MallocCensus::default() };
        census.arenas[0].trimmable_top_bytes = 8192;
        let total = census.total();
        assert_eq!(total.system_bytes, 200);
        assert_eq!(total.in_use, ChunkAmount::resident(4, 128));
        assert_eq!(total.free_by_size, [size(32, 1), size(64, 1), size(128, 7)]);
        assert_eq!(census.trimmable_bytes(), 4096 + 4096 + 8192);
        assert_eq!(census.chunks(), 4);
    }
}
