//! One reading of one process: what could be found out, as plain data, and why the rest could not.
//!
//! [`crate::readings::look`] makes one.

use crate::canary;
use crate::copy::CopiedMemory;
use crate::elf::RubyAnchors;
use crate::heap::{
    ClassCount, ClassId, ClassNames, ClassPlaces, CountRequest, Heap, HeapCensus, HeapLeftOut,
    HeapUnknown, SlotHead, SlotType, count,
};
use crate::jit::{Jit, JitCensus};
use crate::live::{LiveMemory, Pacing};
use crate::malloc::{ChunkAmount, ChunkTable, EXTENT_BYTES, MallocCensus, NoMalloc, read_malloc};
use crate::mapped_file::{FileAccess, open_mapped};
use crate::memory::{Memory, MemoryRegion};
use crate::need::{MemoryGate, MemoryNeed, NeedPart, census_need};
use crate::owners::{
    ChunkLoad, Owner, OwnerCensus, Owners, ReachCensus, ThreadPlace, find_owners, is_forked,
    read_threads,
};
use crate::reach::told::tells;
use crate::reach::{Reach, ReachUnknown, reach, told_chunks};
use crate::refusal::{Refused, refusal};
use crate::serving::{ServingMalloc, serving_malloc};
use crate::swapped::{in_swap, or_in_swap};
use crate::who::{WhoCensus, WhoFound, WhoRequest, WhoSources, find_who, who_need};
use carat_ruby::version::V2_7;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tracing::debug;

/// Name of the threads that return pages in the background (background_thread.c of jemalloc).
const BACKGROUND_THREAD: &str = "jemalloc_bg_thd";

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
    /// Find out who holds malloc's chunks. Requires a table of all of them.
    pub owners: bool,
    /// Count what the roots reach. Requires the table too.
    pub reach: bool,
    /// How large objects are with what they hold alone. Requires `owners`.
    pub held: bool,
    /// Find out who keeps objects alive, by name. Requires a copy of the process's memory.
    pub who: Option<WhoRequest>,
    /// Take a copy for the holders of chunks and what the roots reach too, if there is memory for it. They ask for the same pages many
    /// times.
    pub copy: bool,
    /// The longest time to read without a pause.
    pub max_pause: Duration,
    /// After this time nothing more is read of a process; `None` for a minute, and another for each GiB that is resident.
    pub longest: Option<Duration>,
    /// Asked before a large part of our own memory is taken.
    pub memory: MemoryGate,
}

impl LookOptions {
    /// How reading is spread over time.
    pub fn pacing(&self) -> Pacing {
        Pacing { longest: self.longest, ..Pacing::of(self.max_pause) }
    }
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
            held: false,
            who: None,
            copy: false,
            max_pause: Duration::from_micros(200),
            longest: None,
            memory: MemoryGate::default(),
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
    /// Which malloc serves it; `None` if that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<ServingMalloc>,
    /// Ruby's heap.
    pub heap: Option<HeapCensus>,
    /// Objects by class, the largest first.
    pub classes: Option<Vec<ClassCount>>,
    /// Where the objects of the requested class lie.
    pub class: Option<ClassPlaces>,
    /// Malloc's memory.
    pub malloc: Option<MallocCensus>,
    /// Who holds malloc's chunks.
    pub owners: Option<OwnerCensus>,
    /// Ruby's compiler; `None` where no bytecode leads to machine code, or that was not looked for: it requires the holders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jit: Option<JitCensus>,
    /// What the roots reach; also where it was asked who keeps objects alive, or who holds malloc's chunks.
    pub reach: Option<ReachCensus>,
    /// Who keeps objects alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<WhoCensus>,
    /// What the counts of the heap leave out.
    pub left_out: HeapLeftOut,
    /// Everything that was requested and could not be told.
    pub unknown: Vec<UnknownPart>,
    /// Contents moved while they were read, so that references lack which another reading may find.
    #[serde(skip)]
    pub moved: bool,
    /// What the reading cost.
    pub cost: LookCost,
}

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
    /// Who keeps objects alive.
    Who,
}

