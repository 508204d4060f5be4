//! The pages of a heap, and where their slots and bitmaps lie.

use super::layout::{HeapPage, PageLayout, find_layout, read_page};
use super::transient::find_arena;
use crate::bytes::align_down;
use crate::hash::BlockTable;
use crate::memory::Memory;
use crate::printable::printable;
use carat_ruby::version::{AGES_IN_BITMAP, BITS_BY_SLOT_NUMBER, RubyVersion};

/// Votes below this share of the candidates leave the layout unknown.
const CLEAR_SHARE: f64 = 0.95;
/// Bytes of a descriptor between the address of the first slot and the bitmaps: that address, the list of free slots and
/// the links of the page (struct heap_page, gc.c).
const BITMAPS_AFTER_START: u64 = 32;
/// The same where bits have the number of their slot: also the counts, the flags, and the heap that the page belongs to.
const BITMAPS_AFTER_START_BY_NUMBER: u64 = 72;
/// Bytes of memory for each bit of a bitmap (`sizeof(RVALUE)`).
const BYTES_PER_BIT: u64 = 40;
/// Bytes of the smallest slot, where bits have the number of their slot (`MIN_POOL_SLOT_SIZE`).
const SMALLEST_SLOT: u64 = 32;

/// A bitmap of a page's descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bitmap {
    /// Objects without write barriers.
    WriteBarrierUnprotected,
    /// Objects that the last mark reached.
    Mark,
    /// Objects that a minor collection keeps.
    Uncollectible,
    /// Objects to be marked.
    Marking,
    /// Objects that a minor collection visits (3.3 and later).
    Remembered,
    /// Objects that compaction must not move.
    Pinned,
    /// Two bits of age (3.3 and later); twice as long as the others.
    Age,
}

/// Why the heap is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeapUnknown {
    /// A garbage collector of its own (Ruby 3.4 and later can load one).
    #[error("its garbage collector is {0}; only Ruby's own can be read")]
    OtherCollector(String),
    /// No block of memory looks like a heap page.
    #[error("no block of its memory has the form of a heap page")]
    NoPages,
    /// The layout that won is not clear.
    #[error(
        "the layout of heap pages is unknown: {votes} of {candidates} candidates agree, 95 % are required"
    )]
    Votes {
        /// Candidates with the layout that won.
        votes: u64,
        /// All candidates.
        candidates: u64,
    },
}

/// The collector that `RUBY_GC_LIBRARY` loads (gc.c, `ruby_external_gc_init`), unless it is Ruby's own as a library.
fn other_collector(memory: &dyn Memory) -> Option<String> {
    let files = memory.regions().iter().filter(|region| region.inode != 0);
    let mut names = files.filter_map(|region| region.file_name().strip_prefix("librubygc."));
    names.find_map(|name| name.strip_suffix(".so").filter(|name| *name != "default")).map(printable)
}

/// The pages of a Ruby's heap.
#[derive(Debug, Clone)]
pub struct Heap {
    layout: PageLayout,
    version: RubyVersion,
    pages: Vec<HeapPage>,
    index: BlockTable,
    votes: u64,
    candidates: u64,
    empty_pages: Vec<u64>,
    transient: Option<(u64, u64)>,
}

impl Heap {
    /// Learns the layout and finds every page.
    pub fn find(memory: &dyn Memory, version: RubyVersion) -> Result<Self, HeapUnknown> {
        if let Some(collector) = other_collector(memory) {
            return Err(HeapUnknown::OtherCollector(collector));
        }
        let (vote, described) = find_layout(memory).ok_or(HeapUnknown::NoPages)?;
        let (votes, candidates) = (vote.votes, vote.candidates);
        // A layout that many pages contradict would count garbage as objects.
        if (votes as f64) < candidates as f64 * CLEAR_SHARE {
            return Err(HeapUnknown::Votes { votes, candidates });
        }
        let layout = vote.layout;
        let mut pages = Vec::new();
        let mut empty_pages = Vec::new();
        for block in described {
            match block.page(&layout) {
                // Blocks that do not fit the layout are other memory, which is aligned by chance.
                Some(page) => pages.push(page),
                None => empty_pages.extend(block.empty_page(&layout)),
            }
        }
        let index = BlockTable::of(pages.iter().map(|page: &HeapPage| page.address));
        let transient = find_arena(memory, version);
        Ok(Self { layout, version, pages, index, votes, candidates, empty_pages, transient })
    }

