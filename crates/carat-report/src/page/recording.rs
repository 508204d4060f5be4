//! The page of a recording: growth, memory over time, memory by process, and the last ledger.

use crate::allocation_text;
use crate::chart::{BandPoint, Caption, Plot, PlotLine, Stroke, medians, reduce, variant_class};
use crate::memory_series::{MemorySeries, series};
use crate::numbers::{or_dash, percent, seconds};
use crate::page::{
    Gallery, PageOptions, growth, ledger, ledger_details, number_table, page, routes, table,
};
use crate::process_names::process_names;
use crate::recording_text::{class_sentence, outlook_lines};
use crate::table::{Cell, FactTable};
use crate::text::{capital, one_line, shorten};
use carat_analysis::findings_beside_growth;
use carat_analysis::growth::{
    cause, innermost_growth, interval, sentence, tolerances, undecided_parts, undecided_sentence,
};
use carat_model::memory::{tracked_memory, tracks_resident};
use carat_model::recording::{Marker, MarkerKind};
use carat_model::{
    Bytes, InsideSample, PartGrowth, ProgressUnit, Recording, Sample, TrackedPart, Unit,
};
use carat_redact::redact_recording;
use carat_stats::summary::median;
use maud::{Markup, html as markup};
use std::collections::{BTreeMap, BTreeSet};

/// Columns of a line; each keeps its minimum and maximum.
const COLUMNS: usize = 400;
/// Samples of a stacked layer.
const LAYER_SAMPLES: usize = 200;
/// Slots that get a layer of their own.
const LAYERS: usize = 16;
/// Markers drawn at most.
const MARKERS: usize = 60;
/// Rows of the table of events.
const EVENTS: usize = 400;
/// Warnings shown at most.
const WARNINGS: usize = 20;
/// Rows of the table.
const ROWS: usize = 20;

/// The page of a recording: one file that makes no request.
pub fn recording_html(recording: &Recording, options: &PageOptions) -> String {
    let recording = &redact_recording(recording, options.audience);
    let title = headline(recording);
    let warnings = recording.end.iter().flat_map(|end| &end.warnings);
    let warnings = warnings.take(WARNINGS).map(|text| shorten(text, 400));
    let report = recording.load().and_then(|load| load.report.as_ref());
    let failures = report.iter().flat_map(|report| &report.failures).map(ToString::to_string);
    let warnings: Vec<String> = warnings.chain(failures).collect();
    let mut gallery = Gallery::default();
    let about =
        markup! { "Carat recording of " b { (shorten(&one_line(&recording.info.what), 120)) } };
    let contents = markup! {
        h1 { (title) }
        @if let Some(lead) = lead(recording) { p.lead { (capital(&lead)) "." } }
        @for line in outlook_lines(recording) { p.lead { (capital(&line)) "." } }
        (key_facts(recording))
        @if !warnings.is_empty() { ul.warn { @for warning in &warnings { li { (warning) } } } }
        (memory_over_time(recording, &title, &mut gallery))
        (growth_table(recording))
        (growing_classes(recording))
        (allocated_where(recording))
        @if let Some(report) = report { (routes::load_section(report)) }
        @if let Some(last) = &recording.ledger {
            (ledger::section(last, &mut gallery))
            (ledger_details::what_to_try(last, &findings_beside_growth(last, &recording.growth)))
            (ledger_details::details(last))
        }
    };
    page(&title, (&about, &contents), (gallery, &[]), options)
}

/// The growth of all memory in words.
fn headline(recording: &Recording) -> String {
    match whole(recording) {
        Some(growth) if growth.is_undecided() => capital(&undecided_sentence(growth)) + ".",
        Some(growth) => capital(&sentence(growth)) + ".",
        None => "The recording is too short to say whether the memory grows.".into(),
    }
}

/// Why it grows, or the limits of a growth that is undecided.
fn lead(recording: &Recording) -> Option<String> {
    let open = whole(recording).filter(|growth| growth.is_undecided());
    cause(&recording.growth).or_else(|| Some(format!("so far: {}", interval(open?))))
}

