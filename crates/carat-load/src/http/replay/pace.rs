//! Recorded times as send times.

use crate::http::replay::traffic::RecordedTraffic;
use crate::schedule::RecordedTimes;

const SECOND: u64 = 1_000_000_000;
/// Least nanoseconds between the last request and the repetition of the first, so that every repetition takes time.
const GAP_MIN: u64 = 1_000_000;

/// The numbers of the requests in the order of their times, and when each is sent; `factor` is how many times as fast.
///
/// # Errors
/// If a request has no time.
pub fn paced(traffic: &RecordedTraffic, factor: f64) -> Result<(Vec<u32>, RecordedTimes), String> {
    let (count, untimed, format) = (traffic.order.len(), traffic.untimed, traffic.format);
    if traffic.times.is_empty() {
        return Err(format!(
            "`pace` needs the times of all requests: {untimed} of {count} requests of the {format} have no time"
        ));
    }
    let mut timed: Vec<(i64, u32)> =
        traffic.times.iter().copied().zip(traffic.order.iter().copied()).collect();
    // Logs are written when a response is complete. Requests of the same time keep their order.
    timed.sort_by_key(|(time, _)| *time);
    let first = timed.first().map_or(0, |(time, _)| *time);
    let mut offsets: Vec<u64> = timed.iter().map(|(time, _)| time.abs_diff(first)).collect();
    // Only if all are whole seconds: one fraction shows that the log has them.
    if timed.iter().all(|(time, _)| time.unsigned_abs() % SECOND == 0) {
        spread(&mut offsets);
    }
    for offset in &mut offsets {
        *offset = (*offset as f64 / factor) as u64;
    }
    let last = offsets.last().copied().unwrap_or(0);
    // A single request has no gap of its own, so it repeats every second.
    let gap = match count {
        1 => (SECOND as f64 / factor) as u64,
        // The mean gap: the first request of the next round must not follow at once.
        _ => last / (count as u64 - 1),
    };
    let period = last.saturating_add(gap.max(GAP_MIN));
    let order = timed.into_iter().map(|(_, number)| number).collect();
    Ok((order, RecordedTimes { offsets: offsets.into(), period }))
}

/// Spreads what was recorded in the same second evenly over it: a log of whole seconds says no more, and all requests of a
/// second at once would be bursts that nobody sent.
fn spread(offsets: &mut [u64]) {
    for same in offsets.chunk_by_mut(|one, other| one == other) {
        let step = SECOND / same.len() as u64;
        for (place, offset) in (0..).zip(same) {
            *offset = offset.saturating_add(place * step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::replay::traffic::LeftOut;
    use carat_model::load::ReplayFormat;

    fn traffic(times: &[i64]) -> RecordedTraffic {
        RecordedTraffic {
            format: ReplayFormat::AccessLog,
            requests: Vec::new(),
            order: (0..times.len() as u32).collect(),
            weights: Vec::new(),
            times: times.to_vec(),
            untimed: 0,
            unanswered: 0,
            left_out: LeftOut::default(),
        }
    }

    #[test]
    fn requests_of_a_whole_second_are_spread_over_it_in_their_order() {
        let seconds = [7, 5, 5, 7, 5, 5].map(|second| second * SECOND as i64);
        let (order, times) = paced(&traffic(&seconds), 0.5).unwrap();
        assert_eq!(order, [1, 2, 4, 5, 0, 3]);
        assert_eq!(milliseconds(&times), [0, 500, 1000, 1500, 4000, 5000]);
        assert_eq!(times.period, 6 * SECOND);
    }

    #[test]
    fn finer_times_stay_as_they_are() {
        let (order, times) = paced(&traffic(&[1_500_000_000, 0, 1_500_000_000]), 1.0).unwrap();
        assert_eq!((order, milliseconds(&times)), (vec![1, 0, 2], vec![0, 1500, 1500]));
        assert_eq!(times.period, 2_250_000_000);
    }

    #[test]
    fn a_repetition_always_takes_time() {
        for times in [&[5][..], &[5, 5, 5], &[0], &[i64::MIN, i64::MAX]] {
            let (_, recorded) = paced(&traffic(times), 1e6).unwrap();
            let last = *recorded.offsets.last().unwrap();
            assert!(recorded.period >= last + GAP_MIN, "{times:?}");
        }
    }

    fn milliseconds(times: &RecordedTimes) -> Vec<u64> {
        times.offsets.iter().map(|nanos| nanos / 1_000_000).collect()
    }
}
