//! Reads what was kept.

use crate::ending::compared;
use crate::store::rows::{
    GROUP, PROCESS, SAMPLE, read_census, read_event, read_group, read_process, read_sample, signed,
};
use crate::store::{WatchStore, WatchStoreError};
use carat_model::watch::{
    GroupSample, LastWords, WatchCensus, WatchEvent, WatchSample, WatchedProcess,
};
use rusqlite::{OptionalExtension, params};

/// A span of time in Unix milliseconds, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    pub from_ms: u64,
    pub to_ms: u64,
}

impl Period {
    /// All of time.
    pub const ALWAYS: Self = Self { from_ms: 0, to_ms: i64::MAX as u64 };
}

impl WatchStore {
    /// The first number that no process has.
    ///
    /// # Errors
    /// If the store cannot be read; so do all below.
    pub fn next_number(&self) -> Result<i64, WatchStoreError> {
        self.with(|connection| {
            connection
                .query_row("SELECT coalesce(max(number), 0) + 1 FROM process", [], |row| row.get(0))
        })
    }

    /// The last moment at which a watch was known to run; `None` before the first batch.
    pub fn alive_ms(&self) -> Result<Option<u64>, WatchStoreError> {
        self.with(|connection| {
            let found = connection
                .query_row("SELECT alive_ms FROM watch", [], |row| row.get::<_, i64>(0))
                .optional()?;
            Ok(found.and_then(|ms| u64::try_from(ms).ok()))
        })
    }

    /// Processes without an end, each with whether it is of this boot.
    pub fn unfinished(
        &self,
        boot: Option<&str>,
    ) -> Result<Vec<(WatchedProcess, bool)>, WatchStoreError> {
        self.with(|connection| {
            let sql = format!("{PROCESS} WHERE end_ms IS NULL AND (boot IS ?1) = ?2");
            let mut statement = connection.prepare(&sql)?;
            let mut all = Vec::new();
            for is_of_this in [true, false] {
                let rows = statement.query_map(params![boot, is_of_this], read_process)?;
                for row in rows {
                    // An unknown boot is no proof that a pid means the same process.
                    all.push((row?, is_of_this && boot.is_some()));
                }
            }
            Ok(all)
        })
    }

    /// The processes that were followed in a period, the first one first.
    pub fn processes(&self, period: Period) -> Result<Vec<WatchedProcess>, WatchStoreError> {
        self.with(|connection| {
            let sql = format!(
                "{PROCESS} WHERE first_ms <= ?2 AND coalesce(end_ms, ?1) >= ?1 ORDER BY first_ms, number"
            );
            let mut statement = connection.prepare(&sql)?;
            let rows = statement
                .query_map(params![signed(period.from_ms), signed(period.to_ms)], read_process)?;
            rows.collect()
        })
    }

    /// The samples of a process, the oldest first.
    pub fn samples(
        &self,
        process: i64,
        period: Period,
    ) -> Result<Vec<WatchSample>, WatchStoreError> {
        self.with(|connection| {
            let sql =
                format!("{SAMPLE} WHERE process = ?1 AND at_ms BETWEEN ?2 AND ?3 ORDER BY at_ms");
            let mut statement = connection.prepare_cached(&sql)?;
            let (from, to) = (signed(period.from_ms), signed(period.to_ms));
            statement.query_map(params![process, from, to], read_sample)?.collect()
        })
    }

    /// The samples of a control group, the oldest first.
    pub fn group_samples(
        &self,
        group: &str,
        period: Period,
    ) -> Result<Vec<GroupSample>, WatchStoreError> {
        self.with(|connection| {
            let sql = format!("{GROUP} WHERE grp = ?1 AND at_ms BETWEEN ?2 AND ?3 ORDER BY at_ms");
            let mut statement = connection.prepare_cached(&sql)?;
            let (from, to) = (signed(period.from_ms), signed(period.to_ms));
            statement.query_map(params![group, from, to], read_group)?.collect()
        })
    }

    /// The readings of a process, the oldest first.
    pub fn censuses(&self, process: i64) -> Result<Vec<WatchCensus>, WatchStoreError> {
        self.with(|connection| {
            let mut statement = connection
                .prepare_cached("SELECT body FROM census WHERE process = ?1 ORDER BY at_ms")?;
            let rows = statement.query_map([process], read_census)?;
            rows.filter_map(Result::transpose).collect()
        })
    }

    /// What happened in a period, the oldest first.
    pub fn events(&self, period: Period) -> Result<Vec<WatchEvent>, WatchStoreError> {
        self.with(|connection| {
            let mut statement = connection.prepare(
                "SELECT at_ms, process, body FROM event WHERE at_ms BETWEEN ?1 AND ?2 ORDER BY at_ms, number",
            )?;
            let rows = statement
                .query_map(params![signed(period.from_ms), signed(period.to_ms)], read_event)?;
            rows.collect()
        })
    }

    /// The processes that ended, the last one first, with everything that is known of their ends.
    pub fn last_words(&self, most: usize) -> Result<Vec<LastWords>, WatchStoreError> {
        let ended = self.with(|connection| {
            let sql = format!(
                "{PROCESS} WHERE end_ms IS NOT NULL ORDER BY end_ms DESC, number DESC LIMIT ?1"
            );
            let mut statement = connection.prepare(&sql)?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            statement.query_map([most], read_process)?.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        ended.into_iter().map(|process| self.words_of(process)).collect()
    }

    fn words_of(&self, process: WatchedProcess) -> Result<LastWords, WatchStoreError> {
        let samples = self.samples(process.number, Period::ALWAYS)?;
        // Of the round in which it was there for the last time: after its end its group has room again.
        let before_end = process.end.as_ref().map(|end| end.at_ms.saturating_sub(1));
        let last_ms = samples.last().map(|sample| sample.at_ms);
        let until = last_ms.or(before_end).unwrap_or_default();
        let group = match &process.group {
            Some(group) => {
                let period = Period { from_ms: 0, to_ms: until };
                let last = self.group_samples(group, period)?.pop();
                // Of an hour long ago one sample of the group is kept, which need not be this one.
                last.filter(|group| last_ms.is_none_or(|at| group.at_ms == at))
            }
            None => None,
        };
        // Of its whole life, not of a period: growth is compared with an early reading.
        let (earlier, last) = first_and_last(self.censuses(process.number)?, process.first_ms);
        Ok(LastWords { process, samples, group, earlier, last })
    }
}

/// The reading that the last one is compared with, and the last one: of those with a size, if there are two, or of those that say
/// something. One that was cut off by the end of the process lacks its size and what is read after it.
fn first_and_last(
    all: Vec<WatchCensus>,
    first_ms: u64,
) -> (Option<WatchCensus>, Option<WatchCensus>) {
    let has_two = all.iter().filter(|census| census.pss.is_some()).count() > 1;
    let (mut refused, mut read): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|census| if has_two { census.pss.is_none() } else { census.is_empty() });
    let refused = refused.pop();
    let Some(mut last) = read.pop() else { return (None, refused) };
    let later = refused.filter(|refused| refused.at_ms > last.at_ms);
    let reasons = later.into_iter().flat_map(|refused| refused.unknown);
    last.unknown.extend(reasons.map(|reason| format!("a later reading: {reason}")));
    (compared(read, first_ms), Some(last))
}
