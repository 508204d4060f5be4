//! Growth of what Ruby keeps, from readings from outside.

use crate::growth::{asymptote, tolerance};
use carat_model::{
    GrowthKind, KeptReading, PartGrowth, ProgressUnit, ReadingEvidence, TrackedPart,
};
use carat_stats::steady::{LEAST_READINGS, SteadyClass, SteadyGrowth, steady_growth};

/// The growth of kept objects and of their memory; empty without a reading.
///
/// Readings before a change of the Rubies do not count: another process has another number of objects.
pub fn of_readings(progress: ProgressUnit, readings: &[&KeptReading]) -> Vec<PartGrowth> {
    let Some(last) = readings.last() else { return Vec::new() };
    // From the end: only the processes that are still there can go on growing.
    let same = readings.iter().rev().take_while(|one| one.rubies == last.rubies).count();
    let readings = &readings[readings.len() - same..];
    let series = |figure: fn(&KeptReading) -> Option<u64>| -> Vec<(f64, f64)> {
        // A reading without the figure is left out; a zero would be a fall.
        let points = readings.iter().map(|one| Some((place(progress, one)?, figure(one)? as f64)));
        points.flatten().collect()
    };
    [
        (TrackedPart::KeptObjects, series(|one| Some(one.objects))),
        (TrackedPart::KeptMemory, series(|one| Some(one.bytes?.0))),
    ]
    .into_iter()
    .filter(|(_, series)| !series.is_empty())
    .map(|(part, series)| of_series(part, progress, &series))
    .collect()
}

/// The progress of a run at a reading.
fn place(progress: ProgressUnit, reading: &KeptReading) -> Option<f64> {
    match progress {
        ProgressUnit::Requests => Some(reading.answered? as f64),
        ProgressUnit::Seconds => Some(reading.at_ms as f64 / 1e3),
    }
}

fn of_series(part: TrackedPart, progress: ProgressUnit, series: &[(f64, f64)]) -> PartGrowth {
    let (over, level) = series.last().copied().unwrap_or_default();
    let matters = tolerance(part, progress, level);
    let found = steady_growth(series, matters);
    let proven = proven_at(series, matters);
    // Proof by an earlier look: noise of the latest readings must not take it back.
    let kind = match found.map_or(GrowthKind::Undecided, |found| kind(found.class)) {
        // The error of the test is that of all looks together, so what one of them proved holds until the growth slows down.
        GrowthKind::Undecided if proven.is_some() => GrowthKind::Linear,
        kind => kind,
    };
    let slower = found.filter(|_| kind == GrowthKind::Rising);
    let evidence = ReadingEvidence {
        readings: u32::try_from(found.map_or(series.len(), |found| found.readings))
            .unwrap_or(u32::MAX),
        proven_at: proven.filter(|_| kind == GrowthKind::Linear),
        to_come: found.and_then(|found| found.to_come),
    };
    PartGrowth {
        // What slows down has the rate that it has now.
        rate: slower.map(|slower| slower.course.1).or(found.map(|found| found.rate)),
        interval: slower.map(late_interval).or(found.map(|found| found.interval)),
        at_most: found.map(|found| found.late_high),
        asymptote: slower.and_then(|_| asymptote(series)),
        needed: (kind == GrowthKind::Undecided).then(|| needed(series)),
        tolerance: Some(matters),
        readings: Some(evidence),
        ..PartGrowth::without_figures(part, kind, progress, over)
    }
}

fn kind(class: SteadyClass) -> GrowthKind {
    match class {
        SteadyClass::Steady => GrowthKind::Linear,
        SteadyClass::Slowing => GrowthKind::Rising,
        SteadyClass::Flat => GrowthKind::Flat,
        SteadyClass::Open => GrowthKind::Undecided,
    }
}

fn late_interval(found: SteadyGrowth) -> (f64, f64) {
    // The lower limit mirrors the upper one: both are the same number of errors away.
    (2.0 * found.course.1 - found.late_high, found.late_high)
}

/// The progress at the first reading at which the readings so far were enough.
fn proven_at(series: &[(f64, f64)], tolerance: f64) -> Option<f64> {
    let is_proven = |series: &[(f64, f64)]| {
        steady_growth(series, tolerance).is_some_and(|one| one.class == SteadyClass::Steady)
    };
    // Every prefix, in order, as if each reading had been the last when it was made.
    let end = (LEAST_READINGS..=series.len()).find(|&end| is_proven(&series[..end]))?;
    Some(series[end - 1].0)
}

/// The progress at which the readings would probably be enough: all of them, or twice the work.
fn needed(series: &[(f64, f64)]) -> f64 {
    let (first, last) = (series[0].0, series[series.len() - 1].0);
    let missing = LEAST_READINGS.saturating_sub(series.len());
    match (missing, series.len()) {
        // At the present distance of readings, until there are enough for the test.
        (0, _) | (_, 1) => 2.0 * last,
        (missing, number) => last + (last - first) / (number - 1) as f64 * missing as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::Bytes;

    fn readings(number: u64, each: u64, rubies: impl Fn(u64) -> Vec<u32>) -> Vec<KeptReading> {
        (1..=number)
            .map(|i| KeptReading {
                at_ms: 1000 * i,
                answered: Some(100 * i),
                rubies: rubies(i),
                objects: 36_000 + each * 100 * i + i * 7919 % 13,
                bytes: Some(Bytes(9_000_000 + each * 200_000 * i)),
                ..KeptReading::default()
            })
            .collect()
    }

    fn found(readings: &[KeptReading], progress: ProgressUnit) -> Vec<PartGrowth> {
        of_readings(progress, &readings.iter().collect::<Vec<_>>())
    }

    #[test]
    fn an_object_of_2_kb_kept_by_each_request_is_found_in_both_parts_with_its_first_proof() {
        let found = found(&readings(40, 1, |_| vec![7]), ProgressUnit::Requests);
        let [objects, memory] = &found[..] else { panic!("two parts: {found:?}") };
        assert_eq!(
            (objects.part, memory.part),
            (TrackedPart::KeptObjects, TrackedPart::KeptMemory)
        );
        for (part, rate) in [(objects, 1.0), (memory, 2000.0)] {
            assert_eq!(part.kind, GrowthKind::Linear, "{part:?}");
            let (low, high) = part.interval.unwrap();
            assert!(low <= rate * 1.001 && rate * 0.999 <= high, "{part:?}");
            let proven = part.readings.unwrap().proven_at.unwrap();
            assert!((800.0..=3000.0).contains(&proven), "{part:?}");
        }
    }

    #[test]
    fn what_is_kept_without_growing_is_flat_and_few_readings_are_undecided() {
        let flat = found(&readings(20, 0, |_| vec![7]), ProgressUnit::Seconds);
        assert!(flat.iter().all(|part| part.kind == GrowthKind::Flat), "{flat:?}");
        let few = found(&readings(5, 1, |_| vec![7]), ProgressUnit::Requests);
        assert_eq!((few[0].kind, few[0].needed), (GrowthKind::Undecided, Some(1000.0)));
        assert!(found(&[], ProgressUnit::Seconds).is_empty());
    }

    #[test]
    fn readings_of_other_processes_do_not_count() {
        let restarted = readings(30, 1, |i| if i <= 24 { vec![7] } else { vec![8] });
        let found = found(&restarted, ProgressUnit::Requests);
        assert_eq!(
            (found[0].kind, found[0].readings.unwrap().readings),
            (GrowthKind::Undecided, 6)
        );
    }
}
