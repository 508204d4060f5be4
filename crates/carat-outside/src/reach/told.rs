//! Chunks of which those who use them say where they are and how large, for a malloc whose own list of them cannot be read.
//!
//! An array says where its elements are and how many, a class where its tables are, a thread where its stack is. Of a struct of C as
//! many bytes count as it has in every version. What nothing tells, such as the structs of extensions, is not there: whatever is
//! found to lead somewhere does, and more may.

use super::fields::{CLASS_FIELDS, Reference};
use super::forms::{GLOBAL_ENTRY, HAS_GENERIC_FIELDS, NAMES, StTable};
use super::named::{ruby_data, with_tables};
use super::told_structs::{BEFORE_CONTEXT, ToldStruct, ToldStructs};
use super::words::Words;
use crate::elf::RubyAnchors;
use crate::hash::AddressSet;
use crate::heap::{Heap, SlotType, imemo_kind};
use crate::malloc::{Chunk, ChunkTable};
use crate::memory::{Memory, words_between};
use carat_ruby::version::{RubyVersion, SHAPES, V2_7, V3_4, VersionRange};

/// Versions whose structs were measured.
const MEASURED: VersionRange = VersionRange::between(V2_7, V3_4);
/// Bytes of the VM, of what a class has outside of its slot, of the body of bytecode, and of a method's definition, at least (`rb_vm_t`,
/// `rb_classext_t` up to 3.1, `struct rb_iseq_constant_body`, `rb_method_definition_t`).
const VM: u64 = 1280;
const CLASS: u64 = 88;
const BODY: u64 = 272;
const METHOD: u64 = 40;
/// Bytes of a constant, and of the beginning of a global variable (`rb_const_entry_t`; `struct rb_global_variable`).
const CONSTANT: u64 = 24;
const GLOBAL: u64 = 16;
/// Instance variables of one object at most.
const MOST_FIELDS: u64 = 4096;
/// Flags of a constant are below (`rb_const_flag_t`).
const CONSTANT_FLAGS: u64 = 1 << 9;

/// Whether the structs of a version are known well enough.
pub(crate) fn tells(version: RubyVersion) -> bool {
    MEASURED.contains(version)
}

/// The chunks that are told.
pub fn told_chunks(memory: &dyn Memory, heap: &Heap, anchors: &RubyAnchors) -> ChunkTable {
    let none = ChunkTable::told(Vec::new(), memory);
    let words = with_tables(Words::new(memory, heap, &none), anchors);
    let vm = anchors.value(memory, "ruby_current_vm_ptr");
    let mut told = ToldChunks { words, vm, found: Vec::new(), seen: AddressSet::default() };
    told.slots();
    for (start, end) in ruby_data(memory, anchors) {
        told.structures((start, end));
    }
    if let Some(vm) = vm {
        told.add_with_structures(vm, VM);
    }
    ChunkTable::told(told.found, memory)
}

/// What is told, as it is found.
struct ToldChunks<'a> {
    words: Words<'a>,
    vm: Option<u64>,
    found: Vec<Chunk>,
    /// Addresses that were looked at as structures of Ruby's own.
    seen: AddressSet,
}

