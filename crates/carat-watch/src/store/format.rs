//! Recognises a store, and refuses what is none.

use crate::store::WatchStoreError;
use rusqlite::Connection;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// "CARW" in ASCII.
const APPLICATION: u32 = 0x4341_5257;
/// The format that this carat writes. Every change that an older one would misread raises it.
pub(super) const FORMAT: i64 = 1;
const SCHEMA: &str = include_str!("schema.sql");
/// The header of SQLite's file format: how it begins, and where it has the format and the application (sqlite.org/fileformat.html).
const MAGIC: &[u8] = b"SQLite format 3\0";
const USER_VERSION: usize = 60;
const APPLICATION_ID: usize = 68;
const HEADER: usize = 100;

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// No file, or an empty one, which a watch that was killed at its start can leave.
    Nothing,
    Store,
}

/// Whether the file at `path` begins like a store of `carat watch`.
pub fn is_watch_store(path: &Path) -> bool {
    matches!(header(path, path), Ok(Found::Store) | Err(WatchStoreError::Newer { .. }))
}

/// What the first bytes of a file say.
pub(super) fn header(real: &Path, path: &Path) -> Result<Found, WatchStoreError> {
    // Before it is opened: a named pipe waits for its other end, and what is read of it would be missing to its reader.
    if std::fs::metadata(real).is_ok_and(|found| !found.is_file()) {
        return Err(WatchStoreError::Foreign(path.to_owned()));
    }
    let file = match File::open(real) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(WatchStoreError::io(path, &error)),
    };
    // Once more, of what was opened: the name may mean another file by now.
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err(WatchStoreError::Foreign(path.to_owned()));
    }
    let mut bytes = Vec::with_capacity(HEADER);
    file.take(HEADER as u64)
        .read_to_end(&mut bytes)
        .map_err(|error| WatchStoreError::io(path, &error))?;
    let path = path.to_owned();
    match bytes.as_slice() {
        [] => Ok(Found::Nothing),
        // What a loss of power leaves of a file whose length reached the disk before its bytes did.
        bytes if bytes.iter().all(|byte| *byte == 0) => {
            Err(WatchStoreError::Damaged { path, what: "it begins with zeros".into() })
        }
        bytes if !bytes.starts_with(MAGIC) || bytes.len() < HEADER => {
            Err(WatchStoreError::Foreign(path))
        }
        bytes => match (number(bytes, APPLICATION_ID), i64::from(number(bytes, USER_VERSION))) {
            (APPLICATION, found) if found > FORMAT => {
                Err(WatchStoreError::Newer { path, found, known: FORMAT })
            }
            (APPLICATION, _) => Ok(Found::Store),
            _ => Err(WatchStoreError::Foreign(path)),
        },
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// Makes the tables of an empty file.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    // Before the first table: later it takes effect only after VACUUM (pragma auto_vacuum).
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.execute_batch("BEGIN")?;
    connection.execute_batch(SCHEMA)?;
    connection.pragma_update(None, "application_id", APPLICATION)?;
    connection.pragma_update(None, "user_version", FORMAT)?;
    connection.execute_batch("COMMIT")?;
    // After the commit, so that the header is in the file itself and not only in the log.
    let _: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    Ok(())
}

/// Refuses a file with other tables than carat makes, and one that is damaged where it is `whole`ly checked.
pub(super) fn check(
    connection: &Connection,
    path: &Path,
    whole: bool,
) -> Result<(), WatchStoreError> {
    let failed = |error| WatchStoreError::from_sqlite(path, &error);
    let found = definitions(connection).map_err(failed)?;
    // Made from the schema itself, so that its text is in one place.
    let expected = Connection::open_in_memory()
        .and_then(|empty| {
            empty.execute_batch(SCHEMA)?;
            definitions(&empty)
        })
        .map_err(failed)?;
    // Also a view, an index or a trigger: whatever carat did not make could compute something.
    if found != expected {
        return Err(WatchStoreError::Foreign(path.to_owned()));
    }
    // Reading every page is for the one that will write; a reader meets the damage where it is.
    if !whole {
        return Ok(());
    }
    let answer: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(failed)?;
    match answer.as_str() {
        "ok" => Ok(()),
        what => Err(WatchStoreError::Damaged { path: path.to_owned(), what: what.to_owned() }),
    }
}

fn definitions(connection: &Connection) -> rusqlite::Result<Vec<(String, Option<String>)>> {
    let mut statement = connection.prepare(
        "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}
