//! The memory that is neither a heap page nor a chunk: data of libraries, stacks, and the rest.

use crate::heap::Heap;
use crate::malloc::ChunkTable;
use crate::memory::{Memory, MemoryRegion, PAGE};
use crate::owners::threads::{ThreadPlace, ThreadRegions};
use crate::printable::printable;

/// Zeroed data of a library, which has no name in `maps`, is at most this large; what lies behind is other memory.
const LIBRARY_TAIL: u64 = 8 << 20;

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
    // Whole pages: a page of which a part is a chunk is read with the chunk. Contents of young objects are no root.
    let outside = |page: u64| {
        heap.page_at(page).is_none() && !heap.is_transient(page) && !chunks.touches_page(page)
    };
    let stacks = ThreadRegions::find(memory, threads, &outside);
    let mut found = Vec::new();
    let mut before: Option<(u64, String)> = None;
    for region in memory.regions().iter().filter(|region| region.searched()) {
        let kind = kind_of(region, &stacks, before.as_ref());
        if let GroundKind::Library(name) = &kind
            && region.inode != 0
        {
            before = Some((region.end, name.clone()));
        }
        // A program break with chunks holds nothing else.
        let is_break = region.path == "[heap]" && chunks.begins_within(region.start, region.end);
        if is_break {
            continue;
        }
        // Below its stack pointer a stack has only what earlier calls left.
        let from = stacks.live_from(region);
        let ranges = page_ranges(region, from, &outside);
        // The kernel may have joined zeroed data with other memory behind it, such as the transient heap.
        let is_zeroed = region.inode == 0 && matches!(kind, GroundKind::Library(_));
        let end = if is_zeroed { region.start + LIBRARY_TAIL } else { u64::MAX };
        let within = |from: u64, to: u64| -> Vec<(u64, u64)> {
            let cut = ranges.iter().map(|range| (range.0.max(from), range.1.min(to)));
            cut.filter(|range| range.0 < range.1).collect()
        };
        let parts = [(kind, within(0, end)), (GroundKind::Other, within(end, u64::MAX))];
        let parts = parts.into_iter().filter(|(_, ranges)| !ranges.is_empty());
        found.extend(parts.map(|(kind, ranges)| GroundPages { kind, ranges }));
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
        Some((end, name)) if *end == region.start => GroundKind::Library(name.clone()),
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
