//! Which of the pages that the page map calls present a process really has.
//!
//! Wherever memory was read and never written, also from outside, as by a debugger that saves a core, the kernel's zero page is present.
//! It costs nothing and has nothing to find, and it looks like a page that other processes map too.

use crate::bytes::word_in;
use crate::counts::{KernelCounts, bytes_of};
use crate::hash::AddressMap;
use crate::memory::{MemoryRegion, PAGE, PageEntry, PageTable};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Bytes of `smaps` at most: some 700 for each of 65,530 mappings.
const SMAPS_LIMIT: u64 = 64 << 20;
/// Pages that a mapping may get between two readings of it.
const GROWTH: u64 = 256;

/// Which pages of a region are taken over from the page map.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PagesRead {
    /// All, if no more than these may be the zero page.
    All { most: u64 },
    /// Only those that are surely not the zero page, which is not exclusive and belongs to no file.
    Certain,
}

impl PagesRead {
    /// Most pages that may be the zero page.
    pub(crate) const fn most(self) -> u64 {
        match self {
            Self::All { most } => most,
            Self::Certain => u64::MAX,
        }
    }
}

const fn is_doubtful(entry: PageEntry) -> bool {
    entry.present() && !entry.exclusive() && !entry.of_file()
}

/// Takes over the entries from `page` on, in the form of `pagemap`. Only the states and the frame are of use. Returns how many of
/// these pages may be the zero page.
pub(crate) fn set_entries(
    table: &mut PageTable,
    page: u64,
    entries: &[u8],
    pages: PagesRead,
) -> u64 {
    // Most of a huge mapping is empty.
    if entries.iter().all(|byte| *byte == 0) && table.is_empty_from(page, entries.len() as u64 / 8)
    {
        return 0;
    }
    let mut doubtful = 0;
    for (number, entry) in (page..).zip(entries.chunks_exact(8)) {
        let entry = word_in(entry, 0).filter(|entry| entry >> 62 != 0).map(PageEntry);
        let entry = entry.unwrap_or_default();
        doubtful += u64::from(is_doubtful(entry));
        let is_kept = matches!(pages, PagesRead::All { .. }) || !is_doubtful(entry);
        table.set(number, if is_kept { entry } else { PageEntry::default() });
    }
    doubtful
}

/// What the kernel counts of a process, beside which more pages are the zero page.
#[derive(Debug)]
pub(crate) struct RealPages {
    folder: PathBuf,
    counts: KernelCounts,
    /// Most pages that the process can have.
    most: u64,
    /// Pages that may be the zero page and were taken over.
    doubtful: u64,
    /// Anonymous pages of each mapping by its address, once they were asked for.
    anonymous: Option<AddressMap<u64>>,
    /// Bytes at most that the process has and that nobody tells from the zero page.
    pub(crate) indistinct: u64,
}

impl RealPages {
    /// Those of the process with this folder.
    pub(crate) fn of(folder: &Path) -> Self {
        let counts = KernelCounts::read(folder);
        Self {
            folder: folder.to_owned(),
            counts,
            most: counts.most_pages(),
            doubtful: 0,
            anonymous: None,
            indistinct: 0,
        }
    }

    /// How many pages more may be the zero page.
    pub(crate) const fn room(&self) -> u64 {
        self.most.saturating_sub(self.doubtful)
    }

    /// So many were taken over.
    pub(crate) const fn take(&mut self, doubtful: u64) {
        self.doubtful += doubtful;
    }

    /// Whether the pages of a region without those that may be the zero page are all that will be searched, because the process has no
    /// others there, or because they cannot be told from too many.
    pub(crate) fn are_certain(&mut self, region: &MemoryRegion, doubtful: u64) -> bool {
        let certain = region.pages.entries();
        let certain = certain.filter(|(_, entry)| entry.present() && !entry.of_file()).count();
        let counted = self.anonymous_of(region);
        let missing = counted.map_or(doubtful, |pages| pages.saturating_sub(certain as u64));
        if missing > 0 && doubtful <= self.most {
            return false;
        }
        self.indistinct += if missing > GROWTH { missing.min(self.most) * PAGE } else { 0 };
        true
    }

