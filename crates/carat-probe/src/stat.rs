//! The counts of `GC.stat`, read without creating a Ruby object.

use crate::constants;
use carat_ruby::RubyApi;
use carat_ruby::api::StatKey;
use carat_ruby::version::{COLLECTOR_USED, GC_STAT_KEYS};
use carat_wire::page::{Gc, Page};
use std::sync::OnceLock;

/// Those of [`GC_STAT_KEYS`] that this Ruby has.
static KEYS: OnceLock<[Option<StatKey>; GC_STAT_KEYS.len()]> = OnceLock::new();

/// [`COLLECTOR_USED`]; unset if the collector is Ruby's own.
static COLLECTOR_KEY: OnceLock<StatKey> = OnceLock::new();

/// Finds out which keys this Ruby has; must be called before any collection is recorded and after the constants were
/// read.
pub(crate) fn find_keys(ruby: &RubyApi) {
    KEYS.get_or_init(|| GC_STAT_KEYS.map(|key| ruby.stat_key(key.name)));
    if constants::get().other_collector
        && let Some(key) = ruby.stat_key(COLLECTOR_USED)
    {
        COLLECTOR_KEY.get_or_init(|| key);
    }
}

/// Every count at one moment.
#[derive(Debug)]
pub(crate) struct Counts {
    of_keys: [Option<u64>; GC_STAT_KEYS.len()],
    collector_used: Option<u64>,
}

impl Counts {
    /// Reads the counts. Must be called with Ruby's lock held, or while every thread of Ruby sleeps.
    pub(crate) fn read(ruby: &RubyApi) -> Self {
        let keys = KEYS.get().unwrap_or(&[None; GC_STAT_KEYS.len()]);
        let of_keys = std::array::from_fn(|n| {
            keys[n].map(|key| ruby.stat(key) as u64 * GC_STAT_KEYS[n].unit)
        });
        let collector_used = COLLECTOR_KEY.get().map(|key| ruby.stat(*key) as u64);
        Self { of_keys, collector_used }
    }

    /// One of the counts.
    pub(crate) fn get(&self, word: Gc) -> Option<u64> {
        GC_STAT_KEYS.iter().zip(self.of_keys).find(|(key, _)| key.word == word).and_then(|(_, n)| n)
    }

    /// Writes the counts to the page, and `more` words with them.
    pub(crate) fn write(&self, page: &Page, now: u64, more: &[(Gc, u64)]) {
        page.gc.update(now, |gc| {
            for (key, value) in GC_STAT_KEYS.iter().zip(self.of_keys) {
                gc.set_known(key.word, value);
            }
            gc.set_known(Gc::CollectorUsed, self.collector_used);
            let constants = constants::get();
            gc.set_known(Gc::PageBytes, constants.page_bytes);
            gc.set_known(Gc::SlotBytes, constants.slot_bytes);
            for (word, value) in more {
                gc.set(*word, *value);
            }
        });
    }
}
