//! What is known of a process before its objects are marked: which chunks belong to whom, and which words are no references.

use super::contexts::Context;
use super::fields::{Reference, SlotView};
use super::forms::{StTable, TableKind};
use crate::hash::AddressMap;
use crate::heap::{Heap, SlotHead, SlotType};
use crate::malloc::{Chunk, ChunkTable};
use crate::memory::{Memory, for_each_word};
use crate::owners::ground::{GroundKind, GroundPages, find_ground, transient_ranges};
use crate::owners::threads::ThreadPlace;
use carat_ruby::version::TRANSIENT_HEAP;

/// The process as its objects are marked.
pub(super) struct Graph<'a> {
    pub(super) memory: &'a dyn Memory,
    pub(super) heap: &'a Heap,
    pub(super) chunks: &'a ChunkTable,
    /// Chunks that belong to one object or table, by number: pointers from elsewhere do not count.
    owned: Vec<bool>,
    /// The object whose C struct a chunk is, by the chunk's number; 0 for a struct of several.
    structs: AddressMap<u64>,
    /// Tables of Ruby itself that are special, by the number of their header's chunk.
    pub(super) tables: AddressMap<(StTable, TableKind)>,
    /// Records with the instance variables of objects that have no room for any.
    generic_fields: AddressMap<u64>,
    /// Execution contexts by the number of their chunk.
    pub(super) contexts: AddressMap<Context>,
    /// Data of libraries, stacks, and other memory that is searched for pointers.
    pub(super) ground: Vec<GroundPages>,
    /// Stacks of which only a part is in use, by address.
    old_stacks: Vec<(u64, u64)>,
}

impl<'a> Graph<'a> {
    /// Learns what belongs to whom.
    pub(super) fn learn(
        memory: &'a dyn Memory,
        heap: &'a Heap,
        chunks: &'a ChunkTable,
        threads: &[ThreadPlace],
    ) -> Self {
        let mut graph = Self {
            memory,
            heap,
            chunks,
            owned: vec![false; chunks.len()],
            structs: AddressMap::default(),
            tables: AddressMap::default(),
            generic_fields: AddressMap::default(),
            contexts: AddressMap::default(),
            ground: find_ground(memory, heap, chunks, threads),
            old_stacks: Vec::new(),
        };
        graph.collector();
        graph.slots();
        graph.structures();
        graph.promoted_list();
        graph.old_stacks.sort_unstable();
        graph
    }

    /// The collector's own tables point at every page, and a page that malloc made is no reference.
    fn collector(&mut self) {
        for page in self.heap.pages() {
            for address in [page.descriptor, page.address] {
                if let Some(number) = self.chunks.find(address) {
                    self.owned[number] = true;
                }
            }
        }
        for (start, _) in transient_ranges(self.memory, self.heap, self.chunks) {
            if let Some(number) = self.chunks.find(start) {
                self.owned[number] = true;
            }
        }
    }

    /// The chunks that slots own.
    fn slots(&mut self) {
        for page in self.heap.pages() {
            for number in 0..page.slots {
                let Some(view) = self.view(page.slot(number), page.slot_bytes) else { continue };
                view.references(&mut |reference| self.own(view.address, reference));
            }
        }
    }

    fn own(&mut self, object: u64, reference: Reference) {
        let mut own = |address| {
            if let Some(number) = self.chunks.exact(address) {
                self.owned[number] = true;
            }
        };
        match reference {
            Reference::Values(address, _)
            | Reference::Fields(address)
            | Reference::Pattern(address)
            | Reference::Bytes(address) => own(address),
            Reference::Table(address) => {
                own(address);
                if let Some(table) = StTable::read(self.memory, address) {
                    own(table.bins);
                    own(table.entries);
                }
            }
            Reference::Struct(address) => {
                if let Some(number) = self.chunks.exact(address) {
                    let owner = self.structs.entry(number as u64).or_insert(object);
                    *owner = if *owner == object { object } else { 0 };
                }
            }
            Reference::Value(_) | Reference::Words(..) => {}
        }
    }

    /// Structures that are known by their form.
    fn structures(&mut self) {
        let held = self.chunks.iter().enumerate().filter(|(_, chunk)| chunk.held());
        for (number, chunk) in held {
            if self.owned[number] {
                continue;
            }
            if self.is_mark_stack(&chunk) {
                self.owned[number] = true;
            } else if let Some(table) = self.table_in(&chunk) {
                self.table(number, table);
            } else if let Some(context) = self.context_in(&chunk) {
                self.context(number, context);
            }
        }
    }

