//! Compares the memory of the variants at every moment of their trials.
//!
//! The statistics are those of an exploratory metric: pairs within blocks, and an interval that is valid at every look.
//! The intervals are not adjusted for the number of moments.

use crate::judge::Judge;
use crate::pairs::{Blocks, Pairs};
use crate::question::Question;
use carat_model::{
    Bytes, Estimate, MemoryFigure, Metric, Moment, MomentComparison, Outcome, Sample, Trial, metric,
};
use carat_stats::summary::median;
use std::collections::BTreeSet;

const FIGURES: [MemoryFigure; 3] = [MemoryFigure::Pss, MemoryFigure::Rss, MemoryFigure::Shared];

/// Every moment, figure and variant of which a trial that counts has a sample; empty for files whose samples have no
/// moments.
pub fn moments(question: &Question, trials: &[Trial]) -> Vec<MomentComparison> {
    let blocks = Blocks::new(trials);
    let counted = blocks.trials().filter(|trial| trial.outcome == Outcome::Ok);
    // Sorted, so that the table has the order of a trial's life.
    let found: BTreeSet<Moment> =
        counted.flat_map(|trial| &trial.samples).filter_map(|sample| sample.moment).collect();
    if found.is_empty() {
        return Vec::new();
    }
    let judge = Judge::new(question.clone());
    let comparer = Comparer { question, blocks: &blocks, judge: &judge };
    let mut compared = Vec::new();
    for figure in FIGURES {
        for &moment in &found {
            let variants = question.variants.iter();
            compared.extend(
                variants.filter_map(|variant| comparer.comparison(variant, moment, figure)),
            );
        }
    }
    compared
}

struct Comparer<'a> {
    question: &'a Question,
    blocks: &'a Blocks<'a>,
    judge: &'a Judge,
}

impl Comparer<'_> {
    /// `None` if no trial has the figure at the moment.
    fn comparison(
        &self,
        variant: &str,
        moment: Moment,
        figure: MemoryFigure,
    ) -> Option<MomentComparison> {
        let counted = self.blocks.trials().filter(|trial| trial.variant == variant);
        let samples: Vec<&Sample> = counted
            .filter_map(|trial| sample_at(trial, moment))
            .filter(|sample| bytes(sample, figure).is_some())
            .collect();
        let mut values: Vec<f64> = samples.iter().filter_map(|one| bytes(one, figure)).collect();
        values.sort_by(f64::total_cmp);
        let answered: Vec<f64> =
            samples.iter().filter_map(|sample| Some(sample.answered? as f64)).collect();
        let at_s: Vec<f64> = samples.iter().map(|sample| sample.at_ms as f64 / 1e3).collect();
        // The baseline is not compared with itself, but has medians like the others.
        let (blocks, estimate) = self.difference(variant, moment, figure);
        Some(MomentComparison {
            moment,
            figure,
            variant: variant.to_owned(),
            trials: values.len() as u32,
            median: median(&values)?,
            range: (*values.first()?, *values.last()?),
            answered: median(&answered),
            at_s: median(&at_s)?,
            blocks,
            estimate,
        })
    }

    fn difference(
        &self,
        variant: &str,
        moment: Moment,
        figure: MemoryFigure,
    ) -> (u32, Option<Estimate>) {
        let Some(baseline) = self.question.baseline().filter(|name| *name != variant) else {
            return (0, None);
        };
        let pairs = self.blocks.each(|block| {
            let value = |name: &str| bytes(sample_at(block.get(name)?, moment)?, figure);
            Some((value(baseline)?, value(variant)?))
        });
        self.judge.explore(&Pairs::new(metric_of(figure).id, pairs))
    }
}

/// The metric with the unit and the direction of a figure.
fn metric_of(figure: MemoryFigure) -> &'static Metric {
    match figure {
        MemoryFigure::Rss => &metric::MEMORY_RSS_FINAL,
        MemoryFigure::Pss => &metric::MEMORY_PSS_FINAL,
        MemoryFigure::Shared => &metric::MEMORY_SHARED_FINAL,
    }
}

