//! Ruby's compiler (YJIT or ZJIT): its machine code, and what it keeps for the bytecode that it compiled.
//!
//! The code has the form that [`carat_ruby::code_room`] describes. Other libraries with a compiler have it too, so only code counts to
//! which bytecode points: from
//! `jit_entry` in its body (`rb_iseq_constant_body`, vm_core.h). Behind that field are counters, and a pointer to the tables of the
//! compiler. Where these fields are is learned by vote.

use crate::bytes::word_in;
use crate::heap::{Heap, SlotHead, SlotType, imemo_kind};
use crate::malloc::{Chunk, ChunkAmount, ChunkTable};
use crate::memory::{Memory, MemoryRegion, PAGE_LENGTH};
use carat_ruby::code_room::{CodeRoom, MappedPiece, possible_code_rooms};
use carat_ruby::version::V4_0;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Where the body of bytecode can have the fields of the compiler, in bytes.
const FIELDS: Range<u64> = 64..640;
/// So many of a hundred bodies with machine code must agree where the pointer to the tables is.
const CLEAR: usize = 90;
/// What new pages of code are filled with before code is written (yjit/src/virtualmem.rs).
const FILLER: u8 = if cfg!(target_arch = "x86_64") { 0x1e } else { 0 };

/// The compiler of one process, as far as its memory tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JitCensus {
    /// Bytes of addresses that are reserved for code; `None` where the mappings do not tell.
    pub reserved_bytes: Option<u64>,
    /// Bytes of pages of code that are in memory.
    pub code_bytes: u64,
    /// Those of them that no other process maps.
    pub private_bytes: u64,
    /// Methods and blocks with machine code.
    pub compiled: u64,
    /// Chunks of malloc that lead from bytecode to the compiler's tables: what it keeps in tables of its own, such as those of
    /// assumptions, is not among them. `None` where their place is unknown.
    pub tables: Option<ChunkAmount>,
}

/// Where the body of bytecode has the fields of the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct JitFields {
    /// Of the address of the machine code, followed by a counter of calls.
    entry: u64,
    /// Of the pointer to the tables, followed by a counter.
    tables: Option<u64>,
}

/// The compiler of one process, and which chunks are its own.
#[derive(Debug, Clone)]
pub struct Jit {
    runs: Vec<CodeRoom>,
    fields: JitFields,
    /// Addresses of the bodies of all bytecode, in order.
    bodies: Vec<u64>,
    compiled: u64,
    /// Addresses of the compiler's tables of each body, and of the object of its bytecode.
    tables: BTreeMap<u64, u64>,
    name: &'static str,
}

impl Jit {
    /// `None` where no bytecode points to machine code: the compiler is off, or nothing has been compiled.
    pub fn find(memory: &dyn Memory, heap: &Heap, chunks: &ChunkTable) -> Option<Self> {
        let mut runs = code_runs(memory.regions());
        // Most Rubies have none, and then nothing is read.
        if runs.is_empty() {
            return None;
        }
        let bodies = bodies(memory, heap, chunks);
        let is_code = |word: u64| runs.iter().any(|run| run.code.contains(&word));
        let mut votes: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for &body in bodies.keys() {
            each_field(memory, chunks, body, |at, word| {
                if is_code(word) {
                    votes.entry(at).or_default().push(body);
                }
            });
        }
        // The first of equals: a second entry, for exceptions, follows (`jit_exception`).
        let (entry, entered) =
            votes.into_iter().max_by_key(|(at, bodies)| (bodies.len(), Reverse(*at)))?;
        let entries: Vec<u64> =
            entered.iter().filter_map(|body| memory.word_at(*body, entry)).collect();
        runs.retain(|run| entries.iter().any(|address| run.code.contains(address)));
        let tables_at = tables_at(memory, chunks, &entered, entry);
        let tables_of = |(body, code): (&u64, &u64)| {
            let tables = memory.word_at(*body, tables_at?)?;
            held_chunk(chunks, tables).map(|_| (tables, *code))
        };
        let tables: BTreeMap<u64, u64> = bodies.iter().filter_map(tables_of).collect();
        Some(Self {
            runs,
            fields: JitFields { entry, tables: tables_at },
            // Code that only other code calls has tables and no entry.
            compiled: entered.len().max(tables.len()) as u64,
            bodies: bodies.into_keys().collect(),
            tables,
            name: if heap.version() < V4_0 { "YJIT" } else { "YJIT or ZJIT" },
        })
    }

