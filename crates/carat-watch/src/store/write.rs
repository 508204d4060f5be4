//! Writes what one round found, all of it or nothing.

use crate::store::rows::{
    signed, write_census, write_event, write_group, write_process, write_sample,
};
use crate::store::{WatchStore, WatchStoreError};
use carat_model::watch::{GroupSample, WatchCensus, WatchEvent, WatchSample, WatchedProcess};
use rusqlite::params;
use std::collections::BTreeSet;

/// What is to be written. Several rounds are one batch where the disk was full in between.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// When it was complete, in Unix milliseconds.
    pub at_ms: u64,
    /// The boot of this machine (`/proc/sys/kernel/random/boot_id`).
    pub boot: Option<String>,
    /// New processes and those about which something changed.
    pub processes: Vec<WatchedProcess>,
    /// With the number of the process.
    pub samples: Vec<(i64, WatchSample)>,
    pub groups: Vec<GroupSample>,
    pub censuses: Vec<(i64, WatchCensus)>,
    pub events: Vec<WatchEvent>,
}

impl Batch {
    /// Adds what a later round found.
    pub fn append(&mut self, mut later: Self) {
        self.at_ms = later.at_ms;
        // The name of the boot may have been unreadable in the later round only.
        self.boot = later.boot.or(self.boot.take());
        self.processes.append(&mut later.processes);
        self.samples.append(&mut later.samples);
        self.groups.append(&mut later.groups);
        self.censuses.append(&mut later.censuses);
        self.events.append(&mut later.events);
    }

    /// Keeps at most so many samples, groups and readings, the latest; returns how many were dropped.
    pub fn shorten(&mut self, most: usize) -> usize {
        fn cut<T>(all: &mut Vec<T>, most: usize) -> usize {
            let excess = all.len().saturating_sub(most);
            all.drain(..excess);
            excess
        }
        // Of processes only those go that have ended, with what belongs to them: others get more samples.
        let ended = self.processes.iter().filter(|one| one.end.is_some()).count();
        let mut excess = ended.saturating_sub(most / 20);
        let mut dropped = BTreeSet::new();
        self.processes.retain(|one| {
            let goes = excess > 0 && one.end.is_some();
            excess -= usize::from(goes);
            if goes {
                dropped.insert(one.number);
            }
            !goes
        });
        self.processes.retain(|one| !dropped.contains(&one.number));
        self.samples.retain(|(of, _)| !dropped.contains(of));
        self.censuses.retain(|(of, _)| !dropped.contains(of));
        cut(&mut self.samples, most)
            + cut(&mut self.groups, most)
            + cut(&mut self.censuses, most / 20)
            + cut(&mut self.events, most / 10)
    }
}

impl WatchStore {
    /// Writes a batch in one transaction, which is on the disk when this returns.
    ///
    /// # Errors
    /// If there is no room or the store is damaged; nothing of the batch is in the store then.
    pub fn write(&mut self, batch: &Batch) -> Result<(), WatchStoreError> {
        // SQLite would go on writing to a file that nobody finds any more (sqlite.org/howtocorrupt.html).
        if !self.is_in_place() {
            return Err(WatchStoreError::Moved(self.path.clone()));
        }
        let path = self.path.clone();
        let written = self.connection.transaction().and_then(|transaction| {
            for process in &batch.processes {
                write_process(&transaction, process, batch.boot.as_deref())?;
            }
            batch.samples.iter().try_for_each(|(of, one)| write_sample(&transaction, *of, one))?;
            batch.groups.iter().try_for_each(|one| write_group(&transaction, one))?;
            batch.censuses.iter().try_for_each(|(of, one)| write_census(&transaction, *of, one))?;
            batch.events.iter().try_for_each(|one| write_event(&transaction, one))?;
            // In the same transaction: the moment says up to when everything else is complete.
            transaction.execute(
                "INSERT OR REPLACE INTO watch VALUES (1, ?1, ?2)",
                params![signed(batch.at_ms), batch.boot],
            )?;
            transaction.commit()
        });
        written.map_err(|error| WatchStoreError::of_open_store(&path, &error))
    }
}
