//! Memory at each moment: what the terminal, Markdown and the page show of it, and the names of moments.

use crate::facts;
use crate::numbers::{duration, grouped, grouped_count};
use crate::table::{Cell, FactTable};
use carat_model::{MemoryFigure, MetricMoment, Moment, MomentComparison, Results, Unit, metric};

/// What every format says of the intervals.
pub(crate) const EXPLORATORY: &str =
    "exploratory: the intervals are not adjusted for the number of moments, and none is a verdict";

/// The memory that the experiment is about: resident memory if the experiment is about it and the moments have it, or if they lack PSS.
pub(crate) fn figure(results: &Results) -> MemoryFigure {
    let has = |figure| results.moments.iter().any(|one| one.figure == figure);
    let wanted = results.info.primary.contains(".rss.") && has(MemoryFigure::Rss);
    // What the experiment is about; PSS otherwise, which every tree has.
    if wanted || !has(MemoryFigure::Pss) { MemoryFigure::Rss } else { MemoryFigure::Pss }
}

/// One figure by moment and variant; empty unless the experiment asks for a moment beyond those of every trial.
pub(crate) fn of_figure(results: &Results, figure: MemoryFigure) -> Vec<&MomentComparison> {
    // Without requested moments there are only the usual ones, which have other places.
    if !results.moments.iter().any(|one| one.moment.is_requested()) {
        return Vec::new();
    }
    results.moments.iter().filter(|one| one.figure == figure).collect()
}

/// The word of a moment in a file or at an axis, and how a number of requests is written.
pub(crate) fn key(moment: Moment, requests: fn(u64) -> String) -> String {
    match moment {
        Moment::Ready => "ready".to_owned(),
        Moment::Start => "start".to_owned(),
        Moment::Requests(n) => requests(n),
        Moment::End => "end".to_owned(),
        Moment::Idle => "idle".to_owned(),
    }
}

/// The name of a moment in a table.
pub(crate) fn name(results: &Results, moment: Moment) -> String {
    match moment {
        Moment::Ready => "ready".to_owned(),
        Moment::Start => "start of the load".to_owned(),
        Moment::Requests(n) => format!("after {} {}", grouped(n), unit_of_load(results)),
        Moment::End => MetricMoment::AfterLoad.words().to_owned(),
        Moment::Idle => after_idle(results),
    }
}

/// A row per moment and variant.
pub(crate) fn table(results: &Results, shown: &[&MomentComparison], label: &str) -> FactTable {
    let rows = shown.iter().map(|one| {
        let blocks = Some(f64::from(one.blocks)).filter(|blocks| *blocks > 0.0);
        vec![
            Cell::text(name(results, one.moment)),
            Cell::text(&one.variant),
            Cell::count(one.trials),
            Cell::shown(one.answered, |answered| grouped(answered as u64)),
            Cell::amount(Unit::Bytes, one.median),
            Cell::amount(Unit::Bytes, one.range.0),
            Cell::amount(Unit::Bytes, one.range.1),
            Cell::shown(blocks, |blocks| blocks.to_string()),
            // A metric with the unit of all figures at moments.
            Cell::estimate(metric::MEMORY_PSS_FINAL.id, one.estimate.as_ref()),
        ]
    });
    FactTable::new(label)
        .texts(["moment", "variant"])
        .numbers(["n"])
        .page_numbers(["answered"])
        .numbers(["median"])
        .page_numbers(["minimum", "maximum", "blocks"])
        .texts(["difference"])
        .rows(rows)
}

/// The name of a metric in a sentence, with its moment. An unknown id, as an older or newer file may have, stands for
/// itself.
pub(crate) fn phrase(results: &Results, metric: &str) -> String {
    let Some(known) = metric::find(metric) else { return metric.to_owned() };
    match known.moment {
        // A command that ends by itself has no load.
        None if known.id == metric::CPU_SERVER.id && facts::is_run(results) => {
            "CPU time".to_owned()
        }
        Some(moment) => format!("{} {}", known.phrase, metric_moment(results, moment)),
        None => known.phrase.to_owned(),
    }
}

/// The moment of a metric in words, with the number of requests or the idle time of these results where it has one.
pub(crate) fn metric_moment(results: &Results, moment: MetricMoment) -> String {
    match moment {
        MetricMoment::AfterLoad => match facts::requests(results) {
            Some(n) => format!("after {}", grouped_count(n, "request")),
            None => moment.words().to_owned(),
        },
        MetricMoment::AfterIdle => after_idle(results),
        MetricMoment::LastQuarter if facts::is_run(results) => {
            "over the last quarter of the run".to_owned()
        }
        other => other.words().to_owned(),
    }
}

/// The time from the sample after the load to the idle one, as it was measured.
fn after_idle(results: &Results) -> String {
    let at = |moment| results.moments.iter().find(|one| one.moment == moment).map(|one| one.at_s);
    match at(Moment::End).zip(at(Moment::Idle)) {
        Some((end, idle)) => format!("after {} idle", duration((idle - end).max(0.0))),
        None => MetricMoment::AfterIdle.words().to_owned(),
    }
}

/// A cable load, which has steps, counts broadcasts.
pub(crate) fn unit_of_load(results: &Results) -> &'static str {
    let mut loads = results.trials.iter().filter_map(|trial| trial.load.as_ref());
    if loads.any(|load| !load.steps.is_empty()) { "broadcasts" } else { "requests" }
}
