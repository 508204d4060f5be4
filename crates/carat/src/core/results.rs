//! The results of one experiment as a value: what reports read and what a results file holds.

use super::{LoadReport, Outcome, Sample, VariantGrowth};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is fixed when an experiment begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentInfo {
    /// Name of the experiment.
    pub name: String,
    /// One or two sentences from the experiment file.
    pub about: Option<String>,
    /// SHA-256 of the canonical plan, in hex; results of another plan never mix.
    pub plan_hash: String,
    /// The experiment file as it was given.
    pub plan_text: String,
    /// Seed of the order of trials.
    pub seed: u64,
    /// The most blocks that may run.
    pub max_blocks: u32,
    /// Variants in the order of the file; the first is the baseline.
    pub variants: Vec<Variant>,
    /// Name of the primary metric.
    pub primary: String,
    /// Differences below this share do not matter, as a fraction.
    pub margin: f64,
    /// How much worse other metrics may get, as fractions by metric name.
    pub guards: BTreeMap<String, f64>,
    /// Name and fact of the machine and its software, such as `kernel` or `ruby`.
    pub machine: BTreeMap<String, String>,
}

/// A whole experiment: what was asked, what was run, what follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// What was asked; its fields stand beside the others in JSON.
    #[serde(flatten)]
    pub header: ExperimentInfo,
    /// Every finished trial in the order it ran.
    pub trials: Vec<Trial>,
    /// What follows, one per variant and metric.
    pub conclusions: Vec<Conclusion>,
    /// Broadcast times over the steps of the load, one per compared variant and metric; none without steps.
    #[serde(default)]
    pub curves: Vec<Curve>,
    /// What the memory of every variant does over its load.
    #[serde(default)]
    pub growth: Vec<VariantGrowth>,
    /// What a reader should know before trusting the figures.
    pub warnings: Vec<String>,
}

/// The workload under one set of settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Settings by name, as written.
    pub settings: BTreeMap<String, String>,
}

/// One variant, started, warmed, loaded, measured and stopped once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Hash of plan, block and variant, in hex.
    pub id: String,
    /// Block number; block 0 warms the machine up and is never scored.
    pub block: u32,
    /// Place within its block, from 0.
    pub position: u32,
    /// Name of the variant.
    pub variant: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What went wrong, in words; `None` where nothing did.
    pub detail: Option<String>,
    /// Unix time of its start in milliseconds: a label, never a duration.
    pub started_ms: u64,
    /// Seconds it took in all.
    pub seconds: f64,
    /// Its numbers, in the units of the metric list.
    pub metrics: BTreeMap<String, f64>,
    /// The tree's memory over time.
    pub samples: Vec<Sample>,
    /// Start of the measured load and its end, in milliseconds on the samples' clock.
    pub load_window_ms: Option<(u64, u64)>,
    /// What the load generator reported; `None` where the load never ended.
    pub load: Option<LoadReport>,
    /// What a reader should know of this trial, such as a setting that did not take.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The last lines that the server printed.
    pub log_tail: String,
}

/// Why a metric is compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Role {
    /// The question of the experiment.
    Primary,
    /// A price that must not be paid: the variant may be worse by at most this fraction.
    Guard {
        /// Largest tolerated change for the worse, as a fraction.
        limit: f64,
    },
    /// Shown, never decided by.
    Exploratory,
}

/// What is concluded of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Less memory than the baseline.
    Smaller,
    /// More memory than the baseline.
    Larger,
    /// Less time, or more work per time, than the baseline.
    Faster,
    /// More time, or less work per time, than the baseline.
    Slower,
    /// No difference that matters.
    Equivalent,
    /// The trials do not say.
    Undecided,
}

/// An estimated difference with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Relative difference of variant to baseline as a fraction: -0.21 is 21 % less. For a metric that is
    /// itself a share, such as `errors`, the plain difference: 0.001 is 0.1 percentage points more.
    pub ratio: f64,
    /// Lower and upper end of the interval of `ratio`.
    pub ratio_interval: (f64, f64),
    /// Difference in the metric's own unit.
    pub difference: f64,
    /// Lower and upper end of the interval of `difference`.
    pub difference_interval: (f64, f64),
    /// Confidence of both intervals, valid at every look, as a fraction: 0.95 for a difference, 0.90 for
    /// equivalence and guards, which are two one-sided tests.
    pub confidence: f64,
}

/// One variant against the baseline in one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conclusion {
    /// The variant.
    pub variant: String,
    /// The metric.
    pub metric: String,
    /// Why it was compared.
    pub role: Role,
    /// What follows.
    pub verdict: Verdict,
    /// The difference; `None` while there are too few blocks for an interval.
    pub estimate: Option<Estimate>,
    /// Blocks that counted.
    pub blocks: u32,
    /// For a guard: whether the price is proven to be within its limit (`true`), proven to be above
    /// it (`false`), or neither.
    pub guard_passed: Option<bool>,
    /// Smallest difference as a fraction that the whole budget can be expected to find.
    pub detectable: Option<f64>,
    /// Blocks that an undecided comparison would probably still need.
    pub blocks_needed: Option<u32>,
}

/// One variant against the baseline in one metric over the steps of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The variant.
    pub variant: String,
    /// The metric, taken at every step.
    pub metric: String,
    /// Blocks that have all steps.
    pub blocks: u32,
    /// What follows for the geometric mean over all steps: the area between the two curves.
    pub verdict: Verdict,
    /// Its difference; `None` while there are too few blocks for an interval.
    pub estimate: Option<Estimate>,
    /// Every step; they share one error.
    pub steps: Vec<StepConclusion>,
}

/// One step of a [`Curve`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepConclusion {
    /// Connections.
    pub clients: u32,
    /// What follows.
    pub verdict: Verdict,
    /// The difference; `None` while there are too few blocks for an interval.
    pub estimate: Option<Estimate>,
}
