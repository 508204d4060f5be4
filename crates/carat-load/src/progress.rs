//! The progress of a running load: each thread writes a few atomics, without locks, and one reader adds them up.

use crate::clock::MonotonicTime;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Time between two reports of progress.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// How far a load is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadProgress {
    /// Responses or broadcasts done.
    pub done: u64,
    /// Responses or broadcasts planned; `None` for a load by time.
    pub planned: Option<u64>,
    /// Seconds since the measured load began.
    pub seconds: f64,
    /// Seconds planned; `None` for a load by count.
    pub planned_s: Option<f64>,
    /// Responses or deliveries in the last tenth of a second, per second.
    pub per_second: f64,
    /// Errors so far.
    pub errors: u64,
    /// Connections that are open.
    pub connections: u64,
    /// Median latency so far in microseconds.
    pub p50_us: u64,
    /// 95th percentile so far in microseconds.
    pub p95_us: u64,
    /// 99th percentile of the generator's own lag in microseconds.
    pub lag_us: u64,
}

impl LoadProgress {
    /// Share that is done, by count or by time; `None` where neither was planned.
    pub fn share(&self) -> Option<f64> {
        let by_count = self.planned.map(|planned| self.done as f64 / planned.max(1) as f64);
        let by_time = self.planned_s.map(|planned| self.seconds / planned);
        // By count first, because a load with both ends by its count.
        by_count.or(by_time).map(|share| share.min(1.0))
    }
}

/// The figures of one thread.
#[derive(Debug, Default)]
pub struct ProgressCounters {
    pub done: AtomicU64,
    pub messages: AtomicU64,
    pub errors: AtomicU64,
    pub connections: AtomicU64,
    pub p50_us: AtomicU64,
    pub p95_us: AtomicU64,
    pub lag_us: AtomicU64,
    /// When the measured load began; 0 before.
    pub begun_ms: AtomicU64,
    /// Whether the thread is to end at its next check.
    stopped: AtomicBool,
}

/// Selects one figure of a thread.
type Figure = fn(&ProgressCounters) -> &AtomicU64;

impl ProgressCounters {
    pub fn put(figure: &AtomicU64, value: u64) {
        figure.store(value, Ordering::Relaxed);
    }

    /// Stores a duration in microseconds.
    pub fn put_seconds(figure: &AtomicU64, seconds: Option<f64>) {
        Self::put(figure, (seconds.unwrap_or_default() * 1e6) as u64);
    }

    pub fn read(figure: &AtomicU64) -> u64 {
        figure.load(Ordering::Relaxed)
    }

    /// Asks the thread to end.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn sum(all: &[Self], figure: Figure) -> u64 {
        all.iter().map(|one| Self::read(figure(one))).sum()
    }

    fn max(all: &[Self], figure: Figure) -> u64 {
        all.iter().map(|one| Self::read(figure(one))).max().unwrap_or(0)
    }
}

/// Adds up the threads' counters and derives the current rate from the previous reading.
#[derive(Debug)]
pub(crate) struct ProgressReader {
    planned: Option<u64>,
    planned_s: Option<f64>,
    seconds: f64,
    messages: u64,
}

impl ProgressReader {
    pub(crate) fn new(planned: Option<u64>, planned_s: Option<f64>) -> Self {
        Self { planned, planned_s, seconds: 0.0, messages: 0 }
    }

    pub(crate) fn read(&mut self, counters: &[ProgressCounters]) -> LoadProgress {
        // The latest thread: before it has begun, the load has not.
        let begun = ProgressCounters::max(counters, |one| &one.begun_ms);
        let passed_ms = MonotonicTime::now().millis().saturating_sub(begun);
        let seconds = if begun == 0 { 0.0 } else { passed_ms as f64 / 1e3 };
        let messages = ProgressCounters::sum(counters, |one| &one.messages);
        let received = messages.saturating_sub(std::mem::replace(&mut self.messages, messages));
        // Two readings in one millisecond must not divide by zero.
        let passed = (seconds - std::mem::replace(&mut self.seconds, seconds)).max(1e-3);
        LoadProgress {
            done: ProgressCounters::sum(counters, |one| &one.done),
            planned: self.planned,
            seconds,
            planned_s: self.planned_s,
            per_second: received as f64 / passed,
            errors: ProgressCounters::sum(counters, |one| &one.errors),
            connections: ProgressCounters::sum(counters, |one| &one.connections),
            // Distributions cannot be merged here, so the worst thread stands for all.
            p50_us: ProgressCounters::max(counters, |one| &one.p50_us),
            p95_us: ProgressCounters::max(counters, |one| &one.p95_us),
            lag_us: ProgressCounters::max(counters, |one| &one.lag_us),
        }
    }
}
