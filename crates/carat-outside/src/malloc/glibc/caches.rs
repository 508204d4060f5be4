//! Freed chunks that look as if they were in use: those in fastbins and in the caches of threads.
//!
//! Since 2.32 their links are stored as `link ^ (place >> 12)` (`PROTECT_PTR`, malloc/malloc.c). Both forms are tried; the
//! one that leads to a chunk of the right size is right.

use crate::bytes::word_in;
use crate::hash::{AddressMap, AddressSet};
use crate::malloc::glibc::ring::ArenaRing;
use crate::malloc::glibc::walk::size_of_header;
use crate::malloc::table::{Chunk, ChunkState, ChunkTable};
use crate::memory::Memory;

/// Chunks in fastbins and caches that are followed, in a whole process; those in caches twice.
const CACHED: usize = 4_000_000;
/// Links that are followed, in a whole process.
const LINKS: u64 = 8_000_000;
/// Bytes of the smallest bin's chunks, and from one bin to the next.
const FIRST_SIZE: u64 = 32;
const STEP: u64 = 16;
/// Bins of a thread's cache whose chunks have one size each. 2.42 has further ones, for ranges of sizes.
const EXACT_BINS: u64 = 64;
/// Bytes of the largest chunk in an exact bin.
const EXACT_LIMIT: u64 = FIRST_SIZE + STEP * (EXACT_BINS - 1);

/// How `struct tcache_perthread_struct` is laid out: counts, then the heads of the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CacheShape {
    /// Bytes of the chunk that holds it.
    chunk: u64,
    /// Number of lists.
    bins: u64,
    /// Bytes of the counts.
    counts: u64,
}

/// Counts of one byte (2.29 and earlier), of two (2.30), and of two with 12 further bins (2.42).
const SHAPES: [CacheShape; 4] = [
    CacheShape { chunk: 0x250, bins: 64, counts: 64 },
    CacheShape { chunk: 0x290, bins: 64, counts: 128 },
    CacheShape { chunk: 0x300, bins: 76, counts: 152 },
    CacheShape { chunk: 0x310, bins: 76, counts: 152 },
];

/// Whether a chunk of this size may hold the cache of a thread.
pub(super) fn may_be_cache(size: u64) -> bool {
    SHAPES.iter().any(|shape| shape.chunk == size)
}

/// A link of a list.
enum Link {
    End,
    Next(u64),
    Broken,
}

/// Follows lists of freed chunks, with a limit on the work in total.
pub(super) struct ListReader<'m> {
    memory: &'m dyn Memory,
    /// Where chunks can be: the spans of all arenas, by address.
    places: Vec<(u64, u64)>,
    links: u64,
    found: usize,
}

impl<'m> ListReader<'m> {
    /// `places` are the stretches in which chunks lie.
    pub(super) fn new(memory: &'m dyn Memory, mut places: Vec<(u64, u64)>) -> Self {
        places.sort_unstable();
        Self { memory, places, links: 0, found: 0 }
    }

    /// The size of the chunk at an address, if one can be there.
    fn size_at(&self, chunk: u64) -> Option<u64> {
        let place = self.places.partition_point(|place| place.1 <= chunk);
        self.places.get(place).filter(|place| chunk >= place.0 && chunk.is_multiple_of(16))?;
        self.memory.word_at(chunk, 8).map(size_of_header)
    }

    /// Reads a link that is stored at `place`; links point `ahead` bytes behind the start of a chunk.
    fn link(&mut self, place: u64, ahead: u64, fits: fn(u64, u64) -> bool, size: u64) -> Link {
        self.links += 1;
        // Lists in motion can lead anywhere, also in circles through the whole heap.
        if self.links > LINKS || self.found > CACHED {
            return Link::Broken;
        }
        let Some(stored) = self.memory.word(place) else { return Link::Broken };
        let plain = stored ^ (place >> 12);
        if stored == 0 || plain == 0 {
            return Link::End;
        }
        // The protected form first: it is the one of every glibc since 2.32.
        for target in [plain, stored] {
            let chunk = target.checked_sub(ahead);
            let found = chunk.and_then(|chunk| self.size_at(chunk));
            if found.is_some_and(|found| fits(found, size)) {
                return Link::Next(target);
            }
        }
        Link::Broken
    }

    /// The chunks in the fastbins of an arena. A list that changes while it is read ends early.
    pub(super) fn fastbins(&mut self, ring: &ArenaRing, arena: u64) -> AddressSet {
        let mut found = AddressSet::default();
        for bin in 0..ring.fastbins() {
            let size = FIRST_SIZE + bin * STEP;
            // The heads themselves are not protected, only the links between chunks.
            let head = self.memory.word_at(arena, 16 + bin * 8).filter(|head| *head != 0);
            let mut next = head.filter(|head| self.size_at(*head) == Some(size));
            while let Some(chunk) = next {
                if !found.insert(chunk) {
                    break;
                }
                self.found += 1;
                let place = chunk.saturating_add(16);
                next = match self.link(place, 0, |found, size| found == size, size) {
                    Link::Next(chunk) => Some(chunk),
                    Link::End | Link::Broken => None,
                };
            }
        }
        found
    }

