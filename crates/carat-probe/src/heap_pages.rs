//! Where Ruby's heap pages are: a walk over all of them, joined into ranges.

use crate::{constants, own_page};
use carat_ruby::RubyApi;
use carat_ruby::clock::now_ns;
use carat_wire::page::{FRONT_BYTES, Feature, FeatureState, Gc, Page, UNKNOWN};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most pages that one list can hold: 4 GB of heap in pages of 16 KiB. The memory is only reserved, outside `malloc`,
/// and unmapped right after.
const MAX_PAGES: usize = 262_144;
/// Bytes of the ranges' table before its rows, and of one row.
const TABLE_HEAD: usize = 64;
const ROW: usize = 16;

struct PageList {
    starts: *mut u64,
    count: usize,
    page_bytes: u64,
}

/// `GC.stat[:heap_allocated_pages]` when the heap pages were last listed.
static LISTED_AT: AtomicU64 = AtomicU64::new(UNKNOWN);

/// Records how many pages Ruby had when they were listed.
pub(crate) fn set_listed(pages: Option<u64>) {
    LISTED_AT.store(pages.unwrap_or(UNKNOWN), Ordering::Relaxed);
}

/// Whether Ruby has another number of heap pages now than when they were listed.
pub(crate) fn list_is_stale(page: &Page) -> bool {
    page.gc.get(Gc::HeapPages).is_some_and(|now| now != LISTED_AT.load(Ordering::Relaxed))
}

/// Lists the heap pages; must be called with Ruby's lock held, outside a collection. Some versions leave out pages
/// without an object.
pub(crate) fn list(ruby: &RubyApi, page: &Page) {
    let Some(page_bytes) = constants::get().page_bytes.filter(|_| ruby.has_heap_page_list()) else {
        return;
    };
    let Some(starts) = reserve() else { return };
    let mut list = PageList { starts, count: 0, page_bytes };
    // SAFETY: `list` outlives the walk, which passes its address to `on_page` only.
    unsafe { ruby.each_heap_page(on_page, (&raw mut list).cast()) };
    // SAFETY: `on_page` wrote the first `count` places and no others.
    let starts = unsafe { std::slice::from_raw_parts_mut(list.starts, list.count) };
    starts.sort_unstable();
    let rows = JoinedPages { starts, page_bytes }.count();
    // Without room the ranges stay as they were, with the time of their reading.
    if own_page::reserve(page, FRONT_BYTES + TABLE_HEAD + rows * ROW) {
        page.ranges.replace(now_ns(), list.count as u64, JoinedPages { starts, page_bytes });
    } else {
        page.header.set_feature(Feature::HeapPages, FeatureState::Refused);
    }
    // SAFETY: the mapping that `reserve` made; nothing refers to it any more.
    unsafe { libc::munmap(list.starts.cast(), MAX_PAGES * size_of::<u64>()) };
}

fn reserve() -> Option<*mut u64> {
    // SAFETY: a new private mapping.
    let place = unsafe {
        libc::mmap(
            ptr::null_mut(),
            MAX_PAGES * size_of::<u64>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    (place != libc::MAP_FAILED).then_some(place.cast())
}

/// A page is aligned to its own size, and its slots begin after a small header.
unsafe extern "C" fn on_page(
    first: *mut c_void,
    _: *mut c_void,
    _: usize,
    list: *mut c_void,
) -> c_int {
    // SAFETY: the address is that of the `PageList` of the current walk; the place lies within its memory.
    unsafe {
        let list = &mut *list.cast::<PageList>();
        if list.count < MAX_PAGES {
            *list.starts.add(list.count) = first as u64 & !(list.page_bytes - 1);
            list.count += 1;
        }
    }
    0
}

/// Ranges from sorted page addresses.
struct JoinedPages<'a> {
    starts: &'a [u64],
    page_bytes: u64,
}

impl Iterator for JoinedPages<'_> {
    type Item = [Option<u64>; 2];

    fn next(&mut self) -> Option<Self::Item> {
        let first = *self.starts.first()?;
        let together = self
            .starts
            .iter()
            .zip(0..)
            .take_while(|(start, n)| **start == first + n * self.page_bytes);
        let pages = together.count();
        self.starts = &self.starts[pages..];
        Some([Some(first), Some(pages as u64 * self.page_bytes)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_pages_are_one_range() {
        let starts = [0x10000, 0x20000, 0x40000, 0x70000, 0x80000, 0x90000];
        let joined: Vec<_> = JoinedPages { starts: &starts, page_bytes: 0x10000 }
            .map(|[start, bytes]| (start.unwrap(), bytes.unwrap()))
            .collect();
        assert_eq!(joined, [(0x10000, 0x20000), (0x40000, 0x10000), (0x70000, 0x30000)]);
        assert_eq!(JoinedPages { starts: &[], page_bytes: 0x10000 }.next(), None);
    }
}
