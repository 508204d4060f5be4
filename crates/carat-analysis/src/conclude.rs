//! Everything that follows from the trials of an experiment.

use crate::growth::of_variants;
use crate::{
    Judge, Question, Warning, class_comparisons, curves, least_distances, machine_comparisons,
    moments,
};
use carat_model::Results;

/// Fills in conclusions, warnings and everything else that follows from the trials as they answer `question`.
pub fn conclude(results: &mut Results, question: &Question) {
    // Judged anew from the trials: stored conclusions could be those of another question.
    let judgement = Judge::new(question.clone()).judge(&results.trials);
    results.conclusions = judgement.conclusions;
    results.controls = judgement.controls;
    results.curves = curves(question, &results.trials);
    results.growth = of_variants(&results.info.variants, &results.trials);
    results.moments = moments(question, &results.trials);
    results.least = least_distances(question, &results.trials);
    results.machines = machine_comparisons(question, &results.trials);
    results.classes = class_comparisons(question, &results.trials);
    results.warnings = judgement.warnings.iter().map(Warning::to_string).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::tests::trial;
    use carat_model::{Trial, Verdict};
    use carat_stats::simulate::SeededRng;

    /// Values of a metric in both trials of 33 blocks: amounts of 50, of which from the ninth block on one in five is zero.
    fn with_late_zeros(rng: &mut SeededRng, effect: f64) -> Vec<(f64, f64)> {
        let mut value = |block: usize, level: f64| {
            let zero = block > 8 && rng.uniform() < 0.2;
            if zero { 0.0 } else { (level * (1.0 + 0.2 * rng.normal())).max(1.0).round() }
        };
        (1..=33).map(|block| (value(block, 50.0), value(block, 50.0 * effect))).collect()
    }

    #[test]
    fn a_decision_stays_made_whatever_the_later_blocks_are() {
        let mut rng = SeededRng::new(5);
        let mut decided = 0;
        for metric in ["memory.pss.final", "gc.major.count", "gc.time", "errors"] {
            let guards = vec![(metric.to_owned(), 0.1)];
            let primary = "latency.p95".to_owned();
            let question = Question { guards, margin: 0.1, ..Question::new(&["a", "b"], &primary) };
            let judge = Judge::new(question);
            for effect in [0.3, 0.7, 0.95, 1.0, 1.3] {
                let values = with_late_zeros(&mut rng, effect);
                let trials: Vec<Trial> = (1..)
                    .zip(values)
                    .flat_map(|(block, (a, b))| {
                        let a = trial(block, "a", &[(metric, a), ("latency.p95", a)]);
                        [a, trial(block, "b", &[(metric, b), ("latency.p95", b)])]
                    })
                    .collect();
                let mut before: Vec<(Verdict, Option<bool>)> = Vec::new();
                for blocks in 7..=33 {
                    let judgement = judge.judge(&trials[..2 * blocks]);
                    let now: Vec<_> =
                        judgement.conclusions.iter().map(|c| (c.verdict, c.guard_passed)).collect();
                    for (was, is) in before.iter().zip(&now) {
                        assert!(
                            was.0 == Verdict::Undecided || was.0 == is.0,
                            "{metric} {effect} {blocks}"
                        );
                        assert!(was.1.is_none() || was.1 == is.1, "{metric} {effect} {blocks}");
                    }
                    before = now;
                }
                decided += before.iter().filter(|of| of.0 != Verdict::Undecided).count();
            }
        }
        assert!(decided >= 16, "{decided} of 40");
    }
}
