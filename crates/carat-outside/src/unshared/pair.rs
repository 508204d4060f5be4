//! Compares a forked process with its parent, page by page.

use crate::bytes::word_in;
use crate::canary;
use crate::elf::RubyAnchors;
use crate::heap::{ClassNames, Heap, HeapUnknown};
use crate::jit::{Jit, is_new_code};
use crate::live::{LiveMemory, Pacing};
use crate::malloc::{ChunkTable, NoMalloc, read_malloc};
use crate::memory::{Memory, PAGE, PAGE_LENGTH, PageEntry, ReadingStopped};
use crate::need::{MemoryGate, MemoryNeed, census_need};
use crate::number_set::NumberSet;
use crate::owners::{ChunkLoad, Owner, Owners, find_owners, read_threads};
use crate::refusal::{Refused, refusal};
use crate::unshared::chunks::{ChunkHolder, ChunkView};
use crate::unshared::ground::{Descriptors, Ground, count_files};
use crate::unshared::moves::Moves;
use crate::unshared::slots::{PagePair, slot_causes};
use crate::unshared::table::{Area, PageCauses, PageState, Tally};
use crate::unshared::{Cause, UnsharedTable};
use std::path::Path;

/// Which processes to compare, and how gently.
#[derive(Debug, Clone, Copy)]
pub struct PairRequest<'a> {
    /// The root of the process file system.
    pub proc: &'a Path,
    /// The process that forked.
    pub parent: u32,
    /// The forked process.
    pub child: u32,
    /// How reading is spread over time.
    pub pacing: Pacing,
    /// Asked before a large part of our own memory is taken.
    pub memory: &'a MemoryGate,
}

/// Why two processes cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// One of them cannot be read.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The child's heap is unknown.
    #[error(transparent)]
    Heap(#[from] HeapUnknown),
    /// The time for it was over.
    #[error("the comparison with the parent {0}")]
    Stopped(ReadingStopped),
}

/// Why the child's memory is private, compared with its parent's.
///
/// Both run on while they are read: a page that is written meanwhile counts as it was when the page maps were read.
///
/// # Errors
/// If one of the two cannot be read or ends meanwhile, the child is no Ruby, its heap is unknown, there is no room for what
/// the comparison takes of our own memory, or the time for it is over.
pub fn compare(request: &PairRequest<'_>) -> Result<UnsharedTable, PairError> {
    // Before either is opened: both readings together must fit.
    ask_for(request, census_need(request.proc, &[request.parent, request.child]))?;
    let mut parent = open(request, request.parent)?;
    let mut child = open(request, request.child)?;
    // After opening, which reads no memory and refuses the pages of a kernel that the test does not know either.
    canary::test(request.proc).map_err(Refused::from)?;
    let files = count_files(request.proc, request.child, child.regions());
    let mut unknown = Vec::new();
    if let Err(error) = &files {
        unknown.push(format!("the pages of files could not be counted: {error}"));
    }
    let (heap, anchors) = heap_of(&child, request.child)?;
    let malloc = Chunks::read(request, (&mut child, &mut parent), &heap, &mut unknown)?;
    let jit = malloc.as_ref().and_then(|malloc| Jit::find(&child, &heap, &malloc.now));
    let found = (&heap, &anchors, malloc.as_ref(), jit.as_ref());
    let owners = owners_of(request, &child, found, &mut unknown);
    let mut tally = Tally::default();
    let holder = |number: usize| holder_of(owners.as_ref(), number);
    let both: (&dyn Memory, &dyn Memory) = (&parent, &child);
    let found = (&heap, malloc.as_ref(), jit.as_ref());
    let frames_known = compare_pages(both, found, &holder, &mut tally);
    // Last: what could not be read so far would count as new or as unread.
    is_whole(&parent, &child, &anchors)?;
    if let Ok((private, shared)) = files {
        tally.files(private, shared);
    }
    let mut table = tally.table(request.parent, request.child, heap.version(), frames_known);
    table.unknown = unknown;
    Ok(table)
}