/// The growth of all memory, or of the first part that is known.
fn whole(recording: &Recording) -> Option<&PartGrowth> {
    let whole = recording.growth.iter().find(|growth| growth.part == TrackedPart::Memory);
    // What is kept may be known to grow long before the memory is.
    let proven = innermost_growth(&recording.growth).filter(|part| part.readings.is_some());
    let open = whole.is_none_or(PartGrowth::is_undecided);
    proven.filter(|_| open).or(whole).or(recording.growth.first())
}

fn key_facts(recording: &Recording) -> Markup {
    let last = recording.samples.last().map_or(0, |sample| sample.at_ms);
    let known: Vec<Bytes> =
        recording.samples.iter().filter_map(tracked_memory(&recording.samples)).collect();
    let resident = tracks_resident(&recording.samples);
    let figure = if resident { "RSS" } else { "PSS" };
    // Said too, because it is what the terminal and the ledger below have.
    let proportional = recording.ledger.as_ref().map(|ledger| ledger.pss);
    let proportional = proportional.filter(|pss| resident && *pss > Bytes(0));
    markup! {
        dl.facts {
            div { dt { "recorded" } dd { (after(last)) } }
            div { dt { "samples" } dd { (recording.samples.len()) } }
            @if let (Some(highest), Some(end)) = (known.iter().max(), known.last()) {
                div { dt { "highest (" (figure) ")" } dd data-v=(highest.0) { (highest) } }
                div { dt { "at the end (" (figure) ")" } dd data-v=(end.0) { (end) } }
            }
            @if let Some(pss) = proportional {
                div { dt { "at the end (PSS)" } dd data-v=(pss.0) { (pss) } }
            }
            @if let Some(load) = recording.load() {
                div { dt { "load" } dd { (shorten(&load.url, 80)) } }
                @if let Some(report) = &load.report {
                    div { dt { "answered" } dd { (report.completed) @if report.errors > 0 { ", errors " (report.errors) } } }
                }
            }
            @if let Some(end) = &recording.end {
                div { dt { "cost of recording" } dd { (percent(end.cost.core_share, 2)) " of a core" } }
            }
            div { dt { "ended" } dd { (shorten(recording.ended(), 80)) } }
        }
    }
}

/// Gives all pictures the same axes, from zero, because all show bytes over the same time.
fn with_equal_axes(plots: &mut [&mut Plot]) {
    let points = plots.iter().flat_map(|plot| &plot.lines).flat_map(|line| &line.points);
    let (late, high) = points
        .fold((0.0, 1.0), |(late, high): (f64, f64), point| (late.max(point.0), high.max(point.1)));
    for plot in plots {
        plot.x_range = Some((0.0, if late > 0.0 { late } else { 1.0 }));
        plot.y_range = Some((0.0, high * 1.06));
    }
}

fn memory_over_time(recording: &Recording, description: &str, gallery: &mut Gallery) -> Markup {
    let samples = &recording.samples;
    let tree = reduce(&series(samples, tracked_memory(samples)), COLUMNS);
    if tree.is_empty() {
        return markup! { p.soft { "No sample has the memory of the whole tree, so there is nothing to draw." } };
    }
    let names = process_names(recording);
    let mut tree = tree_plot(recording, tree, &names);
    let mut layers = layers(samples, &names);
    let mut inside = inside_plot(samples);
    // The figures inside Ruby are then those of several processes together.
    let mut probed = samples.iter().filter_map(|sample| sample.inside.as_ref());
    let several = probed.any(|inside| inside.probes > 1);
    let drawn = [Some(&mut tree), layers.as_mut(), inside.as_mut()];
    with_equal_axes(&mut drawn.into_iter().flatten().collect::<Vec<_>>());
    let caption = |id, title| Caption::new(id, title, description);
    let resident = tracks_resident(samples);
    let inside_title = if several { "Inside Ruby, per process" } else { "Inside Ruby" };
    markup! {
        section #memory-over-time {
            h2 { "Memory over time" }
            figure {
                figcaption {
                    @if resident { "Resident memory (RSS) of the only process." } @else { "The tree: each shared page is divided among the processes that map it, so the processes add up to the tree." }
                    " Dashed: the estimated growth with its interval. Vertical dotted lines: the events listed below. All pictures have the same axes."
                    @if several && inside.is_some() {
                        " Inside Ruby: what malloc counts in one Ruby process, as the mean of all. Each counts the pages that it shares with the others, so a sum would count them several times."
                    }
                }
                div.grid2 {
                    (gallery.panel("The tree", tree.draw(caption("recording-tree", "Memory of the tree"))))
                    (gallery.panel("By process", layers.and_then(|layers| layers.draw(caption("recording-slots", "Memory by process, stacked")))))
                    (gallery.panel(inside_title, inside.and_then(|inside| inside.draw(caption("recording-inside", "Memory inside Ruby")))))
                }
            }
            (number_table(&samples_table(samples)))
            @if !recording.markers.is_empty() {
                details { summary { "Events" } (events_table(recording, &names)) }
            }
        }
    }
}

