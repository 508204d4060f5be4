//! The readers on memory that is made up: what a sound process gives, and what wrong values lead to.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use carat_outside::elf::RubyAnchors;
use carat_outside::fake_ruby::{DESCRIPTORS, FakeRuby, HEAP, HEAP_PAGE, LIBRARY};
use carat_outside::heap::{
    ClassNames, CountRequest, Counted, Heap, HeapUnknown, NamesUnknown, count,
};
use carat_outside::memory::{Memory, MemoryRegion, PAGE};

fn anchors(ruby: &FakeRuby) -> RubyAnchors {
    RubyAnchors::find(&ruby.memory).unwrap()
}

fn counted(ruby: &mut FakeRuby, class: Option<&str>) -> Counted {
    let anchors = anchors(ruby);
    let mut heap = Heap::find(&ruby.memory, anchors.version).unwrap();
    let mut names = ClassNames::learn(&ruby.memory, &heap, &anchors).unwrap();
    let request = CountRequest { names: Some(&mut names), class };
    count(&mut ruby.memory, &mut heap, request)
}

#[test]
fn a_made_up_ruby_is_found_and_counted() {
    let mut ruby = FakeRuby::new(20, 1000);
    let found = anchors(&ruby);
    assert_eq!(
        (found.version_text.as_str(), found.library.as_str()),
        ("3.3.8", "/usr/lib/libruby-3.3.so.3.3")
    );
    let counted = counted(&mut ruby, Some("Post"));
    let heap = &counted.heap;
    assert_eq!((heap.pages, heap.votes, heap.candidates), (21, 21, 21));
    // Ten classes with a singleton class and a name each.
    assert_eq!(heap.live_slots(), 20_000 + 30);
    assert_eq!(heap.pools.iter().map(|pool| pool.slot_bytes).collect::<Vec<_>>(), [40, 160]);
    let classes = counted.classes.as_ref().unwrap();
    // The made-up class itself, its singleton class and its name count as its instances.
    assert_eq!((classes[0].name.as_str(), classes[0].objects), ("Post", 20_003));
    let places = counted.class.as_ref().unwrap();
    assert_eq!((places.pages, places.pages_kept_alone), (21, 20));
    // Nothing is old, so nothing verifies the bitmaps.
    assert_eq!((heap.ages, heap.unswept, classes[0].old), (None, None, None));
    assert_eq!(heap.map.len(), 21);
    assert_eq!(heap.map[1].class, Some(0));
}

#[test]
fn ages_are_told_if_the_bitmaps_agree_with_the_objects() {
    let mut ruby = FakeRuby::new(20, 1000);
    let first = HEAP + 2 * HEAP_PAGE - 1638 * 40;
    let bits = DESCRIPTORS + PAGE + 64 + 2 * 208;
    let mut bitmap = [0_u64; 26];
    for number in 0..500 {
        let slot = first + number * 40;
        let flags = ruby.memory.word(slot).unwrap();
        ruby.memory.write_word(slot, flags | 1 << 5);
        let bit = (slot - HEAP - HEAP_PAGE) / 40;
        bitmap[(bit / 64) as usize] |= 1 << (bit % 64);
    }
    for (number, word) in bitmap.into_iter().enumerate() {
        ruby.memory.write_word(bits + number as u64 * 8, word);
    }
    let told = counted(&mut ruby, None);
    let ages = told.heap.ages.unwrap();
    assert_eq!((ages.old, ages.pinned, told.heap.map[1].pinned), (500, None, None));
    assert_eq!(told.classes.unwrap()[0].old, Some(500));
    // A collection that compacted pinned one object.
    let bit = (first - HEAP - HEAP_PAGE) / 40;
    ruby.memory.write_word(bits + 3 * 208 + bit / 64 * 8, 1 << (bit % 64));
    let heap = counted(&mut ruby, None).heap;
    assert_eq!((heap.ages.unwrap().pinned, heap.map[2].pinned), (Some(1), Some(0)));
    // With other bits nothing is told.
    ruby.memory.write_word(bits + 25 * 8, u64::MAX);
    assert_eq!(counted(&mut ruby, None).heap.ages, None);
}

#[test]
fn a_collector_that_is_not_rubys_own_is_refused_by_name() {
    let with = |file: &str| {
        let mut ruby = FakeRuby::new(20, 10);
        let version = anchors(&ruby).version;
        ruby.memory.map(MemoryRegion {
            start: 0x7e00_0000_0000,
            end: 0x7e00_0000_1000,
            inode: 9,
            path: format!("/usr/lib/ruby/gc/{file}"),
            ..MemoryRegion::default()
        });
        Heap::find(&ruby.memory, version).map(|heap| heap.pages().len())
    };
    assert_eq!(with("librubygc.default.so"), Ok(21));
    let unknown = with("librubygc.mmtk.so").unwrap_err();
    assert_eq!(unknown, HeapUnknown::OtherCollector("mmtk".to_owned()));
    assert!(unknown.to_string().starts_with("its garbage collector is mmtk;"), "{unknown}");
}

