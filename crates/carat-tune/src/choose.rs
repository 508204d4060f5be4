//! The model's choice: the candidate for the confirmation, and what its settings seem to be worth.

use crate::model::Model;
use crate::space::{Configuration, Space};

/// Share of the standard error of memory that is added to the prediction, against the luck of the best of many.
const MEMORY_CAUTION: f64 = 0.5;
/// Logarithm below which a saving is worth a confirmation.
const LEAST_SAVING: f64 = -0.01;
/// As [`LEAST_SAVING`], for the cautious prediction.
const LEAST_CAUTIOUS_SAVING: f64 = -0.005;
/// A setting worth less than this is left out of the choice.
const WORTH: f64 = 0.01;
/// Most candidates whose standard errors are computed, the best first.
const MOST_LOOKED_AT: usize = 2_500;

/// Configurations with their bits, so that each is computed once.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) configuration: Configuration,
    pub(crate) mask: u64,
}

/// A predicted effect. A hint: it is read from the same trials that chose the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Name of the setting.
    pub name: String,
    /// Its level in the configuration.
    pub level: String,
    /// Predicted logarithm of the ratio of memory with the setting to memory with its default, the rest as it is.
    pub logarithm: f64,
    /// Standard error of `logarithm`.
    pub standard_error: f64,
}

/// What a choice is made under.
#[derive(Debug, Clone)]
pub struct Choice<'a> {
    pub(crate) space: &'a Space,
    pub(crate) model: &'a Model,
    /// Upper limit of each metric but the first, as the logarithm of a ratio to the default; higher is worse.
    pub(crate) limits: &'a [f64],
    /// Standard errors that each limit must be away.
    pub(crate) headroom: f64,
    /// Bits of levels that must not be used.
    pub(crate) banned: u64,
    /// Configurations that must not be chosen, as bits of levels.
    pub(crate) excluded: &'a [u64],
}

impl Choice<'_> {
    /// The configuration with the least cautious prediction of memory whose limits hold with headroom.
    pub(crate) fn best(&self, candidates: &[Candidate]) -> Option<Configuration> {
        let mut promising: Vec<(f64, &Candidate)> = candidates
            .iter()
            .filter(|candidate| self.is_allowed(candidate.mask))
            .map(|candidate| (self.predicted(0, candidate.mask), candidate))
            .filter(|(memory, candidate)| {
                *memory < LEAST_SAVING && self.is_promising(candidate.mask)
            })
            .collect();
        // The cheap prediction sorts; each standard error solves a system with a row per trial.
        promising.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut best: Option<(f64, &Candidate)> = None;
        for (memory, candidate) in promising.into_iter().take(MOST_LOOKED_AT) {
            // Caution only adds to a prediction, so none of the later ones can be better.
            if best.is_some_and(|(value, _)| memory > value) {
                break;
            }
            if !self.keeps_limits(candidate.mask) {
                continue;
            }
            let cautious = memory + MEMORY_CAUTION * self.standard_error(0, candidate.mask);
            // The best of many predictions is also the luckiest, so caution must leave a saving.
            if cautious < LEAST_CAUTIOUS_SAVING && best.is_none_or(|(value, _)| cautious < value) {
                best = Some((cautious, candidate));
            }
        }
        // A setting that saves nothing is a cost for the user all the same.
        best.map(|(_, candidate)| self.without_idle_settings(&candidate.configuration))
    }

    /// The configuration with the least predicted memory whatever its limits: what simulations of false claims confirm.
    pub(crate) fn least_memory(&self, candidates: &[Candidate]) -> Option<Configuration> {
        candidates
            .iter()
            .filter(|candidate| self.is_allowed(candidate.mask))
            .min_by(|one, other| {
                self.predicted(0, one.mask).total_cmp(&self.predicted(0, other.mask))
            })
            .map(|candidate| candidate.configuration.clone())
    }

    fn is_allowed(&self, mask: u64) -> bool {
        // What failed or was refuted stays out, however well the model thinks of it.
        mask & self.banned == 0 && !self.excluded.contains(&mask)
    }

    fn predicted(&self, metric: usize, mask: u64) -> f64 {
        self.model.fits[metric].mean.of(mask)
    }

    fn standard_error(&self, metric: usize, mask: u64) -> f64 {
        self.model.fits[metric].standard_error(mask, 0)
    }

    /// Whether the predictions alone keep the limits: cheap, unlike standard errors.
    fn is_promising(&self, mask: u64) -> bool {
        self.limits.iter().zip(1..).all(|(limit, metric)| self.predicted(metric, mask) <= *limit)
    }

    fn keeps_limits(&self, mask: u64) -> bool {
        self.limits.iter().zip(1..).all(|(limit, metric)| {
            let spare = self.headroom * self.standard_error(metric, mask);
            self.predicted(metric, mask) + spare <= *limit
        })
    }

    /// Sets every factor to its default that is worth less than [`WORTH`] and that no limit needs, the least first.
    fn without_idle_settings(&self, configuration: &Configuration) -> Configuration {
        // One setting at a time: what a setting is worth depends on those that remain.
        let mut here = configuration.clone();
        loop {
            let memory = self.predicted(0, self.space.mask(&here));
            let cheapest = self
                .space
                .without_each(&here)
                .into_iter()
                .map(|(_, less)| (self.predicted(0, self.space.mask(&less)) - memory, less))
                .filter(|(loss, less)| {
                    let mask = self.space.mask(less);
                    // The loss may be negative: the model may hold a setting to be harmful here.
                    *loss < WORTH
                        && !less.is_default()
                        && self.is_allowed(mask)
                        && self.keeps_limits(mask)
                })
                .min_by(|one, other| one.0.total_cmp(&other.0));
            match cheapest {
                Some((_, less)) => here = less,
                None => return here,
            }
        }
    }

    /// What each setting of a configuration seems to be worth in it, the largest saving first.
    pub fn effects(&self, configuration: &Configuration) -> Vec<Effect> {
        let mask = self.space.mask(configuration);
        let without = self.space.without_each(configuration).into_iter();
        sorted(without.map(|(factor, less)| {
            self.effect(factor, configuration.level(factor), mask, self.space.mask(&less))
        }))
    }

    /// What each level seems to be worth alone, the largest saving first. A level that acts only beside another is left out.
    pub fn single_effects(&self) -> Vec<Effect> {
        let default = self.space.default_configuration();
        let levels = (0..self.space.bits()).map(|bit| self.space.level_of(bit));
        sorted(levels.filter_map(|(factor, level)| {
            // Alone it falls back to its default, so the model has no effect of it.
            let alone = self.space.with(&default, factor, level);
            (!alone.is_default()).then(|| self.effect(factor, level, self.space.mask(&alone), 0))
        }))
    }

    /// The predicted difference between two configurations, as bits of levels, by a level of a factor.
    fn effect(&self, factor: usize, level: u8, with: u64, without: u64) -> Effect {
        let factor = &self.space.factors()[factor];
        let fit = self.model.fits.first();
        Effect {
            name: factor.name.clone(),
            level: factor.levels[usize::from(level)].clone(),
            logarithm: fit.map_or(0.0, |fit| fit.mean.of(with) - fit.mean.of(without)),
            standard_error: fit.map_or(f64::INFINITY, |fit| fit.standard_error(with, without)),
        }
    }
}

/// The effects, the largest saving first.
fn sorted(effects: impl Iterator<Item = Effect>) -> Vec<Effect> {
    let mut effects: Vec<Effect> = effects.collect();
    effects.sort_by(|one, other| one.logarithm.total_cmp(&other.logarithm));
    effects
}
