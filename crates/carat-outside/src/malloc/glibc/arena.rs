//! One arena, read until its walk ends where its memory ends.

use crate::malloc::glibc::caches::{ListReader, may_be_cache};
use crate::malloc::glibc::cursor::PageCursor;
use crate::malloc::glibc::ring::ArenaRing;
use crate::malloc::glibc::spans::{ArenaSpans, ChunkSpan, end_now, heap_spans, main_spans};
use crate::malloc::glibc::tally::ArenaTally;
use crate::malloc::glibc::walk::{SpanEnd, SpanWalk};
use crate::malloc::table::{Chunk, ChunkList, ChunkState};
use crate::memory::{Memory, PAGE};
use std::collections::HashSet;

/// Readings of an arena whose walk does not end at the top chunk.
const READINGS: u64 = 6;
/// How often one reading goes on after a header that made no sense.
const RESUMES: u32 = 64;
/// How often it goes on at the same address.
const SAME_PLACE: u32 = 3;
/// Bytes before and behind such a header that are read anew.
const AROUND: u64 = 1 << 20;
/// Chunks of the size of a thread's cache that are remembered.
const CANDIDATES: usize = 1 << 20;

/// What to read.
#[derive(Clone, Copy)]
pub(super) struct ArenaJob<'a> {
    pub(super) ring: &'a ArenaRing,
    /// Place in the list of arenas; the first is the main arena.
    pub(super) number: usize,
    /// Whether every chunk is to be kept.
    pub(super) keep: bool,
}

impl ArenaJob<'_> {
    fn address(&self) -> u64 {
        self.ring.arenas.get(self.number).copied().unwrap_or(0)
    }
}

/// One arena as it was read.
pub(super) struct WalkedArena {
    pub(super) tally: ArenaTally,
    pub(super) spans: ArenaSpans,
    /// Every chunk, if they are kept.
    pub(super) chunks: ChunkList,
    /// Chunks in use that may hold the cache of a thread.
    pub(super) caches: Vec<Chunk>,
    /// How often it was read again.
    pub(super) again: u64,
    /// An address where the walk broke.
    broken: Option<u64>,
}

/// Reads an arena, and again as long as bytes are missing; the best reading counts.
pub(super) fn read_arena(
    memory: &mut dyn Memory,
    job: ArenaJob<'_>,
    taken: &HashSet<u64>,
) -> WalkedArena {
    let mut best = read_once(memory, job, taken);
    let mut again = 0;
    // A process that allocates all the time never holds still, so the best reading counts.
    while best.tally.missing_so_far() > 0 && again + 1 < READINGS {
        again += 1;
        job.ring.refresh(memory, job.address());
        // The rest of the arena need not be read anew: it made sense.
        if let Some(at) = best.broken {
            memory.refresh(at.saturating_sub(AROUND), at.saturating_add(PAGE));
        }
        let next = read_once(memory, job, taken);
        if next.tally.missing_so_far() < best.tally.missing_so_far() {
            best = next;
        }
    }
    best.again = again;
    best
}

fn read_once(memory: &mut dyn Memory, job: ArenaJob<'_>, taken: &HashSet<u64>) -> WalkedArena {
    let arena = job.address();
    let top = job.ring.state(memory, arena).map_or(0, |state| state.top);
    let spans = match job.number {
        0 => main_spans(memory, top),
        _ => heap_spans(memory, job.ring, arena, top, taken),
    };
    let places = spans.spans.iter().map(|span| (span.start, span.end)).collect();
    // Before the walk, in which these chunks look as if they were in use.
    let fast = ListReader::new(memory, places).fastbins(job.ring, arena);
    let mut reading = WalkedArena {
        tally: ArenaTally::new(memory, &spans.spans, fast),
        spans,
        chunks: ChunkList::default(),
        caches: Vec::new(),
        again: 0,
        broken: None,
    };
    let mut walked = 0_u64;
    for span in reading.spans.spans.clone() {
        walked = walked.saturating_add(reading.walk(memory, span, job.keep));
    }
    reading.find_missing(memory, job, walked);
    reading
}

