//! Types of C structs (`rb_data_type_t`, whose first word is the name), told by their names.

use crate::hash::AddressMap;
use crate::memory::Memory;

/// What is known of types with some names, and which addresses are of which.
#[derive(Debug)]
pub(super) struct StructTypes<K: 'static> {
    known: &'static [(&'static str, K)],
    by_address: AddressMap<Option<K>>,
}

impl<K: Copy> StructTypes<K> {
    /// With what is known of each name.
    pub(super) fn new(known: &'static [(&'static str, K)]) -> Self {
        Self { known, by_address: AddressMap::default() }
    }

    /// What is known of the type at an address.
    pub(super) fn find(&mut self, memory: &dyn Memory, at: u64) -> Option<K> {
        *self.by_address.entry(at).or_insert_with(|| {
            let name = memory.word(at)?;
            let is = |text: &str| {
                let bytes = memory.copy(name, text.len() as u64 + 1);
                bytes.is_some_and(|bytes| bytes.strip_suffix(&[0]) == Some(text.as_bytes()))
            };
            self.known.iter().find(|(text, _)| is(text)).map(|(_, kind)| *kind)
        })
    }
}
