//! A fast hash for tables by address.
//!
//! Millions of slots are looked up, and the standard hash takes most of that time. The seed is random, so that a process
//! that lies cannot choose addresses that collide.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};

/// An odd number without a pattern: the golden ratio in 64 bits.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A table by address.
pub type AddressMap<V> = HashMap<u64, V, AddressHash>;

/// A table by the number of a node.
pub type NodeMap<V> = HashMap<u32, V, AddressHash>;

/// A set of addresses.
pub type AddressSet = HashSet<u64, AddressHash>;

/// Makes hashers with one random seed.
#[derive(Debug, Clone, Copy)]
pub struct AddressHash(u64);

impl Default for AddressHash {
    fn default() -> Self {
        Self(RandomState::new().hash_one(FACTOR))
    }
}

impl BuildHasher for AddressHash {
    type Hasher = AddressHasher;

    fn build_hasher(&self) -> AddressHasher {
        AddressHasher(self.0)
    }
}

/// Folds each word into the product of two.
#[derive(Debug, Clone, Copy)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        for byte in rest {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR);
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

/// The places of blocks in a list, by address: one look-up is a product and mostly one entry, where a table of the standard library
/// takes several times as long, and it is asked for every word that may be an object.
#[derive(Debug, Clone)]
pub(crate) struct BlockTable {
    /// Addresses with their places, at least as many entries empty as full.
    entries: Vec<(u64, u32)>,
    full: usize,
    factor: u64,
}

/// The address of an empty entry: no block begins there.
const EMPTY: u64 = u64::MAX;
/// The place of a block that was removed.
const REMOVED: u32 = u32::MAX;

impl BlockTable {
    /// The places of blocks in a list.
    pub(crate) fn of(blocks: impl Iterator<Item = u64>) -> Self {
        // An odd number that nobody can guess, so that no process can choose addresses that collide.
        let factor = AddressHash::default().0 | 1;
        let mut table = Self { entries: vec![(EMPTY, REMOVED); 16], full: 0, factor };
        for (place, block) in blocks.enumerate() {
            table.insert(block, place);
        }
        table
    }

    fn entry(&self, block: u64) -> usize {
        let mask = self.entries.len() - 1;
        // The high bits of a product depend on all bits of the address.
        let mut at = (block.wrapping_mul(self.factor) >> 32) as usize & mask;
        while self.entries[at].0 != block && self.entries[at].0 != EMPTY {
            at = (at + 1) & mask;
        }
        at
    }

    /// The place of a block.
    pub(crate) fn get(&self, block: u64) -> Option<usize> {
        let (_, place) = self.entries[self.entry(block)];
        (place != REMOVED).then_some(place as usize)
    }

    pub(crate) fn insert(&mut self, block: u64, place: usize) {
        if (self.full + 1) * 2 > self.entries.len() {
            let doubled = vec![(EMPTY, REMOVED); self.entries.len() * 2];
            let before = std::mem::replace(&mut self.entries, doubled);
            for entry in before.into_iter().filter(|(known, _)| *known != EMPTY) {
                let at = self.entry(entry.0);
                self.entries[at] = entry;
            }
        }
        let at = self.entry(block);
        self.full += usize::from(self.entries[at].0 == EMPTY);
        self.entries[at] = (block, place as u32);
    }

    /// Removes a block, and returns its place.
    pub(crate) fn remove(&mut self, block: u64) -> Option<usize> {
        let place = self.get(block)?;
        let at = self.entry(block);
        // The entry stays full: those that were put behind it are found over it.
        self.entries[at].1 = REMOVED;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_table_of_blocks_has_the_place_of_each_that_was_put_in_and_not_removed() {
        let blocks: Vec<u64> = (0..5000).map(|block| 0x5555_0000_0000 + block * 0x1_0000).collect();
        let mut table = BlockTable::of(blocks.iter().copied());
        for (place, block) in blocks.iter().enumerate() {
            assert_eq!(table.get(*block), Some(place));
            assert_eq!(table.get(block + 0x4000), None);
        }
        assert_eq!((table.remove(blocks[7]), table.remove(blocks[7])), (Some(7), None));
        assert_eq!(
            (table.get(blocks[7]), table.get(blocks[8]), table.get(EMPTY)),
            (None, Some(8), None)
        );
        table.insert(blocks[7], 5000);
        assert_eq!((table.get(blocks[7]), table.get(0)), (Some(5000), None));
    }

    #[test]
    fn addresses_of_pages_get_different_hashes() {
        let hash = AddressHash::default();
        let hashes: Vec<u64> = (0..4096).map(|page| hash.hash_one(page * 65_536_u64)).collect();
        let all: BTreeSet<u64> = hashes.iter().copied().collect();
        assert_eq!(all.len(), 4096);
        // Tables use the low bits, and the top seven.
        let low: BTreeSet<u64> = hashes.iter().map(|hash| hash & 0xfff).collect();
        let top: BTreeSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
        assert!(low.len() > 2000 && top.len() > 100, "{} {}", low.len(), top.len());
    }
}
