//! Malloc's memory, read from outside, as text for a terminal.

use crate::census_cells::{fragmentation, padded, share_of, strip};
use crate::jemalloc_text::write_jemalloc;
use crate::lists::largest_first;
use crate::numbers::{beyond, count, grouped, grouped_count};
use crate::text::one_line;
use carat_model::Bytes;
use carat_outside::malloc::{ArenaCensus, ChunkAmount, ChunkSize, MallocCensus};
use carat_outside::owners::{HolderAmount, HolderKind, OwnerCensus, ReachCensus};
use std::fmt::{self, Write};

/// Arenas with a line of their own.
const ARENAS: usize = 8;
/// Sizes of chunks that nobody holds.
const SIZES: usize = 5;

/// Totals, fragmentation and arenas.
pub(crate) fn write_malloc(out: &mut String, malloc: &MallocCensus) -> fmt::Result {
    match &malloc.jemalloc {
        Some(jemalloc) => write_jemalloc(out, malloc, jemalloc)?,
        None => write_glibc(out, malloc)?,
    }
    write_arenas(out, malloc)
}

fn write_glibc(out: &mut String, malloc: &MallocCensus) -> fmt::Result {
    let total = malloc.total();
    let (used, chunks) = (Bytes(total.in_use.present), grouped(total.in_use.chunks));
    let (free, arenas) = (Bytes(total.free_bytes()), count(malloc.arenas.len(), "arena"));
    let ChunkAmount { present, chunks: mapped, .. } = malloc.mapped.amount;
    write!(out, "  malloc: {used} in use in {chunks} chunks, {free} free in {arenas}; ")?;
    let mapped = count(mapped, "chunk");
    writeln!(out, "{} in {mapped} with a mapping of their own", Bytes(present))?;
    let parts = [total.free, total.fastbins, total.thread_cached];
    let [bins, fast, cached] = parts.map(|part| Bytes(part.present));
    let [top, trimmed] = [total.top_present_bytes, malloc.trimmable_bytes()].map(Bytes);
    writeln!(
        out,
        "    of the free memory {bins} in bins, {fast} in fastbins, {cached} in caches of threads, {top} at the top; \
         `malloc_trim` would return {trimmed}"
    )?;
    writeln!(out, "    {}", fragmentation(&total, total.occupancy.pages()))?;
    // Only where there are some: in nearly every reading the chunks are complete.
    if total.missing_bytes > 0 {
        writeln!(
            out,
            "    {} of the arenas could not be read chunk by chunk and are in no figure here",
            Bytes(total.missing_bytes)
        )?;
    }
    Ok(())
}

fn write_arenas(out: &mut String, malloc: &MallocCensus) -> fmt::Result {
    let largest = largest_arenas(malloc);
    for &(number, arena) in largest.iter().take(ARENAS) {
        let name = arena_name(malloc, number);
        let sizes = [arena.resident_bytes, arena.in_use.present, arena.free_bytes()];
        let [all, used, free] = sizes.map(Bytes);
        writeln!(out, "    {name:>9}: {all:>10} resident, {used:>10} in use, {free:>10} free")?;
        if !arena.map.is_empty() {
            writeln!(out, "      {}", strip(&shares(&arena.map)))?;
        }
    }
    match largest.len().saturating_sub(ARENAS) {
        0 => Ok(()),
        more => writeln!(out, "    and {more} more arenas; `--json` has all"),
    }
}

/// The arenas with their numbers, by memory, because they are numbered in the order of threads.
pub(crate) fn largest_arenas(malloc: &MallocCensus) -> Vec<(usize, &ArenaCensus)> {
    largest_first(malloc.arenas.iter().enumerate(), |(_, arena)| arena.resident_bytes)
}

/// What the arena at a place of the list is called.
pub(crate) fn arena_name(malloc: &MallocCensus, place: usize) -> String {
    let own = malloc.jemalloc.as_ref().and_then(|jemalloc| jemalloc.arenas.get(place));
    match (own, malloc.arenas.get(place)) {
        (Some(own), _) if own.copy > 0 => format!("arena {}/{}", own.copy, own.number),
        (Some(own), _) => format!("arena {}", own.number),
        (None, Some(arena)) if arena.main => "main".to_owned(),
        (None, _) => format!("arena {place}"),
    }
}

