//! Ruby's heap: pages found by vote, slots, classes by name.

mod classes;
mod count;
mod data;
mod kinds;
mod layout;
mod names;
mod pages;
mod transient;

pub use classes::{ClassId, ClassNames, NamesUnknown};
pub use count::{CountRequest, Counted, count};
pub use data::{
    AgeCensus, ClassCount, ClassPlaces, HeapCensus, HeapLeftOut, HeapPageFill, PoolCensus,
    SlotAmount, TypeCount,
};
pub use kinds::{SlotHead, SlotType, imemo_kind};
pub use layout::{HeapPage, PageLayout};
pub(crate) use names::{string, string_bytes};
pub use pages::{Bitmap, Heap, HeapUnknown};
