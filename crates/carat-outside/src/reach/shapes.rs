//! Shapes (Ruby 3.2 and later): which instance variables an object has, and at which place.
//!
//! The table of shapes is found by vote: the shapes of objects must have the names of instance variables. Where no table is named by
//! most of them, instance variables have numbers and no names, and all of an object's memory counts.

use crate::memory::Memory;
use carat_ruby::version::{
    OBJECT_FIELDS_OUTSIDE_BY_FLAG, RubyVersion, SHAPES, SHAPES_KEEP_EDGE_FIRST, V3_4,
};

/// Shapes that vote.
const VOTERS: usize = 300;
/// A table is believed if so many of a hundred voters have the name of an instance variable there, and no other has half as many.
/// The others are shapes without a variable, or frozen ones.
const CLEAR: usize = 20;
/// Fewer votes decide nothing.
const LEAST: usize = 3;
/// Voters that are asked first: nearly no candidate is a table.
const FIRST: usize = 12;
/// Parents that are followed.
const PARENTS: usize = 5000;
/// Bytes of a shape.
const SIZES: [u64; 3] = [32, 40, 48];
/// The kind of a shape that adds an instance variable (`SHAPE_IVAR`).
const IVAR: u64 = 1;
/// Instance variables of one object at most.
const MOST: u64 = 4096;
/// Kinds of shapes are fewer than this.
const KINDS: u64 = 16;
/// The shape of an object with more shapes than its class may have (`OBJ_TOO_COMPLEX_SHAPE_ID`, shape.h): from 3.4 on, and before.
const TOO_COMPLEX: u64 = 2;
const TOO_COMPLEX_BEFORE_3_4: u64 = 11;
/// No shape, by the width of its number.
const NO_SHAPES: [u64; 2] = [0xffff_ffff, 0x7_ffff];
/// Bits of a shape's number from 4.0 on.
const BITS_4_0: u64 = 0x7_ffff;

/// The table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShapeTable {
    start: u64,
    bytes: u64,
    version: RubyVersion,
}

/// One shape.
struct Shape {
    name: u64,
    /// The number of instance variables with this one.
    count: u64,
    parent: u64,
    kind: u64,
}

impl ShapeTable {
    /// Finds the table among these addresses. `flags` are those of objects that have instance variables; `is_variable` says
    /// whether an ID is the name of one.
    pub(super) fn find(
        (memory, version): (&dyn Memory, RubyVersion),
        candidates: &[u64],
        flags: &[u64],
        is_variable: &dyn Fn(u64) -> bool,
    ) -> Option<Self> {
        if !SHAPES.contains(version) {
            return None;
        }
        let mut voters: Vec<u64> = flags.iter().map(|flags| number(*flags, version)).collect();
        voters.sort_unstable();
        voters.dedup();
        voters.retain(|number| *number > 0);
        voters.truncate(VOTERS);
        let mut best: (usize, Option<Self>) = (0, None);
        let mut second = 0;
        for start in candidates.iter().copied().filter(|start| start.is_multiple_of(16)) {
            for bytes in SIZES {
                let table = Self { start, bytes, version };
                let votes = table.votes(memory, &voters, is_variable);
                if votes > best.0 {
                    (second, best) = (best.0, (votes, Some(table)));
                } else {
                    second = second.max(votes);
                }
            }
        }
        let enough = best.0 >= LEAST && best.0 * 100 >= voters.len() * CLEAR;
        // A wrong table gives objects wrong names, which is worse than none.
        let clear = enough && best.0 > second * 2;
        best.1.filter(|_| clear)
    }

    /// How many of these shapes are a named instance variable.
    fn votes(
        &self,
        memory: &dyn Memory,
        voters: &[u64],
        is_variable: &dyn Fn(u64) -> bool,
    ) -> usize {
        let named = |number: &u64| {
            let shape = self.shape(memory, *number).filter(|shape| shape.kind == IVAR);
            let sound = shape.filter(|shape| shape.count > 0 && shape.count < MOST);
            // Its parent is a shape of the same table, with one variable less.
            let sound = sound.filter(|shape| {
                let parent = self.shape(memory, shape.parent);
                parent.is_some_and(|parent| parent.count + 1 == shape.count)
            });
            sound.is_some_and(|shape| is_variable(shape.name))
        };
        let first = voters.iter().take(FIRST).filter(|number| named(number)).count();
        match first {
            0..3 if voters.len() > FIRST => 0,
            _ => first + voters.iter().skip(FIRST).filter(|number| named(number)).count(),
        }
    }

    fn shape(&self, memory: &dyn Memory, number: u64) -> Option<Shape> {
        let at = self.start.checked_add(number.checked_mul(self.bytes)?)?;
        let half = |offset: u64| {
            let word = memory.word_at(at, offset & !7)?;
            Some(if offset & 4 == 0 { word & 0xffff_ffff } else { word >> 32 })
        };
        let name = memory.word_at(at, 8)?;
        Some(match SHAPES_KEEP_EDGE_FIRST.contains(self.version) {
            // `edge_name`, `next_iv_index`, then kind, size pool, and parent.
            true => Shape { name, count: half(16)?, parent: half(28)?, kind: half(24)? & 0xff },
            // `edge_name`, `parent_id`, `next_field_index`, kind.
            false => {
                Shape { name, count: half(28)? & 0xffff, parent: half(24)?, kind: half(32)? & 0xff }
            }
        })
    }

    /// The number of instance variables of an object with these flags; `None` if its shape makes no sense.
    pub(super) fn count(&self, memory: &dyn Memory, flags: u64) -> Option<u64> {
        let shape = self.shape(memory, number(flags, self.version))?;
        (shape.count < MOST && shape.kind < KINDS).then_some(shape.count)
    }

    /// The ID of the instance variable at a place, of the object with these flags.
    pub(crate) fn variable(&self, memory: &dyn Memory, flags: u64, place: u64) -> Option<u64> {
        let mut at = number(flags, self.version);
        // Memory that is not a table may lead in a circle.
        for _ in 0..PARENTS {
            let shape = self.shape(memory, at)?;
            if shape.kind == IVAR && shape.count == place + 1 {
                return Some(shape.name);
            }
            if NO_SHAPES.contains(&shape.parent) || shape.parent == at {
                return None;
            }
            at = shape.parent;
        }
        None
    }
}

/// Whether the variables of an object with these flags are in a table, whatever its other flags say.
pub(super) fn is_too_complex(flags: u64, version: RubyVersion) -> bool {
    let shape = if version < V3_4 { TOO_COMPLEX_BEFORE_3_4 } else { TOO_COMPLEX };
    SHAPES.contains(version) && number(flags, version) == shape
}

/// The shape's number in the flags of an object.
fn number(flags: u64, version: RubyVersion) -> u64 {
    let number = flags >> 32;
    if OBJECT_FIELDS_OUTSIDE_BY_FLAG.contains(version) { number & BITS_4_0 } else { number }
}