/// The tree's memory, its private part, and the fit.
fn tree_plot(recording: &Recording, tree: MemorySeries, names: &ProcessNames) -> Plot {
    let fit = growth_line(recording, &tree);
    let mut lines = vec![PlotLine::new("tree", 1, Stroke::Main, tree)];
    let private = reduce(&series(&recording.samples, |sample| sample.uss), COLUMNS);
    if !private.is_empty() {
        lines.push(PlotLine::new("private", 3, Stroke::Main, private));
    }
    let (fit, band) = fit.unzip();
    lines.extend(fit);
    let bands = band.flatten().into_iter().collect();
    let markers = markers(recording, names);
    Plot { bands, markers, ..Plot::over_time(Unit::Bytes, lines) }
}

/// A colour, and the points of a band.
type Band = (usize, Vec<BandPoint>);

/// The growth estimated over the second half, as a line through the medians of that half, and its interval as a band;
/// `None` if no rate was estimated.
fn growth_line(recording: &Recording, tree: &[(f64, f64)]) -> Option<(PlotLine, Option<Band>)> {
    let growth = recording.growth.iter().find(|one| one.part == TrackedPart::Memory)?;
    let pace = pace(recording, growth.progress);
    let rate = growth.rate? * pace;
    let end = tree.last().map_or(0.0, |last| last.0);
    // The second half, because the rate is one without the warm-up.
    let late = tree.iter().filter(|point| point.0 >= end / 2.0);
    let (times, bytes): (Vec<f64>, Vec<f64>) = late.copied().unzip();
    // Medians, so that a sawtooth does not move the line.
    let centre = (median(&times)?, median(&bytes)?);
    let at = |rate: f64, time: f64| centre.1 + rate * (time - centre.0);
    let line = [end / 2.0, end].map(|time| (time, at(rate, time)));
    let band = growth.interval.map(|(low, high)| {
        let band = [end / 2.0, centre.0, end].map(|x| {
            // Before the centre the lower rate gives the higher line.
            let (one, other) = (at(low * pace, x), at(high * pace, x));
            BandPoint { x, lower: one.min(other), median: at(rate, x), upper: one.max(other) }
        });
        (2, band.into())
    });
    Some((PlotLine::new("fit", 2, Stroke::Reference, line.into()), band))
}

/// Units of progress per second in the second half.
fn pace(recording: &Recording, progress: ProgressUnit) -> f64 {
    if progress == ProgressUnit::Seconds {
        return 1.0;
    }
    let counted: Vec<(f64, f64)> = recording
        .samples
        .iter()
        .filter_map(|sample| Some((seconds(sample.at_ms), sample.answered? as f64)))
        .collect();
    // The second half: the pace at the start is that of a warm-up.
    let late = &counted[counted.len() / 2..];
    match (late.first(), late.last()) {
        (Some(from), Some(to)) if to.0 > from.0 => (to.1 - from.1) / (to.0 - from.0),
        _ => 0.0,
    }
}

