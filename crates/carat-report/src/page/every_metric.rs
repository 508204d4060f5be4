//! Every metric in one table.

use crate::facts;
use crate::numbers;
use crate::page::{Gallery, scrollable};
use crate::text::one_line;
use carat_model::Results;
use maud::{Markup, html as markup};

/// Medians of every metric and variant, with the differences that were estimated.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let table = markup! {
        table #every-metric {
            thead { tr {
                th scope="col" { "metric" }
                @for variant in &results.info.variants { th scope="col" { (one_line(&variant.name)) } }
            } }
            tbody { @for metric in facts::metrics(results) {
                tr data-metric=(metric) {
                    th scope="row" title=(facts::heading(metric)) { code { (metric) } }
                    @for variant in &results.info.variants { (cell(results, metric, &variant.name)) }
                }
            } }
        }
    };
    let body = markup! {
        p.soft { "Medians over the trials that count, and the difference to the baseline where one was estimated." }
        (scrollable("Every metric", &table))
    };
    gallery.part("metrics", &markup! { "Every metric" }, &body)
}

fn cell(results: &Results, metric: &str, variant: &str) -> Markup {
    let Some(summary) = facts::variant_summary(results, variant, metric) else {
        return markup! { td { "–" } };
    };
    let estimate = facts::conclusion(results, variant, metric).and_then(|found| found.estimate);
    markup! {
        td data-v=(summary.median) {
            (facts::unit(metric).show(summary.median))
            @if let Some(found) = estimate { br; span.soft { (numbers::estimate(metric, &found)) } }
        }
    }
}
