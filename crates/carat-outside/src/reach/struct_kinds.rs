//! Structs of C with which Ruby's collector deals in a way of its own, told by the name of their type.
//!
//! `ObjectSpace::WeakMap`, `ObjectSpace::WeakKeyMap`, and from 4.0 on Ruby's own sets of shared strings and of symbols do not keep their
//! contents alive. Threads that have ended are not kept by all that still leads to them ([`super::threads`]).

use super::fields::SlotView;
use super::forms::TableKind;
use super::struct_types::StructTypes;
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

/// The types of such structs.
pub(super) struct StructKinds(StructTypes<StructKind>);

impl StructKinds {
    pub(super) fn new() -> Self {
        Self(StructTypes::new(&TYPES))
    }

    /// What a struct of C is, if it is one of these.
    pub(super) fn kind_of(&mut self, view: &SlotView<'_>) -> Option<StructKind> {
        // From 4.0 on the instance variables come first, and low bits of the type's address are flags.
        let later = OBJECT_FIELDS_OUTSIDE_BY_FLAG.contains(view.heap.version());
        let at = view.memory.word_at(view.address, if later { 24 } else { 16 })? & !7;
        self.0.find(view.memory, at)
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
