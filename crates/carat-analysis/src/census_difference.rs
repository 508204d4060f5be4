//! What changed between two readings from outside, such as before and after a deploy.

use carat_model::ClassAmount;
use carat_model::ledger::{Ledger, PartKind};
use carat_outside::census::Census;
use carat_outside::malloc::{ChunkAmount, MallocCensus};
use carat_outside::owners::NOBODY_SIZES;
use std::collections::BTreeMap;

/// One class before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassChange {
    /// The class's name.
    pub name: String,
    /// Before; nothing for a class that is new.
    pub before: ClassAmount,
    /// After; nothing for a class that is gone.
    pub after: ClassAmount,
}

impl ClassChange {
    /// Change of the bytes that are known on both sides.
    pub fn bytes(&self) -> i128 {
        // Bytes of malloc count only where both readings have them, or all would be a change.
        let malloc = match (self.before.malloc_bytes, self.after.malloc_bytes) {
            (Some(before), Some(after)) => i128::from(after) - i128::from(before),
            _ => 0,
        };
        i128::from(self.after.slot_bytes) - i128::from(self.before.slot_bytes) + malloc
    }

    /// Change of the number of objects.
    pub fn objects(&self) -> i128 {
        i128::from(self.after.objects) - i128::from(self.before.objects)
    }
}

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CensusFigure {
    /// Rubies that were read.
    Processes,
    /// Slots with an object.
    Objects,
    /// Bytes of slots with an object.
    LiveSlotBytes,
    /// Bytes of slots without an object.
    FreeSlotBytes,
    /// Heap pages without an object.
    EmptyPages,
    /// Chunks of malloc in use.
    MallocChunks,
    /// Bytes of malloc in use.
    MallocBytes,
    /// Bytes that malloc holds and nobody uses.
    FreeMallocBytes,
    /// Bytes of malloc's resident pages that are less than a tenth full.
    ThinMallocBytes,
    /// Bytes of chunks that nobody holds.
    LostBytes,
    /// Bytes of slots with garbage that the last collection found and that is not swept yet.
    UnsweptBytes,
    /// Bytes of slots with objects that nothing reaches.
    UnreachedSlotBytes,
    /// Bytes of malloc that only such objects hold.
    UnreachedMallocBytes,
    /// Proportional bytes of a part of the ledger that is neither slots nor malloc.
    Part(PartKind),
    /// Proportional bytes of all memory.
    AllMemory,
}

/// One figure before and after; `None` where a process of that reading does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FigureChange {
    /// What it counts.
    pub figure: CensusFigure,
    pub before: Option<u64>,
    pub after: Option<u64>,
}

impl FigureChange {
    /// By how much it grew; `None` where a reading does not say.
    pub fn growth(&self) -> Option<i128> {
        Some(i128::from(self.after?) - i128::from(self.before?))
    }
}

/// Chunks of one size that nobody holds, before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostSize {
    /// Bytes of a chunk.
    pub size: u64,
    /// Before; `None` if they were fewer than a reading lists.
    pub before: Option<ChunkAmount>,
    /// After.
    pub after: ChunkAmount,
}

impl LostSize {
    /// Change of their bytes in memory, and of their number.
    pub fn growth(&self) -> Option<(i128, i128)> {
        let before = self.before?;
        let bytes = i128::from(self.after.present) - i128::from(before.present);
        Some((bytes, i128::from(self.after.chunks) - i128::from(before.chunks)))
    }

    /// Bytes by which they became more at least, if so many are not listed.
    fn least_growth(&self, unlisted: u64) -> i128 {
        // A size with fewer chunks than before is no leak, even if more of it is in memory.
        match self.growth() {
            Some((bytes, chunks)) if chunks > 0 => bytes,
            Some(_) => 0,
            // Not listed before means at most as much as the smallest that was.
            None => i128::from(self.after.present) - i128::from(unlisted),
        }
    }
}

