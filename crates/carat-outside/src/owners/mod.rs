//! Who holds malloc's chunks: objects by class, bytecode, libraries, threads, or nobody.
//!
//! A pointer to the start of a chunk, from anywhere, makes its place the chunk's holder, and what the chunk points at in turn.
//! The search is breadth first from all places at once, so a chunk belongs to the nearest. Pointers into the middle of
//! chunks count last. No layout of any object is needed, so this is the same for every version of Ruby.

mod data;
pub(crate) mod ground;
mod load;
mod search;
#[cfg(test)]
mod tests;
pub(crate) mod threads;

pub use data::{HolderAmount, HolderKind, OwnerCensus, ReachCensus};
pub use load::ChunkLoad;
pub(crate) use threads::is_forked;
pub use threads::{ThreadPlace, read_threads};

use crate::bytes::word_in;
use crate::heap::{ClassId, ClassNames, Heap, SlotHead, SlotType};
use crate::jit::Jit;
use crate::malloc::{ChunkAmount, ChunkSize, ChunkTable};
use crate::memory::Memory;
use ground::{GroundKind, find_ground};
use search::{ChunkSearch, NOBODY};
use std::collections::HashMap;

/// Sizes of chunks that nobody holds, in the census.
pub const NOBODY_SIZES: usize = 32;

/// Who holds a chunk. Libraries and threads are places in their lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Nobody points at it.
    Nobody,
    /// Descriptors of heap pages.
    GcTables,
    /// It is a heap page, or several.
    HeapPage,
    /// It is the transient heap.
    TransientHeap,
    /// Objects of this class.
    Class(ClassId),
    /// Data of a library.
    Library(u32),
    /// The stack and thread-local data of a thread.
    Thread(u32),
    /// Other anonymous memory.
    Other,
    /// Tables of Ruby's compiler, which bytecode leads to.
    Jit,
}

/// Who holds each chunk of a table.
#[derive(Debug, Clone)]
pub struct Owners {
    /// Number of each chunk's holder.
    of_chunk: Vec<u32>,
    holders: Vec<Owner>,
    class_names: HashMap<ClassId, String>,
    libraries: Vec<String>,
    threads: Vec<String>,
    jit: &'static str,
    needed_bytes: u64,
}

/// Finds out who holds each chunk.
pub fn find_owners(
    memory: &dyn Memory,
    heap: &Heap,
    names: &mut ClassNames,
    chunks: &ChunkTable,
    threads: &[ThreadPlace],
    jit: Option<&Jit>,
) -> Owners {
    let mut finder = Finder {
        memory,
        chunks,
        search: ChunkSearch::new(memory, chunks),
        owners: Owners::new(chunks, threads),
        numbers: HashMap::new(),
    };
    finder.collector(heap);
    finder.transient_heap(heap);
    // Before the bytecode that leads to them.
    if let Some(jit) = jit {
        finder.compiler(jit);
    }
    finder.slots(heap, names);
    for pages in find_ground(memory, heap, chunks, threads) {
        let owner = match pages.kind {
            GroundKind::Library(name) => Owner::Library(finder.owners.library(name)),
            GroundKind::Thread(thread) => Owner::Thread(thread),
            GroundKind::Other => Owner::Other,
        };
        let holder = finder.number(owner);
        for (start, end) in pages.ranges {
            finder.search.scan(start, end, holder);
        }
    }
    let Finder { mut search, mut owners, .. } = finder;
    search.spread();
    owners.of_chunk = search.finish();
    owners
}

/// The search and the numbers of its holders.
struct Finder<'a> {
    memory: &'a dyn Memory,
    chunks: &'a ChunkTable,
    search: ChunkSearch<'a>,
    owners: Owners,
    numbers: HashMap<Owner, u32>,
}

