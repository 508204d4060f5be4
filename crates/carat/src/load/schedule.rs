//! The send times of an open load.

use crate::core::load::Arrivals;
use crate::load::clock::MonotonicTime;
use crate::load::shard::Shard;
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
pub(crate) struct RecordedTimes {
    /// Nanoseconds after the first, ascending; never empty.
    pub(crate) offsets: Arc<[u64]>,
    /// Nanoseconds from the first to its repetition.
    pub(crate) period: u64,
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
        let offset = self.times.offsets[(self.place % count) as usize];
        let passed = (self.place / count).saturating_mul(self.times.period);
        self.start.after(passed.saturating_add(offset))
    }
}

/// Times at which something is sent, whatever the server does.
#[derive(Debug)]
pub(crate) struct ArrivalSchedule {
    start: MonotonicTime,
    gap: f64,
    sent: u64,
    elapsed: f64,
    arrivals: Arrivals,
    random: ChaCha8Rng,
}

impl ArrivalSchedule {
    /// A schedule of `per_second` sends from `start` on.
    pub(crate) fn new(
        start: MonotonicTime,
        per_second: f64,
        arrivals: Arrivals,
        seed: u64,
    ) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        let mut schedule =
            Self { start, gap: 1e9 / per_second, sent: 0, elapsed: 0.0, arrivals, random };
        if arrivals == Arrivals::Poisson {
            schedule.elapsed = schedule.exponential();
        }
        schedule
    }

    /// The next send time.
    pub(crate) fn due(&self) -> MonotonicTime {
        match self.arrivals {
            // Computed from the start, so that rounding errors do not add up.
            Arrivals::Fixed => self.start.after((self.sent as f64 * self.gap) as u64),
            Arrivals::Poisson => self.start.after(self.elapsed as u64),
        }
    }

    /// Advances to the following send time.
    pub(crate) fn advance(&mut self) {
        self.sent += 1;
        if self.arrivals == Arrivals::Poisson {
            self.elapsed += self.exponential();
        }
    }

    /// Inverse transform: -ln(1 - U) has mean 1.
    fn exponential(&mut self) -> f64 {
        let uniform: f64 = self.random.random();
        -(1.0 - uniform).ln() * self.gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: Arrivals, seed: u64, count: usize) -> Vec<u64> {
        let mut schedule = ArrivalSchedule::new(MonotonicTime(0), 1_000.0, arrivals, seed);
        let mut times = Vec::new();
        for _ in 0..count {
            times.push(schedule.due().0);
            schedule.advance();
        }
        times
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
