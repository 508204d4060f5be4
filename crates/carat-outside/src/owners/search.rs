//! Breadth first through the chunks, from all holders at once: who is nearest holds a chunk.

use crate::malloc::present::PresentRuns;
use crate::malloc::{Chunk, ChunkTable};
use crate::memory::{Memory, for_each_word};
use crate::number_set::NumberSet;

/// Number of no holder.
pub(super) const NOBODY: u32 = 0;
/// Marks a holder that points only into the middle of a chunk, as far as is known.
const MIDDLE: u32 = 1 << 31;

/// The search. Holders are numbers from 1.
pub(super) struct ChunkSearch<'a> {
    memory: &'a dyn Memory,
    chunks: &'a ChunkTable,
    present: PresentRuns,
    /// Holder of each chunk; with [`MIDDLE`] the first one that points into its middle.
    holders: Vec<u32>,
    /// Chunks whose contents are to be visited.
    front: NumberSet,
}

impl<'a> ChunkSearch<'a> {
    pub(super) fn new(memory: &'a dyn Memory, chunks: &'a ChunkTable) -> Self {
        Self {
            memory,
            chunks,
            present: PresentRuns::of(memory),
            holders: vec![NOBODY; chunks.len()],
            front: NumberSet::new(chunks.len()),
        }
    }

    /// The chunk without a holder that a word points at.
    pub(super) fn target(&self, word: u64) -> Option<(usize, Chunk)> {
        let number = self.chunks.find(word)?;
        if self.holders[number] != NOBODY && self.holders[number] & MIDDLE == 0 {
            return None;
        }
        // A pointer past the end of a chunk lies in the header of the next one.
        let chunk = self.chunks.get(number)?;
        (chunk.held() && word >= chunk.user()).then_some((number, chunk))
    }

    /// A holder points at a chunk: at its start, or into its middle, which counts only if nobody points at the start.
    pub(super) fn point(&mut self, word: u64, (number, chunk): (usize, Chunk), holder: u32) {
        if word == chunk.user() {
            self.holders[number] = holder;
            self.front.insert(number);
        } else if self.holders[number] == NOBODY {
            self.holders[number] = holder | MIDDLE;
        }
    }

    /// Gives a chunk to a holder without visiting its contents.
    pub(super) fn assign(&mut self, number: usize, holder: u32) {
        self.holders[number] = holder;
    }

    /// Visits every word of a range whose pages are present.
    pub(super) fn scan(&mut self, start: u64, end: u64, holder: u32) {
        for_each_word(self.memory, start, end, |word| {
            if let Some(target) = self.target(word) {
                self.point(word, target, holder);
            }
        });
    }

    /// Visits the contents of held chunks until nothing new is found, first along pointers to the start of chunks. Those of
    /// one distance are visited by address, so that memory is read in long stretches.
    pub(super) fn spread(&mut self) {
        let mut now = NumberSet::new(self.holders.len());
        loop {
            while !self.front.is_empty() {
                std::mem::swap(&mut self.front, &mut now);
                let mut from = 0;
                while let Some(number) = now.take_from(from) {
                    from = number;
                    self.visit(number);
                }
            }
            for (number, holder) in self.holders.iter_mut().enumerate() {
                if *holder & MIDDLE != 0 {
                    *holder &= !MIDDLE;
                    self.front.insert(number);
                }
            }
            if self.front.is_empty() {
                return;
            }
        }
    }

    fn visit(&mut self, number: usize) {
        let Some(chunk) = self.chunks.get(number) else { return };
        let holder = self.holders[number];
        // Taken out while the search changes.
        let present = std::mem::take(&mut self.present);
        for (start, end) in present.contents(chunk.user(), chunk.user_end()) {
            self.scan(start, end, holder);
        }
        self.present = present;
    }

    /// Bytes of memory of a search among so many chunks, beside their table.
    pub(super) const fn bytes(chunks: u64) -> u64 {
        chunks * size_of::<u32>() as u64 + 2 * NumberSet::bytes(chunks)
    }

    /// The holder of each chunk.
    pub(super) fn finish(self) -> Vec<u32> {
        self.holders
    }
}
