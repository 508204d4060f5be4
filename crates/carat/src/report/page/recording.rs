//! The page of a recording: what growth there was, memory over time, who held it, the last ledger.

use crate::analysis::growth::{cause, sentence};
use crate::core::memory::tracked_memory;
use crate::core::recording::MarkerKind;
use crate::core::{Bytes, InsideSample, ProgressUnit, Recording, Sample, TrackedPart, Unit};
use crate::report::chart::reduce::{BandPoint, reduce};
use crate::report::chart::{Axis, Caption, Line, Plot, Stroke};
use crate::report::page::frame::{PageOptions, document, footer};
use crate::report::page::gallery::Gallery;
use crate::report::page::latency::panel;
use crate::report::page::{figures, growth, ledger, tables};
use crate::report::redact::prepare_recording;
use crate::report::text::{capital, one_line, shorten};
use carat_stats::budget::median;
use maud::{Markup, html as markup};
use std::collections::{BTreeMap, BTreeSet};

/// Columns of a line; each keeps its least and greatest value.
const COLUMNS: usize = 400;
/// Slots that get a layer of their own.
const LAYERS: usize = 16;
/// Markers that are drawn.
const MARKERS: usize = 60;

/// The page of a recording: one file, no request.
pub fn recording_html(recording: &Recording, options: &PageOptions) -> String {
    let recording = &prepare_recording(recording, options.audience);
    let title = headline(recording);
    let mut gallery = Gallery::default();
    let body = markup! {
        header.top { span { "Carat recording of " b { (shorten(&one_line(&recording.head.what), 120)) } } }
        main {
            h1 { (title) }
            @if let Some(cause) = cause(&recording.growth) { p.lead { (capital(&cause)) "." } }
            (strip(recording))
            @if let Some(end) = recording.end.as_ref().filter(|end| !end.warnings.is_empty()) {
                ul.warn { @for warning in end.warnings.iter().take(20) { li { (shorten(warning, 400)) } } }
            }
            (over_time(recording, &mut gallery))
            (growth_table(recording))
            @if let Some(last) = &recording.ledger { (ledger::sections(last, &mut gallery)) }
        }
        (footer(options))
        (gallery.data(&[]))
    };
    document(&title, &body).into_string()
}

/// The growth of all memory in words.
fn headline(recording: &Recording) -> String {
    let of_all = recording.growth.iter().find(|growth| growth.part == TrackedPart::Memory);
    match of_all.or(recording.growth.first()) {
        Some(growth) => capital(&sentence(growth)) + ".",
        None => "The recording is too short to say whether the memory grows.".into(),
    }
}

fn strip(recording: &Recording) -> Markup {
    let last = recording.samples.last().map_or(0, |sample| sample.at_ms);
    let known: Vec<Bytes> =
        recording.samples.iter().filter_map(tracked_memory(&recording.samples)).collect();
    markup! {
        dl.facts {
            div { dt { "recorded" } dd { (format!("{:.1} s", last as f64 / 1e3)) } }
            div { dt { "samples" } dd { (recording.samples.len()) } }
            @if let (Some(highest), Some(end)) = (known.iter().max(), known.last()) {
                div { dt { "highest" } dd data-v=(highest.0) { (highest) } }
                div { dt { "at the end" } dd data-v=(end.0) { (end) } }
            }
            @if let Some(load) = recording.load() {
                div { dt { "load" } dd { (shorten(&load.url, 80)) } }
                @if let Some(report) = &load.report {
                    div { dt { "answered" } dd { (report.completed) @if report.errors > 0 { ", not " (report.errors) } } }
                }
            }
            @if let Some(end) = &recording.end {
                div { dt { "cost of recording" } dd { (format!("{:.2} %", end.cost.core_share * 100.0)) " of a core" } }
            }
            div { dt { "ended" } dd { (shorten(recording.ended(), 80)) } }
        }
    }
}

fn course(samples: &[Sample], pick: impl Fn(&Sample) -> Option<Bytes>) -> Vec<(f64, f64)> {
    let points: Vec<(f64, f64)> = samples
        .iter()
        .filter(|sample| !sample.partial)
        .filter_map(|sample| Some((sample.at_ms as f64 / 1e3, pick(sample)?.0 as f64)))
        .collect();
    reduce(&points, COLUMNS)
}

fn line(label: &str, class: usize, stroke: Stroke, points: Vec<(f64, f64)>) -> Line {
    Line { label: label.into(), class, stroke, points }
}

