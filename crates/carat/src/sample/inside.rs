//! What is known from inside one Ruby: the probe's figures as plain data.

use crate::model::Bytes;
use crate::model::ledger::{Arena, ClassicRatios, SlotPool};
use std::ops::Range;

/// What the probe inside one process says; everything may be missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inside {
    /// Version of Ruby.
    pub ruby: Option<String>,
    /// Name of the allocator that answers `malloc`.
    pub allocator: Option<String>,
    /// Addresses of Ruby's heap pages, in order and without overlap.
    pub heap_pages: Vec<Range<u64>>,
    /// Slots by size.
    pub pools: Vec<SlotPool>,
    /// The published experiment's two measures.
    pub classic: Option<ClassicRatios>,
    /// Bytes in heap pages without any object.
    pub empty_pages: Option<Bytes>,
    /// Malloc's arenas.
    pub arenas: Vec<Arena>,
    /// Malloc's figures over all arenas.
    pub malloc: Option<MallocFigures>,
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

impl Inside {
    /// Bytes of the slots that hold an object; `None` where the probe does not say.
    pub fn live_slot_bytes(&self) -> Option<Bytes> {
        let bytes = |pool: &SlotPool| Bytes(pool.live.saturating_mul(pool.slot_size));
        (!self.pools.is_empty()).then(|| self.pools.iter().map(bytes).sum())
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
        let inside = Inside { heap_pages: vec![0..4, 8..12, 16..20], ..Inside::default() };
        let cut = |within: Range<u64>| inside.heap_within(&within).collect::<Vec<_>>();
        assert_eq!(cut(10..18), [10..12, 16..18]);
        assert_eq!(cut(4..8), Vec::<Range<u64>>::new());
        assert_eq!(cut(0..100).len(), 3);
    }
}
