//! Every figure of the results as carat writes it, for texts that quote figures: `bin/docs` fills them in.
//!
//! Nothing is computed by the reader: a median has its unit, a difference its sign and interval.

use crate::control_text::control_sentences;
use crate::facts::{self, TrialSummary};
use crate::least_text;
use crate::machine::machine_facts;
use crate::mark::word;
use crate::numbers;
use crate::page::erosion::VariantSharing;
use crate::part_differences::part_differences;
use crate::step_figures::step_figures;
use crate::text::day;
use carat_analysis::growth::found;
use carat_model::ledger::PartKind;
use carat_model::metric::{BROADCAST_COMPLETE_P95, BROADCAST_OWN_P95};
use carat_model::{
    Conclusion, MemoryFigure, Moment, Results, Role, Trial, Unit, Variant, Verdict, metric,
};
use carat_redact::{Audience, redact_results};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Name and version of the schema of the figures.
pub const FIGURES_SCHEMA: &str = "carat.figures/1";

/// Numbers of requests at which shared memory is given.
const REQUESTS: [u32; 8] = [50, 100, 500, 1000, 5000, 10_000, 50_000, 500_000];

/// A name and its figure, or a name and further names.
type Named = Map<String, Value>;

/// The figures as JSON: of the run, of the machine, and of every variant by metric.
///
/// # Errors
/// If a value cannot be written as JSON.
pub fn figures(results: &Results, audience: Audience) -> Result<String, serde_json::Error> {
    let results = &redact_results(results, audience);
    let variants: Named = results
        .info
        .variants
        .iter()
        .map(|variant| (variant.name.clone(), Value::Object(of_variant(results, variant))))
        .collect();
    let order: Vec<&str> = results.info.variants.iter().map(|v| v.name.as_str()).collect();
    let whole = json!({
        "schema": FIGURES_SCHEMA,
        "order": order,
        "run": of_run(results),
        "machine": machine_facts(results),
        "variants": variants,
    });
    serde_json::to_string_pretty(&whole).map(|text| text + "\n")
}

fn of_run(results: &Results) -> Named {
    let blocks = facts::blocks(results, facts::is_scored);
    let mut run = Named::new();
    add(&mut run, "name", Some(results.info.name.clone()));
    add(&mut run, "primary", Some(results.info.primary.clone()));
    add(&mut run, "margin", Some(numbers::limit(results.info.margin)));
    add(&mut run, "seed", Some(results.info.seed.to_string()));
    add(&mut run, "blocks", Some(blocks.len().to_string()));
    add(&mut run, "most-blocks", Some(results.info.max_blocks.to_string()));
    add(&mut run, "trials", Some(results.trials.len().to_string()));
    add(&mut run, "date", results.trials.iter().map(|t| t.started_ms).min().map(day));
    let all: f64 = results.trials.iter().map(|trial| trial.seconds).sum();
    add(&mut run, "duration", Some(numbers::duration(all)));
    add(&mut run, "trial-duration", typical(results.trials.iter().map(|t| t.seconds)));
    add(&mut run, "level", numbers::primary_level(results));
    run
}

fn typical(seconds: impl Iterator<Item = f64>) -> Option<String> {
    let seconds: Vec<f64> = seconds.collect();
    Some(numbers::duration(facts::summarize(&seconds)?.median))
}

fn level(conclusion: &Conclusion) -> Option<String> {
    Some(numbers::percent(conclusion.estimate?.confidence, 0))
}

fn of_variant(results: &Results, variant: &Variant) -> Named {
    let name = variant.name.as_str();
    let trials: Vec<&Trial> = facts::counted_trials(results, name).collect();
    let mut all = Named::new();
    add(&mut all, "name", Some(name.to_owned()));
    add(&mut all, "trials", Some(trials.len().to_string()));
    add(&mut all, "trial-duration", typical(trials.iter().map(|trial| trial.seconds)));
    add(&mut all, "ruby", one_value(&trials, "ruby"));
    for metric in facts::metrics(results) {
        let found = of_metric(results, name, &metric);
        add_named(&mut all, &metric, found);
    }
    add_named(&mut all, "ledger", ledger(&trials));
    add_named(&mut all, "shared", shared(results, name));
    add_named(&mut all, "steps", steps(results, name));
    add_named(&mut all, "growth", growth(results, name));
    add_named(&mut all, "moments", moments(results, name));
    let sentences = control_sentences(results).into_iter().filter(|one| one.variant == name);
    let parts: Vec<String> = sentences.map(|sentence| sentence.whole()).collect();
    let saving = part_differences(results).into_iter().find(|one| one.variant == name);
    add(&mut all, "saving", saving.map(|one| one.sentence()));
    let least = results.least.iter().find(|one| one.variant == name);
    add(&mut all, "over-least", least.map(least_text::multiple));
    add(&mut all, "part-at-work", (!parts.is_empty()).then(|| parts.join(" ")));
    all
}

