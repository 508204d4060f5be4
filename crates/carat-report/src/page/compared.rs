//! A section per compared metric: every trial as a dot, the differences with their intervals, and the numbers.

use crate::chart::{
    Bounds, Caption, DifferenceRow, DotRow, Picture, differences, dots, variant_class,
};
use crate::facts::{self, TrialSummary};
use crate::moments::phrase;
use crate::numbers;
use crate::page::elements::{
    estimate_cell, identifier, scrollable, unknown_cell, value_cell, verdict_cell,
};
use crate::page::gallery::Gallery;
use crate::text::{capital, one_line};
use carat_model::{Better, Results, Role, metric};
use maud::{Markup, html as markup};

/// The primary metric, then the guards.
pub(super) fn sections(results: &Results, gallery: &mut Gallery) -> Markup {
    let metrics = facts::metrics(results).into_iter();
    let compared = metrics.filter(|metric| facts::is_compared(results, metric));
    markup! { @for metric in compared { (section(results, &metric, gallery)) } }
}

fn section(results: &Results, metric: &str, gallery: &mut Gallery) -> Markup {
    let variants = results.info.variants.iter().enumerate();
    let rows: Vec<DotRow> = variants
        .map(|(place, variant)| DotRow {
            label: one_line(&variant.name),
            class: variant_class(place),
            values: facts::scored(results, &variant.name, metric),
            failures: facts::failures(results, &variant.name),
        })
        .collect();
    let most_trials = rows.iter().map(|row| row.values.len()).max().unwrap_or(0);
    let caption = Caption {
        id: &format!("dots-{}", identifier(metric)),
        title: &format!("All trials of {metric}"),
        description: &description(results, metric),
    };
    let body = markup! {
        p.soft { (facts::heading(metric)) ": " code { (metric) } "." }
        @match dots(&rows, facts::unit(metric), &caption) {
            Some(picture) => figure {
                figcaption { (explanation(results, metric, most_trials)) }
                div.pair {
                    (gallery.show(picture))
                    @if results.info.variants.len() > 1 { (gallery.show(difference_picture(results, metric))) }
                }
            },
            None => p.soft { "No trial that counts has this metric, so there is nothing to draw." },
        }
        details { summary { "Numbers" } (table(results, metric)) }
    };
    let title = capital(&phrase(results, metric));
    gallery.part(
        &format!("trials-{}", identifier(metric)),
        &markup! { (title) ", every trial" },
        &body,
    )
}

fn difference_picture(results: &Results, metric: &str) -> Picture {
    let variants = results.info.variants.iter().enumerate();
    let rows: Vec<DifferenceRow> = variants
        .map(|(place, variant)| DifferenceRow {
            metric: metric.to_owned(),
            label: one_line(&variant.name),
            class: variant_class(place),
            estimate: match (place, facts::conclusion(results, &variant.name, metric)) {
                // The first variant is the baseline, which has no difference.
                (0, _) => Err("the baseline".into()),
                (_, None) => Err("not compared".into()),
                (_, Some(conclusion)) => conclusion.estimate.ok_or_else(|| "too few blocks".into()),
            },
        })
        .collect();
    let conclusions = results.conclusions.iter().filter(|c| c.metric == metric);
    let estimates: Vec<String> = conclusions
        .filter_map(|c| Some((&c.variant, c.estimate?)))
        .map(|(variant, found)| format!("{variant}: {}", numbers::estimate(metric, &found)))
        .collect();
    let caption = Caption {
        id: &format!("difference-{}", identifier(metric)),
        title: &format!("Difference to the baseline in {metric}"),
        description: &estimates.join("; "),
    };
    // Worse is to the left where more is better, so the limit has a sign.
    let worse = match metric::find(metric).map(|known| known.better) {
        Some(Better::Higher) => -1.0,
        _ => 1.0,
    };
    let limit = guard_limit(results, metric).map(|limit| worse * limit);
    differences(&rows, Bounds { margin: results.info.margin, limit }, &caption)
}

fn description(results: &Results, metric: &str) -> String {
    let unit = facts::unit(metric);
    let mut parts = Vec::new();
    for variant in &results.info.variants {
        parts.push(match facts::variant_summary(results, &variant.name, metric) {
            Some(summary) => format!(
                "{}: median {} of {}, from {} to {}",
                variant.name,
                unit.show(summary.median),
                numbers::count(summary.n, "trial"),
                unit.show(summary.min),
                unit.show(summary.max)
            ),
            None => format!("{}: no figure", variant.name),
        });
    }
    parts.join("; ")
}

fn guard_limit(results: &Results, metric: &str) -> Option<f64> {
    results.conclusions.iter().find_map(|c| match c.role {
        Role::Guard { limit } if c.metric == metric => Some(limit),
        _ => None,
    })
}

fn explanation(results: &Results, metric: &str, most_trials: usize) -> Markup {
    let first = metric == results.info.primary;
    markup! {
        @if first {
            "Each dot is one trial; the line is the median"
            @if most_trials > 3 { ", the box the middle half" }
            ". The axis does not start at 0."
        }
        @if first && results.info.variants.len() > 1 {
            " The bars are the differences to the baseline with their intervals, from the pairs within blocks; \
            a difference within the grey band (" (numbers::limit(results.info.margin)) ") does not matter."
        }
        @if let Some(limit) = guard_limit(results, metric) {
            "A guard: it may get worse by at most " (numbers::limit(limit)) " (the dashed line)."
        }
    }
}

fn table(results: &Results, metric: &str) -> Markup {
    let label = format!("Numbers of {metric}");
    let table = markup! {
        table data-metric=(metric) {
            thead { tr {
                th scope="col" { "variant" } th scope="col" { "trials" } th scope="col" { "median" }
                th scope="col" { "mean" } th scope="col" { "standard deviation" }
                th scope="col" { "minimum" } th scope="col" { "maximum" }
                th scope="col" { "difference" } th scope="col" { "interval" } th.l scope="col" { "verdict" }
            } }
            tbody {
                @for (place, variant) in results.info.variants.iter().enumerate() {
                    tr class={ "v" (variant_class(place)) } data-variant=(variant.name) {
                        th scope="row" { (variant.name) }
                        (cells(results, metric, &variant.name))
                    }
                }
            }
        }
    };
    scrollable(&label, &table)
}

fn cells(results: &Results, metric: &str, variant: &str) -> Markup {
    let unit = facts::unit(metric);
    let summary = facts::variant_summary(results, variant, metric);
    let found = facts::conclusion(results, variant, metric);
    let estimate = found.and_then(|c| c.estimate);
    let figures: [fn(&TrialSummary) -> Option<f64>; 5] =
        [|s| Some(s.median), |s| Some(s.mean), |s| s.deviation, |s| Some(s.min), |s| Some(s.max)];
    markup! {
        td { (summary.map_or(0, |s| s.n)) }
        @for figure in figures { (value_cell(unit, summary.as_ref().and_then(figure))) }
        @match estimate {
            Some(e) => td data-v=(e.difference) { (numbers::signed(unit, e.difference)) },
            None => (unknown_cell()),
        }
        (estimate_cell(metric, estimate))
        (verdict_cell(found.map(|c| c.verdict)))
    }
}
