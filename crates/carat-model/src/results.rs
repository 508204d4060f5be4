//! The results of one experiment: what a results file holds and what reports read.

use super::{ClassComparison, Fleet, LoadReport, Moment, Outcome, Sample, VariantGrowth};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Facts of a machine and its software: name and value.
pub type MachineFacts = BTreeMap<String, String>;

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
    /// How much worse other metrics may become, as fractions by metric name.
    pub guards: BTreeMap<String, f64>,
    /// The machines that run the blocks; `None` for an experiment of one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Fleet>,
}

/// A whole experiment: the question, the trials, the conclusions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The question; in JSON its fields are beside the others.
    #[serde(flatten)]
    pub info: ExperimentInfo,
    /// Every finished trial in the order it ran.
    pub trials: Vec<Trial>,
    /// One conclusion per compared variant and metric.
    pub conclusions: Vec<Conclusion>,
    /// Variants against their controls, one per control and per primary metric or guard; none without controls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<ControlComparison>,
    /// Broadcast times over the steps of the load, one per compared variant and metric; none without steps.
    #[serde(default)]
    pub curves: Vec<Curve>,
    /// Growth of every variant's memory during its load.
    #[serde(default)]
    pub growth: Vec<VariantGrowth>,
    /// Memory at every moment of the trials, in the order of moments and variants, one per figure.
    #[serde(default)]
    pub moments: Vec<MomentComparison>,
    /// Memory as a multiple of the least that the application could have, one per variant whose server forks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub least: Vec<LeastDistance>,
    /// The primary metric by machine, one per compared variant; none with a single type and few machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineComparison>,
    /// Objects by class at the end of the trials, one per compared variant; none without a census.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassComparison>,
    /// What a reader should know before trusting the figures.
    pub warnings: Vec<String>,
}

impl Results {
    /// Trials from which nothing is concluded yet.
    pub fn unconcluded(info: ExperimentInfo, trials: Vec<Trial>) -> Self {
        Self {
            info,
            trials,
            conclusions: Vec::new(),
            controls: Vec::new(),
            curves: Vec::new(),
            growth: Vec::new(),
            moments: Vec::new(),
            least: Vec::new(),
            machines: Vec::new(),
            classes: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// The workload under one set of settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    pub name: String,
    /// Settings by name, as written.
    pub settings: BTreeMap<String, String>,
    /// Names of the variants that it is also compared with, each a part of this variant's remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<String>,
}

/// One variant, started, warmed, loaded, measured and stopped once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Hash of plan, seed, block and variant, in hex.
    pub id: String,
    /// Block number; block 0 is the warm-up block and is never scored.
    pub block: u32,
    /// Position within its block, from 0.
    pub position: u32,
    /// Name of the variant.
    pub variant: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The reason of an outcome other than `ok`.
    pub detail: Option<String>,
    /// Unix time of its start in milliseconds: a label, never a duration.
    pub started_ms: u64,
    /// Duration of the whole trial in seconds.
    pub seconds: f64,
    /// Facts of the machine and its software, such as `kernel` or `ruby`; an unknown fact is absent.
    #[serde(default)]
    pub machine: MachineFacts,
    /// Values by metric, in the units of the metric registry.
    pub metrics: BTreeMap<String, f64>,
    /// Memory of the process tree over time.
    pub samples: Vec<Sample>,
    /// Start and end of the measured load, in milliseconds on the samples' clock.
    pub load_window_ms: Option<(u64, u64)>,
    /// The load generator's report, that of the warm-up if the server refused it; `None` where the load did not end.
    pub load: Option<LoadReport>,
    /// Notes for the reader, such as a setting that was not applied.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The last lines that the server and the commands of the trial printed.
    pub log_tail: String,
}

impl Trial {
    /// A trial that succeeded and of which nothing was read: what others are made from.
    pub fn bare(block: u32, variant: impl Into<String>) -> Self {
        Self {
            id: String::new(),
            block,
            position: 0,
            variant: variant.into(),
            outcome: Outcome::Ok,
            detail: None,
            started_ms: 0,
            seconds: 0.0,
            machine: MachineFacts::new(),
            metrics: BTreeMap::new(),
            samples: Vec::new(),
            load_window_ms: None,
            load: None,
            notes: Vec::new(),
            log_tail: String::new(),
        }
    }

