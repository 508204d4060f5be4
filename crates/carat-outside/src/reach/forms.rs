//! Structures of Ruby in chunks, known by their form, which is the same in every version.
//!
//! They matter because they hold words that are no references: tables that do not keep their keys alive, deleted entries,
//! and lists whose unused part is full of old words.

use super::words::{LOWEST_ADDRESS, Words};
use crate::hash::AddressSet;
use crate::heap::{SlotHead, SlotType};
use crate::malloc::Chunk;
use crate::memory::Memory;
use carat_ruby::version::{CALL_CACHES_IN_LIST, CALLS_HAVE_CACHES, SUBCLASSES_LINKED_ONE_WAY};

/// Entries of a table that are examined.
const SAMPLE: u64 = 400;
/// The object has instance variables in a table of their own (`FL_EXIVAR`).
pub(crate) const HAS_GENERIC_FIELDS: u64 = 1 << 10;
/// The object has an `object_id` (`FL_SEEN_OBJ_ID`).
const HAS_OBJECT_ID: u64 = 1 << 9;
/// The object has a finalizer (`FL_FINALIZE`).
const HAS_FINALIZER: u64 = 1 << 7;
/// The lowest byte of a symbol that is no object (`RUBY_SYMBOL_FLAG`).
const STATIC_SYMBOL: u64 = 0xc;
/// Bytes of a piece of the collector's mark stack: 500 objects and the address of the next piece (`stack_chunk_t`, gc.c).
pub(super) const MARK_STACK: u64 = 501 * 8;

/// Bytes of a table of names.
pub(super) const NAMES: u64 = 24;
/// Entries of one table of names at most.
const MOST_NAMES: u64 = 1 << 20;

/// Bytes of the entry of a global variable: {variable, its ID}, and from 3.0 on a byte of the eight behind (`struct rb_global_entry`,
/// variable.c).
pub(super) const GLOBAL_ENTRY: u64 = 16;
/// Bytes of a global variable: two numbers and six addresses (`struct rb_global_variable`, variable.c).
pub(super) const GLOBAL_VARIABLE: u64 = 56;
/// The scope of a name, and that of global variables (`ID_SCOPE_MASK`, `ID_GLOBAL`, template/id.h.tmpl).
const SCOPE: u64 = 0xe;
const GLOBAL_SCOPE: u64 = 6;

/// Entries of the one cache of methods for all classes, and bytes of each (`global_method_cache`, vm_method.c).
const METHOD_CACHE_ENTRIES: u64 = 2048;
const METHOD_CACHE_ENTRY: u64 = 40;

/// Keys of one table that look like text by chance are fewer.
const FEW_TEXTS: u64 = 16;
/// Bytes of a key that are looked at.
const LONGEST_TEXT: u64 = 64;

/// Descriptors of heap pages in a row that only the list of all of them has; an empty Ruby has dozens.
const FEW_PAGES: u64 = 3;

/// The header of an `st_table` (include/ruby/st.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StTable {
    pub(crate) bins: u64,
    /// The first entry: hash, key and record, a word each.
    pub(crate) entries: u64,
    /// Numbers of the first entry that is used and of the first that is not.
    pub(crate) start: u64,
    pub(crate) bound: u64,
}

impl StTable {
    /// Bytes of the header.
    pub(crate) const BYTES: u64 = 56;
    /// Offset of the address of the entries.
    pub(crate) const ENTRIES: u64 = 48;

    /// Reads a header, which may be anything.
    pub(crate) fn read(memory: &dyn Memory, at: u64) -> Option<Self> {
        Some(Self {
            bins: memory.word_at(at, 24)?,
            start: memory.word_at(at, 32)?,
            bound: memory.word_at(at, 40)?,
            entries: memory.word_at(at, Self::ENTRIES)?,
        })
    }

    /// Keys and records that were not deleted; at most `most`. Memory that was used again can say any number of entries: none lies behind
    /// the mappings that follow each other from the first one on.
    pub(crate) fn pairs<'a>(
        &self,
        memory: &'a dyn Memory,
        most: u64,
    ) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let entries = self.entries;
        let last = self.bound.min(self.start.saturating_add(most));
        let wanted = entries.saturating_add(last.saturating_mul(24));
        let mut end = entries;
        while end < wanted
            && let Some(region) = memory.region(end)
        {
            end = region.end;
        }
        let (first, last) = (self.start, last.min((end - entries) / 24));
        (first..last).filter_map(move |number| {
            let entry = entries.checked_add(number.checked_mul(24)?)?;
            // The hash of a deleted entry has all bits set (`RESERVED_HASH_VAL`, st.c).
            let hash = memory.word(entry)?;
            let pair = (memory.word_at(entry, 8)?, memory.word_at(entry, 16)?);
            (hash != u64::MAX).then_some(pair)
        })
    }
}

