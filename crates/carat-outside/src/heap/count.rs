//! Counts slots by type, size, age and class in one pass over the pages.

use super::classes::{ClassId, ClassNames};
use super::data::{
    AgeCensus, ClassCount, ClassPlaces, HeapCensus, HeapLeftOut, HeapPageFill, PoolCensus,
    SlotAmount, TypeCount,
};
use super::kinds::{SlotHead, SlotType};
use super::layout::HeapPage;
use super::pages::{Bitmap, Heap};
use crate::memory::{Memory, PAGE};
use carat_ruby::version::{AGES_IN_BITMAP, TOMB_PAGES};
use std::collections::BTreeMap;

/// A page that makes no sense is read so many times more.
const READINGS: u32 = 5;
/// Share of the objects by which the bitmaps and the objects' own flags may differ: while the process runs, both move.
const BITMAP_TOLERANCE: f64 = 0.005;

/// What to count beside slots and types.
#[derive(Debug, Default)]
pub struct CountRequest<'a> {
    /// Count by class with these names.
    pub names: Option<&'a mut ClassNames>,
    /// Where the objects of this class lie; requires names.
    pub class: Option<&'a str>,
}

/// The result of a pass.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// Slots, types, ages.
    pub heap: HeapCensus,
    /// Objects by class, those with most bytes first.
    pub classes: Option<Vec<ClassCount>>,
    /// The requested class.
    pub class: Option<ClassPlaces>,
    /// What is not in the counts.
    pub left_out: HeapLeftOut,
}

/// Places of classes that were verified.
const KNOWN: usize = 1024;

/// Classes that are objects by the list of pages. Most slots have the class of a slot shortly before, and finding a page takes
/// longer than the rest of the check.
struct KnownClasses(Box<[u64; KNOWN]>);

impl KnownClasses {
    fn none() -> Self {
        Self(Box::new([0; KNOWN]))
    }

    /// Whether a class, which is not 0, is an object.
    fn verify(&mut self, heap: &Heap, class: u64) -> bool {
        let known = &mut self.0[(class / 8) as usize % KNOWN];
        if *known != class && heap.slot_of(class).is_some() {
            *known = class;
        }
        *known == class
    }
}

/// Objects of one class while they are counted.
#[derive(Debug, Clone, Copy, Default)]
struct ClassTally {
    objects: u64,
    slot_bytes: u64,
    old: u64,
}

/// The bitmaps of one page; empty where this version has none.
struct PageBitmaps<'a> {
    mark: &'a [u8],
    unprotected: &'a [u8],
    uncollectible: &'a [u8],
    pinned: &'a [u8],
    age: &'a [u8],
}

impl<'a> PageBitmaps<'a> {
    /// Reads all in one piece. What is absent was never written, so no bit of it is set.
    fn read(
        memory: &dyn Memory,
        heap: &Heap,
        page: &HeapPage,
        bytes: &'a mut Vec<u8>,
    ) -> PageBitmaps<'a> {
        let ranges = [
            Bitmap::Mark,
            Bitmap::WriteBarrierUnprotected,
            Bitmap::Uncollectible,
            Bitmap::Pinned,
            Bitmap::Age,
        ]
        .map(|bitmap| heap.bitmap_range(page, bitmap).unwrap_or_default());
        let known = ranges.iter().filter(|range| range.1 > 0);
        let start = known.clone().map(|range| range.0).min().unwrap_or(0);
        let end = known.map(|range| range.1).max().unwrap_or(0);
        bytes.resize((end - start) as usize, 0);
        memory.read_sparse(start, bytes);
        let bytes: &'a [u8] = bytes;
        let [mark, unprotected, uncollectible, pinned, age] = ranges.map(|(from, to)| {
            let part = from.saturating_sub(start) as usize..to.saturating_sub(start) as usize;
            bytes.get(part).unwrap_or_default()
        });
        Self { mark, unprotected, uncollectible, pinned, age }
    }
}

