//! How far the memory of every variant is from the least that its application could have.
//!
//! Each trial has the multiple as a metric, from its own ledger. Here it gets an interval over blocks, as a difference has.

use crate::judge::Judge;
use crate::pairs::{Blocks, Pairs, value};
use crate::question::Question;
use carat_model::metric::MEMORY_OVER_LEAST;
use carat_model::{LeastDistance, Trial};
use carat_stats::summary::median;

/// Every variant of which a trial that counts has the metric, in the order of the question.
pub fn least_distances(question: &Question, trials: &[Trial]) -> Vec<LeastDistance> {
    let blocks = Blocks::new(trials);
    let judge = Judge::new(question.clone());
    question.variants.iter().filter_map(|variant| distance(variant, &blocks, &judge)).collect()
}

/// The least is the baseline of each pair, so the estimate is the share by which memory exceeds it.
fn distance(variant: &str, blocks: &Blocks<'_>, judge: &Judge) -> Option<LeastDistance> {
    let metric = MEMORY_OVER_LEAST.id;
    // Paired with 1, so that the ordinary interval of a ratio is that of the multiple.
    let pairs = blocks.each(|block| Some((1.0, value(block.get(variant)?, metric)?)));
    let known: Vec<f64> = pairs.iter().flatten().map(|(_, multiple)| *multiple).collect();
    // The median is known from one trial on, the interval only from the first look.
    let median = median(&known)?;
    let (blocks, estimate) = judge.explore(&Pairs::new(metric, pairs));
    let interval = estimate.map(|found| found.ratio_interval);
    Some(LeastDistance {
        variant: variant.to_owned(),
        trials: known.len() as u32,
        median,
        blocks,
        interval: interval.map(|(low, high)| (1.0 + low, 1.0 + high)),
        confidence: estimate.map(|found| found.confidence),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::tests::trial;
    use carat_model::Outcome;

    const METRIC: &str = "memory.pss.over_least";

    fn question() -> Question {
        Question::new(&["default", "one process", "prefork"], "memory.pss.final")
    }

    /// A default at about three times its least, one process that forks nothing, and a variant at about 1.2 times.
    fn trials(blocks: u32) -> Vec<Trial> {
        (0..=blocks)
            .flat_map(|block| {
                let drift = 1.0 + f64::from(block % 5) * 0.01;
                [
                    trial(block, "default", &[(METRIC, 3.0 * drift)]),
                    trial(block, "one process", &[]),
                    trial(block, "prefork", &[(METRIC, 1.2 * drift)]),
                ]
            })
            .collect()
    }

    #[test]
    fn every_variant_that_forks_has_a_median_an_n_and_an_interval_around_it() {
        let found = least_distances(&question(), &trials(10));
        let names: Vec<&str> = found.iter().map(|one| one.variant.as_str()).collect();
        assert_eq!(names, ["default", "prefork"]);
        for (one, least, most) in [(&found[0], 3.0, 3.12), (&found[1], 1.2, 1.248)] {
            assert!(one.trials == 10 && (8..=10).contains(&one.blocks), "{one:?}");
            let (low, high) = one.interval.unwrap();
            let inside = [least - 1e-9, low, one.median, high, most + 1e-9];
            assert!(inside.is_sorted() && low < high, "{one:?}");
            assert!(one.confidence.unwrap() > 0.949, "{one:?}");
        }
    }

    #[test]
    fn with_few_blocks_there_is_a_median_and_no_interval() {
        let found = least_distances(&question(), &trials(2));
        assert_eq!((found[0].trials, found[0].blocks), (2, 2));
        assert_eq!((found[0].interval, found[0].confidence), (None, None));
    }

    #[test]
    fn failed_trials_and_the_warm_up_block_do_not_count() {
        let mut run = trials(10);
        run[0].metrics.insert(METRIC.to_owned(), 99.0);
        run[3].outcome = Outcome::Crashed;
        run[6].metrics.insert(METRIC.to_owned(), f64::NAN);
        let found = least_distances(&question(), &run);
        assert_eq!((found[0].trials, found[1].trials), (8, 10));
        assert!(found[0].median < 3.2, "{found:?}");
    }

    #[test]
    fn without_the_metric_there_is_nothing_to_say() {
        let old: Vec<Trial> = (0..9).map(|block| trial(block, "default", &[])).collect();
        assert!(least_distances(&question(), &old).is_empty());
    }
}
