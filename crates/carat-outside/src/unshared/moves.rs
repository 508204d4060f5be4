//! Objects that a compaction in the child moved to other slots.
//!
//! A compaction leaves no list of what it moved. But an object that moved has the same contents in its new slot as it had in its
//! old one, where they do not refer to objects that moved themselves: a string still has its buffer.

use crate::hash::AddressMap;
use crate::heap::{Heap, SlotHead};
use crate::memory::Memory;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// With fewer objects the sameness of contents may be chance.
const FEWEST: usize = 100;
/// More are not kept.
const MOST: usize = 1 << 20;
/// Bytes of a slot before its contents: flags and class.
const HEAD: usize = 16;

/// Where objects were in the parent and are in the child.
#[derive(Debug, Default)]
pub(super) struct Moves {
    new_places: AddressMap<u64>,
    old_places: AddressMap<u64>,
}

/// One slot in both processes.
struct SlotPair<'a> {
    address: u64,
    before: &'a [u8],
    now: &'a [u8],
}

impl Moves {
    /// Finds the objects that were old in the parent, are no longer in their slot, and are in another one now.
    pub(super) fn find((parent, child): (&dyn Memory, &dyn Memory), heap: &Heap) -> Self {
        let mut left: HashMap<u64, Option<u64>> = HashMap::new();
        each_changed_slot((parent, child), heap, |slot| {
            let known = SlotHead::of(slot.before).filter(|head| head.old(heap.version()));
            if known.is_some() && left.len() < MOST {
                // Of two with the same contents it cannot be told which one moved.
                left.entry(contents(slot.before))
                    .and_modify(|place| *place = None)
                    .or_insert(Some(slot.address));
            }
        });
        let mut moves = Self::default();
        each_changed_slot((parent, child), heap, |slot| {
            let known = SlotHead::of(slot.now).filter(|head| head.old(heap.version()));
            let old = known.and_then(|_| *left.get(&contents(slot.now))?);
            if let Some(old) = old.filter(|old| *old != slot.address) {
                moves.new_places.insert(old, slot.address);
                moves.old_places.insert(slot.address, old);
            }
        });
        if moves.new_places.len() < FEWEST { Self::default() } else { moves }
    }

    /// Whether an object moved away from a slot, or to it.
    pub(super) fn touch(&self, slot: u64) -> bool {
        self.new_places.contains_key(&slot) || self.old_places.contains_key(&slot)
    }

    /// Whether a word that was this reference, and is that one now, refers to the same object at its new place.
    pub(super) fn explain(&self, was: u64, is: u64) -> bool {
        self.new_places.get(&was) == Some(&is)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.new_places.is_empty()
    }
}

/// The type and the contents of a slot in one number.
fn contents(slot: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (slot[0] & 31, &slot[HEAD..]).hash(&mut hasher);
    hasher.finish()
}

/// Hands over every slot that differs in the two processes and has contents in both of them or in one.
fn each_changed_slot(
    (parent, child): (&dyn Memory, &dyn Memory),
    heap: &Heap,
    mut each: impl FnMut(&SlotPair<'_>),
) {
    let (mut before, mut now) = (Vec::new(), Vec::new());
    for page in heap.pages() {
        heap.read_slots(parent, page, &mut before);
        heap.read_slots(child, page, &mut now);
        if before == now {
            continue;
        }
        for address in (0..page.slots).map(|number| page.slot(number)) {
            let start = address.saturating_sub(page.address) as usize;
            let slot = start..start.saturating_add(page.slot_bytes as usize);
            let pair = before.get(slot.clone()).zip(now.get(slot));
            if let Some((before, now)) = pair.filter(|(before, now)| before != now) {
                each(&SlotPair { address, before, now });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::RubyAnchors;
    use crate::fake_ruby::{FakeRuby, HEAP, HEAP_PAGE};

    /// The first object of the page with this number.
    fn first(page: u64) -> u64 {
        HEAP + page * HEAP_PAGE + (HEAP_PAGE - 16) % 40 + 16
    }

    /// A parent with old objects, each with a number, and a child in which so many of page 2 moved to page 5.
    fn find(moved: u64) -> Moves {
        let mut parent = FakeRuby::new(9, 400).memory;
        let flags = parent.word(first(1)).unwrap() | 1 << 5;
        for number in 0..400 {
            let slot = first(2) + number * 40;
            parent.write_word(slot, flags);
            parent.write_word(slot + 16, 1000 + number);
        }
        let mut child = parent.clone();
        for number in 0..moved {
            let (from, to) = (first(2) + number * 40, first(5) + (1000 + number) * 40);
            child.write(to, &parent.copy(from, 40).unwrap());
            child.write(from, &[0; 40]);
        }
        let anchors = RubyAnchors::find(&parent).unwrap();
        let heap = Heap::find(&parent, anchors.version).unwrap();
        Moves::find((&parent, &child), &heap)
    }

    #[test]
    fn objects_that_moved_are_found_with_their_old_and_new_places() {
        let moves = find(150);
        let (from, to) = (first(2) + 40, first(5) + 1001 * 40);
        assert!(moves.touch(from) && moves.touch(to));
        assert!(moves.explain(from, to) && !moves.explain(to, from));
        assert!(!moves.touch(first(2) + 150 * 40) && !moves.touch(first(3)));
    }

    #[test]
    fn a_few_objects_with_the_same_contents_are_no_compaction() {
        assert!(find(FEWEST as u64 - 1).is_empty());
    }
}
