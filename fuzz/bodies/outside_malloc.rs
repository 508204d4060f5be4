//! Whatever a process holds in place of malloc's arenas, chunks and lists, reading it ends and its sums agree: of every
//! arena, of the table of chunks, of the owners, and of what the roots reach.
//!
//! An input changes words of a sound process: where, and to what number or address.

use carat_outside::elf::RubyAnchors;
use carat_outside::fake::FakeMemory;
use carat_outside::fake_ruby::{FakeRuby, HEAP};
use carat_outside::heap::{ClassNames, Heap};
use carat_outside::jit::Jit;
use carat_outside::malloc::fake_malloc::{
    BREAK, C_LIBRARY, C_LIBRARY_BYTES, FakeMalloc, HEAP_BYTES, HEAPS, MAIN_ARENA, MAPPED,
};
use carat_outside::malloc::{ChunkAmount, ChunkState, ChunkTable, MallocReading, read_malloc};
use carat_outside::owners::{ThreadPlace, find_owners};
use carat_outside::reach::{reach, told_chunks};
use carat_outside::who::{WhoFound, WhoRequest, WhoSources, find_who};
use std::sync::OnceLock;

/// Bytes of one change: the place, what kind of value, the value.
const CHANGE: usize = 10;
/// Alignment of heaps of arenas.
const ALIGNMENT: u64 = 64 << 20;

/// The sound process; making it takes longer than reading it.
fn sound(bins_at: u64) -> FakeMemory {
    let mut made = FakeMalloc::new(FakeRuby::new(2, 40).memory, bins_at);
    let buffer = made.chunk(0, 0x1000, true);
    let cached: Vec<u64> = (0..7).map(|_| made.chunk(0, 0x40, true)).collect();
    made.cache(0, &cached, 0x40, true);
    made.chunk(0, 0x3000, false);
    let fast: Vec<u64> = (0..3).map(|_| made.chunk(0, 0x20, true)).collect();
    if bins_at == 112 {
        made.fastbin(0, &fast, 0x20);
    }
    let arena = made.add_arena();
    let list: Vec<u64> = (0..20).map(|_| made.chunk(arena, 0x90, true)).collect();
    made.add_heap(arena);
    made.chunk(arena, 0x2000, true);
    let mapped = made.mapped(0x1_0000);
    // An object holds a buffer, the buffer a list, and the list a mapped chunk.
    made.memory.write_word(HEAP + 0x1_0000 + 0x40 + 24, buffer + 16);
    made.memory.write_word(buffer + 0x20, list[0] + 16);
    for pair in list.windows(2) {
        made.memory.write_word(pair[0] + 16, pair[1] + 16);
    }
    made.memory.write_word(list[19] + 16, mapped + 16);
    made.finish()
}

/// The start of something that is changed, and its length.
fn place(kind: u8) -> (u64, u64) {
    match kind & 7 {
        0 => (C_LIBRARY, C_LIBRARY_BYTES),
        1 => (MAIN_ARENA, 0x900),
        2 | 3 => (BREAK, HEAP_BYTES),
        4 => (HEAPS, HEAP_BYTES),
        5 => (HEAPS + ALIGNMENT, HEAP_BYTES),
        6 => (MAPPED, 0x1_0000),
        _ => (HEAP + 0x1_0000, 0x1_0000),
    }
}

/// The word that a change writes: a number, or an address of something, at times mangled as links are.
fn value(kind: u8, at: u64, number: u64) -> u64 {
    let (start, length) = place(kind);
    let address = (start + number % length) & !15;
    match kind >> 3 & 7 {
        0 | 1 => number & 0xffff,
        2 => number,
        3 => (number & 0xffff) & !15 | 1,
        4 => address,
        5 => address ^ at >> 12,
        6 => address + 8,
        _ => u64::MAX - number % 256,
    }
}

/// Fails where that does not hold.
pub(crate) fn check(input: &[u8]) {
    static SOUND: OnceLock<[FakeMemory; 2]> = OnceLock::new();
    let sound = SOUND.get_or_init(|| [sound(112), sound(24)]);
    let Some((first, changes)) = input.split_first() else { return };
    let mut memory = sound[usize::from(first & 1)].clone();
    for change in changes.chunks_exact(CHANGE) {
        let mut number = [0; 8];
        number[..6].copy_from_slice(&change[4..]);
        let number = u64::from_le_bytes(number);
        let (start, length) = place(change[0]);
        let at = start + u64::from(u16::from_le_bytes([change[1], change[2]])) * 8 % length;
        match change[3] {
            255 => memory.forget(at & !0xfff),
            kind => memory.write_word(at, value(kind, at, number)),
        }
    }
    let is_heap_page = |address: u64| (HEAP..HEAP + 0x10_0000).contains(&address);
    let Ok(reading) = read_malloc(&mut memory, &is_heap_page, true) else { return };
    check_census(&reading);
    check_owners(&memory, &reading);
    check_who(&mut memory, &reading.chunks);
    check_told(&mut memory);
}

