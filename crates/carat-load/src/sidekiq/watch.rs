//! Which jobs have begun and ended, from Redis' own counters.
//!
//! A job leaves its queue when a thread takes it, so the length of the queue says how many have begun. A thread of Sidekiq
//! takes its next job, or waits for one in `BRPOP`, as soon as it has ended the last. So the jobs that have ended are those
//! that have begun, less the threads that do not wait. Redis counts waiting clients (`blocked_clients`) at every moment,
//! whereas Sidekiq adds to `stat:processed` only at its heartbeat, every 5 or 10 seconds.
//!
//! Jobs leave a queue in the order in which they came, so the time in the queue is that of each job. They may end in another
//! order: the job that ends as the Nth is given the times of the Nth, which leaves the mean as it is.

use crate::clock::MonotonicTime;
use crate::histogram::DurationHistogram;
use crate::sidekiq::resp::RedisReply;
use std::collections::VecDeque;

/// How the end of a job is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndSeen {
    /// By the threads that wait; so many threads take jobs.
    ByThreads(u64),
    /// By `stat:processed`, which had this value when the load began.
    ByHeartbeat(u64),
}

/// Redis' counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct QueueMoment {
    /// Jobs that were pushed before.
    pub(super) pushed: u64,
    /// Length of the queue.
    pub(super) queued: u64,
    /// Clients that wait in a blocking command.
    pub(super) waiting: u64,
    /// `stat:processed`, which includes failed jobs.
    pub(super) processed: u64,
}

impl QueueMoment {
    /// Reads the reply to `LLEN`, `INFO clients` and `GET stat:processed` in one transaction; `None` if it is another one.
    pub(super) fn read(reply: &RedisReply, pushed: u64) -> Option<Self> {
        let RedisReply::List(parts) = reply else { return None };
        let [queued, clients, processed] = &parts[..] else { return None };
        let clients = std::str::from_utf8(clients.text()).ok()?;
        let waiting = clients.lines().find_map(|line| line.strip_prefix("blocked_clients:"))?;
        Some(Self {
            pushed,
            queued: u64::try_from(queued.number()?).ok()?,
            waiting: waiting.trim().parse().ok()?,
            // Absent until Sidekiq's first heartbeat with a job.
            processed: processed
                .number()
                .and_then(|number| u64::try_from(number).ok())
                .unwrap_or(0),
        })
    }
}

/// Jobs that were pushed together.
#[derive(Debug, Clone, Copy)]
struct PushedJobs {
    count: u64,
    intended: MonotonicTime,
    sent: MonotonicTime,
}

/// Follows the jobs of a load.
#[derive(Debug)]
pub(super) struct JobWatch {
    seen: EndSeen,
    pub(super) pushed: u64,
    pub(super) begun: u64,
    pub(super) ended: u64,
    not_begun: VecDeque<PushedJobs>,
    not_ended: VecDeque<PushedJobs>,
    last: Option<MonotonicTime>,
    /// From the intended push to the end; empty by heartbeat, which says nothing about one job.
    pub(super) latency: DurationHistogram,
    /// From the actual push to the end.
    pub(super) service: DurationHistogram,
    /// From the actual push to the begin.
    pub(super) queued: DurationHistogram,
    /// Between two moments.
    pub(super) gaps: DurationHistogram,
}

impl JobWatch {
    pub(super) fn new(seen: EndSeen) -> Self {
        Self {
            seen,
            pushed: 0,
            begun: 0,
            ended: 0,
            not_begun: VecDeque::new(),
            not_ended: VecDeque::new(),
            last: None,
            latency: DurationHistogram::default(),
            service: DurationHistogram::default(),
            queued: DurationHistogram::default(),
            gaps: DurationHistogram::default(),
        }
    }

    pub(super) fn seen(&self) -> EndSeen {
        self.seen
    }

    /// Adds jobs that are sent at `sent` and were due at `intended`.
    pub(super) fn push(&mut self, count: u64, intended: MonotonicTime, sent: MonotonicTime) {
        self.pushed += count;
        let jobs = PushedJobs { count, intended, sent };
        append(&mut self.not_begun, jobs);
        append(&mut self.not_ended, jobs);
    }

    /// Takes in a moment that was known at `at`, and returns whether a job has begun or ended since the one before.
    pub(super) fn observe(&mut self, moment: &QueueMoment, at: MonotonicTime) -> bool {
        if let Some(last) = self.last.replace(at) {
            self.gaps.record(at.since(last));
        }
        // Pushed when the question was asked, not now: later jobs cannot be in that reading.
        let begun = moment.pushed.saturating_sub(moment.queued);
        let ended = match &mut self.seen {
            EndSeen::ByThreads(threads) => {
                // A thread that started since the load began.
                // The most threads that ever waited at once are those that take jobs.
                *threads = moment.waiting.max(*threads);
                begun.saturating_sub(*threads - moment.waiting)
            }
            // Other loads of the same Redis add to it too, so it never exceeds what was pushed.
            EndSeen::ByHeartbeat(base) => moment.processed.saturating_sub(*base).min(self.pushed),
        };
        // A failed job that Sidekiq pushes again, or a thread between two waits, takes nothing back.
        let (more_begun, more_ended) =
            (begun.saturating_sub(self.begun), ended.saturating_sub(self.ended));
        self.begun += more_begun;
        self.ended += more_ended;
        for (count, jobs) in first(&mut self.not_begun, more_begun) {
            record(&mut self.queued, at.since(jobs.sent), count);
        }
        let by_threads = matches!(self.seen, EndSeen::ByThreads(_));
        // In the order of the pushes: who overtook whom is unknown, and the mean stays right.
        for (count, jobs) in first(&mut self.not_ended, more_ended) {
            if by_threads {
                record(&mut self.latency, at.since(jobs.intended), count);
                record(&mut self.service, at.since(jobs.sent), count);
            }
        }
        more_begun + more_ended > 0
    }
}