    /// Whether the server refused the requests before the measured load, which then did not run.
    pub fn is_refused_warm_up(&self) -> bool {
        self.outcome == Outcome::LoadInvalid && self.load_window_ms.is_none() && self.load.is_some()
    }
}

/// The part that a metric plays in an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Role {
    /// The metric that the verdict is about.
    Primary,
    /// A metric that may become worse by at most this fraction.
    Guard {
        /// Largest tolerated change for the worse, as a fraction.
        limit: f64,
    },
    /// Reported, never part of the verdict.
    Exploratory,
}

/// The conclusion about a difference.
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
    /// The trials do not decide the question.
    Undecided,
}

/// An estimated difference with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Relative difference of variant to baseline as a fraction: -0.21 is 21 % less. For a metric that is
    /// itself a share, such as `errors`, the absolute difference: 0.001 is 0.1 percentage points more. The same as
    /// `difference` where `in_own_unit`.
    pub ratio: f64,
    /// Lower and upper end of the interval of `ratio`.
    pub ratio_interval: (f64, f64),
    /// Difference in the metric's own unit.
    pub difference: f64,
    /// Lower and upper end of the interval of `difference`.
    pub difference_interval: (f64, f64),
    /// Confidence of both intervals as a fraction, valid at every interim analysis: 0.95 for a difference, 0.90 for
    /// equivalence and guards, which are two one-sided tests.
    pub confidence: f64,
    /// Whether the baseline has values of zero, of which nothing is a percentage: `ratio` is then no share.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_own_unit: bool,
}

/// One variant against the baseline in one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conclusion {
    pub variant: String,
    pub metric: String,
    /// Its part in the experiment.
    pub role: Role,
    pub verdict: Verdict,
    /// The difference; `None` while there are too few blocks for an interval.
    pub estimate: Option<Estimate>,
    /// Blocks that counted.
    pub blocks: u32,
    /// For a guard: proven to be within its limit (`true`), proven to be beyond it (`false`), or neither.
    pub guard_passed: Option<bool>,
    /// Smallest difference, as a fraction, that the planned number of blocks is expected to detect.
    pub detectable: Option<f64>,
    /// When an undecided comparison is probably decided; `None` while there are too few blocks to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<BlockForecast>,
    /// Confidence that the design requires of an interval, as a fraction; one below it proves nothing. `None` without a
    /// look, and in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_confidence: Option<f64>,
}

impl Conclusion {
    /// Whether the interval has the confidence that the design requires. One below it proves nothing.
    pub fn has_required_confidence(&self) -> bool {
        let one_sided =
            matches!(self.role, Role::Guard { .. }) || self.verdict == Verdict::Equivalent;
        // Files of older versions do not say what their design required.
        let required = self.required_confidence.unwrap_or(if one_sided { 0.9 } else { 0.95 });
        // Confidences are sums of probabilities, which differ in their last digits.
        self.estimate.is_some_and(|estimate| estimate.confidence >= required - 1e-9)
    }
}

/// The numbers of blocks, those so far included, between which an undecided comparison is decided with a chance of 80 %, in
/// an experiment that allows so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockForecast {
    /// One in ten is decided earlier.
    pub low: u32,
    /// One in ten is decided later; `None` if that is beyond the blocks that can be foreseen, 400.
    pub high: Option<u32>,
}

/// One variant against one of its controls in one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlComparison {
    pub control: String,
    /// The difference of the variant to the control; in JSON its fields are beside the others.
    #[serde(flatten)]
    pub conclusion: Conclusion,
    /// Which part makes the variant's difference to the baseline; `None` for a guard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartAtWork>,
}

/// Which part of a variant's remedy makes its difference to the baseline: its control, or the rest.
///
/// It follows from two verdicts: the control against the baseline, and the variant against the control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartAtWork {
    /// The control differs from the baseline, and the rest makes no difference that matters.
    Control,
    /// The control makes no difference that matters, and the variant differs from it.
    Rest,
    /// Both differ, in the same direction.
    Both,
    /// Both differ, in opposite directions.
    Opposed,
    /// Neither makes a difference that matters.
    Neither,
    /// At least one of the two is undecided.
    Undecided,
}

