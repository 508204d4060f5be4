//! The report of a load.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// How severe a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// The figures may be inaccurate.
    Warning,
    /// The figures are invalid.
    Fatal,
}

/// A finding about the load, with a stable code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadFlag {
    /// Stable code, such as `errors` or `late-sends`.
    pub code: String,
    /// How severe it is.
    pub severity: Severity,
    /// What happened and what to do.
    pub message: String,
}

/// Kinds of failure that a report lists at most; the others are only counted.
pub const FAILURES_LISTED: usize = 8;
/// Bytes of a wrong body that a report has at most.
pub const BODY_SHOWN: usize = 200;

/// Findings about the server's answers. The others are about the generator and the machine.
const REFUSED: [&str; 7] =
    ["errors", "nothing-completed", "server-gone", "tls", "redis", "no-workers", "database"];

/// Requests of one route that failed in the same way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteFailure {
    /// Method and path, such as `POST /users.json`, or the class of a job.
    pub route: String,
    /// Kind of the failure, as in [`LoadReport::errors_by`]; the class of a job's exception.
    pub kind: String,
    /// Status of the responses; `None` without a response.
    #[serde(default)]
    pub status: Option<u16>,
    /// How many requests.
    pub count: u64,
    /// Start of the first wrong body or of a job's first message, printable and on one line; `None` without one and in a
    /// shared report.
    #[serde(default)]
    pub body: Option<String>,
}

impl RouteFailure {
    /// Route, reason and count: `POST /users.json → 500 ×12`.
    pub fn summary(&self) -> String {
        // The status says more than the kind where a response came.
        let reason = match (self.kind.as_str(), self.status) {
            ("status", Some(status)) => status.to_string(),
            ("body", Some(status)) => format!("{status} with another body"),
            (kind, _) => kind.to_owned(),
        };
        format!("{} → {reason} ×{}", self.route, self.count)
    }
}

impl fmt::Display for RouteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        match (&self.body, self.status) {
            // What a server answers may be a word that reads as an answer of carat.
            (Some(body), Some(_)) => write!(f, ", body \"{body}\""),
            (Some(message), None) => write!(f, ": {message}"),
            (None, _) => Ok(()),
        }
    }
}

/// The result of a load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Correct responses or deliveries.
    pub completed: u64,
    /// Requests without a correct response, or deliveries that never came.
    pub errors: u64,
    /// Seconds from the first send to the last response.
    pub seconds: f64,
    /// Start and end of the measured load in milliseconds of `CLOCK_MONOTONIC`, which all processes of a machine share.
    #[serde(default)]
    pub window_ms: Option<(u64, u64)>,
    /// Latency from the intended send, in microseconds, HdrHistogram V2, base64; absent if nothing completed.
    pub latency_hdr: Option<String>,
    /// Latency from the actual send, likewise.
    #[serde(default)]
    pub service_hdr: Option<String>,
    /// Errors by kind.
    #[serde(default)]
    pub errors_by: BTreeMap<String, u64>,
    /// The most frequent errors by route or by class of the jobs, at most eight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<RouteFailure>,
    /// Metrics by name, in the units of the metric list.
    pub metrics: BTreeMap<String, f64>,
    /// The generator's own cost.
    #[serde(default)]
    pub own: OwnCost,
    /// Steps of a cable load, in order.
    #[serde(default)]
    pub steps: Vec<StepReport>,
    /// Each route or step of an HTTP load that has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteReport>,
    /// What is known of jobs beside their latency; absent of other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<JobsReport>,
    /// Findings about the generator and the load.
    pub flags: Vec<LoadFlag>,
}

impl LoadReport {
    /// Whether a finding makes the figures invalid.
    pub fn is_invalid(&self) -> bool {
        self.flags.iter().any(|flag| flag.severity == Severity::Fatal)
    }

    /// The first finding that makes the figures invalid, with its code.
    pub fn invalid_because(&self) -> Option<String> {
        let fatal = self.flags.iter().find(|flag| flag.severity == Severity::Fatal)?;
        Some(format!("{}: {}", fatal.code, fatal.message))
    }

    /// The first finding that says that the server did not do what was requested, with its code.
    pub fn refused_because(&self) -> Option<String> {
        let refused = |flag: &&LoadFlag| REFUSED.contains(&flag.code.as_str());
        let fatal = |flag: &&LoadFlag| flag.severity == Severity::Fatal;
        // In the order of the findings, the most severe first.
        let flag = self.flags.iter().filter(fatal).find(refused)?;
        Some(format!("{}: {}", flag.code, flag.message))
    }