/// A fact of the machine in which all trials agree.
fn one_value(trials: &[&Trial], fact: &str) -> Option<String> {
    let values: BTreeSet<Option<&String>> = trials.iter().map(|t| t.machine.get(fact)).collect();
    // A fact that differs between trials has no single value to quote.
    if values.len() == 1 { values.into_iter().next().flatten().cloned() } else { None }
}

fn of_metric(results: &Results, variant: &str, metric: &str) -> Named {
    let unit = facts::unit(metric);
    let mut named = Named::new();
    if let Some(summary) = facts::variant_summary(results, variant, metric) {
        add_summary(&mut named, unit, &summary);
    }
    if let Some(conclusion) = facts::conclusion(results, variant, metric) {
        add_conclusion(&mut named, unit, conclusion);
    }
    add_named(&mut named, "against", against_controls(results, variant, metric));
    named
}

/// The differences of a variant to its controls, by their names.
fn against_controls(results: &Results, variant: &str, metric: &str) -> Named {
    let mut by_control = Named::new();
    for compared in facts::against_controls(results, metric) {
        if compared.conclusion.variant != variant {
            continue;
        }
        let mut named = Named::new();
        add_conclusion(&mut named, facts::unit(metric), &compared.conclusion);
        add_named(&mut by_control, &compared.control, named);
    }
    by_control
}

fn add_summary(named: &mut Named, unit: Unit, summary: &TrialSummary) {
    let TrialSummary { n, min, lower, median, upper, max, mean, deviation } = *summary;
    add(named, "n", Some(n.to_string()));
    add(named, "median", Some(unit.show(median)));
    add(named, "mean", Some(unit.show(mean)));
    add(named, "deviation", deviation.map(|deviation| unit.show(deviation)));
    add(named, "lowest", Some(unit.show(min)));
    add(named, "highest", Some(unit.show(max)));
    add(named, "range", Some(format!("{} to {}", unit.show(min), unit.show(max))));
    let half = format!("{} to {}", unit.show(lower), unit.show(upper));
    // Up to three trials the quartiles are the values themselves.
    add(named, "middle-half", (n > 3).then_some(half));
}

fn add_conclusion(named: &mut Named, unit: Unit, conclusion: &Conclusion) {
    let metric = conclusion.metric.as_str();
    add(named, "blocks", Some(conclusion.blocks.to_string()));
    add(named, "verdict", Some(word(conclusion.verdict).to_owned()));
    let Some(estimate) = &conclusion.estimate else { return };
    add(named, "difference", Some(numbers::estimate(metric, estimate)));
    add(named, "change", Some(numbers::change(metric, estimate)));
    add(named, "interval", Some(numbers::interval(metric, estimate)));
    add(named, "size", Some(numbers::magnitude(metric, estimate)));
    add(named, "size-interval", Some(numbers::magnitude_interval(metric, estimate)));
    add(named, "amount", Some(numbers::signed(unit, estimate.difference)));
    add(named, "level", level(conclusion));
    add(named, "conclusion", Some(in_words(conclusion)));
}

/// What a cell of a table says: the verdict, the difference, and for a guard whether its limit is kept.
///
/// The word of an exploratory comparison is left out, because it is not a verdict.
pub(crate) fn in_words(conclusion: &Conclusion) -> String {
    let difference = conclusion
        .estimate
        .as_ref()
        .map_or_else(String::new, |estimate| numbers::estimate(&conclusion.metric, estimate));
    let word = word(conclusion.verdict);
    match (conclusion.role, conclusion.verdict) {
        // Without its word: an exploratory difference is no verdict.
        (Role::Exploratory, _) => difference,
        (Role::Primary, _) => format!("{word}, {difference}"),
        (Role::Guard { limit }, verdict) => {
            let limit = numbers::limit(limit);
            let kept = match conclusion.guard_passed {
                Some(true) => format!("within the {limit} allowed"),
                Some(false) => format!("beyond the {limit} allowed"),
                None => format!("not proven to be within {limit}"),
            };
            match verdict {
                Verdict::Undecided | Verdict::Equivalent => format!("{difference}: {kept}"),
                _ => format!("{word}, {difference}: {kept}"),
            }
        }
    }
}

/// Medians over the trials of every part of the last ledger, as proportional memory of the tree.
fn ledger(trials: &[&Trial]) -> Named {
    let ledgers: Vec<_> = trials.iter().filter_map(|trial| facts::last_ledger(trial)).collect();
    let mut named = Named::new();
    for kind in PartKind::ALL {
        let sizes: Vec<Option<f64>> =
            ledgers.iter().map(|ledger| Some(ledger.part(kind)?.pss.0 as f64)).collect();
        // A ledger leaves out a part that is zero, and one that it cannot tell from another. A part that no ledger has
        // is therefore unknown here.
        if sizes.iter().all(Option::is_none) {
            continue;
        }
        let sizes: Vec<f64> = sizes.into_iter().map(|size| size.unwrap_or(0.0)).collect();
        if let Ok(Value::String(key)) = serde_json::to_value(kind) {
            add(&mut named, &key, median_of(Unit::Bytes, &sizes));
        }
    }
    let all: Vec<f64> = ledgers.iter().map(|ledger| ledger.pss.0 as f64).collect();
    let rest: Vec<f64> = ledgers.iter().map(|ledger| ledger.unexplained as f64).collect();
    add(&mut named, "all", median_of(Unit::Bytes, &all));
    add(&mut named, "unexplained", median_of(Unit::Bytes, &rest));
    named
}

