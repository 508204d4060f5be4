//! What lies on a page of the child.

use crate::elf::zeroed_end;
use crate::heap::{Bitmap, Heap};
use crate::jit::Jit;
use crate::memory::{Memory, MemoryRegion, PAGE};
use crate::unshared::table::Area;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Mappings that nobody may read, and that are larger, are reservations without pages.
const RESERVATION: u64 = 1 << 30;
/// Entries of the page map read at once.
const ENTRIES: u64 = 8192;

/// The areas of mappings, apart from heap pages and chunks, which are found by address.
pub(super) struct Ground<'a> {
    heap: &'a Heap,
    /// By the start of a mapping: its area, and where that ends; behind it lies other memory.
    regions: HashMap<u64, (Area, u64)>,
}

impl<'a> Ground<'a> {
    pub(super) fn new(memory: &dyn Memory, heap: &'a Heap, jit: Option<&Jit>) -> Self {
        let regions = memory.regions();
        let areas = regions.iter().enumerate().map(|(at, region)| {
            let before = at.checked_sub(1).and_then(|before| regions.get(before));
            let before = before.filter(|before| before.end == region.start);
            let is_jit = jit.is_some_and(|jit| jit.is_code(region));
            let area = match is_jit {
                true => (Area::Jit, region.end),
                false => area_of(memory, region, before),
            };
            (region.start, area)
        });
        Self { heap, regions: areas.collect() }
    }

    /// The area of a page in a region; malloc's chunks are not known here.
    pub(super) fn area(&self, region: &MemoryRegion, page: u64) -> Area {
        if self.heap.page_at(page).is_some() {
            return Area::Slots;
        }
        if self.heap.is_transient(page) {
            return Area::TransientHeap;
        }
        let area = self.regions.get(&region.start).filter(|(_, end)| page < *end);
        area.map_or(Area::Other, |(area, _)| *area)
    }
}

/// The area that a mapping begins with, and where that ends.
fn area_of(
    memory: &dyn Memory,
    region: &MemoryRegion,
    before: Option<&MemoryRegion>,
) -> (Area, u64) {
    if region.inode != 0 {
        return (Area::LibraryData, region.end);
    }
    let plain = region.path.is_empty() || region.path.starts_with("[anon");
    if region.path == "[stack]" || (plain && before.is_some_and(|before| !before.readable)) {
        return (Area::Stacks, region.end);
    }
    let file = before.filter(|before| plain && before.inode != 0 && before.writable);
    let zeroed = file.and_then(|file| zeroed_end(memory, file, region));
    zeroed.map_or((Area::Other, region.end), |end| (Area::LibraryData, end))
}

/// Addresses of the descriptors of heap pages with their bitmaps, in order.
pub(super) struct Descriptors(Vec<Range<u64>>);

impl Descriptors {
    pub(super) fn of(heap: &Heap) -> Self {
        let mut ranges: Vec<Range<u64>> = heap
            .pages()
            .iter()
            .filter_map(|page| {
                let last = [Bitmap::Age, Bitmap::Pinned];
                let end = last.into_iter().find_map(|last| heap.bitmap_range(page, last))?.1;
                Some(page.descriptor..end)
            })
            .collect();
        ranges.sort_by_key(|range| range.start);
        Self(ranges)
    }

    /// Whether a descriptor, or a part of one, is on a page.
    pub(super) fn touch(&self, page: u64) -> bool {
        let at = self.0.partition_point(|range| range.end <= page);
        self.0.get(at).is_some_and(|range| range.start < page + PAGE)
    }

    /// Whether the word at an address belongs to a descriptor.
    pub(super) fn contain(&self, address: u64) -> bool {
        let at = self.0.partition_point(|range| range.end <= address);
        self.0.get(at).is_some_and(|range| range.contains(&address))
    }
}

