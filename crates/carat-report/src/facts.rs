//! Facts about results that all formats show: values per variant, their summaries, and names of metrics.

use crate::lists::{counted, distinct, grouped_by_key};
use crate::text::{capital, one_line, shorten};
use carat_model::metric::Metric;
use carat_model::{
    Conclusion, ControlComparison, Estimate, Ledger, LoadFlag, LoadReport, Outcome, Results, Role,
    Severity, Trial, Unit, metric,
};
use std::collections::BTreeSet;

/// Summary of one metric over the trials of a variant that count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TrialSummary {
    /// Trials that have the metric.
    pub n: usize,
    pub min: f64,
    /// Lower quartile.
    pub lower: f64,
    pub median: f64,
    /// Upper quartile.
    pub upper: f64,
    pub max: f64,
    pub mean: f64,
    /// Sample standard deviation; `None` for a single trial.
    pub deviation: Option<f64>,
}

/// Block and value of every trial that counts and has the metric.
pub(crate) fn scored(results: &Results, variant: &str, metric: &str) -> Vec<(u32, f64)> {
    // Infinite values of a hostile file would spoil every average.
    counted_trials(results, variant)
        .filter_map(|trial| Some((trial.block, *trial.metrics.get(metric)?)))
        .filter(|(_, value)| value.is_finite())
        .collect()
}

/// Whether a trial counts: it succeeded and is not in the warm-up block.
pub(crate) fn counts(trial: &Trial) -> bool {
    is_scored(trial) && trial.outcome == Outcome::Ok
}

/// The trials of a variant that count.
pub(crate) fn counted_trials<'a>(
    results: &'a Results,
    variant: &str,
) -> impl Iterator<Item = &'a Trial> {
    results.trials.iter().filter(move |trial| trial.variant == variant && counts(trial))
}

/// The blocks of the trials for which this holds.
pub(crate) fn blocks(results: &Results, of: impl Fn(&Trial) -> bool) -> BTreeSet<u32> {
    results.trials.iter().filter(|trial| of(trial)).map(|trial| trial.block).collect()
}

/// Whether a trial is not of the warm-up block.
pub(crate) fn is_scored(trial: &Trial) -> bool {
    trial.block > 0
}

/// The requests that every trial that counts answered correctly; `None` where the numbers differ, or the load has steps.
pub(crate) fn requests(results: &Results) -> Option<u64> {
    let mut loads = results.trials.iter().filter(|trial| counts(trial)).map(|trial| {
        trial.load.as_ref().filter(|load| load.steps.is_empty()).map(|load| load.completed)
    });
    let first = loads.next()?;
    // Different numbers have no common text such as "after 3,000 requests".
    first.filter(|completed| *completed > 0 && loads.all(|other| other == first))
}

/// Whether the trials ran a command that ends by itself instead of a server.
pub(crate) fn is_run(results: &Results) -> bool {
    results.trials.iter().any(|trial| trial.metrics.contains_key(metric::RUN_TIME.id))
}

/// The summary of values; `None` if there are none. Quartiles interpolate linearly (Hyndman and Fan, type 7).
pub(crate) fn summarize(values: &[f64]) -> Option<TrialSummary> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
    let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
    Some(TrialSummary {
        n: sorted.len(),
        min: first,
        lower: quantile(&sorted, 0.25),
        median: quantile(&sorted, 0.5),
        upper: quantile(&sorted, 0.75),
        max: last,
        mean,
        deviation: (sorted.len() > 1).then(|| (squares / (sorted.len() - 1) as f64).sqrt()),
    })
}

/// The quantile `p` of sorted values, of which there must be at least one.
pub(crate) fn quantile(sorted: &[f64], p: f64) -> f64 {
    let place = p * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    // At the last value there is none above.
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// The ledger after the load: of the newest sample that has one.
pub(crate) fn last_ledger(trial: &Trial) -> Option<&Ledger> {
    // The newest: a trial may have been read several times.
    trial.samples.iter().rev().find_map(|sample| sample.ledger.as_deref())
}

/// The summary of one variant in one metric.
pub(crate) fn variant_summary(
    results: &Results,
    variant: &str,
    metric: &str,
) -> Option<TrialSummary> {
    let values: Vec<f64> = scored(results, variant, metric).iter().map(|(_, v)| *v).collect();
    summarize(&values)
}

/// The conclusion about one variant in one metric.
pub(crate) fn conclusion<'a>(
    results: &'a Results,
    variant: &str,
    metric: &str,
) -> Option<&'a Conclusion> {
    results.conclusions.iter().find(|c| c.variant == variant && c.metric == metric)
}

/// The name of the baseline.
pub(crate) fn baseline(results: &Results) -> &str {
    results.info.variants.first().map_or("the baseline", |first| first.name.as_str())
}

