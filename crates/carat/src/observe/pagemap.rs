//! `/proc/PID/pagemap`: for every page whether it is there, in swap, and ours alone.
//!
//! Needs no privilege beyond that of `smaps`, and lets go of the observed process's memory lock between
//! batches, so that its median `mmap` is not delayed.

use crate::core::Bytes;
use crate::observe::directory::Directory;
use crate::process::ProcError;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::ops::Range;

/// Bit of a page that is in memory (proc_pid_pagemap(5)).
const PRESENT: u64 = 1 << 63;
/// Bit of a page that is in swap.
const SWAPPED: u64 = 1 << 62;
/// Bit of a page that only this process maps (Linux 4.2).
const EXCLUSIVE: u64 = 1 << 56;

/// What some range of addresses holds, in bytes of whole pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pages {
    /// In memory.
    pub present: Bytes,
    /// In memory, and mapped by this process alone.
    pub exclusive: Bytes,
    /// In swap.
    pub swapped: Bytes,
}

/// Counts the entries of `pagemap`, of which each stands for one page.
pub fn count_pages(entries: &[u64], page_size: u64) -> Pages {
    let bytes = |mask: u64| {
        let pages = entries.iter().filter(|&&entry| entry & mask == mask).count();
        Bytes(pages as u64 * page_size)
    };
    Pages {
        present: bytes(PRESENT),
        exclusive: bytes(PRESENT | EXCLUSIVE),
        swapped: bytes(SWAPPED),
    }
}

/// The open page map of one process.
#[derive(Debug)]
pub(crate) struct Pagemap<'a> {
    directory: &'a Directory,
    file: OwnedFd,
    page_size: u64,
    bytes: Vec<u8>,
    entries: Vec<u64>,
}

impl<'a> Pagemap<'a> {
    /// Opens the page map of the program that the process runs now.
    pub(crate) fn open(directory: &'a Directory) -> Result<Self, ProcError> {
        let file = directory.open_file("pagemap")?;
        let page_size = rustix::param::page_size() as u64;
        Ok(Self { directory, file, page_size, bytes: Vec::new(), entries: Vec::new() })
    }

    /// What the pages of `range` hold; pages that it touches in part count whole.
    pub(crate) fn pages(&mut self, range: &Range<u64>) -> Result<Pages, ProcError> {
        let first = range.start / self.page_size;
        let pages = range.end.div_ceil(self.page_size).saturating_sub(first);
        self.bytes.resize(usize::try_from(pages * 8).unwrap_or(0), 0);
        let read =
            self.fill(first * 8).map_err(|errno| self.directory.failure("pagemap", errno))?;
        self.entries.clear();
        self.entries.extend(self.bytes[..read].chunks_exact(8).map(|chunk| {
            let mut entry = [0; 8];
            entry.copy_from_slice(chunk);
            u64::from_ne_bytes(entry)
        }));
        Ok(count_pages(&self.entries, self.page_size))
    }

    fn fill(&mut self, offset: u64) -> Result<usize, Errno> {
        let mut length = 0;
        while length < self.bytes.len() {
            match rustix::io::pread(&self.file, &mut self.bytes[length..], offset + length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ProcRoot;

    #[test]
    fn only_present_pages_are_exclusive() {
        let entries = [PRESENT | EXCLUSIVE | 1 << 61, PRESENT, SWAPPED, EXCLUSIVE, 0];
        let pages = count_pages(&entries, 4096);
        assert_eq!(pages.present, Bytes(2 * 4096));
        assert_eq!(pages.exclusive, Bytes(4096));
        assert_eq!(pages.swapped, Bytes(4096));
    }

    #[test]
    fn memory_of_a_known_size_is_found_present_and_ours_alone() {
        const SIZE: usize = 8 << 20;
        let block = vec![1_u8; SIZE];
        let start = block.as_ptr() as u64;
        let root = ProcRoot::default();
        let me = root.identify(std::process::id()).unwrap();
        let directory = Directory::open(&root, me).unwrap();
        let pages =
            Pagemap::open(&directory).unwrap().pages(&(start..start + SIZE as u64)).unwrap();
        assert!(pages.present.0 >= SIZE as u64 && pages.present.0 <= SIZE as u64 + 8192);
        assert_eq!(pages.exclusive, pages.present);
        assert_eq!(block[SIZE - 1], 1);
    }
}
