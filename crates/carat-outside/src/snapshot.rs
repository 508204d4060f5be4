//! A copy of a process's memory in ours: for readers that follow pointers.

use crate::bytes::{align_down, align_up};
use crate::live::LiveMemory;
use crate::memory::{Memory, MemoryRegion, PAGE, PAGE_LENGTH};
use std::cell::Cell;

/// Pages that are copied in one piece: 2 MiB.
const RUN_PAGES: u64 = 512;

/// The process has more memory than may be copied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{present} bytes of its memory would be copied, {limit} are allowed")]
pub struct SnapshotTooLarge {
    /// Bytes that are present.
    pub present: u64,
    /// Bytes that may be copied.
    pub limit: u64,
}

/// Pages that follow each other.
struct CopiedRun {
    start: u64,
    bytes: Vec<u8>,
}

impl CopiedRun {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }
}

/// A copy of the searched pages of a process. Other pages, such as those of program files, are read when needed.
pub struct Snapshot {
    live: LiveMemory,
    runs: Vec<CopiedRun>,
    last: Cell<usize>,
}

impl Snapshot {
    /// Copies every searched page that is present; refuses if they are more than `limit` bytes.
    pub fn take(live: LiveMemory, limit: u64) -> Result<Self, Box<(LiveMemory, SnapshotTooLarge)>> {
        let (present, _) = live.extent();
        if present > limit {
            return Err(Box::new((live, SnapshotTooLarge { present, limit })));
        }
        let mut runs = Vec::new();
        for region in live.regions() {
            for (first, count) in region.pages.runs(RUN_PAGES) {
                let start = region.start + first * PAGE;
                copy_run(&live, start, start + count * PAGE, &mut runs);
            }
        }
        Ok(Self { live, runs, last: Cell::new(0) })
    }

    /// The process that was copied.
    pub const fn live(&self) -> &LiveMemory {
        &self.live
    }

    /// Bytes of the copy.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes.len() as u64).sum()
    }

    fn run_of(&self, address: u64) -> Option<&CopiedRun> {
        let last = self.runs.get(self.last.get());
        if let Some(run) = last.filter(|run| run.start <= address && address < run.end()) {
            return Some(run);
        }
        let at = self.runs.partition_point(|run| run.end() <= address);
        let run = self.runs.get(at).filter(|run| run.start <= address)?;
        self.last.set(at);
        Some(run)
    }

    fn copied_page(&self, page: u64) -> Option<&[u8; PAGE_LENGTH]> {
        let run = self.run_of(page)?;
        let at = usize::try_from(page - run.start).ok()?;
        run.bytes.get(at..at + PAGE_LENGTH)?.try_into().ok()
    }
}

/// Copies one run; pages that vanish meanwhile are left out.
fn copy_run(live: &LiveMemory, start: u64, end: u64, runs: &mut Vec<CopiedRun>) {
    let mut bytes = vec![0; (end - start) as usize];
    if live.read(start, &mut bytes) {
        runs.push(CopiedRun { start, bytes });
        return;
    }
    let mut page = start;
    while page < end {
        let mut bytes = vec![0; PAGE_LENGTH];
        if live.read(page, &mut bytes) {
            runs.push(CopiedRun { start: page, bytes });
        }
        page += PAGE;
    }
}

impl Memory for Snapshot {
    fn regions(&self) -> &[MemoryRegion] {
        self.live.regions()
    }

    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let mut done = 0;
        while done < into.len() {
            let Some(at) = address.checked_add(done as u64) else { return false };
            let page = align_down(at, PAGE);
            let within = (at - page) as usize;
            let length = (PAGE_LENGTH - within).min(into.len() - done);
            let part = &mut into[done..done + length];
            match self.copied_page(page) {
                Some(bytes) => part.copy_from_slice(&bytes[within..within + length]),
                None if self.live.read(at, part) => {}
                None => return false,
            }
            done += length;
        }
        true
    }

    fn refresh(&mut self, start: u64, end: u64) {
        self.live.refresh(start, end);
        let (start, end) = (align_down(start, PAGE), align_up(end, PAGE));
        let mut page = start;
        while page < end {
            let mut bytes = vec![0; PAGE_LENGTH];
            // What is in no mapping is skipped as a whole.
            let Some(region) = self.live.region(page) else {
                let regions = self.live.regions();
                let next = regions.get(regions.partition_point(|region| region.end <= page));
                page = next.map_or(end, |region| region.start);
                continue;
            };
            if region.searched() && self.live.read(page, &mut bytes) {
                self.put(page, bytes);
            }
            page += PAGE;
        }
    }

    fn held_page(&self, address: u64) -> Option<&[u8; PAGE_LENGTH]> {
        self.copied_page(align_down(address, PAGE))
    }
}

impl Snapshot {
    /// Replaces a page of the copy, or adds it.
    fn put(&mut self, page: u64, bytes: Vec<u8>) {
        let at = self.runs.partition_point(|run| run.end() <= page);
        match self.runs.get_mut(at).filter(|run| run.start <= page) {
            Some(run) => {
                let place = (page - run.start) as usize;
                if let Some(old) = run.bytes.get_mut(place..place + PAGE_LENGTH) {
                    old.copy_from_slice(&bytes);
                }
            }
            None => self.runs.insert(at, CopiedRun { start: page, bytes }),
        }
        self.last.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::tests::own_memory;

    #[test]
    fn a_copy_stays_as_it_was_until_it_is_refreshed() {
        let mut block = vec![7_u8; 3 << 20];
        let address = block.as_ptr() as u64;
        let Ok(mut snapshot) = Snapshot::take(own_memory(), 8 << 30) else { panic!("too large") };
        assert!(snapshot.bytes() > 3 << 20);
        block[1 << 20] = 8;
        std::hint::black_box(&mut block);
        let place = address + (1 << 20);
        assert_eq!(snapshot.copy(place, 1), Some(vec![7]));
        snapshot.refresh(place, place + 1);
        assert_eq!(snapshot.copy(place, 1), Some(vec![8]));
        assert!(snapshot.held_page(place).is_some() && snapshot.held_page(16).is_none());
        assert!(snapshot.copy(16, 8).is_none());
    }

    #[test]
    fn a_copy_above_the_limit_is_refused() {
        let taken = Snapshot::take(own_memory(), 4096);
        assert_eq!(taken.err().map(|refused| refused.1.limit), Some(4096));
    }
}
