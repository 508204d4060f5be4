//! What Ruby's compiler keeps: for each piece of bytecode its blocks, and its assumptions about methods.
//!
//! The collector marks for compiled bytecode what its own blocks say: the methods that they call, the objects in their code, and the
//! bytecode with which they may go on (`rb_yjit_iseq_mark`, yjit/src/core.rs). Blocks also know from which others one comes to them,
//! which keeps nobody. Of its assumptions it marks only the methods (`rb_yjit_root_mark`, yjit/src/invariants.rs). Rust orders fields
//! as it likes, so all of this is known by what it leads to.

use super::words::Words;
use crate::bytes::half_in;
use crate::hash::{AddressMap, AddressSet};
use crate::jit::Jit;
use crate::memory::words_between;
use std::ops::Range;

/// Smaller chunks that lead to bytecode are no block but the place of one that is not compiled yet (`BranchStub`); larger ones are other
/// things.
const LEAST_BLOCK: u64 = 80;
const MOST_BLOCK: u64 = 512;
/// So many chunks lead from the tables of bytecode to the place of a block: lists of lists of blocks, their branches, and where those go.
const DEEP: usize = 8;
/// Up to so many there are only the tables and their lists.
const LISTS: usize = 1;
/// Bytes of a chunk of one piece of bytecode at most.
const MOST_BYTES: u64 = 1 << 20;
/// Elements that there is room for in a list, and bytes of one.
const LIST: Range<u64> = 4..1 << 20;
const ELEMENTS: [u64; 6] = [8, 16, 24, 32, 48, 64];
/// Bytes that a hash table has more than its places, and what these are where nothing stands; less where something does (`Group`, `DELETED`
/// and `EMPTY`, control of hashbrown).
const GROUP: u64 = 16;
const NOTHING: [u8; 2] = [0x80, 0xff];

/// What the collector marks for compiled bytecode, or of the compiler's assumptions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Compiled {
    /// Where each stands, and the object.
    pub(crate) objects: Vec<(u64, u64)>,
    /// Chunks that belong to it, by number, or to which only old words lead.
    pub(super) chunks: Vec<usize>,
    /// Those of them that are its blocks.
    pub(super) blocks: Vec<usize>,
}

/// What the compiler keeps for bytecode, and what it assumes, where data of Ruby's library lead to it: by the number of the chunk that
/// stands for it. `is_free` tells whether a chunk belongs to nobody.
pub(super) fn find_compiled(
    words: &Words<'_>,
    jit: &Jit,
    data: &[(u64, u64)],
    is_free: &dyn Fn(usize) -> bool,
) -> AddressMap<Compiled> {
    let code: Vec<Range<u64>> = jit.code().collect();
    let blocks = jit.tables().iter().filter_map(|(tables, &bytecode)| {
        let number = words.chunks.exact(*tables)?;
        Some((number, Blocks { words, is_free, bytecode, code: &code }.read(number)))
    });
    let found = blocks.chain(assumptions(words, data));
    found.map(|(number, compiled)| (number as u64, compiled)).collect()
}

/// The blocks of one piece of bytecode.
struct Blocks<'a> {
    words: &'a Words<'a>,
    is_free: &'a dyn Fn(usize) -> bool,
    bytecode: u64,
    code: &'a [Range<u64>],
}

