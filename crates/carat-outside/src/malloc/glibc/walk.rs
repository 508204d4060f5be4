//! From chunk to chunk: each says how long it is, and whether the one before it is in use.
//!
//! The process goes on meanwhile. A walk therefore does not rely on the address of the top chunk: the last chunk is the one
//! that ends where the memory of the arena ends. Where a header makes no sense, the walk can go on from the chunk before it
//! after that was read anew.

use crate::malloc::glibc::cursor::PageCursor;
use crate::malloc::glibc::spans::ChunkSpan;
use crate::malloc::table::{Chunk, ChunkState};

/// `PREV_INUSE` of a chunk's size.
const BEFORE_IN_USE: u64 = 1;
/// `IS_MMAPPED`.
const MAPPED: u64 = 2;
/// `NON_MAIN_ARENA`.
const OTHER_ARENA: u64 = 4;
/// The flags together.
const FLAGS: u64 = 7;
/// Bytes of the smallest chunk (`MINSIZE`).
pub(super) const SMALLEST: u64 = 32;
/// At the end of a heap that has a later one, glibc puts two chunks of no use, so that nothing is merged across it.
const FENCE: u64 = 48;
/// The first chunk of an arena lies at most this far from where it is expected.
const FIRST_SEARCHED: u64 = 128;

/// The size in a chunk's header.
pub(super) const fn size_of_header(header: u64) -> u64 {
    header & !FLAGS
}

/// Whether a header is that of a chunk with a mapping of its own.
pub(super) const fn is_mapped(header: u64) -> bool {
    header & FLAGS == MAPPED
}

/// Where a walk of one span stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpanEnd {
    /// At the last chunk, which ends with the span: the top chunk.
    Top(Chunk),
    /// At the end of a heap that has a later one; the address of the first header of no use.
    Fence(u64),
    /// At an address where no chunk can be.
    Broken(u64),
}

/// The walk of one span.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpanWalk {
    span: ChunkSpan,
    at: u64,
    /// The chunk before, of which it is not known whether it is in use.
    before: Option<(u64, u64)>,
}

impl SpanWalk {
    pub(super) fn of(cursor: &mut PageCursor<'_>, span: ChunkSpan) -> Self {
        let at = first_chunk(cursor, &span);
        Self { span, at, before: None }
    }

    /// The address of the first chunk.
    pub(super) const fn start(&self) -> u64 {
        self.at
    }

    /// From where on it is not known what the chunks are: the state of the last one stands in the header that follows.
    pub(super) fn unknown_from(&self) -> u64 {
        self.before.map_or(self.at, |(address, _)| address)
    }

    /// Goes on after the memory was read anew: from the chunk before, because it may have been merged or divided.
    pub(super) const fn resume(&mut self, end: u64) {
        self.span.end = end;
        if let Some((address, _)) = self.before.take() {
            self.at = address;
        }
    }

    /// Walks on and hands over every chunk but the last one.
    pub(super) fn run(
        &mut self,
        cursor: &mut PageCursor<'_>,
        each: &mut dyn FnMut(Chunk),
    ) -> SpanEnd {
        loop {
            let at = self.at;
            let place = at.checked_add(8).filter(|place| *place < self.span.end);
            let Some(header) = place.and_then(|place| cursor.word(place)) else {
                return SpanEnd::Broken(at);
            };
            let size = size_of_header(header);
            let is_fence = size <= 16 && self.span.end - at <= FENCE;
            if !is_fence && !is_chunk(at, header, &self.span) {
                return SpanEnd::Broken(at);
            }
            if let Some((address, size)) = self.before.take() {
                let in_use = header & BEFORE_IN_USE != 0;
                let state = if in_use { ChunkState::Live } else { ChunkState::Free };
                each(Chunk::headed(address, size, state));
            }
            if is_fence {
                return SpanEnd::Fence(at);
            }
            if at + size == self.span.end {
                return SpanEnd::Top(Chunk::headed(at, size, ChunkState::Top));
            }
            self.before = Some((at, size));
            self.at = at + size;
        }
    }
}

/// Whether a chunk with this header can be at `at`.
fn is_chunk(at: u64, header: u64, span: &ChunkSpan) -> bool {
    let size = size_of_header(header);
    let fits = at.checked_add(size).is_some_and(|end| end <= span.end);
    let of_arena = !span.of_main || header & OTHER_ARENA == 0;
    let sound = size >= SMALLEST && size.is_multiple_of(16);
    fits && sound && header & MAPPED == 0 && of_arena
}

/// The first chunk: where this glibc's `struct malloc_state` ends, or near it, should that end with other fields.
fn first_chunk(cursor: &mut PageCursor<'_>, span: &ChunkSpan) -> u64 {
    let expected = span.first;
    let behind = (0..FIRST_SEARCHED).step_by(16).filter_map(|by| expected.checked_add(by));
    let before = (16..FIRST_SEARCHED / 2).step_by(16).filter_map(|by| expected.checked_sub(by));
    let mut places = behind.chain(before).filter(|place| *place > span.start || span.of_main);
    places.find(|place| starts_chunks(cursor, span, *place)).unwrap_or(expected)
}

/// Whether a chunk that is the first of its heap can be here: nothing free precedes it, and another chunk follows it.
fn starts_chunks(cursor: &mut PageCursor<'_>, span: &ChunkSpan, at: u64) -> bool {
    let Some(header) = at.checked_add(8).and_then(|place| cursor.word(place)) else { return false };
    if header & BEFORE_IN_USE == 0 || !is_chunk(at, header, span) {
        return false;
    }
    let next = at + size_of_header(header);
    let following = next.checked_add(8).and_then(|place| cursor.word(place));
    next == span.end || following.is_some_and(|header| is_chunk(next, header, span))
}
