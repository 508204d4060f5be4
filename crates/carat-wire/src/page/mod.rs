//! The shared page: one file per Ruby process, written inside the process and read by carat.
//!
//! Every word is an atomic, so a mapping of the file *is* a [`Page`]. Writing it needs no system call and no lock that a
//! crash could leave behind. Each section has a sequence, which is odd during a write: a reader that finds it odd, or
//! changed, has read a torn section and reads again. Words are only ever added; a change of meaning or place is a new
//! [`VERSION`].

mod layout;
mod read;
mod read_sites;
mod section;
mod sites;
mod word;
mod words;

pub use layout::{
    ARENAS, Arenas, ENTRY, FRONT_BYTES, Feature, FeatureState, MAGIC, PAGE_BYTES, POOLS, Page,
    PageHeader, PageText, Pools, RANGES, Ranges, VERSION, file_name,
};
pub use read::{
    AddressRange, ArenaReading, HeapPages, PageError, PageReading, PageTime, PoolReading,
    SectionReading, read,
};
pub use read_sites::{AllocationReading, SiteReading, read_allocations};
pub use section::{Section, Table, Writer};
pub use sites::{END_SAMPLES, SAMPLE_BYTES, SITES, Sites};
pub use word::{UNKNOWN, VALUES, Word};
pub use words::{Allocations, AllocatorKind, Arena, Gc, Malloc, Own, Pool, Runtime};
