//! Owners in a process that was made up.

use super::{ChunkLoad, HolderKind, Owner, OwnerCensus, Owners, ThreadPlace, find_owners};
use crate::elf::RubyAnchors;
use crate::fake_ruby::{FakeRuby, HEAP, HEAP_PAGE};
use crate::heap::{ClassNames, Heap};
use crate::jit::Jit;
use crate::malloc::fake_malloc::{C_LIBRARY, C_LIBRARY_BYTES, FakeMalloc};
use crate::malloc::{ChunkAmount, ChunkTable, read_malloc};
use crate::memory::Memory;

/// The first object of class `Post`.
const POST: u64 = HEAP + HEAP_PAGE + (HEAP_PAGE - 16) % 40 + 16;
/// The mapping of a thread's stack.
const STACK: u64 = 0x7ff0_0000_0000;

struct FakeProcess {
    made: FakeMalloc,
}

/// What was found, and the table.
struct Found {
    owners: Owners,
    census: OwnerCensus,
    chunks: ChunkTable,
}

impl FakeProcess {
    fn new() -> Self {
        let mut ruby = FakeRuby::new(9, 40);
        ruby.memory.map_anonymous(STACK, STACK + 0x4000);
        ruby.memory.write(STACK, &[0; 0x4000]);
        Self { made: FakeMalloc::new(ruby.memory, 112) }
    }

    /// A chunk in use; `from` has a pointer to it, so many bytes behind its start.
    fn chunk(&mut self, from: Option<u64>, ahead: u64) -> u64 {
        let user = self.made.chunk(0, 0x40, true) + 16;
        if let Some(from) = from {
            self.made.memory.write_word(from, user + ahead);
        }
        user
    }

    fn find(self) -> Found {
        let mut memory = self.made.finish();
        let anchors = RubyAnchors::find(&memory).unwrap();
        let heap = Heap::find(&memory, anchors.version).unwrap();
        let mut names = ClassNames::learn(&memory, &heap, &anchors).unwrap();
        let is_heap_page = |address| heap.page_at(address).is_some();
        let reading = read_malloc(&mut memory, &is_heap_page, true).unwrap();
        let threads = [ThreadPlace {
            id: 7,
            inner_id: 7,
            name: "worker".to_owned(),
            stack_pointer: Some(STACK + 0x3000),
        }];
        let jit = Jit::find(&memory, &heap, &reading.chunks);
        let owners =
            find_owners(&memory, &heap, &mut names, &reading.chunks, &threads, jit.as_ref());
        let census = owners.census(&reading.chunks, None);
        let announced = ChunkLoad::of(&reading.census, 0).need(7).bytes;
        assert!(census.needed_bytes <= announced, "{announced} of {}", census.needed_bytes);
        assert!(census.needed_bytes >= reading.chunks.len() as u64 * ChunkTable::CHUNK_BYTES);
        Found { owners, census, chunks: reading.chunks }
    }
}

impl Found {
    fn holder(&self, user: u64) -> Option<(HolderKind, String)> {
        let chunk = self.chunks.exact(user).unwrap();
        self.owners.describe(self.owners.of(chunk))
    }
}

#[test]
fn the_first_post_is_where_the_test_expects_it() {
    let ruby = FakeRuby::new(9, 40);
    assert_eq!(ruby.memory.word(POST), Some(1));
    assert_ne!(ruby.memory.word(POST - 40), Some(1));
}

#[test]
fn a_chunk_belongs_to_the_object_that_leads_to_it() {
    let mut process = FakeProcess::new();
    let buffer = process.chunk(Some(POST + 16), 0);
    let further = process.chunk(Some(buffer + 8), 0);
    let found = process.find();
    for user in [buffer, further] {
        assert_eq!(found.holder(user), Some((HolderKind::Class, "Post".to_owned())));
    }
    assert_eq!(found.census.of_kind(HolderKind::Class), ChunkAmount::resident(2, 0x80));
    assert_eq!(found.census.nobody, ChunkAmount::default());
}

#[test]
fn a_chunk_without_a_pointer_is_held_by_nobody_with_its_size() {
    let mut process = FakeProcess::new();
    let lost = process.chunk(None, 0);
    // A chunk that only a lost one points at is lost as well.
    process.chunk(Some(lost + 8), 0);
    let found = process.find();
    assert_eq!(found.holder(lost), None);
    assert_eq!(found.census.nobody, ChunkAmount::resident(2, 0x80));
    assert_eq!(found.census.nobody_sizes.len(), 1);
    assert_eq!(found.census.nobody_sizes[0].size, 0x40);
    assert_eq!(found.census.held_share(), Some(0.0));
}

#[test]
fn the_nearest_holder_counts_and_the_start_of_a_chunk_before_its_middle() {
    let mut process = FakeProcess::new();
    let library = C_LIBRARY + C_LIBRARY_BYTES - 64;
    let near = process.chunk(Some(library), 0);
    let first = process.chunk(Some(POST + 16), 0);
    process.made.memory.write_word(first + 8, near);
    // A library points into the middle, a chunk of Post at the start.
    let middle = process.chunk(Some(library + 8), 24);
    process.made.memory.write_word(first + 16, middle);
    let only_middle = process.chunk(Some(library + 16), 24);
    let found = process.find();
    let library = Some((HolderKind::Library, "libc.so.6".to_owned()));
    assert_eq!(found.holder(near), library);
    assert_eq!(found.holder(middle), Some((HolderKind::Class, "Post".to_owned())));
    assert_eq!(found.holder(only_middle), library);
}

#[test]
fn a_threads_stack_counts_from_its_stack_pointer_up() {
    let mut process = FakeProcess::new();
    let held = process.chunk(Some(STACK + 0x3100), 0);
    // What earlier calls left behind.
    let old = process.chunk(Some(STACK + 0x2000), 0);
    let found = process.find();
    assert_eq!(found.holder(held), Some((HolderKind::Thread, "worker".to_owned())));
    assert_eq!(found.holder(old), None);
    let chunk = found.chunks.exact(held).unwrap();
    assert_eq!(found.owners.of(chunk), Owner::Thread(0));
}

#[test]
fn a_pointer_past_the_end_of_a_chunk_holds_nothing() {
    let mut process = FakeProcess::new();
    process.chunk(Some(POST + 16), 0x30 + 8);
    let next = process.chunk(None, 0);
    let found = process.find();
    assert_eq!(found.holder(next), None);
}
