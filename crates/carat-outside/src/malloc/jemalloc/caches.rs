//! The caches of threads: regions that were freed and still count as in use in their slabs.
//!
//! A cache lies in the thread-local data of its thread, and is found by the form of its bins (`cache_bin_t`, cache_bin.h), of
//! which it has dozens in a row: of 5.3, whose stacks follow each other without a gap, and of 5.2, whose stacks ascend.

use super::layout::Family;
use crate::bytes::word_in;
use crate::memory::{Memory, PAGE};
use std::collections::BTreeSet;

/// Words of a bin.
const BIN: usize = 3;
/// Bins in a row that make a cache.
const BINS_OF_5_3: usize = 30;
const BINS_OF_5_2: usize = 36;
/// Bins of a cache at most.
const MOST_BINS: usize = 80;
/// Bins of 5.2 for large regions that make a list, and words after the first bins within which it begins.
const LARGE_BINS: usize = 3;
const LARGE_WITHIN: usize = 80;
/// Regions in one bin.
const CACHED: u64 = 8192;
/// Regions in one bin of 5.2, and of one for large regions.
const CACHED_OF_5_2: u64 = 1000;
const LARGE_CACHED: u64 = 64;
/// Regions in all caches.
const ALL_CACHED: usize = 1 << 22;
/// Pages that are read at once.
const PAGES: u64 = 64;
/// Bytes of a cache at most, so that one that crosses what is read at once is found in the next part.
const OVERLAP: u64 = PAGE;

/// What the caches of all threads hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ThreadCaches {
    /// Regions with the number of their class, in order; some were taken out or freed since.
    pub(super) regions: Vec<(u64, u64)>,
    /// Where the stacks of caches are: each lies in a region that is jemalloc's own.
    pub(super) stacks: BTreeSet<u64>,
}

impl ThreadCaches {
    /// Searches the present pages that may hold thread-local data.
    pub(super) fn find(
        memory: &dyn Memory,
        family: Family,
        may_hold: &dyn Fn(u64) -> bool,
    ) -> Self {
        let mut found = Self::default();
        for region in memory.regions() {
            // Thread-local data lie in stacks that a library made, and of the first thread behind its program's data.
            if !region.searched()
                || !region.writable
                || !region.anonymous() && region.path != "[stack]"
            {
                continue;
            }
            for (first, count) in region.pages.runs(u64::MAX) {
                let start = region.start.saturating_add(first.saturating_mul(PAGE));
                let end = start.saturating_add(count.saturating_mul(PAGE)).min(region.end);
                found.search(memory, family, (start, end), may_hold);
            }
        }
        // In the order of addresses, as the extents are walked.
        found.regions.sort_unstable();
        found.regions.dedup();
        found
    }

    fn search(
        &mut self,
        memory: &dyn Memory,
        family: Family,
        (start, end): (u64, u64),
        may_hold: &dyn Fn(u64) -> bool,
    ) {
        let mut at = start;
        while at < end {
            if !may_hold(at) {
                at += PAGE;
                continue;
            }
            let mut until = at + PAGE;
            while until < end && until - at < PAGES * PAGE && may_hold(until) {
                until += PAGE;
            }
            // What lies behind may be the rest of a cache.
            let rest = OVERLAP.min(end - until);
            if let Some(bytes) = memory.copy(at, until + rest - at) {
                let words: Vec<u64> =
                    bytes.chunks_exact(8).filter_map(|word| word_in(word, 0)).collect();
                self.examine(memory, family, &words);
            }
            at = until;
        }
    }

    fn examine(&mut self, memory: &dyn Memory, family: Family, words: &[u64]) {
        let mut at = 0;
        // Limited, because memory that the process chose could look like any number of caches.
        while at + BIN < words.len() && self.regions.len() < ALL_CACHED {
            let found = match family {
                Family::Edata => stacks_of_5_3(&words[at..]),
                Family::Extents => stacks_of_5_2(&words[at..]),
            };
            let Some(cache) = found else {
                at += 1;
                continue;
            };
            at += cache.words;
            // A copy of a cache, or the part of it that was read twice.
            if self.stacks.insert(cache.stack) {
                for (class, start, count) in cache.bins {
                    self.bin(memory, class, start, count);
                }
            }
        }
    }

    fn bin(&mut self, memory: &dyn Memory, class: u64, start: u64, count: u64) {
        let Some(bytes) = memory.copy(start, count.min(CACHED) * 8) else { return };
        let regions = bytes.chunks_exact(8).filter_map(|word| word_in(word, 0));
        self.regions.extend(regions.map(|region| (region, class)));
    }
}