/// A part that could not be told, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownPart {
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
    /// Bytes that were not searched: pages of mappings that show more of them than the kernel counts as resident, and
    /// mappings that are too large.
    #[serde(default)]
    pub unsearched_bytes: u64,
    /// Processor time of the reading thread, in seconds.
    pub cpu_seconds: f64,
    /// Time from start to end, pauses included, in seconds.
    pub seconds: f64,
}

impl Census {
    /// Notes why a part is unknown.
    pub fn unknown(&mut self, part: CensusPart, reason: impl ToString) {
        let reason = reason.to_string();
        debug!(?part, reason, "a part of the reading is refused");
        self.unknown.push(UnknownPart { part, reason });
    }

    /// Why the holders of chunks and what the roots reach are unknown, as far as they were asked for.
    fn no_holders(&mut self, options: &LookOptions, reason: &str) {
        let wanted = [
            (CensusPart::Owners, options.owners),
            (CensusPart::Reach, options.reach),
            (CensusPart::Who, options.who.is_some()),
        ];
        for (part, _) in wanted.into_iter().filter(|(_, wanted)| *wanted) {
            if self.reason(part).is_none() {
                self.unknown(part, reason);
            }
        }
    }

    /// Why the objects of classes are unknown, as far as they were asked for.
    fn no_classes(&mut self, options: &LookOptions, reason: &str) {
        let wanted =
            [(CensusPart::Classes, options.classes), (CensusPart::Class, options.class.is_some())];
        for (part, _) in wanted.into_iter().filter(|(_, wanted)| *wanted) {
            self.unknown(part, reason);
        }
    }

    /// Why a part could not be told; `None` if it was not requested or was told.
    pub fn reason(&self, part: CensusPart) -> Option<&str> {
        let found = self.unknown.iter().find(|unknown| unknown.part == part);
        found.map(|unknown| unknown.reason.as_str())
    }
}

/// Reads a process once.
///
/// The reader keeps its normal priority: at a lower one it is preempted while it holds the observed process's memory lock,
/// and on a busy machine that process then waits for milliseconds. Short bursts keep the effect small instead.
pub(crate) fn look_once(process: u32, options: &LookOptions) -> Result<Census, Refused> {
    let started = Instant::now();
    // Of this thread alone: what carat does beside is no cost of this reading.
    let cpu = cpu_time();
    let (mut live, anchors) = open(process, options)?;
    let extent = live.extent();
    let serving = serving_malloc(&live);
    let ruby = anchors.version_text.clone();
    let mut census = Census { process, ruby, serving, ..Census::default() };
    let is_copied = options.who.is_some() || (options.copy && (options.owners || options.reach));
    let copied = is_copied.then(|| options.memory.ask(CopiedMemory::need(process, &live)));
    match copied {
        None => parts(&mut live, &anchors, options, &mut census),
        Some(Ok(())) => parts(&mut CopiedMemory::of(&mut live), &anchors, options, &mut census),
        // Without the memory for a copy everything else can still be read.
        Some(Err(reason)) => {
            if options.who.is_some() {
                census.unknown(CensusPart::Who, reason);
            }
            let options = LookOptions { who: None, ..options.clone() };
            parts(&mut live, &anchors, &options, &mut census);
        }
    }
    // Last, because memory that a process gave back while it ended would count as free.
    unless_ended(&live, &anchors)?;
    census.cost = LookCost {
        read_bytes: live.read_bytes(),
        present_bytes: extent.present,
        swapped_bytes: extent.swapped,
        unsearched_bytes: extent.unsearched,
        cpu_seconds: cpu_time() - cpu,
        seconds: started.elapsed().as_secs_f64(),
    };
    Ok(census)
}

/// Opens a process with a Ruby that can be read.
pub(crate) fn open(
    process: u32,
    options: &LookOptions,
) -> Result<(LiveMemory, RubyAnchors), Refused> {
    let need = census_need(&options.proc, &[process]);
    // Before anything is read: carat must not be what drives a container out of memory.
    options.memory.ask(need).map_err(Refused::NoMemory)?;
    let live = open_memory(process, options)?;
    // On a kernel where a read unshares a page, reading would cost the tree memory. A page of our own shows it.
    if live.shares_pages() {
        canary::test(&options.proc)?;
    }
    let anchors = RubyAnchors::find(&live).ok_or_else(|| no_ruby(&live, options))?;
    match anchors.version < V2_7 {
        true => Err(Refused::Version(anchors.version_text)),
        false => Ok((live, anchors)),
    }
}

