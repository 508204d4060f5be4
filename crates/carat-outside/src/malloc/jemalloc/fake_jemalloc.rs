//! The memory of a jemalloc that is made up, for tests and as the start of fuzzed inputs.

use super::layout::{BITMAP, Extent, Family, LAYOUTS, TreeLayout, class_bytes};
use crate::fake::FakeMemory;
use crate::memory::{Memory, MemoryRegion, PAGE};

/// The file with the first jemalloc: its first page, its data, its zeroed data with the root.
pub const LIBRARY: u64 = 0x7f60_0000_0000;
pub const ROOT: u64 = LIBRARY + 2 * PAGE + 0x140;
/// The block of its own memory: a leaf, then a node, records, decay times.
pub const BLOCK: u64 = 0x7f70_0000_0000;
/// Bytes of the block.
pub const BLOCK_BYTES: u64 = 8 << 20;
pub const LEAF: u64 = BLOCK + PAGE;
/// The first record.
pub const RECORDS: u64 = BLOCK + (4 << 20);
/// The first extent.
pub const EXTENTS: u64 = 0x7f80_0000_0000;
/// The stack of a thread, with its thread-local data.
pub const STACK: u64 = 0x7f90_0000_0000;
/// Bytes of the stack.
pub const STACK_BYTES: u64 = 16 * PAGE;
/// Distance from a jemalloc to the next one in the same process.
pub const COPY: u64 = 1 << 32;
/// Number of layouts that can be made.
pub const LAYOUT_COUNT: usize = LAYOUTS.len();

/// Where a node is in the block, and where decay times are.
const NODE: u64 = 3 << 20;
const DECAYS: u64 = 7 << 20;
/// Bytes of the mapping of extents.
const EXTENTS_BYTES: u64 = 64 << 20;
/// Regions that each bin of a cache has room for.
const CACHED: u64 = 8;
/// Bins of a cache.
const BINS: u64 = 40;
/// Classes of the regions that a cache of 5.2 has in its first bins.
const SMALL_BINS: u64 = 36;

/// A process with jemalloc's malloc.
#[derive(Debug, Clone)]
pub struct FakeJemalloc {
    pub memory: FakeMemory,
    layout: TreeLayout,
    /// What is added to all addresses.
    shift: u64,
    next: u64,
    next_record: u64,
    next_cache: u64,
}

/// An extent to be made.
struct NewExtent {
    arena: u64,
    class: u64,
    bytes: u64,
    state: u64,
    is_slab: bool,
    /// Where the region begins in the first page.
    offset: u64,
    /// Free regions of a slab.
    free: u64,
}

impl FakeJemalloc {
    /// Adds a jemalloc without extents to a process: of the layout with this number below [`LAYOUT_COUNT`], as the `copy`-th
    /// one of the process.
    pub fn new(memory: FakeMemory, layout: usize, copy: u64) -> Self {
        let layout = LAYOUTS[layout];
        let shift = copy * COPY;
        let mut made = Self {
            memory,
            layout,
            shift,
            next: EXTENTS + shift,
            next_record: RECORDS + shift,
            next_cache: STACK + shift + 0x100,
        };
        made.library();
        let block = BLOCK + shift;
        made.memory.map_anonymous(block, block + BLOCK_BYTES);
        made.memory.write_word(block, BLOCK_BYTES);
        made.memory.write_word(block + 8, 0);
        made.memory.map_anonymous(EXTENTS + shift, EXTENTS + shift + EXTENTS_BYTES);
        made.memory.map_anonymous(STACK + shift, STACK + shift + STACK_BYTES);
        made.memory.write(STACK + shift, &vec![0; STACK_BYTES as usize]);
        made.tree();
        made
    }

