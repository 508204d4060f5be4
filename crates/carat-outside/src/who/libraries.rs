//! Variables of C by name: which symbol of which library an address belongs to.
//!
//! Symbols come from the file that the process has mapped, because most are not needed for linking and so are not in its memory.
//! A file without them, as most distributions ship, leaves the exported ones.

use crate::bytes::{align_down, align_up, half_in, short_in, word_in};
use crate::memory::{Memory, MemoryRegion};
use crate::printable::printable;
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Libraries of a process; more are not named.
const LIBRARIES: usize = 1000;
/// Segments and sections of a file; more make no library.
const SEGMENTS: u16 = 64;
const SECTIONS: u64 = 4096;
/// Bytes of a table of symbols or of their names.
const TABLE: u64 = 64 << 20;
/// Bytes of all tables that are read.
const TABLES: u64 = 512 << 20;
/// Bytes of a symbol's name.
const NAME: usize = 200;

/// Opens the file of a mapping.
pub(super) type OpenFile<'a> = &'a dyn Fn(&MemoryRegion) -> Option<File>;

/// A variable of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DataSymbol {
    start: u64,
    end: u64,
    name: String,
}

/// A library, or the program.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Library {
    name: String,
    /// Addresses of its segments, the zeroed data behind the file's included.
    segments: Vec<(u64, u64)>,
    symbols: Vec<DataSymbol>,
}

/// The libraries of a process.
#[derive(Debug, Clone, Default)]
pub(super) struct Libraries(Vec<Library>);

impl Libraries {
    pub(super) fn read(memory: &dyn Memory, open: OpenFile<'_>) -> Self {
        // For all files together, because a process can map a thousand of them.
        let left = Cell::new(TABLES);
        let regions = memory.regions().iter();
        let firsts =
            regions.filter(|region| region.inode != 0 && region.offset == 0 && region.readable);
        let mut libraries: Vec<Library> = Vec::new();
        for region in firsts.take(LIBRARIES) {
            let Some((bias, segments)) = segments(memory, region.start) else { continue };
            let file = open(region);
            let symbols = file
                .and_then(|file| symbols(&|at, length| read_at(&file, at, length, &left), bias));
            // Without symbols a variable is still known to be one of this library.
            let symbols = symbols.unwrap_or_default();
            libraries.push(Library { name: printable(region.file_name()), segments, symbols });
        }
        Self(libraries)
    }

    /// The symbol that an address belongs to, if there is one, and the library.
    pub(super) fn at(&self, address: u64) -> Option<(Option<&str>, &str)> {
        let within = |library: &&Library| {
            library.segments.iter().any(|(start, end)| (*start..*end).contains(&address))
        };
        let library = self.0.iter().find(within)?;
        let after = library.symbols.partition_point(|symbol| symbol.start <= address);
        let symbol = after.checked_sub(1).and_then(|at| library.symbols.get(at));
        let symbol = symbol.filter(|symbol| address < symbol.end);
        Some((symbol.map(|symbol| symbol.name.as_str()), &library.name))
    }