/// Fails if something could not be read because the time was over, or one of the two had ended: its pages would count as
/// new, or as unread.
fn is_whole(
    parent: &LiveMemory,
    child: &LiveMemory,
    anchors: &RubyAnchors,
) -> Result<(), PairError> {
    if let Some(stopped) = parent.stopped().or(child.stopped()) {
        return Err(PairError::Stopped(stopped));
    }
    let address = anchors.symbol("ruby_version").unwrap_or(0);
    let ended = [parent, child].into_iter().find(|memory| !memory.still_there(address));
    ended.map_or(Ok(()), |memory| Err(Refused::Ended(memory.process()).into()))
}

fn ask_for(request: &PairRequest<'_>, need: MemoryNeed) -> Result<(), Refused> {
    request.memory.ask(need).map_err(Refused::NoMemory)
}

/// Who holds the child's chunks, and the names of classes; `None` where the chunks or the names are unknown.
fn owners_of(
    request: &PairRequest<'_>,
    child: &LiveMemory,
    (heap, anchors, malloc, jit): (&Heap, &RubyAnchors, Option<&Chunks>, Option<&Jit>),
    unknown: &mut Vec<String>,
) -> Option<(Owners, ClassNames)> {
    let malloc = malloc?;
    match ClassNames::learn(child, heap, anchors) {
        Ok(mut names) => {
            let threads = read_threads(request.proc, request.child);
            Some((find_owners(child, heap, &mut names, &malloc.now, &threads, jit), names))
        }
        Err(reason) => {
            unknown.push(format!("who holds malloc's chunks: {reason}"));
            None
        }
    }
}

fn open(request: &PairRequest<'_>, process: u32) -> Result<LiveMemory, Refused> {
    let opened = LiveMemory::open(request.proc, process, request.pacing);
    opened.map_err(|error| refusal(request.proc, process, error))
}

fn heap_of(memory: &dyn Memory, process: u32) -> Result<(Heap, RubyAnchors), PairError> {
    let anchors = RubyAnchors::find(memory).ok_or(Refused::NotRuby(process))?;
    Ok((Heap::find(memory, anchors.version)?, anchors))
}

/// Malloc's chunks in the child, and which of them the parent has too.
struct Chunks {
    now: ChunkTable,
    /// Numbers of the chunks that the parent holds at the same place; `None` where its chunks are unknown.
    before: Option<NumberSet>,
}

impl Chunks {
    /// `None` where the child's are unknown.
    fn read(
        request: &PairRequest<'_>,
        (child, parent): (&mut dyn Memory, &mut dyn Memory),
        heap: &Heap,
        unknown: &mut Vec<String>,
    ) -> Result<Option<Self>, PairError> {
        let is_heap_page = |address: u64| heap.page_at(address).is_some();
        let mut without = |reason: NoMalloc| {
            unknown.push(format!(
                "malloc's chunks, so their pages are among the other memory: {reason}"
            ));
            Ok(None)
        };
        let counted = match read_malloc(child, &is_heap_page, false) {
            Ok(reading) => reading.census,
            Err(reason) => return without(reason),
        };
        // A heap page of the parent alone may pass for a chunk there, which no chunk of the child asks for.
        let of_parent = read_malloc(parent, &is_heap_page, false);
        let of_parent = of_parent.map(|reading| ChunkLoad::of(&reading.census, 0));
        let need = ChunkLoad::of(&counted, 0).need(request.child);
        let parents = of_parent.as_ref().map_or(0, |load| load.table());
        ask_for(request, MemoryNeed { bytes: need.bytes.saturating_add(parents), ..need })?;
        let now = match read_malloc(child, &is_heap_page, true) {
            Ok(reading) => reading.chunks,
            Err(reason) => return without(reason),
        };
        // After the child's: what is asked is which of its chunks the parent has, too.
        let before = of_parent.and_then(|_| read_malloc(parent, &is_heap_page, true));
        let before = match before {
            Ok(reading) => Some(now.held_also_in(&reading.chunks)),
            Err(reason) => {
                unknown.push(format!("the parent's chunks: {reason}"));
                None
            }
        };
        Ok(Some(Self { now, before }))
    }
}

