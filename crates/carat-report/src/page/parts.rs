//! The parts of each variant's memory at the end of its load.

use crate::chart::{Caption, bars};
use crate::facts;
use crate::page::ledger::{part_sizes, waterfall};
use crate::page::{Gallery, number_table};
use crate::table::{Cell, FactTable};
use crate::text::one_line;
use carat_model::ledger::{Ledger, PartKind};
use carat_model::{Results, Unit};
use maud::{Markup, html as markup};

/// Variants that get a picture; the table has them all.
const PICTURES: usize = 6;

/// Empty if no trial has a ledger.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    // The median ledger of every variant that has one.
    let names = results.info.variants.iter().map(|variant| &variant.name);
    let ledgers = names.filter_map(|name| Some((one_line(name), median_ledger(results, name)?)));
    let ledgers: Vec<(String, &Ledger)> = ledgers.collect();
    if ledgers.is_empty() {
        return markup! {};
    }
    // One scale for all pictures, so that variants can be compared by eye.
    let reach = ledgers.iter().map(|(_, ledger)| ledger.pss.0 as f64).fold(0.0, f64::max);
    let body = markup! {
        p.soft { "After the last request, of the trial with the median memory of its variant: a single one, so its parts differ from medians over all trials. The parts and the unexplained line add up to the kernel's figure (PSS); solid is memory that only one process maps. All pictures have the same scale." }
        div.grid2 {
            @for (at, (name, ledger)) in ledgers.iter().take(PICTURES).enumerate() {
                @let title = format!("The parts of {name}");
                @let caption = Caption::new(format!("parts-{at}"), title, part_sizes(ledger));
                @let picture = bars(&waterfall(ledger), (0.0, reach.max(1.0)), None, caption);
                (gallery.variant_panel(at, name, picture))
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

fn numbers(ledgers: &[(String, &Ledger)]) -> FactTable {
    let row = |name: &str, size: &dyn Fn(&Ledger) -> Option<f64>| {
        let sizes = ledgers.iter().map(|(_, ledger)| Cell::amount(Unit::Bytes, size(ledger)));
        Cell::row(name, sizes)
    };
    let is_known = |kind: &PartKind| ledgers.iter().any(|(_, one)| one.part(*kind).is_some());
    let parts = PartKind::ALL.into_iter().filter(is_known);
    let parts =
        parts.map(|kind| row(kind.label(), &|ledger| Some(ledger.part(kind)?.pss.0 as f64)));
    let rest = row("unexplained", &|ledger| Some(ledger.unexplained as f64));
    let total = row("total", &|ledger| Some(ledger.pss.0 as f64));
    FactTable::new("Parts of the memory")
        .texts(["part"])
        .numbers(ledgers.iter().map(|(name, _)| name))
        .rows(parts.chain([rest, total]))
}