fn median_of(unit: Unit, values: &[f64]) -> Option<String> {
    facts::summarize(values).map(|summary| unit.show(summary.median))
}

/// Shared memory before the load, after numbers of requests, and at the end.
fn shared(results: &Results, variant: &str) -> Named {
    let series = VariantSharing::new(results, variant, 0);
    let show = |bytes: Option<f64>| bytes.map(|bytes| Unit::Bytes.show(bytes));
    let mut named = Named::new();
    add(&mut named, "before", show(series.before()));
    for requests in REQUESTS {
        add(&mut named, &requests.to_string(), show(series.near(f64::from(requests))));
    }
    add(&mut named, "end", show(series.end()));
    named
}

/// Medians by number of clients, for loads in steps; with the difference where a step is compared.
fn steps(results: &Results, variant: &str) -> Named {
    let mut named = Named::new();
    for step in step_figures(results, variant) {
        let mut of_step = Named::new();
        for (metric, unit, median) in [
            (BROADCAST_COMPLETE_P95.id, Unit::Seconds, step.complete),
            (BROADCAST_OWN_P95.id, Unit::Seconds, step.own),
            ("memory", Unit::Bytes, step.memory),
        ] {
            let mut figures = Named::new();
            add(&mut figures, "median", median.map(|median| unit.show(median)));
            let curve = results.curves.iter().find(|c| c.variant == variant && c.metric == metric);
            let judged = curve.and_then(|c| c.steps.iter().find(|s| s.clients == step.clients));
            let estimate = judged.and_then(|step| step.estimate);
            add(&mut figures, "difference", estimate.map(|e| numbers::estimate(metric, &e)));
            add_named(&mut of_step, metric, figures);
        }
        add_named(&mut named, &step.clients.to_string(), of_step);
    }
    named
}

/// Memory at every moment of a trial, by moment and figure: `ready`, `start`, a number of requests, `end`, `idle`.
fn moments(results: &Results, variant: &str) -> Named {
    let mut named = Named::new();
    for one in results.moments.iter().filter(|one| one.variant == variant) {
        let moment = match one.moment {
            Moment::Ready => "ready".to_owned(),
            Moment::Start => "start".to_owned(),
            Moment::Requests(n) => n.to_string(),
            Moment::End => "end".to_owned(),
            Moment::Idle => "idle".to_owned(),
        };
        let show = |bytes: f64| Unit::Bytes.show(bytes);
        let mut found = Named::new();
        add(&mut found, "n", Some(one.trials.to_string()));
        add(&mut found, "median", Some(show(one.median)));
        add(&mut found, "range", Some(format!("{} to {}", show(one.range.0), show(one.range.1))));
        add(&mut found, "answered", one.answered.map(|answered| Unit::Count.show(answered)));
        add(&mut found, "time", Some(numbers::duration(one.at_s)));
        add(&mut found, "blocks", (one.blocks > 0).then(|| one.blocks.to_string()));
        let metric = metric::MEMORY_PSS_FINAL.id;
        add(&mut found, "difference", one.estimate.map(|e| numbers::estimate(metric, &e)));
        let figure = match one.figure {
            MemoryFigure::Pss => "pss",
            MemoryFigure::Rss => "rss",
            MemoryFigure::Shared => "shared",
        };
        // Several figures share a moment, so its object may be there already.
        if let Value::Object(figures) = named.entry(moment).or_insert_with(|| json!({})) {
            add_named(figures, figure, found);
        }
    }
    named
}

/// What was found about the growth of every part during the load.
fn growth(results: &Results, variant: &str) -> Named {
    let mut named = Named::new();
    let parts = results.growth.iter().filter(|growth| growth.variant == variant);
    for part in parts.flat_map(|growth| &growth.parts) {
        if let Ok(Value::String(key)) = serde_json::to_value(part.part) {
            add(&mut named, &key, Some(found(part)));
        }
    }
    named
}

/// Adds a figure; an unknown one is left out.
fn add(named: &mut Named, name: &str, figure: Option<String>) {
    if let Some(figure) = figure {
        named.insert(name.to_owned(), Value::String(figure));
    }
}

/// Adds figures under a name; nothing if there are none.
fn add_named(named: &mut Named, name: &str, figures: Named) {
    if !figures.is_empty() {
        named.insert(name.to_owned(), Value::Object(figures));
    }
}
