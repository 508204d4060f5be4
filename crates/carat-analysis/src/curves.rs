//! Judges broadcast times over the steps of a load: one claim about the whole curve, and one error for its steps.

use crate::judge::estimate;
use crate::pairs::{Blocks, Pairs};
use crate::question::{Question, verdict_words};
use carat_model::metric::{self, Metric};
use carat_model::{Curve, Estimate, Outcome, StepConclusion, Trial, Verdict};
use carat_stats::curve::CurveDesign;
use carat_stats::family::Judged;

/// Baseline and variant at every step of one block.
type StepPairs = Vec<(f64, f64)>;

/// Judges every compared variant over the steps; empty where the load has fewer than two.
pub fn curves(question: &Question, trials: &[Trial]) -> Vec<Curve> {
    let blocks = Blocks::new(trials);
    let clients = clients(&blocks);
    // One step is no curve; its figure is an ordinary metric.
    if clients.len() < 2 {
        return Vec::new();
    }
    let design =
        CurveDesign::in_rounds(question.alpha, clients.len(), question.max_blocks, question.round);
    let mut curves = Vec::new();
    for variant in question.compared() {
        for (each, mean) in metric::over_steps() {
            let pairs = pairs_at_steps(question, &blocks, variant, each, clients.len());
            let margin = margin(question, each, mean);
            curves.push(judged(&design, (variant, each.id), &clients, &pairs, margin));
        }
    }
    curves
}

fn pairs_at_steps(
    question: &Question,
    blocks: &Blocks<'_>,
    variant: &str,
    metric: &Metric,
    steps: usize,
) -> Vec<Option<StepPairs>> {
    let baseline = question.baseline().unwrap_or_default();
    blocks.each(|block| {
        let baseline = at_steps(block.get(baseline)?, metric, steps)?;
        let variant = at_steps(block.get(variant)?, metric, steps)?;
        Some(baseline.into_iter().zip(variant).collect())
    })
}

/// The limit of a guard on the metric or on its mean over the steps; without one, the margin of the question.
fn margin(question: &Question, each: &Metric, mean: &Metric) -> f64 {
    // The limit on the mean applies to its steps: they are one claim.
    let guard = question.guards.iter().find(|(name, _)| name == each.id || name == mean.id);
    guard.map_or(question.margin, |(_, limit)| *limit)
}

/// Connections at every step: the maximum over the trials.
fn clients(blocks: &Blocks<'_>) -> Vec<u32> {
    let mut clients: Vec<u32> = Vec::new();
    for load in blocks.trials().filter_map(|trial| trial.load.as_ref()) {
        clients.resize(clients.len().max(load.steps.len()), 0);
        for (most, step) in clients.iter_mut().zip(&load.steps) {
            // The most of all trials: some connections may not have been ready in one of them.
            *most = step.clients.max(*most);
        }
    }
    clients
}

/// The value at every step; `None` where a step lacks it.
fn at_steps(trial: &Trial, metric: &Metric, steps: usize) -> Option<Vec<f64>> {
    let load = trial.load.as_ref().filter(|_| trial.outcome == Outcome::Ok)?;
    let values: Option<Vec<f64>> = load.steps.iter().map(|step| metric.at_step(step)).collect();
    // A logarithm needs a value above zero at every step.
    values.filter(|values| values.len() == steps && values.iter().all(|&value| value > 0.0))
}

fn judged(
    design: &CurveDesign,
    (variant, metric): (&str, &str),
    clients: &[u32],
    blocks: &[Option<StepPairs>],
    margin: f64,
) -> Curve {
    let differences: Vec<Option<Vec<f64>>> =
        blocks.iter().map(|block| block.as_ref().map(log_ratios)).collect();
    // Logarithms are not symmetric about a share, so both limits are computed.
    let judged = design.judge(&differences, ((-margin).ln_1p(), margin.ln_1p()));
    let (verdict, estimate) = conclude(metric, &judged.area, &reduced(metric, blocks, mean_pair));
    let mut steps = Vec::new();
    for (at, judged) in judged.steps.iter().enumerate() {
        let pairs = reduced(metric, blocks, |block| block[at]);
        let (verdict, estimate) = conclude(metric, judged, &pairs);
        steps.push(StepConclusion { clients: clients[at], verdict, estimate });
    }
    Curve {
        variant: variant.to_owned(),
        metric: metric.to_owned(),
        blocks: blocks.iter().flatten().count() as u32,
        verdict,
        estimate,
        steps,
    }
}