/// The comparisons with controls in one metric, in the order of the variants.
pub(crate) fn against_controls<'a>(
    results: &'a Results,
    metric: &str,
) -> impl Iterator<Item = &'a ControlComparison> {
    results.info.variants.iter().flat_map(move |variant| {
        results.controls.iter().filter(move |compared| {
            compared.conclusion.variant == variant.name && compared.conclusion.metric == metric
        })
    })
}

/// The guards of all variants.
fn all_guards(results: &Results) -> impl Iterator<Item = &Conclusion> + Clone {
    results.conclusions.iter().filter(|one| matches!(one.role, Role::Guard { .. }))
}

/// Guards about one variant, in the order of the results.
pub(crate) fn guards<'a>(
    results: &'a Results,
    variant: &str,
) -> impl Iterator<Item = &'a Conclusion> + Clone {
    all_guards(results).filter(move |guard| guard.variant == variant)
}

/// Whether the trials of a variant, or of the baseline, count and none has the metric of a conclusion: no further one will.
pub(crate) fn is_unmeasured(results: &Results, conclusion: &Conclusion) -> bool {
    let lacks = |variant: &str| {
        counted_trials(results, variant).next().is_some()
            && scored(results, variant, &conclusion.metric).is_empty()
    };
    conclusion.blocks == 0 && (lacks(&conclusion.variant) || lacks(baseline(results)))
}

/// The primary metric, then the guards.
pub(crate) fn compared_metrics(results: &Results) -> Vec<&str> {
    let guards = all_guards(results).map(|guard| guard.metric.as_str());
    distinct(std::iter::once(results.info.primary.as_str()).chain(guards))
}

/// The metrics of the results: primary, guards, then the others in the order of the registry.
pub(crate) fn metrics(results: &Results) -> Vec<&str> {
    let listed = metric::METRICS.iter().map(|known| known.id);
    let present: BTreeSet<&str> =
        results.trials.iter().flat_map(|trial| trial.metrics.keys().map(String::as_str)).collect();
    let rest = listed.filter(|name| present.contains(name)).chain(present.iter().copied());
    // In the order of importance, each once.
    distinct(compared_metrics(results).into_iter().chain(rest))
}

/// The unit of a metric; an unknown metric is a plain count.
pub(crate) fn unit(name: &str) -> Unit {
    metric::find(name).map_or(Unit::Count, |known| known.unit)
}

/// The description of a metric as a heading.
pub(crate) fn heading(name: &str) -> String {
    let what = metric::find(name).map_or(name, |known| known.what);
    capital(what)
}

/// Characters shown of the cause of a failure.
const CAUSE: usize = 400;

/// What happened in a trial that failed, on one line, with the start of the first wrong body.
fn cause(trial: &Trial) -> Option<String> {
    let failures = trial.load.iter().flat_map(LoadReport::wrong_bodies);
    let parts: Vec<String> = trial.detail.clone().into_iter().chain(failures.take(1)).collect();
    (!parts.is_empty()).then(|| shorten(&one_line(&parts.join("; ")), CAUSE))
}

/// Why there is no result, in a sentence: what happened in the first trial, if no trial succeeded.
pub(crate) fn cause_of_no_result(results: &Results) -> Option<String> {
    let first = results.trials.first()?;
    // With one success there is a result, and failures have a list of their own.
    let all_failed = results.trials.iter().all(|trial| trial.outcome != Outcome::Ok);
    let why = cause(first).unwrap_or_else(|| first.outcome.to_string());
    let variant = one_line(&first.variant);
    all_failed.then(|| format!("No trial succeeded. {variant}: {why}"))
}

/// The difference, if its interval has the confidence that the design requires; one below it proves nothing.
pub(crate) fn proven(conclusion: &Conclusion) -> Option<Estimate> {
    conclusion.estimate.filter(|_| conclusion.has_required_confidence())
}

/// The last trial of a variant whose server never became ready in any trial, of the first such variant; `None` if each that
/// ran has. Such a server starts as little at the next trial.
pub fn never_ready(results: &Results) -> Option<&Trial> {
    results.info.variants.iter().find_map(|variant| never_ready_of(results, &variant.name))
}

/// The same of one variant.
pub(crate) fn never_ready_of<'a>(results: &'a Results, variant: &str) -> Option<&'a Trial> {
    let mut trials = results.trials.iter().filter(|one| one.variant == variant);
    let all = trials.clone().all(|one| one.outcome == Outcome::NeverReady);
    trials.next_back().filter(|_| all)
}

