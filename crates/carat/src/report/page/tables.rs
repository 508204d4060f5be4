//! Tables: the figures beside each picture, every metric, and the trials that do not count.

use crate::core::{Outcome, Results, Trial, Unit};
use crate::report::facts::{self, Spread};
use crate::report::numbers;
use crate::report::page::figures::class;
use crate::report::page::sections::tone;
use crate::report::text::{one_line, shorten};
use crate::report::wording;
use maud::{Markup, html as markup};

/// Trials that did not count are listed up to this many.
const LISTED: usize = 100;

/// One metric: a row per variant.
pub(crate) fn metric(results: &Results, metric: &str) -> Markup {
    let unit = facts::unit(metric);
    markup! {
        div.scroll tabindex="0" role="region" aria-label={ "Numbers of " (metric) } {
            table data-metric=(metric) {
                thead { tr {
                    th scope="col" { "variant" } th scope="col" { "trials" } th scope="col" { "median" }
                    th scope="col" { "mean" } th scope="col" { "standard deviation" }
                    th scope="col" { "least" } th scope="col" { "most" }
                    th scope="col" { "difference" } th scope="col" { "interval" } th.l scope="col" { "verdict" }
                } }
                tbody {
                    @for (place, variant) in results.header.variants.iter().enumerate() {
                        @let spread = facts::variant_spread(results, &variant.name, metric);
                        @let found = facts::conclusion(results, &variant.name, metric);
                        tr class={ "v" (class(place)) } data-variant=(variant.name) {
                            th scope="row" { (variant.name) }
                            td { (spread.map_or(0, |s| s.n)) }
                            (value(unit, spread, |s| Some(s.median)))
                            (value(unit, spread, |s| Some(s.mean)))
                            (value(unit, spread, |s| s.deviation))
                            (value(unit, spread, |s| Some(s.min)))
                            (value(unit, spread, |s| Some(s.max)))
                            @match found.and_then(|c| c.estimate) {
                                Some(e) => {
                                    td data-v=(e.difference) { (numbers::signed(unit, e.difference)) }
                                    td data-v=(e.ratio) { (numbers::estimate(metric, &e)) }
                                },
                                None => { td { "–" } td { "–" } },
                            }
                            td.l { @if let Some(c) = found {
                                span class=(tone(c.verdict)) { (wording::sign(c.verdict)) " " (wording::word(c.verdict)) }
                            } }
                        }
                    }
                }
            }
        }
    }
}

fn value(unit: Unit, spread: Option<Spread>, pick: impl Fn(Spread) -> Option<f64>) -> Markup {
    cell(unit, spread.and_then(pick))
}

/// A number with its unit, or a dash where it is unknown.
pub(crate) fn cell(unit: Unit, value: Option<f64>) -> Markup {
    match value {
        Some(number) => markup! { td data-v=(number) { (unit.show(number)) } },
        None => markup! { td { "–" } },
    }
}

/// Median of every metric and variant; differences beside.
pub(crate) fn all_metrics(results: &Results) -> Markup {
    markup! {
        section {
            h2 { "Every metric" }
            p.soft { "Medians over the trials that count, and the difference to the baseline where one was estimated." }
            div.scroll tabindex="0" role="region" aria-label="Every metric" {
                table #every-metric {
                    thead { tr {
                        th scope="col" { "metric" }
                        @for variant in &results.header.variants { th scope="col" { (shorten(&one_line(&variant.name), 30)) } }
                    } }
                    tbody { @for name in facts::metrics(results) { (metric_row(results, &name)) } }
                }
            }
        }
    }
}

fn metric_row(results: &Results, name: &str) -> Markup {
    let unit = facts::unit(name);
    markup! {
        tr data-metric=(name) {
            th scope="row" title=(facts::heading(name)) { code { (name) } }
            @for variant in &results.header.variants {
                @match facts::variant_spread(results, &variant.name, name) {
                    Some(spread) => td data-v=(spread.median) {
                        (unit.show(spread.median))
                        @if let Some(e) = facts::conclusion(results, &variant.name, name).and_then(|c| c.estimate) {
                            br; span.soft { (numbers::estimate(name, &e)) }
                        }
                    },
                    None => td { "–" },
                }
            }
        }
    }
}

/// Trials that ended otherwise than well, with what went wrong and the last lines of the server.
pub(crate) fn uncounted(results: &Results) -> Markup {
    let failed: Vec<&Trial> = results.trials.iter().filter(|t| t.outcome != Outcome::Ok).collect();
    markup! {
        @if !failed.is_empty() {
            section {
                h2 { "Trials that do not count" }
                @if failed.len() > LISTED { p.soft { "The first " (LISTED) " of " (failed.len()) "." } }
                div.scroll tabindex="0" role="region" aria-label="Trials that do not count" {
                    table {
                        thead { tr {
                            th scope="col" { "trial" } th scope="col" { "block" } th.l scope="col" { "variant" }
                            th.l scope="col" { "outcome" } th.w scope="col" { "what happened" }
                        } }
                        tbody { @for trial in failed.iter().take(LISTED) { (failed_row(trial)) } }
                    }
                }
            }
        }
    }
}

fn failed_row(trial: &Trial) -> Markup {
    let tail: Vec<char> = trial.log_tail.chars().rev().take(1000).collect();
    let tail: String = tail.into_iter().rev().collect();
    markup! {
        tr {
            th scope="row" { code { (shorten(&trial.id, 12)) } }
            td { (trial.block) }
            td.l { (shorten(&one_line(&trial.variant), 40)) }
            td.l { (trial.outcome) }
            td.w {
                @if let Some(detail) = &trial.detail { (shorten(detail, 500)) }
                @for flag in trial.load.iter().flat_map(|load| &load.flags) { p { code { (flag.code) } " " (flag.message) } }
                @if !tail.is_empty() { details { summary { "last lines of the server" } pre tabindex="0" { (tail) } } }
            }
        }
    }
}
