//! A load of jobs in a database: inserts them, counts those that have ended, and reads their times at the end.

use crate::clock::{MonotonicTime, nanos_of, offset};
use crate::driven::DrivenLoad;
use crate::error::GeneratorError;
use crate::health::RunFacts;
use crate::jobs::{ArgumentMaker, from_environment, write_text};
use crate::meter::{Meter, read_rss_peak};
use crate::progress::{LoadProgress, PROGRESS_INTERVAL};
use crate::remaining::{RemainingSends, SendPlan};
use crate::schedule::OpenPlan;
use crate::shard::Shard;
use crate::sql_queue::client::SqlClient;
use crate::sql_queue::counts::SqlQueueCounts;
use crate::sql_queue::report::report;
use crate::sql_queue::tables::{JobCounts, NewJob, QueueTables, find_tables};
use carat_model::load::{Amount, LoadReport, Pace, SqlQueueLoad, SqlQueueOptions};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Most jobs of one statement.
const INSERTED_AT_ONCE: usize = 500;
/// Longest sleep between two looks at what is due, in nanoseconds.
const SLEEP: u64 = 20_000_000;

/// The load of jobs in a database. It needs no event loop: one statement at a time is under way.
#[derive(Debug)]
pub struct SqlQueueProtocol;

impl DrivenLoad for SqlQueueProtocol {
    type Options = SqlQueueOptions;
    type Load = SqlQueueLoad;

    fn drive(
        load: &SqlQueueLoad,
        observe: &mut dyn FnMut(LoadProgress) -> ControlFlow<()>,
    ) -> Result<LoadReport, GeneratorError> {
        let arguments = ArgumentMaker::new(load.args.as_ref(), load.data.as_ref());
        let arguments = arguments.map_err(GeneratorError::Request)?;
        let url = from_environment(&load.database).map_err(GeneratorError::Request)?;
        let mut counts = SqlQueueCounts::default();
        let mut meter = Meter::begin(MonotonicTime::now());
        let driven = SqlQueueRun::begin(load, arguments, &url)
            .and_then(|run| run.run(&mut counts, &mut meter, observe));
        counts.problem = driven.err();
        counts.cost = meter.end(MonotonicTime::now());
        let rss_peak = read_rss_peak(Path::new("/proc"));
        Ok(report(load, &counts, &RunFacts { threads: 1, rss_peak, ..RunFacts::default() }))
    }

    fn write_report(
        _options: &SqlQueueOptions,
        report: &LoadReport,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        write_text(report, out)
    }
}

/// Checks that everything is there that a load needs before it begins: its variables of the environment and its data.
///
/// # Errors
/// If something is missing; the message names it.
pub(crate) fn check_sql_queue(load: &SqlQueueLoad) -> Result<(), GeneratorError> {
    ArgumentMaker::new(load.args.as_ref(), load.data.as_ref())
        .map(drop)
        .map_err(GeneratorError::Request)
}

/// A load under way.
struct SqlQueueRun<'a> {
    load: &'a SqlQueueLoad,
    arguments: ArgumentMaker,
    client: SqlClient,
    tables: QueueTables,
    budget: RemainingSends,
    begun: MonotonicTime,
    /// How far the real clock is ahead of the monotonic one, in nanoseconds.
    real_offset: i64,
}

impl<'a> SqlQueueRun<'a> {
    fn begin(load: &'a SqlQueueLoad, arguments: ArgumentMaker, url: &str) -> Result<Self, String> {
        let mut client = SqlClient::open(url, Duration::from_secs_f64(load.options.timeout_s))?;
        let gem = find_tables(&mut client, load.gem)?;
        let (begun, real_offset) = (MonotonicTime::now(), offset());
        // Ids of this load must differ from those of earlier ones, whose jobs may still be there.
        let token =
            format!("{:016x}{:04x}", begun.0 as i64 + real_offset, std::process::id() & 0xffff);
        let names = (load.class.as_str(), load.queue.as_str());
        let tables = QueueTables::new(gem, client.is_sqlite(), names, &token);
        let count = match load.amount {
            Amount::Requests(jobs) => Some(jobs),
            Amount::Seconds(_) => None,
        };
        let seconds = match load.amount {
            Amount::Requests(_) => None,
            Amount::Seconds(seconds) => Some(seconds),
        };
        let open = match load.pace {
            Pace::Open { per_second, arrivals } => {
                let shard = Shard { index: 0, threads: 1 };
                Some(OpenPlan { per_second, arrivals, epoch: begun, shard })
            }
            Pace::Closed { .. } => None,
        };
        let plan = SendPlan { count, seconds, open, seed: load.options.seed };
        let budget = RemainingSends::begin(&plan, begun);
        Ok(Self { load, arguments, client, tables, budget, begun, real_offset })
    }