impl ToldChunks<'_> {
    /// Adds a chunk if memory of the process's own is there that is no page of the heap.
    fn add(&mut self, at: u64, bytes: u64) -> bool {
        let (memory, heap) = (self.words.memory, self.words.heap);
        let end = at.checked_add(bytes).filter(|_| bytes > 0 && at.is_multiple_of(8));
        let region = end.and_then(|end| memory.region(at).filter(|region| end <= region.end));
        let is_own = region.is_some_and(|region| region.anonymous() && region.writable)
            && heap.page_at(at).is_none();
        if is_own {
            self.found.push(Chunk::told(at, bytes));
        }
        is_own
    }

    fn word(&self, at: u64, offset: u64) -> u64 {
        self.words.memory.word_at(at, offset).unwrap_or(0)
    }

    /// What every object says.
    fn slots(&mut self) {
        let mut kinds = ToldStructs::new();
        let mut threads = Vec::new();
        let heap = self.words.heap;
        for page in heap.pages() {
            for number in 0..page.slots {
                let Some(view) = self.words.view(page.slot(number), page.slot_bytes) else {
                    continue;
                };
                view.references(&mut |reference| self.contents(reference));
                match view.kind() {
                    SlotType::CLASS | SlotType::MODULE | SlotType::ICLASS => {
                        self.class(view.address, view.bytes);
                    }
                    SlotType::IMEMO => self.internal(view.address, view.flags),
                    SlotType::DATA => {
                        let data = self.word(view.address, 32);
                        match kinds.kind_of(&view) {
                            Some(ToldStruct::Bytes(bytes)) => drop(self.add(data, bytes)),
                            Some(ToldStruct::Fiber) => self.fiber(data),
                            Some(ToldStruct::Thread(bytes)) => {
                                self.add(data, bytes);
                                threads.push(data);
                            }
                            None => {}
                        }
                    }
                    _ => {}
                }
            }
        }
        // After the fibers, of which their contexts are a part.
        threads.into_iter().for_each(|thread| self.thread(thread));
    }

    /// The contents of an array, a hash, a struct, an object, captured variables.
    fn contents(&mut self, reference: Reference) {
        match reference {
            Reference::Values(start, count) => drop(self.add(start, count.saturating_mul(8))),
            // Without the table of shapes it is not known how many there are.
            Reference::Fields(start, count) if count < MOST_FIELDS => {
                self.add(start, count * 8);
            }
            Reference::Table(at) => {
                if let Some(table) = StTable::read(self.words.memory, at) {
                    self.add(at, StTable::BYTES);
                    self.entries(at, &table);
                }
            }
            _ => {}
        }
    }

    /// The logarithms in the header of a table: of its entries, of its bins, and of the bytes of each bin (`struct st_table`, st.h).
    fn logarithms(&self, at: u64) -> [u64; 3] {
        [0, 8, 16].map(|bit| self.word(at, 0) >> bit & 0xff)
    }

    /// The entries and the bins of a table, whose numbers are powers of two.
    fn entries(&mut self, at: u64, table: &StTable) -> bool {
        let [entries, bins, bytes_log] = self.logarithms(at);
        let has_entries =
            entries < 40 && table.bound <= 1 << entries && self.add(table.entries, 24 << entries);
        if table.bins != 0 && bins < 40 && bytes_log <= 3 {
            self.add(table.bins, 1 << (bins + bytes_log));
        }
        has_entries
    }

    fn class(&mut self, at: u64, bytes: u64) {
        if SHAPES.contains(self.words.heap.version()) {
            // Behind its instance variables old words lie, which may be a table that was freed.
            self.structures((at + 16, at + CLASS_FIELDS));
            self.structures((at + CLASS_FIELDS + 8, at + bytes));
        } else {
            self.structures((at + 16, at + bytes));
            self.add_with_structures(self.word(at, 24), CLASS);
        }
    }

    /// The definition of a method, and the body of bytecode.
    fn internal(&mut self, at: u64, flags: u64) {
        let bytes = match imemo_kind(flags, self.words.heap.version()) {
            Some("ment") => METHOD,
            Some("iseq") => BODY,
            _ => return,
        };
        self.add(self.word(at, 16), bytes);
    }

    /// A fiber's struct up to the end of its context, which leads back to it (`fiber_ptr`).
    fn fiber(&mut self, at: u64) {
        if let Some(end) = self.words.own_context(at) {
            self.add_with_structures(at, end - at);
        }
    }

    /// The context that a thread runs, which leads back to it (`thread_ptr`), and what stands for the thread of the operating system.
    fn thread(&mut self, at: u64) {
        for offset in (0..BEFORE_CONTEXT).step_by(8) {
            let word = self.word(at, offset);
            if self.vm.is_some_and(|vm| word != 0 && self.word(word, 8) == vm) {
                // {number, VM, thread of the operating system, …} (`struct rb_native_thread`, from 3.3 on).
                self.add(word, 32);
            }
            let Some(end) = self.words.context_of(word, at) else { continue };
            let covered = |chunk: &Chunk| (chunk.user()..chunk.user_end()).contains(&word);
            // A context is a part of its fiber, which may be an object.
            if !self.found.iter().any(covered) {
                self.add_with_structures(word, end - word);
            }
        }
    }

    fn add_with_structures(&mut self, at: u64, bytes: u64) {
        if self.add(at, bytes) {
            self.structures((at, at + bytes));
        }
    }

    /// The tables of Ruby's own to which words of a range lead.
    fn structures(&mut self, (start, end): (u64, u64)) {
        let words = words_between(self.words.memory, start, end);
        words.into_iter().for_each(|word| self.structure(word));
    }

    fn structure(&mut self, at: u64) {
        let is_address = (1 << 16..1 << 47).contains(&at) && at.is_multiple_of(8);
        if !is_address || self.words.heap.page_at(at).is_some() || !self.seen.insert(at) {
            return;
        }
        if let Some((items, capacity)) = self.words.table_of_names(at) {
            self.add(at, NAMES);
            self.add(items, capacity * 16);
            for item in (items..).step_by(16).take(capacity as usize) {
                let (key, value) = (self.word(item, 0) & 0xffff_ffff, self.word(item, 8));
                if key != 0 && self.words.object(value).is_none() {
                    self.named(key, value);
                }
            }
        } else if let Some(table) = self.own_table(at) {
            self.add(at, StTable::BYTES);
            if !self.entries(at, &table) {
                return;
            }
            let pairs: Vec<(u64, u64)> = table.pairs(self.words.memory, u64::MAX).collect();
            pairs.into_iter().for_each(|pair| self.generic_fields(pair));
        }
    }

    /// What a name stands for, where that is no object: a constant {flags, line; value; file}, or the entry of a global variable
    /// {variable, its ID}, which is {counters, data, getter, setter, …}.
    fn named(&mut self, key: u64, at: u64) {
        let [first, second, third] = [0, 8, 16].map(|offset| self.word(at, offset));
        let is = |value: u64| {
            self.words
                .object(value)
                .is_some_and(|flags| flags & 31 == u64::from(SlotType::STRING.0))
        };
        let is_value = second & 7 != 0 || second < 64 || self.words.object(second).is_some();
        let has_file = third < 16 || is(third);
        if first & 0xffff_ffff < CONSTANT_FLAGS && first >> 32 < 1 << 24 && is_value && has_file {
            self.add(at, CONSTANT);
        } else if second >> 4 == key && self.words.is_global_variable(first) {
            self.add(at, GLOBAL_ENTRY);
            self.add(first, GLOBAL);
        }
    }

    /// A table of Ruby's own whose functions are code.
    fn own_table(&self, at: u64) -> Option<StTable> {
        let memory = self.words.memory;
        let (functions, count) = (memory.word_at(at, 8)?, memory.word_at(at, 16)?);
        let is_code =
            |offset| memory.word_at(functions, offset).is_some_and(|word| self.words.is_code(word));
        let has_functions = self.words.is_static(functions) && is_code(0) && is_code(8);
        let table = StTable::read(memory, at).filter(|_| has_functions)?;
        let [entries, bins, bytes_log] = self.logarithms(at);
        // Behind something smaller the rest of a table that was freed may lie.
        let has_sizes = entries < 40
            && (bins == entries || bins == entries + 1)
            && bytes_log <= 3
            && table.bound <= 1 << entries;
        let sound = count > 0 && count <= table.bound && table.start <= table.bound;
        (has_sizes && sound).then_some(table)
    }

    /// The instance variables of an object that has no room for any: their number, and then they (`struct gen_ivtbl`, variable.c).
    fn generic_fields(&mut self, (object, record): (u64, u64)) {
        let flags = self.words.object(object).unwrap_or(0);
        let count = self.word(record, 0) & 0xffff_ffff;
        if flags & HAS_GENERIC_FIELDS != 0 && count < MOST_FIELDS {
            self.add(record, 8 + count * 8);
        }
    }
}
