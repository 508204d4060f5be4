//! A section per compared metric: every trial as a dot, the differences with their intervals, and the numbers.

use crate::chart::{Caption, DifferenceRow, DotRow, Picture, differences, dots, variant_class};
use crate::facts::{self, TrialSummary};
use crate::moments::phrase;
use crate::numbers;
use crate::page::{Gallery, identifier, number_table};
use crate::table::{Cell, FactTable};
use crate::text::{capital, one_line};
use carat_model::{Better, Results, Role, Variant, metric};
use maud::{Markup, html as markup};

/// The primary metric, then the guards.
pub(super) fn sections(results: &Results, gallery: &mut Gallery) -> Markup {
    markup! { @for metric in facts::compared_metrics(results) { (section(results, metric, gallery)) } }
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
    let title = format!("All trials of {metric}");
    let id = format!("dots-{}", identifier(metric));
    let caption = Caption::new(id, title, description(results, metric));
    let body = markup! {
        p.soft { (facts::heading(metric)) ": " code { (metric) } "." }
        @match dots(&rows, facts::unit(metric), caption) {
            Some(picture) => figure {
                figcaption { (explanation(results, metric, most_trials)) }
                div.pair {
                    (gallery.show(picture))
                    @if results.info.variants.len() > 1 { (gallery.show(difference_picture(results, metric))) }
                }
            },
            None => p.soft { "No trial that counts has this metric, so there is nothing to draw." },
        }
        (number_table(&numbers(results, metric)))
    };
    let title = markup! { (capital(&phrase(results, metric))) ", every trial" };
    let id = format!("trials-{}", identifier(metric));
    gallery.proof(&id, &title, results.info.variants.len(), &body)
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
                (_, Some(conclusion)) => match conclusion.estimate {
                    // It has no place on an axis of percentages.
                    Some(found) if found.in_own_unit => Err(numbers::estimate(metric, &found)),
                    found => found.ok_or_else(|| "too few blocks".into()),
                },
            },
        })
        .collect();
    let conclusions = results.conclusions.iter().filter(|c| c.metric == metric);
    let estimates: Vec<String> = conclusions
        .filter_map(|c| Some((&c.variant, c.estimate?)))
        .map(|(variant, found)| format!("{variant}: {}", numbers::estimate(metric, &found)))
        .collect();
    let title = format!("Difference to the baseline in {metric}");
    let id = format!("difference-{}", identifier(metric));
    let caption = Caption::new(id, title, estimates.join("; "));
    // Worse is to the left where more is better, so the limit has a sign.
    let worse = match metric::find(metric).map(|known| known.better) {
        Some(Better::Higher) => -1.0,
        _ => 1.0,
    };
    let limit = guard_limit(results, metric).map(|limit| worse * limit);
    differences(&rows, results.info.margin, limit, caption)
}

fn description(results: &Results, metric: &str) -> String {
    let unit = facts::unit(metric);
    let parts = results.info.variants.iter().map(|Variant { name, .. }| {
        let Some(summary) = facts::variant_summary(results, name, metric) else {
            return format!("{name}: no figure");
        };
        let trials = numbers::count(summary.n, "trial");
        let [median, min, max] =
            [summary.median, summary.min, summary.max].map(|value| unit.show(value));
        format!("{name}: median {median} of {trials}, from {min} to {max}")
    });
    parts.collect::<Vec<_>>().join("; ")
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

fn numbers(results: &Results, metric: &str) -> FactTable {
    let unit = facts::unit(metric);
    let rows = results.info.variants.iter().map(|variant| {
        let summary = facts::variant_summary(results, &variant.name, metric);
        let found = facts::conclusion(results, &variant.name, metric);
        let estimate = found.and_then(|one| one.estimate);
        let figure = |of: fn(TrialSummary) -> Option<f64>| Cell::amount(unit, summary.and_then(of));
        vec![
            Cell::text(&variant.name),
            Cell::count(summary.map_or(0, |of| of.n)),
            figure(|of| Some(of.median)),
            figure(|of| Some(of.mean)),
            figure(|of| of.deviation),
            figure(|of| Some(of.min)),
            figure(|of| Some(of.max)),
            Cell::shown(estimate.map(|one| one.difference), |size| numbers::signed(unit, size)),
            Cell::known_estimate(metric, estimate),
            found.map_or_else(Cell::default, |one| Cell::verdict_of(results, one)),
        ]
    });
    FactTable::new(format!("Numbers of {metric}"))
        .of_metric(metric)
        .name("variant")
        .numbers(["trials", "median", "mean", "standard deviation", "minimum", "maximum"])
        .numbers(["difference", "interval"])
        .texts(["verdict"])
        .rows(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, conclusion, estimate};
    use carat_model::Verdict;

    #[test]
    fn the_mark_of_a_variant_beyond_a_guard_is_that_of_the_verdict_above() {
        let found = conclusion(Verdict::Undecided, Some(estimate(-0.1, 0.0, 0.1)));
        let slower = (Verdict::Slower, estimate(5.0, 6.0, 7.0));
        let guard = testing::guard(metric::LATENCY_P95.id, 0.05, Some(false), slower);
        let mut results = testing::results(&["a", "b"], Vec::new());
        results.conclusions = vec![found, guard];
        let verdict = |metric| numbers(&results, metric).rows[1].last().unwrap().text.clone();
        assert_eq!(verdict(metric::MEMORY_PSS_FINAL.id), "✗ undecided");
        assert_eq!(verdict(metric::LATENCY_P95.id), "▲ slower");
    }
}
