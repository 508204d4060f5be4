//! What is reached in a process that was made up: a Ruby 3.3.

use super::forms::StTable;
use super::graph::file_bytes;
use super::record::ReferenceGraph;
use super::told::told_chunks;
use super::{Reach, ReachUnknown, Recorded, reach, reach_recorded};
use crate::elf::RubyAnchors;
use crate::fake::FakeMemory;
use crate::fake_ruby::{FakeRuby, HEAP, HEAP_PAGE};
use crate::heap::Heap;
use crate::malloc::fake_malloc::{C_LIBRARY, C_LIBRARY_BYTES, FakeMalloc};
use crate::malloc::{ChunkTable, read_malloc};
use crate::memory::{MemoryRegion, PAGE};
use crate::owners::ReachCensus;
use carat_ruby::version::{V2_7, V3_1, V3_3, V3_4};

/// The first object of class `Post`.
pub(super) const POST: u64 = HEAP + HEAP_PAGE + (HEAP_PAGE - 16) % 40 + 16;
/// Bytes of its slot.
pub(super) const SLOT: u64 = 40;
/// The VM stack of the only thread, and its newest frame.
const STACK: u64 = 0x7ff0_0000_0000;
const STACK_WORDS: u64 = 2048;
const FRAME: u64 = STACK + STACK_WORDS * 8 - 64;
/// Words of the C library's data that are roots.
pub(super) const ROOTS: u64 = C_LIBRARY + C_LIBRARY_BYTES - 64;
/// Objects to which nothing leads in the beginning: all but the first one of each of nine pages, whose made-up descriptors are no
/// chunks and so count as roots, and five classes with their singleton classes and names.
const LOST: u64 = 9 * 39 + 5 * 3;

pub(super) struct MarkedProcess {
    pub(super) made: FakeMalloc,
}

impl MarkedProcess {
    /// A process with one thread, whose three last roots are the classes that are always reached.
    pub(super) fn new() -> Self {
        let mut ruby = FakeRuby::new(9, 40);
        let anchors = RubyAnchors::find(&ruby.memory).unwrap();
        let classes = ["rb_cObject", "rb_cString", "rb_eStandardError"]
            .map(|class| anchors.value(&ruby.memory, class).unwrap());
        ruby.memory.map_anonymous(STACK, STACK + STACK_WORDS * 8);
        ruby.memory.write(STACK, &[0; STACK_WORDS as usize * 8]);
        // The frame's values end four words above the start of the stack, and it runs no bytecode.
        ruby.memory.write_word(FRAME + 8, STACK + 32);
        let mut process = Self { made: FakeMalloc::new(ruby.memory, 112) };
        for (number, class) in (5..).zip(classes) {
            process.made.memory.write_word(ROOTS + number * 8, class);
        }
        process
    }

    /// The thread's context, to which a root leads.
    pub(super) fn with_thread(mut self) -> Self {
        let context = self.chunk(0x200);
        for (number, word) in [STACK, STACK_WORDS, FRAME].into_iter().enumerate() {
            self.made.memory.write_word(context + number as u64 * 8, word);
        }
        self.made.memory.write_word(ROOTS + 32, context);
        self
    }

    /// A chunk in use of so many bytes.
    pub(super) fn chunk(&mut self, size: u64) -> u64 {
        self.made.chunk(0, size, true) + 16
    }

    fn class(&self, symbol: &str) -> u64 {
        let anchors = RubyAnchors::find(&self.made.memory).unwrap();
        anchors.value(&self.made.memory, symbol).unwrap()
    }

    pub(super) fn word(&mut self, address: u64, word: u64) {
        self.made.memory.write_word(address, word);
    }

    /// Writes a variable that Ruby's library exports.
    pub(super) fn export(&mut self, symbol: &str, value: u64) {
        let anchors = RubyAnchors::find(&self.made.memory).unwrap();
        self.word(anchors.symbol(symbol).unwrap(), value);
    }

    /// Makes an array of the object with this number; returns its chunk.
    fn array(&mut self, number: u64, length: u64) -> u64 {
        let (slot, elements) = (POST + number * SLOT, self.chunk(0x40));
        for (offset, word) in [(0, 7), (16, length), (24, 6), (32, elements)] {
            self.word(slot + offset, word);
        }
        elements
    }

    fn reach(self) -> Result<ReachCensus, ReachUnknown> {
        self.reached(|reached| reached.census())
    }

