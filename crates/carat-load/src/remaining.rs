//! What remains to be sent, and when.

use crate::clock::{MonotonicTime, nanos_of};
use crate::schedule::{ArrivalSchedule, OpenPlan, RecordedSchedule, SendSchedule};

/// What one thread has to send.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SendPlan {
    /// Number of sends; `None` if the load ends by time.
    pub count: Option<u64>,
    /// Seconds after which nothing more is sent.
    pub seconds: Option<f64>,
    /// The arrivals of an open load.
    pub open: Option<OpenPlan>,
    /// Seed of the arrivals.
    pub seed: u64,
}

/// The sends that remain.
#[derive(Debug)]
pub(crate) struct RemainingSends {
    left: Option<u64>,
    until: Option<MonotonicTime>,
    schedule: Option<SendSchedule>,
    handed: u64,
}

impl RemainingSends {
    /// Nothing to send.
    pub(crate) fn none() -> Self {
        Self { left: Some(0), until: None, schedule: None, handed: 0 }
    }

    /// The sends of a plan that begins at `now`.
    pub(crate) fn begin(plan: &SendPlan, now: MonotonicTime) -> Self {
        Self {
            left: plan.count,
            until: plan.seconds.map(|seconds| now.after(nanos_of(seconds))),
            schedule: plan
                .open
                .map(|open| SendSchedule::Rate(ArrivalSchedule::new(now, open, plan.seed))),
            handed: 0,
        }
    }

    /// The same sends at recorded times.
    pub(crate) fn at(self, schedule: RecordedSchedule) -> Self {
        Self { schedule: Some(SendSchedule::Recorded(schedule)), ..self }
    }

    /// Whether sends happen at fixed times, whatever the server does.
    pub(crate) fn is_open(&self) -> bool {
        self.schedule.is_some()
    }

    /// Takes the next send if one is due, and returns its intended time.
    pub(crate) fn next(&mut self, now: MonotonicTime) -> Option<MonotonicTime> {
        if self.is_over(now) {
            return None;
        }
        let intended = match &mut self.schedule {
            None => now,
            Some(schedule) if schedule.due() <= now => {
                // The intended time, not now: a late generator must not hide a request's wait.
                let due = schedule.due();
                schedule.advance();
                due
            }
            Some(_) => return None,
        };
        self.left = self.left.map(|left| left - 1);
        self.handed += 1;
        Some(intended)
    }

    /// When the next send is due; `None` in a closed load or after the last send.
    pub(crate) fn due(&self, now: MonotonicTime) -> Option<MonotonicTime> {
        if self.is_over(now) { None } else { self.schedule.as_ref().map(SendSchedule::due) }
    }

    /// Whether nothing remains to be sent.
    ///
    /// An open load ends by the intended times, so that a late generator still sends everything.
    pub(crate) fn is_over(&self, now: MonotonicTime) -> bool {
        // By the due time: a stall at the end of the load must not cancel what was due during it.
        let at = self.schedule.as_ref().map_or(now, SendSchedule::due);
        self.left == Some(0) || self.until.is_some_and(|until| at >= until)
    }

    /// Number of sends taken so far.
    pub(crate) fn handed(&self) -> u64 {
        self.handed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::RecordedTimes;
    use crate::shard::Shard;
    use carat_model::load::Arrivals;

    fn plan() -> SendPlan {
        SendPlan { count: None, seconds: None, open: None, seed: 1 }
    }

    #[test]
    fn a_closed_load_hands_out_until_its_count_or_its_time_is_over() {
        let mut budget =
            RemainingSends::begin(&SendPlan { count: Some(2), ..plan() }, MonotonicTime(0));
        assert_eq!(
            [5, 6, 7].map(|at| budget.next(MonotonicTime(at)).map(|m| m.0)),
            [Some(5), Some(6), None]
        );
        let mut budget =
            RemainingSends::begin(&SendPlan { seconds: Some(1e-9), ..plan() }, MonotonicTime(5));
        assert_eq!([5, 6].map(|at| budget.next(MonotonicTime(at)).is_some()), [true, false]);
    }

    #[test]
    fn recorded_sends_are_due_at_their_times_and_end_with_the_count_or_the_time() {
        let times = RecordedTimes { offsets: [0, 5].into(), period: 10 };
        let shard = Shard { index: 0, threads: 1 };
        for plan in
            [SendPlan { count: Some(3), ..plan() }, SendPlan { seconds: Some(15e-9), ..plan() }]
        {
            let start = MonotonicTime(100);
            let schedule = RecordedSchedule::new(start, times.clone(), shard);
            let mut budget = RemainingSends::begin(&plan, start).at(schedule);
            assert!(budget.is_open());
            assert_eq!(budget.next(MonotonicTime(104)), Some(start));
            assert_eq!(budget.next(MonotonicTime(104)), None);
            assert_eq!(budget.due(MonotonicTime(104)), Some(MonotonicTime(105)));
            let late = MonotonicTime(1_000);
            let sent: Vec<u64> = std::iter::from_fn(|| budget.next(late)).map(|m| m.0).collect();
            assert_eq!(sent, [105, 110]);
        }
    }

    #[test]
    fn a_late_generator_still_sends_everything_that_was_due() {
        let open = Some(OpenPlan {
            per_second: 1e9,
            arrivals: Arrivals::Fixed,
            epoch: MonotonicTime(0),
            shard: Shard { index: 0, threads: 1 },
        });
        let mut budget = RemainingSends::begin(
            &SendPlan { seconds: Some(3e-9), open, ..plan() },
            MonotonicTime(0),
        );
        let late = MonotonicTime(1_000);
        let sent: Vec<u64> = std::iter::from_fn(|| budget.next(late)).map(|m| m.0).collect();
        assert_eq!(sent, [0, 1, 2]);
        assert!(budget.is_over(late));
    }
}
