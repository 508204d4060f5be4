//! How jemalloc keeps its extents: the layouts of 5.2 and 5.3 by page size and by width of addresses.
//!
//! The version does not tell the layout: whoever builds jemalloc takes the address bits of the building processor, and Debian's
//! 5.3.0 has 48 of them in one release and 57 in another. So every layout is tried (`rtree.h`, `edata.h` of 5.3, `extent.h`
//! of 5.2, `sc.h`).

use crate::bytes::word_in;
use crate::memory::Memory;

/// Classes of sizes that an extent may have; the last ones are for extents without one (`SC_NSIZES`).
const CLASSES: u64 = 235;
/// Classes with a size.
const SIZED: u64 = 232;
/// The smallest class without slabs, with pages of 4 KiB.
const FIRST_LARGE: u64 = 36;
/// Bytes of an extent's record that are read: its bits, its address, its size.
const RECORD: usize = 24;
/// Offset of a slab's bitmap in the record, in which a set bit is a free region.
pub(super) const BITMAP: u64 = 64;

/// The releases that differ in the records of extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// 5.2.
    Extents,
    /// 5.3.
    Edata,
}

/// One layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeLayout {
    pub(super) family: Family,
    /// Bits of an address within a page (`LG_PAGE`).
    pub(super) page_bits: u32,
    /// Bits of an address (`LG_VADDR`).
    pub(super) address_bits: u32,
    /// Levels of the tree from page to extent.
    pub(super) levels: u32,
    /// Bits of an address that each level takes.
    pub(super) level_bits: u32,
    /// Whether an entry of a leaf is one word with the class in its upper bits, and not two words.
    pub(super) is_compact: bool,
}

const fn layout(family: Family, page_bits: u32, address_bits: u32) -> TreeLayout {
    // With 48 bits class and slab fit into the word of the address (`RTREE_LEAF_COMPACT`, rtree.h).
    let is_compact = address_bits == 48;
    let levels = if is_compact { 2 } else { 3 };
    let level_bits = (address_bits - page_bits) / levels;
    TreeLayout { family, page_bits, address_bits, levels, level_bits, is_compact }
}

/// Every known layout, the one with the largest root first: a smaller root would fit where a larger one is.
pub(super) const LAYOUTS: [TreeLayout; 6] = [
    layout(Family::Edata, 12, 48),
    layout(Family::Extents, 12, 48),
    layout(Family::Edata, 16, 48),
    layout(Family::Extents, 16, 48),
    layout(Family::Edata, 12, 57),
    layout(Family::Extents, 12, 57),
];

/// What a leaf says about one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeafEntry {
    /// Address of the extent's record.
    pub(super) record: u64,
    pub(super) class: u64,
    pub(super) is_slab: bool,
    /// Not in leaves of 5.2.
    pub(super) state: Option<u64>,
}

/// A stretch of pages that jemalloc manages as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// Address of its record.
    pub(super) record: u64,
    /// The first byte that was handed out: of a large region, somewhere in the first page.
    pub(super) address: u64,
    /// Bytes, whole pages.
    pub(super) size: u64,
    pub(super) arena: u64,
    pub(super) is_slab: bool,
    pub(super) state: u64,
    pub(super) class: u64,
    /// Free regions of a slab.
    pub(super) free: u64,
    /// Whether the huge-page allocator made it (5.3).
    pub(super) is_huge: bool,
}

impl TreeLayout {
    /// Bytes of a page.
    pub(super) const fn page(&self) -> u64 {
        1 << self.page_bits
    }

    /// Entries of a node of the tree.
    pub(super) const fn entries(&self) -> u64 {
        1 << self.level_bits
    }

    /// Bytes of the root, and of a node that is no leaf.
    pub(super) const fn node_bytes(&self) -> u64 {
        self.entries() * 8
    }

    /// Bytes of an entry of a leaf.
    pub(super) const fn entry_bytes(&self) -> u64 {
        if self.is_compact { 8 } else { 16 }
    }

    /// Bytes of a leaf.
    pub(super) const fn leaf_bytes(&self) -> u64 {
        self.entries() * self.entry_bytes()
    }

    /// Bits of an address that a leaf covers.
    pub(super) const fn leaf_bits(&self) -> u32 {
        self.level_bits + self.page_bits
    }

