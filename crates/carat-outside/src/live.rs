//! The memory of a running process, read when it is needed.
//!
//! `/proc/PID/mem` takes the observed process's memory lock once for each page (`mem_rw`, fs/proc/base.c), so its own
//! `mmap` waits for one copy of a page at most, unless the reader is preempted in between. A thread that slept has a fresh time
//! slice, so bursts of reads that are shorter than a slice, with pauses between them, are rarely preempted.

use crate::bytes::{align_down, align_up, word_in};
use crate::counts::KernelCounts;
use crate::mapped_file::{FileAccess, open_mapped};
use crate::memory::{
    Memory, MemoryRegion, PAGE, PAGE_LENGTH, PageEntry, PageTable, ReadingStopped,
    regions_of_lines, signal_stack_of,
};
use crate::page_cache::{CACHE_PAGES, PageCache};
use crate::real_pages::{PagesRead, RealPages, set_entries};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of one read: long enough that the system call does not count, and short enough to end a burst in time.
const READ: usize = 64 << 10;
/// Pages that are read at once, at most, where one page after the other is asked for, as in a walk from chunk to chunk.
const AHEAD: usize = 16;
/// Entries of the page map read at once. The kernel holds the lock for 512 of them (`PAGEMAP_WALK_SIZE`, fs/proc/task_mmu.c).
const ENTRIES: u64 = 8192;
/// Searched address space; mappings beyond it are left out. Ten times what the largest server has.
const SEARCHED: u64 = 512 << 30;
/// The longest time that a reading takes: this, and as much again for each GiB that is resident.
const LONGEST: Duration = Duration::from_secs(60);
/// How often the mappings are read again because an address was in none.
const RELOADS: u32 = 20;
/// Bytes of `maps`; a process can have 65,530 mappings by default.
const MAPS_LIMIT: u64 = 64 << 20;

/// How reading is spread over time.
#[derive(Debug, Clone, Copy)]
pub struct Pacing {
    /// The longest time to read without a pause.
    pub burst: Duration,
    /// The pause.
    pub rest: Duration,
    /// After this time nothing more is read; `None` for a minute, and another for each GiB that is resident.
    pub longest: Option<Duration>,
}

impl Pacing {
    /// Reads for at most `burst`, then pauses half of it.
    pub fn of(burst: Duration) -> Self {
        Self { burst, rest: burst / 2, longest: None }
    }
}

/// Why the memory of a process cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum OpenMemoryError {
    /// There is no such process, or it has ended.
    #[error("process {0} does not exist")]
    Gone(u32),
    /// The kernel forbids it.
    #[error("{file}: permission denied")]
    Denied { file: String },
    /// Another error.
    #[error("cannot read {file}: {source}")]
    Io { file: String, source: io::Error },
    /// Not the page size that the reader knows.
    #[error("pages of {0} bytes are not supported, only of 4096")]
    PageSize(usize),
    /// The list of mappings is longer than may be read, in bytes.
    #[error("its list of mappings is longer than {0} bytes")]
    Mappings(u64),
    /// So many bytes at most that it shares with others cannot be told from the zero page.
    #[error("up to {0} bytes cannot be told from memory that was read and never written")]
    Indistinct(u64),
}

/// How much of a process's memory was searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryExtent {
    /// Bytes of the searched mappings that are present.
    pub present: u64,
    /// Bytes of them in swap.
    pub swapped: u64,
    /// Bytes that were left out: pages of mappings that show more of them than the kernel counts as resident, and mappings
    /// that are too large.
    pub unsearched: u64,
}

/// The memory of a running process.
pub struct LiveMemory {
    process: u32,
    proc: PathBuf,
    folder: PathBuf,
    mem: File,
    pagemap: File,
    regions: Vec<MemoryRegion>,
    reloads: u32,
    cache: RefCell<PageCache>,
    files: RefCell<HashMap<String, Option<File>>>,
    pacing: Pacing,
    opened: Instant,
    longest: Duration,
    stopped: Cell<bool>,
    /// Whether the process ended, or started another program, while it was read.
    ended: Cell<bool>,
    burst: Cell<Duration>,
    read_bytes: Cell<u64>,
    unsearched: u64,
    /// Whether the entries of all pages were read at once; else each is read when it is needed.
    searches: bool,
}

impl LiveMemory {
    /// Opens the memory of a process; `proc` is the root of the process file system.
    ///
    /// The files belong to the program that the process runs now: after an exec, reading fails.
    pub fn open(proc: &Path, process: u32, pacing: Pacing) -> Result<Self, OpenMemoryError> {
        Self::open_with(proc, process, pacing, true)
    }

