//! What objects hold alone: the strings, arrays, hashes and numbers to which nothing else refers.

use super::Reach;
use super::fields::Reference;
use super::forms::StTable;
use super::graph::Graph;
use crate::heap::{SlotHead, SlotType};
use crate::memory::for_each_word;

/// Types that are a part of what alone refers to them. Objects of other types count for themselves.
const PARTS: [SlotType; 5] =
    [SlotType::STRING, SlotType::ARRAY, SlotType::HASH, SlotType::FLOAT, SlotType::BIGNUM];
/// Nothing refers to a slot, or more than one thing does.
const NONE: u32 = u32::MAX;
const SEVERAL: u32 = u32::MAX - 1;
/// Objects in each other are followed so deep; an array may hold itself.
const DEEP: usize = 64;

/// The only referrer of each slot, by number.
struct Holders<'a> {
    graph: &'a Graph<'a>,
    /// Number of the first slot of each heap page, in the order of the pages.
    firsts: Vec<u32>,
    only: Vec<u32>,
}

impl Reach<'_> {
    /// Hands over every object with the bytes of its slot and its chunks, once for itself and once for each object that
    /// holds it alone: its address and the bytes.
    pub fn each_held(&self, mut each: impl FnMut(u64, u64)) {
        let holders = Holders::find(&self.marker.graph);
        for (address, bytes) in holders.slots() {
            // Each slot is handed on with what it owns, so that the sums of an object's parts need no second pass.
            let own = bytes + holders.chunk_bytes(address, bytes);
            let mut slot = address;
            for _ in 0..DEEP {
                each(slot, own);
                let Some(holder) = holders.holder(slot).filter(|holder| *holder != slot) else {
                    break;
                };
                slot = holder;
            }
        }
    }
}

impl<'a> Holders<'a> {
    fn find(graph: &'a Graph<'a>) -> Self {
        let mut slots = 0_u32;
        let mut firsts = Vec::new();
        for page in graph.words.heap.pages() {
            firsts.push(slots);
            slots = slots.saturating_add(u32::try_from(page.slots).unwrap_or(u32::MAX));
        }
        let mut holders = Self { graph, firsts, only: vec![NONE; slots as usize] };
        let all: Vec<(u64, u64)> = holders.slots().collect();
        for (address, bytes) in all {
            holders.references_of(address, bytes);
        }
        // After the slots: a word in a chunk without an owner makes several of what had one.
        holders.chunks();
        holders
    }

    /// Every slot with an object: address and bytes.
    fn slots(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let graph = self.graph;
        graph.words.heap.pages().iter().flat_map(move |page| {
            (0..page.slots)
                .map(|number| page.slot(number))
                .filter(|slot| graph.words.object(*slot).is_some())
                .map(|slot| (slot, page.slot_bytes))
        })
    }

    fn number(&self, slot: u64) -> Option<usize> {
        let page = self.graph.words.heap.slot_of(slot)?;
        let at =
            self.graph.words.heap.pages().partition_point(|other| other.address < page.address);
        let first = *self.firsts.get(at)?;
        Some(first as usize + page.slot_number(slot)? as usize)
    }

    fn address(&self, number: u32) -> Option<u64> {
        let at = self.firsts.partition_point(|first| *first <= number).checked_sub(1)?;
        let page = self.graph.words.heap.pages().get(at)?;
        Some(page.slot(u64::from(number - self.firsts[at])))
    }

    /// The object that alone refers to this one, if this one can be a part of another.
    fn holder(&self, slot: u64) -> Option<u64> {
        let flags = self.graph.words.object(slot)?;
        let kind = SlotHead { flags, class: 0 }.slot_type();
        let number = self.only.get(self.number(slot)?).copied()?;
        // An object of the application counts for itself, whoever refers to it.
        let is_alone = number != NONE && number != SEVERAL && PARTS.contains(&kind);
        is_alone.then(|| self.address(number)).flatten()
    }

    /// A reference from a slot; `SEVERAL` for one from elsewhere.
    fn refer(&mut self, from: u32, word: u64) {
        let Some(number) = self.number(word) else { return };
        let only = &mut self.only[number];
        *only = if *only == NONE || *only == from { from } else { SEVERAL };
    }

    fn references_of(&mut self, address: u64, bytes: u64) {
        let Some(view) = self.graph.words.view(address, bytes) else { return };
        let Some(from) = self.number(address).map(|number| number as u32) else { return };
        let mut words = Vec::new();
        let memory = self.graph.words.memory;
        view.references(&mut |reference| match reference {
            Reference::Value(word) => words.push(word),
            Reference::Values(start, count) => {
                // In a chunk, in a slot, or in the transient heap.
                let most =
                    self.graph.words.chunk_at(start).map_or(4096, |(_, chunk)| chunk.size / 8);
                let end = start.saturating_add(count.min(most) * 8);
                for_each_word(memory, start, end, |word| words.push(word));
            }
            Reference::Words(start, end) | Reference::Plain(start, end) => {
                for_each_word(memory, start, end, |word| words.push(word))
            }
            Reference::Fields(chunk, _) => {
                if let Some((_, chunk)) = self.graph.words.chunk_at(chunk) {
                    let (start, end) = (chunk.user(), chunk.user_end());
                    for_each_word(memory, start, end, |word| words.push(word));
                }
            }
            Reference::Table(table) => {
                if let Some(table) = StTable::read(memory, table) {
                    let pairs = table.pairs(memory, 1 << 24);
                    words.extend(pairs.flat_map(|(key, record)| [key, record]));
                }
            }
            Reference::Struct(_)
            | Reference::Pattern(_)
            | Reference::Bytes(_)
            | Reference::Buffer(..) => {}
        });
        words.into_iter().for_each(|word| self.refer(from, word));
    }

    /// Every word in a chunk that no object owns is a reference from elsewhere.
    fn chunks(&mut self) {
        let graph = self.graph;
        let held = graph.words.chunks.iter().enumerate().filter(|(_, chunk)| chunk.held());
        for (_, chunk) in held.filter(|(number, _)| !graph.is_owned(*number)) {
            for_each_word(graph.words.memory, chunk.user(), chunk.user_end(), |word| {
                self.refer(SEVERAL, word);
            });
        }
    }

    /// Bytes in memory of the chunks that a slot owns.
    fn chunk_bytes(&self, address: u64, bytes: u64) -> u64 {
        let Some(view) = self.graph.words.view(address, bytes) else { return 0 };
        let mut sum = 0;
        view.references(&mut |reference| match reference {
            Reference::Values(chunk, _)
            | Reference::Fields(chunk, _)
            | Reference::Struct(chunk)
            | Reference::Pattern(chunk)
            | Reference::Bytes(chunk) => sum += self.present(chunk),
            Reference::Plain(start, end) => {
                for_each_word(self.graph.words.memory, start, end, |word| {
                    sum += self.present(word)
                });
            }
            Reference::Buffer(address, bytes) => {
                if self.graph.words.buffer(address, bytes).is_some() {
                    sum += self.present(address);
                }
            }
            Reference::Table(table) => {
                sum += self.present(table);
                if let Some(table) = StTable::read(self.graph.words.memory, table) {
                    sum += self.present(table.bins) + self.present(table.entries);
                }
            }
            Reference::Value(_) | Reference::Words(..) => {}
        });
        sum
    }

    /// Bytes in memory of the chunk at an address.
    fn present(&self, address: u64) -> u64 {
        let chunk = self.graph.words.chunk_at(address);
        chunk.map_or(0, |(_, chunk)| self.graph.words.chunks.amount(&chunk).present)
    }
}
