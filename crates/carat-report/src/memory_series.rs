//! Memory over time, from the samples of the trials that count.

use crate::chart::reduce::{BandPoint, band, point_of};
use crate::facts;
use crate::numbers::seconds;
use carat_model::{Bytes, Moment, Results, Sample};
use carat_stats::summary::median;

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

/// The quartiles of the trials of a variant at evenly spaced places, and at the two moments that differ in time between trials:
/// the end of the load, of which the verdict is, and the last sample.
pub(crate) fn memory_band(
    results: &Results,
    variant: &str,
    figure: SampleFigure,
    places: usize,
) -> Vec<BandPoint> {
    let trials = memory_series(results, variant, figure);
    let samples = facts::counted_trials(results, variant).map(|trial| &trial.samples);
    let ends = samples.filter_map(|samples| {
        let mut whole = samples.iter().filter(|sample| !sample.partial);
        let end = whole.find(|sample| sample.moment == Some(Moment::End))?;
        Some((seconds(end.at_ms), figure(end)?.0 as f64))
    });
    let ends: Vec<(f64, f64)> = ends.collect();
    let lasts: Vec<(f64, f64)> = trials.iter().filter_map(|trial| trial.last().copied()).collect();
    let mut points = band(&trials, places);
    let Some(last) = of_moment(&lasts) else { return points };
    // Beyond it fewer than half of the trials go on.
    points.retain(|point| point.x < last.x);
    if let Some(end) = of_moment(&ends).filter(|end| end.x < last.x) {
        points.retain(|point| point.x != end.x);
        points.insert(points.partition_point(|point| point.x < end.x), end);
    }
    points.push(last);
    points
}

/// One moment of all trials: the quartiles of their values, at the median time.
fn of_moment(points: &[(f64, f64)]) -> Option<BandPoint> {
    let (times, values): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    Some(point_of(median(&times)?, values))
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

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::Trial;

    /// A trial whose memory jumps when the load has ended, as a figure does that is read rarely.
    fn trial(block: u32, end_ms: u64, megabytes: u64, idle: bool) -> Trial {
        let sample = |at_ms, megabytes: u64, moment| Sample {
            at_ms,
            moment,
            pss: Some(Bytes(megabytes * 1_000_000)),
            ..Sample::default()
        };
        let mut samples = vec![
            sample(0, 20, None),
            sample(end_ms - 1000, 100, None),
            sample(end_ms, megabytes, Some(Moment::End)),
        ];
        if idle {
            samples.push(sample(end_ms + 5000, 90, Some(Moment::Idle)));
        }
        Trial { samples, ..crate::testing::trial(block, "a") }
    }

    fn found(idle: bool) -> Vec<BandPoint> {
        let trials = [(1, 9000, 112), (2, 9300, 115), (3, 9600, 118)];
        let trials = trials.map(|(block, end, size)| trial(block, end, size, idle));
        let results = crate::testing::results(&["a"], trials.into());
        memory_band(&results, "a", |sample| sample.pss, 40)
    }

    #[test]
    fn memory_over_time_ends_with_the_figure_of_the_verdict() {
        let last = *found(false).last().unwrap();
        assert_eq!((last.x, last.median), (9.3, 115e6), "the medians of the last samples");
        let idle = found(true);
        let end = idle.iter().find(|point| point.x == 9.3).unwrap();
        assert_eq!(end.median, 115e6);
        assert_eq!(idle.last().map(|last| (last.x, last.median)), Some((14.3, 90e6)));
        for points in [found(false), idle] {
            assert!(points.windows(2).all(|pair| pair[0].x < pair[1].x), "{points:?}");
        }
    }
}