impl Finder<'_> {
    /// The number of a holder, which is new if it had none.
    fn number(&mut self, owner: Owner) -> u32 {
        if let Some(number) = self.numbers.get(&owner) {
            return *number;
        }
        let number = self.owners.holders.len() as u32;
        self.owners.holders.push(owner);
        self.numbers.insert(owner, number);
        number
    }

    /// Heap pages and their descriptors, where they are chunks.
    fn collector(&mut self, heap: &Heap) {
        let tables = self.number(Owner::GcTables);
        let heap_pages = self.number(Owner::HeapPage);
        let page_bytes = heap.layout().page_bytes;
        for page in heap.pages().iter().filter(|page| page.slots > 0) {
            if let Some((number, chunk)) = self.search.target(page.descriptor)
                && chunk.user() == page.descriptor
            {
                self.search.assign(number, tables);
            }
            let end = page.address.saturating_add(page_bytes);
            // malloc may have put several pages, and what aligns them, into one chunk. The last bytes of a page of 16 KiB
            // belong to malloc.
            if let Some((number, chunk)) = self.search.target(page.address)
                && chunk.end().saturating_add(48) >= end
            {
                self.search.assign(number, heap_pages);
            }
        }
    }

    /// The transient heap holds contents of objects that Ruby counts itself; where malloc gave it, it is one chunk.
    fn transient_heap(&mut self, heap: &Heap) {
        let holder = self.number(Owner::TransientHeap);
        let arena = heap.transient_heap().map(|(start, _)| start);
        if let Some(number) = arena.and_then(|start| self.chunks.find(start)) {
            self.search.assign(number, holder);
        }
    }

    /// The compiler's tables of each piece of bytecode.
    fn compiler(&mut self, jit: &Jit) {
        self.owners.jit = jit.name();
        let holder = self.number(Owner::Jit);
        for &address in jit.tables().keys() {
            if let Some(target) = self.search.target(address) {
                self.search.point(address, target, holder);
            }
        }
    }

    /// Every word of every slot with an object.
    fn slots(&mut self, heap: &Heap, names: &mut ClassNames) {
        let mut bytes = Vec::new();
        for page in heap.pages() {
            heap.read_slots(self.memory, page, &mut bytes);
            for number in 0..page.slots {
                let start = page.slot(number).wrapping_sub(page.address) as usize;
                let slot = start.checked_add(page.slot_bytes as usize);
                if let Some(slot) = slot.and_then(|end| bytes.get(start..end)) {
                    self.slot(heap, names, slot);
                }
            }
        }
    }

    fn slot(&mut self, heap: &Heap, names: &mut ClassNames, slot: &[u8]) {
        let Some(head) = SlotHead::of(slot) else { return };
        if head.slot_type() == SlotType::NONE {
            return;
        }
        let mut holder = None;
        // The first two words are flags and class.
        for place in (16..slot.len()).step_by(8) {
            let Some(word) = word_in(slot, place) else { break };
            let Some(target) = self.search.target(word) else { continue };
            let found = match holder {
                Some(holder) => holder,
                None => self.class_holder(names.of_slot(self.memory, heap, head), names),
            };
            // Names cost reads, and most slots point at no chunk.
            holder = Some(found);
            self.search.point(word, target, found);
        }
    }

    /// The number of the objects of a class.
    fn class_holder(&mut self, class: ClassId, names: &ClassNames) -> u32 {
        let known = &mut self.owners.class_names;
        known.entry(class).or_insert_with(|| names.name(class).to_owned());
        self.number(Owner::Class(class))
    }
}

impl Owners {
    fn new(chunks: &ChunkTable, threads: &[ThreadPlace]) -> Self {
        let load =
            ChunkLoad { chunks: chunks.len() as u64, bytes: chunks.indexed_bytes(), slots: 0 };
        Self {
            of_chunk: Vec::new(),
            holders: vec![Owner::Nobody],
            class_names: HashMap::new(),
            libraries: Vec::new(),
            threads: threads.iter().map(|thread| thread.name.clone()).collect(),
            jit: "",
            needed_bytes: load.need(0).bytes,
        }
    }

    /// The place of a library in the list.
    fn library(&mut self, name: String) -> u32 {
        let known = self.libraries.iter().position(|known| *known == name);
        let place = known.unwrap_or_else(|| {
            self.libraries.push(name);
            self.libraries.len() - 1
        });
        place as u32
    }

    /// The owner of the chunk with this number in the table.
    pub fn of(&self, chunk: usize) -> Owner {
        let number = self.of_chunk.get(chunk).map_or(0, |number| *number as usize);
        self.holders.get(number).copied().unwrap_or(Owner::Nobody)
    }

    /// The kind of an owner and its name; `None` for nobody.
    pub fn describe(&self, owner: Owner) -> Option<(HolderKind, String)> {
        Some(match owner {
            Owner::Nobody => return None,
            Owner::GcTables => (HolderKind::Collector, "page tables of the collector".to_owned()),
            Owner::HeapPage => (HolderKind::HeapPages, "heap pages".to_owned()),
            Owner::TransientHeap => (HolderKind::TransientHeap, "transient heap".to_owned()),
            Owner::Class(class) => {
                let name = self.class_names.get(&class).cloned().unwrap_or_default();
                (kind_of_class(&name), name)
            }
            Owner::Library(place) => (HolderKind::Library, name_of(&self.libraries, place)),
            Owner::Thread(place) => (HolderKind::Thread, name_of(&self.threads, place)),
            Owner::Other => (HolderKind::OtherMemory, "other anonymous memory".to_owned()),
            Owner::Jit => (HolderKind::Jit, self.jit.to_owned()),
        })
    }

