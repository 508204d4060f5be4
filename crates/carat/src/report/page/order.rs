//! The primary metric in the order of blocks: shows drift of the machine, and when an estimate settled.

use crate::core::{Results, Unit};
use crate::report::chart::reduce::reduce;
use crate::report::chart::{Axis, Caption, Line, Plot, Stroke};
use crate::report::facts;
use crate::report::page::figures::class;
use crate::report::page::gallery::Gallery;
use crate::report::page::latency::panel;
use crate::report::text::one_line;
use maud::{Markup, html as markup};
use std::collections::BTreeMap;

/// Columns of a line; each keeps its least and greatest value.
const COLUMNS: usize = 150;

/// The section; nothing for fewer than three blocks.
pub(crate) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let values: Vec<BTreeMap<u32, f64>> = results
        .header
        .variants
        .iter()
        .map(|v| facts::scored(results, &v.name, &results.header.primary).into_iter().collect())
        .collect();
    if values.iter().map(BTreeMap::len).max().unwrap_or(0) < 3 {
        return markup! {};
    }
    let unit = facts::unit(&results.header.primary);
    let absolute = lines(results, &values, |value, _| Some(value));
    let relative = lines(results, &values, |value, base| base.map(|base| value / base - 1.0));
    let differences = relative.into_iter().skip(1).collect();
    let says = says(results, &values, unit);
    markup! {
        section #order {
            h2 { "Block by block" }
            figure {
                figcaption {
                    "Left: " code { (results.header.primary) } " of every trial in the order the blocks ran; lines that wander together are the \
                    machine's doing, and the comparison within blocks takes that out. Right: what is left, the difference to the \
                    baseline of the same block."
                }
                div.grid2 {
                    (panel("Values", &plot(absolute, unit), &Caption { id: "order-values", title: "Values by block", says: &says }, gallery))
                    (panel("Differences within the block", &plot(differences, Unit::Fraction), &Caption { id: "order-differences", title: "Differences by block", says: &says }, gallery))
                }
            }
            details { summary { "Numbers" } (table(results, &values, unit)) }
        }
    }
}

fn lines(
    results: &Results,
    values: &[BTreeMap<u32, f64>],
    show: impl Fn(f64, Option<f64>) -> Option<f64>,
) -> Vec<Line> {
    let baseline = values.first();
    results
        .header
        .variants
        .iter()
        .zip(values)
        .enumerate()
        .map(|(place, (variant, values))| Line {
            label: one_line(&variant.name),
            class: class(place),
            stroke: if values.len() > 150 { Stroke::Main } else { Stroke::Points },
            points: reduce(
                &values
                    .iter()
                    .filter_map(|(block, value)| {
                        let base = baseline.and_then(|values| values.get(block).copied());
                        Some((f64::from(*block), show(*value, base)?))
                    })
                    .collect::<Vec<_>>(),
                COLUMNS,
            ),
        })
        .collect()
}

fn plot(lines: Vec<Line>, unit: Unit) -> Plot {
    Plot {
        x: Axis::Linear(Unit::Count),
        x_name: "block".into(),
        y: Axis::Linear(unit),
        lines,
        bands: Vec::new(),
        markers: Vec::new(),
        x_range: None,
        y_range: None,
    }
}

fn says(results: &Results, values: &[BTreeMap<u32, f64>], unit: Unit) -> String {
    let parts: Vec<String> = results
        .header
        .variants
        .iter()
        .zip(values)
        .filter_map(|(variant, values)| {
            let (first, last) = (values.values().next()?, values.values().last()?);
            let (first, last) = (unit.show(*first), unit.show(*last));
            Some(format!("{}: {first} in the first block, {last} in the last", variant.name))
        })
        .collect();
    parts.join("; ")
}

/// Blocks are listed up to this many.
const LISTED: usize = 60;

fn table(results: &Results, values: &[BTreeMap<u32, f64>], unit: Unit) -> Markup {
    let blocks: std::collections::BTreeSet<u32> =
        values.iter().flat_map(|v| v.keys().copied()).collect();
    markup! {
        @if blocks.len() > LISTED {
            p.soft { "The first " (LISTED) " of " (blocks.len()) " blocks; the CSV has all." }
        }
        div.scroll tabindex="0" role="region" aria-label="Block by block" {
            table {
                thead { tr { th scope="col" { "block" } @for v in &results.header.variants { th scope="col" { (v.name) } } } }
                tbody {
                    @for block in blocks.iter().take(LISTED) {
                        tr {
                            th scope="row" { (block) }
                            @for values in values {
                                @match values.get(block) {
                                    Some(value) => td data-v=(value) { (unit.show(*value)) },
                                    None => td { "–" },
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
