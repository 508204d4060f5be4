//! Memory that is made up, for tests and fuzz targets.

use crate::bytes::align_down;
use crate::memory::{Memory, MemoryRegion, PAGE, PAGE_LENGTH, PageEntry};
use std::collections::BTreeMap;

/// Mappings and pages of a process that does not exist.
#[derive(Debug, Clone, Default)]
pub struct FakeMemory {
    regions: Vec<MemoryRegion>,
    pages: BTreeMap<u64, Box<[u8; PAGE_LENGTH]>>,
    later: BTreeMap<u64, u64>,
    /// What [`Memory::signal_stack`] says.
    pub signal_stack: Option<u64>,
}

impl FakeMemory {
    /// Adds a mapping whose pages are not present yet. Mappings that overlap are not added.
    pub fn map(&mut self, region: MemoryRegion) {
        let apart =
            self.regions.iter().all(|one| one.end <= region.start || region.end <= one.start);
        if apart && region.start < region.end {
            self.regions.push(region);
            self.regions.sort_by_key(|region| region.start);
        }
    }

    /// Adds an anonymous mapping that can be read and written.
    pub fn map_anonymous(&mut self, start: u64, end: u64) {
        self.map(MemoryRegion {
            start,
            end,
            readable: true,
            writable: true,
            private: true,
            ..MemoryRegion::default()
        });
    }

    /// Adds the writable data of a library's file.
    pub fn map_library(&mut self, start: u64, end: u64, path: &str) {
        self.map(MemoryRegion {
            start,
            end,
            readable: true,
            writable: true,
            private: true,
            inode: 7,
            path: path.to_owned(),
            ..MemoryRegion::default()
        });
    }

    /// Writes bytes; pages become present. Bytes outside every mapping are dropped.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let Some(at) = address.checked_add(done as u64) else { return };
            let page = align_down(at, PAGE);
            let within = (at - page) as usize;
            let length = (PAGE_LENGTH - within).min(bytes.len() - done);
            let part = &bytes[done..done + length];
            done += length;
            let Some(region) = self.regions.iter_mut().find(|region| region.contains(at)) else {
                continue;
            };
            region.pages.set((page - region.start) / PAGE, PageEntry::PRIVATE);
            let kept = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE_LENGTH]));
            kept[within..within + length].copy_from_slice(part);
        }
    }

    /// Writes a word.
    pub fn write_word(&mut self, address: u64, word: u64) {
        self.write(address, &word.to_le_bytes());
    }

    /// Writes a word that only [`Memory::now`] finds: the process writes it while it is read.
    pub fn write_later(&mut self, address: u64, word: u64) {
        self.later.insert(address, word);
    }

    /// Makes a page absent.
    pub fn forget(&mut self, page: u64) {
        self.lose(page, PageEntry(0));
    }

    /// Moves a page to swap.
    pub fn swap_out(&mut self, page: u64) {
        self.lose(page, PageEntry(1 << 62));
    }

    fn lose(&mut self, page: u64, entry: PageEntry) {
        self.pages.remove(&page);
        if let Some(region) = self.regions.iter_mut().find(|region| region.contains(page)) {
            region.pages.set((page - region.start) / PAGE, entry);
        }
    }
}

impl Memory for FakeMemory {
    fn regions(&self) -> &[MemoryRegion] {
        &self.regions
    }

    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let mut done = 0;
        while done < into.len() {
            let Some(at) = address.checked_add(done as u64) else { return false };
            let page = align_down(at, PAGE);
            let Some(bytes) = self.pages.get(&page) else { return false };
            let within = (at - page) as usize;
            let length = (PAGE_LENGTH - within).min(into.len() - done);
            into[done..done + length].copy_from_slice(&bytes[within..within + length]);
            done += length;
        }
        true
    }

    fn now(&self, address: u64) -> Option<u64> {
        self.later.get(&address).copied().or_else(|| self.word(address))
    }

    fn signal_stack(&self) -> Option<u64> {
        self.signal_stack
    }

    fn refresh(&mut self, _start: u64, _end: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_the_rest_is_absent() {
        let mut memory = FakeMemory::default();
        memory.map_anonymous(0x10000, 0x20000);
        memory.map_anonymous(0x18000, 0x30000);
        assert_eq!(memory.regions().len(), 1);
        memory.write_word(0x10ffc, 0x0102_0304_0506_0708);
        assert_eq!(memory.copy(0x10ffc, 8), Some(0x0102_0304_0506_0708_u64.to_le_bytes().to_vec()));
        assert_eq!(memory.word(0x12000), None);
        assert!(memory.present(0x10000, 0x2000) && !memory.present(0x10000, 0x2001));
        memory.forget(0x11000);
        assert!(memory.copy(0x10ffc, 8).is_none());
    }
}
