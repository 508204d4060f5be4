//! Symbols of a library, read from the process's own memory.
//!
//! This is right in containers, after an upgrade of the file, and when its path does not exist for us. Only symbols for
//! dynamic linking are found (`DT_GNU_HASH`), which Ruby's are.

use crate::bytes::{align_up, half_in, short_in, word_in};
use crate::memory::{Memory, MemoryRegion, PAGE, file_name_of};
use crate::printable::printable;
use carat_ruby::version::RubyVersion;
use std::collections::{BTreeSet, HashMap};

/// Carat's own kind of processor, as ELF headers have it (`e_machine` in elf.h: `EM_AARCH64`, `EM_X86_64`).
pub(crate) const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
/// Entries of the table of segments; more make no library.
const SEGMENTS: u16 = 64;
/// Bytes of one of them.
const SEGMENT: usize = 56;
/// Bytes of the dynamic section; more make no library.
const DYNAMIC_LIMIT: u64 = 64 << 10;
/// Bytes of a library's zeroed data at most.
const LARGEST_ZEROED: u64 = 8 << 20;
/// Symbols with the same hash bucket; more make no library.
const CHAIN: u32 = 100_000;
/// Files that are searched for Ruby.
const LIBRARIES: usize = 1000;
/// Bytes of a symbol in a 64-bit file, and of a relocation.
const SYMBOL: u64 = 24;
const RELOCATION: usize = 24;
/// Types of relocations whose result is the address of a symbol alone: `R_X86_64_GLOB_DAT` and `R_X86_64_JUMP_SLOT`,
/// `R_AARCH64_GLOB_DAT` and `R_AARCH64_JUMP_SLOT`.
const ADDRESSES: [u32; 4] = [6, 7, 1025, 1026];

/// What is looked up in Ruby's library.
const SYMBOLS: [&str; 12] = [
    "ruby_version",
    "ruby_description",
    "rb_cObject",
    "rb_cString",
    "rb_cArray",
    "rb_cInteger",
    "rb_mKernel",
    "rb_cHash",
    "rb_mComparable",
    "rb_eStandardError",
    "rb_eException",
    "ruby_current_vm_ptr",
];

/// The tables of one loaded library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElfTables {
    bias: u64,
    symbols: u64,
    /// Address and bytes of the names of symbols.
    strings: (u64, u64),
    hashes: u64,
    /// Address and bytes of the relocations of calls, and of all others.
    relocations: [(u64, u64); 2],
}

impl ElfTables {
    /// The tables of the library whose first byte is at `base`; `None` if none is there.
    pub fn read(memory: &dyn Memory, base: u64) -> Option<Self> {
        let (bias, table) = segments(memory, base)?;
        // The type 2 is `PT_DYNAMIC` (elf(5)).
        let dynamic = table.chunks_exact(SEGMENT).find(|segment| half_in(segment, 0) == Some(2))?;
        let (start, length) = (word_in(dynamic, 16)?, word_in(dynamic, 40)?);
        let entries = memory.copy(bias.checked_add(start)?, length.min(DYNAMIC_LIMIT))?;
        Self::from_dynamic(&entries, bias)
    }

    fn from_dynamic(entries: &[u8], bias: u64) -> Option<Self> {
        let (mut symbols, mut strings, mut hashes) = (None, None, None);
        let mut strings_bytes = 0;
        let mut relocations = [(0, 0); 2];
        for entry in entries.chunks_exact(16) {
            let value = word_in(entry, 8)?;
            // glibc adds the address of the library to these, musl does not.
            let address = if value < bias { bias.checked_add(value) } else { Some(value) };
            match word_in(entry, 0)? {
                // The tags are those of elf(5): DT_NULL, STRTAB, SYMTAB, STRSZ, GNU_HASH, PLTRELSZ, JMPREL, RELA and RELASZ.
                0 => break,
                5 => strings = address,
                6 => symbols = address,
                10 => strings_bytes = value,
                0x6fff_fef5 => hashes = address,
                2 => relocations[0].1 = value,
                23 => relocations[0].0 = address?,
                7 => relocations[1].0 = address?,
                8 => relocations[1].1 = value,
                _ => {}
            }
        }
        let strings = (strings?, strings_bytes);
        Some(Self { bias, symbols: symbols?, strings, hashes: hashes?, relocations })
    }