    fn anonymous_of(&mut self, region: &MemoryRegion) -> Option<u64> {
        // Walking all pages takes the process's lock for longer than anything else that is read, so only where it is needed.
        let (folder, is_walked) = (&self.folder, self.counts.is_walked_in_time());
        let anonymous = self.anonymous.get_or_insert_with(|| {
            let file = is_walked.then(|| File::open(folder.join("smaps")).ok()).flatten();
            file.map(|file| anonymous_pages(file.take(SMAPS_LIMIT))).unwrap_or_default()
        });
        anonymous.get(&region.start).copied()
    }
}

/// The anonymous pages of each mapping by its address, as `smaps` counts them: without the zero page (`smaps_pte_entry`,
/// fs/proc/task_mmu.c).
fn anonymous_pages(smaps: impl Read) -> AddressMap<u64> {
    let mut found = AddressMap::default();
    let mut at = None;
    for line in BufReader::new(smaps).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if let Some(bytes) = bytes_of(&line, "Anonymous:") {
            found.extend(at.map(|at| (at, bytes / PAGE)));
        } else if let Some((start, _)) = line.split(' ').next().and_then(|all| all.split_once('-'))
        {
            at = u64::from_str_radix(start, 16).ok();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO_PAGE: u64 = 1 << 63;
    const OF_FILE: u64 = 1 << 63 | 1 << 61;

    /// A region of which the page map has these entries, without those that may be the zero page, and how many these are.
    fn certain(entries: &[u64]) -> (MemoryRegion, u64) {
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
        let mut region = MemoryRegion { start: 0x7000, end: 0x1_0000, ..MemoryRegion::default() };
        let doubtful = set_entries(&mut region.pages, 0, &bytes, PagesRead::Certain);
        (region, doubtful)
    }

    /// What is known of a process that can have so many pages, and has so many anonymous ones in the region.
    fn real(most: u64, anonymous: Option<u64>) -> (tempfile::TempDir, RealPages) {
        let folder = tempfile::tempdir().unwrap();
        if let Some(pages) = anonymous {
            let text = format!(
                "7000-10000 rw-p 00000000 00:00 0 [heap]\nSize: 36 kB\nRss:\t9 kB\nAnonymous:    {} kB\nVmFlags: rd wr\n",
                pages * 4
            );
            std::fs::write(folder.path().join("smaps"), text).unwrap();
        }
        let real = RealPages { most, ..RealPages::of(folder.path()) };
        (folder, real)
    }

    #[test]
    fn where_the_process_has_no_more_pages_than_those_that_are_its_own_the_others_are_the_zero_page()
     {
        let (region, doubtful) = certain(&[PageEntry::PRIVATE.0, ZERO_PAGE, OF_FILE, 0, ZERO_PAGE]);
        assert_eq!((region.pages.present(), doubtful), (2, 2));
        let (_folder, mut real) = real(100, Some(1));
        assert!(real.are_certain(&region, doubtful));
        assert_eq!(real.indistinct, 0);
    }

    #[test]
    fn where_it_has_more_all_are_searched_unless_they_are_too_many() {
        let entries = [&[PageEntry::PRIVATE.0][..], &[ZERO_PAGE; 700]].concat();
        let (region, doubtful) = certain(&entries);
        // What is not counted may be all of them; a few may have been added meanwhile.
        for (anonymous, missing) in [(Some(600), 599), (Some(257), 0), (None, 699)] {
            for (most, indistinct) in [(700, None), (699, Some(missing))] {
                let (_folder, mut real) = real(most, anonymous);
                assert_eq!(real.are_certain(&region, doubtful), indistinct.is_some());
                assert_eq!(real.indistinct, indistinct.unwrap_or(0) * PAGE);
            }
        }
    }

    #[test]
    fn no_page_is_left_for_the_zero_page_once_as_many_as_the_process_can_have_were_taken() {
        let (_folder, mut real) = real(10, None);
        real.take(4);
        assert_eq!(real.room(), 6);
        real.take(40);
        assert_eq!(real.room(), 0);
    }
}
