//! Shared memory by the number of requests or broadcasts answered: how quickly copy-on-write sharing is lost.

use crate::chart::{Axis, Caption, Plot, PlotLine, Stroke, band, medians, variant_class};
use crate::facts;
use crate::memory_series::shared_bytes;
use crate::moments::unit_of_load;
use crate::page::moments::after_load;
use crate::page::{Gallery, table};
use crate::table::{Cell, FactTable};
use crate::text::one_line;
use carat_model::{LoadReport, Results, Sample, Unit};
use carat_stats::summary::median;
use maud::{Markup, html as markup};

/// Numbers of requests in the table.
const MARKS: [f64; 5] = [50.0, 500.0, 5e3, 5e4, 5e5];
/// The factor by which a sample may miss a mark: the load goes on while a sample is taken.
const TOLERANCE: f64 = 1.5;
/// Points of a variant's line.
const POINTS: usize = 60;

/// One trial: requests or broadcasts answered, and bytes shared.
type SharedSeries = Vec<(f64, f64)>;

/// The trials of one variant.
pub(crate) struct VariantSharing {
    name: String,
    class: usize,
    /// Bytes shared by each trial before its first request.
    before: Vec<f64>,
    trials: Vec<SharedSeries>,
}

/// Empty unless trees of several processes were sampled while requests were counted.
pub(crate) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let variants = results.info.variants.iter().enumerate();
    let variants: Vec<VariantSharing> = variants
        .map(|(place, variant)| VariantSharing::new(results, &variant.name, variant_class(place)))
        .filter(|variant| !variant.trials.is_empty())
        .collect();
    if variants.is_empty() {
        return markup! {};
    }
    let unit = unit_of_load(results);
    let points = variants.iter().flat_map(|variant| variant.trials.iter().flatten());
    let highest = points.map(|(_, bytes)| *bytes).fold(1.0, f64::max);
    let (x, name) = (Axis::Logarithmic(Unit::Count), format!("{unit} answered"));
    let lines = variants.iter().map(VariantSharing::line).collect();
    let plot = Plot::new(x, &name, Axis::Linear(Unit::Bytes), lines);
    let plot = Plot { y_range: Some((0.0, highest * 1.06)), ..plot };
    let title = format!("Shared memory by {unit} answered");
    let description: Vec<String> = variants.iter().map(VariantSharing::description).collect();
    let caption = Caption::new("erosion", title, description.join("; "));
    let body = markup! {
        figure {
            figcaption { "Bytes that are still shared after that many " (unit) ", all processes together; medians over the trials." }
            div.grid2 { (gallery.panel("Shared memory", plot.draw(caption))) }
        }
        details open { summary { "Numbers" } (table(&numbers(&variants, unit))) }
    };
    gallery.part("shared-by-requests", &markup! { "Shared memory by " (unit) }, &body)
}

impl VariantSharing {
    pub(crate) fn new(results: &Results, name: &str, class: usize) -> Self {
        let trials = || facts::counted_trials(results, name);
        Self {
            name: one_line(name),
            class,
            before: trials().filter_map(|t| before(&t.samples, t.load_window_ms?.0)).collect(),
            // One point is no series.
            trials: trials()
                .map(|trial| {
                    let load = trial.load.as_ref();
                    let answered = load.and_then(|load| answered_by(load, &trial.samples));
                    series_until(&trial.samples, answered)
                })
                .filter(|series| series.len() > 1)
                .collect(),
        }
    }

    fn line(&self) -> PlotLine {
        // The grid of a band is linear, the axis of the picture is logarithmic.
        let logarithmic = |(requests, bytes): &(f64, f64)| (requests.ln(), *bytes);
        let trials = self.trials.iter().map(|trial| trial.iter().map(logarithmic).collect());
        let trials: Vec<SharedSeries> = trials.collect();
        let points = medians(&band(&trials, POINTS)).into_iter().map(|(x, y)| (x.exp(), y));
        PlotLine::new(&self.name, self.class, Stroke::Main, points.collect())
    }

    /// The median over the trials that have a sample near that number of requests.
    pub(crate) fn near(&self, requests: f64) -> Option<f64> {
        let values: Vec<f64> = self.trials.iter().filter_map(|t| nearest(t, requests)).collect();
        median(&values)
    }

    pub(crate) fn before(&self) -> Option<f64> {
        median(&self.before)
    }

    pub(crate) fn end(&self) -> Option<f64> {
        let ends: Vec<f64> = self.trials.iter().filter_map(|t| Some(t.last()?.1)).collect();
        median(&ends)
    }

    fn description(&self) -> String {
        let [before, end] = [self.before(), self.end()].map(|bytes| {
            bytes.map_or_else(|| "unknown".to_owned(), |bytes| Unit::Bytes.show(bytes))
        });
        format!("{}: {before} before the load, {end} at the end", self.name)
    }
}

