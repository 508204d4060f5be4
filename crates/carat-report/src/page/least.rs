//! How far the memory of every variant is from the least that its application could have.

use crate::least_text::{interval, level, line};
use crate::numbers::or_dash;
use crate::page::{Gallery, table};
use crate::table::{Cell, FactTable};
use crate::text::capital;
use carat_model::{Results, Unit};
use maud::{Markup, html as markup};

/// Empty where no server forked.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let Some(line) = line(results) else { return markup! {} };
    let rows = results.least.iter().map(|one| {
        vec![
            Cell::text(&one.variant),
            Cell::count(one.trials),
            Cell::amount(Unit::Ratio, one.median),
            Cell::text(or_dash(interval(one))),
            Cell::count(one.blocks),
        ]
    });
    let all = FactTable::new("Memory as a multiple of the least").texts(["variant"]);
    let all = all.numbers(["trials", "median", "interval", "blocks"]).rows(rows);
    let body = markup! {
        p { (capital(&line)) "." }
        p.soft {
            "The least is computed from the ledger of each trial after the load: once what the parent of the forked processes \
            loaded, and what each of them keeps besides. Code, stacks and machine code count as they are; free memory of Ruby and \
            of malloc does not count."
        }
        details {
            summary { "Numbers" }
            (table(&all))
            @if let Some(level) = level(results) { p.soft { (capital(&level)) "." } }
        }
    };
    gallery.part("least", &markup! { "How far from the least" }, &body)
}