    /// The layout that was learned.
    pub const fn layout(&self) -> &PageLayout {
        &self.layout
    }

    /// The version of Ruby.
    pub const fn version(&self) -> RubyVersion {
        self.version
    }

    /// Every page, by address.
    pub fn pages(&self) -> &[HeapPage] {
        &self.pages
    }

    /// Votes for the layout, and candidates.
    pub const fn votes(&self) -> (u64, u64) {
        (self.votes, self.candidates)
    }

    /// Addresses of the pages that are kept without a slot size.
    pub fn empty_pages(&self) -> &[u64] {
        &self.empty_pages
    }

    /// Addresses of the transient heap: contents of young objects (Ruby 2.6 to 3.2).
    pub const fn transient_heap(&self) -> Option<(u64, u64)> {
        self.transient
    }

    /// Whether an address lies in the transient heap.
    pub(crate) fn is_transient(&self, address: u64) -> bool {
        self.transient.is_some_and(|(start, end)| (start..end).contains(&address))
    }

    /// The page whose block covers an address.
    pub fn page_at(&self, address: u64) -> Option<&HeapPage> {
        // A page has a power of two of bytes, and this is asked for millions of words.
        let block = address & !(self.layout.page_bytes - 1);
        self.index.get(block).and_then(|at| self.pages.get(at))
    }

    /// The page of the slot that starts at exactly `value`; `None` if `value` is no object.
    pub fn slot_of(&self, value: u64) -> Option<&HeapPage> {
        self.page_at(value).filter(|page| page.starts_slot(value))
    }

    /// The place of the page of the slot that starts at exactly `value` in the list of pages, and the number of the slot on it;
    /// `None` if `value` is no object.
    pub(crate) fn slot_at(&self, value: u64) -> Option<(usize, u64)> {
        // Numbers and symbols that are no objects are most of the words that are asked about (`RUBY_FIXNUM_FLAG`, special_consts.h).
        if value & 7 != 0 {
            return None;
        }
        let place = self.index.get(value & !(self.layout.page_bytes - 1))?;
        let page = self.pages.get(place)?;
        // In 32 bits, which divide several times as fast; a page has fewer bytes.
        let within = u32::try_from(value.checked_sub(page.first_slot)?).ok()?;
        let bytes = (page.slot_bytes as u32).max(1);
        let number = u64::from(within / bytes);
        (number < page.slots && within % bytes == 0).then_some((place, number))
    }

    /// Reads the page of an address anew: its descriptor, its bytes and its descriptor again. Adds a page that is new
    /// and forgets one that is gone.
    pub fn read_again(&mut self, memory: &mut dyn Memory, address: u64) -> Option<HeapPage> {
        let block = align_down(address, self.layout.page_bytes);
        if let Some(page) = self.page_at(block) {
            let descriptor = page.descriptor;
            memory.refresh(descriptor, descriptor.saturating_add(self.descriptor_bytes()));
        }
        memory.refresh(block, block.saturating_add(self.layout.page_bytes));
        // The page may have a new descriptor since it was listed.
        if let Some(descriptor) = memory.word(block) {
            memory.refresh(descriptor, descriptor.saturating_add(self.descriptor_bytes()));
        }
        let page = read_page(memory, block, &self.layout);
        match (page, self.index.get(block)) {
            (Some(page), Some(at)) => self.pages[at] = page,
            // Added at the end, so that a walk by numbers meets it as well.
            (Some(page), None) => {
                self.index.insert(block, self.pages.len());
                self.pages.push(page);
            }
            (None, _) => {
                // The entry stays in the list, so that a walk over page numbers goes on; it has no slots any more.
                if let Some(at) = self.index.remove(block) {
                    self.pages[at].slots = 0;
                }
            }
        }
        page
    }

