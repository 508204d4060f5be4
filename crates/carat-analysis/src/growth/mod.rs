//! Classifies the growth of memory over a long run, part by part.
//!
//! A process can be undecided while a part of it is clear: Ruby's heap grows in slabs, but the number of surviving
//! objects grows with every object kept. Therefore each part is classified separately, against answered requests where
//! they are known. The innermost part that grows is the cause.

mod asymptote;
mod classes;
mod compiled;
mod evidence;
mod kept;
mod recording;
mod series;
mod so_far;
mod swapped;
mod trials;
mod words;

pub use classes::{ClassSeries, class_in_brief, class_rate, growing_classes, grown_class};
pub use kept::of_readings;
pub use recording::of_recording;
pub use so_far::{outlook, outlook_sentence};
pub use trials::of_variants;
pub use words::{
    amount, cause, found, in_brief, interval, sentence, tolerances, undecided_parts,
    undecided_sentence, what_decides,
};

use asymptote::asymptote;
use carat_model::{GrowthKind, PartGrowth, ProgressUnit, Sample, TrackedPart};
use carat_stats::growth::{GrowthClass, classify};
use evidence::RunLength;
use series::{Series, has_data};

/// Growth of less than this share of the current amount per day does not matter.
const DAILY: f64 = 0.1;
const DAY_S: f64 = 86_400.0;

/// Classifies one part. `series` holds pairs of progress so far and amount (bytes or slots), in order.
pub fn classify_part(
    part: TrackedPart,
    progress: ProgressUnit,
    series: &[(f64, f64)],
) -> PartGrowth {
    let level = series.last().map_or(0.0, |last| last.1);
    let tolerance = tolerance(part, progress, level);
    let growth = classify(series, tolerance);
    let kind = match growth.class {
        GrowthClass::Flat => GrowthKind::Flat,
        GrowthClass::LevellingOff => GrowthKind::LevellingOff,
        GrowthClass::Linear => GrowthKind::Linear,
        GrowthClass::Stepwise => GrowthKind::Stepwise,
        GrowthClass::Undecided => GrowthKind::Undecided,
    };
    // Only what approaches a level has one.
    let levels = kind == GrowthKind::LevellingOff;
    PartGrowth {
        rate: growth.rate,
        interval: growth.interval,
        at_most: growth.at_most,
        asymptote: levels.then(|| asymptote(series)).flatten(),
        // A step beside other growth is noise of it.
        step: growth.step.filter(|_| kind == GrowthKind::Stepwise),
        oscillating: growth.oscillating,
        needed: growth.needed,
        tolerance: Some(tolerance),
        ..PartGrowth::without_figures(part, kind, progress, growth.requests)
    }
}

/// Classifies every part with enough samples, from one run or several of that length.
pub fn classify_all(
    progress: ProgressUnit,
    parts: impl IntoIterator<Item = (TrackedPart, Series)>,
    (kept_after_major, kept): (&Series, &Series),
    length: &RunLength,
) -> Vec<PartGrowth> {
    let mut found: Vec<PartGrowth> = parts
        .into_iter()
        .filter(|(_, series)| has_data(series))
        .map(|(part, series)| classify_part(part, progress, &series))
        .collect();
    if has_data(kept) {
        found.push(classify_kept(progress, kept_after_major, kept));
    }
    length.judge(&mut found);
    found
}

/// Leaves out the level of malloc's figures where any sample has several Ruby processes: each of them counts what it
/// shares with the others, so the sum may be more than the memory of the tree. Its changes are not affected.
fn leave_out_summed_levels<'a>(
    found: &mut [PartGrowth],
    samples: impl IntoIterator<Item = &'a Sample>,
) {
    let of_malloc = [TrackedPart::MallocLive, TrackedPart::MallocFree];
    let probes = samples.into_iter().filter_map(|sample| Some(sample.inside.as_ref()?.probes));
    if probes.max().is_some_and(|most| most > 1) {
        let summed = found.iter_mut().filter(|part| of_malloc.contains(&part.part));
        summed.for_each(|part| part.asymptote = None);
    }
}

/// Classifies kept objects: after full collections if there are enough of them, otherwise after every collection.
fn classify_kept(
    progress: ProgressUnit,
    after_major: &[(f64, f64)],
    after_any: &[(f64, f64)],
) -> PartGrowth {
    let clean = classify_part(TrackedPart::KeptObjects, progress, after_major);
    // Full collections leave no garbage, but a run may have too few of them.
    match clean.kind {
        GrowthKind::Undecided => classify_part(TrackedPart::KeptObjects, progress, after_any),
        _ => clean,
    }
}

/// The rate below which growth does not matter: 4 bytes or a tenth of a slot per request; against seconds, a tenth of
/// the level per day.
fn tolerance(part: TrackedPart, progress: ProgressUnit, level: f64) -> f64 {
    match (progress, part) {
        (ProgressUnit::Requests, TrackedPart::KeptObjects) => 0.1,
        (ProgressUnit::Requests, _) => 4.0,
        // Without requests the only scale is the process itself, over a day.
        (ProgressUnit::Seconds, _) => level * DAILY / DAY_S,
    }
}

/// The innermost part that grows linearly; `None` where none does.
///
/// Kept objects fill slots, and slots fill memory, so the innermost part is the cause.
pub fn innermost_growth(parts: &[PartGrowth]) -> Option<&PartGrowth> {
    let inward = [
        TrackedPart::KeptObjects,
        TrackedPart::KeptMemory,
        TrackedPart::MallocLive,
        TrackedPart::MallocFree,
        TrackedPart::Private,
        TrackedPart::Memory,
    ];
    inward.into_iter().find_map(|part| {
        parts.iter().find(|found| found.part == part && found.kind == GrowthKind::Linear)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A straight line from `from` over 200,000 requests or seconds.
    pub(crate) fn line(from: f64, slope: f64) -> Vec<(f64, f64)> {
        (1..=200).map(|i| f64::from(i) * 1000.0).map(|x| (x, from + slope * x)).collect()
    }

    #[test]
    fn the_innermost_part_that_grows_is_found() {
        let slots =
            classify_part(TrackedPart::KeptObjects, ProgressUnit::Requests, &line(4e5, 1.0));
        let memory = classify_part(TrackedPart::Memory, ProgressUnit::Requests, &line(7e7, 40.0));
        let malloc =
            classify_part(TrackedPart::MallocLive, ProgressUnit::Requests, &line(7e7, 0.0));
        let parts = [memory, malloc, slots];
        assert_eq!(
            innermost_growth(&parts).map(|found| found.part),
            Some(TrackedPart::KeptObjects)
        );
        assert_eq!(innermost_growth(&[malloc]), None);
    }
}
