//! Series for the classifier, taken out of samples.

use crate::model::{Bytes, InsideSample, Sample};

/// Progress so far and amount.
pub(crate) type Series = Vec<(f64, f64)>;

/// A sample and how far the run was then.
pub(crate) type Placed<'a> = (f64, &'a Sample);

/// The amounts of one figure, where it is known.
pub(crate) fn bytes(placed: &[Placed<'_>], figure: impl Fn(&Sample) -> Option<Bytes>) -> Series {
    placed.iter().filter_map(|&(x, sample)| Some((x, figure(sample)?.0 as f64))).collect()
}

/// Live slots at the samples right after full collections; garbage does not count there.
pub(crate) fn after_major(placed: &[Placed<'_>]) -> Series {
    after(placed, |inside| inside.major_gcs, |inside| inside.live_after_major)
}

/// Live slots at the samples after any collection.
pub(crate) fn after_any(placed: &[Placed<'_>]) -> Series {
    after(placed, |inside| inside.gcs, |inside| inside.live_slots)
}

/// The amounts at the samples before which the count rose. A process that came or went changes both sums, so such a
/// moment says nothing.
fn after(
    placed: &[Placed<'_>],
    count: fn(&InsideSample) -> Option<u64>,
    live: fn(&InsideSample) -> Option<u64>,
) -> Series {
    let known: Vec<(f64, &InsideSample)> =
        placed.iter().filter_map(|&(x, sample)| Some((x, sample.inside.as_ref()?))).collect();
    let fresh = |pair: &&[(f64, &InsideSample)]| {
        pair[0].1.probes == pair[1].1.probes && count(pair[1].1) > count(pair[0].1)
    };
    known
        .windows(2)
        .filter(fresh)
        .filter_map(|pair| Some((pair[1].0, live(pair[1].1)? as f64)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fresh_collection_of_the_same_processes_counts() {
        let sample = |probes, gcs, live| Sample {
            inside: Some(InsideSample {
                probes,
                gcs: Some(gcs),
                live_slots: Some(live),
                ..InsideSample::default()
            }),
            ..Sample::default()
        };
        let samples = [
            sample(1, 5, 10),
            sample(1, 5, 10),
            sample(1, 6, 12),
            sample(2, 9, 30),
            sample(2, 10, 31),
        ];
        let placed: Vec<Placed<'_>> = (0..).map(f64::from).zip(&samples).collect();
        assert_eq!(after_any(&placed), [(2.0, 12.0), (4.0, 31.0)]);
        assert!(after_major(&placed).is_empty());
    }
}
