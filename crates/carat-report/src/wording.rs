//! Verdicts in words: one sentence per variant, with the interval, the number of blocks, and what the guards found.

use crate::facts;
use crate::machine_text::{differing, differs_by_machine, machines_contradict};
use crate::mark::{Mark, word};
use crate::moments::phrase;
use crate::numbers::{self, includes_zero, interval, magnitude, magnitude_interval};
use crate::open_text::decided_after;
use crate::standing::{breaks_guard, control_does_it, standing};
use carat_analysis::Pairs;
use carat_model::{Better, Conclusion, Curve, Estimate, Results, Role, Unit, Verdict, metric};
use std::collections::BTreeMap;

/// The verdict on one variant in words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sentence {
    pub variant: String,
    pub mark: Mark,
    /// The sentence after the variant's name, with a full stop.
    pub rest: String,
}

impl Sentence {
    pub(crate) fn whole(&self) -> String {
        format!("{} {}", self.variant, self.rest)
    }
}

/// One sentence for every variant after the baseline.
pub(crate) fn sentences(results: &Results) -> Vec<Sentence> {
    results
        .info
        .variants
        .iter()
        .skip(1)
        .map(|variant| {
            let found = facts::conclusion(results, &variant.name, &results.info.primary);
            let by_machine = differing(results, &variant.name);
            // Machines that contradict each other have no verdict in common.
            let verdict = found
                .filter(|_| !machines_contradict(results, &variant.name))
                .map_or(Verdict::Undecided, |c| c.verdict);
            let main = match (found, by_machine) {
                (Some(_), Some(one)) => {
                    let (metric, baseline) =
                        (phrase(results, &one.metric), facts::baseline(results));
                    format!("{} in {metric} against {baseline}", differs_by_machine(one))
                }
                (Some(conclusion), None) => primary(results, conclusion),
                (None, _) => {
                    "has not been compared: it has no scored trials beside the baseline's".into()
                }
            };
            // Guards are the price of a difference; an undecided one has none, unless it breaks one.
            let price = match verdict {
                Verdict::Undecided if !breaks_guard(results, &variant.name) => String::new(),
                _ => price(results, &variant.name),
            };
            let mark = Mark::of(results, &variant.name, verdict);
            let rest = format!("{main}{price}.");
            Sentence { variant: variant.name.clone(), mark, rest }
        })
        .collect()
}

/// The most important sentence: of the variants with the best standing, that of the largest proven difference.
pub(crate) fn headline<'a>(results: &Results, sentences: &'a [Sentence]) -> Option<&'a Sentence> {
    let standings = sentences.iter().map(|sentence| standing(results, &sentence.variant));
    let best = standings.clone().min()?;
    let leading = sentences.iter().zip(standings).filter(|(_, standing)| *standing == best);
    // The first of equals, in the order of the file.
    leading.map(|(sentence, _)| sentence).reduce(|best, one| {
        let is_larger = proven_difference(results, one) > proven_difference(results, best);
        if is_larger { one } else { best }
    })
}

/// The size of the difference in the primary metric; zero if none is proven, or if a control does all of the work.
fn proven_difference(results: &Results, sentence: &Sentence) -> f64 {
    // What a control does alone is not the variant's merit.
    if control_does_it(results, &sentence.variant) {
        return 0.0;
    }
    facts::conclusion(results, &sentence.variant, &results.info.primary)
        .filter(|conclusion| is_difference(conclusion.verdict))
        .and_then(|conclusion| conclusion.estimate)
        .map_or(0.0, |estimate| estimate.ratio.abs())
}

pub(crate) fn is_difference(verdict: Verdict) -> bool {
    !matches!(verdict, Verdict::Undecided | Verdict::Equivalent)
}

