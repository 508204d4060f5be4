//! The memory of one process as its readers see it: mappings, pages that are present, and their bytes.
//!
//! Only pages that `/proc/PID/pagemap` calls present are read. Reading another page would fault it in, which changes the
//! observed process. Nothing here knows Ruby or malloc.

use crate::bytes::{align_down, align_up, half_in, short_in, word_in};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Bytes of a page. Processes with other pages are refused.
pub const PAGE: u64 = 4096;
/// [`PAGE`] as a length.
pub const PAGE_LENGTH: usize = 4096;
/// Pages of one block of a [`PageTable`], which is 2 MiB.
const BLOCK_PAGES: u64 = 512;

/// One entry of `/proc/PID/pagemap` (Documentation/admin-guide/mm/pagemap.rst).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageEntry(pub u64);

impl PageEntry {
    /// The entry of a page that only its process maps, for memory that is made up.
    pub const PRIVATE: Self = Self(1 << 63 | 1 << 56);

    /// The page is in memory and mapped.
    pub const fn present(self) -> bool {
        self.0 >> 63 == 1
    }

    /// The page is in swap.
    pub const fn swapped(self) -> bool {
        self.0 >> 62 & 1 == 1
    }

    /// Only this process maps the page.
    pub const fn exclusive(self) -> bool {
        self.present() && self.0 >> 56 & 1 == 1
    }

    /// The page belongs to a file or to shared memory.
    pub const fn of_file(self) -> bool {
        self.0 >> 61 & 1 == 1
    }

    /// Number of the page frame; `None` where the kernel hides it (it requires `CAP_SYS_ADMIN`).
    pub const fn frame(self) -> Option<u64> {
        let frame = self.0 & ((1 << 55) - 1);
        if self.present() && frame != 0 { Some(frame) } else { None }
    }
}

/// The entries of a range of pages. A stretch of 2 MiB costs only what lies between its first and its last entry that is not
/// empty, so huge reserved mappings and single pages in them are cheap.
#[derive(Debug, Clone, Default)]
pub struct PageTable {
    blocks: BTreeMap<u64, PageBlock>,
    present: u64,
    swapped: u64,
}

/// The entries of one stretch, from the first that is not empty.
#[derive(Debug, Clone, Default)]
struct PageBlock {
    first: u64,
    entries: Vec<PageEntry>,
}

impl PageBlock {
    fn get(&self, within: u64) -> Option<PageEntry> {
        self.entries.get(usize::try_from(within.checked_sub(self.first)?).ok()?).copied()
    }

    /// The place of an entry, which is made where it is missing.
    fn place(&mut self, within: u64) -> Option<&mut PageEntry> {
        if self.entries.is_empty() {
            self.first = within;
        }
        let missing = self.first.saturating_sub(within) as usize;
        self.entries.splice(0..0, std::iter::repeat_n(PageEntry::default(), missing));
        self.first = self.first.min(within);
        let at = (within - self.first) as usize;
        if at >= self.entries.len() {
            self.entries.resize(at + 1, PageEntry::default());
        }
        self.entries.get_mut(at)
    }
}

impl PageTable {
    /// Sets the entry of page number `page` of the mapping.
    pub fn set(&mut self, page: u64, entry: PageEntry) {
        let number = page / BLOCK_PAGES;
        // Most of a reserved mapping is empty, and must not take a block for each stretch.
        if entry.0 == 0 && self.get(page).0 == 0 {
            return;
        }
        let block = self.blocks.entry(number).or_default();
        let Some(place) = block.place(page % BLOCK_PAGES) else { return };
        // Kept as sums, because they are asked for far more often than entries are set.
        self.present = self.present - u64::from(place.present()) + u64::from(entry.present());
        self.swapped = self.swapped - u64::from(place.swapped()) + u64::from(entry.swapped());
        *place = entry;
    }

    /// The entry of page number `page`; one that is not present outside the table.
    pub fn get(&self, page: u64) -> PageEntry {
        let block = self.blocks.get(&(page / BLOCK_PAGES));
        block.and_then(|block| block.get(page % BLOCK_PAGES)).unwrap_or_default()
    }

    /// Whether no page of so many from this one on has an entry.
    pub fn is_empty_from(&self, page: u64, count: u64) -> bool {
        let last = page.saturating_add(count).div_ceil(BLOCK_PAGES);
        self.blocks.range(page / BLOCK_PAGES..last.max(page / BLOCK_PAGES + 1)).next().is_none()
    }

