//! What the memory of every variant does over its load, part by part.

use crate::analysis::growth::{cause, found};
use crate::core::{GrowthKind, PartGrowth, Results, TrackedPart};
use crate::report::text::capital;
use maud::{Markup, html as markup};

/// The section; nothing where no trial was sampled during its load.
pub(crate) fn section(results: &Results) -> Markup {
    if results.growth.is_empty() {
        return markup! {};
    }
    let causes = || {
        let of = results.growth.iter();
        of.filter_map(|growth| Some((&growth.variant, cause(&growth.parts)?)))
    };
    markup! {
        section #growth-over-load {
            h2 { "Growth over the load" }
            p.soft {
                "All trials of a variant together, against the requests answered. A leak adds the same with every request; \
                fragmentation and warm-up add ever less. \u{201c}Undecided\u{201d} says how many requests a trial would need."
            }
            @if causes().next().is_some() {
                ul.also { @for (variant, cause) in causes() { li { strong { (variant) } ": " (capital(&cause)) "." } } }
            }
            div.scroll tabindex="0" role="region" aria-label="Growth over the load" {
                table {
                    thead { tr { th scope="col" { "variant" } th scope="col" { "part" } (head()) } }
                    tbody {
                        @for growth in &results.growth {
                            @for part in &growth.parts {
                                tr { th scope="row" { (growth.variant) } td { (part.part.label()) } (cells(part)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Headings of the columns of [`cells`].
pub(crate) fn head() -> Markup {
    markup! { th.w scope="col" { "what it does" } th scope="col" { "rate" } th scope="col" { "unit" } }
}

/// What a part does, its rate, and the unit of the rate.
pub(crate) fn cells(growth: &PartGrowth) -> Markup {
    let unit = match growth.part {
        TrackedPart::KeptObjects => "objects",
        _ => "bytes",
    };
    let shown = growth.rate.filter(|_| growth.kind != GrowthKind::SharingEroding);
    markup! {
        td.w { (found(growth)) }
        @match shown {
            Some(rate) => td data-v=(rate) { (format!("{rate:.1}")) },
            None => td { "\u{2013}" },
        }
        td { (unit) " per " (growth.progress.unit()) }
    }
}
