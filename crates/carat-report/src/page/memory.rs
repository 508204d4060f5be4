//! Memory over time: the medians of all variants together, then every variant with its trials.

use crate::chart::scale::range;
use crate::chart::{BandPoint, Caption, Plot, PlotLine, Stroke, medians, reduce, variant_class};
use crate::facts;
use crate::memory_series::{
    MemorySeries, any_sample, is_resident, memory, memory_band, memory_series,
};
use crate::numbers::seconds;
use crate::page::{Gallery, number_table};
use crate::table::{Cell, FactTable};
use crate::text::one_line;
use carat_model::{Results, Unit};
use carat_stats::summary::median;
use maud::{Markup, html as markup};

/// Thin lines in all pictures together, to keep the page small.
const THIN_LINES: usize = 60;
/// Points of a median line.
const POINTS: usize = 160;
/// Columns of a thin line; each keeps its minimum and maximum.
const COLUMNS: usize = 110;
/// Rows of the table.
const ROWS: u32 = 10;

struct VariantMemory {
    name: String,
    /// Among all variants, the baseline at 0.
    place: usize,
    trials: Vec<MemorySeries>,
    band: Vec<BandPoint>,
    /// The median private memory; empty if it says nothing new.
    private: MemorySeries,
}

/// Empty if no trial has samples.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let resident = is_resident(results);
    let variants = results.info.variants.iter().enumerate();
    let drawn: Vec<VariantMemory> = variants
        .map(|(place, variant)| VariantMemory::new(results, &variant.name, place, resident))
        .collect();
    let points = || drawn.iter().flat_map(|variant| variant.trials.iter().flatten());
    let (x_range, y_range) =
        (range(points().map(|point| point.0), 0.0), range(points().map(|point| point.1), 0.03));
    if x_range.is_none() || y_range.is_none() {
        return markup! {};
    }
    let markers = markers(results);
    // The same axes in all pictures.
    let plot = |lines| Plot {
        markers: markers.clone(),
        x_range,
        y_range,
        ..Plot::over_time(Unit::Bytes, lines)
    };
    // At least three of each variant, or one trial would stand for all.
    let thin = (THIN_LINES / drawn.len().max(1)).max(3);
    let what = if resident { "Resident memory" } else { "Proportional memory of the tree" };
    let lines = drawn.iter().map(|variant| variant.median(Stroke::Main)).collect();
    let description: Vec<String> = drawn.iter().map(VariantMemory::description).collect();
    let title = "Median memory over time of all variants";
    let caption = Caption::new("memory-all", title, description.join("; "));
    let all = plot(lines).draw(caption).filter(|_| drawn.len() > 1);
    let most = drawn.iter().map(|variant| variant.trials.len()).max().unwrap_or(0);
    let body = markup! {
        figure {
            figcaption {
                "A thin line is one trial"
                @if most > thin { " (at most " (thin) " of " (most) " are drawn, evenly picked)" }
                "; the thick line is the median over all trials, the band their middle half. Its last point is of the last samples of all trials, at the median of their times. All pictures have the same axes."
            }
            div.grid2 {
                (gallery.panel("Medians of all variants", all))
                @for variant in &drawn { (variant.panel(plot(variant.lines(&drawn[0], thin)), gallery)) }
            }
        }
        (number_table(&numbers(&drawn)))
    };
    gallery.part("memory-over-time", &markup! { (what) " over time" }, &body)
}

/// Median start and end of the load.
fn markers(results: &Results) -> Vec<(f64, String)> {
    let counted = results.trials.iter().filter(|trial| facts::counts(trial));
    let (begins, ends): (Vec<f64>, Vec<f64>) = counted
        .filter_map(|trial| trial.load_window_ms)
        .map(|(begin, end)| (seconds(begin), seconds(end)))
        .unzip();
    let what = if facts::is_run(results) { "run" } else { "load" };
    [(median(&begins), "begins"), (median(&ends), "ends")]
        .into_iter()
        .filter_map(|(at, name)| Some((at?, format!("{what} {name}"))))
        .collect()
}