    /// A line per failure that has a wrong body.
    pub fn wrong_bodies(&self) -> impl Iterator<Item = String> {
        let with_body = self.failures.iter().filter(|failure| failure.body.is_some());
        with_body.map(ToString::to_string)
    }
}

/// The cost of the generator itself, and its lag.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnCost {
    /// CPU seconds, user and system, over the measured load.
    pub cpu_s: f64,
    /// Largest share of one core that a thread used in any second.
    pub cpu_share_max: f64,
    /// CPU microseconds per response or received frame.
    pub cpu_us_per_message: Option<f64>,
    /// Peak resident memory in bytes; `None` if the kernel does not report it.
    pub rss_peak: Option<u64>,
    /// Median and 99th percentile in seconds from the arrival in the kernel to the reading; `None` without stamps.
    pub lag: Option<(f64, f64)>,
    /// Median and 99th percentile in seconds from the intended to the actual send; `None` in a closed load.
    pub late: Option<(f64, f64)>,
    /// Seconds that a thread was ready to run but waited for a core.
    pub run_delay_s: Option<f64>,
    /// Messages received.
    pub messages: u64,
    /// Share of messages whose arrival is an upper bound, because they shared a read with a later one.
    pub bounded: f64,
}

/// One route or step of an HTTP load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RouteReport {
    /// Method and path as they are written, with placeholders.
    pub route: String,
    /// The scenario that it is a step of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// Which step, from 1 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Whether these are the requests to which the step's responses redirected.
    #[serde(default)]
    pub redirected: bool,
    /// Correct responses.
    pub completed: u64,
    /// Requests without one.
    pub errors: u64,
    /// Latency from the intended send; `None` if nothing completed.
    pub latency: Option<Times>,
}

/// What is known of a load's jobs beside their latency.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobsReport {
    /// From the push of a job to the moment at which a thread has it; `None` if no job began.
    pub queued: Option<Times>,
    /// Median and 99th percentile of the seconds between two readings of Redis' counters: no time of a job is finer.
    pub resolution: Option<(f64, f64)>,
    /// Threads that take jobs from the queue; `None` if none were seen.
    pub threads: Option<u64>,
}

/// One step of a cable load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// Subscribed connections when the step's broadcasts began.
    pub clients: u32,
    /// Seconds until the step's connections were subscribed.
    pub ramp_s: f64,
    /// Start and end of the step's broadcasts in milliseconds of `CLOCK_MONOTONIC`.
    pub window_ms: (u64, u64),
    /// Every distribution of the step by name: `complete`, `delivery`, `first`, `own`, `ack`, `spread`, `connect`, `welcome`, `confirm`.
    pub times: BTreeMap<String, Times>,
    /// Deliveries that were due.
    pub expected: u64,
    /// Deliveries that came, duplicates not counted.
    pub received: u64,
    /// Deliveries that never came.
    pub missing: u64,
    /// Duplicate deliveries.
    pub duplicate: u64,
    /// Every broadcast in the order of sending.
    pub broadcasts: Vec<BroadcastRow>,
}

/// A distribution of durations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Shortest, in seconds.
    pub min: f64,
    /// Median, in seconds.
    pub p50: f64,
    /// 95th percentile, in seconds.
    pub p95: f64,
    /// 99th percentile, in seconds.
    pub p99: f64,
    /// Longest, in seconds.
    pub max: f64,
    /// The whole histogram in microseconds, HdrHistogram V2, base64.
    pub hdr: String,
}

/// One broadcast; times are microseconds after its intended send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct BroadcastRow {
    /// Its number in the run.
    pub number: u64,
    /// Index of the connection that sent it.
    pub sender: u32,
    /// Intended send, in microseconds of `CLOCK_MONOTONIC`.
    pub intended_us: u64,
    /// Actual send.
    pub sent_us: u64,
    /// First receipt by any subscriber.
    pub first_us: Option<u64>,
    /// Receipt by the sender.
    pub own_us: Option<u64>,
    /// The sender's result.
    pub ack_us: Option<u64>,
    /// Last receipt, if every subscriber has it.
    pub complete_us: Option<u64>,
    /// Subscribers when it was sent.
    pub expected: u32,
    /// Subscribers that received it.
    pub received: u32,
    /// Receipts beyond the first of a subscriber.
    pub duplicate: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_said_to_be_one_and_the_message_of_a_job_is_none() {
        let failure = |status, body: &str| RouteFailure {
            route: "GET /".into(),
            kind: "status".into(),
            status,
            count: 2,
            body: Some(body.into()),
        };
        assert_eq!(failure(Some(500), "no").to_string(), "GET / → 500 ×2, body \"no\"");
        assert_eq!(failure(None, "gone").to_string(), "GET / → status ×2: gone");
    }
}
