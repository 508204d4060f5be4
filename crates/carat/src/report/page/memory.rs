//! Memory over time: the medians of all variants together, then every variant with its trials.

use crate::core::{Results, Unit};
use crate::report::chart::reduce::{BandPoint, band, reduce};
use crate::report::chart::scale::range;
use crate::report::chart::{Axis, Caption, Line, Plot, Stroke};
use crate::report::course::{courses, is_resident, weight};
use crate::report::facts;
use crate::report::page::figures::class;
use crate::report::page::gallery::Gallery;
use crate::report::text::one_line;
use maud::{Markup, html as markup};

/// Thin lines on the whole page: what keeps it small.
const THIN_LINES: usize = 60;
/// Places of a median line.
const PLACES: usize = 160;
/// Columns of a thin line; each keeps its least and greatest value.
const COLUMNS: usize = 110;

struct Course {
    name: String,
    class: usize,
    trials: Vec<Vec<(f64, f64)>>,
    band: Vec<BandPoint>,
    private: Vec<(f64, f64)>,
}

/// The section; nothing where no trial has samples.
pub(crate) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let resident = is_resident(results);
    let drawn: Vec<Course> = results
        .header
        .variants
        .iter()
        .enumerate()
        .map(|(place, variant)| course(results, &variant.name, place, resident))
        .collect();
    let points = || drawn.iter().flat_map(|course| course.trials.iter().flatten());
    let (Some(seconds), Some(bytes)) =
        (range(points().map(|point| point.0), 0.0), range(points().map(|point| point.1), 0.03))
    else {
        return markup! {};
    };
    let thin = (THIN_LINES / drawn.len().max(1)).max(3);
    let frame = Frame { seconds, bytes, markers: markers(results), thin };
    let what = if resident { "Resident memory" } else { "Proportional memory of the tree" };
    let most = drawn.iter().map(|course| course.trials.len()).max().unwrap_or(0);
    markup! {
        section #memory-over-time {
            h2 { (what) " over time" }
            figure {
                figcaption {
                    "A thin line is one trial"
                    @if most > thin { " (at most " (thin) " of " (most) " are drawn, evenly picked)" }
                    "; the thick line is the median over all trials, the band their middle half. Every picture has the same axes."
                }
                div.grid2 {
                    @if drawn.len() > 1 { (together(&drawn, &frame, gallery)) }
                    @for course in &drawn {
                        (alone(course, &drawn[0], &frame, gallery))
                    }
                }
            }
            details { summary { "Numbers" } (table(&drawn)) }
        }
    }
}

fn course(results: &Results, name: &str, place: usize, resident: bool) -> Course {
    let trials = courses(results, name, weight(resident));
    let several = results.trials.iter().flat_map(|t| &t.samples).any(|s| s.processes > 1);
    let private = match several && !resident {
        true => band(&courses(results, name, |sample| sample.uss), PLACES),
        false => Vec::new(),
    };
    Course {
        name: one_line(name),
        class: class(place),
        band: band(&trials, PLACES),
        private: private.iter().map(|point| (point.x, point.median)).collect(),
        trials,
    }
}

/// Median start and end of the load.
fn markers(results: &Results) -> Vec<(f64, String)> {
    let windows: Vec<(u64, u64)> = results
        .trials
        .iter()
        .filter(|t| facts::counts(t))
        .filter_map(|t| t.load_window_ms)
        .collect();
    let middle = |pick: fn(&(u64, u64)) -> u64| {
        let seconds: Vec<f64> = windows.iter().map(|window| pick(window) as f64 / 1e3).collect();
        carat_stats::budget::median(&seconds)
    };
    [(middle(|w| w.0), "load begins"), (middle(|w| w.1), "load ends")]
        .into_iter()
        .filter_map(|(at, name)| Some((at?, name.to_owned())))
        .collect()
}

fn median(course: &Course, stroke: Stroke) -> Line {
    Line {
        label: course.name.clone(),
        class: course.class,
        stroke,
        points: course.band.iter().map(|point| (point.x, point.median)).collect(),
    }
}

