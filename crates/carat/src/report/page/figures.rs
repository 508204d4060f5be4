//! A section per metric: every trial as a dot, the difference with its interval, the table beside.

use crate::core::{Better, Results, Role, metric};
use crate::report::chart::{Bounds, Caption, DifferenceRow, DotRow, Picture, differences, dots};
use crate::report::facts;
use crate::report::numbers;
use crate::report::page::gallery::Gallery;
use crate::report::page::tables;
use crate::report::text::one_line;
use maud::{Markup, html as markup};

/// Metrics that the experiment is about: the primary, then the guards.
pub(crate) fn compared(results: &Results) -> Vec<String> {
    let guarded = |name: &String| {
        results
            .conclusions
            .iter()
            .any(|c| c.metric == *name && matches!(c.role, Role::Guard { .. }))
    };
    facts::metrics(results)
        .into_iter()
        .filter(|name| *name == results.header.primary || guarded(name))
        .collect()
}

/// The colour of a variant: its place in the file; colours repeat after eight.
pub(crate) fn class(place: usize) -> usize {
    if place < 8 { place } else { 1 + (place - 1) % 7 }
}

/// Heading, pictures, table of one metric.
pub(crate) fn metric_section(results: &Results, metric: &str, gallery: &mut Gallery) -> Markup {
    let id = identifier(metric);
    let unit = facts::unit(metric);
    let rows: Vec<DotRow> = results
        .header
        .variants
        .iter()
        .enumerate()
        .map(|(place, variant)| DotRow {
            label: one_line(&variant.name),
            class: class(place),
            values: facts::scored(results, &variant.name, metric),
            failures: facts::failures(results, &variant.name),
        })
        .collect();
    let says = spoken(results, metric);
    let title = format!("All trials of {metric}");
    let caption = Caption { id: &format!("dots-{id}"), title: &title, says: &says };
    markup! {
        section {
            h2 { (facts::heading(metric)) code { (metric) } }
            @match dots(&rows, unit, &caption) {
                Some(picture) => figure {
                    figcaption { (explained(results, metric, rows.iter().map(|r| r.values.len()).max())) }
                    div.pair {
                        (gallery.show(picture))
                        @if results.header.variants.len() > 1 { (gallery.show(difference_picture(results, metric, &id))) }
                    }
                },
                None => p.soft { "No trial that counts has this metric, so there is nothing to draw." },
            }
            details { summary { "Numbers" } (tables::metric(results, metric)) }
        }
    }
}

fn difference_picture(results: &Results, metric: &str, id: &str) -> Picture {
    let rows: Vec<DifferenceRow> = results
        .header
        .variants
        .iter()
        .enumerate()
        .map(|(place, variant)| DifferenceRow {
            metric: metric.to_owned(),
            label: one_line(&variant.name),
            class: class(place),
            estimate: match (place, facts::conclusion(results, &variant.name, metric)) {
                (0, _) => Err("the baseline".into()),
                (_, None) => Err("not compared".into()),
                (_, Some(conclusion)) => conclusion.estimate.ok_or_else(|| "too few blocks".into()),
            },
        })
        .collect();
    let says: Vec<String> = results
        .conclusions
        .iter()
        .filter(|c| c.metric == metric)
        .filter_map(|c| {
            Some(format!("{}: {}", c.variant, numbers::estimate(metric, c.estimate.as_ref()?)))
        })
        .collect();
    let title = format!("Difference to the baseline in {metric}");
    let says = says.join("; ");
    let caption = Caption { id: &format!("difference-{id}"), title: &title, says: &says };
    let worse = match metric::find(metric).map(|known| known.better) {
        Some(Better::Higher) => -1.0,
        _ => 1.0,
    };
    let limit = limit(results, metric).map(|limit| worse * limit);
    differences(&rows, Bounds { margin: results.header.margin, limit }, &caption)
}

fn spoken(results: &Results, metric: &str) -> String {
    let unit = facts::unit(metric);
    let parts: Vec<String> = results
        .header
        .variants
        .iter()
        .map(|variant| match facts::variant_spread(results, &variant.name, metric) {
            Some(spread) => format!(
                "{}: median {} of {} trials, from {} to {}",
                variant.name,
                unit.show(spread.median),
                spread.n,
                unit.show(spread.min),
                unit.show(spread.max)
            ),
            None => format!("{}: no figure", variant.name),
        })
        .collect();
    parts.join("; ")
}

/// The limit of a guard.
fn limit(results: &Results, metric: &str) -> Option<f64> {
    results.conclusions.iter().find_map(|c| match c.role {
        Role::Guard { limit } if c.metric == metric => Some(limit),
        _ => None,
    })
}

fn explained(results: &Results, metric: &str, most: Option<usize>) -> Markup {
    let limit = limit(results, metric);
    let first = metric == results.header.primary;
    markup! {
        @if first {
            "Each dot is one trial; the line is the median"
            @if most.is_some_and(|n| n > 3) { ", the box the middle half" }
            ". The axis does not start at 0."
        }
        @if first && results.header.variants.len() > 1 {
            " The bars are the differences to the baseline with their intervals, from the pairs within blocks; \
            within the grey band (" (numbers::limit(results.header.margin)) ") a difference does not matter."
        }
        @if let Some(limit) = limit { "A guard: a change for the worse may be at most " (numbers::limit(limit)) " (the dashed line)." }
    }
}

/// Letters, digits and hyphens of a name, for an id.
pub(crate) fn identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
