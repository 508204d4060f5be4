//! The layout of heap pages, learned by vote.
//!
//! A heap page is an aligned block of 64 or 16 KiB whose first word points at its descriptor (`struct heap_page`, gc.c).
//! The descriptor holds the address of the first slot and, as short numbers, the slot size, the number of slots and the
//! number of free ones. Where in the descriptor, differs by version; the layout that fits most blocks wins.

use crate::bytes::{align_up, half_in, short_in, word_in};
use crate::memory::{Memory, PAGE};
use std::collections::HashMap;
use tracing::debug;

/// Bytes of the descriptor that are examined.
pub(super) const DESCRIPTOR: u64 = 96;
/// Sizes of blocks, the larger first.
const PAGE_SIZES: [u64; 2] = [64 << 10, 16 << 10];
/// The first slot lies at most this far behind the start of its page.
const HEADER: u64 = 2048;
/// Bytes of a slot before Ruby had several sizes.
const CLASSIC_SLOT: u64 = 40;
/// With so many votes, and no others, smaller blocks are not examined.
const CLEAR: u64 = 8;

/// Where a descriptor holds what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageLayout {
    /// Whether the slot size stands before the counts.
    pub sized: bool,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Offset of the slot size, or of the number of slots.
    pub counts_at: usize,
    /// Offset of the address of the first slot.
    pub start_at: usize,
}

/// One heap page as its descriptor describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapPage {
    /// Address of the page.
    pub address: u64,
    /// Address of its descriptor.
    pub descriptor: u64,
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// Number of slots.
    pub slots: u64,
    /// Free slots by the page's own field.
    pub listed_free: u64,
    /// Address of the first slot.
    pub first_slot: u64,
    /// The descriptor's flags.
    pub flags: u32,
}

impl HeapPage {
    /// Address of the slot with this number.
    pub const fn slot(&self, number: u64) -> u64 {
        self.first_slot.wrapping_add(number.wrapping_mul(self.slot_bytes))
    }

    /// Whether a slot starts at exactly this address.
    pub const fn starts_slot(&self, address: u64) -> bool {
        let within = address.wrapping_sub(self.first_slot);
        address >= self.first_slot
            && within < self.slot_bytes * self.slots
            && within.is_multiple_of(self.slot_bytes)
    }

    /// Number of the slot that covers an address.
    pub fn slot_number(&self, address: u64) -> Option<u64> {
        let number = address.checked_sub(self.first_slot)? / self.slot_bytes;
        (number < self.slots).then_some(number)
    }

    /// The page was marked and not yet swept: unmarked objects on it are garbage.
    pub const fn unswept(&self) -> bool {
        self.flags & 1 == 1
    }

    /// The page waits to be freed (Ruby 3.3 and earlier).
    pub const fn in_tomb(&self) -> bool {
        self.flags >> 3 & 1 == 1
    }
}

/// The layout that won, and how clearly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LayoutVote {
    pub(super) layout: PageLayout,
    pub(super) votes: u64,
    pub(super) candidates: u64,
}

impl LayoutVote {
    /// Bytes of the pages that have the layout.
    const fn bytes(&self) -> u64 {
        self.votes.saturating_mul(self.layout.page_bytes)
    }
}

/// Addresses of the aligned blocks in memory that may belong to Ruby's heap and whose first page is present.
fn blocks(memory: &dyn Memory, size: u64) -> Vec<u64> {
    let mut found = Vec::new();
    for region in memory.regions() {
        // Ruby's pages are anonymous memory that it writes; anything else only makes candidates.
        if !region.anonymous() || !region.searched() || !region.writable {
            continue;
        }
        // Only blocks with present pages are visited, so reserved address space costs nothing.
        let mut next = align_up(region.start, size);
        for (first, count) in region.pages.runs(u64::MAX) {
            let start = region.start + first * PAGE;
            let end = start + count * PAGE;
            let mut block = align_up(start, size).max(next);
            while block < end && region.end - block >= size {
                found.push(block);
                block += size;
            }
            next = next.max(block);
        }
    }
    found
}

/// Bytes at the end of a page that Ruby leaves to malloc: posix_memalign takes 40 on pages of 16 KiB (`HEAP_PAGE_SIZE`, gc.c),
/// and the next chunk begins there.
const fn spare(size: u64) -> u64 {
    if size == PAGE_SIZES[1] { 48 } else { 0 }
}

/// Whether so many slots of this size fill a page to its end.
fn fills(page: u64, size: u64, start: u64, slot: u64, slots: u64) -> bool {
    let end = start.saturating_add(slot * slots);
    let limit = page.saturating_add(size);
    end <= limit && end.saturating_add(slot + spare(size)) > limit
}

/// The descriptor of the block at `page`, if its first word can be the address of one.
fn descriptor(memory: &dyn Memory, page: u64, size: u64) -> Option<(u64, [u8; 96])> {
    let address = memory.word(page)?;
    // A descriptor lies in malloc, not in the page that it describes.
    let outside = address < page || address >= page.checked_add(size - spare(size))?;
    if address == 0 || !address.is_multiple_of(8) || !outside {
        return None;
    }
    let mut bytes = [0; DESCRIPTOR as usize];
    memory.read(address, &mut bytes).then_some((address, bytes))
}

