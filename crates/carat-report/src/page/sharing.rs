//! The share of the tree's memory that its processes share, over time.

use crate::chart::reduce::{band, medians, reduce};
use crate::chart::{Axis, Caption, Plot, PlotLine, Stroke, variant_class};
use crate::facts;
use crate::memory_series::shared_bytes;
use crate::numbers::seconds;
use crate::page::elements::number_table;
use crate::page::gallery::Gallery;
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

/// The median shared part of a variant when its trials begin and end.
struct SharedPart {
    name: String,
    first: f64,
    last: f64,
}

/// Empty if every tree was a single process or its shared memory is unknown.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let mut lines = Vec::new();
    let mut parts = Vec::new();
    let thin = (THIN_LINES / results.info.variants.len().max(1)).max(1);
    for (place, variant) in results.info.variants.iter().enumerate() {
        let trials = shared_parts(results, &variant.name);
        let median = medians(&band(&trials, POINTS));
        let (Some(first), Some(last)) = (median.first(), median.last()) else { continue };
        let (name, class) = (one_line(&variant.name), variant_class(place));
        parts.push(SharedPart { name: name.clone(), first: first.1, last: last.1 });
        // The median of one trial is that trial.
        if trials.len() > 1 {
            let thin_lines = trials.iter().take(thin);
            lines.extend(thin_lines.map(|points| PlotLine::thin(class, reduce(points, COLUMNS))));
        }
        lines.push(PlotLine::new(name, class, Stroke::Main, median));
    }
    if parts.is_empty() {
        return markup! {};
    }
    let plot = Plot {
        x_name: "since the start".into(),
        lines,
        y_range: Some((0.0, 1.0)),
        ..Plot::new(Axis::Linear(Unit::Seconds), Axis::Linear(Unit::Fraction))
    };
    let description: Vec<String> = parts.iter().map(SharedPart::description).collect();
    let title = "Shared part of the memory over time";
    let caption = Caption::new("sharing", title, description.join("; "));
    let body = markup! {
        figure {
            figcaption { "The part of the tree's memory on pages that several of its processes map. It falls when a process writes to such a page and gets a copy of its own (copy-on-write)." }
            div.grid2 { (gallery.panel("Shared part", &plot, caption)) }
        }
        (number_table(&numbers(&parts)))
    };
    gallery.part("sharing-over-time", &markup! { "Memory shared between processes" }, &body)
}

impl SharedPart {
    fn description(&self) -> String {
        let [first, last] = [self.first, self.last].map(|share| Unit::Fraction.show(share));
        format!("{}: {first} at first, {last} at the end", self.name)
    }
}

/// The shared part over time of every trial in which several processes ran.
fn shared_parts(results: &Results, variant: &str) -> Vec<Vec<(f64, f64)>> {
    facts::counted_trials(results, variant)
        .map(|trial| trial.samples.iter().filter_map(shared_point).collect())
        .filter(|points: &Vec<(f64, f64)>| points.len() > 1)
        .collect()
}

fn shared_point(sample: &Sample) -> Option<(f64, f64)> {
    let (pss, shared) = (sample.pss?.0 as f64, shared_bytes(sample)?);
    // A tree of zero bytes was not read.
    (pss > 0.0).then(|| (seconds(sample.at_ms), shared / pss))
}

fn numbers(parts: &[SharedPart]) -> FactTable {
    let rows = parts.iter().map(|part| {
        let shares = [part.first, part.last].map(|share| Cell::amount(Unit::Fraction, share));
        Cell::row(&part.name, shares)
    });
    let table = FactTable::new("Shared part of the memory").texts(["variant"]);
    table.numbers(["at first", "at the end"]).rows(rows)
}
