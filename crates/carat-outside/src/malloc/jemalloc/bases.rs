//! Blocks of jemalloc's own memory: its tree, the records of extents, its arenas (`base_block_t`, base.h).
//!
//! The records lead to every region in use, so nothing in these blocks may count as a pointer of the program. A block is aligned to
//! 2 MiB and begins with its size and the address of the block before.

use super::walk::BLOCK;
use crate::memory::Memory;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks of one jemalloc that are followed.
const BLOCKS: usize = 1 << 14;
/// Bytes of a block.
const LARGEST: u64 = 1 << 36;
/// Units of 2 MiB before a place in which the start of its block is searched.
const BEFORE: u64 = 64;

/// The blocks that hold these places, and those that they lead to: address and bytes, by address. `places` are in units of
/// [`BLOCK`]; the number of those that are in no block is the second result.
pub(super) fn find_bases(memory: &dyn Memory, places: &BTreeSet<u64>) -> (Vec<(u64, u64)>, u64) {
    let mut found = BTreeMap::new();
    let mut outside = 0;
    for place in places.iter().map(|place| place * BLOCK) {
        let mut starts = (0..BEFORE).map_while(|units| place.checked_sub(units * BLOCK));
        let start = starts
            .find(|start| block_bytes(memory, *start).is_some_and(|bytes| bytes > place - start));
        match start {
            Some(start) => follow(memory, start, &mut found),
            None => outside += 1,
        }
    }
    let mut end = 0;
    found.retain(|start, bytes| {
        let is_apart = *start >= end;
        end = end.max(start.saturating_add(*bytes));
        is_apart
    });
    (found.into_iter().collect(), outside)
}

/// Bytes of the block that may begin here.
fn block_bytes(memory: &dyn Memory, start: u64) -> Option<u64> {
    let (bytes, next) = (memory.word(start)?, memory.word_at(start, 8)?);
    let sound = bytes > 0 && bytes <= LARGEST && bytes.is_multiple_of(BLOCK);
    (sound && next.is_multiple_of(BLOCK)).then_some(bytes)
}

/// Adds a block and those before it.
fn follow(memory: &dyn Memory, first: u64, found: &mut BTreeMap<u64, u64>) {
    let mut start = first;
    while start != 0 && found.len() < BLOCKS && !found.contains_key(&start) {
        let Some(bytes) = block_bytes(memory, start) else { return };
        found.insert(start, bytes);
        start = memory.word_at(start, 8).unwrap_or(0);
    }
}
