//! One reading of one process: what could be found out, as plain data, and why the rest could not.
//!
//! [`look`] does the work.

use crate::canary;
use crate::elf::RubyAnchors;
use crate::heap::{
    ClassCount, ClassNames, ClassPlaces, CountRequest, Heap, HeapCensus, HeapLeftOut, count,
};
use crate::live::{LiveMemory, Pacing};
use crate::malloc::{ChunkAmount, ChunkTable, MallocCensus, read_malloc};
use crate::memory::Memory;
use crate::owners::{
    Owner, OwnerCensus, Owners, ReachCensus, find_owners, owners_need, read_threads,
};
use crate::reach::reach;
use crate::refusal::{Refused, refusal};
use crate::snapshot::Snapshot;
use carat_ruby::version::V2_7;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to find out, and how gently.
#[derive(Debug, Clone)]
pub struct LookOptions {
    /// The root of the process file system: `/proc`.
    pub proc: PathBuf,
    /// Count objects by class.
    pub classes: bool,
    /// Where the objects of this class lie.
    pub class: Option<String>,
    /// Read malloc's arenas.
    pub malloc: bool,
    /// Find out who holds malloc's chunks. Requires a copy of the process's memory in ours.
    pub owners: bool,
    /// Count what the roots reach. Requires `owners`.
    pub reach: bool,
    /// The longest time to read without a pause.
    pub max_pause: Duration,
    /// More than this many bytes are not copied for `owners`.
    pub copy_limit: u64,
    /// Called before a process is copied, with its number and the bytes of our own memory that this and the search need.
    pub before_copy: Option<fn(u32, u64)>,
}

impl Default for LookOptions {
    fn default() -> Self {
        Self {
            proc: PathBuf::from("/proc"),
            classes: true,
            class: None,
            malloc: true,
            owners: false,
            reach: false,
            max_pause: Duration::from_micros(200),
            copy_limit: 4 << 30,
            before_copy: None,
        }
    }
}

/// One reading of one process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Census {
    /// Process number, as in the process file system that was read.
    pub process: u32,
    /// The version by Ruby's own text, for example `3.3.8`.
    pub ruby: String,
    /// Ruby's heap.
    pub heap: Option<HeapCensus>,
    /// Objects by class, the largest first.
    pub classes: Option<Vec<ClassCount>>,
    /// Where the objects of the requested class lie.
    pub class: Option<ClassPlaces>,
    /// glibc's malloc.
    pub malloc: Option<MallocCensus>,
    /// Who holds malloc's chunks.
    pub owners: Option<OwnerCensus>,
    /// What the roots reach.
    pub reach: Option<ReachCensus>,
    /// What the counts of the heap leave out.
    pub left_out: HeapLeftOut,
    /// Everything that was requested and could not be told.
    pub unknown: Vec<UnknownPart>,
    /// What the reading cost.
    pub cost: LookCost,
}

/// A part of a census.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CensusPart {
    /// Slots.
    Heap,
    /// Garbage, ages and pinned objects.
    Ages,
    /// Objects by class.
    Classes,
    /// The requested class.
    Class,
    /// malloc's chunks.
    Malloc,
    /// Who holds the chunks.
    Owners,
    /// What the roots reach.
    Reach,
}

/// A part that could not be told, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownPart {
    /// The part.
    pub part: CensusPart,
    /// The reason, a sentence without a capital and a full stop.
    pub reason: String,
}

/// What a reading cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LookCost {
    /// Bytes that were read from the process.
    pub read_bytes: u64,
    /// Bytes of its memory that are present in searched mappings.
    pub present_bytes: u64,
    /// Bytes of its memory in swap, which are not read.
    pub swapped_bytes: u64,
    /// Processor time of the reading thread, in seconds.
    pub cpu_seconds: f64,
    /// Time from start to end, pauses included, in seconds.
    pub seconds: f64,
}

impl Census {
    fn unknown(&mut self, part: CensusPart, reason: impl ToString) {
        self.unknown.push(UnknownPart { part, reason: reason.to_string() });
    }

    /// Why a part could not be told; `None` if it was not requested or was told.
    pub fn reason(&self, part: CensusPart) -> Option<&str> {
        let found = self.unknown.iter().find(|unknown| unknown.part == part);
        found.map(|unknown| unknown.reason.as_str())
    }
}

