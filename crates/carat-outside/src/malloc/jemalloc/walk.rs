//! From leaf to leaf: every extent of a jemalloc, with the bitmaps of its slabs.
//!
//! The process goes on meanwhile. A leaf and the records of its extents are read one shortly after the other, and again where
//! they contradict each other.

use super::layout::{BITMAP, Extent, TreeLayout};
use super::places::{is_own_place, present_pages};
use super::votes::{NODES, Root, children};
use crate::bytes::word_in;
use crate::memory::{Memory, PAGE, PAGE_LENGTH};
use std::collections::BTreeSet;

/// Readings of a page of a leaf whose entries contradict the records of their extents.
const READINGS: u32 = 4;
/// Readings of a slab whose bitmap contradicts its count.
const SLAB_READINGS: u32 = 3;
/// Records that are read anew for one page of a leaf.
const REFRESHED: usize = 16;
/// Alignment of the blocks of jemalloc's own memory.
pub(super) const BLOCK: u64 = 2 << 20;

/// Bytes of our own memory for an extent, with the place of its bitmap and a bitmap of 64 regions.
pub const EXTENT_BYTES: u64 = size_of::<Extent>() as u64 + 4 + 8;

/// Every extent of a jemalloc.
#[derive(Debug, Clone, Default)]
pub(super) struct Extents {
    /// By address, without overlaps.
    pub(super) all: Vec<Extent>,
    /// The bitmaps of the slabs one after the other: a set bit is a free region.
    bitmaps: Vec<u64>,
    /// Where the bitmap of each extent begins; of the one with the same number.
    places: Vec<u32>,
    /// Where jemalloc's own data were seen, in units of [`BLOCK`].
    pub(super) own: BTreeSet<u64>,
    /// Pages of leaves that were read again.
    pub(super) again: u64,
    /// Entries of leaves that agreed with the record of their extent, and that did not.
    pub(super) sound: u64,
    pub(super) wrong: u64,
    /// Slabs that could not be read.
    pub(super) unread: Vec<Extent>,
    /// Slabs whose bitmap contradicts their count.
    pub(super) torn: u64,
    /// Extents of the huge-page allocator.
    pub(super) huge: u64,
}

impl Extents {
    /// Reads all of them.
    pub(super) fn read(memory: &mut dyn Memory, root: &Root) -> Self {
        let mut walk = Walk { root, extents: Self::default(), end: 0 };
        for (number, child) in children(memory, root.address, &root.layout).into_iter().take(NODES)
        {
            if root.layout.levels == 2 {
                walk.leaf(memory, child, number);
                continue;
            }
            walk.extents.own.insert(child / BLOCK);
            for (within, leaf) in children(memory, child, &root.layout).into_iter().take(NODES) {
                walk.leaf(memory, leaf, number << root.layout.level_bits | within);
            }
        }
        walk.extents
    }

    /// Whether the region with this number is free in the slab that is the extent with that number.
    pub(super) fn is_free(&self, extent: usize, region: u64) -> bool {
        let start = self.places.get(extent).map_or(usize::MAX, |place| *place as usize);
        let word = self.bitmaps.get(start.saturating_add((region / 64) as usize));
        // Without a bitmap a region counts as free: what is not known to be in use must not be told as in use.
        word.is_none_or(|word| word >> (region % 64) & 1 == 1)
    }

    fn push(&mut self, extent: Extent, bitmap: &[u64]) {
        self.places.push(u32::try_from(self.bitmaps.len()).unwrap_or(u32::MAX));
        self.bitmaps.extend_from_slice(bitmap);
        self.all.push(extent);
    }
}

/// The walk of one tree.
struct Walk<'a> {
    root: &'a Root,
    extents: Extents,
    /// Where the extent before ends.
    end: u64,
}

/// What a page of a leaf leads to.
#[derive(Default)]
struct PageOfLeaf {
    /// The extents whose first page it has an entry for.
    found: Vec<Extent>,
    sound: u64,
    /// Records that contradict their entries.
    wrong: Vec<u64>,
}