    /// The caches of threads among chunks that may hold one.
    ///
    /// Every chunk of a cache has a key: from 2.29 on the address of the cache's struct, and from 2.34 on a random number that all
    /// caches of the process have (`tcache_key`, malloc/malloc.c). Other memory that looks like a cache has no such key.
    pub(super) fn caches(&mut self, candidates: &[Chunk]) -> Vec<ThreadCache> {
        let mut chunks: AddressMap<usize> = AddressMap::default();
        for cache in candidates.iter().filter_map(|chunk| self.cache(chunk, None)) {
            *chunks.entry(cache.key).or_default() += cache.chunks.len();
        }
        // The number is not known, but most cached chunks have it.
        let common = chunks.into_iter().max_by_key(|(key, chunks)| (*chunks, *key));
        let keys = |chunk: &Chunk| [Some(chunk.user()), common.map(|(key, _)| key)];
        let cache =
            |chunk| keys(chunk).into_iter().flatten().find_map(|key| self.cache(chunk, Some(key)));
        candidates.iter().filter_map(cache).collect()
    }

    /// The cache that a chunk may hold; `None` if it holds none, or none with this key.
    fn cache(&mut self, chunk: &Chunk, key: Option<u64>) -> Option<ThreadCache> {
        let shapes = SHAPES.iter().filter(|shape| shape.chunk == chunk.size);
        shapes.copied().find_map(|shape| self.cache_of(chunk.user(), shape, key))
    }

    fn cache_of(&mut self, user: u64, shape: CacheShape, key: Option<u64>) -> Option<ThreadCache> {
        let heads_at = user.checked_add(shape.counts)?;
        let bytes = self.memory.copy(heads_at, shape.bins * 8)?;
        let heads = bytes.chunks_exact(8).map(|word| word_in(word, 0).unwrap_or(0));
        let heads: Vec<u64> = heads.collect();
        // Chunks begin at a multiple of 16, so other memory of the size of a cache is told at once.
        if heads.iter().any(|head| !head.is_multiple_of(16)) || heads.iter().all(|head| *head == 0)
        {
            return None;
        }
        let mut list = CacheList { key, ..CacheList::default() };
        let (mut lists, mut broken) = (0, 0);
        for (bin, head) in (0..).zip(heads).filter(|(_, head)| *head != 0) {
            lists += 1;
            broken += u32::from(self.cache_bin(bin, head, &mut list).is_none());
        }
        // The thread may use a list while it is read. Its sound part counts; a known key proves that it is one.
        let is_cache = !list.chunks.is_empty() && (key.is_some() || broken * 4 <= lists);
        Some(ThreadCache { key: list.key.filter(|_| is_cache)?, chunks: list.chunks })
    }

    fn cache_bin(&mut self, bin: u64, head: u64, list: &mut CacheList) -> Option<()> {
        let (size, fits): (u64, fn(u64, u64) -> bool) = match bin < EXACT_BINS {
            true => (FIRST_SIZE + bin * STEP, |found, size| found == size),
            false => (EXACT_LIMIT, |found, limit| found > limit),
        };
        let mut next = head;
        loop {
            let chunk = next.checked_sub(16)?;
            let found = self.size_at(chunk).filter(|found| fits(*found, size))?;
            // Every cached chunk has the same key in its second word (`e->key`).
            let key = self.memory.word_at(next, 8).filter(|key| *key != 0)?;
            if *list.key.get_or_insert(key) != key || !list.seen.insert(chunk) {
                return None;
            }
            list.chunks.push((chunk, found));
            self.found += 1;
            match self.link(next, 16, fits, size) {
                Link::Next(user) => next = user,
                Link::End => return Some(()),
                Link::Broken => return None,
            }
        }
    }
}

/// The cache of a thread.
pub(super) struct ThreadCache {
    /// What all its chunks have in their second word.
    key: u64,
    /// The chunks with their sizes.
    pub(super) chunks: Vec<(u64, u64)>,
}

/// The chunks of one cache.
#[derive(Default)]
struct CacheList {
    key: Option<u64>,
    seen: AddressSet,
    chunks: Vec<(u64, u64)>,
}

/// Marks chunks of the table as cached.
pub(super) fn mark_cached(table: &mut ChunkTable, cached: &[(u64, u64)]) {
    for (address, size) in cached {
        table.mark(*address, *size, ChunkState::Tcache);
    }
}
