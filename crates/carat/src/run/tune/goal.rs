//! The goal of a search and its guards, on the scale on which configurations are compared.

use crate::config::TuneSpec;
use carat_model::metric::Metric;
use carat_model::{Better, Outcome, Trial, Unit};
use carat_tune::{Prior, SearchPlan};

/// The metrics that a search compares.
#[derive(Debug, Clone)]
pub(super) struct SearchGoal {
    /// The metric to make small, then those of the guards.
    pub(super) metrics: Vec<&'static Metric>,
    /// The limit of each guard on the scale of [`scaled`].
    limits: Vec<f64>,
}

impl SearchGoal {
    pub(super) fn new(spec: &TuneSpec) -> Self {
        let guards = spec.guards.iter().map(|(metric, _)| *metric);
        let limits = spec.guards.iter().map(|(metric, limit)| limit_of(metric, *limit));
        Self {
            metrics: std::iter::once(spec.least).chain(guards).collect(),
            limits: limits.collect(),
        }
    }

    /// The plan of a search of `trials` trials.
    pub(super) fn plan(&self, seed: u64, trials: usize) -> SearchPlan {
        let priors = self.metrics.iter().map(|metric| match metric.unit {
            Unit::Bytes => Prior::MEMORY,
            Unit::Seconds => Prior::LATENCY,
            _ => Prior::THROUGHPUT,
        });
        SearchPlan::new(seed, trials, priors.collect(), self.limits.clone())
    }

    /// The scaled metrics of a trial; `None` where it failed or lacks one.
    pub(super) fn values(&self, trial: &Trial) -> Option<Vec<f64>> {
        let values: Option<Vec<f64>> =
            self.metrics.iter().map(|metric| scaled(metric, trial)).collect();
        // A trial that failed can have figures of a part of it.
        values.filter(|_| trial.outcome == Outcome::Ok)
    }
}

/// A metric of a trial so that differences compare and higher is worse: a logarithm, or a share as it is. `None` where it
/// is unknown, or has no logarithm.
pub(super) fn scaled(metric: &Metric, trial: &Trial) -> Option<f64> {
    let value = *trial.metrics.get(metric.id)?;
    let scaled = match metric.unit {
        Unit::Fraction => Some(value),
        _ => (value > 0.0).then(|| value.ln()),
    };
    Some(worse(metric) * scaled?)
}

/// A worsening by `limit`, a fraction, on the scale of [`scaled`].
pub(super) fn limit_of(metric: &Metric, limit: f64) -> f64 {
    match (metric.unit, metric.better) {
        (Unit::Fraction, _) => limit,
        (_, Better::Lower) => limit.ln_1p(),
        // A limit of 100 % or more forbids nothing, and has no logarithm.
        (_, Better::Higher) => -(1.0 - limit).max(f64::MIN_POSITIVE).ln(),
    }
}

/// The change of a metric from one trial to another of the same block: a fraction, or for a share its difference.
pub(super) fn change(metric: &Metric, default: &Trial, other: &Trial) -> Option<f64> {
    let (from, to) = (*default.metrics.get(metric.id)?, *other.metrics.get(metric.id)?);
    let change = if metric.unit == Unit::Fraction { to - from } else { to / from - 1.0 };
    // From zero there is no ratio.
    change.is_finite().then_some(change)
}

/// 1 where more of the metric is worse, otherwise −1.
pub(super) fn worse(metric: &Metric) -> f64 {
    if metric.better == Better::Lower { 1.0 } else { -1.0 }
}
