//! Places of code: the file and line of a block, and the names of its local variables. Where they are in the structures of bytecode is
//! learned by vote.

use super::data::CodePlace;
use crate::heap::{SlotType, string};
use crate::printable::printable;
use crate::reach::is_name;
use crate::reach::symbols::Symbols;
use crate::reach::words::Words;
use carat_ruby::version::LINE_IS_OBJECT;
use std::ops::Range;

/// Bytecode that votes.
const VOTERS: usize = 1000;
/// So many of a hundred voters must agree.
const CLEAR: usize = 90;
/// Where in the body of bytecode its location can be (`rb_iseq_constant_body`, vm_core.h).
const LOCATIONS: Range<u64> = 48..200;
/// Where the rest of the body can be.
const BODY: Range<u64> = 64..560;
/// Local variables of one piece of code, at most.
const MOST_LOCALS: u64 = 4096;
/// Words of captured variables behind the variables themselves: method, outer variables, flags, and the object
/// (`vm_make_env_each`, vm.c).
const AFTER_CAPTURED: u64 = 4;
/// Words between the last local variable of a frame and its `ep`, which is the third of them (`VM_ENV_DATA_SIZE`).
const BEFORE_EP: u64 = 2;

/// Where bytecode keeps what.
#[derive(Clone, Copy)]
pub(super) struct CodeLayout<'a> {
    words: Words<'a>,
    symbols: Option<Symbols<'a>>,
    location: Option<u64>,
    /// Offsets of the table of local variables and of their number.
    locals: Option<(u64, u64)>,
}

impl<'a> CodeLayout<'a> {
    /// Learns it from the bytecode among Ruby's internal objects.
    pub(super) fn learn(
        words: Words<'a>,
        symbols: Option<Symbols<'a>>,
        internal: Vec<u64>,
    ) -> Self {
        let mut layout = Self { words, symbols, location: None, locals: None };
        let bodies = internal.into_iter().filter_map(|object| layout.body(object));
        let bodies: Vec<u64> = bodies.filter(|body| layout.has_instructions(*body)).collect();
        // Spread over all of it, because bytecode that was loaded together is alike.
        let step = (bodies.len() / VOTERS).max(1);
        let bodies: Vec<u64> = bodies.into_iter().step_by(step).collect();
        let voters = bodies.len();
        // All are one structure. Further on lies the next one, whose tables are as good, but whose numbers are not this one's.
        let end = layout.bytes_of_most(&bodies);
        let within = |range: Range<u64>| range.start..range.end.min(end);
        let winner = |range: Range<u64>, fits: &dyn Fn(u64, u64) -> bool| {
            let votes = range.step_by(4).map(|offset| {
                let votes = bodies.iter().filter(|body| fits(**body, offset)).count();
                (votes, offset)
            });
            // Of equals the first: later places repeat what an earlier structure has.
            let best = votes.max_by_key(|(votes, offset)| (*votes, u64::MAX - offset));
            best.filter(|(votes, _)| *votes > 0 && votes * 100 >= voters * CLEAR)
        };
        layout.location = winner(within(LOCATIONS), &|body, at| layout.strings(body, at).is_some())
            .map(|won| won.1);
        // What is always 0 fits everywhere, so the place with most names wins.
        let fits = |at: &u64| {
            let tables = bodies.iter().filter(|body| layout.is_table(**body, *at)).count();
            tables * 100 >= voters * CLEAR
        };
        let named = |at: &u64| bodies.iter().filter(|body| layout.has_names(**body, *at)).count();
        let table = within(BODY).step_by(8).filter(fits).max_by_key(named);
        // Names in a fifth of the voters at least: most code has some, and a place of other pointers has none.
        let table = table.filter(|at| named(at) * 5 > voters);
        layout.locals = table.and_then(|table| {
            let size = winner(within(BODY), &|body, at| layout.is_size(body, (table, at)))?;
            Some((table, size.1))
        });
        layout
    }

    /// Whether places of code are known, and names of local variables.
    pub(super) const fn knows(&self) -> (bool, bool) {
        (self.location.is_some(), self.locals.is_some() && self.symbols.is_some())
    }

    /// Whether an object is bytecode.
    pub(super) fn is_code(&self, object: u64) -> bool {
        self.words.internal_kind(object) == Some("iseq")
    }

    /// Whether an object can be the code of a frame: bytecode, or a block in C (`vm_yield_with_cfunc`, vm_insnhelper.c).
    pub(super) fn can_run(&self, object: u64) -> bool {
        matches!(self.words.internal_kind(object), Some("iseq" | "ifunc"))
    }

    fn body(&self, code: u64) -> Option<u64> {
        let body = self.words.memory.word_at(code, 16)?;
        (self.is_code(code) && self.words.chunk_at(body).is_some()).then_some(body)
    }

    /// Bytes for which the bodies were allocated, or most of them.
    fn bytes_of_most(&self, bodies: &[u64]) -> u64 {
        let chunks = bodies.iter().filter_map(|body| self.words.chunk_at(*body));
        let mut sizes: Vec<u64> = chunks.map(|(_, chunk)| chunk.user_bytes()).collect();
        sizes.sort_unstable();
        sizes.get(sizes.len() / 2).copied().unwrap_or_default()
    }

    /// Whether code can run. From 3.3 on each that is loaded from a cache leaves one behind that only has a path
    /// (`rb_iseq_alloc_with_dummy_path`, iseq.c).
    fn has_instructions(&self, body: u64) -> bool {
        self.words.memory.word(body).is_some_and(|word| word >> 32 > 0)
    }

