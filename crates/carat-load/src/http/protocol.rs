//! One thread of an HTTP load over kept-alive connections.
//!
//! A *job* is one request with the moment at which it was meant to be sent. It stays with its connection until there is a
//! response or a failure. Only a job whose kept-alive connection the server closed before the request arrived moves to a
//! new connection, once (RFC 9110, 9.2.2).

use crate::clock::MonotonicTime;
use crate::connections::Stage;
use crate::error::GeneratorError;
use crate::fault::SocketFault;
use crate::health::RunFacts;
use crate::http::counts::HttpCounts;
use crate::http::failures::{FailedRequest, RequestFailure};
use crate::http::report::report;
use crate::http::requests::RouteChooser;
use crate::http::response::ParsedResponse;
use crate::http::scenario::ScenarioUser;
use crate::http::session::{HttpConnections, HttpJob, HttpPhase, HttpSession, HttpShared};
use crate::http::text::write_text;
use crate::progress::ProgressCounters;
use crate::reactor::{Arrival, LoadProfile, Loss, Protocol, Turn};
use crate::remaining::{RemainingSends, SendPlan};
use crate::schedule::{OpenPlan, RecordedSchedule};
use crate::shard::Shard;
use crate::target::Target;
use crate::tls::{explain, is_permanent};
use carat_model::load::{Amount, HttpLoad, HttpOptions, LoadReport, Pace};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, Write};
use std::sync::Arc;

/// How long a connection that could not be made waits before the next attempt, in nanoseconds like all that follow.
const COOL_DOWN: u64 = 100_000_000;
/// After so long without a successful connection the server counts as gone.
const GONE: u64 = 3_000_000_000;
/// How long the load waits for its connections before it begins with those that are open.
const CONNECT_WITHIN: u64 = 5_000_000_000;
/// Handshakes under way at once, well below the usual accept queue.
const RAMP: u32 = 64;

/// One thread's part of an HTTP load.
#[derive(Debug)]
pub struct HttpProtocol {
    shared: Arc<HttpShared>,
    shard: Shard,
    chooser: RouteChooser,
    /// Place of this thread's next request in a replay.
    turn: u64,
    free: VecDeque<u32>,
    /// Connections whose users pause, by the end of the pause.
    thinking: BinaryHeap<Reverse<(MonotonicTime, u32)>>,
    cooling: Vec<(MonotonicTime, u32)>,
    /// Slots that have been dialed once.
    tried: u32,
    outstanding: u64,
    budget: RemainingSends,
    begun: bool,
    /// Since when every connection has been busy.
    all_busy: Option<MonotonicTime>,
    /// Since when every attempt to connect has failed.
    refused: Option<MonotonicTime>,
    started: MonotonicTime,
    counts: HttpCounts,
}

/// Default microseconds between wake-ups: a closed load waits for every response, an open load does not.
fn quantum_us(load: &HttpLoad) -> u32 {
    let recorded = load.replay.as_ref().is_some_and(|replay| replay.pace.is_some());
    // An open load has fixed times, so it may sleep; a closed one sends as soon as it can.
    let usual = if recorded || matches!(load.pace, Pace::Open { .. }) { 1_000 } else { 0 };
    load.options.quantum_us.unwrap_or(usual)
}

impl Protocol for HttpProtocol {
    type Options = HttpOptions;
    type Load = HttpLoad;
    type Shared = HttpShared;
    type Session = HttpSession;
    type Counts = HttpCounts;

    const CHECK_INTERVAL: u64 = 50_000_000;

