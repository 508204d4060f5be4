//! How much memory is still shared after so many requests: what every answer takes from copy-on-write.

use crate::core::{Results, Sample, Trial, Unit};
use crate::report::chart::reduce::band;
use crate::report::chart::{Axis, Caption, Line, Plot, Stroke};
use crate::report::facts;
use crate::report::page::figures::class;
use crate::report::page::gallery::Gallery;
use crate::report::page::latency::panel;
use crate::report::page::sharing::shared;
use crate::report::page::tables;
use crate::report::text::one_line;
use carat_stats::budget::median;
use maud::{Markup, html as markup};

/// Numbers of requests that the table looks for, and how far off a sample may be: load goes on while one is taken.
const MARKS: [f64; 5] = [50.0, 500.0, 5e3, 5e4, 5e5];
const NEAR: f64 = 1.5;

/// Places on the line of a variant.
const PLACES: usize = 60;

/// Requests answered and bytes shared.
type Course = Vec<(f64, f64)>;

/// One variant: its name and a course per trial, each with what was shared before the first request.
struct Eroded {
    name: String,
    class: usize,
    before: Vec<f64>,
    courses: Vec<Course>,
}

/// Picture and table; nothing where no tree of several processes was sampled under a counted load.
pub(crate) fn section(results: &Results, gallery: &mut Gallery) -> Markup {
    let variants = results.header.variants.iter().enumerate();
    let eroded: Vec<Eroded> = variants
        .map(|(place, variant)| of_variant(results, &variant.name, class(place)))
        .filter(|eroded| !eroded.courses.is_empty())
        .collect();
    if eroded.is_empty() {
        return markup! {};
    }
    let says: Vec<String> = eroded.iter().map(Eroded::words).collect();
    let plot = Plot {
        x: Axis::Logarithmic(Unit::Count),
        x_name: "requests answered".into(),
        y: Axis::Linear(Unit::Bytes),
        lines: eroded.iter().map(Eroded::line).collect(),
        bands: Vec::new(),
        markers: Vec::new(),
        x_range: None,
        y_range: Some((0.0, eroded.iter().map(Eroded::highest).fold(1.0, f64::max) * 1.06)),
    };
    let caption = Caption {
        id: "erosion",
        title: "Shared memory by requests answered",
        says: &says.join("; "),
    };
    markup! {
        figure {
            figcaption { "What is still shared after so many requests, all processes together; medians over the trials." }
            div.grid2 { (panel("Shared memory over requests", &plot, &caption, gallery)) }
        }
        details open { summary { "Numbers" } (table(&eroded)) }
    }
}

fn of_variant(results: &Results, name: &str, class: usize) -> Eroded {
    let trials =
        || results.trials.iter().filter(|trial| trial.variant == name && facts::counts(trial));
    let completed = |trial: &Trial| trial.load.as_ref().map(|load| load.completed);
    let courses = trials().map(|trial| course(&trial.samples, completed(trial)));
    let ready = trials().filter_map(|trial| before(&trial.samples, trial.load_window_ms?.0));
    let courses = courses.filter(|course| course.len() > 1).collect();
    Eroded { name: one_line(name), class, before: ready.collect(), courses }
}

fn course(samples: &[Sample], completed: Option<u64>) -> Course {
    let point =
        |s: &Sample| Some((s.answered.filter(|answered| *answered > 0)? as f64, shared(s)?));
    let mut course: Course = samples.iter().filter_map(point).collect();
    let end = samples.last().and_then(shared);
    course.extend(completed.map(|all| all as f64).zip(end));
    course
}

/// Shared memory before the measured load, once the server was ready.
fn before(samples: &[Sample], load_began_ms: u64) -> Option<f64> {
    samples.iter().rev().filter(|sample| sample.at_ms <= load_began_ms).find_map(shared)
}

impl Eroded {
    fn line(&self) -> Line {
        let log = |course: &Course| course.iter().map(|(x, y)| (x.ln(), *y)).collect();
        let courses: Vec<Course> = self.courses.iter().map(log).collect();
        let points = band(&courses, PLACES).iter().map(|p| (p.x.exp(), p.median)).collect();
        Line { label: self.name.clone(), class: self.class, stroke: Stroke::Main, points }
    }

    fn highest(&self) -> f64 {
        self.courses.iter().flatten().map(|(_, bytes)| *bytes).fold(0.0, f64::max)
    }

    /// The median over the trials that were sampled near so many requests.
    fn near(&self, mark: f64) -> Option<f64> {
        let far = |x: f64| (x / mark).ln().abs();
        let nearest = |course: &Course| {
            let point = course.iter().min_by(|a, b| far(a.0).total_cmp(&far(b.0)))?;
            (far(point.0) < NEAR.ln()).then_some(point.1)
        };
        median(&self.courses.iter().filter_map(nearest).collect::<Vec<_>>())
    }

    fn end(&self) -> Option<f64> {
        let ends = self.courses.iter().filter_map(|course| course.last());
        median(&ends.map(|(_, bytes)| *bytes).collect::<Vec<_>>())
    }

    fn words(&self) -> String {
        let show = |bytes: Option<f64>| {
            bytes.map_or_else(|| "unknown".to_owned(), |bytes| Unit::Bytes.show(bytes))
        };
        let (before, end) = (median(&self.before), self.end());
        format!(
            "{}: {} before the first request, {} in the end",
            self.name,
            show(before),
            show(end)
        )
    }
}

fn table(eroded: &[Eroded]) -> Markup {
    let marks: Vec<f64> =
        MARKS.into_iter().filter(|mark| eroded.iter().any(|e| e.near(*mark).is_some())).collect();
    let cell = |value: Option<f64>| tables::cell(Unit::Bytes, value);
    markup! {
        div.scroll tabindex="0" role="region" aria-label="Shared memory by requests answered" {
            table {
                thead { tr {
                    th scope="col" { "shared after … requests" } th scope="col" { "0" }
                    @for mark in &marks { th scope="col" { "about " (Unit::Count.show(*mark)) } }
                    th scope="col" { "all" }
                } }
                tbody {
                    @for one in eroded {
                        tr {
                            th scope="row" { (one.name) }
                            (cell(median(&one.before)))
                            @for mark in &marks { (cell(one.near(*mark))) }
                            (cell(one.end()))
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eroded(courses: Vec<Course>) -> Eroded {
        Eroded { name: "preload".into(), class: 0, before: vec![90e6], courses }
    }

    #[test]
    fn a_mark_takes_the_nearest_sample_and_none_where_all_are_far() {
        let one = eroded(vec![vec![(40.0, 80e6), (60.0, 70e6), (5100.0, 20e6)]]);
        assert_eq!(one.near(50.0), Some(70e6));
        assert_eq!(one.near(500.0), None);
        assert_eq!(one.near(5000.0), Some(20e6));
        assert_eq!(one.end(), Some(20e6));
    }

    #[test]
    fn what_was_shared_before_the_load_is_not_taken_from_under_it() {
        let sample = |at_ms, answered, shared| Sample {
            at_ms,
            answered,
            processes: 3,
            shared: Some(crate::core::Bytes(shared)),
            ..Sample::default()
        };
        let samples = [sample(990, None, 90), sample(1500, Some(0), 70), sample(2000, Some(9), 50)];
        assert_eq!(before(&samples, 1000), Some(90.0));
        assert_eq!(course(&samples, Some(20)), vec![(9.0, 50.0), (20.0, 50.0)]);
    }
}
