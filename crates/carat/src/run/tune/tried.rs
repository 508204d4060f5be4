//! What the trials of a search showed of every configuration. Figures of single trials: exploratory.

use crate::run::tune::goal::{change, worse};
use carat_analysis::TriedConfiguration;
use carat_model::metric::Metric;
use carat_model::{Outcome, Trial};
use carat_stats::summary::median;
use std::collections::BTreeMap;

/// Every configuration of a search, by its words.
#[derive(Debug, Default)]
pub(super) struct TriedList(BTreeMap<String, TriedTrials>);

/// The trials of one configuration.
#[derive(Debug, Default)]
struct TriedTrials {
    trials: usize,
    succeeded: usize,
    /// By trial and shown metric: the change from the default of the same block.
    changes: Vec<Vec<Option<f64>>>,
    failure: Option<String>,
}

impl TriedList {
    /// Adds one trial of a configuration, and the default's of the same block.
    pub(super) fn add(
        &mut self,
        text: String,
        trial: &Trial,
        default: Option<&Trial>,
        shown: &[&'static Metric],
    ) {
        let tried = self.0.entry(text).or_default();
        tried.trials += 1;
        if trial.outcome != Outcome::Ok {
            let detail = trial.detail.as_deref().unwrap_or("no reason is known");
            tried.failure.get_or_insert_with(|| format!("{}: {detail}", trial.outcome));
            return;
        }
        tried.succeeded += 1;
        // Of one block only, because another one ran under other conditions.
        if let Some(default) = default.filter(|default| default.outcome == Outcome::Ok) {
            let changes = shown.iter().map(|metric| change(metric, default, trial));
            tried.changes.push(changes.collect());
        }
    }

    /// The configuration with the best median of the first metric whose medians keep the limits of the next ones, and that
    /// median; `None` where none is better than the default.
    pub(super) fn best(&self, shown: &[&'static Metric], limits: &[f64]) -> Option<(String, f64)> {
        let guarded: Vec<(&Metric, f64)> =
            shown.iter().skip(1).copied().zip(limits.iter().copied()).collect();
        let holding = self.0.iter().filter_map(|(text, tried)| {
            let medians = tried.medians(shown.len());
            // A guard without a figure does not hold.
            let holds = guarded.iter().zip(&medians[1..]).all(|((metric, limit), change)| {
                change.is_some_and(|change| worse(metric) * change <= *limit)
            });
            medians[0].filter(|_| holds).map(|change| (text.clone(), change))
        });
        let sign = worse(shown[0]);
        let better = holding.filter(|(_, change)| sign * change < 0.0);
        better.min_by(|one, other| (sign * one.1).total_cmp(&(sign * other.1)))
    }

    /// All of them as plain data.
    pub(super) fn into_configurations(self, metrics: usize) -> Vec<TriedConfiguration> {
        self.0
            .into_iter()
            .map(|(text, tried)| TriedConfiguration {
                text,
                changes: tried.medians(metrics),
                succeeded: tried.succeeded,
                trials: tried.trials,
                failure: tried.failure,
            })
            .collect()
    }
}

impl TriedTrials {
    /// The median change of each metric.
    fn medians(&self, metrics: usize) -> Vec<Option<f64>> {
        (0..metrics)
            .map(|metric| {
                let known: Vec<f64> =
                    self.changes.iter().filter_map(|changes| changes[metric]).collect();
                median(&known)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::metric::MEMORY_PSS_FINAL;

    #[test]
    fn what_is_worse_than_the_default_is_never_the_best() {
        let shown = [&MEMORY_PSS_FINAL];
        let trial = |bytes: f64| Trial {
            metrics: [(MEMORY_PSS_FINAL.id.to_owned(), bytes)].into(),
            ..Trial::bare(1, "any")
        };
        let default = trial(100.0);
        let mut tried = TriedList::default();
        tried.add("allocator=mimalloc".into(), &trial(102.4), Some(&default), &shown);
        tried.add("default".into(), &trial(100.0), Some(&default), &shown);
        assert_eq!(tried.best(&shown, &[]), None);
        tried.add("arena_max=2".into(), &trial(75.0), Some(&default), &shown);
        assert_eq!(tried.best(&shown, &[]), Some(("arena_max=2".into(), -0.25)));
    }
}
