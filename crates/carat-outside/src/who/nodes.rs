//! The nodes of a process: slots, chunks and roots by number, and where one node refers to another.

use super::dominators::References;
use super::libraries::Libraries;
use super::ways::NodeKinds;
use crate::heap::{SlotHead, SlotType};
use crate::malloc::Chunk;
use crate::memory::Memory;
use crate::reach::Reach;
use crate::reach::fields::{Reference, SlotView};
use crate::reach::forms::{HAS_GENERIC_FIELDS, StTable, TableKind};
use crate::reach::record::{Lists, ReferenceGraph, RootPlace};
use crate::reach::words::{LOWEST_ADDRESS, TRANSIENT_WORDS, Words};
use std::ops::Range;

/// Words that are searched for one reference.
const MOST_WORDS: u64 = 1 << 24;

/// The graph of a process, and what its nodes are.
pub(super) struct Nodes<'a> {
    pub(super) reach: &'a Reach<'a>,
    pub(super) graph: ReferenceGraph,
    pub(super) libraries: Libraries,
    /// The lowest byte of the flags of each slot: its type, and its age where that is in the flags.
    flags: Vec<u8>,
}

/// Where a node refers to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spot {
    /// By the word at this address.
    At(u64),
    /// By the table of instance variables of objects that have no room for any.
    GenericFields,
}

impl Spot {
    /// The address of the word.
    pub(super) const fn address(self) -> Option<u64> {
        match self {
            Self::At(address) => Some(address),
            Self::GenericFields => None,
        }
    }
}

impl<'a> Nodes<'a> {
    /// Bytes of memory for the flags of so many slots.
    pub(super) const fn bytes(slots: u64) -> u64 {
        slots
    }

    pub(super) fn new(reach: &'a Reach<'a>, graph: ReferenceGraph, libraries: Libraries) -> Self {
        let words = reach.words();
        // Read once: types are asked for at every step of every search, and ages for every object.
        let slots =
            words.heap.pages().iter().flat_map(|page| (0..page.slots).map(|n| page.slot(n)));
        let flags = slots.map(|slot| words.memory.word(slot).map_or(0, |flags| flags as u8));
        Self { reach, flags: flags.collect(), graph, libraries }
    }

