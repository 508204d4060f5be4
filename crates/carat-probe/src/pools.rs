//! Size pools: from `GC.stat_heap`, or in a Ruby without it ([`carat_ruby::version::SLOT_SIZES`]) the only pool.

use crate::constants;
use crate::stat::Counts;
use carat_ruby::api::{small_integer, small_integer_value};
use carat_ruby::clock::now_ns;
use carat_ruby::{RubyApi, Value};
use carat_wire::page::{Feature, FeatureState, Gc, POOLS, Page, Pool, Word};
use std::ffi::CStr;
use std::sync::OnceLock;

/// `GC`, and a hash that `GC.stat_heap` refills each time, so that it creates no object.
static STAT_HEAP: OnceLock<(Value, Value)> = OnceLock::new();

/// Prepares reading; must be called with Ruby's lock held.
pub(crate) fn start(ruby: &RubyApi, page: &Page) {
    let gc = ruby.evaluate_and_keep(c"GC");
    let hash = ruby.evaluate_and_keep(c"GC.respond_to?(:stat_heap) ? {} : nil");
    if let Some(objects) = gc.zip(hash) {
        STAT_HEAP.get_or_init(|| objects);
    }
    page.header.set_feature(Feature::Pools, FeatureState::On);
}

const POOL_KEYS: [(Pool, &CStr); 8] = [
    (Pool::SlotBytes, c"slot_size"),
    (Pool::EdenSlots, c"heap_eden_slots"),
    (Pool::EdenPages, c"heap_eden_pages"),
    (Pool::LiveSlots, c"heap_live_slots"),
    (Pool::FreeSlots, c"heap_free_slots"),
    (Pool::TombPages, c"heap_tomb_pages"),
    (Pool::PagesAllocated, c"total_allocated_pages"),
    (Pool::PagesFreed, c"total_freed_pages"),
];

type PoolRow = [Option<u64>; Pool::ALL.len()];

/// Reads the pools; must be called with Ruby's lock held, outside a collection.
pub(crate) fn read(ruby: &RubyApi, page: &Page) {
    let Some(&(gc, hash)) = STAT_HEAP.get() else {
        page.pools.replace(now_ns(), 1, [only_pool(&Counts::read(ruby))]);
        return;
    };
    // A Ruby method checks for interrupts when it returns, so a `Thread#raise` from another thread may end here. So this
    // is a single call, made on request only.
    if ruby.call(gc, c"stat_heap", &[ruby.nil(), hash]).is_none() {
        page.header.set_feature(Feature::Pools, FeatureState::Absent);
        return;
    }
    let pools = (0..POOLS).map_while(|n| ruby.hash_value(hash, small_integer_value(n)));
    page.pools.replace(now_ns(), 0, pools.map(|pool| pool_row(ruby, pool)));
}

fn pool_row(ruby: &RubyApi, pool: Value) -> PoolRow {
    let mut row = [None; Pool::ALL.len()];
    for (word, key) in &POOL_KEYS {
        row[word.index()] = number(ruby, pool, key);
    }
    let allocated = number(ruby, pool, c"total_allocated_objects");
    let freed = number(ruby, pool, c"total_freed_objects");
    let live = allocated.zip(freed).map(|(allocated, freed)| allocated.saturating_sub(freed));
    complete(&mut row, live);
    row
}

fn number(ruby: &RubyApi, hash: Value, key: &CStr) -> Option<u64> {
    ruby.hash_value(hash, ruby.symbol(key)).and_then(small_integer)
}

/// Fills in what this Ruby does not say but what follows from the rest.
fn complete(row: &mut PoolRow, live: Option<u64>) {
    let [live_at, free_at] = [Pool::LiveSlots.index(), Pool::FreeSlots.index()];
    row[live_at] = row[live_at].or(live);
    let rest = row[Pool::EdenSlots.index()].zip(row[live_at]);
    row[free_at] = row[free_at].or(rest.map(|(slots, live)| slots.saturating_sub(live)));
}

/// The pool of a Ruby whose slots have one size: its counts are those of the whole heap.
fn only_pool(counts: &Counts) -> PoolRow {
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
