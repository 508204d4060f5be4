//! Chunks of malloc, and the table of all of them.

use crate::bytes::align_down;
use crate::malloc::data::ChunkAmount;
use crate::malloc::present::PresentRuns;
use crate::memory::{Memory, PAGE};
use crate::number_set::NumberSet;
use serde::{Deserialize, Serialize};

/// Bytes from the start of a chunk to what malloc returned.
const HEADER: u64 = 16;
/// Gaps between chunks from which a new group begins.
const GAP: u64 = 1 << 20;
/// A chunk of more bytes is not indexed step by step.
const LARGE: u64 = 1 << 20;
/// Bytes of memory for each entry of the index: some ten chunks.
const STEP: u64 = 1 << 10;
/// Bytes of a stretch of the filter.
const STRETCH: u64 = 64 << 10;
/// Bits of the filter: stretches of 64 GiB, which then repeat.
const STRETCHES: u64 = 1 << 20;
/// Chunks of a table: their numbers leave a bit of 32 for other purposes.
const MOST_CHUNKS: usize = (1 << 31) - 1;
/// Bits of an entry's size that hold the state, and of its address that hold the form; both are multiples of eight.
const FEATURES: u64 = 7;
/// Bytes at the start of a free chunk with a header that hold links (`struct malloc_chunk`, malloc/malloc.c).
const LINKS: u64 = 48;
/// Bytes that malloc may hand out beyond those that were asked for, where the rest would be too small for a chunk.
const SPARE: u64 = 16;
/// Alignment of chunks with a header, and bytes of the smallest one (`MALLOC_ALIGNMENT`, `MINSIZE`, malloc/malloc.c).
const ALIGNMENT: u64 = 16;
const LEAST_CHUNK: u64 = 32;

/// What a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkState {
    /// In use.
    Live,
    /// Free, in a bin.
    Free,
    /// Freed, in a fastbin.
    Fast,
    /// Freed, in the cache of a thread.
    Tcache,
    /// The free chunk at the end of an arena.
    Top,
    /// In use, with a mapping of its own.
    Mapped,
    /// The allocator's own data.
    Own,
}

/// Where the bytes of a chunk's user are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChunkForm {
    /// Behind a header of 16 bytes, up to the second word of the next chunk (glibc).
    Headed,
    /// From its first byte to its last. Its size is that of a class (jemalloc).
    Bare,
    /// The same, and its size is what its user says, or the part of it that is known (`reach::told`).
    Told,
}

/// A chunk of malloc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Address of its first byte, which is that of its header if it has one.
    pub address: u64,
    /// Bytes, the header included.
    pub size: u64,
    /// What it is.
    pub state: ChunkState,
    /// Where the bytes of its user are.
    pub form: ChunkForm,
}

impl Chunk {
    /// A chunk with a header.
    pub const fn headed(address: u64, size: u64, state: ChunkState) -> Self {
        Self { address, size, state, form: ChunkForm::Headed }
    }

    /// A chunk without a header.
    pub const fn bare(address: u64, size: u64, state: ChunkState) -> Self {
        Self { address, size, state, form: ChunkForm::Bare }
    }

    /// So many bytes at an address that somebody uses.
    pub(crate) const fn told(address: u64, size: u64) -> Self {
        Self { address, size, state: ChunkState::Live, form: ChunkForm::Told }
    }

    /// The address that malloc returned.
    pub const fn user(&self) -> u64 {
        match self.form {
            ChunkForm::Headed => self.address.saturating_add(HEADER),
            ChunkForm::Bare | ChunkForm::Told => self.address,
        }
    }

    /// The first address past the bytes that its user may write. With a header, but without a mapping of its own, these
    /// include the first word of the next chunk.
    pub const fn user_end(&self) -> u64 {
        let is_next = matches!(self.form, ChunkForm::Headed) && !self.is_mapped();
        self.end().saturating_add(if is_next { 8 } else { 0 })
    }

    /// Bytes that its user may write.
    pub const fn user_bytes(&self) -> u64 {
        self.user_end().saturating_sub(self.user())
    }

    const fn is_mapped(&self) -> bool {
        matches!(self.state, ChunkState::Mapped)
    }

