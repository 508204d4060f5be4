//! The stretches of memory that an arena's chunks lie in.

use crate::bytes::{align_down, align_up};
use crate::malloc::glibc::ring::ArenaRing;
use crate::memory::Memory;
use std::collections::HashSet;

/// Alignments of heaps, the usual one first: `HEAP_MAX_SIZE` is 64 MiB, and four huge pages with `glibc.malloc.hugetlb`.
const ALIGNMENTS: [u64; 5] = [64 << 20, 8 << 20, 4 << 30, 128 << 20, 256 << 10];
/// Bytes of `struct heap_info` at most (malloc/arena.c).
const HEAP_HEADER: u64 = 256;
/// Heaps of one arena that are followed.
const HEAPS: usize = 1 << 14;

/// One stretch of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkSpan {
    /// First address, headers included.
    pub(super) start: u64,
    /// First address past it.
    pub(super) end: u64,
    /// Address of the first chunk, as expected.
    pub(super) first: u64,
    /// Whether it belongs to the main arena.
    pub(super) of_main: bool,
    /// Whether the arena's top chunk is its last one.
    pub(super) has_top: bool,
}

impl ChunkSpan {
    const fn of_main(start: u64, end: u64) -> Self {
        Self { start, end, first: start, of_main: true, has_top: false }
    }
}

/// An arena and its stretches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ArenaSpans {
    /// By address of reading: for the main arena the program break, else the heaps.
    pub(super) spans: Vec<ChunkSpan>,
    /// Bytes of a heap's header.
    pub(super) heap_header: Option<u64>,
    /// Alignment of the heaps.
    pub(super) alignment: Option<u64>,
}

/// The program break. Its mapping can be split in several.
fn break_spans(memory: &dyn Memory) -> Vec<ChunkSpan> {
    let mut spans: Vec<ChunkSpan> = Vec::new();
    for region in memory.regions().iter().filter(|region| region.path == "[heap]") {
        match spans.last_mut() {
            Some(last) if last.end == region.start => last.end = region.end,
            _ => spans.push(ChunkSpan::of_main(region.start, region.end)),
        }
    }
    spans
}

/// The stretches of the main arena.
pub(super) fn main_spans(memory: &dyn Memory, top: u64) -> ArenaSpans {
    let mut spans = break_spans(memory);
    // Where the break cannot grow, malloc continues the main arena in a mapping (sysmalloc, malloc/malloc.c). Only the one
    // with the top chunk can be found.
    if !spans.iter().any(|span| top >= span.start && top < span.end)
        && let Some(region) = memory.region(top)
        && region.writable
        && region.anonymous()
        && let Some(size) = memory.word_at(top, 8).map(|header| header & !7)
        && size <= region.end - top
    {
        spans.push(ChunkSpan::of_main(region.start, top + size));
    }
    if let Some(last) = spans.iter_mut().rev().find(|span| top >= span.start) {
        last.has_top = true;
    }
    ArenaSpans { spans, ..ArenaSpans::default() }
}

/// Where a span ends now: its arena may have grown or shrunk.
pub(super) fn end_now(memory: &dyn Memory, span: &ChunkSpan) -> u64 {
    if span.of_main {
        let spans = break_spans(memory);
        return spans.iter().find(|now| now.start == span.start).map_or(span.end, |now| now.end);
    }
    // The second and third words of a heap are `prev` and its size.
    let size = memory.word_at(span.start, 16).filter(|size| *size <= ALIGNMENTS[2]);
    size.map_or(span.end, |size| span.start.saturating_add(size))
}

/// The heaps of another arena: from the one with the top chunk along `prev` to the one with the arena itself.
/// `taken` has the heaps of other arenas, so that no memory is walked twice.
pub(super) fn heap_spans(
    memory: &dyn Memory,
    ring: &ArenaRing,
    arena: u64,
    top: u64,
    taken: &HashSet<u64>,
) -> ArenaSpans {
    let Some(alignment) = ALIGNMENTS.into_iter().find(|alignment| {
        let own = align_down(arena, *alignment);
        // The arena follows the header of its first heap, whose first word points at the arena.
        arena - own < HEAP_HEADER
            && memory.word(own) == Some(arena)
            && memory.word(align_down(top, *alignment)) == Some(arena)
    }) else {
        return ArenaSpans::default();
    };
    let own = align_down(arena, alignment);
    let header = arena - own;
    let mut spans = Vec::new();
    let mut seen = HashSet::new();
    let mut heap = align_down(top, alignment);
    while spans.len() < HEAPS && !taken.contains(&heap) && seen.insert(heap) {
        // A heap that claims more than its alignment is no heap any more: its memory changed while it was read.
        let Some(size) = memory.word_at(heap, 16).filter(|size| *size <= alignment) else { break };
        let first = match heap == own {
            true => align_up(arena.saturating_add(ring.state_bytes()), 16),
            false => align_up(heap.saturating_add(header), 16),
        };
        let end = heap.saturating_add(size);
        let has_top = spans.is_empty();
        spans.push(ChunkSpan { start: heap, end, first, of_main: false, has_top });
        if heap == own {
            break;
        }
        let Some(next) = memory.word_at(heap, 8) else { break };
        if !next.is_multiple_of(alignment) || memory.word(next) != Some(arena) {
            break;
        }
        heap = next;
    }
    ArenaSpans { spans, heap_header: Some(header), alignment: Some(alignment) }
}