fn bit(bytes: &[u8], number: u64) -> bool {
    let byte = usize::try_from(number / 8).ok().and_then(|at| bytes.get(at));
    byte.is_some_and(|byte| byte >> (number % 8) & 1 == 1)
}

/// One object while its page is counted.
#[derive(Debug, Clone, Copy)]
struct Seen {
    head: SlotHead,
    age: usize,
    old: bool,
    pinned: bool,
}

/// Objects of each class on the current page.
#[derive(Debug, Default)]
struct PageClasses {
    counts: Vec<u64>,
    touched: Vec<ClassId>,
}

impl PageClasses {
    fn clear(&mut self) {
        for class in self.touched.drain(..) {
            self.counts[class.index()] = 0;
        }
    }

    fn add(&mut self, class: ClassId) {
        if self.counts.len() <= class.index() {
            self.counts.resize(class.index() + 1, 0);
        }
        let count = &mut self.counts[class.index()];
        if *count == 0 {
            self.touched.push(class);
        }
        *count += 1;
    }

    fn objects(&self, class: ClassId) -> u64 {
        self.counts.get(class.index()).copied().unwrap_or(0)
    }

    /// The class with most objects.
    fn most(&self) -> Option<ClassId> {
        self.touched.iter().copied().max_by_key(|class| self.objects(*class))
    }
}

/// Counts so far.
struct Pass<'a> {
    names: Option<&'a mut ClassNames>,
    wanted: Option<ClassId>,
    tallies: Vec<ClassTally>,
    places: ClassPlaces,
    ages: AgeCensus,
    uncollectible: u64,
    unswept: SlotAmount,
    types: [SlotAmount; 32],
    pools: BTreeMap<u64, PoolCensus>,
    census: HeapCensus,
    left_out: HeapLeftOut,
    place_ages: [u64; 4],
    on_page: PageClasses,
    known: KnownClasses,
    /// The bitmaps of the current page.
    descriptor: Vec<u8>,
    /// Pinned objects.
    pinned: u64,
}

/// Counts every slot of a heap. Pages that are in flux are read again, and left out if that does not help.
pub fn count(memory: &mut dyn Memory, heap: &mut Heap, request: CountRequest<'_>) -> Counted {
    let mut names = request.names;
    let wanted = match (&mut names, request.class) {
        (Some(names), Some(class)) => Some(names.id(class)),
        _ => None,
    };
    let mut pass = Pass {
        names,
        wanted,
        tallies: Vec::new(),
        places: ClassPlaces::default(),
        ages: AgeCensus::default(),
        uncollectible: 0,
        unswept: SlotAmount::default(),
        types: [SlotAmount::default(); 32],
        pools: BTreeMap::new(),
        census: HeapCensus::default(),
        left_out: HeapLeftOut::default(),
        place_ages: [0; 4],
        on_page: PageClasses::default(),
        known: KnownClasses::none(),
        descriptor: Vec::new(),
        pinned: 0,
    };
    let mut bytes = Vec::new();
    // Pages can be added while they are counted.
    let mut number = 0;
    while let Some(page) = heap.pages().get(number).copied() {
        number += 1;
        if page.slots > 0 {
            pass.page(memory, heap, page, &mut bytes);
        }
    }
    pass.finish(heap, request.class)
}

