//! Malloc's memory that was made up, read.

use super::fake_malloc::{BREAK, C_LIBRARY, FakeMalloc, HEAP_BYTES, HEAPS, MAIN_ARENA, MAPPED};
use crate::fake::FakeMemory;
use crate::malloc::{ChunkAmount, ChunkState, MallocReading, NoMalloc, read_malloc};
use crate::memory::{Memory, MemoryRegion, PAGE};

fn read(memory: &mut FakeMemory) -> MallocReading {
    read_malloc(memory, &|_| false, true).unwrap()
}

/// A main arena with a live, a free and two freed chunks, another arena with two heaps, and a mapped chunk.
fn made(bins_at: u64) -> FakeMalloc {
    let mut made = FakeMalloc::new(FakeMemory::default(), bins_at);
    made.chunk(0, 0x1000, true);
    made.chunk(0, 0x5000, false);
    let cached: Vec<u64> = (0..3).map(|_| made.chunk(0, 0x40, true)).collect();
    made.cache(0, &cached, 0x40, true);
    let arena = made.add_arena();
    made.chunk(arena, 0x100, true);
    made.add_heap(arena);
    made.chunk(arena, 0x2000, true);
    made.mapped(0x4_0000);
    made
}

#[test]
fn arenas_are_found_without_a_table_of_versions() {
    for bins_at in [112, 24, 96, 40] {
        let mut memory = made(bins_at).finish();
        let reading = read(&mut memory);
        let census = reading.census;
        assert_eq!(census.layout.bins_at, bins_at);
        assert_eq!(census.layout.heap_header, Some(48));
        assert_eq!(census.arenas.len(), 2);
        let [main, other] = &census.arenas[..] else { panic!() };
        assert!(main.main && !other.main);
        assert_eq!((main.missing_bytes, other.missing_bytes), (0, 0), "{bins_at}");
        assert_eq!((main.system_bytes, other.system_bytes), (HEAP_BYTES, 2 * HEAP_BYTES));
        assert_eq!(main.in_use, ChunkAmount::resident(2, 0x1290));
        assert_eq!(main.thread_cached, ChunkAmount::resident(3, 0xc0));
        assert_eq!(main.free, ChunkAmount::resident(1, 0x5000));
        assert_eq!(main.trimmable_free_bytes, 4 * PAGE);
        assert_eq!(other.heaps, 2);
        assert_eq!(other.in_use, ChunkAmount::resident(2, 0x2100));
        assert_eq!(other.trimmable_top_bytes, 0);
        assert_eq!(census.mapped.amount, ChunkAmount::resident(1, 0x4_0000));
        assert_eq!(census.mapped.counted_bytes, Some(0x4_0000));
        assert_eq!(census.readings_again, 0);
    }
}

#[test]
fn the_two_chunks_before_the_bins_are_no_bin() {
    let mut memory = made(112).finish();
    // `last_remainder` of the second arena.
    memory.write_word(HEAPS + 48 + 104, BREAK);
    assert_eq!(read(&mut memory).census.layout.bins_at, 112);
}

#[test]
fn lists_in_motion_do_not_hide_the_arenas() {
    for bins_at in [112, 24] {
        let mut memory = made(bins_at).finish();
        // The first chunks of 60 lists were taken off after the heads were read.
        for arena in [MAIN_ARENA, HEAPS + 48] {
            for bin in 0..60 {
                memory.write_word(arena + bins_at + bin * 16, BREAK + 0x1000);
            }
        }
        let census = read(&mut memory).census;
        assert_eq!((census.layout.bins_at, census.arenas.len()), (bins_at, 2));
    }
}

#[test]
fn the_table_has_every_chunk_with_its_state() {
    let mut memory = made(112).finish();
    let chunks = read(&mut memory).chunks;
    let count = |state| chunks.iter().filter(|chunk| chunk.state == state).count();
    assert_eq!(count(ChunkState::Live), 4);
    assert_eq!(count(ChunkState::Tcache), 3);
    assert_eq!(count(ChunkState::Free), 2);
    assert_eq!(count(ChunkState::Top), 2);
    assert_eq!(count(ChunkState::Mapped), 1);
    let number = chunks.exact(BREAK + 16).unwrap();
    assert_eq!(chunks.get(number).unwrap().size, 0x1000);
}

