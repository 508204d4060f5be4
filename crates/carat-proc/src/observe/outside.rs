//! The memory of running Rubies, read from outside: which processes are read, and their figures for the ledger.

use crate::observe::host::origins;
use crate::observe::{MallocFigures, ProbeFigures, read_probe_figures};
use crate::process::{Identity, ProcRoot};
use carat_model::Bytes;
use carat_model::ledger::{Arena, Basis, ClassicRatios, JitUse, SlotPool};
use carat_model::{OUTSIDE_SCHEMA, OutsideReading};
use carat_outside::census::{Census, LookOptions};
use carat_outside::heap::HeapCensus;
use carat_outside::malloc::MallocCensus;
use carat_outside::readings::look;
use carat_outside::refusal::Refused;
use carat_outside::unshared::{PairRequest, compare};
use std::collections::HashMap;
use std::ops::Range;

/// Forked processes whose private pages are compared with their parent's, the largest first.
const COMPARED: usize = 3;

/// Reads every Ruby among `members`. Other programs are left out without a word.
pub fn read_outside(members: &[Identity], options: &LookOptions) -> OutsideReading {
    let mut reading = OutsideReading { schema: OUTSIDE_SCHEMA.into(), ..Default::default() };
    for member in members {
        match look(member.pid, options) {
            Ok(census) => reading.processes.push(census),
            Err(refused) if says_nothing(&refused) => {}
            Err(refused) => reading.refused.push((member.pid, refused.to_string())),
        }
    }
    reading
}

/// Whether the process is no Ruby, or had ended before it was read, which is not worth a line.
fn says_nothing(refused: &Refused) -> bool {
    matches!(refused, Refused::NotRuby(_) | Refused::Gone(_))
}

/// Compares forked Rubies with the Ruby that they were forked from, which need not have been read: those that were read, with
/// the most private memory first.
pub fn compare_with_parents(
    root: &ProcRoot,
    reading: &mut OutsideReading,
    private: &HashMap<u32, Bytes>,
    options: &LookOptions,
) {
    // Of the whole host: the Ruby that one was forked from may be none of the members.
    let origins = origins(root);
    let read: Vec<u32> = reading.processes.iter().map(|census| census.process).collect();
    let mut pairs: Vec<(u32, u32)> =
        read.iter().filter_map(|&child| Some((*origins.get(&child)?, child))).collect();
    // One whose private memory is unknown comes last.
    pairs.sort_by_key(|(_, child)| std::cmp::Reverse(private.get(child).copied()));
    for (parent, child) in pairs.into_iter().take(COMPARED) {
        let (proc, pacing) = (options.proc.as_path(), options.pacing());
        match compare(&PairRequest { proc, parent, child, pacing, memory: &options.memory }) {
            Ok(table) => reading.unshared.push(table),
            Err(refused) => reading.refused.push((child, refused.to_string())),
        }
    }
}

/// What is known of the inside of these processes: by their probes, and by a reading from outside where there is none.
pub fn known_figures(
    root: &ProcRoot,
    members: &[Identity],
    reading: Option<&OutsideReading>,
) -> HashMap<Identity, ProbeFigures> {
    let mut figures = reading.map(|reading| outside_figures(reading, members)).unwrap_or_default();
    for (member, mut probe) in read_probe_figures(root, members) {
        let read = figures.get(&member);
        // A probe that does not know the slots knows less than the reading.
        if probe.slots_unknown.is_none() || read.is_none() {
            // Only a reading of malloc tells that the probe's figures of malloc do not have it, too.
            let read = read.filter(|read| read.malloc.is_some());
            probe.transient_heap = read.and_then(|read| read.transient_heap.clone());
            figures.insert(member, probe);
        }
    }
    figures
}

/// The figures of the readings as the ledger needs them. A reading without the heap is left out, because its slots could
/// not be told from malloc's memory.
pub fn outside_figures(
    reading: &OutsideReading,
    members: &[Identity],
) -> HashMap<Identity, ProbeFigures> {
    let of = |census: &Census| {
        // A reading has no start time; the members are those of this moment.
        let member = members.iter().find(|member| member.pid == census.process)?;
        Some((*member, figures_of(census)))
    };
    reading.processes.iter().filter(|census| census.heap.is_some()).filter_map(of).collect()
}

