//! The steps of a cable load: add connections until all are subscribed, broadcast, wait for everybody, listen on.

use crate::load::board::Board;
use crate::load::cable::engine::{Engine, StageTimes};
use crate::load::cable::tally::Tally;
use crate::load::clock::{Moment, nanos_of};
use crate::load::meter::{Meter, Own};
use crate::load::supply::{Plan, Supply};
use crate::model::load::{BroadcastEnd, Pace, StepReport};
use std::io;
use std::time::Duration;

/// Between two looks at deadlines, clocks and the watcher's board, in nanoseconds.
const LOOK: u64 = 100_000_000;
/// Broadcasts of an open load that may be under way; more are sent late, and counted so.
const OPEN_MAX: u32 = 4096;

/// A run through all steps.
#[derive(Debug)]
pub(crate) struct Steps<'a> {
    engine: Engine<'a>,
    quantum: u64,
    timeout: u64,
    next_look: Moment,
    woken: Moment,
    begun: Moment,
    done: u64,
    received: u64,
}

impl<'a> Steps<'a> {
    /// A run that has not begun.
    pub(crate) fn new(engine: Engine<'a>, quantum: u64) -> Self {
        let timeout = nanos_of(engine.load.options.timeout_s);
        let now = Moment::now();
        Self {
            engine,
            quantum,
            timeout,
            next_look: now,
            woken: now,
            begun: now,
            done: 0,
            received: 0,
        }
    }

    /// Runs every step; stops where a step's connections cannot all be subscribed.
    ///
    /// # Errors
    /// Where the kernel has no room for the connections.
    pub(crate) fn run(mut self) -> io::Result<Tally> {
        let mut own = Own::default();
        for _ in 0..self.engine.load.steps {
            let Some(ramp_s) = self.ramp()? else { break };
            own.slow_connects += self.engine.meter.own.slow_connects;
            self.engine.meter = Meter::begin(Moment::now());
            let step = self.step(ramp_s)?;
            self.engine.tally.steps.push(step);
            let now = Moment::now();
            let meter = std::mem::replace(&mut self.engine.meter, Meter::begin(now));
            own.merge(&meter.end(now));
        }
        own.clock_steps = self.engine.stamps.steps();
        own.slow_connects += self.engine.meter.own.slow_connects;
        let parsed = self.engine.parsed();
        let mut tally = self.engine.tally;
        tally.lost = self.engine.flights.lost;
        tally.parsed = parsed;
        tally.own = own;
        Ok(tally)
    }

    /// Adds a step's connections; the seconds it took, or nothing where some were not subscribed in time.
    fn ramp(&mut self) -> io::Result<Option<f64>> {
        let begun = Moment::now();
        self.engine.grow(self.engine.load.step_size);
        let deadline = begun.after(nanos_of(self.engine.load.ready_s));
        loop {
            let (ready, asked) = (self.engine.flights.ready(), self.engine.asked());
            let now = Moment::now();
            if ready == asked {
                return Ok(Some(now.since(begun) as f64 / 1e9));
            }
            if now >= deadline
                || ready + self.engine.gone == asked
                || self.engine.tally.tls.is_some()
            {
                self.engine.tally.not_ready = Some((ready, asked));
                return Ok(None);
            }
            self.turn(now.after(LOOK))?;
        }
    }

    /// The broadcasts of a step, and the time after in which duplicates would come.
    fn step(&mut self, ramp_s: f64) -> io::Result<StepReport> {
        let clients = self.engine.flights.ready();
        let begun = Moment::now();
        if self.engine.tally.steps.is_empty() {
            self.begun = begun;
            Board::put(&self.engine.board.begun_ms, begun.millis());
        }
        self.drive(begun)?;
        let ended = Moment::now();
        let quiet = ended.after(nanos_of(self.engine.load.linger_s));
        while Moment::now() < quiet {
            self.turn(quiet)?;
        }
        Ok(self.report(clients, ramp_s, (begun, ended)))
    }