    /// The same for a few reads at known addresses: no page map is read beforehand, whatever the size of the process.
    pub fn open_for_few_reads(
        proc: &Path,
        process: u32,
        pacing: Pacing,
    ) -> Result<Self, OpenMemoryError> {
        Self::open_with(proc, process, pacing, false)
    }

    fn open_with(
        proc: &Path,
        process: u32,
        pacing: Pacing,
        searches: bool,
    ) -> Result<Self, OpenMemoryError> {
        let page = rustix::param::page_size();
        // Everything below counts in pages of 4096 bytes; another size would be read wrongly without an error.
        if page != PAGE_LENGTH {
            return Err(OpenMemoryError::PageSize(page));
        }
        let folder = proc.join(process.to_string());
        let mem = open(&folder, "mem", process)?;
        let pagemap = open(&folder, "pagemap", process)?;
        // The time that is allowed grows with what there is to read.
        let resident = KernelCounts::read(&folder).resident.unwrap_or(0);
        let longest = LONGEST + LONGEST.mul_f64(resident as f64 / (1_u64 << 30) as f64);
        let mut memory = Self {
            process,
            proc: proc.to_owned(),
            folder,
            mem,
            pagemap,
            regions: Vec::new(),
            reloads: 0,
            cache: RefCell::new(PageCache::empty()),
            files: RefCell::new(HashMap::new()),
            pacing,
            opened: Instant::now(),
            longest: pacing.longest.unwrap_or(longest),
            stopped: Cell::new(false),
            ended: Cell::new(false),
            burst: Cell::new(Duration::ZERO),
            read_bytes: Cell::new(0),
            unsearched: 0,
            searches,
        };
        memory.load_regions()?;
        Ok(memory)
    }

    /// The number of the process.
    pub const fn process(&self) -> u32 {
        self.process
    }

