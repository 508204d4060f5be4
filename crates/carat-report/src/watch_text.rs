//! What `carat watch` kept, as text: the last words of processes, and a period.

use crate::layout::{LEFT, Style, table_text};
use crate::lists::largest_first;
use crate::numbers::{
    bytes_change, duration, grouped_count, or_dash, or_question_mark, seconds, short_bytes,
    signed_bytes,
};
use crate::table::{Cell, FactTable};
use crate::text::{columns, fill, one_line, shorten, utc};
use carat_model::watch::{
    GroupSample, LastWords, WatchCensus, WatchSample, WatchedCurve, WatchedKeeper, WatchedPeriod,
    WatchedProcess, name_of_sizes,
};
use carat_model::{Bytes, count, grouped};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Parts and classes that are named, and bytes below which growth is not worth a line.
const NAMED: usize = 6;
const WORTH: u64 = 500_000;
/// The shortest time from which a rate is told, in milliseconds.
const SHORTEST_MS: u64 = 5 * 60_000;
/// Characters of a title and of a class.
const TITLE: usize = 70;
const CLASS: usize = 60;
/// Characters that say who keeps a class.
const KEPT: usize = 300;

/// The last words of processes, the last one first.
pub fn last_words_text(all: &[LastWords], now_ms: u64) -> String {
    let texts: Vec<String> = all.iter().map(|words| one_text(words, now_ms)).collect();
    texts.join("\n")
}

/// The name of a process: what it is, its place, its pid.
pub fn watched_name(process: &WatchedProcess) -> String {
    let mut name = process.server.to_string();
    match process.worker {
        Some(worker) => name += &format!(" worker {worker}"),
        None if process.pid == process.tree => {}
        None => name += &format!(" {}", process.role.word()),
    }
    format!("{} (pid {})", shorten(&one_line(&name), TITLE), process.pid)
}

fn one_text(words: &LastWords, now_ms: u64) -> String {
    let process = &words.process;
    let mut out = String::new();
    if let Some(end) = &process.end {
        let ago = between(end.at_ms, now_ms);
        let (name, cause) = (watched_name(process), end.cause.words());
        let _ = writeln!(out, "{name} {cause}");
        let _ = writeln!(out, "  when       {}, {ago} ago", moment(end.at_ms));
        for evidence in &end.evidence {
            let _ = writeln!(out, "  because    {evidence}");
        }
    }
    let _ = writeln!(out, "  command    {}", shorten(&one_line(&process.title), TITLE));
    out += &memory(words);
    if let Some(GroupSample { group, used, limit, .. }) = &words.group {
        let used = or_question_mark(*used);
        let _ = match limit {
            Some(limit) => {
                writeln!(out, "  limit      {used} of {limit} used in {group} at the last sample")
            }
            None => writeln!(out, "  limit      none in {group}"),
        };
    }
    out += &growth(words);
    out
}

/// The time between two moments.
fn between(from_ms: u64, to_ms: u64) -> String {
    duration(seconds(to_ms.saturating_sub(from_ms)))
}

fn memory(words: &LastWords) -> String {
    let known: Vec<(&WatchSample, Bytes)> =
        words.samples.iter().filter_map(|sample| Some((sample, sample.size()?))).collect();
    let (Some((first, first_size)), Some((last, last_size))) = (known.first(), known.last()) else {
        return "  memory     unknown: it ended before its first sample\n".into();
    };
    let highest = known.iter().map(|(_, size)| *size).max().unwrap_or_default();
    let end_ms = words.process.end.as_ref().map_or(0, |end| end.at_ms);
    let before = between(last.at_ms, end_ms);
    let of = name_of_sizes(&words.samples);
    let mut out = match last.at_ms.saturating_sub(first.at_ms) {
        0 => format!("  memory     {of} {highest} at the only sample, {before} before its end\n"),
        _ => format!(
            "  memory     {of} {last_size} at the last sample, {before} before its end; {first_size} when first seen, {} earlier; highest {highest}\n",
            between(first.at_ms, last.at_ms),
        ),
    };
    if let Some(pss) = words.samples.iter().rev().find_map(|sample| sample.pss) {
        let _ = write!(out, "             PSS {pss}");
        if let Some(swap) = last.swap.filter(|swap| swap.0 > 0) {
            let _ = write!(out, ", swap {swap}");
        }
        out.push('\n');
    }
    out
}

