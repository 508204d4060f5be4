//! What the extents of a jemalloc add up to, and the chunks in them.

use super::caches::ThreadCaches;
use super::data::{JemallocArena, JemallocCensus, LargeClass, SlabClass};
use super::layout::{Extent, TreeLayout};
use super::walk::Extents;
use crate::malloc::allocator::MallocRequest;
use crate::malloc::data::{ArenaCensus, ChunkSize};
use crate::malloc::residency::ResidentPages;
use crate::malloc::table::{Chunk, ChunkList, ChunkState};
use crate::memory::{Memory, PAGE, joined};
use std::collections::{BTreeMap, BTreeSet};

/// Classes that have slabs in no layout: a region of a larger class may begin anywhere in its first page.
const ALWAYS_LARGE: u64 = 52;

/// Bytes of the smallest page of Ruby's heap (`HEAP_PAGE_SIZE`, gc.c).
const SMALLEST_HEAP_PAGE: u64 = 16 << 10;

/// Adds up the extents of one jemalloc.
pub(super) struct JemallocTally<'a> {
    layout: TreeLayout,
    extents: &'a Extents,
    caches: &'a ThreadCaches,
    /// Bytes of an extent that no region uses, so that regions may begin at different offsets (`cache_oblivious`).
    spare: u64,
    /// The next entry of the caches, as both are in the order of addresses.
    next_cached: usize,
    arenas: BTreeMap<u64, ArenaSum>,
    /// Its parts of [`JemallocCensus`] that are not kept by arena.
    slabs: BTreeMap<u64, SlabClass>,
    large: BTreeMap<u64, LargeClass>,
    matched: u64,
    heap_page_bytes: u64,
    chunks: Option<ChunkList>,
    is_heap_page: &'a dyn Fn(u64) -> bool,
}

/// One arena.
struct ArenaSum {
    census: ArenaCensus,
    own: JemallocArena,
    pages: ResidentPages,
    free_by_size: BTreeMap<u64, ChunkSize>,
}

impl<'a> JemallocTally<'a> {
    /// `copy` is the number of this jemalloc.
    pub(super) fn new(
        memory: &dyn Memory,
        (layout, copy): (TreeLayout, usize),
        (extents, caches): (&'a Extents, &'a ThreadCaches),
        request: &MallocRequest<'a>,
    ) -> Self {
        let mut spans: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        // Retained extents are address space whose pages were returned; what is present of them all the same is added
        // apart.
        for extent in extents.all.iter().filter(|extent| extent.state != Extent::RETAINED) {
            let span = (extent.first_page(&layout), extent.end(&layout));
            spans.entry(extent.arena).or_default().push(span);
        }
        let arenas = spans.into_iter().map(|(number, spans)| {
            let pages = ResidentPages::of(memory, &spans);
            let resident_bytes = pages.bytes();
            let census = ArenaCensus { resident_bytes, ..ArenaCensus::default() };
            let own = JemallocArena { copy, number, ..JemallocArena::default() };
            (number, ArenaSum { census, own, pages, free_by_size: BTreeMap::new() })
        });
        Self {
            layout,
            extents,
            caches,
            spare: if is_oblivious(&layout, extents) { layout.page() } else { 0 },
            next_cached: 0,
            arenas: arenas.collect(),
            slabs: BTreeMap::new(),
            large: BTreeMap::new(),
            matched: 0,
            heap_page_bytes: 0,
            chunks: request.keep.then(ChunkList::default),
            is_heap_page: request.is_heap_page,
        }
    }

