//! Where a class keeps its name, learned from eight classes whose names are known.
//!
//! 2.7 to 3.1 keep it in a table of instance variables, 3.2 in an array of them, 3.3 and later in the class's slot. All
//! eight must agree, else there are no names.

use super::kinds::SlotType;
use super::pages::Heap;
use crate::elf::RubyAnchors;
use crate::memory::Memory;
use carat_ruby::version::EMBEDDED_LENGTH_IN_FLAGS;
use std::collections::HashMap;

/// Classes whose names are known: the symbol that points at each, and its name.
const ANCHORS: [(&str, &str); 8] = [
    ("rb_cString", "String"),
    ("rb_cArray", "Array"),
    ("rb_cObject", "Object"),
    ("rb_cInteger", "Integer"),
    ("rb_mKernel", "Kernel"),
    ("rb_cHash", "Hash"),
    ("rb_mComparable", "Comparable"),
    ("rb_eStandardError", "StandardError"),
];
/// Longer names are not read, in bytes.
const NAME_LIMIT: u64 = 400;
/// Larger tables of instance variables are not searched, in entries.
const TABLE_LIMIT: u64 = 1024;
/// The flag of a string whose bytes lie outside its slot (`RSTRING_NOEMBED`).
const STRING_OUTSIDE: u64 = 1 << 13;
/// The flag of a frozen object (`RUBY_FL_FREEZE`).
const FROZEN: u64 = 1 << 11;
/// Flags that types use for their own purposes (`RUBY_FL_USER0` and up) and that may mark a singleton class.
const USER_FLAGS: u64 = 0xff_f000;
/// The flag of singleton classes up to 3.3 (`FL_SINGLETON` is `FL_USER0`).
const SINGLETON_UP_TO_3_3: u64 = 1 << 12;
/// Offset of the class's extension, and in it of the table of instance variables (2.7 to 3.1).
const EXTENSION: u64 = 24;
const VARIABLES: u64 = 8;

/// Why classes have no names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamesUnknown {
    /// A symbol is missing, or does not point at an object.
    #[error("class names are unknown: {0} does not lead to an object")]
    Anchor(&'static str),
    /// Not all classes keep their names in one place.
    #[error("class names are unknown: {agree} of 8 known classes agree on where they are")]
    Place {
        /// Classes with their name in the best place.
        agree: usize,
    },
    /// The chain of superclasses was not found.
    #[error("class names are unknown: StandardError does not lead to Exception")]
    Superclass,
    /// The flag of singleton classes was not found.
    #[error("class names are unknown: no flag tells singleton classes")]
    Singleton,
}

/// Where the name of a class is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamePlace {
    /// A string at this offset of the slot.
    Slot(u64),
    /// A string at an offset of the array at an offset of the slot.
    Array(u64, u64),
    /// The value of this key in the table of instance variables.
    Variable(u64),
}

/// How the classes of one Ruby are laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClassShape {
    place: NamePlace,
    superclass: u64,
    singleton: u64,
}