impl Blocks<'_> {
    /// What is marked for it: what its tables lead to, but for the blocks of others and those who come from there.
    fn read(&self, tables: usize) -> Compiled {
        let mut found = Compiled::default();
        let mut seen = AddressSet::from_iter([tables as u64]);
        let mut level = vec![(tables, false)];
        for depth in 0..DEEP {
            for (number, is_target) in std::mem::take(&mut level) {
                let words = self.contents(number);
                let next = words.iter().filter_map(|word| self.words.chunk_at(*word));
                let next: Vec<usize> = next.map(|(number, _)| number).collect();
                if depth > LISTS && self.is_foreign(&words, &next) {
                    if is_target && words.len() as u64 * 8 < LEAST_BLOCK {
                        found.objects.extend(self.bytecode_in(number, &words));
                    }
                    continue;
                }
                found.chunks.extend((number != tables).then_some(number));
                let is_own_block = is_block(&words) && self.is_own(&words) == Some(true);
                found.blocks.extend((number != tables && is_own_block).then_some(number));
                found.objects.extend(words.windows(2).flat_map(|pair| self.listed(pair)));
                let is_branch = self.is_target(number, &words);
                let next = next.into_iter().filter(|number| seen.insert(*number as u64));
                level.extend(next.map(|number| (number, is_branch)));
            }
        }
        found
    }

    /// Whether a chunk says where a branch goes: a number that tells blocks from what is no block yet, and its address (`BranchTarget`).
    fn is_target(&self, number: usize, words: &[u64]) -> bool {
        let fits = self.words.chunks.get(number).is_some_and(|chunk| chunk.fits(16));
        fits && words.first().is_some_and(|which| *which < 2)
    }

    /// The words of a chunk, if it can be the compiler's.
    fn contents(&self, number: usize) -> Vec<u64> {
        let chunk = self.words.chunks.get(number);
        let chunk = chunk.filter(|chunk| chunk.size <= MOST_BYTES && (self.is_free)(number));
        chunk.map(|chunk| self.words.words_of(&chunk)).unwrap_or_default()
    }

    /// The bytecode to which a chunk with these words leads, and where it stands.
    fn bytecode_in(&self, number: usize, words: &[u64]) -> Vec<(u64, u64)> {
        let start = self.words.chunks.get(number).map_or(0, |chunk| chunk.user());
        let words = (start..).step_by(8).zip(words.iter().copied());
        words.filter(|(_, word)| self.words.internal_kind(*word) == Some("iseq")).collect()
    }

    /// Whether our bytecode is among words; `None` if there is none at all.
    fn is_own(&self, words: &[u64]) -> Option<bool> {
        let mut found = None;
        for word in words.iter().filter(|word| self.words.internal_kind(**word) == Some("iseq")) {
            found = Some(found == Some(true) || *word == self.bytecode);
        }
        found
    }

    /// Whether a chunk that leads to others belongs to other bytecode: it leads to that or to its blocks. In the room behind a list stand
    /// old words, so what leads to our own as well is ours.
    fn is_foreign(&self, words: &[u64], next: &[usize]) -> bool {
        let is_own = self.is_own(words);
        if is_own == Some(true) {
            return false;
        }
        let is_large = |number: &&usize| {
            let chunk = self.words.chunks.get(**number);
            chunk.is_some_and(|chunk| chunk.user_bytes() >= LEAST_BLOCK)
        };
        let blocks = next.iter().filter(is_large).map(|number| self.contents(*number));
        let mut blocks = blocks.filter_map(|words| self.is_own(&words)).peekable();
        (is_own.is_some() || blocks.peek().is_some()) && !blocks.any(|is_own| is_own)
    }

    /// What a list has, if two words are its address and its length: methods that a block calls (`cme_dependencies`), or the places in the
    /// code where objects stand (`gc_obj_offsets`).
    fn listed(&self, pair: &[u64]) -> Vec<(u64, u64)> {
        let &[list, count] = pair else { return Vec::new() };
        let Some((_, chunk)) = self.words.chunk_at(list) else { return Vec::new() };
        if count == 0 || count > chunk.size || chunk.size > MOST_BYTES {
            return Vec::new();
        }
        if chunk.fits(count * 8) {
            let words = words_between(self.words.memory, list, list + count * 8);
            if words.iter().all(|word| self.words.internal_kind(*word) == Some("ment")) {
                return (list..).step_by(8).zip(words).collect();
            }
        }
        if !chunk.fits(count * 4) {
            return Vec::new();
        }
        let Some(places) = self.words.memory.copy(list, count * 4) else { return Vec::new() };
        let places = (0..count as usize).filter_map(|at| half_in(&places, at * 4).map(u64::from));
        let places: Vec<u64> = places.collect();
        let found = self.code.iter().find_map(|code| {
            let objects = places.iter().map(|place| self.object_in(code, *place));
            objects.collect::<Option<Vec<(u64, u64)>>>()
        });
        found.unwrap_or_default()
    }

    /// The object at a place of the code, which no word boundary need be.
    fn object_in(&self, code: &Range<u64>, place: u64) -> Option<(u64, u64)> {
        let at = code.start + place;
        let bytes = (at + 8 <= code.end).then(|| self.words.memory.copy(at, 8))??;
        let word = u64::from_le_bytes(bytes.try_into().ok()?);
        self.words.object(word).map(|_| (at, word))
    }
}

