//! The references of a slot by its type and version.
//!
//! Where Ruby's collector knows what a slot refers to, so do we: an array refers to its elements up to its length, and not to
//! what an earlier, longer array left in the same memory.

use super::buffers::buffers;
use super::shapes::{ShapeTable, is_too_complex};
use crate::bytes::word_in;
use crate::heap::{Heap, SlotHead, SlotType, imemo_kind};
use crate::memory::Memory;
use carat_ruby::version::{
    ARRAYS_FILL_THEIR_SLOT, CALL_CACHES_HOLD_METHODS, CLASS_FIELDS_IN_BUFFER,
    CLASS_VARIABLES_CACHED, COUNTED_OBJECT_FIELDS, HASH_TABLE_IN_SLOT, MATCH_FILLS_ITS_SLOT,
    OBJECT_FIELDS_OUTSIDE_BY_FLAG, SHAPES, STRUCTS_FILL_THEIR_SLOT,
};

/// Contents lie in the slot (`ROBJECT_EMBED`, `RARRAY_EMBED_FLAG`, `BIGNUM_EMBED_FLAG`); for strings, outside of it
/// (`RSTRING_NOEMBED`).
const EMBEDDED: u64 = 1 << 13;
/// A hash has a table with bins (`RHASH_ST_TABLE_FLAG`).
const HASH_HAS_BINS: u64 = 1 << 15;
/// Instance variables lie outside of the slot (`ROBJECT_HEAP`).
const FIELDS_OUTSIDE: u64 = 1 << 16;
/// Pairs of a small hash (`RHASH_AR_TABLE_MAX_SIZE`).
const SMALL_HASH: u64 = 8;
/// Set beside the type of a struct, or in its address, where the struct lies in the slot (`TYPED_DATA_EMBEDDED`, rtypeddata.h).
const STRUCT_INSIDE: u64 = 2;
/// Where a method ends that lies in a slot: five words behind four of the slot's own (3.3, 3.4).
const METHOD_END: u64 = 72;
/// What stands in place of a key that was deleted, from 3.2 on and before (`RUBY_Qundef`, special_consts.h); no object is either.
const UNDEFINED: [u64; 2] = [0x24, 0x34];
/// Offset of the address of a class's instance variables (`CLASS_FIELDS_IN_BUFFER`).
pub(crate) const CLASS_FIELDS: u64 = 32;
/// Superclasses of a class at most, and modules between it and the nearest.
const ANCESTORS: u64 = 1000;

/// What a slot refers to. Words of a slot that are no pointer lead to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// An object.
    Value(u64),
    /// So many objects from this address on.
    Values(u64, u64),
    /// Every word of this range, which may be an object or a chunk.
    Words(u64, u64),
    /// Instance variables in a chunk: so many objects, at most to its end, or a table.
    Fields(u64, u64),
    /// A chunk with a struct of C, which belongs to this slot.
    Struct(u64),
    /// Words of this range that lead to chunks, none of which keeps an object.
    Plain(u64, u64),
    /// A chunk with chunks of bytes (a compiled pattern), whose spare parts keep old words.
    Pattern(u64),
    /// A chunk of bytes.
    Bytes(u64),
    /// A chunk of so many bytes, if there is one: the address may be an old one.
    Buffer(u64, u64),
    /// An `st_table` at this address whose keys and records are objects.
    Table(u64),
}

/// One slot with an object.
#[derive(Clone, Copy)]
pub(crate) struct SlotView<'a> {
    pub(crate) memory: &'a dyn Memory,
    pub(crate) heap: &'a Heap,
    pub(super) shapes: Option<ShapeTable>,
    pub(crate) address: u64,
    /// Bytes of the slot.
    pub(crate) bytes: u64,
    /// Those bytes, where they are at hand in one piece.
    pub(super) contents: Option<&'a [u8]>,
    pub(crate) flags: u64,
}

