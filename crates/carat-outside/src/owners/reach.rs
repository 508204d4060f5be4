//! What can be reached from the roots.
//!
//! The roots are the data of libraries, the stacks and thread-local data, and other anonymous memory. Every word that could
//! be a pointer counts as one, so what is not reached is garbage for certain, unless a pointer is stored in another form.
//! Ruby's collector marks more precisely: of the objects that are reached here, it frees up to 4 % more.

use crate::hash::AddressMap;
use crate::heap::{Heap, SlotHead, SlotType};
use crate::malloc::ChunkTable;
use crate::malloc::present::PresentRuns;
use crate::memory::{Memory, for_each_word};
use crate::owners::data::ReachCensus;
use crate::owners::ground::{find_ground, transient_ranges};
use std::collections::HashSet;

/// Objects and chunks that were reached.
struct ReachMark<'a> {
    memory: &'a dyn Memory,
    heap: &'a Heap,
    chunks: &'a ChunkTable,
    present: PresentRuns,
    /// Number of the first slot of each heap page, by address.
    first_slots: AddressMap<u64>,
    slots: Vec<u64>,
    chunk_marks: Vec<bool>,
    /// Ranges to visit.
    stack: Vec<(u64, u64)>,
    /// The transient heap, and the places in it that were visited.
    transient: Vec<(u64, u64)>,
    transient_marks: HashSet<u64>,
}

/// Counts what is reached and what is not.
pub fn reach(memory: &dyn Memory, heap: &Heap, chunks: &ChunkTable) -> ReachCensus {
    let mut first_slots = AddressMap::default();
    let mut slots = 0;
    for page in heap.pages() {
        first_slots.insert(page.address, slots);
        slots += page.slots;
    }
    let mut marker = ReachMark {
        memory,
        heap,
        chunks,
        present: PresentRuns::of(memory),
        first_slots,
        slots: vec![0; slots.div_ceil(64) as usize],
        chunk_marks: vec![false; chunks.len()],
        stack: Vec::new(),
        transient: transient_ranges(memory, heap, chunks),
        transient_marks: HashSet::new(),
    };
    // The collector's own tables point at every page, and a page that malloc made is no root.
    for page in heap.pages() {
        for address in [page.descriptor, page.address] {
            if let Some(number) = chunks.find(address) {
                marker.chunk_marks[number] = true;
            }
        }
    }
    let collector = marker.chunk_marks.clone();
    for pages in find_ground(memory, heap, chunks, &[]) {
        for (start, end) in pages.ranges {
            marker.scan(start, end);
            marker.drain();
        }
    }
    marker.census(&collector)
}

impl ReachMark<'_> {
    fn drain(&mut self) {
        while let Some((start, end)) = self.stack.pop() {
            self.scan(start, end);
        }
    }

    fn scan(&mut self, start: u64, end: u64) {
        for_each_word(self.memory, start, end, |word| self.visit(word));
    }

    fn visit(&mut self, word: u64) {
        // The last bytes of a page of 16 KiB belong to malloc, which may put the next chunk there.
        if let Some(page) = self.heap.page_at(word)
            && let Some(slot) = page.slot_number(word)
        {
            let first = self.first_slots.get(&page.address).copied();
            if let Some(first) = first.filter(|_| page.starts_slot(word)) {
                let end = word.saturating_add(page.slot_bytes);
                self.slot(first + slot, word, end);
            }
            return;
        }
        if self.transient.iter().any(|range| word > range.0 && word < range.1) {
            self.transient(word);
        }
        let Some(number) = self.chunks.find(word) else { return };
        if self.chunk_marks[number] {
            return;
        }
        let Some(chunk) = self.chunks.get(number).filter(|chunk| chunk.held()) else { return };
        self.chunk_marks[number] = true;
        if self.transient.iter().any(|range| range.0 == chunk.address) {
            return;
        }
        self.stack.extend(self.present.contents(&chunk));
    }

    /// Contents of an object in the transient heap: 16 bytes before them stands their length, this header included (struct
    /// transient_alloc_header, transient_heap.c).
    fn transient(&mut self, word: u64) {
        let Some(header) = word.checked_sub(16).filter(|_| word.is_multiple_of(8)) else { return };
        if self.transient_marks.insert(word) {
            let length = self.memory.word(header).map_or(0, |header| header & 0xffff);
            self.stack.push((word, header.saturating_add(length)));
        }
    }

    fn slot(&mut self, number: u64, start: u64, end: u64) {
        let (place, bit) = ((number / 64) as usize, 1 << (number % 64));
        let Some(marks) = self.slots.get_mut(place).filter(|marks| **marks & bit == 0) else {
            return;
        };
        let flags = self.memory.word(start).unwrap_or(0);
        if (SlotHead { flags, class: 0 }).slot_type() != SlotType::NONE {
            *marks |= bit;
            self.stack.push((start, end));
        }
    }

    fn census(&self, collector: &[bool]) -> ReachCensus {
        let mut census = ReachCensus::default();
        let mut bytes = Vec::new();
        for page in self.heap.pages() {
            self.heap.read_slots(self.memory, page, &mut bytes);
            let first = self.first_slots.get(&page.address).copied().unwrap_or(0);
            for number in 0..page.slots {
                let start = page.slot(number).wrapping_sub(page.address) as usize;
                let head = bytes.get(start..).and_then(SlotHead::of);
                if head.is_none_or(|head| head.slot_type() == SlotType::NONE) {
                    continue;
                }
                let mark = first + number;
                let marks = self.slots.get((mark / 64) as usize).copied().unwrap_or(0);
                if marks >> (mark % 64) & 1 == 1 {
                    census.reached_objects += 1;
                    census.reached_slot_bytes += page.slot_bytes;
                } else {
                    census.unreached_objects += 1;
                    census.unreached_slot_bytes += page.slot_bytes;
                }
            }
        }
        let chunks = self.chunks.iter().zip(&self.chunk_marks).zip(collector);
        for ((chunk, reached), collector) in chunks.filter(|((chunk, _), _)| chunk.held()) {
            match (reached, collector) {
                (true, _) | (_, true) => census.reached_chunks.add(chunk.size),
                (false, false) => census.unreached_chunks.add(chunk.size),
            }
        }
        census
    }
}
