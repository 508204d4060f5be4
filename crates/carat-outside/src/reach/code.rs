//! Bytecode: what stands behind its tables is old, and some of them have only numbers or what the collector does not mark.

use super::fields::SlotView;
use super::forms::NAMES;
use super::graph::Graph;
use crate::heap::{SlotHead, SlotType};
use carat_ruby::version::{
    CALLS_HAVE_CACHES, LONG_INLINE_CACHES, RubyVersion, SHAPES, V2_7, V3_1, V3_3, V3_4,
};
use std::ops::Range;

/// Where in the body of bytecode the address can stand of what is known of its instructions, and bytes of that of one: with a node from
/// 3.1 on (`rb_iseq_constant_body`, vm_core.h).
const LINES: Range<u64> = 96..168;
const LINE_BYTES: [u64; 2] = [8, 12];
/// Bytes of the body at most, where malloc can give more; versions that are not here were not measured, or fill what it gives.
const BODY: [(RubyVersion, u64); 3] = [(V2_7, 296), (V3_1, 312), (V3_3, 312)];
/// Where in it the number of optional arguments stands, in the upper half of a word, and the address of where their defaults begin.
const OPTIONAL: u64 = 24;
const DEFAULTS: u64 = 48;
/// Where in it the address of what is known of its keywords stands; bytes of that; and where in that the addresses of their names and of
/// the values of those that are not required stand.
const KEYWORDS: u64 = 56;
const KEYWORDS_BYTES: u64 = 32;
const KEYWORD_NAMES: u64 = 16;
const KEYWORD_VALUES: u64 = 24;
/// Where the address of the table of variables of the code around stands, from 3.3 on behind the bits for the instructions.
const OUTER: [(RubyVersion, u64); 3] = [(V3_1, 264), (V3_3, 272), (V3_4, 280)];
/// Bytes between the address of the lines and that of the names of local variables, and bytes of what catches an exception.
const LOCALS: u64 = 32;
const CATCH: u64 = 32;
/// Where in the body the address can stand of its inline caches, behind which stands that of its calls, and so many bytes farther how
/// many there are of each, up to 3.0 and later.
const CACHES: Range<u64> = 168..200;
const EARLY_COUNTS: u64 = 48;
const COUNTS: u64 = 56;
/// Bytes of an inline cache, up to 3.0 and later, and of a call (`iseq_inline_storage_entry`, `rb_call_data`).
const CACHE: u64 = 16;
const LONG_CACHE: u64 = 24;
const CALL: u64 = 16;
/// Bytes of a call with its cache in it, and of one with keywords, which has their address too (`rb_kwarg_call_data`, vm_core.h).
const CACHED_CALL: u64 = 80;
const KEYWORD_CALL: u64 = 88;
/// Names in the path of a constant at most.
const PATH: u64 = 32;

/// A chunk, by number, and the bytes of it that are in use.
type UsedChunk = (usize, Range<u64>);

