//! The least memory that the application of a forking server could have, from the parts of one ledger.

use super::{Basis, Ledger, LedgerPart, PartKind, ProcessLedger};
use crate::units::Bytes;

impl Ledger {
    /// The least memory that this tree could have, in bytes: what the application loaded once, and what each process needs
    /// besides.
    ///
    /// ```text
    /// least  = Σ PSS of stacks, JIT code and shared memory            of every Ruby
    ///        + Σ private code and files + the largest shared amount   of every Ruby
    ///        + Σ PSS                                                  of every other program
    ///        + Σ live                                                 of every Ruby that no Ruby of the tree forked
    ///        + Σ kept × max(0, live − live of the parent)             of every Ruby that another one forked
    ///
    /// live   = resident slots with an object, transient heap, and malloc in use
    /// kept   = max(0, old objects − objects of the parent) / (objects − objects of the parent), at most 1
    /// ```
    ///
    /// The proportional figure of code and files would depend on which other programs happen to map the same libraries.
    ///
    /// `kept` is the share of the additional objects of a worker that have survived several collections. The others may be
    /// garbage that no collection has freed yet. How much of it there is depends on the settings and not on the application.
    ///
    /// The least is too small by what workers change of what they inherit, and by their young objects that are in use: no
    /// part of the ledger tells either. It is too large by garbage of the parent, and by everything that workers load
    /// themselves although the parent could have loaded it.
    ///
    /// `None` where no Ruby forked another, a Ruby could not be read, or one does not tell live memory from free.
    pub fn least(&self) -> Option<Bytes> {
        let rubies = self.rubies()?;
        // Other programs are part of the tree's memory, and no setting of Ruby changes them.
        let others = self.processes.iter().filter(|process| process.basis == Basis::ProcOnly);
        let mut least: Bytes = others.map(|process| process.pss).sum();
        least = least + own_files(&rubies);
        // Without a fork there is nothing that could be shared better.
        let mut has_forked = false;
        for ruby in &rubies {
            let live = HeapsInUse::of(ruby)?;
            let parent = rubies.iter().find(|other| Some(other.pid) == ruby.parent);
            has_forked |= parent.is_some();
            let needed = match parent {
                // A worker needs only what it keeps beyond what it inherited.
                Some(parent) => live.kept_beyond(&HeapsInUse::of(parent)?),
                None => live.bytes,
            };
            least = least + ruby.beside_heaps() + needed;
        }
        (has_forked && least.0 > 0).then_some(least)
    }

    /// Memory as a multiple of [`Ledger::least`]: proportional, but of code and files what this tree needs by itself.
    pub fn over_least(&self) -> Option<f64> {
        let (least, rubies) = (self.least()?, self.rubies()?);
        let proportional: Bytes = files(&rubies).map(|files| files.pss).sum();
        // Files as this tree alone would have them, the same as in the least.
        let own = self.pss.saturating_sub(proportional) + own_files(&rubies);
        Some(own.0 as f64 / least.0 as f64)
    }
}

fn files<'a>(rubies: &'a [&ProcessLedger]) -> impl Iterator<Item = &'a LedgerPart> {
    let parts = rubies.iter().flat_map(|ruby| &ruby.parts);
    parts.filter(|part| part.kind == PartKind::CodeAndFiles)
}

/// What code and files would need if nothing outside the tree mapped them: what each process has alone, and what they share
/// once.
fn own_files(rubies: &[&ProcessLedger]) -> Bytes {
    let alone: Bytes = files(rubies).map(|files| files.private).sum();
    // Shared files need to be in memory once, as much as the process with most of them uses.
    let shared = files(rubies).map(|files| files.resident.saturating_sub(files.private)).max();
    alone + shared.unwrap_or_default()
}

impl ProcessLedger {
    /// PSS of the parts that are neither Ruby's slots, nor malloc's memory, nor files.
    fn beside_heaps(&self) -> Bytes {
        let parts = self.parts.iter().filter(|part| {
            part.kind != PartKind::CodeAndFiles && !PartKind::HEAPS.contains(&part.kind)
        });
        parts.map(|part| part.pss).sum()
    }
}

