//! What a reading says about Ruby's heap: plain data.

use serde::{Deserialize, Serialize};

/// Ruby's heap at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HeapCensus {
    /// Bytes of a heap page.
    pub page_bytes: u64,
    /// Blocks of memory that could be heap pages.
    pub candidates: u64,
    /// Candidates that have the layout that won.
    pub votes: u64,
    /// Heap pages that were counted.
    pub pages: u64,
    /// Pages that Ruby 3.4 and later keep without a slot size.
    pub empty_pages: u64,
    /// The addresses of these pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub empty_map: Vec<u64>,
    /// First address of the transient heap, and the first past it (Ruby 2.7 to 3.2); `None` where malloc's figures have it, or there
    /// is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transient_heap: Option<(u64, u64)>,
    /// Pages on the list of pages to be freed; `None` where this Ruby has none.
    pub tomb_pages: Option<u64>,
    /// Counted pages without an object.
    pub pages_without_objects: u64,
    /// Slots of the counted pages.
    pub slots: u64,
    /// Slots without an object.
    pub free_slots: u64,
    /// Bytes of the slots with an object.
    pub live_bytes: u64,
    /// Bytes of the slots without an object.
    pub free_bytes: u64,
    /// Garbage that is marked as such and not yet swept; `None` where the bitmaps could not be verified.
    pub unswept: Option<SlotAmount>,
    /// Ages of the objects; `None` where the bitmaps could not be verified.
    pub ages: Option<AgeCensus>,
    /// Slots by size.
    pub pools: Vec<PoolCensus>,
    /// Objects by type, the largest first.
    pub types: Vec<TypeCount>,
    /// Number of pages by share of slots with an object: 0 to 9 %, 10 to 19 %, …, 100 %.
    pub pages_by_share: [u64; 11],
    /// Every counted page by address, for a picture.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub map: Vec<HeapPageFill>,
}

impl HeapCensus {
    /// Slots with an object.
    pub const fn live_slots(&self) -> u64 {
        self.slots.saturating_sub(self.free_slots)
    }
}

/// A number of slots and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotAmount {
    /// Slots.
    pub slots: u64,
    /// Bytes of the slots.
    pub bytes: u64,
}

/// Objects by the number of collections that they survived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgeCensus {
    /// Objects of age 0, 1, 2 and 3. Objects of age 3 are old.
    pub by_age: [u64; 4],
    /// Objects that minor collections do not visit.
    pub old: u64,
    /// Objects without write barriers that a minor collection visits always.
    pub remembered_unprotected: u64,
    /// Objects that compaction must not move; `None` unless the last full collection compacted, because others pin nothing.
    pub pinned: Option<u64>,
}

/// The slots of one size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolCensus {
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// Heap pages.
    pub pages: u64,
    /// Slots.
    pub slots: u64,
    /// Slots with an object.
    pub live: u64,
    /// Free slots by the pages' own field. Slots in the allocation cache of a Ractor are not in it.
    pub listed_free: u64,
}

/// Objects of one type of `ruby/internal/value_type.h`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeCount {
    /// For example `T_STRING`.
    pub name: String,
    /// Objects.
    pub objects: u64,
    /// Bytes of their slots.
    pub slot_bytes: u64,
}

/// One heap page of the picture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapPageFill {
    /// Address of the page.
    pub address: u64,
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// Slots.
    pub slots: u64,
    /// Slots with an object.
    pub live: u64,
    /// Old objects; `None` where ages are unknown.
    pub old: Option<u64>,
    /// Pinned objects; `None` as in [`AgeCensus`], or where the bitmaps could not be verified.
    pub pinned: Option<u64>,
    /// Index of the class with most slots on the page in the list of classes; `None` without names.
    pub class: Option<u64>,
}

/// Objects of one class. Internal objects of Ruby have a name in parentheses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassCount {
    /// The class's name, `(anonymous < NAME)` with its nearest named ancestor, or `(internal) KIND`.
    pub name: String,
    /// Objects.
    pub objects: u64,
    /// Bytes of their slots.
    pub slot_bytes: u64,
    /// Objects that minor collections do not visit; `None` where ages are unknown.
    pub old: Option<u64>,
    /// Bytes in memory of malloc's chunks that the objects hold; `None` without a reading of the owners.
    pub malloc_bytes: Option<u64>,
    /// Number of those chunks.
    pub malloc_chunks: Option<u64>,
    /// Bytes in memory of the objects with the strings, arrays, hashes and numbers to which nothing else refers; `None` where that
    /// was not read.
    pub with_held_bytes: Option<u64>,
    /// Objects that a full collection would free; `None` where it is unknown what the roots reach.
    pub garbage_objects: Option<u64>,
}

/// Where the objects of one class lie.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassPlaces {
    /// The class's name.
    pub name: String,
    /// Objects.
    pub objects: u64,
    /// Bytes of their slots.
    pub slot_bytes: u64,
    /// Heap pages with at least one of the objects.
    pub pages: u64,
    /// Heap pages that hold no other object: they could be freed if the class had no objects.
    pub pages_kept_alone: u64,
    /// Bytes of free slots on the pages that hold no other object.
    pub free_bytes_kept_alone: u64,
    /// Objects of age 0, 1, 2 and 3; `None` where ages are unknown.
    pub by_age: Option<[u64; 4]>,
    /// The number of pages with 1, 2 to 3, 4 to 7, 8 to 15 and 16 or more of the objects.
    pub pages_by_objects: [u64; 5],
}

/// What was left out of the counts because it changed or was absent while it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapLeftOut {
    /// Heap pages that were read more than once.
    pub pages_read_again: u64,
    /// Heap pages that made no sense after five readings.
    pub pages_in_flux: u64,
    /// Slots of those pages.
    pub slots_in_flux: u64,
    /// Heap pages of which a part is in swap or could not be read.
    pub pages_partly_absent: u64,
    /// Slots of those pages.
    pub slots_partly_absent: u64,
}
