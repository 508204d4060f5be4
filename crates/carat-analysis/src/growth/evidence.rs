//! The length that a run must have before it is said to grow.
//!
//! A warm-up grows too, and so does garbage that only a full collection frees. Neither can be told from a leak by the
//! shape of a short series. The minima and the measurements behind them are in `docs/explanation/method.md`.

use crate::growth::series::PlacedSample;
use carat_model::{
    DailyGrowth, GrowthEvidence, GrowthKind, PartGrowth, ProgressUnit, Sample, TrackedPart,
};
use carat_stats::summary::median;

const DAY_S: f64 = 86_400.0;
/// The judged part of a run begins here, as a share of its length; as in `carat_stats::growth`.
const JUDGED: f64 = 0.125;

/// Requests of each process, full collections and seconds that `linear` requires.
const COUNTED: GrowthEvidence =
    GrowthEvidence { requests: Some(20e3), full_collections: Some(3.0), seconds: 10.0 };
/// The same where full collections are not counted: as many requests as three full collections take in a small app.
const WITHOUT_COLLECTIONS: GrowthEvidence =
    GrowthEvidence { requests: Some(300e3), full_collections: None, seconds: 10.0 };
/// The same where requests are not counted.
const WITHOUT_REQUESTS: GrowthEvidence =
    GrowthEvidence { requests: None, full_collections: Some(3.0), seconds: 60.0 };
/// The same where only the time is known.
const ONLY_TIME: GrowthEvidence =
    GrowthEvidence { requests: None, full_collections: None, seconds: 3600.0 };

/// The length of one or several runs of the same kind.
#[derive(Debug, Clone, Copy)]
pub struct RunLength {
    observed: GrowthEvidence,
    required: GrowthEvidence,
    /// Units of progress per second; `None` where no time passed.
    pace: Option<f64>,
}

