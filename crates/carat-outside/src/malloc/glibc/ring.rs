//! Where glibc's arenas are: found by the form of their bins, not by a table of versions.
//!
//! `struct malloc_state` (malloc/malloc.c) ends with `top`, `last_remainder`, 127 pairs of list heads, a bitmap of four ints,
//! `next`, `next_free`, `attached_threads`, `system_mem` and `max_system_mem`. What precedes `top` differs by version. Each
//! empty bin's two pointers point at the bin itself, which no other data does 127 times in a row.

use crate::bytes::word_in;
use crate::elf::zeroed_end;
use crate::malloc::data::NoMalloc;
use crate::malloc::glibc::cursor::PageCursor;
use crate::memory::{Memory, MemoryRegion, PAGE};

/// Pairs of list heads of an arena (`NBINS` without the unused first one).
const BINS: u64 = 127;
/// Bytes of the list heads.
const BINS_BYTES: u64 = BINS * 16;
/// Offset of `next` behind the start of the bins: they are followed by the bitmap.
const NEXT: u64 = BINS_BYTES + 16;
/// Offset of `system_mem` behind the start of the bins.
const SYSTEM: u64 = NEXT + 24;
/// Bytes from the start of the bins to the end of the arena.
const TO_END: u64 = NEXT + 40;
/// Bins that may be in motion while they are read.
const MOVING: u64 = 100;
/// Attempts to find the arenas: a list can be in motion while its head is read.
const ATTEMPTS: u32 = 4;
/// Pieces of libraries' data that are read again; the C library's are the first.
const REFRESHED: usize = 4;
/// Arenas that are followed. glibc makes at most 8 per core.
const ARENAS: usize = 4096;
/// Bytes of libraries' data that are searched.
const SEARCHED: u64 = 16 << 20;
/// Places that look like an empty bin and are examined closely.
const EXAMINED: u64 = 512;
/// The bins start within so many bytes of their arena.
const ARENA_HEAD: u64 = 512;

/// The arenas of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArenaRing {
    /// Addresses; the main arena is the first.
    pub(super) arenas: Vec<u64>,
    /// Offset of the bins.
    pub(super) bins_at: u64,
}

/// The fields of an arena that change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArenaState {
    /// Address of the top chunk.
    pub(super) top: u64,
    /// `system_mem`.
    pub(super) system: u64,
}

impl ArenaRing {
    /// Finds the main arena and follows the list of arenas.
    pub(super) fn find(memory: &mut dyn Memory) -> Result<Self, NoMalloc> {
        let mut failure = NoMalloc::NoMainArena;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                // The first reading may have met a list in motion.
                refresh_libraries(memory);
            }
            let Some(bins) = find_bins(memory) else { continue };
            match follow(memory, bins) {
                Some(ring) => return Ok(ring),
                None => failure = NoMalloc::OpenRing,
            }
        }
        Err(failure)
    }

    /// Offset of the end of `struct malloc_state`.
    pub(super) const fn state_bytes(&self) -> u64 {
        self.bins_at + TO_END
    }

    /// Number of fastbins between the arena's flags (16 bytes where there are fastbins) and `top`.
    pub(super) const fn fastbins(&self) -> u64 {
        let count = self.bins_at.saturating_sub(16 + 16) / 8;
        // More than any version has: the distance is then something else.
        if count > 16 { 0 } else { count }
    }

    /// `top` and `system_mem` of an arena.
    pub(super) fn state(&self, memory: &dyn Memory, arena: u64) -> Option<ArenaState> {
        let bins = arena.checked_add(self.bins_at)?;
        let top = memory.word(bins.checked_sub(16)?)?;
        Some(ArenaState { top, system: memory.word_at(bins, SYSTEM)? })
    }

    /// Reads the state of an arena anew at the next use.
    pub(super) fn refresh(&self, memory: &mut dyn Memory, arena: u64) {
        memory.refresh(arena, arena.saturating_add(self.state_bytes()));
    }
}

/// The data of libraries, the C library's first. A library's zeroed data follows its own without a name.
fn library_data(memory: &dyn Memory) -> Vec<(u64, u64)> {
    let regions = memory.regions();
    let mut found: Vec<(bool, u64, u64)> = Vec::new();
    let mut file: Option<&MemoryRegion> = None;
    for region in regions.iter().filter(|region| region.searched() && region.writable) {
        if !region.anonymous() {
            file = Some(region);
            found.push((is_c_library(region), region.start, region.end));
        } else if let Some(owner) = file
            && let Some(end) = zeroed_end(memory, owner, region)
        {
            found.push((is_c_library(owner), region.start, end));
        }
    }
    found.sort_by_key(|(c_library, start, _)| (!c_library, *start));
    found.into_iter().map(|(_, start, end)| (start, end)).collect()
}

/// Whether the mapping belongs to glibc: `libc.so.6`, or `libc-2.31.so` before 2.34.
pub(super) fn is_c_library(region: &MemoryRegion) -> bool {
    let name = region.file_name();
    name.starts_with("libc.so") || name.starts_with("libc-2")
}

