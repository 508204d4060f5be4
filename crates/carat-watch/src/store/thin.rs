//! Keeps the store within its bounds: seconds become minutes, minutes hours, and what is too old goes.
//!
//! Of a minute or an hour the sample with the most memory stays, so that a peak is never lost. The last sample and the first
//! and the last reading of a process stay as long as the process does.

use crate::store::rows::signed;
use crate::store::{ASIDE, DAMAGED, WatchStore, WatchStoreError, beside};
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use std::time::Duration;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
/// From which age on one sample a minute is kept, and one an hour; of readings one an hour, and one a day.
const LEVELS: [Level; 2] = [
    Level { age_ms: 6 * HOUR_MS, samples_ms: MINUTE_MS, censuses_ms: HOUR_MS },
    Level { age_ms: 48 * HOUR_MS, samples_ms: HOUR_MS, censuses_ms: 24 * HOUR_MS },
];
/// How often the ages are halved before something younger than the user's limit is deleted, and how often in all.
const HALVINGS: (u32, u32) = (8, 20);
/// Events at most.
const EVENTS: u32 = 20_000;

/// How long and how much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreBounds {
    pub keep: Duration,
    /// Bytes of the file.
    pub most: u64,
}

impl Default for StoreBounds {
    fn default() -> Self {
        Self { keep: Duration::from_secs(7 * 24 * 3600), most: 500_000_000 }
    }
}

/// From which age on how much is kept.
#[derive(Debug, Clone, Copy)]
struct Level {
    age_ms: u64,
    /// One sample in so many milliseconds.
    samples_ms: u64,
    /// One reading in so many milliseconds.
    censuses_ms: u64,
}

/// A damaged store that was moved aside.
#[derive(Debug)]
struct DamagedStore {
    path: PathBuf,
    /// When, in Unix milliseconds.
    at_ms: u64,
    /// Bytes with its log.
    bytes: u64,
}

/// Up to which moment each level has been thinned, so that nothing is looked at twice.
pub(super) type Watermarks = [u64; 2];

impl WatchStore {
    /// Thins what is old, and more of it while the file is too large. Returns the bytes of the file.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn thin(&mut self, bounds: StoreBounds, now_ms: u64) -> Result<u64, WatchStoreError> {
        let damaged: u64 = self.damaged().iter().map(|one| one.bytes).sum();
        let most = bounds.most.saturating_sub(damaged);
        for halvings in 0..=HALVINGS.1 {
            // First the levels come sooner, which keeps all of the time; only then what is oldest goes.
            let ages = halvings.min(HALVINGS.0);
            let keep = bounds.keep.as_millis() as u64 >> halvings.saturating_sub(HALVINGS.0);
            let from = match halvings {
                0 => self.thinned_ms,
                // The ages changed, so everything is looked at again.
                _ => [0; 2],
            };
            let until = LEVELS.map(|level| now_ms.saturating_sub(level.age_ms >> ages));
            let path = self.path.clone();
            let thinned = self.connection.transaction().and_then(|transaction| {
                forget(&transaction, now_ms.saturating_sub(keep))?;
                for (at, level) in LEVELS.iter().enumerate() {
                    thin_level(&transaction, *level, (from[at], until[at]))?;
                }
                transaction.commit()
            });
            thinned.map_err(|error| WatchStoreError::of_open_store(&path, &error))?;
            self.thinned_ms = until;
            if self.used()? <= most {
                break;
            }
        }
        self.give_back()?;
        self.size()
    }

    /// Removes the oldest of the damaged stores that were moved aside, as long as they leave less than half of the limit for the
    /// one in use. Returns what was removed.
    pub fn forget_damaged(&self, bounds: StoreBounds) -> Vec<PathBuf> {
        let mut all = self.damaged();
        all.sort_by_key(|one| one.at_ms);
        let mut bytes: u64 = all.iter().map(|one| one.bytes).sum();
        let mut removed = Vec::new();
        for one in all {
            if bytes <= bounds.most / 2 {
                break;
            }
            if std::fs::remove_file(&one.path).is_ok() {
                for ending in ASIDE.iter().filter(|ending| !ending.is_empty()) {
                    let _ = std::fs::remove_file(beside(&one.path, ending));
                }
                bytes -= one.bytes;
                removed.push(one.path);
            }
        }
        removed
    }

    /// The damaged stores that were moved aside.
    fn damaged(&self) -> Vec<DamagedStore> {
        let start = beside(&self.path, DAMAGED);
        let (Some(folder), Some(start)) = (start.parent(), start.file_name()) else {
            return Vec::new();
        };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let of = |path: PathBuf| {
            let name = path.file_name()?.as_encoded_bytes();
            let at_ms = name.strip_prefix(start.as_encoded_bytes())?;
            let at_ms = std::str::from_utf8(at_ms).ok()?.parse().ok()?;
            let size =
                |ending| std::fs::symlink_metadata(beside(&path, ending)).map_or(0, |at| at.len());
            let bytes = ASIDE.iter().map(|ending| size(ending)).sum();
            Some(DamagedStore { path, at_ms, bytes })
        };
        names.filter_map(|entry| of(entry.path())).collect()
    }

    /// Moves what is in the log into the file, so that the log takes no room; nothing where that fails too.
    pub fn make_room(&mut self) {
        if let Err(error) = self.give_back() {
            tracing::debug!(%error, "no room could be made");
        }
    }

    /// Gives free pages and the log back to the file system.
    fn give_back(&self) -> Result<(), WatchStoreError> {
        self.with(|connection| {
            connection.execute_batch("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")
        })
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn size(&self) -> Result<u64, WatchStoreError> {
        Ok(self.pragma("page_count")? * self.pragma("page_size")?)
    }

    /// Bytes of pages in use.
    fn used(&self) -> Result<u64, WatchStoreError> {
        let pages = self.pragma("page_count")?.saturating_sub(self.pragma("freelist_count")?);
        Ok(pages * self.pragma("page_size")?)
    }

    fn pragma(&self, name: &str) -> Result<u64, WatchStoreError> {
        let found: i64 =
            self.with(|connection| connection.pragma_query_value(None, name, |row| row.get(0)))?;
        Ok(u64::try_from(found).unwrap_or_default())
    }
}

