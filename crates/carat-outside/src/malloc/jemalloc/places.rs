//! Where the data of a jemalloc may be: zeroed data of loaded files, and memory of its own.

use crate::elf::zeroed_data;
use crate::memory::{Memory, PAGE};
use std::collections::BTreeSet;

/// Files that are examined.
const FILES: usize = 1000;

/// The data of a loaded file with zeroed data behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Window {
    /// Name of the file, without the folder.
    pub(super) file: String,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Bytes of the zeroed data.
    pub(super) zeroed: u64,
}

/// The data of every loaded file that has at least so many zeroed bytes: the root of a jemalloc's tree is among them.
pub(super) fn windows(memory: &dyn Memory, least: u64) -> Vec<Window> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let files = memory.regions().iter().filter(|region| {
        region.inode != 0 && region.offset == 0 && region.readable && seen.insert(region.start)
    });
    for region in files.take(FILES) {
        for (start, end, zeroed) in zeroed_data(memory, region.start) {
            if zeroed >= least {
                found.push(Window { file: region.file_name().to_owned(), start, end, zeroed });
            }
        }
    }
    found
}

/// The pages between two addresses that are in memory, by their addresses.
pub(super) fn present_pages(
    memory: &dyn Memory,
    start: u64,
    end: u64,
) -> impl Iterator<Item = u64> + '_ {
    let pages = (start / PAGE..end.div_ceil(PAGE)).map(|page| page * PAGE);
    pages.filter(|page| memory.entry(*page).present())
}

/// Whether an address can be one of jemalloc's own memory with so many bytes behind it in the same mapping.
pub(super) fn is_own_place(memory: &dyn Memory, address: u64, bytes: u64) -> bool {
    address.is_multiple_of(64)
        && memory.region(address).is_some_and(|region| {
            region.anonymous()
                && region.searched()
                && region.writable
                && bytes <= region.end - address
        })
}