    /// The file, with a table of segments that says how much of its data is zeroed.
    fn library(&mut self) {
        let start = LIBRARY + self.shift;
        let zeroed = self.layout.node_bytes() + PAGE;
        let path = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
        let mapping = |from: u64, bytes: u64, writable, is_file: bool| MemoryRegion {
            start: start + from,
            end: start + from + bytes,
            readable: true,
            writable,
            private: true,
            offset: if is_file { from } else { 0 },
            inode: if is_file { 11 + self.shift } else { 0 },
            path: if is_file { path.to_owned() } else { String::new() },
            ..MemoryRegion::default()
        };
        let parts = [
            mapping(0, PAGE, false, true),
            mapping(PAGE, PAGE, true, true),
            mapping(2 * PAGE, zeroed, true, false),
        ];
        parts.into_iter().for_each(|part| self.memory.map(part));
        let mut header = vec![0; PAGE as usize];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        header[16] = 3;
        header[32] = 64;
        header[54] = 56;
        header[56] = 1;
        // PT_LOAD, readable and writable: address, bytes in the file, bytes in memory.
        (header[64], header[68]) = (1, 6);
        for (place, word) in [(80, PAGE), (96, PAGE), (104, PAGE + zeroed)] {
            header[place..place + 8].copy_from_slice(&word.to_le_bytes());
        }
        self.memory.write(start, &header);
        self.memory.write(start + PAGE, &vec![0; PAGE as usize]);
    }

    /// The root, and with three levels a node.
    fn tree(&mut self) {
        let prefix = (EXTENTS + self.shift) >> self.layout.leaf_bits();
        let (root, leaf, node) = (ROOT + self.shift, LEAF + self.shift, BLOCK + NODE + self.shift);
        if self.layout.levels == 2 {
            self.memory.write_word(root + prefix * 8, leaf);
        } else {
            let within = prefix & (self.layout.entries() - 1);
            self.memory.write_word(root + (prefix >> self.layout.level_bits) * 8, node);
            self.memory.write_word(node + within * 8, leaf);
        }
    }

    /// Adds a slab of that many pages, of which the first `used` regions are in use; returns its address.
    pub fn slab(&mut self, arena: u64, class: u64, pages: u64, used: u64) -> u64 {
        let bytes = pages * self.layout.page();
        let size = class_bytes(class).unwrap_or(8);
        let regions = bytes / size;
        let free = regions - used;
        let (state, record) = (Extent::ACTIVE, self.next_record);
        let address =
            self.extent(&NewExtent { arena, class, bytes, state, is_slab: true, offset: 0, free });
        for word in 0..regions.div_ceil(64) {
            let bits = (0..64).filter(|bit| (used..regions).contains(&(word * 64 + bit)));
            let word_of_bits = bits.fold(0_u64, |word, bit| word | 1 << bit);
            self.memory.write_word(record + BITMAP + word * 8, word_of_bits);
        }
        self.memory.write(address, &vec![0; bytes as usize]);
        address
    }

    /// Adds a region with an extent of its own that begins `offset` bytes behind its page; returns its address. The extent
    /// has a page more than the region, which is not in memory.
    pub fn large(&mut self, arena: u64, class: u64, offset: u64) -> u64 {
        let size = class_bytes(class).unwrap_or(8);
        self.large_of(arena, class, offset, size.next_multiple_of(self.layout.page()))
    }

    /// The same for a region of so many bytes, whole pages, that is smaller than its class.
    pub fn large_of(&mut self, arena: u64, class: u64, offset: u64, size: u64) -> u64 {
        let bytes = size + self.layout.page();
        let state = Extent::ACTIVE;
        let address =
            self.extent(&NewExtent { arena, class, bytes, state, is_slab: false, offset, free: 0 });
        self.memory.write(address, &vec![0; size as usize]);
        address
    }

    /// Adds an unused extent: dirty (1), muzzy (2) or retained (3). The first two have their first page in memory.
    pub fn unused(&mut self, arena: u64, pages: u64, state: u64) -> u64 {
        let bytes = pages * self.layout.page();
        let extent =
            NewExtent { arena, class: 9, bytes, state, is_slab: false, offset: 0, free: 0 };
        let address = self.extent(&extent);
        if state != Extent::RETAINED {
            self.memory.write(address, &[0; PAGE as usize]);
        }
        address
    }