    pub(super) fn words(&self) -> Words<'a> {
        self.reach.words()
    }

    pub(super) fn memory(&self) -> &'a dyn Memory {
        self.words().memory
    }

    /// Whether a node is a slot.
    pub(super) fn is_slot(&self, node: u32) -> bool {
        node < self.graph.slots()
    }

    /// The chunk that a node is, with its number.
    pub(super) fn chunk(&self, node: u32) -> Option<(usize, Chunk)> {
        let number = node.checked_sub(self.graph.first_chunk())? as usize;
        let is_chunk = node < self.graph.first_root();
        self.words().chunks.get(number).filter(|_| is_chunk).map(|chunk| (number, chunk))
    }

    /// What a root is: its address, and what it is a part of.
    pub(super) fn root(&self, node: u32) -> Option<(u64, RootPlace)> {
        self.graph.root(node)
    }

    /// The address of the object in a slot.
    pub(super) fn address(&self, node: u32) -> Option<u64> {
        self.is_slot(node).then(|| self.reach.slot(node).map(|slot| slot.0)).flatten()
    }

    /// The slot with an object that a node is.
    pub(super) fn view(&self, node: u32) -> Option<SlotView<'a>> {
        let (address, bytes) = self.reach.slot(node).filter(|_| self.is_slot(node))?;
        self.words().view(address, bytes)
    }

    /// Flags and class of an object.
    pub(super) fn head(&self, node: u32) -> Option<SlotHead> {
        let address = self.address(node)?;
        Some(SlotHead {
            flags: self.memory().word(address)?,
            class: self.memory().word_at(address, 8)?,
        })
    }

    /// Whether minor collections skip an object.
    pub(super) fn is_old(&self, node: u32) -> bool {
        let flags = self.flags.get(node as usize).copied();
        let head = flags.map(|flags| SlotHead { flags: flags.into(), class: 0 });
        head.is_some_and(|head| head.old(self.words().heap.version()))
    }

    /// Bytes in memory of a node.
    pub(super) fn present_bytes(&self, node: u32) -> u64 {
        match self.chunk(node) {
            Some((_, chunk)) => self.words().chunks.amount(&chunk).present,
            None => self.reach.slot(node).filter(|_| self.is_slot(node)).map_or(0, |slot| slot.1),
        }
    }

    /// Where a node refers to another; `None` if it is not found again.
    pub(super) fn spot(&self, from: u32, to: u32) -> Option<Spot> {
        let target = NodeTarget::of(self, to)?;
        if let Some(view) = self.view(from) {
            return self.spot_in_slot(&view, &target);
        }
        if let Some((number, chunk)) = self.chunk(from) {
            return self.spot_in_chunk(number, &chunk, &target).map(Spot::At);
        }
        None
    }

    fn spot_in_slot(&self, view: &SlotView<'_>, target: &NodeTarget<'_>) -> Option<Spot> {
        let mut found: Option<u64> = None;
        // The class is a reference like any other; internal objects have one of their own there.
        let is_internal = view.kind() == SlotType::IMEMO;
        let own = (view.address + if is_internal { 8 } else { 16 }, view.end());
        let mut ranges = Vec::new();
        if !is_internal {
            ranges.push((view.address + 8, view.address + 16));
        }
        view.references(&mut |reference| match reference {
            // What else is in the slot may be what was there before.
            Reference::Value(word) if !target.is(word) => {}
            // Wherever in the slot it is.
            Reference::Value(_)
            | Reference::Bytes(_)
            | Reference::Buffer(..)
            | Reference::Struct(_)
            | Reference::Pattern(_) => ranges.push(own),
            Reference::Values(start, count) => ranges.push(self.values(start, count)),
            Reference::Words(start, end) | Reference::Plain(start, end) => {
                ranges.push((start, end));
            }
            Reference::Fields(chunk, count) => match self.words().chunk_at(chunk) {
                Some((_, chunk)) if self.words().table_in(&chunk).is_none() => {
                    ranges.push(self.values(chunk.user(), count));
                }
                _ => found = found.or_else(|| self.spot_in_table(chunk, TableKind::Strong, target)),
            },
            Reference::Table(table) => {
                found = found.or_else(|| self.spot_in_table(table, TableKind::Strong, target));
            }
        });
        found = found.or_else(|| self.spot_in(&ranges, target));
        let has_fields = view.flags & HAS_GENERIC_FIELDS != 0;
        let generic = self.reach.generic_fields(view.address).filter(|_| has_fields);
        let generic = generic.is_some_and(|record| target.is(record));
        found.map(Spot::At).or_else(|| generic.then_some(Spot::GenericFields))
    }

    /// The addresses of objects in a chunk, in a slot, or in the transient heap.
    fn values(&self, start: u64, count: u64) -> (u64, u64) {
        let bytes = match self.words().chunk_at(start) {
            Some((_, chunk)) => chunk.user_end() - start,
            None => TRANSIENT_WORDS * 8,
        };
        (start, start.saturating_add(count.saturating_mul(8).min(bytes)))
    }

    /// The address of the word that leads to the contents of an object in which an address lies: of an array, a hash, a struct, an
    /// object with instance variables. The contents may move, and what is in them keeps its place.
    pub(super) fn leads_to(&self, from: u32, at: u64) -> Option<u64> {
        let view = self.view(from)?;
        let within = |start: u64, count: u64| {
            at.checked_sub(start).is_some_and(|bytes| bytes / 8 < count)
                && !(view.address..view.end()).contains(&start)
        };
        let mut found = None;
        view.references(&mut |reference| match reference {
            Reference::Values(start, count) | Reference::Fields(start, count)
                if within(start, count) =>
            {
                let mut words = (view.address + 16..view.end()).step_by(8);
                found = words.find(|word| self.memory().word(*word) == Some(start));
            }
            Reference::Table(table) => {
                let entries = StTable::read(self.memory(), table);
                let entries =
                    entries.filter(|found| within(found.entries, found.bound.saturating_mul(3)));
                found = entries.map(|_| table + StTable::ENTRIES);
            }
            _ => {}
        });
        found
    }

    fn spot_in_table(&self, at: u64, kind: TableKind, target: &NodeTarget<'_>) -> Option<u64> {
        let table = StTable::read(self.memory(), at)?;
        let (_, chunk) = self.words().chunk_at(table.entries)?;
        let bound = table.bound.min(chunk.size / 24);
        // Records first: who has a value under itself as the key is better named by the key.
        let place = |number: u64, offset: u64| table.entries + number * 24 + offset;
        let holds = |at: u64| self.memory().word(at).is_some_and(|word| target.is(word));
        let all = || (table.start..bound).take(MOST_WORDS as usize);
        let records = all().map(|number| place(number, 16)).find(|at| holds(*at));
        let keys = || all().map(|number| place(number, 8)).find(|at| holds(*at));
        records.or_else(|| (kind == TableKind::Strong).then(keys).flatten())
    }

    fn spot_in_chunk(&self, number: usize, chunk: &Chunk, target: &NodeTarget<'_>) -> Option<u64> {
        // Keys and records of a known table first: any word of it could look like a reference.
        if let Some((_, kind)) = self.reach.own_table(number) {
            return self.spot_in_table(chunk.user(), kind, target);
        }
        if let Some(compiled) = self.reach.compiled(number) {
            let mut objects = compiled.objects.iter();
            return objects.find(|(_, object)| target.is(*object)).map(|(at, _)| *at);
        }
        // What is on the stack of a thread or fiber says more than a word of its structure.
        let mut ranges = self.reach.context(number).map_or(vec![], |context| context.live.clone());
        ranges.push((chunk.user(), chunk.user_end()));
        if let Some((_, entries, words)) = self.words().call_caches(chunk) {
            ranges.push((entries, entries.saturating_add(words.saturating_mul(8))));
        }
        self.spot_in(&ranges, target)
    }

    /// The first word of some ranges that means a node; one that is its very address is better than one that leads to it otherwise.
    fn spot_in(&self, ranges: &[(u64, u64)], target: &NodeTarget<'_>) -> Option<u64> {
        let words = || {
            let all = ranges.iter().flat_map(|(start, end)| (*start..*end).step_by(8));
            let all = all.take(MOST_WORDS as usize);
            all.filter_map(|at| self.memory().word(at).map(|word| (at, word)))
        };
        // Twice through all words, because a word that only leads into the node may come first.
        let exact = words().find(|(_, word)| target.is(*word));
        exact.or_else(|| words().find(|(_, word)| target.covers(*word))).map(|(at, _)| at)
    }
}

