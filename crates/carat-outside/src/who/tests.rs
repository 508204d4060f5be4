//! Who keeps what in a process that was made up: a Ruby 3.3 whose tables of names are missing.

use super::{Way, WayLink, WayRoot, WhoCensus, WhoRequest, WhoSources, find_who};
use crate::elf::RubyAnchors;
use crate::fake::FakeMemory;
use crate::fake_ruby::{FakeRuby, HEAP, HEAP_PAGE};
use crate::heap::Heap;
use crate::malloc::fake_malloc::{C_LIBRARY, C_LIBRARY_BYTES, FakeMalloc};
use crate::malloc::read_malloc;
use crate::memory::{Memory, MemoryRegion};

const POST: u64 = HEAP + HEAP_PAGE + (HEAP_PAGE - 16) % 40 + 16;
const SLOT: u64 = 40;
const STACK: u64 = 0x7ff0_0000_0000;
const STACK_WORDS: u64 = 2048;
const FRAME: u64 = STACK + STACK_WORDS * 8 - 64;
const ROOTS: u64 = C_LIBRARY + C_LIBRARY_BYTES - 128;

/// A process with one thread.
fn made() -> FakeMalloc {
    let mut ruby = FakeRuby::new(9, 40);
    let anchors = RubyAnchors::find(&ruby.memory).unwrap();
    let classes = ["rb_cObject", "rb_cString", "rb_eStandardError"]
        .map(|class| anchors.value(&ruby.memory, class).unwrap());
    ruby.memory.map_anonymous(STACK, STACK + STACK_WORDS * 8);
    ruby.memory.write(STACK, &[0; STACK_WORDS as usize * 8]);
    ruby.memory.write_word(FRAME + 8, STACK + 32);
    let mut made = FakeMalloc::new(ruby.memory, 112);
    for (number, class) in (10..).zip(classes) {
        made.memory.write_word(ROOTS + number * 8, class);
    }
    let context = made.chunk(0, 0x200, true) + 16;
    for (number, word) in [STACK, STACK_WORDS, FRAME].into_iter().enumerate() {
        made.memory.write_word(context + number as u64 * 8, word);
    }
    made.memory.write_word(ROOTS + 72, context);
    made
}

/// Makes an array of the object with this number, which holds so many objects from `first` on; returns its chunk.
fn array(made: &mut FakeMalloc, number: u64, first: u64, count: u64) -> u64 {
    let elements = made.chunk(0, (count * 8 + 24) & !15, true) + 16;
    for (offset, word) in [(0, 7), (16, count), (24, 6), (32, elements)] {
        made.memory.write_word(POST + number * SLOT + offset, word);
    }
    for place in 0..count {
        made.memory.write_word(elements + place * 8, POST + (first + place) * SLOT);
    }
    elements
}

fn find(memory: &mut dyn Memory, class: Option<&str>) -> WhoCensus {
    let anchors = RubyAnchors::find(memory).unwrap();
    let heap = Heap::find(memory, anchors.version).unwrap();
    let is_heap_page = |address| heap.page_at(address).is_some();
    let reading = read_malloc(memory, &is_heap_page, true).unwrap();
    let (chunks, open) = (&reading.chunks, &|_: &MemoryRegion| None);
    let sources = WhoSources { heap: &heap, chunks, anchors: &anchors, threads: &[], open };
    let classes = class.map(str::to_owned).into_iter().collect();
    let found =
        find_who(memory, &sources, &WhoRequest { classes, ..WhoRequest::default() }).unwrap();
    let garbage: u64 = found.garbage.values().sum();
    assert_eq!(garbage, found.reach.unwrap().unreached_objects);
    for class in &found.who.classes {
        assert_eq!(
            class.garbage_objects,
            Some(found.garbage.get(&class.name).copied().unwrap_or(0))
        );
    }
    found.who
}

