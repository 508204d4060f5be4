//! Readings from outside as text for a terminal: slots, ages, classes, and what the readings cost.

use crate::census_cells::{NAME, padded, pages, share_of, strip};
use crate::lists::largest_first;
use crate::malloc_text::{much_of, write_malloc, write_owners, write_reach};
use crate::numbers::{beyond, duration, grouped, grouped_count, or_question_mark};
use crate::text::{one_line, shorten, written};
use carat_model::{Bytes, OutsideReading};
use carat_outside::census::{Census, CensusPart, UnknownPart};
use carat_outside::heap::{AgeCensus, ClassCount, ClassPlaces, HeapCensus, SlotAmount};
use carat_outside::jit::JitCensus;
use carat_redact::{Audience, redact_outside};
use std::fmt::{self, Write};

/// Up to so many processes are printed in full; of more only the largest.
const IN_FULL: usize = 2;

/// How much of a reading is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CensusTextOptions {
    /// Classes in the table.
    pub classes: usize,
    /// Holders of malloc's memory in the table.
    pub holders: usize,
}

impl Default for CensusTextOptions {
    fn default() -> Self {
        Self { classes: 12, holders: 12 }
    }
}

/// Every reading of a tree, and one line for each process that could not be read.
pub fn census_text(reading: &OutsideReading, options: CensusTextOptions) -> String {
    let reading = &redact_outside(reading, Audience::Own);
    let all = reading.processes.iter();
    // Of a cluster one worker is like the other.
    let (processes, full) = match all.len() {
        few @ ..=IN_FULL => (all.collect(), few),
        _ => (largest_first(all, |census| live_bytes(census)), 1),
    };
    let (full, brief) = processes.split_at(full);
    written(|out| {
        full.iter().try_for_each(|census| write_census(out, census, options))?;
        brief.iter().try_for_each(|census| write_brief(out, census))?;
        reading.refused.iter().try_for_each(|(process, reason)| {
            writeln!(out, "\nNot read from outside: process {process}: {}", one_line(reason))
        })
    })
}

/// Bytes of slots and of malloc in use.
pub(crate) fn live_bytes(census: &Census) -> u64 {
    let slots = census.heap.as_ref().map_or(0, |heap| heap.live_bytes);
    slots + census.malloc.as_ref().map_or(0, |malloc| malloc.total().in_use.present)
}

/// One line; `carat explain PID --alone` prints the rest.
fn write_brief(out: &mut String, census: &Census) -> fmt::Result {
    let slots = census.heap.as_ref().map(|heap| {
        let live = share_of(heap.live_slots(), heap.slots);
        format!("{} live ({live})", grouped_count(heap.live_slots(), "slot"))
    });
    let malloc = census.malloc.as_ref().map(|malloc| {
        let total = malloc.total();
        format!("malloc {} in use, {} free", Bytes(total.in_use.present), Bytes(total.free_bytes()))
    });
    let process = census.process;
    let known = [slots, malloc].map(|known| known.unwrap_or_else(|| "unknown".to_owned()));
    writeln!(out, "Process {process}: {}; `--alone` with {process} has more", known.join(", "))
}

fn write_census(out: &mut String, census: &Census, options: CensusTextOptions) -> fmt::Result {
    writeln!(out, "\nProcess {} from outside, Ruby {}", census.process, one_line(&census.ruby))?;
    if let Some(heap) = &census.heap {
        write_heap(out, heap)?;
        write_maps(out, heap)?;
    }
    if let Some(malloc) = &census.malloc {
        write_malloc(out, malloc)?;
    }
    if let Some(classes) = &census.classes {
        write_classes(out, classes, options.classes)?;
    }
    if let Some(places) = &census.class {
        write_places(out, places)?;
    }
    if let Some(owners) = &census.owners {
        write_owners(out, owners, options.holders)?;
    }
    if let Some(jit) = &census.jit {
        write_jit(out, jit)?;
    }
    if let Some(reach) = &census.reach {
        write_reach(out, reach)?;
    }
    write_unknown(out, census)?;
    write_cost(out, census)
}

fn write_jit(out: &mut String, jit: &JitCensus) -> fmt::Result {
    let (compiled, code) = (grouped(jit.compiled), Bytes(jit.code_bytes));
    write!(out, "  JIT: {compiled} methods and blocks compiled, {code} of code")?;
    if let Some(reserved) = jit.reserved_bytes {
        write!(out, " of {} reserved", Bytes(reserved))?;
    }
    write!(out, ", {} of it private; ", Bytes(jit.private_bytes))?;
    match jit.tables {
        Some(tables) => writeln!(
            out,
            "{} in malloc are reached from bytecode; tables that are not are among those of Ruby's library",
            Bytes(tables.present)
        ),
        None => writeln!(out, "what it has in malloc is unknown"),
    }
}

