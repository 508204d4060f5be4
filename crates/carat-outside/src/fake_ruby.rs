//! A made-up process with the memory of a small Ruby 3.3, for tests and as the start of fuzzed inputs.

use crate::bytes::align_up;
use crate::elf::MACHINE;
use crate::fake::FakeMemory;
use crate::memory::{MemoryRegion, PAGE};

/// First byte of the library.
pub const LIBRARY: u64 = 0x7f00_0000_0000;
/// The first heap page.
pub const HEAP: u64 = 0x7f10_0000_0000;
/// The first descriptor; the others follow, a memory page each.
pub const DESCRIPTORS: u64 = 0x7f20_0000_0000;
/// Bytes of a heap page.
pub const HEAP_PAGE: u64 = 64 << 10;
/// Bytes of the library.
pub(crate) const LIBRARY_BYTES: u64 = 0x4000;
/// Places in the library.
const DYNAMIC: u64 = 0x200;
const STRINGS: u64 = 0x400;
const SYMBOLS: u64 = 0x1000;
const HASHES: u64 = 0x1800;
const DATA: u64 = 0x2000;
/// The known classes: symbol, name.
const CLASSES: [(&str, &str); 9] = [
    ("rb_cObject", "Object"),
    ("rb_cString", "String"),
    ("rb_cArray", "Array"),
    ("rb_cInteger", "Integer"),
    ("rb_mKernel", "Kernel"),
    ("rb_cHash", "Hash"),
    ("rb_mComparable", "Comparable"),
    ("rb_eException", "Exception"),
    ("rb_eStandardError", "StandardError"),
];

/// The process.
#[derive(Debug, Clone)]
pub struct FakeRuby {
    pub memory: FakeMemory,
    /// Heap pages.
    pub pages: u64,
    next_slot: u64,
    last_slot: u64,
}

impl FakeRuby {
    /// A Ruby with a page of classes and so many pages of objects, each with `objects` objects of class `Post`.
    pub fn new(object_pages: u64, objects: u64) -> Self {
        let mut ruby = Self { memory: FakeMemory::default(), pages: 0, next_slot: 0, last_slot: 0 };
        let pages = object_pages + 1;
        ruby.memory.map(MemoryRegion {
            start: LIBRARY,
            end: LIBRARY + LIBRARY_BYTES,
            readable: true,
            private: true,
            inode: 7,
            path: "/usr/lib/libruby-3.3.so.3.3".to_owned(),
            ..MemoryRegion::default()
        });
        ruby.memory.map_anonymous(HEAP, HEAP + pages * HEAP_PAGE);
        ruby.memory.map_anonymous(DESCRIPTORS, DESCRIPTORS + pages * PAGE);
        let first = ruby.add_page(160);
        (ruby.next_slot, ruby.last_slot) = (first, HEAP + HEAP_PAGE - 160);
        let classes: Vec<(&str, u64)> =
            CLASSES.iter().map(|(symbol, name)| (*symbol, ruby.add_class(name))).collect();
        // StandardError < Exception < Object.
        ruby.memory.write_word(classes[8].1 + 16, classes[7].1);
        ruby.memory.write_word(classes[7].1 + 16, classes[0].1);
        ruby.write_library(&classes);
        let post = ruby.add_class("Post");
        for _ in 0..object_pages {
            let start = ruby.add_page(40);
            for number in 0..objects {
                ruby.memory.write_word(start + number * 40, 1);
                ruby.memory.write_word(start + number * 40 + 8, post);
            }
        }
        ruby
    }

