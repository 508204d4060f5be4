//! Size pools: from `GC.stat_heap` (Ruby 3.2 on), or the one pool there was before.

use crate::ruby::{Ruby, Value, integer, integer_value};
use crate::stat::Counts;
use crate::{clock, constants};
use carat_wire::page::{Feature, Gc, POOLS, Page, Pool, State, Word};
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `GC`, and a hash that `GC.stat_heap` fills anew each time, so that it makes no object.
static GC_MODULE: AtomicUsize = AtomicUsize::new(0);
static HASH: AtomicUsize = AtomicUsize::new(0);

/// Prepares reading; must be called with Ruby's lock held.
pub(crate) fn start(ruby: &Ruby, page: &Page) {
    ruby.keep(&GC_MODULE, c"GC");
    ruby.keep(&HASH, c"GC.respond_to?(:stat_heap) ? {} : nil");
    page.header.set_feature(Feature::Pools, State::On);
}

const POOL_KEYS: [(Pool, &CStr); 9] = [
    (Pool::SlotBytes, c"slot_size"),
    (Pool::EdenSlots, c"heap_eden_slots"),
    (Pool::EdenPages, c"heap_eden_pages"),
    (Pool::LiveSlots, c"heap_live_slots"),
    (Pool::FreeSlots, c"heap_free_slots"),
    (Pool::TombPages, c"heap_tomb_pages"),
    (Pool::PagesAllocated, c"total_allocated_pages"),
    (Pool::PagesFreed, c"total_freed_pages"),
    // Only for the objects that are live: the difference of these two.
    (Pool::LiveSlots, c"total_allocated_objects"),
];

/// Reads them; must be called with Ruby's lock held, outside a collection.
pub(crate) fn read(ruby: &Ruby, page: &Page) {
    let hash = HASH.load(Ordering::Relaxed);
    if hash == 0 {
        let counts = Counts::read(ruby);
        page.pools.replace(clock::now(), 1, [the_only_pool(&counts)]);
        return;
    }
    // A method of Ruby's checks for interrupts when it returns, so a `Thread#raise` from another thread
    // may end here; that is why this is one call, and only when somebody asks.
    if ruby.call(GC_MODULE.load(Ordering::Relaxed), c"stat_heap", &[ruby.nil(), hash]).is_none() {
        page.header.set_feature(Feature::Pools, State::Absent);
        return;
    }
    // SAFETY: the receiver is a hash that this module keeps; a missing key gives nil and raises nothing.
    let look_up = |hash: Value, key: Value| unsafe { (ruby.hash_lookup)(hash, key) };
    let heaps = (0..POOLS).map_while(|n| ruby.not_nil(look_up(hash, integer_value(n))));
    let rows = heaps.map(|heap| {
        let number = |name: &CStr| integer(look_up(heap, ruby.symbol(name)));
        let mut row = [None; Pool::ALL.len()];
        for (word, name) in &POOL_KEYS[..8] {
            row[word.index()] = number(name);
        }
        let freed = number(c"total_freed_objects");
        let live =
            number(POOL_KEYS[8].1).zip(freed).map(|(made, freed)| made.saturating_sub(freed));
        complete(&mut row, live);
        row
    });
    page.pools.replace(clock::now(), 0, rows);
}

type Row = [Option<u64>; Pool::ALL.len()];

/// Fills in what this version of Ruby does not say but what follows from the rest.
fn complete(row: &mut Row, live: Option<u64>) {
    let [live_at, free_at] = [Pool::LiveSlots.index(), Pool::FreeSlots.index()];
    row[live_at] = row[live_at].or(live);
    let rest = row[Pool::EdenSlots.index()].zip(row[live_at]);
    row[free_at] = row[free_at].or(rest.map(|(slots, live)| slots.saturating_sub(live)));
}

/// Ruby to 3.1 has slots of one size and gives its counts for the heap as a whole.
fn the_only_pool(counts: &Counts) -> Row {
    let constants = constants::get();
    let tombs = counts.get(Gc::TombPages).zip(constants.page_slots);
    let slots = counts.get(Gc::AvailableSlots).zip(tombs);
    let slots = slots.map(|(all, (pages, slots))| all.saturating_sub(pages * slots));
    let mut row = [None; Pool::ALL.len()];
    row[Pool::SlotBytes.index()] = constants.slot_bytes;
    row[Pool::EdenSlots.index()] = slots;
    row[Pool::EdenPages.index()] = counts.get(Gc::EdenPages);
    row[Pool::TombPages.index()] = counts.get(Gc::TombPages);
    complete(&mut row, counts.get(Gc::LiveSlots));
    row
}