fn write_heap(out: &mut String, heap: &HeapCensus) -> fmt::Result {
    let [live, slots] = [heap.live_slots(), heap.slots].map(grouped);
    let share = share_of(heap.live_slots(), heap.slots);
    let [used, free] = [heap.live_bytes, heap.free_bytes].map(Bytes);
    let (all, page) = (pages(heap.pages), heap.page_bytes >> 10);
    write!(out, "  slots: {live} live of {slots} ({share}), ")?;
    writeln!(out, "{used} in objects and {free} free; {all} of {page} KiB")?;
    let share = share_of(heap.free_bytes, heap.live_bytes + heap.free_bytes);
    let thin = heap.pages_by_share.iter().take(2).sum::<u64>();
    // Pages without objects are less than a fifth full too, but counted as empty.
    let thin = pages(thin.saturating_sub(heap.pages_without_objects));
    let empty = pages(heap.pages_without_objects + heap.empty_pages);
    write!(out, "  fragmentation: {share} of the bytes in slots are free; ")?;
    writeln!(out, "{thin} less than a fifth full, {empty} empty")?;
    if let Some(SlotAmount { slots, bytes }) = heap.unswept {
        let (objects, bytes) = (grouped_count(slots, "object"), Bytes(bytes));
        writeln!(out, "  found dead by the last collection and not yet swept: {objects}, {bytes}")?;
    }
    if let Some(ages) = &heap.ages {
        write_ages(out, ages)?;
    }
    // One pool is the whole heap, which is above already.
    for pool in heap.pools.iter().filter(|_| heap.pools.len() > 1) {
        let (live, slots) = (grouped(pool.live), grouped(pool.slots));
        let (share, pages) = (share_of(pool.live, pool.slots), pages(pool.pages));
        let size = pool.slot_bytes;
        writeln!(out, "    {size:>5} B: {live:>11} live of {slots:>11} ({share}), {pages}")?;
    }
    Ok(())
}

/// How full the pages of each slot size are, in the order of their addresses.
fn write_maps(out: &mut String, heap: &HeapCensus) -> fmt::Result {
    if heap.map.is_empty() {
        return Ok(());
    }
    writeln!(out, "  pages by address, the darker the fuller:")?;
    for pool in &heap.pools {
        let own = heap.map.iter().filter(|page| page.slot_bytes == pool.slot_bytes);
        let filled: Vec<f64> =
            own.map(|page| page.live as f64 / page.slots.max(1) as f64).collect();
        writeln!(out, "    {:>5} B {}", pool.slot_bytes, strip(&filled))?;
    }
    Ok(())
}

fn write_ages(out: &mut String, ages: &AgeCensus) -> fmt::Result {
    let share = share_of(ages.old, ages.by_age.iter().sum());
    let [old, young] = [ages.old, ages.by_age[0]].map(grouped);
    write!(out, "  ages: {old} old ({share}), {young} of age 0")?;
    if let Some(pinned) = ages.pinned {
        write!(out, ", {} pinned", grouped(pinned))?;
    }
    writeln!(out)
}

fn write_classes(out: &mut String, classes: &[ClassCount], most: usize) -> fmt::Result {
    if classes.is_empty() || most == 0 {
        return Ok(());
    }
    // The column is there for all classes or for none, so that the table is aligned.
    let held = classes.iter().any(|class| class.malloc_bytes.is_some());
    let malloc = if held { format!("{:>12}", "malloc") } else { String::new() };
    writeln!(out, "\n  {:<NAME$}{:>12}{:>12}{malloc}{:>9}", "class", "objects", "slots", "old")?;
    for class in by_bytes(classes).into_iter().take(most) {
        let malloc = or_question_mark(class.malloc_bytes.map(Bytes));
        let malloc = if held { format!("{malloc:>12}") } else { String::new() };
        let old = or_question_mark(class.old.map(|old| share_of(old, class.objects)));
        let (objects, slots) = (grouped(class.objects), Bytes(class.slot_bytes));
        writeln!(out, "  {}{objects:>12}{slots:>12}{malloc}{old:>9}", padded(&class.name))?;
        if let Some(garbage) = class.garbage_objects.filter(|&all| much_of(all, class.objects)) {
            writeln!(out, "    of it {} would be freed by a collection", grouped(garbage))?;
        }
    }
    match beyond(classes.len(), most, "more class") {
        None => Ok(()),
        Some(classes) => writeln!(out, "  and {classes}; `--classes N` prints N"),
    }
}

