//! A recording in words.

use crate::cli::recorder::Recorder;
use crate::model::Bytes;
use crate::model::recording::{ComponentGrowth, Recording};
use std::fmt::Write;

/// One line on the newest sample.
pub(crate) fn progress_line(recorder: &Recorder) -> String {
    let Some(sample) = recorder.samples.last() else { return String::new() };
    let at = sample.at_ms as f64 / 1e3;
    let word = if sample.processes == 1 { "process" } else { "processes" };
    let mut line = format!("{at:8.1} s  {} {word}", sample.processes);
    let newest = recorder.samples.iter().rev().find(|sample| sample.pss.is_some());
    for (name, bytes) in [
        ("PSS", newest.and_then(|sample| sample.pss)),
        ("private", newest.and_then(|sample| sample.uss)),
        ("RSS", sample.rss),
    ] {
        if let Some(bytes) = bytes {
            let _ = write!(line, "  {name} {bytes}");
        }
    }
    line
}

/// What grew, by how much, and what the recording cost.
pub(crate) fn growth_lines(recording: &Recording) -> String {
    let seconds = recording.samples.last().map_or(0.0, |sample| sample.at_ms as f64 / 1e3);
    let mut text = format!("\nGrowth over {seconds:.0} s ({})\n", recording.ended);
    if recording.growth.is_empty() {
        text.push_str("  undecided: no figure was seen twice; record for longer\n");
    }
    for growth in &recording.growth {
        let _ = writeln!(text, "  {:<24}{}", growth.component, sentence(growth));
    }
    let cost = &recording.cost;
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

fn sentence(growth: &ComponentGrowth) -> String {
    let is_bytes = growth.unit.starts_with("bytes");
    let amount = |value: f64| {
        let sign = if value < 0.0 { "-" } else { "" };
        if is_bytes {
            format!("{sign}{}", Bytes(value.abs() as u64))
        } else {
            format!("{value:.1}")
        }
    };
    let mut text = growth.kind.clone();
    if let Some(level) = growth.asymptote {
        let _ = write!(text, " towards {}", amount(level));
    }
    if let Some(step) = growth.step {
        let what = if step < 0.0 { ": private since the fork" } else { ", one jump of" };
        let _ = write!(text, "{what} {}", amount(step.abs()));
    }
    if let (Some(rate), "linear") = (growth.rate, growth.kind.as_str()) {
        let _ = write!(text, ": {} a second, {} a day", amount(rate), amount(rate * 86_400.0));
        if let Some((low, high)) = growth.interval {
            let _ = write!(text, " (between {} and {} a second)", amount(low), amount(high));
        }
    }
    if let Some(needed) = growth.needed_s {
        let _ = write!(text, ": record for about {needed:.0} s");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_names_its_rate_its_interval_and_how_much_longer_to_run() {
        let growth = ComponentGrowth {
            component: "tree (PSS)".into(),
            kind: "linear".into(),
            unit: "bytes per second".into(),
            rate: Some(2000.0),
            interval: Some((1500.0, 2500.0)),
            asymptote: None,
            step: None,
            needed_s: None,
        };
        assert_eq!(
            sentence(&growth),
            "linear: 2.0 kB a second, 172.8 MB a day (between 1.5 kB and 2.5 kB a second)"
        );
        let growth = ComponentGrowth {
            kind: "undecided".into(),
            rate: Some(3.0),
            needed_s: Some(400.0),
            ..growth
        };
        assert_eq!(sentence(&growth), "undecided: record for about 400 s");
    }
}
