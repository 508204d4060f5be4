//! The steps of a cable load as tables.

use crate::core::Unit;
use crate::core::load::{BroadcastRow, LoadReport, StepReport, Times};
use std::io::{self, Write};

const COLUMNS: [&str; 9] =
    ["clients", "complete p50", "p95", "max", "delivery p50", "p95", "own p50", "p95", "missing"];

/// A line per step: how long until everybody, anybody and the sender has a broadcast.
pub(crate) fn table(report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
    let head = COLUMNS.map(str::to_owned);
    let rows: Vec<[String; 9]> =
        std::iter::once(head).chain(report.steps.iter().map(cells)).collect();
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

fn cells(step: &StepReport) -> [String; 9] {
    let of = |name: &str, pick: fn(&Times) -> f64| {
        step.times.get(name).map_or_else(|| "-".to_owned(), |times| Unit::Seconds.show(pick(times)))
    };
    [
        step.clients.to_string(),
        of("complete", |times| times.p50),
        of("complete", |times| times.p95),
        of("complete", |times| times.max),
        of("delivery", |times| times.p50),
        of("delivery", |times| times.p95),
        of("ack", |times| times.p50),
        of("ack", |times| times.p95),
        step.missing.to_string(),
    ]
}

/// The columns of websocket-bench, of the sender's own results only (`benchmark/stat.go` and `benchmark/result_recorder.go`
/// of its version 0.3.0): milliseconds rounded half up, a rank without interpolation.
pub(crate) fn websocket_bench(report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
    for step in &report.steps {
        let mut results: Vec<u64> = step
            .broadcasts
            .iter()
            .filter_map(|row| row.ack_us)
            .map(|micros| (micros + 500) / 1_000)
            .collect();
        results.sort_unstable();
        // Its rank is the whole part of share times count, without interpolation.
        let at = |percent: usize| {
            results.get((results.len() * percent / 100).min(results.len().saturating_sub(1)))
        };
        let show = |value: Option<&u64>| {
            value.map_or_else(|| "-".to_owned(), |millis| format!("{millis:>3}ms"))
        };
        writeln!(
            out,
            "clients: {:5}    95per-rtt: {:>5}    min-rtt: {:>5}    median-rtt: {:>5}    max-rtt: {:>5}",
            step.clients,
            show(at(95)),
            show(results.first()),
            show(at(50)),
            show(results.last())
        )?;
    }
    Ok(())
}

/// A line per broadcast, tab-separated; moments are microseconds after the intended send, empty where there is none.
pub(crate) fn rows(report: &LoadReport, mut out: impl Write) -> io::Result<()> {
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
    let some = |value: Option<u64>| value.map(|micros| micros.to_string()).unwrap_or_default();
    [
        row.number.to_string(),
        row.sender.to_string(),
        row.intended_us.to_string(),
        row.sent_us.to_string(),
        some(row.first_us),
        some(row.own_us),
        some(row.ack_us),
        some(row.complete_us),
        row.expected.to_string(),
        row.received.to_string(),
        row.duplicate.to_string(),
    ]
    .join("\t")
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
    fn the_columns_of_websocket_bench_have_its_definitions() {
        let mut out = Vec::new();
        websocket_bench(&report(), &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "clients:  1000    95per-rtt:  96ms    min-rtt:   1ms    median-rtt:  51ms    max-rtt: 100ms\n"
        );
    }

    #[test]
    fn every_broadcast_is_a_line_with_as_many_cells_as_the_head() {
        let mut out = Vec::new();
        rows(&report(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let cells: Vec<usize> = text.lines().map(|line| line.split('\t').count()).collect();
        assert_eq!((cells.len(), cells.iter().all(|count| *count == 12)), (101, true));
    }
}
