//! The send times of an open load.

use crate::clock::MonotonicTime;
use crate::shard::Shard;
use carat_model::load::Arrivals;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// Times at which something is sent, whatever the server does: at a rate, or as they were recorded.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "each thread has one, and reads it for every send")]
pub(crate) enum SendSchedule {
    Rate(ArrivalSchedule),
    Recorded(RecordedSchedule),
}

impl SendSchedule {
    /// The next send time.
    pub(crate) fn due(&self) -> MonotonicTime {
        match self {
            Self::Rate(schedule) => schedule.due(),
            Self::Recorded(schedule) => schedule.due(),
        }
    }

    /// Advances to the following send time.
    pub(crate) fn advance(&mut self) {
        match self {
            Self::Rate(schedule) => schedule.advance(),
            Self::Recorded(schedule) => schedule.place += schedule.step,
        }
    }
}

/// Recorded send times, from the first to the last and then from the first again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedTimes {
    /// Nanoseconds after the first, ascending; never empty.
    pub offsets: Arc<[u64]>,
    /// Nanoseconds from the first to its repetition.
    pub period: u64,
}

/// One thread's part of recorded send times.
#[derive(Debug)]
pub(crate) struct RecordedSchedule {
    start: MonotonicTime,
    times: RecordedTimes,
    place: u64,
    /// Number of threads.
    step: u64,
}

impl RecordedSchedule {
    /// The part that `shard` sends, from `start` on.
    pub(crate) fn new(start: MonotonicTime, times: RecordedTimes, shard: Shard) -> Self {
        Self { start, times, place: shard.index.into(), step: shard.threads.into() }
    }

    fn due(&self) -> MonotonicTime {
        let count = self.times.offsets.len() as u64;
        // The file is repeated, each round one period later.
        let offset = self.times.offsets[(self.place % count) as usize];
        let passed = (self.place / count).saturating_mul(self.times.period);
        self.start.after(passed.saturating_add(offset))
    }
}

/// The rate of an open load, which all threads reach together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OpenPlan {
    /// Sends per second of all threads.
    pub per_second: f64,
    pub arrivals: Arrivals,
    /// When the first send of all threads is due, the same for every thread.
    pub epoch: MonotonicTime,
    pub shard: Shard,
}

/// One thread's part of the times at which something is sent, whatever the server does.
#[derive(Debug)]
pub(crate) struct ArrivalSchedule {
    plan: OpenPlan,
    /// Nanoseconds between two sends of all threads.
    gap: f64,
    /// Fixed arrivals: number of the next send among those of all threads.
    number: u64,
    /// Poisson arrivals: when the next send is due, in nanoseconds after `start`.
    elapsed: f64,
    start: MonotonicTime,
    random: ChaCha8Rng,
}

impl ArrivalSchedule {
    /// The sends of the plan's thread from `start` on.
    pub(crate) fn new(start: MonotonicTime, plan: OpenPlan, seed: u64) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        let gap = 1e9 / plan.per_second;
        let (index, threads) = (u64::from(plan.shard.index), u64::from(plan.shard.threads));
        // A thread that begins late joins the sends of the others where they are; it makes up for nothing.
        let passed = start.since(plan.epoch) as f64 / gap;
        // Rounded up: a send whose time has passed is not made up for.
        let turns = ((passed - index as f64) / threads as f64).ceil().max(0.0) as u64;
        let number = index + turns * threads;
        let mut schedule = Self { plan, gap, number, elapsed: 0.0, start, random };
        schedule.elapsed = schedule.exponential();
        schedule
    }

    /// The next send time.
    pub(crate) fn due(&self) -> MonotonicTime {
        match self.plan.arrivals {
            // Computed from the epoch, so that rounding errors do not add up.
            Arrivals::Fixed => self.plan.epoch.after((self.number as f64 * self.gap) as u64),
            Arrivals::Poisson => self.start.after(self.elapsed as u64),
        }
    }

    /// Advances to the following send time.
    pub(crate) fn advance(&mut self) {
        self.number += u64::from(self.plan.shard.threads);
        self.elapsed += self.exponential();
    }

    /// Inverse transform: -ln(1 - U) has mean 1. Independent users of several threads are independent users.
    fn exponential(&mut self) -> f64 {
        // `random` can be 0 but not 1, so the logarithm is finite.
        let uniform: f64 = self.random.random();
        // n threads that each send at a mean of n gaps are together one process of mean gap.
        -(1.0 - uniform).ln() * self.gap * f64::from(self.plan.shard.threads)
    }
}

/// From when to when sends were due.
#[derive(Debug, Default, Clone, Copy)]
pub struct DueSpan {
    first: Option<MonotonicTime>,
    last: Option<MonotonicTime>,
}

impl DueSpan {
    /// Adds a send by the time for which it was intended.
    pub fn add(&mut self, intended: MonotonicTime) {
        self.merge(&Self { first: Some(intended), last: Some(intended) });
    }

    /// Adds another thread's sends.
    pub fn merge(&mut self, other: &Self) {
        self.first = self.first.into_iter().chain(other.first).min();
        self.last = self.last.into_iter().chain(other.last).max();
    }

