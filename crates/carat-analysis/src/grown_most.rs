//! What of a difference between two readings one looks at first: how much larger the tree is, and the part, the files, the
//! threads, the class and the size of malloc's chunks that grew most.

use crate::census_difference::{
    CensusDifference, CensusFigure, ClassChange, ExplainedTree, FigureChange, LostSize,
};
use crate::used_files::{mapped_files, open_files};
use carat_model::Bytes;
use carat_model::ledger::{Ledger, PartKind};
use std::collections::BTreeMap;

/// Below this share of the growth a class or file is not what grew.
const WORTH_NAMING: i128 = 20;

/// A growth in bytes, and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrownFile {
    /// The file's path, as the kernel shows it.
    pub name: String,
    /// Bytes that it has more than before: of its pages in memory if it is mapped, of its size if it is only open. A ledger
    /// does not list a file below 1 MB, so one that was smaller counts as new.
    pub bytes: i128,
}

/// What grew most. Nothing of it is set where the tree did not grow, or where its size is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrownMost {
    /// Proportional bytes of the tree before and after; `None` where a ledger is missing.
    pub all: Option<(u64, u64)>,
    /// The part of memory.
    pub part: Option<FigureChange>,
    /// Mapped files, where code and files grew most; the largest growth first.
    pub mapped: Vec<GrownFile>,
    /// Threads more than before, where stacks grew most.
    pub threads: Option<i128>,
    /// The class with the largest growth of bytes, if it is a twentieth of the tree's at least.
    pub class: Option<ClassChange>,
    /// The chunks that nobody holds, where they grew by a twentieth of the tree's growth at least.
    pub lost: Option<LostSize>,
    /// Files in memory that are only held open, so in no figure of the processes.
    pub open: Vec<GrownFile>,
}

/// What grew most between two readings.
pub fn grown_most(
    difference: &CensusDifference,
    before: &ExplainedTree,
    after: &ExplainedTree,
) -> GrownMost {
    let all = difference.figures.iter().find(|one| one.figure == CensusFigure::AllMemory);
    let growth = all.and_then(FigureChange::growth).unwrap_or(0);
    let all = all.and_then(|one| one.before.zip(one.after));
    let open = grown_files(&only_open(&before.ledger), &only_open(&after.ledger));
    if growth <= 0 {
        return GrownMost { all, open, ..GrownMost::default() };
    }
    let is_worth = |bytes: i128| bytes > 0 && bytes * WORTH_NAMING >= growth;
    let parts = difference.figures.iter().filter(|one| is_part(one.figure));
    let part = parts.max_by_key(|one| one.growth());
    let part = part.filter(|one| one.growth().is_some_and(is_worth)).copied();
    let is_largest = |kind| part.is_some_and(|one| one.figure == CensusFigure::Part(kind));
    let mapped = match is_largest(PartKind::CodeAndFiles) {
        true => grown_files(&mapped_files(&before.ledger), &mapped_files(&after.ledger)),
        false => Vec::new(),
    };
    let threads = is_largest(PartKind::Stacks).then(|| more_threads(&before.ledger, &after.ledger));
    let classes = difference.classes.iter().flatten();
    let class = classes.max_by_key(|one| one.bytes()).filter(|one| is_worth(one.bytes())).cloned();
    // The first grew most.
    let lost = difference.lost.first();
    let lost = lost.filter(|one| one.growth().is_some_and(|(bytes, _)| is_worth(bytes))).copied();
    GrownMost { all, part, mapped, threads: threads.flatten(), class, lost, open }
}

/// Whether a figure is a part of the tree's memory; the others count objects, or a part of a part.
fn is_part(figure: CensusFigure) -> bool {
    match figure {
        CensusFigure::LiveSlotBytes
        | CensusFigure::FreeSlotBytes
        | CensusFigure::MallocBytes
        | CensusFigure::FreeMallocBytes
        | CensusFigure::Part(_) => true,
        CensusFigure::Processes
        | CensusFigure::Objects
        | CensusFigure::EmptyPages
        | CensusFigure::MallocChunks
        | CensusFigure::ThinMallocBytes
        | CensusFigure::LostBytes
        | CensusFigure::UnsweptBytes
        | CensusFigure::UnreachedSlotBytes
        | CensusFigure::UnreachedMallocBytes
        | CensusFigure::AllMemory => false,
    }
}