    /// Regions of a slab at most.
    pub(super) const fn most_regions(&self) -> u64 {
        1 << (self.page_bits - 3)
    }

    /// Number and bytes of the smallest class that has no slabs (`SC_LARGE_MINCLASS`).
    pub(super) fn first_large(&self) -> (u64, u64) {
        let class = FIRST_LARGE + 4 * u64::from(self.page_bits.saturating_sub(12));
        (class, self.page() << 2)
    }

    /// An entry of a leaf; `None` if it is empty.
    pub(super) fn entry(&self, bytes: &[u8]) -> Option<LeafEntry> {
        let word = word_in(bytes, 0)?;
        let entry = if self.is_compact {
            // Records are aligned, so that their address leaves low bits for other purposes.
            let (align, state) = match self.family {
                Family::Edata => (127, Some(word >> 2 & 7)),
                Family::Extents => (1, None),
            };
            let record = word & ((1 << 48) - 1) & !align;
            LeafEntry { record, class: word >> 48, is_slab: word & 1 == 1, state }
        } else {
            let meta = word_in(bytes, 8)?;
            let half = meta & u64::from(u32::MAX);
            match self.family {
                Family::Edata => LeafEntry {
                    record: word,
                    class: half >> 5,
                    is_slab: half & 1 == 1,
                    state: Some(half >> 2 & 7),
                },
                Family::Extents => LeafEntry {
                    record: word,
                    class: half,
                    is_slab: meta >> 32 & 255 == 1,
                    state: None,
                },
            }
        };
        (entry.record != 0).then_some(entry)
    }

    /// Reads the record of an extent, which may be anything.
    pub(super) fn extent(&self, memory: &dyn Memory, record: u64) -> Option<Extent> {
        let mut bytes = [0; RECORD];
        // Records lie at a line of the cache, which is asked first because it needs no read.
        (record.is_multiple_of(64) && memory.read(record, &mut bytes)).then_some(())?;
        let bits = word_in(&bytes, 0)?;
        let (state, class, free) = match self.family {
            Family::Edata => (bits >> 17 & 7, bits >> 20 & 255, bits >> 28),
            Family::Extents => (bits >> 16 & 3, bits >> 18 & 255, bits >> 26),
        };
        Some(Extent {
            record,
            address: word_in(&bytes, 8)?,
            // The low bits are a serial number.
            size: word_in(&bytes, 16)? & !(self.page() - 1),
            arena: bits & 0xfff,
            is_slab: bits >> 12 & 1 == 1,
            state,
            class,
            free: free & ((1 << (self.page_bits - 2)) - 1),
            is_huge: self.family == Family::Edata && bits >> 14 & 1 == 1,
        })
    }
}

impl Extent {
    /// In use (`extent_state_t`).
    pub(super) const ACTIVE: u64 = 0;
    /// Unused, its pages offered to the kernel (`MADV_FREE`); 1 is dirty: unused, and its pages as they were left.
    pub(super) const MUZZY: u64 = 2;
    /// Unused address space without pages.
    pub(super) const RETAINED: u64 = 3;

    /// Its first page.
    pub(super) const fn first_page(&self, layout: &TreeLayout) -> u64 {
        self.address & !(layout.page() - 1)
    }

    /// The first address past it.
    pub(super) const fn end(&self, layout: &TreeLayout) -> u64 {
        self.first_page(layout).saturating_add(self.size)
    }

    /// Bytes of its class; `None` if it has none.
    pub(super) const fn class_bytes(&self) -> Option<u64> {
        class_bytes(self.class)
    }

    /// Number of regions of a slab; `None` if it can be none. Only the option `slab_sizes` makes slabs that their regions do not
    /// fill.
    pub(super) fn regions(&self, layout: &TreeLayout) -> Option<u64> {
        let count = self.size / self.class_bytes()?;
        (1..=layout.most_regions()).contains(&count).then_some(count)
    }

    /// Whether the entry of a leaf for a page can be one of this extent.
    pub(super) fn agrees(&self, layout: &TreeLayout, entry: &LeafEntry, page: u64) -> bool {
        let first = self.first_page(layout);
        let is_inside = self.size > 0 && page >= first && page < self.end(layout);
        // Elsewhere, and where an extent is unused, a leaf keeps the class of an earlier one.
        let is_exact = self.state == Extent::ACTIVE && (page == first || self.is_slab);
        let same = entry.class == self.class && entry.is_slab == self.is_slab;
        let same_state = entry.state.is_none_or(|state| state == self.state);
        is_inside && self.class <= CLASSES && (same || !is_exact) && same_state
    }
}