/// What changed between two readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CensusDifference {
    /// Versions of Ruby before and after; each once.
    pub rubies: (Vec<String>, Vec<String>),
    /// Totals.
    pub figures: Vec<FigureChange>,
    /// Classes whose objects or bytes changed, the largest change of bytes first; `None` where a reading has no classes.
    pub classes: Option<Vec<ClassChange>>,
    /// Sizes of which nobody holds more chunks than before, the largest growth first: a leak of native memory. Empty where a
    /// reading does not say who holds chunks.
    pub lost: Vec<LostSize>,
}

/// One reading: the kernel's ledger of a tree, and what was read of its Rubies from outside.
#[derive(Debug, Clone, Default)]
pub struct ExplainedTree {
    /// The ledger.
    pub ledger: Ledger,
    /// One for each Ruby.
    pub rubies: Vec<Census>,
}

/// Compares two readings, each summed over its processes.
pub fn census_difference(before: &ExplainedTree, after: &ExplainedTree) -> CensusDifference {
    let ledgers = (&before.ledger, &after.ledger);
    let (before, after) = (&before.rubies, &after.rubies);
    let classes = classes_of(before).zip(classes_of(after));
    let figures = FIGURES.iter().map(|&(figure, read)| FigureChange {
        figure,
        before: total(before, read),
        after: total(after, read),
    });
    CensusDifference {
        rubies: (rubies(before), rubies(after)),
        figures: figures.chain(part_changes(ledgers.0, ledgers.1)).collect(),
        classes: classes.map(|(before, after)| changed(&before, &after)),
        lost: lost_sizes(before)
            .zip(lost_sizes(after))
            .map_or_else(Vec::new, |(b, a)| grown(&b, &a)),
    }
}

/// The chunks that nobody holds by size, and the bytes that a size has at most which is not among them.
fn lost_sizes(reading: &[Census]) -> Option<(BTreeMap<u64, ChunkAmount>, u64)> {
    let (mut sums, mut unlisted) = (BTreeMap::<u64, ChunkAmount>::new(), 0);
    for census in reading {
        let sizes = &census.owners.as_ref()?.nobody_sizes;
        // Lists of one process without sizes leave the sum unknown.
        for one in sizes {
            let sum = sums.entry(one.size).or_default();
            *sum = sum.plus(one.amount);
        }
        // A full list was cut off: smaller sizes may be missing from it.
        if sizes.len() >= NOBODY_SIZES {
            unlisted += sizes.last().map_or(0, |last| last.amount.present);
        }
    }
    Some((sums, unlisted))
}

/// The sizes with more chunks than before, the one that grew most first.
fn grown(
    (before, unlisted): &(BTreeMap<u64, ChunkAmount>, u64),
    (after, _): &(BTreeMap<u64, ChunkAmount>, u64),
) -> Vec<LostSize> {
    // Only where every list was complete is a missing size really none.
    let none = (*unlisted == 0).then(ChunkAmount::default);
    let sizes = after.iter().map(|(size, after)| {
        let before = before.get(size).copied().or(none);
        LostSize { size: *size, before, after: *after }
    });
    let mut grown: Vec<LostSize> = sizes.filter(|one| one.least_growth(*unlisted) > 0).collect();
    grown.sort_by_key(|one| std::cmp::Reverse(one.least_growth(*unlisted)));
    grown
}

type ReadFigure = fn(&Census) -> Option<u64>;

/// Every figure and where a reading has it.
const FIGURES: [(CensusFigure, ReadFigure); 13] = [
    (CensusFigure::Processes, |_| Some(1)),
    (CensusFigure::Objects, |census| Some(census.heap.as_ref()?.live_slots())),
    (CensusFigure::LiveSlotBytes, |census| Some(census.heap.as_ref()?.live_bytes)),
    (CensusFigure::FreeSlotBytes, |census| Some(census.heap.as_ref()?.free_bytes)),
    (CensusFigure::EmptyPages, |census| {
        let heap = census.heap.as_ref()?;
        Some(heap.pages_without_objects + heap.empty_pages)
    }),
    (CensusFigure::MallocChunks, |census| Some(in_use(census.malloc.as_ref()?).0)),
    (CensusFigure::MallocBytes, |census| Some(in_use(census.malloc.as_ref()?).1)),
    (CensusFigure::FreeMallocBytes, |census| Some(census.malloc.as_ref()?.total().free_bytes())),
    (CensusFigure::ThinMallocBytes, |census| {
        Some(census.malloc.as_ref()?.total().occupancy.nearly_free())
    }),
    (CensusFigure::LostBytes, |census| Some(census.owners.as_ref()?.nobody.present)),
    (CensusFigure::UnsweptBytes, |census| Some(census.heap.as_ref()?.unswept?.bytes)),
    (CensusFigure::UnreachedSlotBytes, |census| Some(census.reach.as_ref()?.unreached_slot_bytes)),
    (CensusFigure::UnreachedMallocBytes, |census| {
        Some(census.reach.as_ref()?.unreached_chunks.present)
    }),
];

