//! Marks what is reached, as Ruby's collector does.

use super::compiled::Compiled;
use super::fields::Reference;
use super::forms::{HAS_GENERIC_FIELDS, StTable, TableKind};
use super::graph::Graph;
use super::large::LargeContents;
use super::record::{ReferenceRecord, RootPlace};
use super::words::{LOWEST_ADDRESS, TRANSIENT_WORDS};
use crate::heap::SlotType;
use crate::malloc::Chunk;
use crate::malloc::present::PresentRuns;
use crate::memory::for_each_word;
use crate::number_set::NumberSet;
use crate::owners::ground::GroundKind;

/// Larger chunks under bytecode are not searched for packed pointers.
const PACKED: u64 = 4104;

/// Who leads to a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkMark {
    /// Nobody.
    Unknown,
    /// What keeps no object, or code, maybe by an old word: whoever else leads to it decides.
    Part,
    /// The roots.
    Live,
    /// Only objects that the roots do not reach.
    Garbage,
}

impl ChunkMark {
    const fn is_open(self) -> bool {
        matches!(self, Self::Unknown | Self::Part)
    }
}

/// Slots for which the place of one page is kept.
const NEAR: usize = 128;

/// The marks of slots and chunks.
pub(super) struct ReachMarker<'a> {
    pub(super) graph: Graph<'a>,
    present: PresentRuns,
    /// Number of the first slot of each heap page, in the order of pages.
    starts: Vec<u64>,
    /// Place in that list of the page of every so many slots: the page of a slot is asked for again and again.
    near: Vec<u32>,
    slots: NumberSet,
    pub(super) chunks: Vec<ChunkMark>,
    /// Slots, chunks and ranges of objects that are left to visit.
    waiting_slots: NumberSet,
    waiting_chunks: NumberSet,
    waiting_values: Vec<(u64, u64)>,
    /// Chunks of what keeps no object, which come last.
    waiting_plain: Vec<usize>,
    /// Chunks into whose middle something points.
    inside: NumberSet,
    /// What a chunk that is reached now is marked as.
    mark: ChunkMark,
    /// Large contents of what the roots reach.
    pub(super) large: LargeContents,
    /// Every reference from what is reached, where that is wanted.
    record: Option<ReferenceRecord>,
}

impl<'a> ReachMarker<'a> {
    pub(super) fn new(graph: Graph<'a>) -> Self {
        let (mut slots, mut starts) = (0, Vec::new());
        for page in graph.words.heap.pages() {
            starts.push(slots);
            slots += page.slots;
        }
        let (slots, chunks) = (slots as usize, graph.words.chunks.len());
        let page_of = |number: usize| starts.partition_point(|start| *start <= number as u64);
        let near = (0..slots).step_by(NEAR).map(|number| page_of(number).saturating_sub(1) as u32);
        Self {
            near: near.collect(),
            present: PresentRuns::of(graph.words.memory),
            graph,
            starts,
            slots: NumberSet::new(slots),
            chunks: vec![ChunkMark::Unknown; chunks],
            waiting_slots: NumberSet::new(slots),
            waiting_chunks: NumberSet::new(chunks),
            waiting_values: Vec::new(),
            waiting_plain: Vec::new(),
            inside: NumberSet::new(chunks),
            mark: ChunkMark::Live,
            large: LargeContents::default(),
            record: None,
        }
    }

    /// Also records every reference from what is reached.
    pub(super) fn recording(mut self, record: ReferenceRecord) -> Self {
        self.record = Some(record);
        self
    }

    /// What was recorded.
    pub(super) fn take_record(&mut self) -> Option<ReferenceRecord> {
        self.record.take()
    }

    /// Marks everything that the roots lead to: data of libraries, and the parts of stacks that are in use.
    pub(super) fn roots(&mut self) {
        for pages in std::mem::take(&mut self.graph.ground) {
            let place = match pages.kind {
                GroundKind::Library(_) => RootPlace::Library,
                GroundKind::Thread(thread) => RootPlace::Thread(thread),
                GroundKind::Other => RootPlace::Other,
            };
            for range in pages.ranges {
                for part in self.graph.without_old_stacks(range) {
                    self.root(part, place);
                }
            }
        }
        // A pointer into the middle is often an old or unrelated word, so it counts last.
        while let Some(number) = self.inside.take_from(0) {
            self.enter_inside(number);
            self.drain();
        }
        self.parts_alone();
    }

