//! A recording in words.

use crate::analysis::growth::{cause, found};
use crate::cli::recorder::Recorder;
use crate::core::recording::{End, Recording};
use crate::core::{Unit, metric};
use std::fmt::Write;

/// One line on the newest sample.
pub(crate) fn progress_line(recorder: &Recorder) -> String {
    let Some(sample) = &recorder.last else { return String::new() };
    let at = sample.at_ms as f64 / 1e3;
    let word = if sample.processes == 1 { "process" } else { "processes" };
    let mut line = format!("{at:8.1} s  {} {word}", sample.processes);
    let newest = recorder.weighed.as_ref();
    for (name, bytes) in [
        ("PSS", newest.and_then(|sample| sample.pss)),
        ("private", newest.and_then(|sample| sample.uss)),
        ("RSS", sample.rss),
    ] {
        if let Some(bytes) = bytes {
            let _ = write!(line, "  {name} {bytes}");
        }
    }
    if let Some((lines, error)) = recorder.loss() {
        let _ = write!(line, "  {lines} lines not written: {error}");
    }
    line
}

/// What grew, by how much and why, and what the recording cost.
pub(crate) fn growth_lines(recording: &Recording) -> String {
    let seconds = recording.samples.last().map_or(0.0, |sample| sample.at_ms as f64 / 1e3);
    let mut text = format!("\nGrowth over {seconds:.0} s ({})\n", recording.ended());
    if let Some(report) = recording.load().and_then(|load| load.report.as_ref()) {
        let latency = |name: &str| report.metrics.get(name).map(|&value| Unit::Seconds.show(value));
        let _ = write!(text, "  load: {} requests, {} errors", report.completed, report.errors);
        if let (Some(p50), Some(p95)) =
            (latency(metric::LATENCY_P50.id), latency(metric::LATENCY_P95.id))
        {
            let _ = write!(text, ", p50 {p50}, p95 {p95}");
        }
        text.push('\n');
    }
    if recording.growth.is_empty() {
        text.push_str("  undecided: no figure was seen twice; record for longer\n");
    }
    for growth in &recording.growth {
        let _ = writeln!(text, "  {:<14}{}", growth.part.label(), found(growth));
    }
    if let Some(cause) = cause(&recording.growth) {
        let _ = writeln!(text, "  {cause}");
    }
    let Some(End { cost, .. }) = &recording.end else { return text };
    let _ = writeln!(
        text,
        "\nCost of recording: {:.2} s of processor time, {:.2} % of one core; {} samples, {} with PSS, {} late",
        cost.cpu_s,
        cost.core_share * 100.0,
        cost.samples,
        cost.full_samples,
        cost.late
    );
    text
}
