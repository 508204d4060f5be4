//! Every figure of the results as carat writes it, for texts that quote figures: `bin/docs` fills them in.
//!
//! Nothing is computed by the reader: a median has its unit, a difference its sign and interval.

use crate::control_text::control_sentences;
use crate::facts::{self, TrialSummary};
use crate::least_text;
use crate::machine::machine_facts;
use crate::mark::word;
use crate::moments::key;
use crate::numbers;
use crate::page::erosion::VariantSharing;
use crate::part_differences::part_differences;
use crate::step_figures::step_figures;
use crate::text::day;
use carat_analysis::growth::found;
use carat_model::ledger::PartKind;
use carat_model::metric::{BROADCAST_COMPLETE_P95, BROADCAST_OWN_P95};
use carat_model::{
    Conclusion, Estimate, Ledger, Results, Role, Trial, Unit, Variant, Verdict, metric,
};
use carat_redact::{Audience, redact_results};
use serde::Serialize;
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
    // First of all, so that no figure below can name what is hidden.
    let results = &redact_results(results, audience);
    let variants: Named = results
        .info
        .variants
        .iter()
        .map(|variant| (variant.name.clone(), Value::Object(of_variant(results, variant))))
        .collect();
    // Beside the variants, because a JSON object has no order.
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
    let info = &results.info;
    let blocks = facts::blocks(results, facts::is_scored);
    let all: f64 = results.trials.iter().map(|trial| trial.seconds).sum();
    figures_of([
        ("name", Some(info.name.clone())),
        ("primary", Some(info.primary.clone())),
        ("margin", Some(numbers::limit(info.margin))),
        ("seed", Some(info.seed.to_string())),
        ("blocks", Some(blocks.len().to_string())),
        ("most-blocks", Some(info.max_blocks.to_string())),
        ("trials", Some(results.trials.len().to_string())),
        ("date", results.trials.iter().map(|t| t.started_ms).min().map(day)),
        ("duration", Some(numbers::duration(all))),
        ("trial-duration", typical(results.trials.iter().map(|t| t.seconds))),
        ("level", numbers::primary_level(results)),
    ])
}

fn typical(seconds: impl Iterator<Item = f64>) -> Option<String> {
    let seconds: Vec<f64> = seconds.collect();
    Some(numbers::duration(facts::summarize(&seconds)?.median))
}

fn of_variant(results: &Results, variant: &Variant) -> Named {
    let name = variant.name.as_str();
    let trials: Vec<&Trial> = facts::counted_trials(results, name).collect();
    // Of this variant alone: a sentence is about one variant and its controls.
    let sentences = control_sentences(results).into_iter().filter(|one| one.variant == name);
    let parts: Vec<String> = sentences.map(|sentence| sentence.whole()).collect();
    let saving = part_differences(results).into_iter().find(|one| one.variant == name);
    let least = results.least.iter().find(|one| one.variant == name);
    let mut all = figures_of([
        ("name", Some(name.to_owned())),
        ("trials", Some(trials.len().to_string())),
        ("trial-duration", typical(trials.iter().map(|trial| trial.seconds))),
        ("ruby", one_value(&trials, "ruby")),
        ("saving", saving.map(|one| one.sentence())),
        ("over-least", least.map(least_text::multiple)),
        ("part-at-work", (!parts.is_empty()).then(|| parts.join(" "))),
    ]);
    for metric in facts::metrics(results) {
        add_named(&mut all, metric, of_metric(results, name, metric));
    }
    for (what, figures) in [
        ("ledger", ledger(&trials)),
        ("shared", shared(results, name)),
        ("steps", steps(results, name)),
        ("growth", growth(results, name)),
        ("moments", moments(results, name)),
    ] {
        add_named(&mut all, what, figures);
    }
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
    let summary = facts::variant_summary(results, variant, metric);
    let mut named = summary.map_or_else(Named::new, |summary| of_summary(unit, &summary));
    let conclusion = facts::conclusion(results, variant, metric);
    named.extend(conclusion.into_iter().flat_map(|found| of_conclusion(unit, found)));
    // The differences to its controls, by their names.
    let mut against = Named::new();
    let all = facts::against_controls(results, metric);
    for compared in all.filter(|compared| compared.conclusion.variant == variant) {
        let figures = of_conclusion(unit, &compared.conclusion);
        add_named(&mut against, &compared.control, figures);
    }
    add_named(&mut named, "against", against);
    named
}

fn of_summary(unit: Unit, summary: &TrialSummary) -> Named {
    let TrialSummary { n, min, lower, median, upper, max, mean, deviation } = *summary;
    let show = |value: f64| unit.show(value);
    let half = format!("{} to {}", show(lower), show(upper));
    figures_of([
        ("n", Some(n.to_string())),
        ("median", Some(show(median))),
        ("mean", Some(show(mean))),
        ("deviation", deviation.map(show)),
        ("lowest", Some(show(min))),
        ("highest", Some(show(max))),
        ("range", Some(format!("{} to {}", show(min), show(max)))),
        // Up to three trials the quartiles are the values themselves.
        ("middle-half", (n > 3).then_some(half)),
    ])
}

