//! What an HTTP load counts.

use crate::load::clock::MonotonicTime;
use crate::load::histogram::DurationHistogram;
use crate::load::meter::GeneratorCost;
use std::collections::BTreeMap;

/// Why a request has no correct response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestFailure {
    /// No connection.
    Connect,
    /// No TLS on the connection.
    Tls,
    /// No response in time.
    Timeout,
    /// The connection ended before the response did.
    Early,
    /// Bytes that are not a response.
    Malformed,
    /// An unexpected status.
    Status,
    /// An unexpected body.
    Body,
}

const FAILURES: [(RequestFailure, &str); 7] = [
    (RequestFailure::Connect, "connect"),
    (RequestFailure::Tls, "tls"),
    (RequestFailure::Timeout, "timeout"),
    (RequestFailure::Early, "closed-early"),
    (RequestFailure::Malformed, "malformed"),
    (RequestFailure::Status, "status"),
    (RequestFailure::Body, "body"),
];

/// Counts and distributions of one thread.
#[derive(Debug, Default)]
pub(crate) struct HttpCounts {
    pub(crate) completed: u64,
    pub(crate) failures: [u64; FAILURES.len()],
    pub(crate) latency: DurationHistogram,
    pub(crate) service: DurationHistogram,
    /// Requests that were sent again because the server had closed a kept-alive connection.
    pub(crate) retried: u64,
    /// Requests of an open load that waited for a free connection.
    pub(crate) waited: u64,
    pub(crate) connected: u64,
    pub(crate) gone: bool,
    /// Why the last TLS handshake failed.
    pub(crate) tls: Option<String>,
    pub(crate) first: Option<MonotonicTime>,
    pub(crate) last: Option<MonotonicTime>,
    pub(crate) last_send: Option<MonotonicTime>,
    /// Requests that were due.
    pub(crate) due: u64,
    pub(crate) cost: GeneratorCost,
}

impl HttpCounts {
    pub(crate) fn fail(&mut self, failure: RequestFailure) {
        self.failures[failure as usize] += 1;
    }

    pub(crate) fn errors(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Failures by name, without those that never happened.
    pub(crate) fn errors_by(&self) -> BTreeMap<String, u64> {
        let counted =
            FAILURES.iter().map(|(failure, name)| (*name, self.failures[*failure as usize]));
        counted
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    }

    /// Seconds between the first and the last send; `None` if there were not two.
    pub(crate) fn send_span(&self) -> Option<f64> {
        let span = self.last_send?.since(self.first?);
        (span > 0).then(|| span as f64 / 1e9)
    }

    /// Adds another thread's counts.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.completed += other.completed;
        for (count, more) in self.failures.iter_mut().zip(other.failures) {
            *count += more;
        }
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
        self.retried += other.retried;
        self.waited += other.waited;
        self.connected += other.connected;
        self.gone |= other.gone;
        self.tls = self.tls.take().or_else(|| other.tls.clone());
        self.first = self.first.into_iter().chain(other.first).min();
        self.last = self.last.into_iter().chain(other.last).max();
        self.last_send = self.last_send.into_iter().chain(other.last_send).max();
        self.due += other.due;
        self.cost.merge(&other.cost);
    }
}
