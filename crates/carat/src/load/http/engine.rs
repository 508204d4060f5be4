//! One thread of an HTTP load: an epoll loop over kept-alive connections.
//!
//! A *job* is one request with the moment at which it was meant to be sent. A job is given to a connection and stays with
//! it until there is a response or a fault; only a job whose kept-alive connection the server had closed before the
//! request reached it moves to a new connection, once (RFC 9110, 9.2.2).

use crate::load::budget::{RequestBudget, SendPlan};
use crate::load::clock::{MonotonicTime, StampClock, nanos_of};
use crate::load::http::connection::{Connection, Job, State};
use crate::load::http::requests::{Chooser, Requests};
use crate::load::http::response::ParsedResponse;
use crate::load::http::tally::{Fault, Tally};
use crate::load::meter::Meter;
use crate::load::net::{Poller, Readiness, Receipt};
use crate::load::progress::ProgressCounters;
use crate::load::stream::Dialer;
use crate::load::tls::{explain, is_hopeless};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Between two looks at deadlines, clocks and the watcher's counters, in nanoseconds like all that follow.
const TICK: u64 = 50_000_000;
/// How long a connection that could not be made waits before it tries again.
const COOL: u64 = 100_000_000;
/// After so long in which no connection could be made the server counts as gone.
const GONE: u64 = 3_000_000_000;
/// How long the load waits for its connections before it begins with those there are.
const SETTLE: u64 = 5_000_000_000;
/// A handshake this long has lost its first packet: the kernel sends it again after a second (RFC 6298).
const SLOW_CONNECT: u64 = 900_000_000;
/// Handshakes under way at once, well below the usual accept queue.
const RAMP: usize = 64;
/// Bytes of one read.
const BUFFER: usize = 64 * 1024;

/// What one thread has to do.
#[derive(Debug)]
pub(crate) struct Share {
    /// Its connections.
    pub(crate) connections: u32,
    /// What it sends when.
    pub(crate) plan: SendPlan,
    /// Seconds to wait for an answer.
    pub(crate) timeout_s: f64,
    /// Least nanoseconds between two wake-ups.
    pub(crate) quantum: u64,
}

/// The loop and all it holds.
#[derive(Debug)]
pub(crate) struct Engine<'a> {
    share: &'a Share,
    requests: &'a Requests,
    dialer: &'a Dialer,
    counters: &'a ProgressCounters,
    connections: Vec<Connection>,
    free: VecDeque<u32>,
    cooling: Vec<(MonotonicTime, u32)>,
    unopened: u32,
    connecting: usize,
    outstanding: u64,
    budget: RequestBudget,
    begun: bool,
    /// Since when every connection has been busy.
    all_busy: Option<MonotonicTime>,
    /// Since when every attempt to connect has failed.
    refused: Option<MonotonicTime>,
    started: MonotonicTime,
    next_tick: MonotonicTime,
    woken: MonotonicTime,
    poller: Poller,
    pub(crate) stamps: StampClock,
    buffer: Vec<u8>,
    chooser: Chooser,
    meter: Meter,
    tally: Tally,
}

impl<'a> Engine<'a> {
    /// A loop that has not opened anything yet.
    ///
    /// # Errors
    /// Where the kernel has no descriptor for the poller.
    pub(crate) fn new(
        share: &'a Share,
        requests: &'a Requests,
        dialer: &'a Dialer,
        counters: &'a ProgressCounters,
    ) -> io::Result<Self> {
        let now = MonotonicTime::now();
        Ok(Self {
            share,
            requests,
            dialer,
            counters,
            connections: (0..share.connections).map(|_| Connection::default()).collect(),
            free: VecDeque::new(),
            cooling: Vec::new(),
            unopened: 0,
            connecting: 0,
            outstanding: 0,
            budget: RequestBudget::none(),
            begun: false,
            all_busy: None,
            refused: None,
            started: now,
            next_tick: now,
            woken: now,
            poller: Poller::new(256)?,
            stamps: StampClock::default(),
            buffer: vec![0; BUFFER],
            chooser: Chooser::new(share.plan.seed),
            meter: Meter::begin(now),
            tally: Tally::default(),
        })
    }

