//! How long unused pages stay: the decay times in effect, by the form of their data in jemalloc's own memory (`decay_t`, decay.h).
//!
//! Each arena has two such data, for dirty pages and behind it for muzzy ones: a time in milliseconds, the two-hundredth of it in
//! nanoseconds, when it was last looked at, a state of random numbers, and a deadline. Without a time, the state of random numbers
//! is still the address of the data.

use super::places::present_pages;
use crate::bytes::word_in;
use crate::memory::{Memory, PAGE};
use serde::{Deserialize, Serialize};

/// Nanoseconds of a step for each millisecond of the whole (`SMOOTHSTEP_NSTEPS` is 200).
const STEP: u64 = 5000;
/// Milliseconds: ten days at most.
const LONGEST: u64 = 864_000_000;
/// Bytes from one to the next in an arena: 200 words, and what precedes and follows them.
const APART: std::ops::Range<u64> = 1600..2400;
/// Bytes from the start of the data to the time.
const BEFORE: u64 = 256;
/// Words that are examined.
const WORDS: usize = 5;
/// Nanoseconds since the machine started, at most.
const CLOCK: std::ops::Range<u64> = 1_000_000_000..1 << 60;
/// Data that are kept.
const MOST: usize = 8192;

/// Decay times of one arena in milliseconds: 0 for pages that are returned at once, -1 for pages that are never returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DecayTimes {
    /// Of dirty pages.
    pub dirty_ms: i64,
    /// Of muzzy pages.
    pub muzzy_ms: i64,
}

/// The decay times in blocks of jemalloc's own memory, in the order of addresses.
pub(super) fn find_decays(memory: &dyn Memory, blocks: &[(u64, u64)]) -> Vec<DecayTimes> {
    let mut found: Vec<(u64, i64)> = Vec::new();
    for (start, bytes) in blocks {
        for page in present_pages(memory, *start, start.saturating_add(*bytes)) {
            search_page(memory, page, &mut found);
        }
    }
    let mut times = Vec::new();
    let mut at = 0;
    while let Some([dirty, muzzy]) = found.get(at..at + 2) {
        let is_pair = APART.contains(&(muzzy.0 - dirty.0));
        if is_pair {
            times.push(DecayTimes { dirty_ms: dirty.1, muzzy_ms: muzzy.1 });
        }
        at += if is_pair { 2 } else { 1 };
    }
    times
}

/// Adds the data that begin on a page, with the address of their time.
fn search_page(memory: &dyn Memory, page: u64, found: &mut Vec<(u64, i64)>) {
    // Data may end on the next page.
    let Some(mut bytes) = memory.copy(page, PAGE) else { return };
    bytes.extend(memory.copy(page + PAGE, WORDS as u64 * 8).unwrap_or_default());
    let words: Vec<u64> = bytes.chunks_exact(8).filter_map(|word| word_in(word, 0)).collect();
    for (number, words) in (0..PAGE / 8).zip(words.windows(WORDS)) {
        let at = page + number * 8;
        if found.len() < MOST
            && let Some(time) = decay_time(at, words)
        {
            found.push((at, time));
        }
    }
}

/// The time that is at an address, if these words follow it.
fn decay_time(at: u64, words: &[u64]) -> Option<i64> {
    let [time, step, epoch, random, deadline] = *words else { return None };
    if !CLOCK.contains(&epoch) || deadline < epoch {
        return None;
    }
    let is_timed =
        (1..=LONGEST).contains(&time) && step == time * STEP && deadline - epoch <= 4 * step;
    let is_untimed = (time == 0 || time == u64::MAX) && step == 0 && deadline == epoch;
    let is_own = random < at && at - random <= BEFORE;
    (is_timed || (is_untimed && is_own)).then_some(time as i64)
}
