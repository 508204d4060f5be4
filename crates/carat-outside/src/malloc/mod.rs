//! The memory of malloc from outside: arenas, chunks, and what could be given back.
//!
//! ```text
//!  choose           which allocator serves, and so whose reader is asked
//!  glibc, jemalloc  the readers
//!  allocator        what every reader does
//!  table, data      chunks by address; counts
//!  residency        pages in memory and how full they are
//!  present          runs of pages in memory
//! ```

mod allocator;
mod choose;
mod data;
mod glibc;
mod jemalloc;
pub(crate) mod present;
mod residency;
mod table;

pub use allocator::{MallocReading, MallocRequest};
pub use choose::read_malloc;
pub use data::{
    ArenaCensus, ChunkAmount, ChunkSize, MallocCensus, MallocLayout, MappedChunks, NoMalloc,
    Occupancy,
};
pub use glibc::fake_malloc;
pub use jemalloc::{
    DecayTimes, EXTENT_BYTES, JemallocArena, JemallocCensus, JemallocCopy, LargeClass, PageAmount,
    SlabClass, fake_jemalloc,
};
pub use table::{Chunk, ChunkForm, ChunkState, ChunkTable};
