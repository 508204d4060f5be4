//! The one thread of a load of Sidekiq jobs.
//!
//! First it waits until the queue is empty and every thread of Sidekiq waits for a job, so that what follows are the load's own
//! jobs. Then it pushes jobs and reads Redis' counters until every job has ended. Last it reads which jobs failed.

use crate::clock::{MonotonicTime, nanos_of, offset};
use crate::error::GeneratorError;
use crate::fault::SocketFault;
use crate::health::RunFacts;
use crate::jobs::write_text;
use crate::progress::ProgressCounters;
use crate::reactor::{Arrival, LoadProfile, Loss, Protocol, Turn};
use crate::remaining::{RemainingSends, SendPlan};
use crate::schedule::OpenPlan;
use crate::shard::Shard;
use crate::sidekiq::counts::SidekiqCounts;
use crate::sidekiq::job::FailedJob;
use crate::sidekiq::registry::Registry;
use crate::sidekiq::report::report;
use crate::sidekiq::resp::{RedisReply, write_command};
use crate::sidekiq::session::{
    RedisConnections, RedisPhase, RedisQuestion, RedisSession, SidekiqShared,
};
use crate::sidekiq::watch::{EndSeen, JobWatch, QueueMoment};
use crate::target::Target;
use crate::tls::explain;
use carat_model::load::{Amount, LoadReport, Pace, SidekiqLoad, SidekiqOptions};
use std::io::{self, Write};
use std::sync::Arc;

/// Most jobs and bytes of one push.
const PUSH_JOBS: usize = 100;
const PUSH_BYTES: usize = 64 * 1024;
/// Pushes before what has arrived is read.
const PUSHES_AT_ONCE: usize = 10;
/// Bytes that may wait for the kernel before no more jobs are made.
const UNSENT_MAX: usize = 256 * 1024;
/// Time between two looks at the threads before the load, and how long they may take to wait; in nanoseconds.
const CALM_EVERY: u64 = 50_000_000;
const CALM_WITHIN: u64 = 10_000_000_000;
/// Failed jobs of one page, and of all pages of a set. Sidekiq keeps 10,000 dead jobs.
const PAGE: usize = 50;
const FAILURES_READ: u64 = 10_000;
/// How far the clock of Sidekiq's machine may be behind, in seconds.
const CLOCK_SKEW: f64 = 60.0;
/// Where failed jobs are: those without a further try, and those with one.
const FAILURE_SETS: [&str; 2] = ["dead", "retry"];

/// How far the load is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SidekiqStage {
    Dialing,
    /// Waiting until the queue is empty and all threads wait.
    Calming,
    Pushing,
    /// Reading the failed jobs of a set, from so many on.
    Failures {
        set: usize,
        from: u64,
    },
    Over,
}

/// The load of Sidekiq jobs.
#[derive(Debug)]
pub struct SidekiqProtocol {
    shared: Arc<SidekiqShared>,
    stage: SidekiqStage,
    registry: Registry,
    budget: RemainingSends,
    next_look: MonotonicTime,
    started: MonotonicTime,
    /// When a job last began or ended.
    progress: MonotonicTime,
    /// How far the real clock is ahead of the monotonic one, in nanoseconds.
    real_offset: i64,
    /// The start of the ids of this load's jobs.
    token: String,
    /// When the first job was pushed, in seconds since 1970.
    began_real: f64,
    measured: bool,
    counts: SidekiqCounts,
}

impl Protocol for SidekiqProtocol {
    type Options = SidekiqOptions;
    type Load = SidekiqLoad;
    type Shared = SidekiqShared;
    type Session = RedisSession;
    type Counts = SidekiqCounts;

    const CHECK_INTERVAL: u64 = 50_000_000;

