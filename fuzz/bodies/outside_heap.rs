//! Whatever a process holds in place of symbols, heap pages and classes, reading it ends and its sums agree.
//!
//! An input changes words of a sound process: where, and to what number or address.

use carat_outside::elf::RubyAnchors;
use carat_outside::fake_ruby::{DESCRIPTORS, FakeRuby, HEAP, LIBRARY};
use carat_outside::heap::{ClassNames, CountRequest, Heap, count};
use std::sync::OnceLock;

/// Bytes of one change: the place, what kind of value, the value.
const CHANGE: usize = 10;

/// The sound process; making it takes longer than reading it.
fn sound() -> FakeRuby {
    static SOUND: OnceLock<FakeRuby> = OnceLock::new();
    SOUND.get_or_init(|| FakeRuby::new(9, 40)).clone()
}

/// The word that a change writes: a number, or the address of something.
fn value(kind: u8, number: u64) -> u64 {
    match kind >> 4 {
        0..4 => number,
        4..7 => HEAP + number % (10 << 16),
        7..10 => (HEAP + number % (10 << 16)) & !7,
        10..12 => DESCRIPTORS + number % (10 << 12),
        12..14 => LIBRARY + number % 0x4000,
        _ => u64::MAX - number % 256,
    }
}

/// Fails where that does not hold.
pub(crate) fn check(input: &[u8]) {
    let mut ruby = sound();
    for change in input.chunks_exact(CHANGE) {
        let (kind, place) = (change[0], u64::from(u16::from_le_bytes([change[1], change[2]])));
        let mut number = [0; 8];
        number[..7].copy_from_slice(&change[3..]);
        let number = u64::from_le_bytes(number);
        let at = match kind & 3 {
            0 => LIBRARY + place % 0x4000,
            1 => DESCRIPTORS + (place & 0xf) % 10 * 4096 + (place >> 4),
            2 => HEAP + place,
            _ => HEAP + (place & 7) * 0x10000 + (place >> 3) * 8,
        };
        match kind & 12 {
            12 => ruby.memory.forget(at & !0xfff),
            _ => ruby.memory.write_word(at, value(kind, number)),
        }
    }
    let Some(anchors) = RubyAnchors::find(&ruby.memory) else { return };
    let Ok(mut heap) = Heap::find(&ruby.memory, anchors.version) else { return };
    let mut names = ClassNames::learn(&ruby.memory, &heap, &anchors).ok();
    let request = CountRequest { names: names.as_mut(), class: Some("Post") };
    let counted = count(&mut ruby.memory, &mut heap, request);
    let census = &counted.heap;
    assert!(census.free_slots <= census.slots);
    let (slots, live) = census
        .pools
        .iter()
        .fold((0, 0), |(slots, live), pool| (slots + pool.slots, live + pool.live));
    assert_eq!((slots, live), (census.slots, census.live_slots()));
    assert_eq!(census.map.len() as u64, census.pages);
    let classes = counted.classes.iter().flatten();
    let objects: u64 = classes.map(|class| class.objects).sum();
    assert!(counted.classes.is_none() || objects == live);
}
