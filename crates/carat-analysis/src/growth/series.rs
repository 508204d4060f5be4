//! Extracts series for the classifier from samples.

use carat_model::{Bytes, Sample};

/// Pairs of progress so far and amount.
pub(super) type Series = Vec<(f64, f64)>;

/// A sample with the progress of the run at that moment.
pub(super) type PlacedSample<'a> = (f64, &'a Sample);

/// Whether there is anything to classify: two points or more, not all of them at the start.
pub(super) fn has_data(series: &Series) -> bool {
    // A last point at zero would make every share of the length a division by zero.
    series.len() > 1 && series.last().is_some_and(|last| last.0 > 0.0)
}

/// The series of one figure, where it is known.
pub(super) fn bytes(
    placed: &[PlacedSample<'_>],
    figure: impl Fn(&Sample) -> Option<Bytes>,
) -> Series {
    placed.iter().filter_map(|&(x, sample)| Some((x, figure(sample)?.0 as f64))).collect()
}

/// Kept objects after every collection whose end was observed.
///
/// Live slots would not do: Ruby sweeps lazily, so when a sweep ends the heap is nearly full again, and live slots are
/// nearly all slots.
pub(super) fn kept(placed: &[PlacedSample<'_>]) -> Series {
    observed(placed).map(|(x, _, objects)| (x, objects)).collect()
}

/// Kept objects directly after full collections, without dead old objects.
pub(super) fn kept_after_major(placed: &[PlacedSample<'_>]) -> Series {
    let observed: Vec<(f64, &Sample, f64)> = observed(placed).collect();
    let collected = observed
        .windows(2)
        .filter(|pair| pair[1].1.full_collections_since(pair[0].1).is_some_and(|count| count > 0));
    collected.map(|pair| (pair[1].0, pair[1].2)).collect()
}

fn observed<'a>(placed: &[PlacedSample<'a>]) -> impl Iterator<Item = (f64, &'a Sample, f64)> {
    placed.iter().filter_map(|&(x, sample)| Some((x, sample, sample.inside?.kept_objects? as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::InsideSample;

    #[test]
    fn a_new_process_does_not_count_as_a_full_collection() {
        let sample = |probes, major_gcs, kept: Option<u64>| Sample {
            inside: Some(InsideSample {
                probes,
                major_gcs: Some(major_gcs),
                kept_objects: kept,
                ..InsideSample::default()
            }),
            ..Sample::default()
        };
        let samples = [
            sample(1, 5, Some(10)),
            sample(1, 5, Some(11)),
            sample(1, 6, None),
            sample(1, 6, Some(12)),
            sample(2, 9, Some(30)),
            sample(2, 10, Some(31)),
        ];
        let placed: Vec<PlacedSample<'_>> = (0..).map(f64::from).zip(&samples).collect();
        assert_eq!(kept(&placed).len(), 5);
        assert_eq!(kept_after_major(&placed), [(3.0, 12.0), (5.0, 31.0)]);
    }
}
