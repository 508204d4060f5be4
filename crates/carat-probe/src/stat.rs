//! The counts of `GC.stat`, read without creating a Ruby object.

use crate::constants;
use carat_ruby::RubyApi;
use carat_ruby::api::StatKey;
use carat_ruby::version::GC_STAT_KEYS;
use carat_wire::page::{Gc, Page};
use std::sync::OnceLock;

/// Those of [`GC_STAT_KEYS`] that this Ruby has.
static KEYS: OnceLock<[Option<StatKey>; GC_STAT_KEYS.len()]> = OnceLock::new();

/// Finds out which keys this Ruby has; must be called before any collection is recorded.
pub(crate) fn find_keys(ruby: &RubyApi) {
    KEYS.get_or_init(|| GC_STAT_KEYS.map(|key| ruby.stat_key(key.name)));
}

/// Every count at one moment.
#[derive(Debug)]
pub(crate) struct Counts([Option<u64>; GC_STAT_KEYS.len()]);

impl Counts {
    /// Reads the counts. Must be called with Ruby's lock held, or while every thread of Ruby sleeps.
    pub(crate) fn read(ruby: &RubyApi) -> Self {
        let Some(keys) = KEYS.get() else { return Self([None; GC_STAT_KEYS.len()]) };
        Self(std::array::from_fn(|n| {
            keys[n].map(|key| ruby.stat(key) as u64 * GC_STAT_KEYS[n].unit)
        }))
    }

    /// One of the counts.
    pub(crate) fn get(&self, word: Gc) -> Option<u64> {
        GC_STAT_KEYS.iter().zip(self.0).find(|(key, _)| key.word == word).and_then(|(_, n)| n)
    }

    /// Writes the counts to the page, and `more` words with them.
    pub(crate) fn write(&self, page: &Page, now: u64, more: &[(Gc, u64)]) {
        page.gc.update(now, |gc| {
            for (key, value) in GC_STAT_KEYS.iter().zip(self.0) {
                gc.set_known(key.word, value);
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
