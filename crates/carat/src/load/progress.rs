//! What the threads of a load write for whoever watches: a few atomics, no locks.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a load is; cheap to make and to send.
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
        by_count.or(by_time).map(|share| share.min(1.0))
    }
}

/// The figures of one thread.
#[derive(Debug, Default)]
pub(crate) struct ProgressCounters {
    pub(crate) done: AtomicU64,
    pub(crate) messages: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) p50_us: AtomicU64,
    pub(crate) p95_us: AtomicU64,
    pub(crate) lag_us: AtomicU64,
    pub(crate) begun_ms: AtomicU64,
}

impl ProgressCounters {
    /// Replaces a figure.
    pub(crate) fn put(figure: &AtomicU64, value: u64) {
        figure.store(value, Ordering::Relaxed);
    }

    /// Replaces a figure by a duration in microseconds.
    pub(crate) fn put_seconds(figure: &AtomicU64, seconds: Option<f64>) {
        Self::put(figure, (seconds.unwrap_or_default() * 1e6) as u64);
    }

    /// Reads a figure.
    pub(crate) fn read(figure: &AtomicU64) -> u64 {
        figure.load(Ordering::Relaxed)
    }
}
