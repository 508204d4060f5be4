//! Which block is the first, and whether there is time for the next.

use std::time::{Duration, Instant};

/// When blocks may begin.
#[derive(Debug, Clone, Copy)]
pub struct BlockSchedule {
    first: u32,
    ends: Option<Instant>,
}

impl BlockSchedule {
    /// A schedule that begins `now`; blocks end within `limit` as far as that can be foreseen.
    pub fn new(warmup_block: bool, limit: Option<Duration>, now: Instant) -> Self {
        // A limit beyond what the clock can represent is no limit.
        let ends = limit.and_then(|limit| now.checked_add(limit));
        Self { first: u32::from(!warmup_block), ends }
    }

    /// The number of the first block.
    pub(super) fn first(self) -> u32 {
        self.first
    }

    /// The expected duration of a block and the time that is left, where that time is too short. `seconds` has the
    /// latest known duration of every trial of the block, zero where it is unknown.
    ///
    /// A block that is split over two sittings would compare variants at different times, so one that does not fit waits.
    pub(super) fn too_short(self, seconds: &[f64], now: Instant) -> Option<(Duration, Duration)> {
        let left = self.ends?.saturating_duration_since(now);
        let needed = Duration::try_from_secs_f64(seconds.iter().sum()).unwrap_or_default();
        // With unknown durations nothing is needed, and that would fit even into no time.
        let fits = needed <= left && !left.is_zero();
        (!fits && !seconds.is_empty()).then_some((needed, left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_block_begins_only_if_its_latest_durations_fit_into_the_time_that_is_left() {
        let start = Instant::now();
        let schedule = BlockSchedule::new(true, Some(MINUTE), start);
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(schedule.too_short(&[20.0, 25.0], after(15)), None);
        let (needed, left) = schedule.too_short(&[20.0, 25.0], after(16)).unwrap();
        assert_eq!((needed.as_secs(), left.as_secs()), (45, 44));
        assert_eq!(schedule.too_short(&[20.0], after(40)), None);
    }

    #[test]
    fn a_block_of_unknown_duration_begins_while_any_time_is_left() {
        let start = Instant::now();
        let schedule = BlockSchedule::new(true, Some(MINUTE), start);
        assert_eq!(schedule.too_short(&[0.0], start), None);
        assert!(schedule.too_short(&[0.0], start + MINUTE).is_some());
        assert_eq!(schedule.too_short(&[], start + MINUTE), None, "no trial is missing");
        let unlimited = BlockSchedule::new(true, None, start);
        assert_eq!(unlimited.too_short(&[1e9], start + MINUTE), None);
    }

    #[test]
    fn without_a_warm_up_block_the_first_block_is_number_one() {
        let now = Instant::now();
        assert_eq!(BlockSchedule::new(true, None, now).first(), 0);
        assert_eq!(BlockSchedule::new(false, None, now).first(), 1);
    }
}