/// What the last reading says, compared with an earlier one.
fn growth(words: &LastWords) -> String {
    let Some(last) = &words.last else {
        return "  grown      unknown: it was not read before its end\n".into();
    };
    let mut out = String::new();
    match &words.earlier {
        Some(earlier) => {
            let [from, to] = [earlier.at_ms, last.at_ms].map(moment);
            let (passed, why) = (between(earlier.at_ms, last.at_ms), last.reason.words());
            out +=
                &format!("  grown      from {from} to {to} ({passed}; then read because {why})\n");
            let parts = grown_parts(earlier, last);
            let classes = grown_classes(earlier, last);
            if parts.is_empty() && classes.is_empty() {
                out += "             nothing by more than 0.5 MB\n";
            }
            out += &aligned(&parts);
            out += &aligned(&classes);
        }
        None if last.is_empty() => out += "  grown      unknown: it could not be read\n",
        None => {
            let at = moment(last.at_ms);
            let _ = writeln!(out, "  composed   at {at}, the only reading: growth is unknown");
            out += &aligned(&present_parts(last));
        }
    }
    out += &last.kept.as_ref().map(kept).unwrap_or_default();
    for reason in last.unknown.iter().take(3) {
        let _ = writeln!(out, "  unknown    {reason}");
    }
    out
}

/// Who keeps what had grown most.
fn kept(kept: &WatchedKeeper) -> String {
    let class = shorten(&one_line(&kept.class), CLASS);
    let text = shorten(&one_line(&kept.text), KEPT);
    let (at, objects) = (moment(kept.at_ms), grouped_count(kept.objects, "object"));
    match kept.is_known {
        true => format!("  kept       at {at} {class} ({objects}): {text}\n"),
        false => format!("  kept       who keeps {class} is unknown: {text}\n"),
    }
}

fn grown_parts(earlier: &WatchCensus, last: &WatchCensus) -> Vec<(String, String)> {
    let before: BTreeMap<_, _> = earlier.parts.iter().copied().collect();
    // A part that is missing from a reading that could not tell the heap is unknown, not grown.
    let comparable = |kind| before.contains_key(kind) || earlier.unknown.is_empty();
    let parts = last.parts.iter().filter(|(kind, _)| comparable(kind));
    let grown = parts
        .map(|(kind, now)| (kind.label(), before.get(kind).copied().unwrap_or_default(), *now))
        .filter(|(_, before, now)| now.0.saturating_sub(before.0) >= WORTH);
    let grown = largest_first(grown, |(_, before, now)| now.0 - before.0);
    let lines = grown.into_iter().take(NAMED).map(|(label, before, now)| {
        let [before, now] = [before, now].map(|bytes| bytes.0 as f64);
        let change = signed_bytes(now - before, now);
        (label.to_owned(), format!("{change}  ({})", bytes_change(before, now)))
    });
    lines.collect()
}

fn grown_classes(earlier: &WatchCensus, last: &WatchCensus) -> Vec<(String, String)> {
    let before: BTreeMap<&str, _> =
        earlier.classes.iter().map(|class| (class.name.as_str(), class)).collect();
    let mut grown = Vec::new();
    for class in &last.classes {
        let (objects, bytes) = match before.get(class.name.as_str()) {
            Some(known) => (known.objects, known.bytes()),
            // Not listed then means fewer bytes than every class that was.
            None if earlier.cut => continue,
            None => (0, Bytes(0)),
        };
        let added = class.objects.saturating_sub(objects);
        let more = class.bytes().saturating_sub(bytes).0;
        // Slots alone hide what the objects hold, so that many objects count too.
        if added > 0 && (more >= WORTH || added >= 1000) {
            grown.push((more, class, added));
        }
    }
    let grown = largest_first(grown, |(more, ..)| *more);
    let lines = grown.into_iter().take(NAMED).map(|(more, class, added)| {
        let with = if class.malloc_bytes.is_some() { "" } else { " of slots" };
        let (added, now) = (grouped_count(added, "object"), grouped(class.objects));
        let more = short_bytes(more as f64);
        let name = shorten(&one_line(&class.name), CLASS);
        (name, format!("+{added}, {now} now; +{more}{with}"))
    });
    lines.collect()
}

fn present_parts(last: &WatchCensus) -> Vec<(String, String)> {
    let parts = largest_first(&last.parts, |(_, bytes)| *bytes).into_iter().take(NAMED);
    parts.map(|(kind, bytes)| (kind.label().to_owned(), bytes.to_string())).collect()
}

fn aligned(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(name, _)| columns(name)).max().unwrap_or(0);
    let line = |(name, text): &(String, String)| {
        format!("             {name}{}  {text}\n", fill(name, width))
    };
    rows.iter().map(line).collect()
}