    /// The address of a symbol that the library defines.
    pub fn lookup(&self, memory: &dyn Memory, name: &str) -> Option<u64> {
        let hash = name
            .bytes()
            .fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        let head = memory.copy(self.hashes, 16)?;
        let (buckets, first) = (half_in(&head, 0)?, half_in(&head, 4)?);
        // The Bloom filter is passed over: one more read would cost as much as the walk that it saves.
        let filter = u64::from(half_in(&head, 8)?) * 8;
        let table = self.hashes.checked_add(16)?.checked_add(filter)?;
        let bucket = u64::from(hash.checked_rem(buckets)?) * 4;
        let chains = table.checked_add(u64::from(buckets) * 4)?;
        let start = memory.half(table.checked_add(bucket)?)?;
        for number in start..start.saturating_add(CHAIN) {
            let place = u64::from(number.checked_sub(first)?) * 4;
            let found = memory.half(chains.checked_add(place)?)?;
            // The lowest bit marks the end of a chain and is no part of the hash.
            if found | 1 == hash | 1
                && let Some(address) = self.named(memory, number, name)
            {
                return Some(address);
            }
            if found & 1 == 1 {
                return None;
            }
        }
        None
    }

    /// The address of a symbol by number, if it has this name and is defined here.
    fn named(&self, memory: &dyn Memory, number: u32, name: &str) -> Option<u64> {
        let value = self.value_of(memory, number, name).filter(|value| *value != 0)?;
        self.bias.checked_add(value)
    }

    /// The value of a symbol by number, if it has this name; 0 if it is defined elsewhere.
    fn value_of(&self, memory: &dyn Memory, number: u32, name: &str) -> Option<u64> {
        let symbol = memory.copy(self.symbols.checked_add(u64::from(number) * SYMBOL)?, SYMBOL)?;
        let text = self.strings.0.checked_add(u64::from(half_in(&symbol, 0)?))?;
        // With the byte behind it, or a name would be found that only begins like this one.
        let found = memory.copy(text, name.len() as u64 + 1)?;
        let same = found.strip_suffix(&[0_u8]) == Some(name.as_bytes());
        word_in(&symbol, 8).filter(|_| same)
    }

    /// Where calls of a function of another library go: what the dynamic linker wrote into the table of this one.
    pub fn import(&self, memory: &dyn Memory, name: &str) -> Option<u64> {
        self.relocations.iter().find_map(|&(start, bytes)| {
            let table = memory.copy(start, bytes).filter(|table| !table.is_empty())?;
            let mut entries = table.chunks_exact(RELOCATION);
            let entry = entries.find(|entry| self.is_address_of(memory, entry, name) == Some(true));
            memory.word(self.bias.checked_add(word_in(entry?, 0)?)?)
        })
    }

    /// Whether the library has or uses functions of Ruby's; `None` if the names were not read.
    fn knows_ruby(&self, memory: &dyn Memory) -> Option<bool> {
        let (start, bytes) = self.strings;
        let names = memory.copy(start, bytes).filter(|names| !names.is_empty())?;
        let mut names = names.split(|byte| *byte == 0);
        Some(names.any(|name| name.starts_with(b"rb_") || name.starts_with(b"ruby_")))
    }

    fn is_address_of(&self, memory: &dyn Memory, relocation: &[u8], name: &str) -> Option<bool> {
        let (kind, symbol) = (half_in(relocation, 8)?, half_in(relocation, 12)?);
        Some(ADDRESSES.contains(&kind) && self.value_of(memory, symbol, name).is_some())
    }
}

/// What is added to the addresses in the file whose first byte is at `base`, and its table of segments.
fn segments(memory: &dyn Memory, base: u64) -> Option<(u64, Vec<u8>)> {
    let header = memory.copy(base, 64)?;
    // 64 bits, little endian.
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    // A program that is not position independent has absolute addresses.
    let bias = if short_in(&header, 16)? == 3 { base } else { 0 };
    let count = short_in(&header, 56)?;
    if count > SEGMENTS || usize::from(short_in(&header, 54)?) != SEGMENT {
        return None;
    }
    let table = base.checked_add(word_in(&header, 32)?)?;
    Some((bias, memory.copy(table, u64::from(count) * SEGMENT as u64)?))
}

