//! The memory that is neither a heap page nor a chunk: data of libraries, stacks, and the rest.

use crate::heap::Heap;
use crate::malloc::{Chunk, ChunkForm, ChunkState, ChunkTable};
use crate::memory::{Memory, MemoryRegion, PAGE};
use crate::owners::threads::{ThreadPlace, ThreadRegions};
use crate::printable::printable;
use carat_ruby::version::TRANSIENT_HEAP;
use std::ops::Range;

/// Zeroed data of a library, which has no name in `maps`, is at most this large.
const LIBRARY_TAIL: u64 = 8 << 20;

/// Bytes of the transient heap's mapping (transient_heap.c: 32 MiB), with malloc's alignment.
const TRANSIENT_BYTES: Range<u64> = 32 << 20..35 << 20;
/// Alignment of the transient heap (`TRANSIENT_HEAP_BLOCK_SIZE`).
const TRANSIENT_ALIGNMENT: u64 = 32 << 10;

/// What a mapping belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GroundKind {
    /// The library, or the program, with this file name.
    Library(String),
    /// The thread at this place of the list.
    Thread(u32),
    /// Anything else.
    Other,
}

/// Present pages of one mapping that are neither heap pages nor chunks.
#[derive(Debug, Clone)]
pub(crate) struct GroundPages {
    pub(crate) kind: GroundKind,
    /// Ranges of addresses, multiples of eight.
    pub(crate) ranges: Vec<(u64, u64)>,
}

/// Everything that is searched for pointers into chunks, and is no chunk and no slot itself.
pub(crate) fn find_ground(
    memory: &dyn Memory,
    heap: &Heap,
    chunks: &ChunkTable,
    threads: &[ThreadPlace],
) -> Vec<GroundPages> {
    // Whole pages: a page of which a part is a chunk is read with the chunk.
    let outside = |page: u64| heap.page_at(page).is_none() && !chunks.touches_page(page);
    let stacks = ThreadRegions::find(memory, threads, &outside);
    let transient = transient_ranges(memory, heap, chunks);
    let mut found = Vec::new();
    let mut before: Option<(u64, String)> = None;
    for region in memory.regions().iter().filter(|region| region.searched()) {
        let kind = kind_of(region, &stacks, before.as_ref());
        if let GroundKind::Library(name) = &kind
            && region.inode != 0
        {
            before = Some((region.end, name.clone()));
        }
        // A program break with chunks holds nothing else, and the transient heap contents of objects, which are no root.
        let is_break = region.path == "[heap]" && chunks.begins_within(region.start, region.end);
        if is_break || transient.contains(&(region.start, region.end)) {
            continue;
        }
        // Below its stack pointer a stack has only what earlier calls left.
        let from = stacks.live_from(region);
        let ranges = page_ranges(region, from, &outside);
        if !ranges.is_empty() {
            found.push(GroundPages { kind, ranges });
        }
    }
    found
}

fn kind_of(
    region: &MemoryRegion,
    stacks: &ThreadRegions,
    before: Option<&(u64, String)>,
) -> GroundKind {
    if region.inode != 0 && !region.anonymous() {
        return GroundKind::Library(printable(region.file_name()));
    }
    if let Some(thread) = stacks.thread_of(region) {
        return GroundKind::Thread(thread);
    }
    match before {
        // The kernel maps a library's zeroed data right behind its file, without a name.
        Some((end, name)) if *end == region.start && region.size() < LIBRARY_TAIL => {
            GroundKind::Library(name.clone())
        }
        _ => GroundKind::Other,
    }
}

fn page_ranges(region: &MemoryRegion, from: u64, outside: &dyn Fn(u64) -> bool) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (first, count) in region.pages.runs(u64::MAX) {
        for page in (first..first.saturating_add(count)).map(|page| region.start + page * PAGE) {
            if page + PAGE <= from || !outside(page) {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.1 == page => last.1 += PAGE,
                _ => ranges.push((page.max(from), page + PAGE)),
            }
        }
    }
    ranges
}

/// Whether a chunk has the size of the transient heap, and its alignment where chunks have no header before it.
fn may_be_transient(chunk: &Chunk) -> bool {
    let is_aligned = match chunk.form {
        ChunkForm::Headed => chunk.state == ChunkState::Mapped,
        ChunkForm::Bare => chunk.held() && chunk.address.is_multiple_of(TRANSIENT_ALIGNMENT),
    };
    TRANSIENT_BYTES.contains(&chunk.size) && is_aligned
}

/// Where the transient heap is (Ruby 2.7 to 3.2): contents of young objects, in one block of 32 MiB. It is a mapped chunk of
/// malloc, or a mapping of its own.
pub(crate) fn transient_ranges(
    memory: &dyn Memory,
    heap: &Heap,
    chunks: &ChunkTable,
) -> Vec<(u64, u64)> {
    if !TRANSIENT_HEAP.contains(heap.version()) {
        return Vec::new();
    }
    let mapped = chunks.iter().filter(may_be_transient);
    let regions = memory.regions().iter().filter(|region| {
        region.path.is_empty()
            && region.searched()
            && TRANSIENT_BYTES.contains(&region.size())
            && !chunks.touches_page(region.start)
            && heap.page_at(region.start).is_none()
    });
    let regions = regions.map(|region| (region.start, region.end));
    mapped.map(|chunk| (chunk.address, chunk.end())).chain(regions).collect()
}