impl Walk<'_> {
    const fn layout(&self) -> &TreeLayout {
        &self.root.layout
    }

    fn leaf(&mut self, memory: &mut dyn Memory, leaf: u64, prefix: u64) {
        if !is_own_place(memory, leaf, self.layout().leaf_bytes()) {
            self.extents.wrong += 1;
            return;
        }
        self.extents.own.insert(leaf / BLOCK);
        let end = leaf.saturating_add(self.layout().leaf_bytes());
        let pages: Vec<u64> = present_pages(memory, leaf, end).collect();
        for page in pages {
            let mut read = self.page(memory, (page, leaf), prefix);
            for _ in 1..READINGS {
                // A page whose entries all agree was read at one moment.
                if read.wrong.is_empty() {
                    break;
                }
                self.extents.again += 1;
                memory.refresh(page, page + PAGE);
                // Limited, because data that is no leaf any more contradicts everything.
                for record in read.wrong.iter().take(REFRESHED) {
                    memory.refresh(*record, record.saturating_add(1));
                }
                read = self.page(memory, (page, leaf), prefix);
            }
            self.extents.sound += read.sound;
            self.extents.wrong += read.wrong.len() as u64;
            for extent in read.found {
                self.extent(memory, extent);
            }
        }
    }

    /// Reads the entries of a leaf that lie on one page.
    fn page(&self, memory: &mut dyn Memory, (page, leaf): (u64, u64), prefix: u64) -> PageOfLeaf {
        // What was read of records for earlier pages may be old.
        memory.drop_kept();
        let (from, to) = (page.max(leaf), (page + PAGE).min(leaf + self.layout().leaf_bytes()));
        let mut bytes = [0; PAGE_LENGTH];
        let part = &mut bytes[..(to - from) as usize];
        let mut read = PageOfLeaf::default();
        if !memory.read(from, part) {
            return read;
        }
        let entry_bytes = self.layout().entry_bytes();
        let mut before = None;
        for (number, entry) in
            ((from - leaf) / entry_bytes..).zip(part.chunks_exact(entry_bytes as usize))
        {
            let Some(entry) = self.layout().entry(entry) else { continue };
            // A slab has an entry for each of its pages.
            if before == Some(entry) {
                read.sound += 1;
                continue;
            }
            let page = prefix << self.layout().leaf_bits() | number << self.layout().page_bits;
            let extent = is_own_place(memory, entry.record, 128)
                .then(|| self.layout().extent(memory, entry.record))
                .flatten()
                .filter(|extent| extent.agrees(self.layout(), &entry, page))
                .filter(|extent| extent.state <= Extent::RETAINED);
            let Some(extent) = extent else {
                read.wrong.push(entry.record);
                continue;
            };
            read.sound += 1;
            before = Some(entry);
            if extent.first_page(self.layout()) == page {
                read.found.push(extent);
            }
        }
        read
    }

    fn extent(&mut self, memory: &mut dyn Memory, extent: Extent) {
        // An extent that was divided or merged meanwhile may be met twice.
        if extent.first_page(self.layout()) < self.end {
            self.extents.wrong += 1;
            return;
        }
        self.end = extent.end(self.layout());
        self.extents.own.insert(extent.record / BLOCK);
        // Counted only to refuse them: the huge-page allocator keeps its free pages elsewhere.
        self.extents.huge += u64::from(extent.is_huge && extent.state == Extent::ACTIVE);
        if extent.state != Extent::ACTIVE || !extent.is_slab {
            return self.extents.push(extent, &[]);
        }
        match self.bitmap(memory, extent) {
            Some((extent, bitmap)) => self.extents.push(extent, &bitmap),
            None => {
                self.extents.wrong += 1;
                self.extents.unread.push(extent);
            }
        }
    }

    /// The bitmap of a slab, with the record as it was read with it; `None` if it is no slab any more.
    fn bitmap(&mut self, memory: &mut dyn Memory, first: Extent) -> Option<(Extent, Vec<u64>)> {
        let mut found = None;
        for reading in 0..SLAB_READINGS {
            let mut extent = first;
            if reading > 0 {
                let end = first.record.saturating_add(BITMAP + self.layout().most_regions() / 8);
                memory.refresh(first.record, end);
                extent = self.layout().extent(memory, first.record)?;
                let same = (extent.address, extent.size, extent.class)
                    == (first.address, first.size, first.class);
                if !same || extent.state != Extent::ACTIVE {
                    break;
                }
            }
            let regions = extent.regions(self.layout())?;
            let bitmap = read_bitmap(memory, extent.record, regions)?;
            let free: u64 = bitmap.iter().map(|word| u64::from(word.count_ones())).sum();
            // The record counts the free regions, too: if both agree, the bitmap was read whole.
            if free == extent.free {
                return Some((extent, bitmap));
            }
            // The last reading is better than none: a few regions of one slab may be in the wrong state.
            found = Some((extent, bitmap));
        }
        self.extents.torn += 1;
        found
    }
}

/// The bitmap of so many regions; the bits behind the last one are clear.
fn read_bitmap(memory: &dyn Memory, record: u64, regions: u64) -> Option<Vec<u64>> {
    let bytes = memory.copy(record.checked_add(BITMAP)?, regions.div_ceil(64) * 8)?;
    let mut words: Vec<u64> = bytes.chunks_exact(8).filter_map(|word| word_in(word, 0)).collect();
    if let Some(last) = words.last_mut().filter(|_| !regions.is_multiple_of(64)) {
        *last &= (1 << (regions % 64)) - 1;
    }
    Some(words)
}