/// The writable data of the file whose first byte is at `base`: from where, to where, and how many bytes at the end are not in the
/// file, which start as zero (`p_memsz` and `p_filesz`, elf(5)).
pub(crate) fn zeroed_data(memory: &dyn Memory, base: u64) -> Vec<(u64, u64, u64)> {
    let Some((bias, table)) = segments(memory, base) else { return Vec::new() };
    let data = table.chunks_exact(SEGMENT).filter_map(|segment| {
        let is_written = half_in(segment, 0)? == 1 && half_in(segment, 4)? & 2 != 0;
        let start = bias.checked_add(word_in(segment, 16)?)?;
        let (in_file, in_memory) = (word_in(segment, 32)?, word_in(segment, 40)?);
        let end = start.checked_add(in_memory).filter(|_| is_written)?;
        Some((start, end, in_memory.saturating_sub(in_file)))
    });
    data.collect()
}

/// Where the zeroed data of a file ends that `region`, the mapping behind it, begins with; `None` if it begins with none. `file` is the
/// mapping of the file's end.
///
/// The kernel maps zeroed data right behind the file, without a name, and may join it with other memory behind. The header of the file
/// says how long it is; where the header is not in memory, as much counts as zeroed data can have.
pub(crate) fn zeroed_end(
    memory: &dyn Memory,
    file: &MemoryRegion,
    region: &MemoryRegion,
) -> Option<u64> {
    if region.inode != 0 || region.start != file.end {
        return None;
    }
    let is_start =
        |one: &&MemoryRegion| one.offset == 0 && (one.inode, &one.path) == (file.inode, &file.path);
    let before = memory.regions().partition_point(|one| one.start <= file.start);
    let data = match memory.regions()[..before].iter().rfind(is_start) {
        Some(start) => zeroed_data(memory, start.start),
        None => Vec::new(),
    };
    if data.is_empty() {
        return Some(region.end.min(region.start.saturating_add(LARGEST_ZEROED)));
    }
    let own = data.into_iter().find(|(start, end, _)| *start <= file.end && file.end < *end);
    own.map(|(_, end, _)| align_up(end, PAGE).min(region.end))
}

/// The tables of Ruby's library, or of the program that contains it; `None` if there is no Ruby.
pub(crate) fn ruby_tables(memory: &dyn Memory) -> Option<ElfTables> {
    let mut all = libraries(memory).into_iter().map(|(_, base)| base);
    let tables = |base| ElfTables::read(memory, base);
    all.find_map(|base| tables(base).filter(|one| one.lookup(memory, "rb_cObject").is_some()))
}

/// Ruby's library in a process, and the addresses of its symbols.
#[derive(Debug, Clone)]
pub struct RubyAnchors {
    /// Path of the library or program, as the process sees it.
    pub library: String,
    /// The version by Ruby's own text, for example `3.3.8`.
    pub version_text: String,
    /// The same as numbers.
    pub version: RubyVersion,
    symbols: HashMap<&'static str, u64>,
}

impl RubyAnchors {
    /// Searches the loaded files for Ruby; `None` if there is none.
    pub fn find(memory: &dyn Memory) -> Option<Self> {
        libraries(memory).into_iter().find_map(|(path, base)| Self::of_library(memory, path, base))
    }

    fn of_library(memory: &dyn Memory, path: String, base: u64) -> Option<Self> {
        let tables = ElfTables::read(memory, base)?;
        tables.lookup(memory, "rb_cObject")?;
        let found = SYMBOLS.iter().filter_map(|name| Some((*name, tables.lookup(memory, name)?)));
        let symbols: HashMap<&'static str, u64> = found.collect();
        let mut text = [0; 16];
        if !memory.read(*symbols.get("ruby_version")?, &mut text) {
            return None;
        }
        let length = text.iter().position(|byte| *byte == 0)?;
        let version_text = std::str::from_utf8(&text[..length]).ok()?.to_owned();
        // Anything else is no version, and the text is printed.
        let plain = version_text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
        let version = RubyVersion::find_in(&version_text).filter(|_| plain)?;
        Some(Self { library: path, version_text, version, symbols })
    }

    /// The address of a symbol.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        self.symbols.get(name).copied()
    }

    /// The word at a symbol: the class that `rb_cObject` points at.
    pub fn value(&self, memory: &dyn Memory, name: &str) -> Option<u64> {
        memory.word(self.symbol(name)?)
    }
}

/// Name of Ruby's or the C library, where it is for another kind of processor than carat's own.
pub(crate) fn foreign_library(memory: &dyn Memory) -> Option<String> {
    let names =
        libraries(memory).into_iter().map(|(path, base)| (file_name_of(&path).to_owned(), base));
    // Others may be mapped to be read only.
    let mut known =
        names.filter(|(name, _)| name.starts_with("libruby") || name.starts_with("libc.so"));
    known
        .find(|(_, base)| machine(memory, *base).is_some_and(|it| it != MACHINE))
        .map(|(name, _)| name)
}

