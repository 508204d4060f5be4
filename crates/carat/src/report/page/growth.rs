//! Growth of every part of every variant's memory over the load.

use crate::analysis::growth::{amount, cause, found, tolerances};
use crate::core::{GrowthKind, PartGrowth, Results, TrackedPart};
use crate::report::page::elements::{scrollable, unknown_cell};
use crate::report::page::gallery::Gallery;
use crate::report::text::capital;
use maud::{Markup, html as markup};

/// Empty if no trial was sampled during its load.
pub(crate) fn section(results: &Results, _: &mut Gallery) -> Markup {
    if results.growth.is_empty() {
        return markup! {};
    }
    let causes: Vec<(&str, String)> = results
        .growth
        .iter()
        .filter_map(|growth| Some((growth.variant.as_str(), cause(&growth.parts)?)))
        .collect();
    let rows = results
        .growth
        .iter()
        .flat_map(|growth| growth.parts.iter().map(move |part| (growth.variant.as_str(), part)));
    let table = markup! {
        table {
            thead { tr { th scope="col" { "variant" } th scope="col" { "part" } (head()) } }
            tbody {
                @for (variant, part) in rows {
                    tr { th scope="row" { (variant) } td { (part.part.label()) } (cells(part)) }
                }
            }
        }
    };
    let tolerances = results.growth.first().map(|growth| tolerances(&growth.parts));
    markup! {
        section #growth-over-load {
            h2 { "Growth over the load" }
            p.soft {
                "All trials of a variant together, by requests answered. A leak adds the same amount with every request; \
                fragmentation and warm-up add less and less. \u{201c}Undecided\u{201d} states what a trial would need."
                @if let Some(text) = tolerances.filter(|text| !text.is_empty()) { " " (capital(&text)) "." }
            }
            @if !causes.is_empty() {
                ul.also { @for (variant, cause) in &causes { li { strong { (variant) } ": " (capital(cause)) "." } } }
            }
            (scrollable("Growth over the load", &table))
        }
    }
}

/// The headings of the columns of [`cells`].
pub(crate) fn head() -> Markup {
    markup! {
        th.w scope="col" { "growth" } th scope="col" { "rate" } th scope="col" { "unit" } th scope="col" { "per day" }
    }
}

/// The growth of a part in words, its rate, the unit of the rate, and the amount per day.
pub(crate) fn cells(growth: &PartGrowth) -> Markup {
    let unit = match growth.part {
        TrackedPart::KeptObjects => "objects",
        _ => "bytes",
    };
    let rate = growth.rate.filter(|_| growth.kind != GrowthKind::SharingEroding);
    markup! {
        td.w { (found(growth)) }
        @match rate {
            Some(rate) => td data-v=(rate) { (format!("{rate:.1}")) },
            None => (unknown_cell()),
        }
        td { (unit) " per " (growth.progress.unit()) }
        @match growth.per_day {
            Some(daily) => td data-v=(daily.amount) { (amount(growth.part, daily.amount)) },
            None => (unknown_cell()),
        }
    }
}