/// What the words are that mean one node.
pub(super) struct NodeTarget<'a> {
    words: Words<'a>,
    reach: &'a Reach<'a>,
    address: u64,
    chunk: Option<usize>,
}

impl<'a> NodeTarget<'a> {
    pub(super) fn of(nodes: &Nodes<'a>, node: u32) -> Option<Self> {
        let (words, reach) = (nodes.words(), nodes.reach);
        match nodes.chunk(node) {
            Some((number, chunk)) => {
                Some(Self { words, reach, address: chunk.user(), chunk: Some(number) })
            }
            None => Some(Self { words, reach, address: nodes.address(node)?, chunk: None }),
        }
    }

    /// The word is the address of the node.
    fn is(&self, word: u64) -> bool {
        word == self.address
    }

    /// The word leads to the node in another way: to captured variables, to the object's struct, or into the middle of the chunk.
    fn covers(&self, word: u64) -> bool {
        // As when marking: no address of a program lies there.
        if word < LOWEST_ADDRESS || word >> 47 != 0 {
            return false;
        }
        let chunk = self.words.chunks.find(word);
        match self.chunk {
            Some(_) => chunk == self.chunk,
            None => {
                self.words.environment(word) == Some(self.address)
                    || chunk.and_then(|chunk| self.reach.object_of_struct(chunk))
                        == Some(self.address)
            }
        }
    }
}

impl References for Nodes<'_> {
    fn roots(&self) -> Range<u32> {
        self.graph.first_root()..self.graph.nodes()
    }

    fn lists(&self) -> Lists<'_> {
        self.graph.lists()
    }
}

impl NodeKinds for Nodes<'_> {
    fn slot_type(&self, node: u32) -> Option<SlotType> {
        self.flags.get(node as usize).map(|flags| SlotType(flags & 31))
    }

    fn root_cost(&self, root: u32) -> u32 {
        match self.root(root) {
            Some((address, RootPlace::Library)) => match self.libraries.at(address) {
                // What runs now: the thread or fiber itself explains more.
                Some((Some("ruby_current_execution_context_ptr"), _)) => 60,
                Some((Some(_), _)) => 3,
                _ => 6,
            },
            Some((_, RootPlace::Thread(_))) => 30,
            _ => 60,
        }
    }
}
