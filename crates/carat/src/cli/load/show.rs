//! A load's report for people and for programs.

use crate::core::load::{LoadReport, LoadSpec, OwnCost, Severity};
use crate::core::{Bytes, Unit, metric};
use serde_json::json;
use std::io::{self, Write};

/// Version of the JSON; raised when a field changes its meaning or goes.
const SCHEMA: &str = "carat.load/1";

/// The report as JSON with the load that it is of.
pub(crate) fn json(spec: &LoadSpec, report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
    let value = json!({ "schema": SCHEMA, "load": spec, "report": report });
    serde_json::to_writer_pretty(&mut *out, &value)?;
    writeln!(out)
}

/// The report of an HTTP load as a few lines.
pub(crate) fn http(report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
    let throughput = report.metrics.get(metric::THROUGHPUT.id).copied().unwrap_or_default();
    writeln!(
        out,
        "{} responses in {}, {}, {} errors",
        report.completed,
        Unit::Seconds.show(report.seconds),
        Unit::PerSecond.show(throughput),
        report.errors
    )?;
    for (kind, count) in &report.errors_by {
        writeln!(out, "  {count} {kind}")?;
    }
    latency(report, out)?;
    tail(report, out)
}

/// The percentiles that so many responses carry, and which they do not.
fn latency(report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
    if report.completed == 0 {
        return Ok(());
    }
    let mut known = Vec::new();
    for metric in metric::latencies() {
        let name = metric.id.trim_start_matches("latency.");
        match report.metrics.get(metric.id) {
            Some(value) => known.push(format!("{name} {}", metric.unit.show(*value))),
            None => known.push(format!("{name} unknown (needs {} responses)", metric.least)),
        }
    }
    writeln!(out, "latency  {}", known.join("   "))
}

/// The generator's own cost and the findings.
pub(crate) fn tail(report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "generator  {}", own(&report.own, report.seconds))?;
    for flag in &report.flags {
        let word = match flag.severity {
            Severity::Info => "note",
            Severity::Warning => "warning",
            Severity::Fatal => "invalid",
        };
        writeln!(out, "{word}: {}: {}", flag.code, flag.message)?;
    }
    Ok(())
}

fn own(own: &OwnCost, seconds: f64) -> String {
    let mut parts = Vec::new();
    if seconds > 0.0 {
        parts.push(format!("{:.1} % of a core", own.cpu_s / seconds * 100.0));
    }
    if let Some(micros) = own.cpu_us_per_message {
        parts.push(format!("{micros:.1} µs per message"));
    }
    if let Some((_, lag)) = own.lag {
        parts.push(format!("lag p99 {}", Unit::Seconds.show(lag)));
    }
    if let Some((_, late)) = own.late {
        parts.push(format!("late p99 {}", Unit::Seconds.show(late)));
    }
    if let Some(bytes) = own.rss_peak {
        parts.push(format!("{} resident", Bytes(bytes)));
    }
    parts.join("   ")
}
