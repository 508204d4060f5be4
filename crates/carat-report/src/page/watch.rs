//! The page of a period of `carat watch`: a curve for each process, how they ended, and what happened.

use crate::chart::{Axis, Caption, Plot, PlotLine, Stroke, reduce};
use crate::lists::{grouped_in_order, largest_first};
use crate::page::{Gallery, PageOptions, page, table};
use crate::text::{one_line, shorten};
use crate::watch_text::{moment, watched_name, watched_table};
use carat_model::watch::{WatchSample, WatchedCurve, WatchedPeriod, name_of_sizes};
use carat_model::{Bytes, Unit, count};
use carat_redact::Audience;
use maud::{Markup, html as markup};
use std::collections::BTreeMap;

/// Columns of a line; each keeps its minimum and maximum.
const COLUMNS: usize = 400;
/// Trees that are drawn, processes of each, and rows of the table of events.
const TREES: usize = 12;
const LINES: usize = 12;
const EVENTS: usize = 400;

/// The page: one file that makes no request.
pub fn watch_html(period: &WatchedPeriod, options: &PageOptions) -> String {
    let period = &prepared(period, options.audience);
    let title = format!(
        "{} from {} to {}",
        count(period.processes.len(), "process"),
        moment(period.from_ms),
        moment(period.to_ms)
    );
    let trees = grouped_in_order(period.processes.iter().map(|one| (one.process.tree, one)));
    let trees =
        largest_first(trees.into_values(), |tree| tree.iter().filter_map(|one| highest(one)).max());
    let left_out = trees.len().saturating_sub(TREES);
    let sizes = name_of_sizes(period.processes.iter().flat_map(|curve| &curve.samples));
    let mut gallery = Gallery::default();
    let contents = markup! {
        h1 { (title) }
        section #memory-over-time {
            h2 { "Memory over time" }
            p.soft { (sizes) " of each process. Older samples were thinned: of a minute or an hour the largest is kept." }
            div.grid2 {
                @for (number, tree) in trees.iter().take(TREES).enumerate() {
                    (panel(tree, number, period, &mut gallery))
                }
            }
            @if left_out > 0 { p.soft { (count(left_out, "smaller tree")) " not drawn." } }
        }
        section #processes { h2 { "Processes" } (table(&watched_table(period))) }
        section #events { h2 { "Events" } (events(period)) }
    };
    page(&title, (&markup! { "Carat watch" }, &contents), (gallery, &[]), options)
}

/// Without names of the app and command lines where others read the page.
fn prepared(period: &WatchedPeriod, audience: Audience) -> WatchedPeriod {
    let mut period = period.clone();
    for curve in &mut period.processes {
        let process = &mut curve.process;
        process.title = shorten(&one_line(&process.title), 400);
        if audience == Audience::Shared {
            process.title.clear();
            (process.server.app, process.group) = (None, None);
        }
    }
    period
}

fn highest(curve: &WatchedCurve) -> Option<Bytes> {
    curve.samples.iter().filter_map(WatchSample::size).max()
}

fn panel(
    tree: &[&WatchedCurve],
    number: usize,
    period: &WatchedPeriod,
    gallery: &mut Gallery,
) -> Markup {
    let since = |at_ms: u64| at_ms.saturating_sub(period.from_ms) as f64 / 1e3;
    let largest = largest_first(tree, |one| highest(one));
    let lines = largest.iter().take(LINES).enumerate().map(|(class, curve)| {
        let points: Vec<(f64, f64)> = curve
            .samples
            .iter()
            .filter_map(|one| Some((since(one.at_ms), one.size()?.0 as f64)))
            .collect();
        let points = reduce(&points, COLUMNS);
        PlotLine::new(curve.process.pid.to_string(), class, Stroke::Main, points)
    });
    let ends = tree.iter().filter_map(|curve| {
        let end = curve.process.end.as_ref()?;
        Some((since(end.at_ms), format!("{} ends", curve.process.pid)))
    });
    let (x, y) = (Axis::Linear(Unit::Seconds), Axis::Linear(Unit::Bytes));
    let plot = Plot::new(x, "since the beginning of the period", y, lines.collect());
    let plot = Plot { markers: ends.take(20).collect(), ..plot };
    let title = tree.first().map(|curve| watched_name(&curve.process)).unwrap_or_default();
    let caption = Caption::new(format!("watch-{number}"), &title, &title);
    gallery.panel(&title, plot.draw(caption))
}

fn events(period: &WatchedPeriod) -> Markup {
    let names: BTreeMap<i64, String> = period
        .processes
        .iter()
        .map(|curve| (curve.process.number, watched_name(&curve.process)))
        .collect();
    let last = period.events.len().saturating_sub(EVENTS);
    markup! {
        @if last > 0 { p.soft { "The last " (EVENTS) " of " (period.events.len()) "." } }
        ul {
            @for event in &period.events[last..] {
                li {
                    (moment(event.at_ms)) ": "
                    @if let Some(name) = event.process.and_then(|number| names.get(&number)) { (name) " " }
                    (shorten(&one_line(&event.text), 400))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::watch::{WatchEvent, WatchedProcess};

    #[test]
    fn the_page_draws_each_process_and_a_shared_one_has_no_command_line() {
        let samples = (0..50_u64).map(|n| WatchSample {
            at_ms: n * 1000,
            rss: Some(Bytes(n * 1_000_000)),
            ..WatchSample::default()
        });
        let mut process = WatchedProcess { number: 3, pid: 77, tree: 77, ..Default::default() };
        process.server.program = "puma".into();
        process.server.app = Some("secret-app".into());
        let curve = WatchedCurve { process, samples: samples.collect() };
        let event = WatchEvent { at_ms: 5, process: Some(3), text: "<b>odd</b>".into() };
        let period = WatchedPeriod {
            to_ms: 50_000,
            processes: vec![curve],
            events: vec![event],
            ..WatchedPeriod::default()
        };
        let page = watch_html(&period, &PageOptions::default());
        assert!(page.contains("secret-app (pid 77)") && page.contains("<svg"), "{page}");
        assert!(page.contains("&lt;b&gt;odd"));
        let options = PageOptions { audience: Audience::Shared, ..PageOptions::default() };
        assert!(!watch_html(&period, &options).contains("secret-app"));
    }
}
