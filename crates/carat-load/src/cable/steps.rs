//! The steps of a cable load: add connections until all are subscribed, broadcast, wait for all deliveries, listen on.

use crate::cable::counts::StepShare;
use crate::cable::session::CableConnections;
use crate::cable::subscribers::Subscribers;
use crate::clock::{MonotonicTime, nanos_of};
use crate::meter::GeneratorCost;
use crate::progress::ProgressCounters;
use crate::reactor::Turn;
use crate::remaining::{RemainingSends, SendPlan};
use crate::schedule::{DueSpan, OpenPlan};
use crate::shard::part;
use carat_model::load::{BroadcastEnd, Pace};

/// The longest wait for other threads, in nanoseconds.
const PATIENCE: u64 = 100_000_000;
/// Broadcasts of an open load that may be under way; more are sent late, and counted so.
const OPEN_MAX: u32 = 4096;

/// What a thread does in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum StepPhase {
    /// Between two steps.
    #[default]
    Between,
    /// The step's connections are added.
    Adding,
    Broadcasting,
    /// After the broadcasts, in case a delivery comes twice.
    Listening,
    Over,
}

/// One thread's way through all steps.
#[derive(Debug)]
pub(super) struct Steps {
    phase: StepPhase,
    /// Steps that are finished.
    finished: u32,
    /// Barriers behind this thread: each step has one after its connections and one after its broadcasts.
    barrier: u32,
    /// When the current phase began.
    begun: MonotonicTime,
    /// When the current step's broadcasts ended, and how long to listen after that.
    ended: MonotonicTime,
    listen_until: MonotonicTime,
    /// Seconds that adding the connections took; `None` until all are subscribed.
    ramp_s: Option<f64>,
    /// Subscribed connections when the step's broadcasts began.
    clients: u32,
    budget: RemainingSends,
    /// Broadcasts that this thread sent, in all and before this step.
    sent: u32,
    sent_before: u32,
    first_send: Option<MonotonicTime>,
    last_send: MonotonicTime,
    due_span: DueSpan,
    all_sent: bool,
    received: u64,
    cost: GeneratorCost,
}

impl Default for Steps {
    fn default() -> Self {
        let never = MonotonicTime::default();
        Self {
            phase: StepPhase::Between,
            finished: 0,
            barrier: 0,
            begun: never,
            ended: never,
            listen_until: never,
            ramp_s: None,
            clients: 0,
            budget: RemainingSends::none(),
            sent: 0,
            sent_before: 0,
            first_send: None,
            last_send: never,
            due_span: DueSpan::default(),
            all_sent: false,
            received: 0,
            cost: GeneratorCost::default(),
        }
    }
}

impl Steps {
    /// Does whatever is due.
    pub(super) fn advance(
        &mut self,
        subscribers: &mut Subscribers,
        io: &mut CableConnections<'_>,
        now: MonotonicTime,
    ) -> Turn {
        loop {
            // Each returns how long to wait, or `None` once its phase is over.
            let until = match self.phase {
                StepPhase::Between => self.begin_step(subscribers, io),
                StepPhase::Adding => self.add_connections(subscribers, io),
                StepPhase::Broadcasting => self.broadcast(subscribers, io),
                StepPhase::Listening => self.listen(subscribers, io),
                StepPhase::Over => return Turn::Done,
            };
            if let Some(until) = until {
                subscribers.open_more(io, now);
                // A sleep is fine if answers are due: the kernel stamps their arrival meanwhile.
                let awaits_arrivals = subscribers.pending.open() > 0 || io.opening() > 0;
                return Turn::Wait { until, sleep_until: awaits_arrivals.then_some(until) };
            }
        }
    }

    fn begin_step(
        &mut self,
        subscribers: &mut Subscribers,
        io: &mut CableConnections<'_>,
    ) -> Option<MonotonicTime> {
        if self.finished == subscribers.shared.load.steps || are_in_vain(subscribers) {
            self.phase = StepPhase::Over;
            return None;
        }
        self.phase = StepPhase::Adding;
        self.begun = MonotonicTime::now();
        self.ramp_s = None;
        self.barrier += 1;
        subscribers.grow(io);
        None
    }

