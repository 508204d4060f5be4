//! Latency: percentiles up to the rarest responses, and the share of responses within a time.

use crate::chart::{Axis, Caption, Picture, Plot, PlotLine, Stroke, variant_class};
use crate::histogram;
use crate::page::{Gallery, number_table};
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

const WITHIN: &str = "Share of responses within a time";

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
    let description: Vec<String> = variants.iter().map(VariantLatency::description).collect();
    let description = description.join("; ");
    let body = markup! {
        figure {
            figcaption {
                "All counted trials of a variant together. Left: latency by percentile; each step to the right is ten times rarer. \
                Right: the share of responses within a time. A percentile with fewer than ten responses beyond it is unknown."
            }
            div.grid2 {
                (gallery.panel("Percentiles", percentiles(&variants, &description)))
                (gallery.panel(WITHIN, cumulative(&variants, &description)))
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
}

fn percentiles(variants: &[VariantLatency], description: &str) -> Option<Picture> {
    let ticks = NINES.map(|(place, name)| (place, name.to_owned())).to_vec();
    let lines = lines(variants, histogram::percentiles);
    let caption = Caption::new("latency-percentiles", "Latency by percentile", description);
    Plot::new(Axis::Named(ticks), "percentile", Axis::Logarithmic(Unit::Seconds), lines)
        .draw(caption)
}

fn cumulative(variants: &[VariantLatency], description: &str) -> Option<Picture> {
    let lines = lines(variants, histogram::cumulative);
    let (x, y) = (Axis::Logarithmic(Unit::Seconds), Axis::Linear(Unit::Fraction));
    let plot = Plot::new(x, "latency", y, lines);
    let caption = Caption::new("latency-within", WITHIN, description);
    Plot { y_range: Some((0.0, 1.0)), ..plot }.draw(caption)
}

fn lines(
    variants: &[VariantLatency],
    points: fn(&Histogram<u64>) -> Vec<(f64, f64)>,
) -> Vec<PlotLine> {
    let variants = variants.iter();
    let line = |one: &VariantLatency| {
        PlotLine::new(&one.name, one.class, Stroke::Main, points(&one.histogram))
    };
    variants.map(line).collect()
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
