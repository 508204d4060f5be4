//! Pages of a process that are kept for a while: a search asks for words on the same page again and again.

use crate::memory::{PAGE, PAGE_LENGTH};
use std::ops::Range;

/// Pages that are kept: 8 MiB.
pub(crate) const CACHE_PAGES: u64 = 2048;

/// Pages that were read; each address has one place.
pub(crate) struct PageCache {
    addresses: Vec<u64>,
    bytes: Vec<u8>,
    /// The page behind those that were read last, and how many those were.
    pub(crate) next: (u64, usize),
}

impl PageCache {
    pub(crate) fn empty() -> Self {
        Self {
            addresses: vec![u64::MAX; CACHE_PAGES as usize],
            bytes: vec![0; CACHE_PAGES as usize * PAGE_LENGTH],
            next: (u64::MAX, 1),
        }
    }

    /// The place of a page.
    pub(crate) const fn place(page: u64) -> usize {
        (page / PAGE % CACHE_PAGES) as usize
    }

    /// The bytes of a page, if they are here.
    pub(crate) fn held(&self, page: u64) -> Option<&[u8]> {
        let place = Self::place(page);
        (self.addresses[place] == page)
            .then(|| &self.bytes[place * PAGE_LENGTH..(place + 1) * PAGE_LENGTH])
    }

    /// Fills the places of so many pages from this one on. `read` returns false if it cannot.
    pub(crate) fn fill(
        &mut self,
        page: u64,
        count: usize,
        read: impl FnOnce(&mut [u8]) -> bool,
    ) -> bool {
        let place = Self::place(page);
        let places = place..place + count;
        // First, because after a read that fails no place may claim a page that it does not hold.
        self.addresses[places.clone()].fill(u64::MAX);
        if !read(&mut self.bytes[place * PAGE_LENGTH..(place + count) * PAGE_LENGTH]) {
            return false;
        }
        for (address, number) in self.addresses[places].iter_mut().zip(0..) {
            *address = page + number * PAGE;
        }
        self.next = (page.saturating_add(count as u64 * PAGE), count);
        true
    }

    /// Forgets the pages that begin in a range.
    pub(crate) fn forget(&mut self, range: Range<u64>) {
        for address in self.addresses.iter_mut().filter(|address| range.contains(*address)) {
            *address = u64::MAX;
        }
    }
}
