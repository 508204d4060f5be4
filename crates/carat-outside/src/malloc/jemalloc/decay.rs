//! How long unused pages stay: the decay times in effect, by the form of their data in jemalloc's own memory (`decay_t`, decay.h).
//!
//! Each arena has two such data, for dirty pages and behind it for muzzy ones: a time in milliseconds, the two-hundredth of it in
//! nanoseconds, when a thread last looked for pages to return, a state of random numbers, and a deadline. Without a time, the state
//! of random numbers is still the address of the data.

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

/// Decay times where they were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundDecay {
    /// Address of the time of dirty pages.
    pub(super) at: u64,
    pub(super) times: DecayTimes,
    /// When a thread that used the arena last looked for pages to return, in nanoseconds of the machine's clock.
    pub(super) looked_at_ns: u64,
}

/// The time at one address, and when it was last looked at.
#[derive(Clone, Copy)]
struct TimeAt {
    at: u64,
    time_ms: i64,
    epoch: u64,
}

/// The decay times in blocks of jemalloc's own memory, in the order of addresses.
pub(super) fn find_decays(memory: &dyn Memory, blocks: &[(u64, u64)]) -> Vec<FoundDecay> {
    let mut found: Vec<TimeAt> = Vec::new();
    for (start, bytes) in blocks {
        for page in present_pages(memory, *start, start.saturating_add(*bytes)) {
            search_page(memory, page, &mut found);
        }
    }
    let mut times = Vec::new();
    let mut at = 0;
    while let Some([dirty, muzzy]) = found.get(at..at + 2) {
        let is_pair = APART.contains(&(muzzy.at - dirty.at));
        if is_pair {
            times.push(FoundDecay {
                at: dirty.at,
                times: DecayTimes { dirty_ms: dirty.time_ms, muzzy_ms: muzzy.time_ms },
                looked_at_ns: dirty.epoch,
            });
        }
        at += if is_pair { 2 } else { 1 };
    }
    times
}

/// Adds the data that begin on a page.
fn search_page(memory: &dyn Memory, page: u64, found: &mut Vec<TimeAt>) {
    // Data may end on the next page.
    let Some(mut bytes) = memory.copy(page, PAGE) else { return };
    bytes.extend(memory.copy(page + PAGE, WORDS as u64 * 8).unwrap_or_default());
    let words: Vec<u64> = bytes.chunks_exact(8).filter_map(|word| word_in(word, 0)).collect();
    for (number, words) in (0..PAGE / 8).zip(words.windows(WORDS)) {
        let at = page + number * 8;
        if found.len() < MOST
            && let Some(time_ms) = decay_time(at, words)
        {
            found.push(TimeAt { at, time_ms, epoch: words[2] });
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
    // The step of an earlier time stays.
    let is_untimed =
        (time == 0 || time == u64::MAX) && step <= LONGEST * STEP && deadline - epoch == step;
    let is_own = random < at && at - random <= BEFORE;
    (is_timed || (is_untimed && is_own)).then_some(time as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;

    const BLOCK: u64 = 0x7f00_0000_0000;
    const EPOCH: u64 = 77_000_000_000;

    fn put(memory: &mut FakeMemory, at: u64, time_ms: i64, deadline: u64) {
        let step = time_ms.max(0) as u64 * STEP;
        let random = if time_ms > 0 { 12_345 } else { at - 120 };
        for (number, word) in (0..).zip([time_ms as u64, step, EPOCH, random, deadline]) {
            memory.write_word(at + number * 8, word);
        }
    }

    fn found(dirty_ms: i64, muzzy_ms: i64, apart: u64) -> Vec<FoundDecay> {
        let mut memory = FakeMemory::default();
        memory.map_anonymous(BLOCK, BLOCK + (2 << 20));
        memory.write(BLOCK, &[0; 4 * PAGE as usize]);
        let end = |time_ms: i64| EPOCH + time_ms.max(0) as u64 * STEP;
        // The first one lies on two pages.
        let at = BLOCK + 2 * PAGE - 16;
        put(&mut memory, at, dirty_ms, end(dirty_ms));
        put(&mut memory, at + apart, muzzy_ms, end(muzzy_ms));
        find_decays(&memory, &[(BLOCK, 2 << 20)])
    }

    #[test]
    fn decay_times_are_found_also_where_there_is_none_or_no_end() {
        for (dirty_ms, muzzy_ms) in [(10_000, 0), (1000, 3000), (-1, 0), (0, -1), (0, 0)] {
            let times = DecayTimes { dirty_ms, muzzy_ms };
            let expected = FoundDecay { at: BLOCK + 2 * PAGE - 16, times, looked_at_ns: EPOCH };
            assert_eq!(found(dirty_ms, muzzy_ms, 1816), [expected]);
        }
    }

    #[test]
    fn data_alone_and_data_that_only_look_alike_are_none() {
        assert!(found(10_000, 0, 4096).is_empty());
        let words = [10_000, 10_000 * STEP, EPOCH, 1, EPOCH + 1];
        assert_eq!(decay_time(0x1000, &words), Some(10_000));
        for (place, word) in
            [(0, 9999), (1, 1), (2, 5), (4, EPOCH - 1), (4, EPOCH + 10_000 * STEP * 5)]
        {
            let mut changed = words;
            changed[place] = word;
            assert_eq!(decay_time(0x1000, &changed), None, "{place}");
        }
        assert_eq!(decay_time(0x1000, &[0, 0, EPOCH, 0x2000, EPOCH]), None);
        for step in [0, 10_000 * STEP] {
            assert_eq!(decay_time(0x1000, &[0, step, EPOCH, 0xf00, EPOCH + step]), Some(0));
        }
    }
}
