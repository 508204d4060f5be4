//! A copy of a process's memory: read once, in the order of addresses, and then asked millions of times.
//!
//! What is read of a running process in several passes does not agree; a copy does, as far as it was made in a moment.

use crate::bytes::{align_down, align_up};
use crate::hash::AddressMap;
use crate::memory::{Memory, MemoryRegion, PAGE, PAGE_LENGTH, ReadingStopped};
use crate::need::{MemoryNeed, NeedPart};
use rustix::mm::{Advice, madvise};
use std::cell::Cell;

/// Pages of one block of the index: 2 MiB.
const BLOCK_PAGES: u64 = 512;
const BLOCK: u64 = BLOCK_PAGES * PAGE;
/// No page.
const NONE: u32 = u32::MAX;
/// Blocks that are found without the table.
const RECENT: u64 = 64;

/// The memory of a process, of which every page that is searched is copied.
pub struct CopiedMemory<'a> {
    source: &'a mut dyn Memory,
    bytes: Vec<u8>,
    /// Those of `bytes` that pages were copied to.
    used: usize,
    /// The place of each page of a block in `bytes`, in pages.
    blocks: Vec<[u32; BLOCK_PAGES as usize]>,
    by_address: AddressMap<u32>,
    /// The block of each remainder that was asked for last: most words lie near others.
    recent: [Cell<(u64, u32)>; RECENT as usize],
}

impl<'a> CopiedMemory<'a> {
    /// What a copy takes of our own memory.
    pub fn need(process: u32, source: &dyn Memory) -> MemoryNeed {
        let pages: u64 = searched(source).map(|region| region.pages.present()).sum();
        // The index takes memory for each block, so single pages in reserved space cost the most.
        let mut blocks = 0;
        for region in searched(source) {
            let mut last = None;
            for (page, _) in region.pages.entries().filter(|(_, entry)| entry.present()) {
                let block = (region.start / PAGE + page) / BLOCK_PAGES;
                blocks += u64::from(last != Some(block));
                last = Some(block);
            }
        }
        let bytes = pages * PAGE + blocks * (BLOCK_PAGES * 4 + 32);
        MemoryNeed { process, part: NeedPart::Copy, bytes }
    }

    /// Copies every present page that is searched.
    pub fn of(source: &'a mut dyn Memory) -> Self {
        let pages: u64 = searched(source).map(|region| region.pages.present()).sum();
        let mut copy = Self {
            // At once, because growing would hold the copy twice for a moment. The kernel zeroes it, page by page as it is written.
            bytes: vec![0; (pages * PAGE) as usize],
            used: 0,
            source,
            blocks: Vec::new(),
            by_address: AddressMap::default(),
            recent: [const { Cell::new((u64::MAX, NONE)) }; RECENT as usize],
        };
        ask_for_large_pages(&mut copy.bytes);
        let runs: Vec<(u64, u64)> = searched(copy.source).flat_map(runs_of).collect();
        for (start, end) in runs {
            copy.copy_range(start, end);
        }
        copy
    }

    /// Copies a range of whole pages; those that cannot be read stay absent.
    fn copy_range(&mut self, start: u64, end: u64) {
        const AT_ONCE: u64 = 1 << 20;
        let mut at = start;
        while at < end {
            let length = AT_ONCE.min(end - at);
            let (from, to) = (self.used, self.used + length as usize);
            if self.bytes.get_mut(from..to).is_some_and(|into| self.source.read(at, into)) {
                self.used = to;
                for page in 0..length / PAGE {
                    self.set(at + page * PAGE, (from as u64 / PAGE + page) as u32);
                }
            } else {
                // One page of the piece is gone: the others are read one by one.
                for page in (at..at + length).step_by(PAGE_LENGTH) {
                    self.copy_page(page);
                }
            }
            at += length;
        }
    }

    /// Copies one page to its place, or to a new one.
    fn copy_page(&mut self, page: u64) {
        let place = match self.place(page) {
            NONE => {
                let place = self.used / PAGE_LENGTH;
                self.used += PAGE_LENGTH;
                // A page that is new since the copy was begun.
                self.bytes.resize(self.bytes.len().max(self.used), 0);
                place
            }
            place => place as usize,
        };
        let into = &mut self.bytes[place * PAGE_LENGTH..(place + 1) * PAGE_LENGTH];
        let is_read = self.source.read(page, into);
        self.set(page, if is_read { place as u32 } else { NONE });
    }