fn plot(
    lines: Vec<Line>,
    bands: Vec<(usize, Vec<BandPoint>)>,
    markers: Vec<(f64, String)>,
) -> Plot {
    let high = lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(1.0, f64::max);
    Plot {
        x: Axis::Linear(Unit::Seconds),
        x_name: "since the start".into(),
        y: Axis::Linear(Unit::Bytes),
        lines,
        bands,
        markers,
        x_range: None,
        y_range: Some((0.0, high * 1.06)),
    }
}

fn over_time(recording: &Recording, gallery: &mut Gallery) -> Markup {
    let samples = &recording.samples;
    let tree = course(samples, tracked_memory(samples));
    if tree.is_empty() {
        return markup! { p.soft { "No sample has the memory of the whole tree, so there is nothing to draw." } };
    }
    let mut lines = vec![line("tree", 1, Stroke::Main, tree.clone())];
    let private = course(samples, |sample| sample.uss);
    if !private.is_empty() {
        lines.push(line("private", 3, Stroke::Main, private));
    }
    let (fit, bands) = fit(recording, &tree);
    lines.extend(fit);
    let says = headline(recording);
    let caption = |id, title| Caption { id, title, says: &says };
    let whole = plot(lines, bands, markers(recording));
    let inside = inside_lines(samples);
    let alone = samples.iter().all(|sample| sample.partial || sample.rss.is_some());
    markup! {
        section #memory-over-time {
            h2 { "Memory over time" }
            figure {
                figcaption { @if alone { "Resident memory of the one process." } @else { "The tree: each shared page is divided by its sharers." } " Dashed: the growth that was found, with its interval. Upright dotted lines: processes that came or went, and full collections." }
                div.grid2 {
                    (panel("The tree", &whole, &caption("recording-tree", "Memory of the tree"), gallery))
                    @if let Some(layers) = layers(samples) {
                        (panel("By process", &layers, &caption("recording-slots", "Memory by process, stacked"), gallery))
                    }
                    @if !inside.is_empty() {
                        (panel("Inside Ruby", &plot(inside, Vec::new(), Vec::new()), &caption("recording-inside", "Memory inside Ruby"), gallery))
                    }
                }
            }
            details { summary { "Numbers" } (samples_table(samples)) }
        }
    }
}

/// The line of the rate that was found over the second half, and the band of its interval.
fn fit(recording: &Recording, tree: &[(f64, f64)]) -> (Option<Line>, Vec<(usize, Vec<BandPoint>)>) {
    let growth = recording.growth.iter().find(|growth| growth.part == TrackedPart::Memory);
    let Some((growth, rate)) = growth.and_then(|growth| Some((growth, growth.rate?))) else {
        return (None, Vec::new());
    };
    let pace = pace(recording, growth.progress);
    let (rate, interval) =
        (rate * pace, growth.interval.map(|(low, high)| (low * pace, high * pace)));
    let half = tree.last().map_or(0.0, |last| last.0) / 2.0;
    let late: Vec<(f64, f64)> = tree.iter().copied().filter(|point| point.0 >= half).collect();
    let middle = |pick: fn(&(f64, f64)) -> f64| median(&late.iter().map(pick).collect::<Vec<_>>());
    let (Some(x), Some(y)) = (middle(|p| p.0), middle(|p| p.1)) else { return (None, Vec::new()) };
    let at = |rate: f64, time: f64| y + rate * (time - x);
    let ends = [half, 2.0 * half];
    let points = ends.iter().map(|time| (*time, at(rate, *time))).collect();
    let band = interval.map(|(low, high)| {
        let place = |time: f64| {
            let (one, other) = (at(low, time), at(high, time));
            BandPoint {
                x: time,
                lower: one.min(other),
                median: at(rate, time),
                upper: one.max(other),
            }
        };
        (2, [half, x, 2.0 * half].into_iter().map(place).collect())
    });
    (Some(line("fit", 2, Stroke::Reference, points)), band.into_iter().collect())
}

/// How far the run went in a second of its second half.
fn pace(recording: &Recording, progress: ProgressUnit) -> f64 {
    if progress == ProgressUnit::Seconds {
        return 1.0;
    }
    let counted: Vec<(f64, f64)> = recording
        .samples
        .iter()
        .filter_map(|sample| Some((sample.at_ms as f64 / 1e3, sample.answered? as f64)))
        .collect();
    let late = &counted[counted.len() / 2..];
    match (late.first(), late.last()) {
        (Some(from), Some(to)) if to.0 > from.0 => (to.1 - from.1) / (to.0 - from.0),
        _ => 0.0,
    }
}

