//! The differences of every compared metric, a panel per variant on one scale.

use crate::core::Results;
use crate::report::chart::Caption;
use crate::report::chart::forest::{ForestRow, forest, reach};
use crate::report::facts;
use crate::report::numbers;
use crate::report::page::figures::class;
use crate::report::page::gallery::Gallery;
use maud::{Markup, html as markup};

/// The section; nothing where fewer than two metrics were compared.
pub(crate) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let metrics = facts::metrics(results);
    let panels: Vec<(String, Vec<ForestRow>)> = results
        .header
        .variants
        .iter()
        .enumerate()
        .skip(1)
        .map(|(place, variant)| {
            let rows = metrics.iter().filter_map(|metric| {
                let estimate = facts::conclusion(results, &variant.name, metric)?.estimate?;
                Some(ForestRow {
                    label: metric.clone(),
                    metric: metric.clone(),
                    class: class(place),
                    estimate,
                })
            });
            (variant.name.clone(), rows.collect())
        })
        .collect();
    if panels.iter().all(|(_, rows)| rows.len() < 2) {
        return markup! {};
    }
    let reach = reach(panels.iter().flat_map(|(_, rows)| rows));
    markup! {
        section #every-difference {
            h2 { "Every difference" }
            figure {
                figcaption {
                    "All compared metrics, the variants on one scale. Only the primary metric and the guards decide; with many \
                    metrics, some intervals miss zero by chance."
                }
                div.grid2 {
                    @for (place, (name, rows)) in panels.iter().enumerate() {
                        (panel(name, rows, (place, reach), gallery))
                    }
                }
            }
        }
    }
}

fn panel(
    name: &str,
    rows: &[ForestRow],
    (place, reach): (usize, (f64, f64)),
    gallery: &mut Gallery,
) -> Markup {
    let says: Vec<String> = rows
        .iter()
        .map(|r| format!("{}: {}", r.label, numbers::estimate(&r.metric, &r.estimate)))
        .collect();
    let title = format!("Every difference of {name}");
    let says = says.join("; ");
    let id = format!("forest-{place}");
    let picture = forest(rows, reach, &Caption { id: &id, title: &title, says: &says });
    markup! {
        @if let Some(picture) = picture {
            div class={ "panel of v" (class(place + 1)) } { h3 { (name) } (gallery.show(picture)) }
        }
    }
}
