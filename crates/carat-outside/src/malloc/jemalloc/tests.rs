//! The reader of jemalloc on memory that is made up.

use super::fake_jemalloc::{
    BLOCK, EXTENTS, FakeJemalloc, LAYOUT_COUNT, LEAF, RECORDS, ROOT, STACK,
};
use super::layout::{LAYOUTS, class_bytes};
use crate::fake::FakeMemory;
use crate::malloc::{
    Chunk, ChunkAmount, ChunkState, DecayTimes, JemallocCensus, MallocReading, NoMalloc,
    PageAmount, read_malloc,
};
use crate::memory::{Memory, PAGE};

fn read(memory: &mut FakeMemory) -> Result<MallocReading, NoMalloc> {
    read_malloc(memory, &|_| false, true)
}

fn own(reading: &MallocReading) -> &JemallocCensus {
    reading.census.jemalloc.as_ref().unwrap()
}

/// Regions of 320 bytes (class 13), of 8 bytes, large ones of which one begins behind its page, and unused extents in two arenas.
fn made(layout: usize) -> FakeJemalloc {
    let mut made = FakeJemalloc::new(FakeMemory::default(), layout, 0);
    for _ in 0..12 {
        made.slab(0, 13, 5, 20);
    }
    made.slab(1, 0, 1, 100);
    made.large(1, 60, 0x40);
    made.large(1, 61, 0);
    made.unused(0, 4, 1);
    made.unused(1, 2, 2);
    made.unused(1, 100, 3);
    made
}

#[test]
fn every_layout_is_read_to_the_byte() {
    for (layout, form) in LAYOUTS.iter().enumerate() {
        let mut made = made(layout);
        made.decay(10_000, 0);
        let reading = read(&mut made.memory).unwrap_or_else(|error| panic!("{layout}: {error}"));
        let (own, page) = (own(&reading), form.page());
        let copy = &own.copies[0];
        assert_eq!(copy.form, if layout % 2 == 0 { "5.3" } else { "5.2" });
        assert_eq!((copy.page_bytes, copy.address_bits), (page, form.address_bits));
        let large = [60, 61].map(|class| class_bytes(class).unwrap());
        let pages = large.map(|size| size.next_multiple_of(page) + page);
        assert_eq!(own.allocated_bytes, 12 * 20 * 320 + 800 + large[0] + large[1], "{layout}");
        assert_eq!(own.active_bytes, 61 * page + pages[0] + pages[1], "{layout}");
        let unused =
            |pages: u64, present| PageAmount { stretches: 1, bytes: pages * page, present };
        assert_eq!((own.dirty, own.muzzy), (unused(4, PAGE), unused(2, PAGE)), "{layout}");
        assert_eq!(own.retained, unused(100, 0));
        assert_eq!(own.decay, [(DecayTimes { dirty_ms: 10_000, muzzy_ms: 0 }, 1)]);
        assert_eq!(own.arenas.iter().map(|arena| arena.number).collect::<Vec<_>>(), [0, 1]);
        let total = reading.census.total();
        assert_eq!(total.in_use.bytes, own.allocated_bytes);
        assert_eq!(reading.census.trimmable_bytes(), 2 * PAGE);
        let slabs: Vec<_> = own.slabs.iter().map(|one| (one.size, one.slabs, one.in_use)).collect();
        assert_eq!(slabs, [(8, 1, 100), (320, 12, 240)]);
        assert_eq!(own.slabs[1].free, 12 * (5 * page / 320 - 20));
    }
}

#[test]
fn the_table_has_every_region_also_of_eight_bytes_and_the_rest_as_free() {
    let mut made = made(0);
    let chunks = read(&mut made.memory).unwrap().chunks;
    let first = chunks.exact(EXTENTS).and_then(|number| chunks.get(number));
    assert_eq!(first, Some(Chunk::bare(EXTENTS, 320, ChunkState::Live)));
    let eight = EXTENTS + 60 * PAGE + 99 * 8;
    let last = chunks.exact(eight).and_then(|number| chunks.get(number));
    assert_eq!(last, Some(Chunk::bare(eight, 8, ChunkState::Live)));
    let free = chunks.find(eight + 8).and_then(|number| chunks.get(number)).unwrap();
    assert_eq!((free.state, free.end()), (ChunkState::Free, EXTENTS + 61 * PAGE));
    let block = chunks.find(BLOCK + 0x2000).and_then(|number| chunks.get(number)).unwrap();
    assert_eq!(block.state, ChunkState::Own);
    // What begins behind its page, and the page that is left of it.
    let large = EXTENTS + 61 * PAGE + 0x40;
    assert_eq!(
        chunks.exact(large).and_then(|number| chunks.get(number)).map(|one| one.size),
        class_bytes(60)
    );
}

