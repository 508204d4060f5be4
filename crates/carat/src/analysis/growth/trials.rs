//! The growth of a variant over its load, all its trials laid over each other.

use crate::analysis::growth::classify_all;
use crate::analysis::growth::series::{Placed, Series, bytes, kept, kept_after_major};
use crate::core::memory::tracked_memory;
use crate::core::{
    Outcome, PartGrowth, ProgressUnit, Sample, TrackedPart, Trial, Variant, VariantGrowth,
};

/// The growth of every variant that was sampled during its load.
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

/// Every part of one variant that was seen often enough during its load; block 0 does not count.
///
/// Each trial is moved to the common level first: trials differ in level by more than a leak adds.
pub fn of_variant(trials: &[Trial], variant: &str) -> Vec<PartGrowth> {
    let is = |t: &&Trial| t.block > 0 && t.variant == variant && t.outcome == Outcome::Ok;
    let runs: Vec<Vec<Placed<'_>>> = trials.iter().filter(is).filter_map(load_samples).collect();
    let together = |series: &dyn Fn(&[Placed<'_>]) -> Series| {
        overlaid(runs.iter().map(|run| series(run)).filter(|one| !one.is_empty()).collect())
    };
    let samples: Vec<Sample> = runs.iter().flatten().map(|(_, sample)| bare(sample)).collect();
    let memory = tracked_memory(&samples);
    let parts = [
        (TrackedPart::Memory, together(&|run| bytes(run, memory))),
        (TrackedPart::MallocLive, together(&|run| bytes(run, |sample| sample.inside?.malloc_live))),
        (TrackedPart::MallocFree, together(&|run| bytes(run, |sample| sample.inside?.malloc_free))),
    ];
    let kept = (&together(&kept_after_major), &together(&kept));
    let mut found = classify_all(ProgressUnit::Requests, parts, kept, runs.len());
    // Trials laid over each other differ from moment to moment, which is no saw.
    found.iter_mut().for_each(|part| part.oscillating = false);
    found
}

/// What [`tracked_memory`] looks at, without what is large.
fn bare(sample: &Sample) -> Sample {
    let Sample { rss, pss, partial, .. } = *sample;
    Sample { rss, pss, partial, ..Sample::default() }
}

/// The samples within the load of one trial, each with the requests answered by then: as counted, or in results of an
/// older carat as if they had been answered evenly.
fn load_samples(trial: &Trial) -> Option<Vec<Placed<'_>>> {
    let (from, to) = trial.load_window_ms?;
    let requests = trial.load.as_ref()?.completed as f64;
    let inside = trial.samples.iter().filter(|s| (from..=to).contains(&s.at_ms));
    let share = |at_ms: u64| (at_ms - from) as f64 / (to - from).max(1) as f64;
    let place = |s: &Sample| s.answered.map_or(requests * share(s.at_ms), |count| count as f64);
    Some(inside.map(|sample| (place(sample), sample)).collect())
}

/// Runs moved to their common level and put into one order.
fn overlaid(runs: Vec<Series>) -> Series {
    let level = |run: &Series| run.iter().map(|(_, y)| y).sum::<f64>() / run.len() as f64;
    let levels: Vec<f64> = runs.iter().map(level).collect();
    let Some(common) = carat_stats::budget::median(&levels) else { return Vec::new() };
    let mut series: Series = runs
        .iter()
        .zip(&levels)
        .flat_map(|(run, level)| run.iter().map(move |&(x, y)| (x, y - level + common)))
        .collect();
    series.sort_by(|a, b| a.0.total_cmp(&b.0));
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::pairs::tests::trial;
    use crate::core::{Bytes, GrowthKind, LoadReport};
    use carat_stats::simulate::SeededRng;

    fn leaking(rng: &mut SeededRng, block: u32) -> Trial {
        let mut one = trial(block, "extend", &[]);
        one.load_window_ms = Some((1000, 11_000));
        one.load = Some(LoadReport { completed: 100_000, ..LoadReport::default() });
        let level = 70e6 + 300e3 * rng.normal();
        one.samples = (0..=100)
            .map(|i| Sample {
                at_ms: 1000 + 100 * i,
                rss: Some(Bytes((level + 16e3 * i as f64 + 20e3 * rng.normal()) as u64)),
                ..Sample::default()
            })
            .collect();
        one
    }

    #[test]
    fn trials_of_one_variant_are_laid_over_each_other() {
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
    fn requests_that_were_counted_are_believed_rather_than_the_clock() {
        let mut rng = SeededRng::new(5);
        let mut trials: Vec<Trial> = (1..12).map(|block| leaking(&mut rng, block)).collect();
        for sample in trials.iter_mut().flat_map(|trial| &mut trial.samples) {
            // The server answered a tenth of what the clock would say.
            sample.answered = Some((sample.at_ms - 1000) + 1);
        }
        let found = of_variant(&trials, "extend")[0];
        assert!((found.rate.unwrap() - 160.0).abs() < 20.0, "{found:?}");
        assert_eq!(found.over, 10_001.0);
    }
}
