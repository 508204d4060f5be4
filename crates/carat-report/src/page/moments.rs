//! Memory at each moment: before, during and after the load, by requests answered and by moment.

use crate::chart::{
    Axis, BandPoint, Caption, Plot, PlotLine, Stroke, band, medians, variant_class,
};
use crate::facts;
use crate::memory_series::SampleFigure;
use crate::moments::{self, EXPLORATORY, of_figure};
use crate::numbers::grouped;
use crate::page::{Gallery, table};
use crate::text::one_line;
use carat_model::{MemoryFigure, Moment, MomentComparison, Results, Sample, Trial, Unit};
use maud::{Markup, html as markup};

/// Points of a variant's line over the requests.
const POINTS: usize = 60;

/// One trial: requests answered, and bytes.
type RequestSeries = Vec<(f64, f64)>;

/// Empty unless the experiment asks for moments.
pub(super) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let figure = moments::figure(results);
    let shown = of_figure(results, figure);
    if shown.is_empty() {
        return markup! {};
    }
    let shared = of_figure(results, MemoryFigure::Shared);
    let what = match figure {
        MemoryFigure::Rss => "Resident memory of the server process",
        MemoryFigure::Pss | MemoryFigure::Shared => "Proportional memory of the tree",
    };
    let body = markup! {
        figure {
            figcaption {
                (what) ". By requests: the line is the median over the trials, the band their middle half. At each moment: \
                the band is from the smallest to the largest trial. The differences in the table are " (EXPLORATORY) "."
            }
            div.grid2 {
                (by_requests(results, figure, gallery))
                (by_moment(results, &shown, ("moments-memory", "At each moment"), gallery))
                (by_moment(results, &shared, ("moments-shared", "Shared memory at each moment"), gallery))
            }
        }
        details open { summary { "Numbers" }
            (numbers(results, &shown, "Memory at each moment"))
            @if !shared.is_empty() { (numbers(results, &shared, "Shared memory at each moment")) }
        }
    };
    gallery.part("memory-at-moments", &markup! { "Memory at each moment" }, &body)
}

/// The picture over the requests, from the start of the load to its end.
fn by_requests(results: &Results, figure: MemoryFigure, gallery: &mut Gallery) -> Markup {
    let of_sample: SampleFigure = match figure {
        MemoryFigure::Rss => |sample| sample.rss,
        MemoryFigure::Pss => |sample| sample.pss,
        MemoryFigure::Shared => |sample| sample.shared,
    };
    let (mut lines, mut bands, mut descriptions) = (Vec::new(), Vec::new(), Vec::new());
    for (place, variant) in results.info.variants.iter().enumerate() {
        let trials: Vec<RequestSeries> = facts::counted_trials(results, &variant.name)
            .map(|trial| request_series(trial, of_sample))
            .filter(|series| series.len() > 1)
            .collect();
        let band = band(&trials, POINTS);
        let (Some(first), Some(last)) = (band.first(), band.last()) else { continue };
        let [from, to] = [first.median, last.median].map(|bytes| Unit::Bytes.show(bytes));
        descriptions.push(format!("{}: from {from} to {to}", variant.name));
        let (name, class) = (one_line(&variant.name), variant_class(place));
        lines.push(PlotLine::new(name, class, Stroke::Main, medians(&band)));
        bands.push((class, band));
    }
    let name = format!("{} answered", moments::unit_of_load(results));
    let plot = Plot::new(Axis::Linear(Unit::Count), &name, Axis::Linear(Unit::Bytes), lines);
    let title = "Memory by requests answered";
    let caption = Caption::new("moments-requests", title, descriptions.join("; "));
    gallery.panel("Memory by requests", Plot { bands, ..plot }.draw(caption))
}

/// The memory of a trial by requests answered. The sample at the start of the load is at 0; the one after the load is at
/// all requests, but not for a load in steps, whose report counts deliveries.
fn request_series(trial: &Trial, figure: SampleFigure) -> RequestSeries {
    let mut series: RequestSeries = Vec::new();
    let load = trial.load.as_ref().filter(|load| load.steps.is_empty());
    for sample in trial.samples.iter().filter(|sample| !sample.partial) {
        let answered = match sample.moment {
            Some(Moment::Start) => Some(0),
            Some(Moment::End) => load.map(|load| load.completed),
            _ => sample.answered,
        };
        let Some((answered, bytes)) = answered.zip(figure(sample)) else { continue };
        // The load's own count may be below that of a sample, and x must not fall.
        let last = series.last().map_or(0.0, |point| point.0);
        series.push(((answered as f64).max(last), bytes.0 as f64));
    }
    series
}

/// A picture with one place per moment, with its id and title.
fn by_moment(
    results: &Results,
    shown: &[&MomentComparison],
    (id, title): (&str, &str),
    gallery: &mut Gallery,
) -> Markup {
    let mut found: Vec<Moment> = shown.iter().map(|one| one.moment).collect();
    // Comparisons come in the order of moments, so equal ones are neighbours.
    found.dedup();
    let (mut lines, mut bands, mut descriptions) = (Vec::new(), Vec::new(), Vec::new());
    for (place, variant) in results.info.variants.iter().enumerate() {
        let band: Vec<BandPoint> = shown
            .iter()
            .filter(|one| one.variant == variant.name)
            .filter_map(|one| Some((found.iter().position(|at| *at == one.moment)?, *one)))
            .map(|(at, one)| BandPoint {
                x: at as f64,
                lower: one.range.0,
                median: one.median,
                upper: one.range.1,
            })
            .collect();
        let texts = band.iter().map(|point| Unit::Bytes.show(point.median));
        descriptions.push(format!("{}: {}", variant.name, texts.collect::<Vec<_>>().join(", ")));
        let (name, class) = (one_line(&variant.name), variant_class(place));
        lines.push(PlotLine::new(name, class, Stroke::Points, medians(&band)));
        bands.push((class, band));
    }
    let ticks = found.iter().zip(0_u32..);
    let ticks = ticks.map(|(moment, at)| (f64::from(at), moments::key(*moment, grouped)));
    let x = Axis::Named(ticks.collect());
    let name = format!("moment; a number is {} answered", moments::unit_of_load(results));
    let plot = Plot::new(x, &name, Axis::Linear(Unit::Bytes), lines);
    let caption = Caption::new(id, title, descriptions.join("; "));
    gallery.panel(title, Plot { bands, ..plot }.draw(caption))
}

fn numbers(results: &Results, shown: &[&MomentComparison], label: &str) -> Markup {
    markup! { h3 { (label) } (table(&moments::table(results, shown, label))) }
}

/// The sample after the load; the last one in files whose samples have no moments.
pub(super) fn after_load(samples: &[Sample]) -> Option<&Sample> {
    samples.iter().find(|sample| sample.moment == Some(Moment::End)).or(samples.last())
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::Bytes;

    fn sample(moment: Option<Moment>, answered: Option<u64>, bytes: u64) -> Sample {
        Sample { moment, answered, pss: Some(Bytes(bytes)), ..Sample::default() }
    }

    #[test]
    fn the_sample_after_the_load_is_not_the_idle_one() {
        let old = [sample(None, None, 1), sample(None, Some(3), 2)];
        assert_eq!(after_load(&old), Some(&old[1]));
        let new = [
            sample(None, Some(3), 1),
            sample(Some(Moment::End), None, 2),
            sample(Some(Moment::Idle), None, 3),
        ];
        assert_eq!(after_load(&new), Some(&new[1]));
    }
}
