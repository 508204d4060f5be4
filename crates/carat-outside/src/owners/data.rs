//! Who holds malloc's chunks: plain data.

use crate::malloc::{ChunkAmount, ChunkSize};
use serde::{Deserialize, Serialize};

/// Who holds malloc's chunks at one moment. Chunks in use are held by exactly one of these, so the amounts add up to the chunks
/// in use and the mapped chunks of the malloc census.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnerCensus {
    /// Holders with a name, the largest first.
    pub holders: Vec<HolderAmount>,
    /// Chunks to which no pointer was found: a native leak, or memory that is only known by a number such as an offset.
    pub nobody: ChunkAmount,
    /// Their sizes, the one with most bytes first; at most 32.
    pub nobody_sizes: Vec<ChunkSize>,
    /// Bytes of our own memory for the table of chunks and the search in it.
    pub needed_bytes: u64,
}

/// The chunks of one holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderAmount {
    /// What it is.
    pub kind: HolderKind,
    /// Its name: of the class, the library or the thread; else what it is, in words.
    pub name: String,
    /// The chunks that it holds, directly or through other chunks.
    pub amount: ChunkAmount,
    /// Those of them that a full collection would free; `None` where it is unknown what the roots reach.
    pub garbage: Option<ChunkAmount>,
}

/// What holds chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HolderKind {
    /// Objects of one class.
    Class,
    /// Compiled methods and blocks (instruction sequences).
    Bytecode,
    /// Ruby's other internal objects.
    Internal,
    /// The garbage collector: descriptors of heap pages.
    Collector,
    /// Ruby's heap pages, where malloc has them (Ruby 2.7 and 3.0).
    HeapPages,
    /// The transient heap (Ruby 2.7 to 3.2).
    TransientHeap,
    /// Data of a library, or of the program.
    Library,
    /// The stack and the thread-local data of a thread.
    Thread,
    /// Other anonymous memory, such as stacks of fibers.
    OtherMemory,
    /// Tables of Ruby's compiler for the bytecode that it compiled.
    Jit,
}

impl OwnerCensus {
    /// The chunks of all holders of a kind.
    pub fn of_kind(&self, kind: HolderKind) -> ChunkAmount {
        let of_kind = self.holders.iter().filter(|holder| holder.kind == kind);
        of_kind.fold(ChunkAmount::default(), |sum, holder| sum.plus(holder.amount))
    }

    /// The chunks that somebody holds.
    pub fn held(&self) -> ChunkAmount {
        self.holders.iter().fold(ChunkAmount::default(), |sum, holder| sum.plus(holder.amount))
    }

    /// The share of the bytes in memory that somebody holds; `None` without chunks.
    pub fn held_share(&self) -> Option<f64> {
        let held = self.held().present as f64;
        let all = held + self.nobody.present as f64;
        (all > 0.0).then_some(held / all)
    }
}

/// What is reached from the roots, and what a full collection would free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReachCensus {
    /// Objects that are reached.
    pub reached_objects: u64,
    /// Bytes of their slots.
    pub reached_slot_bytes: u64,
    /// Objects that nothing reaches: garbage that a full collection would free.
    pub unreached_objects: u64,
    /// Bytes of their slots.
    pub unreached_slot_bytes: u64,
    /// Chunks in use that would stay: those that are reached, and those that no object leads to.
    pub reached_chunks: ChunkAmount,
    /// Chunks in use that only garbage holds.
    pub unreached_chunks: ChunkAmount,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_held_leaves_out_nothing() {
        let amount = |chunks, bytes| ChunkAmount::resident(chunks, bytes);
        let holder = |kind, name: &str, amount| HolderAmount {
            kind,
            name: name.into(),
            amount,
            garbage: None,
        };
        let census = OwnerCensus {
            holders: vec![
                holder(HolderKind::Class, "String", amount(2, 600)),
                holder(HolderKind::Class, "Array", amount(1, 100)),
                holder(HolderKind::Thread, "worker", amount(1, 50)),
            ],
            nobody: amount(5, 250),
            ..OwnerCensus::default()
        };
        assert_eq!(census.of_kind(HolderKind::Class), amount(3, 700));
        assert_eq!(census.held(), amount(4, 750));
        assert_eq!(census.held_share(), Some(0.75));
        assert_eq!(OwnerCensus::default().held_share(), None);
    }
}
