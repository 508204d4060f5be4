//! What the chunks of one arena add up to.

use crate::bytes::align_down;
use crate::hash::AddressSet;
use crate::malloc::data::{ArenaCensus, ChunkAmount, ChunkSize};
use crate::malloc::glibc::spans::ChunkSpan;
use crate::malloc::glibc::walk::SMALLEST;
use crate::malloc::residency::ResidentPages;
use crate::malloc::table::{Chunk, ChunkState};
use crate::memory::{Memory, PAGE};

/// Bytes at the start of a free chunk that `malloc_trim` keeps (`sizeof (struct malloc_chunk)`, mtrim, malloc/malloc.c).
const TRIM_KEEPS: u64 = 48;

/// Adds up the chunks of one arena, which come by address within each of its stretches.
pub(super) struct ArenaTally {
    census: ArenaCensus,
    pages: ResidentPages,
    /// Chunks in fastbins, which look as if they were in use.
    fast: AddressSet,
    /// Free chunks that adjoin once fastbins are merged.
    free_run: Option<(u64, u64)>,
    by_power: [ChunkAmount; 64],
}

impl ArenaTally {
    pub(super) fn new(memory: &dyn Memory, spans: &[ChunkSpan], fast: AddressSet) -> Self {
        let places: Vec<(u64, u64)> = spans.iter().map(|span| (span.start, span.end)).collect();
        let pages = ResidentPages::of(memory, &places);
        let census = ArenaCensus {
            heaps: spans.len() as u64,
            resident_bytes: pages.bytes(),
            ..ArenaCensus::default()
        };
        Self { census, pages, fast, free_run: None, by_power: [ChunkAmount::default(); 64] }
    }

    /// Counts a chunk that is not the top one, and returns it with its final state.
    pub(super) fn chunk(&mut self, chunk: Chunk) -> Chunk {
        let is_fast = chunk.state == ChunkState::Live && self.fast.contains(&chunk.address);
        let state = if is_fast { ChunkState::Fast } else { chunk.state };
        let present = self.pages.present(chunk.address, chunk.end());
        match state {
            ChunkState::Free => {
                self.census.free.add(chunk.size, present);
                self.by_power[chunk.size.ilog2() as usize].add(chunk.size, present);
            }
            ChunkState::Fast => self.census.fastbins.add(chunk.size, present),
            // A chunk in the cache of a thread looks live too; `cached` takes it out again.
            _ => {
                self.census.in_use.add(chunk.size, present);
                self.pages.use_bytes(chunk.address, chunk.end());
                self.end_run();
                return chunk;
            }
        }
        let start = match self.free_run.take() {
            Some((start, end)) if end == chunk.address => start,
            run => {
                self.free_run = run;
                self.end_run();
                chunk.address
            }
        };
        self.free_run = Some((start, chunk.end()));
        Chunk { state, ..chunk }
    }

    /// Counts the free chunks that adjoin as what `malloc_trim` sees after it has merged them.
    fn end_run(&mut self) {
        if let Some((start, end)) = self.free_run.take() {
            let kept = start.saturating_add(TRIM_KEEPS);
            self.census.trimmable_free_bytes += self.pages.within(kept, end);
        }
    }

    /// Counts the top chunk. `to_break` says that the program break follows it, from where it can be trimmed.
    pub(super) fn top(&mut self, chunk: Chunk, to_break: bool) {
        self.census.top_bytes = chunk.size;
        self.census.top_present_bytes = self.pages.present(chunk.address, chunk.end());
        let start = match self.free_run.take() {
            Some((start, end)) if end == chunk.address => start,
            run => {
                self.free_run = run;
                self.end_run();
                chunk.address
            }
        };
        if to_break {
            // systrim keeps MINSIZE and one byte, and then whole pages.
            let spare = (chunk.end() - start).saturating_sub(SMALLEST + 1);
            let from = chunk.end() - align_down(spare, PAGE);
            self.census.trimmable_top_bytes += self.pages.within(from, chunk.end());
        }
    }

    /// Ends a stretch without a top chunk.
    pub(super) fn end_span(&mut self) {
        self.end_run();
    }

    /// Counts malloc's own bytes.
    pub(super) const fn headers(&mut self, bytes: u64) {
        self.census.header_bytes = self.census.header_bytes.saturating_add(bytes);
    }

    /// Counts bytes that no chunk was found for.
    pub(super) const fn missing(&mut self, bytes: u64) {
        self.census.missing_bytes = self.census.missing_bytes.saturating_add(bytes);
    }

    /// Bytes that are missing so far.
    pub(super) const fn missing_so_far(&self) -> u64 {
        self.census.missing_bytes
    }

