//! What a search leads to, as plain data.

use crate::config::TunedVariant;
use crate::core::{Conclusion, Verdict};
use serde::Serialize;
use std::collections::BTreeMap;

/// The result of a search.
#[derive(Debug, Clone, Serialize)]
pub struct TuneOutcome {
    /// The confirmed configuration; `None` where nothing better than the default was confirmed.
    pub recommendation: Option<Recommendation>,
    /// Confirmations that failed, in order.
    pub attempts: Vec<Attempt>,
    /// Settings of the recommended or last attempted configuration, the strongest first. Hints, not evidence.
    pub hints: Vec<Hint>,
    /// Settings that were not tried, with the reason.
    pub left_out: BTreeMap<String, String>,
    /// Settings with which the server failed repeatedly and never succeeded.
    pub failing: Vec<String>,
    /// Every configuration that was tried in the search.
    pub tried: Vec<TriedConfiguration>,
    /// Trials in all.
    pub trials: usize,
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
    /// The conclusions of its confirmation: the goal first, then the guards.
    pub conclusions: Vec<Conclusion>,
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

/// A configuration of the search and the medians of its trials.
#[derive(Debug, Clone, Serialize)]
pub struct TriedConfiguration {
    /// In words.
    pub text: String,
    /// Trials that succeeded, and all.
    pub succeeded: usize,
    /// See `succeeded`.
    pub trials: usize,
    /// Median ratio to the default of the same block, by metric: the goal first, then the guards. Exploratory.
    pub ratios: Vec<Option<f64>>,
}

/// Why a confirmation does not recommend its configuration; `None` if it does.
pub(super) fn refusal(conclusions: &[Conclusion], limit_words: &[String]) -> Option<String> {
    let (goal, guards) = conclusions.split_first()?;
    if goal.verdict != Verdict::Smaller && goal.verdict != Verdict::Faster {
        return Some(match goal.verdict {
            Verdict::Undecided => "whether it is smaller was not decided".into(),
            _ => "it is not smaller by what matters".into(),
        });
    }
    let broken = guards.iter().zip(limit_words).find(|(guard, _)| guard.guard_passed != Some(true));
    broken.map(|(guard, words)| match guard.guard_passed {
        Some(false) => format!("its {words} is broken"),
        _ => format!("its {words} was not shown to hold"),
    })
}

/// The variables and settings of a variant, for the outcome.
pub(super) fn recommendation(
    text: String,
    variant: TunedVariant,
    conclusions: Vec<Conclusion>,
) -> Recommendation {
    Recommendation { text, settings: variant.settings, env: variant.env, conclusions }
}
