//! What an HTTP load counts.

use crate::clock::MonotonicTime;
use crate::fault::SocketFault;
use crate::histogram::DurationHistogram;
use crate::http::failures::{FailedRequest, FailureTable, RequestFailure};
use crate::meter::GeneratorCost;
use crate::schedule::DueSpan;
use std::collections::BTreeMap;

/// Counts of one route or step.
#[derive(Debug, Default, Clone)]
pub struct RouteCounts {
    pub completed: u64,
    pub errors: u64,
    pub latency: DurationHistogram,
}

/// Counts and distributions of one thread.
#[derive(Debug, Default)]
pub struct HttpCounts {
    pub completed: u64,
    pub failures: BTreeMap<RequestFailure, u64>,
    /// The same failures by route and status.
    pub failed: FailureTable,
    pub latency: DurationHistogram,
    pub service: DurationHistogram,
    /// Correct responses that lead to another page, where nobody asked for that.
    pub redirects: u64,
    /// Requests that were sent again because the server had closed a kept-alive connection.
    pub retried: u64,
    /// Requests of an open load that waited for a free connection.
    pub waited: u64,
    pub connected: u64,
    /// Why connections could not be opened, with or without a request.
    pub unopened: BTreeMap<SocketFault, u64>,
    pub gone: bool,
    /// Why the last TLS handshake failed.
    pub tls: Option<String>,
    pub first: Option<MonotonicTime>,
    pub last: Option<MonotonicTime>,
    pub last_send: Option<MonotonicTime>,
    /// Requests that were due.
    pub due: u64,
    /// When those that were sent were due.
    pub due_span: DueSpan,
    pub cost: GeneratorCost,
    /// Each route or step by its number; empty if there is only one.
    pub routes: Vec<RouteCounts>,
    /// How often each problem was met, with the first message about it.
    pub problems: BTreeMap<(u16, RequestFailure), (u64, String)>,
}

impl HttpCounts {
    /// Counts a correct response; durations in nanoseconds.
    pub fn complete(&mut self, route: u16, latency: u64, service: u64) {
        self.completed += 1;
        self.latency.record(latency);
        self.service.record(service);
        if let Some(row) = self.routes.get_mut(usize::from(route)) {
            row.completed += 1;
            row.latency.record(latency);
        }
    }

    /// Counts a failed request; `message` says what was wrong, and `body` is the start of a wrong body.
    pub fn fail(&mut self, failed: FailedRequest, message: Option<String>, body: &[u8]) {
        *self.failures.entry(failed.failure).or_default() += 1;
        self.failed.count(failed, body);
        if let Some(row) = self.routes.get_mut(usize::from(failed.route)) {
            row.errors += 1;
        }
        if let Some(message) = message {
            // One message per kind, so that memory does not grow with the errors.
            let place = (failed.route, failed.failure);
            self.problems.entry(place).or_insert((0, message)).0 += 1;
        }
    }

    pub fn errors(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Failed requests that nobody has answered.
    pub fn unanswered(&self) -> u64 {
        let unanswered = self.failures.iter().filter(|(failure, _)| failure.is_unanswered());
        unanswered.map(|(_, count)| count).sum()
    }

    /// Failures by name.
    pub fn errors_by(&self) -> BTreeMap<String, u64> {
        let named = self.failures.iter();
        named.map(|(failure, count)| (failure.name().into_owned(), *count)).collect()
    }

    /// Seconds between the first and the last send; `None` if there were not two.
    pub fn send_span(&self) -> Option<f64> {
        let span = self.last_send?.since(self.first?);
        // Two sends in the same nanosecond have no rate.
        (span > 0).then(|| span as f64 / 1e9)
    }

    /// Adds another thread's counts.
    pub fn merge(&mut self, other: &Self) {
        self.completed += other.completed;
        for (failure, more) in &other.failures {
            *self.failures.entry(*failure).or_default() += more;
        }
        for (fault, more) in &other.unopened {
            *self.unopened.entry(*fault).or_default() += more;
        }
        self.failed.merge(&other.failed);
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
        self.redirects += other.redirects;
        self.retried += other.retried;
        self.waited += other.waited;
        self.connected += other.connected;
        self.gone |= other.gone;
        self.tls = self.tls.take().or_else(|| other.tls.clone());
        self.first = self.first.into_iter().chain(other.first).min();
        self.last = self.last.into_iter().chain(other.last).max();
        self.last_send = self.last_send.into_iter().chain(other.last_send).max();
        self.due += other.due;
        self.due_span.merge(&other.due_span);
        self.cost.merge(&other.cost);
        self.routes.resize_with(self.routes.len().max(other.routes.len()), RouteCounts::default);
        for (row, more) in self.routes.iter_mut().zip(&other.routes) {
            row.completed += more.completed;
            row.errors += more.errors;
            row.latency.merge(&more.latency);
        }
        for (place, (count, message)) in &other.problems {
            self.problems.entry(*place).or_insert_with(|| (0, message.clone())).0 += count;
        }
    }
}