    fn profile(load: &SidekiqLoad) -> LoadProfile<'_> {
        let (planned, planned_s) = match (load.amount, load.pace) {
            (Amount::Requests(jobs), Pace::Open { per_second, .. }) => {
                (Some(jobs), Some(jobs as f64 / per_second))
            }
            (Amount::Requests(jobs), Pace::Closed { .. }) => (Some(jobs), None),
            (Amount::Seconds(seconds), _) => (None, Some(seconds)),
        };
        LoadProfile {
            url: &load.redis,
            options: &load.options,
            connections: 1,
            threads: 1,
            quantum_us: 0,
            planned,
            planned_s,
        }
    }

    fn share(load: &SidekiqLoad, _: &Target, _: u32) -> Result<SidekiqShared, GeneratorError> {
        SidekiqShared::new(load)
    }

    fn new(shared: Arc<SidekiqShared>, _: Shard) -> Self {
        let (now, real_offset) = (MonotonicTime::now(), offset());
        let registry = Registry::new(&shared.load.queue);
        Self {
            shared,
            stage: SidekiqStage::Dialing,
            registry,
            budget: RemainingSends::none(),
            next_look: now,
            started: now,
            progress: now,
            real_offset,
            // Tells this load's failed jobs from those that are in the sets already.
            token: format!("{:012x}", (now.0 as i64 + real_offset) & 0xffff_ffff_ffff),
            began_real: 0.0,
            measured: false,
            counts: SidekiqCounts::default(),
        }
    }

    fn advance(&mut self, io: &mut RedisConnections<'_>, now: MonotonicTime) -> Turn {
        if io.count() == 0 {
            io.add_slots(1);
            if let Err(fault) = io.dial(0) {
                self.lost(io, 0, Loss::Unopened(fault));
            }
        }
        let mut more = false;
        if self.stage == SidekiqStage::Pushing {
            more = self.push_due(io, now);
            self.end_if_stalled(io, now);
        }
        let looks = matches!(self.stage, SidekiqStage::Calming | SidekiqStage::Pushing);
        // One look at a time: a slow Redis must not collect questions.
        if looks && now >= self.next_look && !is_looking(io) {
            self.look(io, now);
        }
        if self.stage == SidekiqStage::Over {
            return Turn::Done;
        }
        ProgressCounters::put(&io.counters.done, self.counts.watch.ended);
        let never = MonotonicTime(u64::MAX);
        let look = if looks && !is_looking(io) { self.next_look } else { never };
        // Making jobs that Redis does not take would only fill memory.
        let full = io.slot(0).session.unsent.len() > UNSENT_MAX;
        let due = self.budget.due(now).filter(|_| !full).unwrap_or(never);
        // More pushes are possible at once, but replies must be read in between.
        Turn::Wait { until: if more { now } else { look.min(due) }, sleep_until: None }
    }

    fn connected(&mut self, io: &mut RedisConnections<'_>, _place: u32) {
        let shared = Arc::clone(&self.shared);
        // Before anything else: every other command is refused without it.
        if let Some(password) = &shared.password {
            let user = shared.user.iter().map(String::as_bytes);
            let words: Vec<&[u8]> =
                std::iter::once(&b"AUTH"[..]).chain(user).chain([password.as_bytes()]).collect();
            ask(io, RedisQuestion::Order("AUTH"), &words);
        }
        if shared.database > 0 {
            let database = shared.database.to_string();
            ask(io, RedisQuestion::Order("SELECT"), &[b"SELECT", database.as_bytes()]);
        }
        self.started = MonotonicTime::now();
        self.next_look = self.started;
        self.stage = SidekiqStage::Calming;
        self.transmit(io);
    }

    fn writable(&mut self, io: &mut RedisConnections<'_>, _place: u32) {
        self.transmit(io);
    }

    fn received(
        &mut self,
        io: &mut RedisConnections<'_>,
        _place: u32,
        bytes: &[u8],
        arrival: Arrival,
    ) {
        // Each reply restarts the deadline: a slow answer to many questions is not silence.
        io.slot(0).since = arrival.read;
        io.slot(0).session.replies.push(bytes);
        // A reply may end the load; what follows it is of no interest.
        while self.stage != SidekiqStage::Over {
            match io.slot(0).session.replies.take() {
                Ok(Some(reply)) => self.answered(io, &reply, arrival.at),
                Ok(None) => break,
                Err(what) => {
                    self.give_up("redis", format!("what answers is not Redis: {what}"));
                }
            }
        }
        // Without a question there is nothing to wait for, so no deadline applies.
        if io.slot(0).session.asked.is_empty() && self.stage != SidekiqStage::Over {
            io.enter(0, RedisPhase::Idle);
        }
        self.transmit(io);
    }

    fn lost(&mut self, io: &mut RedisConnections<'_>, place: u32, loss: Loss) {
        io.close(place);
        // The load is over, so the end of its connection is not a finding.
        if self.stage == SidekiqStage::Over {
            return;
        }
        let server = &self.shared.server;
        let watch = &self.counts.watch;
        let done = format!("when {} of {} pushed jobs had ended", watch.ended, watch.pushed);
        let (code, message) = match loss {
            Loss::Unopened(fault) => (
                "server-gone",
                format!(
                    "Redis cannot be reached at {server} ({}): {}",
                    fault.words(),
                    fault.advice(None)
                ),
            ),
            Loss::TimedOut => {
                ("server-gone", format!("Redis at {server} did not answer in time, {done}"))
            }
            Loss::Closed => (
                "server-gone",
                format!(
                    "Redis at {server} closed the connection {done}: check whether it still runs"
                ),
            ),
            Loss::Broken(fault) => (
                "server-gone",
                format!(
                    "Redis at {server} dropped the connection {done} ({}): check whether it still runs",
                    fault.words()
                ),
            ),
            Loss::Tls(error) => ("tls", explain(&error)),
        };
        self.give_up(code, message);
    }

    fn checked(&mut self, io: &mut RedisConnections<'_>, _now: MonotonicTime) {
        let (watch, counters) = (&self.counts.watch, io.counters);
        ProgressCounters::put(&counters.messages, watch.ended);
        ProgressCounters::put(&counters.errors, self.counts.failures.count);
        ProgressCounters::put(&counters.connections, 1 - u64::from(io.opening().min(1)));
        ProgressCounters::put_seconds(&counters.p50_us, watch.latency.quantile(0.5));
        ProgressCounters::put_seconds(&counters.p95_us, watch.latency.quantile(0.95));
        ProgressCounters::put_seconds(&counters.lag_us, io.meter.cost.lag.quantile(0.99));
    }

    fn finish(mut self, mut io: RedisConnections<'_>) -> SidekiqCounts {
        self.end_measurement(&mut io);
        self.counts.registered = self.registry.threads();
        self.counts
    }

    fn report(
        load: &SidekiqLoad,
        _shared: &SidekiqShared,
        counts: Vec<SidekiqCounts>,
        run: &RunFacts,
    ) -> LoadReport {
        // A load of jobs has one thread.
        report(load, &counts.into_iter().next().unwrap_or_default(), run)
    }

    fn write_text(
        _options: &SidekiqOptions,
        report: &LoadReport,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        write_text(report, out)
    }
}

