//! What changed on an inherited page of malloc.

use crate::bytes::word_in;
use crate::heap::Heap;
use crate::jit::Jit;
use crate::malloc::ChunkTable;
use crate::memory::{Memory, PAGE, PAGE_LENGTH};
use crate::number_set::NumberSet;
use crate::unshared::Cause;
use crate::unshared::ground::Descriptors;
use crate::unshared::moves::Moves;
use crate::unshared::slots::PagePair;
use crate::unshared::table::PageCauses;

/// Who holds a chunk, as far as causes differ by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkHolder {
    /// The collector: descriptors of heap pages.
    Collector,
    /// Bytecode.
    Bytecode,
    /// Classes and modules.
    MethodTables,
    /// Ruby's own tables, from its library.
    VmTables,
    /// A thread's stack or storage.
    Thread,
    /// Ruby's compiler.
    Jit,
    /// Other objects, or unknown.
    Contents,
}

/// What is known of malloc's chunks in both processes.
pub(super) struct ChunkView<'a> {
    pub(super) child: &'a dyn Memory,
    pub(super) heap: &'a Heap,
    pub(super) now: &'a ChunkTable,
    /// Numbers of the chunks that the parent holds at the same place; `None` where its chunks are unknown.
    pub(super) before: Option<&'a NumberSet>,
    pub(super) descriptors: &'a Descriptors,
    pub(super) moves: &'a Moves,
    /// The compiler of the child; `None` where nothing was compiled.
    pub(super) jit: Option<&'a Jit>,
    /// Who holds the child's chunk with that number.
    pub(super) holder: &'a dyn Fn(usize) -> ChunkHolder,
}

impl ChunkView<'_> {
    /// Whether chunks lie on a page.
    pub(super) fn covers(&self, page: u64) -> bool {
        self.now.find(page).or_else(|| self.now.find(page.saturating_add(PAGE - 1))).is_some()
    }

    /// The causes of a page that the parent does not have: the compiler's tables, and what else lies there.
    pub(super) fn causes_of_new(&self, page: u64) -> PageCauses {
        // What is free there came with what is not.
        let held = self.now.within(page, page + PAGE).filter(|(_, chunk)| chunk.held());
        let causes: PageCauses = held
            .map(|(number, _)| match (self.holder)(number) {
                ChunkHolder::Jit => (Cause::JitTables, 0),
                _ => (Cause::NewSinceFork, 0),
            })
            .collect();
        if causes.is_empty() { PageCauses::from([(Cause::NewSinceFork, 0)]) } else { causes }
    }

    /// The causes on a page whose bytes differ.
    pub(super) fn causes(&self, pair: PagePair<'_>) -> PageCauses {
        let mut causes = PageCauses::new();
        for at in pair.changed(0, PAGE_LENGTH) {
            let (was, is) = (word_in(pair.parent, at), word_in(pair.child, at));
            let (was, is) = (was.unwrap_or(0), is.unwrap_or(0));
            let cause = match self.moves.explain(was, is) {
                true => Cause::Compaction,
                false => self.cause_of_word(pair.at + at as u64, is),
            };
            *causes.entry(cause).or_default() += 1;
        }
        causes
    }

    /// Why one word differs that now has this value.
    fn cause_of_word(&self, address: u64, value: u64) -> Cause {
        if self.descriptors.contain(address) {
            return Cause::GcBitmaps;
        }
        let Some(number) = self.now.find(address) else { return Cause::MallocLinks };
        let Some(chunk) = self.now.get(number) else { return Cause::MallocLinks };
        if address - chunk.address < chunk.own_bytes() {
            return Cause::MallocLinks;
        }
        if !chunk.held() {
            return Cause::MallocReused;
        }
        // Assumed where the parent's chunks are unknown.
        if self.before.is_some_and(|before| !before.contains(number)) {
            return Cause::MallocReused;
        }
        match (self.holder)(number) {
            ChunkHolder::Collector => Cause::GcBitmaps,
            ChunkHolder::Jit => Cause::JitTables,
            ChunkHolder::Bytecode if self.jit.is_some_and(|jit| jit.is_field(&chunk, address)) => {
                Cause::JitFields
            }
            ChunkHolder::Bytecode if self.is_reference(value) => Cause::BytecodeCaches,
            ChunkHolder::Bytecode => Cause::BytecodeCounters,
            ChunkHolder::MethodTables => Cause::MethodTables,
            // What a thread's stack or storage points at is no stack.
            ChunkHolder::VmTables | ChunkHolder::Thread => Cause::VmTables,
            ChunkHolder::Contents => Cause::Contents,
        }
    }

    /// Whether a value points at an object or into memory, in contrast to a number.
    fn is_reference(&self, value: u64) -> bool {
        self.heap.slot_of(value).is_some() || self.child.region(value).is_some()
    }
}
