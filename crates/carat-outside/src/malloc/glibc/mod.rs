//! glibc's malloc: arenas in the program break and in heaps, chunks with a header, and chunks with a mapping of their own.
//!
//! Everything is read in one pass in the order of addresses; only counts and two bytes per resident page are kept, unless the
//! caller wants the table of all chunks.

mod arena;
mod caches;
mod cursor;
pub mod fake_malloc;
mod mapped;
mod ring;
mod spans;
mod tally;
#[cfg(test)]
mod tests;
mod walk;

use crate::malloc::allocator::{Allocator, MallocReading, MallocRequest};
use crate::malloc::data::{MallocCensus, MallocLayout, NoMalloc};
use crate::malloc::present::PresentRuns;
use crate::malloc::table::{Chunk, ChunkList, ChunkTable};
use crate::memory::{Memory, joined};
use arena::{ArenaJob, WalkedArena, read_arena};
use caches::{ListReader, mark_cached};
use mapped::{NotMapped, find_mapped};
use ring::ArenaRing;
use std::collections::HashSet;

/// The malloc of the C library.
pub(super) struct Glibc;

impl Allocator for Glibc {
    fn read(
        &self,
        memory: &mut dyn Memory,
        request: &MallocRequest<'_>,
    ) -> Result<MallocReading, NoMalloc> {
        let MallocRequest { is_heap_page, keep } = *request;
        let ring = ArenaRing::find(memory)?;
        let mut taken = HashSet::new();
        let mut readings = Vec::new();
        for number in 0..ring.arenas.len() {
            let reading = read_arena(memory, ArenaJob { ring: &ring, number, keep }, &taken);
            taken.extend(reading.spans.spans.iter().map(|span| span.start));
            readings.push(reading);
        }
        let cached = find_cached(memory, &readings);
        let mut mapped_chunks = ChunkList::default();
        let heaps = heaps(&readings);
        let not = NotMapped { heaps: &heaps, is_heap_page };
        let mut stretches = heaps.clone();
        let mapped = find_mapped(memory, &not, &mut |chunk| {
            stretches.push((chunk.address, chunk.end()));
            if keep {
                mapped_chunks.push(chunk);
            }
        });
        let mut census = MallocCensus {
            mapped,
            thread_caches: cached.caches,
            layout: layout(&ring, &readings),
            ..MallocCensus::default()
        };
        for (number, address, size) in &cached.chunks {
            readings[*number].tally.cached(*address, *size);
        }
        let mut chunks = ChunkList::default();
        for (number, reading) in readings.into_iter().enumerate() {
            census.readings_again = census.readings_again.saturating_add(reading.again);
            let mut arena = reading.tally.finish();
            arena.main = number == 0;
            census.arenas.push(arena);
            chunks.append(reading.chunks);
        }
        chunks.append(mapped_chunks);
        let mut table = ChunkTable::of(chunks, PresentRuns::of(memory));
        let marks: Vec<(u64, u64)> =
            cached.chunks.iter().map(|cached| (cached.1, cached.2)).collect();
        mark_cached(&mut table, &marks);
        Ok(MallocReading { census, chunks: table, stretches: joined(stretches) })
    }
}

/// Chunks in the caches of threads: the number of their arena, address, size.
#[derive(Default)]
struct CachedChunks {
    caches: u64,
    chunks: Vec<(usize, u64, u64)>,
}

fn find_cached(memory: &dyn Memory, readings: &[WalkedArena]) -> CachedChunks {
    let mut places: Vec<(u64, u64, usize)> = Vec::new();
    for (number, reading) in readings.iter().enumerate() {
        places.extend(reading.spans.spans.iter().map(|span| (span.start, span.end, number)));
    }
    places.sort_unstable();
    let spans = places.iter().map(|(start, end, _)| (*start, *end)).collect();
    let mut lists = ListReader::new(memory, spans);
    let mut found = CachedChunks::default();
    let mut seen = HashSet::new();
    let candidates: Vec<Chunk> =
        readings.iter().flat_map(|reading| reading.caches.iter().copied()).collect();
    for cache in lists.caches(&candidates) {
        found.caches += 1;
        for (address, size) in cache.chunks {
            let place = places.partition_point(|place| place.1 <= address);
            // A thread may put a chunk back while another's cache is read.
            if let Some((_, _, number)) = places.get(place).filter(|_| seen.insert(address)) {
                found.chunks.push((*number, address, size));
            }
        }
    }
    found
}

/// The address space of all heaps, by address: with the part that a heap may still grow into.
fn heaps(readings: &[WalkedArena]) -> Vec<(u64, u64)> {
    let mut heaps: Vec<(u64, u64)> = Vec::new();
    for reading in readings {
        for span in &reading.spans.spans {
            let end = match reading.spans.alignment {
                Some(alignment) => span.start.saturating_add(alignment),
                None => span.end,
            };
            heaps.push((span.start, end));
        }
    }
    heaps.sort_unstable();
    heaps
}

fn layout(ring: &ArenaRing, readings: &[WalkedArena]) -> MallocLayout {
    let spans = readings.iter().skip(1).map(|reading| &reading.spans);
    let learned = spans.clone().find(|spans| spans.heap_header.is_some());
    MallocLayout {
        bins_at: ring.bins_at,
        fastbins: ring.fastbins(),
        heap_header: learned.and_then(|spans| spans.heap_header),
        heap_alignment: learned.and_then(|spans| spans.alignment),
    }
}
