//! What a load of jobs counts.

use crate::clock::MonotonicTime;
use crate::jobs::JobFailures;
use crate::meter::GeneratorCost;
use crate::schedule::DueSpan;
use crate::sidekiq::watch::{EndSeen, JobWatch};

/// Counts of a load, which has one thread.
#[derive(Debug)]
pub struct SidekiqCounts {
    pub(super) watch: JobWatch,
    /// Threads that were registered for the queue.
    pub(super) registered: u64,
    /// Jobs in the sets `retry` and `dead`.
    pub(super) failures: JobFailures,
    /// Whether there were more failed jobs than were read.
    pub(super) more_failed: bool,
    /// Code and description of what ended the load early.
    pub(super) problem: Option<(&'static str, String)>,
    pub(super) first: Option<MonotonicTime>,
    pub(super) last: Option<MonotonicTime>,
    pub(super) last_send: Option<MonotonicTime>,
    /// When the jobs were due.
    pub(super) due_span: DueSpan,
    pub(super) cost: GeneratorCost,
}

impl Default for SidekiqCounts {
    fn default() -> Self {
        Self {
            watch: JobWatch::new(EndSeen::ByThreads(0)),
            registered: 0,
            failures: JobFailures::default(),
            more_failed: false,
            problem: None,
            first: None,
            last: None,
            last_send: None,
            due_span: DueSpan::default(),
            cost: GeneratorCost::default(),
        }
    }
}

impl SidekiqCounts {
    /// Jobs that were pushed and did not end in time.
    pub(super) fn unfinished(&self) -> u64 {
        self.watch.pushed - self.watch.ended
    }

    /// Jobs that ended without a failure.
    pub(super) fn completed(&self) -> u64 {
        self.watch.ended.saturating_sub(self.failures.count)
    }

    /// Seconds between the first and the last push; `None` if there were not two.
    pub(super) fn send_span(&self) -> Option<f64> {
        let span = self.last_send?.since(self.first?);
        (span > 0).then(|| span as f64 / 1e9)
    }
}