    fn extent(&mut self, new: &NewExtent) -> u64 {
        let start = self.next;
        let record = self.next_record;
        self.next += new.bytes;
        self.next_record += if self.layout.page_bits > 12 { 2048 } else { 128 };
        let common = new.arena | u64::from(new.is_slab) << 12 | 1 << 13;
        let bits = match self.layout.family {
            Family::Edata => common | new.state << 17 | new.class << 20 | new.free << 28,
            Family::Extents => {
                common | 1 << 14 | new.state << 16 | new.class << 18 | new.free << 26
            }
        };
        self.memory.write_word(record, bits);
        self.memory.write_word(record + 8, start + new.offset);
        self.memory.write_word(record + 16, new.bytes | 5);
        let pages = new.bytes / self.layout.page();
        for page in 0..pages {
            if new.is_slab || page == 0 || page + 1 == pages {
                self.entry(start + page * self.layout.page(), record, new);
            }
        }
        start + new.offset
    }

    /// Writes the entry of a page.
    fn entry(&mut self, page: u64, record: u64, new: &NewExtent) {
        let number = page >> self.layout.page_bits & (self.layout.entries() - 1);
        let at = LEAF + self.shift + number * self.layout.entry_bytes();
        let slab = u64::from(new.is_slab);
        let state = if self.layout.family == Family::Edata { new.state << 2 } else { 0 };
        if self.layout.is_compact {
            return self.memory.write_word(at, new.class << 48 | record | state | slab);
        }
        let meta = match self.layout.family {
            Family::Edata => new.class << 5 | state | slab,
            Family::Extents => new.class | slab << 32,
        };
        self.memory.write_word(at, record);
        self.memory.write_word(at + 8, meta);
    }

    /// Marks the extent that was added last as one of the huge-page allocator.
    pub fn make_huge(&mut self) {
        let record = self.next_record - if self.layout.page_bits > 12 { 2048 } else { 128 };
        let bits = word_of(&self.memory, record) | 1 << 14;
        self.memory.write_word(record, bits);
    }

    /// Adds the cache of a thread with these regions, each with the number of its class, and a region for its stacks; returns
    /// the address of that region.
    pub fn cache(&mut self, regions: &[(u64, u64)]) -> u64 {
        // A class of 5120 bytes has room for all stacks.
        let stacks = self.slab(0, 29, 5, 1);
        let cache = self.next_cache;
        self.next_cache += 0x800;
        let is_new = self.layout.family == Family::Edata;
        for bin in 0..BINS {
            let start = stacks + 64 + bin * CACHED * 8;
            let end = start + CACHED * 8;
            let held: Vec<u64> =
                regions.iter().filter(|region| region.0 == bin).map(|region| region.1).collect();
            let head = end - held.len() as u64 * 8;
            for (number, region) in (0..).zip(&held) {
                self.memory.write_word(head + number * 8, *region);
            }
            // Between both kinds of bins of 5.2 are other fields.
            let gap = if is_new || bin < SMALL_BINS { 0 } else { 64 };
            let at = cache + bin * 24 + gap;
            let words = match is_new {
                true => [head, 7, head & 0xffff | (start & 0xffff) << 16 | (end & 0xffff) << 32],
                false => [(held.len() as u64) << 32, 7, end],
            };
            for (number, word) in (0..).zip(words) {
                self.memory.write_word(at + number * 8, word);
            }
        }
        stacks
    }

    /// Adds decay times of an arena.
    pub fn decay(&mut self, dirty_ms: u64, muzzy_ms: u64) {
        for (place, time_ms) in [(0, dirty_ms), (1800, muzzy_ms)] {
            let at = BLOCK + DECAYS + self.shift + place;
            let (epoch, step) = (9_000_000_000, time_ms * 5000);
            for (number, word) in (0..).zip([time_ms, step, epoch, at - 104, epoch + step]) {
                self.memory.write_word(at + number * 8, word);
            }
        }
    }
}

/// A word that was written; 0 where none was.
fn word_of(memory: &FakeMemory, address: u64) -> u64 {
    memory.word(address).unwrap_or(0)
}
