//! A map of a process's memory: heap pages by occupancy and age, arenas by occupancy.

use crate::chart::Caption;
use crate::chart::cells::{CellGroup, MapCell, cells, stretches};
use crate::malloc_text::{arena_name, largest_arenas, shares};
use crate::numbers::{count, percent};
use crate::page::Gallery;
use crate::text::one_line;
use carat_model::Bytes;
use carat_outside::census::Census;
use carat_outside::heap::{ClassCount, HeapCensus, HeapPageFill};
use carat_outside::malloc::{ArenaCensus, MallocCensus};
use maud::{Markup, html as markup};

/// Cells of all groups of a process together, so that the page stays small.
const CELLS: usize = 700;
/// Cells of one group at least, if it has so many pages.
const FEWEST: usize = 8;
/// Arenas with a row of their own.
const ARENAS: usize = 12;
/// From this share of old objects on, a stretch of pages counts as old.
const OLD: f64 = 0.5;

/// The map of one process; empty if nothing of it is known page by page.
pub(super) fn section(census: &Census, gallery: &mut Gallery) -> Markup {
    let classes = census.classes.as_deref().unwrap_or_default();
    let heap = census.heap.as_ref().map(|heap| heap_groups(heap, classes)).unwrap_or_default();
    let arenas = census.malloc.as_ref().map(arena_groups).unwrap_or_default();
    let groups: Vec<CellGroup> = heap.into_iter().chain(arenas).collect();
    if groups.is_empty() {
        return markup! {};
    }
    let id = format!("map-{}", census.process);
    let title = format!("Map of process {}", census.process);
    let description = "One cell for neighbouring pages in the order of their addresses.";
    let picture = cells(&groups, Caption::new(id, &title, description));
    let aged = census.heap.as_ref().is_some_and(|heap| heap.ages.is_some());
    markup! {
        figure {
            h3 { (title) }
            figcaption {
                "Each cell is a stretch of neighbouring pages in the order of their addresses; the paler, the emptier. "
                @if aged { "Blue: most objects are old. Orange: most are young. " }
                "A single object keeps its page, so pale cells are memory that little keeps from being returned. Point at a cell to read it."
            }
            (gallery.show(picture))
        }
    }
}

/// One group for each size of slots; cells are divided among them by their pages.
fn heap_groups(heap: &HeapCensus, classes: &[ClassCount]) -> Vec<CellGroup> {
    let mut groups = Vec::new();
    for pool in &heap.pools {
        let of_pool = heap.map.iter().filter(|page| page.slot_bytes == pool.slot_bytes);
        let pages: Vec<HeapPageFill> = of_pool.copied().collect();
        if pages.is_empty() {
            continue;
        }
        // Half of the cells for the heap, by the number of pages, and some for small pools.
        let most = (CELLS / 2 * pages.len() / heap.map.len()).max(FEWEST);
        let live: u64 = pages.iter().map(|page| page.live).sum();
        let slots: u64 = pages.iter().map(|page| page.slots).sum();
        let cells = stretches(&pages, most).map(|part| heap_cell(part, heap.page_bytes, classes));
        groups.push(CellGroup {
            label: format!(
                "Slots of {} B: {}, {} full",
                pool.slot_bytes,
                count(pages.len(), "page"),
                share(live, slots)
            ),
            cells: cells.collect(),
        });
    }
    groups
}

fn heap_cell(pages: &[HeapPageFill], page_bytes: u64, classes: &[ClassCount]) -> MapCell {
    let sum = |read: fn(&HeapPageFill) -> u64| pages.iter().map(read).sum::<u64>();
    let (live, slots) = (sum(|page| page.live), sum(|page| page.slots));
    // One page without ages leaves the stretch unknown.
    let old: Option<u64> = pages.iter().map(|page| page.old).sum();
    let pinned: Option<u64> = pages.iter().map(|page| page.pinned).sum();
    let mut hover = format!(
        "{} from {:x}: {} full",
        Bytes(page_bytes * pages.len() as u64),
        pages[0].address,
        share(live, slots)
    );
    for (name, part) in [("old", old), ("pinned", pinned)] {
        if let Some(part) = part.filter(|_| live > 0) {
            hover += &format!(", {} {name}", share(part, live));
        }
    }
    if let Some(class) = most_frequent(pages, classes) {
        hover += &format!("; mostly {}", one_line(&class.name));
    }
    let old = old.map(|old| old as f64 / live.max(1) as f64);
    MapCell {
        filled: live as f64 / slots.max(1) as f64,
        // Half old: colours say what prevails.
        class: match old {
            Some(old) if old >= OLD => 1,
            Some(_) => 2,
            None => 3,
        },
        hover,
    }
}

