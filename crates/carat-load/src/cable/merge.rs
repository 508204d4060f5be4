//! Merges the threads' parts of a cable load.
//!
//! A broadcast is complete when the connections of all threads have it. So figures about all connections, such as the last
//! receipt, are computed from merged rows and never from one thread's distribution.

use crate::cable::counts::{CableCounts, StageTimes, StepShare};
use crate::cable::pending::BroadcastTimes;
use crate::histogram::DurationHistogram;
use crate::schedule::DueSpan;
use carat_model::load::{BroadcastRow, StepReport};
use std::collections::BTreeMap;

/// The sum of what all threads counted.
pub(super) fn merge(counts: Vec<CableCounts>) -> CableCounts {
    let mut whole = CableCounts::default();
    let mut steps: Vec<Vec<StepShare>> = Vec::new();
    for mut one in counts {
        // Steps are matched by place: every thread runs the same steps in the same order.
        for (at, part) in std::mem::take(&mut one.shares).into_iter().enumerate() {
            if steps.len() <= at {
                steps.push(Vec::new());
            }
            steps[at].push(part);
        }
        whole.add(&one);
    }
    for parts in steps {
        for part in &parts {
            whole.delivery.merge(&part.times.delivery);
        }
        whole.paces.extend(pace(&parts));
        whole.steps.push(step(parts));
    }
    whole
}

/// The pace of the sends ([`DueSpan::pace`]); `None` if there were not two.
fn pace(parts: &[StepShare]) -> Option<f64> {
    let first = parts.iter().filter_map(|part| part.first_send).min()?;
    let last = parts.iter().map(|part| part.last_send).max()?;
    let mut due = DueSpan::default();
    parts.iter().for_each(|part| due.merge(&part.due_span));
    due.pace(last.since(first) as f64 / 1e9)
}

fn step(parts: Vec<StepShare>) -> StepReport {
    let mut report = StepReport::default();
    let (mut times, mut stages) = (BroadcastTimes::default(), StageTimes::default());
    let mut rows: BTreeMap<u64, BroadcastRow> = BTreeMap::new();
    // The window of a step is from the first thread that begins to the last that ends.
    let begun = parts.iter().map(|part| part.begun.millis()).min().unwrap_or_default();
    let ended = parts.iter().map(|part| part.ended.millis()).max().unwrap_or_default();
    report.window_ms = (begun, ended);
    for part in parts {
        report.clients += part.clients;
        report.ramp_s = report.ramp_s.max(part.ramp_s);
        times.delivery.merge(&part.times.delivery);
        times.own.merge(&part.times.own);
        times.ack.merge(&part.times.ack);
        stages.connect.merge(&part.stages.connect);
        stages.welcome.merge(&part.stages.welcome);
        stages.confirm.merge(&part.stages.confirm);
        for row in part.rows {
            rows.entry(row.number)
                .and_modify(|whole| *whole = merge_rows(whole, &row))
                .or_insert(row);
        }
    }
    report.broadcasts = rows.into_values().collect();
    report.times = named(&report.broadcasts, &times, &stages);
    let sum = |of: fn(&BroadcastRow) -> u32| -> u64 {
        report.broadcasts.iter().map(|row| u64::from(of(row))).sum()
    };
    (report.expected, report.received) = (sum(|row| row.expected), sum(|row| row.received));
    report.duplicate = sum(|row| row.duplicate);
    report.missing = report.expected.saturating_sub(report.received);
    report
}

/// Merges the rows that two threads have of one broadcast.
fn merge_rows(one: &BroadcastRow, two: &BroadcastRow) -> BroadcastRow {
    // Only the sending thread knows who sent; the others have no number.
    let sender = if one.sender == u32::MAX { two } else { one };
    // A thread without connections has nothing to complete.
    let complete = match (one.expected, two.expected) {
        (0, _) => two.complete_us,
        (_, 0) => one.complete_us,
        // Complete where the slower of both is, and only if both are.
        _ => one.complete_us.zip(two.complete_us).map(|(one, two)| one.max(two)),
    };
    BroadcastRow {
        first_us: one.first_us.into_iter().chain(two.first_us).min(),
        complete_us: complete,
        expected: one.expected + two.expected,
        received: one.received + two.received,
        duplicate: one.duplicate + two.duplicate,
        ..*sender
    }
}