    /// What each holds, nobody included; those that hold nothing are left out. `chunks` is the table that was searched.
    pub fn amounts(&self, chunks: &ChunkTable) -> Vec<(Owner, ChunkAmount)> {
        self.amounts_of(chunks, &|_| true)
    }

    /// What one holds.
    pub fn amount(&self, chunks: &ChunkTable, owner: Owner) -> ChunkAmount {
        let amounts = self.amounts(chunks);
        amounts
            .into_iter()
            .find(|(one, _)| *one == owner)
            .map(|(_, amount)| amount)
            .unwrap_or_default()
    }

    /// The same of some of the chunks, by their number in the table.
    fn amounts_of(
        &self,
        chunks: &ChunkTable,
        counts: &dyn Fn(usize) -> bool,
    ) -> Vec<(Owner, ChunkAmount)> {
        let mut amounts = vec![ChunkAmount::default(); self.holders.len()];
        for (number, (chunk, holder)) in chunks.iter().zip(&self.of_chunk).enumerate() {
            let is_counted = chunk.held() && counts(number);
            if let Some(amount) = amounts.get_mut(*holder as usize).filter(|_| is_counted) {
                *amount = amount.plus(chunks.amount(&chunk));
            }
        }
        let all = self.holders.iter().copied().zip(amounts);
        all.filter(|(_, amount)| amount.chunks > 0).collect()
    }

    /// Amounts by holder, and that of nobody. Threads can have one name, as the workers of a pool do.
    fn by_name(&self, amounts: Vec<(Owner, ChunkAmount)>) -> (NamedAmounts, ChunkAmount) {
        let (mut by_name, mut nobody) = (NamedAmounts::new(), ChunkAmount::default());
        for (owner, amount) in amounts {
            let sum = match self.describe(owner) {
                Some(holder) => by_name.entry(holder).or_default(),
                None => &mut nobody,
            };
            *sum = sum.plus(amount);
        }
        (by_name, nobody)
    }

    /// What each holds, and what nobody does. `chunks` is the table that was searched; `is_garbage` says of a chunk, by its
    /// number there, whether a full collection would free it, where that is known.
    pub fn census(
        &self,
        chunks: &ChunkTable,
        is_garbage: Option<&dyn Fn(usize) -> bool>,
    ) -> OwnerCensus {
        let (by_name, nobody) = self.by_name(self.amounts(chunks));
        let garbage =
            is_garbage.map(|is_garbage| self.by_name(self.amounts_of(chunks, is_garbage)).0);
        let mut sizes: HashMap<u64, ChunkAmount> = HashMap::new();
        let lost = chunks.iter().zip(&self.of_chunk).filter(|(_, holder)| **holder == NOBODY);
        for (chunk, _) in lost.filter(|(chunk, _)| chunk.held()) {
            let amount = sizes.entry(chunk.size).or_default();
            *amount = amount.plus(chunks.amount(&chunk));
        }
        let holders = by_name.into_iter();
        let mut holders: Vec<HolderAmount> = holders
            .map(|(holder, amount)| HolderAmount {
                garbage: garbage.as_ref().map(|all| all.get(&holder).copied().unwrap_or_default()),
                kind: holder.0,
                name: holder.1,
                amount,
            })
            .collect();
        holders.sort_by(|one, other| {
            let by_bytes = other.amount.present.cmp(&one.amount.present);
            // By name where bytes are equal, so that two readings of one process print alike.
            by_bytes.then_with(|| (one.kind, &one.name).cmp(&(other.kind, &other.name)))
        });
        let sizes = sizes.into_iter();
        let mut nobody_sizes: Vec<ChunkSize> =
            sizes.map(|(size, amount)| ChunkSize { size, amount }).collect();
        nobody_sizes.sort_by_key(|one| (std::cmp::Reverse(one.amount.present), one.size));
        // A size that many chunks without an owner share often tells which struct they are; the rest says nothing.
        nobody_sizes.truncate(NOBODY_SIZES);
        OwnerCensus { holders, nobody, nobody_sizes, needed_bytes: self.needed_bytes }
    }
}

/// Amounts by the kind and the name of their holder.
type NamedAmounts = HashMap<(HolderKind, String), ChunkAmount>;

fn name_of(names: &[String], place: u32) -> String {
    names.get(place as usize).cloned().unwrap_or_default()
}

/// The kind of holder that the objects with a class name are.
fn kind_of_class(name: &str) -> HolderKind {
    match name {
        "(internal) imemo iseq" => HolderKind::Bytecode,
        name if name.starts_with("(internal)") => HolderKind::Internal,
        _ => HolderKind::Class,
    }
}
