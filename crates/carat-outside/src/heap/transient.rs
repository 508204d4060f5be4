//! The transient heap of Ruby 2.6 to 3.2: contents of young arrays, hashes and structs, in blocks of one arena.
//!
//! It is found by Ruby's own record of it (`struct transient_heap`, transient_heap.c, the same in all of them), because its mapping
//! has no name, and the kernel joins it with other memory beside it.

use crate::elf::zeroed_end;
use crate::memory::{Memory, words_between};
use carat_ruby::version::{RubyVersion, TRANSIENT_HEAP};

/// Bytes of the arena (`TRANSIENT_HEAP_TOTAL_SIZE`), and of a block, to which it is aligned (`TRANSIENT_HEAP_BLOCK_SIZE`).
const ARENA: u64 = 32 << 20;
const BLOCK: u64 = 32 << 10;

/// The addresses of the arena; `None` where this Ruby has none, or its record was not found.
pub(super) fn find_arena(memory: &dyn Memory, version: RubyVersion) -> Option<(u64, u64)> {
    if !TRANSIENT_HEAP.contains(version) {
        return None;
    }
    let mut file = None;
    for region in memory.regions() {
        let is_file = region.inode != 0;
        let end = match is_file {
            true => Some(region.end),
            false => file.and_then(|file| zeroed_end(memory, file, region)),
        };
        let data = end.filter(|_| region.searched()).map(|end| (region.start, end));
        if let Some(start) = data.and_then(|data| arena_in(memory, data)) {
            return Some((start, start + ARENA));
        }
        file = is_file.then_some(region);
    }
    None
}

fn arena_in(memory: &dyn Memory, (start, end): (u64, u64)) -> Option<u64> {
    let words = words_between(memory, start, end);
    // Other words may look like a record, but lead to no such memory.
    let is_mapped = |start: &u64| {
        let region = memory.region(*start).filter(|region| region.searched());
        region.is_some_and(|region| start.saturating_add(ARENA) <= region.end)
    };
    words.windows(9).filter_map(arena_of).find(is_mapped)
}

/// The arena of the record in nine words: three lists of blocks; counts of objects; the count of blocks and the status; the list of
/// promoted objects, its size and how much of it is used; the arena, and how many of its blocks were handed out.
fn arena_of(words: &[u64]) -> Option<u64> {
    let [using, marked, free, _, blocks, _, promoted, arena, handed_out] = *words else {
        return None;
    };
    let low = |word: u64| word & u64::from(u32::MAX);
    let is_block = |word: u64| {
        word.is_multiple_of(BLOCK) && word.checked_sub(arena).is_some_and(|offset| offset < ARENA)
    };
    let lists = [using, marked, free];
    let sound = arena != 0
        && arena.is_multiple_of(BLOCK)
        && arena >> 47 == 0
        && (1..=ARENA / BLOCK).contains(&low(handed_out))
        && lists.iter().all(|list| *list == 0 || is_block(*list))
        && lists.iter().any(|list| *list != 0)
        && low(blocks) <= ARENA / BLOCK
        && blocks >> 32 < 3
        && low(promoted) >= 1024
        && promoted >> 32 <= low(promoted);
    sound.then_some(arena)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;
    use carat_ruby::version::{V3_1, V3_3};

    const AT: u64 = 0x7f00_4000_8000;

    /// The record of an arena at `AT` of which two blocks are in use and 1,022 are free.
    const RECORD: [u64; 9] = [
        AT + BLOCK,
        0,
        AT + 2 * BLOCK,
        40 << 32 | 300,
        1024,
        0x7f00_1000,
        17 << 32 | 2048,
        AT,
        1024,
    ];

    #[test]
    fn the_arena_is_known_by_rubys_record_and_by_nothing_that_contradicts_it() {
        assert_eq!(arena_of(&RECORD), Some(AT));
        for (place, word) in [
            // A block that is not in the arena, or not at the start of a block.
            (0, AT + ARENA),
            (1, AT + 8),
            (2, AT - BLOCK),
            // More blocks than there are, and no status.
            (4, 1025),
            (4, 3 << 32 | 1024),
            // More promoted objects than the list has room for, and a list that is too small.
            (6, 2049 << 32 | 2048),
            (6, 512),
            (7, 0),
            (7, AT + 4096),
            (8, 0),
            (8, 1025),
        ] {
            let mut record = RECORD;
            record[place] = word;
            assert_eq!(arena_of(&record), None, "{place} {word:#x}");
        }
        let empty = [0, 0, 0, 0, 1024, 0, 1024, AT, 1024];
        assert_eq!(arena_of(&empty), None);
    }

    #[test]
    fn the_record_lies_in_the_zeroed_data_behind_a_library_of_a_ruby_that_has_one() {
        let mut memory = FakeMemory::default();
        memory.map_library(0x1000, 0x2000, "/usr/lib/libruby-3.1.so.3.1");
        // Its zeroed data, joined with what is mapped behind them.
        memory.map_anonymous(0x2000, 0x2000 + ARENA);
        memory.map_anonymous(AT, AT + ARENA);
        // Words that look like a record, of an arena that is not there, come first.
        let mut numbers = RECORD.map(|word| if word >= AT { word - AT + ARENA } else { word });
        numbers[1] = numbers[0];
        for (start, words) in [(0x2800, numbers), (0x3000, RECORD)] {
            for (place, word) in (0_u64..).zip(words) {
                memory.write(start + place * 8, &word.to_le_bytes());
            }
        }
        assert_eq!(arena_of(&numbers), Some(ARENA));
        assert_eq!(find_arena(&memory, V3_1), Some((AT, AT + ARENA)));
        assert_eq!(find_arena(&memory, V3_3), None);
    }
}
