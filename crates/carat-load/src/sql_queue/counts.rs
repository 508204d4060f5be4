//! What a load of jobs in a database counts.

use crate::clock::MonotonicTime;
use crate::histogram::DurationHistogram;
use crate::jobs::JobFailures;
use crate::meter::GeneratorCost;
use crate::schedule::DueSpan;

/// What a load counts.
#[derive(Debug, Default)]
pub(super) struct SqlQueueCounts {
    pub(super) inserted: u64,
    pub(super) ended: u64,
    pub(super) failures: JobFailures,
    /// From the due time to the end, by the workers' clock.
    pub(super) latency: DurationHistogram,
    /// From the due time to the begin; empty where the tables do not have it.
    pub(super) queued: DurationHistogram,
    pub(super) first: Option<MonotonicTime>,
    pub(super) last: Option<MonotonicTime>,
    pub(super) last_send: Option<MonotonicTime>,
    /// When the jobs were due.
    pub(super) due_span: DueSpan,
    /// What ended the load early.
    pub(super) problem: Option<String>,
    pub(super) cost: GeneratorCost,
}
