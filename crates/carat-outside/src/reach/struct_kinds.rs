//! Structs of C with which Ruby's collector deals in a way of its own, told by the name of their type.
//!
//! `ObjectSpace::WeakMap`, `ObjectSpace::WeakKeyMap`, and from 4.0 on Ruby's own sets of shared strings and of symbols do not keep their
//! contents alive. Threads that have ended are not kept by all that still leads to them ([`super::threads`]).

use super::fields::SlotView;
use super::forms::TableKind;
use super::struct_types::StructTypes;

/// Names of types (weakmap.c, before 3.3 gc.c; concurrent_set.c; vm.c; cont.c; zlib.c; strscan.c; stringio.c;
/// dir.c).
const TYPES: [(&str, StructKind); 10] = [
    ("weakmap", StructKind::Tables(TableKind::Weak)),
    ("weakkeymap", StructKind::Tables(TableKind::StrongRecords)),
    ("VM/concurrent_set", StructKind::Set),
    ("VM/thread", StructKind::Thread),
    ("fiber", StructKind::Fiber),
    ("zstream", StructKind::Shallow(32)),
    ("gzfile", StructKind::Shallow(u64::MAX)),
    ("StringScanner", StructKind::Shallow(u64::MAX)),
    ("strio", StructKind::Shallow(16)),
    ("dir", StructKind::Buffers),
];
/// Bytes of a struct outside of its slot that are searched.
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
    /// It marks objects to which so many bytes of it lead; what it leads to besides keeps none (`zstream_mark`, `gzfile_mark`,
    /// `strscan_mark`, `strio_mark`).
    Shallow(u64),
    /// What it leads to besides objects is room that nobody clears (`DIR` of glibc).
    Buffers,
}

/// The types of such structs.
pub(super) struct StructKinds(StructTypes<StructKind>);

impl StructKinds {
    pub(super) fn new() -> Self {
        Self(StructTypes::new(&TYPES))
    }

    /// What a struct of C is, if it is one of these.
    pub(super) fn kind_of(&mut self, view: &SlotView<'_>) -> Option<StructKind> {
        self.0.find(view.memory, view.struct_type()?)
    }
}

/// Hands every word of a small struct to `each`, whether it lies in the slot or not.
pub(super) fn words_of_struct(view: &SlotView<'_>, each: &mut dyn FnMut(u64)) {
    let outside = view.struct_outside();
    let inside = (view.address + 16..view.end()).step_by(8);
    let outside = (outside..outside.saturating_add(STRUCT)).step_by(8);
    inside.chain(outside).filter_map(|at| view.memory.word(at)).for_each(each);
}
