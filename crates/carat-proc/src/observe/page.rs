//! The probe's page of a process: finding it, requesting fresh figures, and reading them.

use crate::observe::{MallocFigures, ProbeFigures};
use crate::process::{Identity, ProcRoot};
use carat_model::Bytes;
use carat_model::ledger::{Arena, Basis, ClassicRatios, JitUse, SlotPool};
use carat_outside::mapped_file::{FileAccess, open_mapped, open_regular};
use carat_outside::memory::parse_regions;
use carat_ruby::RubyVersion;
use carat_ruby::version::is_newer_than_known;
use carat_wire::page::{
    self, AllocationReading, Feature, FeatureState, Gc, Malloc, Own, PAGE_BYTES, PageHeader,
    PageReading, Pool, SectionReading, Word,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long to wait for answers: long enough for Ruby to reach a point where it can answer.
const TIMEOUT: Duration = Duration::from_millis(300);
/// Only the header is mapped for a request.
const HEADER_BYTES: usize = 4096;

/// The probe's page of one process.
#[derive(Debug)]
pub struct ProbePage {
    file: File,
}

impl ProbePage {
    /// The page that the process has mapped; `None` if it has no probe.
    ///
    /// It is found in `maps`, because Ruby's `$0=` overwrites the environment that names the directory.
    pub fn find(root: &ProcRoot, identity: Identity) -> Option<Self> {
        let maps = root.read(identity.pid, "maps").ok()?;
        // The pid in the name is that of its own namespace; the start time is the same in all.
        let end = format!("-{}.page", identity.start_ticks);
        let regions = parse_regions(&maps);
        let page = regions.iter().find(|region| region.path.ends_with(&end))?;
        Self::of(open_mapped(root.path(), identity.pid, page, FileAccess::Write)?)
    }

    /// The page in that file, which must not be a link, because the observed process chose the name.
    pub fn open(path: &Path) -> Option<Self> {
        Self::of(open_regular(ProcRoot::default().path(), path, FileAccess::Write)?)
    }

    fn of(file: File) -> Option<Self> {
        // Reading a mapping of a shorter file would raise SIGBUS.
        let whole = file.metadata().ok()?.len() == PAGE_BYTES as u64;
        whole.then_some(Self { file })
    }

    /// The current content of the page; `None` if it is not ready or has another version.
    pub fn read(&self) -> Option<PageReading> {
        // Read, not mapped: the file is the observed process's, which can cut it off at any moment.
        page::read(|offset, buffer| self.file.read_exact_at(buffer, offset)).ok()
    }

    /// Whether its file was removed, as when the process executes another Ruby, which makes a page of its own.
    pub fn is_gone(&self) -> bool {
        self.file.metadata().is_ok_and(|found| found.nlink() == 0)
    }

    /// Requests fresh figures and does not wait for them.
    pub fn request(&self) {
        self.with_header(increment_request);
    }

    /// Requests samples of allocations for so long, or their end where that is no time; `false` if nobody can answer.
    pub fn request_allocations(&self, time: Duration) -> bool {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(page::END_SAMPLES);
        let mut is_ready = false;
        self.with_header(|header| {
            is_ready = true;
            header.allocation_ns.store(nanoseconds, Ordering::Release);
            increment_request(header);
        });
        is_ready
    }

    /// The allocations that were sampled so far; `None` if the page is not ready or has another version.
    pub fn read_allocations(&self) -> Option<AllocationReading> {
        page::read_allocations(|offset, buffer| self.file.read_exact_at(buffer, offset)).ok()
    }

    /// Whether the last request has been answered.
    fn is_fresh(&self) -> bool {
        // Without a page that can be read, there is nothing to wait for.
        self.read().is_none_or(|page| {
            (page.served, page.served_by_ruby) == (page.requested, page.requested)
        })
    }

    fn with_header(&self, work: impl FnOnce(&PageHeader)) {
        // The observed process can cut its file off, and touching a mapping behind its end would raise SIGBUS. Between this
        // check and the access it still can, for some microseconds; a futex needs the mapping.
        if !self.file.metadata().is_ok_and(|found| found.len() >= HEADER_BYTES as u64) {
            return;
        }
        // SAFETY: a new mapping of a file of at least this size, at an address that the kernel chooses.
        let mapped = unsafe {
            mmap(
                null_mut(),
                HEADER_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &self.file,
                0,
            )
        };
        let Ok(start) = mapped else { return };
        // SAFETY: the mapping is larger than a header, aligned to a page, and lives until `munmap` below.
        let header = unsafe { &*start.cast::<PageHeader>() };
        // Without the magic the page is not ready, and nothing would answer.
        if header.magic.load(Ordering::Acquire) == page::MAGIC {
            work(header);
        }
        // Unmapping a whole mapping splits none, so it cannot fail (munmap(2)).
        // SAFETY: exactly the mapping made above; no reference to it is left.
        let _ = unsafe { munmap(start, HEADER_BYTES) };
    }
}

fn increment_request(header: &PageHeader) {
    // Counted, not set: a request during an answer is answered once more.
    header.requested.fetch_add(1, Ordering::AcqRel);
    // An error means that nobody waits; the probe reads the count before it waits again.
    let _ = futex::wake(&header.requested, futex::Flags::empty(), 1);
}

/// `RUBY_DESCRIPTION` of the first of these processes that has a probe. Reading its page costs the server nothing.
pub fn ruby_description(root: &ProcRoot, members: &[Identity]) -> Option<String> {
    let mut pages = members.iter().filter_map(|&member| ProbePage::find(root, member)?.read());
    pages.find(|page| !page.ruby.is_empty()).map(|page| page.ruby)
}

/// The pages in the folder of a tree's probes, also those of processes that have ended, which stay as they were.
pub fn pages_left(folder: &Path) -> Vec<PageReading> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let paths = entries.map(|entry| entry.path());
    let pages = paths.filter(|path| path.extension().is_some_and(|found| found == "page"));
    pages.filter_map(|path| ProbePage::open(&path)?.read()).collect()
}