#[test]
fn an_object_is_kept_by_an_element_of_an_array_and_counts_for_it() {
    let mut made = made();
    array(&mut made, 0, 1, 30);
    made.memory.write_word(ROOTS, POST);
    let mut memory = made.finish();
    let who = find(&mut memory, Some("Post"));
    let class = &who.classes[0];
    // The array itself is of this class too.
    let way = class.ways.iter().find(|way| way.objects == 30).unwrap();
    assert!(
        matches!(way.way.steps[..], [ref step] if matches!(step.link, WayLink::Element(Some(_))))
    );
    assert_eq!(way.way.root, Some(WayRoot::OtherMemory));
    assert!(class.garbage_objects > Some(200) && class.objects > 300, "{class:?}");
    // Where tables of names were not found, that is said.
    assert!(!who.unnamed.is_empty() && who.left_out == 0);
}

/// Memory in which words are other ones from some reading on.
struct Changed<'a> {
    memory: &'a mut FakeMemory,
    refreshed: bool,
    /// Addresses, and what is there then.
    then: Vec<(u64, u64)>,
}

impl<'a> Changed<'a> {
    const fn new(memory: &'a mut FakeMemory, then: Vec<(u64, u64)>) -> Self {
        Self { memory, refreshed: false, then }
    }
}

impl Memory for Changed<'_> {
    fn regions(&self) -> &[MemoryRegion] {
        self.memory.regions()
    }

    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let read = self.memory.read(address, into);
        let then = self.then.iter().find(|(at, _)| self.refreshed && *at == address);
        if let Some((_, word)) = then {
            into.copy_from_slice(&word.to_le_bytes()[..into.len()]);
        }
        read
    }

    fn refresh(&mut self, start: u64, end: u64) {
        self.refreshed |= self.then.iter().any(|(at, _)| (start..end).contains(at));
    }
}

/// Ways to elements, and whether none was left out.
fn elements_found(who: &WhoCensus) -> (usize, bool) {
    let is_element =
        |way: &Way| way.steps.first().is_some_and(|step| matches!(step.link, WayLink::Element(_)));
    let found = who.classes[0].ways.iter().filter(|way| is_element(&way.way)).count();
    (found, who.left_out == 0)
}

#[test]
fn a_way_that_does_not_hold_when_it_is_read_again_is_left_out_and_counted() {
    // The first element is another object by then, of which there are more; or the array is none any more.
    for (is_array, ways) in [(true, 1), (false, 0)] {
        let mut made = made();
        let chunk = array(&mut made, 0, 1, 30);
        made.memory.write_word(ROOTS, POST);
        let mut memory = made.finish();
        let at = if is_array { chunk } else { POST };
        let who = find(&mut Changed::new(&mut memory, vec![(at, 0)]), Some("Post"));
        assert_eq!(elements_found(&who), (ways, is_array), "{at:#x}");
    }
}

#[test]
fn a_way_holds_where_the_contents_of_an_array_moved_and_only_if_the_object_is_in_its_place_there() {
    for (moved_by, ways) in [(0, 1), (1, 0)] {
        let mut made = made();
        let old = array(&mut made, 0, 1, 30);
        let now = made.chunk(0, 0x400, true) + 16;
        made.memory.write_word(ROOTS, POST);
        let mut memory = made.finish();
        let mut then = vec![(POST + 32, now)];
        for place in 0..30 {
            then.push((old + place * 8, 0));
            then.push((now + (place + moved_by) * 8, POST + (1 + place) * SLOT));
        }
        let who = find(&mut Changed::new(&mut memory, then), Some("Post"));
        assert_eq!(elements_found(&who), (ways, ways == 1), "{moved_by}");
    }
}

#[test]
fn a_ring_and_a_list_of_objects_that_is_longer_than_a_way_end() {
    let mut made = made();
    for number in 0..38 {
        array(&mut made, number, (number + 1) % 39, 1);
    }
    made.memory.write_word(ROOTS, POST);
    let mut memory = made.finish();
    let who = find(&mut memory, Some("Post"));
    let longest = who.classes[0].ways.iter().map(|way| way.way.steps.len()).max();
    assert!(longest.is_some_and(|steps| steps <= 20), "{longest:?}");
}
