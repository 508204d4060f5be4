//! From samples and the load's report to the metrics of a trial: pure.

use crate::core::{Bytes, LoadReport, Sample};
use carat_stats::summary::late_median;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a trial saw, before it becomes metrics.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// From exec to ready.
    pub(crate) boot: Option<Duration>,
    /// The tree when ready, before any load.
    pub(crate) ready: Option<Sample>,
    /// Everything sampled.
    pub(crate) samples: Vec<Sample>,
    /// Begin and end of the measured load on the samples' clock, in milliseconds.
    pub(crate) window_ms: Option<(u64, u64)>,
    /// The tree after the last request.
    pub(crate) last: Option<Sample>,
    /// What the generator reported.
    pub(crate) load: Option<LoadReport>,
    /// Processor time of the tree during the load.
    pub(crate) cpu: Option<Duration>,
    /// Collections, full collections and nanoseconds collecting during the load.
    pub(crate) collections: [Option<u64>; 3],
    /// Settings that did not take.
    pub(crate) notes: Vec<String>,
    /// The machine's available memory before the start and after the last request.
    pub(crate) available: (Option<Bytes>, Option<Bytes>),
}

/// The metrics that follow; what is not known is left out.
pub(crate) fn metrics(seen: &Seen) -> BTreeMap<String, f64> {
    let bytes = |amount: Option<Bytes>| amount.map(|bytes| bytes.0 as f64);
    let (ready, last) = (seen.ready.as_ref(), seen.last.as_ref());
    let pss_peak = seen.samples.iter().chain(last).filter_map(|sample| sample.pss).max();
    // Negative where others freed more meanwhile: dropping such a trial would be choosing by value.
    let (before, after) = seen.available;
    let system = before.zip(after).map(|(before, after)| before.0 as f64 - after.0 as f64);
    let [gcs, major_gcs, gc_nanoseconds] =
        seen.collections.map(|figure| figure.map(|number| number as f64));
    let named = [
        ("boot.time", seen.boot.map(|boot| boot.as_secs_f64())),
        ("memory.rss.ready", bytes(ready.and_then(|sample| sample.rss))),
        ("memory.pss.ready", bytes(ready.and_then(|sample| sample.pss))),
        ("memory.rss.final", bytes(last.and_then(|sample| sample.rss))),
        ("memory.pss.final", bytes(last.and_then(|sample| sample.pss))),
        ("memory.uss.final", bytes(last.and_then(|sample| sample.uss))),
        ("memory.shared.final", bytes(last.and_then(|sample| sample.shared))),
        ("memory.rss.peak", bytes(last.and_then(|sample| sample.rss_peak))),
        ("memory.pss.peak", bytes(pss_peak)),
        ("memory.rss.late", late(seen, |sample| sample.rss)),
        ("memory.pss.late", late(seen, |sample| sample.pss)),
        ("memory.system.final", system),
        ("gc.count", gcs),
        ("gc.major.count", major_gcs),
        ("gc.time", gc_nanoseconds.map(|nanoseconds| nanoseconds / 1e9)),
        ("cpu.server", seen.cpu.map(|cpu| cpu.as_secs_f64())),
    ];
    let mut metrics: BTreeMap<String, f64> =
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    metrics.extend(seen.load.iter().flat_map(|load| load.metrics.clone()));
    metrics
}

/// Begin and end of the measured load in milliseconds after the trial began, which was at `began_ms` of the report's clock.
///
/// From the first send to the last answer where the report knows them, and never beyond `around`: neither the generator's
/// start nor its connections are the load.
pub(crate) fn window(report: &LoadReport, began_ms: u64, around: (u64, u64)) -> (u64, u64) {
    report.window_ms.map_or(around, |(first, last)| {
        let inside = |moment: u64| moment.saturating_sub(began_ms).clamp(around.0, around.1);
        (inside(first), inside(last))
    })
}

/// The median over the last quarter of the load, the final sample included.
///
/// A median, not the last value: variants that give memory back draw a saw.
fn late(seen: &Seen, figure: impl Fn(&Sample) -> Option<Bytes>) -> Option<f64> {
    let (from, to) = seen.window_ms?;
    let amount = |sample: &Sample| figure(sample).map(|bytes| bytes.0 as f64);
    let during = seen.samples.iter().filter(|sample| (from..=to).contains(&sample.at_ms));
    let series: Vec<(f64, f64)> = during
        .filter_map(|sample| Some((sample.at_ms as f64, amount(sample)?)))
        .chain(seen.last.as_ref().and_then(amount).map(|last| (to as f64, last)))
        .collect();
    late_median(&series)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64, pss: u64) -> Sample {
        Sample { at_ms, processes: 1, pss: Some(Bytes(pss)), ..Sample::default() }
    }

    #[test]
    fn the_late_figure_is_the_median_of_the_last_quarter_and_the_final_sample() {
        let seen = Seen {
            samples: vec![sample(100, 900), sample(800, 30), sample(900, 10), sample(1000, 20)],
            window_ms: Some((0, 1000)),
            last: Some(sample(1200, 40)),
            ..Seen::default()
        };
        assert_eq!(metrics(&seen)["memory.pss.late"], 25.0);
        assert_eq!(metrics(&seen)["memory.pss.peak"], 900.0);
    }

    #[test]
    fn the_window_of_the_load_is_the_generators_where_it_says_one() {
        let silent = LoadReport::default();
        assert_eq!(window(&silent, 50_000, (100, 900)), (100, 900));
        for (said, expected) in [((50_150, 50_880), (150, 880)), ((50_099, 50_901), (100, 900))] {
            let report = LoadReport { window_ms: Some(said), ..LoadReport::default() };
            assert_eq!(window(&report, 50_000, (100, 900)), expected);
        }
    }

    #[test]
    fn what_was_not_seen_is_left_out_and_never_zero() {
        assert!(metrics(&Seen::default()).is_empty());
    }

    #[test]
    fn memory_that_others_freed_meanwhile_makes_a_negative_figure_and_no_gap() {
        let freed = Seen { available: (Some(Bytes(1)), Some(Bytes(3))), ..Seen::default() };
        assert_eq!(metrics(&freed)["memory.system.final"], -2.0);
    }
}