/// What is in use in the heaps of one Ruby.
struct HeapsInUse {
    /// Resident bytes.
    bytes: Bytes,
    /// Slots that hold an object.
    objects: u64,
    /// Objects that have survived several collections.
    old: u64,
}

impl HeapsInUse {
    /// `None` where slots cannot be told from malloc, or live memory from free.
    fn of(process: &ProcessLedger) -> Option<Self> {
        let heap = process.heap.as_ref()?;
        let (mut bytes, mut told_apart) = (Bytes(0), 0);
        for part in &process.parts {
            match part.kind {
                PartKind::SlotsLive | PartKind::MallocLive => told_apart += 1,
                // Live by definition: dead contents are dropped with their young objects.
                PartKind::TransientHeap => {}
                PartKind::Malloc | PartKind::SlotsOrMalloc => return None,
                _ => continue,
            }
            bytes = bytes + part.resident;
        }
        let (objects, old) = (heap.live_slots?, heap.old_objects?);
        // Slots and malloc both: one of them alone is no sum of live memory.
        (told_apart == 2).then_some(Self { bytes, objects, old })
    }

    /// Bytes by which it exceeds its parent, as far as the additional objects have survived collections.
    fn kept_beyond(&self, parent: &Self) -> Bytes {
        // A worker may have freed what it inherited, and then needs nothing more.
        let more = self.bytes.saturating_sub(parent.bytes);
        let objects = self.objects.saturating_sub(parent.objects);
        // Old objects beyond all of the parent's: inherited ones are old in the worker as well.
        let kept = self.old.saturating_sub(parent.objects).min(objects);
        if objects == 0 {
            return Bytes(0);
        }
        Bytes((more.0 as f64 * (kept as f64 / objects as f64)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::RubyHeap;
    use crate::ledger::tests::{part, ruby, tree};

    /// A Ruby with code of 10 bytes, and slots and malloc of which this much is in use. Every object has one byte of slots.
    fn process((pid, parent): (u32, u32), slots: u64, malloc: u64, old: u64) -> ProcessLedger {
        let heap =
            RubyHeap { live_slots: Some(slots), old_objects: Some(old), ..RubyHeap::default() };
        let parts = vec![
            part(PartKind::CodeAndFiles, 7),
            part(PartKind::Stacks, 3),
            part(PartKind::SlotsLive, slots),
            part(PartKind::SlotsFree, 1000),
            part(PartKind::MallocLive, malloc),
            part(PartKind::MallocFree, 2000),
            part(PartKind::AllocatorOverhead, 4000),
        ];
        ProcessLedger { heap: Some(heap), parts, ..ruby(pid, parent) }
    }

    fn master() -> ProcessLedger {
        process((10, 1), 600, 400, 600)
    }

    fn least(processes: &[ProcessLedger]) -> Option<u64> {
        tree(processes).least().map(|bytes| bytes.0)
    }

    #[test]
    fn what_the_parent_loaded_counts_once_and_a_worker_adds_what_it_keeps() {
        for (slots, malloc, old, kept) in [
            // A worker right after the fork.
            (600, 400, 600, 0),
            // 100 objects more, none of which has survived several collections.
            (700, 500, 600, 0),
            // Half of its additional objects have, and so half of its additional memory counts.
            (700, 500, 650, 100),
            (700, 500, 700, 200),
            // A worker that has freed some of what it inherited.
            (500, 300, 500, 0),
            // Old objects that the parent had as young ones are no more than it had.
            (600, 480, 600, 0),
            // Fewer objects with larger contents: no object is new.
            (550, 900, 550, 0),
        ] {
            let worker = |pid| process((pid, 10), slots, malloc, old);
            let found = least(&[master(), worker(11), worker(12)]);
            assert_eq!(found, Some(3 * 10 + 1000 + 2 * kept), "{slots} {malloc} {old}");
        }
    }

    #[test]
    fn a_worker_that_forked_another_is_its_parent() {
        let first = process((11, 10), 700, 500, 700);
        let second = process((12, 11), 700, 500, 700);
        assert_eq!(least(&[master(), first, second]), Some(3 * 10 + 1000 + 200));
    }

    #[test]
    fn workers_that_load_the_application_themselves_need_it_each() {
        let empty = process((10, 1), 100, 0, 100);
        let loaded = |pid| process((pid, 10), 600, 400, 600);
        assert_eq!(least(&[empty, loaded(11), loaded(12)]), Some(3 * 10 + 100 + 2 * 900));
    }

    #[test]
    fn another_program_of_the_tree_counts_as_it_is() {
        let shell = ProcessLedger {
            basis: Basis::ProcOnly,
            pss: Bytes(70),
            parts: vec![part(PartKind::SlotsOrMalloc, 70)],
            ..ruby(9, 1)
        };
        let worker = process((11, 10), 600, 400, 600);
        assert_eq!(least(&[shell, master(), worker]), Some(70 + 2 * 10 + 1000));
    }

    #[test]
    fn memory_over_the_least_is_a_multiple_of_it() {
        let cluster = [master(), process((11, 10), 600, 400, 600)];
        let ledger = Ledger { pss: Bytes(1530), ..tree(&cluster) };
        assert_eq!(ledger.over_least(), Some(1.5));
    }

    #[test]
    fn programs_outside_the_tree_that_map_the_same_libraries_change_nothing() {
        let multiple = |pss| {
            // Seven bytes of files in each of two processes, of which four are shared.
            let files = LedgerPart {
                private: Bytes(3),
                resident: Bytes(7),
                ..part(PartKind::CodeAndFiles, pss)
            };
            let with_files = |mut process: ProcessLedger| {
                process.parts[0] = files;
                process
            };
            let cluster = [with_files(master()), with_files(process((11, 10), 600, 400, 600))];
            let ledger = Ledger { pss: Bytes(2000 + 2 * pss), ..tree(&cluster) };
            (ledger.least(), ledger.over_least())
        };
        // Shared by both with each other only, and with many others.
        assert_eq!(multiple(5).0, Some(Bytes(2 * 3 + 2 * 3 + 4 + 1000)));
        assert_eq!(multiple(5), multiple(3));
    }

    #[test]
    fn the_least_is_unknown_where_nothing_forked_or_live_memory_is_not_told_from_free() {
        assert_eq!(least(&[]), None);
        assert_eq!(least(&[master()]), None, "one process");
        assert_eq!(least(&[master(), process((11, 9), 600, 400, 600)]), None, "two boots");
        let with = |edit: fn(&mut ProcessLedger)| {
            let mut worker = process((11, 10), 600, 400, 600);
            edit(&mut worker);
            least(&[master(), worker])
        };
        assert_eq!(with(|_| {}), Some(1020));
        let edits: [fn(&mut ProcessLedger); 8] = [
            |worker| worker.heap = None,
            |worker| worker.heap.iter_mut().for_each(|heap| heap.live_slots = None),
            |worker| worker.heap.iter_mut().for_each(|heap| heap.old_objects = None),
            |worker| worker.parts.retain(|part| part.kind != PartKind::SlotsLive),
            |worker| worker.parts.retain(|part| part.kind != PartKind::MallocLive),
            |worker| worker.parts.push(part(PartKind::Malloc, 1)),
            |worker| worker.parts.push(part(PartKind::SlotsOrMalloc, 1)),
            |worker| worker.basis = Basis::ProcOnly,
        ];
        for edit in edits {
            assert_eq!(with(edit), None);
        }
        let mut unread = tree(&[master(), process((11, 10), 600, 400, 600)]);
        unread.unread.push("12: it ended".into());
        assert_eq!(unread.least(), None);
    }
}