    /// A part of the ground. Recorded roots are as small as can be told apart.
    fn root(&mut self, part: (u64, u64), place: RootPlace) {
        let pieces = match &self.record {
            Some(record) => record.pieces(part),
            None => vec![part],
        };
        for piece in pieces {
            if let Some(record) = &mut self.record {
                record.begin_root(piece.0, place);
            }
            match place {
                RootPlace::Library => self.words(piece),
                // As for the collector, only objects count on stacks: old words are everywhere.
                RootPlace::Thread(_) | RootPlace::Other => self.stack(piece),
            }
            self.end_node();
            self.drain();
        }
    }

    /// Marks a chunk to which only pointers into its middle lead.
    fn enter_inside(&mut self, number: usize) {
        if let Some(target) = self.target_of(number)
            && let Some(record) = &mut self.record
        {
            record.keep_inside(number, target);
        }
        self.enter(number);
    }

    /// The node that a pointer to a chunk means, unless it is marked already or belongs to somebody.
    fn target_of(&self, number: usize) -> Option<u32> {
        if self.graph.is_owned(number) {
            return None;
        }
        match self.graph.object_of_struct(number) {
            Some(object) => {
                let slot = self.slot_number(object)?;
                (!self.slots.contains(slot)).then_some(slot as u32)
            }
            None => {
                let is_new = self.chunks[number].is_open();
                is_new.then(|| self.record.as_ref().map(|record| record.chunk_node(number)))?
            }
        }
    }

    fn end_node(&mut self) {
        if let Some(record) = &mut self.record {
            record.end();
        }
    }

    /// Marks the chunks to which only objects lead that the roots do not reach.
    pub(super) fn garbage(&mut self) {
        // Only after the roots, because what they reach keeps its mark.
        self.mark = ChunkMark::Garbage;
        let slots = self.graph.words.heap.pages().iter();
        let slots = slots
            .flat_map(|page| (0..page.slots).map(|number| (page.slot(number), page.slot_bytes)));
        for (number, (slot, bytes)) in slots.enumerate() {
            if !self.has_mark(number) {
                self.garbage_slot(number, slot, bytes);
            }
        }
        self.parts_alone();
    }

    /// Marks the chunks of an object that the roots do not reach, and records its references.
    fn garbage_slot(&mut self, number: usize, slot: u64, bytes: u64) {
        if let Some(record) = &mut self.record {
            record.begin(number as u32);
        }
        self.slot(slot, bytes);
        self.drain_values();
        self.end_node();
        self.drain();
    }

    /// Whether the roots reach the object of a slot.
    pub(super) fn is_marked(&self, slot: u64) -> bool {
        self.slot_number(slot).is_some_and(|number| self.has_mark(number))
    }

    /// Whether the roots reach the object of the slot with this number.
    pub(super) fn has_mark(&self, number: usize) -> bool {
        self.slots.contains(number)
    }

    pub(super) fn slot_number(&self, slot: u64) -> Option<usize> {
        let (page, number) = self.graph.words.heap.slot_at(slot)?;
        Some((self.starts.get(page)? + number) as usize)
    }

    /// Visits what waits, by address, so that memory is read in long stretches.
    fn drain(&mut self) {
        loop {
            let mut from = 0;
            while let Some(number) = self.waiting_slots.take_from(from) {
                from = number;
                if let Some(record) = &mut self.record {
                    record.begin(number as u32);
                }
                self.visit_slot(number);
                self.drain_values();
                self.end_node();
            }
            let mut from = 0;
            while let Some(number) = self.waiting_chunks.take_from(from) {
                from = number;
                if let Some(record) = &mut self.record {
                    record.begin(record.chunk_node(number));
                }
                self.chunk(number);
                self.drain_values();
                self.end_node();
            }
            if self.waiting_slots.is_empty() && self.waiting_chunks.is_empty() {
                return;
            }
        }
    }

    /// Visited at once, because they have no numbers and so could wait twice.
    fn drain_values(&mut self) {
        while let Some(range) = self.waiting_values.pop() {
            self.values(range);
        }
    }

    fn visit_slot(&mut self, number: usize) {
        if let Some((address, bytes)) = self.slot_address(number) {
            self.slot(address, bytes);
        }
    }

    /// The address and the bytes of the slot with a number.
    pub(super) fn slot_address(&self, number: usize) -> Option<(u64, u64)> {
        let mut at = *self.near.get(number / NEAR)? as usize;
        while self.starts.get(at + 1).is_some_and(|start| *start <= number as u64) {
            at += 1;
        }
        let page = self.graph.words.heap.pages().get(at)?;
        Some((page.slot(number as u64 - self.starts[at]), page.slot_bytes))
    }