    /// Number of pages that are present.
    pub const fn present(&self) -> u64 {
        self.present
    }

    /// Number of pages that are present from one page to before another.
    pub fn present_within(&self, from: u64, to: u64) -> u64 {
        let last = to.max(from).div_ceil(BLOCK_PAGES);
        let blocks = self.blocks.range(from / BLOCK_PAGES..last);
        let entries = blocks.flat_map(|(number, block)| {
            let first = number * BLOCK_PAGES + block.first;
            (first..).zip(&block.entries)
        });
        entries.filter(|(page, entry)| (from..to).contains(page) && entry.present()).count() as u64
    }

    /// Number of pages in swap.
    pub const fn swapped(&self) -> u64 {
        self.swapped
    }

    /// Every page with an entry that is not empty: its number and its entry, in order.
    pub fn entries(&self) -> impl Iterator<Item = (u64, PageEntry)> + '_ {
        self.blocks.iter().flat_map(|(number, block)| {
            let first = number * BLOCK_PAGES + block.first;
            let numbered = block.entries.iter().enumerate();
            numbered
                .filter(|(_, entry)| entry.0 != 0)
                .map(move |(within, entry)| (first + within as u64, *entry))
        })
    }

    /// Runs of present pages as (first page, number of pages), none longer than `longest`.
    pub fn runs(&self, longest: u64) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (page, _) in self.entries().filter(|(_, entry)| entry.present()) {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == page && *count < longest => *count += 1,
                _ => runs.push((page, 1)),
            }
        }
        runs
    }
}

/// One line of `/proc/PID/maps`, with the entries of its pages where they are of interest.
#[derive(Debug, Clone, Default)]
pub struct MemoryRegion {
    /// First address.
    pub start: u64,
    /// First address past the mapping.
    pub end: u64,
    /// `r` of the permissions.
    pub readable: bool,
    /// `w` of the permissions.
    pub writable: bool,
    /// `x` of the permissions.
    pub executable: bool,
    /// Copy on write, in contrast to shared.
    pub private: bool,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Major and minor number of the file's device.
    pub device: (u32, u32),
    /// The file's inode; 0 for anonymous memory.
    pub inode: u64,
    /// The file, a name in brackets such as `[heap]`, or empty.
    pub path: String,
    /// Entries of its pages; empty for mappings that are never searched (see [`MemoryRegion::searched`]).
    pub pages: PageTable,
}

impl MemoryRegion {
    /// Whether no file lies behind the mapping.
    pub fn anonymous(&self) -> bool {
        // `[anon:NAME]` is anonymous memory with a name (PR_SET_VMA_ANON_NAME, prctl(2)).
        self.path.is_empty() || self.path == "[heap]" || self.path.starts_with("[anon")
    }

    /// Whether it is code of a program or library, in contrast to what a JIT made.
    pub const fn is_code_of_file(&self) -> bool {
        self.executable && self.inode != 0
    }

    /// Whether the mapping may hold the process's own data: private, readable, and writable or made by a JIT.
    pub fn searched(&self) -> bool {
        // `[vdso]`, `[vvar]` and `[vsyscall]` belong to the kernel.
        let kernel = self.path.starts_with("[v");
        // Reading the memory of a device can have effects; that of /dev/zero is plain memory.
        let device = self.path.starts_with("/dev/") && self.path != "/dev/zero";
        // What a JIT made is often executable and no longer writable.
        let written = self.writable || (self.anonymous() && self.executable);
        self.private && self.readable && written && !kernel && !device
    }

    /// Whether `address` lies in the mapping.
    pub const fn contains(&self, address: u64) -> bool {
        address >= self.start && address < self.end
    }

