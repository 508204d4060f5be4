//! What the trials so far say about every configuration: a Bayesian linear model of the logarithm of each metric.
//!
//! ln y = intercept + block + effect of every level + effect of every pair of levels + departure of the configuration + noise,
//! all normal with mean 0. The departure is what levels and pairs do not explain: where savings add up in bytes, their
//! logarithms do not, and without it the rest would be laid to a setting that happened to be there. The
//! default has no level above its default, so the model predicts logarithms of ratios to it. With more effects than
//! trials the model is computed in its dual form, with one weight per trial (C. E. Rasmussen and C. K. I. Williams,
//! Gaussian Processes for Machine Learning, 2006, chapter 2).

use crate::linear::{Cholesky, dot};
use carat_stats::simulate::SeededRng;

/// Residuals beyond this many standard deviations lose weight (P. J. Huber, Robust Statistics, 1981).
const OUTLIER: f64 = 2.5;
/// Trials after which the standard deviations are estimated again.
const TUNE_EVERY: usize = 20;
/// Steps in which a standard deviation is tried larger and smaller, and how far it may leave its start.
const TUNE_STEP: f64 = 0.6;
const TUNE_RANGE: (f64, f64) = (0.25, 4.0);
/// By how much the log likelihood must rise for a step to be taken.
const TUNE_GAIN: f64 = 0.1;

/// Standard deviations of a metric's parts, as fractions (of logarithms).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// Of one trial.
    pub noise: f64,
    /// Of the effect of a level.
    pub level: f64,
    /// Of the additional effect of two levels together.
    pub pair: f64,
    /// Of what the levels and pairs of a configuration do not explain.
    pub departure: f64,
    /// Of what all trials of a block share.
    pub block: f64,
}

impl Prior {
    /// Memory: trials vary little, settings change much.
    pub const MEMORY: Self =
        Self { noise: 0.012, level: 0.12, pair: 0.03, departure: 0.01, block: 0.01 };
    /// A high percentile of latency: trials vary much.
    pub const LATENCY: Self =
        Self { noise: 0.09, level: 0.05, pair: 0.02, departure: 0.01, block: 0.07 };
    /// Throughput and processor time.
    pub const THROUGHPUT: Self =
        Self { noise: 0.02, level: 0.04, pair: 0.01, departure: 0.005, block: 0.015 };

    fn parts(&mut self) -> [&mut f64; 5] {
        [&mut self.noise, &mut self.level, &mut self.pair, &mut self.departure, &mut self.block]
    }

    /// This prior with one part multiplied; `None` where that leaves the allowed range around `start`.
    fn scaled(self, part: usize, by: f64, mut start: Self) -> Option<Self> {
        let mut scaled = self;
        let value = &mut *scaled.parts()[part];
        // Likelihood alone would drive a standard deviation to 0 or infinity with few trials.
        *value *= by;
        let ratio = *value / *start.parts()[part];
        (TUNE_RANGE.0..=TUNE_RANGE.1).contains(&ratio).then_some(scaled)
    }

    /// Covariance of the effects of two configurations, given as bits of their levels.
    fn covariance(&self, one: u64, other: u64) -> f64 {
        let common = f64::from((one & other).count_ones());
        // The default is the reference of every ratio, so it has no departure.
        let same = if one == other && one != 0 { 1.0 } else { 0.0 };
        self.level * self.level * common
            // Pairs that both contain: common·(common − 1)/2 of them.
            + self.pair * self.pair * common * (common - 1.0) / 2.0
            + self.departure * self.departure * same
    }
}

/// The outcome of one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Number of the block.
    pub block: usize,
    /// The configuration's levels as bits.
    pub(crate) mask: u64,
    /// Natural logarithm of each metric.
    pub logarithms: Vec<f64>,
}

/// Effects of levels and of pairs of levels, and the departures of the configurations that were tried.
#[derive(Debug, Clone)]
pub(crate) struct Effects {
    bits: usize,
    level: Vec<f64>,
    /// By the lower bit times `bits` plus the higher.
    pair: Vec<f64>,
    /// By configuration, as sorted bits of levels. Of one that was not tried nothing is known, and 0 is expected.
    departures: Vec<(u64, f64)>,
}

