//! Results, conclusions and estimates for the tests of this crate.

use carat_model::recording::RecordingInfo;
use carat_model::{
    Conclusion, Estimate, ExperimentInfo, Recording, Results, Role, Trial, Variant, Verdict, metric,
};
use std::collections::BTreeMap;

/// A text that a test looks into.
pub(crate) trait AssertContains {
    /// Fails with the whole text unless it has each of these parts.
    #[track_caller]
    fn assert_contains<const N: usize>(&self, parts: [&str; N]);
}

impl AssertContains for str {
    fn assert_contains<const N: usize>(&self, parts: [&str; N]) {
        for part in parts {
            assert!(self.contains(part), "{part:?} is not in\n{self}");
        }
    }
}

/// A difference of a metric of 100 million.
pub(crate) fn estimate(low: f64, ratio: f64, high: f64) -> Estimate {
    Estimate {
        ratio,
        ratio_interval: (low, high),
        difference: ratio * 1e8,
        difference_interval: (low * 1e8, high * 1e8),
        confidence: 0.98,
        in_own_unit: false,
    }
}

/// What three blocks say about the variant `b` in its primary metric.
pub(crate) fn conclusion(verdict: Verdict, estimate: Option<Estimate>) -> Conclusion {
    Conclusion {
        variant: "b".into(),
        metric: metric::MEMORY_PSS_FINAL.id.into(),
        role: Role::Primary,
        verdict,
        estimate,
        blocks: 3,
        guard_passed: None,
        detectable: None,
        forecast: None,
        required_confidence: None,
    }
}

/// The same of a guard with this limit.
pub(crate) fn guard(
    metric: &str,
    limit: f64,
    passed: Option<bool>,
    (verdict, found): (Verdict, Estimate),
) -> Conclusion {
    let (metric, role) = (metric.to_owned(), Role::Guard { limit });
    Conclusion { metric, role, guard_passed: passed, ..conclusion(verdict, Some(found)) }
}

/// A trial that succeeded and has no figures.
pub(crate) fn trial(block: u32, variant: &str) -> Trial {
    Trial { seconds: 1.0, ..Trial::bare(block, variant) }
}

/// An experiment about proportional memory with these variants.
pub(crate) fn info(variants: &[&str]) -> ExperimentInfo {
    let variant = |name: &&str| Variant {
        name: (*name).into(),
        settings: BTreeMap::new(),
        controls: Vec::new(),
    };
    ExperimentInfo {
        name: "x".into(),
        about: None,
        plan_hash: String::new(),
        plan_text: String::new(),
        seed: 1,
        max_blocks: 3,
        variants: variants.iter().map(variant).collect(),
        primary: metric::MEMORY_PSS_FINAL.id.into(),
        margin: 0.02,
        guards: BTreeMap::new(),
        fleet: None,
    }
}

/// A recording of a server without samples.
pub(crate) fn recording() -> Recording {
    let (schema, what) = (String::new(), "puma".into());
    Recording::new(RecordingInfo { schema, what, started_ms: 0, command: Vec::new() })
}

/// Results from which nothing is concluded yet.
pub(crate) fn results(variants: &[&str], trials: Vec<Trial>) -> Results {
    Results::unconcluded(info(variants), trials)
}