#[test]
fn links_are_followed_in_the_form_before_2_32_and_in_the_present_one() {
    for protect in [false, true] {
        let mut made = FakeMalloc::new(FakeMemory::default(), 112);
        let chunks: Vec<u64> = (0..7).map(|_| made.chunk(0, 0x60, true)).collect();
        made.cache(0, &chunks, 0x60, protect);
        let census = read(&mut made.finish()).census;
        assert_eq!(census.thread_caches, 1);
        assert_eq!(census.arenas[0].thread_cached.chunks, 7, "protect {protect}");
    }
}

#[test]
fn memory_that_looks_like_a_cache_but_has_another_key_is_none() {
    let mut made = FakeMalloc::new(FakeMemory::default(), 112);
    let held = made.chunk(0, 0x60, true);
    // Before the cache, so that it is read first.
    let other = made.chunk(0, 0x290, true);
    let chunks: Vec<u64> = (0..7).map(|_| made.chunk(0, 0x60, true)).collect();
    made.cache(0, &chunks, 0x60, true);
    made.memory.write_word(other + 16 + 128 + (0x60 - 32) / 16 * 8, held + 16);
    // As in a list of one chunk: no further one, and something where the key is.
    made.memory.write_word(held + 16, 0);
    made.memory.write_word(held + 24, 7);
    let reading = read(&mut made.finish());
    assert_eq!(reading.census.thread_caches, 1);
    assert_eq!(reading.census.arenas[0].thread_cached.chunks, 7);
    let number = reading.chunks.exact(held + 16).unwrap();
    assert_eq!(reading.chunks.get(number).unwrap().state, ChunkState::Live);
}

#[test]
fn of_a_cache_whose_first_chunk_was_handed_out_while_it_was_read_the_others_still_count() {
    let mut made = FakeMalloc::new(FakeMemory::default(), 112);
    let taken = made.chunk(0, 0x20, true);
    for size in [0x40, 0x60] {
        let chunks: Vec<u64> = (0..5).map(|_| made.chunk(0, size, true)).collect();
        let cache = made.cache(0, &chunks, size, true);
        if size == 0x60 {
            made.memory.write_word(cache + 16 + 128, taken + 16);
        }
    }
    made.memory.write(taken + 16, &[7; 16]);
    let census = read(&mut made.finish()).census;
    assert_eq!(census.thread_caches, 2);
    assert_eq!(census.arenas[0].thread_cached, ChunkAmount::resident(10, 5 * 0xa0));
}

#[test]
fn chunks_of_fastbins_are_free_and_are_trimmed_with_their_neighbours() {
    let mut made = FakeMalloc::new(FakeMemory::default(), 112);
    made.chunk(0, 0x2000, false);
    let fast = made.chunk(0, 0x40, true);
    made.chunk(0, 0x2000, false);
    let other = made.chunk(0, 0x40, true);
    made.chunk(0, 0x1000, true);
    made.fastbin(0, &[fast, other], 0x40);
    let census = read(&mut made.finish()).census;
    let main = &census.arenas[0];
    assert_eq!(main.fastbins, ChunkAmount::resident(2, 0x80));
    // From 0 to 0x4080 everything is one free chunk: pages 1 to 3.
    assert_eq!(main.trimmable_free_bytes, 3 * PAGE);
}

#[test]
fn lists_that_run_in_circles_end() {
    let mut made = FakeMalloc::new(FakeMemory::default(), 112);
    let chunks: Vec<u64> = (0..3).map(|_| made.chunk(0, 0x40, true)).collect();
    made.fastbin(0, &chunks, 0x40);
    let last = chunks[2] + 16;
    made.memory.write_word(last, chunks[0] ^ last >> 12);
    let census = read(&mut made.finish()).census;
    assert_eq!(census.arenas[0].fastbins.chunks, 3);
}

