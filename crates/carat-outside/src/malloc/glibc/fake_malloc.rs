//! The memory of a glibc that is made up, for tests and as the start of fuzzed inputs.

use crate::fake::FakeMemory;
use crate::memory::MemoryRegion;

/// The data of the C library.
pub const C_LIBRARY: u64 = 0x7f30_0000_0000;
/// Bytes of that data.
pub const C_LIBRARY_BYTES: u64 = 0x4000;
pub const MAIN_ARENA: u64 = C_LIBRARY + 0xc80;
/// The program break.
pub const BREAK: u64 = 0x5555_0000_0000;
/// The first heap of the first other arena; further ones follow at the alignment of heaps.
pub const HEAPS: u64 = 0x7f40_0000_0000;
/// Bytes of the program break and of each heap.
pub const HEAP_BYTES: u64 = 0x2_1000;
/// The first chunk with a mapping of its own.
pub const MAPPED: u64 = 0x7f50_0000_0000;

/// Alignment of heaps.
const ALIGNMENT: u64 = 64 << 20;
/// Bytes of `struct heap_info`.
const HEAP_HEADER: u64 = 48;
/// Bytes from the bins to `next`, and to the end of the arena.
const NEXT: u64 = 127 * 16 + 16;
const END: u64 = NEXT + 40;
/// Value of every cached chunk's key.
const KEY: u64 = 0x5eed_5eed_5eed_5eed;

fn mapping(start: u64, end: u64, path: &str, inode: u64) -> MemoryRegion {
    MemoryRegion {
        start,
        end,
        readable: true,
        writable: true,
        private: true,
        inode,
        path: path.to_owned(),
        ..MemoryRegion::default()
    }
}

/// One arena while it is filled.
#[derive(Debug, Clone)]
struct FakeArena {
    address: u64,
    /// Where the next chunk goes.
    at: u64,
    /// Where its memory ends.
    end: u64,
    before_live: bool,
    system: u64,
}

/// A process with glibc's malloc.
#[derive(Debug, Clone)]
pub struct FakeMalloc {
    pub memory: FakeMemory,
    bins_at: u64,
    arenas: Vec<FakeArena>,
    next_heap: u64,
    next_mapped: u64,
}

impl FakeMalloc {
    /// Adds a glibc with an empty main arena to a process. `bins_at` is the offset of the bins: 112 up to 2.41, 24 in 2.43.
    pub fn new(memory: FakeMemory, bins_at: u64) -> Self {
        let mut made =
            Self { memory, bins_at, arenas: Vec::new(), next_heap: HEAPS, next_mapped: MAPPED };
        let end = C_LIBRARY + C_LIBRARY_BYTES;
        let library = "/usr/lib/x86_64-linux-gnu/libc.so.6";
        made.memory.map(mapping(C_LIBRARY, end, library, 9));
        made.memory.write(C_LIBRARY, &vec![0; C_LIBRARY_BYTES as usize]);
        made.memory.map(mapping(BREAK, BREAK + HEAP_BYTES, "[heap]", 0));
        made.memory.write(BREAK, &vec![0; HEAP_BYTES as usize]);
        made.bins(MAIN_ARENA);
        made.arenas.push(FakeArena {
            address: MAIN_ARENA,
            at: BREAK,
            end: BREAK + HEAP_BYTES,
            before_live: true,
            system: HEAP_BYTES,
        });
        made
    }

    /// Writes empty bins.
    fn bins(&mut self, arena: u64) {
        for bin in (0..127).map(|number| arena + self.bins_at + number * 16) {
            self.memory.write_word(bin, bin - 16);
            self.memory.write_word(bin + 8, bin - 16);
        }
    }

    /// Maps a heap and writes its header.
    fn heap(&mut self, arena: Option<u64>, before: u64) -> u64 {
        let heap = self.next_heap;
        self.next_heap += ALIGNMENT;
        self.memory.map_anonymous(heap, heap + HEAP_BYTES);
        self.memory.write(heap, &vec![0; HEAP_BYTES as usize]);
        self.memory.write_word(heap, arena.unwrap_or(heap + HEAP_HEADER));
        self.memory.write_word(heap + 8, before);
        self.memory.write_word(heap + 16, HEAP_BYTES);
        heap
    }

