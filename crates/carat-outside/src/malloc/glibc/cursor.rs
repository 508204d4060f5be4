//! Words of a process's memory, read in ascending order.

use crate::bytes::{align_down, word_in};
use crate::memory::{Memory, PAGE, PAGE_LENGTH};

/// Reads words and keeps the page of the last one, because a walk stays on a page for many chunks.
pub(crate) struct PageCursor<'m> {
    memory: &'m dyn Memory,
    bytes: Box<[u8; PAGE_LENGTH]>,
    /// Address of the page that was read last, and whether it could be.
    page: Option<(u64, bool)>,
}

impl<'m> PageCursor<'m> {
    pub(crate) fn new(memory: &'m dyn Memory) -> Self {
        Self { memory, bytes: Box::new([0; PAGE_LENGTH]), page: None }
    }

    /// The word at an address that is a multiple of eight; `None` on a page that is not present.
    pub(crate) fn word(&mut self, address: u64) -> Option<u64> {
        if !address.is_multiple_of(8) {
            return None;
        }
        let page = align_down(address, PAGE);
        if self.page.is_none_or(|(held, _)| held != page) {
            let read = self.memory.read(page, &mut self.bytes[..]);
            self.page = Some((page, read));
        }
        let (_, read) = self.page?;
        if read { word_in(&self.bytes[..], (address - page) as usize) } else { None }
    }
}
