//! A recording as text for a terminal.

use crate::allocation_text;
use crate::lists::largest_first;
use crate::numbers::{count, grouped_count, percent, seconds};
use crate::text::{one_line, shorten, written};
use carat_analysis::growth::{
    cause, class_in_brief, class_rate, found, grown_class, outlook_sentence, tolerances,
    undecided_parts,
};
use carat_model::recording::Recording;
use carat_model::{Bytes, ClassGrowth, LoadReport, Unit, metric};
use carat_redact::{Audience, redact_recording};
use std::fmt::{self, Write};

/// Characters of a reason; a hostile one can be of any length.
const REASON: usize = 300;
/// Classes that are listed; the page has more.
const CLASSES: usize = 5;

/// What grew, by how much and why, and the cost of recording.
pub fn growth_text(recording: &Recording) -> String {
    let recording = &redact_recording(recording, Audience::Own);
    written(|out| {
        write_growth(out, recording)?;
        write_memory(out, recording)?;
        write_allocations(out, recording)?;
        write_cost(out, recording)
    })
}

/// What was allocated where, where that was asked for.
fn write_allocations(out: &mut String, recording: &Recording) -> fmt::Result {
    let profile = recording.end.as_ref().and_then(|end| end.allocations.as_ref());
    let lines = profile.map(allocation_text::lines).unwrap_or_default();
    if !lines.is_empty() {
        writeln!(out)?;
    }
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Parts of the memory that are named.
const PARTS: usize = 4;

/// The memory at the end, and its largest parts.
fn write_memory(out: &mut String, recording: &Recording) -> fmt::Result {
    // A ledger of zero bytes is one that could not be read.
    let Some(ledger) = recording.ledger.as_ref().filter(|ledger| ledger.pss.0 > 0) else {
        return Ok(());
    };
    let parts = largest_first(&ledger.parts, |part| part.pss).into_iter().take(PARTS);
    let parts = parts.map(|part| format!("{} {}", part.kind.label(), part.pss));
    let parts = parts.collect::<Vec<_>>().join(" · ");
    writeln!(out, "\nMemory at the end: {}, most of it {parts}", ledger.pss)
}

fn write_growth(out: &mut String, recording: &Recording) -> fmt::Result {
    let length = recording.samples.last().map_or(0.0, |sample| seconds(sample.at_ms));
    writeln!(out, "Growth over {length:.0} s ({})", recording.ended())?;
    // The answer first: what grows, by how much, and who keeps it.
    let class = grown_class(recording).map(|class| one_line(&class_in_brief(class)));
    let mut lines: Vec<String> = class.into_iter().chain(cause(&recording.growth)).collect();
    let load = recording.load().and_then(|load| load.report.as_ref());
    lines.extend(load.map(load_line));
    if recording.growth.is_empty() {
        lines.push("undecided: no figure was measured twice; record for longer".to_owned());
    }
    let decided = recording.growth.iter().filter(|growth| !growth.is_undecided());
    lines.extend(decided.map(|one| format!("{:<14}{}", one.part.label(), found(one))));
    lines.extend(undecided_parts(&recording.growth));
    lines.extend(outlook_lines(recording));
    let classes = recording.end.iter().flat_map(|end| &end.classes).take(CLASSES);
    lines.extend(classes.map(class_sentence));
    lines.extend(Some(tolerances(&recording.growth)).filter(|text| !text.is_empty()));
    lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
}

/// The rate so far and what it would mean, and why what Ruby keeps could not be read.
pub(crate) fn outlook_lines(recording: &Recording) -> Vec<String> {
    let Some(end) = &recording.end else { return Vec::new() };
    let last_ms = recording.samples.last().map_or(0, |sample| sample.at_ms);
    let now_ms = recording.info.started_ms + last_ms;
    let rate = match &end.outlook {
        Some(outlook) => outlook_sentence(outlook, end, now_ms),
        None => "so far the rate of the memory is not known: too few samples".to_owned(),
    };
    let unread = end.unread.as_ref().map(|reason| {
        format!(
            "what Ruby keeps could not be read, which would prove a leak sooner: {}",
            shorten(&one_line(reason), REASON)
        )
    });
    [Some(rate), unread].into_iter().flatten().collect()
}

/// How a class grows: `Post grows by 3.0 objects per request (2.9 to 3.1, 99 % interval, 40 readings); now 9,300 objects`, and the mean of their bytes.
pub(crate) fn class_sentence(growth: &ClassGrowth) -> String {
    let (low, high) = growth.interval;
    let each = growth
        .bytes_each
        .map(|bytes| format!(", {} each on average with what they hold", Bytes(bytes as u64)));
    let kept_by =
        growth.kept_by.as_ref().map(|way| format!(", kept by {}", one_line(&way.keeper())));
    format!(
        "{} grows by {} objects per {} ({} to {}, 99 % interval, {}); now {}{}{}",
        one_line(&growth.class),
        class_rate(growth.rate),
        growth.progress.unit(),
        class_rate(low),
        class_rate(high),
        count(growth.readings, "reading"),
        grouped_count(growth.objects, "object"),
        // Of all objects of the class: those that were added may be larger.
        each.unwrap_or_default(),
        kept_by.unwrap_or_default()
    )
}

fn load_line(report: &LoadReport) -> String {
    let responses = match report.completed {
        0 => "no correct response".to_owned(),
        completed => count(completed, "response"),
    };
    let latencies = [metric::LATENCY_P50.id, metric::LATENCY_P95.id];
    let latencies = match latencies.map(|name| report.metrics.get(name)) {
        [Some(p50), Some(p95)] => {
            format!(", p50 {}, p95 {}", Unit::Seconds.show(*p50), Unit::Seconds.show(*p95))
        }
        _ => String::new(),
    };
    format!("load: {responses}, {}{latencies}", count(report.errors, "error"))
}

fn write_cost(out: &mut String, recording: &Recording) -> fmt::Result {
    let Some(end) = &recording.end else { return Ok(()) };
    let cost = &end.cost;
    writeln!(
        out,
        "Cost of recording: {:.2} s of processor time, {} of one core; {}, {} with PSS, {} late",
        cost.cpu_s,
        percent(cost.core_share, 2),
        count(cost.samples, "sample"),
        cost.full_samples,
        cost.late
    )?;
    let spent: Vec<f64> =
        recording.samples.iter().filter_map(|s| Some(s.kept.as_ref()?.cpu_s)).collect();
    if spent.is_empty() {
        return Ok(());
    }
    let (all, number) = (spent.iter().sum::<f64>(), count(spent.len(), "reading"));
    // A recording of less than a second has no share worth printing.
    let seconds = recording.samples.last().map_or(0.0, |sample| seconds(sample.at_ms)).max(1.0);
    let share = percent(all / seconds, 2);
    writeln!(
        out,
        "  and {all:.2} s, {share}, for {number} of what Ruby keeps; --no-look leaves them out"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::recording::RecordingEnd;
    use carat_model::{
        GrowthKind, PartGrowth, ProgressUnit, ReadingEvidence, SamplerCost, TrackedPart,
    };
    use carat_outside::who::{Way, WayRoot};

    #[test]
    fn what_grows_and_who_keeps_it_come_before_the_parts() {
        let root = Some(WayRoot::Global { name: "$k".into() });
        let class = ClassGrowth {
            class: "Ticket".into(),
            progress: ProgressUnit::Seconds,
            objects: 12_000,
            rate: 530.0,
            interval: (528.0, 532.0),
            readings: 12,
            bytes_each: None,
            kept_by: Some(Way { root, ..Way::default() }),
        };
        let readings = ReadingEvidence { readings: 12, proven_at: Some(23.0), to_come: None };
        let part = PartGrowth {
            rate: Some(530.0),
            interval: Some((528.0, 532.0)),
            readings: Some(readings),
            ..PartGrowth::without_figures(
                TrackedPart::KeptObjects,
                GrowthKind::Linear,
                ProgressUnit::Seconds,
                24.0,
            )
        };
        let end = RecordingEnd {
            ended: "the time was over".into(),
            load: None,
            cost: SamplerCost::default(),
            warnings: Vec::new(),
            classes: vec![class],
            limit: None,
            limit_unseen: false,
            unread: None,
            outlook: None,
            allocations: None,
        };
        let recording =
            Recording { growth: vec![part], end: Some(end), ..crate::testing::recording() };
        let text = growth_text(&recording);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Growth over 0 s (the time was over)");
        assert_eq!(
            lines[1],
            "  Ticket grows by 530 objects per second, kept by global variable $k"
        );
        assert!(lines[2].starts_with("  what grows: Ruby objects that are kept"), "{text}");
        assert!(lines[3].starts_with("  kept objects  grows by 530.00 objects"), "{text}");
    }
}