/// Adds a command to what is sent, and what its reply answers.
fn ask(io: &mut RedisConnections<'_>, question: RedisQuestion, words: &[&[u8]]) {
    let slot = io.slot(0);
    if slot.session.asked.is_empty() {
        // The deadline runs from the first question that is open.
        slot.since = MonotonicTime::now();
    }
    slot.session.asked.push_back(question);
    write_command(&mut slot.session.unsent, words);
    io.enter(0, RedisPhase::Waiting);
}

/// Whether a look at the counters has no answer yet.
fn is_looking(io: &mut RedisConnections<'_>) -> bool {
    let asked = &io.slot(0).session.asked;
    asked.iter().any(|question| !matches!(question, RedisQuestion::Order(_)))
}

impl SidekiqProtocol {
    fn give_up(&mut self, code: &'static str, message: String) {
        // The first problem is the cause, later ones are its effects.
        self.counts.problem.get_or_insert((code, message));
        self.stage = SidekiqStage::Over;
    }

    fn transmit(&mut self, io: &mut RedisConnections<'_>) {
        let slot = io.slot(0);
        let Some(stream) = &mut slot.stream else { return };
        let mut sent = 0;
        let mut broken = stream.flush().err();
        while broken.is_none() && sent < slot.session.unsent.len() {
            match stream.write(&slot.session.unsent[sent..]) {
                Ok(length) => sent += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => broken = Some(error),
            }
        }
        slot.session.unsent.drain(..sent);
        if let Some(error) = broken {
            self.lost(io, 0, Loss::Broken(SocketFault::of(&error)));
        }
    }