#[test]
fn pages_in_swap_are_left_out_and_said() {
    let mut ruby = FakeRuby::new(20, 1000);
    let page = HEAP + 2 * HEAP_PAGE;
    ruby.memory.swap_out(page + 4 * PAGE);
    let counted = counted(&mut ruby, None);
    assert_eq!((counted.heap.pages, counted.left_out.pages_partly_absent), (20, 1));
    assert_eq!(counted.left_out.slots_partly_absent, 1638);
    // A page that was never touched is all free instead.
    ruby.memory.forget(page + 4 * PAGE);
    let counted = self::counted(&mut ruby, None);
    assert_eq!((counted.heap.pages, counted.left_out.pages_partly_absent), (21, 0));
}

#[test]
fn votes_that_are_not_clear_leave_the_heap_unknown() {
    let mut ruby = FakeRuby::new(20, 10);
    let version = anchors(&ruby).version;
    for page in 0..4 {
        // Another layout: the first slot's address stands elsewhere.
        let start = ruby.memory.word(DESCRIPTORS + page * PAGE + 32).unwrap();
        ruby.memory.write_word(DESCRIPTORS + page * PAGE + 32, 0);
        ruby.memory.write_word(DESCRIPTORS + page * PAGE + 48, start);
    }
    let unknown = Heap::find(&ruby.memory, version).unwrap_err();
    assert_eq!(unknown, HeapUnknown::Votes { votes: 17, candidates: 21 });
    assert!(unknown.to_string().contains("17 of 21 candidates agree"), "{unknown}");
}

#[test]
fn one_class_whose_name_is_elsewhere_leaves_all_names_unknown() {
    let mut ruby = FakeRuby::new(20, 10);
    let anchors = anchors(&ruby);
    let heap = Heap::find(&ruby.memory, anchors.version).unwrap();
    let array = anchors.value(&ruby.memory, "rb_cArray").unwrap();
    ruby.memory.write_word(array + 152, 0);
    let unknown = ClassNames::learn(&ruby.memory, &heap, &anchors).unwrap_err();
    assert_eq!(unknown, NamesUnknown::Place { agree: 7 });
    ruby.memory.write_word(LIBRARY + 0x2000 + 16, 0x1234);
    let unknown = ClassNames::learn(&ruby.memory, &heap, &anchors).unwrap_err();
    assert_eq!(unknown, NamesUnknown::Anchor("rb_cObject"));
}

#[test]
fn a_page_that_makes_no_sense_is_left_out_and_said() {
    let mut ruby = FakeRuby::new(20, 1000);
    // An object whose class is no object, and on another page a type that no slot has.
    ruby.memory.write_word(HEAP + 2 * HEAP_PAGE - 1638 * 40 + 8, 0x5000);
    ruby.memory.write_word(HEAP + 3 * HEAP_PAGE - 1638 * 40, 17);
    let counted = counted(&mut ruby, None);
    assert_eq!(counted.heap.pages, 19);
    assert_eq!((counted.left_out.pages_in_flux, counted.left_out.slots_in_flux), (2, 2 * 1638));
    assert_eq!(counted.left_out.pages_read_again, 2);
    assert_eq!(counted.classes.unwrap()[0].objects, 18_003);
}

#[test]
fn superclasses_in_a_circle_end() {
    let mut ruby = FakeRuby::new(20, 10);
    let anchors = anchors(&ruby);
    let object = anchors.value(&ruby.memory, "rb_cObject").unwrap();
    // The class of the objects becomes a singleton class that is its own superclass.
    let post = ruby.memory.word(HEAP + 2 * HEAP_PAGE - 1638 * 40 + 8).unwrap();
    ruby.memory.write_word(post, 2 | 1 << 12);
    ruby.memory.write_word(post + 16, post);
    let counted = counted(&mut ruby, None);
    let classes = counted.classes.unwrap();
    assert_eq!(classes.iter().find(|class| class.name == "(unresolved)").unwrap().objects, 203);
    assert_ne!(object, post);
}

#[test]
fn names_cannot_command_a_terminal() {
    let mut ruby = FakeRuby::new(20, 10);
    let post = ruby.memory.word(HEAP + 2 * HEAP_PAGE - 1638 * 40 + 8).unwrap();
    let text = ruby.memory.word(post + 152).unwrap();
    ruby.memory.write(text + 24, b"\x1b[2J");
    let classes = counted(&mut ruby, None).classes.unwrap();
    assert_eq!(classes[0].name, "\u{fffd}[2J");
}

#[test]
fn a_missing_symbol_or_a_damaged_table_is_no_ruby() {
    let mut ruby = FakeRuby::new(8, 10);
    let chains = LIBRARY + 0x1800 + 28;
    // The chain ends at its first symbol.
    let hash = ruby.memory.half(chains).unwrap();
    ruby.memory.write(chains, &(hash | 1).to_le_bytes());
    assert!(RubyAnchors::find(&ruby.memory).is_none());
    let mut ruby = FakeRuby::new(8, 10);
    ruby.memory.forget(LIBRARY + 0x1000);
    assert!(RubyAnchors::find(&ruby.memory).is_none());
}