    fn profile(load: &HttpLoad) -> LoadProfile<'_> {
        let (planned, planned_s) = match (load.amount, load.pace) {
            (Amount::Requests(requests), Pace::Open { per_second, .. }) => {
                (Some(requests), Some(requests as f64 / per_second))
            }
            (Amount::Requests(requests), Pace::Closed { .. }) => (Some(requests), None),
            (Amount::Seconds(seconds), _) => (None, Some(seconds)),
        };
        LoadProfile {
            url: &load.base,
            options: &load.options,
            connections: u64::from(load.connections),
            // A thread without a connection would have nothing to do.
            threads: load.options.threads.clamp(1, load.connections.max(1)),
            quantum_us: quantum_us(load),
            planned,
            planned_s,
        }
    }

    fn share(
        load: &HttpLoad,
        target: &Target,
        _threads: u32,
    ) -> Result<HttpShared, GeneratorError> {
        HttpShared::new(load, target)
    }

    fn new(shared: Arc<HttpShared>, shard: Shard) -> Self {
        let seed = shared.load.options.seed.wrapping_add(u64::from(shard.index));
        let counts = shared.counts();
        Self {
            shared,
            shard,
            chooser: RouteChooser::new(seed),
            // Threads take turns through a replay, so that its order is kept across them.
            turn: shard.index.into(),
            free: VecDeque::new(),
            thinking: BinaryHeap::new(),
            cooling: Vec::new(),
            tried: 0,
            outstanding: 0,
            budget: RemainingSends::none(),
            begun: false,
            all_busy: None,
            refused: None,
            started: MonotonicTime::now(),
            counts,
        }
    }

    fn advance(&mut self, io: &mut HttpConnections<'_>, now: MonotonicTime) -> Turn {
        if !self.begun {
            self.open_connections(io, now);
        }
        // Pauses end before due requests are given out, so that their users can have them.
        let resumed = self.end_pauses(now);
        self.send_due(io, now);
        if self.is_finished(now) {
            return Turn::Done;
        }
        // At every turn and not only at every check, because growth is measured against it.
        let done = self.counts.completed + self.counts.errors();
        ProgressCounters::put(&io.counters.done, done);
        let due = self.budget.due(now);
        // Due but without a free connection: the next event, not the clock, lets it go on.
        let starved = self.free.is_empty() && due.is_some_and(|due| due <= now);
        let may_sleep = self.outstanding > 0 && !starved;
        let never = MonotonicTime(u64::MAX);
        Turn::Wait {
            until: due.filter(|_| !self.free.is_empty()).unwrap_or(never).min(resumed),
            sleep_until: may_sleep.then(|| due.unwrap_or(never).min(resumed)),
        }
    }

    fn connected(&mut self, io: &mut HttpConnections<'_>, place: u32) {
        self.refused = None;
        if io.slot(place).session.job.is_some() {
            self.begin_request(io, place);
        } else {
            self.free.push_back(place);
        }
    }

    fn writable(&mut self, io: &mut HttpConnections<'_>, place: u32) {
        // An idle connection has nothing to send.
        if io.slot(place).stage == Stage::Open(HttpPhase::Busy) {
            self.transmit(io, place);
        }
    }

    fn received(
        &mut self,
        io: &mut HttpConnections<'_>,
        place: u32,
        bytes: &[u8],
        arrival: Arrival,
    ) {
        let slot = io.slot(place);
        let busy = slot.stage == Stage::Open(HttpPhase::Busy);
        let Some(job) = slot.session.job.filter(|_| busy) else {
            // An unrequested response: a server may send one before it closes an idle connection (RFC 9110, 15.5.9).
            close(io, place);
            return;
        };
        let expected = self.shared.expected(job.request);
        match slot.session.response.take(bytes, expected) {
            Ok(None) => {}
            Ok(Some(response)) => self.complete(io, place, response, arrival.at),
            // What follows on the connection has no known start, so it cannot be used again.
            Err(_) => self.fail(io, place, RequestFailure::Malformed),
        }
    }

    fn lost(&mut self, io: &mut HttpConnections<'_>, place: u32, loss: Loss) {
        match loss {
            Loss::Unopened(fault) => self.unopened(io, place, fault),
            Loss::TimedOut => self.fail(io, place, RequestFailure::Timeout),
            Loss::Closed => self.ended(io, place, None),
            Loss::Broken(fault) => self.ended(io, place, Some(fault)),
            Loss::Tls(error) => {
                // A refused certificate stays refused, so waiting for `GONE` would only cost time.
                self.counts.gone |= is_permanent(&error);
                self.counts.tls = Some(explain(&error));
                self.fail(io, place, RequestFailure::Tls);
            }
        }
    }

    fn checked(&mut self, io: &mut HttpConnections<'_>, now: MonotonicTime) {
        let cooled = self.cooling.extract_if(.., |(until, _)| *until <= now);
        self.free.extend(cooled.map(|(_, place)| place));
        // A server that still answers on old connections is not gone, even if it accepts none.
        let none_open = io.slots().iter().all(|slot| slot.stage == Stage::Closed);
        self.counts.gone |= none_open && self.refused.is_some_and(|since| now.since(since) > GONE);
        let sockets = io.slots().iter().filter(|slot| slot.stream.is_some()).count();
        let counters = io.counters;
        ProgressCounters::put(&counters.messages, self.counts.completed);
        ProgressCounters::put(&counters.errors, self.counts.errors());
        // Sockets that are still in a handshake are not yet connections.
        ProgressCounters::put(&counters.connections, sockets as u64 - u64::from(io.opening()));
        ProgressCounters::put_seconds(&counters.p50_us, self.counts.latency.quantile(0.5));
        ProgressCounters::put_seconds(&counters.p95_us, self.counts.latency.quantile(0.95));
        ProgressCounters::put_seconds(&counters.lag_us, io.meter.cost.lag.quantile(0.99));
    }

    fn finish(mut self, mut io: HttpConnections<'_>) -> HttpCounts {
        self.counts.due = self.budget.handed();
        self.counts.cost = io.end_measurement(MonotonicTime::now());
        self.counts
    }

    fn report(
        load: &HttpLoad,
        shared: &HttpShared,
        counts: Vec<HttpCounts>,
        run: &RunFacts,
    ) -> LoadReport {
        let mut whole = HttpCounts::default();
        for one in counts {
            whole.merge(&one);
        }
        report(load, shared, &whole, run)
    }

    fn write_text(
        _options: &HttpOptions,
        report: &LoadReport,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        write_text(report, out)
    }
}

