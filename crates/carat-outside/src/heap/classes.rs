//! The class of a slot by name.

use super::kinds::{SlotHead, SlotType, imemo_kind};
use super::names::ClassShape;
use super::pages::Heap;
use crate::elf::RubyAnchors;
use crate::hash::AddressMap;
use crate::memory::Memory;
use crate::printable::printable;
use carat_ruby::version::RubyVersion;
use std::collections::HashMap;

pub use super::names::NamesUnknown;

/// Longer chains of superclasses are not followed.
const CHAIN: usize = 300;
/// Links followed in all. A server has some 20,000 classes with a few ancestors each; a process that lies must not keep
/// the reader busy.
const LINKS: u64 = 1_000_000;
/// A class that leads to no name.
const UNRESOLVED: &str = "(unresolved)";

/// Number of a class name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(pub u32);

impl ClassId {
    /// As an index of a list with an entry for each name.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Names of classes, each with a number. Grows while slots are looked up.
#[derive(Debug, Clone)]
pub struct ClassNames {
    shape: ClassShape,
    names: Vec<String>,
    by_name: HashMap<String, ClassId>,
    by_class: AddressMap<ClassId>,
    links: u64,
}

impl ClassNames {
    /// Learns where names are.
    pub fn learn(
        memory: &dyn Memory,
        heap: &Heap,
        anchors: &RubyAnchors,
    ) -> Result<Self, NamesUnknown> {
        let shape = ClassShape::learn(memory, heap, anchors)?;
        Ok(Self {
            shape,
            names: Vec::new(),
            by_name: HashMap::new(),
            by_class: AddressMap::default(),
            links: 0,
        })
    }

    /// The name with a number.
    pub fn name(&self, class: ClassId) -> &str {
        self.names.get(class.index()).map_or(UNRESOLVED, String::as_str)
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether no slot has been looked up yet.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The number of a name, which is new if no slot had it.
    pub fn id(&mut self, name: &str) -> ClassId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = ClassId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push(name.to_owned());
        self.by_name.insert(name.to_owned(), id);
        id
    }

    /// Whether the flags of a class are those of a singleton class.
    pub(crate) const fn is_singleton(&self, flags: u64) -> bool {
        self.shape.is_singleton(flags)
    }

    /// The superclass of a class.
    pub(crate) fn superclass(&self, memory: &dyn Memory, class: u64) -> Option<u64> {
        self.shape.superclass(memory, class)
    }

    /// The class of a slot with an object.
    pub fn of_slot(&mut self, memory: &dyn Memory, heap: &Heap, head: SlotHead) -> ClassId {
        if head.slot_type().has_class() && head.class != 0 {
            return self.of_class(memory, heap, head.class);
        }
        // Type and kind tell internal objects; both fit below the first page of memory, where no class is.
        let key = (head.flags & 31) | ((head.flags >> 12 & 15) << 5);
        if let Some(id) = self.by_class.get(&key) {
            return *id;
        }
        let id = self.id(&internal_name(head, heap.version()));
        self.by_class.insert(key, id);
        id
    }

    /// The name that the instances of `class` are counted under: its own, that of the class that it is the singleton
    /// class of, or that of the nearest ancestor with a name.
    pub fn of_class(&mut self, memory: &dyn Memory, heap: &Heap, class: u64) -> ClassId {
        if let Some(id) = self.by_class.get(&class) {
            return *id;
        }
        let name = self.resolve(memory, heap, class);
        let id = self.id(&name);
        self.by_class.insert(class, id);
        id
    }

    fn resolve(&mut self, memory: &dyn Memory, heap: &Heap, class: u64) -> String {
        let mut class = class;
        let mut anonymous = false;
        for _ in 0..CHAIN {
            self.links += 1;
            // Each chain is short; only a process that lies makes their sum long.
            if self.links > LINKS {
                break;
            }
            let Some(flags) = heap.slot_of(class).and_then(|_| memory.word(class)) else { break };
            let kind = SlotHead { flags, class: 0 }.slot_type();
            if ![SlotType::CLASS, SlotType::MODULE, SlotType::ICLASS].contains(&kind) {
                break;
            }
            // Neither has a name of its own that a programmer has written.
            let passed = kind == SlotType::ICLASS
                || (kind == SlotType::CLASS && self.shape.is_singleton(flags));
            if !passed {
                if let Some(name) = self.shape.name(memory, heap, class) {
                    return shown(&name, anonymous);
                }
                anonymous = true;
            }
            let Some(next) = self.shape.superclass(memory, class) else { break };
            class = next;
        }
        UNRESOLVED.to_owned()
    }
}

/// The name of what has no class.
fn internal_name(head: SlotHead, version: RubyVersion) -> String {
    let kind = head.slot_type();
    match kind {
        SlotType::IMEMO => {
            let kind = imemo_kind(head.flags, version).unwrap_or("of an unknown kind");
            format!("(internal) imemo {kind}")
        }
        SlotType::NODE => "(internal) node".to_owned(),
        SlotType::ICLASS => "(internal) iclass".to_owned(),
        SlotType::ZOMBIE => "(zombie)".to_owned(),
        SlotType::MOVED => "(moved)".to_owned(),
        _ => format!("(internal) {}", kind.name().unwrap_or("of an unknown type")),
    }
}

/// The name of a class, or that of the nearest ancestor with a name.
fn shown(name: &str, anonymous: bool) -> String {
    let name = printable(name);
    match anonymous {
        true => format!("(anonymous < {name})"),
        false => name,
    }
}