    /// What the sends took of what they should have taken, if they were made within `span` seconds: 1 where all were in time.
    /// Their own times decide and not the rate, because the gaps of independent users vary: 100 of them take longer than 100
    /// mean gaps every other time. `None` of fewer than two sends.
    pub fn pace(&self, span: f64) -> Option<f64> {
        let due = self.last?.since(self.first?) as f64 / 1e9;
        (due > 0.0 && span > 0.0).then(|| due / span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arrivals: Arrivals, epoch: u64, shard: Shard) -> OpenPlan {
        OpenPlan { per_second: 1_000.0, arrivals, epoch: MonotonicTime(epoch), shard }
    }

    fn first_times(schedule: ArrivalSchedule, count: usize) -> Vec<u64> {
        let mut schedule = SendSchedule::Rate(schedule);
        let mut times = Vec::new();
        for _ in 0..count {
            times.push(schedule.due().0);
            schedule.advance();
        }
        times
    }

    fn times(arrivals: Arrivals, seed: u64, count: usize) -> Vec<u64> {
        let plan = plan(arrivals, 0, Shard { index: 0, threads: 1 });
        first_times(ArrivalSchedule::new(MonotonicTime(0), plan, seed), count)
    }

    /// What all threads send, each from its own start on, in the order of time.
    fn merged(arrivals: Arrivals, starts: &[u64], each: usize) -> Vec<u64> {
        let threads = starts.len() as u32;
        let mut all: Vec<u64> = (0..)
            .zip(starts)
            .flat_map(|(index, start)| {
                let plan = plan(arrivals, starts[0], Shard { index, threads });
                let start = MonotonicTime(*start);
                first_times(ArrivalSchedule::new(start, plan, index.into()), each)
            })
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn the_fixed_times_of_all_threads_together_are_evenly_spaced() {
        let all = merged(Arrivals::Fixed, &[5_000, 5_000, 5_100, 6_000], 25);
        let expected: Vec<u64> = (0..100).map(|number| 5_000 + number * 1_000_000).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn a_thread_that_begins_late_joins_between_the_sends_of_the_others() {
        let late = [0, 3_400_000, 17_000_000, 40_100_000];
        let all = merged(Arrivals::Fixed, &late, 100);
        let together = all.iter().filter(|at| (50_000_000..90_000_000).contains(*at));
        let together: Vec<u64> = together.copied().collect();
        assert_eq!(together, (50..90).map(|number| number * 1_000_000).collect::<Vec<_>>());
        assert!((0..).zip(late).all(|(index, start)| {
            let plan = plan(Arrivals::Fixed, 0, Shard { index, threads: 4 });
            ArrivalSchedule::new(MonotonicTime(start), plan, 1).due().0 >= start
        }));
    }

    #[test]
    fn the_poisson_times_of_all_threads_together_have_the_rate() {
        let all = merged(Arrivals::Poisson, &[0, 0, 0, 0], 25_000);
        let mean = all[90_000] as f64 / 90_000.0;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "mean gap {mean}");
    }

    #[test]
    fn fixed_times_are_evenly_spaced_and_never_drift() {
        let times = times(Arrivals::Fixed, 1, 1_000_001);
        assert_eq!((times[0], times[1]), (0, 1_000_000));
        assert_eq!(times[1_000_000], 1_000_000_000_000);
    }

    #[test]
    fn poisson_times_have_the_rate_and_the_variance_of_independent_users() {
        let times = times(Arrivals::Poisson, 7, 100_000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "mean gap {mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "spread {}", variance.sqrt());
    }

    #[test]
    fn sends_that_were_in_time_have_the_pace_of_their_schedule_whatever_its_gaps() {
        let pace = |times: &[u64], late: f64| {
            let mut due = DueSpan::default();
            times.iter().for_each(|at| due.add(MonotonicTime(*at)));
            due.pace(late * (times[times.len() - 1] - times[0]) as f64 / 1e9)
        };
        for seed in 1..=20 {
            let times = times(Arrivals::Poisson, seed, 100);
            assert!((pace(&times, 1.0).unwrap() - 1.0).abs() < 1e-9, "{seed}");
            assert!((pace(&times, 1.25).unwrap() - 0.8).abs() < 1e-9, "{seed}");
        }
        assert_eq!((pace(&[5], 1.0), DueSpan::default().pace(1.0)), (None, None));
    }

    #[test]
    fn recorded_times_are_divided_among_threads_and_repeated() {
        let times = RecordedTimes { offsets: [0, 5, 30].into(), period: 40 };
        for (index, expected) in [(0, [10, 40, 55, 90]), (1, [15, 50, 80, 95])] {
            let shard = Shard { index, threads: 2 };
            let recorded = RecordedSchedule::new(MonotonicTime(10), times.clone(), shard);
            let mut schedule = SendSchedule::Recorded(recorded);
            let due = expected.map(|_| {
                let due = schedule.due().0;
                schedule.advance();
                due
            });
            assert_eq!(due, expected);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_times() {
        assert_eq!(times(Arrivals::Poisson, 3, 100), times(Arrivals::Poisson, 3, 100));
        assert_ne!(times(Arrivals::Poisson, 3, 100), times(Arrivals::Poisson, 4, 100));
    }
}