    pub(super) fn reached<T>(self, read: impl FnOnce(&Reach<'_>) -> T) -> Result<T, ReachUnknown> {
        self.learned(|memory, heap, chunks, anchors| {
            Ok(read(&reach(memory, heap, chunks, (anchors, &[]))?))
        })
    }

    /// With every reference of what is reached.
    fn recorded<T>(self, read: impl FnOnce(&ChunkTable, &Reach<'_>, &ReferenceGraph) -> T) -> T {
        self.learned(|memory, heap, chunks, anchors| {
            let boundaries = (vec![], Recorded::Reached);
            let found = reach_recorded(memory, heap, chunks, (anchors, &[]), boundaries).unwrap();
            read(chunks, &found.0, &found.1.unwrap())
        })
    }

    fn learned<T>(
        self,
        read: impl FnOnce(&FakeMemory, &Heap, &ChunkTable, &RubyAnchors) -> T,
    ) -> T {
        let mut memory = self.made.finish();
        let anchors = RubyAnchors::find(&memory).unwrap();
        let heap = Heap::find(&memory, anchors.version).unwrap();
        let is_heap_page = |address| heap.page_at(address).is_some();
        let reading = read_malloc(&mut memory, &is_heap_page, true).unwrap();
        read(&memory, &heap, &reading.chunks, &anchors)
    }
}

#[test]
fn a_table_that_claims_more_entries_than_there_is_memory_ends_where_that_does() {
    const TABLE: u64 = 0x10_0000;
    let mut memory = FakeMemory::default();
    // The entries begin in one mapping and go on in the next one, behind which nothing is.
    memory.map_anonymous(TABLE, TABLE + PAGE);
    memory.map_anonymous(TABLE + PAGE, TABLE + 2 * PAGE);
    memory.write(TABLE, &[0; 2 * PAGE as usize]);
    for (number, word) in (0..).zip([2, 0, 1, 0, 0, u64::MAX, TABLE + PAGE - 48]) {
        memory.write_word(TABLE + number * 8, word);
    }
    let table = StTable::read(&memory, TABLE).unwrap();
    assert_eq!(table.pairs(&memory, u64::MAX).count() as u64, (PAGE + 48) / 24);
}

#[test]
fn what_no_root_leads_to_would_be_freed_with_what_it_holds() {
    let mut process = MarkedProcess::new().with_thread();
    process.word(ROOTS, POST);
    let kept = process.array(0, 2);
    process.word(kept, POST + SLOT);
    // Another array is garbage, and so is what only it holds.
    let lost = process.array(2, 1);
    process.word(lost, POST + 3 * SLOT);
    process.chunk(0x60);
    let reached = process.reach().unwrap();
    assert_eq!(reached.unreached_objects, LOST - 1);
    assert_eq!((reached.unreached_chunks.chunks, reached.unreached_chunks.bytes), (1, 0x40));
    // The context, the elements, and a chunk to which no object leads, which no collection frees.
    assert_eq!(reached.reached_chunks.chunks, 3);
}

#[test]
fn garbage_is_unknown_where_the_contents_of_a_large_array_moved_while_it_was_read() {
    for (number, expected) in [(0, Err(ReachUnknown::Moved(1))), (1, Ok(()))] {
        let mut process = MarkedProcess::new().with_thread();
        process.word(ROOTS, POST);
        process.array(number, 5_000);
        // In no chunk: the array was given another one after the chunks were read.
        process.word(POST + number * SLOT + 32, 0x10_0000);
        assert_eq!(process.reach().map(drop), expected, "only what is reached counts");
    }
}

#[test]
fn garbage_is_unknown_where_a_large_array_or_hash_has_other_contents_after_it_was_read() {
    const COUNT: u64 = 5_000;
    // Arrays say in the fifth word of their slot where their elements are, hashes behind their slot's three words in a table.
    let array = (7, vec![(16, COUNT)], 32);
    let hash = (8 | 1 << 15, vec![(24 + 32, 0), (24 + 40, COUNT)], 24 + 48);
    for ((flags, words, says), room, moves, expected) in [
        (&array, COUNT * 8, 0, Ok(())),
        (&array, COUNT * 8, 64, Err(ReachUnknown::Moved(1))),
        (&array, COUNT * 8 - 64, 0, Err(ReachUnknown::Moved(1))),
        (&hash, COUNT * 24, 0, Ok(())),
        (&hash, COUNT * 24, 64, Err(ReachUnknown::Moved(1))),
        (&hash, COUNT * 24 - 64, 0, Err(ReachUnknown::Moved(1))),
    ] {
        let mut process = MarkedProcess::new().with_thread();
        process.word(ROOTS, POST);
        let contents = process.chunk(room.next_multiple_of(16) + 16);
        process.word(POST, *flags);
        for (offset, word) in words {
            process.word(POST + offset, *word);
        }
        process.word(POST + says, contents);
        process.made.memory.write_later(POST + says, contents + moves);
        assert_eq!(process.reach().map(drop), expected, "{flags} {room} {moves}");
    }
}

#[test]
fn what_an_array_held_beyond_its_length_is_not_reached() {
    let mut process = MarkedProcess::new().with_thread();
    process.word(ROOTS, POST);
    let elements = process.array(0, 1);
    process.word(elements, POST + SLOT);
    process.word(elements + 8, POST + 2 * SLOT);
    assert_eq!(process.reach().unwrap().unreached_objects, LOST - 1);
}

#[test]
fn only_the_part_of_a_stack_that_is_in_use_leads_to_objects() {
    let mut process = MarkedProcess::new().with_thread();
    process.word(STACK + 8, POST);
    process.word(FRAME + 24, POST + SLOT);
    // What earlier calls left between the values and the frames.
    process.word(STACK + 0x1000, POST + 2 * SLOT);
    assert_eq!(process.reach().unwrap().unreached_objects, LOST - 1);
}

#[test]
fn a_table_of_shared_strings_keeps_none_of_them_and_another_table_keeps_all() {
    for (is_same, kept) in [(true, 0), (false, 1)] {
        let mut process = MarkedProcess::new().with_thread();
        let [table, entries] = [0x50, 0x70].map(|size| process.chunk(size));
        let functions = C_LIBRARY + 0x100;
        for (number, word) in [2, functions, 1, 0, 0, 1, entries].into_iter().enumerate() {
            process.word(table + number as u64 * 8, word);
        }
        let string = POST + SLOT;
        process.word(string, 5);
        process.word(entries, 77);
        process.word(entries + 8, string);
        process.word(entries + 16, if is_same { string } else { POST });
        process.word(ROOTS, table);
        assert_eq!(process.reach().unwrap().unreached_objects, LOST - kept, "{is_same}");
    }
}

#[test]
fn without_the_stack_of_a_thread_nothing_is_claimed() {
    assert_eq!(MarkedProcess::new().reach().err(), Some(ReachUnknown::NoStack));
}

#[test]
fn where_even_a_class_of_ruby_is_not_reached_nothing_is_claimed() {
    let mut process = MarkedProcess::new().with_thread();
    process.word(ROOTS + 7 * 8, 0);
    assert_eq!(process.reach().err(), Some(ReachUnknown::LostClass("rb_eStandardError")));
}

#[test]
fn an_object_is_as_large_as_what_it_alone_refers_to() {
    let mut process = MarkedProcess::new().with_thread();
    let [post, array, string, shared] = [1, 2, 3, 4].map(|number| POST + number * SLOT);
    process.word(post, 1 | 1 << 13);
    process.word(post + 16, array);
    let elements = process.array(2, 2);
    process.word(elements, string);
    process.word(elements + 8, shared);
    process.word(string, 5);
    process.word(shared, 5);
    // Something else refers to this string, too.
    let other = process.chunk(0x40);
    process.word(other, shared);
    let mut bytes = [0; 4];
    process
        .reached(|reached| {
            reached.each_held(|slot, held| {
                let known = [post, array, string, shared].iter().position(|one| *one == slot);
                if let Some(known) = known {
                    bytes[known] += held;
                }
            });
        })
        .unwrap();
    // Three slots and the elements, two slots and the elements, one slot each.
    assert_eq!(bytes, [3 * SLOT + 0x40, 2 * SLOT + 0x40, SLOT, SLOT]);
}

#[test]
fn what_looks_like_a_buffer_of_a_stream_but_has_another_size_keeps_what_is_in_it() {
    let mut process = MarkedProcess::new().with_thread();
    let [stream, record] = [0x40, 0x40].map(|size| process.chunk(size));
    let file = process.rooted(2, 11);
    process.word(file + 16, stream);
    // Three words of the chunk behind: an address, a number, and an address whose low part is a size.
    let behind = process.chunk(0x40);
    for (number, word) in [record, 0, 0x7f00_0000_2000].into_iter().enumerate() {
        process.word(behind + number as u64 * 8, word);
    }
    process.word(record, KEPT);
    process.word(ROOTS + 8, behind);
    assert_eq!(process.reach().unwrap().unreached_objects, LOST - 2);
}

impl MarkedProcess {
    /// Makes captured variables of the object with this number, with one variable, inside of others; returns their chunk.
    pub(super) fn captured(&mut self, number: u64, outer: u64) -> u64 {
        let (object, variables) = (POST + number * SLOT, self.chunk(0x40));
        for (offset, word) in [(0, 26), (8, 0), (16, variables + 24), (24, variables), (32, 5)] {
            self.word(object + offset, word);
        }
        for (offset, word) in [(0, 8), (16, outer), (32, object)] {
            self.word(variables + offset, word);
        }
        variables
    }

    /// Makes an object of another type of the one with this number; a root leads to it.
    pub(super) fn rooted(&mut self, number: u64, flags: u64) -> u64 {
        let slot = POST + number * SLOT;
        self.word(slot, flags);
        self.word(ROOTS, slot);
        slot
    }
}

/// The object that is kept, or not.
pub(super) const KEPT: u64 = POST + SLOT;

#[test]
fn chunks_of_what_keeps_no_object_are_its_own_unless_others_lead_there() {
    for others in [false, true] {
        let mut process = MarkedProcess::new().with_thread();
        let [one, two, three] = [0x20, 0x30, 0x40].map(|size| process.chunk(size));
        // Without a type and without a function that marks.
        let object = process.rooted(2, 12);
        process.word(object + 32, one);
        process.word(one, two);
        process.word(two, three);
        process.word(two + 8, KEPT);
        process.word(ROOTS + 8, if others { two } else { 0 });
        process.recorded(|chunks, reached, graph| {
            let node = |user| graph.first_chunk() + chunks.exact(user).unwrap() as u32;
            let leads = |from, to| graph.of(from).contains(&node(to));
            assert!(leads(reached.slot_number(object).unwrap(), one));
            assert_eq!((leads(node(one), two), leads(node(two), three)), (!others, true));
            assert_eq!(reached.is_reached(KEPT), others);
        });
    }
}

#[test]
fn what_spare_room_of_a_pattern_still_leads_to_keeps_its_contents_and_its_only_owner() {
    // Before and behind the object, because slots are visited by address.
    for pattern_at in [2, 5] {
        let mut process = MarkedProcess::new().with_thread();
        let [pattern, code, exact, content, variables] =
            [0x1d0, 0x40, 0x20, 0x30, 0x40].map(|size| process.chunk(size));
        let regexp = process.rooted(pattern_at, 6);
        let [object, kept] = [3, 4].map(|number| POST + number * SLOT);
        process.word(regexp + 16, pattern);
        process.word(ROOTS + 8, object);
        process.word(object, 12);
        process.word(object + 16, 1);
        process.word(object + 32, content);
        process.word(content, KEPT);
        process.word(content + 8, variables);
        process.word(variables, kept);
        for (at, word) in [(0, code), (0x60, exact), (0x80, content), (0x88, variables)] {
            process.word(pattern + at, word);
        }
        let found = process.recorded(|chunks, reached, graph| {
            let node = |user| graph.first_chunk() + chunks.exact(user).unwrap() as u32;
            let leading = |user| {
                let to = node(user);
                (0..graph.nodes()).filter(|from| graph.of(*from).contains(&to)).collect::<Vec<_>>()
            };
            let owners = [code, exact, content, variables].map(leading);
            let slots = [regexp, object].map(|slot| vec![reached.slot_number(slot).unwrap()]);
            let [of_regexp, of_object] = slots;
            let expected = [of_regexp.clone(), of_regexp, of_object, vec![node(content)]];
            assert_eq!(owners, expected, "{pattern_at}");
            [KEPT, kept].map(|slot| reached.is_reached(slot))
        });
        assert_eq!(found, [true, true], "{pattern_at}");
    }
}

#[test]
fn captured_variables_keep_their_values_and_the_variables_around_them() {
    let mut process = MarkedProcess::new().with_thread();
    let outer = process.captured(3, 0);
    // The lowest bits say what the outer ones belong to.
    let inner = process.captured(2, (outer + 24) | 1);
    process.word(inner, KEPT);
    process.word(outer, POST + 4 * SLOT);
    process.word(ROOTS, POST + 2 * SLOT);
    let found = process.reached(|reached| {
        [KEPT, POST + 3 * SLOT, POST + 4 * SLOT].map(|slot| reached.is_reached(slot))
    });
    assert_eq!(found.unwrap(), [true; 3]);
}

/// What a library of Ruby executes.
const CODE: u64 = 0x7f60_0000_0000;

#[test]
fn bytecode_as_large_as_a_piece_of_the_mark_stack_keeps_what_it_refers_to() {
    let mut process = MarkedProcess::new().with_thread();
    process.made.memory.map(MemoryRegion {
        start: CODE,
        end: CODE + 0x1000,
        readable: true,
        executable: true,
        private: true,
        inode: 7,
        path: "/usr/lib/libruby-3.3.so.3.3".to_owned(),
        ..MemoryRegion::default()
    });
    let piece = process.chunk(4016);
    // Instructions are addresses of code; operands lie between them.
    process.word(piece, CODE + 0x10);
    process.word(piece + 8, KEPT);
    process.word(ROOTS, piece);
    assert!(process.reached(|reached| reached.is_reached(KEPT)).unwrap());
}

/// The bytes of the chunks that are told at these addresses, 0 for none.
fn told<const COUNT: usize>(process: MarkedProcess, at: [u64; COUNT]) -> [u64; COUNT] {
    process.learned(|memory, heap, _, anchors| {
        let told = told_chunks(memory, heap, anchors);
        at.map(|at| {
            told.exact(at).and_then(|number| told.get(number)).map_or(0, |chunk| chunk.size)
        })
    })
}

#[test]
fn an_array_tells_how_many_elements_it_has_and_two_that_contradict_each_other_tell_nothing() {
    let mut process = MarkedProcess::new();
    let (one, two) = (process.array(0, 2), process.array(1, 3));
    let three = process.array(2, 4);
    // The third array says that it begins in the middle of the second.
    process.word(POST + 2 * SLOT + 32, two + 8);
    assert_eq!(told(process, [one, two, two + 8, three]), [16, 0, 0, 0]);
}

#[test]
fn a_class_tells_its_constants_if_their_table_has_as_many_names_as_it_says() {
    for (names, expected) in [(1_u64, [24, 64, 24]), (2, [0, 0, 0])] {
        let mut process = MarkedProcess::new();
        let [table, items, constant] = [(); 3].map(|()| process.chunk(0x60));
        // {capacity, number, used; items}, {key, collision; value}, {flags, line; value; file}.
        for (at, word) in [
            (table, 4 | names << 32),
            (table + 8, 2),
            (table + 16, items),
            (items + 16, 77),
            (items + 24, constant),
            (constant, 7 << 32),
            (constant + 8, POST),
            (constant + 16, 0),
        ] {
            process.word(at, word);
        }
        let class = process.class("rb_cObject");
        process.word(class + 40, table);
        assert_eq!(told(process, [table, items, constant]), expected, "{names}");
    }
}

#[test]
fn what_is_in_swap_leaves_garbage_unknown() {
    const ELSEWHERE: u64 = 0x7f70_0000_0000;
    for (is_swapped, expected) in [(false, Ok(())), (true, Err(ReachUnknown::Swapped(PAGE)))] {
        let mut process = MarkedProcess::new().with_thread();
        process.made.memory.map_anonymous(ELSEWHERE, ELSEWHERE + 2 * PAGE);
        if is_swapped {
            process.made.memory.swap_out(ELSEWHERE + PAGE);
        }
        assert_eq!(process.reach().map(drop), expected);
    }
}

#[test]
fn what_is_told_alone_leaves_garbage_unknown() {
    let process = MarkedProcess::new().with_thread();
    let whole = process.learned(|memory, heap, chunks, anchors| {
        let told = ChunkTable::told(chunks.iter().collect(), memory);
        reach(memory, heap, &told, (anchors, &[])).map(drop)
    });
    assert_eq!(whole, Err(ReachUnknown::Told));
}

#[test]
fn what_is_known_of_a_file_is_as_long_as_each_ruby_says() {
    // `ObjectSpace.memsize_of` of a file that was not read from, without its slot of 40 bytes.
    for (version, bytes) in [(V2_7, 192), (V3_1, 200), (V3_3, 208), (V3_4, 208)] {
        assert_eq!(file_bytes(version), bytes, "{version}");
    }
}