    /// A chunk that was counted as in use lies in the cache of a thread.
    pub(super) fn cached(&mut self, address: u64, size: u64) {
        // A chunk in both lists was read while the process ran, and it was counted already.
        if self.fast.contains(&address) || self.census.in_use.bytes < size {
            return;
        }
        let present = self.pages.present(address, address.saturating_add(size));
        self.census.in_use.remove(size, present);
        self.census.thread_cached.add(size, present);
        self.pages.free_bytes(address, address.saturating_add(size));
    }

    /// The finished census.
    pub(super) fn finish(mut self) -> ArenaCensus {
        let sums = [self.census.in_use, self.census.free, self.census.fastbins];
        let chunks = sums.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
        // The sum of the parts, not what malloc says of itself, so that the parts always add up.
        let others = [
            self.census.thread_cached.bytes,
            self.census.top_bytes,
            self.census.header_bytes,
            self.census.missing_bytes,
        ];
        self.census.system_bytes =
            others.iter().fold(chunks, |sum, part| sum.saturating_add(*part));
        let sizes = self.by_power.iter().enumerate().filter(|(_, amount)| amount.chunks > 0);
        let sizes = sizes.map(|(power, amount)| ChunkSize { size: 1 << power, amount: *amount });
        self.census.free_by_size = sizes.collect();
        self.census.occupancy = self.pages.occupancy();
        self.census.map = self.pages.map();
        self.census
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;

    const BASE: u64 = 0x10_0000;

    fn tally(fast: &[u64]) -> ArenaTally {
        let mut memory = FakeMemory::default();
        memory.map_anonymous(BASE, BASE + 16 * PAGE);
        for page in 0..16 {
            memory.write(BASE + page * PAGE, &[1]);
        }
        let span = ChunkSpan {
            start: BASE,
            end: BASE + 16 * PAGE,
            first: BASE,
            of_main: true,
            has_top: true,
        };
        ArenaTally::new(&memory, &[span], fast.iter().copied().collect())
    }

    fn chunk(page: u64, pages: u64, state: ChunkState) -> Chunk {
        Chunk::headed(BASE + page * PAGE, pages * PAGE, state)
    }

    #[test]
    fn a_free_chunk_gives_back_its_whole_pages_but_not_the_one_with_its_links() {
        let mut tally = tally(&[]);
        tally.chunk(chunk(0, 2, ChunkState::Live));
        tally.chunk(chunk(2, 4, ChunkState::Free));
        tally.chunk(chunk(6, 1, ChunkState::Live));
        tally.top(chunk(7, 9, ChunkState::Top), true);
        let census = tally.finish();
        assert_eq!(census.trimmable_free_bytes, 3 * PAGE);
        assert_eq!(census.trimmable_top_bytes, 8 * PAGE);
        assert_eq!(census.system_bytes, 16 * PAGE);
        assert_eq!(census.free_by_size, [ChunkSize { size: 16384, amount: census.free }]);
        assert_eq!(census.occupancy.page_bytes[10], 3 * PAGE);
        assert_eq!(census.occupancy.empty_bytes, 13 * PAGE);
    }

    #[test]
    fn chunks_of_fastbins_are_merged_before_they_are_trimmed() {
        let mut tally = tally(&[BASE + PAGE]);
        tally.chunk(chunk(0, 1, ChunkState::Free));
        let merged = tally.chunk(chunk(1, 1, ChunkState::Live));
        assert_eq!(merged.state, ChunkState::Fast);
        tally.chunk(chunk(2, 1, ChunkState::Free));
        tally.chunk(chunk(3, 1, ChunkState::Live));
        tally.top(chunk(4, 12, ChunkState::Top), false);
        let census = tally.finish();
        assert_eq!(census.trimmable_free_bytes, 2 * PAGE);
        assert_eq!(census.trimmable_top_bytes, 0);
        assert_eq!(census.fastbins, ChunkAmount::resident(1, PAGE));
    }

    #[test]
    fn a_chunk_in_a_threads_cache_is_not_in_use() {
        let mut tally = tally(&[]);
        let one = chunk(0, 1, ChunkState::Live);
        tally.chunk(one);
        tally.chunk(chunk(1, 1, ChunkState::Live));
        tally.top(chunk(2, 14, ChunkState::Top), true);
        tally.cached(one.address, one.size);
        let census = tally.finish();
        assert_eq!(census.in_use, ChunkAmount::resident(1, PAGE));
        assert_eq!(census.thread_cached, ChunkAmount::resident(1, PAGE));
        assert_eq!(census.occupancy.page_bytes[10], PAGE);
        assert_eq!(census.system_bytes, 16 * PAGE);
    }
}