/// Reads a process.
///
/// The reader keeps its normal priority: at a lower one it is preempted while it holds the observed process's memory lock,
/// and on a busy machine that process then waits for milliseconds. Short bursts keep the effect small instead.
pub fn look(process: u32, options: &LookOptions) -> Result<Census, Refused> {
    let started = Instant::now();
    let cpu = cpu_time();
    let open = LiveMemory::open(&options.proc, process, Pacing::of(options.max_pause));
    let live = open.map_err(|error| refusal(&options.proc, process, error))?;
    if live.shares_pages() {
        canary::test(&options.proc)?;
    }
    let anchors = RubyAnchors::find(&live).ok_or_else(|| no_ruby(process, options))?;
    if anchors.version < V2_7 {
        return Err(Refused::Version(anchors.version_text));
    }
    let (present_bytes, swapped_bytes) = live.extent();
    let mut census = Census { process, ruby: anchors.version_text.clone(), ..Census::default() };
    let mut source = Source::open(live, options, &mut census);
    let possible = source.possible(options);
    parts(source.memory(), &anchors, &possible, &mut census);
    let live = source.live();
    ended(live, &anchors)?;
    census.cost = LookCost {
        read_bytes: live.read_bytes(),
        present_bytes,
        swapped_bytes,
        cpu_seconds: cpu_time() - cpu,
        seconds: started.elapsed().as_secs_f64(),
    };
    Ok(census)
}

/// Processor time of this thread, in seconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A process without Ruby may have ended since it was opened.
fn no_ruby(process: u32, options: &LookOptions) -> Refused {
    let again = LiveMemory::open(&options.proc, process, Pacing::of(options.max_pause));
    again.map_or_else(|error| refusal(&options.proc, process, error), |_| Refused::NotRuby(process))
}

/// Bytes of our own memory for a copy and the table of chunks: malloc is counted first, which takes a fraction of the time.
fn copy_need(live: &LiveMemory, options: &LookOptions) -> u64 {
    let (present, _) = live.extent();
    // Apart from the memory that is copied afterwards, whose cache stays empty.
    let pacing = Pacing::of(options.max_pause);
    let counted = LiveMemory::open(&options.proc, live.process(), pacing).ok();
    // A heap page that passes for a mapped chunk adds one entry.
    let malloc = counted.and_then(|mut live| read_malloc(&mut live, &|_| false, false).ok());
    malloc.map_or(present, |reading| owners_need(&reading.census, present))
}

/// What the parts are read from.
enum Source {
    Live(LiveMemory),
    Copy(Snapshot),
}

impl Source {
    /// A copy if the options require one and allow its size.
    fn open(live: LiveMemory, options: &LookOptions, census: &mut Census) -> Self {
        if !options.owners && !options.reach {
            return Self::Live(live);
        }
        if let Some(before_copy) = options.before_copy {
            before_copy(census.process, copy_need(&live, options));
        }
        match Snapshot::take(live, options.copy_limit) {
            Ok(copy) => Self::Copy(copy),
            Err(refused) => {
                let (live, too_large) = *refused;
                if options.reach {
                    census.unknown(CensusPart::Reach, &too_large);
                }
                if options.owners {
                    census.unknown(CensusPart::Owners, too_large);
                }
                Self::Live(live)
            }
        }
    }

    /// The options without what requires a copy, if there is none.
    fn possible(&self, options: &LookOptions) -> LookOptions {
        let copied = matches!(self, Self::Copy(_));
        LookOptions {
            owners: options.owners && copied,
            reach: options.reach && copied,
            ..options.clone()
        }
    }

    fn memory(&mut self) -> &mut dyn Memory {
        match self {
            Self::Live(live) => live,
            Self::Copy(copy) => copy,
        }
    }

    const fn live(&self) -> &LiveMemory {
        match self {
            Self::Live(live) => live,
            Self::Copy(copy) => copy.live(),
        }
    }
}

/// Fails if the process ended, or runs another program: what could not be read would count as free.
fn ended(live: &LiveMemory, anchors: &RubyAnchors) -> Result<(), Refused> {
    let address = anchors.symbol("ruby_version").unwrap_or(0);
    if live.still_there(address) { Ok(()) } else { Err(Refused::Ended(live.process())) }
}