fn nearest(series: &[(f64, f64)], requests: f64) -> Option<f64> {
    // By ratio: 600 requests are as near to 500 as 6,000 to 5,000.
    let (ratio, bytes) = series
        .iter()
        .map(|(answered, bytes)| ((answered / requests).ln().abs(), *bytes))
        .min_by(|one, other| one.0.total_cmp(&other.0))?;
    // Farther away the sample says nothing about this mark.
    (ratio < TOLERANCE.ln()).then_some(bytes)
}

/// Requests or broadcasts at the end of a load. The report of a load in steps counts deliveries, one per subscriber; samples
/// count broadcasts.
fn answered_by(load: &LoadReport, samples: &[Sample]) -> Option<u64> {
    if load.steps.is_empty() {
        return Some(load.completed);
    }
    samples.iter().filter_map(|sample| sample.answered).max().filter(|answered| *answered > 0)
}

/// The series of a trial whose load completed that many requests or broadcasts before the last sample.
fn series_until(samples: &[Sample], completed: Option<u64>) -> SharedSeries {
    let points = samples.iter().filter_map(|sample| {
        // A logarithmic axis has no place for zero requests.
        let answered = sample.answered.filter(|answered| *answered > 0)?;
        Some((answered as f64, shared_bytes(sample)?))
    });
    let mut series: SharedSeries = points.collect();
    let end = after_load(samples).and_then(shared_bytes);
    // The load completes between two samples, so its end gets a point of its own.
    series.extend(completed.map(|requests| requests as f64).zip(end));
    series
}

/// Bytes shared by a ready server before the measured load.
fn before(samples: &[Sample], load_began_ms: u64) -> Option<f64> {
    // The last one before the load, when the server is ready.
    samples.iter().rev().filter(|sample| sample.at_ms <= load_began_ms).find_map(shared_bytes)
}

fn numbers(variants: &[VariantSharing], unit: &str) -> FactTable {
    let known: Vec<f64> = MARKS
        .into_iter()
        .filter(|mark| variants.iter().any(|variant| variant.near(*mark).is_some()))
        .collect();
    let marks = known.iter().map(|mark| format!("about {}", Unit::Count.show(*mark)));
    let rows = variants.iter().map(|variant| {
        let near = known.iter().map(|mark| variant.near(*mark));
        let shared = std::iter::once(variant.before()).chain(near).chain([variant.end()]);
        Cell::row(&variant.name, shared.map(|bytes| Cell::amount(Unit::Bytes, bytes)))
    });
    FactTable::new(format!("Shared memory by {unit}"))
        .texts([format!("shared after … {unit}")])
        .numbers(["0"])
        .numbers(marks)
        .numbers(["all"])
        .rows(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::Bytes;
    use carat_model::load::StepReport;

    #[test]
    fn a_mark_takes_the_nearest_sample_and_none_if_all_are_far() {
        let trials = vec![vec![(40.0, 80e6), (60.0, 70e6), (5100.0, 20e6)]];
        let one = VariantSharing { name: "preload".into(), class: 0, before: vec![90e6], trials };
        assert_eq!(one.near(50.0), Some(70e6));
        assert_eq!(one.near(500.0), None);
        assert_eq!(one.near(5000.0), Some(20e6));
        assert_eq!(one.end(), Some(20e6));
    }

    #[test]
    fn the_end_of_a_load_in_steps_is_at_its_broadcasts_and_not_at_its_deliveries() {
        let samples = [sample(500, Some(9), 70), sample(600, Some(20), 60), sample(900, None, 50)];
        let load = LoadReport { completed: 20_000, ..LoadReport::default() };
        assert_eq!(answered_by(&load, &samples), Some(20_000));
        let load = LoadReport { steps: vec![StepReport::default()], ..load };
        let broadcasts = answered_by(&load, &samples);
        let expected = vec![(9.0, 70.0), (20.0, 60.0), (20.0, 50.0)];
        assert_eq!(series_until(&samples, broadcasts), expected);
        assert_eq!(answered_by(&load, &samples[2..]), None);
    }

    fn sample(at_ms: u64, answered: Option<u64>, shared: u64) -> Sample {
        Sample { at_ms, answered, processes: 3, shared: Some(Bytes(shared)), ..Sample::default() }
    }

    #[test]
    fn memory_shared_before_the_load_comes_from_samples_before_the_load() {
        let samples = [sample(990, None, 90), sample(1500, Some(0), 70), sample(2000, Some(9), 50)];
        assert_eq!(before(&samples, 1000), Some(90.0));
        assert_eq!(series_until(&samples, Some(20)), vec![(9.0, 50.0), (20.0, 50.0)]);
    }
}