    fn run(
        mut self,
        counts: &mut SqlQueueCounts,
        meter: &mut Meter,
        observe: &mut dyn FnMut(LoadProgress) -> ControlFlow<()>,
    ) -> Result<(), String> {
        let timeout = nanos_of(self.load.options.timeout_s);
        let mut next_count = self.begun;
        let mut progress = self.begun;
        let mut shown = self.begun;
        loop {
            let now = MonotonicTime::now();
            self.insert_due(counts, meter, now)?;
            if now >= next_count {
                next_count = now.after(nanos_of(self.load.poll_s));
                let JobCounts { ended, .. } =
                    self.tables.count(&mut self.client, counts.inserted)?;
                meter.cost.messages += 1;
                // Without jobs under way there is nothing that could stall.
                if ended > counts.ended || counts.inserted == counts.ended {
                    progress = MonotonicTime::now();
                }
                if ended > counts.ended {
                    (counts.ended, counts.last) = (ended, Some(progress));
                }
            }
            meter.tick(now);
            let is_over = self.budget.is_over(now) && counts.ended >= counts.inserted;
            let is_stalled = now.since(progress) > timeout;
            if is_over || is_stalled {
                return self.read_end(counts);
            }
            if now.since(shown) > PROGRESS_INTERVAL.as_nanos() as u64 {
                shown = now;
                if observe(self.progress(counts, now)).is_break() {
                    return self.read_end(counts);
                }
            }
            self.rest(next_count);
        }
    }

    fn read_end(mut self, counts: &mut SqlQueueCounts) -> Result<(), String> {
        let (latency, queued) = self.tables.times(&mut self.client)?;
        for (histogram, times) in [(&mut counts.latency, latency), (&mut counts.queued, queued)] {
            times.into_iter().for_each(|seconds| histogram.record(nanos_of(seconds)));
        }
        for (class, message, count) in self.tables.failures(&mut self.client)? {
            counts.failures.add(&class, &message, count);
        }
        Ok(())
    }

    /// Inserts what is due and has room.
    fn insert_due(
        &mut self,
        counts: &mut SqlQueueCounts,
        meter: &mut Meter,
        now: MonotonicTime,
    ) -> Result<(), String> {
        let at_once = match self.load.pace {
            Pace::Closed { at_once } => u64::from(at_once),
            Pace::Open { .. } => u64::MAX,
        };
        loop {
            let mut jobs = Vec::new();
            while jobs.len() < INSERTED_AT_ONCE
                && counts.inserted.saturating_sub(counts.ended) + (jobs.len() as u64) < at_once
                && let Some(intended) = self.budget.next(now)
            {
                let number = counts.inserted + jobs.len() as u64 + 1;
                // The due time, not that of the insert, is what latency counts from.
                let created_us = (intended.0 as i64 + self.real_offset) / 1_000;
                let arguments = self.arguments.arguments(number);
                jobs.push(NewJob { number, arguments, created_us });
                counts.due_span.add(intended);
                if self.budget.is_open() {
                    meter.cost.late.record(MonotonicTime::now().since(intended));
                }
            }
            if jobs.is_empty() {
                return Ok(());
            }
            counts.first.get_or_insert(now);
            // One statement for many jobs: a round trip each would limit the rate.
            self.client.execute(&self.tables.insert(&jobs))?;
            counts.inserted += jobs.len() as u64;
            counts.last_send = Some(MonotonicTime::now());
        }
    }

    fn progress(&self, counts: &SqlQueueCounts, now: MonotonicTime) -> LoadProgress {
        let seconds = now.since(self.begun) as f64 / 1e9;
        LoadProgress {
            done: counts.ended,
            planned: match self.load.amount {
                Amount::Requests(jobs) => Some(jobs),
                Amount::Seconds(_) => None,
            },
            seconds,
            per_second: counts.ended as f64 / seconds.max(1e-3),
            connections: 1,
            ..LoadProgress::default()
        }
    }

    /// Sleeps until something is due.
    fn rest(&self, next_count: MonotonicTime) {
        let now = MonotonicTime::now();
        let until = self.budget.due(now).unwrap_or(next_count).min(next_count);
        thread::sleep(Duration::from_nanos(until.since(now).min(SLEEP)));
    }
}