#[test]
fn a_walk_that_breaks_says_how_many_bytes_are_missing() {
    let mut made = FakeMalloc::new(FakeMemory::default(), 112);
    made.chunk(0, 0x1000, true);
    made.chunk(0, 0x200, true);
    let broken = made.chunk(0, 0x1000, true);
    let mut memory = made.finish();
    memory.write_word(broken + 8, 0x7777_7777_7777);
    let main = &read(&mut memory).census.arenas[0];
    // Whether the chunk before is in use stands in the broken header.
    assert_eq!(main.missing_bytes, HEAP_BYTES - 0x1000);
    assert_eq!(main.in_use, ChunkAmount::resident(1, 0x1000));
    assert_eq!(main.system_bytes, HEAP_BYTES);
}

#[test]
fn a_page_in_swap_is_missing_and_not_free() {
    let mut made = FakeMalloc::new(FakeMemory::default(), 112);
    for _ in 0..8 {
        made.chunk(0, 0x800, true);
    }
    let mut memory = made.finish();
    memory.forget(BREAK + 0x2000);
    let main = &read(&mut memory).census.arenas[0];
    assert_eq!(main.missing_bytes, HEAP_BYTES - 0x1800);
    assert_eq!(main.free.chunks, 0);
}

#[test]
fn a_ring_of_arenas_that_does_not_close_is_refused() {
    let mut memory = made(112).finish();
    let other = HEAPS + 48;
    memory.write_word(other + 112 + 127 * 16 + 16, other);
    let refused = read_malloc(&mut memory, &|_| false, false);
    assert_eq!(refused.err(), Some(NoMalloc::OpenRing));
    let mut memory = made(112).finish();
    memory.write_word(MAIN_ARENA + 112 + 64, 3);
    let refused = read_malloc(&mut memory, &|_| false, false);
    assert_eq!(refused.err(), Some(NoMalloc::NoMainArena));
}

#[test]
fn the_main_arena_is_found_in_zeroed_data_that_the_kernel_joined_with_other_memory() {
    let mut memory = FakeMemory::default();
    memory.map(MemoryRegion {
        start: C_LIBRARY - PAGE,
        end: C_LIBRARY,
        readable: true,
        writable: true,
        private: true,
        inode: 9,
        path: "/usr/lib/x86_64-linux-gnu/libc.so.6".to_owned(),
        ..MemoryRegion::default()
    });
    memory.map_anonymous(C_LIBRARY, C_LIBRARY + (32 << 20));
    let mut made = FakeMalloc::new(memory, 112);
    made.chunk(0, 0x1000, true);
    let main = &read(&mut made.finish()).census.arenas[0];
    assert_eq!(main.in_use, ChunkAmount::resident(1, 0x1000));
}

/// Bytes of the pages in memory that belong to no file.
fn anonymous(memory: &FakeMemory) -> u64 {
    let regions = memory.regions().iter().filter(|region| region.inode == 0);
    regions.map(|region| region.pages.present() * PAGE).sum()
}

#[test]
fn of_an_allocator_that_is_not_walked_heap_pages_and_stacks_are_not_its_memory() {
    let mut memory = made(112).finish();
    let all = anonymous(&memory);
    for (start, readable, inode) in [(0x7f60_0000_0000, true, 5), (0x7f61_0000_0000, false, 0)] {
        memory.map(MemoryRegion {
            start,
            end: start + PAGE,
            readable,
            private: true,
            inode,
            path: if inode == 0 { String::new() } else { "/usr/lib/libmimalloc.so.2.0".into() },
            ..MemoryRegion::default()
        });
    }
    // A stack behind its guard page, and mappings of its own.
    for start in [0x7f61_0000_1000, 0x7f62_0000_0000, 0x7f63_0000_0000] {
        memory.map_anonymous(start, start + PAGE);
        memory.write(start, &[1]);
    }
    let is_heap_page = |address: u64| address == 0x7f63_0000_0000;
    let refused = read_malloc(&mut memory, &is_heap_page, false).unwrap_err();
    assert_eq!(refused, NoMalloc::Other { name: "mimalloc".into(), present: all + PAGE });
    assert!(refused.to_string().contains("which is not walked"), "{refused}");
}