    fn set(&mut self, page: u64, place: u32) {
        let number = *self.by_address.entry(page / BLOCK).or_insert_with(|| {
            self.blocks.push([NONE; BLOCK_PAGES as usize]);
            self.blocks.len() as u32 - 1
        });
        self.blocks[number as usize][(page / PAGE % BLOCK_PAGES) as usize] = place;
        // The block may have had no number before.
        self.recent_of(page / BLOCK).set((u64::MAX, NONE));
    }

    const fn recent_of(&self, block: u64) -> &Cell<(u64, u32)> {
        &self.recent[(block % RECENT) as usize]
    }

    /// The place of the page of an address.
    fn place(&self, address: u64) -> u32 {
        let block = address / BLOCK;
        let recent = self.recent_of(block);
        let (last, mut number) = recent.get();
        if last != block {
            number = self.by_address.get(&block).copied().unwrap_or(NONE);
            recent.set((block, number));
        }
        let places = self.blocks.get(number as usize);
        places.map_or(NONE, |places| places[(address / PAGE % BLOCK_PAGES) as usize])
    }

    fn read_within_page(&self, address: u64, into: &mut [u8]) -> bool {
        let place = self.place(address);
        if place == NONE {
            // A library's code, or a page that was written since.
            let is_copied = self.source.region(address).is_some_and(MemoryRegion::searched);
            return !is_copied && self.source.read(address, into);
        }
        let start = place as usize * PAGE_LENGTH + (address % PAGE) as usize;
        let Some(found) = self.bytes.get(start..start + into.len()) else { return false };
        into.copy_from_slice(found);
        true
    }
}

/// Asks the kernel for large pages: words all over the copy are asked for, and most of them would miss the table of addresses
/// that the processor keeps. Where there are none, nothing changes.
fn ask_for_large_pages(bytes: &mut [u8]) {
    let start = bytes.as_mut_ptr();
    let skipped = start.align_offset(PAGE_LENGTH).min(bytes.len());
    let length = (bytes.len() - skipped) / PAGE_LENGTH * PAGE_LENGTH;
    // SAFETY: the range lies within `bytes`, and this advice changes no contents (madvise(2)).
    let _ = unsafe { madvise(start.add(skipped).cast(), length, Advice::LinuxHugepage) };
}

fn searched(memory: &dyn Memory) -> impl Iterator<Item = &MemoryRegion> {
    memory.regions().iter().filter(|region| region.searched())
}

fn runs_of(region: &MemoryRegion) -> Vec<(u64, u64)> {
    let runs = region.pages.runs(u64::MAX).into_iter();
    let runs = runs.map(|(first, count)| {
        let start = region.start.saturating_add(first.saturating_mul(PAGE));
        (start, start.saturating_add(count.saturating_mul(PAGE)).min(region.end))
    });
    runs.collect()
}

