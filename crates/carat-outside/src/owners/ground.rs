//! The memory that is neither a heap page nor a chunk: data of libraries, stacks, and the rest.

use crate::elf::zeroed_end;
use crate::heap::Heap;
use crate::malloc::ChunkTable;
use crate::memory::{Memory, MemoryRegion, PAGE};
use crate::owners::threads::{ThreadPlace, ThreadRegions};
use crate::printable::printable;

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
    let mut file: Option<&MemoryRegion> = None;
    for region in memory.regions().iter().filter(|region| region.searched()) {
        let library = library_part(memory, region, file);
        if region.inode != 0 {
            file = Some(region);
        }
        // A program break with chunks holds nothing else, and a stack that nobody runs on only old words.
        let is_break = region.path == "[heap]" && chunks.begins_within(region.start, region.end);
        if is_break || stacks.has_ended(region) {
            continue;
        }
        // Below its stack pointer a stack has only what earlier calls left.
        let from = if library.is_some() { region.start } else { stacks.live_from(region) };
        let ranges = page_ranges(region, from, &outside);
        let end = library.as_ref().map_or(region.start, |(_, end)| *end);
        let rest = stacks.thread_of(region).map_or(GroundKind::Other, GroundKind::Thread);
        let library = library.map(|(kind, end)| (kind, cut(&ranges, 0, end)));
        let parts = library.into_iter().chain([(rest, cut(&ranges, end, u64::MAX))]);
        let parts = parts.filter(|(_, ranges)| !ranges.is_empty());
        found.extend(parts.map(|(kind, ranges)| GroundPages { kind, ranges }));
    }
    found
}

/// The library whose data a mapping begins with, and where these end. Behind zeroed data the kernel may have joined other memory, such
/// as the main thread's own data.
fn library_part(
    memory: &dyn Memory,
    region: &MemoryRegion,
    file: Option<&MemoryRegion>,
) -> Option<(GroundKind, u64)> {
    let library = |file: &MemoryRegion| GroundKind::Library(printable(file.file_name()));
    if region.inode != 0 && !region.anonymous() {
        return Some((library(region), region.end));
    }
    file.and_then(|file| Some((library(file), zeroed_end(memory, file, region)?)))
}

/// The parts of ranges from an address up to another.
fn cut(ranges: &[(u64, u64)], from: u64, to: u64) -> Vec<(u64, u64)> {
    let parts = ranges.iter().map(|range| (range.0.max(from), range.1.min(to)));
    parts.filter(|part| part.0 < part.1).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_ruby::FakeRuby;
    use carat_ruby::version::V3_3;

    #[test]
    fn zeroed_data_that_the_kernel_joined_with_data_of_a_thread_is_still_data_of_its_library() {
        let mut memory = FakeRuby::new(9, 40).memory;
        let heap = Heap::find(&memory, V3_3).unwrap();
        memory.map_library(0x1000, 0x2000, "/usr/lib/libx.so");
        memory.map_anonymous(0x2000, 0x2000 + (32 << 20));
        let behind = 0x2000 + (31 << 20);
        for page in [0x1000, 0x2000, behind] {
            memory.write_word(page, 1);
        }
        // The thread's number, and a list of mutexes that is empty.
        for (offset, word) in [(0, 7), (8, behind + 48), (16, behind + 48)] {
            memory.write_word(behind + 32 + offset, word);
        }
        let (name, stack_pointer) = ("ruby".to_owned(), None);
        let threads = [ThreadPlace { id: 7, inner_id: 7, name, stack_pointer }];
        let ground = find_ground(&memory, &heap, &ChunkTable::default(), &threads);
        let kind_at = |page: u64| {
            let has = |pages: &&GroundPages| pages.ranges.iter().any(|one| one.0 == page);
            ground.iter().find(has).map(|pages| pages.kind.clone())
        };
        let library = Some(GroundKind::Library("libx.so".to_owned()));
        assert_eq!([0x1000, 0x2000].map(kind_at), [library.clone(), library]);
        assert_eq!(kind_at(behind), Some(GroundKind::Thread(0)));
    }
}