/// How many trials of a variant failed, by outcome, in words; `None` if all succeeded.
pub(crate) fn failures(results: &Results, variant: &str) -> Option<String> {
    let counted = counted(failed_trials(results, variant).map(|trial| trial.outcome));
    let words: Vec<String> = counted.iter().map(|(how, n)| format!("{n} {how}")).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// [`failures`] and what happened in the first of these trials.
pub(crate) fn failures_with_cause(results: &Results, variant: &str) -> Option<String> {
    let counted = failures(results, variant)?;
    let why = failed_trials(results, variant).next().and_then(cause);
    Some(why.map_or_else(|| counted.clone(), |why| format!("{counted} ({why})")))
}

fn failed_trials<'a>(results: &'a Results, variant: &str) -> impl Iterator<Item = &'a Trial> {
    results.trials.iter().filter(move |t| t.variant == variant && t.outcome != Outcome::Ok)
}

/// The notes on the trials of a variant, each once with the number of trials that have it.
pub(crate) fn notes(results: &Results, variant: &str) -> Vec<(String, usize)> {
    let trials = results.trials.iter().filter(|trial| trial.variant == variant);
    let counted = counted(trials.flat_map(|trial| &trial.notes)).into_iter();
    counted.take(NOTES).map(|(note, n)| (shorten(note, 300), n)).collect()
}

/// Findings that make latencies doubtful and nothing else: the generator was late itself.
const OF_LATENCY: [&str; 6] =
    ["gen-lag", "gen-cpu", "gen-runqueue", "late-sends", "recv-backlog", "clock-step"];

/// What the load found doubtful in trials that count: the variant, what is said of it, and the number of its trials. What
/// differs by its numbers only is said in the same words of all variants. What spoils latencies alone is left out where none
/// is judged.
pub(crate) fn load_findings(results: &Results) -> Vec<(&str, String, usize)> {
    let judged = results.conclusions.iter().filter(|one| one.role != Role::Exploratory);
    let has_latency =
        judged.filter_map(|one| metric::find(&one.metric)).any(Metric::is_of_generator);
    let matters = |flag: &&LoadFlag| {
        flag.severity == Severity::Warning
            && (has_latency || !OF_LATENCY.contains(&flag.code.as_str()))
    };
    let counted = results.trials.iter().filter(|trial| counts(trial));
    let found = counted.flat_map(|trial| {
        let flags = trial.load.iter().flat_map(|load| &load.flags).filter(matters);
        flags.map(|flag| (&flag.code, (trial.variant.as_str(), &flag.message)))
    });
    let said = grouped_by_key(found).into_iter().flat_map(|(code, all)| {
        let first = all[0].1;
        let such_as = if all.iter().any(|(_, one)| *one != first) { ", such as" } else { "" };
        let said = shorten(&format!("load, {code}{such_as}: {first}"), 300);
        let by_variant = grouped_by_key(all).into_iter();
        by_variant.map(move |(variant, found)| (variant, said.clone(), found.len()))
    });
    said.collect()
}

/// Different notes shown of one variant.
const NOTES: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use carat_model::Verdict;

    #[test]
    fn the_summary_of_one_value_is_that_value_without_a_deviation() {
        let one = summarize(&[7.0]).unwrap();
        assert_eq!([one.min, one.lower, one.median, one.max], [7.0; 4]);
        assert_eq!(one.deviation, None);
        assert_eq!(summarize(&[]), None);
    }

    #[test]
    fn findings_of_the_load_that_differ_by_their_numbers_are_said_once_of_all_variants() {
        let found = |block, variant: &str, flags: &[(&str, Severity, &str)]| {
            let flags = flags.iter().map(|(code, severity, message)| LoadFlag {
                code: (*code).to_owned(),
                severity: *severity,
                message: (*message).to_owned(),
            });
            let load = Some(LoadReport { flags: flags.collect(), ..LoadReport::default() });
            Trial { load, ..testing::trial(block, variant) }
        };
        let warning = Severity::Warning;
        let trials = vec![
            found(1, "a", &[("errors", warning, "3 of 900"), ("gen-lag", warning, "slow")]),
            found(1, "b", &[("errors", warning, "2 of 900"), ("replay", Severity::Info, "a.har")]),
            found(2, "a", &[("errors", warning, "3 of 900")]),
        ];
        let mut results = testing::results(&["a", "b"], trials);
        let errors = || "load, errors, such as: 3 of 900".to_owned();
        assert_eq!(load_findings(&results), [("a", errors(), 2), ("b", errors(), 1)]);
        // Where a latency is judged, a generator that was late counts too.
        let undecided = (Verdict::Undecided, testing::estimate(-0.1, 0.0, 0.1));
        results.conclusions = vec![testing::guard("latency.p95", 0.05, None, undecided)];
        let slow = ("a", "load, gen-lag: slow".to_owned(), 1);
        assert_eq!(load_findings(&results), [("a", errors(), 2), ("b", errors(), 1), slow]);
    }

    #[test]
    fn quartiles_interpolate() {
        let four = summarize(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((four.lower, four.median, four.upper, four.mean), (1.75, 2.5, 3.25, 2.5));
    }
}