/// A moment in UTC: `2026-11-21 02:14:07 UTC`.
pub(crate) fn moment(unix_ms: u64) -> String {
    let Some(time) = utc(unix_ms) else { return "unknown time".to_owned() };
    let (hour, minute, second) = time.to_hms();
    format!("{} {hour:02}:{minute:02}:{second:02} UTC", time.date())
}

/// A period as a table: a line for each process.
pub fn watched_text(period: &WatchedPeriod) -> String {
    if period.processes.is_empty() {
        return "No process was followed in this time.\n".into();
    }
    let style = Style { width: usize::MAX, ..Style::default() };
    let table = table_text(&watched_table(period), style, LEFT);
    let processes = count(period.processes.len(), "process");
    let events = count(period.events.len(), "event");
    let [from, to] = [period.from_ms, period.to_ms].map(moment);
    let of = name_of_sizes(period.processes.iter().flat_map(|curve| &curve.samples));
    format!("{table}{processes} and {events} from {from} to {to}. Sizes are {of}.\n")
}

/// A row for each process.
pub(crate) fn watched_table(period: &WatchedPeriod) -> FactTable {
    FactTable::new("Processes")
        .texts(["process"])
        .page_texts(["first seen"])
        .numbers(["samples", "first", "last", "highest", "growth/h"])
        .page_texts(["ended"])
        .texts(["end"])
        .rows(period.processes.iter().map(|curve| row(curve).map(Cell::text).into()))
}

fn row(curve: &WatchedCurve) -> [String; 9] {
    let sizes: Vec<(u64, Bytes)> =
        curve.samples.iter().filter_map(|one| Some((one.at_ms, one.size()?))).collect();
    let end = curve.process.end.as_ref();
    [
        watched_name(&curve.process),
        moment(curve.process.first_ms),
        grouped(curve.samples.len() as u64),
        or_question_mark(sizes.first().map(|one| one.1)),
        or_question_mark(sizes.last().map(|one| one.1)),
        or_question_mark(sizes.iter().map(|one| one.1).max()),
        or_question_mark(hourly(&sizes).map(|rate| signed_bytes(rate, rate))),
        or_dash(end.map(|end| moment(end.at_ms))),
        end.map_or("none seen".into(), |end| end.cause.words()),
    ]
}

