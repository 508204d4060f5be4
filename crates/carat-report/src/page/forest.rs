//! The differences of every compared metric: a panel per variant, all on one scale.

use crate::chart::forest::{ForestAxis, ForestRow, forest, reach};
use crate::chart::{Caption, variant_class};
use crate::facts;
use crate::numbers;
use crate::page::gallery::Gallery;
use carat_model::Results;
use maud::{Markup, html as markup};

/// The compared metrics of one variant.
struct ForestPanel<'a> {
    variant: &'a str,
    class: usize,
    rows: Vec<ForestRow>,
}

/// Empty if fewer than two metrics were compared.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let metrics = facts::metrics(results);
    let variants = results.info.variants.iter().enumerate().skip(1);
    let panels: Vec<ForestPanel<'_>> = variants
        .map(|(place, variant)| {
            let class = variant_class(place);
            let rows = metrics.iter().filter_map(|m| row(results, &variant.name, m, class));
            ForestPanel { variant: &variant.name, class, rows: rows.collect() }
        })
        .collect();
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
            div.grid2 { @for (at, panel) in panels.iter().enumerate() { (panel.draw(at, axis, gallery)) } }
        }
    };
    gallery.part("every-difference", &markup! { "Every difference" }, &body)
}

fn row(results: &Results, variant: &str, metric: &str, class: usize) -> Option<ForestRow> {
    let found = facts::conclusion(results, variant, metric)?.estimate;
    // The axis is of percentages.
    let estimate = found.filter(|found| !found.in_own_unit)?;
    Some(ForestRow { label: metric.to_owned(), metric: metric.to_owned(), class, estimate })
}

/// Every row with its estimate, on one line.
pub(super) fn description(rows: &[ForestRow]) -> String {
    let rows =
        rows.iter().map(|r| format!("{}: {}", r.label, numbers::estimate(&r.metric, &r.estimate)));
    rows.collect::<Vec<_>>().join("; ")
}

impl ForestPanel<'_> {
    fn draw(&self, at: usize, axis: ForestAxis, gallery: &mut Gallery) -> Markup {
        let title = format!("Every difference of {}", self.variant);
        let caption = Caption::new(format!("forest-{at}"), title, description(&self.rows));
        markup! {
            @if let Some(picture) = forest(&self.rows, axis, caption) {
                div class={ "panel of v" (self.class) } { h3 { (self.variant) } (gallery.show(picture)) }
            }
        }
    }
}