/// The parts of the ledgers that no figure of a Ruby has, and their sums.
fn part_changes(before: &Ledger, after: &Ledger) -> Vec<FigureChange> {
    let kinds = PartKind::ALL.into_iter().filter(|kind| !is_in_census(*kind));
    let parts = kinds.map(|kind| FigureChange {
        figure: CensusFigure::Part(kind),
        before: part_bytes(before, kind),
        after: part_bytes(after, kind),
    });
    let all = FigureChange {
        figure: CensusFigure::AllMemory,
        before: all_bytes(before),
        after: all_bytes(after),
    };
    // `None` sorts below 0, so parts that neither ledger has are left out.
    parts.chain([all]).filter(|change| change.before.max(change.after) > Some(0)).collect()
}

fn is_in_census(kind: PartKind) -> bool {
    PartKind::HEAPS.contains(&kind) && kind != PartKind::TransientHeap
}

/// Proportional bytes of a part, which a ledger lists if it is not zero; `None` without a ledger.
fn part_bytes(ledger: &Ledger, kind: PartKind) -> Option<u64> {
    let found = ledger.parts.iter().find(|part| part.kind == kind);
    all_bytes(ledger).map(|_| found.map_or(0, |part| part.pss.0))
}

fn all_bytes(ledger: &Ledger) -> Option<u64> {
    // A ledger of 0 bytes is one that was not read.
    Some(ledger.pss.0).filter(|pss| *pss > 0)
}

/// Chunks in use and their bytes in memory.
fn in_use(malloc: &MallocCensus) -> (u64, u64) {
    let all = malloc.total().in_use.plus(malloc.mapped.amount);
    (all.chunks, all.present)
}

fn total(reading: &[Census], read: ReadFigure) -> Option<u64> {
    let values = reading.iter().map(read);
    // One Ruby that does not say makes the sum unknown: a part of it would look like a change.
    values.sum::<Option<u64>>().filter(|_| !reading.is_empty())
}

fn rubies(reading: &[Census]) -> Vec<String> {
    let mut versions: Vec<String> = reading.iter().map(|census| census.ruby.clone()).collect();
    versions.sort();
    versions.dedup();
    versions
}

/// The objects of all processes of a reading by class; `None` where one of them has no classes.
pub fn classes_of(reading: &[Census]) -> Option<BTreeMap<&str, ClassAmount>> {
    let mut sums: BTreeMap<&str, ClassAmount> = BTreeMap::new();
    for census in reading {
        for class in census.classes.as_ref()? {
            let amount = ClassAmount {
                objects: class.objects,
                slot_bytes: class.slot_bytes,
                malloc_bytes: class.malloc_bytes,
            };
            let sum = sums.entry(&class.name).or_insert(ClassAmount::NONE);
            *sum = sum.plus(amount);
        }
    }
    // One process that does not tell its owners leaves them unknown, also for classes that it does not have.
    if sums.values().any(|sum| sum.malloc_bytes.is_none()) {
        sums.values_mut().for_each(|sum| sum.malloc_bytes = None);
    }
    (!reading.is_empty()).then_some(sums)
}

