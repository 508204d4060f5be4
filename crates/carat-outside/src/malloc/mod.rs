//! glibc's malloc from outside: arenas, chunks, and what could be given back.
//!
//! Everything is read in one pass in the order of addresses; only counts and two bytes per resident page are kept, unless the
//! caller wants the table of all chunks.

mod arena;
mod caches;
mod cursor;
mod data;
pub mod fake_malloc;
mod mapped;
pub(crate) mod present;
mod residency;
mod ring;
mod spans;
mod table;
mod tally;
#[cfg(test)]
mod tests;
mod walk;

pub use data::{
    ArenaCensus, ChunkAmount, ChunkSize, MallocCensus, MallocLayout, MappedChunks, NoMalloc,
    Occupancy,
};
pub use table::{Chunk, ChunkState, ChunkTable};

use crate::memory::{Memory, MemoryRegion, PAGE};
use crate::serving::serving_malloc;
use arena::{ArenaJob, WalkedArena, read_arena};
use caches::{ListReader, mark_cached};
use mapped::{NotMapped, find_mapped};
use present::PresentRuns;
use ring::ArenaRing;
use std::collections::HashSet;
use table::ChunkList;

/// Allocators by a part of their library's name.
const OTHERS: [&str; 3] = ["jemalloc", "mimalloc", "tcmalloc"];
/// Start-up code allocates a little from glibc before another allocator takes over.
const GLIBC_IN_USE: u64 = 3 << 20;

/// Malloc's memory, and its chunks if they were to be kept.
#[derive(Debug, Clone, Default)]
pub struct MallocReading {
    /// What was counted.
    pub census: MallocCensus,
    /// Every chunk; empty unless they were to be kept.
    pub chunks: ChunkTable,
}

/// Reads malloc's memory. `is_heap_page` says whether an address lies in a page of Ruby's heap; `keep` that the table of all
/// chunks is wanted, which requires [`ChunkTable::CHUNK_BYTES`] for each.
pub fn read_malloc(
    memory: &mut dyn Memory,
    is_heap_page: &dyn Fn(u64) -> bool,
    keep: bool,
) -> Result<MallocReading, NoMalloc> {
    check_allocator(memory)?;
    let ring = match ArenaRing::find(memory) {
        Ok(ring) => ring,
        // tcmalloc takes the program break itself, so it is told by what is missing.
        Err(reason) => return Err(other_allocator(memory).map_or(reason, NoMalloc::Other)),
    };
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
    let mapped = find_mapped(memory, &not, &mut |chunk| {
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
    let marks: Vec<(u64, u64)> = cached.chunks.iter().map(|cached| (cached.1, cached.2)).collect();
    mark_cached(&mut table, &marks);
    Ok(MallocReading { census, chunks: table })
}

/// Refuses a process whose allocator is not glibc's, by name.
fn check_allocator(memory: &dyn Memory) -> Result<(), NoMalloc> {
    let Some(serving) = serving_malloc(memory) else { return check_mapped(memory) };
    match serving.allocator.as_deref() {
        Some("glibc") => Ok(()),
        Some("musl") => Err(NoMalloc::Musl),
        other => Err(NoMalloc::Other(other.unwrap_or(&serving.file).to_owned())),
    }
}

/// The same by what is mapped, where it is not known which malloc Ruby calls.
fn check_mapped(memory: &dyn Memory) -> Result<(), NoMalloc> {
    // Its loader is its library; Alpine maps it under the first name, Debian under the last.
    let is_musl = |name: &str| {
        name.starts_with("ld-musl") || name.starts_with("libc.musl") || name == "libc.so"
    };
    if libraries(memory).any(is_musl) {
        return Err(NoMalloc::Musl);
    }
    let held = memory.regions().iter().filter(|region| region.path == "[heap]");
    let held: u64 = held.map(|region| region.pages.present() * PAGE).sum();
    match other_allocator(memory) {
        Some(other) if held <= GLIBC_IN_USE => Err(NoMalloc::Other(other)),
        _ => Ok(()),
    }
}

/// Another allocator whose library is mapped; it need not be the one in use.
fn other_allocator(memory: &dyn Memory) -> Option<String> {
    let other = OTHERS.into_iter().find(|other| {
        libraries(memory).any(|name| name.starts_with("lib") && name.contains(other))
    });
    other.map(str::to_owned)
}

/// Names of the files that are mapped.
fn libraries(memory: &dyn Memory) -> impl Iterator<Item = &str> {
    let files = memory.regions().iter().filter(|region| region.inode != 0);
    files.map(MemoryRegion::file_name)
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
    for candidate in readings.iter().flat_map(|reading| &reading.caches) {
        let Some(cache) = lists.cache(candidate.user(), candidate.size) else { continue };
        found.caches += 1;
        for (address, size) in cache {
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
