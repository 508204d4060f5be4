//! One line of a dump.

use crate::heap::SlotType;
use crate::who::data::CodePlace;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;

/// Bytes of an object, at most: the address space of a process (48 bits).
const MOST_BYTES: u64 = 1 << 48;

/// What is read of a line. Contents of strings are not.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DumpLine<'a> {
    #[serde(borrow)]
    pub(super) address: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) class: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) superclass: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) imemo_type: Option<Cow<'a, str>>,
    pub(super) root: Option<String>,
    pub(super) name: Option<String>,
    pub(super) real_class_name: Option<String>,
    pub(super) singleton: bool,
    pub(super) length: Option<u64>,
    pub(super) size: Option<u64>,
    pub(super) memsize: u64,
    pub(super) flags: DumpFlags,
    pub(super) references: Addresses,
    pub(super) reference_names: Option<Vec<Option<String>>>,
    pub(super) code: Option<CodePlace>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DumpFlags {
    pub(super) old: bool,
}

/// The addresses of a list.
#[derive(Debug, Default)]
pub(super) struct Addresses(pub(super) Vec<u64>);

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(AddressVisitor)
    }
}

struct AddressVisitor;

impl<'de> Visitor<'de> for AddressVisitor {
    type Value = Addresses;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of addresses")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Addresses, A::Error> {
        let mut found = Vec::new();
        while let Some(text) = list.next_element::<Cow<'de, str>>()? {
            // 0 is the address of no object.
            found.push(address(&text).unwrap_or(0));
        }
        Ok(Addresses(found))
    }
}

/// The first part of a line, which decides whether it is of a dump.
#[derive(Debug, Deserialize)]
struct DumpHead {
    #[serde(rename = "type")]
    _kind: String,
    address: Option<IgnoredAny>,
    root: Option<IgnoredAny>,
}

impl<'a> DumpLine<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let line: Self = serde_json::from_slice(line).ok()?;
        // No process has an object of that size, and sums of such numbers would overflow.
        (line.memsize <= MOST_BYTES).then_some(line)
    }

    /// Whether a line is that of an object or of a root.
    pub(super) fn is_of_dump(line: &[u8]) -> bool {
        let head = serde_json::from_slice::<DumpHead>(line);
        head.is_ok_and(|head| head.address.is_some() || head.root.is_some())
    }
}

/// The number of an address such as `0x7f5ce0210090`.
pub(super) fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// The type with a name such as `STRING`; `None` for one that no object has.
pub(super) fn slot_type(name: &str) -> Option<SlotType> {
    (1..31).map(SlotType).find(|kind| {
        kind.name().is_some_and(|known| known.strip_prefix("T_").unwrap_or(known) == name)
    })
}
