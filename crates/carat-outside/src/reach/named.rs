//! The tables of Ruby that give names, found before anything is marked: shapes also say how many variables an object has.

use super::shapes::ShapeTable;
use super::symbols::Symbols;
use super::words::Words;
use crate::elf::RubyAnchors;
use crate::hash::AddressSet;
use crate::heap::SlotType;
use crate::memory::{Memory, words_between};
use carat_ruby::version::SHAPES;

/// Candidates for the table of shapes are in chunks of at most so many bytes.
const SMALL: u64 = 128;
/// Shapes that may vote.
const SHAPES_ASKED: usize = 2000;

/// The words of a process with the tables that were found.
pub(super) fn with_tables<'a>(words: Words<'a>, anchors: &RubyAnchors) -> Words<'a> {
    let ranges = ruby_data(words.memory, anchors);
    let Some(symbols) = Symbols::find(words, &ranges) else { return words };
    let mut found = Words { symbols: Some(symbols.table()), ..words };
    if SHAPES.contains(words.heap.version()) {
        let candidates = candidates(&words, &ranges, anchors);
        found.shapes = ShapeTable::find(
            (words.memory, words.heap.version()),
            &candidates,
            &flags_of_objects(&words),
            &|id| symbols.id(id).is_some_and(|name| name.starts_with('@')),
        );
    }
    found
}

/// The data of Ruby's library, and its zeroed data behind.
pub(super) fn ruby_data(memory: &dyn Memory, anchors: &RubyAnchors) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for region in memory.regions().iter().filter(|region| region.searched()) {
        let follows = ranges.last().is_some_and(|(_, end)| *end == region.start);
        if region.path == anchors.library || (follows && region.path.is_empty()) {
            ranges.push((region.start, region.end));
        }
    }
    ranges
}

/// The flags of objects with different shapes.
fn flags_of_objects(words: &Words<'_>) -> Vec<u64> {
    let pages = words.heap.pages().iter();
    let slots =
        pages.flat_map(|page| (0..page.slots).map(|number| (page.slot(number), page.slot_bytes)));
    let views = slots.filter_map(|(slot, bytes)| words.view(slot, bytes));
    let mut shapes = AddressSet::default();
    let flags = views.filter(|view| view.kind() == SlotType::OBJECT).map(|view| view.flags);
    flags.filter(|flags| shapes.insert(flags >> 32)).take(SHAPES_ASKED).collect()
}

/// Addresses that may be the table of shapes: words of Ruby's data, of its VM, and of small chunks to which those lead.
fn candidates(words: &Words<'_>, ranges: &[(u64, u64)], anchors: &RubyAnchors) -> Vec<u64> {
    let mut ranges = ranges.to_vec();
    let vm = words.vm(anchors).and_then(|vm| words.chunks.get(vm));
    ranges.extend(vm.map(|vm| (vm.user(), vm.user_end())));
    let found = ranges.into_iter();
    let mut found: Vec<u64> =
        found.flat_map(|(start, end)| words_between(words.memory, start, end)).collect();
    let is_small = |word: u64| match words.chunks.is_told() {
        // Whatever lies there; the vote decides.
        true => word.is_multiple_of(8),
        false => words.chunk_at(word).is_some_and(|(_, chunk)| chunk.size <= SMALL),
    };
    let small: Vec<u64> = found.iter().copied().filter(|word| is_small(*word)).collect();
    for chunk in small {
        found.extend((0..4).filter_map(|number| words.memory.word_at(chunk, number * 8)));
    }
    found.retain(|word| *word > 1 << 16 && word >> 47 == 0 && word.is_multiple_of(16));
    found.sort_unstable();
    found.dedup();
    found.retain(|word| words.memory.word(*word).is_some());
    found
}
