//! The top of an experiment's page: verdicts, key facts, warnings.

use crate::control_text::control_sentences;
use crate::facts;
use crate::machine::machine_facts;
use crate::numbers::primary_level;
use crate::page::elements::verdict_sentence;
use crate::text::day;
use crate::wording::{self, Sentence};
use carat_model::Results;
use maud::{Markup, html as markup};
use std::collections::BTreeSet;

/// The headline, and a line for every other variant.
pub(super) fn verdicts(results: &Results, sentences: &[Sentence]) -> Markup {
    let cause = facts::cause_of_no_result(results);
    let headline = wording::headline(results, sentences).filter(|_| cause.is_none());
    markup! {
        @match (&cause, headline) {
            (Some(cause), _) => h1 { (cause) },
            (None, Some(sentence)) => h1 { (verdict_sentence(sentence)) },
            (None, None) => h1 { (results.info.name) },
        }
        @if sentences.is_empty() {
            p.lead { "One variant only: there is nothing to compare it with." }
        }
        ul.also {
            @for sentence in sentences.iter().filter(|s| headline.is_none_or(|h| h.variant != s.variant)) {
                li { (verdict_sentence(sentence)) }
            }
            @for sentence in control_sentences(results) { li { (verdict_sentence(&sentence)) } }
        }
        @if let Some(about) = &results.info.about { p.soft { (about) } }
    }
}

/// The facts that say how reliable the verdict is.
pub(super) fn key_facts(results: &Results) -> Markup {
    let blocks: BTreeSet<u32> =
        results.trials.iter().filter(|t| facts::counts(t)).map(|t| t.block).collect();
    let counted = results.trials.iter().filter(|trial| facts::counts(trial)).count();
    let scored = results.trials.iter().filter(|trial| trial.block > 0).count();
    let machine = machine_facts(results);
    markup! {
        dl.facts {
            @if let Some(first) = results.trials.first() {
                div { dt { "ran" } dd { (day(first.started_ms)) } }
            }
            div { dt { "trials that count" } dd { (counted) " of " (scored) } }
            div { dt { "blocks" } dd { (blocks.len()) " of at most " (results.info.max_blocks) } }
            @if let Some(level) = primary_level(results) {
                div { dt { "intervals" } dd { (level) ", valid at every interim analysis" } }
            }
            div { dt { "order" } dd { "random within blocks, seed " (results.info.seed) } }
            @for key in ["ruby", "kernel", "cpu", "processor"] {
                @if let Some(fact) = machine.get(key) { div { dt { (key) } dd { (fact) } } }
            }
        }
    }
}

/// What limits the validity of the figures.
pub(super) fn warnings(results: &Results) -> Markup {
    let variants = || results.info.variants.iter().map(|variant| variant.name.as_str());
    let failed: Vec<(&str, String)> = variants()
        .filter_map(|variant| Some((variant, facts::failures_with_cause(results, variant)?)))
        .collect();
    let notes: Vec<(&str, String)> = variants()
        .flat_map(|variant| facts::notes(results, variant).into_iter().map(move |n| (variant, n)))
        .collect();
    markup! {
        @if !results.warnings.is_empty() || !failed.is_empty() || !notes.is_empty() {
            ul.warn aria-label="Warnings" {
                @for warning in &results.warnings { li { (warning) } }
                @for (variant, how) in &failed {
                    li { strong { (variant) } ": trials that do not count: " (how) "." }
                }
                @for (variant, note) in &notes { li { strong { (variant) } ": " (note) } }
            }
        }
    }
}
