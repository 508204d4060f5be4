//! Divides the mappings of one process into the parts of a ledger.

use crate::observe::amount::MemoryAmount;
use crate::observe::pagemap::Pagemap;
use crate::observe::{MallocFigures, Mapping, Pages, ProbeFigures, Region};
use carat_model::Bytes;
use carat_model::ledger::{LedgerPart, PartKind};
use std::ops::Range;

/// Memory by purpose, before live and free are separated.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Groups {
    file: MemoryAmount,
    stacks: MemoryAmount,
    jit: MemoryAmount,
    slots: MemoryAmount,
    arenas: MemoryAmount,
    large: MemoryAmount,
    shared: MemoryAmount,
    transient: MemoryAmount,
    anonymous: MemoryAmount,
    /// Resident slots on pages from malloc ([`carat_ruby::version::HEAP_PAGES_FROM_MALLOC`]), already subtracted from
    /// `arenas`.
    slots_in_arenas: f64,
}

impl Groups {
    /// Adds up mappings by region. Ruby's heap pages and its transient heap are subtracted from the mapping that contains them.
    pub(super) fn of(
        mappings: &[Mapping],
        regions: &[Region],
        probe: Option<&ProbeFigures>,
        mut pagemap: Option<Pagemap<'_>>,
    ) -> Self {
        let mut groups = Self::default();
        for (mapping, &region) in mappings.iter().zip(regions) {
            let mut amount = MemoryAmount::of_mapping(mapping);
            if let Some(probe) = probe
                // Slots lie in anonymous memory only, whatever the process's own list says.
                && !mapping.name.starts_with('/')
                && mapping.rss.0 > 0
            {
                // The page map is read later than the mapping, and can have more than it.
                let heap_pages = probe.heap_within(&mapping.range);
                let slots = amount_of(mapping, heap_pages, pagemap.as_mut()).at_most(amount);
                amount.remove(slots);
                groups.slots += slots;
                let arena = probe.transient_within(&mapping.range);
                let arena = amount_of(mapping, arena.into_iter(), pagemap.as_mut()).at_most(amount);
                amount.remove(arena);
                groups.transient += arena;
                if matches!(region, Region::Arena | Region::MainArena) {
                    groups.slots_in_arenas += slots.resident;
                }
            }
            *groups.of_region(region) += amount;
        }
        groups
    }

    /// Ruby's heap pages: resident and private.
    pub(super) fn slots(&self) -> (Bytes, Bytes) {
        (Bytes(self.slots.resident as u64), Bytes(self.slots.private as u64))
    }

    /// The parts that the kernel's figures alone can separate; without Ruby there are no slots.
    pub(super) fn parts_without_probe(mut self, has_ruby: bool) -> Vec<LedgerPart> {
        // Without figures, what malloc mapped for one block cannot be told from its arenas.
        self.arenas += self.large.take_all();
        self.anonymous += self.slots.take_all();
        let anonymous = if has_ruby { PartKind::SlotsOrMalloc } else { PartKind::Anonymous };
        let malloc = [(PartKind::Malloc, self.arenas), (anonymous, self.anonymous)];
        self.listed(malloc.into_iter().collect())
    }

    /// The parts that the figures of the inside can separate. Memory that they do not account for is in none of them.
    pub(super) fn parts_with_probe(mut self, probe: &ProbeFigures) -> Vec<LedgerPart> {
        let mut parts = Vec::new();
        let live = probe.live_slot_bytes().unwrap_or_default();
        parts.push((PartKind::SlotsLive, self.slots.take(live)));
        let mut free = self.slots.take_all();
        // Before malloc's memory, because Ruby maps its pages and their number is exact.
        free += self.anonymous.take(probe.unlisted_pages);
        parts.push((PartKind::SlotsFree, free));
        match probe.malloc {
            Some(figures) if probe.allocator.as_deref() == Some("glibc") => {
                self.divide_glibc(figures, &mut parts);
            }
            Some(figures) => self.divide_other(figures, &mut parts),
            None => {
                self.arenas += self.large.take_all();
                self.arenas += self.anonymous.take_all();
                parts.push((PartKind::Malloc, self.arenas.take_all()));
            }
        }
        self.listed(parts)
    }

    fn divide_glibc(&mut self, figures: MallocFigures, parts: &mut Vec<(PartKind, MemoryAmount)>) {
        // malloc counts the heap pages that it gave Ruby as blocks in use.
        let in_slots = Bytes(self.slots_in_arenas as u64);
        // First, because blocks in use may have pages that were never written and are not in memory.
        let mut free = self.arenas.take(figures.free_in_memory);
        let mut live = self.arenas.take(figures.live.saturating_sub(in_slots));
        live += self.large.take_all();
        live += self.anonymous.take(figures.large);
        free += self.arenas.take(figures.free.saturating_sub(figures.free_in_memory));
        parts.push((PartKind::MallocLive, live));
        parts.push((PartKind::MallocFree, free));
        parts.push((PartKind::Malloc, self.arenas.take(figures.unread)));
        parts.push((PartKind::AllocatorOverhead, self.arenas.take_all()));
    }