/// Reads every requested part.
fn parts(
    memory: &mut dyn Memory,
    anchors: &RubyAnchors,
    options: &LookOptions,
    census: &mut Census,
) {
    let mut heap = Heap::find(memory, anchors.version);
    let mut names = None;
    match &mut heap {
        Ok(heap) => names = heap_parts(memory, anchors, options, (heap, &mut *census)),
        Err(reason) => {
            let wanted = [
                (CensusPart::Heap, true),
                (CensusPart::Classes, options.classes),
                (CensusPart::Class, options.class.is_some()),
                (CensusPart::Owners, options.owners),
                (CensusPart::Reach, options.reach),
            ];
            for (part, _) in wanted.into_iter().filter(|(_, wanted)| *wanted) {
                census.unknown(part, &*reason);
            }
        }
    }
    if options.malloc || options.owners || options.reach {
        let heap = heap.as_ref().ok();
        let Some(chunks) = malloc_part(memory, heap, options, census) else { return };
        holder_parts(memory, anchors, options, census, (heap, names.as_mut(), &chunks));
    }
}

fn heap_parts(
    memory: &mut dyn Memory,
    anchors: &RubyAnchors,
    options: &LookOptions,
    (heap, census): (&mut Heap, &mut Census),
) -> Option<ClassNames> {
    let mut names = None;
    if options.classes || options.class.is_some() || options.owners {
        match ClassNames::learn(memory, heap, anchors) {
            Ok(learned) => names = Some(learned),
            Err(reason) => {
                census.unknown(CensusPart::Classes, &reason);
                if options.owners {
                    census.unknown(CensusPart::Owners, &reason);
                }
                if options.class.is_some() {
                    census.unknown(CensusPart::Class, reason);
                }
            }
        }
    }
    let request = CountRequest { names: names.as_mut(), class: options.class.as_deref() };
    let counted = count(memory, heap, request);
    if counted.heap.ages.is_none() {
        census.unknown(CensusPart::Ages, "the bitmaps of heap pages and the objects disagree");
    }
    census.heap = Some(counted.heap);
    census.classes = counted.classes;
    census.class = counted.class;
    census.left_out = counted.left_out;
    names
}

/// Reads malloc's arenas; returns the chunks.
fn malloc_part(
    memory: &mut dyn Memory,
    heap: Option<&Heap>,
    options: &LookOptions,
    census: &mut Census,
) -> Option<ChunkTable> {
    let is_heap_page = |address| heap.is_some_and(|heap| heap.page_at(address).is_some());
    match read_malloc(memory, &is_heap_page, options.owners || options.reach) {
        Ok(reading) => {
            census.malloc = Some(reading.census);
            Some(reading.chunks)
        }
        Err(reason) => {
            census.unknown(CensusPart::Malloc, &reason);
            if options.owners {
                census.unknown(CensusPart::Owners, &reason);
            }
            if options.reach {
                census.unknown(CensusPart::Reach, reason);
            }
            None
        }
    }
}

/// Finds out who holds the chunks, and what the roots reach. Only for a copy of the memory.
fn holder_parts(
    memory: &dyn Memory,
    anchors: &RubyAnchors,
    options: &LookOptions,
    census: &mut Census,
    (heap, names, chunks): (Option<&Heap>, Option<&mut ClassNames>, &ChunkTable),
) {
    let Some(heap) = heap else { return };
    let threads = read_threads(&options.proc, census.process);
    if let Some(names) = names.filter(|_| options.owners) {
        let owners = find_owners(memory, heap, names, chunks, &threads);
        if let Some(classes) = &mut census.classes {
            add_chunks(classes, names, &owners, chunks);
        }
        census.owners = Some(owners.census(chunks));
    }
    if options.reach {
        match reach(memory, heap, chunks, (anchors, &threads)) {
            Ok(reached) => census.reach = Some(reached.census()),
            Err(reason) => census.unknown(CensusPart::Reach, reason),
        }
    }
}

/// Adds what the objects of each class hold to the list of classes.
fn add_chunks(
    classes: &mut [ClassCount],
    names: &ClassNames,
    owners: &Owners,
    chunks: &ChunkTable,
) {
    let amounts = owners.amounts(chunks).into_iter();
    let held: HashMap<&str, ChunkAmount> = amounts
        .filter_map(|(owner, amount)| match owner {
            Owner::Class(class) => Some((names.name(class), amount)),
            _ => None,
        })
        .collect();
    for class in classes {
        let amount = held.get(class.name.as_str()).copied().unwrap_or_default();
        class.malloc_bytes = Some(amount.bytes);
        class.malloc_chunks = Some(amount.chunks);
    }
}
