//! The report of an HTTP load as text.

use crate::text::write_generator;
use carat_model::load::{LoadReport, RouteReport, Times};
use carat_model::{Unit, count, metric};
use std::io::{self, Write};

pub(super) fn write_text(report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
    let throughput = report.metrics.get(metric::THROUGHPUT.id).copied().unwrap_or_default();
    if report.completed == 0 {
        writeln!(out, "no correct response, {}", count(report.errors, "error"))?;
    } else {
        writeln!(
            out,
            "{} in {}, {}, {}",
            count(report.completed, "response"),
            Unit::Seconds.show(report.seconds),
            Unit::PerSecond.show(throughput),
            count(report.errors, "error")
        )?;
    }
    for failure in &report.failures {
        writeln!(out, "  {failure}")?;
    }
    let listed: u64 = report.failures.iter().map(|failure| failure.count).sum();
    // The list of failures is limited, and the count above must still add up.
    if listed < report.errors {
        writeln!(out, "  {} of other kinds", count(report.errors - listed, "error"))?;
    }
    write_latency(report, out)?;
    write_routes(&report.routes, out)?;
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

/// A line per route or step, if there are several.
fn write_routes(routes: &[RouteReport], out: &mut dyn Write) -> io::Result<()> {
    if routes.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = routes.iter().map(route_name).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or_default().min(60);
    let headings = HEADINGS.map(|name| format!("{name:>9}")).join("  ");
    writeln!(out, "{:width$}  {headings}", FIRST)?;
    for (name, route) in names.iter().zip(routes) {
        let time = |of: fn(&Times) -> f64| {
            route.latency.as_ref().map_or_else(String::new, |times| Unit::Seconds.show(of(times)))
        };
        let cells = [
            route.completed.to_string(),
            route.errors.to_string(),
            time(|times| times.p50),
            time(|times| times.p95),
            time(|times| times.p99),
            time(|times| times.max),
        ];
        let line = format!("{name:width$}  {}", cells.map(|cell| format!("{cell:>9}")).join("  "));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

const FIRST: &str = "route";
const HEADINGS: [&str; 6] = ["responses", "errors", "p50", "p95", "p99", "max"];

fn route_name(route: &RouteReport) -> String {
    let place = route.scenario.as_ref().zip(route.step);
    let place = place.map_or_else(String::new, |(name, step)| format!("{name} {step}  "));
    let end = if route.redirected { ", redirected" } else { "" };
    format!("{place}{}{end}", route.route)
}
