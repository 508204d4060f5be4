//! The memory of jemalloc, read from outside, as text for a terminal.

use crate::census_cells::{fragmentation, share_of};
use crate::lists::largest_first;
use crate::numbers::{count, grouped};
use crate::text::one_line;
use carat_model::Bytes;
use carat_outside::malloc::{ArenaCensus, JemallocCensus, MallocCensus, SlabClass};
use std::fmt::{self, Write};

/// Size classes with a line of their own.
const CLASSES: usize = 5;
/// Classes that waste less than this part of the slabs have none.
const PART: u64 = 50;

/// Totals, fragmentation by size class, and how long unused pages stay.
pub(crate) fn write_jemalloc(
    out: &mut String,
    malloc: &MallocCensus,
    jemalloc: &JemallocCensus,
) -> fmt::Result {
    let total = malloc.total();
    let (used, regions) = (Bytes(total.in_use.present), grouped(total.in_use.chunks));
    let (free, arenas) = (Bytes(total.free_bytes()), count(malloc.arenas.len(), "arena"));
    write!(out, "  malloc: {}: ", names(jemalloc))?;
    writeln!(out, "{used} in use in {regions} regions, {free} free in {arenas}")?;
    let [slabs, cached] = [total.free, total.thread_cached].map(|part| Bytes(part.present));
    let [dirty, muzzy] = [jemalloc.dirty, jemalloc.muzzy].map(|pages| Bytes(pages.present));
    let (caches, purged) = (caches(malloc.thread_caches), Bytes(malloc.trimmable_bytes()));
    writeln!(
        out,
        "    of the free memory {slabs} in slabs, {cached} in {caches}, {dirty} dirty and {muzzy} muzzy; a purge would return {purged}"
    )?;
    // Said only where something is missing, so that silence means all.
    if total.missing_bytes > 0 {
        let missing = Bytes(total.missing_bytes);
        writeln!(out, "    {missing} of extents could not be read and are in no figure here")?;
    }
    let tables = Bytes(jemalloc.base.present);
    writeln!(out, "    {tables} for its own tables, which is neither in use nor free")?;
    write_decay(out, jemalloc)?;
    write_slabs(out, &total, jemalloc)
}

/// Which jemalloc it is: the form of its data, and its file.
fn names(jemalloc: &JemallocCensus) -> String {
    let names = jemalloc.copies.iter().map(|copy| {
        let pages = match copy.page_bytes {
            // Usual pages need no mention.
            4096 => String::new(),
            bytes => format!(" with pages of {} KiB", bytes >> 10),
        };
        format!("jemalloc {}{pages} in {}", copy.form, one_line(&copy.file))
    });
    names.collect::<Vec<_>>().join(" and ")
}

fn caches(number: u64) -> String {
    match number {
        0 => "caches of threads, of which none was found".to_owned(),
        number => count(number, "cache") + " of threads",
    }
}

fn write_decay(out: &mut String, jemalloc: &JemallocCensus) -> fmt::Result {
    let times = jemalloc.decay.iter().map(|(times, arenas)| {
        let [dirty, muzzy] = [times.dirty_ms, times.muzzy_ms].map(stay);
        let arenas = count(*arenas, "arena");
        format!("dirty pages stay {dirty} and muzzy pages {muzzy} in {arenas}")
    });
    let times = match times.collect::<Vec<_>>().as_slice() {
        [] => "how long unused pages stay is unknown".to_owned(),
        times => times.join("; "),
    };
    let by = match jemalloc.background_thread {
        Some(true) => "; a background thread returns them",
        Some(false) => "; no background thread, so only threads that use an arena return its pages",
        None => "",
    };
    writeln!(out, "    {times}{by}")
}

fn stay(milliseconds: i64) -> String {
    match milliseconds {
        ..0 => "for ever".to_owned(),
        0 => "not at all".to_owned(),
        1..1000 => format!("{milliseconds} ms"),
        _ => format!("{} s", milliseconds as f64 / 1000.0),
    }
}