/// Names of the files of libraries that have nothing of Ruby's and use nothing of it, as OpenSSL's. One whose tables were not read may.
pub(crate) fn libraries_without_ruby(memory: &dyn Memory) -> BTreeSet<String> {
    let (mut with, mut without) = (BTreeSet::new(), BTreeSet::new());
    for (path, base) in libraries(memory) {
        let knows = ElfTables::read(memory, base).and_then(|tables| tables.knows_ruby(memory));
        let named = if knows == Some(false) { &mut without } else { &mut with };
        named.insert(printable(file_name_of(&path)));
    }
    &without - &with
}

/// The kind of processor that the file whose first byte is at `base` is for; `None` if it is no ELF file.
fn machine(memory: &dyn Memory, base: u64) -> Option<u16> {
    let header = memory.copy(base, 20).filter(|header| header.starts_with(b"\x7fELF"))?;
    short_in(&header, 18)
}

/// The loaded files with the address of their first byte; those with Ruby's name first.
fn libraries(memory: &dyn Memory) -> Vec<(String, u64)> {
    let mut seen = BTreeSet::new();
    let mut found: Vec<(u8, String, u64)> = Vec::new();
    for region in memory.regions() {
        if region.inode == 0 || region.offset != 0 || !region.readable || !seen.insert(&region.path)
        {
            continue;
        }
        let name = region.file_name();
        let rank = match name {
            name if name.starts_with("libruby") => 0,
            name if name.starts_with("ruby") => 1,
            _ => 2,
        };
        found.push((rank, region.path.clone(), region.start));
    }
    // Ruby first, because a process can map a thousand libraries and each is looked through.
    found.sort_by_key(|(rank, ..)| *rank);
    found.truncate(LIBRARIES);
    found.into_iter().map(|(_, path, base)| (path, base)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;

    const BASE: u64 = 0x7f00_0000_0000;
    /// Where its file ends.
    const END: u64 = BASE + 2 * PAGE;

    /// A library of two pages, with another mapping of 32 MiB behind it. Its data have so many bytes in memory.
    fn library(data_bytes: Option<u64>) -> FakeMemory {
        let mut memory = FakeMemory::default();
        for (start, writable) in [(BASE, false), (BASE + PAGE, true)] {
            memory.map(MemoryRegion {
                start,
                end: start + PAGE,
                readable: true,
                writable,
                private: true,
                offset: start - BASE,
                inode: 7,
                path: "/usr/lib/libx.so".to_owned(),
                ..MemoryRegion::default()
            });
        }
        memory.map_anonymous(END, END + (32 << 20));
        if let Some(bytes) = data_bytes {
            memory.write(BASE, b"\x7fELF\x02\x01");
            // A shared object with one segment, whose table follows the header.
            for (place, half) in [(16, 3), (54, 56), (56, 1_u16)] {
                memory.write(BASE + place, &half.to_le_bytes());
            }
            memory.write_word(BASE + 32, 64);
            // It is loaded, and read and written.
            memory.write(BASE + 64, &[1, 0, 0, 0, 6, 0, 0, 0]);
            for (place, word) in [(16, PAGE + 0x100), (32, PAGE - 0x100), (40, bytes)] {
                memory.write_word(BASE + 64 + place, word);
            }
        }
        memory
    }

    #[test]
    fn zeroed_data_end_where_the_header_of_their_file_says_so() {
        let end_of = |memory: &FakeMemory| {
            let [_, file, behind] = memory.regions() else { panic!() };
            zeroed_end(memory, file, behind)
        };
        // Data of three pages and a bit, of which not quite one is in the file.
        assert_eq!(end_of(&library(Some(3 * PAGE))), Some(END + 3 * PAGE));
        // All data are in the file, so what lies behind it belongs to somebody else.
        assert_eq!(end_of(&library(Some(PAGE - 0x100))), None);
        // More than the mapping has.
        assert_eq!(end_of(&library(Some(1 << 30))), Some(END + (32 << 20)));
        // Without a header, what zeroed data can have.
        assert_eq!(end_of(&library(None)), Some(END + LARGEST_ZEROED));
    }

    #[test]
    fn a_mapping_that_does_not_touch_a_file_has_no_zeroed_data() {
        let memory = library(Some(3 * PAGE));
        let [first, file, behind] = memory.regions() else { panic!() };
        assert_eq!(zeroed_end(&memory, first, file), None);
        assert_eq!(zeroed_end(&memory, first, behind), None);
    }
}
