//! Structs of C with which Ruby's collector deals in a way of its own, told by the name of their type (`rb_data_type_t`, whose first
//! word is the name).
//!
//! `ObjectSpace::WeakMap`, `ObjectSpace::WeakKeyMap`, and from 4.0 on Ruby's own sets of shared strings and of symbols do not keep their
//! contents alive. Threads that have ended are not kept by all that still leads to them ([`super::finished`]).

use super::fields::SlotView;
use super::forms::TableKind;
use crate::hash::AddressMap;
use crate::memory::Memory;
use carat_ruby::version::OBJECT_FIELDS_OUTSIDE_BY_FLAG;

/// Names of types (weakmap.c, before 3.3 gc.c; concurrent_set.c; vm.c; cont.c).
const TYPES: [(&str, StructKind); 5] = [
    ("weakmap", StructKind::Tables(TableKind::Weak)),
    ("weakkeymap", StructKind::Tables(TableKind::StrongRecords)),
    ("VM/concurrent_set", StructKind::Set),
    ("VM/thread", StructKind::Thread),
    ("fiber", StructKind::Fiber),
];
/// Bytes of a weak map that are searched for tables.
const STRUCT: u64 = 64;

/// What a struct of C is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StructKind {
    /// It has tables of this kind.
    Tables(TableKind),
    /// It has a chunk of hashes and objects, none of which it marks.
    Set,
    /// A thread of Ruby (`rb_thread_t`).
    Thread,
    /// A fiber (`rb_fiber_t`).
    Fiber,
}

/// What was found of each type of struct.
#[derive(Debug, Default)]
pub(super) struct StructKinds {
    by_type: AddressMap<Option<StructKind>>,
}

impl StructKinds {
    /// What a struct of C is, if it is one of these.
    pub(super) fn kind_of(&mut self, view: &SlotView<'_>) -> Option<StructKind> {
        // From 4.0 on the instance variables come first, and low bits of the type's address are flags.
        let later = OBJECT_FIELDS_OUTSIDE_BY_FLAG.contains(view.heap.version());
        let at = view.memory.word_at(view.address, if later { 24 } else { 16 })? & !7;
        *self.by_type.entry(at).or_insert_with(|| kind_of_type(view.memory, at))
    }
}

/// The address of a struct that does not lie in its slot; 0 if there is none.
pub(super) fn struct_outside(view: &SlotView<'_>) -> u64 {
    view.memory.word_at(view.address, 32).unwrap_or(0)
}

/// Hands every word of a weak map to `each`, whether it lies in the slot or not.
pub(super) fn words_of_map(view: &SlotView<'_>, each: &mut dyn FnMut(u64)) {
    let outside = struct_outside(view);
    let inside = (view.address + 16..view.end()).step_by(8);
    let outside = (outside..outside.saturating_add(STRUCT)).step_by(8);
    inside.chain(outside).filter_map(|at| view.memory.word(at)).for_each(each);
}

fn kind_of_type(memory: &dyn Memory, at: u64) -> Option<StructKind> {
    let name = memory.word(at)?;
    let is = |text: &str| {
        let bytes = memory.copy(name, text.len() as u64 + 1);
        bytes.is_some_and(|bytes| bytes.strip_suffix(&[0]) == Some(text.as_bytes()))
    };
    TYPES.into_iter().find(|(text, _)| is(text)).map(|(_, kind)| kind)
}
