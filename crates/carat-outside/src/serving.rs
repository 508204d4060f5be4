//! Which malloc serves Ruby: the one that its own calls reach.
//!
//! A library can be mapped without being used, two can be mapped, and tcmalloc grows its heap by brk as glibc does. So
//! neither names nor sizes of mappings tell. The table through which Ruby's library calls `malloc` does.

use crate::elf::{ElfTables, ruby_tables};
use crate::memory::{Memory, MemoryRegion};
use crate::printable::printable;
use carat_ruby::allocator::MARKS;
use carat_wire::page::Word;
use serde::{Deserialize, Serialize};

/// The malloc that serves a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServingMalloc {
    /// Name of the allocator: `glibc`, `jemalloc`, `mimalloc`, `tcmalloc` or `musl`; `None` if it is another one.
    pub allocator: Option<String>,
    /// Name of the file with its `malloc`, without the folder.
    pub file: String,
}

/// The malloc that Ruby calls; `None` if there is no Ruby, or if it cannot be told.
pub fn serving_malloc(memory: &dyn Memory) -> Option<ServingMalloc> {
    let ruby = ruby_tables(memory)?;
    // A Ruby that contains its allocator calls it without a table.
    let malloc = ruby.import(memory, "malloc").or_else(|| ruby.lookup(memory, "malloc"))?;
    let region = memory.region(malloc).filter(|region| region.is_code_of_file())?;
    let tables = ElfTables::read(memory, first_address(memory, region)?)?;
    // Until its first call, an entry leads into the linker's code in the same library.
    let defined = tables.lookup(memory, "malloc")?;
    let file = region.file_name();
    let marked = MARKS
        .iter()
        .find(|(mark, _)| mark.to_str().is_ok_and(|mark| tables.lookup(memory, mark).is_some()));
    let allocator = match marked {
        Some((_, kind)) => Some(kind.name()),
        None => file.starts_with("ld-musl").then_some("musl"),
    };
    (defined == malloc)
        .then(|| ServingMalloc { allocator: allocator.map(str::to_owned), file: printable(file) })
}

/// The address of the first byte of the file that a mapping belongs to.
fn first_address(memory: &dyn Memory, of: &MemoryRegion) -> Option<u64> {
    let regions = memory.regions().iter().filter(|region| region.offset == 0);
    let mut regions = regions.filter(|region| (region.inode, &region.path) == (of.inode, &of.path));
    regions.next().map(|region| region.start)
}
