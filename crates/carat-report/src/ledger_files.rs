//! The files of data that a tree of processes keeps in memory.

use crate::lists::largest_first;
use carat_model::Bytes;
use carat_model::ledger::Ledger;
use std::collections::BTreeMap;

/// Files with their bytes over all processes, the largest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LedgerFiles<'a> {
    /// Those that are mapped.
    pub(crate) mapped: Vec<(&'a str, Bytes)>,
    /// Those that are only held open: they are in no figure of the ledger.
    pub(crate) open: Vec<(&'a str, Bytes)>,
}

impl<'a> LedgerFiles<'a> {
    pub(crate) fn of(ledger: &'a Ledger) -> Self {
        let files = || ledger.processes.iter().flat_map(|process| &process.files);
        let mut mapped: BTreeMap<&str, Bytes> = BTreeMap::new();
        for file in files().filter(|file| file.mapped) {
            // Each process has its own share of a mapped file, so shares add up.
            let sum = mapped.entry(&file.name).or_default();
            *sum = *sum + file.bytes;
        }
        // Processes that were forked hold the same file open.
        let mut open: BTreeMap<&str, Bytes> = BTreeMap::new();
        // What any process maps is counted there already.
        for file in files().filter(|file| !file.mapped && !mapped.contains_key(file.name.as_str()))
        {
            let most = open.entry(&file.name).or_default();
            *most = (*most).max(file.bytes);
        }
        let [mapped, open] = [mapped, open].map(|files| largest_first(files, |(_, bytes)| *bytes));
        Self { mapped, open }
    }
}