    /// Marks an object. False if the word is none.
    fn value(&mut self, word: u64) -> bool {
        let Some(number) = self.slot_number(word) else { return false };
        if !self.graph.is_object(number, word) {
            return false;
        }
        if let Some(record) = &mut self.record {
            record.add(number as u32);
        }
        if self.mark == ChunkMark::Live && self.slots.insert(number) {
            self.waiting_slots.insert(number);
        }
        true
    }

    /// A word that may be an object, the start of a chunk, captured variables, or the middle of a chunk.
    fn pointer(&mut self, word: u64) {
        // Addresses of programs have 47 bits.
        if word < LOWEST_ADDRESS || word >> 47 != 0 || self.value(word) {
            return;
        }
        if let Some((number, _)) = self.graph.words.chunk_at(word) {
            self.enter(number);
        } else if let Some(object) = self.graph.words.environment(word) {
            self.value(object);
        } else if self.mark == ChunkMark::Live
            && let Some(number) = self.graph.words.chunk_around(word)
        {
            self.inside.insert(number);
            if let Some(record) = &mut self.record
                && self.chunks[number].is_open()
            {
                record.add_inside(number);
            }
        }
    }

    /// Marks a chunk that a pointer leads to, unless another pointer decides about it.
    fn enter(&mut self, number: usize) {
        if self.graph.is_owned(number) {
            return;
        }
        self.pause(Some(number));
        if let Some(object) = self.graph.object_of_struct(number) {
            self.value(object);
        } else if self.mark(number) {
            self.waiting_chunks.insert(number);
        }
        self.pause(None);
    }

    fn pause(&mut self, number: Option<usize>) {
        if let Some(record) = &mut self.record {
            record.pause(number);
        }
    }

    /// Marks a chunk to which the node that is visited leads. False if it was marked before, or is not in use.
    fn mark(&mut self, number: usize) -> bool {
        if let Some(record) = &mut self.record {
            record.add_chunk(number);
        }
        let is_new = self.chunks[number].is_open()
            && self.graph.words.chunks.get(number).is_some_and(|chunk| chunk.held());
        if is_new {
            self.chunks[number] = self.mark;
        }
        is_new
    }

    /// Marks the chunk at an address, whose contents are no references.
    fn bytes(&mut self, address: u64) {
        if let Some((number, _)) = self.graph.words.chunk_at(address) {
            self.mark(number);
        }
    }

    fn slot(&mut self, address: u64, bytes: u64) {
        let Some(view) = self.graph.words.view(address, bytes) else { return };
        if view.flags & HAS_GENERIC_FIELDS != 0
            && view.kind() != SlotType::OBJECT
            && let Some(record) = self.graph.generic_fields(address)
        {
            self.pointer(record);
        }
        view.references(&mut |reference| {
            if let (ChunkMark::Live, Reference::Values(start, count)) = (self.mark, &reference) {
                self.large.add_values(&view, *start, *count);
            }
            self.reference(reference);
        });
    }

    fn reference(&mut self, reference: Reference) {
        match reference {
            Reference::Value(word) => {
                self.value(word);
            }
            Reference::Values(start, count) => self.array(start, count),
            Reference::Words(start, end) => self.words((start, end)),
            Reference::Plain(start, end) => self.plain((start, end)),
            Reference::Bytes(address) => self.bytes(address),
            Reference::Buffer(address, bytes) => {
                if let Some(number) = self.graph.words.buffer(address, bytes) {
                    self.mark(number);
                }
            }
            Reference::Fields(address, count) => self.fields(address, count),
            Reference::Struct(address) => {
                if let Some((number, _)) = self.graph.words.chunk_at(address)
                    && self.mark(number)
                {
                    self.waiting_chunks.insert(number);
                }
            }
            Reference::Pattern(address) => self.pattern(address),
            Reference::Table(address) => self.bytes_of_table(address),
        }
    }

    /// Objects in a chunk of their own, in a slot, or in the transient heap.
    fn array(&mut self, start: u64, count: u64) {
        let bytes = match self.graph.words.chunk_at(start) {
            // Only its owner leads here, so it was visited.
            Some((number, _)) if !self.mark(number) => return,
            Some((_, chunk)) => chunk.user_end() - start,
            None => TRANSIENT_WORDS * 8,
        };
        let end = start.saturating_add(count.saturating_mul(8).min(bytes));
        self.waiting_values.push((start, end));
    }

