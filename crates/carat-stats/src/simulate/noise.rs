//! Random noise of trials.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;

/// A seeded generator of random numbers.
#[derive(Debug, Clone)]
pub struct SeededRng(ChaCha12Rng);

impl SeededRng {
    /// The generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha12Rng::seed_from_u64(seed))
    }

    /// Uniform from 0 to 1.
    pub fn uniform(&mut self) -> f64 {
        self.0.random()
    }

    /// Standard normal (G. E. P. Box and M. E. Muller, Annals of Mathematical Statistics 29, 1958).
    pub fn normal(&mut self) -> f64 {
        // `uniform` can be 0, whose logarithm is infinite; 1 − 0 is safe.
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// The numbers 0 to `n` − 1 in random order.
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        self.shuffle(&mut order);
        order
    }

    /// Puts values into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.0.random_range(0..=last));
        }
    }
}

/// Distributions of trials, in units of their standard deviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noise {
    Normal,
    /// Lognormal with a skewness of about 3.7.
    Lognormal,
    /// One third of the trials two standard deviations higher, as after one more growth of the heap.
    TwoClusters,
    /// Normal with a drift of five standard deviations over the whole budget.
    Drift,
    /// Normal plus a slow state of the machine of the same size (AR(1), 0.97 from trial to trial).
    Autocorrelated,
    /// Normal, but one trial in twenty adds an exponential with a mean of ten standard deviations.
    Outliers,
}

impl Noise {
    /// Every distribution.
    pub const ALL: [Self; 6] = [
        Self::Normal,
        Self::Lognormal,
        Self::TwoClusters,
        Self::Drift,
        Self::Autocorrelated,
        Self::Outliers,
    ];

    /// Label for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Lognormal => "lognormal",
            Self::TwoClusters => "two clusters",
            Self::Drift => "drift",
            Self::Autocorrelated => "AR(1)",
            Self::Outliers => "5 % outliers",
        }
    }

    /// Noise of `trials` trials in the order they run.
    // The slow state starts in its long-run distribution, so that no experiment begins calmer.
    pub fn draw(self, trials: usize, rng: &mut SeededRng) -> Vec<f64> {
        let mut state = rng.normal();
        (0..trials).map(|trial| self.one(trial, trials, &mut state, rng)).collect()
    }

    fn one(self, trial: usize, trials: usize, state: &mut f64, rng: &mut SeededRng) -> f64 {
        match self {
            Self::Normal => rng.normal(),
            Self::Lognormal => {
                // Mean and variance of a lognormal with σ = 0.8: scales to mean 0 and variance 1.
                let (mean, variance) = (0.32_f64.exp(), (0.64_f64.exp() - 1.0) * 0.64_f64.exp());
                ((0.8 * rng.normal()).exp() - mean) / variance.sqrt()
            }
            Self::TwoClusters => {
                let upper = if rng.uniform() < 0.33 { 2.025 } else { 0.0 };
                // 0.33·0.67·2.025² + 0.292² is about 1: the unit of all distributions.
                upper - 0.33 * 2.025 + 0.292 * rng.normal()
            }
            Self::Drift => rng.normal() + 5.0 * trial as f64 / (trials - 1).max(1) as f64,
            Self::Autocorrelated => {
                // The innovation keeps the variance of the state at 1.
                *state = 0.97 * *state + (1.0_f64 - 0.97 * 0.97).sqrt() * rng.normal();
                rng.normal() + *state
            }
            Self::Outliers => {
                let wild = if rng.uniform() < 0.05 { rng.exponential(10.0) } else { 0.0 };
                rng.normal() + wild
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_mean_0_and_standard_deviation_1() {
        let mut rng = SeededRng::new(1);
        for (noise, want) in
            [(Noise::Normal, 1.0), (Noise::Lognormal, 1.0), (Noise::TwoClusters, 1.0)]
        {
            let drawn = noise.draw(200_000, &mut rng);
            let mean = drawn.iter().sum::<f64>() / 2e5;
            let sd = (drawn.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 2e5).sqrt();
            assert!(mean.abs() < 0.02 && (sd - want).abs() < 0.05, "{noise:?}: {mean} {sd}");
        }
    }

    #[test]
    fn an_order_holds_every_number_once() {
        let mut order = SeededRng::new(2).order(7);
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6]);
    }
}