    /// Length in bytes.
    pub const fn size(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// The entry of the page of `address`, which must lie in the mapping.
    pub fn entry(&self, address: u64) -> PageEntry {
        self.pages.get(address.saturating_sub(self.start) / PAGE)
    }

    /// The last part of the path: `libc.so.6` of `/usr/lib/libc.so.6`; a deletion mark is left out.
    pub fn file_name(&self) -> &str {
        file_name_of(&self.path)
    }
}

/// The same of a path that `maps` has.
pub(crate) fn file_name_of(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

/// A reading reached its budget of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingStopped {
    /// The budget.
    pub after: Duration,
    /// Bytes that were read until then; a page that was read twice counts twice.
    pub read_bytes: u64,
    /// Bytes of the process that are present.
    pub present_bytes: u64,
}

/// `AT_MINSIGSTKSZ` of getauxval(3): bytes of what the kernel writes to the stack for a signal.
const SIGNAL_BYTES: u64 = 51;

/// Bytes that a stack for signals has from glibc 2.34 on (`_SC_SIGSTKSZ`: four times what the kernel writes), by the contents of
/// `/proc/PID/auxv`; `None` where the kernel does not say.
pub fn signal_stack_of(auxiliary: &[u8]) -> Option<u64> {
    let mut entries = auxiliary.chunks_exact(16);
    let said = entries.find(|entry| word_in(entry, 0) == Some(SIGNAL_BYTES))?;
    word_in(said, 8)?.checked_mul(4)
}

/// The end of the sentence for a reading that was asked for.
pub(crate) const SETS_THE_LIMIT: &str = "; `--max-time` sets the limit";

impl fmt::Display for ReadingStopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "stopped after {} s: {} MB were read of a process with {} MB in memory{SETS_THE_LIMIT}",
            self.after.as_secs(),
            self.read_bytes / 1_000_000,
            self.present_bytes / 1_000_000
        )
    }
}

/// The memory of a process: live, or made up for a test.
pub trait Memory {
    /// Every mapping, by address, without overlaps.
    fn regions(&self) -> &[MemoryRegion];

    /// Copies the bytes at `address`. False if one of their pages is not present or cannot be read; `into` is then
    /// undefined. The range may cross mappings that touch.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;

    /// The bytes at an address, where they lie in our own memory in one piece; otherwise `None`, also where they can be read.
    fn piece(&self, _address: u64, _length: u64) -> Option<&[u8]> {
        None
    }

    /// Reads the pages of a range anew at the next use, with their entries. A copy takes the present bytes now.
    /// Does nothing for memory that does not change.
    fn refresh(&mut self, start: u64, end: u64);

    /// Reads pages anew at the next use; which are present stays as it is known.
    fn drop_kept(&mut self) {}

    /// Reads the mappings, which of their pages are present, and all pages anew.
    fn renew(&mut self) {}

    /// The word at an address as the process has it by now, past what was kept or copied of it.
    fn now(&self, address: u64) -> Option<u64> {
        self.word(address)
    }

    /// Bytes that a stack for signals needs, where the kernel says it to the process.
    fn signal_stack(&self) -> Option<u64> {
        None
    }

    /// Why nothing more is read, once a budget was reached. What was searched since is not complete.
    fn stopped(&self) -> Option<ReadingStopped> {
        None
    }

    /// The mapping of an address.
    fn region(&self, address: u64) -> Option<&MemoryRegion> {
        let regions = self.regions();
        let at = regions.partition_point(|region| region.end <= address);
        regions.get(at).filter(|region| region.contains(address))
    }

    /// The entry of the page of an address; not present outside every mapping.
    fn entry(&self, address: u64) -> PageEntry {
        self.region(address).map_or(PageEntry(0), |region| region.entry(address))
    }

    /// Whether every page of the range is present. False for a range that wraps around.
    fn present(&self, address: u64, length: u64) -> bool {
        let Some(end) = address.checked_add(length) else { return false };
        let mut page = align_down(address, PAGE);
        while page < end {
            if !self.entry(page).present() {
                return false;
            }
            let Some(next) = page.checked_add(PAGE) else { return false };
            page = next;
        }
        true
    }