pub(crate) fn shares(percentages: &[u8]) -> Vec<f64> {
    percentages.iter().map(|&percentage| f64::from(percentage) / 100.0).collect()
}

/// Who holds malloc's memory, and what nobody holds.
pub(crate) fn write_owners(out: &mut String, owners: &OwnerCensus, most: usize) -> fmt::Result {
    // The shares are of what is in use; what is free has no holder by its nature.
    let all = owners.held().plus(owners.nobody);
    let share = share_of(owners.held().present, all.present);
    let [in_malloc, needed] = [all.present, owners.needed_bytes].map(Bytes);
    writeln!(
        out,
        "\n  {share} of the {in_malloc} in malloc have a known holder; finding them needed {needed} of carat's own memory"
    )?;
    writeln!(out, "  {}{:>12}{:>12}{:>9}", padded("holder"), "bytes", "chunks", "share")?;
    for holder in owners.holders.iter().take(most) {
        write_holder(out, &holder_name(holder), holder.amount, all.present)?;
        let garbage =
            holder.garbage.filter(|garbage| much_of(garbage.present, holder.amount.present));
        if let Some(garbage) = garbage {
            writeln!(out, "    of it {} would be freed by a collection", Bytes(garbage.present))?;
        }
    }
    // In one line, so that the lines add up to the total above.
    if let Some(others) = beyond(owners.holders.len(), most, "other") {
        let rest = owners.holders.iter().skip(most);
        let sum = rest.fold(ChunkAmount::default(), |sum, one| sum.plus(one.amount));
        write_holder(out, &others, sum, all.present)?;
    }
    write_holder(out, "held by nobody", owners.nobody, all.present)?;
    let sizes: Vec<String> = owners.nobody_sizes.iter().take(SIZES).map(size_text).collect();
    if !sizes.is_empty() {
        writeln!(out, "    sizes of what nobody holds: {}", sizes.join(", "))?;
    }
    Ok(())
}

fn write_holder(out: &mut String, name: &str, amount: ChunkAmount, all: u64) -> fmt::Result {
    let (bytes, chunks) = (Bytes(amount.present), grouped(amount.chunks));
    let share = share_of(amount.present, all);
    writeln!(out, "  {}{bytes:>12}{chunks:>12}{share:>9}", padded(name))
}

/// Whether garbage is so much of an amount that the amount alone would mislead: a tenth.
pub(crate) const fn much_of(garbage: u64, amount: u64) -> bool {
    garbage > 0 && garbage >= amount / 10
}

fn size_text(size: &ChunkSize) -> String {
    format!("{} of {}", grouped(size.amount.chunks), Bytes(size.size))
}

/// What kind of holder it is, where its name does not say so.
pub(crate) fn holder_name(holder: &HolderAmount) -> String {
    let name = one_line(&holder.name);
    match holder.kind {
        HolderKind::Class
        | HolderKind::Internal
        | HolderKind::Collector
        | HolderKind::HeapPages
        | HolderKind::TransientHeap
        | HolderKind::OtherMemory => name,
        HolderKind::Bytecode => "bytecode".to_owned(),
        HolderKind::Jit => format!("tables of {name}"),
        HolderKind::Library => format!("library {name}"),
        HolderKind::Thread if name.contains("thread") => name,
        HolderKind::Thread => format!("thread {name}"),
    }
}