    /// Adds a heap page with slots of so many bytes; returns the address of the first slot.
    pub fn add_page(&mut self, slot_bytes: u64) -> u64 {
        let page = HEAP + self.pages * HEAP_PAGE;
        let descriptor = DESCRIPTORS + self.pages * PAGE;
        self.pages += 1;
        let slots = (HEAP_PAGE - 16) / slot_bytes;
        let start = page + HEAP_PAGE - slots * slot_bytes;
        // Every byte becomes present.
        self.memory.write(page, &vec![0; HEAP_PAGE as usize]);
        self.memory.write(descriptor, &vec![0; PAGE as usize]);
        self.memory.write_word(page, descriptor);
        self.memory.write(descriptor, &(slot_bytes as u16).to_le_bytes());
        self.memory.write(descriptor + 2, &(slots as u16).to_le_bytes());
        self.memory.write_word(descriptor + 32, start);
        start
    }

    /// A class and its singleton class, with a name.
    fn add_class(&mut self, name: &str) -> u64 {
        let [class, singleton, text] = [0; 3].map(|_: u64| self.take_slot());
        self.memory.write_word(text, 5 | 1 << 11);
        self.memory.write_word(text + 8, class);
        self.memory.write_word(text + 16, name.len() as u64);
        self.memory.write(text + 24, name.as_bytes());
        self.memory.write_word(singleton, 2 | 1 << 12);
        self.memory.write_word(singleton + 8, singleton);
        self.memory.write_word(singleton + 16, class);
        self.memory.write_word(class, 2);
        self.memory.write_word(class + 8, singleton);
        self.memory.write_word(class + 152, text);
        class
    }

    fn take_slot(&mut self) -> u64 {
        let slot = self.next_slot;
        debug_assert!(slot <= self.last_slot);
        self.next_slot += 160;
        slot
    }

    /// A library with one hash bucket, so that every lookup walks the whole chain.
    fn write_library(&mut self, classes: &[(&str, u64)]) {
        let mut header = [0_u8; 64];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        header[16] = 3;
        header[18..20].copy_from_slice(&MACHINE.to_le_bytes());
        header[32] = 64;
        header[54] = 56;
        header[56] = 1;
        self.memory.write(LIBRARY, &vec![0; LIBRARY_BYTES as usize]);
        self.memory.write(LIBRARY, &header);
        self.memory.write(LIBRARY + 64, &2_u32.to_le_bytes());
        self.memory.write_word(LIBRARY + 64 + 16, DYNAMIC);
        self.memory.write_word(LIBRARY + 64 + 40, 80);
        let tables =
            [(5, STRINGS), (10, SYMBOLS - STRINGS), (6, SYMBOLS), (0x6fff_fef5, HASHES), (0, 0)];
        for (number, (tag, value)) in tables.into_iter().enumerate() {
            let entry = LIBRARY + DYNAMIC + number as u64 * 16;
            self.memory.write_word(entry, tag);
            self.memory.write_word(entry + 8, value);
        }
        // One bucket that starts at symbol 1, a filter of one word.
        for (number, half) in [1_u32, 1, 1, 0, 0, 0, 1].into_iter().enumerate() {
            self.memory.write(LIBRARY + HASHES + number as u64 * 4, &half.to_le_bytes());
        }
        let mut names = vec!["ruby_version"];
        names.extend(classes.iter().map(|(symbol, _)| *symbol));
        names.push("ruby_current_vm_ptr");
        let mut text = 1;
        for (number, name) in names.iter().enumerate() {
            let last = number + 1 == names.len();
            let hash = name
                .bytes()
                .fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
            let chain = LIBRARY + HASHES + 28 + number as u64 * 4;
            self.memory.write(chain, &((hash & !1) | u32::from(last)).to_le_bytes());
            let symbol = LIBRARY + SYMBOLS + (number as u64 + 1) * 24;
            self.memory.write(symbol, &(text as u32).to_le_bytes());
            self.memory.write_word(symbol + 8, DATA + number as u64 * 16);
            self.memory.write(LIBRARY + STRINGS + text, name.as_bytes());
            text = align_up(text + name.len() as u64 + 1, 2);
        }
        self.memory.write(LIBRARY + DATA, b"3.3.8\0");
        for (number, (_, class)) in classes.iter().enumerate() {
            self.memory.write_word(LIBRARY + DATA + (number as u64 + 1) * 16, *class);
        }
    }
}