    /// Bytes that were read so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.get()
    }

    /// Whether the memory is still that of the program that was opened: `address` can be read.
    pub fn still_there(&self, address: u64) -> bool {
        self.mem.read_exact_at(&mut [0], address).is_ok()
    }

    /// How much of it is searched.
    pub fn extent(&self) -> MemoryExtent {
        let mut extent = MemoryExtent { unsearched: self.unsearched, ..MemoryExtent::default() };
        for region in &self.regions {
            extent.present += region.pages.present() * PAGE;
            extent.swapped += region.pages.swapped() * PAGE;
        }
        extent
    }

    /// Whether some of its anonymous pages are mapped by another process too, as after a fork.
    pub fn shares_pages(&self) -> bool {
        let mut entries = self.regions.iter().flat_map(|region| region.pages.entries());
        entries.any(|(_, entry)| entry.present() && !entry.exclusive() && !entry.of_file())
    }

    /// Reads the mappings with the entries of their pages.
    ///
    /// A page that was read and never written is the kernel's zero page: there is nothing in it to find, and the entries of all of
    /// them alone could fill our memory. Only pages that no other process maps are surely none, so of the others no more are taken
    /// over than the process can have, unless the kernel counts some of the mapping. Small mappings first, because a heap is not the
    /// largest of them.
    fn load_regions(&mut self) -> Result<(), OpenMemoryError> {
        let mut regions = self.read_mappings()?;
        // The page map of a large process takes longer to read than a few words do.
        if !self.searches {
            self.regions = regions;
            return Ok(());
        }
        let mut real = RealPages::of(&self.folder);
        let mut by_size: Vec<&mut MemoryRegion> =
            regions.iter_mut().filter(|region| region.searched()).collect();
        by_size.sort_by_key(|region| region.size());
        let (mut searched, mut unsearched) = (0_u64, 0);
        for region in by_size {
            searched = searched.saturating_add(region.size());
            unsearched += match searched > SEARCHED {
                true => region.size(),
                false => self.read_real(region, &mut real),
            };
        }
        // A heap of which a part is missing would look like a smaller one.
        if real.indistinct > 0 {
            return Err(OpenMemoryError::Indistinct(real.indistinct));
        }
        (self.regions, self.unsearched) = (regions, unsearched);
        Ok(())
    }

    fn read_mappings(&self) -> Result<Vec<MemoryRegion>, OpenMemoryError> {
        let maps = open(&self.folder, "maps", self.process)?;
        // Bounded, because the process decides how many mappings it has.
        let mut limited = BufReader::new(maps.take(MAPS_LIMIT));
        let mut broken = None;
        let lines = limited
            .by_ref()
            .split(b'\n')
            .map_while(|line| line.map_err(|error| broken = Some(error)).ok());
        let regions = regions_of_lines(lines);
        if let Some(error) = broken {
            return Err(failure(&self.folder.join("maps"), self.process, error));
        }
        if limited.get_ref().limit() == 0 {
            return Err(OpenMemoryError::Mappings(MAPS_LIMIT));
        }
        if regions.is_empty() {
            // A process that has ended, and is not yet waited for, has no mappings.
            return Err(OpenMemoryError::Gone(self.process));
        }
        Ok(regions)
    }

    /// Reads the page map of a region. Returns the bytes that are left out.
    fn read_real(&self, region: &mut MemoryRegion, real: &mut RealPages) -> u64 {
        let range = (region.start, region.end);
        if let Some(doubtful) =
            self.read_entries(region, range, PagesRead::All { most: real.room() })
        {
            real.take(doubtful);
            return 0;
        }
        // Only a mapping that shows more pages than can be real is read again.
        region.pages = PageTable::default();
        match self.read_entries(region, range, PagesRead::Certain) {
            None => {
                region.pages = PageTable::default();
                region.size()
            }
            Some(doubtful) if real.are_certain(region, doubtful) => doubtful * PAGE,
            Some(_) => {
                // Where the time is over, the reading as a whole says so.
                let _ = self.read_entries(region, range, PagesRead::All { most: u64::MAX });
                0
            }
        }
    }

    /// Reads the page map of a part of a region. Returns how many of its pages may be the zero page; `None` if they are more than
    /// allowed, or if the time is over. What cannot be read counts as not present.
    fn read_entries(
        &self,
        region: &mut MemoryRegion,
        (start, end): (u64, u64),
        pages: PagesRead,
    ) -> Option<u64> {
        let mut doubtful = 0;
        let mut bytes = vec![0; ENTRIES as usize * 8];
        let first = region.start / PAGE;
        let last = end.div_ceil(PAGE);
        let mut page = start / PAGE;
        while page < last {
            let count = ENTRIES.min(last - page);
            let part = &mut bytes[..count as usize * 8];
            let read = self.paced(|| self.pagemap.read_exact_at(part, page.saturating_mul(8)));
            // What was unmapped since the list was read has no pages.
            if read?.is_err() {
                part.fill(0);
            }
            doubtful += set_entries(&mut region.pages, page - first, part, pages);
            if doubtful > pages.most() {
                return None;
            }
            page += count;
        }
        Some(doubtful)
    }

    /// Whether a page may be read: present by the page map.
    fn readable(&self, region: &MemoryRegion, page: u64) -> bool {
        if self.searches && region.searched() {
            return region.entry(page).present();
        }
        let mut bytes = [0; 8];
        let known = self.pagemap.read_exact_at(&mut bytes, page / PAGE * 8).is_ok();
        known && PageEntry(u64::from_le_bytes(bytes)).present()
    }

    /// Runs a system call that takes the observed process's lock, after a pause where it is time for one; `None` once the
    /// time for the whole reading is over, or the process has ended.
    fn paced<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        if self.stopped.get() || self.ended.get() {
            return None;
        }
        if self.burst.get() >= self.pacing.burst {
            thread::sleep(self.pacing.rest);
            self.burst.set(Duration::ZERO);
        }
        let start = Instant::now();
        let result = call();
        let end = Instant::now();
        self.burst.set(self.burst.get() + (end - start));
        // After the call, because nobody can interrupt one that takes long.
        self.stopped.set(end - self.opened > self.longest);
        Some(result)
    }

    /// Reads a range whose pages are present.
    fn read_present(&self, address: u64, into: &mut [u8]) -> bool {
        let mut at = address;
        for part in into.chunks_mut(READ) {
            let Some(read) = self.paced(|| self.mem.read_exact_at(part, at)) else { return false };
            if let Err(error) = read {
                // Only memory that is no more is at its end: where nothing is mapped, reading is an error (`mem_rw`, fs/proc/base.c).
                // A search asks for millions of words more, and each would cost a system call and its share of a pause.
                self.ended.set(error.kind() == io::ErrorKind::UnexpectedEof);
                return false;
            }
            self.read_bytes.set(self.read_bytes.get() + part.len() as u64);
            at = at.saturating_add(part.len() as u64);
        }
        true
    }

    /// Copies a part of one page through the cache.
    fn read_cached(&self, page: u64, within: usize, into: &mut [u8]) -> bool {
        let mut cache = self.cache.borrow_mut();
        if cache.held(page).is_none() && !self.fill(&mut cache, page) {
            return false;
        }
        let kept = cache.held(page).and_then(|page| page.get(within..within + into.len()));
        let Some(found) = kept else { return false };
        into.copy_from_slice(found);
        true
    }

    /// Reads a page into the cache, with those behind it if they are probably asked for next.
    fn fill(&self, cache: &mut PageCache, page: u64) -> bool {
        let Some(region) = self.region(page).filter(|region| usable(region)) else { return false };
        if !self.readable(region, page) {
            return cache.fill(page, 1, |bytes| self.read_file(region, page, bytes));
        }
        // Twice as many each time, because two pages in a row may be chance.
        let ahead = match cache.next {
            (next, before) if next == page => self.present_ahead(region, page, before * 2),
            _ => 1,
        };
        // One of several pages may be gone by now.
        [ahead, 1]
            .into_iter()
            .any(|count| cache.fill(page, count, |bytes| self.read_present(page, bytes)))
    }

    /// Number of present pages from this one on that follow each other in the region and in the cache, up to `most`.
    fn present_ahead(&self, region: &MemoryRegion, page: u64, most: usize) -> usize {
        if !region.searched() {
            return 1;
        }
        // The pages of one read lie in a row in the cache, so a read ends where the cache does.
        let limit = most.min(AHEAD).min(CACHE_PAGES as usize - PageCache::place(page));
        let pages = (0..limit as u64).map(|number| page.saturating_add(number * PAGE));
        let present = pages.take_while(|at| region.contains(*at) && region.entry(*at).present());
        present.count().max(1)
    }

    /// Reads a page of a file that is mapped read-only and not present, from the file: reading it from the process
    /// would map it there. Only the file with the same inode is used.
    fn read_file(&self, region: &MemoryRegion, page: u64, into: &mut [u8]) -> bool {
        // A page that may have been written is not what the file has.
        if region.searched() || region.writable || region.inode == 0 {
            return false;
        }
        let mut files = self.files.borrow_mut();
        let entry = files.entry(region.path.clone());
        let file = entry
            .or_insert_with(|| open_mapped(&self.proc, self.process, region, FileAccess::Read));
        let Some(file) = file else { return false };
        let offset = region.offset.saturating_add(page - region.start);
        file.read_exact_at(into, offset).is_ok()
    }

    /// Length of the run of present pages at `address` in one region, up to `length`.
    fn present_length(&self, address: u64, length: u64) -> u64 {
        let Some(region) = self.region(address).filter(|region| usable(region)) else { return 0 };
        let limit = address.saturating_add(length).min(region.end);
        let mut end = address;
        while end < limit && self.readable(region, align_down(end, PAGE)) {
            end = align_down(end, PAGE) + PAGE;
        }
        end.min(limit) - address
    }
}

