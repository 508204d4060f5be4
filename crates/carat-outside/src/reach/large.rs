//! Whether large contents stayed where they were while a process was read.
//!
//! An object and its contents are read at different moments. If Ruby gave the contents another place in between, then at the old
//! one is what malloc, or somebody else, wrote there since: some of the references, or none. So the objects are asked once more
//! where their contents are.

use super::fields::{Reference, SlotView};
use super::forms::StTable;
use super::words::Words;

/// Contents of so few words may lie outside of chunks, in the transient heap of Ruby 2.7 to 3.2, and small ones move all the time.
const SMALL_WORDS: u64 = 1 << 12;
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
    /// Remembers a reference of an object if it leads to many others.
    pub(super) fn add(&mut self, view: &SlotView<'_>, reference: &Reference) {
        let said = match *reference {
            Reference::Values(contents, words) if words > SMALL_WORDS => {
                view.place_of(contents).map(|at| Said { at, contents, words })
            }
            Reference::Table(address) => StTable::read(view.memory, address).map(|table| Said {
                at: address.wrapping_add(StTable::ENTRIES),
                contents: table.entries,
                words: table.bound.saturating_mul(PAIR_WORDS),
            }),
            _ => None,
        };
        self.0.extend(said.filter(|said| said.words > SMALL_WORDS));
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