    /// `YJIT`, or `YJIT or ZJIT` where both are possible.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Whether a mapping is machine code, or reserved for it.
    pub(crate) fn is_code(&self, region: &MemoryRegion) -> bool {
        self.runs.iter().any(|run| run.addresses.contains(&region.start))
    }

    /// Whether the place of the compiler's tables is known.
    pub(crate) const fn knows_tables(&self) -> bool {
        self.fields.tables.is_some()
    }

    /// The chunks that lead to the compiler's tables, by their first address, and the objects of their bytecode.
    pub(crate) const fn tables(&self) -> &BTreeMap<u64, u64> {
        &self.tables
    }

    /// The code, from whose start its places are counted. There can be several, of one of which Ruby's bytecode leads to the most.
    pub(crate) fn code(&self) -> impl Iterator<Item = Range<u64>> {
        self.runs.iter().map(|run| run.code.clone())
    }

    /// Whether a word of a chunk is a field of the compiler in the body of bytecode: an entry, a counter or the pointer to tables.
    pub(crate) fn is_field(&self, chunk: &Chunk, address: u64) -> bool {
        let JitFields { entry, tables } = self.fields;
        let at = address.wrapping_sub(chunk.user());
        // Each is followed by its counter.
        let last = tables.unwrap_or(entry) + 8;
        (entry..=last).contains(&at) && self.bodies.binary_search(&chunk.user()).is_ok()
    }

    /// What is known of it. `tables` are the chunks that its tables lead to.
    pub(crate) fn census(&self, memory: &dyn Memory, tables: ChunkAmount) -> JitCensus {
        let regions = memory.regions().iter().filter(|region| self.is_code(region));
        let (mut present, mut private) = (0, 0);
        for (_, entry) in regions.flat_map(|region| region.pages.entries()) {
            present += u64::from(entry.present());
            private += u64::from(entry.exclusive());
        }
        JitCensus {
            reserved_bytes: self.runs.iter().map(|run| run.reserved).sum(),
            code_bytes: present * PAGE_LENGTH as u64,
            private_bytes: private * PAGE_LENGTH as u64,
            compiled: self.compiled,
            tables: self.fields.tables.map(|_| tables),
        }
    }
}

/// Whether the bytes that differ were all unwritten before: code that was compiled since, in contrast to code that was patched.
pub(crate) fn is_new_code(was: u64, is: u64) -> bool {
    let both = was.to_le_bytes().into_iter().zip(is.to_le_bytes());
    both.filter(|(was, is)| was != is).all(|(was, _)| was == FILLER)
}

/// Every place that has the form of a compiler's code; which is Ruby's, its bytecode tells.
fn code_runs(regions: &[MemoryRegion]) -> Vec<CodeRoom> {
    let pieces = regions.iter().map(|region| MappedPiece {
        range: region.start..region.end,
        access: [region.readable, region.writable, region.executable],
        shared: !region.private,
        name: &region.path,
    });
    possible_code_rooms(&pieces.collect::<Vec<_>>())
}

/// The bodies of all bytecode, in order, and the objects that lead to them.
fn bodies(memory: &dyn Memory, heap: &Heap, chunks: &ChunkTable) -> BTreeMap<u64, u64> {
    let (mut found, mut bytes) = (BTreeMap::new(), Vec::new());
    for page in heap.pages() {
        heap.read_slots(memory, page, &mut bytes);
        for number in 0..page.slots {
            let at = page.slot(number).wrapping_sub(page.address) as usize;
            let slot = at.checked_add(24).and_then(|end| bytes.get(at..end));
            let Some((slot, head)) = slot.and_then(|slot| Some((slot, SlotHead::of(slot)?))) else {
                continue;
            };
            let is_bytecode = head.slot_type() == SlotType::IMEMO
                && imemo_kind(head.flags, heap.version()) == Some("iseq");
            let body = word_in(slot, 16).filter(|_| is_bytecode);
            let body = body.filter(|body| held_chunk(chunks, *body).is_some());
            found.extend(body.map(|body| (body, page.slot(number))));
        }
    }
    found
}

