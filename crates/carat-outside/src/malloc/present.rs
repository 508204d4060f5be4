//! The pages of a process that are in memory, as runs of addresses.

use crate::memory::{Memory, MemoryRegion, PAGE};
use std::cell::Cell;

/// Larger chunks may be mostly absent.
const LARGE: u64 = 1 << 20;

/// Runs of present pages, by address.
#[derive(Debug, Clone, Default)]
pub(crate) struct PresentRuns {
    runs: Vec<(u64, u64)>,
    /// The run that was found last: chunks are asked for by address.
    last: Cell<usize>,
}

impl PresentRuns {
    /// Those of all mappings.
    pub(crate) fn of(memory: &dyn Memory) -> Self {
        let runs = memory.regions().iter().flat_map(|region| Self::of_region(region).runs);
        Self { runs: runs.collect(), last: Cell::default() }
    }

    /// Those of one mapping.
    pub(crate) fn of_region(region: &MemoryRegion) -> Self {
        let runs = region.pages.runs(u64::MAX).into_iter().map(|(first, count)| {
            let start = region.start.saturating_add(first.saturating_mul(PAGE));
            (start, start.saturating_add(count.saturating_mul(PAGE)).min(region.end))
        });
        Self { runs: runs.collect(), last: Cell::default() }
    }

    /// Every run.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().copied()
    }

    /// The parts of runs inside a range.
    pub(crate) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = self.first_behind(start);
        let runs = self.runs[first..].iter().take_while(move |run| run.0 < end);
        runs.map(move |run| (run.0.max(start), run.1.min(end)))
    }

    /// The place of the first run that ends behind an address.
    fn first_behind(&self, address: u64) -> usize {
        let last = self.last.get();
        let ends_behind = |at: usize| self.runs.get(at).is_some_and(|run| run.1 > address);
        if ends_behind(last) && last.checked_sub(1).is_none_or(|before| !ends_behind(before)) {
            return last;
        }
        let found = self.runs.partition_point(|run| run.1 <= address);
        self.last.set(found);
        found
    }

    /// The contents of a chunk to visit, from `start` to `end`: as a whole, or the present parts of a large one.
    pub(crate) fn contents(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let is_large = end.saturating_sub(start) > LARGE;
        let whole = (!is_large).then_some((start, end));
        let parts = is_large.then(|| self.within(start, end));
        whole.into_iter().chain(parts.into_iter().flatten())
    }

    /// Bytes of the runs inside a range.
    pub(crate) fn bytes_within(&self, start: u64, end: u64) -> u64 {
        self.within(start, end).map(|(start, end)| end.saturating_sub(start)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;

    #[test]
    fn runs_are_cut_to_a_range() {
        let mut memory = FakeMemory::default();
        memory.map_anonymous(0x1000, 0x9000);
        for page in [0x1000, 0x2000, 0x5000] {
            memory.write(page, &[1]);
        }
        let runs = PresentRuns::of(&memory);
        assert_eq!(runs.iter().collect::<Vec<_>>(), [(0x1000, 0x3000), (0x5000, 0x6000)]);
        assert_eq!(
            runs.within(0x2800, 0x5800).collect::<Vec<_>>(),
            [(0x2800, 0x3000), (0x5000, 0x5800)]
        );
        assert_eq!(runs.bytes_within(0, u64::MAX), 3 * PAGE);
        assert_eq!(runs.bytes_within(0x3000, 0x5000), 0);
    }

    #[test]
    fn a_large_chunk_is_visited_where_it_is_present_and_a_small_one_as_a_whole() {
        const BASE: u64 = 0x10_0000;
        let mut memory = FakeMemory::default();
        memory.map_anonymous(BASE, BASE + 4 * LARGE);
        memory.write(BASE, &[1]);
        memory.write(BASE + LARGE, &[1]);
        let runs = PresentRuns::of(&memory);
        let parts = [(BASE + 16, BASE + PAGE), (BASE + LARGE, BASE + LARGE + PAGE)];
        let whole = [(BASE + 16, BASE + 2 * PAGE + 8)];
        for (size, expected) in [(2 * PAGE, &whole[..]), (2 * LARGE, &parts)] {
            let contents = runs.contents(BASE + 16, BASE + size + 8);
            assert_eq!(contents.collect::<Vec<_>>(), expected);
        }
    }
}