#[test]
fn a_large_region_that_is_smaller_than_its_class_has_its_own_size() {
    let mut made = FakeJemalloc::new(FakeMemory::default(), 0, 0);
    for _ in 0..12 {
        made.slab(0, 13, 5, 20);
    }
    let address = made.large_of(0, 60, 0x80, 230 * PAGE);
    let before = class_bytes(60).unwrap();
    assert!(before > 230 * PAGE);
    let chunks = read(&mut made.memory).unwrap().chunks;
    assert_eq!(
        chunks.exact(address).and_then(|number| chunks.get(number)).map(|one| one.size),
        Some(230 * PAGE)
    );
}

#[test]
fn a_sampled_region_counts_as_jemalloc_counts_it_and_takes_what_was_requested() {
    for (layout, form) in LAYOUTS.iter().enumerate() {
        let mut made = made(layout);
        let before = read(&mut made.memory).unwrap();
        let page = form.page();
        let address = made.large_of(0, 9, 0x40, 4 * page);
        let reading = read(&mut made.memory).unwrap();
        let allocated = [&reading, &before].map(|reading| own(reading).allocated_bytes);
        assert_eq!(allocated[0] - allocated[1], 4 * page, "{layout}");
        let in_use = [&reading, &before].map(|reading| reading.census.total().in_use.bytes);
        assert_eq!(in_use[0] - in_use[1], 160, "{layout}");
        let class = own(&reading).large.iter().find(|one| one.size == 4 * page);
        assert_eq!(class.map(|one| (one.regions, one.bytes)), Some((1, 4 * page)), "{layout}");
        let chunk = reading.chunks.exact(address).and_then(|number| reading.chunks.get(number));
        assert_eq!(chunk, Some(Chunk::bare(address, 160, ChunkState::Live)), "{layout}");
        let total = reading.census.total();
        assert_eq!(
            total.system_bytes - total.idle.bytes + total.idle.present,
            total.resident_bytes
        );
    }
}

#[test]
fn a_slab_that_its_regions_do_not_fill_is_read() {
    for (layout, form) in LAYOUTS.iter().enumerate() {
        let mut made = made(layout);
        made.slab(0, 9, 16, 20);
        let reading = read(&mut made.memory).unwrap();
        let bytes = 16 * form.page();
        let class = own(&reading).slabs.iter().find(|one| one.size == 160).unwrap();
        assert_eq!((class.slabs, class.in_use, class.bytes), (1, 20, bytes), "{layout}");
        assert_eq!(class.free, bytes / 160 - 20, "{layout}");
        assert_eq!(reading.census.total().missing_bytes, 0, "{layout}");
    }
}

#[test]
fn a_slab_that_cannot_be_one_is_missing_with_its_bytes() {
    let mut made = made(0);
    // More regions than a bitmap has bits for.
    made.slab(0, 0, 2, 20);
    let total = read(&mut made.memory).unwrap().census.total();
    assert_eq!(total.missing_bytes, 2 * PAGE);
}

#[test]
fn regions_in_caches_are_not_in_use_and_entries_of_old_are_dropped() {
    for layout in 0..LAYOUT_COUNT {
        let mut made = made(layout);
        let slab = made.slab(0, 13, 5, 20);
        let large = made.large(0, 37, 0);
        // A region that is free, one of another class, and an address that is no region.
        let stale = [(13, slab + 21 * 320), (12, slab + 320), (13, slab + 8)];
        let held = [(13, slab), (13, slab + 2 * 320), (37, large)];
        let stacks = made.cache(&[&held[..], &stale].concat());
        let reading = read(&mut made.memory).unwrap();
        let total = reading.census.total();
        let large = class_bytes(37).unwrap();
        assert_eq!(reading.census.thread_caches, 1, "{layout}");
        assert_eq!(
            (total.thread_cached.chunks, total.thread_cached.bytes),
            (3, 640 + large),
            "{layout}"
        );
        assert_eq!(own(&reading).stale_cached, 3, "{layout}");
        let state = |address| {
            let number = reading.chunks.exact(address);
            number.and_then(|number| reading.chunks.get(number)).map(|chunk| chunk.state)
        };
        assert_eq!(state(slab), Some(ChunkState::Tcache));
        assert_eq!(state(slab + 320), Some(ChunkState::Live));
        assert_eq!(state(stacks), Some(ChunkState::Own), "{layout}");
    }
}