/// Every slot's memory on top of the one before; nothing for a single process.
fn layers(samples: &[Sample]) -> Option<Plot> {
    let slots: BTreeSet<u32> =
        samples.iter().flat_map(|s| s.members.iter().map(|m| m.slot)).collect();
    if slots.len() < 2 {
        return None;
    }
    let known: Vec<&Sample> = samples
        .iter()
        .filter(|s| !s.partial && s.members.iter().any(|m| m.pss.is_some()))
        .collect();
    let every = known.len().div_ceil(200).max(1);
    let known: Vec<&Sample> = known.into_iter().step_by(every).collect();
    let mut below: BTreeMap<u64, f64> = BTreeMap::new();
    let (mut lines, mut bands) = (Vec::new(), Vec::new());
    let shown: Vec<u32> = slots.iter().copied().take(LAYERS).collect();
    for (place, slot) in shown.iter().enumerate() {
        let rest = place + 1 == LAYERS && slots.len() > LAYERS;
        let mut layer = Vec::new();
        for sample in &known {
            let of_slot =
                sample.members.iter().filter(|m| m.slot == *slot || (rest && m.slot > *slot));
            let bytes: f64 = of_slot.filter_map(|m| m.pss).map(|pss| pss.0 as f64).sum();
            let base = below.entry(sample.at_ms).or_default();
            let x = sample.at_ms as f64 / 1e3;
            layer.push(BandPoint { x, lower: *base, median: *base + bytes, upper: *base + bytes });
            *base += bytes;
        }
        let name = if rest { "the others".to_owned() } else { format!("process {slot}") };
        lines.push(line(
            &name,
            figures::class(place),
            Stroke::Main,
            layer.iter().map(|b| (b.x, b.upper)).collect(),
        ));
        bands.push((figures::class(place), layer));
    }
    Some(plot(lines, bands, Vec::new()))
}

fn inside_lines(samples: &[Sample]) -> Vec<Line> {
    let course = |pick: fn(&InsideSample) -> Option<Bytes>| {
        course(samples, |sample| sample.inside.as_ref().and_then(pick))
    };
    let live = line("malloc live", 2, Stroke::Main, course(|s| s.malloc_live));
    let free = line("malloc free", 5, Stroke::Main, course(|s| s.malloc_free));
    [live, free].into_iter().filter(|line| !line.points.is_empty()).collect()
}

/// Processes coming and going first; collections where there is room.
fn markers(recording: &Recording) -> Vec<(f64, String)> {
    let is_gc = |kind: &MarkerKind| *kind == MarkerKind::MajorGc;
    let (gcs, others): (Vec<_>, Vec<_>) = recording.markers.iter().partition(|m| is_gc(&m.what));
    let few = others.len() <= 4;
    others
        .into_iter()
        .chain(gcs)
        .take(MARKERS)
        .map(|marker| {
            let name = match &marker.what {
                MarkerKind::Fork { slot, .. } if few => format!("fork {slot}"),
                MarkerKind::Exit { slot, .. } if few => format!("exit {slot}"),
                MarkerKind::User => "mark".into(),
                MarkerKind::LoadBegins => "load begins".into(),
                MarkerKind::LoadEnds => "load ends".into(),
                _ => String::new(),
            };
            (marker.at_ms as f64 / 1e3, name)
        })
        .collect()
}

fn growth_table(recording: &Recording) -> Markup {
    markup! {
        @if !recording.growth.is_empty() {
            section {
                h2 { "Growth" }
                div.scroll tabindex="0" role="region" aria-label="Growth" {
                    table #growth {
                        thead { tr { th scope="col" { "part" } (growth::head()) } }
                        tbody {
                            @for one in &recording.growth {
                                tr { th scope="row" { (one.part.label()) } (growth::cells(one)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn samples_table(samples: &[Sample]) -> Markup {
    let weight = tracked_memory(samples);
    let every = samples.len().div_ceil(20).max(1);
    let cell = |value: Option<Bytes>| tables::cell(Unit::Bytes, value.map(|bytes| bytes.0 as f64));
    markup! {
        div.scroll tabindex="0" role="region" aria-label="Memory over time" {
            table {
                thead { tr { th scope="col" { "after" } th scope="col" { "processes" } th scope="col" { "tree" } th scope="col" { "private" } th scope="col" { "shared" } } }
                tbody {
                    @for sample in samples.iter().step_by(every) {
                        tr {
                            th scope="row" { (format!("{:.1} s", sample.at_ms as f64 / 1e3)) }
                            td { (sample.processes) }
                            (cell(weight(sample))) (cell(sample.uss)) (cell(sample.shared))
                        }
                    }
                }
            }
        }
    }
}
