//! What does not keep its contents alive: `ObjectSpace::WeakMap`, `ObjectSpace::WeakKeyMap`, and from 4.0 on Ruby's own sets of
//! shared strings and of symbols.
//!
//! They are structs of C, told by the name of their type (`rb_data_type_t`, whose first word is the name).

use super::fields::SlotView;
use super::forms::TableKind;
use crate::hash::AddressMap;
use crate::memory::Memory;
use carat_ruby::version::OBJECT_FIELDS_OUTSIDE_BY_FLAG;

/// Names of types (weakmap.c, before 3.3 gc.c; concurrent_set.c), and what they keep alive.
const TYPES: [(&str, WeakStruct); 3] = [
    ("weakmap", WeakStruct::Tables(TableKind::Weak)),
    ("weakkeymap", WeakStruct::Tables(TableKind::StrongRecords)),
    ("VM/concurrent_set", WeakStruct::Set),
];
/// Bytes of such a struct that are searched for tables.
const STRUCT: u64 = 64;

/// What a struct of C has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WeakStruct {
    /// Tables of this kind.
    Tables(TableKind),
    /// A chunk of hashes and objects, none of which it marks.
    Set,
}

/// What was found of each type of struct.
#[derive(Debug, Default)]
pub(super) struct WeakMaps {
    by_type: AddressMap<Option<WeakStruct>>,
}

impl WeakMaps {
    /// What a struct of C has, if it is one of these.
    pub(super) fn kind_of(&mut self, view: &SlotView<'_>) -> Option<WeakStruct> {
        // From 4.0 on the instance variables come first, and low bits of the type's address are flags.
        let later = OBJECT_FIELDS_OUTSIDE_BY_FLAG.contains(view.heap.version());
        let at = view.memory.word_at(view.address, if later { 24 } else { 16 })? & !7;
        *self.by_type.entry(at).or_insert_with(|| kind_of_type(view.memory, at))
    }

    /// Hands every word of the struct to `each`, whether it lies in the slot or not.
    pub(super) fn words(view: &SlotView<'_>, each: &mut dyn FnMut(u64)) {
        let outside = view.memory.word_at(view.address, 32).unwrap_or(0);
        let inside = (view.address + 16..view.end()).step_by(8);
        let outside = (outside..outside.saturating_add(STRUCT)).step_by(8);
        inside.chain(outside).filter_map(|at| view.memory.word(at)).for_each(each);
    }
}

fn kind_of_type(memory: &dyn Memory, at: u64) -> Option<WeakStruct> {
    let name = memory.word(at)?;
    let is = |text: &str| {
        let bytes = memory.copy(name, text.len() as u64 + 1);
        bytes.is_some_and(|bytes| bytes.strip_suffix(&[0]) == Some(text.as_bytes()))
    };
    TYPES.into_iter().find(|(text, _)| is(text)).map(|(_, kind)| kind)
}
