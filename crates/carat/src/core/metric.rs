//! The closed list of metrics: a number of a trial with a name and a unit.

use serde::{Deserialize, Serialize};

/// What a metric counts in; the words are those of JSON and SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes of memory.
    Bytes,
    /// Seconds.
    Seconds,
    /// Events per second.
    PerSecond,
    /// A share between 0 and 1.
    Fraction,
    /// A plain count.
    Count,
}

/// Which direction a user wants, and so which words a verdict uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Smaller is better.
    Lower,
    /// Larger is better.
    Higher,
}

/// One entry of the list.
#[derive(Debug, Clone, Copy)]
pub struct MetricInfo {
    /// The name in files, SQL, JSON and reports.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Which direction is better.
    pub better: Better,
    /// What it is, in one sentence without a full stop.
    pub what: &'static str,
}

const fn metric(name: &'static str, unit: Unit, better: Better, what: &'static str) -> MetricInfo {
    MetricInfo { name, unit, better, what }
}

/// Every metric that a trial can have.
pub const METRICS: &[MetricInfo] = &[
    metric(
        "memory.rss.final",
        Unit::Bytes,
        Better::Lower,
        "resident memory of the one server process after the last request",
    ),
    metric(
        "memory.pss.final",
        Unit::Bytes,
        Better::Lower,
        "proportional memory of the whole process tree after the last request",
    ),
    metric(
        "memory.pss.late",
        Unit::Bytes,
        Better::Lower,
        "median proportional memory of the tree over the last quarter of the load",
    ),
    metric(
        "memory.rss.late",
        Unit::Bytes,
        Better::Lower,
        "median resident memory of the one server process over the last quarter of the load",
    ),
    metric(
        "memory.uss.final",
        Unit::Bytes,
        Better::Lower,
        "memory that only this tree's processes hold privately, after the last request",
    ),
    metric(
        "memory.pss.peak",
        Unit::Bytes,
        Better::Lower,
        "highest proportional memory of the tree that was sampled",
    ),
    metric(
        "memory.rss.peak",
        Unit::Bytes,
        Better::Lower,
        "highest resident memory of the one server process, as the kernel recorded it",
    ),
    metric(
        "memory.pss.ready",
        Unit::Bytes,
        Better::Lower,
        "proportional memory of the tree when ready, before any load",
    ),
    metric(
        "memory.rss.ready",
        Unit::Bytes,
        Better::Lower,
        "resident memory of the one server process when ready, before any load",
    ),
    metric(
        "memory.shared.final",
        Unit::Bytes,
        Better::Higher,
        "memory of the tree that is shared with another process, after the last request",
    ),
    metric(
        "memory.system.final",
        Unit::Bytes,
        Better::Lower,
        "fall of the machine's available memory since before the server started",
    ),
    metric(
        "latency.p50",
        Unit::Seconds,
        Better::Lower,
        "median time from the intended send to the whole response",
    ),
    metric(
        "latency.p95",
        Unit::Seconds,
        Better::Lower,
        "95th percentile of the time from the intended send to the whole response",
    ),
    metric(
        "latency.p99",
        Unit::Seconds,
        Better::Lower,
        "99th percentile of the time from the intended send to the whole response",
    ),
    metric(
        "latency.p99.9",
        Unit::Seconds,
        Better::Lower,
        "99.9th percentile of the time from the intended send to the whole response",
    ),
    metric(
        "latency.max",
        Unit::Seconds,
        Better::Lower,
        "longest time from the intended send to the whole response",
    ),
    metric(
        "broadcast.complete.p50",
        Unit::Seconds,
        Better::Lower,
        "median time until every subscriber has a broadcast",
    ),
    metric(
        "broadcast.complete.p95",
        Unit::Seconds,
        Better::Lower,
        "95th percentile of the time until every subscriber has a broadcast",
    ),
    metric(
        "broadcast.complete.p50.steps",
        Unit::Seconds,
        Better::Lower,
        "geometric mean over all connection steps of the median time until every subscriber has a broadcast",
    ),
    metric(
        "broadcast.complete.p95.steps",
        Unit::Seconds,
        Better::Lower,
        "geometric mean over all connection steps of the 95th percentile of the time until every subscriber has a broadcast",
    ),
    metric(
        "broadcast.own.p50",
        Unit::Seconds,
        Better::Lower,
        "median time until the sender has its own broadcast's result",
    ),
    metric(
        "broadcast.own.p95",
        Unit::Seconds,
        Better::Lower,
        "95th percentile of the time until the sender has its own broadcast's result",
    ),
    metric(
        "broadcast.first.p50",
        Unit::Seconds,
        Better::Lower,
        "median time until the first subscriber has a broadcast",
    ),
    metric(
        "broadcast.first.p95",
        Unit::Seconds,
        Better::Lower,
        "95th percentile of the time until the first subscriber has a broadcast",
    ),
    metric(
        "broadcast.delivery.p50",
        Unit::Seconds,
        Better::Lower,
        "median time until a subscriber has a broadcast, over all deliveries",
    ),
    metric(
        "broadcast.delivery.p95",
        Unit::Seconds,
        Better::Lower,
        "95th percentile of the time until a subscriber has a broadcast, over all deliveries",
    ),
    metric(
        "throughput",
        Unit::PerSecond,
        Better::Higher,
        "correct responses or deliveries per second of load",
    ),
    metric("errors", Unit::Fraction, Better::Lower, "share of requests without a correct response"),
    metric(
        "cpu.server",
        Unit::Seconds,
        Better::Lower,
        "processor time of the server tree during the load",
    ),
    metric("boot.time", Unit::Seconds, Better::Lower, "time from exec to ready"),
    metric("gc.count", Unit::Count, Better::Lower, "collections in the tree during the load"),
    metric(
        "gc.major.count",
        Unit::Count,
        Better::Lower,
        "full collections in the tree during the load",
    ),
    metric(
        "gc.time",
        Unit::Seconds,
        Better::Lower,
        "time spent collecting in the tree during the load",
    ),
];