/// The class that most pages have most slots of.
fn most_frequent<'a>(pages: &[HeapPageFill], classes: &'a [ClassCount]) -> Option<&'a ClassCount> {
    let mut numbers: Vec<u64> = pages.iter().filter_map(|page| page.class).collect();
    numbers.sort_unstable();
    // The most frequent among neighbours, because classes lie together.
    let longest = numbers.chunk_by(|one, other| one == other).max_by_key(|run| run.len())?;
    classes.get(usize::try_from(longest[0]).ok()?)
}

fn arena_groups(malloc: &MallocCensus) -> Vec<CellGroup> {
    let resident = malloc.total().resident_bytes.max(1) as f64;
    let group = |&(number, arena): &(usize, &ArenaCensus)| {
        let part = arena.resident_bytes as f64 / resident;
        let most = ((CELLS / 2) as f64 * part) as usize;
        let filled = shares(&arena.map);
        let parts = stretches(&filled, most.max(FEWEST));
        CellGroup {
            label: format!(
                "malloc, {}: {} resident, {} in use",
                arena_name(malloc, number),
                Bytes(arena.resident_bytes),
                Bytes(arena.in_use.present)
            ),
            cells: parts.map(|part| arena_cell(part, arena)).collect(),
        }
    };
    largest_arenas(malloc)
        .iter()
        .take(ARENAS)
        .filter(|(_, arena)| !arena.map.is_empty())
        .map(group)
        .collect()
}

fn arena_cell(part: &[f64], arena: &ArenaCensus) -> MapCell {
    let filled = part.iter().sum::<f64>() / part.len().max(1) as f64;
    // Its share of the arena's memory: cells have no sizes of their own.
    let bytes = arena.resident_bytes as f64 * part.len() as f64 / arena.map.len().max(1) as f64;
    let hover = format!("about {}: {} in use", Bytes(bytes as u64), percent(filled, 0));
    MapCell { filled, class: 4, hover }
}

fn share(part: u64, whole: u64) -> String {
    percent(part as f64 / whole.max(1) as f64, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AssertContains as _;
    use carat_outside::heap::PoolCensus;

    fn census(pages: usize) -> Census {
        let page = |number: usize| HeapPageFill {
            address: 0x7f00_0000_0000 + number as u64 * 65536,
            slot_bytes: 40,
            slots: 1600,
            live: if number < pages / 2 { 1600 } else { 16 },
            old: Some(if number < pages / 2 { 1600 } else { 0 }),
            pinned: None,
            class: Some(0),
        };
        let heap = HeapCensus {
            page_bytes: 65536,
            pools: vec![PoolCensus { slot_bytes: 40, ..PoolCensus::default() }],
            map: (0..pages).map(page).collect(),
            ..HeapCensus::default()
        };
        let class = ClassCount { name: "Post<".into(), ..ClassCount::default() };
        Census { process: 7, heap: Some(heap), classes: Some(vec![class]), ..Census::default() }
    }

    #[test]
    fn a_cell_says_how_full_its_pages_are_and_which_class_fills_them() {
        let mut gallery = Gallery::default();
        let text = section(&census(4), &mut gallery).into_string();
        text.assert_contains([
            "Slots of 40 B: 4 pages, 50 % full",
            "65.5 kB from 7f0000000000: 100 % full, 100 % old; mostly Post&lt;",
            "65.5 kB from 7f0000020000: 1 % full, 0 % old; mostly Post&lt;",
            "cell o5",
            "cell o0",
        ]);
    }

    #[test]
    fn the_map_of_a_large_heap_stays_small_and_without_pages_there_is_none() {
        let mut gallery = Gallery::default();
        let text = section(&census(20_000), &mut gallery).into_string();
        assert!(text.len() < 100_000, "{} bytes", text.len());
        assert!(text.matches("<rect").count() <= CELLS, "{}", text.matches("<rect").count());
        let without_pages = section(&Census::default(), &mut gallery);
        assert_eq!(without_pages.into_string(), "");
    }
}
