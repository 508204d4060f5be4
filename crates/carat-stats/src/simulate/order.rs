//! Error rates of other orders than random blocks, on a machine whose state changes.

use crate::normal::t_upper_quantile;
use crate::simulate::SeededRng;

/// Trials of each of the two equal variants.
const EACH: usize = 20;

/// An order of trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All trials of one variant, then all of the other.
    OneAfterTheOther,
    /// Alternating.
    InTurn,
    /// All trials shuffled.
    Shuffled,
    /// In blocks of two, each in random order.
    Blocks,
}

/// Disturbance of the machine, in addition to normal noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// No disturbance.
    None,
    /// A linear drift of two standard deviations.
    Drift,
    /// A step of two standard deviations half-way.
    Step,
    /// An effect of two standard deviations on every second trial.
    Periodic,
}

impl Order {
    /// Every order with its label for tables.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::OneAfterTheOther, "AAAA…BBBB"),
        (Self::InTurn, "ABAB"),
        (Self::Shuffled, "all shuffled"),
        (Self::Blocks, "random blocks"),
    ];

    /// Whether trial i is of the second variant.
    fn second(self, rng: &mut SeededRng) -> Vec<bool> {
        match self {
            Self::OneAfterTheOther => (0..2 * EACH).map(|i| i >= EACH).collect(),
            Self::InTurn => (0..2 * EACH).map(|i| i % 2 == 1).collect(),
            Self::Shuffled => rng.order(2 * EACH).into_iter().map(|i| i >= EACH).collect(),
            Self::Blocks => (0..EACH)
                .flat_map(|_| {
                    let first = rng.uniform() < 0.5;
                    [first, !first]
                })
                .collect(),
        }
    }

    /// The estimated difference of two equal variants in standard deviations of a trial, and whether a
    /// 5 % t test (paired for blocks) calls it significant.
    pub fn once(self, disturbance: Disturbance, rng: &mut SeededRng) -> (f64, bool) {
        let second = self.second(rng);
        let mut groups = [Vec::new(), Vec::new()];
        for (i, &is_second) in second.iter().enumerate() {
            let value = rng.normal() + disturbance.at(i);
            groups[usize::from(is_second)].push(value);
        }
        let [one, two] = groups;
        let difference = mean(&two) - mean(&one);
        let (error, freedom) = if self == Self::Blocks {
            let pairs: Vec<f64> = two.iter().zip(&one).map(|(b, a)| b - a).collect();
            ((variance(&pairs) / EACH as f64).sqrt(), EACH - 1)
        } else {
            (((variance(&one) + variance(&two)) / EACH as f64).sqrt(), 2 * EACH - 2)
        };
        (difference, difference.abs() > t_upper_quantile(0.025, freedom as f64) * error)
    }
}

impl Disturbance {
    /// Every disturbance with its label for tables.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::None, "none"),
        (Self::Drift, "linear drift, 2 sd"),
        (Self::Step, "step half-way, 2 sd"),
        (Self::Periodic, "every second trial, 2 sd"),
    ];

    fn at(self, trial: usize) -> f64 {
        let last = (2 * EACH - 1) as f64;
        match self {
            Self::None => 0.0,
            Self::Drift => 2.0 * trial as f64 / last,
            Self::Step if trial >= EACH => 2.0,
            Self::Periodic if trial % 2 == 1 => 2.0,
            Self::Step | Self::Periodic => 0.0,
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let middle = mean(values);
    values.iter().map(|v| (v - middle).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(order: Order, disturbance: Disturbance) -> usize {
        let mut rng = SeededRng::new(61);
        (0..600).filter(|_| order.once(disturbance, &mut rng).1).count()
    }

    #[test]
    fn only_random_orders_keep_their_error_under_every_disturbance() {
        for (disturbance, name) in Disturbance::ALL {
            for order in [Order::Shuffled, Order::Blocks] {
                // 5 % of 600 is 30; 46 is three standard errors above it.
                assert!(wrong(order, disturbance) <= 46, "{order:?}, {name}");
            }
        }
        assert!(wrong(Order::OneAfterTheOther, Disturbance::Drift) > 300);
        assert!(wrong(Order::InTurn, Disturbance::Periodic) > 300);
    }
}