    fn drive(&mut self, begun: Moment) -> io::Result<()> {
        let load = self.engine.load;
        let open = match load.pace {
            Pace::Open { per_second, arrivals } => Some((per_second, arrivals)),
            Pace::Closed { .. } => None,
        };
        let seed = load.options.seed.wrapping_add(self.engine.flights.next_number());
        let count = Some(u64::from(load.broadcasts));
        let mut supply = Supply::begin(&Plan { count, seconds: None, open, seed }, begun);
        let first = self.engine.flights.next_number();
        let mut last_send = begun;
        self.engine.acked = 0;
        loop {
            let now = Moment::now();
            while self.may_send(first) {
                let Some(intended) = supply.next(now) else { break };
                if !self.engine.broadcast(intended) {
                    break;
                }
                last_send = Moment::now();
                if open.is_some() {
                    self.engine.meter.own.late.record(last_send.since(intended));
                }
            }
            let given_up = self.engine.flights.give_up(Moment(now.0.saturating_sub(self.timeout)));
            self.engine.tally.given_up += u64::from(given_up);
            self.done += u64::from(std::mem::take(&mut self.engine.settled) + given_up);
            let stranded = self.engine.flights.ready() == 0 && self.engine.opening == 0;
            if (supply.is_over(now) && self.engine.flights.open() == 0) || stranded {
                break;
            }
            let full = !self.may_send(first);
            let due = supply.due(now).filter(|_| !full);
            self.turn(due.unwrap_or(now.after(LOOK)))?;
        }
        if open.is_some() && last_send > begun && supply.handed() > 1 {
            let span = last_send.since(begun) as f64 / 1e9;
            self.engine.tally.rates.push((supply.handed() - 1) as f64 / span);
        }
        Ok(())
    }

    /// Whether another broadcast may be under way.
    fn may_send(&self, first: u64) -> bool {
        let under_way = self.engine.flights.open();
        match (self.engine.load.pace, self.engine.load.ends) {
            (Pace::Open { .. }, _) => under_way < OPEN_MAX,
            (Pace::Closed { at_once }, BroadcastEnd::Everyone) => under_way < at_once,
            (Pace::Closed { at_once }, BroadcastEnd::Own) => {
                let sent = (self.engine.flights.next_number() - first) as u32;
                under_way.min(sent - self.engine.acked.min(sent)) < at_once
            }
        }
    }

    /// One wait, and everything that came with it.
    fn turn(&mut self, until: Moment) -> io::Result<()> {
        let now = Moment::now();
        if now >= self.next_look {
            self.next_look = now.after(LOOK);
            self.engine.look_after(now);
            self.show();
        }
        self.engine.open_more(now);
        if self.quantum > 0 && (self.engine.flights.open() > 0 || self.engine.opening > 0) {
            let until = self.woken.after(self.quantum).min(until);
            std::thread::sleep(Duration::from_nanos(until.since(Moment::now())));
        }
        let until = until.min(self.next_look);
        let ready = self.engine.poller.wait(until.since(Moment::now()))?;
        self.woken = Moment::now();
        self.engine.handle(ready);
        Ok(())
    }

    fn show(&self) {
        let (engine, board) = (&self.engine, self.engine.board);
        let received = self.received + engine.flights.times.delivery.count();
        Board::put(&board.done, self.done);
        Board::put(&board.messages, received);
        Board::put(&board.errors, engine.tally.given_up);
        Board::put(&board.connections, u64::from(engine.flights.ready()));
        Board::put_seconds(&board.p50_us, engine.flights.times.complete.quantile(0.5));
        Board::put_seconds(&board.p95_us, engine.flights.times.complete.quantile(0.95));
        Board::put_seconds(&board.lag_us, engine.meter.own.lag.quantile(0.99));
    }

    fn report(&mut self, clients: u32, ramp_s: f64, window: (Moment, Moment)) -> StepReport {
        let (broadcasts, times) = self.engine.flights.finish();
        let stages: StageTimes = std::mem::take(&mut self.engine.stages);
        self.engine.tally.delivery.merge(&times.delivery);
        self.received += times.delivery.count();
        let named = [
            ("complete", &times.complete),
            ("delivery", &times.delivery),
            ("first", &times.first),
            ("own", &times.own),
            ("ack", &times.ack),
            ("spread", &times.spread),
            ("connect", &stages.connect),
            ("welcome", &stages.welcome),
            ("confirm", &stages.confirm),
        ];
        let times = named.iter().filter_map(|(name, of)| Some(((*name).to_owned(), of.times()?)));
        let sum = |of: fn(&crate::model::load::BroadcastRow) -> u32| -> u64 {
            broadcasts.iter().map(|row| u64::from(of(row))).sum()
        };
        let (expected, received) = (sum(|row| row.expected), sum(|row| row.received));
        StepReport {
            clients,
            ramp_s,
            window_ms: (window.0.millis(), window.1.millis()),
            times: times.collect(),
            expected,
            received,
            missing: expected.saturating_sub(received),
            duplicate: sum(|row| row.duplicate),
            broadcasts,
        }
    }
}
