//! The report of a cable load as text: a table of its steps, the columns of websocket-bench, or a line per broadcast.

use crate::text::write_generator;
use carat_files::{NamedBy, write_file};
use carat_model::Unit;
use carat_model::load::{BroadcastRow, CableOptions, Compat, LoadReport, StepReport, Times};
use std::io::{self, Write};
use std::path::Path;

const COLUMNS: [&str; 9] =
    ["clients", "complete p50", "p95", "max", "delivery p50", "p95", "own p50", "p95", "missing"];

/// Writes the report in the requested form, and the broadcasts to a file of their own if requested.
pub(super) fn write_text(
    options: &CableOptions,
    report: &LoadReport,
    out: &mut dyn Write,
) -> io::Result<()> {
    match options.compat {
        Some(Compat::WebsocketBench) => write_websocket_bench(report, out)?,
        None => write_table(report, out)?,
    }
    write_generator(report, out)
}

/// Writes every broadcast to a file.
///
/// # Errors
/// If the file cannot be written; the message names it.
pub(super) fn write_rows_file(path: &Path, report: &LoadReport) -> io::Result<()> {
    let mut rows = Vec::new();
    let written =
        write_rows(report, &mut rows).and_then(|()| write_file(path, &rows, NamedBy::User));
    written.map_err(|error| {
        let path = path.display();
        let message =
            format!("cannot write the broadcasts to {path}: {error}; choose another --rows");
        io::Error::new(error.kind(), message)
    })
}

/// A line per step: how long until all subscribers, any subscriber and the sender had a broadcast.
fn write_table(report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
    let head = COLUMNS.map(str::to_owned);
    let rows: Vec<[String; 9]> =
        std::iter::once(head).chain(report.steps.iter().map(step_cells)).collect();
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  "))?;
    }
    writeln!(
        out,
        "{} deliveries in {}, {} missing",
        report.completed,
        Unit::Seconds.show(report.seconds),
        report.errors
    )
}

fn step_cells(step: &StepReport) -> [String; 9] {
    [
        step.clients.to_string(),
        time_cell(step, "complete", |times| times.p50),
        time_cell(step, "complete", |times| times.p95),
        time_cell(step, "complete", |times| times.max),
        time_cell(step, "delivery", |times| times.p50),
        time_cell(step, "delivery", |times| times.p95),
        time_cell(step, "ack", |times| times.p50),
        time_cell(step, "ack", |times| times.p95),
        step.missing.to_string(),
    ]
}

fn time_cell(step: &StepReport, name: &str, of: fn(&Times) -> f64) -> String {
    step.times.get(name).map_or_else(|| "-".to_owned(), |times| Unit::Seconds.show(of(times)))
}

/// The columns of websocket-bench, of the sender's own results only (`benchmark/stat.go` and `benchmark/result_recorder.go`
/// of its version 0.3.0): milliseconds rounded half up, a rank without interpolation.
fn write_websocket_bench(report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
    for step in &report.steps {
        let mut results: Vec<u64> = step
            .broadcasts
            .iter()
            .filter_map(|row| row.ack_us)
            .map(|micros| (micros + 500) / 1_000)
            .collect();
        results.sort_unstable();
        writeln!(
            out,
            "clients: {:5}    95per-rtt: {:>5}    min-rtt: {:>5}    median-rtt: {:>5}    max-rtt: {:>5}",
            step.clients,
            millis_cell(ranked(&results, 95)),
            millis_cell(results.first()),
            millis_cell(ranked(&results, 50)),
            millis_cell(results.last())
        )?;
    }
    Ok(())
}

/// The value at the rank that is the whole part of share times count.
fn ranked(results: &[u64], percent: usize) -> Option<&u64> {
    // At 100 % the rank would be one past the last.
    results.get((results.len() * percent / 100).min(results.len().saturating_sub(1)))
}

fn millis_cell(value: Option<&u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |millis| format!("{millis:>3}ms"))
}

/// A line per broadcast, tab-separated. Times are microseconds after the intended send, and empty if unknown.
fn write_rows(report: &LoadReport, mut out: impl Write) -> io::Result<()> {
    writeln!(
        out,
        "step\tnumber\tsender\tintended_us\tsent_us\tfirst_us\town_us\tack_us\tcomplete_us\texpected\treceived\tduplicate"
    )?;
    for (at, step) in report.steps.iter().enumerate() {
        for row in &step.broadcasts {
            writeln!(out, "{}\t{}", at + 1, row_cells(row))?;
        }
    }
    out.flush()
}

fn row_cells(row: &BroadcastRow) -> String {
    [
        row.number.to_string(),
        row.sender.to_string(),
        row.intended_us.to_string(),
        row.sent_us.to_string(),
        optional_cell(row.first_us),
        optional_cell(row.own_us),
        optional_cell(row.ack_us),
        optional_cell(row.complete_us),
        row.expected.to_string(),
        row.received.to_string(),
        row.duplicate.to_string(),
    ]
    .join("\t")
}

fn optional_cell(micros: Option<u64>) -> String {
    micros.map(|micros| micros.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> LoadReport {
        let row = |ack_us| BroadcastRow { ack_us: Some(ack_us), ..BroadcastRow::default() };
        let broadcasts = (1..=100).map(|millis| row(millis * 1_000 - 500)).collect();
        let step = StepReport { clients: 1_000, broadcasts, ..StepReport::default() };
        LoadReport { steps: vec![step], ..LoadReport::default() }
    }

    #[test]
    fn the_columns_of_websocket_bench_follow_its_definitions() {
        let mut out = Vec::new();
        write_websocket_bench(&report(), &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "clients:  1000    95per-rtt:  96ms    min-rtt:   1ms    median-rtt:  51ms    max-rtt: 100ms\n"
        );
    }

    #[test]
    fn every_broadcast_is_a_line_with_as_many_cells_as_the_header() {
        let mut out = Vec::new();
        write_rows(&report(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let cells: Vec<usize> = text.lines().map(|line| line.split('\t').count()).collect();
        assert_eq!((cells.len(), cells.iter().all(|count| *count == 12)), (101, true));
    }
}
