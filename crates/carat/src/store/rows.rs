//! Converts between rows and values.

use carat_model::metric;
use carat_model::{Bytes, ExperimentInfo, Fleet, Outcome, Sample, Trial, Variant};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeMap;

/// SQLite has only signed integers; carat never stores a negative one.
pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|error| broken(column, error))
}

fn broken(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

/// The value of a metric; refused if no trial can have it.
fn value_of(id: &str, value: f64, column: usize) -> rusqlite::Result<f64> {
    match metric::impossible(id, value) {
        Some(why) => Err(broken(column, std::io::Error::other(why))),
        None => Ok(value),
    }
}

/// A number that carat writes only if it is finite and not negative.
fn amount(row: &Row<'_>, column: usize) -> rusqlite::Result<f64> {
    match row.get(column)? {
        value if (0.0..f64::INFINITY).contains(&value) => Ok(value),
        value => Err(broken(column, std::io::Error::other(format!("{value} is no amount")))),
    }
}

pub(crate) fn json<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| broken(column, error))
}

fn optional_json<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    row.get::<_, Option<String>>(column)?.map(|_| json(row, column)).transpose()
}

pub(crate) fn to_json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

pub(crate) fn write_info(connection: &Connection, info: &ExperimentInfo) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO experiment VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            info.name,
            info.about,
            info.plan_hash,
            info.plan_text,
            // As text, because SQLite's integers are signed and a seed uses all 64 bits.
            info.seed.to_string(),
            info.max_blocks,
            info.primary,
            info.margin,
            env!("CARGO_PKG_VERSION"),
        ],
    )?;
    for (metric, limit) in &info.guards {
        connection.execute("INSERT INTO guard VALUES (?1, ?2)", params![metric, limit])?;
    }
    // By place, because the order of variants is part of the plan.
    for (place, variant) in (0i64..).zip(&info.variants) {
        connection.execute(
            "INSERT INTO variant VALUES (?1, ?2, ?3)",
            params![place, variant.name, to_json(&variant.settings)?],
        )?;
    }
    if let Some(fleet) = &info.fleet {
        connection.execute(
            "INSERT INTO fleet VALUES (1, ?1, ?2)",
            params![fleet.binary, to_json(&fleet.types)?],
        )?;
    }
    // A control may be a later variant, so every variant comes first.
    for variant in &info.variants {
        for (place, control) in (0i64..).zip(&variant.controls) {
            connection.execute(
                "INSERT INTO control VALUES (?1, ?2, ?3)",
                params![variant.name, place, control],
            )?;
        }
    }
    Ok(())
}

pub(crate) fn read_info(connection: &Connection) -> rusqlite::Result<ExperimentInfo> {
    let (guards, variants) = (read_map(connection, "guard")?, read_variants(connection)?);
    let fleet = read_fleet(connection)?;
    connection.query_row(
        "SELECT name, about, plan_hash, plan_text, seed, max_blocks, primary_metric, margin \
         FROM experiment",
        [],
        |row| {
            let seed: String = row.get(4)?;
            Ok(ExperimentInfo {
                name: row.get(0)?,
                about: row.get(1)?,
                plan_hash: row.get(2)?,
                plan_text: row.get(3)?,
                seed: seed.parse().map_err(|error| broken(4, error))?,
                max_blocks: row.get(5)?,
                primary: row.get(6)?,
                margin: amount(row, 7)?,
                guards,
                variants,
                fleet,
            })
        },
    )
}

/// The fleet; `None` where the file has no table of it, because one machine ran the experiment.
fn read_fleet(connection: &Connection) -> rusqlite::Result<Option<Fleet>> {
    if !connection.table_exists(None, "fleet")? {
        return Ok(None);
    }
    connection
        .query_row("SELECT binary, types FROM fleet", [], |row| {
            Ok(Fleet { binary: row.get(0)?, types: json(row, 1)? })
        })
        .optional()
}

pub(crate) fn read_map<T: rusqlite::types::FromSql>(
    connection: &Connection,
    table: &str,
) -> rusqlite::Result<BTreeMap<String, T>> {
    let mut statement = connection.prepare(&format!("SELECT * FROM {table}"))?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn read_variants(connection: &Connection) -> rusqlite::Result<Vec<Variant>> {
    let mut controls = read_controls(connection)?;
    let mut statement = connection.prepare("SELECT name, settings FROM variant ORDER BY place")?;
    let rows = statement.query_map([], |row| {
        let name: String = row.get(0)?;
        let controls = controls.remove(&name).unwrap_or_default();
        Ok(Variant { name, settings: json(row, 1)?, controls })
    })?;
    rows.collect()
}

/// The controls of every variant that has any; none where the file has no table of them.
fn read_controls(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Vec<String>>> {
    let mut controls = BTreeMap::<String, Vec<String>>::new();
    if !connection.table_exists(None, "control")? {
        return Ok(controls);
    }
    let mut statement =
        connection.prepare("SELECT variant, control FROM control ORDER BY variant, place")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for row in rows {
        let (variant, control): (String, String) = row?;
        controls.entry(variant).or_default().push(control);
    }
    Ok(controls)
}

pub(crate) fn write_trial(connection: &Connection, trial: &Trial) -> rusqlite::Result<()> {
    let (from, to) = trial.load_window_ms.unzip();
    connection.execute(
        "INSERT INTO trial VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        params![
            trial.id,
            trial.block,
            trial.position,
            trial.variant,
            trial.outcome.word(),
            trial.detail,
            trial.started_ms as i64,
            trial.seconds,
            to_json(&trial.machine)?,
            from.map(|ms| ms as i64),
            to.map(|ms| ms as i64),
            trial.load.as_ref().map(to_json).transpose()?,
            to_json(&trial.notes)?,
            trial.log_tail,
        ],
    )?;
    for (name, value) in &trial.metrics {
        connection
            .execute("INSERT INTO metric VALUES (?1, ?2, ?3)", params![trial.id, name, value])?;
    }
    let mut insert =
        connection.prepare("INSERT INTO sample VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    for sample in &trial.samples {
        let amount = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.0 as i64);
        insert.execute(params![
            trial.id,
            sample.at_ms as i64,
            sample.processes,
            amount(sample.rss),
            amount(sample.pss),
            amount(sample.uss),
            amount(sample.swap),
            to_json(sample)?,
        ])?;
    }
    Ok(())
}