impl WalkedArena {
    /// Walks one span and returns its size.
    fn walk(&mut self, memory: &mut dyn Memory, span: ChunkSpan, keep: bool) -> u64 {
        let mut span = span;
        let mut walk = SpanWalk::of(&mut PageCursor::new(memory), span);
        let (mut resumes, mut same, mut last) = (0, 0, 0);
        self.tally.headers(walk.start().saturating_sub(span.start));
        let end = loop {
            let end =
                walk.run(&mut PageCursor::new(memory), &mut |chunk| self.take_chunk(chunk, keep));
            let at = match end {
                SpanEnd::Broken(at) => at,
                // A heap that ends without a top chunk was given back or continued meanwhile.
                SpanEnd::Top(chunk) if !span.has_top => chunk.address,
                SpanEnd::Fence(at) if span.has_top && !span.of_main => at,
                end => break end,
            };
            resumes += 1;
            same = if at == last { same + 1 } else { 0 };
            last = at;
            // What breaks at one place again and again is no list of chunks.
            if resumes > RESUMES || same >= SAME_PLACE {
                break SpanEnd::Broken(at);
            }
            // What follows must be as new, else the walk breaks again a page further on.
            let until = at.saturating_add(AROUND).min(span.end).max(at.saturating_add(PAGE));
            memory.refresh(at.saturating_sub(AROUND), until);
            // The page behind the end: mappings are read anew where none is known.
            memory.refresh(span.end, span.end.saturating_add(PAGE));
            memory.refresh(span.start, span.start.saturating_add(PAGE));
            span.end = end_now(memory, &span);
            walk.resume(span.end);
        };
        match end {
            SpanEnd::Top(chunk) => {
                self.tally.top(chunk, span.of_main && ends_break(memory, chunk.end()));
                self.keep(chunk, keep);
            }
            SpanEnd::Fence(at) => self.tally.headers(span.end.saturating_sub(at)),
            SpanEnd::Broken(at) => {
                self.broken = Some(at);
                self.tally.missing(span.end.saturating_sub(walk.unknown_from().max(span.start)));
            }
        }
        self.tally.end_span();
        span.end.saturating_sub(span.start)
    }

    fn take_chunk(&mut self, chunk: Chunk, keep: bool) {
        let chunk = self.tally.chunk(chunk);
        let is_candidate = chunk.state == ChunkState::Live && may_be_cache(chunk.size);
        if is_candidate && self.caches.len() < CANDIDATES {
            self.caches.push(chunk);
        }
        self.keep(chunk, keep);
    }

    fn keep(&mut self, chunk: Chunk, keep: bool) {
        if keep {
            self.chunks.push(chunk);
        }
    }

    /// Compares what was walked with the arena's own count, which also has mappings that continue the main arena.
    fn find_missing(&mut self, memory: &mut dyn Memory, job: ArenaJob<'_>, walked: u64) {
        let arena = job.address();
        let system = job.ring.state(memory, arena).map_or(0, |state| state.system);
        // The arena's own count is what glibc has from the kernel, so nothing is missing.
        if system <= walked {
            return;
        }
        // Either the arena grew since, or there is memory of it that was not found.
        job.ring.refresh(memory, arena);
        let system = job.ring.state(memory, arena).map_or(0, |state| state.system);
        let mut now = 0_u64;
        for span in self.spans.spans.clone() {
            memory.refresh(span.end, span.end.saturating_add(PAGE));
            memory.refresh(span.start, span.start.saturating_add(PAGE));
            now = now.saturating_add(end_now(memory, &span).saturating_sub(span.start));
        }
        // No process has more memory than addresses; a larger count is none.
        if system < 1 << 47 {
            self.tally.missing(system.saturating_sub(now));
        }
    }
}

/// Whether the program break is at an address.
fn ends_break(memory: &dyn Memory, address: u64) -> bool {
    memory.regions().iter().any(|region| region.path == "[heap]" && region.end == address)
}