/// A curve over connection steps: the verdict on the whole, then the steps that differ.
pub(crate) fn curve(curve: &Curve) -> String {
    let percentile =
        if curve.metric == metric::BROADCAST_COMPLETE_P50.id { "median" } else { "p95" };
    let Some(whole) = &curve.estimate else {
        let blocks = numbers::count(curve.blocks as usize, "block");
        return format!("{percentile} not judged yet ({blocks} with every step)");
    };
    let different = curve.steps.iter().filter(|step| is_difference(step.verdict));
    let at: Vec<String> = different.map(|step| step.clients.to_string()).collect();
    let steps = match at.as_slice() {
        [] => "no single step is proven to differ".to_owned(),
        all if all.len() == curve.steps.len() => "so at every step".to_owned(),
        some => format!("proven at {} connections", some.join(", ")),
    };
    let whole = numbers::estimate(&curve.metric, whole);
    format!("{percentile} {} {whole} over all steps, {steps}", word(curve.verdict))
}

fn primary(results: &Results, conclusion: &Conclusion) -> String {
    let blocks = numbers::count(conclusion.blocks as usize, "block");
    let metric = conclusion.metric.as_str();
    let noun = phrase(results, metric);
    if facts::is_unmeasured(results, conclusion) {
        return format!("cannot be judged: no trial has a value of {metric}");
    }
    let Some(estimate) = &conclusion.estimate else {
        let are = if conclusion.blocks == 1 { "is" } else { "are" };
        let so_far = so_far(results, conclusion, facts::baseline(results));
        return format!(
            "cannot be judged yet: {blocks} {are} too few for an interval of its {noun}{so_far}{}",
            decided_after(results, conclusion)
        );
    };
    match conclusion.verdict {
        Verdict::Equivalent => format!(
            "makes no difference that matters in {noun} ({}, {blocks}; below {} does not matter)",
            interval(metric, estimate),
            numbers::limit(results.info.margin),
        ),
        Verdict::Undecided => undecided(results, conclusion, estimate),
        _ => {
            let (amount, baseline) = (amount(metric, &noun, estimate), facts::baseline(results));
            format!("{amount} than {baseline} ({}, {blocks})", magnitude_interval(metric, estimate))
        }
    }
}

/// `uses 0.5 % less memory`.
pub(crate) fn amount(metric: &str, noun: &str, estimate: &Estimate) -> String {
    let word = if estimate.ratio < 0.0 { "less" } else { "more" };
    format!("{} {} {word} {noun}", verb(metric), magnitude(metric, estimate))
}

fn verb(metric: &str) -> &'static str {
    match metric::find(metric) {
        Some(known) if known.unit == Unit::Bytes && known.better == Better::Lower => "uses",
        _ => "has",
    }
}

/// Whether the noun of a metric is plural, as that of every count is: `garbage collections`.
fn is_plural(metric: &str) -> bool {
    metric::find(metric).is_some_and(|known| known.unit == Unit::Count)
}

/// Blocks below which the differences of all of them are listed.
const FEW: u32 = 8;

/// The difference of the typical block and those of all: `; so far −3.1 % (by block −3.0 %, −3.2 %)`; empty without blocks.
pub(crate) fn so_far(results: &Results, conclusion: &Conclusion, reference: &str) -> String {
    let pairs = pairs_so_far(results, conclusion, reference);
    let show = |size| numbers::block_difference(&conclusion.metric, size, pairs.in_own_unit());
    // With an interval the figure is that beside it.
    let typical = match &conclusion.estimate {
        Some(found) => Some(numbers::change(&conclusion.metric, found)),
        None => pairs.typical().map(show),
    };
    let Some(typical) = typical else { return String::new() };
    let sizes = pairs.sizes().into_iter().filter(|size| size.is_finite());
    let shown: Vec<String> = sizes.take(FEW as usize).map(show).collect();
    // A single block is its own typical one.
    match shown.len() {
        1 => format!("; so far {typical}"),
        _ => format!("; so far {typical} (by block {})", shown.join(", ")),
    }
}

/// The difference of the typical block to the baseline, as text and as a number; `None` without blocks.
pub(crate) fn typical_so_far(results: &Results, conclusion: &Conclusion) -> Option<(String, f64)> {
    let pairs = pairs_so_far(results, conclusion, facts::baseline(results));
    let typical = pairs.typical()?;
    let text = numbers::block_difference(&conclusion.metric, typical, pairs.in_own_unit());
    Some((text, typical))
}

