//! jemalloc from outside: every extent, slab and region, by jemalloc's own data.
//!
//! Its regions have no headers. A tree leads from each page to the record of its extent, and the record of a slab has a bitmap of its
//! free regions. The tree is found by votes, without symbols and without a version, so that it does not matter whether
//! jemalloc is a library under any name, a part of Ruby, or loaded late. What was read so equals what `mallctl` says to the byte in a
//! process that is calm.

mod bases;
mod caches;
mod data;
mod decay;
pub mod fake_jemalloc;
mod layout;
mod places;
mod tally;
#[cfg(test)]
mod tests;
mod votes;
mod walk;

pub use data::{JemallocArena, JemallocCensus, JemallocCopy, LargeClass, PageAmount, SlabClass};
pub use decay::DecayTimes;
pub use walk::EXTENT_BYTES;

use crate::malloc::allocator::{Allocator, MallocReading, MallocRequest, covers};
use crate::malloc::data::{MallocCensus, NoMalloc};
use crate::malloc::present::PresentRuns;
use crate::malloc::table::{Chunk, ChunkList, ChunkState, ChunkTable};
use crate::memory::Memory;
use crate::printable::printable;
use bases::find_bases;
use caches::ThreadCaches;
use decay::find_decays;
use layout::Family;
use std::collections::{BTreeMap, BTreeSet};
use tally::{JemallocTally, occupied, present_bytes};
use votes::{Root, find_roots};
use walk::Extents;

/// How often the roots are searched: the tree may be in motion.
const ATTEMPTS: u32 = 4;
/// Entries and slabs that may be wrong: so many, and one of so many.
const FEW_WRONG: u64 = 16;
const PART_WRONG: u64 = 100;

/// Every jemalloc of a process.
pub(super) struct Jemalloc {
    /// Name of the file with the one that serves, if that is known.
    pub(super) file: Option<String>,
}

/// Whether a file of this name contains a jemalloc, or any file does.
pub(super) fn is_jemalloc(memory: &dyn Memory, file: Option<&str>) -> bool {
    find_roots(memory).0.iter().any(|root| file.is_none_or(|file| file == root.file))
}

impl Allocator for Jemalloc {
    fn read(
        &self,
        memory: &mut dyn Memory,
        request: &MallocRequest<'_>,
    ) -> Result<MallocReading, NoMalloc> {
        let copies = self.roots(memory)?.into_iter().map(|root| JemallocCopyRead::of(memory, root));
        let copies = copies.collect::<Result<Vec<JemallocCopyRead>, NoMalloc>>()?;
        let blocks: BTreeSet<(u64, u64)> =
            copies.iter().flat_map(|copy| copy.blocks.iter().copied()).collect();
        let extents: Vec<_> = copies.iter().map(|copy| (copy.root.layout, &copy.extents)).collect();
        let stretches = occupied(&extents, &blocks);
        let may_hold = |page: u64| !covers(&stretches, page) && !(request.is_heap_page)(page);
        let mut census = MallocCensus::default();
        let mut own = JemallocCensus::default();
        let mut chunks = ChunkList::default();
        for (number, copy) in copies.iter().enumerate() {
            let caches = ThreadCaches::find(memory, copy.root.layout.family, &may_hold);
            census.thread_caches += caches.stacks.len() as u64;
            census.readings_again = census.readings_again.saturating_add(copy.extents.again);
            let read = (&copy.extents, &caches);
            let tally = JemallocTally::new(memory, (copy.root.layout, number), read, request);
            let (arenas, list) = tally.finish(memory, &mut own);
            census.arenas.extend(arenas);
            chunks.append(list);
            own.copies.push(copy.describe());
        }
        for (start, bytes) in &blocks {
            own.base.add(*bytes, present_bytes(memory, *start, start.saturating_add(*bytes)));
            if request.keep {
                chunks.push(Chunk::bare(*start, *bytes, ChunkState::Own));
            }
        }
        add_decays(memory, &copies, &mut own);
        census.jemalloc = Some(own);
        let chunks = ChunkTable::of(chunks, PresentRuns::of(memory));
        Ok(MallocReading { census, chunks, stretches })
    }
}