/// Requests and reads the figures of the probes in these processes. Figures that are not renewed in time stay as they
/// were. Processes without a probe are left out.
pub fn read_probe_figures(
    root: &ProcRoot,
    members: &[Identity],
) -> HashMap<Identity, ProbeFigures> {
    let pages: Vec<(Identity, ProbePage)> = members
        .iter()
        .filter_map(|&member| Some((member, ProbePage::find(root, member)?)))
        .collect();
    // All at once, so that the waits for the processes do not add up.
    pages.iter().for_each(|(_, page)| page.request());
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline && !pages.iter().all(|(_, page)| page.is_fresh()) {
        // The answer is a word of a file that is only read, so nothing can wake this side.
        std::thread::sleep(Duration::from_millis(2));
    }
    pages
        .into_iter()
        .filter_map(|(member, page)| Some((member, probe_figures(&page.read()?))))
        .collect()
}

/// A page's figures as the ledger needs them.
pub fn probe_figures(reading: &PageReading) -> ProbeFigures {
    let allocator = reading.allocator.map(|allocator| allocator.name().to_owned());
    let malloc = malloc_figures(reading);
    let ranges = &reading.heap_pages.ranges;
    ProbeFigures {
        basis: Basis::Probe,
        ruby: (!reading.ruby.is_empty()).then(|| reading.ruby.clone()),
        allocator,
        malloc_file: None,
        heap_pages: ranges
            .iter()
            .map(|range| range.start..range.start.saturating_add(range.bytes))
            .collect(),
        transient_heap: None,
        slots_unknown: slots_unknown(reading),
        pools: reading.pools.iter().filter_map(pool).collect(),
        live_slots: reading.gc.get(Gc::LiveSlots),
        classic: classic(reading),
        // Ruby 3.4 and later keep these outside every heap, so the list leaves them out.
        unlisted_pages: page_bytes(reading, &[Gc::EmptyPages]).unwrap_or_default(),
        empty_pages: page_bytes(reading, &[Gc::TombPages, Gc::EmptyPages]),
        all_pages: page_bytes(reading, &[Gc::HeapPages]),
        malloc_of_ruby: malloc_of_ruby(&reading.gc),
        old_objects: reading.gc.get(Gc::OldObjects),
        arenas: reading.arenas.iter().filter_map(arena).collect(),
        malloc,
        returnable: reading.malloc.get(Malloc::FreeWholePages).map(Bytes),
        jit: jit_use(&reading.own),
    }
}

/// Ruby's compiler, where the probe was asked since it was loaded.
fn jit_use(own: &SectionReading<Own>) -> Option<JitUse> {
    let used = JitUse {
        // Ruby says only how much of it has code.
        reserved: None,
        heap: own.get(Own::YjitHeap).map(Bytes),
        compiled: own.get(Own::YjitCompiled),
    };
    (used != JitUse::default()).then_some(used)
}

