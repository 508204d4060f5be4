//! Reading a page from outside. Each section is copied whole or not at all.

use crate::page::layout::{
    ARENAS, FRONT_BYTES, Feature, FeatureState, MAGIC, PAGE_BYTES, POOLS, Page, PageHeader, RANGES,
    VERSION,
};
use crate::page::word::{UNKNOWN, VALUES, Word, text};
use crate::page::words::{AllocatorKind, Arena, Gc, Malloc, Own, Pool, Runtime};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::offset_of;

/// Words before the heap page ranges.
const FRONT: usize = FRONT_BYTES / 8;
/// Words of a table before its rows.
const TABLE_HEAD: usize = 8;
/// Attempts to read every section whole. A section that stays odd belongs to a process that died while writing.
const ATTEMPTS: usize = 8;

/// When figures of a page were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageTime {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub ns: u64,
}

/// The words of one section, each known or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionReading<W> {
    /// When they were last written together; `None` if never.
    pub at: Option<PageTime>,
    known: u64,
    words: Vec<u64>,
    list: PhantomData<W>,
}

impl<W: Word> SectionReading<W> {
    /// From the words of a section, the first of which is its sequence.
    pub(crate) fn of(section: &[u64]) -> Self {
        Self {
            at: time_unless_zero(section[1]),
            known: section[2],
            words: section[3..3 + VALUES].to_vec(),
            list: PhantomData,
        }
    }

    /// One word; `None` if it is unknown.
    pub fn get(&self, word: W) -> Option<u64> {
        (self.known & 1 << word.index() != 0).then(|| self.words[word.index()])
    }

    /// Every known word.
    pub fn iter(&self) -> impl Iterator<Item = (W, u64)> + '_ {
        W::ALL.iter().filter_map(|word| self.get(*word).map(|value| (*word, value)))
    }
}

/// One size pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolReading([u64; 8]);

/// One arena of glibc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArenaReading([u64; 7]);

impl PoolReading {
    /// One word; `None` if it is unknown.
    pub fn get(&self, word: Pool) -> Option<u64> {
        known(self.0[word.index()])
    }
}

impl ArenaReading {
    /// One word; `None` if it is unknown.
    pub fn get(&self, word: Arena) -> Option<u64> {
        known(self.0[word.index()])
    }
}

/// A range of addresses that holds heap pages and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    /// First address.
    pub start: u64,
    pub bytes: u64,
}

/// Where Ruby's heap pages are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeapPages {
    /// When they were listed; `None` if never.
    pub at: Option<PageTime>,
    /// Heap pages in the ranges.
    pub pages: u64,
    /// Ascending, with neighbours joined.
    pub ranges: Vec<AddressRange>,
    /// Ranges for which the page had no room.
    pub missing_ranges: u64,
}

/// Everything that a page contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageReading {
    /// The process id as the process sees it.
    pub pid: u64,
    /// Its start in clock ticks since boot.
    pub start_time: Option<u64>,
    /// The parent's process id.
    pub parent_pid: u64,
    /// Forks since the Ruby that was started.
    pub fork_generation: u64,
    /// When the page was created.
    pub born: PageTime,
    /// The last request of carat.
    pub requested: u32,
    /// The last request that the probe's thread answered.
    pub served: u32,
    /// The last request that Ruby answered.
    pub served_by_ruby: u32,
    /// The allocator that serves `malloc`.
    pub allocator: Option<AllocatorKind>,
    /// The file from which `malloc` comes.
    pub malloc_file: String,
    /// `RUBY_DESCRIPTION`.
    pub ruby: String,
    /// The state of every feature.
    pub features: Vec<(Feature, FeatureState)>,
    /// Collector and slots.
    pub gc: SectionReading<Gc>,
    /// The allocator's own figures.
    pub malloc: SectionReading<Malloc>,
    /// Process, compiler, cost of the probe.
    pub own: SectionReading<Own>,
    /// What the runtime library did.
    pub runtime: SectionReading<Runtime>,
    /// When the pools were read.
    pub pools_at: Option<PageTime>,
    /// Size pools.
    pub pools: Vec<PoolReading>,
    /// When the arenas were read.
    pub arenas_at: Option<PageTime>,
    /// As many arenas of glibc as the page has room for.
    pub arenas: Vec<ArenaReading>,
    pub heap_pages: HeapPages,
}