/// Closes a connection; its job, if it has one, stays.
fn close(io: &mut HttpConnections<'_>, place: u32) {
    io.close(place);
    let session = &mut io.slot(place).session;
    // The request has to be sent again from its first byte.
    session.written = 0;
    session.broken = None;
    // A new connection has served nothing, so a request on it is not retried.
    session.served = 0;
}

impl HttpProtocol {
    fn is_finished(&self, now: MonotonicTime) -> bool {
        self.counts.gone || (self.begun && self.outstanding == 0 && self.budget.is_over(now))
    }

    /// Opens connections, and begins the measured load when all have been tried.
    fn open_connections(&mut self, io: &mut HttpConnections<'_>, now: MonotonicTime) {
        if io.count() == 0 {
            let count = self.shard.part(self.shared.load.connections.into()) as u32;
            io.reserve(count);
            io.add_slots(count);
        }
        while io.opening() < RAMP && self.tried < io.count() {
            self.tried += 1;
            self.dial(io, self.tried - 1);
        }
        // Measuring begins with what is open: a server that accepts fewer is a finding.
        let all_tried = io.opening() == 0 && self.tried == io.count();
        if all_tried || now.since(self.started) > CONNECT_WITHIN {
            self.begun = true;
            self.counts.connected = self.free.len() as u64;
            // Slots that were never tried are dialed when a request needs them.
            self.free.extend(self.tried..io.count());
            self.tried = io.count();
            // Read again: opening connections took time that is not part of the load.
            let now = MonotonicTime::now();
            io.begin_measurement(now);
            let epoch = self.shared.epoch(now);
            let budget = RemainingSends::begin(&self.send_plan(epoch), now);
            self.budget = match self.shared.requests.times() {
                Some(times) => budget.at(RecordedSchedule::new(epoch, times.clone(), self.shard)),
                None => budget,
            };
        }
    }

    fn send_plan(&self, epoch: MonotonicTime) -> SendPlan {
        let (load, shard) = (&self.shared.load, self.shard);
        SendPlan {
            count: match load.amount {
                Amount::Requests(requests) => Some(shard.part(requests)),
                Amount::Seconds(_) => None,
            },
            seconds: match load.amount {
                Amount::Requests(_) => None,
                Amount::Seconds(seconds) => Some(seconds),
            },
            open: match load.pace {
                Pace::Open { per_second, arrivals } => {
                    Some(OpenPlan { per_second, arrivals, epoch, shard })
                }
                Pace::Closed { .. } => None,
            },
            seed: load.options.seed.wrapping_add(u64::from(shard.index)),
        }
    }

    /// Frees the connections whose users have paused long enough, and returns when the next one has.
    fn end_pauses(&mut self, now: MonotonicTime) -> MonotonicTime {
        while let Some(Reverse((until, place))) = self.thinking.peek().copied() {
            if until > now {
                return until;
            }
            self.thinking.pop();
            self.free.push_back(place);
        }
        MonotonicTime(u64::MAX)
    }

    /// Gives due requests to free connections.
    fn send_due(&mut self, io: &mut HttpConnections<'_>, now: MonotonicTime) {
        while let Some(place) = self.free.front().copied() {
            let Some(intended) = self.budget.next(now) else {
                self.all_busy = None;
                return;
            };
            self.free.pop_front();
            self.assign(io, place, intended);
        }
        // What falls due from here on waits for a connection; what was due before waited for the generator.
        self.all_busy.get_or_insert(now);
    }