    /// Asks for the counters, and before the load for the threads too.
    fn look(&mut self, io: &mut RedisConnections<'_>, now: MonotonicTime) {
        if self.stage == SidekiqStage::Calming {
            self.next_look = now.after(CALM_EVERY);
            self.registry.clear();
            ask(io, RedisQuestion::Processes, &[b"SMEMBERS", b"processes"]);
        } else {
            self.next_look = now.after(nanos_of(self.shared.load.poll_s));
            self.ask_counters(io);
        }
        self.transmit(io);
    }

    /// All counters in one transaction: they are of the same moment.
    fn ask_counters(&self, io: &mut RedisConnections<'_>) {
        let queue = self.queue_key();
        // Without the transaction a job could move between two of the readings.
        ask(io, RedisQuestion::Order("MULTI"), &[b"MULTI"]);
        ask(io, RedisQuestion::Order("LLEN"), &[b"LLEN", queue.as_bytes()]);
        ask(io, RedisQuestion::Order("INFO clients"), &[b"INFO", b"clients"]);
        ask(io, RedisQuestion::Order("GET"), &[b"GET", b"stat:processed"]);
        // Pushes before this question are executed before it: Redis answers in order.
        ask(io, RedisQuestion::Counters { pushed: self.counts.watch.pushed }, &[b"EXEC"]);
    }

    fn queue_key(&self) -> String {
        format!("queue:{}", self.shared.load.queue)
    }

    fn answered(&mut self, io: &mut RedisConnections<'_>, reply: &RedisReply, at: MonotonicTime) {
        // Replies have no names, so one too many means that all are out of order.
        let Some(question) = io.slot(0).session.asked.pop_front() else {
            return self.give_up("redis", "Redis sent a reply without a question".to_owned());
        };
        if let Some(error) = error_in(reply) {
            let (server, command) = (&self.shared.server, question.command());
            let message = format!(
                "Redis at {server} answered `{error}` to {command}: check user, password and database in its URL, and what the user may do"
            );
            return self.give_up("redis", message);
        }
        match question {
            RedisQuestion::Order(_) => {}
            // Descriptions first, counters last: so all are known when the counters arrive.
            RedisQuestion::Processes => {
                for identity in Registry::identities(reply) {
                    ask(io, RedisQuestion::Process, &[b"HGET", identity, b"info"]);
                }
                self.ask_counters(io);
            }
            RedisQuestion::Process => self.registry.add(reply.text()),
            RedisQuestion::Counters { pushed } => match QueueMoment::read(reply, pushed) {
                Some(moment) if self.stage == SidekiqStage::Calming => self.calm(io, &moment),
                Some(moment) if self.stage == SidekiqStage::Pushing => self.follow(io, &moment, at),
                Some(_) => {}
                None => {
                    let message = "Redis does not say how many clients wait (`blocked_clients` of INFO): use Redis 4 or later";
                    self.give_up("redis", message.to_owned());
                }
            },
            RedisQuestion::Failures => self.failed(io, reply),
        }
    }