    /// Waits until the connections of all threads are subscribed; the run is over where some are not in time.
    fn add_connections(
        &mut self,
        subscribers: &mut Subscribers,
        io: &mut CableConnections<'_>,
    ) -> Option<MonotonicTime> {
        let (broadcasts, index) = (&subscribers.shared.broadcasts, subscribers.shard.index);
        let (ready, requested) = (subscribers.pending.ready(), io.count());
        let now = MonotonicTime::now();
        // Each thread reports its barrier once; `ramp_s` marks that.
        if self.ramp_s.is_none() && ready == requested {
            self.ramp_s = Some(now.since(self.begun) as f64 / 1e9);
            broadcasts.reach(index, self.barrier);
        }
        // The other threads' steps too, because a broadcast goes to the connections of all.
        if broadcasts.have_reached(self.barrier) {
            self.begin_broadcasts(subscribers, io);
            return None;
        }
        let deadline = self.begun.after(nanos_of(subscribers.shared.load.ready_s));
        let hopeless = subscribers.is_hopeless(requested) || io.is_server_full();
        let failed = now >= deadline || hopeless;
        // A thread that is ready waits on: only the one that lacks connections knows why.
        if (self.ramp_s.is_none() && failed) || broadcasts.is_abandoned() {
            subscribers.counts.not_ready = Some((ready, requested));
            self.phase = StepPhase::Over;
            return None;
        }
        Some(now.after(PATIENCE))
    }

    fn begin_broadcasts(&mut self, subscribers: &mut Subscribers, io: &mut CableConnections<'_>) {
        let now = MonotonicTime::now();
        // Subscribing cost is not the load's, so the meter starts with the broadcasts.
        io.begin_measurement(now);
        self.phase = StepPhase::Broadcasting;
        self.clients = subscribers.pending.ready();
        self.begun = now;
        self.first_send = None;
        self.last_send = now;
        self.due_span = DueSpan::default();
        self.budget = step_budget(subscribers, now);
        self.sent_before = self.sent;
        self.all_sent = false;
        self.barrier += 1;
        subscribers.acknowledged = 0;
    }

    /// Sends this thread's broadcasts and waits until those of all threads are over.
    fn broadcast(
        &mut self,
        subscribers: &mut Subscribers,
        io: &mut CableConnections<'_>,
    ) -> Option<MonotonicTime> {
        let now = MonotonicTime::now();
        subscribers.catch_up();
        self.send_due(subscribers, io, now);
        // A delivery that never comes must not hold the load for ever.
        subscribers.give_up(MonotonicTime(now.0.saturating_sub(io.timeout)));
        let (broadcasts, index) = (&subscribers.shared.broadcasts, subscribers.shard.index);
        // Without any connection left its remaining broadcasts can never be sent.
        let stranded = subscribers.pending.ready() == 0 && io.opening() == 0;
        if !self.all_sent && (self.budget.is_over(now) || stranded) {
            self.all_sent = true;
            broadcasts.reach(index, self.barrier);
        }
        // Once all threads have sent, nothing more is announced.
        let all_over =
            self.all_sent && broadcasts.have_reached(self.barrier) && broadcasts.open() == 0;
        if all_over || are_in_vain(subscribers) || broadcasts.is_abandoned() {
            self.phase = StepPhase::Listening;
            self.ended = MonotonicTime::now();
            self.listen_until = self.ended.after(nanos_of(subscribers.shared.load.linger_s));
            return None;
        }
        let can_send = !self.all_sent && self.may_send(subscribers);
        Some(self.budget.due(now).filter(|_| can_send).unwrap_or(now.after(PATIENCE)))
    }

    fn send_due(
        &mut self,
        subscribers: &mut Subscribers,
        io: &mut CableConnections<'_>,
        now: MonotonicTime,
    ) {
        while self.may_send(subscribers) {
            let Some(intended) = self.budget.next(now) else { return };
            if !subscribers.broadcast(io, intended) {
                return;
            }
            self.sent += 1;
            self.last_send = MonotonicTime::now();
            self.first_send.get_or_insert(self.last_send);
            self.due_span.add(intended);
            if self.budget.is_open() {
                io.meter.cost.late.record(self.last_send.since(intended));
            }
        }
    }