impl VariantMemory {
    fn new(results: &Results, name: &str, place: usize, resident: bool) -> Self {
        let trials = memory_series(results, name, memory(resident));
        // The private memory of a single process says little beside its whole memory.
        let private = if !resident && any_sample(results, |sample| sample.processes > 1) {
            memory_band(results, name, |sample| sample.uss, POINTS)
        } else {
            Vec::new()
        };
        Self {
            name: one_line(name),
            place,
            band: memory_band(results, name, memory(resident), POINTS),
            private: medians(&private),
            trials,
        }
    }

    /// That of its colour, which variants share where they are more than colours.
    fn class(&self) -> usize {
        variant_class(self.place)
    }

    fn median(&self, stroke: Stroke) -> PlotLine {
        PlotLine::new(&self.name, self.class(), stroke, medians(&self.band))
    }

    fn panel(&self, plot: Plot, gallery: &mut Gallery) -> Markup {
        let title = format!("Memory over time of {}", self.name);
        let caption = Caption::new(format!("memory-{}", self.place), title, self.description());
        let bands = vec![(self.class(), self.band.clone())];
        match (Plot { bands, ..plot }).draw(caption) {
            Some(picture) => gallery.variant_panel(self.class(), &self.name, picture),
            None => markup! {
                div class={ "panel of v" (self.class()) } { h3 { (self.name) } p.soft { "No samples." } }
            },
        }
    }

    /// The trials, the baseline's median, the private memory, and the median on top.
    fn lines(&self, baseline: &Self, thin: usize) -> Vec<PlotLine> {
        // Evenly picked over the experiment: the first trials may differ from the last.
        let every = self.trials.len().div_ceil(thin).max(1);
        let trials = self.trials.iter().step_by(every);
        let mut lines: Vec<PlotLine> =
            trials.map(|points| PlotLine::thin(self.class(), reduce(points, COLUMNS))).collect();
        // The baseline's own picture has its median already.
        if baseline.place != self.place {
            lines.push(baseline.median(Stroke::Reference));
        }
        if !self.private.is_empty() {
            let private = self.private.clone();
            lines.push(PlotLine::new("private", self.class(), Stroke::Reference, private));
        }
        // Last, so that it lies on top.
        lines.push(self.median(Stroke::Main));
        lines
    }

    fn description(&self) -> String {
        let (Some(first), Some(last)) = (self.band.first(), self.band.last()) else {
            return format!("{}: no samples", self.name);
        };
        let peak = self.band.iter().map(|point| point.median).fold(0.0, f64::max);
        let [first_bytes, last_bytes, peak] =
            [first.median, last.median, peak].map(|bytes| Unit::Bytes.show(bytes));
        format!(
            "{}: from {first_bytes} to {last_bytes} after {:.0} s, highest median {peak}",
            self.name, last.x
        )
    }

    /// The median nearest to a time; `None` if the nearest is further away than `distance`.
    fn at(&self, x: f64, distance: f64) -> Option<f64> {
        let nearest = self
            .band
            .iter()
            .min_by(|one, other| (one.x - x).abs().total_cmp(&(other.x - x).abs()))?;
        // Farther away it would be the value of another time.
        ((nearest.x - x).abs() <= distance).then_some(nearest.median)
    }
}

/// The medians at evenly spaced times.
fn numbers(variants: &[VariantMemory]) -> FactTable {
    let last = variants.iter().filter_map(|v| v.band.last()).map(|p| p.x).fold(0.0, f64::max);
    let step = last / f64::from(ROWS);
    let rows = (0..=ROWS).map(|row| step * f64::from(row)).map(|x| {
        let medians = variants.iter().map(|one| Cell::amount(Unit::Bytes, one.at(x, step / 2.0)));
        Cell::row(format!("{x:.1} s"), medians)
    });
    FactTable::new("Memory over time")
        .texts(["after"])
        .numbers(variants.iter().map(|variant| &variant.name))
        .rows(rows)
}
