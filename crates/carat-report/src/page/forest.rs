//! Differences as forest plots, a panel per variant: to the baseline in every compared metric, and to the controls.

use crate::chart::forest::{ForestAxis, ForestRow, forest, reach};
use crate::chart::variant_class;
use crate::facts;
use crate::numbers;
use crate::page::{Gallery, table};
use crate::table::{Cell, FactTable};
use crate::text::one_line;
use carat_model::{Conclusion, Results, Unit};
use maud::{Markup, html as markup};

/// The differences of one variant.
struct ForestPanel<'a> {
    place: usize,
    class: usize,
    variant: &'a str,
    rows: Vec<ForestRow>,
}

/// The panels of the variants that have differences, from what is compared of each and the label of its row.
fn panels<'a>(
    results: &'a Results,
    compared: impl Fn(&str) -> Vec<(String, &'a Conclusion)>,
) -> Vec<ForestPanel<'a>> {
    let panels = results.info.variants.iter().enumerate().map(|(place, variant)| {
        let (compared, class) = (compared(&variant.name).into_iter(), variant_class(place));
        let rows = compared.filter_map(|(label, one)| ForestRow::new(label, class, one));
        ForestPanel { place, class, variant: &variant.name, rows: rows.collect() }
    });
    panels.filter(|panel| !panel.rows.is_empty()).collect()
}

/// Empty if fewer than two metrics were compared.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let metrics = facts::metrics(results);
    let panels = panels(results, |variant| {
        let found = metrics.iter().filter_map(|metric| facts::conclusion(results, variant, metric));
        found.map(|one| (one.metric.clone(), one)).collect()
    });
    // A single row is what the section of its metric shows.
    if panels.iter().all(|panel| panel.rows.len() < 2) {
        return markup! {};
    }
    let reach = reach(panels.iter().flat_map(|panel| &panel.rows));
    let axis = ForestAxis { reach, reference: "baseline", margin: None };
    let body = markup! {
        figure {
            figcaption {
                "All compared metrics, the variants on one scale. Only the primary metric and the guards decide; with many \
                metrics, some intervals exclude zero by chance."
            }
            div.grid2 { @for panel in &panels {
                // Numbered without the baseline, which is compared with nothing.
                @let id = format!("forest-{}", panel.place.saturating_sub(1));
                @let title = format!("Every difference of {}", panel.variant);
                (gallery.variant_panel(panel.class, panel.variant, forest(&panel.rows, axis, id, title)))
            } }
        }
    };
    gallery.part("every-difference", &markup! { "Every difference" }, &body)
}

/// The differences to the controls in the primary metric, and a table that has the guards too; empty if no variant has a
/// control.
pub(super) fn control_section(results: &Results, gallery: &mut Gallery) -> Markup {
    if results.controls.is_empty() {
        return markup! {};
    }
    let panels = panels(results, |variant| {
        let compared = facts::against_controls(results, &results.info.primary);
        let compared = compared.filter(|one| one.conclusion.variant == variant);
        compared.map(|one| (one_line(&one.control), &one.conclusion)).collect()
    });
    let margin = results.info.margin;
    // All panels on one scale, with the margin in it.
    let (low, high) = reach(panels.iter().flat_map(|panel| &panel.rows));
    let reach = (low.min(-margin), high.max(margin));
    let axis = ForestAxis { reach, reference: "control", margin: Some(margin) };
    let body = markup! {
        figure {
            figcaption {
                "A control has a part of the variant's remedy. A difference to it comes from what the variant does beyond it; \
                if the two are equivalent, that adds nothing that matters. A difference within the grey band ("
                (numbers::limit(margin)) ") does not matter."
            }
            div.grid2 { @for panel in &panels {
                @let id = format!("controls-{}", panel.place);
                @let title = format!("{} against its controls", panel.variant);
                @let heading = format!("{} against", panel.variant);
                (gallery.variant_panel(panel.class, &heading, forest(&panel.rows, axis, id, title)))
            } }
        }
        // Open if there is no picture: the numbers are then all there is.
        details open[panels.is_empty()] { summary { "Numbers" } (table(&control_numbers(results))) }
    };
    let title = markup! { "Against its control" code { (results.info.primary) } };
    gallery.part("controls", &title, &body)
}

fn control_numbers(results: &Results) -> FactTable {
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
