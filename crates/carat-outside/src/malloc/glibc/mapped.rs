//! Chunks that have a mapping of their own.

use crate::bytes::{align_up, word_in};
use crate::malloc::data::MappedChunks;
use crate::malloc::glibc::ring::is_c_library;
use crate::malloc::glibc::walk::{is_mapped, size_of_header};
use crate::malloc::present::PresentRuns;
use crate::malloc::table::{Chunk, ChunkState};
use crate::memory::{Memory, MemoryRegion, PAGE};

/// Smaller chunks are never mapped: they take at least a page, of which 2.43 leaves 16 bytes out.
const SMALLEST_MAPPED: u64 = PAGE - 96;
/// No address has more bits.
const ADDRESSES: u64 = 1 << 47;

/// Where no chunk with a mapping of its own can start.
pub(super) struct NotMapped<'a> {
    /// Heaps of arenas, by address.
    pub(super) heaps: &'a [(u64, u64)],
    /// Whether an address lies in Ruby's heap.
    pub(super) is_heap_page: &'a dyn Fn(u64) -> bool,
}

/// Finds the chunks and hands each over. One starts on a page: a first word below the page size (`prev_size`, here the
/// bytes before the chunk) and a size that ends with a page, marked as mapped.
pub(super) fn find_mapped(
    memory: &dyn Memory,
    not: &NotMapped<'_>,
    each: &mut dyn FnMut(Chunk),
) -> MappedChunks {
    let mut found = MappedChunks { counted_bytes: counted(memory), ..MappedChunks::default() };
    for region in memory.regions().iter().filter(|region| may_hold(region)) {
        let mut next = region.start;
        let runs = PresentRuns::of_region(region);
        for (start, end) in runs.iter() {
            next = next.max(start);
            while next < end {
                let heap = not.heaps.partition_point(|heap| heap.1 <= next);
                if let Some(heap) = not.heaps.get(heap).filter(|heap| next >= heap.0) {
                    next = heap.1.max(next + PAGE);
                    continue;
                }
                let size = match (not.is_heap_page)(next) {
                    true => None,
                    false => mapped_size(memory, region, next),
                };
                let Some(size) = size else {
                    next += PAGE;
                    continue;
                };
                let chunk = Chunk::headed(next, size, ChunkState::Mapped);
                let present = runs.bytes_within(next, next + size);
                found.amount.add(size, present);
                found.resident_bytes += present;
                each(chunk);
                next += size;
            }
        }
    }
    found
}

fn may_hold(region: &MemoryRegion) -> bool {
    region.anonymous() && region.searched() && region.writable && region.path != "[heap]"
}

/// The bytes of the chunk that starts at a page.
fn mapped_size(memory: &dyn Memory, region: &MemoryRegion, page: u64) -> Option<u64> {
    let mut bytes = [0; 16];
    if !memory.read(page, &mut bytes) {
        return None;
    }
    let (before, header) = (word_in(&bytes, 0)?, word_in(&bytes, 8)?);
    let size = size_of_header(header);
    if before >= PAGE || !is_mapped(header) || !(SMALLEST_MAPPED..ADDRESSES).contains(&size) {
        return None;
    }
    let sum = before + size;
    let total = align_up(sum, PAGE);
    // 2.43 leaves the header out of the size.
    let whole = total == sum || total == sum + 16;
    (whole && total <= region.end - page).then_some(total)
}

/// glibc's own count of mapped bytes. It stands in `mp_` two words before the start of the program break (`mmapped_mem`,
/// `max_mmapped_mem`, `sbrk_base`: struct malloc_par, malloc/malloc.c).
fn counted(memory: &dyn Memory) -> Option<u64> {
    let start = memory.regions().iter().find(|region| region.path == "[heap]")?.start;
    for region in memory.regions().iter().filter(|region| is_c_library(region)) {
        if !region.searched() || !region.writable {
            continue;
        }
        let bytes = memory.copy(region.start, region.size()).unwrap_or_default();
        let words: Vec<u64> = bytes.chunks_exact(8).filter_map(|word| word_in(word, 0)).collect();
        let found = words.windows(3).find(|words| {
            let (now, most) = (words[0], words[1]);
            let counts = [now, most].iter().all(|count| count.is_multiple_of(PAGE));
            words[2] == start && counts && now <= most && most < ADDRESSES
        });
        if let Some(words) = found {
            return Some(words[0]);
        }
    }
    None
}
