//! Memory over time, taken out of the trials that count.

use crate::core::{Bytes, Results, Sample};
use crate::report::facts;

/// Seconds since the start and bytes, of one trial.
pub(crate) type Course = Vec<(f64, f64)>;

/// Resident memory where the experiment is about it and the samples have it; proportional memory otherwise.
pub(crate) fn is_resident(results: &Results) -> bool {
    let has = |pick: fn(&Sample) -> bool| results.trials.iter().flat_map(|t| &t.samples).any(pick);
    let asked = results.header.primary.contains(".rss.");
    (asked && has(|s| s.rss.is_some())) || !has(|s| s.pss.is_some())
}

/// The memory that the experiment is about.
pub(crate) fn weight(resident: bool) -> fn(&Sample) -> Option<Bytes> {
    if resident { |sample| sample.rss } else { |sample| sample.pss }
}

/// One course per trial of a variant that counts and has the figure; partial samples are left out.
pub(crate) fn courses(
    results: &Results,
    variant: &str,
    pick: fn(&Sample) -> Option<Bytes>,
) -> Vec<Course> {
    let point = |s: &Sample| Some((s.at_ms as f64 / 1e3, pick(s)?.0 as f64));
    results
        .trials
        .iter()
        .filter(|trial| trial.variant == variant && facts::counts(trial))
        .map(|trial| trial.samples.iter().filter(|s| !s.partial).filter_map(point).collect())
        .filter(|course: &Course| !course.is_empty())
        .collect()
}
