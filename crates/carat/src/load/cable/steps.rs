//! The steps of a cable load: add connections until all are subscribed, broadcast, wait for everybody, listen on.

use crate::core::load::{BroadcastEnd, BroadcastRow, Pace};
use crate::load::budget::{RequestBudget, SendPlan, part};
use crate::load::cable::engine::{Engine, StageTimes};
use crate::load::cable::pending::BroadcastTimes;
use crate::load::cable::shards::Shard;
use crate::load::cable::tally::Tally;
use crate::load::clock::{MonotonicTime, nanos_of};
use crate::load::meter::{GeneratorCost, Meter};
use crate::load::progress::ProgressCounters;
use std::io;
use std::time::Duration;

/// Between two looks at deadlines, clocks and the watcher's counters, in nanoseconds.
const LOOK: u64 = 100_000_000;
/// Broadcasts of an open load that may be under way; more are sent late, and counted so.
const OPEN_MAX: u32 = 4096;

/// One thread's part of a step.
#[derive(Debug)]
pub(crate) struct StepPart {
    pub(crate) clients: u32,
    pub(crate) ramp_s: f64,
    pub(crate) begun: MonotonicTime,
    pub(crate) ended: MonotonicTime,
    /// Broadcasts that this thread sent, and the last of them.
    pub(crate) sent: u64,
    pub(crate) last_send: MonotonicTime,
    pub(crate) rows: Vec<BroadcastRow>,
    pub(crate) times: BroadcastTimes,
    pub(crate) stages: StageTimes,
}

/// One thread's run through all steps.
#[derive(Debug)]
pub(crate) struct Steps<'a> {
    engine: Engine<'a>,
    quantum: u64,
    timeout: u64,
    next_look: MonotonicTime,
    woken: MonotonicTime,
    /// Stretches of the run behind this thread: every step has its ramp and its broadcasts.
    stretch: u32,
    sent: u32,
    received: u64,
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        // However this thread ends, the others do not wait for it.
        let Shard { shards, index } = self.engine.shard;
        shards.abandon(index);
    }
}

impl<'a> Steps<'a> {
    /// A run that has not begun.
    pub(crate) fn new(engine: Engine<'a>, quantum: u64) -> Self {
        let timeout = nanos_of(engine.load.options.timeout_s);
        let now = MonotonicTime::now();
        Self {
            engine,
            quantum,
            timeout,
            next_look: now,
            woken: now,
            stretch: 0,
            sent: 0,
            received: 0,
        }
    }

    /// Runs every step; stops where a step's connections cannot all be subscribed.
    ///
    /// # Errors
    /// Where the kernel has no room for the connections.
    pub(crate) fn run(mut self) -> io::Result<Tally> {
        let mut own = GeneratorCost::default();
        for _ in 0..self.engine.load.steps {
            let Some(ramp_s) = self.ramp()? else { break };
            own.slow_connects += self.engine.meter.own.slow_connects;
            self.engine.meter = Meter::begin(MonotonicTime::now());
            let part = self.step(ramp_s)?;
            self.engine.tally.parts.push(part);
            let now = MonotonicTime::now();
            let meter = std::mem::replace(&mut self.engine.meter, Meter::begin(now));
            own.merge(&meter.end(now));
        }
        own.clock_steps = self.engine.stamps.steps();
        own.slow_connects += self.engine.meter.own.slow_connects;
        let parsed = self.engine.parsed();
        let mut tally = std::mem::take(&mut self.engine.tally);
        tally.lost = self.engine.pending.lost;
        tally.parsed = parsed;
        tally.own = own;
        Ok(tally)
    }

    /// Adds a step's connections; the seconds it took, or nothing where some, of whatever thread, were not subscribed in
    /// time.
    fn ramp(&mut self) -> io::Result<Option<f64>> {
        let Shard { shards, index } = self.engine.shard;
        let begun = MonotonicTime::now();
        self.engine.grow(self.engine.shard.part(self.engine.load.step_size));
        let deadline = begun.after(nanos_of(self.engine.load.ready_s));
        self.stretch += 1;
        let mut ramp_s = None;
        while !shards.have_reached(self.stretch) {
            let (ready, asked) = (self.engine.pending.ready(), self.engine.asked());
            let now = MonotonicTime::now();
            if ramp_s.is_none() && ready == asked {
                ramp_s = Some(now.since(begun) as f64 / 1e9);
                shards.reach(index, self.stretch);
                continue;
            }
            let hopeless = ready + self.engine.gone == asked || self.engine.tally.tls.is_some();
            let late = ramp_s.is_none() && (now >= deadline || hopeless);
            if late || shards.is_abandoned() {
                self.engine.tally.not_ready = Some((ready, asked));
                return Ok(None);
            }
            self.turn(now.after(LOOK))?;
        }
        Ok(ramp_s)
    }

    /// The broadcasts of a step, and the time after in which duplicates would come.
    fn step(&mut self, ramp_s: f64) -> io::Result<StepPart> {
        let clients = self.engine.pending.ready();
        let begun = MonotonicTime::now();
        if self.engine.tally.parts.is_empty() {
            ProgressCounters::put(&self.engine.counters.begun_ms, begun.millis());
        }
        let (sent, last_send) = self.drive(begun)?;
        let ended = MonotonicTime::now();
        let quiet = ended.after(nanos_of(self.engine.load.linger_s));
        while MonotonicTime::now() < quiet {
            self.turn(quiet)?;
        }
        let (mut rows, times) = self.engine.pending.finish();
        for row in rows.iter_mut().filter(|row| row.sender != u32::MAX) {
            row.sender = self.engine.shard.number(row.sender);
        }
        self.received += times.delivery.count();
        let stages = std::mem::take(&mut self.engine.stages);
        Ok(StepPart { clients, ramp_s, begun, ended, sent, last_send, rows, times, stages })
    }