impl SlotView<'_> {
    pub(crate) const fn kind(&self) -> SlotType {
        SlotHead { flags: self.flags, class: 0 }.slot_type()
    }

    pub(super) fn word(&self, offset: u64) -> u64 {
        let at_hand = self.contents.and_then(|bytes| word_in(bytes, offset as usize));
        at_hand.or_else(|| self.memory.word_at(self.address, offset)).unwrap_or(0)
    }

    const fn at(&self, offset: u64) -> u64 {
        self.address.wrapping_add(offset)
    }

    /// The address of the word behind flags and class that is this one.
    pub(super) fn place_of(&self, word: u64) -> Option<u64> {
        (16..self.bytes).step_by(8).find(|at| self.word(*at) == word).map(|at| self.at(at))
    }

    /// The first address past the slot.
    pub(crate) const fn end(&self) -> u64 {
        self.at(self.bytes)
    }

    const fn flag(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// So many bits of the flags from bit `first` on.
    const fn bits(&self, first: u32, count: u32) -> u64 {
        self.flags >> first & ((1 << count) - 1)
    }

    /// Objects in the slot itself, behind flags and class.
    fn inside(&self, count: u64) -> Reference {
        Reference::Values(self.at(16), count.min(self.bytes.saturating_sub(16) / 8))
    }

    /// Hands every reference to `each`.
    pub(crate) fn references(&self, each: &mut dyn FnMut(Reference)) {
        // Internal objects have something else in the place of a class.
        if self.kind() != SlotType::IMEMO {
            each(Reference::Value(self.word(8)));
        }
        match self.kind() {
            SlotType::OBJECT => each(self.object()),
            // For strings the flag says the opposite (`RSTRING_NOEMBED`).
            SlotType::STRING if self.flag(EMBEDDED) => {
                each(Reference::Bytes(self.word(24)));
                each(Reference::Value(self.word(32)));
            }
            SlotType::ARRAY => each(self.array()),
            SlotType::HASH => self.hash(each),
            SlotType::STRUCT => each(self.structure()),
            SlotType::SYMBOL => each(Reference::Value(self.word(24))),
            SlotType::REGEXP => {
                let pattern = self.word(16);
                each(Reference::Value(self.word(24)));
                each(Reference::Pattern(pattern));
                // Its code (`p`), the first field of a pattern in every version (`struct re_pattern_buffer`, onigmo.h).
                each(Reference::Bytes(self.memory.word(pattern).unwrap_or(0)));
            }
            SlotType::MATCH => self.positions(each),
            SlotType::BIGNUM if !self.flag(EMBEDDED) => each(Reference::Bytes(self.word(24))),
            SlotType::STRING | SlotType::FLOAT | SlotType::BIGNUM => {}
            SlotType::DATA if self.is_plain() => {
                // From 4.0 on the instance variables come first.
                if OBJECT_FIELDS_OUTSIDE_BY_FLAG.contains(self.heap.version()) {
                    each(Reference::Value(self.word(16)));
                }
                each(Reference::Plain(self.at(16), self.end()));
            }
            SlotType::DATA => {
                each(Reference::Words(self.at(16), self.struct_end()));
                each(Reference::Struct(self.word(32)));
            }
            SlotType::COMPLEX | SlotType::RATIONAL => each(self.inside(2)),
            SlotType::FILE => {
                // One word; from 3.3 on nobody clears the rest of a slot.
                each(Reference::Words(self.at(16), self.at(24)));
                buffers(self.memory, self.word(16), &mut |bytes, size| {
                    each(Reference::Buffer(bytes, size));
                });
            }
            SlotType::CLASS | SlotType::MODULE => self.class(each),
            SlotType::ICLASS => self.link(each),
            SlotType::IMEMO => self.internal(each),
            _ => each(Reference::Words(self.at(16), self.end())),
        }
    }

    /// The address of the type of a struct of C that has one (`rb_data_type_t`, rtypeddata.h).
    pub(super) fn struct_type(&self) -> Option<u64> {
        if OBJECT_FIELDS_OUTSIDE_BY_FLAG.contains(self.heap.version()) {
            // Low bits of the type's address are flags.
            return Some(self.word(24) & !7);
        }
        // 1, or 3 where the struct lies in the slot (`typed_flag`).
        [1, 3].contains(&self.word(24)).then(|| self.word(16))
    }

    /// The address of a struct of C that does not lie in the slot; 0 if there is none.
    pub(super) fn struct_outside(&self) -> u64 {
        let is_inside = self.word(24) & STRUCT_INSIDE != 0;
        if is_inside { 0 } else { self.word(32) }
    }

    /// Where what is known of a struct of C ends in its slot. Behind a method that lies there is room (`struct METHOD`, proc.c).
    fn struct_end(&self) -> u64 {
        let name = || self.memory.copy(self.memory.word(self.word(16))?, 7);
        let is_method = self.word(24) == 3 && name().is_some_and(|name| name == b"method\0");
        if is_method { self.at(METHOD_END).min(self.end()) } else { self.end() }
    }

    /// Whether a struct of C keeps nothing: it has no function that marks what it keeps (`dmark`). The VM has none, and is marked all the
    /// same. Those of OpenSSL's structs mark their own object and callbacks that are instance variables too (ossl_ssl.c,
    /// ossl_x509store.c).
    fn is_plain(&self) -> bool {
        let Some(kind) = self.struct_type() else { return self.word(16) == 0 };
        let name = self.memory.word(kind).and_then(|name| self.memory.copy(name, 8));
        // In 4.0 a struct without a type has functions in these places.
        let is_code = || self.memory.region(kind).is_none_or(|region| region.executable);
        name.is_some_and(|name| match self.memory.word_at(kind, 8) {
            Some(0) => !name.starts_with(b"VM\0") && !is_code(),
            _ => name == b"OpenSSL/",
        })
    }

    fn object(&self) -> Reference {
        // What lies behind the variables is what was in the memory before.
        let count = self.shapes.and_then(|shapes| shapes.count(self.memory, self.flags));
        let all = self.inside(count.unwrap_or(u64::MAX));
        if OBJECT_FIELDS_OUTSIDE_BY_FLAG.contains(self.heap.version()) {
            // The word behind the class is an internal object with the fields.
            return if self.flag(FIELDS_OUTSIDE) { self.inside(1) } else { all };
        }
        if is_too_complex(self.flags, self.heap.version()) {
            return Reference::Fields(self.word(16), u64::MAX);
        }
        match self.flag(EMBEDDED) {
            true => all,
            false if COUNTED_OBJECT_FIELDS.contains(self.heap.version()) => {
                Reference::Values(self.word(24), self.word(16) & u64::from(u32::MAX))
            }
            false => Reference::Fields(self.word(16), count.unwrap_or(u64::MAX)),
        }
    }

    fn array(&self) -> Reference {
        if self.flag(EMBEDDED) {
            // The length of an array in its slot is in the flags, in more bits since slots have several sizes.
            let bits = if ARRAYS_FILL_THEIR_SLOT.contains(self.heap.version()) { 7 } else { 2 };
            return self.inside(self.bits(15, bits));
        }
        // An array that shares its elements has the array that owns them in place of its capacity.
        let owner = self.word(24);
        match self.is(owner, SlotType::ARRAY) {
            true => Reference::Value(owner),
            false => Reference::Values(self.word(32), self.word(16)),
        }
    }

    /// Whether there is an object of that type.
    fn is(&self, value: u64, kind: SlotType) -> bool {
        let flags = self.heap.slot_of(value).and_then(|_| self.memory.word(value));
        flags.is_some_and(|flags| SlotHead { flags, class: 0 }.slot_type() == kind)
    }

    fn hash(&self, each: &mut dyn FnMut(Reference)) {
        // The bound, and not the size: deleted pairs lie between the others.
        let pairs = self.bits(20, 4).min(SMALL_HASH);
        let (default, table, small) = match HASH_TABLE_IN_SLOT.contains(self.heap.version()) {
            true => (self.word(16), self.at(24), self.at(32)),
            false => (self.word(24), self.word(16), self.word(16)),
        };
        each(Reference::Value(default));
        if self.flag(HASH_HAS_BINS) {
            return each(Reference::Table(table));
        }
        // A pair that was deleted has no key, and still its value (`ar_clear_entry`, hash.c).
        let key = |pair: u64| self.memory.word_at(small, pair * 16);
        let is_deleted = |pair: &u64| key(*pair).is_some_and(|key| UNDEFINED.contains(&key));
        let deleted = (0..pairs).filter(is_deleted).collect::<Vec<u64>>();
        let mut start = 0;
        for end in deleted.iter().copied().chain([pairs]) {
            if start < end {
                each(Reference::Values(small + start * 16, (end - start) * 2));
            }
            start = end + 1;
        }
        if !deleted.is_empty() {
            // None of the stretches between need begin where the memory of the pairs does.
            each(Reference::Bytes(small));
        }
    }

    fn structure(&self) -> Reference {
        let bits = if STRUCTS_FILL_THEIR_SLOT.contains(self.heap.version()) { 7 } else { 2 };
        match self.bits(13, bits) {
            0 => Reference::Values(self.word(24), self.word(16)),
            inside => self.inside(inside),
        }
    }

    /// A match refers to its string and its pattern. Its positions are numbers, and nobody clears the spare room behind them.
    fn positions(&self, each: &mut dyn FnMut(Reference)) {
        each(Reference::Value(self.word(16)));
        let at = if MATCH_FILLS_ITS_SLOT.contains(self.heap.version()) {
            each(Reference::Value(self.word(24)));
            self.at(32)
        } else {
            each(Reference::Value(self.word(32)));
            each(Reference::Bytes(self.word(24)));
            self.word(24)
        };
        // Room for beginnings and ends in bytes, and for both in characters, a word each (`struct re_registers`, onigmo.h; `struct
        // rmatch`, re.h). Addresses stay when the positions are freed.
        let word = |offset| self.memory.word_at(at, offset).unwrap_or(0);
        let room = |offset| (word(offset) & u64::from(u32::MAX)) * 8;
        for (address, bytes) in [(8, room(0)), (16, room(0)), (24, room(32) * 2)] {
            each(Reference::Buffer(word(address), bytes));
        }
    }

    /// A class refers to whatever is in its slot, but for the list of its superclasses: those keep each other, and behind the list
    /// lies what was in the memory before. So it does behind its instance variables, for which there is room in advance.
    fn class(&self, each: &mut dyn FnMut(Reference)) {
        let mut rest = 16;
        if let Some(count) = self.class_fields() {
            each(Reference::Words(self.at(rest), self.at(CLASS_FIELDS)));
            each(Reference::Fields(self.word(CLASS_FIELDS), count));
            rest = CLASS_FIELDS + 8;
        }
        let list = (self.kind() == SlotType::CLASS).then(|| self.superclasses()).flatten();
        if let Some(list) = list {
            each(Reference::Words(self.at(rest), self.at(list)));
            each(Reference::Bytes(self.word(list)));
            rest = list + 8;
        }
        each(Reference::Words(self.at(rest), self.end()));
    }

    /// The tables of names of a class or module, which may be empty: methods, constants, and others. The last one is that of class
    /// variables, from 3.1 on (`rb_classext_t`, internal/class.h).
    pub(super) fn tables_of_names(&self) -> (Vec<u64>, Option<u64>) {
        const CLASSES: [SlotType; 3] = [SlotType::CLASS, SlotType::MODULE, SlotType::ICLASS];
        let version = self.heap.version();
        let outside = |at: u64| self.memory.word_at(self.word(24), at).unwrap_or(0);
        if !CLASSES.contains(&self.kind()) {
            (Vec::new(), None)
        } else if CLASS_FIELDS_IN_BUFFER.contains(version) {
            let tables = [24, 40, 48, 56, 64].map(|offset| self.word(offset));
            (tables.to_vec(), Some(self.word(64)))
        } else if !SHAPES.contains(version) {
            // Up to 3.0 other things follow.
            let cached = CLASS_VARIABLES_CACHED.contains(version);
            let tables = [16, 24, 32, 40, 48].into_iter().take(if cached { 5 } else { 3 });
            (tables.map(outside).collect(), cached.then(|| outside(48)))
        } else {
            (Vec::new(), None)
        }
    }

    /// How many instance variables a class or module has, where that is known.
    fn class_fields(&self) -> Option<u64> {
        let shapes = self.shapes.filter(|_| CLASS_FIELDS_IN_BUFFER.contains(self.heap.version()));
        shapes?.count(self.memory, self.flags)
    }

    /// Where in a class the address of the list of its superclasses stands, right behind their number: that many classes, of which the
    /// nearest is the last (`superclass_depth` and `superclasses` of `rb_classext_t`, internal/class.h, from 3.2 on).
    fn superclasses(&self) -> Option<u64> {
        let mut nearest = self.word(16);
        // Modules stand between a class and its superclass.
        for _ in 0..ANCESTORS {
            if !self.is(nearest, SlotType::ICLASS) {
                break;
            }
            nearest = self.memory.word_at(nearest, 16)?;
        }
        let is_list = |number: u64, list: u64| {
            let listed = |at: u64| self.memory.word_at(list, at * 8);
            (1..=ANCESTORS).contains(&number)
                && listed(number - 1) == Some(nearest)
                && (0..number).all(|at| listed(at).is_some_and(|one| self.is(one, SlotType::CLASS)))
        };
        (24..self.bytes).step_by(8).find(|at| is_list(self.word(at - 8), self.word(*at)))
    }

    /// A link of a chain of ancestors has a copy of what its module has: tables that the module keeps.
    fn link(&self, each: &mut dyn FnMut(Reference)) {
        let module = self.word(8);
        let has_module = self.heap.slot_of(module).is_some();
        for offset in (16..self.bytes).step_by(8) {
            let word = self.word(offset);
            let is_copy =
                has_module && word != 0 && self.memory.word_at(module, offset) == Some(word);
            // The superclass is the link's own even where it is that of the module too.
            if !is_copy || self.heap.slot_of(word).is_some() {
                each(Reference::Words(self.at(offset), self.at(offset + 8)));
            }
        }
    }

    /// The body of bytecode, which begins with what it is, the number of words of its instructions, and their address
    /// (`rb_iseq_constant_body`, vm_core.h).
    pub(super) fn code_body(&self) -> Option<u64> {
        let is_code = self.kind() == SlotType::IMEMO
            && imemo_kind(self.flags, self.heap.version()) == Some("iseq");
        is_code.then(|| self.word(16))
    }

    /// References of Ruby's internal objects, whose second word is no class.
    fn internal(&self, each: &mut dyn FnMut(Reference)) {
        match imemo_kind(self.flags, self.heap.version()) {
            // One without a class is no longer valid, and the collector takes it from the call (`vm_cc_invalidated_p`, vm_callinfo.h).
            Some("callcache")
                if CALL_CACHES_HOLD_METHODS.contains(self.heap.version()) && self.word(8) != 0 =>
            {
                each(Reference::Value(self.word(16)));
            }
            Some("callcache") => {}
            // Its keywords are symbols that nobody frees, and behind them there may be room (`vm_ci_new_`, vm_callinfo.h).
            Some("callinfo") => each(Reference::Bytes(self.word(8))),
            Some("env") => self.captured(each),
            // Of these the collector marks no more than the value, what is thrown, and three values (`gc_mark_imemo`, gc.c; from 3.4 on
            // `rb_imemo_mark_and_move`, imemo.c).
            Some("constcache") => each(Reference::Value(self.word(8))),
            Some("throw_data") => each(Reference::Value(self.word(16))),
            Some("memo") => each(Reference::Values(self.at(8), 3)),
            // {nodes; the first of them, which stays when they are freed, …} (`rb_ast_dispose`, node.c).
            Some("ast") => {
                each(Reference::Words(self.at(8), self.at(16)));
                each(Reference::Words(self.at(24), self.end()));
            }
            _ => each(Reference::Words(self.at(8), self.end())),
        }
    }

    /// Captured variables: their code, as many values as there are, and the variables around them, whose address stands before `ep` with
    /// a tag (`rb_env_t`; `VM_ENV_DATA_INDEX_SPECVAL`, vm_core.h). Behind the values lies what was in the memory before.
    fn captured(&self, each: &mut dyn FnMut(Reference)) {
        let ep = self.word(16);
        each(Reference::Value(self.word(8)));
        each(Reference::Values(self.word(24), self.word(32) & u64::from(u32::MAX)));
        each(Reference::Words(ep.saturating_sub(8), ep));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_ruby::FakeRuby;
    use carat_ruby::version::{RubyVersion, V3_1, V3_3};

    /// The references of a slot of 80 bytes with these flags, whose class is 0 and whose other words are their own offsets.
    fn references(version: RubyVersion, flags: u64) -> Vec<Reference> {
        let mut memory = FakeRuby::new(9, 80).memory;
        let heap = Heap::find(&memory, version).unwrap();
        let page = heap.pages()[1];
        let address = page.slot(3);
        memory.write_word(address, flags);
        (8..80).step_by(8).for_each(|at| memory.write_word(address + at, at));
        let view = SlotView {
            memory: &memory,
            heap: &heap,
            shapes: None,
            address,
            bytes: 80,
            contents: None,
            flags,
        };
        let mut found = Vec::new();
        view.references(&mut |reference| found.push(reference));
        found
    }

    #[test]
    fn a_match_refers_to_its_string_and_its_pattern_and_its_positions_are_buffers_with_their_room()
    {
        use Reference::{Buffer, Bytes, Value};
        let flags = u64::from(SlotType::MATCH.0);
        let positions = [Buffer(40, 32 * 8), Buffer(48, 32 * 8), Buffer(56, 64 * 16)];
        let inside = [&[Value(8), Value(16), Value(24)][..], &positions].concat();
        assert_eq!(references(V3_3, flags), inside);
        // Nothing lies at the address of the positions.
        let outside = [Value(8), Value(16), Value(32), Bytes(24)];
        let outside = [&outside[..], &[Buffer(0, 0); 3]].concat();
        assert_eq!(references(V3_1, flags), outside);
    }
}