impl Jemalloc {
    /// The roots of all jemallocs; an error unless the one that serves is among them.
    fn roots(&self, memory: &mut dyn Memory) -> Result<Vec<Root>, NoMalloc> {
        let mut best = (0, 0);
        for _ in 0..ATTEMPTS {
            memory.renew();
            let (roots, votes) = find_roots(memory);
            if roots.iter().any(|root| self.file.as_ref().is_none_or(|file| *file == root.file)) {
                return Ok(roots);
            }
            best = best.max(votes);
        }
        let file = self.file.clone().unwrap_or_default();
        Err(NoMalloc::NoTree { file, votes: best.0, against: best.1 })
    }
}

/// One jemalloc as it was read.
struct JemallocCopyRead {
    root: Root,
    extents: Extents,
    /// Blocks of its own memory: address and bytes.
    blocks: Vec<(u64, u64)>,
}

impl JemallocCopyRead {
    fn of(memory: &mut dyn Memory, root: Root) -> Result<Self, NoMalloc> {
        let extents = Extents::read(memory, &root);
        if extents.huge > 0 {
            return Err(NoMalloc::HugePageAllocator);
        }
        let slabs = extents.all.iter().filter(|extent| extent.is_slab).count() as u64;
        for (what, wrong, all) in [
            ("entries of its tree", extents.wrong, extents.sound + extents.wrong),
            ("slabs", extents.torn, slabs),
        ] {
            if wrong > FEW_WRONG && wrong > all / PART_WRONG {
                return Err(NoMalloc::Contradictory { what, wrong, all });
            }
        }
        let (blocks, outside) = find_bases(memory, &extents.own);
        if outside > 0 {
            let all = extents.own.len() as u64;
            return Err(NoMalloc::Contradictory {
                what: "places of its own data",
                wrong: outside,
                all,
            });
        }
        Ok(Self { root, extents, blocks })
    }

    /// The arena whose data lie in the block with this address: an arena keeps them with the records of its extents.
    fn arena_of(&self, address: u64) -> Option<u64> {
        let after = self.blocks.partition_point(|block| block.0 <= address);
        let (start, bytes) = *self.blocks.get(after.checked_sub(1)?)?;
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        let here = self.extents.all.iter();
        for extent in here.filter(|extent| extent.record.wrapping_sub(start) < bytes) {
            *counts.entry(extent.arena).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(arena, _)| arena)
    }

    fn describe(&self) -> JemallocCopy {
        let layout = &self.root.layout;
        let form = match layout.family {
            Family::Extents => "5.2",
            Family::Edata => "5.3",
        };
        JemallocCopy {
            file: printable(&self.root.file),
            form: form.to_owned(),
            page_bytes: layout.page(),
            address_bits: layout.address_bits,
            votes: self.root.votes,
        }
    }
}

/// Adds the decay times: to the arenas that have them, and with their number, the most frequent first.
fn add_decays(memory: &dyn Memory, copies: &[JemallocCopyRead], own: &mut JemallocCensus) {
    let mut counts: BTreeMap<DecayTimes, u64> = BTreeMap::new();
    for (number, copy) in copies.iter().enumerate() {
        for found in find_decays(memory, &copy.blocks) {
            *counts.entry(found.times).or_default() += 1;
            let of_block = copy.arena_of(found.at);
            let is_own =
                |arena: &&mut JemallocArena| arena.copy == number && Some(arena.number) == of_block;
            if let Some(arena) = own.arenas.iter_mut().find(is_own) {
                arena.decay = Some(found.times);
                arena.looked_at_ns = Some(found.looked_at_ns);
            }
        }
    }
    own.decay = counts.into_iter().collect();
    own.decay.sort_by_key(|(times, arenas)| (std::cmp::Reverse(*arenas), *times));
}
