//! The share of the tree's memory that its processes share, over time.

use crate::chart::{Caption, Plot, PlotLine, Stroke, band, medians, reduce, variant_class};
use crate::facts;
use crate::memory_series::shared_bytes;
use crate::numbers::seconds;
use crate::page::{Gallery, number_table};
use crate::table::{Cell, FactTable};
use crate::text::one_line;
use carat_model::{Results, Sample, Unit};
use maud::{Markup, html as markup};

/// Thin lines in the picture at most.
const THIN_LINES: usize = 24;
/// Columns of a thin line; each keeps its minimum and maximum.
const COLUMNS: usize = 80;
/// Points of a median line.
const POINTS: usize = 120;

/// Empty if every tree was a single process or its shared memory is unknown.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let mut lines = Vec::new();
    // The median shared part of every variant when its trials begin and end.
    let mut ends: Vec<(String, [f64; 2])> = Vec::new();
    let thin = (THIN_LINES / results.info.variants.len().max(1)).max(1);
    for (place, variant) in results.info.variants.iter().enumerate() {
        let trials = facts::counted_trials(results, &variant.name)
            .map(|trial| trial.samples.iter().filter_map(shared_part).collect());
        // One sample of a trial is no line.
        let trials: Vec<Vec<(f64, f64)>> = trials.filter(|one: &Vec<_>| one.len() > 1).collect();
        let median = medians(&band(&trials, POINTS));
        let (Some(first), Some(last)) = (median.first(), median.last()) else { continue };
        let (name, class) = (one_line(&variant.name), variant_class(place));
        ends.push((name.clone(), [first.1, last.1]));
        // The median of one trial is that trial.
        if trials.len() > 1 {
            let thin_lines = trials.iter().take(thin);
            lines.extend(thin_lines.map(|points| PlotLine::thin(class, reduce(points, COLUMNS))));
        }
        lines.push(PlotLine::new(name, class, Stroke::Main, median));
    }
    if ends.is_empty() {
        return markup! {};
    }
    let plot = Plot { y_range: Some((0.0, 1.0)), ..Plot::over_time(Unit::Fraction, lines) };
    let description = ends.iter().map(|(name, ends)| {
        let [first, last] = ends.map(|share| Unit::Fraction.show(share));
        format!("{name}: {first} at first, {last} at the end")
    });
    let description = description.collect::<Vec<_>>().join("; ");
    let caption = Caption::new("sharing", "Shared part of the memory over time", description);
    let rows = ends
        .iter()
        .map(|(name, ends)| Cell::row(name, ends.map(|share| Cell::amount(Unit::Fraction, share))));
    let numbers = FactTable::new("Shared part of the memory").texts(["variant"]);
    let numbers = numbers.numbers(["at first", "at the end"]).rows(rows);
    let body = markup! {
        figure {
            figcaption { "The part of the tree's memory on pages that several of its processes map. It falls when a process writes to such a page and gets a copy of its own (copy-on-write)." }
            div.grid2 { (gallery.panel("Shared part", plot.draw(caption))) }
        }
        (number_table(&numbers))
    };
    gallery.part("sharing-over-time", &markup! { "Memory shared between processes" }, &body)
}

/// The time of a sample and the shared part of its memory; `None` where a single process ran.
fn shared_part(sample: &Sample) -> Option<(f64, f64)> {
    let (pss, shared) = (sample.pss?.0 as f64, shared_bytes(sample)?);
    // A tree of zero bytes was not read.
    (pss > 0.0).then(|| (seconds(sample.at_ms), shared / pss))
}