/// Values that have to lie beyond a percentile: so few more or less are chance.
pub const BEYOND: u64 = 10;

/// Requests of a trial below which a percentile is unknown, because fewer than [`BEYOND`] of them would lie beyond it.
pub fn requests_needed(name: &str) -> u64 {
    match name {
        "latency.p99" => 100 * BEYOND,
        "latency.p99.9" => 1_000 * BEYOND,
        _ => 0,
    }
}

/// The entry of that name.
pub fn find(name: &str) -> Option<&'static MetricInfo> {
    METRICS.iter().find(|metric| metric.name == name)
}

impl Unit {
    /// The value as a reader wants it, with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Bytes if value < 0.0 => format!("-{}", super::Bytes((-value) as u64)),
            Self::Bytes => super::Bytes(value as u64).to_string(),
            Self::Seconds if value.abs() < 1e-3 => format!("{:.0} µs", value * 1e6),
            Self::Seconds if value.abs() < 1.0 => format!("{:.2} ms", value * 1e3),
            Self::Seconds => format!("{value:.2} s"),
            Self::PerSecond => format!("{value:.1}/s"),
            Self::Fraction => format!("{:.2} %", value * 100.0),
            Self::Count => format!("{value:.0}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_name_of_its_own() {
        for (i, one) in METRICS.iter().enumerate() {
            assert!(METRICS[i + 1..].iter().all(|other| other.name != one.name), "{}", one.name);
        }
    }

    #[test]
    fn values_are_shown_with_their_unit() {
        for (unit, value, text) in [
            (Unit::Bytes, -567_222.0, "-0.57 MB"),
            (Unit::Seconds, 0.000_25, "250 µs"),
            (Unit::Seconds, 0.0123, "12.30 ms"),
            (Unit::Seconds, 12.0, "12.00 s"),
            (Unit::PerSecond, 812.34, "812.3/s"),
            (Unit::Fraction, 0.001, "0.10 %"),
            (Unit::Count, 351.0, "351"),
        ] {
            assert_eq!(unit.show(value), text);
        }
    }
}