impl Memory for CopiedMemory<'_> {
    fn regions(&self) -> &[MemoryRegion] {
        self.source.regions()
    }

    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let mut at = address;
        let mut rest = into;
        while !rest.is_empty() {
            let length = ((PAGE - at % PAGE) as usize).min(rest.len());
            let (part, tail) = std::mem::take(&mut rest).split_at_mut(length);
            if !self.read_within_page(at, part) {
                return false;
            }
            rest = tail;
            match at.checked_add(length as u64) {
                Some(next) => at = next,
                None => return rest.is_empty(),
            }
        }
        true
    }

    fn word(&self, address: u64) -> Option<u64> {
        if !address.is_multiple_of(8) {
            return None;
        }
        let place = self.place(address);
        if place == NONE {
            let mut bytes = [0; 8];
            return self.read_within_page(address, &mut bytes).then_some(u64::from_le_bytes(bytes));
        }
        // A word does not cross pages, so the general reader would only cost time: this is asked for every word.
        let start = place as usize * PAGE_LENGTH + (address % PAGE) as usize;
        let bytes = self.bytes.get(start..start + 8)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    fn piece(&self, address: u64, length: u64) -> Option<&[u8]> {
        let last = address.checked_add(length.checked_sub(1)?)?;
        let place = self.place(address);
        // Pages that follow each other mostly do so in the copy too, but not those that were copied anew.
        let pages = last / PAGE - address / PAGE;
        let follows = (1..=pages).all(|page| {
            let expected = u64::from(place) + page;
            u64::from(self.place((address / PAGE + page) * PAGE)) == expected
        });
        if place == NONE || !follows {
            return None;
        }
        let start = place as usize * PAGE_LENGTH + (address % PAGE) as usize;
        self.bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)
    }

    fn refresh(&mut self, start: u64, end: u64) {
        self.source.refresh(start, end);
        let (start, end) = (align_down(start, PAGE), align_up(end, PAGE));
        let mut page = start;
        while page < end {
            if self.source.region(page).is_some_and(MemoryRegion::searched) {
                match self.source.entry(page).present() {
                    true => self.copy_page(page),
                    false => self.set(page, NONE),
                }
            }
            page += PAGE;
        }
    }

    fn now(&self, address: u64) -> Option<u64> {
        self.source.now(address)
    }

    fn signal_stack(&self) -> Option<u64> {
        self.source.signal_stack()
    }

    fn stopped(&self) -> Option<ReadingStopped> {
        self.source.stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;

    #[test]
    fn a_copy_has_the_bytes_of_the_moment_and_takes_a_range_anew_after_a_refresh() {
        let mut memory = FakeMemory::default();
        memory.map_anonymous(0x1f_f000, 0x30_0000);
        memory.write(0x1f_fff0, &[7; 0x30]);
        memory.write_word(0x2a_0000, 5);
        let mut live = memory.clone();
        let need = CopiedMemory::need(1, &live).bytes;
        let mut copy = CopiedMemory::of(&mut live);
        assert_eq!(copy.copy(0x1f_fff8, 0x20), Some(vec![7; 0x20]));
        assert_eq!((copy.word(0x2a_0000), copy.word(0x2a_0004)), (Some(5), None));
        assert_eq!((copy.word(0x25_0000), copy.word(u64::MAX - 7)), (None, None));
        // The second page of the range lies in another block, and behind the first one in the copy.
        assert_eq!(copy.piece(0x1f_fff8, 0x20), Some(&[7; 0x20][..]));
        assert_eq!((copy.piece(0x2a_0ff8, 16), copy.piece(0x25_0000, 8)), (None, None));
        let taken = copy.bytes.len() + copy.blocks.len() * 2048;
        assert!(taken as u64 <= need, "{taken} {need}");
        copy.refresh(0x2a_0000, 0x2a_0001);
        assert_eq!(copy.word(0x2a_0000), Some(5));
    }

    /// Memory that changes with every reading.
    struct Changing(FakeMemory, Cell<u64>);

    impl Memory for Changing {
        fn regions(&self) -> &[MemoryRegion] {
            self.0.regions()
        }

        fn read(&self, address: u64, into: &mut [u8]) -> bool {
            let present = self.0.read(address, into);
            self.1.set(self.1.get() + 1);
            into.fill(self.1.get() as u8);
            present
        }

        fn refresh(&mut self, _start: u64, _end: u64) {}
    }

    #[test]
    fn what_was_copied_does_not_change_until_it_is_refreshed() {
        let mut memory = FakeMemory::default();
        memory.map_anonymous(0x1000, 0x9000);
        memory.write(0x1000, &[1; 0x3000]);
        let mut changing = Changing(memory, Cell::new(0));
        let mut copy = CopiedMemory::of(&mut changing);
        let first = copy.word(0x1000);
        assert_eq!((copy.word(0x1000), copy.word(0x3000)), (first, first));
        assert_ne!(copy.now(0x1000), first);
        copy.refresh(0x2000, 0x2001);
        assert_ne!(copy.word(0x2000), first);
        assert_eq!((copy.word(0x1000), copy.word(0x3000)), (first, first));
    }
}
