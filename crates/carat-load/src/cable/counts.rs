//! What a cable load counts.

use crate::cable::pending::BroadcastTimes;
use crate::clock::MonotonicTime;
use crate::fault::SocketFault;
use crate::histogram::DurationHistogram;
use crate::meter::GeneratorCost;
use crate::schedule::DueSpan;
use carat_model::load::{BroadcastRow, StepReport};
use carat_model::{one_line, shorten};
use std::collections::BTreeMap;

/// Reasons that are counted separately; a server that invents more has the others counted together.
const REASONS: usize = 32;

/// Durations of the stages of a connection.
#[derive(Debug, Default, Clone)]
pub struct StageTimes {
    pub connect: DurationHistogram,
    pub welcome: DurationHistogram,
    pub confirm: DurationHistogram,
}

/// One thread's part of a step.
#[derive(Debug)]
pub struct StepShare {
    pub clients: u32,
    pub ramp_s: f64,
    pub begun: MonotonicTime,
    pub ended: MonotonicTime,
    /// Broadcasts that this thread sent, and the first and the last of them.
    pub sent: u64,
    pub first_send: Option<MonotonicTime>,
    pub last_send: MonotonicTime,
    /// When its broadcasts were due.
    pub due_span: DueSpan,
    pub rows: Vec<BroadcastRow>,
    pub times: BroadcastTimes,
    pub stages: StageTimes,
}

/// Counts of a whole run.
#[derive(Debug, Default)]
pub struct CableCounts {
    /// One thread's parts of the steps.
    pub shares: Vec<StepShare>,
    /// The steps of all threads.
    pub steps: Vec<StepReport>,
    pub delivery: DurationHistogram,
    /// Connections lost or refused, by reason.
    pub disconnects: BTreeMap<String, u64>,
    /// Connections that could not be opened or broke, by fault.
    pub faults: BTreeMap<SocketFault, u64>,
    /// Handshakes that failed, by reason.
    pub refused: BTreeMap<String, u64>,
    pub pings: u64,
    pub ping_gaps: u64,
    pub altered: u64,
    pub malformed: u64,
    pub other: u64,
    /// Deliveries that came after the end of their step.
    pub late: u64,
    pub duplicate: u64,
    /// Deliveries that lost connections could not receive.
    pub lost: u64,
    /// Broadcasts that were given up before they were complete.
    pub given_up: u64,
    /// Subscription requests that were repeated because no answer came.
    pub asked_again: u64,
    /// Why no TLS handshake with this server can succeed.
    pub tls: Option<String>,
    /// Subscribed and requested connections when a step could not begin.
    pub not_ready: Option<(u32, u32)>,
    /// The paces of the sends of the steps ([`DueSpan::pace`]).
    pub paces: Vec<f64>,
    pub parsed: u64,
    pub cost: GeneratorCost,
}

/// Counts one occurrence of a reason.
pub(super) fn count(reasons: &mut BTreeMap<String, u64>, reason: &str) {
    // Reasons come from the server: their length and their number are bounded here.
    let reason = shorten(&one_line(reason), 80);
    let known = reasons.len() < REASONS || reasons.contains_key(&reason);
    let reason = if known { reason } else { "further reasons".to_owned() };
    *reasons.entry(reason).or_default() += 1;
}
