//! Where Ruby's heap pages are: a walk over all of them, joined into ranges.

use crate::ruby::Ruby;
use crate::{clock, constants, own_page};
use carat_wire::page::{FRONT_BYTES, Feature, Page, State};
use std::ffi::{c_int, c_void};
use std::ptr;

/// Pages for which there is room while listing: 4 GB of heap in pages of 16 KiB. The memory is reserved
/// only, outside `malloc`, and given back at once.
const MOST: usize = 262_144;
/// Bytes of the ranges' table before its rows, and of one row.
const TABLE_HEAD: usize = 64;
const ROW: usize = 16;

struct List {
    starts: *mut u64,
    count: usize,
    page_bytes: u64,
}

/// Lists them; must be called with Ruby's lock held, outside a collection. Ruby from 3.1 on leaves out
/// pages without an object.
pub(crate) fn list(ruby: &Ruby, page: &Page) {
    let (Some(each_objects), Some(page_bytes)) = (ruby.each_objects, constants::get().page_bytes)
    else {
        return;
    };
    let Some(starts) = reserve() else { return };
    let mut list = List { starts, count: 0, page_bytes };
    // SAFETY: `list` outlives the walk, which hands its address to `on_page` only.
    unsafe { each_objects(on_page, (&raw mut list).cast()) };
    // SAFETY: `on_page` wrote the first `count` places and no others.
    let starts = unsafe { std::slice::from_raw_parts_mut(list.starts, list.count) };
    starts.sort_unstable();
    let rows = || Joined { starts, page_bytes };
    // Where there is no room the ranges stay as they were, and say when that was.
    if own_page::reserve(page, FRONT_BYTES + TABLE_HEAD + rows().count() * ROW) {
        page.ranges.replace(clock::now(), list.count as u64, rows());
    } else {
        page.header.set_feature(Feature::HeapPages, State::Refused);
    }
    // SAFETY: the mapping that `reserve` made, used by nobody any more.
    unsafe { libc::munmap(list.starts.cast(), MOST * size_of::<u64>()) };
}

fn reserve() -> Option<*mut u64> {
    // SAFETY: a new private mapping.
    let place = unsafe {
        libc::mmap(
            ptr::null_mut(),
            MOST * size_of::<u64>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    (place != libc::MAP_FAILED).then_some(place.cast())
}

/// A page is aligned to its own size, and its slots begin behind a small header.
extern "C" fn on_page(first: *mut c_void, _: *mut c_void, _: usize, list: *mut c_void) -> c_int {
    // SAFETY: the address is that of the `List` of the walk under way; the place is within its room.
    unsafe {
        let list = &mut *list.cast::<List>();
        if list.count < MOST {
            *list.starts.add(list.count) = first as u64 & !(list.page_bytes - 1);
            list.count += 1;
        }
    }
    0
}

/// Ranges from sorted page addresses.
struct Joined<'a> {
    starts: &'a [u64],
    page_bytes: u64,
}

impl Iterator for Joined<'_> {
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
        let joined: Vec<_> = Joined { starts: &starts, page_bytes: 0x10000 }
            .map(|[start, bytes]| (start.unwrap(), bytes.unwrap()))
            .collect();
        assert_eq!(joined, [(0x10000, 0x20000), (0x40000, 0x10000), (0x70000, 0x30000)]);
        assert_eq!(Joined { starts: &[], page_bytes: 0x10000 }.next(), None);
    }
}
