//! Malloc's memory, read from outside, as text for a terminal.

use crate::census_cells::{fragmentation, padded, share_of, strip};
use crate::jemalloc_text::write_jemalloc;
use crate::numbers::{count, grouped, grouped_count};
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
    writeln!(
        out,
        "  malloc: {} in use in {} chunks, {} free in {}; {} in {} with a mapping of their own",
        Bytes(total.in_use.present),
        grouped(total.in_use.chunks),
        Bytes(total.free_bytes()),
        count(malloc.arenas.len(), "arena"),
        Bytes(malloc.mapped.amount.present),
        count(usize::try_from(malloc.mapped.amount.chunks).unwrap_or(usize::MAX), "chunk"),
    )?;
    writeln!(
        out,
        "    of the free memory {} in bins, {} in fastbins, {} in caches of threads, {} at the top; \
         `malloc_trim` would return {}",
        Bytes(total.free.present),
        Bytes(total.fastbins.present),
        Bytes(total.thread_cached.present),
        Bytes(total.top_present_bytes),
        Bytes(malloc.trimmable_bytes()),
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
        writeln!(
            out,
            "    {name:>9}: {:>10} resident, {:>10} in use, {:>10} free",
            Bytes(arena.resident_bytes),
            Bytes(arena.in_use.present),
            Bytes(arena.free_bytes()),
        )?;
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
    let mut largest: Vec<(usize, &ArenaCensus)> = malloc.arenas.iter().enumerate().collect();
    largest.sort_by_key(|(_, arena)| std::cmp::Reverse(arena.resident_bytes));
    largest
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
    writeln!(
        out,
        "\n  {} of the {} in malloc have a known holder; finding them needed {} of carat's own memory",
        share_of(owners.held().present, all.present),
        Bytes(all.present),
        Bytes(owners.needed_bytes)
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
    let rest = owners.holders.iter().skip(most);
    let rest = rest.fold((0, ChunkAmount::default()), |(count, sum), holder| {
        (count + 1, sum.plus(holder.amount))
    });
    if rest.0 > 0 {
        write_holder(out, &grouped_count(rest.0, "other"), rest.1, all.present)?;
    }
    write_holder(out, "held by nobody", owners.nobody, all.present)?;
    let sizes: Vec<String> = owners.nobody_sizes.iter().take(SIZES).map(size_text).collect();
    if !sizes.is_empty() {
        writeln!(out, "    sizes of what nobody holds: {}", sizes.join(", "))?;
    }
    Ok(())
}

fn write_holder(out: &mut String, name: &str, amount: ChunkAmount, all: u64) -> fmt::Result {
    writeln!(
        out,
        "  {}{:>12}{:>12}{:>9}",
        padded(name),
        Bytes(amount.present),
        grouped(amount.chunks),
        share_of(amount.present, all)
    )
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
    writeln!(
        out,
        "\n  reached from the roots: {} in {} of slots, {} of malloc",
        grouped_count(reach.reached_objects, "object"),
        Bytes(reach.reached_slot_bytes),
        Bytes(reach.reached_chunks.present)
    )?;
    writeln!(
        out,
        "  reached by nothing: {} in {} of slots, {} of malloc; a full collection would free these objects",
        grouped_count(reach.unreached_objects, "object"),
        Bytes(reach.unreached_slot_bytes),
        Bytes(reach.unreached_chunks.present)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let mut text = String::new();
        write_malloc(&mut text, &example()).unwrap();
        for expected in [
            "malloc: 6.00 MB in use in 50,000 chunks, 4.00 MB free in 1 arena; 3.00 MB in 2 chunks",
            "`malloc_trim` would return 2.90 MB",
            "resident 10.00 MB, 60.0 % of it in use; 4.00 MB (40.0 %) lie on pages that are less than a tenth full",
            "main:   10.00 MB resident,    6.00 MB in use,    4.00 MB free",
            "·▒█",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
    }

    #[test]
    fn bytes_that_could_not_be_read_are_named() {
        let mut malloc = example();
        malloc.arenas[0].missing_bytes = 70_000;
        let mut text = String::new();
        write_malloc(&mut text, &malloc).unwrap();
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
        let mut text = String::new();
        write_owners(&mut text, &owners, 2).unwrap();
        for expected in [
            "90.0 % of the 10.00 MB in malloc have a known holder",
            "library libcrypto.so.3",
            "1 other ",
            "held by nobody",
            "49,601   10.0 %",
            "49,000 of 112 B",
            "60.0 %\n    of it 5.90 MB would be freed by a collection\n",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
        assert!(!text.contains("Post"), "{text}");
        assert_eq!(text.matches("of it").count(), 1, "{text}");
    }
}