/// The memory of every slot on top of the one before; `None` for a single process.
fn layers(samples: &[Sample], names: &ProcessNames) -> Option<Plot> {
    let slots: BTreeSet<u32> =
        samples.iter().flat_map(|s| s.members.iter().map(|m| m.slot)).collect();
    // A single process is the tree itself.
    if slots.len() < 2 {
        return None;
    }
    // Only samples with the memory of single processes can be stacked.
    let known: Vec<&Sample> = samples
        .iter()
        .filter(|s| !s.partial && s.members.iter().any(|m| m.pss.is_some()))
        .collect();
    let every = known.len().div_ceil(LAYER_SAMPLES).max(1);
    let known: Vec<&Sample> = known.into_iter().step_by(every).collect();
    // The bytes of the layers so far, by time.
    let mut below: BTreeMap<u64, f64> = BTreeMap::new();
    let (mut lines, mut bands) = (Vec::new(), Vec::new());
    for (place, slot) in slots.iter().copied().take(LAYERS).enumerate() {
        // The last layer has all the others, so that its top is the tree.
        let with_rest = place + 1 == LAYERS && slots.len() > LAYERS;
        let layer = known.iter().map(|sample| {
            let members = sample.members.iter();
            let members = members.filter(|m| m.slot == slot || (with_rest && m.slot > slot));
            let bytes: f64 = members.filter_map(|m| m.pss).map(|pss| pss.0 as f64).sum();
            let base = below.entry(sample.at_ms).or_default();
            let (lower, upper) = (*base, *base + bytes);
            *base = upper;
            BandPoint { x: seconds(sample.at_ms), lower, median: upper, upper }
        });
        let layer: Vec<BandPoint> = layer.collect();
        let name = if with_rest { "the others".to_owned() } else { process_name(names, slot) };
        let class = variant_class(place);
        lines.push(PlotLine::new(name, class, Stroke::Main, medians(&layer)));
        bands.push((class, layer));
    }
    Some(Plot { bands, ..Plot::over_time(Unit::Bytes, lines) })
}

/// A figure inside Ruby as the mean of its processes: malloc counts a page that processes share in each of them.
fn of_one_process(sample: &Sample, figure: fn(&InsideSample) -> Option<Bytes>) -> Option<Bytes> {
    let inside = sample.inside.as_ref()?;
    // Without a probe there is no mean.
    Some(Bytes(figure(inside)?.0.checked_div(u64::from(inside.probes))?))
}

/// What malloc counts inside Ruby; `None` without a probe.
fn inside_plot(samples: &[Sample]) -> Option<Plot> {
    let live = series(samples, |sample| of_one_process(sample, |inside| inside.malloc_live));
    let free = series(samples, |sample| of_one_process(sample, |inside| inside.malloc_free));
    let lines = [("malloc live", 2, live), ("malloc free", 5, free)]
        .into_iter()
        .filter(|(_, _, points)| !points.is_empty())
        .map(|(label, class, points)| {
            PlotLine::new(label, class, Stroke::Main, reduce(&points, COLUMNS))
        });
    let lines: Vec<PlotLine> = lines.collect();
    (!lines.is_empty()).then(|| Plot::over_time(Unit::Bytes, lines))
}

/// Names by slot.
type ProcessNames = BTreeMap<u32, String>;

fn process_name(names: &ProcessNames, slot: u32) -> String {
    names.get(&slot).cloned().unwrap_or_else(|| format!("process {slot}"))
}

/// The load and the user's marks first, then processes, then full collections as far as there is room.
fn markers(recording: &Recording, names: &ProcessNames) -> Vec<(f64, String)> {
    let mut markers: Vec<&Marker> = recording.markers.iter().collect();
    // By importance, because only the first get drawn and named.
    markers.sort_by_key(|marker| match marker.what {
        MarkerKind::LoadBegins | MarkerKind::LoadEnds | MarkerKind::User => 0,
        MarkerKind::Fork { .. } | MarkerKind::Exit { .. } => 1,
        MarkerKind::MajorGc => 2,
    });
    let shown = markers.into_iter().take(MARKERS);
    shown.map(|marker| (seconds(marker.at_ms), marker_name(&marker.what, names))).collect()
}

