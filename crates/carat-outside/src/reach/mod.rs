//! What the roots reach, and so what a full collection would free.
//!
//! The roots are the data of libraries and the parts of stacks that are in use. From there references are followed by the type
//! of each object, as Ruby's collector does: a word counts only where the collector would read it. Where
//! something may hold any pointer (structs of extensions), every word of it counts.

mod buffers;
mod code;
mod compiled;
mod contexts;
pub(crate) mod fields;
pub(crate) mod forms;
mod graph;
mod held;
mod large;
mod mark;
mod named;
pub(crate) mod record;
pub(crate) mod shapes;
mod struct_kinds;
mod struct_types;
pub(crate) mod symbols;
#[cfg(test)]
mod tests;
mod threads;
pub(crate) mod told;
mod told_structs;
#[cfg(test)]
mod weak_tests;
pub(crate) mod words;

use crate::elf::RubyAnchors;
use crate::heap::Heap;
use crate::malloc::ChunkTable;
use crate::memory::Memory;
use crate::number_set::NumberSet;
use crate::owners::{ReachCensus, ThreadPlace};
use crate::swapped::in_swap;
use carat_ruby::version::{KNOWN_REFERENCES, RubyVersion};
pub(crate) use code::is_name;
use compiled::Compiled;
use contexts::Context;
use forms::{StTable, TableKind};
use graph::Graph;
use mark::{ChunkMark, ReachMarker};
use record::{ReferenceGraph, ReferenceRecord};
pub use told::told_chunks;
use words::Words;

/// Why it is unknown what the roots reach.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReachUnknown {
    /// The layout of objects is not known.
    #[error("how objects of Ruby {0} refer to each other is not known")]
    Version(RubyVersion),
    /// The stacks of Ruby's threads were not found.
    #[error("no stack of a thread of Ruby was found")]
    NoStack,
    /// Even `Object` was not reached.
    #[error("the roots do not lead to {0}")]
    LostClass(&'static str),
    /// What some objects refer to was not read.
    #[error(
        "while it was read, the contents of {0} of its large arrays or hashes moved, so what they lead to is not known; another reading may tell"
    )]
    Moved(u64),
    /// Only what users of chunks tell of them was read.
    #[error(
        "its malloc is not walked, so only what objects say of themselves was read: every way here is one, and there may be others; bytes \
         are those of slots"
    )]
    Told,
    /// So many bytes are in swap, which is not read.
    #[error(
        "{:.2} MB of its memory is in swap, which is not read: objects there are not counted, and what they lead to is not known; \
         `swapoff -a` brings it back where there is room",
        *.0 as f64 / 1e6
    )]
    Swapped(u64),
}

/// Classes that every collection reaches.
const ALWAYS_REACHED: [&str; 3] = ["rb_cObject", "rb_cString", "rb_eStandardError"];

/// Bytes of our own memory for marks of so many slots and chunks, beside the table of chunks: each is reached, and waits, and a slot
/// has an object. A chunk has an owner, which may be an object, and a mark.
pub(crate) const fn reach_bytes(slots: u64, chunks: u64) -> u64 {
    3 * NumberSet::bytes(slots) + 2 * NumberSet::bytes(chunks) + 2 * chunks
}

/// What is reached of one process.
pub struct Reach<'a> {
    marker: ReachMarker<'a>,
    /// Large contents that may not have been read, or not whole.
    moved: u64,
}

/// Marks what the roots reach. Fails where something that is certainly alive was not reached, because then the rest is not
/// certain either.
pub fn reach<'a>(
    memory: &'a dyn Memory,
    heap: &'a Heap,
    chunks: &'a ChunkTable,
    (anchors, threads): (&RubyAnchors, &[ThreadPlace]),
) -> Result<Reach<'a>, ReachUnknown> {
    let marker = marker(memory, heap, chunks, (anchors, threads))?;
    let reach = mark(marker, memory, anchors, Recorded::Reached)?.0;
    reach.is_whole().map(|()| reach)
}

/// Whose references are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// Those of what the roots reach.
    Reached,
    /// Those of garbage too.
    All,
}

/// The same, and every reference on the way, also where contents moved: what was reached is certain; `None` if there are too many. Roots are told apart where one of the boundaries lies
/// between them.
pub(crate) fn reach_recorded<'a>(
    memory: &'a dyn Memory,
    heap: &'a Heap,
    chunks: &'a ChunkTable,
    (anchors, threads): (&RubyAnchors, &[ThreadPlace]),
    (boundaries, recorded): (Vec<u64>, Recorded),
) -> Result<(Reach<'a>, Option<ReferenceGraph>), ReachUnknown> {
    let marker = marker(memory, heap, chunks, (anchors, threads))?;
    // Every thread refers to the VM, which refers to everything that is global.
    let vm = marker.graph.vm;
    let slots: u64 = heap.pages().iter().map(|page| page.slots).sum();
    let record = ReferenceRecord::new(slots as usize, chunks.len(), boundaries).only_from_roots(vm);
    let (reach, record) = mark(marker.recording(record), memory, anchors, recorded)?;
    Ok((reach, record.and_then(ReferenceRecord::finish)))
}