    /// Sends this thread's broadcasts and waits until everybody's are over; how many, and when the last.
    fn drive(&mut self, begun: MonotonicTime) -> io::Result<(u64, MonotonicTime)> {
        let Shard { shards, index } = self.engine.shard;
        let (mut budget, first) = (self.budget(begun), self.sent);
        let open = budget.is_open();
        let mut last_send = begun;
        self.engine.acked = 0;
        self.stretch += 1;
        let mut all_sent = false;
        loop {
            let now = MonotonicTime::now();
            self.engine.catch_up();
            while self.may_send(first) {
                let Some(intended) = budget.next(now) else { break };
                if !self.engine.broadcast(intended) {
                    break;
                }
                self.sent += 1;
                last_send = MonotonicTime::now();
                if open {
                    self.engine.meter.own.late.record(last_send.since(intended));
                }
            }
            self.engine.give_up(MonotonicTime(now.0.saturating_sub(self.timeout)));
            let stranded = self.engine.pending.ready() == 0 && self.engine.opening == 0;
            if !all_sent && (budget.is_over(now) || stranded) {
                all_sent = true;
                shards.reach(index, self.stretch);
            }
            // Once all have sent, nothing is announced any more.
            let over = all_sent && shards.have_reached(self.stretch) && shards.open() == 0;
            if over || shards.is_abandoned() {
                return Ok((u64::from(self.sent - first), last_send));
            }
            let due = budget.due(now).filter(|_| !all_sent && self.may_send(first));
            self.turn(due.unwrap_or(now.after(LOOK)))?;
        }
    }

    /// This thread's part of a step's broadcasts.
    fn budget(&self, begun: MonotonicTime) -> RequestBudget {
        let (load, shard) = (self.engine.load, self.engine.shard);
        let threads = shard.shards.threads();
        let (senders, open, offset) = match load.pace {
            Pace::Open { per_second, arrivals } => {
                let offset = f64::from(shard.index) / per_second;
                (threads, Some((per_second / f64::from(threads), arrivals)), offset)
            }
            // A thread that may have none under way sends none.
            Pace::Closed { at_once } => (threads.min(at_once), None, 0.0),
        };
        let sends = shard.index < senders;
        let count = if sends { part(load.broadcasts.into(), shard.index, senders) } else { 0 };
        let seed = load.options.seed.wrapping_add(self.engine.pending.next_number());
        let seed = seed.wrapping_add(shard.index.into());
        RequestBudget::begin(
            &SendPlan { count: Some(count), seconds: None, open, seed },
            begun.after(nanos_of(offset)),
        )
    }

    /// Whether another broadcast of this thread may be under way.
    fn may_send(&self, first: u32) -> bool {
        let Shard { shards, index } = self.engine.shard;
        let under_way = self.sent - shards.over(index);
        match (self.engine.load.pace, self.engine.load.ends) {
            (Pace::Open { .. }, _) => under_way < OPEN_MAX,
            (Pace::Closed { at_once }, end) => {
                let senders = shards.threads().min(at_once);
                let at_once = part(at_once.into(), index.min(senders - 1), senders) as u32;
                let unanswered = (self.sent - first).saturating_sub(self.engine.acked);
                under_way.min(if end == BroadcastEnd::Own { unanswered } else { u32::MAX })
                    < at_once
            }
        }
    }

    /// One wait, and everything that came with it.
    fn turn(&mut self, until: MonotonicTime) -> io::Result<()> {
        let now = MonotonicTime::now();
        if now >= self.next_look {
            self.next_look = now.after(LOOK);
            self.engine.look_after(now);
            self.show();
        }
        self.engine.open_more(now);
        if self.quantum > 0 && (self.engine.pending.open() > 0 || self.engine.opening > 0) {
            let until = self.woken.after(self.quantum).min(until);
            std::thread::sleep(Duration::from_nanos(until.since(MonotonicTime::now())));
        }
        let until = until.min(self.next_look);
        let ready = self.engine.poller.wait(until.since(MonotonicTime::now()))?;
        self.woken = MonotonicTime::now();
        self.engine.handle(ready);
        Ok(())
    }

    fn show(&self) {
        let (engine, counters) = (&self.engine, self.engine.counters);
        let Shard { shards, index } = engine.shard;
        let received = self.received + engine.pending.times.delivery.count();
        ProgressCounters::put(&counters.done, shards.over(index).into());
        ProgressCounters::put(&counters.messages, received);
        // What was given up is known of all together, so one thread says it for all.
        ProgressCounters::put(&counters.errors, if index == 0 { shards.given_up() } else { 0 });
        ProgressCounters::put(&counters.connections, u64::from(engine.pending.ready()));
        ProgressCounters::put_seconds(
            &counters.p50_us,
            engine.pending.times.complete.quantile(0.5),
        );
        ProgressCounters::put_seconds(
            &counters.p95_us,
            engine.pending.times.complete.quantile(0.95),
        );
        ProgressCounters::put_seconds(&counters.lag_us, engine.meter.own.lag.quantile(0.99));
    }
}