fn holder_of(owners: Option<&(Owners, ClassNames)>, number: usize) -> ChunkHolder {
    let Some((owners, names)) = owners else { return ChunkHolder::Contents };
    match owners.of(number) {
        Owner::GcTables => ChunkHolder::Collector,
        Owner::Library(_) => ChunkHolder::VmTables,
        Owner::Thread(_) => ChunkHolder::Thread,
        Owner::Jit => ChunkHolder::Jit,
        Owner::Class(class) => match names.name(class) {
            "(internal) imemo iseq"
            | "(internal) imemo callcache"
            | "(internal) imemo constcache"
            | "(internal) imemo callinfo" => ChunkHolder::Bytecode,
            "Class" | "Module" | "(internal) iclass" | "(internal) imemo ment" => {
                ChunkHolder::MethodTables
            }
            _ => ChunkHolder::Contents,
        },
        _ => ChunkHolder::Contents,
    }
}

/// Counts every page of the child's private mappings. Returns whether the kernel shows page frames.
fn compare_pages(
    (parent, child): (&dyn Memory, &dyn Memory),
    (heap, malloc, jit): (&Heap, Option<&Chunks>, Option<&Jit>),
    holder: &dyn Fn(usize) -> ChunkHolder,
    tally: &mut Tally,
) -> bool {
    let ground = Ground::new(child, heap, jit);
    let descriptors = Descriptors::of(heap);
    let moves = Moves::find((parent, child), heap);
    let chunks = malloc.map(|malloc| ChunkView {
        child,
        heap,
        now: &malloc.now,
        before: malloc.before.as_ref(),
        descriptors: &descriptors,
        moves: &moves,
        jit,
        holder,
    });
    let (descriptors, moves) = (&descriptors, &moves);
    let comparison = Comparison { parent, child, heap, chunks, descriptors, moves };
    let mut frames_known = false;
    for region in child.regions().iter().filter(|region| region.searched()) {
        for (first, count) in region.pages.runs(u64::MAX) {
            for page in (first..first + count).map(|page| region.start + page * PAGE) {
                let entry = region.entry(page);
                // One frame is enough: the kernel shows all of them or none (CAP_SYS_ADMIN).
                frames_known |= entry.frame().is_some();
                let known = ground.area(region, page);
                // A page of slots, or of the transient heap, may come out of malloc, and is then not one of malloc.
                let is_ruby = matches!(known, Area::Slots | Area::TransientHeap);
                let area =
                    if !is_ruby && comparison.holds_chunks(page) { Area::Malloc } else { known };
                let before = parent.entry(page);
                let state = state_of(entry, before);
                tally.page(area, state);
                match state {
                    PageState::Shared | PageState::Parted => {}
                    PageState::New => tally.divide(&comparison.causes_of_new(area, page)),
                    PageState::Unshared => tally.divide(&comparison.causes(area, page)),
                }
            }
        }
    }
    frames_known
}

/// How a page of the child stands to the parent's page at the same address.
fn state_of(child: PageEntry, parent: PageEntry) -> PageState {
    if child.exclusive() {
        // What the parent has in swap cannot be compared, and was there before.
        let had = parent.present() || parent.swapped();
        return if had { PageState::Unshared } else { PageState::New };
    }
    match (child.frame(), parent.frame()) {
        (Some(own), Some(other)) if own == other => PageState::Shared,
        (Some(_), _) => PageState::Parted,
        (None, _) => PageState::Shared,
    }
}

struct Comparison<'a> {
    parent: &'a dyn Memory,
    child: &'a dyn Memory,
    heap: &'a Heap,
    chunks: Option<ChunkView<'a>>,
    descriptors: &'a Descriptors,
    moves: &'a Moves,
}

