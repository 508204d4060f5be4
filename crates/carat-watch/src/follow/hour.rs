//! Growth over the last hour, from one size a minute.

use carat_model::Bytes;
use carat_stats::slope::slope;
use std::collections::VecDeque;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
/// Sizes that are kept.
const SIZES: usize = 61;

/// The sizes of the last hour.
#[derive(Debug, Clone, Default)]
pub(super) struct HourOfSizes(VecDeque<(Duration, Bytes)>);

impl HourOfSizes {
    pub(super) fn add(&mut self, at: Duration, size: Bytes) {
        // One a minute is enough for the slope of an hour, and rounds come every few seconds.
        if self.0.back().is_some_and(|(last, _)| at < *last + MINUTE) {
            return;
        }
        self.0.push_back((at, size));
        if self.0.len() > SIZES {
            self.0.pop_front();
        }
    }

    /// Bytes per second, robust against a few odd sizes; `None` where these are too few for a slope.
    pub(super) fn rate(&self) -> Option<f64> {
        let series: Vec<(f64, f64)> =
            self.0.iter().map(|(at, size)| (at.as_secs_f64(), size.0 as f64)).collect();
        slope(&series).map(|slope| slope.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_most_minutes_and_unknown_before_there_are_some() {
        let mut hour = HourOfSizes::default();
        for minute in 0..5_u64 {
            hour.add(MINUTE * minute as u32, Bytes(minute * 600));
        }
        assert_eq!(hour.rate(), None);
        for minute in 5..200_u64 {
            // Between the minutes nothing is kept, and one peak changes nothing.
            let size = if minute == 150 { 9_000_000 } else { minute * 600 };
            hour.add(MINUTE * minute as u32, Bytes(size));
            hour.add(MINUTE * minute as u32 + Duration::from_secs(9), Bytes(0));
        }
        assert_eq!((hour.rate(), hour.0.len()), (Some(10.0), SIZES));
    }
}