/// The complete sample of a moment; `None` also of a trial that does not count.
fn sample_at(trial: &Trial, moment: Moment) -> Option<&Sample> {
    let mut samples = trial.samples.iter().filter(|_| trial.outcome == Outcome::Ok);
    // A partial sample lacks processes, and its sum would be too small.
    samples.find(|sample| sample.moment == Some(moment) && !sample.partial)
}

fn bytes(sample: &Sample, figure: MemoryFigure) -> Option<f64> {
    let found = match figure {
        MemoryFigure::Rss => sample.rss,
        MemoryFigure::Pss => sample.pss,
        // One process shares nothing within the tree.
        MemoryFigure::Shared => sample.shared.filter(|_| sample.processes > 1),
    };
    found.map(|Bytes(bytes)| bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::tests::trial;

    /// Memory in bytes at two moments: equal before the load, a fifth less after it in the variant.
    fn trials(blocks: u32) -> Vec<Trial> {
        let mut trials = Vec::new();
        for block in 0..=blocks {
            for (variant, end) in [("default", 1e8), ("trim", 8e7)] {
                let drift = 1.0 + f64::from(block % 5) * 0.001;
                let mut one = trial(block, variant, &[]);
                one.samples = [(Moment::Ready, 5e7), (Moment::Requests(50), end)]
                    .map(|(moment, bytes)| Sample {
                        moment: Some(moment),
                        answered: (moment != Moment::Ready).then_some(52),
                        processes: 1,
                        pss: Some(Bytes((bytes * drift) as u64)),
                        ..Sample::default()
                    })
                    .into();
                trials.push(one);
            }
        }
        trials
    }

    #[test]
    fn every_moment_of_every_variant_has_a_median_an_n_and_a_paired_difference() {
        let found = moments(&Question::new(&["default", "trim"], "memory.pss.final"), &trials(10));
        let order: Vec<(Moment, &str)> =
            found.iter().map(|one| (one.moment, one.variant.as_str())).collect();
        let requests = Moment::Requests(50);
        let expected =
            [Moment::Ready, requests].map(|moment| [(moment, "default"), (moment, "trim")]);
        assert_eq!(order, expected.concat());
        let (before, base, after) = (&found[1], &found[2], &found[3]);
        assert_eq!((base.blocks, base.estimate, base.trials), (0, None, 10));
        assert_eq!(before.estimate.unwrap().ratio, 0.0);
        let estimate = after.estimate.unwrap();
        assert!((estimate.ratio + 0.2).abs() < 1e-6, "{estimate:?}");
        assert!(estimate.difference < -1.9e7, "{estimate:?}");
        assert_eq!((after.answered, after.trials), (Some(52.0), 10));
        assert!(after.range.0 <= after.median && after.median <= after.range.1);
    }

    #[test]
    fn trials_without_moments_or_too_few_blocks_have_no_interval() {
        let question = Question::new(&["default", "trim"], "memory.pss.final");
        let few = moments(&question, &trials(2));
        assert_eq!((few[1].blocks, few[1].estimate), (2, None));
        let mut old = trials(10);
        old.iter_mut().flat_map(|trial| &mut trial.samples).for_each(|one| one.moment = None);
        assert!(moments(&question, &old).is_empty());
    }

    #[test]
    fn a_failed_trial_and_a_partial_sample_do_not_count() {
        let question = Question::new(&["default", "trim"], "memory.pss.final");
        let mut run = trials(10);
        run[2].outcome = Outcome::Crashed;
        run[4].samples[0].partial = true;
        let found = moments(&question, &run);
        assert_eq!((found[0].trials, found[1].blocks), (8, 8));
        assert_eq!((found[2].trials, found[3].trials), (9, 10));
    }
}