/// What the roots reach.
pub(crate) fn write_reach(out: &mut String, reach: &ReachCensus) -> fmt::Result {
    let amount = |objects: u64, slot_bytes: u64, chunks: ChunkAmount| {
        let (objects, slots) = (grouped_count(objects, "object"), Bytes(slot_bytes));
        format!("{objects} in {slots} of slots, {} of malloc", Bytes(chunks.present))
    };
    let reached = amount(reach.reached_objects, reach.reached_slot_bytes, reach.reached_chunks);
    writeln!(out, "\n  reached from the roots: {reached}")?;
    let garbage =
        amount(reach.unreached_objects, reach.unreached_slot_bytes, reach.unreached_chunks);
    writeln!(out, "  reached by nothing: {garbage}; a full collection would free these objects")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AssertContains as _;
    use crate::text::written;
    use carat_outside::malloc::{MappedChunks, Occupancy};

    fn amount(chunks: u64, bytes: u64) -> ChunkAmount {
        ChunkAmount::resident(chunks, bytes)
    }

    /// An arena of 10 MB, 6 of them in use, with 4 MB on pages that are nearly free.
    pub(super) fn example() -> MallocCensus {
        let mut occupancy = Occupancy::default();
        (occupancy.page_bytes[0], occupancy.live_bytes[0]) = (4_000_000, 100_000);
        (occupancy.page_bytes[9], occupancy.live_bytes[9]) = (6_000_000, 5_900_000);
        let arena = ArenaCensus {
            main: true,
            heaps: 1,
            system_bytes: 11_000_000,
            in_use: amount(50_000, 6_000_000),
            free: amount(300, 3_000_000),
            thread_cached: amount(10, 1_000),
            top_bytes: 1_000_000,
            top_present_bytes: 1_000_000,
            resident_bytes: 10_000_000,
            trimmable_free_bytes: 2_000_000,
            trimmable_top_bytes: 900_000,
            occupancy,
            map: vec![0, 50, 100],
            ..ArenaCensus::default()
        };
        MallocCensus {
            arenas: vec![arena],
            mapped: MappedChunks { amount: amount(2, 3_000_000), ..MappedChunks::default() },
            thread_caches: 3,
            ..MallocCensus::default()
        }
    }

    #[test]
    fn fragmentation_and_what_a_trim_returns_have_numbers() {
        let text = written(|out| write_malloc(out, &example()));
        text.assert_contains([
            "malloc: 6.00 MB in use in 50,000 chunks, 4.00 MB free in 1 arena; 3.00 MB in 2 chunks",
            "`malloc_trim` would return 2.90 MB",
            "resident 10.00 MB, 60.0 % of it in use; 4.00 MB (40.0 %) lie on pages that are less than a tenth full",
            "main:   10.00 MB resident,    6.00 MB in use,    4.00 MB free",
            "·▒█",
        ]);
    }

    #[test]
    fn bytes_that_could_not_be_read_are_named() {
        let mut malloc = example();
        malloc.arenas[0].missing_bytes = 70_000;
        let text = written(|out| write_malloc(out, &malloc));
        assert!(text.contains("70.0 kB of the arenas could not be read"), "{text}");
    }

    #[test]
    fn holders_and_what_nobody_holds_add_up() {
        let holder = |kind, name: &str, bytes| HolderAmount {
            kind,
            name: name.into(),
            amount: amount(10, bytes),
            garbage: (name == "String").then(|| amount(9, 5_900_000)),
        };
        let owners = OwnerCensus {
            holders: vec![
                holder(HolderKind::Class, "String", 6_000_000),
                holder(HolderKind::Library, "libcrypto.so.3", 2_000_000),
                holder(HolderKind::Class, "Post", 1_000_000),
            ],
            nobody: amount(49_601, 1_000_000),
            nobody_sizes: vec![ChunkSize { size: 112, amount: amount(49_000, 5_488_000) }],
            needed_bytes: 0,
        };
        let text = written(|out| write_owners(out, &owners, 2));
        text.assert_contains([
            "90.0 % of the 10.00 MB in malloc have a known holder",
            "library libcrypto.so.3",
            "1 other ",
            "held by nobody",
            "49,601   10.0 %",
            "49,000 of 112 B",
            "60.0 %\n    of it 5.90 MB would be freed by a collection\n",
        ]);
        assert!(!text.contains("Post"), "{text}");
        assert_eq!(text.matches("of it").count(), 1, "{text}");
    }
}
