//! What watching may cost: a share of one core, with a reserve for what cannot wait.

use std::time::Duration;

/// Processor time that is there at the start and at most saved, in seconds: enough for the first readings.
const SAVED_S: f64 = 3.0;
/// Debt that a reading may make which cannot wait, in seconds.
const URGENT_S: f64 = 3.0;
/// Debt that readings alone do not make, in seconds: what is above comes from the rounds.
const DEBT_S: f64 = 2.0 * URGENT_S;
/// The longest time between two rounds.
const LONGEST: Duration = Duration::from_secs(120);

/// Processor time that was earned and not spent.
#[derive(Debug, Clone)]
pub(crate) struct Allowance {
    share: f64,
    left_s: f64,
    updated: Duration,
}

impl Allowance {
    /// `share` of one core, as a fraction.
    pub(crate) fn new(share: f64) -> Self {
        Self { share, left_s: SAVED_S, updated: Duration::ZERO }
    }

    /// Earns for the time that has passed.
    pub(crate) fn advance(&mut self, at: Duration) {
        let passed = at.saturating_sub(self.updated);
        self.updated = self.updated.max(at);
        self.left_s = (self.left_s + passed.as_secs_f64() * self.share).min(SAVED_S);
    }

    pub(crate) fn spend(&mut self, cpu: Duration) {
        self.left_s -= cpu.as_secs_f64();
    }

    /// Whether there is something left to spend.
    pub(crate) fn allows(&self) -> bool {
        self.left_s > 0.0
    }

    /// The same for what cannot wait.
    pub(crate) fn allows_urgent(&self) -> bool {
        self.left_s > -URGENT_S
    }

    /// The time from one round to the next, if a round costs so much and nothing but it is done; longer where what belongs to
    /// rounds and is not always done, such as writing and finding who is new, has made a debt.
    pub(crate) fn interval(&self, every: Duration, round: Duration) -> Duration {
        let excess = (-self.left_s - DEBT_S).max(0.0);
        let seconds = (round.as_secs_f64() + excess) / self.share;
        let paid = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST);
        every.max(paid.min(LONGEST.max(every)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_is_earned_again_at_the_share_and_no_more_is_saved_than_for_a_few_readings() {
        let mut allowance = Allowance::new(0.005);
        allowance.spend(Duration::from_secs(4));
        assert!(!allowance.allows() && allowance.allows_urgent());
        allowance.advance(Duration::from_secs(190));
        assert!(!allowance.allows());
        allowance.advance(Duration::from_secs(210));
        assert!(allowance.allows());
        allowance.advance(Duration::from_secs(1_000_000));
        allowance.spend(Duration::from_secs(7));
        assert!(!allowance.allows_urgent());
        // A clock that goes back earns nothing twice.
        allowance.advance(Duration::ZERO);
        assert!(!allowance.allows_urgent());
    }

    #[test]
    fn rounds_that_cost_more_than_the_share_come_less_often() {
        let allowance = Allowance::new(0.005);
        let every = Duration::from_secs(10);
        let interval = |ms| allowance.interval(every, Duration::from_millis(ms)).as_secs();
        assert_eq!((interval(5), interval(50), interval(200), interval(9_000)), (10, 10, 40, 120));
    }

    #[test]
    fn a_debt_that_readings_do_not_make_is_repaid_by_fewer_rounds() {
        let mut allowance = Allowance::new(0.005);
        let every = Duration::from_secs(10);
        allowance.spend(Duration::from_secs(8));
        assert_eq!(allowance.interval(every, Duration::ZERO), every, "as readings near the limit");
        allowance.spend(Duration::from_millis(1_200));
        assert_eq!(allowance.interval(every, Duration::ZERO).as_secs(), 40);
        allowance.advance(Duration::from_secs(40));
        assert_eq!(allowance.interval(every, Duration::ZERO), every);
    }
}