/// Numbers of pages of the mappings that are not compared: files and shared memory. Private ones, then shared ones.
pub(super) fn count_files(
    proc: &Path,
    process: u32,
    regions: &[MemoryRegion],
) -> io::Result<(u64, u64)> {
    let pagemap = File::open(proc.join(process.to_string()).join("pagemap"))?;
    let (mut private, mut shared) = (0, 0);
    for region in regions.iter().filter(|region| !region.searched()) {
        let reserved = !region.readable && region.size() > RESERVATION;
        // The kernel's own pages, such as the vDSO, are in no figure of memory.
        if reserved || region.path.starts_with("[v") {
            continue;
        }
        let mut page = region.start / PAGE;
        while page < region.end / PAGE {
            let count = ENTRIES.min(region.end / PAGE - page);
            let mut bytes = vec![0; count as usize * 8];
            pagemap.read_exact_at(&mut bytes, page * 8)?;
            for entry in bytes.chunks_exact(8) {
                let entry = crate::memory::PageEntry(crate::bytes::word_in(entry, 0).unwrap_or(0));
                private += u64::from(entry.exclusive());
                shared += u64::from(entry.present() && !entry.exclusive());
            }
            page += count;
        }
    }
    Ok((private, shared))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;
    use crate::fake_ruby::FakeRuby;
    use carat_ruby::version::V3_3;

    fn region(start: u64, end: u64, path: &str) -> MemoryRegion {
        MemoryRegion {
            start,
            end,
            readable: true,
            writable: true,
            private: true,
            inode: u64::from(path.starts_with('/')),
            path: path.into(),
            ..MemoryRegion::default()
        }
    }

    #[test]
    fn a_mapping_is_told_by_its_name_and_its_neighbour() {
        let library = region(0x1000, 0x2000, "/usr/lib/libruby.so");
        let zeroed = region(0x2000, 0x3000, "");
        let guard = MemoryRegion { readable: false, ..region(0x4000, 0x5000, "") };
        let stack = region(0x5000, 0x9000, "");
        let memory = FakeMemory::default();
        for (one, before, area) in [
            (&library, None, Area::LibraryData),
            (&zeroed, Some(&library), Area::LibraryData),
            (&zeroed, None, Area::Other),
            (&stack, Some(&guard), Area::Stacks),
        ] {
            assert_eq!(area_of(&memory, one, before), (area, one.end), "{one:?}");
        }
    }

    #[test]
    fn zeroed_data_that_the_kernel_joined_with_other_memory_are_data_of_their_library() {
        let mut memory = FakeRuby::new(9, 40).memory;
        let heap = Heap::find(&memory, V3_3).unwrap();
        memory.map(region(0x1000, 0x2000, "/usr/lib/libjemalloc.so.2"));
        // jemalloc's have 2 MiB; what was mapped behind has 30 more.
        memory.map(region(0x2000, 0x2000 + (32 << 20), ""));
        let ground = Ground::new(&memory, &heap, None);
        let joined = memory.region(0x2000).unwrap();
        for (offset, area) in
            [(0, Area::LibraryData), (2 << 20, Area::LibraryData), (31 << 20, Area::Other)]
        {
            assert_eq!(ground.area(joined, 0x2000 + offset), area, "{offset}");
        }
    }

    #[test]
    fn a_page_is_the_collectors_if_a_part_of_a_descriptor_is_on_it() {
        let descriptors = Descriptors(vec![0x1f00..0x2100, 0x5000..0x6000]);
        for (page, touched) in [
            (0x0000, false),
            (0x1000, true),
            (0x2000, true),
            (0x3000, false),
            (0x4000, false),
            (0x5000, true),
            (0x6000, false),
        ] {
            assert_eq!(descriptors.touch(page), touched, "{page:#x}");
        }
    }

    #[test]
    fn our_own_program_has_private_or_shared_pages() {
        let pid = std::process::id();
        let maps = std::fs::read("/proc/self/maps").unwrap();
        let regions = crate::memory::parse_regions(&maps);
        let (private, shared) = count_files(Path::new("/proc"), pid, &regions).unwrap();
        assert!(private + shared > 100, "{private} {shared}");
    }
}
