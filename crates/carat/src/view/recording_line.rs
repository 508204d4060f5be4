//! One line on a recording that is running.

use crate::run::recording::Recorder;
use carat_model::{Bytes, Sample};
use carat_report::numbers::{count, seconds};
use std::fmt::Write;

/// One line on the newest sample of a recording, and on lines that could not be written.
pub(crate) fn recording_line(recorder: &Recorder<'_>) -> String {
    let Some(sample) = &recorder.last else { return String::new() };
    let mut line = sample_line(sample, recorder.last_with_pss.as_ref());
    if let Some(growth) = &recorder.kept_growth {
        let _ = write!(line, "  {growth}");
    }
    if let Some(waits) = &recorder.load_waits {
        let _ = write!(line, "  no load yet: {waits}");
    }
    match recorder.loss() {
        Some((lines, error)) => {
            format!("{line}  {} not written: {error}", count(lines, "line"))
        }
        None => line,
    }
}

/// One line on the newest sample; `full` is the newest that has the memory of the whole tree.
fn sample_line(sample: &Sample, full: Option<&Sample>) -> String {
    let mut line =
        format!("{:8.1} s  {}", seconds(sample.at_ms), count(sample.processes, "process"));
    let figures: [(&str, Option<Bytes>); 3] = [
        ("PSS", full.and_then(|full| full.pss)),
        ("private", full.and_then(|full| full.uss)),
        ("RSS", sample.rss),
    ];
    for (name, bytes) in figures {
        if let Some(bytes) = bytes {
            let _ = write!(line, "  {name} {bytes}");
        }
    }
    line
}
