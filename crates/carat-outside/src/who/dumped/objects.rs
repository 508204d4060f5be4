//! The objects of a dump: a table by address, and what only a few of them have.

use super::line::{DumpLine, address, slot_type};
use crate::hash::AddressMap;
use crate::heap::SlotType;
use crate::printable::printable;
use crate::who::data::CodePlace;
use std::collections::HashMap;

/// Objects of one part of the index.
const PART: usize = 64;

/// Objects with a place of code, at most.
const PLACES: usize = 1 << 20;

/// One object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DumpObject {
    pub(super) address: u64,
    /// The address of its class; 0 for none.
    pub(super) class: u64,
    pub(super) bytes: u64,
    /// Elements or entries; `NO_LENGTH` if it has none.
    pub(super) length: u32,
    pub(super) kind: u8,
    pub(super) is_old: bool,
    /// The number of the kind of an internal object.
    pub(super) internal: u16,
}

pub(super) const NO_LENGTH: u32 = u32::MAX;

/// A class or module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DumpClass {
    pub(super) name: Option<String>,
    pub(super) superclass: u64,
    pub(super) is_singleton: bool,
}

/// Every object of a dump.
#[derive(Debug, Default)]
pub(super) struct DumpObjects {
    /// By address, once they are sorted.
    pub(super) list: Vec<DumpObject>,
    pub(super) classes: AddressMap<DumpClass>,
    /// Kinds of internal objects by number.
    pub(super) internal: Vec<String>,
    /// The address of the first object of each part of the list.
    index: Vec<u64>,
    /// References of all objects and roots.
    pub(super) references: u64,
    /// Whether references have names.
    pub(super) has_names: bool,
    /// Whether classes say which of them are singleton classes.
    tells_singletons: bool,
    /// Objects that were there twice.
    pub(super) again: u64,
    /// Places of code, and the objects that have one by address.
    codes: Vec<CodePlace>,
    code_numbers: HashMap<CodePlace, u32>,
    code_of: AddressMap<u32>,
}

impl DumpObjects {
    /// Bytes of memory for so many objects.
    pub(super) const fn bytes(objects: u64) -> u64 {
        objects.saturating_mul(size_of::<DumpObject>() as u64 + 1)
    }

    /// Adds the object of a line. False if it is none.
    pub(super) fn add(&mut self, line: &mut DumpLine<'_>) -> bool {
        let text = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().and_then(address);
        let kind = line.kind.as_deref().and_then(slot_type);
        let (Some(kind), Some(at)) = (kind, text(&line.address).filter(|at| *at > 0)) else {
            return false;
        };
        let internal = match &line.imemo_type {
            Some(name) => self.internal_number(name),
            None => 0,
        };
        let length = line.length.or(line.size);
        let length = length.map_or(NO_LENGTH, |length| length.min(u64::from(NO_LENGTH - 1)) as u32);
        // Some versions print a word of an internal object as its class.
        let class = text(&line.class).filter(|_| kind.has_class() || kind == SlotType::ICLASS);
        self.list.push(DumpObject {
            address: at,
            class: class.unwrap_or(0),
            bytes: line.memsize,
            length,
            kind: kind.0,
            is_old: line.flags.old,
            internal,
        });
        if matches!(kind, SlotType::CLASS | SlotType::MODULE) {
            let name = line.name.take().or_else(|| line.real_class_name.take());
            let superclass = text(&line.superclass).unwrap_or(0);
            self.tells_singletons |= line.singleton;
            let class = DumpClass { name, superclass, is_singleton: line.singleton };
            self.classes.insert(at, class);
        }
        if let Some(place) = line.code.take().filter(|_| self.code_of.len() < PLACES) {
            self.place(at, &place);
        }
        self.references += line.references.0.len() as u64;
        self.has_names |= line.reference_names.is_some();
        true
    }

    fn place(&mut self, at: u64, place: &CodePlace) {
        let CodePlace { label, path, line } = place;
        let place = CodePlace { label: printable(label), path: printable(path), line: *line };
        let next = self.codes.len() as u32;
        // Blocks of one line are many, and their place is kept once.
        let number = *self.code_numbers.entry(place.clone()).or_insert(next);
        if number == next {
            self.codes.push(place);
        }
        self.code_of.insert(at, number);
    }

    /// The place of the code of the object at an address.
    pub(super) fn code(&self, address: u64) -> Option<CodePlace> {
        self.codes.get(*self.code_of.get(&address)? as usize).cloned()
    }

    fn internal_number(&mut self, name: &str) -> u16 {
        const MOST: usize = 100;
        match self.internal.iter().position(|known| known == name) {
            Some(number) => number as u16,
            None if self.internal.len() < MOST => {
                self.internal.push(name.chars().take(40).collect());
                self.internal.len() as u16 - 1
            }
            None => 0,
        }
    }

    /// Sorts the objects, after the last one.
    pub(super) fn finish(&mut self) {
        // Growing has left up to half of it unused, which counts against a limit of addresses.
        self.list.shrink_to_fit();
        // Stable, so that of two with one address the first in the file counts.
        self.list.sort_by_key(|object| object.address);
        let before = self.list.len();
        self.list.dedup_by_key(|object| object.address);
        self.again = (before - self.list.len()) as u64;
        self.index = self.list.iter().step_by(PART).map(|object| object.address).collect();
        if !self.tells_singletons {
            self.guess_singletons();
        }
    }

    /// Old dumps do not say so: the class of a class is a singleton class, unless it is `Class` or `Module`.
    fn guess_singletons(&mut self) {
        let kinds = [SlotType::CLASS.0, SlotType::MODULE.0];
        for object in self.list.iter().filter(|object| kinds.contains(&object.kind)) {
            if let Some(class) = self.classes.get_mut(&object.class)
                && !matches!(class.name.as_deref(), Some("Class" | "Module"))
            {
                class.is_singleton = true;
            }
        }
    }

    /// The number of the object at an address.
    pub(super) fn number(&self, address: u64) -> Option<u32> {
        // In two steps: the index fits into a cache of the processor, the list does not.
        let part = self.index.partition_point(|first| *first <= address).checked_sub(1)?;
        let first = part * PART;
        let part = self.list.get(first..)?;
        let part = &part[..part.len().min(PART)];
        let end = part.partition_point(|object| object.address < address);
        (part.get(end)?.address == address).then_some((first + end) as u32)
    }
}
