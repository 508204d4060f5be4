//! Whether large contents stayed where they were while a process was read.
//!
//! An object and its contents are read at different moments. If Ruby gave the contents another place in between, then at the old
//! one is what malloc, or somebody else, wrote there since: some of the references, or none. So the objects are asked once more
//! where their contents are. Small ones are not: they move all the time, and may lie outside of chunks.

use super::fields::SlotView;
use super::forms::StTable;
use super::words::{TRANSIENT_WORDS, Words};

/// Words of a pair in a table: its hash, its key and its record.
const PAIR_WORDS: u64 = 3;

/// Where objects said that their contents are.
#[derive(Debug, Default)]
pub(super) struct LargeContents(Vec<Said>);

#[derive(Debug)]
struct Said {
    /// Address of the word that says where the contents are.
    at: u64,
    contents: u64,
    words: u64,
}

impl LargeContents {
    /// Remembers where an object said that so many words of its contents are, if these are many.
    pub(super) fn add_values(&mut self, view: &SlotView<'_>, contents: u64, words: u64) {
        if words > TRANSIENT_WORDS {
            self.0.extend(view.place_of(contents).map(|at| Said { at, contents, words }));
        }
    }

    /// The same of the table at an address.
    pub(super) fn add_table(&mut self, address: u64, table: &StTable) {
        let words = table.bound.saturating_mul(PAIR_WORDS);
        if words > TRANSIENT_WORDS {
            let at = address.wrapping_add(StTable::ENTRIES);
            self.0.push(Said { at, contents: table.entries, words });
        }
    }

    /// How many have other contents by now, or had them before the chunks of malloc were read.
    pub(super) fn moved(&self, words: Words<'_>) -> u64 {
        self.0.iter().filter(|said| !said.holds(words)).count() as u64
    }
}

impl Said {
    fn holds(&self, words: Words<'_>) -> bool {
        let has_room = words
            .chunk_at(self.contents)
            .is_some_and(|(_, chunk)| (chunk.user_end() - self.contents) / 8 >= self.words);
        has_room && words.memory.now(self.at) == Some(self.contents)
    }
}
