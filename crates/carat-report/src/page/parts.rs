//! The parts of each variant's memory at the end of its load.

use crate::chart::Caption;
use crate::chart::waterfall::waterfall;
use crate::facts;
use crate::page::elements::table;
use crate::page::gallery::Gallery;
use crate::page::ledger::{part_sizes, waterfall_parts};
use crate::table::{Cell, Column, FactTable};
use crate::text::one_line;
use carat_model::ledger::{Ledger, PartKind};
use carat_model::{Results, Unit};
use maud::{Markup, html as markup};

/// Variants that get a picture; the table has them all.
const PICTURES: usize = 6;

/// The median ledger of a variant.
struct VariantLedger<'a> {
    name: String,
    ledger: &'a Ledger,
}

/// Empty if no trial has a ledger.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let variants = results.info.variants.iter();
    let ledgers: Vec<VariantLedger<'_>> = variants
        .filter_map(|variant| {
            let ledger = median_ledger(results, &variant.name)?;
            Some(VariantLedger { name: one_line(&variant.name), ledger })
        })
        .collect();
    if ledgers.is_empty() {
        return markup! {};
    }
    // One scale for all pictures, so that variants can be compared by eye.
    let reach = ledgers.iter().map(|variant| variant.ledger.pss.0 as f64).fold(0.0, f64::max);
    let body = markup! {
        p.soft { "After the last request, of the trial with the median memory of its variant. The parts and the unexplained line add up to the kernel's figure (PSS); solid is memory that only one process maps. All pictures have the same scale." }
        div.grid2 {
            @for (at, variant) in ledgers.iter().take(PICTURES).enumerate() {
                div class={ "panel of v" (at) } { h3 { (variant.name) } (picture(at, variant, reach, gallery)) }
            }
        }
        details { summary { "Numbers" } (table(&numbers(&ledgers))) }
    };
    gallery.part("parts", &markup! { "What the memory was made of" }, &body)
}

/// Of the counted trials that have a ledger, the ledger with the median memory.
fn median_ledger<'a>(results: &'a Results, variant: &str) -> Option<&'a Ledger> {
    let trials = facts::counted_trials(results, variant);
    let mut ledgers: Vec<&Ledger> = trials.filter_map(facts::last_ledger).collect();
    ledgers.sort_by_key(|ledger| ledger.pss);
    // The upper of two middle ones: a real ledger, not the mean of two.
    ledgers.get(ledgers.len() / 2).copied()
}

fn picture(at: usize, variant: &VariantLedger<'_>, reach: f64, gallery: &mut Gallery) -> Markup {
    let ledger = variant.ledger;
    let caption = Caption {
        id: &format!("parts-{at}"),
        title: &format!("The parts of {}", variant.name),
        description: &part_sizes(ledger),
    };
    let (unexplained, total) = (ledger.unexplained as f64, ledger.pss.0 as f64);
    gallery.show(waterfall(&waterfall_parts(ledger), unexplained, (total, reach), &caption))
}

fn size(ledger: &Ledger, kind: PartKind) -> Option<f64> {
    let part = ledger.parts.iter().find(|part| part.kind == kind)?;
    Some(part.pss.0 as f64)
}

fn numbers(variants: &[VariantLedger<'_>]) -> FactTable {
    let ledgers: Vec<&Ledger> = variants.iter().map(|variant| variant.ledger).collect();
    let names = variants.iter().map(|variant| Column::number(&variant.name));
    let columns = std::iter::once(Column::text("part")).chain(names).collect();
    let mut table = FactTable::new("Parts of the memory", columns);
    for kind in PartKind::ALL {
        if ledgers.iter().any(|ledger| size(ledger, kind).is_some()) {
            table.rows.push(row(kind.label(), ledgers.iter().map(|ledger| size(ledger, kind))));
        }
    }
    let unexplained = ledgers.iter().map(|ledger| Some(ledger.unexplained as f64));
    table.rows.push(row("unexplained", unexplained));
    table.rows.push(row("total", ledgers.iter().map(|ledger| Some(ledger.pss.0 as f64))));
    table
}

fn row(name: &str, sizes: impl Iterator<Item = Option<f64>>) -> Vec<Cell> {
    let sizes = sizes.map(|size| Cell::amount(Unit::Bytes, size));
    std::iter::once(Cell::text(name)).chain(sizes).collect()
}
