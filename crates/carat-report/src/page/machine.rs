//! The machine, and how to repeat the experiment.

use crate::machine::machine_facts;
use crate::machine_text::machines_sentence;
use crate::numbers;
use crate::page::{Gallery, scrollable, table};
use crate::table::{Cell, FactTable};
use crate::text::shorten;
use carat_model::{MachineComparison, Results};
use maud::{Markup, html as markup};

/// The facts about the machine.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let machine = machine_facts(results);
    if machine.is_empty() {
        return markup! {};
    }
    let table = markup! {
        table {
            tbody { @for (key, fact) in &machine { tr { th scope="row" { (key) } td.w { (fact) } } } }
        }
    };
    let body = markup! {
        @if let Some(machines) = machines_sentence(results) { p { (machines) } }
        @if !results.machines.is_empty() { (by_type(&results.machines)) }
        (scrollable("Machine", &table))
    };
    gallery.part("machine", &markup! { "Machine" }, &body)
}

/// The difference of every variant on each type of machine.
fn by_type(machines: &[MachineComparison]) -> Markup {
    let rows = machines.iter().flat_map(|one| {
        one.types.iter().map(|of| {
            let estimate = of.estimate.as_ref().map(|found| numbers::estimate(&one.metric, found));
            let estimate = estimate.unwrap_or_else(|| "too few blocks".to_owned());
            let cells =
                [Cell::text(&of.machine_type), Cell::count(of.blocks), Cell::text(estimate)];
            Cell::row(&one.variant, cells)
        })
    });
    let shown = FactTable::new("Difference by type of machine").name("variant");
    let shown = shown.numbers(["machine", "blocks"]).long_texts(["difference"]).rows(rows);
    markup! {
        (table(&shown))
        @for one in machines {
            p {
                (one.variant) ": "
                @if one.differs { "the difference depends on the machine" }
                @else { "it is not proven that the difference depends on the machine" }
                @if let Some(p) = one.p { " (permutation test, p = " (format!("{p:.4}")) ")" }
                "."
            }
        }
    }
}

/// Variants with their settings, the command, and the experiment file.
pub(super) fn repeat_section(results: &Results, gallery: &mut Gallery) -> Markup {
    let table = markup! {
        table {
            thead { tr { th scope="col" { "variant" } th.w scope="col" { "settings" } } }
            tbody {
                @for variant in &results.info.variants { tr {
                    th scope="row" { (variant.name) }
                    td.w {
                        @if variant.settings.is_empty() { "none" }
                        @for (at, (name, value)) in variant.settings.iter().enumerate() {
                            @if at > 0 { ", " } code { (name) " = " (value) }
                        }
                    }
                } }
            }
        }
    };
    let body = markup! {
        (scrollable("Variants and settings", &table))
        p { "Save the experiment below as " code { "experiment.toml" } " and run:" }
        pre { "carat compare experiment.toml --seed " (results.info.seed) }
        details {
            summary { "The experiment file (plan " (shorten(&results.info.plan_hash, 13)) ")" }
            pre tabindex="0" { (results.info.plan_text) }
        }
    };
    gallery.part("repeat", &markup! { "How to repeat it" }, &body)
}