fn named(
    rows: &[BroadcastRow],
    times: &BroadcastTimes,
    stages: &StageTimes,
) -> BTreeMap<String, carat_model::load::Times> {
    let (mut complete, mut first, mut spread) =
        (DurationHistogram::default(), DurationHistogram::default(), DurationHistogram::default());
    for row in rows {
        // If a broadcast did not reach every subscriber, its first receipt is not comparable with that of others.
        if let Some((first_us, complete_us)) = row.first_us.zip(row.complete_us) {
            complete.record(complete_us * 1_000);
            first.record(first_us * 1_000);
            spread.record((complete_us - first_us) * 1_000);
        }
    }
    let named = [
        ("complete", &complete),
        ("delivery", &times.delivery),
        ("first", &first),
        ("own", &times.own),
        ("ack", &times.ack),
        ("spread", &spread),
        ("connect", &stages.connect),
        ("welcome", &stages.welcome),
        ("confirm", &stages.confirm),
    ];
    named.iter().filter_map(|(name, of)| Some(((*name).to_owned(), of.times()?))).collect()
}

impl CableCounts {
    /// Adds another thread's counts, without its steps.
    fn add(&mut self, other: &Self) {
        for (whole, part) in
            [(&mut self.disconnects, &other.disconnects), (&mut self.refused, &other.refused)]
        {
            for (reason, count) in part {
                *whole.entry(reason.clone()).or_default() += count;
            }
        }
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (whole, part) in [
            (&mut self.pings, other.pings),
            (&mut self.ping_gaps, other.ping_gaps),
            (&mut self.altered, other.altered),
            (&mut self.malformed, other.malformed),
            (&mut self.other, other.other),
            (&mut self.late, other.late),
            (&mut self.duplicate, other.duplicate),
            (&mut self.lost, other.lost),
            (&mut self.asked_again, other.asked_again),
            (&mut self.parsed, other.parsed),
        ] {
            *whole += part;
        }
        self.tls = self.tls.take().or_else(|| other.tls.clone());
        self.not_ready = match (self.not_ready, other.not_ready) {
            (Some((ready, asked)), Some((more, all))) => Some((ready + more, asked + all)),
            (one, two) => one.or(two),
        };
        self.cost.merge(&other.cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(
        sender: u32,
        expected: u32,
        first_us: Option<u64>,
        complete_us: Option<u64>,
    ) -> BroadcastRow {
        let received = if complete_us.is_some() { expected } else { 0 };
        BroadcastRow {
            sender,
            expected,
            received,
            first_us,
            complete_us,
            ..BroadcastRow::default()
        }
    }

    #[test]
    fn a_broadcast_is_complete_when_the_last_thread_has_it() {
        let (one, two) = (row(u32::MAX, 3, Some(20), Some(50)), row(4, 2, Some(30), Some(40)));
        for whole in [merge_rows(&one, &two), merge_rows(&two, &one)] {
            assert_eq!((whole.sender, whole.first_us, whole.complete_us), (4, Some(20), Some(50)));
            assert_eq!((whole.expected, whole.received), (5, 5));
        }
    }

    #[test]
    fn a_broadcast_that_a_thread_misses_is_not_complete_but_one_without_connections_misses_nothing()
    {
        let one = row(4, 3, Some(20), Some(50));
        assert_eq!(merge_rows(&one, &row(u32::MAX, 2, Some(30), None)).complete_us, None);
        assert_eq!(merge_rows(&row(u32::MAX, 0, None, None), &one).complete_us, Some(50));
    }
}
