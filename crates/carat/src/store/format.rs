//! Which files are ours, and which of ours this carat reads.

use crate::store::StoreError;
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::path::Path;

/// "CART" in ASCII: how file(1) and carat tell the file from other SQLite files.
const APPLICATION: i64 = 0x4341_5254;
/// The format that this carat writes; one number, raised by every change that an older one would misread.
pub(crate) const FORMAT: i64 = 1;
/// The tables of that format.
pub(crate) const SCHEMA: &str = include_str!("schema.sql");

/// Makes an empty file one of ours.
pub(crate) fn make(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(SCHEMA)?;
    connection.pragma_update(None, "application_id", APPLICATION)?;
    connection.pragma_update(None, "user_version", FORMAT)
}

/// Refuses what carat did not write, and what a newer one wrote.
pub(crate) fn check_origin(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let path = path.to_owned();
    match (pragma("application_id"), pragma("user_version")) {
        (Ok(APPLICATION), Ok(found)) if found > FORMAT => {
            Err(StoreError::Newer { path, found, known: FORMAT })
        }
        (Ok(APPLICATION), Ok(_)) => Ok(()),
        (Ok(_), Ok(_)) => Err(StoreError::Foreign(path)),
        (Err(error), _) | (_, Err(error)) => Err(StoreError::from_sqlite(&path, error)),
    }
}

/// Refuses an older file whose columns are others than today's.
pub(crate) fn check_columns(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::from_sqlite(path, error);
    let found = columns(connection).map_err(failed)?;
    let expected = Connection::open_in_memory()
        .and_then(|fresh| {
            fresh.execute_batch(SCHEMA)?;
            columns(&fresh)
        })
        .map_err(failed)?;
    match (expected.difference(&found).next(), found.difference(&expected).next()) {
        (None, None) => Ok(()),
        (Some(missing), _) => Err(older(path, format!("it has no `{missing}`"))),
        (None, Some(former)) => Err(older(path, format!("it has a `{former}`"))),
    }
}

fn older(path: &Path, difference: String) -> StoreError {
    StoreError::Older { path: path.to_owned(), difference }
}

/// Every `table.column` of a file.
fn columns(connection: &Connection) -> rusqlite::Result<BTreeSet<String>> {
    let mut statement = connection.prepare(
        "SELECT t.name || '.' || c.name FROM sqlite_schema t, pragma_table_info(t.name) c \
         WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'",
    )?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}