impl Pass<'_> {
    fn page(
        &mut self,
        memory: &mut dyn Memory,
        heap: &mut Heap,
        page: HeapPage,
        bytes: &mut Vec<u8>,
    ) {
        let mut page = page;
        let mut absent = heap.read_slots(memory, &page, bytes);
        let mut readings = 0;
        while let Some(odd) = odd_class(memory, heap, &page, (&bytes[..], &mut self.known)) {
            if readings == READINGS {
                self.left_out.pages_in_flux += 1;
                self.left_out.slots_in_flux += page.slots;
                return;
            }
            readings += 1;
            self.left_out.pages_read_again += u64::from(readings == 1);
            // What was verified may be what has changed.
            self.known = KnownClasses::none();
            // The class may be on a page that is newer than the list of pages.
            if let Some(class) = odd {
                heap.read_again(memory, class);
            }
            // A page that is gone has no slots to count.
            let Some(again) = heap.read_again(memory, page.address) else { return };
            page = again;
            absent = heap.read_slots(memory, &page, bytes);
        }
        if absent > 0 && !never_touched(memory, heap, &page) {
            self.left_out.pages_partly_absent += 1;
            self.left_out.slots_partly_absent += page.slots;
            return;
        }
        let mut descriptor = std::mem::take(&mut self.descriptor);
        let bitmaps = PageBitmaps::read(memory, heap, &page, &mut descriptor);
        self.slots(memory, heap, &page, (&bytes[..], &bitmaps));
        self.descriptor = descriptor;
    }

    /// Counts the slots of a page that makes sense.
    fn slots(
        &mut self,
        memory: &dyn Memory,
        heap: &Heap,
        page: &HeapPage,
        (bytes, bitmaps): (&[u8], &PageBitmaps<'_>),
    ) {
        let mut fill = HeapPageFill {
            address: page.address,
            slot_bytes: page.slot_bytes,
            slots: page.slots,
            ..HeapPageFill::default()
        };
        let (mut old, mut pinned) = (0, 0);
        self.on_page.clear();
        for number in 0..page.slots {
            let Some(head) = head_of(page, bytes, number) else { continue };
            let amount = &mut self.types[usize::from(head.slot_type().0)];
            amount.slots += 1;
            amount.bytes += page.slot_bytes;
            if head.slot_type() == SlotType::NONE {
                continue;
            }
            fill.live += 1;
            let bit_number = heap.bit_of(page, page.slot(number));
            let seen = seen(heap, head, bit_number, bitmaps);
            self.ages.by_age[seen.age] += 1;
            old += u64::from(seen.old);
            pinned += u64::from(seen.pinned);
            // Not marked on a page that waits for its sweep: dead, although the slot still has its type.
            if page.unswept() && !bit(bitmaps.mark, bit_number) {
                self.unswept.slots += 1;
                self.unswept.bytes += page.slot_bytes;
            }
            self.class(memory, heap, page, seen);
        }
        self.ages.old += old;
        self.pinned += pinned;
        fill.old = Some(old);
        fill.pinned = Some(pinned);
        fill.class = self.on_page.most().map(|class| u64::from(class.0));
        self.bitmaps(bitmaps);
        self.places(page, &fill);
        self.totals(heap, page, fill);
    }

    fn class(&mut self, memory: &dyn Memory, heap: &Heap, page: &HeapPage, seen: Seen) {
        let Some(names) = &mut self.names else { return };
        let class = names.of_slot(memory, heap, seen.head);
        if self.tallies.len() <= class.index() {
            self.tallies.resize(class.index() + 1, ClassTally::default());
        }
        let tally = &mut self.tallies[class.index()];
        tally.objects += 1;
        tally.slot_bytes += page.slot_bytes;
        tally.old += u64::from(seen.old);
        self.on_page.add(class);
        if self.wanted == Some(class) {
            self.place_ages[seen.age] += 1;
        }
    }

    fn bitmaps(&mut self, bitmaps: &PageBitmaps<'_>) {
        let pairs = bitmaps.uncollectible.iter().zip(bitmaps.unprotected);
        for (uncollectible, unprotected) in pairs {
            self.uncollectible += u64::from(uncollectible.count_ones());
            let both = (uncollectible & unprotected).count_ones();
            self.ages.remembered_unprotected += u64::from(both);
        }
    }

    /// What the page says about the requested class.
    fn places(&mut self, page: &HeapPage, fill: &HeapPageFill) {
        let objects = self.wanted.map_or(0, |class| self.on_page.objects(class));
        if objects == 0 {
            return;
        }
        self.places.objects += objects;
        self.places.slot_bytes += objects * page.slot_bytes;
        self.places.pages += 1;
        if objects == fill.live {
            self.places.pages_kept_alone += 1;
            self.places.free_bytes_kept_alone += (page.slots - fill.live) * page.slot_bytes;
        }
        let group = objects.ilog2().min(4) as usize;
        self.places.pages_by_objects[group] += 1;
    }

    fn totals(&mut self, heap: &Heap, page: &HeapPage, fill: HeapPageFill) {
        let pool = self.pools.entry(page.slot_bytes).or_default();
        pool.slot_bytes = page.slot_bytes;
        pool.pages += 1;
        pool.slots += page.slots;
        pool.live += fill.live;
        pool.listed_free += page.listed_free;
        let census = &mut self.census;
        census.pages += 1;
        census.slots += page.slots;
        census.free_slots += page.slots - fill.live;
        census.live_bytes += fill.live * page.slot_bytes;
        census.free_bytes += (page.slots - fill.live) * page.slot_bytes;
        census.pages_without_objects += u64::from(fill.live == 0);
        // A full page is in a group of its own, the eleventh.
        census.pages_by_share[(fill.live * 10 / page.slots) as usize] += 1;
        if TOMB_PAGES.contains(heap.version()) {
            *census.tomb_pages.get_or_insert(0) += u64::from(page.in_tomb());
        }
        census.map.push(fill);
    }

    /// Whether the bitmaps lie where they were read: old objects, and those that are remembered for want of a write
    /// barrier, are exactly the uncollectible ones.
    fn bitmaps_hold(&self) -> bool {
        let expected = self.ages.old + self.ages.remembered_unprotected;
        let difference = self.uncollectible.abs_diff(expected) as f64;
        self.uncollectible > 0 && difference <= self.uncollectible as f64 * BITMAP_TOLERANCE
    }

    fn finish(mut self, heap: &Heap, class: Option<&str>) -> Counted {
        let hold = self.bitmaps_hold();
        let mut census = std::mem::take(&mut self.census);
        (census.votes, census.candidates) = heap.votes();
        census.page_bytes = heap.layout().page_bytes;
        census.empty_pages = heap.empty_pages().len() as u64;
        census.empty_map = heap.empty_pages().to_vec();
        census.pools = self.pools.values().copied().collect();
        census.types = type_counts(&self.types);
        census.ages = hold.then_some(self.ages);
        // Whether a slot is marked comes from the same bitmaps as ages.
        census.unswept = hold.then_some(self.unswept);
        // A collection that compacts pins at least what the stacks point at, and every other clears the bits.
        let compacted = hold && self.pinned > 0;
        if let Some(ages) = &mut census.ages {
            ages.pinned = compacted.then_some(self.pinned);
        }
        for fill in &mut census.map {
            fill.old = fill.old.filter(|_| hold);
            fill.pinned = fill.pinned.filter(|_| compacted);
        }
        let classes = self.names.as_deref().map(|names| class_counts(names, &self.tallies, hold));
        if let Some((_, places)) = &classes {
            for fill in &mut census.map {
                let class = fill.class.and_then(|class| usize::try_from(class).ok());
                fill.class = class.and_then(|class| places.get(class).copied().flatten());
            }
        }
        // Pages that were added during the count came last.
        census.map.sort_by_key(|fill| fill.address);
        let class = class.filter(|_| classes.is_some()).map(|name| ClassPlaces {
            name: name.to_owned(),
            by_age: hold.then_some(self.place_ages),
            ..std::mem::take(&mut self.places)
        });
        let classes = classes.map(|(classes, _)| classes);
        Counted { heap: census, classes, class, left_out: self.left_out }
    }
}

