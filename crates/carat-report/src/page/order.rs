//! The primary metric in the order of blocks: shows drift of the machine and what remains of it within blocks.

use crate::chart::{Axis, Caption, Plot, PlotLine, Stroke, reduce, variant_class};
use crate::facts;
use crate::numbers::block_difference;
use crate::page::{Gallery, table};
use crate::table::{Cell, FactTable};
use crate::text::one_line;
use carat_model::{Results, Unit};
use maud::{Markup, html as markup};
use std::collections::{BTreeMap, BTreeSet};

/// Columns of a line; each keeps its minimum and maximum.
const COLUMNS: usize = 150;
/// A line of at most this many blocks has a dot at every point.
const DOTTED_BLOCKS: usize = 150;
/// Blocks in the table.
const LISTED: usize = 60;

/// The values of one variant by block.
type BlockValues = BTreeMap<u32, f64>;

/// Empty for fewer than three blocks.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let primary = &results.info.primary;
    let variants = results.info.variants.iter();
    let values: Vec<BlockValues> = variants
        .map(|variant| facts::scored(results, &variant.name, primary).into_iter().collect())
        .collect();
    // Two blocks show no movement.
    if values.iter().map(BTreeMap::len).max().unwrap_or(0) < 3 {
        return markup! {};
    }
    let unit = facts::unit(primary);
    let sizes = description(results, &values, |value| unit.show(value));
    let absolute = plot(lines(results, &values), unit);
    let mut relative: Vec<BlockValues> =
        values.iter().map(|one| differences(one, &values[0])).collect();
    // Without the baseline, whose differences to itself are all zero.
    relative[0].clear();
    let in_own_unit = has_zero(&values[0]);
    let show = |size| block_difference(primary, size, in_own_unit);
    let changes = description(results, &relative, show);
    let relative = lines(results, &relative).into_iter().skip(1).collect();
    let relative = plot(relative, if in_own_unit { unit } else { Unit::Fraction });
    let values_caption = Caption::new("order-values", "Values by block", sizes);
    let caption = Caption::new("order-differences", "Differences by block", changes);
    let body = markup! {
        figure {
            figcaption {
                "Left: " code { (primary) } " of every trial in the order of the blocks. Movements that all lines share come from the \
                machine; the comparison within blocks removes them. Right: what remains, the difference to the baseline of the same block."
            }
            div.grid2 {
                (gallery.panel("Values", absolute.draw(values_caption)))
                (gallery.panel("Differences within the block", relative.draw(caption)))
            }
        }
        details { summary { "Numbers" } (numbers(results, &values, unit)) }
    };
    gallery.part("order", &markup! { "Block by block" }, &body)
}

/// Differences to the baseline in the blocks that both have: relative ones, or in the unit of the metric where the baseline has zeros.
fn differences(values: &BlockValues, baseline: &BlockValues) -> BlockValues {
    let in_own_unit = has_zero(baseline);
    let differences = values.iter().filter_map(|(block, value)| {
        let base = baseline.get(block)?;
        Some((*block, if in_own_unit { value - base } else { value / base - 1.0 }))
    });
    differences.collect()
}

/// Whether differences to these values have no percentage.
fn has_zero(baseline: &BlockValues) -> bool {
    baseline.values().any(|value| *value == 0.0)
}

fn lines(results: &Results, values: &[BlockValues]) -> Vec<PlotLine> {
    let variants = results.info.variants.iter().zip(values).enumerate();
    variants
        .map(|(place, (variant, values))| {
            let stroke = if values.len() > DOTTED_BLOCKS { Stroke::Main } else { Stroke::Points };
            let points = values.iter().map(|(block, value)| (f64::from(*block), *value));
            let points = reduce(&points.collect::<Vec<_>>(), COLUMNS);
            PlotLine::new(one_line(&variant.name), variant_class(place), stroke, points)
        })
        .collect()
}

fn plot(lines: Vec<PlotLine>, unit: Unit) -> Plot {
    Plot::new(Axis::Linear(Unit::Count), "block", Axis::Linear(unit), lines)
}

/// The first and the last value of every variant that has any.
fn description(results: &Results, values: &[BlockValues], show: impl Fn(f64) -> String) -> String {
    let mut parts = Vec::new();
    for (variant, values) in results.info.variants.iter().zip(values) {
        if let (Some(first), Some(last)) = (values.values().next(), values.values().last()) {
            let (first, last) = (show(*first), show(*last));
            parts.push(format!("{}: {first} in the first block, {last} in the last", variant.name));
        }
    }
    parts.join("; ")
}

fn numbers(results: &Results, values: &[BlockValues], unit: Unit) -> Markup {
    let blocks: BTreeSet<u32> = values.iter().flat_map(|v| v.keys().copied()).collect();
    let rows = blocks.iter().take(LISTED).map(|block| {
        let values = values.iter().map(|values| Cell::amount(unit, values.get(block).copied()));
        Cell::row(block.to_string(), values)
    });
    let names = results.info.variants.iter().map(|variant| &variant.name);
    let all = FactTable::new("Block by block").texts(["block"]).numbers(names).rows(rows);
    markup! {
        @if blocks.len() > LISTED {
            p.soft { "The first " (LISTED) " of " (blocks.len()) " blocks; the CSV has all." }
        }
        (table(&all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::metric;

    #[test]
    fn the_picture_of_differences_is_described_by_differences() {
        let trials = (1..=3).flat_map(|block| {
            [("a", 100e6), ("b", 90e6)].map(|(variant, bytes)| {
                let mut trial = crate::testing::trial(block, variant);
                trial.metrics.insert(metric::MEMORY_PSS_FINAL.id.into(), bytes);
                trial
            })
        });
        let results = crate::testing::results(&["a", "b"], trials.collect());
        let page = section(&results, &mut Gallery::default()).into_string();
        assert!(page.contains("a: 100.0 MB in the first block"), "{page}");
        assert!(page.contains(">b: −10.0 % in the first block, −10.0 % in the last<"), "{page}");
    }

    #[test]
    fn a_difference_is_relative_to_the_baseline_of_the_same_block() {
        let baseline = BlockValues::from([(1, 100.0), (2, 200.0), (4, 100.0)]);
        let values = BlockValues::from([(1, 110.0), (2, 150.0), (3, 100.0)]);
        let found = differences(&values, &baseline);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [1, 2]);
        assert!((found[&1] - 0.1).abs() < 1e-12 && (found[&2] + 0.25).abs() < 1e-12, "{found:?}");
    }
}