    fn assign(&mut self, io: &mut HttpConnections<'_>, place: u32, intended: MonotonicTime) {
        // Only what fell due while all were busy waited for a connection; the rest is our lateness.
        let waited = self.all_busy.is_some_and(|since| intended >= since);
        let slot = io.slot(place);
        let (request, route) = match &self.shared.scenarios {
            None => {
                let requests = &self.shared.requests;
                let replayed = requests.in_turn(self.turn);
                self.turn += u64::from(self.shard.threads);
                let request =
                    replayed.unwrap_or_else(|| self.chooser.next(requests.bounds()) as u32);
                (request, requests.at(request).row)
            }
            Some(set) => {
                let number = self.shard.number(place);
                let user =
                    slot.session.user.get_or_insert_with(|| ScenarioUser::new(number).into());
                (0, user.write_next(set, |bounds| self.chooser.next(bounds)))
            }
        };
        slot.session.job = Some(HttpJob { route, request, intended, waited, retried: false });
        self.outstanding += 1;
        // A connection that was closed between requests is dialed for the next one.
        if slot.stage == Stage::Open(HttpPhase::Idle) {
            self.begin_request(io, place);
        } else {
            self.dial(io, place);
        }
    }

    fn dial(&mut self, io: &mut HttpConnections<'_>, place: u32) {
        close(io, place);
        if let Err(fault) = io.dial(place) {
            self.unopened(io, place, fault);
        }
    }

    /// A connection could not be opened.
    fn unopened(&mut self, io: &mut HttpConnections<'_>, place: u32, fault: SocketFault) {
        *self.counts.unopened.entry(fault).or_default() += 1;
        self.refused.get_or_insert_with(MonotonicTime::now);
        self.fail(io, place, RequestFailure::Socket(fault));
    }

    fn begin_request(&mut self, io: &mut HttpConnections<'_>, place: u32) {
        let now = MonotonicTime::now();
        let slot = io.slot(place);
        let Some(job) = slot.session.job else { return };
        slot.since = now;
        slot.session.written = 0;
        match (&self.shared.scenarios, &slot.session.user) {
            // What is correct is decided per step, after the answer, so no status is fixed here.
            (Some(set), Some(user)) => {
                slot.session.response.reset(false);
                slot.session.response.expect_status(None);
                slot.session.response.keep(user.body_limit(set));
            }
            _ => {
                let request = self.shared.requests.at(job.request);
                slot.session.response.reset(request.no_body);
                slot.session.response.expect_status(request.status);
            }
        }
        io.enter(place, HttpPhase::Busy);
        self.counts.first.get_or_insert(now);
        self.counts.last_send = Some(now);
        self.counts.due_span.add(job.intended);
        // A retried request was sent on time once; its second send is the server's doing.
        if self.budget.is_open() && !job.retried {
            if job.waited {
                self.counts.waited += 1;
            } else {
                io.meter.cost.late.record(now.since(job.intended));
            }
        }
        self.transmit(io, place);
    }