impl RunLength {
    /// The length of `runs`, each a list of samples with their progress.
    pub fn of(progress: ProgressUnit, runs: &[Vec<PlacedSample<'_>>]) -> Self {
        let ends: Vec<f64> = runs.iter().filter_map(|run| Some(run.last()?.0)).collect();
        let seconds: f64 = runs.iter().map(|run| seconds(run)).sum();
        // One run without a count leaves the number unknown.
        let collections: Option<Vec<f64>> = runs.iter().map(|run| full_collections(run)).collect();
        let counted = progress == ProgressUnit::Requests;
        let observed = GrowthEvidence {
            // Of several runs the typical one: each begins with a warm-up of its own.
            requests: median(&ends).filter(|_| counted),
            full_collections: collections
                .filter(|counts| !counts.is_empty())
                .map(|counts| counts.iter().sum::<f64>() / counts.len() as f64),
            seconds,
        };
        // Requests per second of the load, which a server's own traffic may not reach.
        let pace = if counted { ends.iter().sum::<f64>() / seconds } else { 1.0 };
        let pace = Some(pace).filter(|pace| pace.is_finite());
        Self { observed, required: required(&observed, processes(runs)), pace }
    }

    /// Completes `found`: adds the length of the run and the growth per day, and leaves undecided what is called linear
    /// after too short a run.
    pub fn judge(&self, found: &mut [PartGrowth]) {
        // Kept objects that do not grow exclude that garbage is what grows.
        let calm = found.iter().any(|part| {
            part.part == TrackedPart::KeptObjects
                && !matches!(part.kind, GrowthKind::Linear | GrowthKind::Undecided)
        });
        for part in found {
            part.observed = Some(self.observed);
            // Garbage that waits for a full collection consists of kept objects. Where their number does not grow, other
            // growth is not garbage, however few collections there were.
            let no_garbage = calm && part.part != TrackedPart::KeptObjects;
            self.withhold(part, no_garbage);
            // The rate of a part that is not linear must not be extrapolated.
            let pace = self.pace.filter(|_| part.kind == GrowthKind::Linear);
            part.per_day = pace.and_then(|pace| per_day(part, pace));
        }
    }

    fn withhold(&self, part: &mut PartGrowth, no_garbage: bool) {
        // Only what claims growth needs the length; flat and levelling parts claim none.
        let open = matches!(part.kind, GrowthKind::Linear | GrowthKind::Undecided);
        let mut required = self.required;
        if no_garbage {
            required.full_collections = None;
        }
        let Some(factor) = missing(&self.observed, &required).filter(|_| open) else { return };
        part.kind = GrowthKind::Undecided;
        part.needed = match (factor.is_finite(), part.needed) {
            // The longer of both: what the shape needs, and what the length needs.
            (true, needed) => Some(needed.unwrap_or(0.0).max(part.over * factor)),
            // No full collection at all: how much longer the run must be is unknown.
            (false, _) => None,
        };
        part.required = Some(required);
    }
}

/// The minima for a tree of `processes`. A warm-up happens in each process, so each has to answer its requests.
fn required(observed: &GrowthEvidence, processes: f64) -> GrowthEvidence {
    let mut required = match (observed.requests, observed.full_collections) {
        (Some(_), Some(_)) => COUNTED,
        (Some(_), None) => WITHOUT_COLLECTIONS,
        (None, Some(_)) => WITHOUT_REQUESTS,
        (None, None) => ONLY_TIME,
    };
    required.requests = required.requests.map(|requests| requests * processes);
    required
}

/// By which factor the run is too short; `None` if it is long enough, infinite if a figure is zero.
fn missing(observed: &GrowthEvidence, required: &GrowthEvidence) -> Option<f64> {
    let factors = [
        required.requests.zip(observed.requests),
        required.full_collections.zip(observed.full_collections),
        Some((required.seconds, observed.seconds)),
    ];
    let longest = factors.into_iter().flatten().map(|(least, had)| least / had).fold(0.0, f64::max);
    (longest > 1.0).then_some(longest)
}

/// The seconds until the last progress of a run.
fn seconds(run: &[PlacedSample<'_>]) -> f64 {
    let Some((first, last)) = run.first().zip(run.last()) else { return 0.0 };
    // The load may have ended before the recording: idle time is no evidence.
    let end = run.iter().find(|placed| placed.0 >= last.0).unwrap_or(last);
    end.1.at_ms.saturating_sub(first.1.at_ms) as f64 / 1e3
}

/// Full collections of a Ruby process in the judged part of a run, as the mean of the processes; `None` without a probe.
fn full_collections(run: &[PlacedSample<'_>]) -> Option<f64> {
    let from = JUDGED * run.last()?.0;
    let judged = run.iter().filter(|placed| placed.0 >= from).map(|placed| placed.1);
    let known: Vec<&Sample> = judged
        .filter(|sample| sample.inside.is_some_and(|inside| inside.major_gcs.is_some()))
        .collect();
    let each = known.windows(2).filter_map(|pair| {
        let probes = pair[1].inside.map(|inside| inside.probes).filter(|probes| *probes > 0)?;
        Some(pair[1].full_collections_since(pair[0])? as f64 / f64::from(probes))
    });
    // An empty sum of floats is minus zero, which would be printed.
    (!known.is_empty()).then(|| each.fold(0.0, |sum, count| sum + count))
}

/// Ruby processes of the tree, or all processes without a probe: the median of the samples, at least one.
fn processes(runs: &[Vec<PlacedSample<'_>>]) -> f64 {
    // Without a probe every process may be a Ruby that warms up.
    let of = |sample: &Sample| sample.inside.as_ref().map_or(sample.processes, |i| i.probes);
    let counts: Vec<f64> = runs.iter().flatten().map(|(_, s)| f64::from(of(s))).collect();
    median(&counts).unwrap_or(1.0).max(1.0)
}

fn per_day(part: &PartGrowth, pace: f64) -> Option<DailyGrowth> {
    let daily = pace * DAY_S;
    Some(DailyGrowth {
        amount: part.rate? * daily,
        interval: part.interval.map(|(low, high)| (low * daily, high * daily)),
        progress_per_s: pace,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growth::classify_part;
    use crate::growth::tests::line;
    use carat_model::InsideSample;

    /// Samples of one run with full collections at equal distances.
    fn samples(seconds: u64, probes: u32, collections: Option<u64>) -> Vec<Sample> {
        (0..=10 * seconds)
            .map(|i| Sample {
                at_ms: 100 * i,
                processes: probes.max(1),
                inside: collections.map(|count| InsideSample {
                    probes,
                    major_gcs: Some(u64::from(probes) * count * i / (10 * seconds)),
                    ..InsideSample::default()
                }),
                ..Sample::default()
            })
            .collect()
    }

    fn judged(length: &RunLength, kept_slope: f64) -> Vec<PartGrowth> {
        let mut found = [(TrackedPart::Memory, 32.0), (TrackedPart::KeptObjects, kept_slope)]
            .map(|(part, slope)| classify_part(part, ProgressUnit::Requests, &line(4e6, slope)));
        length.judge(&mut found);
        found.into()
    }

    /// The length of one run with 2,000 requests a second.
    fn driven(samples: &[Sample]) -> RunLength {
        let run = samples.iter().map(|sample| (2.0 * sample.at_ms as f64, sample)).collect();
        RunLength::of(ProgressUnit::Requests, &[run])
    }

    #[test]
    fn growth_after_few_requests_or_seconds_is_undecided() {
        for (seconds, kind) in [(9, GrowthKind::Undecided), (11, GrowthKind::Linear)] {
            let found = judged(&driven(&samples(seconds, 1, Some(8))), 0.0);
            assert_eq!(found[0].kind, kind, "{found:?}");
            assert_eq!(found[0].required.is_some(), kind == GrowthKind::Undecided);
            assert_eq!(found[0].observed.unwrap().requests, Some(2000.0 * seconds as f64));
        }
    }

    #[test]
    fn every_process_has_to_answer_its_requests() {
        let length = driven(&samples(20, 4, Some(8)));
        let found = judged(&length, 0.0);
        assert_eq!(found[0].kind, GrowthKind::Undecided);
        assert_eq!(found[0].required.unwrap().requests, Some(80e3));
        assert!((found[0].observed.unwrap().full_collections.unwrap() - 7.0).abs() < 0.3);
        assert_eq!(judged(&driven(&samples(41, 4, Some(8))), 0.0)[0].kind, GrowthKind::Linear);
    }

    #[test]
    fn without_full_collections_growth_is_undecided_unless_kept_objects_do_not_grow() {
        let length = driven(&samples(60, 1, Some(0)));
        let garbage = judged(&length, 0.5);
        assert!(garbage.iter().all(|part| part.kind == GrowthKind::Undecided), "{garbage:?}");
        assert_eq!(garbage[0].needed, None, "no collection says nothing about the next");
        let leak = judged(&length, 0.0);
        assert_eq!((leak[0].kind, leak[1].kind), (GrowthKind::Linear, GrowthKind::Flat));
        let collected = judged(&driven(&samples(60, 1, Some(4))), 0.5);
        assert!(collected.iter().all(|part| part.kind == GrowthKind::Linear), "{collected:?}");
        let few = judged(&driven(&samples(60, 1, Some(2))), 0.5);
        assert_eq!(few[0].kind, GrowthKind::Undecided);
        assert!(few[0].needed.unwrap() >= 1.5 * few[0].over, "{few:?}");
    }

    #[test]
    fn where_full_collections_are_not_counted_a_longer_run_is_required() {
        for (seconds, kind) in [(140, GrowthKind::Undecided), (151, GrowthKind::Linear)] {
            let found = judged(&driven(&samples(seconds, 1, None)), 0.5);
            assert_eq!(found[0].kind, kind, "{found:?}");
            assert_eq!(found[0].observed.unwrap().full_collections, None);
        }
    }

    #[test]
    fn a_single_sample_saw_no_collection_rather_than_minus_none() {
        let length = driven(&samples(20, 1, Some(8))[..1]);
        let collections = length.observed.full_collections.unwrap();
        assert!(collections == 0.0 && collections.is_sign_positive(), "{collections}");
    }

    #[test]
    fn trials_add_up_their_seconds_but_not_their_requests() {
        let samples = samples(4, 1, Some(8));
        let runs = [0, 1, 2].map(|_| samples.iter().map(|s| (s.at_ms as f64, s)).collect());
        let length = RunLength::of(ProgressUnit::Requests, &runs);
        assert_eq!((length.observed.requests, length.observed.seconds), (Some(4000.0), 12.0));
        assert_eq!(length.pace, Some(1000.0));
    }

    #[test]
    fn growth_per_day_is_the_rate_at_the_pace_of_the_load() {
        let found = judged(&driven(&samples(60, 1, Some(8))), 0.0);
        let daily = found[0].per_day.unwrap();
        assert_eq!(daily.progress_per_s, 2000.0);
        assert!((daily.amount / (32.0 * 2000.0 * 86_400.0) - 1.0).abs() < 0.01, "{daily:?}");
        let (low, high) = daily.interval.unwrap();
        assert!(low <= daily.amount && daily.amount <= high, "{daily:?}");
        assert_eq!((found[1].kind, found[1].per_day), (GrowthKind::Flat, None));
    }
}
