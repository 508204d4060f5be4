//! The figures of the inside of one process, of its probe or read from outside, as plain data.

use carat_model::Bytes;
use carat_model::ledger::{Arena, Basis, ClassicRatios, JitUse, SlotPool};
use std::ops::Range;

/// The figures of the inside of one process. Each may be missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbeFigures {
    /// Where they come from.
    pub basis: Basis,
    /// Version of Ruby.
    pub ruby: Option<String>,
    /// Name of the allocator that serves `malloc`.
    pub allocator: Option<String>,
    /// Name of the file with its `malloc`.
    pub malloc_file: Option<String>,
    /// Addresses of Ruby's heap pages, in order and without overlap.
    pub heap_pages: Vec<Range<u64>>,
    /// Addresses of the transient heap, if they are known.
    pub transient_heap: Option<Range<u64>>,
    /// Why the probe does not know Ruby's slots; `None` if it knows them.
    pub slots_unknown: Option<String>,
    /// Slots by size.
    pub pools: Vec<SlotPool>,
    /// Slots that hold an object, over all pools.
    pub live_slots: Option<u64>,
    /// The two measures of the arena experiment.
    pub classic: Option<ClassicRatios>,
    /// Bytes in heap pages that are not in `heap_pages`, because Ruby does not list them.
    pub unlisted_pages: Bytes,
    /// Bytes in heap pages without any object.
    pub empty_pages: Option<Bytes>,
    /// Bytes in all heap pages that Ruby allocated.
    pub all_pages: Option<Bytes>,
    /// Bytes that Ruby itself holds from malloc, as it counts them.
    pub malloc_of_ruby: Option<Bytes>,
    /// Objects that have survived several collections.
    pub old_objects: Option<u64>,
    /// Malloc's arenas.
    pub arenas: Vec<Arena>,
    /// The allocator's figures over all arenas.
    pub malloc: Option<MallocFigures>,
    /// Bytes of whole free pages inside malloc.
    pub returnable: Option<Bytes>,
    /// Ruby's compiler.
    pub jit: Option<JitUse>,
}

/// The figures of an allocator, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MallocFigures {
    /// In use, excluding `large`.
    pub live: Bytes,
    /// Held and not in use.
    pub free: Bytes,
    /// The part of `free` that is in memory whatever else is: glibc's free bytes between blocks in use, whose pages hold
    /// headers, or jemalloc's dirty pages.
    pub free_in_memory: Bytes,
    /// Tables, and the excess of blocks over the requested size.
    pub overhead: Bytes,
    /// In use in blocks with a mapping of their own.
    pub large: Bytes,
    /// Held, and in use or not: what the reader from outside could not read.
    pub unread: Bytes,
}

impl ProbeFigures {
    /// Bytes of the slots that hold an object; `None` if the probe does not know.
    ///
    /// If Ruby does not count live slots by size ([`carat_ruby::version::LIVE_SLOTS_BY_SIZE`]), every pool is assumed to
    /// be as full as the whole heap.
    pub fn live_slot_bytes(&self) -> Option<Bytes> {
        let exact: Option<Bytes> = self
            .pools
            .iter()
            .map(|pool| Some(Bytes(pool.live?.saturating_mul(pool.slot_size))))
            .sum();
        // The sum over no pools would be zero bytes.
        exact.filter(|_| !self.pools.is_empty()).or_else(|| self.estimated_live_bytes())
    }

    fn estimated_live_bytes(&self) -> Option<Bytes> {
        let sizes = self.pools.iter().map(|pool| Some((pool.slots? as f64, pool.slot_size as f64)));
        let pools: Vec<(f64, f64)> = sizes.collect::<Option<_>>()?;
        let slots: f64 = pools.iter().map(|(slots, _)| slots).sum();
        let bytes: f64 = pools.iter().map(|(slots, size)| slots * size).sum();
        let full = self.live_slots? as f64 / slots;
        // The counts can be of two moments, so more can be live than there are slots.
        (slots > 0.0).then(|| Bytes((bytes * full.min(1.0)) as u64))
    }

    /// The heap's ranges within these addresses, cut to them.
    pub fn heap_within<'a>(
        &'a self,
        within: &'a Range<u64>,
    ) -> impl Iterator<Item = Range<u64>> + 'a {
        // In order and without overlap, so the first range that matters is found by halving.
        let first = self.heap_pages.partition_point(|range| range.end <= within.start);
        self.heap_pages[first..]
            .iter()
            .take_while(|range| range.start < within.end)
            .map(|range| range.start.max(within.start)..range.end.min(within.end))
    }

    /// The transient heap within these addresses, cut to them.
    pub fn transient_within(&self, within: &Range<u64>) -> Option<Range<u64>> {
        let heap = self.transient_heap.as_ref()?;
        let cut = heap.start.max(within.start)..heap.end.min(within.end);
        Some(cut).filter(|cut| !cut.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_pages_are_cut_to_the_given_mapping() {
        let figures =
            ProbeFigures { heap_pages: vec![0..4, 8..12, 16..20], ..ProbeFigures::default() };
        let cut = |within: Range<u64>| figures.heap_within(&within).collect::<Vec<_>>();
        assert_eq!(cut(10..18), [10..12, 16..18]);
        assert_eq!(cut(4..8), Vec::<Range<u64>>::new());
        assert_eq!(cut(0..100).len(), 3);
    }

    #[test]
    fn pools_without_live_counts_are_assumed_to_be_as_full_as_the_heap() {
        let pool =
            |slot_size, slots| SlotPool { slot_size, slots: Some(slots), ..SlotPool::default() };
        let figures = ProbeFigures {
            pools: vec![pool(40, 1000), pool(80, 500)],
            live_slots: Some(750),
            ..ProbeFigures::default()
        };
        assert_eq!(figures.live_slot_bytes(), Some(Bytes(40_000)));
        assert_eq!(ProbeFigures { live_slots: None, ..figures }.live_slot_bytes(), None);
        assert_eq!(ProbeFigures::default().live_slot_bytes(), None);
    }
}