    /// Opens the connections, drives the load and counts.
    ///
    /// # Errors
    /// Where the kernel has no room for the connections.
    pub(crate) fn run(mut self) -> io::Result<Tally> {
        loop {
            let now = MonotonicTime::now();
            if now >= self.next_tick {
                self.tick(now);
            }
            if !self.begun {
                self.settle(now);
            }
            self.hand_out(now);
            if self.is_finished(now) {
                break;
            }
            self.coalesce(now);
            // Not only at every tick: growth is told against it.
            ProgressCounters::put(&self.counters.done, self.tally.completed + self.tally.errors());
            let ready = self.poller.wait(self.patience(MonotonicTime::now()))?;
            self.woken = MonotonicTime::now();
            for at in 0..ready {
                let ready = self.poller.ready(at);
                self.on_ready(ready);
            }
        }
        let now = MonotonicTime::now();
        self.tally.due = self.budget.handed();
        self.meter.own.clock_steps = self.stamps.steps();
        self.tally.own = self.meter.end(now);
        Ok(self.tally)
    }

    fn is_finished(&self, now: MonotonicTime) -> bool {
        self.tally.gone || (self.begun && self.outstanding == 0 && self.budget.is_over(now))
    }

    /// Opens connections, and begins when all have been tried.
    fn settle(&mut self, now: MonotonicTime) {
        while self.connecting < RAMP && self.unopened < self.share.connections {
            self.unopened += 1;
            self.dial(self.unopened - 1);
        }
        let tried = self.connecting == 0 && self.unopened == self.share.connections;
        if tried || now.since(self.started) > SETTLE {
            self.begun = true;
            self.tally.connected = self.free.len() as u64;
            for place in std::mem::replace(&mut self.unopened, self.share.connections)
                ..self.share.connections
            {
                self.free.push_back(place);
            }
            let now = MonotonicTime::now();
            // What was slow while the connections were made still counts.
            let slow_connects = self.meter.own.slow_connects;
            self.meter = Meter::begin(now);
            self.meter.own.slow_connects = slow_connects;
            self.budget = RequestBudget::begin(&self.share.plan, now);
            ProgressCounters::put(&self.counters.begun_ms, now.millis());
        }
    }

    /// Gives due jobs to free connections.
    fn hand_out(&mut self, now: MonotonicTime) {
        while let Some(place) = self.free.front().copied() {
            let Some(intended) = self.budget.next(now) else {
                self.all_busy = None;
                return;
            };
            self.free.pop_front();
            self.assign(place, intended);
        }
        // What falls due from here on waits for a connection; what was due before waited for us.
        self.all_busy.get_or_insert(now);
    }

    /// Sleeps out the quantum, so that many arrivals cost one wake-up.
    fn coalesce(&self, now: MonotonicTime) {
        let due = self.budget.due(now).is_some_and(|due| due <= now);
        let hungry = self.free.is_empty() && self.budget.is_open() && due;
        if self.share.quantum == 0 || self.outstanding == 0 || hungry {
            return;
        }
        let until = self.woken.after(self.share.quantum);
        let until = self.budget.due(now).map_or(until, |due| due.min(until));
        std::thread::sleep(Duration::from_nanos(until.since(now)));
    }

    /// How long the poller may wait.
    fn patience(&self, now: MonotonicTime) -> u64 {
        let due = if self.free.is_empty() { None } else { self.budget.due(now) };
        due.map_or(self.next_tick, |due| due.min(self.next_tick)).since(now)
    }

    fn tick(&mut self, now: MonotonicTime) {
        self.next_tick = now.after(TICK);
        self.stamps.sample(now);
        self.meter.tick(now);
        let timeout = nanos_of(self.share.timeout_s);
        for place in 0..self.connections.len() {
            let connection = &self.connections[place];
            let waits = connection.state.is_opening() || connection.state == State::Busy;
            if waits && now.since(connection.since) > timeout {
                self.fail(place as u32, Fault::Timeout);
            }
        }
        let cooled: Vec<u32> = self
            .cooling
            .extract_if(.., |(until, _)| *until <= now)
            .map(|(_, place)| place)
            .collect();
        self.free.extend(cooled);
        let silent = self.connections.iter().all(|one| one.state == State::Closed);
        self.tally.gone |= silent && self.refused.is_some_and(|since| now.since(since) > GONE);
        self.show();
    }