    /// Copies the bytes of a page; absent parts are zero, that is, free slots. Returns the number of absent memory pages.
    pub fn read_slots(&self, memory: &dyn Memory, page: &HeapPage, bytes: &mut Vec<u8>) -> u64 {
        bytes.resize(self.layout.page_bytes as usize, 0);
        memory.read_sparse(page.address, bytes)
    }

    /// Words of one bitmap.
    fn bitmap_words(&self) -> u64 {
        let bytes = if self.bits_by_slot_number() { SMALLEST_SLOT } else { BYTES_PER_BIT };
        self.layout.page_bytes.div_ceil(bytes).div_ceil(64)
    }

    fn bits_by_slot_number(&self) -> bool {
        BITS_BY_SLOT_NUMBER.contains(self.version)
    }

    /// Offset of the bitmaps in a descriptor.
    fn bitmaps_at(&self) -> u64 {
        let after = match self.bits_by_slot_number() {
            true => BITMAPS_AFTER_START_BY_NUMBER,
            false => BITMAPS_AFTER_START,
        };
        self.layout.start_at as u64 + after
    }

    /// Bytes of a descriptor with its bitmaps.
    fn descriptor_bytes(&self) -> u64 {
        // Room for eight bitmaps: the largest number that a version has.
        self.bitmaps_at() + self.bitmap_words() * 8 * 8
    }

    /// Addresses of a bitmap: start and end; `None` where this version has none of the kind.
    pub fn bitmap_range(&self, page: &HeapPage, bitmap: Bitmap) -> Option<(u64, u64)> {
        // 3.3 put the bitmap of remembered objects before that of pinned ones, and added ages (`struct heap_page`, gc.c).
        let newer = AGES_IN_BITMAP.contains(self.version);
        let number = match bitmap {
            Bitmap::WriteBarrierUnprotected => 0,
            Bitmap::Mark => 1,
            Bitmap::Uncollectible => 2,
            Bitmap::Marking => 3,
            Bitmap::Remembered if newer => 4,
            Bitmap::Pinned if newer => 5,
            Bitmap::Pinned => 4,
            Bitmap::Age if newer => 6,
            Bitmap::Remembered | Bitmap::Age => return None,
        };
        let length = self.bitmap_words() * 8;
        let first = self.bitmaps_at() + number * length;
        let start = page.descriptor.checked_add(first)?;
        let twice = if bitmap == Bitmap::Age { 2 } else { 1 };
        Some((start, start.checked_add(length * twice)?))
    }

    /// Number of a slot's bit in the bitmaps of its page.
    pub fn bit_of(&self, page: &HeapPage, slot: u64) -> u64 {
        match self.bits_by_slot_number() {
            true => slot.saturating_sub(page.first_slot) / page.slot_bytes.max(1),
            false => slot.saturating_sub(page.address) / BYTES_PER_BIT,
        }
    }

    /// Numbers of the low and the high bit of an age in its bitmap, by the number of the slot's bit.
    pub fn age_bits_of(&self, bit: u64) -> (u64, u64) {
        match self.bits_by_slot_number() {
            true => {
                let low = bit / 64 * 128 + bit % 64;
                (low, low + 64)
            }
            false => (bit * 2, bit * 2 + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_ruby::FakeRuby;
    use carat_ruby::version::{V3_3, V4_1};

    #[test]
    fn bits_have_the_number_of_their_slot_or_of_the_40_bytes_that_it_starts_in() {
        let memory = FakeRuby::new(9, 40).memory;
        let offsets = |version| {
            let heap = Heap::find(&memory, version).unwrap();
            let page = heap.pages()[1];
            let at = |bitmap| heap.bitmap_range(&page, bitmap).unwrap().0 - page.descriptor;
            let bit = heap.bit_of(&page, page.slot(70));
            (at(Bitmap::WriteBarrierUnprotected), at(Bitmap::Mark), bit, heap.age_bits_of(70))
        };
        // The made-up page has its first slot at 16 bytes and the address of that slot in the fourth word of its descriptor.
        assert_eq!(offsets(V3_3), (64, 64 + 26 * 8, 70, (140, 141)));
        assert_eq!(offsets(V4_1), (104, 104 + 32 * 8, 70, (134, 198)));
    }
}