fn log_ratios(block: &StepPairs) -> Vec<f64> {
    block.iter().map(|(baseline, variant)| (variant / baseline).ln()).collect()
}

/// One pair per block.
fn reduced(
    metric: &str,
    blocks: &[Option<StepPairs>],
    pair: impl Fn(&StepPairs) -> (f64, f64),
) -> Pairs {
    Pairs::new(metric, blocks.iter().map(|block| block.as_ref().map(&pair)).collect())
}

fn mean_pair(block: &StepPairs) -> (f64, f64) {
    (
        // The mean of logarithms is what is judged, so the pair shown has geometric means.
        geometric_mean(block.iter().map(|pair| pair.0)),
        geometric_mean(block.iter().map(|pair| pair.1)),
    )
}

fn geometric_mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    (values.map(f64::ln).sum::<f64>() / count).exp()
}

fn conclude(metric: &str, judged: &Judged, pairs: &Pairs) -> (Verdict, Option<Estimate>) {
    let verdict = verdict_words(metric).verdict(judged.decision);
    (verdict, judged.look.and_then(|look| estimate(pairs, look)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::tests::trial;
    use carat_model::LoadReport;
    use carat_model::load::{StepReport, Times};
    use carat_stats::simulate::SeededRng;

    /// Four steps of 100 connections each; the variant is slower by a fifth from the third on.
    fn trials(blocks: u32) -> Vec<Trial> {
        let mut rng = SeededRng::new(6);
        let mut trials = Vec::new();
        for block in 1..=blocks {
            for (variant, late) in [("default", 1.0), ("trim", 1.2)] {
                let mut one = trial(block, variant, &[]);
                let step = |step: u32| {
                    let factor = if step > 2 { late } else { 1.0 };
                    let p50 = 0.01 * f64::from(step) * factor * (1.0 + 0.01 * rng.normal());
                    let times = Times { p50, p95: 2.0 * p50, ..Times::default() };
                    let times = [("complete".to_owned(), times)].into();
                    StepReport { clients: 100 * step, times, ..StepReport::default() }
                };
                let steps = (1..=4).map(step).collect();
                one.load = Some(LoadReport { steps, ..LoadReport::default() });
                trials.push(one);
            }
        }
        trials
    }

    #[test]
    fn a_difference_at_late_steps_is_found_there_and_over_the_whole() {
        let question = Question { margin: 0.05, ..Question::new(&["default", "trim"], "errors") };
        let found = curves(&question, &trials(12));
        assert_eq!(found.len(), 2);
        let p95 = &found[1];
        assert_eq!((p95.metric.as_str(), p95.blocks), ("broadcast.complete.p95", 12));
        assert_eq!(p95.verdict, Verdict::Slower);
        let ratio = p95.estimate.unwrap().ratio;
        assert!((ratio - 0.095).abs() < 0.02, "the geometric mean of 0, 0, 20 and 20 %: {ratio}");
        let verdicts: Vec<Verdict> = p95.steps.iter().map(|step| step.verdict).collect();
        assert_eq!(verdicts[2..], [Verdict::Slower, Verdict::Slower]);
        assert!(verdicts[..2].iter().all(|v| *v != Verdict::Slower), "{verdicts:?}");
        assert_eq!(p95.steps[3].clients, 400);
        let (low, high) = p95.steps[3].estimate.unwrap().ratio_interval;
        assert!(low < 0.2 && 0.2 < high && low > 0.1, "{low} {high}");
    }

    #[test]
    fn a_block_that_lacks_a_step_and_a_load_without_steps_do_not_count() {
        let question = Question::new(&["default", "trim"], "errors");
        let mut run = trials(9);
        run[0].load.as_mut().unwrap().steps.pop();
        assert_eq!(curves(&question, &run)[0].blocks, 8);
        run.iter_mut().for_each(|trial| trial.load = Some(LoadReport::default()));
        assert!(curves(&question, &run).is_empty());
    }
}