    /// Whether another broadcast of this thread may be under way.
    fn may_send(&self, subscribers: &Subscribers) -> bool {
        let (load, shard) = (&subscribers.shared.load, subscribers.shard);
        let under_way = self.sent - subscribers.shared.broadcasts.over(shard.index);
        match load.pace {
            Pace::Open { .. } => under_way < OPEN_MAX,
            Pace::Closed { at_once } => {
                let senders = shard.threads.min(at_once);
                // More threads than broadcasts under way: the surplus ones only receive.
                let at_once = part(at_once.into(), shard.index.min(senders - 1), senders) as u32;
                let unanswered =
                    (self.sent - self.sent_before).saturating_sub(subscribers.acknowledged);
                let own_end = load.ends == BroadcastEnd::Own;
                under_way.min(if own_end { unanswered } else { u32::MAX }) < at_once
            }
        }
    }

    /// Listens for deliveries that come twice, and ends the step.
    fn listen(
        &mut self,
        subscribers: &mut Subscribers,
        io: &mut CableConnections<'_>,
    ) -> Option<MonotonicTime> {
        let now = MonotonicTime::now();
        if now < self.listen_until {
            return Some(self.listen_until);
        }
        let (mut rows, times) = subscribers.pending.finish();
        // Slots are numbered by thread; the report numbers the connections of all.
        for row in rows.iter_mut().filter(|row| row.sender != u32::MAX) {
            row.sender = subscribers.shard.number(row.sender);
        }
        self.received += times.delivery.count();
        subscribers.counts.shares.push(StepShare {
            clients: self.clients,
            ramp_s: self.ramp_s.unwrap_or_default(),
            begun: self.begun,
            ended: self.ended,
            sent: u64::from(self.sent - self.sent_before),
            first_send: self.first_send,
            last_send: self.last_send,
            due_span: self.due_span,
            rows,
            times,
            stages: std::mem::take(&mut subscribers.stages),
        });
        self.cost.merge(&io.end_measurement(now));
        self.finished += 1;
        self.phase = StepPhase::Between;
        None
    }

    /// The cost of all steps; handshakes count even if their step never began.
    pub(super) fn take_cost(&mut self, io: &CableConnections<'_>) -> GeneratorCost {
        let mut cost = std::mem::take(&mut self.cost);
        cost.slow_connects += io.meter.cost.slow_connects;
        cost.clock_steps = io.stamps.steps();
        cost
    }

    /// Publishes the progress.
    pub(super) fn show(&self, subscribers: &Subscribers, io: &CableConnections<'_>) {
        let (counters, index) = (io.counters, subscribers.shard.index);
        let (broadcasts, pending) = (&subscribers.shared.broadcasts, &subscribers.pending);
        let received = self.received + pending.times.delivery.count();
        ProgressCounters::put(&counters.done, broadcasts.over(index).into());
        ProgressCounters::put(&counters.messages, received);
        // The number given up is known for all threads together, so only one of them publishes it.
        let given_up = if index == 0 { broadcasts.given_up() } else { 0 };
        ProgressCounters::put(&counters.errors, given_up);
        ProgressCounters::put(&counters.connections, u64::from(pending.ready()));
        ProgressCounters::put_seconds(&counters.p50_us, pending.times.complete.quantile(0.5));
        ProgressCounters::put_seconds(&counters.p95_us, pending.times.complete.quantile(0.95));
        ProgressCounters::put_seconds(&counters.lag_us, io.meter.cost.lag.quantile(0.99));
    }
}

fn are_in_vain(subscribers: &Subscribers) -> bool {
    let shared = &subscribers.shared;
    shared.broadcasts.are_in_vain(shared.load.result.is_some())
}

/// This thread's part of a step's broadcasts.
fn step_budget(subscribers: &Subscribers, begun: MonotonicTime) -> RemainingSends {
    let (load, shard) = (&subscribers.shared.load, subscribers.shard);
    let (senders, open) = match load.pace {
        Pace::Open { per_second, arrivals } => {
            let epoch = subscribers.shared.broadcasts.epoch();
            (shard.threads, Some(OpenPlan { per_second, arrivals, epoch, shard }))
        }
        // A thread that may have none under way sends none.
        Pace::Closed { at_once } => (shard.threads.min(at_once), None),
    };
    let sends = shard.index < senders;
    let count = if sends { part(load.broadcasts.into(), shard.index, senders) } else { 0 };
    // Each step and thread draws its own arrivals, the same in every run.
    let seed = load.options.seed.wrapping_add(subscribers.pending.next_number());
    let seed = seed.wrapping_add(shard.index.into());
    let plan = SendPlan { count: Some(count), seconds: None, open, seed };
    RemainingSends::begin(&plan, begun)
}