/// The chunk in use that begins at an address.
fn held_chunk(chunks: &ChunkTable, address: u64) -> Option<Chunk> {
    let number = chunks.exact(address)?;
    chunks.get(number).filter(Chunk::held)
}

/// Every word of a body where the compiler's fields can be, with its offset.
fn each_field(
    memory: &dyn Memory,
    chunks: &ChunkTable,
    body: u64,
    mut visit: impl FnMut(u64, u64),
) {
    let Some(chunk) = held_chunk(chunks, body) else { return };
    let end = FIELDS.end.min(chunk.user_end().saturating_sub(body));
    let length = end.saturating_sub(FIELDS.start) & !7;
    let Some(bytes) = body.checked_add(FIELDS.start).and_then(|at| memory.copy(at, length)) else {
        return;
    };
    for at in (0..length).step_by(8) {
        if let Some(word) = word_in(&bytes, at as usize) {
            visit(FIELDS.start + at, word);
        }
    }
}

/// Where bodies with machine code have the pointer to the tables: behind the entry, to a chunk that no other body points to.
fn tables_at(memory: &dyn Memory, chunks: &ChunkTable, entered: &[u64], entry: u64) -> Option<u64> {
    let mut votes: BTreeMap<u64, (usize, BTreeSet<u64>)> = BTreeMap::new();
    for &body in entered {
        each_field(memory, chunks, body, |at, word| {
            if at > entry && held_chunk(chunks, word).is_some() {
                let (count, targets) = votes.entry(at).or_default();
                *count += 1;
                targets.insert(word);
            }
        });
    }
    let clear = votes.into_iter().filter(|(_, (count, targets))| {
        count * 100 >= entered.len() * CLEAR && targets.len() == *count
    });
    clear.max_by_key(|(at, (count, _))| (*count, Reverse(*at))).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::RubyAnchors;
    use crate::fake_ruby::{FakeRuby, HEAP, HEAP_PAGE};
    use crate::malloc::fake_malloc::FakeMalloc;
    use crate::malloc::read_malloc;
    use crate::memory::PAGE;

    /// The first object, in whose place and in those of the next is bytecode.
    const FIRST: u64 = HEAP + HEAP_PAGE + (HEAP_PAGE - 16) % 40 + 16;
    /// Flags of an internal object that is bytecode.
    const BYTECODE: u64 = 26 | 7 << 12;
    const CODE: u64 = 0x7ee0_0000_0000;
    /// Code of another library.
    const OTHER: u64 = 0x7ed0_0000_0000;
    /// Where a body has the entry, and the pointer to the tables.
    const ENTRY: u64 = 400;
    const TABLES: u64 = 432;

    fn map(made: &mut FakeMalloc, start: u64, bytes: u64, access: &str) {
        made.memory.map(MemoryRegion {
            start,
            end: start + bytes,
            readable: access.contains('r'),
            writable: access.contains('w'),
            executable: access.contains('x'),
            private: true,
            ..MemoryRegion::default()
        });
    }

    /// Twelve pieces of bytecode: so many have machine code and tables, one more has only tables.
    fn process(compiled: u64) -> (FakeMalloc, Vec<u64>) {
        let mut made = FakeMalloc::new(FakeRuby::new(9, 40).memory, 112);
        // One page is being written.
        map(&mut made, CODE, 0x2000, "rx");
        map(&mut made, CODE + 0x2000, 0x1000, "rw");
        map(&mut made, CODE + 0x3000, 0x1000, "rx");
        map(&mut made, CODE + 0x4000, (1 << 20) - 0x4000, "");
        map(&mut made, OTHER, 0x1000, "rx");
        made.memory.write(CODE, &[FILLER; 2 * PAGE_LENGTH]);
        let mut bodies = Vec::new();
        for number in 0..12 {
            let slot = FIRST + number * 40;
            let body = made.chunk(0, 0x200, true) + 16;
            made.memory.write_word(slot, BYTECODE);
            made.memory.write_word(slot + 8, 0);
            made.memory.write_word(slot + 16, body);
            if number < compiled {
                made.memory.write_word(body + ENTRY, CODE + 0x100 * number);
            }
            if number <= compiled {
                let tables = made.chunk(0, 0x70, true) + 16;
                made.memory.write_word(body + TABLES, tables);
            }
            // Every body points to a chunk that it shares with the others.
            made.memory.write_word(body + 80, bodies.first().copied().unwrap_or(body));
            bodies.push(body);
        }
        (made, bodies)
    }

    fn find(made: FakeMalloc) -> (Option<Jit>, ChunkTable) {
        let mut memory = made.finish();
        let anchors = RubyAnchors::find(&memory).unwrap();
        let heap = Heap::find(&memory, anchors.version).unwrap();
        let is_heap_page = |address| heap.page_at(address).is_some();
        let chunks = read_malloc(&mut memory, &is_heap_page, true).unwrap().chunks;
        (Jit::find(&memory, &heap, &chunks), chunks)
    }

    #[test]
    fn the_fields_of_the_compiler_are_found_in_bytecode_that_points_to_its_code() {
        let (made, bodies) = process(5);
        let memory = made.clone().finish();
        let (jit, chunks) = find(made);
        let jit = jit.unwrap();
        assert_eq!(jit.fields, JitFields { entry: ENTRY, tables: Some(TABLES) });
        assert_eq!((jit.compiled, jit.tables.len(), jit.bodies.len()), (6, 6, 12));
        assert_eq!((jit.runs.len(), jit.runs[0].addresses.clone()), (1, CODE..CODE + (1 << 20)));
        let chunk = chunks.get(chunks.exact(bodies[9]).unwrap()).unwrap();
        // The counter of calls of what is not compiled yet counts too.
        for (at, expected) in [
            (ENTRY - 8, false),
            (ENTRY, true),
            (ENTRY + 8, true),
            (TABLES + 8, true),
            (TABLES + 16, false),
        ] {
            assert_eq!(jit.is_field(&chunk, bodies[9] + at), expected, "{at}");
        }
        let census = jit.census(&memory, ChunkAmount::resident(6, 0x2a0));
        assert_eq!((census.code_bytes, census.private_bytes), (2 * PAGE, 2 * PAGE));
        assert_eq!((census.reserved_bytes, census.compiled), (Some(1 << 20), 6));
    }

    #[test]
    fn without_bytecode_that_points_to_code_no_compiler_is_assumed() {
        let (made, _) = process(0);
        assert!(find(made).0.is_none());
        let mut made = process(5).0;
        // What lies at a place that others share is no table of one method.
        let shared = made.memory.word_at(FIRST, 16).unwrap();
        for number in 0..12 {
            let body = made.memory.word_at(FIRST, number * 40 + 16).unwrap();
            made.memory.write_word(body + TABLES, shared);
        }
        let jit = find(made).0.unwrap();
        assert_eq!((jit.fields.tables, jit.compiled), (None, 5));
        assert_eq!(jit.census(&process(5).0.finish(), ChunkAmount::default()).tables, None);
    }

    #[test]
    fn code_behind_the_filler_is_new_and_other_code_is_patched() {
        let filler = u64::from_le_bytes([FILLER; 8]);
        let (code, behind) = (0x1122_3344_5566_7788, filler << 32 | 0x5566_7788);
        assert!(
            is_new_code(filler, code) && is_new_code(behind, code & !0xffff_ffff | 0x5566_7788)
        );
        assert!(!is_new_code(code, code + 1) && !is_new_code(filler << 8 | 0x99, code));
    }
}