impl Comparison<'_> {
    fn holds_chunks(&self, page: u64) -> bool {
        self.chunks.as_ref().is_some_and(|chunks| chunks.covers(page))
    }

    /// The causes of a page that only the child has.
    fn causes_of_new(&self, area: Area, page: u64) -> PageCauses {
        match (area, &self.chunks) {
            (Area::Jit, _) => PageCauses::from([(Cause::JitCode, 0)]),
            (Area::Malloc, Some(chunks)) => chunks.causes_of_new(page),
            _ => PageCauses::from([(Cause::NewSinceFork, 0)]),
        }
    }

    /// The causes on a page that both have; none if one of them cannot be read any more.
    fn causes(&self, area: Area, page: u64) -> PageCauses {
        let (mut was, mut is) = ([0; PAGE_LENGTH], [0; PAGE_LENGTH]);
        if !self.parent.read(page, &mut was) || !self.child.read(page, &mut is) {
            return PageCauses::new();
        }
        // A write of the same bytes copies the page all the same.
        if was == is {
            // A collection clears the bits of all objects and sets those of the same objects again.
            let bitmaps = self.descriptors.touch(page);
            let cause = match area {
                _ if bitmaps => Cause::GcBitmaps,
                Area::Jit => Cause::JitPatches,
                _ => Cause::SameBytes,
            };
            return PageCauses::from([(cause, 0)]);
        }
        let pair = PagePair { at: page, parent: &was, child: &is };
        let cause = match (area, &self.chunks, self.heap.page_at(page)) {
            (Area::Slots, _, Some(heap_page)) => {
                let both = (self.parent, self.child);
                let moves = (heap_page, self.moves);
                return slot_causes(both, self.heap.version(), moves, pair);
            }
            (Area::Malloc, Some(chunks), _) => return chunks.causes(pair),
            (Area::Jit, ..) => return causes_of_code(pair),
            (Area::TransientHeap, ..) => Cause::TransientHeap,
            (Area::LibraryData, ..) => Cause::LibraryData,
            (Area::Stacks, ..) => Cause::Stacks,
            _ => Cause::OtherMemory,
        };
        self.by_descriptors(cause, pair)
    }

    /// Bitmaps are known also where malloc's chunks are not; what else differs has that cause.
    fn by_descriptors(&self, cause: Cause, pair: PagePair<'_>) -> PageCauses {
        let mut causes = PageCauses::new();
        for at in pair.changed(0, PAGE_LENGTH) {
            let bitmap = self.descriptors.contain(pair.at + at as u64);
            *causes.entry(if bitmap { Cause::GcBitmaps } else { cause }).or_default() += 1;
        }
        causes
    }
}

/// The causes on an inherited page of machine code.
fn causes_of_code(pair: PagePair<'_>) -> PageCauses {
    let mut causes = PageCauses::new();
    for at in pair.changed(0, PAGE_LENGTH) {
        let words = word_in(pair.parent, at).zip(word_in(pair.child, at));
        let is_new = words.is_some_and(|(was, is)| is_new_code(was, is));
        *causes.entry(if is_new { Cause::JitCode } else { Cause::JitPatches }).or_default() += 1;
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESENT: u64 = 1 << 63;
    const EXCLUSIVE: u64 = 1 << 56;

    #[test]
    fn a_page_is_shared_parted_new_or_unshared() {
        let swapped = 1 << 62;
        for (child, parent, expected) in [
            (PRESENT | 7, PRESENT | 7, PageState::Shared),
            (PRESENT | 7, PRESENT | 8, PageState::Parted),
            (PRESENT | 7, 0, PageState::Parted),
            (PRESENT, PRESENT, PageState::Shared),
            (PRESENT | EXCLUSIVE | 7, 0, PageState::New),
            (PRESENT | EXCLUSIVE | 7, PRESENT | EXCLUSIVE | 8, PageState::Unshared),
            (PRESENT | EXCLUSIVE, PRESENT, PageState::Unshared),
            (PRESENT | EXCLUSIVE, swapped, PageState::Unshared),
        ] {
            assert_eq!(state_of(PageEntry(child), PageEntry(parent)), expected, "{child:x}");
        }
    }
}