    /// Adds up everything: the arenas, the chunks, and the rest into `census`.
    pub(super) fn finish(
        mut self,
        memory: &dyn Memory,
        census: &mut JemallocCensus,
    ) -> (Vec<ArenaCensus>, ChunkList) {
        for number in 0..self.extents.all.len() {
            self.extent(memory, number);
        }
        for extent in &self.extents.unread {
            self.missing(extent);
        }
        merge(&mut census.slabs, self.slabs.into_values());
        merge(&mut census.large, self.large.into_values());
        census.heap_page_bytes += self.heap_page_bytes;
        census.torn_slabs += self.extents.torn;
        // The rest of the entries were handed out or flushed while the caches were read.
        census.stale_cached += self.caches.regions.len() as u64 - self.matched;
        let mut arenas = Vec::new();
        for mut arena in self.arenas.into_values() {
            let own = arena.own;
            census.allocated_bytes = census.allocated_bytes.saturating_add(own.allocated_bytes);
            census.active_bytes = census.active_bytes.saturating_add(own.active_bytes);
            census.dirty = census.dirty.plus(own.dirty);
            census.muzzy = census.muzzy.plus(own.muzzy);
            census.retained = census.retained.plus(own.retained);
            census.arenas.push(own);
            arena.census.free_by_size = arena.free_by_size.into_values().collect();
            arena.census.occupancy = arena.pages.occupancy();
            arena.census.map = arena.pages.map();
            arenas.push(with_sum(arena.census));
        }
        (arenas, self.chunks.unwrap_or_default())
    }

    fn keep(&mut self, chunk: Chunk) {
        if let Some(chunks) = &mut self.chunks {
            chunks.push(chunk);
        }
    }

    fn extent(&mut self, memory: &dyn Memory, number: usize) {
        let extent = self.extents.all[number];
        if extent.state == Extent::ACTIVE {
            return self.active(number, &extent);
        }
        let (start, end) = (extent.first_page(&self.layout), extent.end(&self.layout));
        if extent.state == Extent::RETAINED {
            let present = present_bytes(memory, start, end);
            // Without a page there is nothing that a search would find.
            if present > 0 {
                self.keep(Chunk::bare(start, extent.size, ChunkState::Free));
            }
            if let Some(arena) = self.arenas.get_mut(&extent.arena) {
                arena.own.retained.add(extent.size, present);
            }
            return;
        }
        self.keep(Chunk::bare(start, extent.size, ChunkState::Free));
        let Some(arena) = self.arenas.get_mut(&extent.arena) else { return };
        let present = arena.pages.present(start, end);
        arena.census.heaps += 1;
        arena.census.idle.add(extent.size, present);
        // Whole pages without a region: a purge returns all of them.
        arena.census.trimmable_free_bytes += present;
        match extent.state {
            Extent::MUZZY => arena.own.muzzy.add(extent.size, present),
            _ => arena.own.dirty.add(extent.size, present),
        }
    }

    fn active(&mut self, number: usize, extent: &Extent) {
        let Some(arena) = self.arenas.get_mut(&extent.arena) else { return };
        arena.census.heaps += 1;
        arena.own.active_bytes = arena.own.active_bytes.saturating_add(extent.size);
        match (extent.class_bytes(), extent.is_slab) {
            (Some(size), true) => self.slab(number, extent, size),
            (Some(size), false) => self.large(extent, size),
            (None, _) => self.missing(extent),
        }
    }

    fn missing(&mut self, extent: &Extent) {
        if let Some(arena) = self.arenas.get_mut(&extent.arena) {
            let missing = &mut arena.census.missing_bytes;
            *missing = missing.saturating_add(extent.size);
        }
    }

    fn slab(&mut self, number: usize, extent: &Extent, size: u64) {
        let start = extent.first_page(&self.layout);
        let regions = extent.regions(&self.layout).unwrap_or(0);
        let present = self
            .arenas
            .get(&extent.arena)
            .map_or(0, |arena| arena.pages.present(start, extent.end(&self.layout)));
        let class =
            self.slabs.entry(extent.class).or_insert(SlabClass { size, ..SlabClass::default() });
        class.slabs += 1;
        class.bytes = class.bytes.saturating_add(extent.size);
        class.present = class.present.saturating_add(present);
        // Where every page is present, no region has to be looked up page by page.
        let is_whole = present == extent.size;
        let mut free_from = None;
        for region in 0..regions {
            let address = start + region * size;
            if self.extents.is_free(number, region) {
                // Free regions in a row are one chunk: a search finds as much, and the table stays small.
                free_from.get_or_insert(address);
                self.count(extent, (address, size), ChunkState::Free, is_whole);
                continue;
            }
            if let Some(from) = free_from.take() {
                self.keep(Chunk::bare(from, address - from, ChunkState::Free));
            }
            let state = self.state_of(address, size, extent.class);
            self.keep(Chunk::bare(address, size, state));
            self.count(extent, (address, size), state, is_whole);
        }
        let end = start + regions * size;
        if let Some(from) = free_from {
            self.keep(Chunk::bare(from, end - from, ChunkState::Free));
        }
        self.rest(extent, (end, extent.end(&self.layout)));
    }