    fn transmit(&mut self, io: &mut HttpConnections<'_>, place: u32) {
        let slot = io.slot(place);
        let (Some(job), Some(stream)) = (slot.session.job, &mut slot.stream) else { return };
        if let Err(error) = stream.flush() {
            slot.session.broken = Some(SocketFault::of(&error));
            return;
        }
        let request = match &slot.session.user {
            Some(user) => user.request(),
            None => &self.shared.requests.at(job.request).bytes,
        };
        while slot.session.written < request.len() {
            match stream.write(&request[slot.session.written..]) {
                Ok(sent) => slot.session.written += sent,
                // The reactor reports when there is room again.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // The server may have answered before it closed, so what it sent is read first: the event that says
                    // so is still to come.
                    slot.session.broken = Some(SocketFault::of(&error));
                    return;
                }
            }
        }
    }

    /// Counts a complete response and frees its connection.
    fn complete(
        &mut self,
        io: &mut HttpConnections<'_>,
        place: u32,
        response: ParsedResponse,
        arrived: MonotonicTime,
    ) {
        let slot = io.slot(place);
        let Some(job) = slot.session.job.take() else { return };
        // The later of both: threads and connections do not finish in order.
        self.counts.last = self.counts.last.max(Some(arrived));
        let pause = match self.shared.judge(&mut slot.session, job.request, response) {
            Ok(pause) => {
                let (latency, service) = (arrived.since(job.intended), arrived.since(slot.since));
                self.counts.complete(job.route, latency, service);
                self.counts.redirects += u64::from(self.shared.is_redirect(job.request, response));
                pause
            }
            Err(problem) => {
                let (failure, status) = (problem.failure, Some(response.status));
                let failed = FailedRequest { route: job.route, failure, status };
                self.counts.fail(failed, problem.message, slot.session.response.body_start());
                0
            }
        };
        slot.session.served += 1;
        let length = self.shared.request(&slot.session, job.request).len();
        // An answer before the whole request was sent: the rest would be read as the next request.
        let reusable = response.keep_alive && slot.session.written == length;
        io.meter.cost.messages += 1;
        if reusable {
            io.enter(place, HttpPhase::Idle);
        } else {
            close(io, place);
        }
        self.outstanding -= 1;
        if pause == 0 {
            self.reuse(io, place);
        } else {
            self.thinking.push(Reverse((MonotonicTime::now().after(pause), place)));
        }
    }

    /// Gives a free connection the next request of a closed load at once.
    fn reuse(&mut self, io: &mut HttpConnections<'_>, place: u32) {
        if !self.budget.is_open()
            && let Some(intended) = self.budget.next(MonotonicTime::now())
        {
            self.assign(io, place, intended);
        } else {
            self.free.push_back(place);
        }
    }

    /// The server closed the connection, or it broke.
    fn ended(&mut self, io: &mut HttpConnections<'_>, place: u32, fault: Option<SocketFault>) {
        let slot = io.slot(place);
        // An error that a write has met is not told again to a read.
        let fault = fault.or(slot.session.broken);
        let busy = slot.stage == Stage::Open(HttpPhase::Busy);
        let Some(job) = slot.session.job.filter(|_| busy) else {
            if slot.stage.is_opening() {
                return self.unopened(io, place, fault.unwrap_or(SocketFault::Reset));
            }
            return close(io, place);
        };
        let expected = self.shared.expected(job.request);
        // After a reset a body without a length may be cut off anywhere.
        if fault.is_none()
            && let Ok(response) = slot.session.response.end(expected)
        {
            return self.complete(io, place, response, MonotonicTime::now());
        }
        // The server closed before it read the request. On a new connection it would be an error.
        let is_stale = slot.session.served > 0 && !slot.session.response.has_begun();
        if is_stale && !job.retried && self.may_repeat(&slot.session) {
            if let Some(job) = &mut slot.session.job {
                job.retried = true;
            }
            self.counts.retried += 1;
            return self.dial(io, place);
        }
        let failure = match fault {
            // TLS without `close_notify` may have been cut off, so it is not a whole response.
            None | Some(SocketFault::Truncated) => RequestFailure::Early,
            Some(fault) => RequestFailure::Socket(fault),
        };
        self.fail(io, place, failure);
    }

    /// Whether a request can be sent again although the server may have read it: one that acts only once does, or of which it
    /// cannot have read the end (RFC 9110, 9.2.2).
    fn may_repeat(&self, session: &HttpSession) -> bool {
        let Some(job) = session.job else { return false };
        let request = self.shared.request(session, job.request);
        let acts_each_time = [&b"POST "[..], b"PATCH ", b"CONNECT "];
        session.written < request.len()
            || !acts_each_time.iter().any(|method| request.starts_with(method))
    }

    /// Gives up a connection and its request, if it has one.
    fn fail(&mut self, io: &mut HttpConnections<'_>, place: u32, failure: RequestFailure) {
        if failure == RequestFailure::Tls {
            self.refused.get_or_insert_with(MonotonicTime::now);
        }
        io.failed();
        close(io, place);
        let session = &mut io.slot(place).session;
        if let Some(job) = session.job.take() {
            // The user's session may rest on what the lost response would have changed.
            session.user.iter_mut().for_each(|user| user.restart());
            let failed = FailedRequest { route: job.route, failure, status: None };
            self.counts.fail(failed, None, &[]);
            self.outstanding -= 1;
        }
        // Not dialed at once: a dead server would otherwise be asked without a pause.
        self.cooling.push((MonotonicTime::now().after(COOL_DOWN), place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{StampClock, offset};
    use crate::connections::Connections;
    use crate::null::NullHttp;
    use crate::reactor::Reactor;
    use crate::stream::Dialer;
    use crate::target::resolve;
    use carat_model::Span;
    use carat_proc::process::ProcRoot;
    use std::net::TcpListener;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// The clock is set back by an hour a tenth of a second after it is first read.
    fn set_back() -> i64 {
        static BEGUN: OnceLock<MonotonicTime> = OnceLock::new();
        let passed = MonotonicTime::now().since(*BEGUN.get_or_init(MonotonicTime::now));
        offset() - if passed > 100_000_000 { 3_600_000_000_000 } else { 0 }
    }

    /// Drives a load by one thread; `read` is the clock that converts the kernel's time stamps.
    fn driven(load: &HttpLoad, url: &str, read: Option<fn() -> i64>) -> LoadReport {
        let root = ProcRoot::default();
        let dialer = Dialer::new(resolve(url).unwrap(), &load.options, &root).unwrap();
        let shared = Arc::new(HttpProtocol::share(load, dialer.target(), 1).unwrap());
        let shard = Shard { index: 0, threads: 1 };
        let protocol = HttpProtocol::new(Arc::clone(&shared), shard);
        let counters = ProgressCounters::default();
        let mut connections = Connections::new(&dialer, &load.options, &counters, shard).unwrap();
        if let Some(read) = read {
            connections.stamps = StampClock::new(read);
        }
        let counts = Reactor::new(connections, protocol, 0).unwrap().run().unwrap();
        let run = RunFacts { threads: 1, ..RunFacts::default() };
        HttpProtocol::report(load, &shared, vec![counts], &run)
    }

    /// The report of a load whose time stamps are converted with that clock; only the clock is not the kernel's.
    fn report_by(read: fn() -> i64) -> LoadReport {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = AtomicBool::new(false);
        let options = HttpOptions { duration: Some(Span::millis(400)), ..HttpOptions::default() };
        let load = options.load(&url).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| NullHttp::new(listener, 5).unwrap().serve(&stop));
            let report = driven(&load, &url, Some(read));
            stop.store(true, Ordering::Relaxed);
            report
        })
    }

    /// What a server was asked that answers the first request of a connection and closes it without an answer to the second, and
    /// the report of two requests.
    fn closing_after_the_first(method: &str) -> (Vec<String>, LoadReport) {
        use std::io::{BufRead, BufReader, Write};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut options =
            HttpOptions { requests: Some(2), connections: 1, ..HttpOptions::default() };
        options.method = method.to_owned();
        let load = options.load(&url).unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                for answered in [true, false] {
                    let head: Vec<String> = lines
                        .by_ref()
                        .map_while(Result::ok)
                        .take_while(|line| !line.is_empty())
                        .collect();
                    let Some(first) = head.first() else { break };
                    send.send(first.clone()).unwrap();
                    if answered {
                        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
                    }
                }
            }
        });
        let report = driven(&load, &url, None);
        (receive.try_iter().collect(), report)
    }

    #[test]
    fn a_request_that_acts_each_time_is_not_repeated_after_the_server_closed() {
        let (asked, report) = closing_after_the_first("POST");
        assert_eq!((asked.len(), report.completed, report.errors), (2, 1, 1), "{asked:?}");
        let (asked, report) = closing_after_the_first("GET");
        assert_eq!((asked.len(), report.completed, report.errors), (3, 2, 0), "{asked:?}");
        // A worker that crashes looks the same.
        let said = report.flags.iter().find(|flag| flag.code == "retried").unwrap();
        assert!(said.message.starts_with("1 request sent again"), "{said:?}");
    }

    #[test]
    fn threads_take_turns_through_a_replay() {
        let url = "http://127.0.0.1:9";
        let load = HttpOptions::default().load(url).unwrap();
        let dialer =
            Dialer::new(resolve(url).unwrap(), &load.options, &ProcRoot::default()).unwrap();
        let shared = Arc::new(HttpProtocol::share(&load, dialer.target(), 3).unwrap());
        let threads = (0..3).map(|index| Shard { index, threads: 3 });
        let turns = threads.map(|shard| HttpProtocol::new(Arc::clone(&shared), shard).turn);
        assert_eq!(turns.collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_clock_that_is_set_during_a_load_is_reported_and_spoils_no_latency() {
        for (read, flagged) in [(set_back as fn() -> i64, true), (offset, false)] {
            let report = report_by(read);
            let found = report.flags.iter().any(|flag| flag.code == "clock-step");
            assert_eq!(found, flagged, "{:?}", report.flags);
            assert!(report.completed > 0 && report.metrics["latency.max"] < 60.0);
        }
    }
}
