//! Latency: percentiles up to the rarest responses, and the share of responses within a time.

use crate::core::{Results, Unit};
use crate::report::chart::{Axis, Caption, Line, Plot, Stroke};
use crate::report::histogram;
use crate::report::page::figures::class;
use crate::report::page::gallery::Gallery;
use crate::report::text::one_line;
use hdrhistogram::Histogram;
use maud::{Markup, html as markup};

const QUANTILES: [(f64, &str); 6] =
    [(0.5, "p50"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99"), (0.999, "p99.9"), (1.0, "most")];

struct Merged {
    name: String,
    class: usize,
    histogram: Histogram<u64>,
}

/// The section; nothing where no trial has a histogram.
pub(crate) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let merged: Vec<Merged> = results
        .header
        .variants
        .iter()
        .enumerate()
        .filter_map(|(place, variant)| {
            Some(Merged {
                name: one_line(&variant.name),
                class: class(place),
                histogram: histogram::merged(results, &variant.name)?,
            })
        })
        .collect();
    if merged.is_empty() {
        return markup! {};
    }
    let says: Vec<String> = merged
        .iter()
        .map(|m| {
            format!("{}: median {}, p95 {}, p99 {}", m.name, at(m, 0.5), at(m, 0.95), at(m, 0.99))
        })
        .collect();
    let says = says.join("; ");
    markup! {
        section #latency {
            h2 { "Latency of every response" }
            figure {
                figcaption {
                    "All counted trials of a variant added up. Left: the slower, the rarer; each step to the right is ten times rarer. \
                    Right: the share of responses that came within a time. A percentile with fewer than ten responses beyond it is unknown."
                }
                div.grid2 {
                    (percentiles(&merged, &says, gallery))
                    (cumulative(&merged, &says, gallery))
                }
            }
            details { summary { "Numbers" } (table(&merged)) }
        }
    }
}

fn at(merged: &Merged, quantile: f64) -> String {
    let known = histogram::quantile(&merged.histogram, quantile);
    known.map_or_else(|| "unknown".to_owned(), |seconds| Unit::Seconds.show(seconds))
}

fn lines(merged: &[Merged], points: impl Fn(&Histogram<u64>) -> Vec<(f64, f64)>) -> Vec<Line> {
    merged
        .iter()
        .map(|m| Line {
            label: m.name.clone(),
            class: m.class,
            stroke: Stroke::Main,
            points: points(&m.histogram),
        })
        .collect()
}

fn percentiles(merged: &[Merged], says: &str, gallery: &mut Gallery) -> Markup {
    let names = [(1.0, "p90"), (2.0, "p99"), (3.0, "p99.9"), (4.0, "p99.99"), (5.0, "p99.999")];
    let ticks = std::iter::once((2f64.log10(), "p50")).chain(names);
    let plot = Plot {
        x: Axis::Named(ticks.map(|(place, name)| (place, name.to_owned())).collect()),
        x_name: "percentile".into(),
        y: Axis::Logarithmic(Unit::Seconds),
        lines: lines(merged, histogram::percentiles),
        bands: Vec::new(),
        markers: Vec::new(),
        x_range: None,
        y_range: None,
    };
    let caption = Caption { id: "latency-percentiles", title: "Latency by percentile", says };
    panel("Percentiles", &plot, &caption, gallery)
}

fn cumulative(merged: &[Merged], says: &str, gallery: &mut Gallery) -> Markup {
    let plot = Plot {
        x: Axis::Logarithmic(Unit::Seconds),
        x_name: "latency".into(),
        y: Axis::Linear(Unit::Fraction),
        lines: lines(merged, |histogram| histogram::cumulative(histogram, 120)),
        bands: Vec::new(),
        markers: Vec::new(),
        x_range: None,
        y_range: Some((0.0, 1.0)),
    };
    let caption = Caption { id: "latency-within", title: "Share of responses within a time", says };
    panel("Share of responses within a time", &plot, &caption, gallery)
}

/// A titled picture in a grid of several.
pub(crate) fn panel(
    title: &str,
    plot: &Plot,
    caption: &Caption<'_>,
    gallery: &mut Gallery,
) -> Markup {
    let picture = plot.draw(caption);
    markup! {
        @if let Some(picture) = picture { div.panel { h3 { (title) } (gallery.show(picture)) } }
    }
}

fn table(merged: &[Merged]) -> Markup {
    markup! {
        div.scroll tabindex="0" role="region" aria-label="Latency" {
            table {
                thead { tr {
                    th scope="col" { "variant" } th scope="col" { "responses" }
                    @for (_, name) in QUANTILES { th scope="col" { (name) } }
                } }
                tbody {
                    @for one in merged {
                        tr {
                            th scope="row" { (one.name) }
                            td { (one.histogram.len()) }
                            @for (quantile, _) in QUANTILES { td { (at(one, quantile)) } }
                        }
                    }
                }
            }
        }
    }
}
