//! The report of a load of jobs as text.

use crate::text::write_generator;
use carat_model::load::{LoadReport, Times};
use carat_model::{Unit, count, metric};
use std::io::{self, Write};

pub(crate) fn write_text(report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
    if report.completed == 0 {
        writeln!(out, "no job ended without a failure, {}", count(report.errors, "error"))?;
    } else {
        writeln!(
            out,
            "{} in {}, {}, {}",
            count(report.completed, "job"),
            Unit::Seconds.show(report.seconds),
            throughput(report),
            count(report.errors, "error")
        )?;
    }
    for failure in &report.failures {
        writeln!(out, "  {failure}")?;
    }
    write_times(report, out)?;
    write_generator(report, out)
}

fn throughput(report: &LoadReport) -> String {
    let known = report.metrics.get(metric::THROUGHPUT.id);
    known.map_or_else(|| "throughput unknown".to_owned(), |value| Unit::PerSecond.show(*value))
}

/// The latency, the time in the queue, and how fine they are.
fn write_times(report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
    let mut known = Vec::new();
    for metric in metric::latencies() {
        let name = metric.id.trim_start_matches("latency.");
        match report.metrics.get(metric.id) {
            Some(value) => known.push(format!("{name} {}", metric.unit.show(*value))),
            None if report.latency_hdr.is_some() => {
                known.push(format!("{name} unknown (needs {} jobs)", metric.least));
            }
            None => {}
        }
    }
    if !known.is_empty() {
        writeln!(out, "latency  {}", known.join("   "))?;
    }
    let Some(jobs) = &report.jobs else { return Ok(()) };
    if let Some(Times { p50, p95, p99, max, .. }) = &jobs.queued {
        let [p50, p95, p99, max] = [p50, p95, p99, max].map(|value| Unit::Seconds.show(*value));
        writeln!(out, "in queue  p50 {p50}   p95 {p95}   p99 {p99}   max {max}")?;
    }
    let threads = jobs.threads.map(|threads| format!("{} of Sidekiq, ", count(threads, "thread")));
    if let Some((p50, p99)) = jobs.resolution {
        let [p50, p99] = [p50, p99].map(|value| Unit::Seconds.show(value));
        writeln!(out, "{}read every {p50} (p99 {p99})", threads.unwrap_or_default())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::load::JobsReport;

    #[test]
    fn the_text_shows_jobs_times_threads_and_resolution() {
        let times = Times { p50: 0.002, p95: 0.01, p99: 0.02, max: 0.03, ..Times::default() };
        let report = LoadReport {
            completed: 3,
            seconds: 1.5,
            metrics: [("throughput".to_owned(), 2.0), ("latency.p50".to_owned(), 0.25)].into(),
            jobs: Some(JobsReport {
                queued: Some(times),
                resolution: Some((0.005, 0.006)),
                threads: Some(25),
            }),
            ..LoadReport::default()
        };
        let mut out = Vec::new();
        write_text(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for line in [
            "3 jobs in 1.50 s, 2.0/s, 0 errors\n",
            "latency  p50 250.00 ms\n",
            "in queue  p50 2.00 ms   p95 10.00 ms   p99 20.00 ms   max 30.00 ms\n",
            "25 threads of Sidekiq, read every 5.00 ms (p99 6.00 ms)\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