/// What a table does with its keys and records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// Keeps both alive.
    Strong,
    /// Keeps only its records alive: finalizers.
    StrongRecords,
    /// Keeps only its records alive, as its keys are text, behind which old words stand: names of encodings.
    Named,
    /// Keeps nothing alive: shared strings, symbols, object ids, methods.
    Weak,
    /// Instance variables of objects that have no room for any: each object keeps its record alive.
    GenericFields,
}

impl Words<'_> {
    /// The table that a chunk is.
    pub(crate) fn table_in(&self, chunk: &Chunk) -> Option<StTable> {
        if !chunk.fits(StTable::BYTES) {
            return None;
        }
        let table = StTable::read(self.memory, chunk.user())?;
        let functions = self.memory.word_at(chunk.user(), 8)?;
        let count = self.memory.word_at(chunk.user(), 16)?;
        let [log, log_of_bins, ..] = self.memory.word(chunk.user())?.to_le_bytes();
        // One from which everything was deleted has old entries. It looks like zeroed memory, but for both powers of two: there are
        // twice as many bins as entries (`features`, st.c).
        let has_powers = count > 0 || log.checked_add(1) == Some(log_of_bins);
        // Numbers that contradict each other show other memory; only then other chunks are looked up.
        let sound = log <= 40 && count <= table.bound && table.start <= table.bound && has_powers;
        if !sound || !self.is_static(functions) {
            return None;
        }
        // Entries are three words each and as many as the power of two says; small tables have no bins.
        let (_, entries) = self.chunk_at(table.entries)?;
        let has_entries = entries.size >= 24_u64 << log && table.bound <= entries.size / 24;
        let has_bins = table.bins == 0 || self.chunk_at(table.bins).is_some();
        (has_entries && has_bins).then_some(table)
    }

    /// What a table that belongs to Ruby itself does, by its contents.
    pub(crate) fn table_kind(&self, table: &StTable) -> TableKind {
        let mut tally = TableTally::default();
        // A sample, because tables of symbols have hundreds of thousands of entries that are all alike.
        for (key, record) in table.pairs(self.memory, SAMPLE) {
            let flags = (self.object(key).unwrap_or(0), self.object(record).unwrap_or(0));
            tally.entry((key, record), flags, self.chunk_at(record).is_some());
            tally.texts += u64::from(flags.0 == 0 && self.is_text(key));
        }
        tally.kind()
    }

    /// Whether an address is that of text, up to its end: in a chunk that was made for it, or in what a file was loaded to.
    fn is_text(&self, at: u64) -> bool {
        let chunk = self.chunk_at(at).map(|(_, chunk)| chunk);
        if chunk.is_none() && !self.is_static(at) {
            return false;
        }
        let room = chunk.map_or(LONGEST_TEXT, |chunk| chunk.user_end() - at);
        let bytes = self.memory.copy(at, room.min(LONGEST_TEXT)).unwrap_or_default();
        let end = bytes.iter().position(|byte| !(b' '..=b'~').contains(byte));
        // A struct may begin with its name.
        let fits = |end: usize| chunk.is_none_or(|chunk| chunk.fits(end as u64 + 1));
        end.is_some_and(|end| end > 0 && bytes[end] == 0 && fits(end))
    }

    /// The chunks of the lists of numbers in a table, if it is that of the places of loaded features (`loaded_features_index`, load.c):
    /// each record is a number or such a list, which has room for more, with old words.
    pub(super) fn lists_of_numbers(&self, table: &StTable) -> Vec<u64> {
        let (mut lists, mut others) = (Vec::new(), 0);
        for (asked, (_, record)) in (1..).zip(table.pairs(self.memory, u64::MAX)) {
            match self.list_of_numbers(record) {
                Some(list) => lists.push(list),
                None => others += u64::from(record & 1 == 0),
            }
            // A few, because entries change while they are read; other tables show themselves by their first entries.
            if others > 2 && others * 10 > asked {
                return Vec::new();
            }
        }
        lists
    }

    /// The chunk with the contents of a list of numbers: another one, of an array without a slot and a class, or this one, which then
    /// begins with length and capacity (`rb_darray`, darray.h).
    fn list_of_numbers(&self, at: u64) -> Option<u64> {
        self.chunk_at(at)?;
        let word = |number: u64| self.memory.word_at(at, number * 8);
        let is_array = word(0)? == u64::from(SlotType::ARRAY.0) && word(1)? == 0;
        let (length, room, list, head) = match is_array {
            true => (word(2)?, word(3)?, word(4)?, 0),
            false => (word(0)?, word(1)?, at, 16),
        };
        let (_, chunk) = self.chunk_at(list)?;
        let fits = chunk.fits(room.checked_mul(8)?.checked_add(head)?);
        let is_number = |place: u64| {
            self.memory.word_at(list, head + place * 8).is_some_and(|word| word < LOWEST_ADDRESS)
        };
        (fits && length <= room && (0..length).all(is_number)).then_some(list)
    }

    /// Whether a chunk is a piece of the mark stack. Its words are old, except during a collection.
    pub(crate) fn is_mark_stack(&self, chunk: &Chunk) -> bool {
        let next = self.memory.word_at(chunk.user(), MARK_STACK - 8);
        let Some(next) = next.filter(|_| chunk.fits(MARK_STACK)) else { return false };
        // Bytecode may be as large, and it begins with an instruction, which is the address of code.
        if self.memory.word(chunk.user()).is_some_and(|first| self.is_code(first)) {
            return false;
        }
        // The next piece may have been freed since.
        next == 0 || self.chunks.find(next).is_some()
    }

    /// Whether a chunk is the collector's list of heap pages, whose unused part is full of old words: addresses of descriptors
    /// (`heap_pages.sorted`, gc.c), from 3.4 on behind length and capacity (`rb_darray`, darray.h).
    pub(crate) fn is_list_of_pages(&self, chunk: &Chunk, descriptors: &AddressSet) -> bool {
        [0, 2].into_iter().any(|first| {
            (first..first + FEW_PAGES).all(|number| {
                let word = self.memory.word_at(chunk.user(), number * 8);
                word.is_some_and(|word| descriptors.contains(&word))
            })
        })
    }

    /// Whether a chunk is the cache of methods of all classes of Ruby 2.7: {state, class, name, method, class} each, which keep nothing
    /// (`struct cache_entry`, vm_method.c).
    pub(super) fn is_method_cache(&self, chunk: &Chunk) -> bool {
        let word = |at: u64| self.memory.word_at(chunk.user(), at).unwrap_or(u64::MAX);
        CALLS_HAVE_CACHES.contains(self.heap.version())
            && chunk.fits(METHOD_CACHE_ENTRY * METHOD_CACHE_ENTRIES)
            && (0..SAMPLE).all(|entry| {
                let at = entry * METHOD_CACHE_ENTRY;
                [at, at + 8, at + 16].into_iter().all(|at| word(at) <= u64::from(u32::MAX))
            })
    }

    /// The address of a global variable, if a chunk is its entry.
    pub(super) fn global_entry(&self, chunk: &Chunk) -> Option<u64> {
        if ![GLOBAL_ENTRY, GLOBAL_ENTRY + 8].into_iter().any(|bytes| chunk.fits(bytes)) {
            return None;
        }
        let word = |at: u64| self.memory.word_at(chunk.user(), at);
        word(8).filter(|name| name & SCOPE == GLOBAL_SCOPE && name >> 32 == 0)?;
        word(0).filter(|at| self.is_global_variable(*at))
    }

    /// Whether a global variable is here: {counters, data, getter, setter, …} (`struct rb_global_variable`, variable.c).
    pub(super) fn is_global_variable(&self, at: u64) -> bool {
        let word = |offset: &u64| self.memory.word_at(at, *offset);
        [16, 24].iter().all(|offset| word(offset).is_some_and(|word| self.is_code(word)))
    }

    /// Whether a chunk is a link of a class's list of subclasses, which keeps none alive (`rb_subclass_entry`).
    pub(crate) fn is_subclass_link(&self, chunk: &Chunk) -> bool {
        let one_way = SUBCLASSES_LINKED_ONE_WAY.contains(self.heap.version());
        if !chunk.fits(if one_way { 16 } else { 24 }) {
            return false;
        }
        let [class, next, before] =
            [0, 8, 16].map(|offset| self.memory.word_at(chunk.user(), offset).unwrap_or(0));
        let leads_on = next == 0 || self.word_in_chunk(next, 0).is_some_and(|c| self.is_class(c));
        let leads_back =
            one_way || before == 0 || self.word_in_chunk(before, 8) == Some(chunk.user());
        self.is_class(class) && leads_on && leads_back
    }

    /// The items of a table of names, and how many there is room for: {capacity, number, used; items}, with as many keys as it says
    /// (`struct rb_id_table`, id_table.c).
    pub(super) fn table_of_names(&self, at: u64) -> Option<(u64, u64)> {
        let memory = self.memory;
        let sizes = memory.word(at)?;
        let (capacity, number) = (sizes & 0xffff_ffff, sizes >> 32);
        let (used, items) = (memory.word_at(at, 8)?, memory.word_at(at, 16)?);
        let sound = capacity.is_power_of_two() && capacity <= MOST_NAMES && number > 0;
        let sound = sound && number <= used && used <= capacity && items.is_multiple_of(8);
        let items = Some(items).filter(|_| sound)?;
        let mut keys = 0;
        for item in (items..).step_by(16).take(capacity as usize) {
            let key = memory.word(item)?;
            keys += u64::from(key & 0xffff_ffff != 0);
            // Behind a key is one bit.
            Some(key).filter(|key| key >> 32 <= 1)?;
        }
        (keys == number).then_some((items, capacity))
    }

    /// A word of the chunk at an address.
    fn word_in_chunk(&self, address: u64, offset: u64) -> Option<u64> {
        let (_, chunk) = self.chunk_at(address)?;
        self.memory.word_at(chunk.user(), offset)
    }

    /// The call caches of a method (`rb_class_cc_entries`: capacity, length, method, entries of two words), of which only
    /// the first ones are in use: the method, the address of the entries, and how many words of them are in use.
    pub(crate) fn call_caches(&self, chunk: &Chunk) -> Option<(u64, u64, u64)> {
        if CALL_CACHES_IN_LIST.contains(self.heap.version()) {
            return self.call_caches_in_list(chunk);
        }
        if !chunk.fits(24) {
            return None;
        }
        let sizes = self.memory.word(chunk.user())?;
        let (capacity, length) = (sizes & u64::from(u32::MAX), sizes >> 32);
        let method = self.memory.word_at(chunk.user(), 8)?;
        let entries = self.memory.word_at(chunk.user(), 16)?;
        // `imemo_ment` is the sixth kind.
        let is_method = self.object(method)? & 0xf01f == 0x601a;
        // A method has none until it is called.
        let fits = match capacity {
            0 => entries == 0,
            _ => self.chunk_at(entries)?.1.size >= capacity * 16,
        };
        (is_method && fits && length <= capacity).then_some((method, entries, length * 2))
    }

    /// The same where the entries follow the method.
    fn call_caches_in_list(&self, chunk: &Chunk) -> Option<(u64, u64, u64)> {
        let sizes = self.memory.word(chunk.user())?;
        let (capacity, length) = (sizes & u64::from(u32::MAX), sizes >> 32);
        let sound = length <= capacity && chunk.fits(16 + capacity * 16);
        let method = self.memory.word_at(chunk.user(), 8).filter(|_| sound)?;
        let is_method = self.object(method)? & 0xf01f == 0x601a;
        is_method.then_some((method, chunk.user() + 16, length * 2))
    }

    fn is_class(&self, value: u64) -> bool {
        const CLASSES: [SlotType; 3] = [SlotType::CLASS, SlotType::MODULE, SlotType::ICLASS];
        self.object(value).is_some_and(|flags| has_type(flags, &CLASSES))
    }
}