/// The classes with objects, those with most bytes first, and the place of each number in that list.
fn class_counts(
    names: &ClassNames,
    tallies: &[ClassTally],
    hold: bool,
) -> (Vec<ClassCount>, Vec<Option<u64>>) {
    let mut order: Vec<usize> =
        (0..tallies.len()).filter(|number| tallies[*number].objects > 0).collect();
    order.sort_by_key(|number| std::cmp::Reverse((tallies[*number].slot_bytes, *number)));
    let mut places = vec![None; tallies.len()];
    for (place, number) in order.iter().enumerate() {
        places[*number] = Some(place as u64);
    }
    let counts = order.iter().map(|number| ClassCount {
        name: names.name(ClassId(*number as u32)).to_owned(),
        objects: tallies[*number].objects,
        slot_bytes: tallies[*number].slot_bytes,
        old: hold.then_some(tallies[*number].old),
        malloc_bytes: None,
        malloc_chunks: None,
        with_held_bytes: None,
        garbage_objects: None,
    });
    (counts.collect(), places)
}

fn type_counts(types: &[SlotAmount; 32]) -> Vec<TypeCount> {
    let named = (1..32_u8).filter_map(|number| {
        let amount = types[usize::from(number)];
        let name = SlotType(number).name().filter(|_| amount.slots > 0)?;
        Some(TypeCount { name: name.to_owned(), objects: amount.slots, slot_bytes: amount.bytes })
    });
    let mut counts: Vec<TypeCount> = named.collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.slot_bytes));
    counts
}