impl Effects {
    fn zero(bits: usize, masks: &[u64]) -> Self {
        let mut tried: Vec<u64> = masks.iter().copied().filter(|&mask| mask != 0).collect();
        tried.sort_unstable();
        tried.dedup();
        Self {
            bits,
            level: vec![0.0; bits],
            pair: vec![0.0; bits * bits],
            departures: tried.into_iter().map(|mask| (mask, 0.0)).collect(),
        }
    }

    fn drawn(bits: usize, masks: &[u64], prior: &Prior, rng: &mut SeededRng) -> Self {
        let mut drawn = Self::zero(bits, masks);
        drawn.level.fill_with(|| prior.level * rng.normal());
        drawn.pair.fill_with(|| prior.pair * rng.normal());
        for (_, departure) in &mut drawn.departures {
            *departure = prior.departure * rng.normal();
        }
        drawn
    }

    fn departure(&self, mask: u64) -> Option<usize> {
        self.departures.binary_search_by_key(&mask, |(tried, _)| *tried).ok()
    }

    /// Adds what a trial of this configuration with this dual weight contributes.
    fn add(&mut self, mask: u64, weight: f64, prior: &Prior) {
        if let Some(place) = self.departure(mask) {
            self.departures[place].1 += prior.departure * prior.departure * weight;
        }
        // The lowest bit is cleared each time, so only levels that are set cost anything.
        let mut left = mask;
        while left != 0 {
            let bit = left.trailing_zeros() as usize;
            left &= left - 1;
            self.level[bit] += prior.level * prior.level * weight;
            let mut higher = left;
            while higher != 0 {
                let other = higher.trailing_zeros() as usize;
                higher &= higher - 1;
                self.pair[bit * self.bits + other] += prior.pair * prior.pair * weight;
            }
        }
    }

    /// The logarithm of the ratio to the default.
    pub(crate) fn of(&self, mask: u64) -> f64 {
        let mut sum = self.departure(mask).map_or(0.0, |place| self.departures[place].1);
        let mut left = mask;
        while left != 0 {
            let bit = left.trailing_zeros() as usize;
            left &= left - 1;
            sum += self.level[bit];
            let mut higher = left;
            while higher != 0 {
                sum += self.pair[bit * self.bits + higher.trailing_zeros() as usize];
                higher &= higher - 1;
            }
        }
        sum
    }
}

/// The model of one metric.
#[derive(Debug, Clone)]
pub(crate) struct MetricFit {
    prior: Prior,
    masks: Vec<u64>,
    blocks: Vec<usize>,
    /// Variance of each trial's noise, larger where it is an outlier.
    noise: Vec<f64>,
    cholesky: Cholesky,
    weights: Vec<f64>,
    log_likelihood: f64,
    /// The posterior mean.
    pub(crate) mean: Effects,
}

impl MetricFit {
    /// Fits the metric with this index; `trust` divides the variance of each trial.
    fn new(
        trials: &[Observation],
        metric: usize,
        prior: Prior,
        trust: &[f64],
        bits: usize,
    ) -> Self {
        let size = trials.len();
        // An outlier stays in, but with a larger variance: it may be real.
        let noise: Vec<f64> = trust.iter().map(|trust| prior.noise * prior.noise / trust).collect();
        let mut matrix = vec![0.0; size * size];
        for (row, one) in trials.iter().enumerate() {
            for (column, other) in trials[..=row].iter().enumerate() {
                // The intercept has a standard deviation of 1, which is wide once the values are centred.
                let mut value = 1.0 + prior.covariance(one.mask, other.mask);
                if one.block == other.block {
                    value += prior.block * prior.block;
                }
                if row == column {
                    value += noise[row];
                }
                matrix[row * size + column] = value;
            }
        }
        let cholesky = Cholesky::factor(matrix, size);
        let mut values: Vec<f64> = trials.iter().map(|trial| trial.logarithms[metric]).collect();
        // Centred, so that the wide prior of the intercept is wide enough for any unit.
        let centre = values.iter().sum::<f64>() / size.max(1) as f64;
        values.iter_mut().for_each(|value| *value -= centre);
        let weights = cholesky.solve(&values);
        // Without the constant term: likelihoods are compared only for the same trials.
        let log_likelihood = -0.5 * (cholesky.log_determinant() + dot(&values, &weights));
        let masks: Vec<u64> = trials.iter().map(|trial| trial.mask).collect();
        let mut mean = Effects::zero(bits, &masks);
        for (mask, weight) in masks.iter().zip(&weights) {
            mean.add(*mask, *weight, &prior);
        }
        Self {
            prior,
            masks,
            blocks: trials.iter().map(|trial| trial.block).collect(),
            noise,
            cholesky,
            weights,
            log_likelihood,
            mean,
        }
    }

