//! The shared page: one file per Ruby process, written inside it and read by carat.
//!
//! Every word is an atomic, so that a mapping of the file *is* a [`Page`] and writing it needs neither a
//! system call nor a lock that a crash could leave behind. Sections have one sequence each, odd while
//! somebody writes: a reader that saw it odd, or changed, has seen a torn section and reads again.
//! Words are only ever added; a change of meaning or place is a new [`VERSION`].

mod layout;
mod read;
mod section;
mod words;

pub use layout::{
    ARENAS, Arenas, ENTRY, FRONT_BYTES, Feature, Header, MAGIC, PAGE_BYTES, POOLS, Page, Pools,
    RANGES, Ranges, State, Text, UNKNOWN, VERSION, file_name,
};
pub use read::{
    AddressRange, ArenaReading, HeapPages, Moment, PageReading, PoolReading, ReadError, Values,
    read,
};
pub use section::{Section, Table, VALUES, Writer};
pub use words::{AllocatorKind, Arena, Gc, Malloc, Own, Pool, RUNTIME_SETTINGS, Runtime, Word};
