//! The growth of a variant over its load, from all its trials together.

use crate::growth::compiled::{compilers_most_under_load, leave_to_compiler};
use crate::growth::evidence::RunLength;
use crate::growth::series::{PlacedSample, Series, bytes, kept, kept_after_major};
use crate::growth::swapped::{leave_to_swap, memory_and_swap};
use crate::growth::{classify_all, leave_out_summed_levels};
use carat_model::{Outcome, PartGrowth, ProgressUnit, TrackedPart, Trial, Variant, VariantGrowth};

/// The samples of one trial within its load.
type Run<'a> = Vec<PlacedSample<'a>>;

/// The growth of every variant with samples during its load.
pub fn of_variants(variants: &[Variant], trials: &[Trial]) -> Vec<VariantGrowth> {
    variants
        .iter()
        .map(|variant| VariantGrowth {
            variant: variant.name.clone(),
            parts: of_variant(trials, &variant.name),
        })
        .filter(|growth| !growth.parts.is_empty())
        .collect()
}

/// Every part of one variant with enough samples during its load; block 0 does not count.
///
/// Each trial is first shifted to the common level, because trials differ in level by more than a leak adds.
fn of_variant(trials: &[Trial], variant: &str) -> Vec<PartGrowth> {
    // Block 0 warms the machine up and is not scored.
    let scored =
        trials.iter().filter(|t| t.block > 0 && t.variant == variant && t.outcome == Outcome::Ok);
    let runs: Vec<Run<'_>> = scored.clone().filter_map(load_samples).collect();
    let placed = runs.concat();
    let memory = memory_and_swap(placed.iter().map(|one| one.1));
    let parts = [
        (TrackedPart::Memory, overlaid(&runs, |run| bytes(run, &memory))),
        (
            TrackedPart::MallocLive,
            overlaid(&runs, |run| bytes(run, |sample| sample.inside?.malloc_live)),
        ),
        (
            TrackedPart::MallocFree,
            overlaid(&runs, |run| bytes(run, |sample| sample.inside?.malloc_free)),
        ),
    ];
    let kept_objects = (&overlaid(&runs, kept_after_major), &overlaid(&runs, kept));
    let length = RunLength::of(ProgressUnit::Requests, &runs);
    let mut found = classify_all(ProgressUnit::Requests, parts, kept_objects, &length);
    // Values of overlaid trials alternate between trials, which is not an oscillation.
    found.iter_mut().for_each(|part| part.oscillating = false);
    leave_out_summed_levels(&mut found, placed.iter().map(|one| one.1));
    leave_to_compiler(&mut found, compilers_most_under_load(scored));
    leave_to_swap(&mut found, &placed);
    found
}

/// The samples within the load of one trial, each with the requests answered by then. Results of an older carat have no
/// counts; their requests are assumed to be spread evenly.
fn load_samples(trial: &Trial) -> Option<Run<'_>> {
    let (from, to) = trial.load_window_ms?;
    let requests = trial.load.as_ref()?.completed as f64;
    // A load of no time has no even spread; 1 avoids the division by zero.
    let length = to.saturating_sub(from).max(1) as f64;
    let inside = trial.samples.iter().filter(|s| (from..=to).contains(&s.at_ms));
    let placed = inside.map(|sample| {
        let even = requests * (sample.at_ms.saturating_sub(from) as f64 / length);
        (sample.answered.map_or(even, |count| count as f64), sample)
    });
    Some(placed.collect())
}

/// The series of all runs, shifted to their common level, in one order.
fn overlaid(runs: &[Run<'_>], series: impl Fn(&[PlacedSample<'_>]) -> Series) -> Series {
    // A trial without the figure has no level to be shifted by.
    let runs: Vec<Series> =
        runs.iter().map(|run| series(run)).filter(|one| !one.is_empty()).collect();
    let levels: Vec<f64> =
        runs.iter().map(|run| run.iter().map(|(_, y)| y).sum::<f64>() / run.len() as f64).collect();
    // The median level: one trial with a larger heap must not move all others.
    let Some(common) = carat_stats::summary::median(&levels) else { return Vec::new() };
    let mut series: Series = runs
        .iter()
        .zip(&levels)
        .flat_map(|(run, level)| run.iter().map(move |&(x, y)| (x, y - level + common)))
        .collect();
    // The classifier needs ascending progress; trials overlap.
    series.sort_by(|a, b| a.0.total_cmp(&b.0));
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::tests::trial;
    use carat_model::{Bytes, GrowthKind, InsideSample, LoadReport, Sample};
    use carat_stats::simulate::SeededRng;

    fn leaking(rng: &mut SeededRng, block: u32) -> Trial {
        let mut one = trial(block, "extend", &[]);
        one.load_window_ms = Some((1000, 11_000));
        one.load = Some(LoadReport { completed: 100_000, ..LoadReport::default() });
        let level = 70e6 + 300e3 * rng.normal();
        one.samples = (0..=100)
            .map(|i| Sample {
                at_ms: 1000 + 100 * i,
                inside: Some(InsideSample {
                    probes: 1,
                    major_gcs: Some(i / 10),
                    ..InsideSample::default()
                }),
                rss: Some(Bytes((level + 16e3 * i as f64 + 20e3 * rng.normal()) as u64)),
                ..Sample::default()
            })
            .collect();
        one
    }

    #[test]
    fn trials_of_one_variant_are_overlaid() {
        let mut rng = SeededRng::new(4);
        let trials: Vec<Trial> = (0..12).map(|block| leaking(&mut rng, block)).collect();
        let found = of_variant(&trials, "extend")[0];
        assert_eq!(
            (found.part, found.kind),
            (TrackedPart::Memory, GrowthKind::Linear),
            "{found:?}"
        );
        assert!((found.rate.unwrap() - 16.0).abs() < 4.0, "{found:?}");
        assert!(of_variant(&trials, "include").is_empty());
    }

    #[test]
    fn counted_requests_take_precedence_over_the_clock() {
        let mut rng = SeededRng::new(5);
        let mut trials: Vec<Trial> = (1..12).map(|block| leaking(&mut rng, block)).collect();
        for sample in trials.iter_mut().flat_map(|trial| &mut trial.samples) {
            // The server answered a quarter of what an even spread would give.
            sample.answered = Some(5 * (sample.at_ms - 1000) / 2 + 1);
        }
        let found = of_variant(&trials, "extend")[0];
        assert!((found.rate.unwrap() - 64.0).abs() < 8.0, "{found:?}");
        assert_eq!(found.over, 25_001.0);
    }
}
