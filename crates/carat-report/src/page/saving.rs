//! Where the difference in memory comes from: every part of every variant's ledger against the baseline's, on one scale.

use crate::chart::bars::reach;
use crate::chart::{BarRow, Caption, bars, variant_class};
use crate::facts;
use crate::numbers::{signed, signed_bytes};
use crate::page::ledger::colour;
use crate::page::{Gallery, number_table};
use crate::part_differences::{
    LedgerLine, PartDifference, VariantParts, heading, moment_of_parts, part_differences,
};
use crate::table::{Cell, FactTable};
use crate::text::{capital, one_line};
use carat_model::ledger::PartKind;
use carat_model::{Results, Unit};
use maud::{Markup, html as markup};

/// Variants that get a picture; the table has them all.
const PICTURES: usize = 8;

/// Empty if no block has ledgers of the baseline and of another variant.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let all = part_differences(results);
    if all.is_empty() {
        return markup! {};
    }
    let drawn = &all[..all.len().min(PICTURES)];
    let lines = drawn.iter().flat_map(|one| one.lines.iter().chain([&one.all]));
    let reach = reach(lines.map(PartDifference::difference));
    let baseline = one_line(facts::baseline(results));
    let body = markup! {
        ul.also {
            @for one in &all { li { strong { (one.variant) } ": " (one.sentence()) "." } }
        }
        figure {
            figcaption {
                (capital(&moment_of_parts(results))) ". A bar to the left is less than " (baseline)
                ", one to the right more. Medians over the blocks in which both have a ledger; the bars of the parts add up to the last bar. \
                All pictures have the same scale. A dash in the table is a part that no ledger lists: there is none, or it cannot be told apart."
            }
            div.grid2 { @for one in drawn { (panel(one, reach, &baseline, gallery)) } }
        }
        (number_table(&numbers(&all)))
    };
    gallery.part("saving", &markup! { (heading(results, &all)) }, &body)
}

fn panel(one: &VariantParts, reach: (f64, f64), baseline: &str, gallery: &mut Gallery) -> Markup {
    let rows = rows(one, reach);
    let notes: Vec<String> =
        rows.iter().map(|row| format!("{}: {}", row.label, row.note)).collect();
    let title = format!("The parts of {} against {baseline}", one_line(&one.variant));
    let caption = Caption::new(format!("saving-{}", one.place), title, notes.join("; "));
    let picture = bars(&rows, reach, Some(baseline), caption);
    gallery.variant_panel(variant_class(one.place), &one.variant, picture)
}

/// The lines that are large enough to see, the sum of the others, and all memory.
fn rows(one: &VariantParts, (low, high): (f64, f64)) -> Vec<BarRow> {
    // A part too small to be seen would be a label without a bar.
    let (shown, others) = one.differing_by(0.004 * (high - low));
    let hidden = shown.len() < one.lines.len();
    let size = high.max(-low);
    let rest = BarRow {
        label: "the others".to_owned(),
        note: signed_bytes(others, size),
        class: Some(0),
        bars: vec![("part", 0.0, others)],
    };
    let rest = hidden.then_some(rest);
    let lines = shown.into_iter().map(|line| row(line, size));
    lines.chain(rest).chain([row(&one.all, size)]).collect()
}

/// A row whose difference is written in the unit of differences of that `size`, the same in all pictures.
fn row(line: &PartDifference, size: f64) -> BarRow {
    let difference = signed_bytes(line.difference(), size);
    let class = match line.line {
        LedgerLine::Part(kind) => Some(colour(kind)),
        LedgerLine::Malloc | LedgerLine::SlotsAndMalloc => Some(colour(PartKind::MallocLive)),
        LedgerLine::Unexplained | LedgerLine::OfMedians => Some(0),
        LedgerLine::All => None,
    };
    let kind = if class.is_some() { "part" } else { "whole" };
    BarRow {
        label: line.line.label().to_owned(),
        note: match line.line {
            LedgerLine::OfMedians => difference,
            _ => format!("{} · {difference}", line.change()),
        },
        class,
        bars: vec![(kind, 0.0, line.difference())],
    }
}

fn numbers(all: &[VariantParts]) -> FactTable {
    let lines =
        all.iter().flat_map(|one| one.lines.iter().chain([&one.all]).map(move |line| (one, line)));
    FactTable::new("Parts of every variant against the baseline")
        .texts(["variant", "part"])
        .numbers(["blocks", "baseline", "variant's", "difference"])
        .rows(lines.map(|(one, line)| {
            let [baseline, variant] = line.sizes().map(|size| Cell::amount(Unit::Bytes, size));
            vec![
                Cell::text(&one.variant),
                Cell::text(line.line.label()),
                Cell::count(one.blocks),
                baseline,
                variant,
                Cell::shown(line.difference(), |bytes| signed(Unit::Bytes, bytes)),
            ]
        }))
}