    /// Whether malloc may have made this chunk for a request of so many bytes.
    pub const fn fits(&self, bytes: u64) -> bool {
        match self.form {
            ChunkForm::Headed => {
                let payload = self.user_bytes();
                if payload < bytes {
                    return false;
                }
                let size = (bytes + 8).next_multiple_of(ALIGNMENT);
                let least = if size < LEAST_CHUNK { LEAST_CHUNK } else { size };
                payload + 8 <= least + SPARE
            }
            ChunkForm::Bare => match class_size(bytes) {
                Some(size) => self.size == size,
                None => false,
            },
            ChunkForm::Told => self.size == bytes,
        }
    }

    /// The same, where it may have a mapping of its own, which ends with a page.
    pub(crate) const fn may_hold(&self, bytes: u64) -> bool {
        match self.form {
            ChunkForm::Headed => self.size > bytes && self.size - bytes <= PAGE + 32,
            ChunkForm::Bare | ChunkForm::Told => self.fits(bytes),
        }
    }

    /// Bytes at its start that malloc writes, and not its user.
    pub(crate) const fn own_bytes(&self) -> u64 {
        match (self.form, self.state) {
            (_, ChunkState::Own) => self.size,
            (ChunkForm::Bare | ChunkForm::Told, _) => 0,
            (ChunkForm::Headed, ChunkState::Live | ChunkState::Mapped) => HEADER,
            (ChunkForm::Headed, _) => LINKS,
        }
    }

    /// The first address past it.
    pub const fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }

    /// Whether the program holds it.
    pub const fn held(&self) -> bool {
        matches!(self.state, ChunkState::Live | ChunkState::Mapped)
    }
}

/// The size that jemalloc makes of so many bytes (`sz_s2u_compute`, jemalloc's sz.h): four classes from one power of two to the
/// next. `None` where that would overflow.
const fn class_size(bytes: u64) -> Option<u64> {
    if bytes <= 8 {
        return Some(8);
    }
    let power = (bytes - 1).ilog2();
    // Up to 128 bytes the classes are a quantum of 16 bytes apart.
    let step = if power <= 6 { 16 } else { 1 << (power - 2) };
    match bytes.checked_add(step - 1) {
        Some(sum) => Some(sum / step * step),
        None => None,
    }
}

/// One chunk in 16 bytes.
#[derive(Debug, Clone, Copy)]
struct PackedChunk {
    address_and_form: u64,
    size_and_state: u64,
}

/// Chunks in any order, 16 bytes each.
#[derive(Debug, Clone, Default)]
pub(super) struct ChunkList(Vec<PackedChunk>);

impl ChunkList {
    pub(super) fn push(&mut self, chunk: Chunk) {
        self.0.push(PackedChunk::of(chunk));
    }

    pub(super) fn append(&mut self, mut others: Self) {
        match self.0.is_empty() {
            true => *self = others,
            false => self.0.append(&mut others.0),
        }
    }
}

impl FromIterator<Chunk> for ChunkList {
    fn from_iter<T: IntoIterator<Item = Chunk>>(chunks: T) -> Self {
        Self(chunks.into_iter().map(PackedChunk::of).collect())
    }
}

impl PackedChunk {
    const fn of(chunk: Chunk) -> Self {
        let state = match chunk.state {
            ChunkState::Live => 0,
            ChunkState::Free => 1,
            ChunkState::Fast => 2,
            ChunkState::Tcache => 3,
            ChunkState::Top => 4,
            ChunkState::Mapped => 5,
            ChunkState::Own => 6,
        };
        let form = match chunk.form {
            ChunkForm::Headed => 0,
            ChunkForm::Bare => 1,
            ChunkForm::Told => 2,
        };
        Self {
            address_and_form: chunk.address & !FEATURES | form,
            size_and_state: chunk.size & !FEATURES | state,
        }
    }

    const fn unpacked(self) -> Chunk {
        let state = match self.size_and_state & FEATURES {
            0 => ChunkState::Live,
            1 => ChunkState::Free,
            2 => ChunkState::Fast,
            3 => ChunkState::Tcache,
            4 => ChunkState::Top,
            5 => ChunkState::Mapped,
            _ => ChunkState::Own,
        };
        let form = match self.address_and_form & FEATURES {
            0 => ChunkForm::Headed,
            1 => ChunkForm::Bare,
            _ => ChunkForm::Told,
        };
        Chunk { address: self.address(), size: self.size_and_state & !FEATURES, state, form }
    }