/// Shared mappings may belong to a device.
const fn usable(region: &MemoryRegion) -> bool {
    region.readable && region.private
}

impl Memory for LiveMemory {
    fn regions(&self) -> &[MemoryRegion] {
        &self.regions
    }

    fn signal_stack(&self) -> Option<u64> {
        signal_stack_of(&fs::read(self.folder.join("auxv")).ok()?)
    }

    fn stopped(&self) -> Option<ReadingStopped> {
        self.stopped.get().then(|| ReadingStopped {
            after: self.longest,
            read_bytes: self.read_bytes(),
            present_bytes: self.extent().present,
        })
    }

    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let mut at = address;
        let mut rest = into;
        while !rest.is_empty() {
            let page = align_down(at, PAGE);
            let in_page = ((PAGE - (at - page)) as usize).min(rest.len());
            // Long ranges go past the cache: they are read once, and would replace what is read again.
            let length = match rest.len() > PAGE_LENGTH {
                true => self.present_length(at, rest.len() as u64) as usize,
                false => 0,
            };
            let split = length.max(in_page).min(rest.len());
            let (part, tail) = std::mem::take(&mut rest).split_at_mut(split);
            let read = if length > in_page {
                self.read_present(at, part)
            } else {
                self.read_cached(page, (at - page) as usize, part)
            };
            let Some(next) = at.checked_add(part.len() as u64).filter(|_| read) else {
                return false;
            };
            (at, rest) = (next, tail);
        }
        true
    }

    fn word(&self, address: u64) -> Option<u64> {
        if !address.is_multiple_of(8) {
            return None;
        }
        let page = align_down(address, PAGE);
        let within = (address - page) as usize;
        // A word does not cross pages, so the general reader would only cost time: this is asked for millions of words.
        let kept = self.cache.borrow().held(page).and_then(|page| word_in(page, within));
        kept.or_else(|| {
            let mut bytes = [0; 8];
            self.read_cached(page, within, &mut bytes).then_some(u64::from_le_bytes(bytes))
        })
    }

    fn now(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.read_present(address, &mut word).then_some(u64::from_le_bytes(word))
    }

    fn drop_kept(&mut self) {
        self.cache.get_mut().forget(0..u64::MAX);
    }

    fn renew(&mut self) {
        // What is known stays where it cannot be read anew.
        let _ = self.load_regions();
        self.drop_kept();
    }

    fn refresh(&mut self, start: u64, end: u64) {
        let (start, end) = (align_down(start, PAGE), align_up(end, PAGE));
        // A heap of malloc grows into addresses to which no access was allowed (`grow_heap`, malloc/arena.c).
        let mapped = self.region(start).is_some_and(|region| region.readable && end <= region.end);
        // Limited, because a word that is no address would have all mappings read again each time.
        if !mapped && self.reloads < RELOADS {
            self.reloads += 1;
            // What is known stays where it cannot be read anew.
            let _ = self.load_regions();
        } else {
            let mut regions = std::mem::take(&mut self.regions);
            let searched = regions.iter_mut().filter(|region| region.searched());
            for region in searched.filter(|region| region.start < end && start < region.end) {
                let part = (start.max(region.start), end.min(region.end));
                // Beyond the time nothing is read at all.
                let _ = self.read_entries(region, part, PagesRead::All { most: u64::MAX });
            }
            self.regions = regions;
        }
        self.cache.get_mut().forget(start..end);
    }
}