fn is_block(words: &[u64]) -> bool {
    (LEAST_BLOCK..MOST_BLOCK).contains(&(words.len() as u64 * 8))
}

/// The compiler's hash tables to which data of Ruby's library lead, by the number of their chunk. In one of them methods are keys, and of
/// what the compiler assumes only those are marked.
fn assumptions(words: &Words<'_>, data: &[(u64, u64)]) -> Vec<(usize, Compiled)> {
    let data = data.iter().map(|(start, end)| words_between(words.memory, *start, *end));
    let tables = data.flat_map(|data| {
        let tables = data.windows(4).filter_map(|table| HashTable::read(words, table));
        tables.collect::<Vec<HashTable>>()
    });
    tables.map(|table| (table.chunk, table.compiled(words))).collect()
}

/// The lists of Rust to which data of Ruby's library lead: the number of the chunk of each, and what is used of it. A list says how many
/// elements there is room for, where they are, and how many there are (`Vec`).
pub(super) fn lists_of_rust(words: &Words<'_>, data: &[(u64, u64)]) -> Vec<(usize, Range<u64>)> {
    let list = |description: &[u64]| {
        let &[room, elements, count] = description else { return None };
        let (number, chunk) = words.chunk_at(elements).filter(|_| LIST.contains(&room))?;
        let mut sizes = ELEMENTS.into_iter().filter(|bytes| chunk.fits(room * bytes));
        let bytes = sizes.next().filter(|_| count <= room)?;
        Some((number, 0..count * bytes))
    };
    let data = data.iter().map(|(start, end)| words_between(words.memory, *start, *end));
    data.flat_map(|data| data.windows(3).filter_map(list).collect::<Vec<_>>()).collect()
}

/// A hash table of Rust.
struct HashTable {
    chunk: usize,
    /// The entries in use, with their addresses.
    entries: Vec<(u64, Vec<u64>)>,
}

impl HashTable {
    /// The table that four words describe: where its entries end and its groups begin, a mask, how many more there is room for, and how
    /// many there are (`RawTableInner` of hashbrown). Behind its groups stands nothing.
    fn read(words: &Words<'_>, description: &[u64]) -> Option<Self> {
        let &[groups, mask, room, count] = description else { return None };
        let places = mask.checked_add(1).filter(|places| places.is_power_of_two())?;
        let is_sound = places > 1 && count < places && room < places && places <= MOST_BYTES;
        let number = words.chunks.find(groups).filter(|_| is_sound)?;
        let chunk = words.chunks.get(number).filter(|chunk| chunk.held())?;
        let entries = groups.checked_sub(chunk.user())?;
        let bytes = (entries / places) & !7;
        let is_whole = bytes > 0 && chunk.may_hold(entries + places + GROUP);
        let states = is_whole.then(|| words.memory.copy(groups, places))??;
        if states.iter().any(|state| *state > NOTHING[0] && !NOTHING.contains(state)) {
            return None;
        }
        let used = (1..).zip(states).filter(|(_, state)| *state < NOTHING[0]);
        let used = used.map(|(place, _)| place);
        // The entry of a place ends where that of the one before begins.
        let used = used.map(|place| groups - place * bytes);
        let entry = |start| (start, words_between(words.memory, start, start + bytes));
        let entries: Vec<(u64, Vec<u64>)> = used.map(entry).collect();
        (entries.len() as u64 == count).then_some(Self { chunk: number, entries })
    }

    /// The methods among its keys, and the chunks of the tables that are its values.
    fn compiled(&self, words: &Words<'_>) -> Compiled {
        let keys = self.entries.iter().filter_map(|(at, entry)| Some((*at, *entry.first()?)));
        let methods = keys.filter(|(_, key)| words.internal_kind(*key) == Some("ment"));
        let values = self.entries.iter().flat_map(|(_, entry)| entry.windows(4));
        let values = values.filter_map(|value| Some(Self::read(words, value)?.chunk));
        Compiled { objects: methods.collect(), chunks: values.collect(), blocks: Vec::new() }
    }
}