    /// Begins the load once the queue is empty and every thread waits.
    fn calm(&mut self, io: &mut RedisConnections<'_>, moment: &QueueMoment) {
        let now = MonotonicTime::now();
        let threads = self.registry.threads();
        // Also "more than": clients of other programs may wait in blocking commands.
        if threads > 0 && moment.queued == 0 && moment.waiting >= threads {
            return self.begin(io, EndSeen::ByThreads(moment.waiting), now);
        }
        // Threads of a process that just started need a moment until they wait.
        if now.since(self.started) < CALM_WITHIN {
            return;
        }
        let queue = &self.shared.load.queue;
        if threads == 0 {
            let message = self.registry.explain(&self.shared.server, self.shared.database);
            self.give_up("no-workers", message);
        } else if moment.queued > 0 {
            let message = format!(
                "after 10 s the queue `{queue}` still has {} jobs from before the load: empty it, or use a Redis of its own",
                moment.queued
            );
            self.give_up("no-workers", message);
        } else {
            // Another fetcher may never wait in `BRPOP`; then the heartbeat is all there is.
            self.begin(io, EndSeen::ByHeartbeat(moment.processed), now);
        }
    }

    fn begin(&mut self, io: &mut RedisConnections<'_>, seen: EndSeen, now: MonotonicTime) {
        let load = &self.shared.load;
        let queue = load.queue.as_bytes();
        // As Sidekiq's client does, or its web page would not show the queue.
        ask(io, RedisQuestion::Order("SADD queues"), &[b"SADD", b"queues", queue]);
        self.counts.watch = JobWatch::new(seen);
        self.stage = SidekiqStage::Pushing;
        self.began_real = self.real_seconds(now);
        self.progress = now;
        self.next_look = now;
        let (count, seconds) = match load.amount {
            Amount::Requests(jobs) => (Some(jobs), None),
            Amount::Seconds(seconds) => (None, Some(seconds)),
        };
        let open = match load.pace {
            Pace::Open { per_second, arrivals } => {
                let shard = Shard { index: 0, threads: 1 };
                Some(OpenPlan { per_second, arrivals, epoch: now, shard })
            }
            Pace::Closed { .. } => None,
        };
        let plan = SendPlan { count, seconds, open, seed: load.options.seed };
        self.measured = true;
        io.begin_measurement(now);
        self.budget = RemainingSends::begin(&plan, now);
    }

    fn real_seconds(&self, now: MonotonicTime) -> f64 {
        (now.0 as i64 + self.real_offset) as f64 / 1e9
    }

    /// Pushes what is due and has room, and returns whether there may be more.
    fn push_due(&mut self, io: &mut RedisConnections<'_>, now: MonotonicTime) -> bool {
        for _ in 0..PUSHES_AT_ONCE {
            // Redis takes no more at the moment; the jobs stay due.
            if io.slot(0).session.unsent.len() > UNSENT_MAX {
                return false;
            }
            let jobs = self.due_jobs(io, now);
            if jobs.is_empty() {
                return false;
            }
            let queue = self.queue_key();
            let mut words: Vec<&[u8]> = vec![&b"LPUSH"[..], queue.as_bytes()];
            words.extend(jobs.iter().map(Vec::as_slice));
            ask(io, RedisQuestion::Order("LPUSH"), &words);
            self.transmit(io);
        }
        true
    }

    /// The jobs of one push.
    fn due_jobs(&mut self, io: &mut RedisConnections<'_>, now: MonotonicTime) -> Vec<Vec<u8>> {
        let at_once = match self.shared.load.pace {
            Pace::Closed { at_once } => u64::from(at_once),
            Pace::Open { .. } => u64::MAX,
        };
        let (real, mut bytes, mut jobs) = (self.real_seconds(now), 0, Vec::new());
        // The limit holds for each job, because one push could exceed it.
        while jobs.len() < PUSH_JOBS
            && bytes < PUSH_BYTES
            && self.counts.unfinished() < at_once
            && let Some(intended) = self.budget.next(now)
        {
            let number = self.counts.watch.pushed + 1;
            let jid = format!("{}{number:012x}", self.token);
            let job = self.shared.jobs.payload(number, &jid, real);
            bytes += job.len();
            jobs.push(job);
            // Silence counts from the first job, not from the idle time before it.
            if self.counts.unfinished() == 0 {
                self.progress = now;
            }
            self.counts.watch.push(1, intended, now);
            if self.budget.is_open() {
                io.meter.cost.late.record(now.since(intended));
            }
            self.counts.first.get_or_insert(now);
            self.counts.last_send = Some(now);
            self.counts.due_span.add(intended);
        }
        jobs
    }