impl Graph<'_> {
    /// What of the chunks of bytecode is in use.
    pub(super) fn code(&mut self, view: &SlotView<'_>) {
        let Some(body) = view.code_body() else { return };
        let word = |at: u64| self.words.memory.word_at(body, at).unwrap_or(0);
        let size = word(0) >> 32;
        let instructions = self.words.buffer(word(8), size * 8);
        self.used.extend(instructions.map(|chunk| (chunk as u64, 0..size * 8)));
        self.numbers(body, size);
        self.keywords(word(KEYWORDS));
        self.lines(body);
        self.inline_caches(body);
    }

    /// Where the defaults of arguments begin, one more than there are optional ones; a bit for each word of the instructions; and a table
    /// with a bit for each variable of the code around (`param.opt_table`, `mark_bits.list`, `outer_variables`).
    fn numbers(&mut self, body: u64, size: u64) {
        let word = |at: u64| self.words.memory.word_at(body, at).unwrap_or(0);
        let table = |at: u64, count: u64| {
            let (number, chunk) = self.words.chunk_at(word(at))?;
            chunk.fits(count * 8).then_some(number)
        };
        let mut numbers = Vec::new();
        numbers.extend(table(DEFAULTS, (word(OPTIONAL) >> 32) + 1));
        let version = self.words.heap.version();
        if let Some(at) = version.among(&OUTER) {
            if let Some((items, _)) = self.words.table_of_names(word(at)) {
                numbers.extend(self.words.chunk_at(items).map(|(number, _)| number));
                numbers.extend(table(at, NAMES / 8));
            }
            if size > 64 {
                numbers.extend(table(at - 8, size.div_ceil(64)));
            }
        }
        self.used.extend(numbers.into_iter().map(|number| (number as u64, 0..0)));
        if let Some((number, chunk)) = self.words.chunk_at(body)
            && let Some(bytes) = version.among(&BODY).filter(|bytes| chunk.fits(*bytes))
        {
            self.used.insert(number as u64, 0..bytes);
        }
    }

    /// What is known of keywords: {how many, how many of them are required, other numbers, names, values of the others}
    /// (`struct rb_iseq_param_keyword`, vm_core.h). The names lie among those of local variables, or in a chunk of their own where the
    /// bytecode was loaded.
    fn keywords(&mut self, at: u64) {
        let word = |offset: u64| self.words.memory.word_at(at, offset).unwrap_or(0);
        let (count, required) = (word(0) & u64::from(u32::MAX), word(0) >> 32);
        let known = self.words.chunk_at(at).filter(|(_, chunk)| chunk.fits(KEYWORDS_BYTES));
        let (Some((keywords, _)), Some(others)) = (known, count.checked_sub(required)) else {
            return;
        };
        let list = |offset: u64, length: u64| {
            self.words.chunk_at(word(offset)).filter(|(_, chunk)| chunk.fits(length * 8))
        };
        let values = list(KEYWORD_VALUES, others).map(|(number, _)| (number, 0..others * 8));
        let has_names = self.words.memory.word(word(KEYWORD_NAMES)).is_some_and(is_name);
        let names =
            list(KEYWORD_NAMES, count).filter(|_| has_names).map(|(number, _)| (number, 0..0));
        let used =
            [(keywords, KEYWORD_NAMES..KEYWORDS_BYTES)].into_iter().chain(values).chain(names);
        self.used.extend(used.map(|(number, used)| (number as u64, used)));
    }

    /// What is known of instructions, which is only numbers: line, node and events of each (`struct iseq_insn_info_entry`, iseq.h). Behind
    /// stand the names of local variables, which are numbers too, and what catches exceptions.
    fn lines(&mut self, body: u64) {
        let word = |at: u64| self.words.memory.word_at(body, at).unwrap_or(0);
        let found = LINES.step_by(8).find_map(|at| {
            // {lines, positions, which are freed when they are indexed; how many, index} (`insns_info`, vm_core.h).
            let number = word(at + 16) & u64::from(u32::MAX);
            let (chunk, found) = self.words.chunk_at(word(at)).filter(|_| word(at + 8) == 0)?;
            let fits = LINE_BYTES.into_iter().any(|bytes| found.fits(number * bytes));
            let (index, _) = self.words.chunk_at(word(at + 24))?;
            (number > 0 && fits).then_some(([chunk, index], at + LOCALS))
        });
        let Some((lines, locals)) = found else { return };
        let has_names = self.words.memory.word(word(locals)).is_some_and(is_name);
        let names = self.words.chunk_at(word(locals)).filter(|_| has_names);
        let catches = self.catches(word(locals + 8));
        let numbers = lines.into_iter().chain(names.map(|(number, _)| number));
        let used = numbers.map(|number| (number, 0..0)).chain(catches);
        self.used.extend(used.map(|(number, used)| (number as u64, used)));
    }

    /// What catches exceptions: a number, and then as many places with their bytecode (`struct iseq_catch_table`, iseq.h).
    fn catches(&self, at: u64) -> Option<UsedChunk> {
        let (number, chunk) = self.words.chunk_at(at)?;
        let count = self.words.memory.word(at)? & u64::from(u32::MAX);
        let bytes = 4 + count * CATCH;
        chunk.fits(bytes).then_some((number, 0..bytes & !7))
    }

    /// The inline caches and the calls.
    fn inline_caches(&mut self, body: u64) {
        let Some(tables) = CACHES.step_by(8).find_map(|at| self.tables_of_caches(body + at)) else {
            return;
        };
        if SHAPES.contains(self.words.heap.version()) {
            let caches = tables[0].iter().flat_map(|(chunk, used)| {
                let start = self.words.chunks.get(*chunk).map_or(0, |chunk| chunk.user());
                used.clone().step_by(CACHE as usize).map(move |at| start + at)
            });
            let paths = caches.filter_map(|at| self.path_of_constant(at));
            let paths: Vec<usize> = paths.collect();
            self.used.extend(paths.into_iter().map(|chunk| (chunk as u64, 0..0)));
        }
        let [caches, mut calls] = tables;
        // What a call remembers of its method keeps nothing, nor do its keywords, which are symbols of the code.
        if CALLS_HAVE_CACHES.contains(self.words.heap.version()) {
            let with_keywords = calls.take_if(|(_, used)| !used.is_empty());
            self.shallow.extend(with_keywords.map(|(chunk, _)| (chunk as u64, 0)));
        }
        self.inline_caches.extend(caches.iter().map(|(chunk, _)| (*chunk as u64, ())));
        let caches = caches.map(|(chunk, used)| (chunk, self.without_constants(chunk, used)));
        let tables = caches.into_iter().chain(calls);
        self.used.extend(tables.map(|(chunk, used)| (chunk as u64, used)));
    }

    /// What is in use of inline caches: up to 2.7 those of constants keep nothing, and only what is calculated once does, as an object in
    /// the second word (`once.value`).
    fn without_constants(&self, chunk: usize, used: Range<u64>) -> Range<u64> {
        let start = self.words.chunks.get(chunk).map_or(0, |chunk| chunk.user());
        let is_once = |at: u64| {
            let word = self.words.memory.word_at(start, at + 8).unwrap_or(0);
            let flags = self.words.object(word).unwrap_or(0);
            flags != 0 && SlotHead { flags, class: 0 }.slot_type() != SlotType::IMEMO
        };
        let is_old = CALLS_HAVE_CACHES.contains(self.words.heap.version());
        let has_once = || used.clone().step_by(LONG_CACHE as usize).any(is_once);
        if is_old && !has_once() { 0..0 } else { used }
    }

    /// The chunks of the inline caches and of the calls, with what is in use of each, if their addresses stand at this one: there are as
    /// many as stands behind.
    fn tables_of_caches(&self, at: u64) -> Option<[Option<UsedChunk>; 2]> {
        let version = self.words.heap.version();
        let word = |offset| self.words.memory.word_at(at, offset);
        let low = |word: u64| word & u64::from(u32::MAX);
        let is_early = LONG_INLINE_CACHES.contains(version);
        let counts = if is_early { EARLY_COUNTS } else { COUNTS };
        let counts = [word(counts)?, word(counts + 8)?, word(counts + 16)?];
        let (caches, calls, with_keywords) = if SHAPES.contains(version) {
            // Those of four kinds: {…, constants; once, instance variables; class variables, calls}.
            let caches = (counts[0] >> 32) + low(counts[1]) + (counts[1] >> 32) + low(counts[2]);
            (caches, counts[2] >> 32, 0)
        } else {
            // {…, caches; calls, those with keywords}.
            (counts[0] >> 32, low(counts[1]), counts[1] >> 32)
        };
        let cache = if is_early { LONG_CACHE } else { CACHE };
        let (bytes, used) = if CALLS_HAVE_CACHES.contains(version) {
            let bytes = calls * CACHED_CALL + with_keywords * KEYWORD_CALL;
            (bytes, if with_keywords == 0 { 0..0 } else { 0..bytes })
        } else {
            (calls * CALL, 0..calls * CALL)
        };
        let table = |address: u64, bytes: u64, used: Range<u64>| {
            if bytes == 0 {
                return Some(None);
            }
            let (number, chunk) = self.words.chunk_at(address)?;
            chunk.fits(bytes).then_some(Some((number, used)))
        };
        let caches_used = 0..caches * cache;
        let tables = [table(word(0)?, caches * cache, caches_used)?, table(word(8)?, bytes, used)?];
        tables.iter().any(Option::is_some).then_some(tables)
    }

    /// The chunk of the names in the path of a constant: the second word of its cache leads there, and 0 ends them
    /// (`iseq_inline_constant_cache`, vm_core.h).
    fn path_of_constant(&self, cache: u64) -> Option<usize> {
        let (number, chunk) = self.words.chunk_at(self.words.memory.word_at(cache, 8)?)?;
        let name = |place| self.words.memory.word_at(chunk.user(), place * 8);
        let names = (0..PATH).take_while(|place| name(*place).is_some_and(|name| name != 0));
        let are_names = |count: u64| (0..count).all(|place| name(place).is_some_and(is_name));
        let count = names.count() as u64;
        (count > 0 && are_names(count) && chunk.fits(count * 8 + 8)).then_some(number)
    }
}

/// Whether a word is a name (`ID`), which is a number: 0 for a parameter without one, such as `(a, b)` of a block.
pub(crate) fn is_name(word: u64) -> bool {
    word <= u64::from(u32::MAX)
}