/// Why a page has no list of Ruby's heap pages; `None` if it has one.
fn slots_unknown(reading: &PageReading) -> Option<String> {
    if !reading.heap_pages.ranges.is_empty() {
        return None;
    }
    let state = |wanted: Feature| {
        reading.features.iter().find(|(feature, _)| *feature == wanted).map(|(_, state)| *state)
    };
    let why = match (state(Feature::Ruby), state(Feature::HeapPages)) {
        (Some(FeatureState::UnknownRuby), _) => "this Ruby is older than 2.7",
        (Some(FeatureState::NoFunction), _) => "this Ruby lacks a function that the probe needs",
        (_, Some(FeatureState::OtherCollector)) => return Some(other_collector(&reading.gc)),
        (_, Some(FeatureState::NoFunction)) => "this Ruby does not list its heap pages",
        (_, Some(FeatureState::Refused)) => "there was no room for the list of heap pages",
        _ => "the probe has not read the heap yet",
    };
    let version = RubyVersion::find_in(&reading.ruby);
    Some(match version.filter(|version| is_newer_than_known(*version)) {
        Some(version) => format!("{why}, and Ruby {version} is newer than this version of carat"),
        None => why.to_owned(),
    })
}

fn other_collector(gc: &SectionReading<Gc>) -> String {
    let used = gc.get(Gc::CollectorUsed).map(|used| format!(", which uses {}", Bytes(used)));
    format!("the collector is not CRuby's own{}", used.unwrap_or_default())
}

/// Bytes that Ruby itself holds from malloc, as it counts them ([`carat_ruby::version::MALLOC_TOTALS`]).
fn malloc_of_ruby(gc: &SectionReading<Gc>) -> Option<Bytes> {
    let allocated = gc.get(Gc::MallocAllocated)?;
    allocated.checked_sub(gc.get(Gc::MallocFreed)?).map(Bytes)
}

fn pool(row: &page::PoolReading) -> Option<SlotPool> {
    Some(SlotPool {
        slot_size: row.get(Pool::SlotBytes)?,
        slots: row.get(Pool::EdenSlots),
        live: row.get(Pool::LiveSlots),
        free: row.get(Pool::FreeSlots),
        pages: row.get(Pool::EdenPages),
    })
}

fn arena(row: &page::ArenaReading) -> Option<Arena> {
    Some(Arena {
        number: u32::try_from(row.get(page::Arena::Number)?).ok()?,
        held: Bytes(row.get(page::Arena::System)?),
        resident: None,
        free: row.get(page::Arena::Free).map(Bytes),
    })
}

/// The two measures of the arena experiment. They need slots of a single size ([`carat_ruby::version::SLOT_SIZES`]).
fn classic(reading: &PageReading) -> Option<ClassicRatios> {
    let [only] = reading.pools.as_slice() else { return None };
    let slots = only.get(Pool::EdenSlots).filter(|&slots| slots > 0)?;
    let live = reading.gc.get(Gc::LiveSlots)?;
    let eden = reading.gc.get(Gc::EdenPages)?;
    let sorted = reading.gc.get(Gc::SortedLength).filter(|&length| length > 0);
    Some(ClassicRatios {
        slots: live as f64 / slots as f64,
        pages: sorted.map(|length| eden as f64 / length as f64),
    })
}

/// Bytes of the heap pages that the first known of these words counts.
fn page_bytes(reading: &PageReading, words: &[Gc]) -> Option<Bytes> {
    let pages = words.iter().find_map(|&word| reading.gc.get(word))?;
    pages.checked_mul(reading.gc.get(Gc::PageBytes)?).map(Bytes)
}

fn malloc_bytes(reading: &PageReading, word: Malloc) -> Option<Bytes> {
    reading.malloc.get(word).map(Bytes)
}

fn malloc_figures(reading: &PageReading) -> Option<MallocFigures> {
    let in_use = malloc_bytes(reading, Malloc::InUse)?;
    // The figure in use includes the blocks with a mapping of their own.
    let large = malloc_bytes(reading, Malloc::Mapped).unwrap_or_default();
    let mut figures =
        MallocFigures { live: in_use.saturating_sub(large), large, ..Default::default() };
    match (malloc_bytes(reading, Malloc::Active), malloc_bytes(reading, Malloc::Resident)) {
        // jemalloc: a page in use may be partly free, and freed pages may still be resident.
        (Some(active), Some(resident)) => {
            let metadata = malloc_bytes(reading, Malloc::Metadata).unwrap_or_default();
            figures.overhead = metadata + active.saturating_sub(in_use);
            figures.free = resident.saturating_sub(active).saturating_sub(metadata);
            figures.free_in_memory = figures.free;
        }
        _ => {
            let committed = malloc_bytes(reading, Malloc::Committed);
            let committed = committed.map(|bytes| bytes.saturating_sub(in_use));
            figures.free = malloc_bytes(reading, Malloc::Free).or(committed)?;
            // Only whole free pages can have left memory.
            let whole_pages = malloc_bytes(reading, Malloc::FreeWholePages);
            let between = whole_pages.map(|whole| figures.free.saturating_sub(whole));
            figures.free_in_memory = between.unwrap_or_default();
        }
    }
    Some(figures)
}