fn changed(
    before: &BTreeMap<&str, ClassAmount>,
    after: &BTreeMap<&str, ClassAmount>,
) -> Vec<ClassChange> {
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    // Classes that are gone too: what disappeared is a change.
    let names = after.keys().chain(gone);
    // A class that one reading does not have holds nothing there.
    let known = |sums: &BTreeMap<&str, ClassAmount>| {
        sums.values().any(|amount| amount.malloc_bytes.is_some()).then_some(0)
    };
    let none = [known(before), known(after)]
        .map(|malloc_bytes| ClassAmount { malloc_bytes, ..ClassAmount::default() });
    let mut changes: Vec<ClassChange> = names
        .map(|&name| ClassChange {
            name: name.to_owned(),
            before: before.get(name).copied().unwrap_or(none[0]),
            after: after.get(name).copied().unwrap_or(none[1]),
        })
        .filter(|change| change.objects() != 0 || change.bytes() != 0)
        .collect();
    changes.sort_by_key(|change| {
        // By size without the sign: a class that shrank much is as telling as one that grew.
        (std::cmp::Reverse(change.bytes().abs()), std::cmp::Reverse(change.objects().abs()))
    });
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::Bytes;
    use carat_model::ledger::LedgerPart;
    use carat_outside::heap::{ClassCount, HeapCensus, SlotAmount};
    use carat_outside::malloc::ChunkSize;
    use carat_outside::owners::OwnerCensus;

    fn compared(before: &[Census], after: &[Census]) -> CensusDifference {
        let tree =
            |rubies: &[Census]| ExplainedTree { rubies: rubies.to_vec(), ..Default::default() };
        census_difference(&tree(before), &tree(after))
    }

    fn census(classes: &[(&str, u64, Option<u64>)]) -> Census {
        let class = |&(name, objects, malloc_bytes): &(&str, u64, Option<u64>)| ClassCount {
            name: name.into(),
            objects,
            slot_bytes: objects * 40,
            malloc_bytes,
            ..ClassCount::default()
        };
        let objects = classes.iter().map(|class| class.1).sum::<u64>();
        let heap = HeapCensus {
            slots: objects + 10,
            free_slots: 10,
            live_bytes: objects * 40,
            free_bytes: 400,
            ..HeapCensus::default()
        };
        Census {
            ruby: "3.1.2".into(),
            heap: Some(heap),
            classes: Some(classes.iter().map(class).collect()),
            ..Census::default()
        }
    }

    #[test]
    fn classes_are_compared_over_all_processes_and_the_largest_change_is_first() {
        let before = [census(&[("String", 100, None), ("Old", 5, None), ("Same", 7, None)])];
        let after = [
            census(&[("String", 90, None), ("Post", 400, None), ("Same", 7, None)]),
            census(&[("String", 30, None)]),
        ];
        let difference = compared(&before, &after);
        let classes = difference.classes.unwrap();
        let names: Vec<(&str, i128)> =
            classes.iter().map(|change| (change.name.as_str(), change.objects())).collect();
        assert_eq!(names, [("Post", 400), ("String", 20), ("Old", -5)]);
        let objects = difference.figures.iter().find(|one| one.figure == CensusFigure::Objects);
        assert_eq!(objects.map(|one| (one.before, one.after)), Some((Some(112), Some(527))));
    }

    #[test]
    fn memory_of_malloc_counts_where_both_readings_know_it() {
        let before = [census(&[("String", 10, Some(1000))])];
        let after = [census(&[("String", 10, Some(5000)), ("Post", 1, Some(64))])];
        let classes = compared(&before, &after).classes.unwrap();
        assert_eq!(classes[0].bytes(), 4000);
        assert_eq!(classes[1].bytes(), 104);
        let unread = [census(&[("String", 10, None)])];
        assert!(compared(&before, &unread).classes.unwrap().is_empty());
    }

    #[test]
    fn sizes_that_nobody_holds_more_of_are_a_leak() {
        let reading = |sizes: &[(u64, u64)]| {
            let size = |&(size, chunks): &(u64, u64)| ChunkSize {
                size,
                amount: ChunkAmount::resident(chunks, size * chunks),
            };
            let nobody_sizes = sizes.iter().map(size).collect();
            let owners = OwnerCensus { nobody_sizes, ..OwnerCensus::default() };
            vec![Census { owners: Some(owners), ..Census::default() }]
        };
        let (before, after) =
            (reading(&[(64, 9), (32, 10)]), reading(&[(32, 1010), (48, 2), (64, 3)]));
        let lost = compared(&before, &after).lost;
        let seen: Vec<_> = lost.iter().map(|one| (one.size, one.growth())).collect();
        assert_eq!(seen, [(32, Some((32_000, 1000))), (48, Some((96, 2)))]);
        let many: Vec<(u64, u64)> = (1..=32).map(|number| (number * 1000, 1)).collect();
        let lost = compared(&reading(&many), &after).lost;
        assert_eq!((lost.len(), lost[0].size, lost[0].before), (1, 32, None));
        assert!(compared(&[Census::default()], &after).lost.is_empty());
    }

    #[test]
    fn a_figure_that_one_process_lacks_is_unknown() {
        let whole = census(&[("String", 1, None)]);
        let partial = Census { heap: None, ..whole.clone() };
        let difference = compared(&[whole.clone(), partial], &[whole]);
        let objects = difference.figures.iter().find(|one| one.figure == CensusFigure::Objects);
        assert_eq!(objects.map(|one| (one.before, one.after)), Some((None, Some(1))));
        let malloc = difference.figures.iter().find(|one| one.figure == CensusFigure::MallocBytes);
        assert_eq!(malloc.map(|one| (one.before, one.after)), Some((None, None)));
    }

    #[test]
    fn nothing_changed_between_equal_readings() {
        let same = [census(&[("String", 5, Some(9))])];
        let difference = compared(&same, &same);
        assert_eq!(difference.classes, Some(Vec::new()));
        assert!(difference.figures.iter().all(|one| one.before == one.after));
    }

    fn ledger(parts: &[(PartKind, u64)]) -> Ledger {
        let part = |&(kind, bytes)| LedgerPart {
            kind,
            pss: Bytes(bytes),
            private: Bytes(bytes),
            resident: Bytes(bytes),
        };
        let pss = Bytes(parts.iter().map(|part| part.1).sum());
        Ledger { pss, parts: parts.iter().map(part).collect(), ..Ledger::default() }
    }

    #[test]
    fn mapped_files_stacks_and_all_memory_are_compared_by_the_ledgers() {
        let files = PartKind::CodeAndFiles;
        let before = [(files, 20), (PartKind::SlotsLive, 5)];
        let after = [(files, 60), (PartKind::Stacks, 7), (PartKind::SlotsLive, 6)];
        let tree = |parts| ExplainedTree { ledger: ledger(parts), ..Default::default() };
        let figures = census_difference(&tree(&before), &tree(&after)).figures;
        let change = |figure| {
            let found = figures.iter().find(|one| one.figure == figure);
            found.map(|one| (one.before, one.after))
        };
        assert_eq!(change(CensusFigure::Part(files)), Some((Some(20), Some(60))));
        assert_eq!(change(CensusFigure::Part(PartKind::Stacks)), Some((Some(0), Some(7))));
        assert_eq!(change(CensusFigure::AllMemory), Some((Some(25), Some(73))));
        assert_eq!(change(CensusFigure::Part(PartKind::SlotsLive)), None, "the census has it");
        assert_eq!(change(CensusFigure::Part(PartKind::Jit)), None, "neither has any");
        let unknown = census_difference(&ExplainedTree::default(), &tree(&after)).figures;
        assert!(unknown.iter().any(|one| one.before.is_none() && one.after == Some(60)));
    }

    #[test]
    fn garbage_that_is_not_swept_yet_is_compared_where_it_is_known() {
        let mut census = census(&[("String", 5, None)]);
        let unknown = census.clone();
        let heap = census.heap.as_mut().unwrap();
        heap.unswept = Some(SlotAmount { slots: 2, bytes: 80 });
        let change = compared(&[unknown], &[census]).figures;
        let change = change.iter().find(|one| one.figure == CensusFigure::UnsweptBytes).unwrap();
        assert_eq!((change.before, change.after), (None, Some(80)));
    }
}