    /// Path and label, if both and what lies between them are strings (`rb_iseq_location_t`).
    fn strings(&self, body: u64, at: u64) -> Option<(u64, u64)> {
        let memory = self.words.memory;
        let path = memory.word_at(body, at)?;
        let label = memory.word_at(body, at + 16)?;
        let is = |value: u64, kind: SlotType| {
            self.words.object(value).is_some_and(|flags| flags & 31 == u64::from(kind.0))
        };
        let path = match is(path, SlotType::ARRAY) {
            // The path and the real path.
            true => self.first_element(path)?,
            false => path,
        };
        let sound = is(path, SlotType::STRING)
            && is(memory.word_at(body, at + 8)?, SlotType::STRING)
            && is(label, SlotType::STRING);
        sound.then_some((path, label))
    }

    fn first_element(&self, array: u64) -> Option<u64> {
        let flags = self.words.object(array)?;
        let memory = self.words.memory;
        match flags >> 13 & 1 {
            1 => memory.word_at(array, 16),
            _ => memory.word(memory.word_at(array, 32)?),
        }
    }

    /// The place of bytecode.
    pub(super) fn place(&self, code: u64) -> Option<CodePlace> {
        let (body, at) = (self.body(code)?, self.location?);
        let (path, label) = self.strings(body, at)?;
        let text =
            |value| string(self.words.memory, self.words.heap, value).map(|text| printable(&text));
        let line = self.words.memory.word_at(body, at + 24)?;
        let line = match LINE_IS_OBJECT.contains(self.words.heap.version()) {
            true => line >> 1,
            false => line & 0xffff_ffff,
        };
        // No file has so many lines; 0 is shown as no line.
        let line = if line < 1 << 24 { line } else { 0 };
        Some(CodePlace { label: text(label)?, path: text(path)?, line })
    }

    /// Whether there is a table of names of local variables, or none. What handles an exception has one of Ruby's library, whose name is
    /// none of a program (`rb_iseq_shared_exc_local_tbl`, iseq.c).
    fn is_table(&self, body: u64, at: u64) -> bool {
        match self.words.memory.word_at(body, at).filter(|_| at.is_multiple_of(8)) {
            Some(0) => true,
            Some(table) => self.words.memory.word(table).is_some_and(is_name),
            None => false,
        }
    }

    fn has_names(&self, body: u64, at: u64) -> bool {
        let table = self.words.memory.word_at(body, at).filter(|_| at.is_multiple_of(8));
        let Some((table, (_, chunk))) = table.and_then(|at| Some((at, self.words.chunk_at(at)?)))
        else {
            return false;
        };
        // Internal variables have IDs without a name; the first ones are arguments, mostly with one.
        let most = chunk.size / 8;
        most <= MOST_LOCALS && (0..most.min(2)).any(|number| self.local_id(table, number).is_some())
    }

    /// The name of a local variable in a table.
    fn local_id(&self, table: u64, number: u64) -> Option<String> {
        let id = self.words.memory.word_at(table, number * 8)?;
        // Operators are below 256, and the lowest bits of the ID of a local variable are 1 (`ID_LOCAL`, id.h).
        let name = self.symbols.as_ref()?.id(id).filter(|_| id > 256 && id & 0xf == 1)?;
        name.starts_with(|first: char| first.is_alphabetic() || first == '_')
            .then(|| printable(&name))
    }

    /// Whether a number is that of the local variables, for which the table was allocated.
    fn is_size(&self, body: u64, (table, at): (u64, u64)) -> bool {
        let Some(table) = self.words.memory.word_at(body, table) else { return false };
        let Some(size) = self.half(body, at) else { return false };
        match self.words.chunk_at(table) {
            // The table was allocated for exactly this number of IDs.
            Some((_, chunk)) => size > 0 && size < MOST_LOCALS && chunk.fits(size * 8),
            None => size == u64::from(table != 0),
        }
    }

    fn half(&self, address: u64, offset: u64) -> Option<u64> {
        let word = self.words.memory.word_at(address, offset & !7)?;
        Some(if offset & 4 == 0 { word & 0xffff_ffff } else { word >> 32 })
    }

    /// The number of local variables of code, and the address of their names.
    fn locals(&self, code: u64) -> Option<(u64, u64)> {
        let (body, (table, size)) = (self.body(code)?, self.locals?);
        let count = self.half(body, size).filter(|count| (1..MOST_LOCALS).contains(count))?;
        Some((count, self.words.memory.word_at(body, table)?))
    }

    /// The name of the captured variable at an address, of variables that belong to `object` (`rb_env_t`).
    pub(super) fn captured(&self, object: u64, at: u64) -> Option<String> {
        let memory = self.words.memory;
        let code = memory.word_at(object, 8)?;
        let (start, count) =
            (memory.word_at(object, 24)?, memory.word_at(object, 32)? & 0xffff_ffff);
        let (locals, table) = self.locals(code)?;
        let number = at.checked_sub(start)? / 8;
        let sound = locals.checked_add(AFTER_CAPTURED) == Some(count) && number < locals;
        sound.then(|| self.local_id(table, number)).flatten()
    }

    /// Whether an address of a stack is that of a variable of a frame that runs this code and has this `ep`.
    pub(super) fn is_local(&self, code: u64, ep: u64, at: u64) -> bool {
        self.local_number(code, ep, at).is_some()
    }

    /// The number of the variable, and the address of the names.
    fn local_number(&self, code: u64, ep: u64, at: u64) -> Option<(u64, u64)> {
        let (locals, table) = self.locals(code)?;
        let first = ep.checked_sub((locals + BEFORE_EP) * 8)?;
        let number = at.checked_sub(first)? / 8;
        (number < locals).then_some((number, table))
    }

    /// The name of the variable.
    pub(super) fn local(&self, code: u64, ep: u64, at: u64) -> Option<String> {
        let (number, table) = self.local_number(code, ep, at)?;
        self.local_id(table, number)
    }
}
