//! Constants of this Ruby's heap, read once when loading.

use crate::ruby::Ruby;
use std::sync::OnceLock;

/// Sizes of the heap; `None` where this Ruby does not say.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Constants {
    /// Bytes of a heap page.
    pub(crate) page_bytes: Option<u64>,
    /// Slots of a heap page, in a Ruby whose slots are all of one size.
    pub(crate) page_slots: Option<u64>,
    /// Bytes of the smallest slot.
    pub(crate) slot_bytes: Option<u64>,
}

static CONSTANTS: OnceLock<Constants> = OnceLock::new();

/// What [`read`] found.
pub(crate) fn get() -> Constants {
    CONSTANTS.get().copied().unwrap_or_default()
}

/// Reads them; must be called with Ruby's lock held.
pub(crate) fn read(ruby: &Ruby) {
    let read = || {
        let slot_bytes = ruby
            .eval_integer(c"GC::INTERNAL_CONSTANTS[:RVALUE_SIZE]")
            .or_else(|| ruby.eval_integer(c"GC::INTERNAL_CONSTANTS[:BASE_SLOT_SIZE]"));
        let page_slots = ruby.eval_integer(c"GC::INTERNAL_CONSTANTS[:HEAP_PAGE_OBJ_LIMIT]");
        let page_bytes = ruby
            .eval_integer(c"GC::INTERNAL_CONSTANTS[:HEAP_PAGE_SIZE]")
            .or_else(|| page_bytes_from_slots(page_slots?, slot_bytes?));
        Constants { page_bytes, page_slots, slot_bytes }
    };
    CONSTANTS.get_or_init(read);
}

/// Ruby to 3.0 names no page size: a page is a power of two, and its slots nearly fill it.
fn page_bytes_from_slots(slots: u64, slot_bytes: u64) -> Option<u64> {
    slots.checked_mul(slot_bytes)?.checked_next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_size_of_an_old_ruby_follows_from_its_slots() {
        assert_eq!(page_bytes_from_slots(408, 40), Some(16_384));
        assert_eq!(page_bytes_from_slots(u64::MAX, 2), None);
    }
}