/// What all pictures of the section share.
struct Frame {
    seconds: (f64, f64),
    bytes: (f64, f64),
    markers: Vec<(f64, String)>,
    /// Thin lines per variant.
    thin: usize,
}

fn plot(lines: Vec<Line>, bands: Vec<(usize, Vec<BandPoint>)>, frame: &Frame) -> Plot {
    Plot {
        x: Axis::Linear(Unit::Seconds),
        x_name: "since the start".into(),
        y: Axis::Linear(Unit::Bytes),
        lines,
        bands,
        markers: frame.markers.clone(),
        x_range: Some(frame.seconds),
        y_range: Some(frame.bytes),
    }
}

fn together(courses: &[Course], frame: &Frame, gallery: &mut Gallery) -> Markup {
    let lines = courses.iter().map(|course| median(course, Stroke::Main)).collect();
    let says = courses.iter().map(spoken).collect::<Vec<_>>().join("; ");
    let caption =
        Caption { id: "memory-all", title: "Median memory over time of all variants", says: &says };
    let picture = plot(lines, Vec::new(), frame).draw(&caption);
    markup! {
        @if let Some(picture) = picture { div.panel { h3 { "Medians of all variants" } (gallery.show(picture)) } }
    }
}

fn alone(course: &Course, baseline: &Course, frame: &Frame, gallery: &mut Gallery) -> Markup {
    let every = course.trials.len().div_ceil(frame.thin).max(1);
    let mut lines: Vec<Line> = course
        .trials
        .iter()
        .step_by(every)
        .map(|points| Line {
            label: String::new(),
            class: course.class,
            stroke: Stroke::Thin,
            points: reduce(points, COLUMNS),
        })
        .collect();
    if baseline.class != course.class {
        lines.push(median(baseline, Stroke::Reference));
    }
    if !course.private.is_empty() {
        let points = course.private.clone();
        lines.push(Line {
            label: "private".into(),
            class: course.class,
            stroke: Stroke::Reference,
            points,
        });
    }
    lines.push(median(course, Stroke::Main));
    let id = format!("memory-{}", course.class);
    let title = format!("Memory over time of {}", course.name);
    let says = spoken(course);
    let caption = Caption { id: &id, title: &title, says: &says };
    let picture = plot(lines, vec![(course.class, course.band.clone())], frame).draw(&caption);
    markup! {
        div class={ "panel of v" (course.class) } {
            h3 { (course.name) }
            @match picture {
                Some(picture) => (gallery.show(picture)),
                None => p.soft { "No samples." },
            }
        }
    }
}

fn spoken(course: &Course) -> String {
    let (Some(first), Some(last)) = (course.band.first(), course.band.last()) else {
        return format!("{}: no samples", course.name);
    };
    let peak = course.band.iter().map(|point| point.median).fold(0.0, f64::max);
    let show = |value| Unit::Bytes.show(value);
    format!(
        "{}: from {} to {} after {:.0} s, highest {}",
        course.name,
        show(first.median),
        show(last.median),
        last.x,
        show(peak)
    )
}

/// Medians at ten places.
fn table(courses: &[Course]) -> Markup {
    let last = courses.iter().filter_map(|c| c.band.last()).map(|p| p.x).fold(0.0, f64::max);
    let at = |course: &Course, x: f64| {
        course.band.iter().min_by(|a, b| (a.x - x).abs().total_cmp(&(b.x - x).abs())).copied()
    };
    markup! {
        div.scroll tabindex="0" role="region" aria-label="Memory over time" {
            table {
                thead { tr { th scope="col" { "after" } @for course in courses { th scope="col" { (course.name) } } } }
                tbody {
                    @for x in (0..=10).map(|tenth| last * f64::from(tenth) / 10.0) {
                        tr {
                            th scope="row" { (format!("{x:.1} s")) }
                            @for course in courses {
                                @match at(course, x).filter(|point| (point.x - x).abs() <= last / 20.0) {
                                    Some(point) => td data-v=(point.median) { (Unit::Bytes.show(point.median)) },
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
