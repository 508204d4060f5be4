//! Budgets: limits of metrics for a CI job.

use crate::environment_format::shell_line;
use crate::facts;
use crate::numbers;
use crate::open_text::decided;
use crate::verdict_text::NextCommands;
use carat_analysis::{Judge, NextStep, StopReason, question};
use carat_model::{Results, Unit, did_you_mean, metric};
use carat_stats::summary::median_interval;
use std::fmt;

/// Confidence of the interval that decides about a limit of a value, and the fewest trials that have it.
const CONFIDENCE: f64 = 0.95;
const FEWEST_TRIALS: usize = 6;

/// A limit such as `memory.pss.final<+2%` (against the baseline) or `latency.p95<=250ms` (absolute).
#[derive(Debug, Clone)]
pub struct Budget {
    text: String,
    metric: &'static metric::Metric,
    allows: Comparison,
    limit: Limit,
}

/// Whether a value is within a limit.
type Comparison = fn(&f64, &f64) -> bool;

/// Every comparison; one that begins like another comes before it.
const COMPARISONS: [(&str, Comparison); 4] =
    [("<=", f64::le), ("<", f64::lt), (">=", f64::ge), (">", f64::gt)];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    /// Change against the baseline, as a fraction.
    Change(f64),
    /// A value in the metric's base unit.
    Value(f64),
}

/// Why a budget cannot be parsed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BudgetError {
    #[error(
        "budget `{0}` has no comparison; write it as `memory.pss.final<+2%` or `latency.p95<250ms`"
    )]
    NoComparison(String),
    /// Its metric does not exist, so it would always pass.
    #[error("budget `{text}`: there is no metric `{name}`{hint}")]
    UnknownMetric {
        /// The budget as given.
        text: String,
        /// The unknown name.
        name: String,
        /// The nearest known name as a question; empty where none is similar.
        hint: String,
    },
    /// Its limit is not a number, or has a unit that the metric does not have.
    #[error(
        "budget `{text}`: `{limit}` is not a limit for {metric}; write a change such as `+2%` or a value such as `{example}`"
    )]
    Limit {
        /// The budget as given.
        text: String,
        /// The text after the comparison.
        limit: String,
        metric: &'static str,
        /// A valid value.
        example: &'static str,
    },
}

/// Whether a budget is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It is kept.
    Yes,
    /// It is broken: exit code 99.
    Broken,
    /// The results prove neither, or lack the metric: exit code 3.
    Unproven,
}

/// One budget for one variant.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetOutcome {
    /// The budget as given.
    pub budget: String,
    pub variant: String,
    /// Whether it is kept.
    pub kept: Kept,
    /// The measurement in words.
    pub measured: String,
    /// Blocks after which it can probably be told; `None` if that is not known, or it is told.
    blocks: Option<u32>,
    /// The metric, and whether its change is limited.
    metric: (&'static str, bool),
}

impl fmt::Display for BudgetOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { budget, variant, measured, .. } = self;
        match self.kept {
            Kept::Yes => write!(f, "✓ {budget} kept by {variant}: {measured}"),
            Kept::Broken => write!(f, "✗ {budget} BROKEN by {variant}: {measured}"),
            Kept::Unproven => write!(f, "? {budget}, {variant}: cannot tell yet, {measured}"),
        }
    }
}

impl Budget {
    /// Parses `METRIC<LIMIT`, with `<`, `<=`, `>` or `>=`; spaces do not matter. A limit with a sign and `%` is
    /// a change against the baseline, any other a value with the metric's unit.
    ///
    /// # Errors
    /// If the comparison, the metric or the limit is missing or invalid.
    pub fn parse(text: &str) -> Result<Self, BudgetError> {
        // The first comparison: a metric's name contains none.
        let (name, rest) = text.split_at(text.find(['<', '>']).unwrap_or(text.len()));
        let (limit, allows) = COMPARISONS
            .into_iter()
            .find_map(|(sign, allows)| Some((rest.strip_prefix(sign)?.trim(), allows)))
            .ok_or_else(|| BudgetError::NoComparison(text.to_owned()))?;
        let name = name.trim();
        // An unknown metric would have no values, and its budget would never break.
        let metric = metric::find(name).ok_or_else(|| BudgetError::UnknownMetric {
            text: text.to_owned(),
            name: name.to_owned(),
            hint: did_you_mean(name, metric::METRICS.iter().map(|known| known.id)),
        })?;
        let limit = parse_limit(limit, metric.unit).ok_or_else(|| BudgetError::Limit {
            text: text.to_owned(),
            limit: limit.to_owned(),
            metric: metric.id,
            example: example(metric.unit),
        })?;
        Ok(Self { text: text.trim().to_owned(), metric, allows, limit })
    }