/// Bytes of the class with this number (`sz_index2size_compute`, sz.h); `None` if it has none.
pub(super) const fn class_bytes(class: u64) -> Option<u64> {
    match class {
        0 => Some(8),
        1..=4 => Some(16 * class),
        5..SIZED => {
            let (group, within) = ((class - 5) / 4, (class - 5) % 4 + 1);
            Some((64 << group) + within * (16 << group))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;

    #[test]
    fn roots_and_leaves_have_the_sizes_that_were_seen() {
        let sizes =
            LAYOUTS.map(|layout| (layout.node_bytes(), layout.leaf_bytes(), layout.leaf_bits()));
        let (wide, large, small) =
            ((2 << 20, 2 << 20, 30), (512 << 10, 512 << 10, 32), (256 << 10, 512 << 10, 27));
        assert_eq!(sizes, [wide, wide, large, large, small, small]);
    }

    #[test]
    fn classes_have_the_sizes_of_jemallocs_own_table() {
        for (class, size) in [
            (0, 8),
            (1, 16),
            (4, 64),
            (5, 80),
            (8, 128),
            (9, 160),
            (28, 4096),
            (29, 5120),
            (35, 14336),
        ] {
            assert_eq!(class_bytes(class), Some(size));
        }
        for layout in LAYOUTS {
            let (class, bytes) = layout.first_large();
            assert_eq!(class_bytes(class), Some(bytes), "{layout:?}");
        }
        assert_eq!(class_bytes(231), Some((1 << 62) + 3 * (1 << 60)));
        assert_eq!((class_bytes(232), class_bytes(u64::MAX)), (None, None));
    }

    #[test]
    fn entries_of_leaves_are_taken_apart_and_a_cleared_one_is_empty() {
        let compact = (29_u64 << 48 | 0x7f12_3456_7880 | 1 << 2 | 1).to_le_bytes();
        let entry = LAYOUTS[0].entry(&compact).unwrap();
        let expected =
            LeafEntry { record: 0x7f12_3456_7880, class: 29, is_slab: true, state: Some(1) };
        assert_eq!(entry, expected);
        assert_eq!(LAYOUTS[1].entry(&compact).unwrap().state, None);
        let cleared = (232_u64 << 48).to_le_bytes();
        assert_eq!(LAYOUTS[0].entry(&cleared), None);
        let mut wide = 0x7f12_3456_7880_u64.to_le_bytes().to_vec();
        wide.extend((29_u64 << 5 | 1 << 2 | 1).to_le_bytes());
        assert_eq!(LAYOUTS[4].entry(&wide), Some(expected));
        wide.truncate(8);
        wide.extend((29_u64 | 1 << 32).to_le_bytes());
        assert_eq!(LAYOUTS[5].entry(&wide), Some(LeafEntry { state: None, ..expected }));
        assert_eq!(LAYOUTS[4].entry(&compact), None);
    }

    #[test]
    fn records_of_both_families_are_taken_apart() {
        let mut memory = FakeMemory::default();
        memory.map_anonymous(0x1000, 0x2000);
        for (layout, bits) in [
            (LAYOUTS[0], 3 | 1 << 12 | 1 << 14 | 2 << 17 | 29 << 20 | 700 << 28),
            (LAYOUTS[1], 3 | 1 << 12 | 2 << 16 | 29 << 18 | 700 << 26),
        ] {
            memory.write_word(0x1080, bits);
            memory.write_word(0x1088, 0x7f00_0000_5040);
            memory.write_word(0x1090, 0x8000 | 77);
            let extent = layout.extent(&memory, 0x1080).unwrap();
            assert_eq!((extent.arena, extent.state, extent.class, extent.free), (3, 2, 29, 700));
            assert_eq!((extent.first_page(&layout), extent.size), (0x7f00_0000_5000, 0x8000));
            assert_eq!(extent.is_huge, layout.family == Family::Edata);
        }
        assert_eq!(LAYOUTS[0].extent(&memory, 0x1081), None);
        assert_eq!(LAYOUTS[0].extent(&memory, 0x9000), None);
    }
}
