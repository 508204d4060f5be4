//! Rows as plain data.

use carat_model::Bytes;
use carat_model::watch::{GroupSample, WatchCensus, WatchEvent, WatchSample, WatchedProcess};
use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Connection, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) const PROCESS: &str = "SELECT number, pid, start_ticks, tree, server, role, worker, title, ruby, allocator, grp, \
    first_ms, ending FROM process";
pub(super) const SAMPLE: &str =
    "SELECT at_ms, rss, anonymous, pss, private, swap, threads FROM sample";
pub(super) const GROUP: &str = "SELECT grp, at_ms, used, max, oom_kills FROM group_sample";

/// SQLite's integers have a sign; no amount of memory and no time comes near it.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn bytes(amount: Option<Bytes>) -> Option<i64> {
    amount.map(|amount| signed(amount.0))
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    let found: Option<i64> = row.get(column)?;
    let out_of_range = |number| rusqlite::Error::IntegralValueOutOfRange(column, number);
    found.map(|number| u64::try_from(number).map_err(|_| out_of_range(number))).transpose()
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    unsigned(row, column).map(Option::unwrap_or_default)
}

fn small(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u32>> {
    row.get(column)
}

fn amount(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Bytes>> {
    unsigned(row, column).map(|number| number.map(Bytes))
}

fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    let wrong = |error: serde_json::Error| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            Type::Text,
            Box::new(FromSqlError::other(error)),
        )
    };
    text.map(|text| serde_json::from_str(&text).map_err(wrong)).transpose()
}

fn text_of(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

pub(super) fn write_process(
    connection: &Connection,
    process: &WatchedProcess,
    boot: Option<&str>,
) -> rusqlite::Result<()> {
    let ending = process.end.as_ref().map(text_of).transpose()?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO process VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) \
         ON CONFLICT (number) DO UPDATE SET tree = ?5, server = ?6, role = ?7, worker = ?8, title = ?9, ruby = ?10, \
         allocator = ?11, grp = ?12, end_ms = ?14, ending = ?15",
    )?;
    statement.execute(params![
        process.number,
        process.pid,
        signed(process.start_ticks),
        boot,
        process.tree,
        text_of(&process.server)?,
        text_of(&process.role)?,
        process.worker,
        process.title,
        process.ruby,
        process.allocator,
        process.group,
        signed(process.first_ms),
        process.end.as_ref().map(|end| signed(end.at_ms)),
        ending,
    ])?;
    Ok(())
}

pub(super) fn read_process(row: &Row<'_>) -> rusqlite::Result<WatchedProcess> {
    Ok(WatchedProcess {
        number: row.get(0)?,
        pid: row.get(1)?,
        start_ticks: time(row, 2)?,
        tree: row.get(3)?,
        server: json(row, 4)?.unwrap_or_default(),
        role: json(row, 5)?.unwrap_or_default(),
        worker: small(row, 6)?,
        title: row.get(7)?,
        ruby: row.get(8)?,
        allocator: row.get(9)?,
        group: row.get(10)?,
        first_ms: time(row, 11)?,
        end: json(row, 12)?,
    })
}

/// What was written stays, also where a clock that was set back says the same moment again.
pub(super) fn write_sample(
    connection: &Connection,
    process: i64,
    sample: &WatchSample,
) -> rusqlite::Result<()> {
    let mut statement = connection
        .prepare_cached("INSERT OR IGNORE INTO sample VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    statement.execute(params![
        process,
        signed(sample.at_ms),
        bytes(sample.rss),
        bytes(sample.anonymous),
        bytes(sample.pss),
        bytes(sample.private),
        bytes(sample.swap),
        sample.threads,
    ])?;
    Ok(())
}

pub(super) fn read_sample(row: &Row<'_>) -> rusqlite::Result<WatchSample> {
    Ok(WatchSample {
        at_ms: time(row, 0)?,
        rss: amount(row, 1)?,
        anonymous: amount(row, 2)?,
        pss: amount(row, 3)?,
        private: amount(row, 4)?,
        swap: amount(row, 5)?,
        threads: small(row, 6)?,
    })
}

pub(super) fn write_group(connection: &Connection, group: &GroupSample) -> rusqlite::Result<()> {
    let mut statement = connection
        .prepare_cached("INSERT OR IGNORE INTO group_sample VALUES (?1, ?2, ?3, ?4, ?5)")?;
    statement.execute(params![
        group.group,
        signed(group.at_ms),
        bytes(group.used),
        bytes(group.limit),
        group.oom_kills.map(signed),
    ])?;
    Ok(())
}

pub(super) fn read_group(row: &Row<'_>) -> rusqlite::Result<GroupSample> {
    Ok(GroupSample {
        group: row.get(0)?,
        at_ms: time(row, 1)?,
        used: amount(row, 2)?,
        limit: amount(row, 3)?,
        oom_kills: unsigned(row, 4)?,
    })
}

pub(super) fn write_census(
    connection: &Connection,
    process: i64,
    census: &WatchCensus,
) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare_cached("INSERT OR IGNORE INTO census VALUES (?1, ?2, ?3)")?;
    statement.execute(params![process, signed(census.at_ms), text_of(census)?])?;
    Ok(())
}

pub(super) fn read_census(row: &Row<'_>) -> rusqlite::Result<Option<WatchCensus>> {
    json(row, 0)
}

pub(super) fn write_event(connection: &Connection, event: &WatchEvent) -> rusqlite::Result<()> {
    let mut statement = connection
        .prepare_cached("INSERT INTO event (at_ms, process, body) VALUES (?1, ?2, ?3)")?;
    statement.execute(params![signed(event.at_ms), event.process, event.text])?;
    Ok(())
}

pub(super) fn read_event(row: &Row<'_>) -> rusqlite::Result<WatchEvent> {
    Ok(WatchEvent { at_ms: time(row, 0)?, process: row.get(1)?, text: row.get(2)? })
}
