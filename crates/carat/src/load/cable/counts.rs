//! What a cable load counts.

use crate::core::load::{BroadcastRow, StepReport};
use crate::core::{one_line, shorten};
use crate::load::cable::pending::BroadcastTimes;
use crate::load::clock::MonotonicTime;
use crate::load::fault::SocketFault;
use crate::load::histogram::DurationHistogram;
use crate::load::meter::GeneratorCost;
use std::collections::BTreeMap;

/// Reasons that are counted separately; a server that invents more has the others counted together.
const REASONS: usize = 32;

/// Durations of the stages of a connection.
#[derive(Debug, Default, Clone)]
pub(crate) struct StageTimes {
    pub(crate) connect: DurationHistogram,
    pub(crate) welcome: DurationHistogram,
    pub(crate) confirm: DurationHistogram,
}

/// One thread's part of a step.
#[derive(Debug)]
pub(crate) struct StepShare {
    pub(crate) clients: u32,
    pub(crate) ramp_s: f64,
    pub(crate) begun: MonotonicTime,
    pub(crate) ended: MonotonicTime,
    /// Broadcasts that this thread sent, and the first and the last of them.
    pub(crate) sent: u64,
    pub(crate) first_send: Option<MonotonicTime>,
    pub(crate) last_send: MonotonicTime,
    pub(crate) rows: Vec<BroadcastRow>,
    pub(crate) times: BroadcastTimes,
    pub(crate) stages: StageTimes,
}

/// Counts of a whole run.
#[derive(Debug, Default)]
pub(crate) struct CableCounts {
    /// One thread's parts of the steps.
    pub(crate) shares: Vec<StepShare>,
    /// The steps of all threads.
    pub(crate) steps: Vec<StepReport>,
    pub(crate) delivery: DurationHistogram,
    /// Connections lost or refused, by reason.
    pub(crate) disconnects: BTreeMap<String, u64>,
    /// Connections that could not be opened or broke, by fault.
    pub(crate) faults: BTreeMap<SocketFault, u64>,
    /// Handshakes that failed, by reason.
    pub(crate) refused: BTreeMap<String, u64>,
    pub(crate) pings: u64,
    pub(crate) ping_gaps: u64,
    pub(crate) altered: u64,
    pub(crate) malformed: u64,
    pub(crate) other: u64,
    /// Deliveries that came after the end of their step.
    pub(crate) late: u64,
    pub(crate) duplicate: u64,
    /// Deliveries that lost connections could not receive.
    pub(crate) lost: u64,
    /// Broadcasts that were given up before they were complete.
    pub(crate) given_up: u64,
    /// Subscription requests that were repeated because no answer came.
    pub(crate) asked_again: u64,
    /// Why no TLS handshake with this server can succeed.
    pub(crate) tls: Option<String>,
    /// Subscribed and requested connections when a step could not begin.
    pub(crate) not_ready: Option<(u32, u32)>,
    /// Sends per second that the steps reached.
    pub(crate) rates: Vec<f64>,
    pub(crate) parsed: u64,
    pub(crate) cost: GeneratorCost,
}

/// Counts one occurrence of a reason.
pub(crate) fn count(reasons: &mut BTreeMap<String, u64>, reason: &str) {
    let reason = shorten(&one_line(reason), 80);
    let known = reasons.len() < REASONS || reasons.contains_key(&reason);
    let reason = if known { reason } else { "further reasons".to_owned() };
    *reasons.entry(reason).or_default() += 1;
}