/// Columns of a trial in the order that [`read_trial`] expects.
const TRIAL: &str = "id, block, position, variant, outcome, detail, started_ms, seconds, \
                     machine, load_from_ms, load_to_ms, load, notes, log_tail";

/// The `number`th trial that was written, with its metrics and samples.
pub(crate) fn read_one_trial(
    connection: &Connection,
    number: i64,
) -> rusqlite::Result<Option<Trial>> {
    // By number of the row, so that a damaged page costs only its own trials.
    let query = format!("SELECT {TRIAL} FROM trial WHERE rowid = ?1");
    let mut one = connection.prepare_cached(&query)?;
    let Some(mut trial) = one.query_row([number], read_trial).optional()? else {
        return Ok(None);
    };
    let mut metrics = connection.prepare("SELECT name, value FROM metric WHERE trial = ?1")?;
    let rows = metrics.query_map([&trial.id], |row| {
        let id: String = row.get(0)?;
        let value = value_of(&id, row.get(1)?, 1)?;
        Ok((id, value))
    })?;
    trial.metrics = rows.collect::<rusqlite::Result<_>>()?;
    let mut samples =
        connection.prepare("SELECT at_ms, detail FROM sample WHERE trial = ?1 ORDER BY at_ms")?;
    let rows = samples.query_map([&trial.id], |row| Ok((unsigned(row, 0)?, json(row, 1)?)))?;
    let mut last = None;
    for row in rows {
        let (at_ms, sample): (u64, Sample) = row?;
        // Pages that lead to each other in a circle have no end.
        if last.is_some_and(|last| last >= at_ms) {
            return Err(broken(0, std::io::Error::other("samples are out of order")));
        }
        last = Some(at_ms);
        trial.samples.push(sample);
    }
    Ok(Some(trial))
}

pub(crate) fn read_trials(connection: &Connection) -> rusqlite::Result<Vec<Trial>> {
    // Read at once: a query for each trial would take much longer.
    let mut metrics = read_metrics(connection)?;
    let mut samples = read_samples(connection)?;
    let query = format!("SELECT {TRIAL} FROM trial ORDER BY block, position");
    let mut statement = connection.prepare(&query)?;
    let rows = statement.query_map([], |row| {
        let mut trial = read_trial(row)?;
        trial.metrics = metrics.remove(&trial.id).unwrap_or_default();
        trial.samples = samples.remove(&trial.id).unwrap_or_default();
        Ok(trial)
    })?;
    rows.collect()
}

fn read_trial(row: &Row<'_>) -> rusqlite::Result<Trial> {
    let word: String = row.get(4)?;
    let outcome = Outcome::parse(&word)
        .ok_or_else(|| broken(4, std::io::Error::other(format!("unknown outcome `{word}`"))))?;
    // The two are written together, so the second is there if the first is.
    let window = match row.get::<_, Option<i64>>(9)? {
        Some(_) => Some((unsigned(row, 9)?, unsigned(row, 10)?)),
        None => None,
    };
    Ok(Trial {
        id: row.get(0)?,
        block: row.get(1)?,
        position: row.get(2)?,
        variant: row.get(3)?,
        outcome,
        detail: row.get(5)?,
        started_ms: unsigned(row, 6)?,
        seconds: amount(row, 7)?,
        machine: json(row, 8)?,
        metrics: BTreeMap::new(),
        samples: Vec::new(),
        load_window_ms: window,
        load: optional_json(row, 11)?,
        notes: json(row, 12)?,
        log_tail: row.get(13)?,
    })
}

fn read_metrics(
    connection: &Connection,
) -> rusqlite::Result<BTreeMap<String, BTreeMap<String, f64>>> {
    let mut statement = connection.prepare("SELECT trial, name, value FROM metric")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let mut metrics = BTreeMap::<String, BTreeMap<String, f64>>::new();
    for row in rows {
        let (trial, name, value): (String, String, f64) = row?;
        let value = value_of(&name, value, 2)?;
        metrics.entry(trial).or_default().insert(name, value);
    }
    Ok(metrics)
}

fn read_samples(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Vec<Sample>>> {
    let mut statement = connection.prepare("SELECT trial, detail FROM sample ORDER BY at_ms")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, json(row, 1)?)))?;
    let mut samples = BTreeMap::<String, Vec<Sample>>::new();
    for row in rows {
        let (trial, sample): (String, Sample) = row?;
        samples.entry(trial).or_default().push(sample);
    }
    Ok(samples)
}