fn open_memory(process: u32, options: &LookOptions) -> Result<LiveMemory, Refused> {
    let opened = LiveMemory::open(&options.proc, process, options.pacing());
    opened.map_err(|error| refusal(&options.proc, process, error))
}

/// Processor time of this thread, in seconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A process without Ruby may have ended since it was opened, or it was not searched as a whole.
fn no_ruby(live: &LiveMemory, options: &LookOptions) -> Refused {
    if let Some(stopped) = live.stopped() {
        return Refused::Stopped(stopped);
    }
    open_memory(live.process(), options)
        .map_or_else(|error| error, |_| Refused::NotRuby(live.process()))
}

/// Fails if the process ended, or runs another program: what could not be read would count as free.
pub(crate) fn unless_ended(live: &LiveMemory, anchors: &RubyAnchors) -> Result<(), Refused> {
    let address = anchors.symbol("ruby_version").unwrap_or(0);
    if live.still_there(address) { Ok(()) } else { Err(Refused::Ended(live.process())) }
}

/// Reads every requested part. After the time for all of them is over, nothing that was searched since is complete.
fn parts(
    memory: &mut dyn Memory,
    anchors: &RubyAnchors,
    options: &LookOptions,
    census: &mut Census,
) {
    let options = &without_swapped(memory, options, census);
    let mut names = None;
    let mut heap = match complete(memory, Heap::find(memory, anchors.version)) {
        Ok(heap) => Some(heap),
        Err(reason) => {
            let reason = or_in_swap(memory, reason);
            census.unknown(CensusPart::Heap, &reason);
            census.no_classes(options, &reason);
            census.no_holders(options, &reason);
            None
        }
    };
    if let Some(heap) = &mut heap {
        names = heap_parts(memory, anchors, options, (heap, &mut *census));
    }
    let wants_chunks = options.owners || options.reach || options.who.is_some();
    let is_other =
        (options.malloc || wants_chunks) && malloc_part(memory, heap.as_ref(), options, census);
    let Some(heap) = heap else { return };
    if let Some(request) = options.who.as_ref().filter(|_| is_other) {
        told_part(memory, anchors, (&heap, request), options, census);
    }
    let Some(malloc) = &census.malloc else { return };
    let slots = heap.pages().iter().map(|page| page.slots).sum();
    let load = ChunkLoad::of(malloc, slots);
    if wants_chunks {
        holder_parts(memory, anchors, options, census, (&heap, names.as_mut(), load));
    }
}

/// What can be told of a process of which a part is in swap: who keeps the objects that are in memory, but neither how many a class has
/// nor what nobody keeps.
pub(crate) fn without_swapped(
    memory: &dyn Memory,
    options: &LookOptions,
    census: &mut Census,
) -> LookOptions {
    let Some(reason) = in_swap(memory).map(|reason| reason.to_string()) else {
        return options.clone();
    };
    census.no_classes(options, &reason);
    // Also garbage where it is not asked for: no other question tells it.
    census.no_holders(&LookOptions { reach: true, who: None, ..options.clone() }, &reason);
    let none = LookOptions { classes: false, class: None, owners: false, ..options.clone() };
    LookOptions { reach: false, ..none }
}