#[test]
fn what_the_kernel_joined_with_its_extents_is_not_its_memory() {
    let mut made = made(0);
    let slab = made.slab(0, 13, 5, 20);
    let reading = read(&mut made.memory).unwrap();
    assert!(reading.covers(slab) && reading.covers(BLOCK));
    // In the mapping of extents, behind the last of them.
    assert!(!reading.covers(EXTENTS + (63 << 20)));
}

#[test]
fn two_jemallocs_of_different_layouts_are_both_read() {
    let first = made(0);
    let mut both = FakeJemalloc::new(first.memory, 5, 1);
    for _ in 0..10 {
        both.slab(3, 8, 4, 7);
    }
    let reading = read(&mut both.memory).unwrap();
    let own = own(&reading);
    assert_eq!(
        own.copies.iter().map(|copy| copy.form.as_str()).collect::<Vec<_>>(),
        ["5.3", "5.2"]
    );
    let arenas: Vec<_> = own.arenas.iter().map(|arena| (arena.copy, arena.number)).collect();
    assert_eq!(arenas, [(0, 0), (0, 1), (1, 3)]);
    assert_eq!(reading.census.arenas[2].in_use, ChunkAmount::resident(70, 70 * 128));
}

#[test]
fn with_too_few_votes_it_is_refused_and_the_votes_are_said() {
    let mut made = FakeJemalloc::new(FakeMemory::default(), 0, 0);
    made.slab(0, 13, 5, 20);
    let refused = read(&mut made.memory).err();
    let Some(NoMalloc::NoTree { votes: 5, against: 0, .. }) = refused else {
        panic!("{refused:?}")
    };
    // Enough of them, and a root that leads nowhere.
    let mut made = self::made(0);
    let prefix = EXTENTS >> 30;
    made.memory.write_word(ROOT + prefix * 8, 0);
    assert!(matches!(read(&mut made.memory).err(), Some(NoMalloc::NoTree { votes: 0, .. })));
    let mut made = self::made(0);
    made.memory.write_word(ROOT + prefix * 8, 0);
    made.memory.write_word(ROOT + 8, LEAF);
    assert!(matches!(read(&mut made.memory).err(), Some(NoMalloc::NoTree { .. })));
}

#[test]
fn the_huge_page_allocator_is_refused_by_name() {
    let mut made = made(0);
    made.slab(0, 13, 5, 20);
    made.make_huge();
    let refused = read(&mut made.memory).unwrap_err();
    assert_eq!(refused, NoMalloc::HugePageAllocator);
    assert!(refused.to_string().contains("HPA"));
    // In 5.2 the same bit means something else.
    let mut made = self::made(1);
    made.make_huge();
    assert!(read(&mut made.memory).is_ok());
}

#[test]
fn a_few_torn_slabs_are_counted_and_many_are_refused() {
    let torn = |number: u64| {
        let mut made = FakeJemalloc::new(FakeMemory::default(), 0, 0);
        for _ in 0..200 {
            made.slab(0, 13, 5, 20);
        }
        for slab in 0..number {
            made.memory.write_word(RECORDS + slab * 128 + 64, u64::MAX);
        }
        read(&mut made.memory)
    };
    let few = torn(3).unwrap();
    assert_eq!(own(&few).torn_slabs, 3);
    assert_eq!(
        torn(40).err(),
        Some(NoMalloc::Contradictory { what: "slabs", wrong: 40, all: 200 })
    );
}

#[test]
fn a_tree_that_contradicts_its_records_is_refused() {
    let mut made = made(0);
    for _ in 0..100 {
        made.slab(0, 13, 5, 20);
    }
    // Entries behind those that vote, each with the record of another extent.
    for page in 400..440 {
        made.memory.write_word(LEAF + page * 8, 13 << 48 | RECORDS | 1);
    }
    let refused = read(&mut made.memory).err();
    let Some(NoMalloc::Contradictory { what: "entries of its tree", wrong: 40, .. }) = refused
    else {
        panic!("{refused:?}")
    };
}

#[test]
fn records_outside_of_its_own_blocks_are_refused() {
    let mut made = made(0);
    made.memory.write_word(BLOCK, 0);
    let refused = read(&mut made.memory).err();
    let Some(NoMalloc::Contradictory { what: "places of its own data", .. }) = refused else {
        panic!("{refused:?}")
    };
}

#[test]
fn a_region_whose_page_is_in_swap_is_in_use_and_not_in_memory() {
    let mut made = made(0);
    made.memory.swap_out(EXTENTS);
    let reading = read(&mut made.memory).unwrap();
    let total = reading.census.total();
    assert_eq!(total.in_use.bytes - total.in_use.present, PAGE);
    assert!(made.memory.word(STACK).is_some());
}