    /// Pages of an active extent that no region has.
    fn rest(&mut self, extent: &Extent, (from, end): (u64, u64)) {
        if from < end {
            self.keep(Chunk::bare(from, end - from, ChunkState::Free));
        }
        let Some(arena) = self.arenas.get_mut(&extent.arena) else { return };
        let present = arena.pages.present(from, end.max(from));
        arena.census.header_bytes = arena.census.header_bytes.saturating_add(present);
    }

    /// A region with an extent of its own. Since 5.3.1 it has the bytes that were asked for, in whole pages, and not those of its
    /// class. A region of a class with slabs is one that the profiler sampled: jemalloc counts it as one of the smallest class
    /// without them.
    fn large(&mut self, extent: &Extent, class_bytes: u64) {
        let end = extent.end(&self.layout);
        let room = extent.size.saturating_sub(self.spare).min(end.saturating_sub(extent.address));
        let size = class_bytes.min(room);
        let (first_large, least) = self.layout.first_large();
        let (class, class_bytes, counted) = match extent.class < first_large {
            true => (first_large, least, least.min(room)),
            false => (extent.class, class_bytes, size),
        };
        let class = self
            .large
            .entry(class)
            .or_insert(LargeClass { size: class_bytes, ..LargeClass::default() });
        class.regions += 1;
        class.bytes = class.bytes.saturating_add(counted);
        let state = self.state_of(extent.address, size, extent.class);
        self.keep(Chunk::bare(extent.address, size, state));
        self.count(extent, (extent.address, size), state, false);
        if let Some(arena) = self.arenas.get_mut(&extent.arena) {
            let own = &mut arena.own.allocated_bytes;
            // `count` added the bytes of the region, and jemalloc counts those of its class.
            *own = own.saturating_add(counted - size);
            let before = arena.pages.present(extent.first_page(&self.layout), extent.address);
            arena.census.header_bytes = arena.census.header_bytes.saturating_add(before);
        }
        self.rest(extent, (extent.address.saturating_add(size), end));
    }

    /// What a region is that its slab has in use.
    fn state_of(&mut self, address: u64, size: u64, class: u64) -> ChunkState {
        let cached = &self.caches.regions;
        // Regions and entries come in the order of addresses, so the place only moves forwards.
        while cached.get(self.next_cached).is_some_and(|entry| entry.0 < address) {
            self.next_cached += 1;
        }
        // What is no region of that class was taken out of the cache since, or is no cache.
        let here = cached[self.next_cached..].iter().take_while(|entry| entry.0 == address);
        let is_cached = here.into_iter().any(|entry| entry.1 == class);
        self.matched += u64::from(is_cached);
        let mut stacks = self.caches.stacks.range(address..address.saturating_add(size));
        match is_cached {
            true => ChunkState::Tcache,
            false if stacks.next().is_some() => ChunkState::Own,
            false => ChunkState::Live,
        }
    }

