//! What follows from a recording at its end.

use crate::run::recording::RecordError;
use crate::store::recording::{Journal, read};
use carat_analysis::growth::{of_recording, outlook};
use carat_model::recording::{Entry, Recording, RecordingEnd};
use carat_model::{LoadFlag, LoadReport, Severity, count};
use std::path::Path;

/// Reads the recording back and appends its growth and its end. `unsent`: why the load never began.
pub(super) fn conclude(
    journal: &mut Journal,
    path: &Path,
    (mut end, unsent): (RecordingEnd, Option<String>),
) -> Result<Recording, RecordError> {
    // From the file, because nothing must be concluded from what could not be written.
    let mut recording = read(path)?;
    recording.growth = of_recording(&recording);
    end.outlook = outlook(&recording.samples, &recording.growth, end.limit.as_ref());
    end.warnings.extend(warnings(&recording, &end, unsent.as_deref()));
    journal.append(&Entry::Growth(recording.growth.clone()));
    journal.append(&Entry::End(Box::new(end.clone())));
    recording.end = Some(end);
    Ok(recording)
}

/// Whether the recording is invalid because its load failed. A rate that was not reached does no harm, because
/// growth counts requests.
pub(crate) fn is_invalid(recording: &Recording) -> bool {
    let Some(load) = recording.load() else { return false };
    !was_answered(recording) || load.report.as_ref().is_some_and(has_fatal_flag)
}

fn has_fatal_flag(report: &LoadReport) -> bool {
    report.flags.iter().any(is_fatal)
}

fn is_fatal(flag: &LoadFlag) -> bool {
    flag.severity == Severity::Fatal && flag.code != "rate-not-reached"
}

fn was_answered(recording: &Recording) -> bool {
    recording.samples.iter().any(|sample| sample.answered.is_some())
}

fn warnings(recording: &Recording, end: &RecordingEnd, unsent: Option<&str>) -> Vec<String> {
    let mut warnings = Vec::new();
    let partial = recording.samples.iter().filter(|sample| sample.partial).count();
    if partial > 0 {
        let are = if partial == 1 { "is" } else { "are" };
        let partial = count(partial, "sample");
        warnings.push(format!("{partial} {are} partial: a process ended while it was read"));
    }
    let late = end.cost.late;
    if late > 0 {
        let were = if late == 1 { "was" } else { "were" };
        let late = count(late, "sample");
        warnings.push(format!("{late} {were} late or missed; give a longer --every"));
    }
    let Some(load) = &end.load else { return warnings };
    match &load.report {
        Some(report) => {
            warnings.extend(report.flags.iter().map(|flag| format!("load: {}", flag.message)));
        }
        None if !was_answered(recording) => {
            let why = unsent.unwrap_or(&end.ended);
            warnings.push(format!("no load was driven to {}: {why}", load.url));
        }
        None => {}
    }
    warnings
}