    fn table(&mut self, number: usize, table: StTable) {
        for address in [table.bins, table.entries] {
            if let Some(number) = self.chunks.exact(address) {
                self.owned[number] = true;
            }
        }
        let kind = self.table_kind(&table);
        if kind == TableKind::GenericFields {
            self.generic_fields.extend(table.pairs(self.memory, u64::MAX));
        }
        self.tables.insert(number as u64, (table, kind));
    }

    fn context(&mut self, number: usize, context: Context) {
        if let Some(stack) = self.chunks.exact(context.vm_stack.0) {
            self.owned[stack] = true;
        }
        self.old_stacks.push(context.vm_stack);
        self.old_stacks.extend(context.machine_mapping);
        self.contexts.insert(number as u64, context);
    }

    /// The transient heap's list of promoted objects: {list, size, used} in the library's data; old words stay in it
    /// (`struct transient_heap`, transient_heap.c).
    fn promoted_list(&mut self) {
        if !TRANSIENT_HEAP.contains(self.heap.version()) {
            return;
        }
        let libraries =
            self.ground.iter().filter(|pages| matches!(pages.kind, GroundKind::Library(_)));
        let ranges: Vec<(u64, u64)> =
            libraries.flat_map(|pages| pages.ranges.iter().copied()).collect();
        for (start, end) in ranges {
            let mut before = 0;
            for_each_word(self.memory, start, end, |word| {
                let (size, used) = (word & u64::from(u32::MAX), word >> 32);
                let whole = size >= 1024 && size.is_multiple_of(1024) && used <= size;
                if let Some(number) = self.chunks.exact(before).filter(|_| whole) {
                    let bytes = self.chunks.get(number).map_or(0, |chunk| chunk.size);
                    self.owned[number] |= bytes > size * 8 && bytes <= size * 8 + 4128;
                }
                before = word;
            });
        }
    }

    /// The slot at an address, if it holds an object.
    pub(super) fn view(&self, address: u64, bytes: u64) -> Option<SlotView<'a>> {
        let flags = self.memory.word(address)?;
        let view = SlotView { memory: self.memory, heap: self.heap, address, bytes, flags };
        (view.kind() != SlotType::NONE).then_some(view)
    }

    /// The flags of the object that a word is.
    pub(super) fn object(&self, word: u64) -> Option<u64> {
        self.heap.slot_of(word)?;
        self.memory.word(word).filter(|flags| flags & 31 != 0)
    }

    /// The chunk in use for which malloc returned exactly this address, with its number.
    pub(super) fn chunk_at(&self, address: u64) -> Option<(usize, Chunk)> {
        let number = self.chunks.exact(address)?;
        self.chunks.get(number).filter(Chunk::held).map(|chunk| (number, chunk))
    }

    /// Whether only the owner's reference to a chunk counts.
    pub(super) fn is_owned(&self, number: usize) -> bool {
        self.owned.get(number).copied().unwrap_or(true)
    }

    /// The object whose C struct a chunk is.
    pub(super) fn object_of_struct(&self, number: usize) -> Option<u64> {
        self.structs.get(&(number as u64)).copied().filter(|object| *object != 0)
    }

    /// The record with an object's instance variables.
    pub(super) fn generic_fields(&self, object: u64) -> Option<u64> {
        self.generic_fields.get(&object).copied()
    }

    /// Captured local variables: their object, if a word is the address of such variables (`ep`), whose next word is
    /// the object, which points back.
    pub(super) fn environment(&self, word: u64) -> Option<u64> {
        let variables = word & !3;
        if !(1 << 16..1 << 47).contains(&variables) || !variables.is_multiple_of(8) {
            return None;
        }
        let object = self.memory.word_at(variables, 8)?;
        let flags = self.object(object)?;
        let is_environment =
            SlotHead { flags, class: 0 }.slot_type() == SlotType::IMEMO && flags >> 12 & 15 == 0;
        (is_environment && self.memory.word_at(object, 16) == Some(variables)).then_some(object)
    }

    /// Whether an address lies in what a file or the program was loaded to.
    pub(super) fn is_static(&self, address: u64) -> bool {
        self.memory.region(address).is_some_and(|region| region.inode != 0)
    }

    /// The parts of a range that are not in stacks of which only a part is in use.
    pub(super) fn without_old_stacks(&self, (start, end): (u64, u64)) -> Vec<(u64, u64)> {
        let mut parts = Vec::new();
        let mut at = start;
        for (from, to) in self.old_stacks.iter().filter(|old| old.0 < end && old.1 > start) {
            if *from > at {
                parts.push((at, *from));
            }
            at = at.max(*to);
        }
        if at < end {
            parts.push((at, end));
        }
        parts
    }
}