fn marker_name(kind: &MarkerKind, names: &ProcessNames) -> String {
    match kind {
        MarkerKind::Fork { slot, .. } => format!("{} starts", process_name(names, *slot)),
        MarkerKind::Exit { slot, .. } => format!("{} ends", process_name(names, *slot)),
        MarkerKind::User => "mark".into(),
        MarkerKind::LoadBegins => "load begins".into(),
        MarkerKind::LoadEnds => "load ends".into(),
        MarkerKind::MajorGc => "full GC".into(),
    }
}

/// Every event; the pictures name only those that have room.
fn events_table(recording: &Recording, names: &ProcessNames) -> Markup {
    let rows = recording.markers.iter().take(EVENTS).map(|marker| {
        let pid = match marker.what {
            MarkerKind::Fork { pid, .. } | MarkerKind::Exit { pid, .. } => Some(pid),
            _ => None,
        };
        let event = Cell::text(marker_name(&marker.what, names));
        Cell::row(after(marker.at_ms), [event, Cell::text(or_dash(pid))])
    });
    let events = FactTable::new("Events").name("after").texts(["event"]).numbers(["process"]);
    let listed = recording.markers.len();
    markup! {
        @if listed > EVENTS { p.soft { "The first " (EVENTS) " of " (listed) "." } }
        (table(&events.rows(rows)))
    }
}

fn after(at_ms: u64) -> String {
    format!("{:.1} s", seconds(at_ms))
}

fn growth_table(recording: &Recording) -> Markup {
    if recording.growth.is_empty() {
        return markup! {};
    }
    let decided = recording.growth.iter().filter(|one| !one.is_undecided());
    let rows = decided.map(|one| Cell::row(one.part.label(), growth::cells(one)));
    let shown = FactTable::new("Growth").id("growth").name("part");
    let shown = shown.long_texts(["growth"]).numbers(["per day"]).rows(rows);
    let tolerances = tolerances(&recording.growth);
    markup! {
        section {
            h2 { "Growth" }
            @if !tolerances.is_empty() { p.soft { (capital(&tolerances)) "." } }
            @if !shown.rows.is_empty() { (table(&shown)) }
            @if let Some(open) = undecided_parts(&recording.growth) { p { (capital(&open)) "." } }
        }
    }
}

/// Classes that grow, where they were watched.
fn growing_classes(recording: &Recording) -> Markup {
    let classes = recording.end.as_ref().map(|end| end.classes.as_slice()).unwrap_or_default();
    markup! {
        @if !classes.is_empty() {
            section {
                h2 { "Classes that grow" }
                ul.also { @for class in classes { li { (class_sentence(class)) } } }
            }
        }
    }
}

/// What was allocated where, where that was asked for.
fn allocated_where(recording: &Recording) -> Markup {
    let profile = recording.end.as_ref().and_then(|end| end.allocations.as_ref());
    let Some(profile) = profile else { return markup! {} };
    let rows = allocation_text::rows(profile).into_iter().map(|[share, interval, class, place]| {
        Cell::row(place, [class, share, interval].map(Cell::text))
    });
    let shown = FactTable::new("Where it allocates").name("place").texts(["class"]);
    let shown = shown.numbers(["share", "95 % interval"]).rows(rows);
    markup! {
        section {
            h2 { (shown.label) }
            p { (allocation_text::heading(profile)) "." }
            (table(&shown))
            ul.also { @for note in allocation_text::notes(profile) { li { (capital(&note)) "." } } }
        }
    }
}