/// One reading as the ledger needs it.
pub(super) fn figures_of(census: &Census) -> ProbeFigures {
    let heap = census.heap.as_ref();
    let malloc = census.malloc.as_ref();
    let pages = heap.map(|heap| heap.pages_without_objects + heap.empty_pages);
    ProbeFigures {
        basis: Basis::Outside,
        ruby: Some(format!("ruby {}", census.ruby)),
        allocator: walked(census),
        malloc_file: census.serving.as_ref().map(|serving| serving.file.clone()),
        heap_pages: heap.map(heap_ranges).unwrap_or_default(),
        transient_heap: heap.and_then(|heap| heap.transient_heap).map(|(start, end)| start..end),
        slots_unknown: None,
        pools: heap.map(pools).unwrap_or_default(),
        live_slots: heap.map(HeapCensus::live_slots),
        classic: heap.and_then(classic),
        unlisted_pages: Bytes(0),
        empty_pages: heap.zip(pages).map(|(heap, pages)| Bytes(pages * heap.page_bytes)),
        malloc_of_ruby: None,
        old_objects: heap.and_then(|heap| Some(heap.ages.as_ref()?.old)),
        all_pages: heap.map(|heap| Bytes((heap.pages + heap.empty_pages) * heap.page_bytes)),
        arenas: malloc.map(arenas).unwrap_or_default(),
        malloc: malloc.map(|malloc| malloc_figures(malloc, heap)),
        returnable: malloc.map(|malloc| Bytes(malloc.trimmable_bytes())),
        jit: census.jit.map(|jit| JitUse {
            reserved: jit.reserved_bytes.map(Bytes),
            heap: None,
            compiled: Some(jit.compiled),
        }),
    }
}

/// The allocator that serves: the one that was walked, or the one that Ruby calls.
fn walked(census: &Census) -> Option<String> {
    let is_jemalloc = census.malloc.as_ref().is_some_and(|malloc| malloc.jemalloc.is_some());
    let serving = census.serving.as_ref().and_then(|serving| serving.allocator.clone());
    if is_jemalloc { Some("jemalloc".to_owned()) } else { serving }
}

/// The addresses of the heap's pages, those without slots included; pages that touch are one range.
fn heap_ranges(heap: &HeapCensus) -> Vec<Range<u64>> {
    let filled = heap.map.iter().map(|page| page.address);
    let mut starts: Vec<u64> = filled.chain(heap.empty_map.iter().copied()).collect();
    starts.sort_unstable();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for start in starts {
        let end = start.saturating_add(heap.page_bytes);
        match ranges.last_mut() {
            Some(last) if last.end == start => last.end = end,
            // A page that is listed twice must not count twice.
            Some(last) if last.end > start => {}
            _ => ranges.push(start..end),
        }
    }
    ranges
}

fn pools(heap: &HeapCensus) -> Vec<SlotPool> {
    let pool = heap.pools.iter().map(|pool| SlotPool {
        slot_size: pool.slot_bytes,
        slots: Some(pool.slots),
        live: Some(pool.live),
        free: Some(pool.slots.saturating_sub(pool.live)),
        pages: Some(pool.pages),
    });
    pool.collect()
}

/// The share of slots in use, where there is one size of slots. Ruby's list of pages is not read.
fn classic(heap: &HeapCensus) -> Option<ClassicRatios> {
    let [only] = heap.pools.as_slice() else { return None };
    (only.slots > 0)
        .then(|| ClassicRatios { slots: only.live as f64 / only.slots as f64, pages: None })
}

fn arenas(malloc: &MallocCensus) -> Vec<Arena> {
    let own = malloc.jemalloc.as_ref().map(|jemalloc| &jemalloc.arenas);
    let numbered = (0_u32..).zip(&malloc.arenas);
    let arenas = numbered.map(|(place, arena)| Arena {
        // jemalloc has arenas without memory, which are left out.
        number: own
            .and_then(|own| own.get(place as usize))
            .map_or(place, |own| u32::try_from(own.number).unwrap_or(place)),
        held: Bytes(arena.system_bytes),
        resident: Some(Bytes(arena.resident_bytes)),
        free: Some(Bytes(arena.free_bytes())),
    });
    arenas.collect()
}