/// A known class and its name.
type KnownClass = (u64, &'static str);

impl ClassShape {
    /// Learns the layout from the classes that the library's symbols point at.
    pub(super) fn learn(
        memory: &dyn Memory,
        heap: &Heap,
        anchors: &RubyAnchors,
    ) -> Result<Self, NamesUnknown> {
        let mut known = Vec::new();
        for (symbol, name) in ANCHORS {
            let class =
                anchors.value(memory, symbol).filter(|class| heap.slot_of(*class).is_some());
            // One that is missing is enough to give up: the file is then no Ruby of a known form.
            known.push((class.ok_or(NamesUnknown::Anchor(symbol))?, name));
        }
        // All eight must agree, because a name at a wrong place would be told as if it were right.
        let place = learn_place(memory, heap, &known)?;
        let superclass = learn_superclass(memory, &known, anchors)?;
        let singleton = learn_singleton(memory, &known).ok_or(NamesUnknown::Singleton)?;
        Ok(Self { place, superclass, singleton })
    }

    /// The superclass.
    pub(super) fn superclass(&self, memory: &dyn Memory, class: u64) -> Option<u64> {
        memory.word_at(class, self.superclass)
    }

    /// Whether the flags are those of a singleton class.
    pub(super) const fn is_singleton(&self, flags: u64) -> bool {
        flags & self.singleton != 0
    }

    /// The class's own name; `None` for an anonymous class.
    pub(super) fn name(&self, memory: &dyn Memory, heap: &Heap, class: u64) -> Option<String> {
        match self.place {
            NamePlace::Slot(offset) => string(memory, heap, memory.word_at(class, offset)?),
            NamePlace::Array(offset, index) => {
                let array = memory.word_at(class, offset)?;
                // Struct.new and others put an instance variable of their own first.
                let others = (0..12).map(|number| number * 8).filter(|other| *other != index);
                [index]
                    .into_iter()
                    .chain(others)
                    .find_map(|index| frozen_path(memory, heap, memory.word_at(array, index)?))
            }
            NamePlace::Variable(key) => {
                let table = variables(memory, class)?;
                let value = entries(memory, table).into_iter().find(|(found, _)| *found == key)?.1;
                string(memory, heap, value)
            }
        }
    }
}

fn learn_place(
    memory: &dyn Memory,
    heap: &Heap,
    known: &[KnownClass],
) -> Result<NamePlace, NamesUnknown> {
    let slot =
        known.first().and_then(|(class, _)| heap.slot_of(*class)).map_or(0, |p| p.slot_bytes);
    let mut agree = 0;
    for offset in (16..slot).step_by(8) {
        let found = known.iter().filter(|(class, name)| {
            let value = memory.word_at(*class, offset);
            value.and_then(|value| string(memory, heap, value)).as_deref() == Some(*name)
        });
        let found = found.count();
        if found == known.len() {
            return Ok(NamePlace::Slot(offset));
        }
        agree = agree.max(found);
    }
    // Before arrays: a table has a key for the name, while in arrays any place may fit by chance.
    if let Some(key) = learn_variable(memory, heap, known, &mut agree) {
        return Ok(NamePlace::Variable(key));
    }
    learn_array(memory, heap, known, slot, &mut agree).ok_or(NamesUnknown::Place { agree })
}

fn learn_array(
    memory: &dyn Memory,
    heap: &Heap,
    known: &[KnownClass],
    slot: u64,
    agree: &mut usize,
) -> Option<NamePlace> {
    for offset in (16..slot).step_by(8) {
        // The name is among the first variables, because it is set when the class gets its constant.
        for index in (0..200).step_by(8) {
            let found = known.iter().filter(|(class, name)| {
                let array = memory.word_at(*class, offset);
                let value = array.and_then(|array| memory.word_at(array, index));
                value.and_then(|value| string(memory, heap, value)).as_deref() == Some(*name)
            });
            let found = found.count();
            if found == known.len() {
                return Some(NamePlace::Array(offset, index));
            }
            *agree = (*agree).max(found);
        }
    }
    None
}

/// The key of the name (`__classpath__`) in the tables of instance variables.
fn learn_variable(
    memory: &dyn Memory,
    heap: &Heap,
    known: &[KnownClass],
    agree: &mut usize,
) -> Option<u64> {
    let mut votes: HashMap<u64, usize> = HashMap::new();
    for (class, name) in known {
        let Some(table) = variables(memory, *class) else { continue };
        for (key, value) in entries(memory, table) {
            if string(memory, heap, value).as_deref() == Some(*name) {
                *votes.entry(key).or_default() += 1;
            }
        }
    }
    let (key, found) = votes.into_iter().max_by_key(|(key, found)| (*found, *key))?;
    *agree = (*agree).max(found);
    (found == known.len()).then_some(key)
}

fn learn_superclass(
    memory: &dyn Memory,
    known: &[KnownClass],
    anchors: &RubyAnchors,
) -> Result<u64, NamesUnknown> {
    // A pair whose relation is documented: StandardError is directly below Exception.
    let exception = anchors.value(memory, "rb_eException");
    let exception = exception.ok_or(NamesUnknown::Anchor("rb_eException"))?;
    let error = known.iter().find(|(_, name)| *name == "StandardError").map_or(0, |known| known.0);
    (8..160)
        .step_by(8)
        .find(|offset| memory.word_at(error, *offset) == Some(exception))
        .ok_or(NamesUnknown::Superclass)
}

/// The flag that the singleton classes of all known classes have and the classes themselves do not.
fn learn_singleton(memory: &dyn Memory, known: &[KnownClass]) -> Option<u64> {
    let mut flags = USER_FLAGS & !FROZEN;
    // The class of a module need not be a singleton class.
    for (class, _) in known.iter().filter(|(_, name)| !["Kernel", "Comparable"].contains(name)) {
        flags &= !memory.word(*class)?;
        flags &= memory.word(memory.word_at(*class, 8)?)?;
    }
    match flags {
        0 => None,
        // Several flags can fit by chance; that of most versions is preferred.
        flags if flags & SINGLETON_UP_TO_3_3 != 0 => Some(SINGLETON_UP_TO_3_3),
        flags => Some(flags & flags.wrapping_neg()),
    }
}

/// The table of a class's instance variables in 2.7 to 3.1.
fn variables(memory: &dyn Memory, class: u64) -> Option<u64> {
    let extension = memory.word_at(class, EXTENSION)?;
    memory.word_at(extension, VARIABLES).filter(|table| *table != 0)
}

/// Keys and values of an `st_table` (include/ruby/st.h): number of entries at 40, entries at 48, each a hash, a key and a
/// record. Deleted entries have a hash of all ones.
fn entries(memory: &dyn Memory, table: u64) -> Vec<(u64, u64)> {
    let bound = memory.word_at(table, 40).filter(|bound| *bound <= TABLE_LIMIT).unwrap_or(0);
    let Some(first) = memory.word_at(table, 48) else { return Vec::new() };
    let read = |number: u64| {
        let entry = first.checked_add(number * 24)?;
        let hash = memory.word(entry)?;
        let pair = (memory.word_at(entry, 8)?, memory.word_at(entry, 16)?);
        // Deleted entries stay in the array until it is rebuilt.
        (hash != u64::MAX).then_some(pair)
    };
    (0..bound).filter_map(read).collect()
}

/// The text of a String object; `None` if it is none, is longer than a name, or is not UTF-8.
pub(crate) fn string(memory: &dyn Memory, heap: &Heap, value: u64) -> Option<String> {
    let (start, length) = string_bytes(memory, heap, value)?;
    if length == 0 || length > NAME_LIMIT {
        return None;
    }
    String::from_utf8(memory.copy(start, length)?).ok()
}

/// The address and the number of the bytes of a String object; `None` if it is none.
pub(crate) fn string_bytes(memory: &dyn Memory, heap: &Heap, value: u64) -> Option<(u64, u64)> {
    heap.slot_of(value)?;
    let flags = memory.word(value)?;
    // The lowest five bits are the type (`RUBY_T_MASK`, value_type.h).
    if flags & 31 != u64::from(SlotType::STRING.0) {
        return None;
    }
    let (length, start) = if flags & STRING_OUTSIDE != 0 {
        (memory.word_at(value, 16)?, memory.word_at(value, 24)?)
    } else if EMBEDDED_LENGTH_IN_FLAGS.contains(heap.version()) {
        (flags >> 14 & 31, value.checked_add(16)?)
    } else {
        (memory.word_at(value, 16)?, value.checked_add(24)?)
    };
    Some((start, length))
}

/// The text of a frozen string that can be a class's path.
fn frozen_path(memory: &dyn Memory, heap: &Heap, value: u64) -> Option<String> {
    heap.slot_of(value)?;
    if memory.word(value)? & FROZEN == 0 {
        return None;
    }
    let text = string(memory, heap, value)?;
    let path = text.starts_with(char::is_uppercase)
        && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':');
    // An anonymous class above a named one gives its children such a name.
    (path || text.starts_with("#<Class:0x") || text.starts_with("#<Module:0x")).then_some(text)
}