/// Reads the C library's data anew, and the mappings, because a list may lead into memory that was mapped meanwhile.
fn refresh_libraries(memory: &mut dyn Memory) {
    let breaks = memory.regions().iter().filter(|region| region.path == "[heap]");
    let ends: Vec<u64> = breaks.map(|region| region.end).collect();
    for end in ends {
        memory.refresh(end, end.saturating_add(PAGE));
    }
    for (start, end) in library_data(memory).into_iter().take(REFRESHED) {
        memory.refresh(start, end.min(start.saturating_add(SEARCHED)));
    }
}

/// Address of the bins of the main arena.
fn find_bins(memory: &dyn Memory) -> Option<u64> {
    let mut searched = 0_u64;
    let mut examined = 0_u64;
    for (start, end) in library_data(memory) {
        let mut cursor = PageCursor::new(memory);
        let mut address = start;
        while address < end && searched < SEARCHED {
            // A closer look takes 2 KiB of reads, so only so many places get one.
            if examined < EXAMINED && is_empty_bin(&mut cursor, address) {
                examined += 1;
                if let Some(bins) = bins_around(memory, address) {
                    return Some(bins);
                }
            }
            address += 8;
            searched += 8;
        }
    }
    None
}

/// Whether the two words at an address are the head of an empty list. The first bin is rarely empty, and in a busy process
/// always in motion, so any empty one is looked for.
fn is_empty_bin(cursor: &mut PageCursor<'_>, address: u64) -> bool {
    let bin = address.checked_sub(16);
    bin.is_some() && cursor.word(address) == bin && cursor.word(address + 8) == bin
}

/// The start of the bins of which one, whose number is unknown, is at `bin`.
fn bins_around(memory: &dyn Memory, bin: u64) -> Option<u64> {
    // From the highest place down: `top` and `last_remainder` precede the first pair and point at chunks too, while no pair
    // of pointers follows the last one.
    let mut places = (0..BINS).filter_map(|number| bin.checked_sub(number * 16));
    places.find(|place| are_bins(memory, *place))
}

/// Whether 127 pairs of list heads start here. An empty one points at itself; the first and the last chunk of another point
/// back at it, unless the list moves while it is read.
fn are_bins(memory: &dyn Memory, bins: u64) -> bool {
    let Some(words) = memory.copy(bins, BINS_BYTES) else { return false };
    let mut moving = 0;
    for at in (0..BINS).map(|number| number * 16) {
        let Some(bin) = bins.checked_add(at).and_then(|bin| bin.checked_sub(16)) else {
            return false;
        };
        let (first, last) = (word_in(&words, at as usize), word_in(&words, at as usize + 8));
        let (Some(first), Some(last)) = (first, last) else { return false };
        // An empty list points at itself, which needs no other read.
        if first == bin && last == bin {
            continue;
        }
        let back = first == bin || memory.word_at(first, 24) == Some(bin);
        let forth = last == bin || memory.word_at(last, 16) == Some(bin);
        if back && forth {
            continue;
        }
        moving += 1;
        let mut places = [first, last].into_iter().filter(|place| *place != bin);
        if moving > MOVING || !places.all(|place| is_chunk_place(memory, place)) {
            return false;
        }
    }
    true
}

fn is_chunk_place(memory: &dyn Memory, address: u64) -> bool {
    address.is_multiple_of(16) && memory.region(address).is_some_and(|region| region.writable)
}

/// Follows `next` from the main arena until it comes back into it.
fn follow(memory: &dyn Memory, main_bins: u64) -> Option<ArenaRing> {
    let mut others: Vec<u64> = Vec::new();
    let mut offset = None;
    let mut arena = memory.word_at(main_bins, NEXT)?;
    while !(arena <= main_bins && main_bins - arena < ARENA_HEAD) {
        // A ring that does not lead back to its start was in motion, or is none.
        if others.len() >= ARENAS || others.contains(&arena) {
            return None;
        }
        // All arenas have one layout, so the first one tells where the bins of the others are.
        let bins_at = match offset {
            Some(offset) => offset,
            None => find_offset(memory, arena)?,
        };
        offset = Some(bins_at);
        others.push(arena);
        arena = memory.word_at(arena.checked_add(bins_at)?, NEXT)?;
    }
    // The ring leads back to the start of the main arena, which tells where its bins begin.
    let bins_at = main_bins - arena;
    if bins_at < 24 || offset.is_some_and(|offset| offset != bins_at) {
        return None;
    }
    let mut arenas = vec![arena];
    arenas.append(&mut others);
    Some(ArenaRing { arenas, bins_at })
}

/// Offset of the bins of an arena that is not the main one: the highest one that fits, as in [`bins_around`].
fn find_offset(memory: &dyn Memory, arena: u64) -> Option<u64> {
    let mut offsets = (3..ARENA_HEAD / 8).rev().map(|words| words * 8);
    offsets.find(|offset| {
        let bins = arena.checked_add(*offset);
        bins.is_some_and(|bins| are_bins(memory, bins))
    })
}