    /// Instance variables in a chunk: as many as fit, or a table where an object has too many shapes.
    fn fields(&mut self, address: u64, count: u64) {
        let Some((number, chunk)) = self.graph.words.chunk_at(address) else { return };
        if self.graph.words.table_in(&chunk).is_some() {
            self.bytes_of_table(address);
        } else if self.mark(number) {
            let end = chunk.user().saturating_add(count.saturating_mul(8));
            self.waiting_values.push((chunk.user(), end.min(chunk.user_end())));
        }
    }

    /// A compiled pattern. The chunks that it leads to hold no references, but its map of characters has old words until it is used
    /// (`map` of `struct re_pattern_buffer`, onigmo.h), so they count last.
    fn pattern(&mut self, address: u64) {
        let Some((number, chunk)) = self.graph.words.chunk_at(address) else { return };
        if !self.mark(number) {
            return;
        }
        let parts = self.chunks_behind((chunk.user(), chunk.user_end()));
        parts.into_iter().for_each(|part| self.part(part));
    }

    /// Words that lead to chunks, none of which keeps an object. Whoever else leads to one decides about it.
    fn plain(&mut self, range: (u64, u64)) {
        for part in self.chunks_behind(range) {
            if self.chunks[part] == ChunkMark::Unknown {
                self.waiting_plain.push(part);
            }
            self.part(part);
        }
    }

    /// The chunks to which words of a range lead.
    fn chunks_behind(&self, (start, end): (u64, u64)) -> Vec<usize> {
        let mut found = Vec::new();
        for_each_word(self.graph.words.memory, start, end, |word| {
            found.extend(self.graph.words.chunk_at(word).map(|(number, _)| number));
        });
        found
    }

    fn part(&mut self, number: usize) {
        if !self.chunks[number].is_open() {
            return;
        }
        self.chunks[number] = ChunkMark::Part;
        if let Some(record) = &mut self.record {
            record.add_part(number);
        }
    }

    /// The chunks behind those of what keeps no object.
    fn plain_chunks(&mut self) {
        while let Some(number) = self.waiting_plain.pop() {
            let chunk = self.graph.words.chunks.get(number);
            let chunk =
                chunk.filter(|_| self.chunks[number] == ChunkMark::Part && !self.has_owner(number));
            let Some(chunk) = chunk else { continue };
            if let Some(record) = &mut self.record {
                record.begin(record.chunk_node(number));
            }
            let parts: Vec<(u64, u64)> =
                self.present.contents(chunk.user(), chunk.user_end()).collect();
            parts.into_iter().for_each(|part| self.plain(part));
            self.end_node();
        }
    }

    fn has_owner(&self, number: usize) -> bool {
        self.graph.is_owned(number) || self.graph.object_of_struct(number).is_some()
    }

    /// Marks the chunks that only what has no references leads to and that belong to nobody else.
    fn parts_alone(&mut self) {
        self.plain_chunks();
        for number in 0..self.chunks.len() {
            if self.chunks[number] != ChunkMark::Part {
                continue;
            }
            let has_owner = self.has_owner(number);
            self.chunks[number] = if has_owner { ChunkMark::Unknown } else { self.mark };
            if let Some(record) = self.record.as_mut().filter(|_| !has_owner) {
                record.keep_part(number);
            }
        }
    }

    /// The table of a hash: its keys and records are objects.
    fn bytes_of_table(&mut self, address: u64) {
        let Some(table) = StTable::read(self.graph.words.memory, address) else { return };
        if self.mark == ChunkMark::Live {
            self.large.add_table(address, &table);
        }
        self.bytes(address);
        self.bytes(table.bins);
        // A table is as large as its chunk, whatever its header says.
        let Some((number, chunk)) = self.graph.words.chunk_at(table.entries) else { return };
        if self.mark(number) {
            for (key, record) in table.pairs(self.graph.words.memory, chunk.size / 24) {
                self.value(key);
                self.value(record);
            }
        }
    }

    /// A table of Ruby itself.
    fn own_table(&mut self, table: &StTable, kind: TableKind) {
        self.bytes(table.bins);
        self.bytes(table.entries);
        if matches!(kind, TableKind::Weak | TableKind::GenericFields) {
            return;
        }
        for (key, record) in table.pairs(self.graph.words.memory, u64::MAX) {
            match kind {
                TableKind::Strong => self.pointer(key),
                TableKind::Named => self.bytes(key),
                _ => {}
            }
            self.pointer(record);
        }
    }

