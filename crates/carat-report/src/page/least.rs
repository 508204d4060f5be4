//! How far the memory of every variant is from the least that its application could have.

use crate::least_text::{interval, level, line};
use crate::page::elements::{scrollable, value_cell};
use crate::page::gallery::Gallery;
use crate::text::capital;
use carat_model::{Results, Unit};
use maud::{Markup, html as markup};

/// Empty where no server forked.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let Some(line) = line(results) else { return markup! {} };
    let body = markup! {
        p { (capital(&line)) "." }
        p.soft {
            "The least is computed from the ledger of each trial after the load: once what the parent of the forked processes \
            loaded, and what each of them keeps besides. Code, stacks and machine code count as they are; free memory of Ruby and \
            of malloc does not count."
        }
        details { summary { "Numbers" } (table(results)) }
    };
    gallery.part("least", &markup! { "How far from the least" }, &body)
}

fn table(results: &Results) -> Markup {
    let table = markup! {
        table #least-numbers {
            thead { tr {
                th scope="col" { "variant" } th scope="col" { "trials" } th scope="col" { "median" }
                th scope="col" { "interval" } th scope="col" { "blocks" }
            } }
            tbody { @for one in &results.least {
                tr {
                    th scope="row" { (one.variant) } td { (one.trials) }
                    (value_cell(Unit::Ratio, Some(one.median)))
                    td { (interval(one).unwrap_or_else(|| "–".to_owned())) } td { (one.blocks) }
                }
            } }
        }
    };
    markup! {
        (scrollable("Memory as a multiple of the least", &table))
        @if let Some(level) = level(results) { p.soft { (capital(&level)) "." } }
    }
}
