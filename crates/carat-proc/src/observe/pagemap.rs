//! `/proc/PID/pagemap`: for every page whether it is present, in swap, and mapped by one process only.
//!
//! Reading it requires the same privilege as `smaps`. The kernel releases the observed process's memory lock between
//! batches, so its median `mmap` is not delayed.

use crate::observe::directory::Directory;
use crate::process::ProcError;
use carat_model::Bytes;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::ops::Range;

/// The page is in memory (proc_pid_pagemap(5)).
const PRESENT: u64 = 1 << 63;
/// The page is in swap.
const SWAPPED: u64 = 1 << 62;
/// Only this process maps the page (Linux 4.2).
const EXCLUSIVE: u64 = 1 << 56;
/// Entries that are read at once.
const STEP: u64 = 8192;

/// The pages of a range of addresses, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pages {
    /// In memory.
    pub present: Bytes,
    /// In memory, and mapped by this process only.
    pub exclusive: Bytes,
    /// In swap.
    pub swapped: Bytes,
}

impl Pages {
    fn plus(self, other: Self) -> Self {
        Self {
            present: self.present + other.present,
            exclusive: self.exclusive + other.exclusive,
            swapped: self.swapped + other.swapped,
        }
    }
}

/// Counts the entries of `pagemap`, one for each page.
pub fn count_pages(entries: &[u64], page_size: u64) -> Pages {
    Pages {
        present: bytes_with(entries, PRESENT, page_size),
        exclusive: bytes_with(entries, PRESENT | EXCLUSIVE, page_size),
        swapped: bytes_with(entries, SWAPPED, page_size),
    }
}

fn bytes_with(entries: &[u64], bits: u64, page_size: u64) -> Bytes {
    let pages = entries.iter().filter(|&&entry| entry & bits == bits).count();
    Bytes(pages as u64 * page_size)
}

/// The open page map of one process.
#[derive(Debug)]
pub(super) struct Pagemap<'a> {
    directory: &'a Directory,
    file: OwnedFd,
    page_size: u64,
    bytes: Vec<u8>,
    entries: Vec<u64>,
}

impl<'a> Pagemap<'a> {
    /// Opens the page map of the program that the process currently runs.
    pub(super) fn open(directory: &'a Directory) -> Result<Self, ProcError> {
        let file = directory.open_file("pagemap")?;
        let page_size = rustix::param::page_size() as u64;
        Ok(Self { directory, file, page_size, bytes: Vec::new(), entries: Vec::new() })
    }

    /// Counts the pages of `range`. Pages that it covers in part count in full.
    pub(super) fn pages(&mut self, range: &Range<u64>) -> Result<Pages, ProcError> {
        let last = range.end.div_ceil(self.page_size);
        let mut first = range.start / self.page_size;
        let mut sum = Pages::default();
        // In steps, because a process can claim a range of any length.
        while first < last {
            let count = STEP.min(last - first);
            sum = sum.plus(self.counted(first, count)?);
            first += count;
        }
        Ok(sum)
    }

    fn counted(&mut self, first: u64, count: u64) -> Result<Pages, ProcError> {
        self.bytes.resize(count as usize * 8, 0);
        // The file ends with the address space; what lies above counts as absent.
        let read =
            self.fill(first * 8).map_err(|errno| self.directory.failure("pagemap", errno))?;
        self.entries.clear();
        self.entries.extend(self.bytes[..read].chunks_exact(8).map(|chunk| {
            // The kernel writes entries in its own byte order.
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
    fn memory_of_known_size_is_present_and_exclusive() {
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
