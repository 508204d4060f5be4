//! Breadth first through the chunks, from all holders at once: who is nearest holds a chunk.

use crate::malloc::present::PresentRuns;
use crate::malloc::{Chunk, ChunkTable};
use crate::memory::{Memory, for_each_word};

/// Number of no holder.
pub(super) const NOBODY: u32 = 0;

/// The search. Holders are numbers from 1.
pub(super) struct ChunkSearch<'a> {
    memory: &'a dyn Memory,
    chunks: &'a ChunkTable,
    present: PresentRuns,
    /// Holder of each chunk.
    holders: Vec<u32>,
    /// The first holder that points into the middle of each chunk.
    inside: Vec<u32>,
    /// Chunks whose contents are to be visited.
    front: Vec<u32>,
}

impl<'a> ChunkSearch<'a> {
    pub(super) fn new(memory: &'a dyn Memory, chunks: &'a ChunkTable) -> Self {
        Self {
            memory,
            chunks,
            present: PresentRuns::of(memory),
            holders: vec![NOBODY; chunks.len()],
            inside: vec![NOBODY; chunks.len()],
            front: Vec::new(),
        }
    }

    /// The chunk without a holder that a word points at.
    pub(super) fn target(&self, word: u64) -> Option<(usize, Chunk)> {
        let number = self.chunks.find(word)?;
        if self.holders[number] != NOBODY {
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
            self.front.push(number as u32);
        } else if self.inside[number] == NOBODY {
            self.inside[number] = holder;
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

    /// Visits the contents of held chunks until nothing new is found, first along pointers to the start of chunks.
    pub(super) fn spread(&mut self) {
        loop {
            while !self.front.is_empty() {
                for number in std::mem::take(&mut self.front) {
                    self.visit(number as usize);
                }
            }
            for number in 0..self.holders.len() {
                if self.holders[number] == NOBODY && self.inside[number] != NOBODY {
                    self.holders[number] = self.inside[number];
                    self.front.push(number as u32);
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
        for (start, end) in present.contents(&chunk) {
            self.scan(start, end, holder);
        }
        self.present = present;
    }

    /// The holder of each chunk.
    pub(super) fn finish(self) -> Vec<u32> {
        self.holders
    }
}
