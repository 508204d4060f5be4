//! The page's sections in words: verdicts, key facts, warnings, machine, how to repeat.

use crate::core::{Results, Verdict};
use crate::report::facts;
use crate::report::wording::{self, Sentence};
use maud::{Markup, html as markup};
use std::collections::BTreeSet;

/// The class that colours a verdict.
pub(crate) fn tone(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Smaller | Verdict::Faster => "good",
        Verdict::Larger | Verdict::Slower => "bad",
        Verdict::Equivalent => "even",
        Verdict::Undecided => "open",
    }
}

/// The headline, and a line for every other variant.
pub(crate) fn verdicts(results: &Results, sentences: &[Sentence]) -> Markup {
    let headline = wording::headline(results, sentences);
    markup! {
        @match headline {
            Some(sentence) => h1 { (said(sentence)) },
            None => h1 { (results.header.name) },
        }
        @if sentences.is_empty() {
            p.lead { "One variant only: there is nothing to compare it with." }
        }
        ul.also {
            @for sentence in sentences.iter().filter(|s| headline.is_none_or(|h| h.variant != s.variant)) {
                li { (said(sentence)) }
            }
        }
        @if let Some(about) = &results.header.about { p.soft { (about) } }
    }
}

/// The sentence with its sign; asides in a softer colour.
pub(crate) fn said(sentence: &Sentence) -> Markup {
    markup! {
        span class={ "sign " (tone(sentence.verdict)) } aria-hidden="true" { (wording::sign(sentence.verdict)) }
        strong { (sentence.variant) } " "
        @for (aside, part) in asides(&sentence.rest) {
            @if aside { span.aside { (part) } } @else { (part) }
        }
    }
}

/// The text in parts, with true for what stands in parentheses, these included.
fn asides(text: &str) -> Vec<(bool, &str)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((open, length)) =
        rest.find('(').and_then(|open| Some((open, rest[open..].find(')')? + 1)))
    {
        parts.push((false, &rest[..open]));
        parts.push((true, &rest[open..open + length]));
        rest = &rest[open + length..];
    }
    parts.push((false, rest));
    parts
}

/// The facts that say how much to believe.
pub(crate) fn strip(results: &Results) -> Markup {
    let blocks: BTreeSet<u32> =
        results.trials.iter().filter(|t| facts::counts(t)).map(|t| t.block).collect();
    let counted = results.trials.iter().filter(|trial| facts::counts(trial)).count();
    let scored = results.trials.iter().filter(|trial| trial.block > 0).count();
    let confidence = results.conclusions.iter().find_map(|c| c.estimate).map(|e| e.confidence);
    markup! {
        dl.facts {
            @if let Some(first) = results.trials.first() {
                div { dt { "ran" } dd { (crate::report::text::day(first.started_ms)) } }
            }
            div { dt { "trials that count" } dd { (counted) " of " (scored) } }
            div { dt { "blocks" } dd { (blocks.len()) " of at most " (results.header.max_blocks) } }
            @if let Some(confidence) = confidence {
                div { dt { "intervals" } dd { (format!("{:.0}", confidence * 100.0)) " %, valid at every look" } }
            }
            div { dt { "order" } dd { "random within blocks, seed " (results.header.seed) } }
            @for key in ["ruby", "kernel", "cpu", "processor"] {
                @if let Some(fact) = results.header.machine.get(key) { div { dt { (key) } dd { (fact) } } }
            }
        }
    }
}

/// What to know before trusting the figures.
pub(crate) fn warnings(results: &Results) -> Markup {
    let failed: Vec<(&str, String)> = results
        .header
        .variants
        .iter()
        .filter_map(|v| Some((v.name.as_str(), facts::failures(results, &v.name)?)))
        .collect();
    let noted = || {
        results.header.variants.iter().flat_map(|variant| {
            facts::notes(results, &variant.name).into_iter().map(move |note| (&variant.name, note))
        })
    };
    markup! {
        @if !results.warnings.is_empty() || !failed.is_empty() || noted().next().is_some() {
            ul.warn aria-label="Warnings" {
                @for warning in &results.warnings { li { (warning) } }
                @for (variant, how) in &failed {
                    li { strong { (variant) } ": trials that do not count: " (how) "." }
                }
                @for (variant, note) in noted() { li { strong { (variant) } ": " (note) } }
            }
        }
    }
}

/// Where it ran.
pub(crate) fn machine(results: &Results) -> Markup {
    markup! {
        @if !results.header.machine.is_empty() {
            h2 { "Where it ran" }
            div.scroll tabindex="0" role="region" aria-label="Machine" {
                table {
                    tbody { @for (key, fact) in &results.header.machine { tr { th scope="row" { (key) } td.w { (fact) } } } }
                }
            }
        }
    }
}

/// Variants with their settings, the experiment file, and the command.
pub(crate) fn repeat(results: &Results) -> Markup {
    markup! {
        h2 { "How to repeat it" }
        div.scroll tabindex="0" role="region" aria-label="Variants and settings" {
            table {
                thead { tr { th scope="col" { "variant" } th.w scope="col" { "settings" } } }
                tbody {
                    @for variant in &results.header.variants {
                        tr {
                            th scope="row" { (variant.name) }
                            td.w {
                                @if variant.settings.is_empty() { "none" }
                                @for (at, (name, value)) in variant.settings.iter().enumerate() {
                                    @if at > 0 { ", " } code { (name) " = " (value) }
                                }
                            }
                        }
                    }
                }
            }
        }
        p { "Save the experiment below as " code { "experiment.toml" } " and run:" }
        pre { "carat compare experiment.toml --seed " (results.header.seed) }
        details {
            summary { "The experiment file (plan " (crate::report::text::shorten(&results.header.plan_hash, 13)) ")" }
            pre tabindex="0" { (results.header.plan_text) }
        }
    }
}
