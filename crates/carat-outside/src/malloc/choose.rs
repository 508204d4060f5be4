//! Which allocator serves a process, and so whose reader is asked.

use crate::elf::{foreign_library, zeroed_end};
use crate::malloc::allocator::{Allocator, MallocReading, MallocRequest};
use crate::malloc::data::NoMalloc;
use crate::malloc::glibc::Glibc;
use crate::malloc::jemalloc::{Jemalloc, is_jemalloc};
use crate::memory::{Memory, MemoryRegion, PAGE};
use crate::serving::serving_malloc;
use tracing::debug;

/// Allocators by a part of their library's name.
const OTHERS: [&str; 3] = [JEMALLOC, "mimalloc", "tcmalloc"];
const JEMALLOC: &str = "jemalloc";
/// A stack's guard has a few pages; what an allocator reserves and has not committed has more (64 KiB and more in mimalloc).
const LARGEST_GUARD: u64 = 32 << 10;
/// Start-up code allocates a little from glibc before another allocator takes over.
const GLIBC_IN_USE: u64 = 3 << 20;

/// Reads malloc's memory. `is_heap_page` says whether an address lies in a page of Ruby's heap; `keep` that the table of all
/// chunks is wanted.
///
/// # Errors
/// If the allocator cannot be read, by its name, or if its data were not found.
pub fn read_malloc(
    memory: &mut dyn Memory,
    is_heap_page: &dyn Fn(u64) -> bool,
    keep: bool,
) -> Result<MallocReading, NoMalloc> {
    let reader = reader(memory).map_err(|reason| with_amount(reason, memory, is_heap_page))?;
    let reading = reader.read(memory, &MallocRequest { is_heap_page, keep });
    reading.map_err(|reason| match (&reason, other_allocator(memory)) {
        // tcmalloc takes the program break itself, so it is told by what is missing.
        (NoMalloc::NoMainArena | NoMalloc::OpenRing, Some(name)) => {
            with_amount(other(&name), memory, is_heap_page)
        }
        _ => reason,
    })
}

fn other(name: &str) -> NoMalloc {
    NoMalloc::Other { name: name.to_owned(), present: 0 }
}

/// Adds how much memory an allocator that is not walked can have: anonymous pages that are no heap pages, no stacks and no data of
/// libraries.
fn with_amount(
    reason: NoMalloc,
    memory: &dyn Memory,
    is_heap_page: &dyn Fn(u64) -> bool,
) -> NoMalloc {
    let NoMalloc::Other { name, .. } = reason else { return reason };
    let mut pages = 0;
    let mut before: Option<&MemoryRegion> = None;
    for region in memory.regions() {
        let touching = before.filter(|before| before.end == region.start);
        let is_stack =
            touching.is_some_and(|before| !before.readable && before.size() <= LARGEST_GUARD);
        let data_end = touching
            .filter(|before| before.inode != 0)
            .and_then(|file| zeroed_end(memory, file, region));
        before = Some(region);
        if region.anonymous() && region.writable && !is_stack {
            let places = region.pages.entries().filter(|(_, entry)| entry.present());
            let places =
                places.map(|(page, _)| region.start.saturating_add(page.saturating_mul(PAGE)));
            let may_own =
                |page: &u64| data_end.is_none_or(|end| *page >= end) && !is_heap_page(*page);
            pages += places.filter(may_own).count() as u64;
        }
    }
    NoMalloc::Other { name, present: pages * PAGE }
}

/// The reader of the allocator that serves.
fn reader(memory: &dyn Memory) -> Result<Box<dyn Allocator>, NoMalloc> {
    if let Some(file) = foreign_library(memory) {
        return Err(NoMalloc::OtherMachine { file });
    }
    let serving = serving_malloc(memory);
    debug!(?serving, "whose malloc serves");
    let Some(serving) = serving else { return reader_of_mapped(memory) };
    let file = serving.file.as_str();
    match serving.allocator.as_deref() {
        Some("glibc") => Ok(Box::new(Glibc)),
        Some("musl") => Err(NoMalloc::Musl),
        Some("jemalloc") => Ok(Box::new(Jemalloc { file: Some(serving.file) })),
        // One that exports none of the functions by which it is known.
        None if is_jemalloc(memory, Some(file)) => {
            Ok(Box::new(Jemalloc { file: Some(serving.file) }))
        }
        name => Err(other(name.unwrap_or(file))),
    }
}

/// The same by what is mapped, where it is not known which malloc Ruby calls.
fn reader_of_mapped(memory: &dyn Memory) -> Result<Box<dyn Allocator>, NoMalloc> {
    // Its loader is its library; Alpine maps it under the first name, Debian under the last.
    let is_musl = |name: &str| {
        name.starts_with("ld-musl") || name.starts_with("libc.musl") || name == "libc.so"
    };
    if libraries(memory).any(is_musl) {
        return Err(NoMalloc::Musl);
    }
    let held = memory.regions().iter().filter(|region| region.path == "[heap]");
    let held: u64 = held.map(|region| region.pages.present() * PAGE).sum();
    if held > GLIBC_IN_USE {
        return Ok(Box::new(Glibc));
    }
    // A program may contain it without a symbol.
    match other_allocator(memory) {
        Some(name) if name != JEMALLOC => Err(other(&name)),
        Some(_) => Ok(Box::new(Jemalloc { file: library_of(memory, JEMALLOC).map(str::to_owned) })),
        None if is_jemalloc(memory, None) => Ok(Box::new(Jemalloc { file: None })),
        None => Ok(Box::new(Glibc)),
    }
}

/// Another allocator whose library is mapped; it need not be the one in use.
fn other_allocator(memory: &dyn Memory) -> Option<String> {
    let other = OTHERS.into_iter().find(|other| library_of(memory, other).is_some());
    other.map(str::to_owned)
}

/// The name of the mapped library of an allocator.
fn library_of<'a>(memory: &'a dyn Memory, allocator: &str) -> Option<&'a str> {
    libraries(memory).find(|name| name.starts_with("lib") && name.contains(allocator))
}

/// Names of the files that are mapped.
fn libraries(memory: &dyn Memory) -> impl Iterator<Item = &str> {
    let files = memory.regions().iter().filter(|region| region.inode != 0);
    files.map(MemoryRegion::file_name)
}
