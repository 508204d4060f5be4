//! Two clocks and what lies between them.
//!
//! Schedules and durations live on `CLOCK_MONOTONIC`. The kernel stamps arrivals with `CLOCK_REALTIME`, so the difference
//! of the two is sampled again and again: a slewed clock is followed, a stepped one is noticed and the stamps of that
//! moment are not used.

use rustix::time::{ClockId, clock_gettime};

/// A moment in nanoseconds of `CLOCK_MONOTONIC`, which every process of a machine shares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MonotonicTime(pub u64);

impl MonotonicTime {
    /// This moment.
    pub fn now() -> Self {
        Self(nanos(ClockId::Monotonic) as u64)
    }

    /// Nanoseconds since an earlier moment, 0 where it is later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment so many nanoseconds later.
    pub fn after(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// Whole milliseconds of the clock.
    pub fn millis(self) -> u64 {
        self.0 / 1_000_000
    }
}

/// Nanoseconds of so many seconds; never negative.
pub fn nanos_of(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e9) as u64
}

/// Processor time of the calling thread in nanoseconds.
pub fn thread_cpu() -> u64 {
    nanos(ClockId::ThreadCPUTime) as u64
}

/// Processor time of the whole process in nanoseconds.
pub fn process_cpu() -> u64 {
    nanos(ClockId::ProcessCPUTime) as u64
}

fn nanos(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// How far `CLOCK_REALTIME` may drift against `CLOCK_MONOTONIC` between two samples before it counts as a step: ten times
/// the 500 ppm at which the kernel slews (adjtimex(2)), and never less than half a millisecond.
const STEP_SHARE: u64 = 200;
const STEP_FLOOR: u64 = 500_000;

/// Turns the kernel's stamps into moments.
#[derive(Debug)]
pub struct StampClock {
    read: fn() -> i64,
    offset: i64,
    sampled: MonotonicTime,
    doubtful_until: MonotonicTime,
    steps: u32,
}

impl Default for StampClock {
    fn default() -> Self {
        Self::new(offset)
    }
}

impl StampClock {
    /// A clock whose distance from `CLOCK_MONOTONIC` in nanoseconds is what `read` says.
    pub(crate) fn new(read: fn() -> i64) -> Self {
        let sampled = MonotonicTime::now();
        Self { read, offset: read(), sampled, doubtful_until: MonotonicTime(0), steps: 0 }
    }

    /// Samples the difference of the clocks; call it about ten times a second.
    pub fn sample(&mut self, now: MonotonicTime) {
        self.take((self.read)(), now);
    }

    fn take(&mut self, offset: i64, now: MonotonicTime) {
        let moved = offset.abs_diff(self.offset);
        if moved > STEP_FLOOR.max(now.since(self.sampled) / STEP_SHARE) {
            self.steps += 1;
            self.doubtful_until = now.after(1_000_000);
        }
        self.offset = offset;
        self.sampled = now;
    }

    /// The moment of a stamp read at `read`; `None` where the stamp cannot be right.
    ///
    /// A stamp lies before its reading. One that lies after it, or long before the last sample of the clocks, was taken
    /// across a step.
    pub fn moment(&self, stamp: i64, read: MonotonicTime) -> Option<MonotonicTime> {
        let moment = MonotonicTime(u64::try_from(stamp - self.offset).ok()?);
        let ahead = moment.since(read) > STEP_FLOOR;
        (!ahead && read >= self.doubtful_until).then(|| moment.min(read))
    }

    /// Steps seen so far.
    pub fn steps(&self) -> u32 {
        self.steps
    }
}

/// Of three readings the one whose two clocks were read closest together.
pub(crate) fn offset() -> i64 {
    let reading = || {
        let before = nanos(ClockId::Monotonic);
        let real = nanos(ClockId::Realtime);
        let after = nanos(ClockId::Monotonic);
        (after - before, real - (before + after) / 2)
    };
    (0..3).map(|_| reading()).min().map_or(0, |(_, offset)| offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> StampClock {
        StampClock {
            read: offset,
            offset: 1_000,
            sampled: MonotonicTime(0),
            doubtful_until: MonotonicTime(0),
            steps: 0,
        }
    }

    #[test]
    fn a_slewed_clock_is_followed_and_a_stepped_one_is_noticed() {
        for (moved, after_ns, steps) in
            [(50_000, 100_000_000, 0), (400_000, 100_000_000, 0), (1_000_000_000, 100_000_000, 1)]
        {
            let mut clock = clock();
            clock.take(1_000 + moved, MonotonicTime(after_ns));
            assert_eq!(clock.steps(), steps, "moved by {moved}");
        }
    }

    #[test]
    fn a_stamp_from_the_future_is_not_believed() {
        let clock = clock();
        assert_eq!(clock.moment(6_000, MonotonicTime(9_000)), Some(MonotonicTime(5_000)));
        assert_eq!(clock.moment(5_000_000_000, MonotonicTime(9_000)), None);
        assert_eq!(clock.moment(0, MonotonicTime(9_000)), None);
    }

    #[test]
    fn stamps_right_after_a_step_are_void() {
        let mut clock = clock();
        clock.take(2_000_000_000, MonotonicTime(50_000_000));
        assert_eq!(clock.moment(2_050_000_000, MonotonicTime(50_500_000)), None);
        assert!(clock.moment(2_060_000_000, MonotonicTime(60_000_000)).is_some());
    }
}
