//! The clock of the machine was set back: what was written before is moved, so that it stays before what follows.

use crate::store::rows::signed;
use crate::store::{Batch, WatchStore, WatchStoreError};
use rusqlite::{Connection, params};

/// Times from a moment on are too late by the clock of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetBack {
    /// In Unix milliseconds, by the clock before.
    pub from_ms: u64,
    /// Milliseconds, at most as many as `from_ms`.
    pub by_ms: u64,
}

impl SetBack {
    /// Moves a time.
    pub(crate) fn apply(self, at_ms: &mut u64) {
        if *at_ms >= self.from_ms {
            *at_ms -= self.by_ms;
        }
    }
}

impl Batch {
    /// Moves what is not written yet.
    pub(crate) fn set_back(&mut self, back: SetBack) {
        for process in &mut self.processes {
            back.apply(&mut process.first_ms);
            process.end.iter_mut().for_each(|end| back.apply(&mut end.at_ms));
        }
        self.samples.iter_mut().for_each(|(_, one)| back.apply(&mut one.at_ms));
        self.groups.iter_mut().for_each(|one| back.apply(&mut one.at_ms));
        self.events.iter_mut().for_each(|one| back.apply(&mut one.at_ms));
        for (_, census) in &mut self.censuses {
            back.apply(&mut census.at_ms);
            census.kept.iter_mut().for_each(|kept| back.apply(&mut kept.at_ms));
        }
    }
}

impl WatchStore {
    /// Moves what is written.
    ///
    /// # Errors
    /// If the store cannot be written; nothing is moved then.
    pub(crate) fn set_back(&mut self, back: SetBack) -> Result<(), WatchStoreError> {
        let path = self.path.clone();
        let moved = self.connection.transaction().and_then(|transaction| {
            move_all(&transaction, back)?;
            transaction.commit()
        });
        moved.map_err(|error| WatchStoreError::of_open_store(&path, &error))
    }
}

fn move_all(connection: &Connection, back: SetBack) -> rusqlite::Result<()> {
    let both = params![signed(back.from_ms), signed(back.by_ms)];
    // By way of negative times: a row must not meet one that has not moved yet.
    for table in ["sample", "group_sample", "census"] {
        let sql = format!("UPDATE {table} SET at_ms = -1 - (at_ms - ?2) WHERE at_ms >= ?1");
        connection.execute(&sql, both)?;
        let body = match table {
            "census" => {
                ", body = json_replace(body, '$.at_ms', -1 - at_ms, '$.kept.at_ms', \
                 max(0, json_extract(body, '$.kept.at_ms') + (-1 - at_ms) - json_extract(body, '$.at_ms')))"
            }
            _ => "",
        };
        let sql = format!("UPDATE OR REPLACE {table} SET at_ms = -1 - at_ms{body} WHERE at_ms < 0");
        connection.execute(&sql, [])?;
    }
    connection.execute("UPDATE event SET at_ms = at_ms - ?2 WHERE at_ms >= ?1", both)?;
    connection.execute("UPDATE process SET first_ms = first_ms - ?2 WHERE first_ms >= ?1", both)?;
    connection.execute(
        "UPDATE process SET end_ms = end_ms - ?2, ending = json_replace(ending, '$.at_ms', end_ms - ?2) \
         WHERE end_ms >= ?1",
        both,
    )?;
    Ok(())
}