/// Live bytes as far as they are in memory: what is resident of the arenas and not live is free.
fn malloc_figures(malloc: &MallocCensus, heap: Option<&HeapCensus>) -> MallocFigures {
    let total = malloc.total();
    let live: u64 = total.occupancy.live_bytes.iter().sum();
    let free = total.occupancy.pages().saturating_sub(live).saturating_sub(total.header_bytes);
    // Heap pages that are regions of jemalloc's count as slots, also the empty ones, and its tables are in no arena.
    let own = malloc.jemalloc.as_ref();
    let heap = heap.filter(|_| own.is_some_and(|own| own.heap_page_bytes > 0));
    let in_slots = heap.map_or(0, |heap| (heap.pages + heap.empty_pages) * heap.page_bytes);
    let tables = own.map_or(0, |own| own.base.present);
    MallocFigures {
        live: Bytes(live.saturating_sub(in_slots)),
        free: Bytes(total.free_bytes()),
        free_in_memory: Bytes(free),
        overhead: Bytes(total.header_bytes.saturating_add(tables)),
        large: Bytes(malloc.mapped.resident_bytes),
        unread: Bytes(total.missing_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_outside::heap::{HeapPageFill, PoolCensus};
    use carat_outside::malloc::{ArenaCensus, ChunkAmount, MappedChunks, Occupancy};

    const KIB: u64 = 1 << 10;

    fn heap() -> HeapCensus {
        let page = |address| HeapPageFill { address, ..HeapPageFill::default() };
        HeapCensus {
            page_bytes: 64 * KIB,
            pages: 3,
            empty_pages: 1,
            empty_map: vec![0x31_0000],
            pages_without_objects: 1,
            slots: 300,
            free_slots: 100,
            pools: vec![PoolCensus {
                slot_bytes: 40,
                pages: 3,
                slots: 300,
                live: 200,
                listed_free: 90,
            }],
            transient_heap: Some((0x70_0000, 0x270_0000)),
            map: [0x30_0000, 0x10_0000, 0x11_0000].map(page).into(),
            ..HeapCensus::default()
        }
    }

    #[test]
    fn a_reading_becomes_the_figures_that_a_probe_would_give() {
        let census =
            Census { process: 7, ruby: "3.1.2".into(), heap: Some(heap()), ..Census::default() };
        let figures = figures_of(&census);
        assert_eq!(figures.basis, Basis::Outside);
        assert_eq!(figures.heap_pages, [0x10_0000..0x12_0000, 0x30_0000..0x32_0000]);
        assert_eq!(figures.transient_heap, Some(0x70_0000..0x270_0000));
        assert_eq!((figures.live_slots, figures.live_slot_bytes()), (Some(200), Some(Bytes(8000))));
        assert_eq!(figures.pools[0].free, Some(100));
        assert_eq!(figures.empty_pages, Some(Bytes(128 * KIB)));
        assert_eq!(figures.all_pages, Some(Bytes(256 * KIB)));
        assert_eq!((figures.malloc, figures.returnable), (None, None));
    }

    #[test]
    fn what_is_resident_in_an_arena_and_not_live_is_free() {
        let mut occupancy = Occupancy::default();
        (occupancy.page_bytes[5], occupancy.live_bytes[5]) = (100 * KIB, 60 * KIB);
        let amount = |bytes| ChunkAmount::resident(1, bytes);
        let arena = ArenaCensus {
            main: true,
            system_bytes: 150 * KIB,
            in_use: amount(70 * KIB),
            free: amount(50 * KIB),
            thread_cached: amount(KIB),
            top_bytes: 120 * KIB,
            top_present_bytes: 20 * KIB,
            resident_bytes: 100 * KIB,
            occupancy,
            ..ArenaCensus::default()
        };
        let mapped = MappedChunks { resident_bytes: 9, ..MappedChunks::default() };
        let malloc = MallocCensus { arenas: vec![arena], mapped, ..MallocCensus::default() };
        let figures = malloc_figures(&malloc, None);
        assert_eq!(figures.live, Bytes(60 * KIB));
        assert_eq!(figures.free_in_memory, Bytes(40 * KIB));
        assert_eq!((figures.free, figures.large), (Bytes(71 * KIB), Bytes(9)));
        assert_eq!(arenas(&malloc)[0].free, Some(Bytes(71 * KIB)));
    }

    #[test]
    fn a_reading_without_a_heap_leaves_the_figures_unknown() {
        let figures = figures_of(&Census::default());
        assert_eq!((figures.live_slots, figures.live_slot_bytes()), (None, None));
        assert_eq!((figures.empty_pages, figures.all_pages), (None, None));
        assert!(figures.heap_pages.is_empty() && figures.arenas.is_empty());
    }
}