    /// The word at an address that is a multiple of eight.
    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (address.is_multiple_of(8) && self.read(address, &mut bytes)).then_some(())?;
        word_in(&bytes, 0)
    }

    /// The word at `address + offset`.
    fn word_at(&self, address: u64, offset: u64) -> Option<u64> {
        self.word(address.checked_add(offset)?)
    }

    /// Four bytes as a number.
    fn half(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes).then_some(())?;
        half_in(&bytes, 0)
    }

    /// Two bytes as a number.
    fn short(&self, address: u64) -> Option<u16> {
        let mut bytes = [0; 2];
        self.read(address, &mut bytes).then_some(())?;
        short_in(&bytes, 0)
    }

    /// A copy of `length` bytes; `None` where one page is not present, or for more than 16 MiB.
    fn copy(&self, address: u64, length: u64) -> Option<Vec<u8>> {
        // Lengths come from the process, and one that makes no sense must not fill our memory.
        let length = usize::try_from(length).ok().filter(|length| *length <= 16 << 20)?;
        let mut bytes = vec![0; length];
        self.read(address, &mut bytes).then_some(bytes)
    }

    /// Copies a range whose absent pages read as zero, and returns the number of pages that are absent.
    fn read_sparse(&self, address: u64, into: &mut [u8]) -> u64 {
        // Nearly every range is present as a whole, and one read costs less than one for each page.
        if self.read(address, into) {
            return 0;
        }
        let mut absent = 0;
        let mut done = 0;
        while done < into.len() {
            let Some(at) = address.checked_add(done as u64) else {
                into[done..].fill(0);
                return absent + 1;
            };
            let length = ((PAGE - at % PAGE) as usize).min(into.len() - done);
            let part = &mut into[done..done + length];
            if !self.read(at, part) {
                part.fill(0);
                absent += 1;
            }
            done += length;
        }
        absent
    }
}

/// Hands every word of a range to `each`, by address. Pages that are not present are left out.
pub(crate) fn for_each_word(memory: &dyn Memory, start: u64, end: u64, mut each: impl FnMut(u64)) {
    /// Most ranges are a few words long, and clearing a page for each would take most of the time.
    const SHORT: usize = 256;
    let mut at = align_up(start, 8);
    while at < end {
        let until = align_down(at, PAGE).saturating_add(PAGE).min(end);
        let length = (until - at) as usize;
        if length <= SHORT {
            read_words(memory, at, &mut [0; SHORT][..length], &mut each);
        } else {
            read_words(memory, at, &mut [0; PAGE_LENGTH][..length], &mut each);
        }
        at = until;
    }
}

/// The same memory in the order of addresses; what touches or overlaps becomes one stretch.
pub(crate) fn joined(mut stretches: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    stretches.sort_unstable();
    stretches.dedup_by(|next, before| {
        let touches = next.0 <= before.1;
        before.1 = if touches { before.1.max(next.1) } else { before.1 };
        touches
    });
    stretches
}

/// The words of a range, by address, without those of pages that are not present.
pub(crate) fn words_between(memory: &dyn Memory, start: u64, end: u64) -> Vec<u64> {
    let mut words = Vec::new();
    for_each_word(memory, start, end, |word| words.push(word));
    words
}

fn read_words(memory: &dyn Memory, at: u64, into: &mut [u8], each: &mut impl FnMut(u64)) {
    if memory.read(at, into) {
        words_in(into, each);
    }
}

fn words_in(bytes: &[u8], each: &mut impl FnMut(u64)) {
    bytes.chunks_exact(8).filter_map(|word| word_in(word, 0)).for_each(each);
}

/// Parses `/proc/PID/maps`; lines that make no sense are left out. Mappings are sorted and do not overlap.
pub fn parse_regions(text: &[u8]) -> Vec<MemoryRegion> {
    regions_of_lines(text.split(|byte| *byte == b'\n'))
}

/// The same for a text that comes line by line.
pub(crate) fn regions_of_lines<L: AsRef<[u8]>>(
    lines: impl Iterator<Item = L>,
) -> Vec<MemoryRegion> {
    let regions = lines.filter_map(|line| parse_region(&String::from_utf8_lossy(line.as_ref())));
    let mut regions: Vec<MemoryRegion> = regions.collect();
    regions.sort_by_key(|region| region.start);
    let mut end = 0;
    regions.retain(|region| {
        let apart = region.start >= end;
        end = if apart { region.end } else { end };
        apart
    });
    regions
}