fn marker<'a>(
    memory: &'a dyn Memory,
    heap: &'a Heap,
    chunks: &'a ChunkTable,
    (anchors, threads): (&RubyAnchors, &[ThreadPlace]),
) -> Result<ReachMarker<'a>, ReachUnknown> {
    if !KNOWN_REFERENCES.contains(heap.version()) {
        return Err(ReachUnknown::Version(heap.version()));
    }
    let graph = Graph::learn(memory, heap, chunks, (anchors, threads));
    match graph.contexts.is_empty() {
        true => Err(ReachUnknown::NoStack),
        false => Ok(ReachMarker::new(graph)),
    }
}

fn mark<'a>(
    mut marker: ReachMarker<'a>,
    memory: &dyn Memory,
    anchors: &RubyAnchors,
    recorded: Recorded,
) -> Result<(Reach<'a>, Option<ReferenceRecord>), ReachUnknown> {
    marker.roots();
    let reached = (recorded == Recorded::Reached).then(|| marker.take_record()).flatten();
    for class in ALWAYS_REACHED {
        let reached = anchors.value(memory, class).is_some_and(|class| marker.is_marked(class));
        if !reached {
            return Err(ReachUnknown::LostClass(class));
        }
    }
    // Before garbage is marked, which takes as long again, in which more may move.
    let moved = marker.large.moved(marker.graph.words);
    marker.garbage();
    let record = reached.or_else(|| marker.take_record());
    Ok((Reach { marker, moved }, record))
}

impl Reach<'_> {
    /// Whether what is not reached is garbage. Where contents moved, it may be what they led to.
    pub(crate) fn is_whole(&self) -> Result<(), ReachUnknown> {
        if self.words().chunks.is_told() {
            return Err(ReachUnknown::Told);
        }
        if let Some(unknown) = in_swap(self.words().memory) {
            return Err(unknown);
        }
        match self.moved {
            0 => Ok(()),
            moved => Err(ReachUnknown::Moved(moved)),
        }
    }

    /// Whether the roots reach the object of the slot at an address.
    pub fn is_reached(&self, slot: u64) -> bool {
        self.marker.is_marked(slot)
    }

    /// The same by the number of the slot.
    pub(crate) fn is_reached_number(&self, number: u32) -> bool {
        self.marker.has_mark(number as usize)
    }

    /// Whether only objects that the roots do not reach lead to the chunk with this number.
    pub fn is_garbage(&self, chunk: usize) -> bool {
        self.marker.chunks.get(chunk) == Some(&ChunkMark::Garbage)
    }

    /// What words of the process can be.
    pub(crate) fn words(&self) -> Words<'_> {
        self.marker.graph.words
    }

    /// The table of Ruby itself that a chunk is the header of.
    pub(crate) fn own_table(&self, chunk: usize) -> Option<(StTable, TableKind)> {
        self.marker.graph.tables.get(&(chunk as u64)).copied()
    }

    /// What the compiler keeps, of which a chunk is the first.
    pub(crate) fn compiled(&self, chunk: usize) -> Option<&Compiled> {
        self.marker.graph.compiled.get(&(chunk as u64))
    }

    /// Every execution context.
    pub(crate) fn contexts(&self) -> impl Iterator<Item = &Context> {
        self.marker.graph.contexts.values()
    }

    /// The execution context in a chunk.
    pub(crate) fn context(&self, chunk: usize) -> Option<&Context> {
        self.marker.graph.contexts.get(&(chunk as u64))
    }

    /// The record with the instance variables of an object that has no room for any.
    pub(crate) fn generic_fields(&self, object: u64) -> Option<u64> {
        self.marker.graph.generic_fields(object)
    }

    /// The object whose C struct a chunk is.
    pub(crate) fn object_of_struct(&self, chunk: usize) -> Option<u64> {
        self.marker.graph.object_of_struct(chunk)
    }

    /// Whether a chunk is the struct of a thread of Ruby that has ended.
    pub(crate) fn is_finished_thread(&self, chunk: usize) -> bool {
        self.marker.graph.is_finished_thread(chunk)
    }

    /// The number of the slot at exactly this address.
    pub(crate) fn slot_number(&self, address: u64) -> Option<u32> {
        self.marker.slot_number(address).map(|number| number as u32)
    }

    /// The address of a slot, and its bytes.
    pub(crate) fn slot(&self, number: u32) -> Option<(u64, u64)> {
        self.marker.slot_address(number as usize)
    }

    /// The sums.
    pub fn census(&self) -> ReachCensus {
        let mut census = ReachCensus::default();
        let graph = &self.marker.graph;
        let slots = graph.words.heap.pages().iter();
        let slots = slots.flat_map(|page| (0..page.slots).map(move |slot| (page, slot)));
        for (number, (page, slot)) in slots.enumerate() {
            if !graph.is_object(number, page.slot(slot)) {
                continue;
            }
            if self.marker.has_mark(number) {
                census.reached_objects += 1;
                census.reached_slot_bytes += page.slot_bytes;
            } else {
                census.unreached_objects += 1;
                census.unreached_slot_bytes += page.slot_bytes;
            }
        }
        let marked = graph.words.chunks.iter().zip(&self.marker.chunks);
        for (chunk, mark) in marked.filter(|(chunk, _)| chunk.held()) {
            let sum = match mark {
                ChunkMark::Garbage => &mut census.unreached_chunks,
                ChunkMark::Live | ChunkMark::Unknown | ChunkMark::Part => {
                    &mut census.reached_chunks
                }
            };
            *sum = sum.plus(graph.words.chunks.amount(&chunk));
        }
        census
    }
}