/// The classes with most bytes of slots and malloc first.
pub(crate) fn by_bytes(classes: &[ClassCount]) -> Vec<&ClassCount> {
    largest_first(classes, |class| class_bytes(class))
}

/// Bytes of the slots of a class, and of what its objects hold in malloc where that is known.
pub(crate) fn class_bytes(class: &ClassCount) -> u64 {
    class.slot_bytes + class.malloc_bytes.unwrap_or_default()
}

fn write_places(out: &mut String, places: &ClassPlaces) -> fmt::Result {
    let name = shorten(&one_line(&places.name), NAME);
    let (objects, all) = (grouped_count(places.objects, "object"), pages(places.pages));
    writeln!(out, "\n  {name}: {objects} in {all}, {} of slots", Bytes(places.slot_bytes))?;
    let (alone, free) = (pages(places.pages_kept_alone), Bytes(places.free_bytes_kept_alone));
    writeln!(
        out,
        "    {alone} hold no other object; without this class they could be returned, with {free} of free slots on them"
    )?;
    let bounds = ["1", "2 to 3", "4 to 7", "8 to 15", "16 or more"];
    let spread = bounds.iter().zip(places.pages_by_objects);
    let spread: Vec<String> =
        spread.map(|(bound, number)| format!("{bound}: {}", grouped(number))).collect();
    writeln!(out, "    pages by number of its objects: {}", spread.join(", "))?;
    if let Some(ages) = places.by_age {
        writeln!(out, "    age 0, 1, 2, 3: {}", ages.map(grouped).join(", "))?;
    }
    Ok(())
}

fn write_unknown(out: &mut String, census: &Census) -> fmt::Result {
    for UnknownPart { part, reason } in &census.unknown {
        writeln!(out, "  {} unknown: {}", part_name(*part), one_line(reason))?;
    }
    let left = &census.left_out;
    if left.pages_in_flux > 0 {
        let (pages, slots) = (pages(left.pages_in_flux), grouped_count(left.slots_in_flux, "slot"));
        writeln!(out, "  left out: {pages} with {slots}, which changed while they were read")?;
    }
    if left.pages_partly_absent > 0 {
        writeln!(out, "  partly absent: {}", pages(left.pages_partly_absent))?;
    }
    Ok(())
}

fn part_name(part: CensusPart) -> &'static str {
    match part {
        CensusPart::Heap => "slots",
        CensusPart::Ages => "garbage, ages and pinned objects",
        CensusPart::Classes => "classes",
        CensusPart::Class => "the class",
        CensusPart::Malloc => "malloc",
        CensusPart::Owners => "holders of malloc's memory",
        CensusPart::Reach => "what the roots reach",
        CensusPart::Who => "who keeps objects alive",
    }
}

