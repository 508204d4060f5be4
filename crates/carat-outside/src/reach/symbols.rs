//! Names of Ruby's symbols, found by the form of their table.
//!
//! The table is an array of arrays; each of these has 512 pairs of a name and a symbol (`struct symbols`, symbol.c; `ID_ENTRY_UNIT`).
//! An ID is the number of a pair, shifted by four bits; IDs of operators are the number itself.

use super::words::{SymbolTable, Words};
use crate::heap::{SlotType, string};
use crate::memory::for_each_word;

/// Pairs of one inner array.
const PAIRS: u64 = 512;
/// Contents lie in the slot of an array (`RARRAY_EMBED_FLAG`).
const EMBEDDED: u64 = 1 << 13;
/// Inner arrays at most: half a billion symbols.
const MOST: u64 = 1 << 20;
/// The lowest byte of a symbol that is no object (`RUBY_SYMBOL_FLAG`).
const STATIC_SYMBOL: u64 = 0xc;
/// IDs of operators end here (`tLAST_OP_ID` is below it).
const OPERATORS: u64 = 256;
/// Inner arrays that are examined before a table is believed.
const EXAMINED: u64 = 8;

/// The table.
#[derive(Clone, Copy)]
pub(crate) struct Symbols<'a> {
    words: Words<'a>,
    table: SymbolTable,
}

impl<'a> Symbols<'a> {
    /// Finds the table: an object that one of these ranges of a library's data leads to.
    pub(crate) fn find(words: Words<'a>, ranges: &[(u64, u64)]) -> Option<Self> {
        let mut found = None;
        for (start, end) in ranges {
            for_each_word(words.memory, *start, *end, |word| {
                if found.is_none() {
                    found = table_at(&words, word);
                }
            });
        }
        found.map(|table| Self { words, table })
    }

    /// The table that was found before.
    pub(crate) fn of(words: Words<'a>) -> Option<Self> {
        words.symbols.map(|table| Self { words, table })
    }

    /// Where the table is.
    pub(crate) const fn table(&self) -> SymbolTable {
        self.table
    }

    /// The name with a number.
    pub(crate) fn serial(&self, serial: u64) -> Option<String> {
        let SymbolTable { start, count, .. } = self.table;
        let inner = serial / PAIRS;
        let array = self.words.memory.word_at(start, (inner < count).then_some(inner * 8)?)?;
        let (pairs, length) = outside_array(&self.words, array)?;
        let at = serial % PAIRS * 2;
        let name = self.words.memory.word_at(pairs, (at < length).then_some(at * 8)?)?;
        string(self.words.memory, self.words.heap, name)
    }

    /// The name of an ID.
    pub(crate) fn id(&self, id: u64) -> Option<String> {
        self.serial(if id < OPERATORS { id } else { id >> 4 })
    }

    /// The name of a symbol.
    pub(crate) fn symbol(&self, value: u64) -> Option<String> {
        if value & 0xff == STATIC_SYMBOL {
            return self.id(value >> 8);
        }
        let flags = self.words.object(value)?;
        let is_symbol = flags & 31 == u64::from(SlotType::SYMBOL.0);
        let name = self.words.memory.word_at(value, 24).filter(|_| is_symbol)?;
        string(self.words.memory, self.words.heap, name)
    }
}

/// Whether a word is a symbol that is no object.
pub(crate) const fn is_static_symbol(value: u64) -> bool {
    value & 0xff == STATIC_SYMBOL
}

/// The address of the elements of an array that lie outside of its slot, and their number.
fn outside_array(words: &Words<'_>, value: u64) -> Option<(u64, u64)> {
    let flags = words.object(value)?;
    let is_outside = flags & 31 == u64::from(SlotType::ARRAY.0) && flags & EMBEDDED == 0;
    let length = words.memory.word_at(value, 16).filter(|_| is_outside)?;
    Some((words.memory.word_at(value, 32)?, length))
}

/// The table of names that a word is.
fn table_at(words: &Words<'_>, word: u64) -> Option<SymbolTable> {
    let (start, count) = outside_array(words, word)?;
    if !(2..MOST).contains(&count) {
        return None;
    }
    let examined = count.min(EXAMINED);
    let sound = (0..examined).filter(|number| {
        let inner = words.memory.word_at(start, number * 8);
        inner.is_some_and(|inner| has_names(words, inner))
    });
    // The last one may be new.
    (sound.count() as u64 >= examined - 1).then_some(SymbolTable { object: word, start, count })
}

/// Whether the middle of an inner array has names, and nothing but names.
fn has_names(words: &Words<'_>, inner: u64) -> bool {
    let Some((pairs, length)) = outside_array(words, inner) else { return false };
    let names = (300..308).map(|number| words.memory.word_at(pairs, number * 16).unwrap_or(0));
    let is_name = |word: &u64| {
        words.object(*word).is_some_and(|flags| flags & 31 == u64::from(SlotType::STRING.0))
    };
    // nil is 4 or 8, by version.
    let all: Vec<bool> =
        names.filter(|word| ![0, 4, 8].contains(word)).map(|word| is_name(&word)).collect();
    length >= 308 * 2 && !all.is_empty() && all.iter().all(|is_name| *is_name)
}