/// What was found out, unless the time was over before its end.
fn complete<T>(memory: &dyn Memory, found: Result<T, impl ToString>) -> Result<T, String> {
    match memory.stopped() {
        Some(stopped) => Err(stopped.to_string()),
        None => found.map_err(|reason| reason.to_string()),
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
    let stopped = memory.stopped().map(|stopped| stopped.to_string());
    // Otherwise what looked like its pages were none.
    let none = || or_in_swap(memory, HeapUnknown::NoPages.to_string());
    if let Some(reason) = stopped.or_else(|| (counted.heap.slots == 0).then(none)) {
        census.unknown(CensusPart::Heap, &reason);
        census.no_classes(options, &reason);
        return names;
    }
    if counted.heap.ages.is_none() {
        census.unknown(CensusPart::Ages, "the bitmaps of heap pages and the objects disagree");
    }
    census.heap = Some(HeapCensus { transient_heap: heap.transient_heap(), ..counted.heap });
    census.classes = counted.classes;
    census.class = counted.class;
    census.left_out = counted.left_out;
    names
}

/// Counts malloc's chunks. Returns whether the allocator is one whose chunks nobody lists.
fn malloc_part(
    memory: &mut dyn Memory,
    heap: Option<&Heap>,
    options: &LookOptions,
    census: &mut Census,
) -> bool {
    let is_heap_page = |address| heap.is_some_and(|heap| heap.page_at(address).is_some());
    let need = count_need(memory, census);
    // glibc's chunks are counted in passing, which takes no memory worth asking for.
    let allowed = if need.bytes > 0 { options.memory.ask(need) } else { Ok(()) };
    let mut is_other = false;
    let counted = allowed.and_then(|()| {
        let counted = read_malloc(memory, &is_heap_page, false);
        is_other = matches!(counted, Err(NoMalloc::Other { .. }));
        complete(memory, counted)
    });
    match counted {
        Ok(reading) => {
            if let Some(heap) = &mut census.heap {
                // Ruby 2.7 takes it from malloc, which counts it as in use; later ones map it themselves.
                heap.transient_heap.take_if(|(start, _)| reading.covers(*start));
            }
            census.malloc = Some(observed(reading.census, options, census.process));
        }
        Err(reason) => {
            census.unknown(CensusPart::Malloc, &reason);
            // What objects say of themselves can still be read.
            let who = options.who.clone().filter(|_| !is_other || heap.is_none());
            census.no_holders(&LookOptions { who, ..options.clone() }, &reason);
        }
    }
    is_other
}

/// Finds out who keeps what as far as objects say themselves where their contents are.
fn told_part(
    memory: &mut dyn Memory,
    anchors: &RubyAnchors,
    (heap, request): (&Heap, &WhoRequest),
    options: &LookOptions,
    census: &mut Census,
) {
    let slots: u64 = heap.pages().iter().map(|page| page.slots).sum();
    let load = ChunkLoad { chunks: slots.saturating_mul(2), bytes: 0, slots };
    let told = match (tells(heap.version()), options.memory.ask(load.need(census.process))) {
        (true, Ok(())) => Ok(told_chunks(memory, heap, anchors)),
        (true, Err(reason)) => Err(reason),
        (false, _) => Err(census.reason(CensusPart::Malloc).unwrap_or_default().to_owned()),
    };
    match complete(memory, told) {
        Ok(chunks) => {
            let threads = read_threads(&options.proc, census.process);
            who_part(memory, (heap, &chunks, anchors, &threads), request, (options, census, load));
        }
        Err(reason) => census.unknown(CensusPart::Who, reason),
    }
}

/// What counting the chunks takes beside what every reading does: jemalloc's records are kept, at most one for each page.
fn count_need(memory: &dyn Memory, census: &Census) -> MemoryNeed {
    let allocator = census.serving.as_ref().and_then(|serving| serving.allocator.as_deref());
    let pages: u64 = match allocator {
        Some("jemalloc") => memory.regions().iter().map(|region| region.pages.present()).sum(),
        _ => 0,
    };
    let bytes = pages.saturating_mul(EXTENT_BYTES);
    MemoryNeed { process: census.process, part: NeedPart::Census, bytes }
}

/// Finds out who holds the chunks, and what the roots reach.
fn holder_parts(
    memory: &mut dyn Memory,
    anchors: &RubyAnchors,
    options: &LookOptions,
    census: &mut Census,
    (heap, names, load): (&Heap, Option<&mut ClassNames>, ChunkLoad),
) {
    let chunks = match keep_chunks(memory, heap, options, (census, load)) {
        Ok(chunks) => chunks,
        Err(reason) => return census.no_holders(options, &reason),
    };
    let threads = read_threads(&options.proc, census.process);
    if let Some(request) = &options.who {
        let sources = (heap, &chunks, anchors, threads.as_slice());
        who_part(memory, sources, request, (options, &mut *census, load));
    }
    // Who keeps what cannot be told without knowing what the roots reach.
    let is_told = census.reach.is_some() || census.reason(CensusPart::Reach).is_some();
    if !options.owners && (!options.reach || is_told) {
        return;
    }
    // Also for the owners alone: what a collection would free must not read as if it were kept.
    let reached = complete(memory, reach(memory, heap, &chunks, (anchors, &threads)));
    if let Some(names) = names.filter(|_| options.owners) {
        let jit = Jit::find(memory, heap, &chunks);
        let owners = find_owners(memory, heap, names, &chunks, &threads, jit.as_ref());
        match memory.stopped() {
            Some(stopped) => census.unknown(CensusPart::Owners, stopped),
            None => {
                census.jit = jit.map(|jit| jit.census(memory, owners.amount(&chunks, Owner::Jit)));
                let found = (&owners, &chunks, reached.as_ref().ok());
                owner_parts(memory, (heap, names), found, options, census);
            }
        }
    }
    match reached {
        Ok(reached) => census.reach = Some(reached.census()),
        Err(reason) if options.reach && !is_told => census.unknown(CensusPart::Reach, reason),
        Err(_) => {}
    }
}

/// Finds out who keeps what.
fn who_part(
    memory: &mut dyn Memory,
    (heap, chunks, anchors, threads): (&Heap, &ChunkTable, &RubyAnchors, &[ThreadPlace]),
    request: &WhoRequest,
    (options, census, load): (&LookOptions, &mut Census, ChunkLoad),
) {
    let need = who_need(census.process, (load.slots, chunks.len() as u64), request);
    if let Err(reason) = options.memory.ask(need) {
        return census.unknown(CensusPart::Who, reason);
    }
    let process = census.process;
    let open =
        |region: &MemoryRegion| open_mapped(&options.proc, process, region, FileAccess::Read);
    let sources = WhoSources { heap, chunks, anchors, threads, open: &open };
    let found = find_who(memory, &sources, request);
    match complete(memory, found) {
        Ok(WhoFound { who, reach, garbage }) => {
            census.who = Some(WhoCensus { needed_bytes: need.bytes, ..who });
            match reach {
                Ok(reach) => {
                    census.reach = Some(reach);
                    for class in census.classes.iter_mut().flatten() {
                        let found = garbage.get(&class.name).copied();
                        class.garbage_objects = Some(found.unwrap_or(0));
                    }
                }
                Err(reason) => {
                    census.moved = matches!(reason, ReachUnknown::Moved(_));
                    if census.reason(CensusPart::Reach).is_none() {
                        census.unknown(CensusPart::Reach, reason);
                    }
                }
            }
        }
        Err(reason) => census.unknown(CensusPart::Who, or_in_swap(memory, reason)),
    }
}

/// Adds what was found out about holders to the classes and to the sums.
fn owner_parts(
    memory: &dyn Memory,
    (heap, names): (&Heap, &mut ClassNames),
    (owners, chunks, reached): (&Owners, &ChunkTable, Option<&Reach<'_>>),
    options: &LookOptions,
    census: &mut Census,
) {
    if let Some(classes) = &mut census.classes {
        add_chunks(classes, names, owners, chunks);
        if let Some(reached) = reached {
            add_garbage(classes, memory, (heap, &mut *names), reached);
            if options.held {
                add_held(classes, memory, (heap, names), reached);
            }
        }
    }
    let is_garbage = reached.map(|reached| |chunk| reached.is_garbage(chunk));
    let is_garbage = is_garbage.as_ref().map(|known| known as &dyn Fn(usize) -> bool);
    census.owners = Some(owners.census(chunks, is_garbage));
}

/// Adds the objects that a collection would free to the list of classes.
fn add_garbage(
    classes: &mut [ClassCount],
    memory: &dyn Memory,
    (heap, names): (&Heap, &mut ClassNames),
    reached: &Reach<'_>,
) {
    let mut garbage: HashMap<ClassId, u64> = HashMap::new();
    let slots = heap.pages().iter().flat_map(|page| (0..page.slots).map(|slot| page.slot(slot)));
    // Few are not reached, and only those are read.
    for (_, slot) in (0..).zip(slots).filter(|(number, _)| !reached.is_reached_number(*number)) {
        let head = head_at(memory, slot);
        if let Some(head) = head.filter(|head| head.slot_type() != SlotType::NONE) {
            *garbage.entry(names.of_slot(memory, heap, head)).or_default() += 1;
        }
    }
    for class in classes {
        let objects = garbage.get(&names.id(&class.name)).copied();
        // Every slot was looked at, so a class without an entry has no garbage: zero, and not unknown.
        class.garbage_objects = Some(objects.unwrap_or(0));
    }
}

fn head_at(memory: &dyn Memory, slot: u64) -> Option<SlotHead> {
    Some(SlotHead { flags: memory.word(slot)?, class: memory.word_at(slot, 8)? })
}

/// Adds the bytes of the objects with what they hold alone to the list of classes.
fn add_held(
    classes: &mut [ClassCount],
    memory: &dyn Memory,
    (heap, names): (&Heap, &mut ClassNames),
    reached: &Reach<'_>,
) {
    let mut held: HashMap<ClassId, u64> = HashMap::new();
    reached.each_held(|slot, bytes| {
        if let Some(head) = head_at(memory, slot) {
            *held.entry(names.of_slot(memory, heap, head)).or_default() += bytes;
        }
    });
    for class in classes {
        class.with_held_bytes = held.get(&names.id(&class.name)).copied();
    }
}

/// Reads the chunks again and keeps them, if there is memory for their table and for the search in it.
fn keep_chunks(
    memory: &mut dyn Memory,
    heap: &Heap,
    options: &LookOptions,
    (census, load): (&mut Census, ChunkLoad),
) -> Result<ChunkTable, String> {
    // The chunks were counted before, so the size of their table is known.
    options.memory.ask(load.need(census.process))?;
    let is_heap_page = |address| heap.page_at(address).is_some();
    let kept = read_malloc(memory, &is_heap_page, true);
    let kept = complete(memory, kept)?;
    census.malloc = Some(observed(kept.census, options, census.process));
    Ok(kept.chunks)
}

/// The table of chunks of a process of which nothing else is counted.
pub(crate) fn table_of_chunks(
    memory: &mut dyn Memory,
    heap: &Heap,
    (options, process): (&LookOptions, u32),
) -> Result<ChunkTable, String> {
    let is_heap_page = |address| heap.page_at(address).is_some();
    let counted = read_malloc(memory, &is_heap_page, false);
    let is_other = matches!(counted, Err(NoMalloc::Other { .. }));
    let counted = complete(memory, counted).map_err(|reason| match is_other {
        // Other programs take a dump for the whole heap.
        true => format!(
            "{reason}; a dump would lack references, so start the server under one of these for it, or ask `carat explain {process} --who`"
        ),
        false => reason,
    });
    let counted = counted?.census;
    let slots = heap.pages().iter().map(|page| page.slots).sum();
    let mut census = Census { process, ..Census::default() };
    keep_chunks(memory, heap, options, (&mut census, ChunkLoad::of(&counted, slots)))
}

/// Adds what the memory of the process does not tell: when it was read, and whether a thread of jemalloc's runs in it.
fn observed(mut malloc: MallocCensus, options: &LookOptions, process: u32) -> MallocCensus {
    if let Some(jemalloc) = &mut malloc.jemalloc {
        let threads = read_threads(&options.proc, process);
        jemalloc.background_thread = (!threads.is_empty())
            .then(|| threads.iter().any(|thread| thread.name == BACKGROUND_THREAD));
        jemalloc.forked = is_forked(&options.proc, process);
        // The clock of jemalloc's own times, with which it decides how long pages stay.
        let now = clock_gettime(ClockId::Monotonic);
        jemalloc.read_at_ns = Some(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64);
    }
    malloc
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
        // Every chunk was searched, so a class without an entry holds nothing.
        let amount = held.get(class.name.as_str()).copied().unwrap_or_default();
        class.malloc_bytes = Some(amount.present);
        class.malloc_chunks = Some(amount.chunks);
    }
}