    /// Whether an interval proves it: kept if all of it is within the limit, broken if none of it is.
    fn proven(&self, (low, high): (f64, f64), limit: f64) -> Kept {
        // The ends decide for all between them: the limit cuts an interval in at most two.
        match ((self.allows)(&low, &limit), (self.allows)(&high, &limit)) {
            (true, true) => Kept::Yes,
            (false, false) => Kept::Broken,
            _ => Kept::Unproven,
        }
    }

    fn judge_change(
        &self,
        (results, judge): (&Results, &Judge),
        variant: &str,
        limit: f64,
    ) -> Judged {
        let metric = self.metric.id;
        // When it can probably be told, and the last block of that.
        let unproven = |measured: String| {
            let forecast = judge.blocks_to_tell(&results.trials, (variant, metric), limit);
            let (needs, blocks) = match forecast {
                Some(forecast) => (format!("probably {}", decided(forecast)), forecast.high),
                None => {
                    let fewest = question(&results.info).fewest_blocks();
                    (format!("needs at least {fewest} blocks"), Some(fewest))
                }
            };
            (Kept::Unproven, format!("{measured}; {needs}"), blocks)
        };
        let found = facts::conclusion(results, variant, metric);
        let Some((conclusion, estimate)) = found.and_then(|found| Some((found, found.estimate?)))
        else {
            return unproven(format!("{metric} has no interval yet"));
        };
        let measured = numbers::estimate(metric, &estimate);
        // Before the comparison: an interval with less confidence proves neither.
        if !conclusion.has_required_confidence() {
            let blocks = numbers::count(conclusion.blocks as usize, "block");
            let confidence = numbers::percent(estimate.confidence, 0);
            let why = format!("{measured} after {blocks} has a confidence of only {confidence}");
            return unproven(why);
        }
        if estimate.in_own_unit {
            let why = format!("{measured}; no percentage, because its baseline has zeros");
            return (Kept::Unproven, why, None);
        }
        match self.proven(estimate.ratio_interval, limit) {
            Kept::Unproven => unproven(measured),
            proven => (proven, measured, None),
        }
    }

    /// By the interval of the median over the trials that count.
    fn judge_value(&self, results: &Results, variant: &str, limit: f64) -> Judged {
        let (name, unit) = (self.metric.id, self.metric.unit);
        let values: Vec<f64> =
            facts::scored(results, variant, name).into_iter().map(|(_, value)| value).collect();
        let Some(summary) = facts::summarize(&values) else {
            return (Kept::Unproven, format!("no trial that counts has {name}"), None);
        };
        let trials = numbers::count(summary.n, "trial");
        let median = format!("median {} of {trials}", unit.show(summary.median));
        // By the interval, not the median: a median moves from run to run.
        match median_interval(&values, CONFIDENCE) {
            None => {
                let why = format!("{median}; needs at least {FEWEST_TRIALS} trials that count");
                (Kept::Unproven, why, Some(FEWEST_TRIALS as u32))
            }
            Some((low, high)) => {
                let range = format!("{median} ({} to {})", unit.show(low), unit.show(high));
                (self.proven((low, high), limit), range, None)
            }
        }
    }
}

/// Whether a budget is kept, the measurement in words, and the blocks after which it can probably be told.
type Judged = (Kept, String, Option<u32>);

/// What to do about budgets that cannot be told yet, with the command where one is known; `None` if all are told.
pub fn budget_next(
    results: &Results,
    outcomes: &[BudgetOutcome],
    next: &NextCommands,
) -> Option<String> {
    let open: Vec<_> = outcomes.iter().filter(|one| one.kept == Kept::Unproven).collect();
    let first = open.first()?;
    let info = &results.info;
    let ran = facts::blocks(results, facts::counts).len() as u32;
    // One without a number leaves the end of all unknown.
    let blocks: Option<Vec<u32>> =
        open.iter().map(|one| one.blocks.filter(|blocks| *blocks > ran)).collect();
    let blocks = blocks.and_then(|all| all.into_iter().max());
    // All of them, so that the command answers what was asked.
    let mut asked: Vec<String> = outcomes.iter().map(|one| one.budget.clone()).collect();
    asked.dedup();
    let asked = asked.into_iter().flat_map(|one| ["--budget".to_owned(), one]).collect::<Vec<_>>();
    let asked = shell_line(&asked);
    let with_blocks = |command: &Option<String>, blocks: u32| {
        command.as_ref().map(|line| format!("{line} --blocks {blocks} {asked}"))
    };
    let judge = Judge::new(question(info));
    let has_all = ran >= info.max_blocks;
    match judge.judge(&results.trials).next {
        NextStep::Continue(_) => {
            return next.resume.as_ref().map(|line| format!("{line} {asked}"));
        }
        NextStep::Stop(StopReason::Decided)
            if !has_all && first.metric.1 && first.metric.0 != info.primary =>
        {
            let anew = next.anew.as_ref();
            let anew = anew.map(|line| format!(", then {line} {asked}")).unwrap_or_default();
            return Some(format!(
                "the experiment ended because its own questions were decided: \
                 make a guard of {}, in `[measure] guards`{anew}",
                first.metric.0
            ));
        }
        NextStep::Stop(StopReason::Decided | StopReason::BudgetSpent) => {}
        // More blocks of a variant that fails would fail too.
        NextStep::Stop(_) => return None,
    }
    // Up to these blocks may be added, because their number does not depend on the results.
    let added = judge.blocks_to_add_up_to().filter(|_| info.fleet.is_none());
    match (blocks, added) {
        (Some(blocks), Some(added)) if blocks <= added => with_blocks(&next.resume, added),
        (Some(blocks), _) if has_all => with_blocks(&next.anew, blocks),
        _ => None,
    }
    // Where no number is known to suffice, a command with one would be a guess.
    .or_else(|| next.plan.clone())
}