fn parse_region(line: &str) -> Option<MemoryRegion> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?.as_bytes();
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let inode = fields.next()?.parse().ok()?;
    let region = MemoryRegion {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        readable: permissions.first() == Some(&b'r'),
        writable: permissions.get(1) == Some(&b'w'),
        executable: permissions.get(2) == Some(&b'x'),
        private: permissions.get(3) == Some(&b'p'),
        offset,
        device,
        inode,
        path: fields.next().unwrap_or_default().trim_start().to_owned(),
        pages: PageTable::default(),
    };
    // Page numbers are computed from both ends, so neither may lie within a page.
    let aligned = region.start.is_multiple_of(PAGE) && region.end.is_multiple_of(PAGE);
    (region.start < region.end && aligned).then_some(region)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;

    #[test]
    fn a_stack_for_signals_has_four_times_what_the_kernel_says_if_it_says_it() {
        let of = |words: &[u64]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            signal_stack_of(&bytes)
        };
        assert_eq!(of(&[6, 4096, 51, 11_952, 0, 0]), Some(47_808));
        assert_eq!(of(&[51, 6, 6, 51, 0, 0]), Some(24));
        for without in [&[6, 51, 0, 0][..], &[51], &[], &[51, u64::MAX]] {
            assert_eq!(of(without), None, "{without:?}");
        }
    }

    #[test]
    fn a_table_holds_what_was_set_and_counts_it() {
        let mut table = PageTable::default();
        for page in [3, 4, 5, 600, 5000] {
            table.set(page, PageEntry::PRIVATE);
        }
        table.set(7, PageEntry(1 << 62));
        assert_eq!((table.present(), table.swapped()), (5, 1));
        assert_eq!(table.runs(512), [(3, 3), (600, 1), (5000, 1)]);
        assert_eq!(table.runs(2), [(3, 2), (5, 1), (600, 1), (5000, 1)]);
        table.set(4, PageEntry(0));
        assert!(!table.get(4).present() && table.get(3).exclusive());
        assert_eq!(table.present(), 4);
        assert_eq!(table.get(u64::MAX), PageEntry(0));
        assert!(table.is_empty_from(10_000, 512) && table.is_empty_from(1024, 2048));
        assert!(!table.is_empty_from(0, 1) && !table.is_empty_from(0, 10_000));
        let within = [(0, 10_000), (4, 600), (5, 601), (601, 601), (9000, 3)];
        assert_eq!(within.map(|(from, to)| table.present_within(from, to)), [4, 1, 2, 0, 0]);
    }

    #[test]
    fn entries_may_be_set_in_any_order_and_a_single_page_costs_one_entry() {
        let mut table = PageTable::default();
        for page in [511, 2, 300, 2] {
            table.set(page, PageEntry::PRIVATE);
        }
        let pages: Vec<u64> = table.entries().map(|(page, _)| page).collect();
        assert_eq!((pages, table.present()), (vec![2, 300, 511], 3));
        let mut sparse = PageTable::default();
        for block in 1..=100 {
            sparse.set(block * BLOCK_PAGES + 400, PageEntry::PRIVATE);
        }
        let held: usize = sparse.blocks.values().map(|block| block.entries.len()).sum();
        assert_eq!((held, sparse.present()), (100, 100));
    }

    #[test]
    fn every_present_word_of_a_range_is_handed_over_once_in_order() {
        let mut memory = FakeMemory::default();
        memory.map_anonymous(0x1000, 0x5000);
        for at in (0x1000..0x5000).step_by(8) {
            memory.write_word(at, at);
        }
        memory.forget(0x3000);
        for (start, end, expected) in [
            (0x1ff1, 0x2010, &[0x1ff8, 0x2000, 0x2008][..]),
            (0x2ff0, 0x4010, &[0x2ff0, 0x2ff8, 0x4000, 0x4008]),
            (0x2000, 0x2000, &[]),
            (u64::MAX - 64, u64::MAX, &[]),
        ] {
            let mut found = Vec::new();
            for_each_word(&memory, start, end, |word| found.push(word));
            assert_eq!(found, expected, "{start:#x}");
        }
        let mut words = 0;
        for_each_word(&memory, 0x1000, 0x5000, |_| words += 1);
        assert_eq!(words, 3 * 512);
    }

    #[test]
    fn the_lines_of_maps_are_parsed_and_nonsense_is_left_out() {
        let text = b"7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n\
            nonsense\n\
            7f0000020000-7f0000030000 rw-p 00000000 00:00 0 \n\
            5500-5400 rw-p 0 00:00 0\n\
            550000001000-550000003000 r-xp 00001000 fe:01 77   /usr/lib/lib ruby.so (deleted)\n";
        let regions = parse_regions(text);
        assert_eq!(regions.len(), 2);
        assert_eq!(regions[0].path, "/usr/lib/lib ruby.so (deleted)");
        assert_eq!(regions[0].file_name(), "lib ruby.so");
        assert_eq!((regions[0].inode, regions[0].offset), (77, 0x1000));
        assert_eq!(regions[0].device, (0xfe, 1));
        assert!(!regions[0].searched() && regions[0].executable);
        assert!(regions[1].searched() && regions[1].anonymous());
        assert_eq!(regions[1].size(), 0x21000);
    }
}
