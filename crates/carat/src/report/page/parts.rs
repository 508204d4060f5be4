//! What the memory of each variant was made of at the end of its load.

use crate::core::ledger::{Ledger, PartKind};
use crate::core::{Results, Unit};
use crate::report::chart::Caption;
use crate::report::chart::waterfall::waterfall;
use crate::report::facts;
use crate::report::page::gallery::Gallery;
use crate::report::page::ledger::steps;
use crate::report::page::tables;
use crate::report::text::one_line;
use maud::{Markup, html as markup};

/// Variants that get a picture; the table has them all.
const PICTURES: usize = 6;

/// The section; empty where no trial has a ledger.
pub(crate) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let ledgers: Vec<(&str, &Ledger)> = results
        .header
        .variants
        .iter()
        .filter_map(|variant| Some((variant.name.as_str(), median_ledger(results, &variant.name)?)))
        .collect();
    if ledgers.is_empty() {
        return markup! {};
    }
    let pictures: Vec<(usize, &str, Markup)> = ledgers
        .iter()
        .take(PICTURES)
        .enumerate()
        .map(|(at, (name, ledger))| (at, *name, picture(at, name, ledger, gallery)))
        .collect();
    markup! {
        section #parts {
            h2 { "What the memory was made of" }
            p.soft { "After the last request, of the trial whose memory is the median of its variant. The parts and the unexplained line add up to the kernel's figure (PSS); solid is memory that only one process maps. Every picture has its own scale." }
            div.grid2 {
                @for (at, name, picture) in &pictures {
                    div class={ "panel of v" (at) } { h3 { (one_line(name)) } (picture) }
                }
            }
            details { summary { "Numbers" } (table(&ledgers)) }
        }
    }
}

/// The ledger of the counted trial whose tree weighs the median of those that have one.
fn median_ledger<'a>(results: &'a Results, variant: &str) -> Option<&'a Ledger> {
    let mut ledgers: Vec<&Ledger> = results
        .trials
        .iter()
        .filter(|trial| trial.variant == variant && facts::counts(trial))
        .filter_map(|trial| trial.samples.last()?.ledger.as_deref())
        .collect();
    ledgers.sort_by_key(|ledger| ledger.pss);
    ledgers.get(ledgers.len() / 2).copied()
}

fn picture(at: usize, name: &str, ledger: &Ledger, gallery: &mut Gallery) -> Markup {
    let says: Vec<String> =
        ledger.parts.iter().map(|part| format!("{} {}", part.kind.label(), part.pss)).collect();
    let (id, title) = (format!("parts-{at}"), format!("The parts of {}", one_line(name)));
    let caption = Caption { id: &id, title: &title, says: &says.join(", ") };
    gallery.show(waterfall(
        &steps(ledger),
        ledger.unexplained as f64,
        ledger.pss.0 as f64,
        &caption,
    ))
}

fn table(ledgers: &[(&str, &Ledger)]) -> Markup {
    let of = |ledger: &Ledger, kind: PartKind| {
        let part = ledger.parts.iter().find(|part| part.kind == kind)?;
        Some(part.pss.0 as f64)
    };
    let kinds = PartKind::ALL
        .into_iter()
        .filter(|kind| ledgers.iter().any(|(_, ledger)| of(ledger, *kind).is_some()));
    let cell = |value: Option<f64>| tables::cell(Unit::Bytes, value);
    markup! {
        div.scroll tabindex="0" role="region" aria-label="Parts of the memory" {
            table {
                thead { tr { th scope="col" { "part" } @for (name, _) in ledgers { th scope="col" { (one_line(name)) } } } }
                tbody {
                    @for kind in kinds {
                        tr { th scope="row" { (kind.label()) } @for (_, ledger) in ledgers { (cell(of(ledger, kind))) } }
                    }
                    tr { th scope="row" { "unexplained" } @for (_, ledger) in ledgers { (cell(Some(ledger.unexplained as f64))) } }
                    tr { th scope="row" { "whole" } @for (_, ledger) in ledgers { (cell(Some(ledger.pss.0 as f64))) } }
                }
            }
        }
    }
}