    /// Addresses at which one variable ends or another begins.
    pub(super) fn boundaries(&self) -> Vec<u64> {
        let symbols = self.0.iter().flat_map(|library| &library.symbols);
        let mut all: Vec<u64> =
            symbols.flat_map(|one| [align_down(one.start, 8), align_up(one.end, 8)]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn read_at(file: &File, at: u64, length: u64, left: &Cell<u64>) -> Option<Vec<u8>> {
    left.set(left.get().checked_sub(length)?);
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
}

/// The distance between addresses in the file and in memory, and the segments, of the library whose first byte is at `base`.
fn segments(memory: &dyn Memory, base: u64) -> Option<(u64, Vec<(u64, u64)>)> {
    let header = memory.copy(base, 64)?;
    let count = short_in(&header, 56)?;
    if !header.starts_with(b"\x7fELF\x02\x01") || count > SEGMENTS || short_in(&header, 54)? != 56 {
        return None;
    }
    // A program that is not position independent has absolute addresses.
    let bias = if short_in(&header, 16)? == 3 { base } else { 0 };
    let table = memory.copy(base.checked_add(word_in(&header, 32)?)?, u64::from(count) * 56)?;
    let loaded = table.chunks_exact(56).filter(|segment| half_in(segment, 0) == Some(1));
    let ranges = loaded.filter_map(|segment| {
        let start = bias.checked_add(word_in(segment, 16)?)?;
        Some((start, start.checked_add(word_in(segment, 40)?)?))
    });
    Some((bias, ranges.collect()))
}

/// The variables in a file's tables of symbols, by address. `read` returns so many bytes from an offset of the file.
fn symbols(read: &dyn Fn(u64, u64) -> Option<Vec<u8>>, bias: u64) -> Option<Vec<DataSymbol>> {
    let header = read(0, 64).filter(|header| header.starts_with(b"\x7fELF\x02\x01"))?;
    let (start, count) = (word_in(&header, 40)?, u64::from(short_in(&header, 60)?));
    if short_in(&header, 58)? != 64 || count > SECTIONS {
        return None;
    }
    let sections = read(start, count * 64)?;
    let section = |number: usize| sections.get(number * 64..(number + 1) * 64);
    let mut found = Vec::new();
    for number in 0..count as usize {
        let Some(one) = section(number) else { break };
        // SHT_SYMTAB and SHT_DYNSYM; a link leads to their names.
        if ![Some(2), Some(11)].contains(&half_in(one, 4)) {
            continue;
        }
        let names = half_in(one, 40).and_then(|link| section(link as usize));
        let table = |section: &[u8]| {
            let (offset, length) = (word_in(section, 24)?, word_in(section, 32)?);
            (length <= TABLE).then(|| read(offset, length))?
        };
        if let (Some(table), Some(names)) = (table(one), names.and_then(table)) {
            found.extend(table.chunks_exact(24).filter_map(|entry| symbol(entry, &names, bias)));
        }
    }
    found
        .sort_by(|one: &DataSymbol, other| (one.start, &one.name).cmp(&(other.start, &other.name)));
    // Of several names of one variable the first is as good as another.
    found.dedup_by_key(|symbol| symbol.start);
    Some(found)
}

/// One entry of a table (`Elf64_Sym`), if it is a variable that the file defines.
fn symbol(entry: &[u8], names: &[u8], bias: u64) -> Option<DataSymbol> {
    const OBJECT: u8 = 1;
    let (value, bytes) = (word_in(entry, 8)?, word_in(entry, 16)?);
    if entry.get(4)? & 15 != OBJECT || short_in(entry, 6)? == 0 || bytes == 0 || value == 0 {
        return None;
    }
    let name = names.get(half_in(entry, 0)? as usize..)?;
    let length =
        name.iter().take(NAME + 1).position(|byte| *byte == 0).filter(|length| *length > 0)?;
    let start = bias.checked_add(value)?;
    let name = printable(&String::from_utf8_lossy(&name[..length]));
    Some(DataSymbol { start, end: start.checked_add(bytes)?, name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::tests::own_memory;
    use crate::mapped_file::{FileAccess, open_mapped};
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    static NAMED_FOR_A_TEST: AtomicU64 = AtomicU64::new(7);

    #[test]
    fn a_variable_of_our_own_program_has_its_name_and_ends_at_its_size() {
        let memory = own_memory();
        let open = |region: &MemoryRegion| {
            open_mapped(Path::new("/proc"), std::process::id(), region, FileAccess::Read)
        };
        let libraries = Libraries::read(&memory, &open);
        NAMED_FOR_A_TEST.fetch_add(1, Ordering::Relaxed);
        let address = std::ptr::from_ref(&NAMED_FOR_A_TEST) as u64;
        let name = |at| libraries.at(at).and_then(|(symbol, _)| symbol.map(str::to_owned));
        assert!(
            name(address).is_some_and(|name| name.contains("NAMED_FOR_A_TEST")),
            "{:?}",
            libraries.at(address)
        );
        assert_ne!(name(address), name(address + 8));
        let boundaries = libraries.boundaries();
        assert!(
            boundaries.binary_search(&address).is_ok()
                && boundaries.binary_search(&(address + 8)).is_ok()
        );
        assert_eq!(libraries.at(8), None);
    }

    #[test]
    fn a_file_that_is_no_library_or_lies_about_its_tables_has_no_symbols() {
        let none = |_: u64, _: u64| None;
        assert_eq!(symbols(&none, 0), None);
        let mut header = [0; 64];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        header[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
        (header[58], header[60]) = (64, 200);
        let lying = |at: u64, length: u64| {
            header
                .get(at as usize..)
                .and_then(|rest| rest.get(..length as usize))
                .map(<[u8]>::to_vec)
        };
        assert_eq!(symbols(&lying, 0), None);
        assert_eq!(symbol(&[255; 24], &[65; 300], 0), None);
    }
}
