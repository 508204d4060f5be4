//! Recognises results files and checks their format.

use crate::store::StoreError;
use crate::store::foreign::tables;
use carat_model::ExperimentInfo;
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// "CART" in ASCII: how file(1) and carat tell a results file from other SQLite files.
const APPLICATION: i64 = 0x4341_5254;
/// The newest format. Every change that an older carat would misread raises it.
pub(crate) const FORMAT: i64 = 4;
/// The format that is written where no fleet runs the blocks and a variant has a control.
pub(crate) const FORMAT_WITH_CONTROLS: i64 = 3;
/// The format that is written where no variant has a control either: without the table of controls.
pub(crate) const FORMAT_WITHOUT_CONTROLS: i64 = 2;
/// The tables of all formats.
const SCHEMA: &str = include_str!("schema.sql");
/// The table that the later formats have besides.
const CONTROL_SCHEMA: &str = include_str!("control.sql");
/// The tables that the newest format has besides.
const FLEET_SCHEMA: &str = include_str!("fleet.sql");

/// The first bytes of every SQLite file.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// Where its header has the number of the application, in four bytes, the highest first (SQLite, Database File Format).
const APPLICATION_BYTES: std::ops::Range<usize> = 68..72;

/// Whether a file is a results file by its header, however damaged the rest of it is, or empty, as a killed run can leave one.
pub(crate) fn is_results_file(path: &Path) -> bool {
    // Asked first: opening a pipe waits for its other end.
    if !path.is_file() {
        return false;
    }
    let mut header = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(APPLICATION_BYTES.end as u64).read_to_end(&mut header));
    let is_ours = header.starts_with(SQLITE)
        && header.get(APPLICATION_BYTES) == Some(&(APPLICATION as u32).to_be_bytes()[..]);
    read.is_ok() && (header.is_empty() || is_ours)
}

/// The oldest format that holds an experiment, so that an older carat reads the file if it can.
fn format_of(info: &ExperimentInfo) -> i64 {
    if info.fleet.is_some() {
        FORMAT
    } else if info.variants.iter().any(|variant| !variant.controls.is_empty()) {
        FORMAT_WITH_CONTROLS
    } else {
        FORMAT_WITHOUT_CONTROLS
    }
}

/// Turns an empty file into a results file without content, with the tables that the experiment needs.
pub(crate) fn create(connection: &Connection, info: &ExperimentInfo) -> rusqlite::Result<()> {
    let format = format_of(info);
    create_tables(connection, format)?;
    connection.pragma_update(None, "application_id", APPLICATION)?;
    connection.pragma_update(None, "user_version", format)
}

fn create_tables(connection: &Connection, format: i64) -> rusqlite::Result<()> {
    connection.execute_batch(SCHEMA)?;
    if format >= FORMAT_WITH_CONTROLS {
        connection.execute_batch(CONTROL_SCHEMA)?;
    }
    if format >= FORMAT {
        connection.execute_batch(FLEET_SCHEMA)?;
    }
    Ok(())
}

/// Refuses files that carat did not write, or that a newer one wrote; returns the format.
pub(crate) fn check_origin(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let failed = |error| StoreError::from_sqlite(path, error);
    // Before the format, because its number means nothing in another program's file.
    let application = pragma(connection, "application_id").map_err(failed)?;
    let found = pragma(connection, "user_version").map_err(failed)?;
    let path = path.to_owned();
    match application {
        APPLICATION if found > FORMAT => Err(StoreError::Newer { path, found, known: FORMAT }),
        APPLICATION => Ok(found),
        _ => Err(StoreError::Foreign(path)),
    }
}

/// Refuses a file of an older format, or with other columns than its format has.
pub(crate) fn check_current(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let found = check_origin(connection, path)?;
    if found < FORMAT_WITHOUT_CONTROLS {
        let difference = format!("its format is {found}, the current one is {FORMAT}");
        return Err(StoreError::Older { path: path.to_owned(), difference });
    }
    match difference(connection, found).map_err(|error| StoreError::from_sqlite(path, error))? {
        Some(difference) => Err(StoreError::Older { path: path.to_owned(), difference }),
        None => Ok(()),
    }
}

fn difference(connection: &Connection, format: i64) -> rusqlite::Result<Option<String>> {
    // Compared with a file made now, so that the definitions are in one place only.
    let empty = Connection::open_in_memory()?;
    create_tables(&empty, format)?;
    let (expected, found) = (columns(&empty)?, columns(connection)?);
    if let Some(missing) = expected.difference(&found).next() {
        return Ok(Some(format!("it has no `{missing}`")));
    }
    if let Some(former) = found.difference(&expected).next() {
        return Ok(Some(format!("it has a `{former}`")));
    }
    // The same columns can still have other types or keys.
    let (expected, found) = (tables(&empty)?, tables(connection)?);
    let other = expected.iter().zip(&found).find(|(one, other)| one != other);
    Ok(other.map(|((name, _), _)| format!("its table `{name}` is defined in another way")))
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
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