    /// Other allocators map their own memory and report how much of it is resident.
    fn divide_other(&mut self, figures: MallocFigures, parts: &mut Vec<(PartKind, MemoryAmount)>) {
        let mut held = self.anonymous.take_all();
        held += self.arenas.take_all();
        held += self.large.take_all();
        // First, as in `divide_glibc`.
        let mut free = held.take(figures.free_in_memory);
        let overhead = held.take(figures.overhead);
        parts.push((PartKind::MallocLive, held.take(figures.live + figures.large)));
        free += held.take(figures.free.saturating_sub(figures.free_in_memory));
        parts.push((PartKind::MallocFree, free));
        parts.push((PartKind::AllocatorOverhead, overhead));
    }

    fn listed(&self, mut parts: Vec<(PartKind, MemoryAmount)>) -> Vec<LedgerPart> {
        parts.extend([
            (PartKind::CodeAndFiles, self.file),
            (PartKind::Stacks, self.stacks),
            (PartKind::Jit, self.jit),
            (PartKind::SharedMemory, self.shared),
            (PartKind::TransientHeap, self.transient),
        ]);
        parts.sort_by_key(|(kind, _)| *kind);
        parts
            .into_iter()
            .map(|(kind, amount)| amount.part(kind))
            .filter(|part| part.resident.0 > 0)
            .collect()
    }

    fn of_region(&mut self, region: Region) -> &mut MemoryAmount {
        match region {
            Region::File => &mut self.file,
            Region::MainArena | Region::Arena => &mut self.arenas,
            Region::LargeBlock => &mut self.large,
            Region::Stack => &mut self.stacks,
            Region::Jit => &mut self.jit,
            Region::RubyHeap => &mut self.slots,
            Region::SharedMemory => &mut self.shared,
            Region::TransientHeap => &mut self.transient,
            Region::Anonymous => &mut self.anonymous,
        }
    }
}

/// The memory of these addresses of a mapping, counted page by page, or without a page map in proportion to their size.
fn amount_of(
    mapping: &Mapping,
    ranges: impl Iterator<Item = Range<u64>>,
    pagemap: Option<&mut Pagemap<'_>>,
) -> MemoryAmount {
    let mut amount = MemoryAmount::default();
    let mut pagemap = pagemap;
    for range in ranges {
        let pages = match pagemap.as_deref_mut().map(|pagemap| pagemap.pages(&range)) {
            Some(Ok(pages)) => pages,
            // Without a page map, its pages are as full as the mapping on average.
            Some(Err(_)) | None => in_proportion(mapping, range.end - range.start),
        };
        amount += MemoryAmount::of_pages(pages, mapping);
    }
    amount
}

fn in_proportion(mapping: &Mapping, size: u64) -> Pages {
    let fraction = size as f64 / mapping.size() as f64;
    Pages {
        present: scaled(mapping.rss, fraction),
        exclusive: scaled(mapping.private, fraction),
        swapped: Bytes(0),
    }
}