/// Whether what is absent of a page was never touched, so that its slots are free: it is neither in swap nor present.
fn never_touched(memory: &dyn Memory, heap: &Heap, page: &HeapPage) -> bool {
    let parts = heap.layout().page_bytes / PAGE;
    (0..parts).map(|number| page.address.saturating_add(number * PAGE)).all(|part| {
        let entry = memory.entry(part);
        let mut byte = [0];
        !entry.swapped() && (!entry.present() || memory.read(part, &mut byte))
    })
}

/// The first two words of a slot.
fn head_of(page: &HeapPage, bytes: &[u8], number: u64) -> Option<SlotHead> {
    let within = page.slot(number).checked_sub(page.address)?;
    SlotHead::of(bytes.get(usize::try_from(within).ok()?..)?)
}

fn seen(heap: &Heap, head: SlotHead, bit_number: u64, bitmaps: &PageBitmaps<'_>) -> Seen {
    let age = if AGES_IN_BITMAP.contains(heap.version()) {
        let (low, high) = heap.age_bits_of(bit_number);
        let (low, high) = (u64::from(bit(bitmaps.age, low)), u64::from(bit(bitmaps.age, high)));
        (high * 2 + low) as usize
    } else {
        head.age_in_flags()
    };
    Seen { head, age, old: head.old(heap.version()), pinned: bit(bitmaps.pinned, bit_number) }
}

/// Whether a page makes no sense: a slot with an unknown type, a free one with flags, or one whose class is no object.
///
/// Such a page was given to another slot size, or freed, after its descriptor was read. `Some(Some(address))` is a class
/// that is no object by the list of pages.
fn odd_class(
    memory: &dyn Memory,
    heap: &Heap,
    page: &HeapPage,
    (bytes, known): (&[u8], &mut KnownClasses),
) -> Option<Option<u64>> {
    for number in 0..page.slots {
        let Some(head) = head_of(page, bytes, number) else { return Some(None) };
        let kind = head.slot_type();
        // The rest of a page that is absent in part reads as zero.
        let strange = kind.name().is_none() || (kind == SlotType::NONE && head.flags != 0);
        if strange {
            return Some(None);
        }
        if kind.has_class() && head.class != 0 && !known.verify(heap, head.class) {
            let mapped = memory.region(head.class).is_some();
            return Some(mapped.then_some(head.class));
        }
    }
    None
}
