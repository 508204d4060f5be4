//! The counts of `GC.stat`, read without an object of Ruby's.

use crate::constants;
use crate::ruby::{Ruby, Value};
use carat_wire::page::{Gc, Page};
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where a word comes from, and what one unit of Ruby's is in the page's.
struct Key(Gc, &'static CStr, u64);

/// Ruby counts time in milliseconds.
const MS: u64 = 1_000_000;

const KEYS: [Key; 22] = [
    Key(Gc::Count, c"count", 1),
    Key(Gc::Minor, c"minor_gc_count", 1),
    Key(Gc::Major, c"major_gc_count", 1),
    Key(Gc::TimeNs, c"time", MS),
    Key(Gc::MarkingNs, c"marking_time", MS),
    Key(Gc::SweepingNs, c"sweeping_time", MS),
    Key(Gc::LiveSlots, c"heap_live_slots", 1),
    Key(Gc::FreeSlots, c"heap_free_slots", 1),
    Key(Gc::AvailableSlots, c"heap_available_slots", 1),
    Key(Gc::FinalSlots, c"heap_final_slots", 1),
    Key(Gc::EdenPages, c"heap_eden_pages", 1),
    Key(Gc::TombPages, c"heap_tomb_pages", 1),
    Key(Gc::EmptyPages, c"heap_empty_pages", 1),
    Key(Gc::HeapPages, c"heap_allocated_pages", 1),
    Key(Gc::AllocatablePages, c"heap_allocatable_pages", 1),
    Key(Gc::SortedLength, c"heap_sorted_length", 1),
    Key(Gc::AllocatedObjects, c"total_allocated_objects", 1),
    Key(Gc::FreedObjects, c"total_freed_objects", 1),
    Key(Gc::OldObjects, c"old_objects", 1),
    Key(Gc::MallocIncrease, c"malloc_increase_bytes", 1),
    Key(Gc::OldmallocIncrease, c"oldmalloc_increase_bytes", 1),
    Key(Gc::Compactions, c"compact_count", 1),
];

/// The symbol of each key; 0 (which is `false`, never a symbol) where this Ruby does not know it.
static SYMBOLS: [AtomicUsize; KEYS.len()] = [const { AtomicUsize::new(0) }; KEYS.len()];

/// Finds out which keys this Ruby knows; must come before any collection is noted.
pub(crate) fn find_keys(ruby: &Ruby) {
    for (Key(_, name, _), place) in KEYS.iter().zip(&SYMBOLS) {
        let symbol = ruby.symbol(name);
        let known = ruby.knows_stat(symbol);
        place.store(if known { symbol } else { 0 }, Ordering::Relaxed);
    }
}

/// Every count at one moment.
#[derive(Debug)]
pub(crate) struct Counts([Option<u64>; KEYS.len()]);

impl Counts {
    /// Reads them: with Ruby's lock held, or while every thread of Ruby sleeps.
    pub(crate) fn read(ruby: &Ruby) -> Self {
        Self(std::array::from_fn(|n| {
            let symbol: Value = SYMBOLS[n].load(Ordering::Relaxed);
            // SAFETY: the key is one that this Ruby knows, so nothing is raised; with a symbol for a key
            // `rb_gc_stat` returns a plain number and makes no object.
            (symbol != 0).then(|| unsafe { (ruby.gc_stat)(symbol) } as u64 * KEYS[n].2)
        }))
    }

    /// One of them.
    pub(crate) fn get(&self, word: Gc) -> Option<u64> {
        KEYS.iter().position(|Key(own, ..)| *own == word).and_then(|n| self.0[n])
    }

    /// Writes them to the page, and whatever `more` adds to the same moment.
    pub(crate) fn write(&self, page: &Page, now: u64, more: &[(Gc, u64)]) {
        page.gc.update(now, |gc| {
            for (Key(word, ..), value) in KEYS.iter().zip(self.0) {
                gc.set_known(*word, value);
            }
            let constants = constants::get();
            gc.set_known(Gc::PageBytes, constants.page_bytes);
            gc.set_known(Gc::SlotBytes, constants.slot_bytes);
            for (word, value) in more {
                gc.set(*word, *value);
            }
        });
    }
}