    /// Residual of each trial, in standard deviations of one trial.
    fn residuals(&self) -> impl Iterator<Item = f64> {
        // Noise times weight is what the fit leaves of each trial, because K·weights = values.
        self.weights
            .iter()
            .zip(&self.noise)
            .map(|(weight, noise)| weight * noise / self.prior.noise)
    }

    /// Standard error of the predicted logarithm of a ratio: `one` to `other`, both as bits of levels.
    pub(crate) fn standard_error(&self, one: u64, other: u64) -> f64 {
        let difference: Vec<f64> = self
            .masks
            .iter()
            .map(|&mask| self.prior.covariance(mask, one) - self.prior.covariance(mask, other))
            .collect();
        let explained = dot(&difference, &self.cholesky.solve(&difference));
        let before = self.prior.covariance(one, one) + self.prior.covariance(other, other)
            - 2.0 * self.prior.covariance(one, other);
        // Rounding can make the variance of a configuration that was tried often slightly negative.
        (before - explained).max(0.0).sqrt()
    }

    /// Effects drawn from the posterior: a draw from the prior, corrected by what the trials say about its error
    /// (Matheron's rule; J. T. Wilson et al., Journal of Machine Learning Research 22, 2021).
    pub(crate) fn draw(&self, rng: &mut SeededRng) -> Effects {
        let mut drawn = Effects::drawn(self.mean.bits, &self.masks, &self.prior, rng);
        // The draw needs effects of blocks and an intercept too, because the trials contain them.
        let blocks = self.blocks.iter().max().map_or(0, |last| last + 1);
        let blocks: Vec<f64> = (0..blocks).map(|_| self.prior.block * rng.normal()).collect();
        let intercept = rng.normal();
        // What the trials would have been under this draw; the difference to them corrects it.
        let pretended: Vec<f64> = self
            .masks
            .iter()
            .zip(&self.blocks)
            .zip(&self.noise)
            .map(|((&mask, &block), noise)| {
                intercept + drawn.of(mask) + blocks[block] + noise.sqrt() * rng.normal()
            })
            .collect();
        let pretended = self.cholesky.solve(&pretended);
        for ((mask, weight), pretended) in self.masks.iter().zip(&self.weights).zip(&pretended) {
            // Both corrections at once: they are linear in the weights.
            drawn.add(*mask, weight - pretended, &self.prior);
        }
        drawn
    }
}

/// The models of all metrics, fitted again as trials come in.
#[derive(Debug, Clone)]
pub struct Model {
    bits: usize,
    start: Vec<Prior>,
    current: Vec<Prior>,
    /// Trials when the standard deviations were last estimated.
    tuned_at: Option<usize>,
    /// One per metric; empty before the first fit.
    pub(crate) fits: Vec<MetricFit>,
}

impl Model {
    /// A model without trials, of a space with this many levels above the defaults.
    pub(crate) fn new(bits: usize, priors: &[Prior]) -> Self {
        let priors = priors.to_vec();
        Self { bits, start: priors.clone(), current: priors, tuned_at: None, fits: Vec::new() }
    }

    /// Fits all metrics to these trials.
    pub(crate) fn fit(&mut self, trials: &[Observation]) {
        // Estimating costs twenty fits, so it waits until there is something to learn.
        let tunes = self.tuned_at.is_none_or(|tuned| trials.len() >= tuned + TUNE_EVERY);
        if tunes {
            self.tuned_at = Some(trials.len());
        }
        let even = vec![1.0; trials.len()];
        self.fits = (0..self.start.len())
            .map(|metric| {
                if tunes {
                    self.current[metric] = self.tuned(trials, metric, &even);
                }
                let prior = self.current[metric];
                // The first fit finds the outliers, the second no longer follows them.
                let first = MetricFit::new(trials, metric, prior, &even, self.bits);
                let trust: Vec<f64> = first.residuals().map(trust_in).collect();
                match trust.iter().all(|&trust| trust == 1.0) {
                    true => first,
                    false => MetricFit::new(trials, metric, prior, &trust, self.bits),
                }
            })
            .collect();
    }