/// A block and the start of what may be its descriptor. They are kept, because reading every block again would be half of the
/// work for pages of 16 KiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct DescribedBlock {
    page: u64,
    descriptor: u64,
    bytes: [u8; DESCRIPTOR as usize],
}

impl DescribedBlock {
    /// The blocks of a size whose first word leads to something.
    fn all(memory: &dyn Memory, size: u64) -> Vec<Self> {
        let blocks = blocks(memory, size).into_iter();
        let described = blocks.filter_map(|page| {
            let (descriptor, bytes) = descriptor(memory, page, size)?;
            Some(Self { page, descriptor, bytes })
        });
        described.collect()
    }

    /// The heap page that the block is with a layout.
    pub(super) fn page(&self, layout: &PageLayout) -> Option<HeapPage> {
        page_of(&self.bytes, self.page, self.descriptor, layout)
    }

    /// Its address if it is a page that Ruby 3.4 and later keep without a slot size.
    pub(super) fn empty_page(&self, layout: &PageLayout) -> Option<u64> {
        let names_page = (8..88).step_by(8).any(|at| word_in(&self.bytes, at) == Some(self.page));
        let has_no_slots = short_in(&self.bytes, layout.counts_at) == Some(0);
        (layout.sized && has_no_slots && names_page).then_some(self.page)
    }
}

/// Every layout that fits one block.
fn layouts_of(block: &DescribedBlock, size: u64, found: &mut Vec<PageLayout>) {
    found.clear();
    let (page, bytes) = (block.page, &block.bytes);
    for start_at in (8..=88).step_by(8) {
        let Some(start) = word_in(bytes, start_at) else { continue };
        // The address of the first slot decides at once; only few blocks pass.
        if start <= page || start - page >= HEADER || !start.is_multiple_of(8) {
            continue;
        }
        // Short numbers lie at any even offset, and the place differs by version.
        for counts_at in (0..80).step_by(2) {
            for sized in [true, false] {
                let layout = PageLayout { sized, page_bytes: size, counts_at, start_at };
                if block.page(&layout).is_some() {
                    found.push(layout);
                }
            }
        }
    }
}

/// What a descriptor says with a layout, if it makes sense.
fn page_of(bytes: &[u8], page: u64, descriptor: u64, layout: &PageLayout) -> Option<HeapPage> {
    let start = word_in(bytes, layout.start_at)?;
    let counts = layout.counts_at;
    let (slot, counts) = match layout.sized {
        true => (u64::from(short_in(bytes, counts)?), counts + 2),
        false => (CLASSIC_SLOT, counts),
    };
    let slots = u64::from(short_in(bytes, counts)?);
    // The number of slots is followed by that of free ones in every version.
    let free = u64::from(short_in(bytes, counts + 2)?);
    let sound = start > page
        && start - page < HEADER
        && start.is_multiple_of(8)
        && (24..=2048).contains(&slot)
        && slot.is_multiple_of(8)
        && slots > 0
        && free <= slots
        && fills(page, layout.page_bytes, start, slot, slots);
    sound.then(|| HeapPage {
        address: page,
        descriptor,
        slot_bytes: slot,
        slots,
        listed_free: free,
        first_slot: start,
        // The flags follow three or four short numbers.
        flags: half_in(bytes, layout.counts_at + if layout.sized { 12 } else { 8 }).unwrap_or(0),
    })
}

/// The heap page at an address, if there is one.
pub(super) fn read_page(memory: &dyn Memory, page: u64, layout: &PageLayout) -> Option<HeapPage> {
    let (address, bytes) = descriptor(memory, page, layout.page_bytes)?;
    page_of(&bytes, page, address, layout)
}

/// Learns the layout; `None` without a single candidate. With it, the blocks of its size.
pub(super) fn find_layout(memory: &dyn Memory) -> Option<(LayoutVote, Vec<DescribedBlock>)> {
    let mut best: Option<(LayoutVote, Vec<DescribedBlock>)> = None;
    for size in PAGE_SIZES {
        let described = DescribedBlock::all(memory, size);
        let Some(vote) = vote(&described, size) else { continue };
        // By bytes and not by votes: pages of 64 KiB that look like four of 16 KiB have four times as many.
        if best.as_ref().is_none_or(|(best, _)| vote.bytes() > best.bytes()) {
            best = Some((vote, described));
        }
        if vote.votes >= CLEAR && vote.votes == vote.candidates {
            break;
        }
    }
    debug!(vote = ?best.as_ref().map(|(vote, _)| vote), "layout of heap pages");
    best
}

fn vote(described: &[DescribedBlock], size: u64) -> Option<LayoutVote> {
    let mut votes: HashMap<PageLayout, u64> = HashMap::new();
    let mut candidates = 0;
    let mut fitting = Vec::new();
    for block in described {
        layouts_of(block, size, &mut fitting);
        candidates += u64::from(!fitting.is_empty());
        for layout in &fitting {
            *votes.entry(*layout).or_default() += 1;
        }
    }
    // Of equals, the layout with a slot size; the rest only makes the choice repeatable.
    let (layout, votes) = votes.into_iter().max_by_key(|(layout, votes)| (*votes, *layout))?;
    Some(LayoutVote { layout, votes, candidates })
}