/// Bytes per hour in the second half, between the medians of its two halves; `None` where there are too few samples.
pub(crate) fn hourly(sizes: &[(u64, Bytes)]) -> Option<f64> {
    // The first half may be the start of the server, which grows without a leak.
    let later = sizes.get(sizes.len() / 2..).filter(|later| later.len() >= 6)?;
    // What a minute did says nothing about an hour.
    if later.last()?.0.saturating_sub(later.first()?.0) < SHORTEST_MS {
        return None;
    }
    let (one, other) = later.split_at(later.len() / 2);
    let middle = |half: &[(u64, Bytes)]| {
        let mut bytes: Vec<u64> = half.iter().map(|one| one.1.0).collect();
        bytes.sort_unstable();
        Some((half.get(half.len() / 2)?.0 as f64, *bytes.get(bytes.len() / 2)? as f64))
    };
    let (before, after) = (middle(one)?, middle(other)?);
    let hours = (after.0 - before.0) / 3.6e6;
    (hours > 0.0).then(|| (after.1 - before.1) / hours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AssertContains as _;
    use carat_model::host::{ProcessRole, ServerName};
    use carat_model::ledger::PartKind;
    use carat_model::watch::{CensusReason, EndCause, ProcessEnd, WatchedClass};

    const START: u64 = 1_795_000_000_000;

    fn census(at_ms: u64, malloc: u64, strings: u64) -> WatchCensus {
        let class = |name: &str, objects| WatchedClass {
            name: name.into(),
            objects,
            slot_bytes: objects * 40,
            malloc_bytes: None,
        };
        WatchCensus {
            at_ms,
            reason: CensusReason::Grew,
            pss: Some(Bytes(malloc)),
            parts: vec![(PartKind::MallocLive, Bytes(malloc)), (PartKind::Stacks, Bytes(100))],
            objects: Some(strings),
            classes: vec![class("String", strings), class("Hash", 10)],
            cut: true,
            ..WatchCensus::default()
        }
    }

    fn words() -> LastWords {
        let sample =
            |at_ms, rss| WatchSample { at_ms, rss: Some(Bytes(rss)), ..Default::default() };
        let end = ProcessEnd {
            at_ms: START + 3_604_000,
            cause: EndCause::Oom,
            evidence: vec!["SIGKILL ended it".into()],
        };
        let server = ServerName { program: "puma".into(), version: Some("6.6".into()), app: None };
        let process = WatchedProcess {
            pid: 4312,
            server,
            role: ProcessRole::Worker,
            worker: Some(1),
            title: "puma: cluster worker 1".into(),
            end: Some(end),
            ..WatchedProcess::default()
        };
        LastWords {
            process,
            samples: vec![sample(START, 100_000_000), sample(START + 3_600_000, 500_000_000)],
            group: Some(GroupSample {
                group: "/app".into(),
                used: Some(Bytes(510_000_000)),
                limit: Some(Bytes(512_000_000)),
                ..GroupSample::default()
            }),
            earlier: Some(census(START, 50_000_000, 2_000)),
            last: Some(census(START + 3_590_000, 450_000_000, 202_000)),
        }
    }

    #[test]
    fn last_words_say_how_it_ended_how_large_it_was_and_what_had_grown() {
        let text = last_words_text(&[words()], START + 3_664_000);
        text.assert_contains([
            "puma 6.6 worker 1 (pid 4312) was killed by the kernel because memory ran out",
            ", 60 s ago",
            "because    SIGKILL ended it",
            "RSS 500.0 MB at the last sample, 4.0 s before its end; 100.0 MB when first seen",
            "510.0 MB of 512.0 MB used in /app",
            "malloc, live  +400.0 MB  (50.0 → 450.0 MB)",
            "+200,000 objects, 202,000 now; +8.00 MB of slots",
        ]);
        assert!(!text.contains("Hash"), "{text}");
    }

    #[test]
    fn who_keeps_what_grew_is_said_with_its_moment_and_otherwise_why_it_is_unknown() {
        let with = |text: &str, is_known| {
            let kept = WatchedKeeper {
                at_ms: START + 3_000_000,
                class: "Visit".into(),
                objects: 20_000,
                text: text.into(),
                is_known,
            };
            let mut words = words();
            words.last.iter_mut().for_each(|last| last.kept = Some(kept.clone()));
            last_words_text(&[words], START)
        };
        let known = with("19,990 of 20,000 by $visits", true);
        let line = "  kept       at 2026-11-18 11:56:40 UTC Visit (20,000 objects): 19,990 of 20,000 by $visits\n";
        assert!(known.contains(line), "{known}");
        let unknown = with("it is too large", false);
        let line = "  kept       who keeps Visit is unknown: it is too large\n";
        assert!(unknown.contains(line), "{unknown}");
    }

    #[test]
    fn what_was_never_read_is_unknown() {
        let unread = LastWords { earlier: None, last: None, samples: Vec::new(), ..words() };
        let text = last_words_text(&[unread], START);
        text.assert_contains(["grown      unknown", "memory     unknown"]);
        let once = LastWords { earlier: None, ..words() };
        assert!(last_words_text(&[once], START).contains("the only reading: growth is unknown"));
        let unknown = vec!["it belongs to another user".into()];
        let refused = WatchCensus { unknown, ..WatchCensus::default() };
        let refused = LastWords { earlier: None, last: Some(refused), ..words() };
        let text = last_words_text(&[refused], START);
        let expected =
            "  grown      unknown: it could not be read\n  unknown    it belongs to another user\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn a_period_has_a_line_for_each_process_and_the_rate_of_its_second_half() {
        let samples = (0..100).map(|n| WatchSample {
            at_ms: START + n * 60_000,
            rss: Some(Bytes(100_000_000 + n * 1_000_000)),
            ..WatchSample::default()
        });
        let curve = WatchedCurve { process: words().process, samples: samples.collect() };
        let period = WatchedPeriod { processes: vec![curve], ..WatchedPeriod::default() };
        let text = watched_text(&period);
        text.assert_contains(["+60.0 MB", "199.0 MB", "Sizes are RSS.\n"]);
        // As if the kernel kept 60 MB in memory.
        let mut swapped = period;
        for sample in &mut swapped.processes[0].samples {
            let size = sample.rss.replace(Bytes(60_000_000)).unwrap_or_default();
            sample.swap = Some(size - Bytes(60_000_000));
        }
        watched_text(&swapped).assert_contains(["+60.0 MB", "199.0 MB", "Sizes are RSS and swap."]);
        let minute: Vec<(u64, Bytes)> = (0..60).map(|n| (n * 1000, Bytes(n))).collect();
        assert_eq!(hourly(&minute), None);
        assert!(watched_text(&WatchedPeriod::default()).contains("No process"));
    }
}