/// Deletes what is older than `before`.
fn forget(connection: &Connection, before: u64) -> rusqlite::Result<()> {
    let before = params![signed(before)];
    connection.execute("DELETE FROM sample WHERE at_ms < ?1", before)?;
    connection.execute("DELETE FROM group_sample WHERE at_ms < ?1", before)?;
    connection.execute("DELETE FROM event WHERE at_ms < ?1", before)?;
    connection.execute(
        "DELETE FROM event WHERE number <= (SELECT max(number) FROM event) - ?1",
        params![EVENTS],
    )?;
    connection.execute(
        "DELETE FROM census WHERE at_ms < ?1 AND process IN (SELECT number FROM process WHERE end_ms < ?1)",
        before,
    )?;
    connection.execute(
        "DELETE FROM census WHERE at_ms < ?1 AND at_ms < \
         (SELECT max(at_ms) FROM census later WHERE later.process = census.process)",
        before,
    )?;
    // A process goes with its last sample and its last reading.
    connection.execute(
        "DELETE FROM process WHERE end_ms < ?1 AND NOT EXISTS \
         (SELECT 1 FROM sample WHERE process = number) AND NOT EXISTS (SELECT 1 FROM census WHERE process = number)",
        before,
    )?;
    Ok(())
}

fn thin_level(
    connection: &Connection,
    level: Level,
    (from, until): (u64, u64),
) -> rusqlite::Result<()> {
    // Whole buckets only: a bucket of which one part is thinned would keep two rows.
    let whole = |bucket: u64| {
        let floor = |at: u64| at / bucket * bucket;
        (signed(bucket), signed(floor(from)), signed(floor(until)))
    };
    let (bucket, start, end) = whole(level.samples_ms);
    connection.execute(
        "DELETE FROM sample WHERE at_ms >= ?2 AND at_ms < ?3 \
         AND at_ms < (SELECT max(at_ms) FROM sample last WHERE last.process = sample.process) \
         AND EXISTS (SELECT 1 FROM sample other WHERE other.process = sample.process \
           AND other.at_ms BETWEEN sample.at_ms / ?1 * ?1 AND sample.at_ms / ?1 * ?1 + ?1 - 1 \
           AND (coalesce(other.rss + coalesce(other.swap, 0), -1), other.at_ms) \
             > (coalesce(sample.rss + coalesce(sample.swap, 0), -1), sample.at_ms))",
        params![bucket, start, end],
    )?;
    connection.execute(
        "DELETE FROM group_sample WHERE at_ms >= ?2 AND at_ms < ?3 \
         AND EXISTS (SELECT 1 FROM group_sample other WHERE other.grp = group_sample.grp \
           AND other.at_ms BETWEEN group_sample.at_ms / ?1 * ?1 AND group_sample.at_ms / ?1 * ?1 + ?1 - 1 \
           AND (coalesce(other.used, -1), other.at_ms) > (coalesce(group_sample.used, -1), group_sample.at_ms))",
        params![bucket, start, end],
    )?;
    let (bucket, start, end) = whole(level.censuses_ms);
    connection.execute(
        "DELETE FROM census WHERE at_ms >= ?2 AND at_ms < ?3 \
         AND at_ms > (SELECT min(at_ms) FROM census first WHERE first.process = census.process) \
         AND at_ms < (SELECT max(at_ms) FROM census last WHERE last.process = census.process) \
         AND EXISTS (SELECT 1 FROM census other WHERE other.process = census.process \
           AND other.at_ms > census.at_ms AND other.at_ms < census.at_ms / ?1 * ?1 + ?1)",
        params![bucket, start, end],
    )?;
    Ok(())
}
