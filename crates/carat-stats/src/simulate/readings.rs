//! Simulated readings of what a Ruby keeps, for the test of steady growth.

use crate::simulate::SeededRng;

/// The true course of what is kept, beside a leak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeptShape {
    /// Constant.
    Flat,
    /// Approaches `size` exponentially, with a time constant of `length` units of work.
    Saturating { size: f64, length: f64 },
    /// `size` for every e-fold of work, from `length` on.
    Logarithm { size: f64, length: f64 },
    /// `size` times the square root of the work.
    Root { size: f64 },
    /// Steps of `size` at random, one in `length` units of work on average.
    Steps { size: f64, length: f64 },
    /// Three steps of `size`, one after every `length` units of work, and then no more.
    Stairs { size: f64, length: f64 },
    /// A random walk: this standard deviation after `length` units of work.
    Walk { size: f64, length: f64 },
}

/// A series of readings to simulate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatedReadings {
    pub shape: KeptShape,
    /// Amount kept at the start.
    pub level: f64,
    /// Amount leaked per unit of work.
    pub leak: f64,
    /// Standard deviation of a reading: what requests in progress hold.
    pub noise: f64,
    /// Correlation of the noise of neighbouring readings.
    pub correlation: f64,
    /// Share of the readings that miss a part of the heap.
    pub torn: f64,
    /// Work from one reading to the next; each varies by a fifth.
    pub apart: f64,
}

impl SimulatedReadings {
    /// A small app of 36,500 kept objects, as measured: 18 objects of noise, and one reading in fifty torn.
    pub fn small(shape: KeptShape, leak: f64, apart: f64) -> Self {
        Self { shape, level: 36.5e3, leak, noise: 18.0, correlation: 0.0, torn: 0.02, apart }
    }

    /// `number` readings: the work done, and the amount.
    pub fn run(&self, number: usize, rng: &mut SeededRng) -> Vec<(f64, f64)> {
        let (mut x, mut drift, mut noise) = (0.0, 0.0, self.noise * rng.normal());
        // Keeps the variance of correlated noise at `noise`².
        let fresh = (1.0 - self.correlation * self.correlation).sqrt();
        (0..number)
            .map(|_| {
                let apart = self.apart * (0.8 + 0.4 * rng.uniform());
                x += apart;
                drift += self.drift(apart, rng);
                noise = self.correlation * noise + fresh * self.noise * rng.normal();
                // A reading that misses pages of the heap can only be too low.
                let torn =
                    if rng.uniform() < self.torn { 0.04 * self.level * rng.uniform() } else { 0.0 };
                (x, self.level + self.shape.at(x) + drift + self.leak * x + noise - torn)
            })
            .collect()
    }

    fn drift(&self, apart: f64, rng: &mut SeededRng) -> f64 {
        match self.shape {
            KeptShape::Walk { size, length } => size * (apart / length).sqrt() * rng.normal(),
            KeptShape::Steps { size, length } => {
                let (mut sum, mut place) = (0.0, rng.exponential(length));
                while place < apart {
                    sum += size;
                    place += rng.exponential(length);
                }
                sum
            }
            _ => 0.0,
        }
    }
}

impl KeptShape {
    fn at(self, x: f64) -> f64 {
        match self {
            Self::Saturating { size, length } => size * (1.0 - (-x / length).exp()),
            Self::Logarithm { size, length } => size * (x / length).ln_1p(),
            Self::Root { size } => size * x.sqrt(),
            Self::Stairs { size, length } => size * (x / length).floor().min(3.0),
            Self::Flat | Self::Steps { .. } | Self::Walk { .. } => 0.0,
        }
    }
}
