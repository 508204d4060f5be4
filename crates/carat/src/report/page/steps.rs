//! Round trips over the number of connections: one point per step of a cable load.

use crate::core::load::{StepReport, Times};
use crate::core::{Results, Unit, metric};
use crate::report::chart::{Axis, Caption, Line, Plot, Stroke};
use crate::report::facts;
use crate::report::numbers;
use crate::report::page::figures::class;
use crate::report::page::gallery::Gallery;
use crate::report::page::latency::panel;
use crate::report::text::one_line;
use crate::report::wording;
use carat_stats::curve::rising;
use maud::{Markup, html as markup};
use std::collections::BTreeMap;

/// Distributions of a step that say how long a broadcast took, the most telling first, in words.
const KINDS: [(&str, &str); 3] = [
    ("complete", "until every connection had the broadcast"),
    ("own", "until the sender had its own broadcast"),
    ("delivery", "until a connection had the broadcast"),
];

/// Thin lines on one picture.
const THIN_LINES: usize = 40;

type Course = BTreeMap<u32, Vec<f64>>;

/// The section; nothing where no trial has steps.
pub(crate) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let steps =
        || results.trials.iter().filter_map(|t| t.load.as_ref()).flat_map(|load| &load.steps);
    let Some((kind, words)) =
        KINDS.iter().find(|(kind, _)| steps().any(|s| s.times.contains_key(*kind)))
    else {
        return markup! {};
    };
    markup! {
        section #steps {
            h2 { "Round trips over connections" }
            figure {
                figcaption {
                    "Seconds " (words) ", by the number of connected clients. A thick line goes through the medians over trials, a thin line is one trial. \
                    Where the medians dip, the dashed line is the nearest curve that never falls: a dip is by chance unless its steps are proven to differ."
                }
                div.grid2 {
                    (picture(results, (kind, "median", |t| t.p50), gallery))
                    (picture(results, (kind, "p95", |t| t.p95), gallery))
                }
            }
            ul.also {
                @for curve in &results.curves { li { strong { (curve.variant) } ": " (wording::curve(curve)) "." } }
            }
            details { summary { "Numbers" } (table(results, kind)) }
        }
    }
}

/// One percentile of one distribution.
type Pick<'a> = (&'a str, &'a str, fn(&Times) -> f64);

/// Values of every trial by connections.
fn course(
    results: &Results,
    variant: &str,
    kind: &str,
    pick: fn(&Times) -> f64,
) -> Vec<Vec<(f64, f64)>> {
    results
        .trials
        .iter()
        .filter(|trial| trial.variant == variant && facts::counts(trial))
        .filter_map(|trial| trial.load.as_ref())
        .map(|load| {
            let point = |step: &StepReport| {
                Some((f64::from(step.clients), step.times.get(kind).map(pick)?))
            };
            load.steps.iter().filter_map(point).collect()
        })
        .collect()
}

fn medians(trials: &[Vec<(f64, f64)>]) -> Vec<(f64, f64)> {
    let mut by_clients: Course = BTreeMap::new();
    for (clients, value) in trials.iter().flatten() {
        by_clients.entry(*clients as u32).or_default().push(*value);
    }
    by_clients
        .into_iter()
        .filter_map(|(clients, values)| Some((f64::from(clients), facts::spread(&values)?.median)))
        .collect()
}

fn picture(results: &Results, (kind, name, pick): Pick<'_>, gallery: &mut Gallery) -> Markup {
    let thin = (THIN_LINES / results.header.variants.len().max(1)).max(2);
    let mut lines = Vec::new();
    let mut says = Vec::new();
    for (place, variant) in results.header.variants.iter().enumerate() {
        let trials = course(results, &variant.name, kind, pick);
        let middle = medians(&trials);
        if let Some((clients, value)) = middle.last() {
            says.push(format!(
                "{}: {} at {clients} clients",
                variant.name,
                Unit::Seconds.show(*value)
            ));
        }
        if trials.len() > 1 {
            lines.extend(trials.into_iter().take(thin).map(|points| Line {
                label: String::new(),
                class: class(place),
                stroke: Stroke::Thin,
                points,
            }));
        }
        lines.extend(never_falling(&middle).map(|points| Line {
            label: String::new(),
            class: class(place),
            stroke: Stroke::Reference,
            points,
        }));
        lines.push(Line {
            label: one_line(&variant.name),
            class: class(place),
            stroke: Stroke::Points,
            points: middle,
        });
    }
    let plot = Plot {
        x: Axis::Linear(Unit::Count),
        x_name: "connections".into(),
        y: Axis::Linear(Unit::Seconds),
        lines,
        bands: Vec::new(),
        markers: Vec::new(),
        x_range: None,
        y_range: None,
    };
    let id = format!("steps-{name}");
    let title = format!("{name} of round trips over connections");
    let caption = Caption { id: &id, title: &title, says: &says.join("; ") };
    panel(name, &plot, &caption, gallery)
}

/// The nearest curve that never falls; `None` where the points do not fall anyway.
fn never_falling(points: &[(f64, f64)]) -> Option<Vec<(f64, f64)>> {
    let values: Vec<f64> = points.iter().map(|point| point.1).collect();
    let pooled = rising(&values);
    (pooled != values).then(|| points.iter().map(|point| point.0).zip(pooled).collect())
}

/// The difference of the p95 at a step, with its interval and verdict.
fn difference(results: &Results, variant: &str, clients: f64) -> Markup {
    let metric = metric::BROADCAST_COMPLETE_P95.id;
    let curve = results.curves.iter().find(|c| c.variant == variant && c.metric == metric);
    let step = curve.and_then(|c| c.steps.iter().find(|s| f64::from(s.clients) == clients));
    markup! {
        @match step.and_then(|step| Some((step.verdict, step.estimate?))) {
            Some((verdict, estimate)) => td data-v=(estimate.ratio) {
                (wording::sign(verdict)) " " (numbers::estimate(metric, &estimate))
            },
            None => td { "–" },
        }
    }
}

fn table(results: &Results, kind: &str) -> Markup {
    let rows = results.header.variants.iter().map(|v| {
        let at = |pick| medians(&course(results, &v.name, kind, pick));
        (v.name.as_str(), at(|t: &Times| t.p50), at(|t: &Times| t.p95))
    });
    markup! {
        div.scroll tabindex="0" role="region" aria-label="Round trips over connections" {
            table {
                thead { tr {
                    th scope="col" { "variant" } th scope="col" { "connections" }
                    th scope="col" { "median" } th scope="col" { "p95" }
                    @if kind == "complete" { th scope="col" { "difference of the p95" } }
                } }
                tbody {
                    @for (name, middle, high) in rows {
                        @for ((clients, median), (_, p95)) in middle.iter().zip(&high) {
                            tr {
                                th scope="row" { (name) } td { (clients) }
                                td data-v=(median) { (Unit::Seconds.show(*median)) }
                                td data-v=(p95) { (Unit::Seconds.show(*p95)) }
                                @if kind == "complete" { (difference(results, name, *clients)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