/// Why a page cannot be read.
#[derive(Debug)]
pub enum PageError {
    /// The file is missing, too short or unreadable.
    Io(io::Error),
    /// Its first word is not, or not yet, that of a page.
    NotReady,
    /// Written by another version of carat.
    Version(u64),
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot read the shared page: {error}"),
            Self::NotReady => write!(f, "the shared page is not ready yet; read it again later"),
            Self::Version(found) => write!(
                f,
                "the shared page has version {found}, but this carat reads version {VERSION}; restart the server"
            ),
        }
    }
}

impl std::error::Error for PageError {}

/// Reads a page through `fetch`, which fills its buffer from an offset in bytes, as `FileExt::read_exact_at` does. So the
/// page may be a mapping, a file or a captured copy.
///
/// A section that is being written is read again; a section that its writer never finished is unknown.
pub fn read(
    mut fetch: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> Result<PageReading, PageError> {
    let mut front = Front::fetch(&mut fetch)?;
    // Version after magic: the magic word is stored last, so before it nothing is valid.
    match (front.words[0], front.words[1]) {
        (MAGIC, VERSION) => {}
        (MAGIC, other) => return Err(PageError::Version(other)),
        _ => return Err(PageError::NotReady),
    }
    for _ in 1..ATTEMPTS {
        if front.is_whole() {
            break;
        }
        front = Front::fetch(&mut fetch)?;
    }
    // Apart from the front: the ranges are long and usually fewer than there is room for.
    let heap_pages = read_ranges(&mut fetch)?;
    Ok(front.reading(heap_pages))
}

/// Offset in words of every part with a sequence before the ranges.
const PARTS: [usize; 6] = [
    offset_of!(Page, gc) / 8,
    offset_of!(Page, malloc) / 8,
    offset_of!(Page, own) / 8,
    offset_of!(Page, runtime) / 8,
    offset_of!(Page, pools) / 8,
    offset_of!(Page, arenas) / 8,
];

/// Everything before the ranges, and which of its parts are whole.
struct Front {
    words: Vec<u64>,
    whole: [bool; PARTS.len()],
}

impl Front {
    /// Reads sequences, words, and sequences again: words between equal even sequences are whole.
    fn fetch(fetch: &mut impl FnMut(u64, &mut [u8]) -> io::Result<()>) -> Result<Self, PageError> {
        // One copy has no order within it, so the sequences come from copies before and after.
        let before = fetch_words(fetch, 0, FRONT)?;
        let words = fetch_words(fetch, 0, FRONT)?;
        let after = fetch_words(fetch, 0, FRONT)?;
        // An odd sequence that does not change belongs to a writer that died.
        let whole = PARTS.map(|part| before[part] & 1 == 0 && before[part] == after[part]);
        Ok(Self { words, whole })
    }

    fn is_whole(&self) -> bool {
        self.whole.iter().all(|whole| *whole)
    }

    /// The part's words from its sequence on; `None` if it is torn.
    fn part(&self, number: usize) -> Option<&[u64]> {
        self.whole[number].then(|| &self.words[PARTS[number]..])
    }

    fn values<W: Word>(&self, number: usize) -> SectionReading<W> {
        // A torn section is unknown as a whole: its words may be of two moments.
        let torn = SectionReading { at: None, known: 0, words: Vec::new(), list: PhantomData };
        self.part(number).map_or(torn, SectionReading::of)
    }

    /// The rows of a table with this much room; never more, because other parts follow it.
    fn rows<const WORDS: usize>(
        &self,
        number: usize,
        room: usize,
    ) -> (Option<PageTime>, Vec<[u64; WORDS]>) {
        let Some(part) = self.part(number) else { return (None, Vec::new()) };
        // Another process wrote the count: more rows than there is room for are other parts.
        let count = (part[2] as usize).min(room);
        let (rows, _) = part[TABLE_HEAD..].as_chunks();
        (time_unless_zero(part[1]), rows[..count].to_vec())
    }

    fn text(&self, offset: usize) -> String {
        text(&self.words[offset / 8..][..16])
    }

    fn header(&self, offset: usize) -> u64 {
        self.words[(offset_of!(Page, header) + offset) / 8]
    }

    fn reading(self, heap_pages: HeapPages) -> PageReading {
        // Two fields of 32 bits share this word, the first in its low half.
        let requests = self.header(offset_of!(PageHeader, requested));
        let features = Feature::ALL.iter().map(|feature| {
            let offset = offset_of!(PageHeader, features) + *feature as usize * 8;
            (*feature, FeatureState::from_word(self.header(offset)))
        });
        let (pools_at, pools) = self.rows(4, POOLS);
        let (arenas_at, arenas) = self.rows(5, ARENAS);
        PageReading {
            pid: self.header(offset_of!(PageHeader, pid)),
            start_time: known(self.header(offset_of!(PageHeader, start_time))),
            parent_pid: self.header(offset_of!(PageHeader, parent_pid)),
            fork_generation: self.header(offset_of!(PageHeader, fork_generation)),
            born: PageTime { ns: self.header(offset_of!(PageHeader, born_ns)) },
            requested: requests as u32,
            served: (requests >> 32) as u32,
            served_by_ruby: self.header(offset_of!(PageHeader, served_by_ruby)) as u32,
            // 0 is "not detected yet", and a later library may know further allocators.
            allocator: (self.header(offset_of!(PageHeader, allocator)) as usize)
                .checked_sub(1)
                .and_then(|index| AllocatorKind::ALL.get(index).copied()),
            malloc_file: self.text(offset_of!(PageHeader, malloc_file)),
            ruby: self.text(offset_of!(PageHeader, ruby)),
            features: features.collect(),
            gc: self.values(0),
            malloc: self.values(1),
            own: self.values(2),
            runtime: self.values(3),
            pools_at,
            pools: pools.into_iter().map(PoolReading).collect(),
            arenas_at,
            arenas: arenas.into_iter().map(ArenaReading).collect(),
            heap_pages,
        }
    }
}

fn read_ranges(
    fetch: &mut impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> Result<HeapPages, PageError> {
    for _ in 0..ATTEMPTS {
        let before = fetch_words(fetch, FRONT_BYTES, TABLE_HEAD)?;
        // The count may be torn; the room bounds what is read before the sequences are compared.
        let count = (before[2] as usize).min(RANGES);
        let rows = fetch_words(fetch, FRONT_BYTES + TABLE_HEAD * 8, count * 2)?;
        let after = fetch_words(fetch, FRONT_BYTES, TABLE_HEAD)?;
        if before[0] & 1 == 0 && before[0] == after[0] {
            let (pairs, _) = rows.as_chunks::<2>();
            // From the head before the rows, which the equal sequence proved to be whole.
            return Ok(HeapPages {
                at: time_unless_zero(before[1]),
                pages: before[4],
                ranges: pairs.iter().map(|&[start, bytes]| AddressRange { start, bytes }).collect(),
                missing_ranges: before[3].saturating_sub(count as u64),
            });
        }
    }
    // Unknown, not an error: the rest of the page is still good.
    Ok(HeapPages::default())
}

pub(crate) fn fetch_words(
    fetch: &mut impl FnMut(u64, &mut [u8]) -> io::Result<()>,
    offset: usize,
    count: usize,
) -> Result<Vec<u64>, PageError> {
    debug_assert!(offset + count * 8 <= PAGE_BYTES);
    let mut bytes = vec![0; count * 8];
    fetch(offset as u64, &mut bytes).map_err(PageError::Io)?;
    let (words, _) = bytes.as_chunks();
    Ok(words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

fn time_unless_zero(ns: u64) -> Option<PageTime> {
    (ns != 0).then_some(PageTime { ns })
}

fn known(word: u64) -> Option<u64> {
    (word != UNKNOWN).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::atomic::Ordering;

    fn ready() -> Box<Page> {
        let page = Page::new_boxed();
        page.header.version.store(VERSION, Ordering::Relaxed);
        page.header.start_time.store(UNKNOWN, Ordering::Relaxed);
        page.header.magic.store(MAGIC, Ordering::Release);
        page
    }

    fn bytes(page: &Page, offset: u64, buffer: &mut [u8]) {
        let first = std::ptr::from_ref(page).cast::<u8>();
        let offset = offset as usize;
        assert!(offset + buffer.len() <= PAGE_BYTES);
        // SAFETY: the range was checked to lie within the page, and this test has no other thread.
        buffer.copy_from_slice(unsafe {
            std::slice::from_raw_parts(first.add(offset), buffer.len())
        });
    }

    fn read_page(page: &Page) -> Result<PageReading, PageError> {
        read(|offset, buffer| {
            bytes(page, offset, buffer);
            Ok(())
        })
    }

    #[test]
    fn written_words_are_read_and_the_others_are_unknown() {
        let page = ready();
        page.header.ruby.set(b"ruby 3.1.2p20");
        page.header.allocator.store(AllocatorKind::Jemalloc as u64 + 1, Ordering::Relaxed);
        page.header.served_by_ruby.store(5, Ordering::Relaxed);
        page.header.set_feature(Feature::Pools, FeatureState::Absent);
        page.gc.update(11, |gc| gc.set(Gc::LiveSlots, 0));
        page.runtime.add(Runtime::Trims, 2);
        page.pools.replace(12, 1, [[Some(40), None, Some(3), None, None, None, None, None]]);
        page.ranges.replace(13, 4, [[Some(0x1000), Some(65_536)]]);
        let found = read_page(&page).unwrap();
        assert_eq!((found.ruby.as_str(), found.start_time), ("ruby 3.1.2p20", None));
        assert_eq!((found.allocator, found.served_by_ruby), (Some(AllocatorKind::Jemalloc), 5));
        assert!(found.features.contains(&(Feature::Pools, FeatureState::Absent)));
        assert_eq!(found.gc.at, Some(PageTime { ns: 11 }));
        assert_eq!(found.gc.iter().collect::<Vec<_>>(), [(Gc::LiveSlots, 0)]);
        assert_eq!(found.runtime.get(Runtime::Trims), Some(2));
        assert_eq!(found.pools.len(), 1);
        assert_eq!(found.pools[0].get(Pool::SlotBytes), Some(40));
        assert_eq!(found.pools[0].get(Pool::EdenSlots), None);
        assert_eq!((found.arenas_at, found.arenas.len()), (None, 0));
        assert_eq!(found.heap_pages.pages, 4);
        assert_eq!(found.heap_pages.ranges, [AddressRange { start: 0x1000, bytes: 65_536 }]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "sixteen thousand rows take Miri minutes")]
    fn rows_beyond_the_room_are_counted() {
        let page = ready();
        let rows = (0..RANGES as u64 + 3).map(|n| [Some(n), Some(1)]);
        page.ranges.replace(1, 9, rows);
        let found = read_page(&page).unwrap().heap_pages;
        assert_eq!((found.ranges.len(), found.missing_ranges), (RANGES, 3));
    }

    #[test]
    fn a_table_that_claims_too_many_rows_gives_no_words_of_its_neighbours() {
        let page = ready();
        let result = read(|offset, buffer| {
            bytes(&page, offset, buffer);
            for table in [offset_of!(Page, pools), offset_of!(Page, arenas)] {
                let count = table + 16..table + 24;
                if offset == 0 {
                    buffer[count].copy_from_slice(&10_000_u64.to_ne_bytes());
                }
            }
            Ok(())
        });
        let reading = result.unwrap();
        assert_eq!((reading.pools.len(), reading.arenas.len()), (POOLS, ARENAS));
    }

    #[test]
    fn a_torn_section_is_read_again_and_an_unfinished_one_is_unknown() {
        let page = ready();
        page.gc.update(1, |gc| gc.set(Gc::Count, 1));
        let fetches = Cell::new(0);
        let torn_once = read(|offset, buffer| {
            fetches.set(fetches.get() + 1);
            if fetches.get() == 2 {
                page.gc.update(2, |gc| gc.set(Gc::Count, 2));
            }
            bytes(&page, offset, buffer);
            Ok(())
        });
        assert_eq!(torn_once.unwrap().gc.get(Gc::Count), Some(2));
        page.gc.update(3, |gc| {
            gc.set(Gc::Count, 3);
            let died_writing = read_page(&page).unwrap();
            assert_eq!((died_writing.gc.at, died_writing.gc.get(Gc::Count)), (None, None));
        });
    }

    #[test]
    fn a_page_that_is_not_ready_or_has_another_version_is_refused() {
        let page = ready();
        page.header.version.store(VERSION + 1, Ordering::Relaxed);
        assert!(matches!(read_page(&page), Err(PageError::Version(found)) if found == VERSION + 1));
        page.header.magic.store(0, Ordering::Relaxed);
        assert!(matches!(read_page(&page), Err(PageError::NotReady)));
        let short = read(|_, _| Err(io::ErrorKind::UnexpectedEof.into()));
        assert!(matches!(short, Err(PageError::Io(_))));
    }
}