/// The files of which there is more than before, the largest growth first.
fn grown_files<'a>(
    before: &BTreeMap<&'a str, Bytes>,
    after: &BTreeMap<&'a str, Bytes>,
) -> Vec<GrownFile> {
    let grown = after.iter().map(|(name, bytes)| GrownFile {
        name: (*name).to_owned(),
        bytes: i128::from(bytes.0) - i128::from(before.get(name).map_or(0, |bytes| bytes.0)),
    });
    let mut grown: Vec<GrownFile> = grown.filter(|one| one.bytes > 0).collect();
    grown.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    grown
}

/// Files in memory that are only held open.
fn only_open(ledger: &Ledger) -> BTreeMap<&str, Bytes> {
    open_files(ledger).into_iter().map(|(name, (bytes, _))| (name, bytes)).collect()
}

/// `None` where a process does not say how many it has.
fn more_threads(before: &Ledger, after: &Ledger) -> Option<i128> {
    let threads = |ledger: &Ledger| {
        ledger.processes.iter().map(|process| process.threads.map(i128::from)).sum::<Option<i128>>()
    };
    Some(threads(after)? - threads(before)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::census_difference;
    use carat_model::ledger::{FileUse, LedgerPart, ProcessLedger};

    const MB: u64 = 1_000_000;

    fn tree(parts: &[(PartKind, u64)], threads: u32, files: Vec<FileUse>) -> ExplainedTree {
        let parts: Vec<LedgerPart> = parts
            .iter()
            .map(|&(kind, pss)| {
                let pss = Bytes(pss * MB);
                LedgerPart { kind, pss, private: pss, resident: pss }
            })
            .collect();
        let pss = parts.iter().map(|part| part.pss).sum();
        let process =
            ProcessLedger { pid: 1, threads: Some(threads), files, ..ProcessLedger::default() };
        let ledger = Ledger { pss, parts, processes: vec![process], ..Ledger::default() };
        ExplainedTree { ledger, ..ExplainedTree::default() }
    }

    fn found(before: &ExplainedTree, after: &ExplainedTree) -> GrownMost {
        grown_most(&census_difference(before, after), before, after)
    }

    fn file(name: &str, megabytes: u64, mapped: bool) -> FileUse {
        FileUse { name: name.into(), bytes: Bytes(megabytes * MB), mapped }
    }

    #[test]
    fn the_part_that_grew_most_is_named_with_its_files_or_its_threads() {
        use PartKind::{CodeAndFiles, Stacks};
        let small = tree(&[(CodeAndFiles, 20), (Stacks, 1)], 5, vec![file("a.db", 1, true)]);
        let files = vec![file("a.db", 41, true), file("b.so", 0, true)];
        let mapping = found(&small, &tree(&[(CodeAndFiles, 60), (Stacks, 2)], 9, files));
        assert_eq!(mapping.all, Some((21 * MB, 62 * MB)));
        assert_eq!(mapping.part.map(|one| one.figure), Some(CensusFigure::Part(CodeAndFiles)));
        assert_eq!(mapping.mapped, [GrownFile { name: "a.db".into(), bytes: 40_000_000 }]);
        assert_eq!(mapping.threads, None);
        let threads = found(&small, &tree(&[(CodeAndFiles, 20), (Stacks, 11)], 405, Vec::new()));
        assert_eq!(threads.threads, Some(400));
        assert!(threads.mapped.is_empty());
    }

    #[test]
    fn a_tree_that_shrank_has_nothing_that_grew_but_files_that_it_only_holds_open_are_said() {
        let before = tree(&[(PartKind::Stacks, 9)], 5, Vec::new());
        let after = tree(&[(PartKind::Stacks, 8)], 5, vec![file("/memfd:x (deleted)", 67, false)]);
        let change = found(&before, &after);
        assert_eq!((change.part, change.class.is_none()), (None, true));
        assert_eq!(change.open[0].bytes, 67_000_000);
        assert_eq!(found(&ExplainedTree::default(), &after).all, None);
    }

    #[test]
    fn a_file_that_a_process_maps_is_not_said_to_be_only_held_open() {
        let before = tree(&[(PartKind::Stacks, 9)], 5, Vec::new());
        let files = vec![file("/memfd:x", 40, false), file("/memfd:x", 40, true)];
        let change = found(&before, &tree(&[(PartKind::Stacks, 9)], 5, files));
        assert_eq!(change.open, []);
    }
}