/// Adds jobs to the line; those that were pushed together are one group.
fn append(line: &mut VecDeque<PushedJobs>, jobs: PushedJobs) {
    match line.back_mut() {
        // Jobs of one push are one entry, so that a backlog of a million is a short list.
        Some(last) if (last.intended, last.sent) == (jobs.intended, jobs.sent) => {
            last.count += jobs.count;
        }
        _ => line.push_back(jobs),
    }
}

fn record(histogram: &mut DurationHistogram, nanos: u64, count: u64) {
    (0..count).for_each(|_| histogram.record(nanos));
}

/// Takes the first `count` jobs from the line, in groups that were pushed together.
fn first(line: &mut VecDeque<PushedJobs>, mut count: u64) -> Vec<(u64, PushedJobs)> {
    let mut taken = Vec::new();
    while count > 0
        && let Some(jobs) = line.front_mut()
    {
        let part = count.min(jobs.count);
        taken.push((part, *jobs));
        jobs.count -= part;
        count -= part;
        if jobs.count == 0 {
            line.pop_front();
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> MonotonicTime {
        MonotonicTime(millis * 1_000_000)
    }

    fn moment(pushed: u64, queued: u64, waiting: u64) -> QueueMoment {
        QueueMoment { pushed, queued, waiting, processed: 0 }
    }

    #[test]
    fn the_counters_of_a_moment_are_read_by_name() {
        let text = |text: &str| RedisReply::Text(text.as_bytes().to_vec());
        let clients = "# Clients\r\nconnected_clients:30\r\nblocked_clients:25\r\n";
        let reply = RedisReply::List(vec![RedisReply::Integer(4), text(clients), text("17")]);
        let expected = QueueMoment { pushed: 9, queued: 4, waiting: 25, processed: 17 };
        assert_eq!(QueueMoment::read(&reply, 9), Some(expected));
        let parts = vec![RedisReply::Integer(4), text("# Clients"), RedisReply::Nil];
        assert_eq!(QueueMoment::read(&RedisReply::List(parts), 9), None);
        assert_eq!(QueueMoment::read(&RedisReply::Nil, 9), None);
    }

    fn millis(seconds: Option<f64>) -> u64 {
        (seconds.unwrap() * 1e3).round() as u64
    }

    #[test]
    fn a_job_begins_when_it_leaves_the_queue_and_ends_when_its_thread_waits_again() {
        let mut watch = JobWatch::new(EndSeen::ByThreads(2));
        watch.push(3, ms(0), ms(10));
        assert!(watch.observe(&moment(3, 1, 0), ms(20)));
        assert_eq!((watch.begun, watch.ended), (2, 0));
        assert!(!watch.observe(&moment(3, 1, 0), ms(30)));
        assert!(watch.observe(&moment(3, 0, 0), ms(40)));
        assert_eq!((watch.begun, watch.ended), (3, 1));
        assert!(watch.observe(&moment(3, 0, 2), ms(100)));
        assert_eq!(watch.ended, 3);
        assert_eq!((watch.queued.count(), watch.latency.count()), (3, 3));
        assert_eq!((millis(watch.queued.max()), millis(watch.latency.max())), (30, 100));
        assert_eq!((millis(watch.service.max()), millis(watch.gaps.max())), (90, 60));
    }

    #[test]
    fn every_job_has_the_time_of_its_own_push() {
        let mut watch = JobWatch::new(EndSeen::ByThreads(1));
        watch.push(1, ms(0), ms(0));
        watch.push(1, ms(50), ms(50));
        watch.observe(&moment(2, 0, 0), ms(60));
        watch.observe(&moment(2, 0, 1), ms(70));
        // The one thread has the second job, so it has ended the first.
        assert_eq!((millis(watch.latency.quantile(0.5)), millis(watch.latency.max())), (20, 60));
    }

    #[test]
    fn a_retried_job_or_a_thread_between_two_waits_takes_nothing_back() {
        let mut watch = JobWatch::new(EndSeen::ByThreads(2));
        watch.push(2, ms(0), ms(0));
        watch.observe(&moment(2, 0, 2), ms(1));
        assert_eq!(watch.ended, 2);
        assert!(!watch.observe(&moment(2, 1, 1), ms(2)));
        assert_eq!((watch.begun, watch.ended), (2, 2));
    }

    #[test]
    fn a_thread_that_starts_late_is_counted_from_then_on() {
        let mut watch = JobWatch::new(EndSeen::ByThreads(1));
        watch.push(4, ms(0), ms(0));
        watch.observe(&moment(4, 4, 3), ms(1));
        assert_eq!(watch.seen(), EndSeen::ByThreads(3));
        watch.observe(&moment(4, 0, 0), ms(2));
        assert_eq!(watch.ended, 1);
    }

    #[test]
    fn a_heartbeat_counts_jobs_and_times_none() {
        let mut watch = JobWatch::new(EndSeen::ByHeartbeat(100));
        watch.push(5, ms(0), ms(0));
        watch.observe(&QueueMoment { pushed: 5, processed: 103, ..Default::default() }, ms(9));
        assert_eq!((watch.ended, watch.latency.count(), watch.queued.count()), (3, 0, 5));
        watch.observe(&QueueMoment { pushed: 5, processed: 900, ..Default::default() }, ms(10));
        assert_eq!(watch.ended, 5);
    }
}