fn write_cost(out: &mut String, census: &Census) -> fmt::Result {
    let cost = &census.cost;
    let [memory, read] = [cost.present_bytes, cost.read_bytes].map(Bytes);
    let [time, cpu] = [cost.seconds, cost.cpu_seconds].map(duration);
    writeln!(
        out,
        "  {memory} of memory, {read} read in {time}, {cpu} of processor time; nothing was stopped or written"
    )?;
    if cost.swapped_bytes > 0 {
        let swapped = Bytes(cost.swapped_bytes);
        writeln!(out, "  {swapped} in swap were not read: what is there is not counted")?;
    }
    if cost.unsearched_bytes > 0 {
        writeln!(
            out,
            "  {} were not searched: their mappings show more pages than the kernel counts as resident, as after reading \
             memory that was never written",
            Bytes(cost.unsearched_bytes)
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AssertContains as _;
    use carat_outside::census::LookCost;
    use carat_outside::heap::{HeapLeftOut, HeapPageFill, PoolCensus};

    fn heap() -> HeapCensus {
        let page = |live| HeapPageFill { slot_bytes: 40, slots: 400, live, ..Default::default() };
        let mut by_share = [0; 11];
        (by_share[0], by_share[10]) = (1, 2);
        HeapCensus {
            page_bytes: 65536,
            pages: 3,
            pages_without_objects: 1,
            slots: 1200,
            free_slots: 400,
            live_bytes: 32_000,
            free_bytes: 16_000,
            unswept: Some(SlotAmount { slots: 7, bytes: 280 }),
            ages: Some(AgeCensus {
                by_age: [200, 0, 0, 600],
                old: 600,
                pinned: Some(3),
                ..Default::default()
            }),
            pools: vec![PoolCensus {
                slot_bytes: 40,
                pages: 3,
                slots: 1200,
                live: 800,
                listed_free: 390,
            }],
            pages_by_share: by_share,
            map: vec![page(400), page(0), page(400)],
            ..HeapCensus::default()
        }
    }

    fn census() -> Census {
        let class = |name: &str, objects, old| ClassCount {
            name: name.into(),
            objects,
            slot_bytes: objects * 40,
            old,
            ..ClassCount::default()
        };
        Census {
            process: 4312,
            ruby: "3.1.2".into(),
            heap: Some(heap()),
            classes: Some(vec![
                class("String", 500, Some(400)),
                class("Post", 200, None),
                class("Blog::Comment", 100, Some(100)),
            ]),
            cost: LookCost {
                read_bytes: 40_000_000,
                present_bytes: 41_000_000,
                cpu_seconds: 0.08,
                seconds: 0.11,
                ..LookCost::default()
            },
            ..Census::default()
        }
    }

    fn text(census: Census, classes: usize) -> String {
        let reading = OutsideReading { processes: vec![census], ..OutsideReading::default() };
        census_text(&reading, CensusTextOptions { classes, holders: 5 })
    }

    #[test]
    fn a_reader_finds_slots_fragmentation_ages_and_classes() {
        let text = text(census(), 2);
        text.assert_contains([
            "Process 4312 from outside, Ruby 3.1.2",
            "slots: 800 live of 1,200 (66.7 %), 32.0 kB in objects and 16.0 kB free; 3 pages of 64 KiB",
            "33.3 % of the bytes in slots are free; 0 pages less than a fifth full, 1 page empty",
            "found dead by the last collection and not yet swept: 7 objects, 280 B",
            "ages: 600 old (75.0 %), 200 of age 0, 3 pinned",
            "40 B █·█",
            "500     20.0 kB   80.0 %",
            "200      8.0 kB        ?",
            "and 1 more class",
            "41.00 MB of memory, 40.00 MB read in 110.00 ms, 80.00 ms of processor time",
        ]);
        assert!(!text.contains("Blog::Comment") && !text.contains("malloc"), "{text}");
    }

    #[test]
    fn what_is_unknown_or_left_out_is_named_and_never_zero() {
        let mut partial = census();
        if let Some(heap) = &mut partial.heap {
            (heap.unswept, heap.ages) = (None, None);
        }
        partial.classes = None;
        partial.unknown =
            vec![UnknownPart { part: CensusPart::Malloc, reason: "its C library is musl".into() }];
        partial.left_out =
            HeapLeftOut { pages_in_flux: 2, slots_in_flux: 800, ..HeapLeftOut::default() };
        let text = text(partial, 5);
        assert!(text.contains("malloc unknown: its C library is musl"), "{text}");
        assert!(text.contains("left out: 2 pages with 800 slots"), "{text}");
        assert!(!text.contains("ages:") && !text.contains("garbage"), "{text}");
    }

    #[test]
    fn pinned_objects_are_printed_only_where_a_collection_pinned_any() {
        let mut none = census();
        for ages in none.heap.iter_mut().filter_map(|heap| heap.ages.as_mut()) {
            ages.pinned = None;
        }
        let text = text(none, 1);
        assert!(text.contains("ages: 600 old (75.0 %), 200 of age 0\n"), "{text}");
    }

    #[test]
    fn of_many_processes_only_the_largest_is_printed_in_full() {
        let other = |process| Census { process, ..census() };
        let mut largest = other(3);
        largest.heap.iter_mut().for_each(|heap| heap.live_bytes = 90_000);
        let processes = vec![other(1), other(2), largest];
        let reading = OutsideReading { processes, ..OutsideReading::default() };
        let text = census_text(&reading, CensusTextOptions::default());
        text.assert_contains([
            "Process 3 from outside",
            "Process 2: 800 slots live (66.7 %), unknown;",
        ]);
        assert!(!text.contains("Process 1 from outside"), "{text}");
    }

    #[test]
    fn a_process_that_was_refused_has_one_line_with_its_reason() {
        let reading = OutsideReading {
            refused: vec![(12, "permission denied; run as root".into())],
            ..OutsideReading::default()
        };
        let text = census_text(&reading, CensusTextOptions::default());
        assert_eq!(
            text.trim(),
            "Not read from outside: process 12: permission denied; run as root"
        );
    }
}