fn check_census(reading: &MallocReading) {
    for arena in &reading.census.arenas {
        let parts = [arena.in_use, arena.free, arena.fastbins, arena.thread_cached];
        let chunks: u64 = parts.iter().map(|part| part.bytes).sum();
        let sum = chunks + arena.top_bytes + arena.header_bytes + arena.missing_bytes;
        assert_eq!(sum, arena.system_bytes);
        assert!(arena.trimmable_free_bytes <= arena.resident_bytes);
        assert!(arena.trimmable_top_bytes <= arena.resident_bytes);
        assert_eq!(arena.occupancy.pages(), arena.resident_bytes);
        let free: ChunkAmount =
            arena.free_by_size.iter().fold(ChunkAmount::default(), |sum, one| sum.plus(one.amount));
        assert_eq!(free, arena.free);
        assert!(arena.map.len() <= 1024 && arena.map.iter().all(|percent| *percent <= 100));
    }
    let mut end = 0;
    for (number, chunk) in reading.chunks.iter().enumerate() {
        assert!(chunk.address >= end && chunk.size > 0);
        end = chunk.end();
        for address in [chunk.address, end - 1] {
            assert_eq!(reading.chunks.find(address), Some(number));
        }
    }
}

fn check_owners(memory: &FakeMemory, reading: &MallocReading) {
    let Some(anchors) = RubyAnchors::find(memory) else { return };
    let Ok(heap) = Heap::find(memory, anchors.version) else { return };
    let Ok(mut names) = ClassNames::learn(memory, &heap, &anchors) else { return };
    let threads = [ThreadPlace {
        id: 1,
        inner_id: 1,
        name: "main".to_owned(),
        stack_pointer: Some(MAPPED + 0x100),
    }];
    let jit = Jit::find(memory, &heap, &reading.chunks);
    let owners = find_owners(memory, &heap, &mut names, &reading.chunks, &threads, jit.as_ref());
    let census = owners.census(&reading.chunks, None);
    let held = reading.chunks.iter().filter(|chunk| chunk.held());
    let mut all = ChunkAmount::default();
    held.for_each(|chunk| all = all.plus(reading.chunks.amount(&chunk)));
    assert_eq!(census.held().plus(census.nobody), all);
    assert!(census.needed_bytes >= reading.chunks.len() as u64 * ChunkTable::CHUNK_BYTES);
    if let Ok(reached) = reach(memory, &heap, &reading.chunks, (&anchors, &threads)) {
        let census = reached.census();
        assert_eq!(census.reached_chunks.plus(census.unreached_chunks), all);
        reached.each_held(|_, _| {});
    }
    let states = reading.chunks.iter().filter(|chunk| chunk.state == ChunkState::Top);
    assert!(states.count() <= reading.census.arenas.len() * 2);
}

/// The same where malloc is not walked.
fn check_told(memory: &mut FakeMemory) {
    let Some(anchors) = RubyAnchors::find(memory) else { return };
    let Ok(heap) = Heap::find(memory, anchors.version) else { return };
    let told = told_chunks(memory, &heap, &anchors);
    let places: Vec<_> = told.iter().map(|chunk| (chunk.user(), chunk.user_end())).collect();
    assert!(places.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    check_who(memory, &told);
}

fn check_who(memory: &mut FakeMemory, chunks: &ChunkTable) {
    let Some(anchors) = RubyAnchors::find(memory) else { return };
    let Ok(heap) = Heap::find(memory, anchors.version) else { return };
    let sources =
        WhoSources { heap: &heap, chunks, anchors: &anchors, threads: &[], open: &|_| None };
    for classes in [Vec::new(), vec!["Post".to_owned()]] {
        let Ok(WhoFound { who, .. }) =
            find_who(memory, &sources, &WhoRequest { classes, holders: true, kept: true })
        else {
            continue;
        };
        let bytes = chunks.iter().map(|chunk| chunk.size).sum::<u64>() + (16 << 20);
        assert!(who.holders.len() <= 5 && who.classes.len() <= 3);
        for holder in &who.holders {
            assert!(holder.bytes <= bytes && holder.objects <= who.reached_objects);
        }
        for class in &who.classes {
            let told: u64 = class.ways.iter().map(|way| way.objects).sum();
            let others = class.other_objects + class.changed_objects;
            assert_eq!(told + others + class.unreached_objects, class.objects);
            assert!(class.ways.iter().all(|way| !way.way.to_string().is_empty()));
        }
    }
}
