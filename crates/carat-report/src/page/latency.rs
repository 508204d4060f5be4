//! Latency: percentiles up to the rarest responses, and the share of responses within a time.

use crate::chart::{Axis, Caption, Plot, PlotLine, Stroke, variant_class};
use crate::histogram;
use crate::page::elements::number_table;
use crate::page::gallery::Gallery;
use crate::table::{Cell, FactTable};
use crate::text::one_line;
use carat_model::{Results, Unit};
use hdrhistogram::Histogram;
use maud::{Markup, html as markup};

/// Quantiles in the table.
const QUANTILES: [(f64, &str); 6] =
    [(0.5, "p50"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99"), (0.999, "p99.9"), (1.0, "maximum")];

/// Ticks of the percentile axis, which counts nines.
const NINES: [(f64, &str); 6] = [
    (std::f64::consts::LOG10_2, "p50"),
    (1.0, "p90"),
    (2.0, "p99"),
    (3.0, "p99.9"),
    (4.0, "p99.99"),
    (5.0, "p99.999"),
];

/// Points of the line of the share of responses within a time.
const POINTS: usize = 120;

struct VariantLatency {
    name: String,
    class: usize,
    histogram: Histogram<u64>,
}

/// Empty if no trial has a histogram.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let variants = results.info.variants.iter().enumerate();
    let variants: Vec<VariantLatency> = variants
        .filter_map(|(place, variant)| {
            Some(VariantLatency {
                name: one_line(&variant.name),
                class: variant_class(place),
                histogram: histogram::merged(results, &variant.name)?,
            })
        })
        .collect();
    if variants.is_empty() {
        return markup! {};
    }
    let descriptions: Vec<String> = variants.iter().map(VariantLatency::description).collect();
    let description = descriptions.join("; ");
    let body = markup! {
        figure {
            figcaption {
                "All counted trials of a variant together. Left: latency by percentile; each step to the right is ten times rarer. \
                Right: the share of responses within a time. A percentile with fewer than ten responses beyond it is unknown."
            }
            div.grid2 {
                (percentiles(&variants, &description, gallery))
                (cumulative(&variants, &description, gallery))
            }
        }
        (number_table(&numbers(&variants)))
    };
    gallery.part("latency", &markup! { "Latency of every response" }, &body)
}

impl VariantLatency {
    fn at(&self, quantile: f64) -> String {
        let known = histogram::quantile(&self.histogram, quantile);
        // Too few responses beyond it: a number would be one response's luck.
        known.map_or_else(|| "unknown".to_owned(), |seconds| Unit::Seconds.show(seconds))
    }

    fn description(&self) -> String {
        let [median, p95, p99] = [0.5, 0.95, 0.99].map(|quantile| self.at(quantile));
        format!("{}: median {median}, p95 {p95}, p99 {p99}", self.name)
    }

    fn line(&self, points: Vec<(f64, f64)>) -> PlotLine {
        PlotLine::new(&self.name, self.class, Stroke::Main, points)
    }
}

fn percentiles(variants: &[VariantLatency], description: &str, gallery: &mut Gallery) -> Markup {
    let ticks = NINES.map(|(place, name)| (place, name.to_owned())).to_vec();
    let lines = variants.iter().map(|one| one.line(histogram::percentiles(&one.histogram)));
    let plot = Plot {
        x_name: "percentile".into(),
        lines: lines.collect(),
        ..Plot::new(Axis::Named(ticks), Axis::Logarithmic(Unit::Seconds))
    };
    let caption = Caption::new("latency-percentiles", "Latency by percentile", description);
    gallery.panel("Percentiles", &plot, caption)
}

fn cumulative(variants: &[VariantLatency], description: &str, gallery: &mut Gallery) -> Markup {
    let lines = variants.iter().map(|one| one.line(histogram::cumulative(&one.histogram, POINTS)));
    let plot = Plot {
        x_name: "latency".into(),
        lines: lines.collect(),
        y_range: Some((0.0, 1.0)),
        ..Plot::new(Axis::Logarithmic(Unit::Seconds), Axis::Linear(Unit::Fraction))
    };
    let title = "Share of responses within a time";
    gallery.panel(title, &plot, Caption::new("latency-within", title, description))
}

fn numbers(variants: &[VariantLatency]) -> FactTable {
    let rows = variants.iter().map(|one| {
        let quantiles = QUANTILES.iter().map(|(quantile, _)| Cell::text(one.at(*quantile)));
        Cell::row(&one.name, [Cell::count(one.histogram.len())].into_iter().chain(quantiles))
    });
    FactTable::new("Latency")
        .texts(["variant"])
        .numbers(["responses"])
        .numbers(QUANTILES.map(|(_, name)| name))
        .rows(rows)
}
