//! The parts of each variant's memory at the end of its load.

use crate::chart::Caption;
use crate::chart::bars::bars;
use crate::facts;
use crate::page::elements::number_table;
use crate::page::gallery::Gallery;
use crate::page::ledger::{part_sizes, waterfall};
use crate::table::{Cell, FactTable};
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
        p.soft { "After the last request, of the trial with the median memory of its variant: a single one, so its parts differ from medians over all trials. The parts and the unexplained line add up to the kernel's figure (PSS); solid is memory that only one process maps. All pictures have the same scale." }
        div.grid2 {
            @for (at, variant) in ledgers.iter().take(PICTURES).enumerate() {
                div class={ "panel of v" (at) } { h3 { (variant.name) } (picture(at, variant, reach, gallery)) }
            }
        }
        (number_table(&numbers(&ledgers)))
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
    let title = format!("The parts of {}", variant.name);
    let caption = Caption::new(format!("parts-{at}"), title, part_sizes(variant.ledger));
    gallery.show(bars(&waterfall(variant.ledger), (0.0, reach.max(1.0)), None, caption))
}

fn size(ledger: &Ledger, kind: PartKind) -> Option<f64> {
    let part = ledger.parts.iter().find(|part| part.kind == kind)?;
    Some(part.pss.0 as f64)
}

fn numbers(variants: &[VariantLedger<'_>]) -> FactTable {
    let row = |name: &str, size: &dyn Fn(&Ledger) -> Option<f64>| {
        let sizes = variants.iter().map(|variant| Cell::amount(Unit::Bytes, size(variant.ledger)));
        Cell::row(name, sizes)
    };
    let is_known = |kind: &PartKind| variants.iter().any(|one| size(one.ledger, *kind).is_some());
    let parts = PartKind::ALL.into_iter().filter(is_known);
    let parts = parts.map(|kind| row(kind.label(), &|ledger| size(ledger, kind)));
    let rest = row("unexplained", &|ledger| Some(ledger.unexplained as f64));
    let total = row("total", &|ledger| Some(ledger.pss.0 as f64));
    FactTable::new("Parts of the memory")
        .texts(["part"])
        .numbers(variants.iter().map(|variant| &variant.name))
        .rows(parts.chain([rest, total]))
}
