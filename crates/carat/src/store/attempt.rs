//! One attempt at a block of a fleet, and its row in a results file.

use crate::store::rows::{json, to_json};
use carat_model::Trial;
use rusqlite::{Connection, params};
use std::collections::BTreeSet;

/// One attempt at a block.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockAttempt {
    /// The block, from 1.
    pub block: u32,
    /// Its number among the attempts at the block, from 1. Two attempts can have one number, for example after a
    /// network failure.
    pub number: u32,
    /// Random text that makes the attempt unique.
    pub token: String,
    /// Whether an interim look has used it; it then counts for ever.
    pub looked: bool,
    /// Its trials in the order of their positions; none where the block was given up.
    pub trials: Vec<Trial>,
}

impl BlockAttempt {
    /// Block, number and token: what identifies the attempt, and the order in which attempts are considered.
    pub fn key(&self) -> (u32, u32, &str) {
        (self.block, self.number, &self.token)
    }

    /// Whether it gives the block up: earlier attempts began and none of them had a result.
    pub fn is_void(&self) -> bool {
        self.trials.is_empty()
    }
}

/// Writes the row of an attempt; the trials of one that counts are in the table `trial`.
pub(crate) fn write_attempt(
    connection: &Connection,
    attempt: &BlockAttempt,
    counts: bool,
) -> rusqlite::Result<()> {
    // Those of the attempt that counts are in `trial`, and are not stored twice.
    let trials = if counts { None } else { Some(to_json(&attempt.trials)?) };
    connection.execute(
        "INSERT INTO attempt VALUES (?1, ?2, ?3, ?4, ?5)",
        params![attempt.block, attempt.number, attempt.token, attempt.looked, trials],
    )?;
    Ok(())
}

/// Every attempt, in the order of its key. `trials` are those of the table `trial`.
pub(crate) fn read_attempts(
    connection: &Connection,
    trials: &[Trial],
) -> rusqlite::Result<Vec<BlockAttempt>> {
    let mut statement = connection.prepare(
        "SELECT block, attempt, token, looked, trials FROM attempt ORDER BY block, attempt, token",
    )?;
    let rows = statement.query_map([], |row| {
        let block: u32 = row.get(0)?;
        let kept = row.get::<_, Option<String>>(4)?;
        let trials = match kept {
            Some(_) => json(row, 4)?,
            None => trials.iter().filter(|trial| trial.block == block).cloned().collect(),
        };
        Ok(BlockAttempt {
            block,
            number: row.get(1)?,
            token: row.get(2)?,
            looked: row.get(3)?,
            trials,
        })
    })?;
    let mut attempts: Vec<BlockAttempt> = rows.collect::<rusqlite::Result<_>>()?;
    // A salvaged file has trials without attempts.
    for block in trials.iter().map(|trial| trial.block).collect::<BTreeSet<u32>>() {
        // An attempt without trials gives the block up, so these cannot be its trials.
        if !attempts.iter().any(|one| one.block == block && !one.is_void()) {
            let trials = trials.iter().filter(|trial| trial.block == block).cloned().collect();
            let token = "salvaged".to_owned();
            attempts.push(BlockAttempt { block, number: 1, token, looked: false, trials });
        }
    }
    Ok(attempts)
}