/// Entries of a table by what they look like.
#[derive(Debug, Default)]
struct TableTally {
    all: u64,
    weak: u64,
    fields: u64,
    finalizers: u64,
    texts: u64,
}

impl TableTally {
    /// Counts a key and a record with the flags of the objects that they are, 0 for what is none. `to_chunk`: the record is the
    /// address of a chunk.
    fn entry(&mut self, (key, record): (u64, u64), flags: (u64, u64), to_chunk: bool) {
        let (of_key, of_record) = flags;
        let is_string = has_type(of_key, &[SlotType::STRING]);
        let same = key == record && (is_string || has_type(of_key, &[SlotType::IMEMO]));
        // Symbols are numbers or objects, by how they were made.
        let is_symbol = record & 0xff == STATIC_SYMBOL || has_type(of_record, &[SlotType::SYMBOL]);
        let id = (key & 1 == 1 && of_record & HAS_OBJECT_ID != 0)
            || (record & 1 == 1 && of_key & HAS_OBJECT_ID != 0);
        let has_fields = to_chunk || has_type(of_record, &[SlotType::IMEMO]);
        let is_finalizer = key != record && has_type(of_record, &[SlotType::ARRAY]);
        self.all += 1;
        self.weak += u64::from(same || (is_string && is_symbol) || id);
        self.fields += u64::from(of_key & HAS_GENERIC_FIELDS != 0 && has_fields);
        self.finalizers += u64::from(of_key & HAS_FINALIZER != 0 && is_finalizer);
    }

    /// What nine of ten entries say.
    fn kind(&self) -> TableKind {
        let kinds = [
            (self.weak, TableKind::Weak),
            (self.fields, TableKind::GenericFields),
            (self.finalizers, TableKind::StrongRecords),
            (if self.texts < FEW_TEXTS { 0 } else { self.texts }, TableKind::Named),
        ];
        // Nine of ten, because entries change while they are read; an empty table keeps nothing either way.
        let mut clear = kinds.into_iter().filter(|(count, _)| count * 10 >= self.all * 9);
        clear.find(|(count, _)| *count > 0).map_or(TableKind::Strong, |(_, kind)| kind)
    }
}

/// Whether flags are those of one of these types.
fn has_type(flags: u64, types: &[SlotType]) -> bool {
    types.contains(&SlotHead { flags, class: 0 }.slot_type())
}