    /// The standard deviations with the highest likelihood near the current ones, one after the other, twice.
    fn tuned(&self, trials: &[Observation], metric: usize, even: &[f64]) -> Prior {
        let mut prior = self.current[metric];
        let mut best = MetricFit::new(trials, metric, prior, even, self.bits).log_likelihood;
        // Twice, because the best value of one part depends on the others.
        for part in [0, 1, 2, 3, 4, 0, 1, 2, 3, 4] {
            for step in [TUNE_STEP, 1.0 / TUNE_STEP] {
                let Some(tried) = prior.scaled(part, step, self.start[metric]) else { continue };
                let found = MetricFit::new(trials, metric, tried, even, self.bits).log_likelihood;
                if found > best + TUNE_GAIN {
                    best = found;
                    prior = tried;
                }
            }
        }
        prior
    }
}

/// The weight of a trial with this residual, in standard deviations.
fn trust_in(residual: f64) -> f64 {
    if residual.abs() > OUTLIER { (OUTLIER / residual).powi(2) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two levels of −10 % and −5 % that together give 2 % less than their product, in ten blocks.
    fn trials(noise: f64) -> Vec<Observation> {
        let mut rng = SeededRng::new(3);
        let mut trials = Vec::new();
        for block in 0..10 {
            let shared = 0.01 * rng.normal();
            for (mask, truth) in [(0, 0.0), (1, -0.10), (2, -0.05), (3, -0.13)] {
                let value = 4.0 + truth + shared + noise * rng.normal();
                trials.push(Observation { block, mask, logarithms: vec![value] });
            }
        }
        trials
    }

    fn fitted(trials: &[Observation]) -> Model {
        let mut model = Model::new(3, &[Prior::MEMORY]);
        model.fit(trials);
        model
    }

    #[test]
    fn effects_and_their_interaction_are_found() {
        let model = fitted(&trials(0.005));
        let fit = &model.fits[0];
        for (mask, truth) in [(0, 0.0), (1, -0.10), (2, -0.05), (3, -0.13)] {
            assert!((fit.mean.of(mask) - truth).abs() < 0.01, "{mask}: {}", fit.mean.of(mask));
        }
        assert!(fit.standard_error(3, 0) < 0.01);
        assert!(
            fit.standard_error(4, 0) > 0.05,
            "nothing is known of a level that was never tried"
        );
        assert!((fit.standard_error(1, 1)).abs() < 1e-6);
    }

    #[test]
    fn one_wild_trial_hardly_moves_the_effects() {
        let mut wild = trials(0.005);
        wild[1].logarithms[0] += 1.0;
        let (without, with) = (fitted(&trials(0.005)), fitted(&wild));
        let moved = with.fits[0].mean.of(1) - without.fits[0].mean.of(1);
        assert!(moved.abs() < 0.02, "{moved}");
    }

    #[test]
    fn draws_scatter_around_the_mean_by_the_standard_error() {
        let model = fitted(&trials(0.02));
        let fit = &model.fits[0];
        let mut rng = SeededRng::new(11);
        let draws: Vec<f64> = (0..400).map(|_| fit.draw(&mut rng).of(3)).collect();
        let mean = draws.iter().sum::<f64>() / 400.0;
        let sd = (draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 399.0).sqrt();
        let expected = fit.standard_error(3, 0);
        assert!((mean - fit.mean.of(3)).abs() < 4.0 * expected / 20.0, "{mean}");
        assert!((0.85..1.15).contains(&(sd / expected)), "{sd} instead of {expected}");
    }

    #[test]
    fn the_standard_deviations_stay_within_their_range() {
        let constant: Vec<Observation> = trials(0.0)
            .into_iter()
            .map(|trial| Observation { logarithms: vec![4.0], ..trial })
            .collect();
        let prior = fitted(&constant).current[0];
        assert!(
            prior.noise >= 0.25 * Prior::MEMORY.noise && prior.level >= 0.25 * Prior::MEMORY.level
        );
    }
}
