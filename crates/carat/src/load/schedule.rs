//! The moments of an open load.

use crate::core::load::Arrivals;
use crate::load::clock::MonotonicTime;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Moments at which something is to be sent, whatever the server does.
#[derive(Debug)]
pub(crate) struct Schedule {
    start: MonotonicTime,
    gap: f64,
    sent: u64,
    elapsed: f64,
    arrivals: Arrivals,
    random: ChaCha8Rng,
}

impl Schedule {
    /// A schedule of so many per second from `start` on.
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

    /// The next moment.
    pub(crate) fn due(&self) -> MonotonicTime {
        match self.arrivals {
            // Counted from the start, so that rounding never adds up to a drift.
            Arrivals::Fixed => self.start.after((self.sent as f64 * self.gap) as u64),
            Arrivals::Poisson => self.start.after(self.elapsed as u64),
        }
    }

    /// Goes on to the moment after.
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

    fn moments(arrivals: Arrivals, seed: u64, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(MonotonicTime(0), 1_000.0, arrivals, seed);
        let mut moments = Vec::new();
        for _ in 0..count {
            moments.push(schedule.due().0);
            schedule.advance();
        }
        moments
    }

    #[test]
    fn fixed_moments_are_evenly_spread_and_never_drift() {
        let moments = moments(Arrivals::Fixed, 1, 1_000_001);
        assert_eq!((moments[0], moments[1]), (0, 1_000_000));
        assert_eq!(moments[1_000_000], 1_000_000_000_000);
    }

    #[test]
    fn poisson_moments_have_the_rate_and_the_spread_of_independent_users() {
        let moments = moments(Arrivals::Poisson, 7, 100_000);
        let gaps: Vec<f64> = moments.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "mean gap {mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "spread {}", variance.sqrt());
    }

    #[test]
    fn the_same_seed_gives_the_same_moments() {
        assert_eq!(moments(Arrivals::Poisson, 3, 100), moments(Arrivals::Poisson, 3, 100));
        assert_ne!(moments(Arrivals::Poisson, 3, 100), moments(Arrivals::Poisson, 4, 100));
    }
}