fn of_conclusion(unit: Unit, conclusion: &Conclusion) -> Named {
    let estimate = conclusion.estimate.as_ref();
    let shown = |show: fn(&str, &Estimate) -> String| {
        estimate.map(|estimate| show(&conclusion.metric, estimate))
    };
    figures_of([
        ("blocks", Some(conclusion.blocks.to_string())),
        ("verdict", Some(word(conclusion.verdict).to_owned())),
        ("difference", shown(numbers::estimate)),
        ("change", shown(numbers::change)),
        ("interval", shown(numbers::interval)),
        ("size", shown(numbers::magnitude)),
        ("size-interval", shown(numbers::magnitude_interval)),
        ("amount", estimate.map(|found| numbers::signed(unit, found.difference))),
        ("level", estimate.map(|found| numbers::percent(found.confidence, 0))),
        ("conclusion", estimate.map(|_| in_words(conclusion))),
    ])
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
    let ledgers: Vec<&Ledger> =
        trials.iter().filter_map(|trial| facts::last_ledger(trial)).collect();
    let median = |size: &dyn Fn(&Ledger) -> f64| {
        let sizes: Vec<f64> = ledgers.iter().map(|ledger| size(ledger)).collect();
        Some(Unit::Bytes.show(facts::summarize(&sizes)?.median))
    };
    // A ledger leaves out a part that is zero, and one that it cannot tell from another. A part that no ledger has
    // is therefore unknown here.
    let is_known = |kind: &PartKind| ledgers.iter().any(|ledger| ledger.part(*kind).is_some());
    let parts = PartKind::ALL.into_iter().filter(is_known).map(|kind| {
        let size = median(&|ledger| ledger.part(kind).map_or(0.0, |part| part.pss.0 as f64));
        (exported_word(kind), size)
    });
    // Medians by themselves: medians of parts do not add up to the median of the whole.
    let all = median(&|ledger| ledger.pss.0 as f64);
    let unexplained = median(&|ledger| ledger.unexplained as f64);
    let whole = [("all", all), ("unexplained", unexplained)];
    figures_of(parts.chain(whole.map(|(name, size)| (name.to_owned(), size))))
}

/// The word of the JSON exports, so that one thing has one name in all files.
fn exported_word(of: impl Serialize) -> String {
    json!(of).as_str().unwrap_or_default().to_owned()
}

/// Shared memory before the load, after numbers of requests, and at the end.
fn shared(results: &Results, variant: &str) -> Named {
    let series = VariantSharing::new(results, variant, 0);
    let near = REQUESTS.map(|requests| (requests.to_string(), series.near(f64::from(requests))));
    let ends = [("before".to_owned(), series.before()), ("end".to_owned(), series.end())];
    let all = near.into_iter().chain(ends);
    figures_of(all.map(|(name, bytes)| (name, bytes.map(|bytes| Unit::Bytes.show(bytes)))))
}

/// Medians by number of clients, for loads in steps; with the difference where a step is compared.
fn steps(results: &Results, variant: &str) -> Named {
    let mut named = Named::new();
    for step in step_figures(results, variant) {
        let mut of_step = Named::new();
        for (metric, unit, median) in [
            (BROADCAST_COMPLETE_P95.id, Unit::Seconds, step.complete[1]),
            (BROADCAST_OWN_P95.id, Unit::Seconds, step.own),
            ("memory", Unit::Bytes, step.memory),
        ] {
            let curve = results.curves.iter().find(|c| c.variant == variant && c.metric == metric);
            let judged = curve.and_then(|c| c.steps.iter().find(|s| s.clients == step.clients));
            let estimate = judged.and_then(|step| step.estimate);
            let figures = figures_of([
                ("median", median.map(|median| unit.show(median))),
                ("difference", estimate.map(|found| numbers::estimate(metric, &found))),
            ]);
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
        let moment = key(one.moment, |requests| requests.to_string());
        let show = |bytes: f64| Unit::Bytes.show(bytes);
        let metric = metric::MEMORY_PSS_FINAL.id;
        let found = figures_of([
            ("n", Some(one.trials.to_string())),
            ("median", Some(show(one.median))),
            ("range", Some(format!("{} to {}", show(one.range.0), show(one.range.1)))),
            ("answered", one.answered.map(|answered| Unit::Count.show(answered))),
            ("time", Some(numbers::duration(one.at_s))),
            ("blocks", (one.blocks > 0).then(|| one.blocks.to_string())),
            ("difference", one.estimate.map(|found| numbers::estimate(metric, &found))),
        ]);
        // Several figures share a moment, so its object may be there already.
        if let Value::Object(figures) = named.entry(moment).or_insert_with(|| json!({})) {
            add_named(figures, &exported_word(one.figure), found);
        }
    }
    named
}

/// What was found about the growth of every part during the load.
fn growth(results: &Results, variant: &str) -> Named {
    let parts = results.growth.iter().filter(|growth| growth.variant == variant);
    let parts = parts.flat_map(|growth| &growth.parts);
    figures_of(parts.map(|part| (exported_word(part.part), Some(found(part)))))
}

/// These figures; unknown ones are left out.
fn figures_of<N: Into<String>>(figures: impl IntoIterator<Item = (N, Option<String>)>) -> Named {
    let figures = figures.into_iter();
    figures.filter_map(|(name, figure)| Some((name.into(), Value::String(figure?)))).collect()
}

/// Adds figures under a name; nothing if there are none.
fn add_named(named: &mut Named, name: &str, figures: Named) {
    if !figures.is_empty() {
        named.insert(name.to_owned(), Value::Object(figures));
    }
}