fn samples_table(samples: &[Sample]) -> FactTable {
    let tree = tracked_memory(samples);
    let every = samples.len().div_ceil(ROWS).max(1);
    let rows = samples.iter().step_by(every).map(|sample| {
        let sizes = [tree(sample), sample.uss, sample.shared].map(Cell::bytes);
        let cells = [Cell::count(sample.processes)].into_iter().chain(sizes);
        Cell::row(after(sample.at_ms), cells)
    });
    let table = FactTable::new("Memory over time").name("after");
    table.numbers(["processes", "tree", "private", "shared"]).rows(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AssertContains as _;
    use carat_model::MemberSample;
    use proptest::prelude::*;

    /// A tree whose processes share some pages: bytes shared by all, and private bytes of each.
    fn sample(at_ms: u64, shared: u64, private: &[u64]) -> Sample {
        let count = private.len() as u64;
        let member = |(slot, own): (usize, &u64)| MemberSample {
            slot: slot as u32,
            pid: 100 + slot as u32,
            pss: Some(Bytes(own + shared / count)),
            ..MemberSample::default()
        };
        let members: Vec<MemberSample> = private.iter().enumerate().map(member).collect();
        // Every process counts what it shares: three quarters of its pages are live memory of malloc.
        let counted: u64 = private.iter().map(|own| (own + shared) * 3 / 4).sum();
        let inside = InsideSample {
            probes: private.len() as u32,
            malloc_live: Some(Bytes(counted)),
            ..InsideSample::default()
        };
        Sample {
            at_ms,
            processes: private.len() as u32,
            pss: Some(members.iter().filter_map(|member| member.pss).sum()),
            members,
            inside: Some(inside),
            ..Sample::default()
        }
    }

    fn top(plot: &Plot, at: f64) -> f64 {
        let points = plot.lines.iter().flat_map(|line| &line.points).filter(|point| point.0 == at);
        points.map(|point| point.1).fold(0.0, f64::max)
    }

    proptest! {
        #[test]
        fn no_picture_of_a_tree_counts_shared_memory_twice(
            moments in prop::collection::vec(
                (0..900_000_000_u64, prop::collection::vec(1_000_000..300_000_000_u64, 4)),
                2..20,
            )
        ) {
            let samples: Vec<Sample> = (0_u64..)
                .zip(&moments)
                .map(|(second, (shared, private))| sample(second * 1000, *shared, private))
                .collect();
            let stacked = layers(&samples, &ProcessNames::new()).unwrap();
            let inside = inside_plot(&samples).unwrap();
            for sample in &samples {
                let (at, tree) = (seconds(sample.at_ms), sample.pss.unwrap().0 as f64);
                prop_assert!((top(&stacked, at) - tree).abs() < 1.0, "the layers add up to the tree");
                prop_assert!(top(&inside, at) <= tree, "{} of {tree}", top(&inside, at));
            }
        }
    }

    #[test]
    fn the_facts_say_which_memory_they_are_of() {
        let mut recording = crate::testing::recording();
        recording.samples = vec![Sample { rss: Some(Bytes(31_560_000)), ..Sample::default() }];
        let ledger = carat_model::Ledger { pss: Bytes(27_300_000), ..Default::default() };
        recording.ledger = Some(ledger);
        let page = key_facts(&recording).into_string();
        page.assert_contains(["highest (RSS)", "at the end (RSS)", "at the end (PSS)", "27.30 MB"]);
        recording.samples = vec![sample(0, 5, &[9_000_000, 8_000_000])];
        let page = key_facts(&recording).into_string();
        assert!(page.contains("highest (PSS)") && !page.contains("RSS"), "{page}");
    }

    #[test]
    fn all_pictures_have_the_same_axes() {
        let samples = [sample(0, 5, &[9_000_000, 8_000_000]), sample(4000, 5, &[9_000_000, 1])];
        let mut stacked = layers(&samples, &ProcessNames::new()).unwrap();
        let mut inside = inside_plot(&samples).unwrap();
        with_equal_axes(&mut [&mut stacked, &mut inside]);
        assert_eq!((stacked.x_range, stacked.y_range), (inside.x_range, inside.y_range));
        assert_eq!(stacked.x_range, Some((0.0, 4.0)));
        assert!(stacked.y_range.unwrap().1 > 17e6, "{:?}", stacked.y_range);
    }
}