    fn show(&self) {
        let open = self.connections.iter().filter(|one| one.stream.is_some()).count();
        ProgressCounters::put(&self.counters.messages, self.tally.completed);
        ProgressCounters::put(&self.counters.errors, self.tally.errors());
        ProgressCounters::put(&self.counters.connections, (open - self.connecting) as u64);
        ProgressCounters::put_seconds(&self.counters.p50_us, self.tally.latency.quantile(0.5));
        ProgressCounters::put_seconds(&self.counters.p95_us, self.tally.latency.quantile(0.95));
        ProgressCounters::put_seconds(&self.counters.lag_us, self.meter.own.lag.quantile(0.99));
    }

    fn assign(&mut self, place: u32, intended: MonotonicTime) {
        let route = self.chooser.next(self.requests);
        let connection = &mut self.connections[place as usize];
        let waited = self.all_busy.is_some_and(|since| intended >= since);
        connection.job = Some(Job { route, intended, waited, retried: false });
        self.outstanding += 1;
        match connection.state {
            State::Idle => self.begin_request(place),
            _ => self.dial(place),
        }
    }

    fn dial(&mut self, place: u32) {
        let connection = &mut self.connections[place as usize];
        connection.close();
        let token = u64::from(place) | u64::from(connection.generation) << 32;
        let stream = self.dialer.dial(None).and_then(|stream| {
            self.poller.add(stream.socket(), token)?;
            Ok(stream)
        });
        connection.since = MonotonicTime::now();
        match stream {
            Ok(stream) => {
                connection.stream = Some(stream);
                connection.state = State::Connecting;
                self.connecting += 1;
            }
            Err(_) => self.fail(place, Fault::Connect),
        }
    }

    fn on_ready(&mut self, ready: Readiness) {
        let place = ready.token as u32;
        let index = place as usize;
        if self.connections[index].generation != (ready.token >> 32) as u32 {
            return;
        }
        if self.connections[index].state == State::Connecting && !self.finish_connect(place, ready)
        {
            return;
        }
        if self.connections[index].state == State::Securing && !self.secure(place) {
            return;
        }
        let connection = &self.connections[index];
        if ready.writable && connection.state == State::Busy {
            self.transmit(place);
        }
        if ready.readable {
            self.read(place, ready.hung_up);
        }
    }

    /// Whether the connection is there now.
    fn finish_connect(&mut self, place: u32, ready: Readiness) -> bool {
        let connection = &mut self.connections[place as usize];
        let Some(stream) = &connection.stream else { return false };
        if !ready.writable && !ready.hung_up {
            return false;
        }
        if stream.connected().is_err() {
            self.fail(place, Fault::Connect);
            return false;
        }
        if MonotonicTime::now().since(connection.since) > SLOW_CONNECT {
            self.meter.own.slow_connects += 1;
        }
        connection.state = State::Securing;
        true
    }

    /// Whether the TLS handshake is done now; a plain connection has none to do.
    fn secure(&mut self, place: u32) -> bool {
        let connection = &mut self.connections[place as usize];
        let Some(stream) = &mut connection.stream else { return false };
        match stream.shake() {
            Ok(true) => {}
            Ok(false) => return false,
            Err(error) => {
                self.tally.gone |= is_hopeless(&error);
                self.tally.tls = Some(explain(&error));
                self.fail(place, Fault::Tls);
                return false;
            }
        }
        self.connecting -= 1;
        self.refused = None;
        connection.state = State::Idle;
        if connection.job.is_some() {
            self.begin_request(place);
        } else {
            self.free.push_back(place);
        }
        true
    }

    fn begin_request(&mut self, place: u32) {
        let now = MonotonicTime::now();
        let connection = &mut self.connections[place as usize];
        let Some(job) = connection.job else { return };
        connection.state = State::Busy;
        connection.since = now;
        connection.written = 0;
        connection.response.reset(self.requests.at(job.route).no_body);
        self.tally.first.get_or_insert(now);
        self.tally.last_send = Some(now);
        if self.budget.is_open() && !job.retried {
            if job.waited {
                self.tally.waited += 1;
            } else {
                self.meter.own.late.record(now.since(job.intended));
            }
        }
        self.transmit(place);
    }

