//! What changed on an inherited page of Ruby's heap.

use crate::bytes::word_in;
use crate::heap::{HeapPage, SlotHead, SlotType, imemo_kind};
use crate::memory::{Memory, PAGE, PAGE_LENGTH};
use crate::unshared::Cause;
use crate::unshared::moves::Moves;
use crate::unshared::table::PageCauses;
use carat_ruby::version::{RubyVersion, TRANSIENT_HEAP};

/// The bits of an object's flags that hold its age, or whether it is old (`FL_PROMOTED`, ruby/internal/fl_type.h).
const AGE_BITS: u64 = 0x60;
/// The bits that say that contents lie in the transient heap (`RARRAY_TRANSIENT_FLAG` and its like: `FL_USER13`, 14).
const TRANSIENT_BITS: u64 = 3 << 25;
/// An object that was young and of which so many words differ is another object of the same class.
const REPLACED: u64 = 3;

/// The bytes of one page in parent and child.
#[derive(Clone, Copy)]
pub(super) struct PagePair<'a> {
    /// Address of the page.
    pub(super) at: u64,
    pub(super) parent: &'a [u8; PAGE_LENGTH],
    pub(super) child: &'a [u8; PAGE_LENGTH],
}

impl PagePair<'_> {
    /// Offsets of the words that differ, between two offsets that are multiples of eight.
    pub(super) fn changed(&self, from: usize, to: usize) -> impl Iterator<Item = usize> {
        (from..to.min(PAGE_LENGTH))
            .step_by(8)
            .filter(|&at| word_in(self.parent, at) != word_in(self.child, at))
    }

    /// Whether a word of a slot refers to an object at its new place.
    fn refers_anew(&self, slot: u64, bytes: u64, moves: &Moves) -> bool {
        !moves.is_empty()
            && self.changed_between(slot, slot.saturating_add(bytes)).any(|at| {
                let words = word_in(self.parent, at).zip(word_in(self.child, at));
                words.is_some_and(|(was, is)| moves.explain(was, is))
            })
    }

    /// Number of words that differ between two addresses.
    fn changed_within(&self, start: u64, end: u64) -> u64 {
        self.changed_between(start, end).count() as u64
    }

    /// Offsets of the words that differ between two addresses.
    fn changed_between(&self, start: u64, end: u64) -> impl Iterator<Item = usize> {
        let from = start.max(self.at) - self.at;
        let to = end.min(self.at.saturating_add(PAGE)).saturating_sub(self.at);
        self.changed(from as usize, to as usize)
    }
}

/// The causes on a page whose bytes differ. Slots that begin on the page before are read from both processes.
pub(super) fn slot_causes(
    (parent, child): (&dyn Memory, &dyn Memory),
    version: RubyVersion,
    (page, moves): (&HeapPage, &Moves),
    pair: PagePair<'_>,
) -> PageCauses {
    let mut causes = PageCauses::new();
    let end = pair.at.saturating_add(PAGE);
    let mut number = pair.at.saturating_sub(page.first_slot) / page.slot_bytes.max(1);
    while number < page.slots && page.slot(number) < end {
        let slot = page.slot(number);
        number += 1;
        let words = pair.changed_within(slot, slot.saturating_add(page.slot_bytes));
        if words == 0 {
            continue;
        }
        // First, because compaction writes many objects, and each would look as if the program had written it.
        let is_moved = moves.touch(slot) || pair.refers_anew(slot, page.slot_bytes, moves);
        if is_moved {
            *causes.entry(Cause::Compaction).or_default() += words;
        } else if let (Some(was), Some(is)) = (head(parent, slot), head(child, slot)) {
            *causes.entry(slot_cause(version, was, is, words)).or_default() += words;
        }
    }
    if causes.is_empty() {
        // The header of the page, or what lies behind its last slot.
        causes.insert(Cause::SlotsReused, pair.changed(0, PAGE_LENGTH).count() as u64);
    }
    causes
}

fn head(memory: &dyn Memory, slot: u64) -> Option<SlotHead> {
    Some(SlotHead { flags: memory.word(slot)?, class: memory.word_at(slot, 8)? })
}