    fn count(
        &mut self,
        extent: &Extent,
        (address, size): (u64, u64),
        state: ChunkState,
        is_whole: bool,
    ) {
        let Some(arena) = self.arenas.get_mut(&extent.arena) else { return };
        let end = address.saturating_add(size);
        let present = if is_whole { size } else { arena.pages.present(address, end) };
        if state != ChunkState::Free {
            arena.own.allocated_bytes = arena.own.allocated_bytes.saturating_add(size);
        }
        if extent.is_slab
            && let Some(class) = self.slabs.get_mut(&extent.class)
        {
            class.free += u64::from(state == ChunkState::Free);
            class.cached += u64::from(state == ChunkState::Tcache);
            class.in_use += u64::from(state == ChunkState::Live);
        }
        match state {
            ChunkState::Free => {
                arena.census.free.add(size, present);
                let sum = arena
                    .free_by_size
                    .entry(size)
                    .or_insert(ChunkSize { size, ..ChunkSize::default() });
                sum.amount.add(size, present);
            }
            ChunkState::Tcache => {
                arena.census.thread_cached.add(size, present);
            }
            ChunkState::Own => {
                arena.census.header_bytes = arena.census.header_bytes.saturating_add(present);
            }
            _ => {
                // Pages of Ruby's heap are regions of malloc, too, and their slots are counted elsewhere.
                if size >= SMALLEST_HEAP_PAGE && (self.is_heap_page)(address) {
                    self.heap_page_bytes += present;
                }
                arena.census.in_use.add(size, present);
                arena.pages.use_bytes(address, end);
            }
        }
    }
}

/// Whether large regions begin at random offsets, for which each of their extents has a page more.
fn is_oblivious(layout: &TreeLayout, extents: &Extents) -> bool {
    extents.all.iter().any(|extent| {
        let is_large =
            extent.state == Extent::ACTIVE && !extent.is_slab && extent.class >= ALWAYS_LARGE;
        is_large && extent.class_bytes().is_some() && extent.address != extent.first_page(layout)
    })
}

/// An arena with the bytes that it has from the kernel: the sum of its parts.
fn with_sum(mut arena: ArenaCensus) -> ArenaCensus {
    let parts = [arena.in_use, arena.free, arena.thread_cached, arena.idle];
    let sum = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
    arena.system_bytes = sum.saturating_add(arena.header_bytes).saturating_add(arena.missing_bytes);
    arena
}

/// Bytes of the pages between two addresses that are in memory.
pub(super) fn present_bytes(memory: &dyn Memory, start: u64, end: u64) -> u64 {
    let regions = memory.regions();
    let first = regions.partition_point(|region| region.end <= start);
    let inside = regions[first..].iter().take_while(|region| region.start < end);
    let mut pages = 0;
    for region in inside {
        let (from, to) = (start.max(region.start), end.min(region.end));
        let (from, to) = ((from - region.start) / PAGE, (to - region.start).div_ceil(PAGE));
        pages += region.pages.present_within(from, to);
    }
    pages * PAGE
}

/// Adds the classes of another copy.
fn merge<T: Class>(into: &mut Vec<T>, from: impl Iterator<Item = T>) {
    for class in from {
        match into.binary_search_by_key(&class.size(), Class::size) {
            Ok(at) => into[at] = into[at].plus(class),
            Err(at) => into.insert(at, class),
        }
    }
}

/// A row of a table by size.
trait Class: Copy {
    fn size(&self) -> u64;
    fn plus(self, other: Self) -> Self;
}

impl Class for SlabClass {
    fn size(&self) -> u64 {
        self.size
    }

    fn plus(self, other: Self) -> Self {
        Self {
            size: self.size,
            slabs: self.slabs + other.slabs,
            bytes: self.bytes.saturating_add(other.bytes),
            present: self.present.saturating_add(other.present),
            in_use: self.in_use + other.in_use,
            cached: self.cached + other.cached,
            free: self.free + other.free,
        }
    }
}

impl Class for LargeClass {
    fn size(&self) -> u64 {
        self.size
    }

    fn plus(self, other: Self) -> Self {
        let bytes = self.bytes.saturating_add(other.bytes);
        Self { size: self.size, regions: self.regions + other.regions, bytes }
    }
}

/// Where extents and blocks lie, by address; those that touch are one stretch.
pub(super) fn occupied(
    copies: &[(TreeLayout, &Extents)],
    blocks: &BTreeSet<(u64, u64)>,
) -> Vec<(u64, u64)> {
    let extents = copies.iter().flat_map(|(layout, extents)| {
        extents.all.iter().map(|extent| (extent.first_page(layout), extent.end(layout)))
    });
    let blocks = blocks.iter().map(|(start, bytes)| (*start, start.saturating_add(*bytes)));
    joined(extents.chain(blocks).collect())
}
