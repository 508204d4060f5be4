//! The report of an HTTP load as text.

use crate::core::load::LoadReport;
use crate::core::{Unit, metric};
use crate::load::text::write_generator;
use std::io::{self, Write};

pub(crate) fn write_text(report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
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
    write_latency(report, out)?;
    write_generator(report, out)
}

/// The percentiles that are known, and how many responses the others need.
fn write_latency(report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
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