    /// Takes in the counters of a moment.
    fn follow(&mut self, io: &mut RedisConnections<'_>, moment: &QueueMoment, at: MonotonicTime) {
        io.meter.cost.messages += 1;
        let ended = self.counts.watch.ended;
        if self.counts.watch.observe(moment, at) {
            self.progress = at;
        }
        if self.counts.watch.ended > ended {
            self.counts.last = Some(at);
        }
        if self.budget.is_over(MonotonicTime::now()) && self.counts.unfinished() == 0 {
            self.end(io);
        }
    }

    /// Ends a load whose jobs neither begin nor end any more.
    fn end_if_stalled(&mut self, io: &mut RedisConnections<'_>, now: MonotonicTime) {
        // A job that hangs must not hold the load for ever; it counts as not done.
        if self.counts.unfinished() > 0 && now.since(self.progress) > io.timeout {
            self.end(io);
            self.transmit(io);
        }
    }

    fn end(&mut self, io: &mut RedisConnections<'_>) {
        self.end_measurement(io);
        self.ask_failures(io, 0, 0);
    }

    fn end_measurement(&mut self, io: &mut RedisConnections<'_>) {
        // The load may end twice: by its last job and by its connection.
        if std::mem::take(&mut self.measured) {
            self.counts.cost = io.end_measurement(MonotonicTime::now());
        }
    }

    fn ask_failures(&mut self, io: &mut RedisConnections<'_>, set: usize, from: u64) {
        let Some(&name) = FAILURE_SETS.get(set) else {
            self.stage = SidekiqStage::Over;
            return;
        };
        self.stage = SidekiqStage::Failures { set, from };
        // Sidekiq scores failures by its own clock, which may be behind ours.
        let since = (self.began_real - CLOCK_SKEW).to_string();
        let (from, page) = (from.to_string(), PAGE.to_string());
        let (since, from, page) = (since.as_str(), from.as_str(), page.as_str());
        let words = ["ZRANGEBYSCORE", name, since, "+inf", "LIMIT", from, page];
        ask(io, RedisQuestion::Failures, &words.map(str::as_bytes));
    }

    /// Counts a page of failed jobs, as far as they are this load's, and asks for the next.
    fn failed(&mut self, io: &mut RedisConnections<'_>, reply: &RedisReply) {
        let SidekiqStage::Failures { set, from } = self.stage else { return };
        let RedisReply::List(page) = reply else {
            return self.give_up("redis", "Redis did not list the failed jobs".to_owned());
        };
        for entry in page {
            match serde_json::from_slice::<FailedJob>(entry.text()) {
                Ok(job) if job.jid.starts_with(&self.token) => {
                    let class = job.error_class.as_deref().unwrap_or("unknown");
                    let message = job.error_message.as_deref().unwrap_or_default();
                    self.counts.failures.add(class, message, 1);
                }
                // Another load's, or not a job at all.
                _ => {}
            }
        }
        let next = from + PAGE as u64;
        let is_last = page.len() < PAGE;
        self.counts.more_failed |= !is_last && next >= FAILURES_READ;
        if is_last || next >= FAILURES_READ {
            self.ask_failures(io, set + 1, 0);
        } else {
            self.ask_failures(io, set, next);
        }
    }
}

/// The error that a reply is or contains.
fn error_in(reply: &RedisReply) -> Option<&str> {
    match reply {
        RedisReply::Error(error) => Some(error),
        RedisReply::List(parts) => parts.iter().find_map(error_in),
        _ => None,
    }
}
