//! The differences of variants to their controls: a panel per variant for the primary metric, and a table that has the
//! guards too.

use crate::chart::forest::{ForestAxis, ForestRow, forest, reach};
use crate::chart::{Caption, variant_class};
use crate::facts;
use crate::numbers;
use crate::page::elements::table;
use crate::page::forest::description;
use crate::page::gallery::Gallery;
use crate::table::{Cell, FactTable};
use crate::text::one_line;
use carat_model::{Results, Unit};
use maud::{Markup, html as markup};

/// Empty if no variant has a control.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    if results.controls.is_empty() {
        return markup! {};
    }
    let panels: Vec<(usize, &str, Vec<ForestRow>)> = results
        .info
        .variants
        .iter()
        .enumerate()
        .map(|(place, variant)| (place, variant.name.as_str(), rows(results, place)))
        .filter(|(_, _, rows)| !rows.is_empty())
        .collect();
    let (margin, all) = (results.info.margin, panels.iter().flat_map(|(_, _, rows)| rows));
    // All panels on one scale, with the margin in it.
    let (low, high) = reach(all);
    let axis = ForestAxis {
        reach: (low.min(-margin), high.max(margin)),
        reference: "control",
        margin: Some(margin),
    };
    let body = markup! {
        figure {
            figcaption {
                "A control has a part of the variant's remedy. A difference to it comes from what the variant does beyond it; \
                if the two are equivalent, that adds nothing that matters. A difference within the grey band ("
                (numbers::limit(margin)) ") does not matter."
            }
            div.grid2 { @for (place, name, rows) in &panels { (panel(*place, name, rows, axis, gallery)) } }
        }
        // Open if there is no picture: the numbers are then all there is.
        details open[panels.is_empty()] { summary { "Numbers" } (table(&numbers(results))) }
    };
    gallery.part(
        "controls",
        &markup! { "Against its control" code { (results.info.primary) } },
        &body,
    )
}

/// The controls of the variant at `place` in the primary metric.
fn rows(results: &Results, place: usize) -> Vec<ForestRow> {
    let variant = &results.info.variants[place].name;
    facts::against_controls(results, &results.info.primary)
        .filter(|compared| compared.conclusion.variant == *variant)
        .filter_map(|compared| {
            Some(ForestRow {
                label: one_line(&compared.control),
                metric: results.info.primary.clone(),
                class: variant_class(place),
                estimate: compared.conclusion.estimate.filter(|found| !found.in_own_unit)?,
            })
        })
        .collect()
}

fn panel(
    place: usize,
    name: &str,
    rows: &[ForestRow],
    axis: ForestAxis,
    gallery: &mut Gallery,
) -> Markup {
    let title = format!("{name} against its controls");
    let caption = Caption::new(format!("controls-{place}"), title, description(rows));
    markup! {
        @if let Some(picture) = forest(rows, axis, caption) {
            div class={ "panel of v" (variant_class(place)) } { h3 { (name) " against" } (gallery.show(picture)) }
        }
    }
}

fn numbers(results: &Results) -> FactTable {
    let metrics = facts::metrics(results);
    let all = metrics.iter().flat_map(|metric| facts::against_controls(results, metric));
    let rows = all.map(|compared| {
        let conclusion = &compared.conclusion;
        let (metric, estimate) = (conclusion.metric.as_str(), conclusion.estimate);
        let unit = facts::unit(metric);
        vec![
            Cell::text(&conclusion.variant),
            Cell::text(&compared.control),
            Cell::text(metric),
            Cell::count(conclusion.blocks),
            Cell::shown(estimate.map(|found| found.difference), |size| numbers::signed(unit, size)),
            Cell::estimate(metric, estimate.as_ref()),
            Cell::amount(Unit::Fraction, estimate.map(|found| found.confidence)),
            Cell::verdict_of(results, conclusion),
        ]
    });
    FactTable::new("Differences to the controls")
        .texts(["variant", "control", "metric"])
        .numbers(["blocks", "difference", "interval", "confidence"])
        .texts(["verdict"])
        .rows(rows)
}
