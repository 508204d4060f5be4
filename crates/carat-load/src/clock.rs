//! Conversion between the two clocks of the generator.
//!
//! Schedules and durations use `CLOCK_MONOTONIC`. The kernel stamps arrivals with `CLOCK_REALTIME`, so the difference of
//! the two is sampled regularly. A slewed clock is followed; a step is detected, and the stamps around it are not used.

use rustix::time::{ClockId, clock_gettime};

/// A time in nanoseconds of `CLOCK_MONOTONIC`, which all processes of a machine share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MonotonicTime(pub u64);

impl MonotonicTime {
    /// The current time.
    pub fn now() -> Self {
        Self(nanos(ClockId::Monotonic) as u64)
    }

    /// Nanoseconds since an earlier time, 0 if it is later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The time that many nanoseconds later.
    pub fn after(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// Whole milliseconds of the clock.
    pub fn millis(self) -> u64 {
        self.0 / 1_000_000
    }
}

/// Nanoseconds in `seconds`; never negative.
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

/// Seconds since 1970.
pub fn unix_seconds() -> i64 {
    clock_gettime(ClockId::Realtime).tv_sec
}

fn nanos(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// How far `CLOCK_REALTIME` may drift against `CLOCK_MONOTONIC` between two samples before it counts as a step: ten times
/// the 500 ppm at which the kernel slews (adjtimex(2)), and never less than half a millisecond.
const STEP_SHARE: u64 = 200;
const STEP_FLOOR: u64 = 500_000;

/// Converts the kernel's time stamps.
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
    /// A clock whose difference from `CLOCK_MONOTONIC` in nanoseconds is read by `read`.
    pub fn new(read: fn() -> i64) -> Self {
        let sampled = MonotonicTime::now();
        Self { read, offset: read(), sampled, doubtful_until: MonotonicTime(0), steps: 0 }
    }

    /// Samples the difference of the clocks; call it about ten times a second.
    pub fn sample(&mut self, now: MonotonicTime) {
        self.take((self.read)(), now);
    }

    fn take(&mut self, offset: i64, now: MonotonicTime) {
        let moved = offset.abs_diff(self.offset);
        // Relative to the time since the last sample: a slewed clock moves that much anyway.
        if moved > STEP_FLOOR.max(now.since(self.sampled) / STEP_SHARE) {
            self.steps += 1;
            // Stamps of packets on their way may be from before the step.
            self.doubtful_until = now.after(1_000_000);
        }
        self.offset = offset;
        self.sampled = now;
    }

    /// Converts a stamp that was read at `read`; `None` if the stamp cannot be right.
    ///
    /// A stamp is earlier than its reading. One that is later, or that was read right after a step, is not used.
    pub fn convert(&self, stamp: i64, read: MonotonicTime) -> Option<MonotonicTime> {
        let stamped = MonotonicTime(u64::try_from(stamp - self.offset).ok()?);
        // A stamp cannot be later than its reading, but for the error of the sampled offset.
        let ahead = stamped.since(read) > STEP_FLOOR;
        (!ahead && read >= self.doubtful_until).then(|| stamped.min(read))
    }

    /// Steps detected so far.
    pub fn steps(&self) -> u32 {
        self.steps
    }
}

/// How far `CLOCK_REALTIME` is ahead of `CLOCK_MONOTONIC`: the best of three readings.
pub fn offset() -> i64 {
    // The shortest reading has the least uncertainty about when the clock was read.
    (0..3).map(|_| offset_with_error()).min().map_or(0, |(_, offset)| offset)
}

/// The time that one reading of both clocks took, and their difference.
fn offset_with_error() -> (i64, i64) {
    let before = nanos(ClockId::Monotonic);
    let real = nanos(ClockId::Realtime);
    let after = nanos(ClockId::Monotonic);
    // The real time was read somewhere between both; the middle halves the error.
    (after - before, real - (before + after) / 2)
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
    fn a_stamp_from_the_future_is_not_used() {
        let clock = clock();
        assert_eq!(clock.convert(6_000, MonotonicTime(9_000)), Some(MonotonicTime(5_000)));
        assert_eq!(clock.convert(5_000_000_000, MonotonicTime(9_000)), None);
        assert_eq!(clock.convert(0, MonotonicTime(9_000)), None);
    }

    #[test]
    fn stamps_right_after_a_step_are_void() {
        let mut clock = clock();
        clock.take(2_000_000_000, MonotonicTime(50_000_000));
        assert_eq!(clock.convert(2_050_000_000, MonotonicTime(50_500_000)), None);
        assert!(clock.convert(2_060_000_000, MonotonicTime(60_000_000)).is_some());
    }
}