#[test]
fn all_memory_that_an_allocator_without_a_walk_can_have_counts() {
    let mut memory = made(112).finish();
    let all = anonymous(&memory);
    map_library(&mut memory, "/usr/lib/libmimalloc.so.2.0");
    let joined = LIBRARY + PAGE;
    // Zeroed data that the kernel joined with other memory, of which one page is surely not data of the library.
    memory.map_anonymous(joined, joined + (32 << 20));
    // Segments of which the start is reserved and the rest is committed: these are no guards of stacks.
    let reserved = joined + (64 << 20);
    memory.map(MemoryRegion {
        start: reserved,
        end: reserved + (1 << 20),
        private: true,
        ..MemoryRegion::default()
    });
    let committed = reserved + (1 << 20);
    memory.map_anonymous(committed, committed + (31 << 20));
    for page in [joined, joined + (31 << 20), committed, committed + (30 << 20)] {
        memory.write(page, &[1]);
    }
    let refused = read_malloc(&mut memory, &|_| false, false).unwrap_err();
    assert_eq!(refused, NoMalloc::Other { name: "mimalloc".into(), present: all + 3 * PAGE });
}

/// Where a further library is mapped.
const LIBRARY: u64 = 0x7f60_0000_0000;

fn map_library(memory: &mut FakeMemory, path: &str) {
    memory.map(MemoryRegion {
        start: LIBRARY,
        end: LIBRARY + PAGE,
        readable: true,
        private: true,
        inode: 5,
        path: path.to_owned(),
        ..MemoryRegion::default()
    });
}

#[test]
fn other_allocators_are_refused_by_name() {
    for (path, expected) in [
        ("/lib/ld-musl-x86_64.so.1", NoMalloc::Musl),
        ("/usr/lib/x86_64-linux-musl/libc.so", NoMalloc::Musl),
        (
            "/usr/lib/libjemalloc.so.2",
            NoMalloc::NoTree { file: "libjemalloc.so.2".into(), votes: 0, against: 0 },
        ),
        (
            "/usr/lib/libmimalloc.so.2.0",
            NoMalloc::Other { name: "mimalloc".into(), present: anonymous(&made(112).finish()) },
        ),
    ] {
        let mut memory = made(112).finish();
        map_library(&mut memory, path);
        assert_eq!(read_malloc(&mut memory, &|_| false, false).err(), Some(expected));
    }
}

#[test]
fn of_a_program_of_another_kind_of_processor_no_malloc_is_looked_for() {
    // Of 64 bits, and with the least significant byte first.
    for (machine, is_own) in
        [(62_u16, cfg!(target_arch = "x86_64")), (183, cfg!(target_arch = "aarch64"))]
    {
        let mut memory = made(112).finish();
        map_library(&mut memory, "/usr/lib/libruby-3.1.so.3.1.2");
        let mut header = [0; 20];
        header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        header[18..].copy_from_slice(&machine.to_le_bytes());
        memory.write(LIBRARY, &header);
        let read = read_malloc(&mut memory, &|_| false, false);
        let refused = NoMalloc::OtherMachine { file: "libruby-3.1.so.3.1.2".into() };
        assert_eq!(read.err(), (!is_own).then_some(refused), "{machine}");
    }
}

#[test]
fn malloc_has_its_heaps_and_its_mapped_chunks_and_nothing_else() {
    let mut memory = made(112).finish();
    let beside = MAPPED + 0x4_0000;
    memory.map_anonymous(beside, beside + (32 << 20));
    let reading = read_malloc(&mut memory, &|_| false, false).unwrap();
    for (address, is_own) in [
        (BREAK, true),
        (HEAPS + 0x1000, true),
        (MAPPED + 0x1_0000, true),
        (beside, false),
        (C_LIBRARY, false),
    ] {
        assert_eq!(reading.covers(address), is_own, "{address:x}");
    }
}

#[test]
fn a_heap_page_is_no_mapped_chunk() {
    let mut memory = made(112).finish();
    let reading = read_malloc(&mut memory, &|address| address >> 36 == 0x7f5, false).unwrap();
    assert_eq!(reading.census.mapped.amount.chunks, 0);
    assert!(reading.chunks.is_empty());
    assert!(memory.regions().len() > 3);
}
