//! What a search leads to, as plain data.

use carat_model::Conclusion;
use carat_tune::Effect;
use serde::Serialize;
use std::collections::BTreeMap;

/// The result of a search.
#[derive(Debug, Clone, Serialize)]
pub struct TuneOutcome {
    /// The metrics of every configuration: the goal, then the guards, then p95 and throughput where they are no guards.
    pub metrics: Vec<TunedMetric>,
    /// The confirmed configuration; `None` where nothing better than the default was confirmed.
    pub recommendation: Option<Recommendation>,
    /// Confirmations that failed, in order.
    pub attempts: Vec<Attempt>,
    /// The recommended configuration without each of its settings, if that was asked for. Hints: only the whole was confirmed.
    pub ablation: Vec<AblatedSetting>,
    /// Settings of the recommended or last attempted configuration, the strongest first. Hints, not evidence.
    pub hints: Vec<Hint>,
    /// Every level alone, the largest saving first. Hints, not evidence.
    pub effects: Vec<Hint>,
    /// Settings that were not tried, with the reason.
    pub left_out: BTreeMap<String, String>,
    /// Settings with which the server failed repeatedly and never succeeded.
    pub failing: Vec<String>,
    /// Every configuration that was tried in the search.
    pub tried: Vec<TriedConfiguration>,
    /// Trials in all.
    pub trials: usize,
    /// Seconds of all trials together.
    pub seconds: f64,
}

/// A metric by which configurations are compared.
#[derive(Debug, Clone, Serialize)]
pub struct TunedMetric {
    /// Its name.
    pub metric: String,
    /// How much worse it may become, as a fraction; `None` for the goal and for what is only reported.
    pub guard: Option<f64>,
}

/// A configuration that was confirmed.
#[derive(Debug, Clone, Serialize)]
pub struct Recommendation {
    /// In words, such as `arena_max=2 prepare_fork=full`.
    pub text: String,
    /// Settings by name.
    pub settings: BTreeMap<String, String>,
    /// Variables of knobs by name.
    pub env: BTreeMap<String, String>,
    /// The conclusions of its confirmation: the goal, the guards, then what is only reported.
    pub conclusions: Vec<Conclusion>,
    /// What was noted on its trials, such as a setting that was not in effect; each once, in their order.
    pub notes: Vec<String>,
}

/// A confirmation that failed.
#[derive(Debug, Clone, Serialize)]
pub struct Attempt {
    /// The configuration in words.
    pub text: String,
    /// Why it is not recommended.
    pub why: String,
    /// The conclusions of its confirmation.
    pub conclusions: Vec<Conclusion>,
}

/// The recommended configuration without one of its settings.
#[derive(Debug, Clone, Serialize)]
pub struct AblatedSetting {
    /// What is left out: the setting, and those that have no effect without it.
    pub setting: String,
    /// The goal's metric without it, compared with the recommended configuration.
    pub conclusion: Conclusion,
}

/// What a setting seems to be worth.
#[derive(Debug, Clone, Serialize)]
pub struct Hint {
    /// Setting and value.
    pub setting: String,
    /// Predicted change of the goal's metric by this setting, as a fraction; below 0 is a saving.
    pub change: f64,
    /// Standard error of the change.
    pub standard_error: f64,
}

impl Hint {
    /// The hint of an effect that a model predicts.
    pub fn of(effect: Effect) -> Self {
        Self {
            setting: format!("{}={}", effect.name, effect.level),
            change: effect.logarithm.exp_m1(),
            standard_error: effect.standard_error,
        }
    }
}

/// A configuration of the search and the medians of its trials.
#[derive(Debug, Clone, Serialize)]
pub struct TriedConfiguration {
    /// In words.
    pub text: String,
    /// Trials that succeeded, and all.
    pub succeeded: usize,
    /// See `succeeded`.
    pub trials: usize,
    /// Median change from the default of the same block, one per metric of the outcome: a fraction. Exploratory.
    pub changes: Vec<Option<f64>>,
    /// What happened in the first trial that failed.
    pub failure: Option<String>,
}
