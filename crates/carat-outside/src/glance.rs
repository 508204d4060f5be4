//! The few facts about a running Ruby that take no search: its version, the malloc that serves it, and its arenas.

use crate::canary::{self, CanaryError};
use crate::elf::RubyAnchors;
use crate::live::{LiveMemory, Pacing};
use crate::memory::{Memory, MemoryRegion};
use crate::refusal::{Refused, refusal};
use crate::serving::{ServingMalloc, serving_malloc};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

/// glibc aligns the heaps of its further arenas to this (malloc/arena.c, `HEAP_MAX_SIZE` on 64 bits).
const HEAP: u64 = 64 << 20;
/// Further arenas that are counted. glibc makes at most 8 per core.
const ARENAS: usize = 4096;
/// Bytes of `struct heap_info` in every version of glibc: the arena follows it.
const HEAP_INFO: RangeInclusive<u64> = 0x20..=0x40;
/// A glance reads a few hundred pages, in far less.
const LONGEST: Duration = Duration::from_secs(2);

/// What one glance tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    /// The version by Ruby's own text, for example `3.3.8`.
    pub ruby: String,
    /// The malloc that Ruby's calls reach; `None` if it cannot be told.
    pub serving: Option<ServingMalloc>,
    /// glibc's arenas, the main one included; `None` where another malloc serves or one of them cannot be read.
    pub arenas: Option<u32>,
}

/// Looks at processes. Without their page maps any of them may share pages, as one that was forked does, so this exists only
/// where reading does not un-share them.
#[derive(Debug)]
pub struct Glancer<'a> {
    /// The root of the process file system.
    proc: &'a Path,
}

impl<'a> Glancer<'a> {
    /// Tests this kernel, once for all processes.
    ///
    /// # Errors
    /// If reading would make the observed processes larger.
    pub fn new(proc: &'a Path) -> Result<Self, CanaryError> {
        canary::test(proc).map(|()| Self { proc })
    }

    /// Looks at a process.
    ///
    /// # Errors
    /// If its memory cannot be read, or it is no Ruby.
    pub fn look(&self, process: u32) -> Result<Glance, Refused> {
        let pacing = Pacing { longest: Some(LONGEST), ..Pacing::of(Duration::from_micros(200)) };
        let opened = LiveMemory::open_for_few_reads(self.proc, process, pacing);
        let memory = opened.map_err(|error| refusal(self.proc, process, error))?;
        let anchors = RubyAnchors::find(&memory).ok_or(Refused::NotRuby(process))?;
        let serving = serving_malloc(&memory);
        let is_glibc =
            serving.as_ref().is_some_and(|serving| serving.allocator.as_deref() == Some("glibc"));
        let arenas = is_glibc.then(|| arenas(&memory)).flatten();
        match memory.still_there(anchors.symbol("ruby_version").unwrap_or(0)) {
            true => Ok(Glance { ruby: anchors.version_text, serving, arenas }),
            false => Err(Refused::Ended(process)),
        }
    }
}

/// The main arena and those whose heaps are mapped. A heap begins with the address of its arena (`struct heap_info`,
/// malloc/arena.c), which lies in the first of its heaps.
fn arenas(memory: &dyn Memory) -> Option<u32> {
    let mut found = BTreeSet::new();
    for start in heap_starts(memory.regions()) {
        let arena = memory.word(start)?;
        let first = arena / HEAP * HEAP;
        // Other memory can lie at such an address.
        if HEAP_INFO.contains(&(arena - first)) && memory.word(first) == Some(arena) {
            found.insert(arena);
        }
        if found.len() == ARENAS {
            return None;
        }
    }
    u32::try_from(found.len() + 1).ok()
}

/// Writable anonymous mappings that begin at a multiple of a heap's size.
fn heap_starts(regions: &[MemoryRegion]) -> impl Iterator<Item = u64> {
    let aligned = regions.iter().filter(|region| region.start.is_multiple_of(HEAP));
    let heaps = aligned.filter(|region| {
        region.anonymous() && region.private && region.readable && region.writable
    });
    heaps.map(|region| region.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;

    #[test]
    fn every_arena_counts_once_however_many_heaps_it_has_and_other_memory_does_not_count() {
        let mut memory = FakeMemory::default();
        let at = |number: u64| 0x7f00_0000_0000 / HEAP * HEAP + number * HEAP;
        let mut heap = |number: u64, arena: u64| {
            memory.map_anonymous(at(number), at(number) + 4096);
            memory.write_word(at(number), arena);
        };
        heap(0, at(0) + 0x30);
        // Its second heap.
        heap(2, at(0) + 0x30);
        heap(4, at(4) + 0x20);
        // A block of malloc that begins there by chance.
        heap(6, 0);
        heap(8, at(9) + 0x30);
        heap(10, u64::MAX);
        assert_eq!(arenas(&memory), Some(3));
    }
}
