//! How much memory of our own a reading takes, and who may refuse it.
//!
//! Carat often runs in the container of the server, whose limit both share: what Carat takes may get the server killed. So
//! each large part of our memory is announced before it is taken, as an upper bound.

use crate::counts::KernelCounts;
use crate::memory::PAGE;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Bytes of the program itself, and for names of classes and threads.
const PROGRAM: u64 = 8 << 20;
/// Bytes of the cache of pages, one for each process that is read at the same time.
const CACHE: u64 = 8 << 20;
/// Bytes for each page of the process: its entry, and how many bytes of it malloc has in use.
const PER_PAGE: u64 = 8 + 2;
/// Bytes for each 16 KiB, the smallest page of Ruby's heap: what its descriptor says, and how full it is.
const PER_HEAP_PAGE: u64 = 400;

/// Memory of our own that is about to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryNeed {
    /// The process that is read.
    pub process: u32,
    /// What takes it.
    pub part: NeedPart,
    /// Bytes, at most.
    pub bytes: u64,
}

/// What takes memory of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedPart {
    /// The page map, the heap and the counts: every reading.
    Census,
    /// The table of malloc's chunks, and the search for who holds them.
    Chunks,
    /// A copy of the process's memory.
    Copy,
    /// The objects and references of a heap dump.
    Dump,
    /// Every reference of the process, and what is found out from them.
    Graph,
}

/// Whether a need may be met; the reason for which not, with its figures and what helps, is a sentence without a capital
/// and a full stop.
#[derive(Clone)]
pub struct MemoryGate(Arc<dyn Fn(MemoryNeed) -> Result<(), String> + Send + Sync>);

impl MemoryGate {
    /// A gate that asks this function before each need.
    pub fn new(ask: impl Fn(MemoryNeed) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// Asks.
    ///
    /// # Errors
    /// The reason for which the memory may not be taken.
    pub fn ask(&self, need: MemoryNeed) -> Result<(), String> {
        (self.0)(need)
    }
}

impl Default for MemoryGate {
    /// Allows everything.
    fn default() -> Self {
        Self::new(|_| Ok(()))
    }
}

impl fmt::Debug for MemoryGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryGate")
    }
}

/// What a reading of these processes at the same time takes without the table of chunks; it is for the last of them.
pub(crate) fn census_need(proc: &Path, processes: &[u32]) -> MemoryNeed {
    let each = processes.iter().map(|process| process_need(&proc.join(process.to_string())));
    let bytes = each.fold(PROGRAM, u64::saturating_add);
    let process = processes.last().copied().unwrap_or_default();
    MemoryNeed { process, part: NeedPart::Census, bytes }
}

fn process_need(folder: &Path) -> u64 {
    let counts = KernelCounts::read(folder);
    let resident = counts.resident.unwrap_or(0);
    // Where pages are scattered, the entries between two of them are kept too, as the kernel does in its page tables.
    let scattered =
        counts.page_tables.unwrap_or(0).min(counts.most_pages().saturating_mul(PAGE / 2));
    let entries = (resident / PAGE * PER_PAGE).max(scattered);
    let heap = resident / (16 << 10) * PER_HEAP_PAGE;
    CACHE.saturating_add(entries).saturating_add(heap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reading_takes_grows_with_the_process_and_is_a_fraction_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("7");
        std::fs::create_dir(&process).unwrap();
        let mut before = 0;
        for mebibytes in [10, 1000, 100_000_u64] {
            let text = format!("VmRSS:\t{} kB\nVmPTE:\t8 kB\n", mebibytes << 10);
            std::fs::write(process.join("status"), text).unwrap();
            let need = census_need(folder.path(), &[7]);
            assert_eq!((need.process, need.part), (7, NeedPart::Census));
            assert!(need.bytes > before, "{need:?}");
            assert!(need.bytes < PROGRAM + CACHE + (mebibytes << 20) / 20, "{need:?}");
            before = need.bytes;
            let two = census_need(folder.path(), &[7, 7]);
            assert_eq!(two.bytes, need.bytes * 2 - PROGRAM);
        }
    }
}
