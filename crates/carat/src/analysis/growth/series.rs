//! Series for the classifier, taken out of samples.

use crate::core::{Bytes, InsideSample, Sample};

/// ProgressUnit so far and amount.
pub(crate) type Series = Vec<(f64, f64)>;

/// A sample and how far the run was then.
pub(crate) type Placed<'a> = (f64, &'a Sample);

/// Whether there is anything to classify: two moments or more, not all of them at the start.
pub(crate) fn is_seen(series: &Series) -> bool {
    series.len() > 1 && series.last().is_some_and(|last| last.0 > 0.0)
}

/// The amounts of one figure, where it is known.
pub(crate) fn bytes(placed: &[Placed<'_>], figure: impl Fn(&Sample) -> Option<Bytes>) -> Series {
    placed.iter().filter_map(|&(x, sample)| Some((x, figure(sample)?.0 as f64))).collect()
}

/// Kept objects after every collection that was seen to end.
///
/// Not live slots: Ruby sweeps lazily, so that when a sweep ends the heap is nearly full again, and their number is
/// that of the heap's slots.
pub(crate) fn kept(placed: &[Placed<'_>]) -> Series {
    seen(placed).into_iter().map(|(x, _, objects)| (x, objects)).collect()
}

/// The same right after full collections; objects that died old do not count there.
pub(crate) fn kept_after_major(placed: &[Placed<'_>]) -> Series {
    let seen = seen(placed);
    let fresh = |pair: &&[(f64, &InsideSample, f64)]| {
        pair[0].1.probes == pair[1].1.probes && pair[1].1.major_gcs > pair[0].1.major_gcs
    };
    seen.windows(2).filter(fresh).map(|pair| (pair[1].0, pair[1].2)).collect()
}

fn seen<'a>(placed: &[Placed<'a>]) -> Vec<(f64, &'a InsideSample, f64)> {
    let of = |&(x, sample): &Placed<'a>| {
        let inside = sample.inside.as_ref()?;
        Some((x, inside, inside.kept_objects? as f64))
    };
    placed.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_collections_are_told_apart_and_not_those_of_a_newcomer() {
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
        let placed: Vec<Placed<'_>> = (0..).map(f64::from).zip(&samples).collect();
        assert_eq!(kept(&placed).len(), 5);
        assert_eq!(kept_after_major(&placed), [(3.0, 12.0), (5.0, 31.0)]);
    }
}
