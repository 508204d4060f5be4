//! Memory over time, from the samples of the trials that count.

use crate::facts;
use crate::numbers::seconds;
use carat_model::{Bytes, Results, Sample};

/// One trial: seconds since the start, and bytes.
pub(crate) type MemorySeries = Vec<(f64, f64)>;

/// Reads one figure of a sample.
pub(crate) type SampleFigure = fn(&Sample) -> Option<Bytes>;

/// Whether to show resident memory: if the experiment is about it and the samples have it, or if they lack PSS.
pub(crate) fn is_resident(results: &Results) -> bool {
    // What the experiment is about, if it was sampled at all.
    let wanted = results.info.primary.contains(".rss.");
    (wanted && any_sample(results, |sample| sample.rss.is_some()))
        || !any_sample(results, |sample| sample.pss.is_some())
}

/// Whether any sample of any trial satisfies `condition`.
pub(crate) fn any_sample(results: &Results, condition: fn(&Sample) -> bool) -> bool {
    results.trials.iter().flat_map(|trial| &trial.samples).any(condition)
}

/// The figure of the memory that the experiment is about.
pub(crate) fn memory(resident: bool) -> SampleFigure {
    if resident { |sample| sample.rss } else { |sample| sample.pss }
}

/// One series for every trial of a variant that counts and has the figure. Partial samples are left out.
pub(crate) fn memory_series(
    results: &Results,
    variant: &str,
    figure: SampleFigure,
) -> Vec<MemorySeries> {
    facts::counted_trials(results, variant)
        .map(|trial| series(&trial.samples, figure))
        .filter(|series| !series.is_empty())
        .collect()
}

/// One figure of the complete samples over time.
pub(crate) fn series(
    samples: &[Sample],
    figure: impl Fn(&Sample) -> Option<Bytes>,
) -> MemorySeries {
    // A partial sample lacks processes and would be drawn as a dip.
    samples
        .iter()
        .filter(|sample| !sample.partial)
        .filter_map(|sample| Some((seconds(sample.at_ms), figure(sample)?.0 as f64)))
        .collect()
}

/// Bytes that the processes of a tree share; unknown for a single process.
pub(crate) fn shared_bytes(sample: &Sample) -> Option<f64> {
    // A single process shares nothing within its tree.
    let known = sample.processes > 1 && !sample.partial;
    Some(sample.shared.filter(|_| known)?.0 as f64)
}