/// Why so many words of one slot differ.
fn slot_cause(version: RubyVersion, was: SlotHead, is: SlotHead, words: u64) -> Cause {
    let (before, now) = (was.slot_type(), is.slot_type());
    // An object hardly ever becomes young again, so a young one in an old one's place is another.
    let free = before == SlotType::NONE || now == SlotType::NONE;
    let (was_old, is_old) = (was.old(version), is.old(version));
    if free || before != now || was.class != is.class || (was_old && !is_old) {
        return Cause::SlotsReused;
    }
    let changed_flags = was.flags ^ is.flags;
    // More words than the flags say that the object was written, whatever its age.
    if words == 1 && changed_flags != 0 && changed_flags & !AGE_BITS == 0 {
        return Cause::AgeBits;
    }
    // T_OBJECT, T_ARRAY, T_HASH, T_STRUCT
    let has_contents = matches!(now.0, 1 | 7 | 8 | 9);
    let transient = TRANSIENT_HEAP.contains(version) && was.flags & TRANSIENT_BITS != 0;
    if has_contents && transient && !was_old && words <= REPLACED {
        return Cause::MovedFromTransientHeap;
    }
    // T_DATA
    let kept = now == SlotType::IMEMO || now.0 == 12;
    if !was_old && words >= REPLACED && !kept {
        return Cause::SlotsReused;
    }
    match now {
        SlotType::CLASS | SlotType::MODULE | SlotType::ICLASS => Cause::MethodTables,
        SlotType::IMEMO => match imemo_kind(is.flags, version) {
            Some("callcache" | "constcache" | "callinfo") => Cause::BytecodeCaches,
            Some("iseq") => Cause::BytecodeCounters,
            Some("ment" | "cref") => Cause::MethodTables,
            _ => Cause::ObjectsWritten,
        },
        _ => Cause::ObjectsWritten,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_ruby::version::{V3_1, V3_3};

    const STRING: u64 = 5;
    const CLASS: u64 = 0x7f00_0000_1000;

    fn head(flags: u64) -> SlotHead {
        SlotHead { flags, class: CLASS }
    }

    #[test]
    fn every_change_of_a_slot_has_the_cause_that_a_reader_of_gc_c_expects() {
        let iseq = 26 | 7 << 12;
        let cache = 26 | 12 << 12;
        for (what, was, is, words, expected) in [
            ("freed", STRING, 0, 2, Cause::SlotsReused),
            ("allocated", 0, STRING, 5, Cause::SlotsReused),
            ("another type", STRING, 7, 5, Cause::SlotsReused),
            ("old before, young now", STRING | 0x60, STRING, 4, Cause::SlotsReused),
            ("one collection older", STRING | 0x20, STRING | 0x40, 1, Cause::AgeBits),
            ("frozen", STRING | 0x60, STRING | 0x860, 1, Cause::ObjectsWritten),
            ("a field of an old object", STRING | 0x60, STRING | 0x60, 1, Cause::ObjectsWritten),
            ("much of a young object", STRING, STRING, 4, Cause::SlotsReused),
            ("a counter of bytecode", iseq, iseq, 1, Cause::BytecodeCounters),
            ("a call cache", cache | 0x60, cache | 0x60, 1, Cause::BytecodeCaches),
            ("a class", 2 | 0x60, 2 | 0x60, 1, Cause::MethodTables),
        ] {
            assert_eq!(slot_cause(V3_1, head(was), head(is), words), expected, "{what}");
        }
        let moved = SlotHead { flags: 7, class: CLASS + 80 };
        assert_eq!(slot_cause(V3_1, head(7), moved, 1), Cause::SlotsReused);
    }

    #[test]
    fn contents_move_out_of_the_transient_heap_only_where_there_is_one() {
        let (was, is) = (head(7 | 1 << 25), head(7));
        assert_eq!(slot_cause(V3_1, was, is, 2), Cause::MovedFromTransientHeap);
        assert_eq!(slot_cause(V3_3, was, is, 2), Cause::ObjectsWritten);
    }

    #[test]
    fn only_words_within_the_slot_and_the_page_count() {
        let parent = [0; PAGE_LENGTH];
        let mut child = parent;
        for at in [0, 8, 40, 4088] {
            child[at] = 1;
        }
        let pair = PagePair { at: 0x10000, parent: &parent, child: &child };
        assert_eq!(pair.changed_within(0x10000 - 16, 0x10000 + 16), 2);
        assert_eq!(pair.changed_within(0x10000 + 40, 0x10000 + 80), 1);
        assert_eq!(pair.changed_within(0x10000 + 4080, 0x10000 + 4120), 1);
        assert_eq!(pair.changed(0, PAGE_LENGTH).count(), 4);
    }
}
