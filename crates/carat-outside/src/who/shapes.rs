//! Shapes (Ruby 3.2 and later): which instance variable an object keeps at which place.
//!
//! The table of shapes is found by vote: the shapes of objects must have the names of instance variables. Where no table is named by
//! most of them, instance variables have numbers and no names.

use super::symbols::Symbols;
use crate::reach::words::Words;
use carat_ruby::version::{OBJECT_FIELDS_OUTSIDE_BY_FLAG, SHAPES, SHAPES_KEEP_EDGE_FIRST};

/// Shapes that vote.
const VOTERS: usize = 300;
/// A table is believed if so many of a hundred voters have a name there, and no other has half as many.
const CLEAR: usize = 60;
/// Parents that are followed.
const PARENTS: usize = 5000;
/// Bytes of a shape.
const SIZES: [u64; 3] = [32, 40, 48];
/// The kind of a shape that adds an instance variable (`SHAPE_IVAR`).
const IVAR: u64 = 1;
/// No shape, by the width of its number.
const NO_SHAPES: [u64; 2] = [0xffff_ffff, 0x7_ffff];
/// Bits of a shape's number from 4.0 on.
const BITS_4_0: u64 = 0x7_ffff;

/// The table.
#[derive(Clone, Copy)]
pub(super) struct Shapes<'a> {
    words: Words<'a>,
    symbols: Symbols<'a>,
    place: ShapePlace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShapePlace {
    start: u64,
    bytes: u64,
}

/// One shape.
struct Shape {
    name: u64,
    /// The number of instance variables with this one.
    count: u64,
    parent: u64,
    kind: u64,
}

impl<'a> Shapes<'a> {
    /// Finds the table among these addresses. `flags` are those of objects that have instance variables.
    pub(super) fn find(
        words: Words<'a>,
        symbols: Symbols<'a>,
        candidates: &[u64],
        flags: &[u64],
    ) -> Option<Self> {
        if !SHAPES.contains(words.heap.version()) {
            return None;
        }
        let of = |place| Self { words, symbols, place };
        let none = of(ShapePlace { start: 0, bytes: 0 });
        let mut voters: Vec<u64> =
            flags.iter().map(|flags| none.number(*flags)).filter(|number| *number > 0).collect();
        voters.sort_unstable();
        voters.dedup();
        voters.truncate(VOTERS);
        let (mut best, mut second) = ((0, none.place), 0);
        for start in candidates.iter().copied().filter(|start| start.is_multiple_of(16)) {
            for bytes in SIZES {
                let place = ShapePlace { start, bytes };
                let votes = of(place).votes(&voters);
                if votes > best.0 {
                    (second, best) = (best.0, (votes, place));
                } else {
                    second = second.max(votes);
                }
            }
        }
        let clear = best.0 * 100 >= voters.len() * CLEAR && best.0 > second * 2;
        clear.then(|| of(best.1))
    }

    /// How many of these shapes are a named instance variable.
    fn votes(&self, voters: &[u64]) -> usize {
        let named = |number: &u64| self.names_variable(*number);
        // Nearly no candidate is a table.
        let first = voters.iter().take(12).filter(|number| named(number)).count();
        match first {
            0..3 if voters.len() > 12 => 0,
            _ => first + voters.iter().skip(12).filter(|number| named(number)).count(),
        }
    }

    fn names_variable(&self, number: u64) -> bool {
        let shape = self.shape(number).filter(|shape| shape.kind == IVAR);
        let sound = shape.filter(|shape| shape.count > 0 && shape.count < 4096);
        let name = sound.and_then(|shape| self.symbols.id(shape.name));
        name.is_some_and(|name| name.starts_with('@'))
    }

    /// The shape's number in the flags of an object.
    fn number(&self, flags: u64) -> u64 {
        let number = flags >> 32;
        let narrow = OBJECT_FIELDS_OUTSIDE_BY_FLAG.contains(self.words.heap.version());
        if narrow { number & BITS_4_0 } else { number }
    }

    fn shape(&self, number: u64) -> Option<Shape> {
        let at = self.place.start.checked_add(number.checked_mul(self.place.bytes)?)?;
        let memory = self.words.memory;
        let half = |offset: u64| {
            let word = memory.word_at(at, offset & !7)?;
            Some(if offset & 4 == 0 { word & 0xffff_ffff } else { word >> 32 })
        };
        let name = memory.word_at(at, 8)?;
        Some(match SHAPES_KEEP_EDGE_FIRST.contains(self.words.heap.version()) {
            // `edge_name`, `next_iv_index`, then kind, size pool, and parent.
            true => Shape { name, count: half(16)?, parent: half(28)?, kind: half(24)? & 0xff },
            // `edge_name`, `parent_id`, `next_field_index`, kind.
            false => {
                Shape { name, count: half(28)? & 0xffff, parent: half(24)?, kind: half(32)? & 0xff }
            }
        })
    }

    /// The name of the instance variable at a place, of the object with these flags.
    pub(super) fn variable(&self, flags: u64, place: u64) -> Option<String> {
        let mut number = self.number(flags);
        for _ in 0..PARENTS {
            let shape = self.shape(number)?;
            if shape.kind == IVAR && shape.count == place + 1 {
                return self.symbols.id(shape.name).filter(|name| name.starts_with('@'));
            }
            if NO_SHAPES.contains(&shape.parent) || shape.parent == number {
                return None;
            }
            number = shape.parent;
        }
        None
    }
}
