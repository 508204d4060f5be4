//! How much of the tree's memory its processes still share, over time: what copy-on-write is worth.

use crate::core::{Results, Sample, Unit};
use crate::report::chart::reduce::{band, reduce};
use crate::report::chart::{Axis, Caption, Line, Plot, Stroke};
use crate::report::facts;
use crate::report::page::erosion;
use crate::report::page::figures::class;
use crate::report::page::gallery::Gallery;
use crate::report::page::latency::panel;
use crate::report::text::one_line;
use maud::{Markup, html as markup};

/// Thin lines on the picture, and the columns of one.
const THIN_LINES: usize = 24;
const COLUMNS: usize = 80;

/// The section; nothing where the tree was one process or its shared memory is unknown.
pub(crate) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let mut lines = Vec::new();
    let mut ends: Vec<(String, f64, f64)> = Vec::new();
    let thin = (THIN_LINES / results.header.variants.len().max(1)).max(1);
    for (place, variant) in results.header.variants.iter().enumerate() {
        let trials = shares(results, &variant.name);
        let median: Vec<(f64, f64)> =
            band(&trials, 120).iter().map(|point| (point.x, point.median)).collect();
        let (Some(first), Some(last)) = (median.first(), median.last()) else { continue };
        let name = one_line(&variant.name);
        ends.push((name.clone(), first.1, last.1));
        let thin_lines = trials.iter().take(thin).map(|points| Line {
            label: String::new(),
            class: class(place),
            stroke: Stroke::Thin,
            points: reduce(points, COLUMNS),
        });
        lines.extend(thin_lines.filter(|_| trials.len() > 1));
        lines.push(Line { label: name, class: class(place), stroke: Stroke::Main, points: median });
    }
    if ends.is_empty() {
        return markup! {};
    }
    let show = |share: f64| Unit::Fraction.show(share);
    let says: Vec<String> = ends
        .iter()
        .map(|(name, first, last)| {
            format!("{name}: {} at first, {} in the end", show(*first), show(*last))
        })
        .collect();
    let plot = Plot {
        x: Axis::Linear(Unit::Seconds),
        x_name: "since the start".into(),
        y: Axis::Linear(Unit::Fraction),
        lines,
        bands: Vec::new(),
        markers: Vec::new(),
        x_range: None,
        y_range: Some((0.0, 1.0)),
    };
    let caption = Caption {
        id: "sharing",
        title: "Shared part of the memory over time",
        says: &says.join("; "),
    };
    markup! {
        section #sharing-over-time {
            h2 { "What the processes share" }
            figure {
                figcaption { "The part of the tree's memory on pages that several of its processes map. It falls when a process writes to such a page and so gets a copy of its own." }
                div.grid2 { (panel("Shared part", &plot, &caption, gallery)) }
            }
            details { summary { "Numbers" } (table(&ends)) }
            (erosion::section(results, gallery))
        }
    }
}

/// The shared part of every trial over time, where several processes ran.
fn shares(results: &Results, variant: &str) -> Vec<Vec<(f64, f64)>> {
    let point = |sample: &Sample| {
        let (pss, shared) = (sample.pss?.0 as f64, shared(sample)?);
        (pss > 0.0).then(|| (sample.at_ms as f64 / 1e3, shared / pss))
    };
    results
        .trials
        .iter()
        .filter(|trial| trial.variant == variant && facts::counts(trial))
        .map(|trial| trial.samples.iter().filter_map(point).collect::<Vec<_>>())
        .filter(|points| points.len() > 1)
        .collect()
}

/// What a tree of several processes shares, in bytes.
pub(crate) fn shared(sample: &Sample) -> Option<f64> {
    let known = sample.processes > 1 && !sample.partial;
    Some(sample.shared.filter(|_| known)?.0 as f64)
}

fn table(ends: &[(String, f64, f64)]) -> Markup {
    markup! {
        table {
            thead { tr { th scope="col" { "variant" } th scope="col" { "at first" } th scope="col" { "in the end" } } }
            tbody {
                @for (name, first, last) in ends {
                    tr {
                        th scope="row" { (name) }
                        td data-v=(first) { (Unit::Fraction.show(*first)) }
                        td data-v=(last) { (Unit::Fraction.show(*last)) }
                    }
                }
            }
        }
    }
}