    fn transmit(&mut self, place: u32) {
        let connection = &mut self.connections[place as usize];
        let (Some(job), Some(stream)) = (connection.job, &mut connection.stream) else { return };
        if stream.flush().is_err() {
            return self.broken(place);
        }
        let request = &self.requests.at(job.route).bytes;
        while connection.written < request.len() {
            match stream.write(&request[connection.written..]) {
                Ok(sent) => connection.written += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.broken(place),
            }
        }
    }

    fn read(&mut self, place: u32, hung_up: bool) {
        loop {
            let connection = &mut self.connections[place as usize];
            let Some(stream) = &mut connection.stream else { return };
            let receipt = match stream.read(&mut self.buffer) {
                Ok(Receipt { length: 0, .. }) => return self.broken(place),
                Ok(receipt) => receipt,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.broken(place),
            };
            self.take(place, receipt);
            if receipt.drained && !hung_up {
                return;
            }
        }
    }

    fn take(&mut self, place: u32, receipt: Receipt) {
        let read = MonotonicTime::now();
        let stamped = receipt.stamp.and_then(|stamp| self.stamps.moment(stamp, read));
        if let Some(arrived) = stamped {
            self.meter.own.lag.record(read.since(arrived));
        }
        let connection = &mut self.connections[place as usize];
        let Some(job) = connection.job.filter(|_| connection.state == State::Busy) else {
            // Nobody asked: a server says so before it closes an idle connection (RFC 9110, 15.5.9).
            connection.close();
            return;
        };
        let expected = self.requests.at(job.route).body();
        match connection.response.take(&self.buffer[..receipt.length], expected) {
            Ok(None) => {}
            Ok(Some(whole)) => self.finish(place, whole, stamped.unwrap_or(read)),
            Err(_) => self.fail(place, Fault::Malformed),
        }
    }

    /// A response is whole: counts it and goes on.
    fn finish(&mut self, place: u32, whole: ParsedResponse, arrived: MonotonicTime) {
        let connection = &mut self.connections[place as usize];
        let Some(job) = connection.job.take() else { return };
        let request = self.requests.at(job.route);
        self.meter.own.messages += 1;
        self.tally.last = self.tally.last.max(Some(arrived));
        if !request.accepts(whole.status) {
            self.tally.fault(Fault::Status);
        } else if whole.body_right {
            self.tally.completed += 1;
            self.tally.latency.record(arrived.since(job.intended));
            self.tally.service.record(arrived.since(connection.since));
        } else {
            self.tally.fault(Fault::Body);
        }
        connection.served += 1;
        connection.state = State::Idle;
        if !whole.keep_alive || connection.written < request.bytes.len() {
            connection.close();
        }
        self.outstanding -= 1;
        self.offer(place);
    }

    /// A connection is free: the next job of a closed load begins at once.
    fn offer(&mut self, place: u32) {
        if !self.budget.is_open()
            && let Some(intended) = self.budget.next(MonotonicTime::now())
        {
            self.assign(place, intended);
        } else {
            self.free.push_back(place);
        }
    }

    /// The other side has closed or reset the connection.
    fn broken(&mut self, place: u32) {
        let connection = &mut self.connections[place as usize];
        let Some(job) = connection.job.as_mut().filter(|_| connection.state == State::Busy) else {
            let opening = connection.state.is_opening();
            return if opening { self.fail(place, Fault::Connect) } else { connection.close() };
        };
        let expected = self.requests.at(job.route).body();
        if let Ok(whole) = connection.response.end(expected) {
            return self.finish(place, whole, MonotonicTime::now());
        }
        if connection.served > 0 && !connection.response.has_begun() && !job.retried {
            job.retried = true;
            self.tally.retried += 1;
            return self.dial(place);
        }
        self.fail(place, Fault::Early);
    }

    /// Gives up on a connection and on its job, if it has one.
    fn fail(&mut self, place: u32, fault: Fault) {
        let connection = &mut self.connections[place as usize];
        if connection.state.is_opening() {
            self.connecting -= 1;
        }
        if matches!(fault, Fault::Connect | Fault::Tls) {
            self.refused.get_or_insert_with(MonotonicTime::now);
        }
        connection.close();
        if connection.job.take().is_some() {
            self.tally.fault(fault);
            self.outstanding -= 1;
        }
        self.cooling.push((MonotonicTime::now().after(COOL), place));
    }
}
