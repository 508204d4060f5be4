//! What a cable load counts beside its broadcasts.

use crate::core::load::StepReport;
use crate::load::cable::steps::StepPart;
use crate::load::histogram::DurationHistogram;
use crate::load::meter::GeneratorCost;
use std::collections::BTreeMap;

/// Kinds of reasons that are told apart; a server that invents more has them counted together.
const REASONS: usize = 32;

/// Counts of a whole run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The steps as one thread saw them.
    pub(crate) parts: Vec<StepPart>,
    /// The steps of all threads.
    pub(crate) steps: Vec<StepReport>,
    pub(crate) delivery: DurationHistogram,
    /// Connections lost or refused, by reason.
    pub(crate) disconnects: BTreeMap<String, u64>,
    /// Handshakes that failed, by reason.
    pub(crate) refused: BTreeMap<String, u64>,
    pub(crate) pings: u64,
    pub(crate) ping_gaps: u64,
    pub(crate) altered: u64,
    pub(crate) malformed: u64,
    pub(crate) other: u64,
    /// Deliveries of broadcasts of a step that was over.
    pub(crate) late: u64,
    pub(crate) duplicate: u64,
    /// Deliveries that lost connections could not receive.
    pub(crate) lost: u64,
    /// Broadcasts that were given up before everybody had them.
    pub(crate) given_up: u64,
    /// Subscriptions that were asked for again because no answer came.
    pub(crate) asked_again: u64,
    /// Why no TLS handshake with this server can succeed.
    pub(crate) tls: Option<String>,
    /// Subscribed and asked for when a step could not begin.
    pub(crate) not_ready: Option<(u32, u32)>,
    /// Sends per second that the steps reached.
    pub(crate) rates: Vec<f64>,
    pub(crate) parsed: u64,
    pub(crate) own: GeneratorCost,
}

/// Counts one under a reason.
pub(crate) fn count(reasons: &mut BTreeMap<String, u64>, reason: &str) {
    let known = reasons.len() < REASONS || reasons.contains_key(reason);
    let reason = if known { reason } else { "further reasons" };
    *reasons.entry(reason.chars().take(80).collect()).or_default() += 1;
}

/// Reasons with their counts as a sentence has them.
pub(crate) fn list(reasons: &BTreeMap<String, u64>) -> String {
    let each = reasons.iter().map(|(reason, count)| format!("{reason} {count}"));
    each.collect::<Vec<_>>().join(", ")
}
