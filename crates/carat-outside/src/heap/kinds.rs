//! What the first two words of a slot say.

use crate::bytes::word_in;
use carat_ruby::version::{OLD_IN_TWO_FLAGS, RubyVersion, V4_0};

/// The first two words of a slot (`struct RBasic`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotHead {
    /// Type and flags.
    pub flags: u64,
    /// The class; 0 for objects that Ruby hides.
    pub class: u64,
}

/// The type of a slot: the low five bits of its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotType(pub u8);

/// Names of types (`ruby/internal/value_type.h`); `None` for numbers that no slot has.
const TYPE_NAMES: [Option<&str>; 32] = [
    Some("T_NONE"),
    Some("T_OBJECT"),
    Some("T_CLASS"),
    Some("T_MODULE"),
    Some("T_FLOAT"),
    Some("T_STRING"),
    Some("T_REGEXP"),
    Some("T_ARRAY"),
    Some("T_HASH"),
    Some("T_STRUCT"),
    Some("T_BIGNUM"),
    Some("T_FILE"),
    Some("T_DATA"),
    Some("T_MATCH"),
    Some("T_COMPLEX"),
    Some("T_RATIONAL"),
    None,
    None,
    None,
    None,
    Some("T_SYMBOL"),
    None,
    None,
    None,
    None,
    None,
    Some("T_IMEMO"),
    Some("T_NODE"),
    Some("T_ICLASS"),
    Some("T_ZOMBIE"),
    Some("T_MOVED"),
    None,
];

/// Kinds of internal objects (`enum imemo_type`, internal/imemo.h) up to 3.4.
const IMEMO_KINDS: [&str; 14] = [
    "env",
    "cref",
    "svar",
    "throw_data",
    "ifunc",
    "memo",
    "ment",
    "iseq",
    "tmpbuf",
    "ast",
    "parser_strterm",
    "callinfo",
    "callcache",
    "constcache",
];
/// The same from 4.0 on; the last two from 4.1 on.
const IMEMO_KINDS_4_0: [&str; 16] = [
    "env",
    "cref",
    "svar",
    "throw_data",
    "ifunc",
    "memo",
    "ment",
    "iseq",
    "tmpbuf",
    "cvar_entry",
    "callinfo",
    "callcache",
    "constcache",
    "fields",
    "subclasses",
    "cdhash",
];

impl SlotType {
    /// A free slot.
    pub const NONE: Self = Self(0);
    /// An object with instance variables and nothing else.
    pub const OBJECT: Self = Self(1);
    pub const CLASS: Self = Self(2);
    pub const MODULE: Self = Self(3);
    /// A number with a fraction.
    pub const FLOAT: Self = Self(4);
    pub const STRING: Self = Self(5);
    /// A regular expression.
    pub const REGEXP: Self = Self(6);
    pub const ARRAY: Self = Self(7);
    pub const HASH: Self = Self(8);
    pub const STRUCT: Self = Self(9);
    /// A large integer.
    pub const BIGNUM: Self = Self(10);
    /// An input or output.
    pub const FILE: Self = Self(11);
    /// A number of two parts.
    pub const COMPLEX: Self = Self(14);
    /// A fraction.
    pub const RATIONAL: Self = Self(15);
    /// A struct of C.
    pub const DATA: Self = Self(12);
    /// A match of a regular expression.
    pub const MATCH: Self = Self(13);
    /// A symbol that was made while the program runs.
    pub const SYMBOL: Self = Self(20);
    /// An object that Ruby uses internally.
    pub const IMEMO: Self = Self(26);
    /// A node of the syntax tree.
    pub const NODE: Self = Self(27);
    /// A module as a link of an ancestor chain.
    pub const ICLASS: Self = Self(28);
    /// An object whose finalizer has not run.
    pub const ZOMBIE: Self = Self(29);
    /// The place that an object left in a compaction.
    pub const MOVED: Self = Self(30);

    /// Its name; `None` for a number that no slot has.
    pub const fn name(self) -> Option<&'static str> {
        TYPE_NAMES[(self.0 & 31) as usize]
    }

    /// Whether the second word is a class.
    pub const fn has_class(self) -> bool {
        matches!(self.0, 1..=15 | 20)
    }
}

impl SlotHead {
    /// The head of the slot that starts `bytes`.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Some(Self { flags: word_in(bytes, 0)?, class: word_in(bytes, 8)? })
    }

    /// The type.
    pub const fn slot_type(self) -> SlotType {
        SlotType((self.flags & 31) as u8)
    }

    /// Whether minor collections skip the object.
    pub fn old(self, version: RubyVersion) -> bool {
        let bits = if OLD_IN_TWO_FLAGS.contains(version) { 3 } else { 1 };
        self.flags >> 5 & bits == bits
    }

    /// The age where it is part of the flags.
    pub const fn age_in_flags(self) -> usize {
        (self.flags >> 5 & 3) as usize
    }
}

/// The kind of an internal object; `None` for a number that is not known.
pub fn imemo_kind(flags: u64, version: RubyVersion) -> Option<&'static str> {
    let kinds: &[&'static str] = if version >= V4_0 { &IMEMO_KINDS_4_0 } else { &IMEMO_KINDS };
    kinds.get((flags >> 12 & 15) as usize).copied()
}