    const fn address(self) -> u64 {
        self.address_and_form & !FEATURES
    }

    const fn end(self) -> u64 {
        self.address().saturating_add(self.size_and_state & !FEATURES)
    }
}

/// Chunks without a large gap between them, and for each step the first chunk that ends on or behind it.
#[derive(Debug, Clone)]
struct ChunkGroup {
    start: u64,
    end: u64,
    first_of_step: Vec<u32>,
}

/// One bit for each stretch of addresses, set where a chunk covers a part of it. Most words that could be pointers lead to
/// slots or nowhere; this answers for them with one look-up.
#[derive(Debug, Clone, Default)]
struct AddressFilter(Box<[u64]>);

impl AddressFilter {
    fn of(chunks: &[PackedChunk]) -> Self {
        let mut bits = vec![0; (STRETCHES / 64) as usize];
        for chunk in chunks {
            let first = chunk.address() / STRETCH;
            let last = chunk.end().saturating_sub(1) / STRETCH;
            // A chunk of more stretches sets every bit.
            for stretch in first..=last.min(first + STRETCHES) {
                let bit = stretch % STRETCHES;
                bits[(bit / 64) as usize] |= 1_u64 << (bit % 64);
            }
        }
        Self(bits.into_boxed_slice())
    }

    fn may_cover(&self, address: u64) -> bool {
        let bit = address / STRETCH % STRETCHES;
        self.0.get((bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }
}

/// Every chunk of a process by address: 16 bytes each, 16 per page, and a filter of 128 KiB.
#[derive(Debug, Clone, Default)]
pub struct ChunkTable {
    chunks: Vec<PackedChunk>,
    groups: Vec<ChunkGroup>,
    filter: AddressFilter,
    present: PresentRuns,
    is_told: bool,
}

impl ChunkTable {
    /// Bytes of memory for one chunk.
    pub const CHUNK_BYTES: u64 = size_of::<PackedChunk>() as u64;

    /// Bytes of memory for the index of chunks that take so many bytes.
    pub const fn index_bytes(chunk_bytes: u64) -> u64 {
        chunk_bytes / STEP * size_of::<u32>() as u64 + STRETCHES / 8
    }

    /// The chunks of this table that another one has too, in use and of the same size.
    pub(crate) fn held_also_in(&self, other: &Self) -> NumberSet {
        let mut same = NumberSet::new(self.len());
        for (number, chunk) in self.iter().enumerate() {
            let found = other.find(chunk.address).and_then(|number| other.get(number));
            if found.is_some_and(|found| {
                (found.address, found.size) == (chunk.address, chunk.size) && found.held()
            }) {
                same.insert(number);
            }
        }
        same
    }

    /// Chunks in any order; of two that overlap, the one with the higher address is left out. `present` are the pages of the
    /// process that are in memory.
    pub(super) fn of(list: ChunkList, present: PresentRuns) -> Self {
        let ChunkList(mut chunks) = list;
        sort(&mut chunks);
        let mut end = 0;
        chunks.retain(|chunk| {
            let apart = chunk.address() >= end && chunk.end() > chunk.address();
            end = if apart { chunk.end() } else { end };
            apart
        });
        chunks.truncate(MOST_CHUNKS);
        let (groups, filter) = (group(&chunks), AddressFilter::of(&chunks));
        Self { chunks, groups, filter, present, is_told: false }
    }

    /// The chunks that their users tell, in any order. What several tell alike counts once; of those that overlap otherwise, somebody
    /// is wrong, and all are left out.
    pub(crate) fn told(mut chunks: Vec<Chunk>, memory: &dyn Memory) -> Self {
        chunks.sort_unstable_by_key(|chunk| (chunk.address, chunk.size));
        chunks.dedup();
        let mut list = ChunkList::default();
        let mut end = 0;
        for (at, chunk) in chunks.iter().enumerate() {
            let next = chunks.get(at + 1).map_or(u64::MAX, |next| next.address);
            if chunk.address >= end && chunk.end() <= next {
                list.push(*chunk);
            }
            end = end.max(chunk.end());
        }
        Self { is_told: true, ..Self::of(list, PresentRuns::of(memory)) }
    }

    /// Whether only those chunks are here of which their users tell.
    pub(crate) const fn is_told(&self) -> bool {
        self.is_told
    }

    /// Bytes of the chunks that are indexed step by step.
    pub fn indexed_bytes(&self) -> u64 {
        self.iter().map(|chunk| chunk.size).filter(|size| *size <= LARGE).sum()
    }

    /// Number of chunks.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The chunk with this number.
    pub fn get(&self, number: usize) -> Option<Chunk> {
        self.chunks.get(number).map(|chunk| chunk.unpacked())
    }

    /// Every chunk by address.
    pub fn iter(&self) -> impl Iterator<Item = Chunk> + '_ {
        self.chunks.iter().map(|chunk| chunk.unpacked())
    }

    /// The amount of one chunk: its bytes, and those of them that are in memory.
    pub fn amount(&self, chunk: &Chunk) -> ChunkAmount {
        let present = self.present.bytes_within(chunk.address, chunk.end());
        ChunkAmount { chunks: 1, bytes: chunk.size, present }
    }

    /// Number of the chunk that covers an address.
    pub fn find(&self, address: u64) -> Option<usize> {
        if !self.filter.may_cover(address) {
            return None;
        }
        let group = self.groups.partition_point(|group| group.end <= address);
        let group = self.groups.get(group).filter(|group| address >= group.start)?;
        let step = (address - align_down(group.start, STEP)) / STEP;
        let last = group.first_of_step.len().checked_sub(1)?;
        let step = usize::try_from(step).unwrap_or(last).min(last);
        // A walk from the first chunk of the step is short: a step has some ten chunks.
        let mut number = group.first_of_step[step] as usize;
        while self.chunks.get(number).is_some_and(|chunk| chunk.end() <= address) {
            number += 1;
        }
        self.chunks.get(number).filter(|chunk| chunk.address() <= address).map(|_| number)
    }

    /// Number of the chunk for which malloc returned exactly this address.
    pub fn exact(&self, user: u64) -> Option<usize> {
        self.find(user).filter(|number| self.chunks[*number].unpacked().user() == user)
    }

    /// Whether some chunk covers a part of the page at an address.
    pub fn touches_page(&self, page: u64) -> bool {
        self.filter.may_cover(page)
            && (self.find(page).is_some()
                || self.first_after(page).is_some_and(|start| start - page < PAGE))
    }

    /// The chunks that cover a part of a range, with their numbers.
    pub(crate) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (usize, Chunk)> {
        let first = self.chunks.partition_point(|chunk| chunk.end() <= start);
        let numbered = self.chunks.iter().enumerate().skip(first);
        numbered
            .map(|(number, chunk)| (number, chunk.unpacked()))
            .take_while(move |(_, chunk)| chunk.address < end)
    }

    /// Whether some chunk begins between two addresses.
    pub(crate) fn begins_within(&self, start: u64, end: u64) -> bool {
        self.first_after(start).is_some_and(|first| first < end)
    }

    /// The address of the first chunk at or behind an address.
    fn first_after(&self, address: u64) -> Option<u64> {
        let at = self.chunks.partition_point(|chunk| chunk.address() < address);
        self.chunks.get(at).map(|chunk| chunk.address())
    }

    /// Sets the state of the live chunk that starts at an address. False if there is none, or not of this size.
    pub(super) fn mark(&mut self, address: u64, size: u64, state: ChunkState) -> bool {
        let Some(number) = self.find(address) else { return false };
        let chunk = self.chunks[number].unpacked();
        // A cache that was read while the process runs may name a chunk that was handed out again.
        let fits =
            chunk.address == address && chunk.size == size && chunk.state == ChunkState::Live;
        if fits {
            self.chunks[number] = PackedChunk::of(Chunk { state, ..chunk });
        }
        fits
    }
}

/// Sorts by address, in place: a stable sort takes half as much memory again.
fn sort(chunks: &mut [PackedChunk]) {
    let key = |chunk: &PackedChunk| (chunk.address_and_form, chunk.size_and_state);
    // Arenas are walked by address, so mostly only the few chunks with a mapping of their own, which come last, are not in their place.
    let Some(last) = chunks.windows(2).position(|pair| key(&pair[0]) > key(&pair[1])) else {
        return;
    };
    let first = chunks[last + 1..].iter().map(key).min().unwrap_or_default();
    let sorted = chunks[..=last].partition_point(|chunk| key(chunk) < first);
    chunks[sorted..].sort_unstable_by_key(key);
}

fn group(chunks: &[PackedChunk]) -> Vec<ChunkGroup> {
    let mut groups: Vec<ChunkGroup> = Vec::new();
    let mut after_large = false;
    for (number, chunk) in chunks.iter().enumerate() {
        let gap = groups.last().map_or(u64::MAX, |group| chunk.address().saturating_sub(group.end));
        if after_large || gap > GAP {
            groups.push(ChunkGroup {
                start: chunk.address(),
                end: chunk.address(),
                first_of_step: vec![],
            });
        }
        let Some(group) = groups.last_mut() else { break };
        // A large chunk ends its group, and its last entry counts for the steps behind it: the index stays small whatever
        // size a header claims.
        after_large = chunk.end().saturating_sub(chunk.address()) > LARGE;
        let indexed = if after_large { chunk.address() } else { chunk.end().saturating_sub(1) };
        let steps = (indexed - align_down(group.start, STEP)) / STEP + 1;
        // A step's entry is the first chunk that ends behind the start of the step.
        group.first_of_step.resize(steps as usize, number as u32);
        group.end = chunk.end();
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMemory;

    fn chunk(address: u64, size: u64, state: ChunkState) -> Chunk {
        Chunk::headed(address, size, state)
    }

    fn table() -> ChunkTable {
        let chunks = [
            chunk(0x7f00_0000_0000, 0x5000, ChunkState::Mapped),
            chunk(0x1000, 0x20, ChunkState::Live),
            chunk(0x1020, 0x30, ChunkState::Free),
            chunk(0x1050, 0x4000, ChunkState::Live),
            chunk(0x1040, 0x100, ChunkState::Live),
            chunk(0x5050, 0x40_0fb0, ChunkState::Top),
            chunk(0x40_6000, 0x20, ChunkState::Live),
        ];
        let mut memory = FakeMemory::default();
        memory.map_anonymous(0x1000, 0x40_7000);
        memory.write(0x1000, &[1]);
        ChunkTable::of(chunks.into_iter().collect(), PresentRuns::of(&memory))
    }

    #[test]
    fn a_chunk_was_held_before_only_if_it_was_in_use_at_the_same_place_with_the_same_size() {
        let now = [(0x1000, 0x20), (0x1020, 0x30), (0x1050, 0x40), (0x2000, 0x20)];
        let now: ChunkList =
            now.into_iter().map(|(address, size)| chunk(address, size, ChunkState::Live)).collect();
        let before: ChunkList = [
            chunk(0x1000, 0x20, ChunkState::Live),
            chunk(0x1020, 0x30, ChunkState::Free),
            chunk(0x1050, 0x50, ChunkState::Live),
        ]
        .into_iter()
        .collect();
        let present = || PresentRuns::of(&FakeMemory::default());
        let before = ChunkTable::of(before, present());
        let held = ChunkTable::of(now, present()).held_also_in(&before);
        assert_eq!([0, 1, 2, 3].map(|number| held.contains(number)), [true, false, false, false]);
    }

    #[test]
    fn an_address_is_found_in_its_chunk_and_nowhere_else() {
        let table = table();
        assert_eq!(table.len(), 6);
        for (number, chunk) in table.iter().enumerate() {
            for address in [chunk.address, chunk.address + chunk.size / 2, chunk.end() - 1] {
                assert_eq!(table.find(address), Some(number), "{address:#x}");
            }
            assert_eq!(table.exact(chunk.user()), Some(number));
            assert_eq!(table.exact(chunk.user() + 16), None, "{number}");
        }
        for address in [0, 0xfff, 0x40_6020, 0x7eff_ffff_ffff, 0x7f00_0000_5000, u64::MAX] {
            assert_eq!(table.find(address), None, "{address:#x}");
        }
        assert!(table.touches_page(0x1000) && table.touches_page(0x40_6000));
        assert!(!table.touches_page(0) && !table.touches_page(0x40_7000));
    }

    #[test]
    fn chunks_without_a_header_are_found_by_their_first_byte_also_those_of_eight_bytes() {
        let bare = [(0x1000, 8, ChunkState::Live), (0x1008, 8, ChunkState::Own)];
        let bare = bare.map(|(address, size, state)| Chunk::bare(address, size, state));
        let list = bare.into_iter().chain([chunk(0x1010, 0x20, ChunkState::Live)]).collect();
        let table = ChunkTable::of(list, PresentRuns::of(&FakeMemory::default()));
        assert_eq!(table.iter().take(2).collect::<Vec<_>>(), bare);
        assert_eq!(
            [0x1000, 0x1008, 0x1020].map(|user| table.exact(user)),
            [Some(0), Some(1), Some(2)]
        );
        assert_eq!([0x1004, 0x1010].map(|user| table.exact(user)), [None, None]);
        let [eight, own] = bare;
        assert_eq!((eight.user(), eight.user_end(), eight.own_bytes()), (0x1000, 0x1008, 0));
        assert!(eight.held() && !own.held());
        assert_eq!(own.own_bytes(), 8);
        assert!(table.begins_within(0xfff, 0x1001) && !table.begins_within(0x1011, 0x2000));
    }

    #[test]
    fn a_chunk_without_a_header_fits_a_request_of_its_own_class_only() {
        for (bytes, size) in [
            (0, 8),
            (8, 8),
            (9, 16),
            (24, 32),
            (56, 64),
            (113, 128),
            (129, 160),
            (292, 320),
            (4008, 4096),
            (4097, 5120),
            (16_385, 20_480),
        ] {
            assert_eq!(class_size(bytes), Some(size), "{bytes}");
            assert!(Chunk::bare(0x1000, size, ChunkState::Live).fits(bytes));
        }
        assert_eq!(class_size(u64::MAX), None);
        assert!(!Chunk::bare(0x1000, 64, ChunkState::Live).fits(40));
        assert!(chunk(0x1000, 0x40, ChunkState::Live).fits(56));
    }

    #[test]
    fn of_a_chunk_only_what_is_in_memory_takes_memory() {
        let table = table();
        let amounts: Vec<(u64, u64)> = [0, 2]
            .into_iter()
            .filter_map(|number| table.get(number))
            .map(|chunk| table.amount(&chunk))
            .map(|amount| (amount.bytes, amount.present))
            .collect();
        assert_eq!(amounts, [(0x20, 0x20), (0x4000, 0x2000 - 0x1050)]);
    }

    fn filter(address: u64, size: u64) -> AddressFilter {
        AddressFilter::of(&[PackedChunk::of(Chunk::headed(address, size, ChunkState::Live))])
    }

    #[test]
    fn the_filter_passes_every_address_of_a_chunk_and_few_others() {
        let two_stretches = filter(0x7f00_0001_fff0, 0x20);
        for address in [0x7f00_0001_fff0, 0x7f00_0002_000f] {
            assert!(two_stretches.may_cover(address), "{address:#x}");
        }
        for address in [0, 0x7f00_0000_ffff, 0x7f00_0003_0000, u64::MAX] {
            assert!(!two_stretches.may_cover(address), "{address:#x}");
        }
        // A header that claims all of memory takes no longer than the filter is large.
        let everything = filter(0x1000, u64::MAX - 0xffff);
        assert!(everything.may_cover(0) && everything.may_cover(u64::MAX));
        assert!(!AddressFilter::default().may_cover(0x1000));
    }

    #[test]
    fn only_a_live_chunk_of_the_same_size_is_marked() {
        let mut table = table();
        assert!(!table.mark(0x1000, 0x30, ChunkState::Tcache));
        assert!(!table.mark(0x1020, 0x30, ChunkState::Tcache));
        assert!(!table.mark(0x1010, 0x20, ChunkState::Tcache));
        assert!(table.mark(0x1000, 0x20, ChunkState::Tcache));
        assert_eq!(table.get(0).map(|chunk| chunk.state), Some(ChunkState::Tcache));
        assert_eq!(table.get(usize::MAX), None);
        assert!(!table.mark(0x1000, 0x20, ChunkState::Tcache));
    }
}
