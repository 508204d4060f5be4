//! Whatever a process holds in place of jemalloc's tree, records, bitmaps and caches, reading it ends and its sums agree: of every
//! arena, of the table of chunks, and of the owners.
//!
//! An input chooses a layout and changes words of a sound process: where, and to what number or address.

use carat_outside::elf::RubyAnchors;
use carat_outside::fake::FakeMemory;
use carat_outside::fake_ruby::{FakeRuby, HEAP};
use carat_outside::heap::{ClassNames, Heap};
use carat_outside::jit::Jit;
use carat_outside::malloc::fake_jemalloc::{
    BLOCK, EXTENTS, FakeJemalloc, LAYOUT_COUNT, LEAF, LIBRARY, RECORDS, ROOT, STACK, STACK_BYTES,
};
use carat_outside::malloc::{ChunkAmount, ChunkState, MallocReading, read_malloc};
use carat_outside::memory::Memory;
use carat_outside::owners::find_owners;
use std::sync::OnceLock;

/// Bytes of one change: the place, what kind of value, the value.
const CHANGE: usize = 10;

/// The sound process of each layout; making it takes longer than reading it.
fn sound(layout: usize) -> FakeMemory {
    let mut made = FakeJemalloc::new(FakeRuby::new(2, 40).memory, layout, 0);
    let first = made.slab(0, 13, 5, 20);
    for _ in 0..12 {
        made.slab(1, 13, 5, 20);
    }
    let eight = made.slab(0, 0, 1, 100);
    let large = made.large(0, 40, 0x40);
    made.unused(0, 3, 1);
    made.unused(1, 2, 2);
    made.unused(1, 9, 3);
    made.cache(&[(13, first + 320), (0, eight + 8), (40, large)]);
    made.decay(10_000, 0);
    // An object holds a region, and that another.
    made.memory.write_word(HEAP + 0x1_0000 + 0x40 + 24, first);
    made.memory.write_word(first + 16, eight);
    made.memory
}

/// The start of something that is changed, and its length.
fn place(kind: u8) -> (u64, u64) {
    // The pages of extents from the first one on: the entries of a leaf for them.
    let number = EXTENTS >> 12 & 0x7fff;
    match kind & 7 {
        0 => (LIBRARY, 0x1000),
        1 => (ROOT & !7, 0x1000),
        2 => (LEAF, 0x2000),
        3 => (LEAF + number * 8, 0x800),
        4 => (RECORDS, 0x1000),
        5 => (BLOCK, 0x10),
        6 => (STACK + 0x100, STACK_BYTES - 0x100),
        _ => (EXTENTS, 0x6000),
    }
}

/// The word that a change writes: a number, an address of something, or an entry of a leaf.
fn value(kind: u8, number: u64) -> u64 {
    let (start, length) = place(kind);
    let address = start + number % length;
    match kind >> 3 & 7 {
        0 => number & 0xffff,
        1 => number << 12,
        2 => number,
        3 => address & !7,
        4 => address & !127,
        5 => (number & 255) << 48 | (RECORDS + number % 40 * 128) | number >> 20 & 31,
        6 => number << 20,
        _ => u64::MAX - number % 256,
    }
}

/// Fails where that does not hold.
pub(crate) fn check(input: &[u8]) {
    static SOUND: OnceLock<Vec<FakeMemory>> = OnceLock::new();
    let sound = SOUND.get_or_init(|| (0..LAYOUT_COUNT).map(sound).collect());
    let Some((first, changes)) = input.split_first() else { return };
    let mut memory = sound[usize::from(*first) % LAYOUT_COUNT].clone();
    for change in changes.chunks_exact(CHANGE) {
        let mut number = [0; 8];
        number[..6].copy_from_slice(&change[4..]);
        let number = u64::from_le_bytes(number);
        let (start, length) = place(change[0]);
        let at = start + u64::from(u16::from_le_bytes([change[1], change[2]])) * 8 % length;
        match change[3] {
            255 => memory.forget(at & !0xfff),
            kind => memory.write_word(at, value(kind, number)),
        }
    }
    let is_heap_page = |address: u64| (HEAP..HEAP + 0x10_0000).contains(&address);
    let Ok(reading) = read_malloc(&mut memory, &is_heap_page, true) else { return };
    check_census(&reading);
    check_owners(&memory, &reading);
}

fn check_census(reading: &MallocReading) {
    let Some(own) = &reading.census.jemalloc else { return };
    assert_eq!(own.arenas.len(), reading.census.arenas.len());
    for arena in &reading.census.arenas {
        let parts = [arena.in_use, arena.free, arena.thread_cached, arena.idle];
        let sum = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.bytes));
        let rest = arena.header_bytes.saturating_add(arena.missing_bytes);
        assert_eq!(sum.saturating_add(rest), arena.system_bytes);
        assert!(parts.iter().all(|part| part.present <= part.bytes));
        assert!(arena.trimmable_free_bytes <= arena.resident_bytes);
        assert_eq!(arena.occupancy.pages(), arena.resident_bytes);
        let free: ChunkAmount =
            arena.free_by_size.iter().fold(ChunkAmount::default(), |sum, one| sum.plus(one.amount));
        assert_eq!(free, arena.free);
        assert!(arena.map.len() <= 1024 && arena.map.iter().all(|percent| *percent <= 100));
    }
    let cached: u64 = reading.census.arenas.iter().map(|arena| arena.thread_cached.chunks).sum();
    let large = own.large.iter().map(|class| class.regions).sum::<u64>();
    assert!(own.slabs.iter().map(|class| class.cached).sum::<u64>() + large >= cached);
    let mut end = 0;
    for (number, chunk) in reading.chunks.iter().enumerate() {
        assert!(chunk.address >= end && chunk.size > 0);
        end = chunk.end();
        for address in [chunk.address, end - 1] {
            assert_eq!(reading.chunks.find(address), Some(number));
        }
    }
}

fn check_owners(memory: &dyn Memory, reading: &MallocReading) {
    let Some(anchors) = RubyAnchors::find(memory) else { return };
    let Ok(heap) = Heap::find(memory, anchors.version) else { return };
    let Ok(mut names) = ClassNames::learn(memory, &heap, &anchors) else { return };
    let jit = Jit::find(memory, &heap, &reading.chunks);
    let owners = find_owners(memory, &heap, &mut names, &reading.chunks, &[], jit.as_ref());
    let census = owners.census(&reading.chunks, None);
    let held = reading.chunks.iter().filter(|chunk| chunk.state == ChunkState::Live);
    let mut all = ChunkAmount::default();
    held.for_each(|chunk| all = all.plus(reading.chunks.amount(&chunk)));
    assert_eq!(census.held().plus(census.nobody), all);
}
