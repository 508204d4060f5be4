//! What is known from inside one Ruby: the probe's figures as plain data.

use crate::core::Bytes;
use crate::core::ledger::{Arena, ClassicRatios, SlotPool};
use std::ops::Range;

/// What the probe inside one process says; everything may be missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbeFigures {
    /// Version of Ruby.
    pub ruby: Option<String>,
    /// Name of the allocator that answers `malloc`.
    pub allocator: Option<String>,
    /// Addresses of Ruby's heap pages, in order and without overlap.
    pub heap_pages: Vec<Range<u64>>,
    /// Slots by size.
    pub pools: Vec<SlotPool>,
    /// Slots that hold an object, over all pools.
    pub live_slots: Option<u64>,
    /// The published experiment's two measures.
    pub classic: Option<ClassicRatios>,
    /// Bytes in heap pages without any object.
    pub empty_pages: Option<Bytes>,
    /// Malloc's arenas.
    pub arenas: Vec<Arena>,
    /// Malloc's figures over all arenas.
    pub malloc: Option<MallocFigures>,
    /// Whole free pages inside malloc.
    pub returnable: Option<Bytes>,
}

/// What an allocator says about itself, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MallocFigures {
    /// In use, without `large`.
    pub live: Bytes,
    /// Held and not in use.
    pub free: Bytes,
    /// Tables, and what blocks are larger than asked.
    pub overhead: Bytes,
    /// In use in blocks with a mapping of their own.
    pub large: Bytes,
}

impl ProbeFigures {
    /// Bytes of the slots that hold an object; `None` where the probe does not say.
    ///
    /// Ruby 3.2 and 3.3 count live slots over all pools only: there every pool is taken to be as full as the
    /// whole heap.
    pub fn live_slot_bytes(&self) -> Option<Bytes> {
        let by_pool = |pool: &SlotPool| Some(Bytes(pool.live?.saturating_mul(pool.slot_size)));
        let exact: Option<Bytes> = self.pools.iter().map(by_pool).sum();
        exact.filter(|_| !self.pools.is_empty()).or_else(|| self.estimated_live_bytes())
    }

    fn estimated_live_bytes(&self) -> Option<Bytes> {
        let of = |pool: &SlotPool| Some((pool.slots? as f64, pool.slot_size as f64));
        let pools: Vec<(f64, f64)> = self.pools.iter().map(of).collect::<Option<_>>()?;
        let slots: f64 = pools.iter().map(|(slots, _)| slots).sum();
        let bytes: f64 = pools.iter().map(|(slots, size)| slots * size).sum();
        let full = self.live_slots? as f64 / slots;
        (slots > 0.0).then(|| Bytes((bytes * full.min(1.0)) as u64))
    }

    /// The heap's ranges inside `within`, cut to it.
    pub fn heap_within<'a>(
        &'a self,
        within: &'a Range<u64>,
    ) -> impl Iterator<Item = Range<u64>> + 'a {
        let first = self.heap_pages.partition_point(|range| range.end <= within.start);
        self.heap_pages[first..]
            .iter()
            .take_while(|range| range.start < within.end)
            .map(|range| range.start.max(within.start)..range.end.min(within.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_pages_are_cut_to_the_mapping_that_is_asked_for() {
        let inside =
            ProbeFigures { heap_pages: vec![0..4, 8..12, 16..20], ..ProbeFigures::default() };
        let cut = |within: Range<u64>| inside.heap_within(&within).collect::<Vec<_>>();
        assert_eq!(cut(10..18), [10..12, 16..18]);
        assert_eq!(cut(4..8), Vec::<Range<u64>>::new());
        assert_eq!(cut(0..100).len(), 3);
    }

    #[test]
    fn pools_without_live_counts_are_taken_to_be_as_full_as_the_heap() {
        let pool =
            |slot_size, slots| SlotPool { slot_size, slots: Some(slots), ..SlotPool::default() };
        let inside = ProbeFigures {
            pools: vec![pool(40, 1000), pool(80, 500)],
            live_slots: Some(750),
            ..ProbeFigures::default()
        };
        assert_eq!(inside.live_slot_bytes(), Some(Bytes(40_000)));
        assert_eq!(ProbeFigures { live_slots: None, ..inside }.live_slot_bytes(), None);
        assert_eq!(ProbeFigures::default().live_slot_bytes(), None);
    }
}