/// Checks every budget for every variant it applies to: a change for all but the baseline, a value for all.
pub fn budget(results: &Results, budgets: &[Budget]) -> Vec<BudgetOutcome> {
    // One judge for all budgets: its tables take noticeable time.
    let judge = Judge::new(question(&results.info));
    let mut outcomes = Vec::new();
    for budget in budgets {
        // The baseline does not differ from itself.
        let skipped = usize::from(matches!(budget.limit, Limit::Change(_)));
        for variant in results.info.variants.iter().skip(skipped) {
            let name = variant.name.as_str();
            let (kept, measured, blocks) = match budget.limit {
                Limit::Change(limit) => budget.judge_change((results, &judge), name, limit),
                Limit::Value(limit) => budget.judge_value(results, name, limit),
            };
            outcomes.push(BudgetOutcome {
                budget: budget.text.clone(),
                variant: crate::text::one_line(name),
                kept,
                measured,
                blocks,
                metric: (budget.metric.id, skipped == 1),
            });
        }
    }
    outcomes
}

fn example(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "900MB",
        Unit::Seconds => "250ms",
        Unit::PerSecond => "800/s",
        Unit::Fraction => "0.1%",
        Unit::Ratio => "1.25x",
        Unit::Count => "40",
    }
}

fn parse_limit(text: &str, unit: Unit) -> Option<Limit> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | '_')));
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let value: f64 =
        // `inf` and `NaN` parse as numbers, and would be kept by everything.
        number.replace('_', "").parse().ok().filter(|value: &f64| value.is_finite())?;
    let suffix = suffix.trim();
    // Only with a sign: `2%` of an error rate is a value, `+2%` a change.
    if suffix == "%" && number.starts_with(['+', '-']) {
        return Some(Limit::Change(value / 100.0));
    }
    let factor = match (unit, suffix) {
        (Unit::Bytes, "B")
        | (Unit::Seconds, "s")
        | (Unit::Count, "")
        | (Unit::Ratio, "" | "x" | "×")
        | (Unit::PerSecond, "/s" | "") => 1.0,
        (Unit::Bytes, "kB") => 1e3,
        (Unit::Bytes, "MB") => 1e6,
        (Unit::Bytes, "GB") => 1e9,
        (Unit::Bytes, "KiB") => 1024.0,
        (Unit::Bytes, "MiB") => 1024.0 * 1024.0,
        (Unit::Bytes, "GiB") => 1024.0 * 1024.0 * 1024.0,
        (Unit::Seconds, "ms") => 1e-3,
        (Unit::Seconds, "us" | "µs") => 1e-6,
        (Unit::Fraction, "%") => 1e-2,
        (Unit::Fraction, "") => 1.0,
        _ => return None,
    };
    Some(Limit::Value(value * factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_parsed_with_their_units() {
        for (text, limit) in [
            ("memory.pss.final<+2%", Limit::Change(0.02)),
            ("memory.pss.final < -10 %", Limit::Change(-0.1)),
            ("memory.pss.peak<=900MiB", Limit::Value(900.0 * 1_048_576.0)),
            ("latency.p95<250ms", Limit::Value(0.25)),
            ("throughput>800/s", Limit::Value(800.0)),
            ("errors<0.1%", Limit::Value(0.001)),
            ("memory.pss.over_least<1.25x", Limit::Value(1.25)),
        ] {
            assert_eq!(Budget::parse(text).unwrap().limit, limit, "{text}");
        }
    }

    #[test]
    fn a_misspelt_metric_is_an_error_that_names_the_nearest() {
        let error = Budget::parse("memory.pss.finale<+2%").unwrap_err().to_string();
        assert!(error.contains("did you mean `memory.pss.final`?"), "{error}");
        for text in
            ["memory.pss.final", "latency.p95<900MB", "memory.pss.final<", "memory.pss.final<NaN%"]
        {
            assert!(Budget::parse(text).is_err(), "{text}");
        }
    }
}