fn open(folder: &Path, name: &str, process: u32) -> Result<File, OpenMemoryError> {
    let path = folder.join(name);
    File::open(&path).map_err(|error| {
        // The folder tells a process that ended from a file that we may not see.
        let exists = fs::metadata(folder).is_ok();
        if exists { failure(&path, process, error) } else { OpenMemoryError::Gone(process) }
    })
}

fn failure(path: &Path, process: u32, error: io::Error) -> OpenMemoryError {
    let file = path.display().to_string();
    match error.kind() {
        io::ErrorKind::PermissionDenied => OpenMemoryError::Denied { file },
        io::ErrorKind::NotFound => OpenMemoryError::Gone(process),
        // What files that are open already report once their process has ended.
        _ if error.raw_os_error() == Some(libc::ESRCH) => OpenMemoryError::Gone(process),
        _ => OpenMemoryError::Io { file, source: error },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn memory_of(process: u32) -> Result<LiveMemory, OpenMemoryError> {
        LiveMemory::open(Path::new("/proc"), process, Pacing::of(Duration::from_millis(1)))
    }

    pub(crate) fn own_memory() -> LiveMemory {
        memory_of(std::process::id()).unwrap()
    }

    #[test]
    fn our_own_memory_reads_as_it_is() {
        let block: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
        let memory = own_memory();
        let address = block.as_ptr() as u64;
        assert_eq!(memory.copy(address, block.len() as u64).as_deref(), Some(&block[..]));
        assert_eq!(memory.copy(address + 77, 5).as_deref(), Some(&block[77..82]));
        assert!(memory.read_bytes() >= 300_000);
        assert!(memory.extent().present > 300_000);
        assert_eq!(memory.word(8), None);
        assert!(memory.copy(u64::MAX - 3, 8).is_none());
    }

    #[test]
    fn memory_that_was_never_touched_is_not_read() {
        const LENGTH: usize = 64 << 20;
        let block = vec![0_u8; LENGTH];
        let memory = own_memory();
        let middle = align_up(block.as_ptr() as u64, PAGE) + (LENGTH as u64 / 2);
        assert!(!memory.entry(middle).present());
        assert!(memory.copy(middle, 8).is_none());
        let mut bytes = vec![1; 3 * PAGE_LENGTH];
        assert_eq!(memory.read_sparse(middle, &mut bytes), 3);
        assert!(bytes.iter().all(|byte| *byte == 0));
        // Reading made nothing present.
        assert!(!own_memory().entry(middle).present());
    }

    #[test]
    fn a_range_is_read_anew_after_a_refresh() {
        let mut block = vec![1_u8; 64 << 10];
        let mut memory = own_memory();
        let address = block.as_ptr() as u64 + 4096;
        assert_eq!(memory.copy(address, 1), Some(vec![1]));
        block[4096] = 2;
        std::hint::black_box(&mut block);
        assert_eq!(memory.copy(address, 1), Some(vec![1]), "from the cache");
        memory.refresh(address, address + 1);
        assert_eq!(memory.copy(address, 1), Some(vec![2]));
    }

    #[test]
    fn addresses_to_which_no_access_was_allowed_are_read_after_a_refresh_once_it_is() {
        use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
        // SAFETY: a new mapping is nobody else's.
        let place = unsafe {
            let (none, private) = (ProtFlags::empty(), MapFlags::PRIVATE);
            mmap_anonymous(std::ptr::null_mut(), PAGE_LENGTH, none, private).unwrap()
        };
        let (mut memory, address) = (own_memory(), place as u64);
        assert_eq!(memory.word(address), None);
        // SAFETY: the mapping is a page, which may be written from here on.
        unsafe {
            mprotect(place, PAGE_LENGTH, MprotectFlags::READ | MprotectFlags::WRITE).unwrap();
            place.cast::<u64>().write(7);
        }
        memory.refresh(address, address + 8);
        assert_eq!(memory.word(address), Some(7));
        // SAFETY: nothing refers to the mapping any more.
        unsafe { munmap(place, PAGE_LENGTH).unwrap() };
    }

    #[test]
    fn pages_that_are_read_one_after_the_other_are_read_ahead_and_stay_within_what_is_present() {
        const PAGES: usize = 300;
        let mut block = vec![0_u8; 64 << 20];
        let start = align_up(block.as_ptr() as u64, PAGE);
        let first = (start - block.as_ptr() as u64) as usize;
        for page in 0..PAGES {
            block[first + page * PAGE_LENGTH] = (page % 251) as u8;
        }
        std::hint::black_box(&mut block);
        let memory = own_memory();
        for page in 0..PAGES {
            let address = start + (page * PAGE_LENGTH) as u64;
            assert_eq!(memory.copy(address, 1), Some(vec![(page % 251) as u8]), "page {page}");
        }
        let read = memory.read_bytes() / PAGE;
        assert!((PAGES..=PAGES + AHEAD).contains(&(read as usize)), "{read} pages");
        assert!(memory.copy(start + (32 << 20), 1).is_none());
    }

    #[test]
    fn reading_pauses_after_a_burst_and_ends_with_the_time_for_it() {
        let rest = Duration::from_millis(40);
        let mut memory = own_memory();
        memory.pacing = Pacing { burst: Duration::from_nanos(1), rest, longest: None };
        memory.burst.set(Duration::from_secs(1));
        let begun = Instant::now();
        assert_eq!(memory.paced(|| 1), Some(1));
        assert!(begun.elapsed() >= rest);
        // The burst begins anew after the pause.
        assert!(memory.burst.get() < Duration::from_secs(1));
        memory.longest = Duration::ZERO;
        assert_eq!(memory.paced(|| 2), Some(2), "the call that runs when the time is over");
        assert_eq!(memory.paced(|| 3), None);
    }

    #[test]
    fn nothing_more_is_read_of_a_process_that_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        // Until it runs its own program, it has the mappings of this one.
        let memory = loop {
            let memory = memory_of(child.id()).unwrap();
            if memory.regions.iter().any(|region| region.path.ends_with("/sleep")) {
                break memory;
            }
        };
        let stack = memory.regions.iter().find(|region| region.path == "[stack]").unwrap();
        let (first, _) = stack.pages.entries().find(|(_, entry)| entry.present()).unwrap();
        let address = stack.start + first * PAGE;
        assert!(memory.now(address).is_some());
        assert_eq!(memory.now(PAGE), None);
        assert_eq!(memory.paced(|| 1), Some(1), "what is not mapped is no sign of its end");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(memory.now(address), None);
        assert_eq!(memory.paced(|| 1), None);
        assert_eq!(memory.stopped(), None, "the time is not over");
    }

    #[test]
    fn a_process_that_does_not_exist_is_gone() {
        assert!(matches!(memory_of(u32::MAX), Err(OpenMemoryError::Gone(u32::MAX))));
    }
}
