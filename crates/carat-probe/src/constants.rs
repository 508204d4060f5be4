//! Constants of this Ruby's heap, read once at load time.

use carat_ruby::RubyApi;
use carat_ruby::api::small_integer;
use std::ffi::CStr;
use std::sync::OnceLock;

/// Sizes of the heap; `None` if this Ruby does not say.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeapConstants {
    /// Bytes of a heap page.
    pub(crate) page_bytes: Option<u64>,
    /// Slots of a heap page, in a Ruby whose slots have one size.
    pub(crate) page_slots: Option<u64>,
    /// Bytes of a slot, in a Ruby whose slots have one size. Elsewhere that of objects without a size of their own, which
    /// is not the smallest from Ruby 4.1 on.
    pub(crate) slot_bytes: Option<u64>,
    /// Whether the heap is that of another collector than Ruby's own (`GC.config`, Ruby 3.4 and later).
    pub(crate) other_collector: bool,
}

static CONSTANTS: OnceLock<HeapConstants> = OnceLock::new();

/// What [`read`] found.
pub(crate) fn get() -> HeapConstants {
    CONSTANTS.get().copied().unwrap_or_default()
}

/// Reads the constants; must be called with Ruby's lock held.
pub(crate) fn read(ruby: &RubyApi) {
    let slot_bytes = integer(ruby, c"GC::INTERNAL_CONSTANTS[:RVALUE_SIZE]")
        .or_else(|| integer(ruby, c"GC::INTERNAL_CONSTANTS[:BASE_SLOT_SIZE]"));
    let page_slots = integer(ruby, c"GC::INTERNAL_CONSTANTS[:HEAP_PAGE_OBJ_LIMIT]");
    let page_bytes = integer(ruby, c"GC::INTERNAL_CONSTANTS[:HEAP_PAGE_SIZE]")
        .or_else(|| page_bytes_from_slots(page_slots?, slot_bytes?));
    let other_collector = ruby.evaluate(OTHER_COLLECTOR).is_some_and(|found| found != ruby.nil());
    CONSTANTS.get_or_init(|| HeapConstants { page_bytes, page_slots, slot_bytes, other_collector });
}

/// The name of a collector that is not Ruby's own, or nil.
const OTHER_COLLECTOR: &CStr = c"
  name = GC.config[:implementation] if GC.respond_to?(:config)
  name unless name == 'default'";

fn integer(ruby: &RubyApi, code: &CStr) -> Option<u64> {
    ruby.evaluate(code).and_then(small_integer)
}

/// For a Ruby without a constant for the page size: a page is a power of two, and its slots nearly fill it.
fn page_bytes_from_slots(slots: u64, slot_bytes: u64) -> Option<u64> {
    slots.checked_mul(slot_bytes)?.checked_next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_ruby::version::{V3_0, heap_layout};

    #[test]
    fn the_page_size_of_an_old_ruby_follows_from_its_slots() {
        let expected = heap_layout(V3_0).map(|layout| u64::from(layout.page_bytes));
        assert_eq!(page_bytes_from_slots(408, 40), expected);
        assert_eq!(page_bytes_from_slots(u64::MAX, 2), None);
    }
}