/// A cache as it was found.
struct FoundCache {
    /// Its length in words.
    words: usize,
    /// An address in its stacks.
    stack: u64,
    /// Class, start and number of the regions of each bin.
    bins: Vec<(u64, u64, u64)>,
}

/// Whether a stack may lie here: no program has memory below 64 KiB (`vm.mmap_min_addr`).
const fn is_stack(address: u64) -> bool {
    address >= 1 << 16 && address.is_multiple_of(8) && address >> 47 == 0
}

/// The cache of 5.3 that begins here: each bin has the address of its newest region, a count of requests, and the low 16 bits of
/// three addresses, of which the second and third are the ends of its stack.
fn stacks_of_5_3(words: &[u64]) -> Option<FoundCache> {
    // Nearly every word is no address, and most that are precede no bounds.
    if !is_stack(*words.first()?) || *words.get(2)? == 0 {
        return None;
    }
    let mut cache = FoundCache { words: 0, stack: 0, bins: Vec::new() };
    let mut before = None;
    for (class, bin) in (0..).zip(words.chunks_exact(BIN).take(MOST_BINS)) {
        let (head, bounds) = (bin[0], bin[2]);
        let [low, full, empty] = [bounds, bounds >> 16, bounds >> 32].map(|bound| bound & 0xffff);
        let aligned = [low, full, empty].iter().all(|bound| bound.is_multiple_of(8));
        // The address wraps around within its low 16 bits.
        let (free, all) = (head.wrapping_sub(full) & 0xffff, empty.wrapping_sub(full) & 0xffff);
        if !is_stack(head) || !aligned || all == 0 || free > all {
            break;
        }
        let start = head - free;
        // The stacks of one cache follow each other without a gap; anything else is chance.
        if before.is_some_and(|end| end != start) {
            break;
        }
        if class == 0 {
            cache.stack = start;
        }
        before = Some(start + all);
        cache.bins.push((class, head, (all - free) / 8));
    }
    cache.words = cache.bins.len() * BIN;
    (cache.bins.len() >= BINS_OF_5_3).then_some(cache)
}

/// The address above a stack of 5.2 and its number of regions, if three words are a bin: low-water mark and count, count of
/// requests, the address.
fn bin_of_5_2(words: &[u64], most: u64) -> Option<(u64, u64)> {
    let (low, count) = (words[0] as u32 as i32, (words[0] >> 32) as u32 as i32);
    let stack = words[2];
    let count = u64::try_from(count).ok().filter(|count| *count <= most)?;
    // The low-water mark is -1 before the first use, and never above the count.
    let sound = low >= -1 && i64::from(low) <= count as i64 && is_stack(stack);
    sound.then_some((stack, count))
}

/// So many bins of 5.2 at most from here on, each of whose stacks lies at most `most` regions behind the one before.
fn row_of_5_2(words: &[u64], bins: usize, most: u64, mut before: Option<u64>) -> Vec<(u64, u64)> {
    let mut row = Vec::new();
    for bin in words.chunks_exact(BIN).take(bins) {
        let Some((stack, count)) = bin_of_5_2(bin, most) else { break };
        if !before.is_none_or(|before: u64| stack > before && stack - before <= most * 8) {
            break;
        }
        before = Some(stack);
        row.push((stack, count));
    }
    row
}

/// The cache of 5.2 that begins here. Bins for large regions follow behind other fields.
fn stacks_of_5_2(words: &[u64]) -> Option<FoundCache> {
    if !is_stack(*words.get(2)?) {
        return None;
    }
    let small = row_of_5_2(words, BINS_OF_5_2, CACHED_OF_5_2, None);
    let (stack, _) = *small.last().filter(|_| small.len() == BINS_OF_5_2)?;
    let length = BINS_OF_5_2 * BIN;
    let large = (length..length + LARGE_WITHIN).find_map(|at| {
        let row = row_of_5_2(words.get(at..)?, MOST_BINS, LARGE_CACHED, Some(stack));
        (row.len() >= LARGE_BINS).then_some(row)
    });
    let bins = (0..).zip(small.into_iter().chain(large.unwrap_or_default()));
    let bins = bins.map(|(class, (stack, count))| (class, stack - count.min(stack / 8) * 8, count));
    Some(FoundCache { words: length, stack, bins: bins.collect() })
}
