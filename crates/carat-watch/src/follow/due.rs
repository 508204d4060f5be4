//! When a process is to be read again: pure.

use carat_model::Bytes;
use carat_model::watch::CensusReason;
use std::time::Duration;

/// Growth since the last reading that is worth another, as a factor.
const GREW: f64 = 1.05;
/// Shares of the limit that are worth one when they are crossed.
const SHARES: [f64; 6] = [0.5, 0.75, 0.85, 0.9, 0.95, 0.98];
/// Waiting for memory that is worth one, in percent of the time.
const PRESSURE: f64 = 10.0;
const HOURLY: Duration = Duration::from_secs(3600);
/// Rounds between two readings because of growth, and because of pressure.
const ROUNDS: (u32, u32) = (6, 30);

/// The state of a process and its group.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct DueSigns {
    pub(crate) at: Duration,
    pub(crate) size: Option<Bytes>,
    /// The share of its limit that is used, as a fraction.
    pub(crate) of_limit: Option<f64>,
    /// Waiting for memory, in percent of the time.
    pub(crate) pressure: Option<f64>,
}

/// Why it should be read now; `before` is the state at its last reading.
pub(crate) fn due(
    before: Option<&DueSigns>,
    now: &DueSigns,
    every: Duration,
) -> Option<CensusReason> {
    let Some(before) = before else { return Some(CensusReason::First) };
    let passed = now.at.saturating_sub(before.at);
    // The most urgent reason first, because only one of them is written beside the reading.
    if crossed(before.of_limit, now.of_limit) && passed >= every {
        return Some(CensusReason::NearLimit);
    }
    if now.pressure.is_some_and(|percent| percent >= PRESSURE) && passed >= every * ROUNDS.1 {
        return Some(CensusReason::Pressure);
    }
    let grew = before
        .size
        .zip(now.size)
        .is_some_and(|(before, now)| now.0 as f64 >= before.0 as f64 * GREW);
    if grew && passed >= every * ROUNDS.0 {
        return Some(CensusReason::Grew);
    }
    (passed >= HOURLY).then_some(CensusReason::Hourly)
}

/// Whether a reading cannot wait until it is paid for.
pub(crate) fn is_urgent(reason: CensusReason) -> bool {
    matches!(reason, CensusReason::NearLimit | CensusReason::Pressure)
}

fn crossed(before: Option<f64>, now: Option<f64>) -> bool {
    let (Some(before), Some(now)) = (before, now) else { return false };
    SHARES.iter().any(|share| before < *share && now >= *share)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(10);

    fn at(seconds: u64, size: u64, of_limit: f64) -> DueSigns {
        DueSigns {
            at: Duration::from_secs(seconds),
            size: Some(Bytes(size)),
            of_limit: Some(of_limit),
            pressure: None,
        }
    }

    #[test]
    fn a_reading_is_due_at_first_after_growth_near_the_limit_under_pressure_and_each_hour() {
        let before = at(100, 1_000, 0.4);
        let due = |now: DueSigns| due(Some(&before), &now, EVERY);
        assert_eq!(super::due(None, &before, EVERY), Some(CensusReason::First));
        assert_eq!(due(at(400, 1_040, 0.41)), None);
        assert_eq!(due(at(160, 1_050, 0.41)), Some(CensusReason::Grew));
        assert_eq!(due(at(150, 1_050, 0.41)), None, "too soon");
        assert_eq!(due(at(110, 1_050, 0.51)), Some(CensusReason::NearLimit));
        let waits = DueSigns { pressure: Some(12.0), ..at(400, 1_000, 0.4) };
        assert_eq!(due(waits), Some(CensusReason::Pressure));
        assert_eq!(due(at(3_700, 900, 0.3)), Some(CensusReason::Hourly));
        let unknown = DueSigns { size: None, of_limit: None, ..at(900, 0, 0.0) };
        assert_eq!(due(unknown), None);
    }

    #[test]
    fn a_share_that_stays_crossed_is_told_once() {
        assert!(crossed(Some(0.7), Some(0.99)));
        assert!(!crossed(Some(0.76), Some(0.84)));
        assert!(!crossed(Some(0.9), Some(0.6)));
        assert!(!crossed(None, Some(0.9)));
    }
}