/// One variant against the baseline in one metric over the steps of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    pub variant: String,
    /// The metric, taken at every step.
    pub metric: String,
    /// Blocks that have all steps.
    pub blocks: u32,
    /// The verdict on the geometric mean over all steps, the area between the two curves.
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
    pub verdict: Verdict,
    /// The difference; `None` while there are too few blocks for an interval.
    pub estimate: Option<Estimate>,
}

/// A figure of memory that is compared at every moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryFigure {
    /// Resident memory of the one server process.
    Rss,
    /// Proportional memory of the tree.
    Pss,
    /// The tree's proportional part of memory that several processes map.
    Shared,
}

/// The memory of one variant at one moment, and its difference to the baseline at the same moment.
///
/// Exploratory: the intervals are not adjusted for the number of moments, so none is a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MomentComparison {
    pub moment: Moment,
    pub figure: MemoryFigure,
    pub variant: String,
    /// Trials that count and have the figure at the moment.
    pub trials: u32,
    /// Median over these trials, in bytes.
    pub median: f64,
    /// Smallest and largest value, in bytes.
    pub range: (f64, f64),
    /// Median of the requests or broadcasts answered by then; `None` outside the load.
    pub answered: Option<f64>,
    /// Median time since the trial began, in seconds.
    pub at_s: f64,
    /// Blocks that counted for the difference; 0 for the baseline.
    pub blocks: u32,
    /// The difference; `None` for the baseline, and while there are too few blocks for an interval.
    pub estimate: Option<Estimate>,
}

/// The memory of one variant as a multiple of the least that its application could have.
///
/// Exploratory: the interval is that of a single claim, so none is a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeastDistance {
    pub variant: String,
    /// Trials that count and have the metric.
    pub trials: u32,
    /// Median over these trials: 1.25 is a quarter more than the least.
    pub median: f64,
    /// Blocks that counted for the interval.
    pub blocks: u32,
    /// Lower and upper end of the interval of the typical trial; `None` while there are too few blocks.
    pub interval: Option<(f64, f64)>,
    /// Confidence of the interval as a fraction, valid at every interim analysis.
    pub confidence: Option<f64>,
}

/// Settings under which a variant runs another Ruby than the one in carat's `PATH`.
const SETTINGS_OF_RUBY: [&str; 2] = ["ruby", "root"];

/// The difference of one variant to the baseline in the primary metric, by type of machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineComparison {
    pub variant: String,
    pub metric: String,
    /// p value of the hypothesis that the type makes no difference (Kruskal and Wallis, by permutation); `None` with too
    /// few blocks.
    pub p: Option<f64>,
    /// Whether it is proven that the difference depends on the type.
    pub differs: bool,
    /// Each type, by name.
    pub types: Vec<MachineTypeEstimate>,
    /// Number of machines.
    pub machines: u32,
    /// The difference on machines in general, of which these are taken as a sample: Student's interval of the machines'
    /// means. `None` with fewer than six machines.
    pub general: Option<Estimate>,
}

/// One type of machine in a [`MachineComparison`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineTypeEstimate {
    /// Its name.
    pub machine_type: String,
    /// Blocks that counted.
    pub blocks: u32,
    /// The difference on this type. The error of 5 % is shared by the types and holds for a number of blocks fixed in
    /// advance. `None` with too few blocks.
    pub estimate: Option<Estimate>,
}

/// Gives trials the facts of a file from before each trial had its own.
///
/// Such a file has the Ruby in carat's `PATH`. For a variant with another Ruby the fact stays unknown.
pub fn assign_file_facts(trials: &mut [Trial], variants: &[Variant], facts: &MachineFacts) {
    for trial in trials {
        let variant = variants.iter().find(|variant| variant.name == trial.variant);
        // Of an unknown variant nothing is known, so neither is its Ruby.
        let other_ruby = variant.is_none_or(|variant| {
            SETTINGS_OF_RUBY.iter().any(|name| variant.settings.contains_key(*name))
        });
        trial.machine.clone_from(facts);
        if other_ruby {
            trial.machine.remove("ruby");
        }
    }
}
