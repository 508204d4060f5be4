//! The files of a tree by name, as its ledger lists them.

use carat_model::Bytes;
use carat_model::ledger::{FileUse, Ledger};
use std::collections::BTreeMap;

/// Files of data that are mapped, with their share of the tree's memory.
pub(crate) fn mapped_files(ledger: &Ledger) -> BTreeMap<&str, Bytes> {
    let mut sums: BTreeMap<&str, Bytes> = BTreeMap::new();
    let files = ledger.processes.iter().flat_map(|process| &process.files);
    for file in files.filter(|file| file.mapped) {
        let sum = sums.entry(&file.name).or_default();
        *sum = *sum + file.bytes;
    }
    sums
}

/// Files in memory that are open and not mapped, with the first process that has them open.
pub(crate) fn open_files(ledger: &Ledger) -> BTreeMap<&str, (Bytes, u32)> {
    // A file that any process maps is in its memory, and counted there.
    let all =
        || ledger.processes.iter().flat_map(|one| one.files.iter().map(|file| (one.pid, file)));
    let is_mapped =
        |file: &FileUse| all().any(|(_, other)| other.mapped && other.name == file.name);
    let mut open: BTreeMap<&str, (Bytes, u32)> = BTreeMap::new();
    for (pid, file) in all().filter(|(_, file)| !file.mapped) {
        if !is_mapped(file) {
            // The largest of them, not their sum: the same pages would count once for each.
            // Processes that were forked hold the same file open.
            let most = open.entry(&file.name).or_insert((Bytes(0), pid));
            most.0 = most.0.max(file.bytes);
        }
    }
    open
}