/// The blocks that a conclusion is drawn from.
fn pairs_so_far(results: &Results, conclusion: &Conclusion, reference: &str) -> Pairs {
    let metric = conclusion.metric.as_str();
    let references: BTreeMap<u32, f64> =
        facts::scored(results, reference, metric).into_iter().collect();
    let values = facts::scored(results, &conclusion.variant, metric).into_iter();
    let pairs = values.filter_map(|(block, value)| Some((*references.get(&block)?, value)));
    Pairs::new(metric, pairs.take(conclusion.blocks as usize).map(Some).collect())
}

/// [`so_far`] if there are few blocks; empty otherwise.
pub(crate) fn so_far_of_few(results: &Results, conclusion: &Conclusion, reference: &str) -> String {
    match conclusion.blocks {
        ..FEW => so_far(results, conclusion, reference),
        _ => String::new(),
    }
}

fn undecided(results: &Results, conclusion: &Conclusion, estimate: &Estimate) -> String {
    let blocks = numbers::count(conclusion.blocks as usize, "block");
    let noun = phrase(results, &conclusion.metric);
    let range = interval(&conclusion.metric, estimate);
    let so_far = so_far_of_few(results, conclusion, facts::baseline(results));
    let when = decided_after(results, conclusion);
    let only = conclusion.required_confidence.filter(|_| !conclusion.has_required_confidence());
    let only = only.map_or_else(String::new, |required| {
        let [has, needs] = [estimate.confidence, required].map(|one| numbers::percent(one, 0));
        format!(", confidence {has} where {needs} is required")
    });
    let differ = if is_plural(&conclusion.metric) { "differ" } else { "differs" };
    format!("is undecided: its {noun} {differ} by {range} ({blocks}{only}){so_far}{when}")
}

/// What the guards found about a variant; empty without guards.
fn price(results: &Results, variant: &str) -> String {
    facts::guards(results, variant)
        .map(|guard| match &guard.estimate {
            Some(estimate) => change(&phrase(results, &guard.metric), guard, estimate),
            None => format!("; its {} could not be compared", phrase(results, &guard.metric)),
        })
        .collect()
}

/// `, but its p95 latency is 12 % higher (10 to 15 %, limit 5 %)`.
pub(crate) fn change(noun: &str, guard: &Conclusion, estimate: &Estimate) -> String {
    let metric = guard.metric.as_str();
    let Role::Guard { limit } = guard.role else { return String::new() };
    let limit = numbers::limit(limit);
    let less = estimate.ratio < 0.0;
    let (size, range) = (magnitude(metric, estimate), magnitude_interval(metric, estimate));
    let word = if less { "lower" } else { "higher" };
    let lower_is_better = metric::find(metric).is_none_or(|known| known.better == Better::Lower);
    let is = if is_plural(metric) { "are" } else { "is" };
    match guard.guard_passed {
        // Not "no cost": the interval says how large a cost is possible.
        Some(true) if includes_zero(estimate) => {
            let stay = if is_plural(metric) { "stay" } else { "stays" };
            format!("; its {noun} {stay} within {limit} ({range})")
        }
        Some(true) if less == lower_is_better => format!(", with {noun} {size} {word} ({range})"),
        Some(true) => format!(", with {noun} {size} {word} ({range}, limit {limit})"),
        Some(false) => format!(", but its {noun} {is} {size} {word} ({range}, limit {limit})"),
        None => {
            let range = interval(metric, estimate);
            format!("; its {noun} {is} not yet proven to stay within {limit} ({range})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{estimate, guard};

    #[test]
    fn a_price_that_may_be_zero_is_stated_with_its_limit_and_its_interval() {
        let estimate = estimate(-0.03, 0.08, 0.19);
        let guard = guard("latency.p95", 0.2, Some(true), (Verdict::Equivalent, estimate));
        let text = change("p95 latency", &guard, &estimate);
        assert_eq!(text, "; its p95 latency stays within 20 % (−3 to +19 %)");
    }
}