fn scaled(bytes: Bytes, by: f64) -> Bytes {
    Bytes((bytes.0 as f64 * by) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::ledger::SlotPool;

    const MB: u64 = 1 << 20;

    fn mapping(start_mb: u64, size_mb: u64, rss_mb: u64) -> Mapping {
        Mapping {
            range: start_mb * MB..(start_mb + size_mb) * MB,
            rss: Bytes(rss_mb * MB),
            pss: Bytes(rss_mb * MB),
            private: Bytes(rss_mb * MB),
            ..Mapping::default()
        }
    }

    fn megabytes(parts: &[LedgerPart], kind: PartKind) -> u64 {
        parts.iter().filter(|part| part.kind == kind).map(|part| part.pss.0 / MB).sum()
    }

    fn probe() -> ProbeFigures {
        ProbeFigures {
            allocator: Some("glibc".into()),
            heap_pages: Vec::from([100 * MB..104 * MB, 104 * MB..110 * MB]),
            pools: vec![SlotPool { slot_size: 1024, live: Some(6 * 1024), ..SlotPool::default() }],
            malloc: Some(MallocFigures {
                live: Bytes(20 * MB),
                free: Bytes(12 * MB),
                free_in_memory: Bytes(4 * MB),
                overhead: Bytes(0),
                large: Bytes(5 * MB),
                unread: Bytes(0),
            }),
            ..ProbeFigures::default()
        }
    }

    #[test]
    fn live_free_and_unexplained_memory_are_separated() {
        let mappings = [mapping(1, 40, 30), mapping(100, 20, 20), mapping(200, 8, 8)];
        let regions = [Region::MainArena, Region::Anonymous, Region::File];
        let probe = probe();
        let parts = Groups::of(&mappings, &regions, Some(&probe), None).parts_with_probe(&probe);
        for (kind, expected) in [
            (PartKind::CodeAndFiles, 8),
            (PartKind::SlotsLive, 6),
            (PartKind::SlotsFree, 4),
            // 20 in the arena and 5 in mappings of their own.
            (PartKind::MallocLive, 25),
            // 12 are free, but only 10 of them are resident.
            (PartKind::MallocFree, 10),
        ] {
            assert_eq!(megabytes(&parts, kind), expected, "{kind:?}");
        }
        let explained: u64 = parts.iter().map(|part| part.pss.0 / MB).sum();
        assert_eq!(58 - explained, 5, "anonymous memory that neither Ruby nor malloc owns");
    }

    #[test]
    fn heap_pages_that_ruby_does_not_list_are_free_slots() {
        let mappings = [mapping(1, 40, 30), mapping(100, 20, 20)];
        let regions = [Region::MainArena, Region::Anonymous];
        for (unlisted, free) in [(3, 7), (100, 14)] {
            let probe = ProbeFigures { unlisted_pages: Bytes(unlisted * MB), ..probe() };
            let parts =
                Groups::of(&mappings, &regions, Some(&probe), None).parts_with_probe(&probe);
            assert_eq!(megabytes(&parts, PartKind::SlotsFree), free, "{unlisted}");
            assert_eq!(megabytes(&parts, PartKind::SlotsLive), 6);
        }
    }

    #[test]
    fn live_memory_that_was_never_written_does_not_hide_free_memory() {
        let mut probe = probe();
        for (allocator, live, free, overhead) in
            [("glibc", 26, 4, 0), ("jemalloc", 24, 4, 2), ("tcmalloc", 30, 0, 0)]
        {
            probe.allocator = Some(allocator.into());
            probe.malloc = Some(MallocFigures {
                live: Bytes(60 * MB),
                free: Bytes(12 * MB),
                free_in_memory: Bytes(free * MB),
                overhead: Bytes(overhead * MB),
                large: Bytes(0),
                unread: Bytes(0),
            });
            let parts = Groups::of(&[mapping(1, 90, 30)], &[Region::MainArena], Some(&probe), None)
                .parts_with_probe(&probe);
            for (kind, expected) in [
                (PartKind::MallocLive, live),
                (PartKind::MallocFree, free),
                (PartKind::AllocatorOverhead, overhead),
            ] {
                assert_eq!(megabytes(&parts, kind), expected, "{kind:?} of {allocator}");
            }
        }
    }

    #[test]
    fn slots_on_pages_from_malloc_count_once() {
        let mappings = [mapping(90, 40, 40)];
        let probe = ProbeFigures {
            malloc: Some(MallocFigures { live: Bytes(40 * MB), ..MallocFigures::default() }),
            ..probe()
        };
        let parts = Groups::of(&mappings, &[Region::MainArena], Some(&probe), None)
            .parts_with_probe(&probe);
        assert_eq!(megabytes(&parts, PartKind::MallocLive), 30);
        assert_eq!(parts.iter().map(|part| part.pss.0 / MB).sum::<u64>(), 40);
    }

    #[test]
    fn a_transient_heap_that_the_kernel_joined_with_memory_of_malloc_is_told_by_its_address() {
        // 32 MiB from 110 on, of which the page map is not read: as full as the mapping.
        let probe = ProbeFigures {
            transient_heap: Some(110 * MB..142 * MB),
            heap_pages: Vec::new(),
            ..probe()
        };
        for allocator in ["glibc", "jemalloc"] {
            let probe = ProbeFigures { allocator: Some(allocator.into()), ..probe.clone() };
            let mappings = [mapping(100, 64, 32), mapping(200, 8, 8)];
            let regions = [Region::Anonymous, Region::File];
            let parts =
                Groups::of(&mappings, &regions, Some(&probe), None).parts_with_probe(&probe);
            assert_eq!(megabytes(&parts, PartKind::TransientHeap), 16, "{allocator}");
            assert_eq!(megabytes(&parts, PartKind::CodeAndFiles), 8, "{allocator}");
        }
    }

    #[test]
    fn without_the_probe_no_part_is_live() {
        let mappings = [mapping(1, 40, 30), mapping(100, 20, 20)];
        let regions = [Region::MainArena, Region::Anonymous];
        let parts = Groups::of(&mappings, &regions, None, None).parts_without_probe(true);
        assert_eq!(megabytes(&parts, PartKind::Malloc), 30);
        assert_eq!(megabytes(&parts, PartKind::SlotsOrMalloc), 20);
        assert_eq!(parts.len(), 2);
    }
}