    /// Adds an arena and returns its number; the main arena is 0.
    pub fn add_arena(&mut self) -> usize {
        let heap = self.heap(None, 0);
        let address = heap + HEAP_HEADER;
        self.bins(address);
        self.arenas.push(FakeArena {
            address,
            at: (address + self.bins_at + END).next_multiple_of(16),
            end: heap + HEAP_BYTES,
            before_live: true,
            system: HEAP_BYTES,
        });
        self.arenas.len() - 1
    }

    /// Continues an arena in another heap.
    pub fn add_heap(&mut self, number: usize) {
        let arena = self.arenas[number].clone();
        // The rest of the old heap is a free chunk, and two headers without use follow.
        let rest = arena.end - 32 - arena.at;
        self.chunk(number, rest, false);
        self.memory.write_word(arena.end - 32 + 8, 16);
        self.memory.write_word(arena.end - 16 + 8, 1);
        let before = arena.end - HEAP_BYTES;
        let heap = self.heap(Some(arena.address), before);
        let arena = &mut self.arenas[number];
        arena.at = heap + HEAP_HEADER;
        arena.end = heap + HEAP_BYTES;
        arena.before_live = true;
        arena.system += HEAP_BYTES;
    }

    /// Adds a chunk behind the others and returns its address.
    pub fn chunk(&mut self, number: usize, size: u64, live: bool) -> u64 {
        let other = if number == 0 { 0 } else { 4 };
        let arena = &mut self.arenas[number];
        let address = arena.at;
        let header = size | other | u64::from(arena.before_live);
        arena.at += size;
        arena.before_live = live;
        self.memory.write_word(address + 8, header);
        address
    }

    /// Puts live chunks of one size into a fastbin, with links as 2.32 and later store them.
    pub fn fastbin(&mut self, number: usize, chunks: &[u64], size: u64) {
        let head = self.arenas[number].address + 16 + (size - 32) / 16 * 8;
        for (at, chunk) in chunks.iter().enumerate() {
            let next = chunks.get(at + 1).copied().unwrap_or(0);
            self.memory.write_word(chunk + 16, next ^ (chunk + 16) >> 12);
        }
        self.memory.write_word(head, chunks.first().copied().unwrap_or(0));
    }

    /// Adds the cache of a thread that holds live chunks of one size. `protect` as 2.32 and later.
    pub fn cache(&mut self, number: usize, chunks: &[u64], size: u64, protect: bool) -> u64 {
        let cache = self.chunk(number, 0x290, true);
        let head = cache + 16 + 128 + (size - 32) / 16 * 8;
        for (at, chunk) in chunks.iter().enumerate() {
            let user = chunk + 16;
            let next = chunks.get(at + 1).map_or(0, |next| next + 16);
            let link = if protect { next ^ user >> 12 } else { next };
            self.memory.write_word(user, link);
            self.memory.write_word(user + 8, KEY);
        }
        self.memory.write_word(head, chunks.first().map_or(0, |chunk| chunk + 16));
        cache
    }

    /// Adds a chunk with a mapping of its own, of whole pages.
    pub fn mapped(&mut self, bytes: u64) -> u64 {
        let address = self.next_mapped;
        self.next_mapped += bytes + (64 << 20);
        self.memory.map_anonymous(address, address + bytes);
        self.memory.write(address, &vec![0; bytes as usize]);
        self.memory.write_word(address + 8, bytes | 2);
        address
    }

    /// Writes the top chunk of every arena and the list of arenas.
    pub fn finish(mut self) -> FakeMemory {
        for (number, arena) in self.arenas.clone().into_iter().enumerate() {
            let bins = arena.address + self.bins_at;
            let top = arena.end - arena.at;
            self.memory.write_word(arena.at + 8, top | u64::from(arena.before_live));
            self.memory.write_word(bins - 16, arena.at);
            let next = self.arenas[(number + 1) % self.arenas.len()].address;
            self.memory.write_word(bins + NEXT, next);
            self.memory.write_word(bins + NEXT + 24, arena.system);
        }
        // mp_: mmapped_mem, max_mmapped_mem, sbrk_base.
        let mapped = (self.next_mapped - MAPPED) % (64 << 20);
        for (number, word) in [mapped, mapped, BREAK].into_iter().enumerate() {
            self.memory.write_word(C_LIBRARY + 0x40 + number as u64 * 8, word);
        }
        self.memory
    }
}