    /// The contents of a chunk that may hold anything.
    fn chunk(&mut self, number: usize) {
        let Some(chunk) = self.graph.words.chunks.get(number) else { return };
        if let Some((table, kind)) = self.graph.tables.get(&(number as u64)).copied() {
            return self.own_table(&table, kind);
        }
        if let Some(compiled) = self.graph.compiled.get(&(number as u64)).cloned() {
            return self.compiled(compiled);
        }
        if self.graph.is_weak_set(number) || self.graph.words.is_subclass_link(&chunk) {
            return;
        }
        if let Some((method, entries, words)) = self.graph.words.call_caches(&chunk) {
            self.value(method);
            return self.array(entries, words);
        }
        if self.graph.is_object_space(number) {
            return self.tables_of_collector(&chunk);
        }
        if let Some(bytes) = self.graph.shallow.get(&(number as u64)).copied() {
            let (start, end) = (chunk.user(), chunk.user_end());
            self.values((start, end.min(start.saturating_add(bytes))));
            return self.plain((start, end));
        }
        if self.graph.is_finished_thread(number) {
            return self.finished_thread(&chunk);
        }
        let (start, end) = self.graph.used(number, &chunk);
        if chunk.size <= PACKED {
            self.packed((start, end));
        }
        match self.graph.contexts.get(&(number as u64)).cloned() {
            None => {
                let parts: Vec<(u64, u64)> = self.present.contents(start, end).collect();
                parts.into_iter().for_each(|part| self.words(part));
            }
            Some(context) => {
                let (start, end) = context.registers.unwrap_or((context.end, context.end));
                self.words((chunk.user(), start));
                self.values((start, end));
                self.words((end, context.end));
                self.bytes(context.vm_stack.0);
                context.live.into_iter().for_each(|part| self.stack(part));
            }
        }
    }

    /// What the compiler keeps.
    fn compiled(&mut self, compiled: Compiled) {
        for (_, object) in &compiled.objects {
            self.value(*object);
        }
        for part in compiled.chunks {
            // Recorded as a reference, an old word would be a way to what the chunk leads to.
            if self.chunks[part].is_open() {
                self.chunks[part] = ChunkMark::Part;
            }
        }
    }

    /// A thread that has ended has objects and its own context, which lies within the chunk of a fiber.
    fn finished_thread(&mut self, chunk: &Chunk) {
        for_each_word(self.graph.words.memory, chunk.user(), chunk.user_end(), |word| {
            if self.graph.words.chunk_at(word).is_none() {
                self.pointer(word);
            }
        });
    }

    /// The chunks that the collector's own record leads to. It also has the object whose references it marked last, which it does not
    /// keep alive (`rgengc.parent_object` of `rb_objspace_t`, gc.c).
    fn tables_of_collector(&mut self, chunk: &Chunk) {
        for_each_word(self.graph.words.memory, chunk.user(), chunk.user_end(), |word| {
            if let Some((number, _)) = self.graph.words.chunk_at(word) {
                self.enter(number);
            }
        });
    }

    /// Bytecode in packed tables, four bytes off (`struct iseq_catch_table`, iseq.h).
    fn packed(&mut self, (start, end): (u64, u64)) {
        let mut before = 0;
        let mut found = Vec::new();
        for_each_word(self.graph.words.memory, start, end, |word| {
            let packed = before >> 32 | word << 32;
            before = word;
            if packed >> 16 != 0 && packed >> 47 == 0 && packed.is_multiple_of(8) {
                found.push(packed);
            }
        });
        for word in found {
            if self.graph.words.internal_kind(word) == Some("iseq") {
                self.value(word);
            }
        }
    }

    fn values(&mut self, (start, end): (u64, u64)) {
        for_each_word(self.graph.words.memory, start, end, |word| {
            self.value(word);
        });
    }

    fn words(&mut self, (start, end): (u64, u64)) {
        for_each_word(self.graph.words.memory, start, end, |word| self.pointer(word));
    }

    /// A part of a stack: objects and captured variables.
    fn stack(&mut self, (start, end): (u64, u64)) {
        for_each_word(self.graph.words.memory, start, end, |word| {
            if !self.value(word)
                && let Some(object) = self.graph.words.environment(word)
            {
                self.value(object);
            }
        });
    }
}