/// How much of the slabs is in use, and the classes that have most free memory.
fn write_slabs(out: &mut String, total: &ArenaCensus, jemalloc: &JemallocCensus) -> fmt::Result {
    let present: u64 = jemalloc.slabs.iter().map(|class| class.present).sum();
    writeln!(out, "    {}", fragmentation(total, total.resident_bytes))?;
    // Below two percent of the slabs a class explains nothing.
    let classes = jemalloc.slabs.iter().filter(|class| free_bytes(class) > present / PART);
    let classes = largest_first(classes, |class| free_bytes(class));
    if !classes.is_empty() {
        writeln!(out, "    regions of one size share slabs; most is free in those of")?;
    }
    for class in classes.into_iter().take(CLASSES) {
        let [size, all, free] = [class.size, class.present, free_bytes(class)].map(Bytes);
        let share = share_of(class.in_use, class.in_use + class.cached + class.free);
        write!(out, "    {size:>9}: {all:>10} resident, {free:>10} free; ")?;
        writeln!(out, "{share} of the regions in use, in {} slabs", grouped(class.slabs))?;
    }
    Ok(())
}

/// Bytes in memory of a class that are not in use.
fn free_bytes(class: &SlabClass) -> u64 {
    class.present.saturating_sub(class.used_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AssertContains as _;
    use crate::text::written;
    use carat_outside::malloc::{ChunkAmount, DecayTimes, JemallocArena, JemallocCopy, PageAmount};

    fn example() -> (MallocCensus, JemallocCensus) {
        let arena = ArenaCensus {
            in_use: ChunkAmount::resident(50_000, 6_000_000),
            free: ChunkAmount::resident(300, 3_000_000),
            thread_cached: ChunkAmount::resident(10, 1_000),
            idle: ChunkAmount { chunks: 4, bytes: 5_000_000, present: 4_000_000 },
            trimmable_free_bytes: 4_000_000,
            resident_bytes: 13_001_000,
            ..ArenaCensus::default()
        };
        let copy = JemallocCopy {
            file: "libjemalloc.so.2".into(),
            form: "5.3".into(),
            page_bytes: 4096,
            ..JemallocCopy::default()
        };
        let class = |size, in_use, free| SlabClass {
            size,
            slabs: 10,
            bytes: size * (in_use + free),
            present: size * (in_use + free),
            in_use,
            cached: 0,
            free,
        };
        let jemalloc = JemallocCensus {
            copies: vec![copy],
            dirty: PageAmount { stretches: 4, bytes: 5_000_000, present: 4_000_000 },
            base: PageAmount { stretches: 1, bytes: 2 << 20, present: 900_000 },
            arenas: vec![JemallocArena::default()],
            slabs: vec![class(320, 1000, 9000), class(8, 1000, 1)],
            decay: vec![(DecayTimes { dirty_ms: 10_000, muzzy_ms: 0 }, 1)],
            background_thread: Some(false),
            ..JemallocCensus::default()
        };
        (
            MallocCensus { arenas: vec![arena], thread_caches: 3, ..MallocCensus::default() },
            jemalloc,
        )
    }

    fn text(malloc: &MallocCensus, jemalloc: &JemallocCensus) -> String {
        written(|out| write_jemalloc(out, malloc, jemalloc))
    }

    #[test]
    fn what_is_free_where_and_how_long_it_stays_have_numbers() {
        let (malloc, jemalloc) = example();
        let text = text(&malloc, &jemalloc);
        text.assert_contains([
            "malloc: jemalloc 5.3 in libjemalloc.so.2: 6.00 MB in use in 50,000 regions, 7.00 MB free in 1 arena\n",
            "3.00 MB in slabs, 1.0 kB in 3 caches of threads, 4.00 MB dirty and 0 B muzzy; a purge would return 4.00 MB",
            "0.90 MB for its own tables",
            "dirty pages stay 10 s and muzzy pages not at all in 1 arena; no background thread, so only",
            "320 B:    3.20 MB resident,    2.88 MB free; 10.0 % of the regions in use, in 10 slabs",
        ]);
        assert!(!text.contains("8 B:"), "{text}");
    }

    #[test]
    fn what_was_not_found_is_said() {
        let (mut malloc, mut jemalloc) = example();
        malloc.thread_caches = 0;
        malloc.arenas[0].missing_bytes = 70_000;
        (jemalloc.decay, jemalloc.background_thread) = (Vec::new(), None);
        let text = text(&malloc, &jemalloc);
        text.assert_contains([
            "of which none was found",
            "70.0 kB of extents",
            "unused pages stay is unknown\n",
        ]);
        assert_eq!([-1, 0, 500, 1500].map(stay), ["for ever", "not at all", "500 ms", "1.5 s"]);
    }
}
