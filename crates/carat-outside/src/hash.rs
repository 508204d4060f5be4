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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

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
