//! The question of an experiment, and other questions to the same trials.

use crate::Question;
use carat_model::metric::find_metric;
use carat_model::{ExperimentInfo, Results};

pub fn question(info: &ExperimentInfo) -> Question {
    let names: Vec<&str> = info.variants.iter().map(|variant| variant.name.as_str()).collect();
    let controls = info.variants.iter().flat_map(|variant| {
        variant.controls.iter().map(|control| (variant.name.clone(), control.clone()))
    });
    // A last round that is not complete would have some types of machines more often than others.
    let round = info.fleet.as_ref().map_or(1, |fleet| fleet.type_names().len().max(1) as u32);
    Question {
        controls: controls.collect(),
        margin: info.margin,
        guards: info.guards.clone().into_iter().collect(),
        max_blocks: info.max_blocks.next_multiple_of(round),
        round,
        attempts: planned_attempts(&info.plan_text),
        ..Question::new(&names, &info.primary)
    }
}

/// The attempts among which the plan with this text shares the error; `None` where it confirms no candidate.
fn planned_attempts(plan: &str) -> Option<u32> {
    let table: toml::Table = toml::from_str(plan).ok()?;
    let attempts = table.get("trials")?.get("attempts")?.as_integer()?;
    u32::try_from(attempts).ok()
}

/// Changes to the question of an experiment; what is absent or empty stays as it was.
#[derive(Debug, Clone)]
pub struct QuestionChanges {
    /// Metrics that decide.
    pub metrics: Vec<String>,
    /// Difference that does not matter, as a fraction.
    pub margin: Option<f64>,
    /// Name of the variant that the others are compared with.
    pub baseline: Option<String>,
    /// How much worse other metrics may become, as fractions.
    pub guards: Vec<(String, f64)>,
    /// Probability of claiming any difference where there is none, as a fraction.
    pub alpha: f64,
}

/// Why a question cannot be put to the trials.
#[derive(Debug, thiserror::Error)]
pub enum QuestionError {
    /// No variant has that name.
    #[error("there is no variant `{name}`; the results have {known}")]
    Variant {
        /// The requested name.
        name: String,
        /// The existing names.
        known: String,
    },
    /// No metric has that name.
    #[error("{0}; `carat report --json` lists the measured metrics")]
    Metric(String),
}

impl QuestionChanges {
    /// The changed question.
    ///
    /// # Errors
    /// Where a metric or the baseline does not exist.
    pub fn apply(&self, planned: &Question) -> Result<Question, QuestionError> {
        let mut question = planned.clone();
        if let Some((primary, others)) = self.metrics.split_first() {
            question.primary.clone_from(primary);
            question.also_primary = others.to_vec();
            // A metric that decides needs no limit besides.
            question.guards.retain(|(name, _)| !self.metrics.contains(name));
        }
        if let Some(margin) = self.margin {
            question.margin = margin;
        }
        if !self.guards.is_empty() {
            question.guards.clone_from(&self.guards);
        }
        if let Some(baseline) = &self.baseline {
            let Some(place) = question.variants.iter().position(|name| name == baseline) else {
                let (name, known) = (baseline.clone(), question.variants.join(", "));
                return Err(QuestionError::Variant { name, known });
            };
            // Rotated, so that the others keep their order behind the new baseline.
            question.variants[..=place].rotate_right(1);
        }
        if self.alpha != planned.alpha {
            // With an error of its own it is no longer one of several attempts.
            question.attempts = None;
        }
        question.alpha = self.alpha;
        // Checked last, so that names that the change brought are checked too.
        let guarded = question.guards.iter().map(|(name, _)| name.as_str());
        for name in question.primaries().chain(guarded) {
            find_metric(name).map_err(QuestionError::Metric)?;
        }
        Ok(question)
    }
}

/// Replaces the question in the results; conclusions are not drawn anew.
pub fn set_question(results: &mut Results, question: &Question) {
    let info = &mut results.info;
    info.variants
        .sort_by_key(|variant| question.variants.iter().position(|name| *name == variant.name));
    info.primary.clone_from(&question.primary);
    info.margin = question.margin;
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::metric::{LATENCY_P95, MEMORY_PSS_FINAL, MEMORY_RSS_FINAL};

    fn planned() -> Question {
        let guards = vec![(LATENCY_P95.id.to_owned(), 0.05)];
        Question { guards, ..Question::new(&["default", "compact"], MEMORY_RSS_FINAL.id) }
    }

    fn no_changes() -> QuestionChanges {
        let (metrics, guards) = (Vec::new(), Vec::new());
        QuestionChanges { metrics, margin: None, baseline: None, guards, alpha: 0.05 }
    }

    #[test]
    fn without_changes_the_question_stays_the_same() {
        assert_eq!(no_changes().apply(&planned()).unwrap(), planned());
    }

    #[test]
    fn a_metric_that_decides_has_no_guard_and_another_baseline_comes_first() {
        let metrics = vec![LATENCY_P95.id.to_owned(), MEMORY_PSS_FINAL.id.to_owned()];
        let baseline = Some("compact".to_owned());
        let question =
            QuestionChanges { metrics, baseline, ..no_changes() }.apply(&planned()).unwrap();
        assert_eq!(question.primaries().collect::<Vec<_>>(), ["latency.p95", MEMORY_PSS_FINAL.id]);
        assert_eq!(question.guards, []);
        assert_eq!(question.variants, ["compact", "default"]);
    }

    #[test]
    fn an_unknown_variant_or_metric_is_refused_with_the_known_ones() {
        let nobody = QuestionChanges { baseline: Some("nobody".into()), ..no_changes() };
        let message = nobody.apply(&planned()).unwrap_err().to_string();
        assert_eq!(message, "there is no variant `nobody`; the results have default, compact");
        let misspelt = QuestionChanges { metrics: vec!["throughputt".into()], ..no_changes() };
        let message = misspelt.apply(&planned()).unwrap_err().to_string();
        assert!(message.contains("did you mean `throughput`?"), "{message}");
    }
}
