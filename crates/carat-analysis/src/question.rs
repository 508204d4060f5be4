//! The question that an experiment answers.

use carat_model::{Better, Unit, Verdict, metric};
use carat_stats::Sequence;
use carat_stats::family::Decision;
use carat_stats::forecast::FORESEEN;
use carat_tune::Confirmation;

/// The question put to the trials. Another question can be put to the same trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Names of the variants; the first is the baseline that the others are compared with.
    pub variants: Vec<String>,
    /// A variant and its control each: comparisons beside those with the baseline. One with the baseline is not repeated.
    pub controls: Vec<(String, String)>,
    /// Id of the metric that decides.
    pub primary: String,
    /// Further metrics that decide; each adds claims that share the error.
    pub also_primary: Vec<String>,
    /// Differences below this share do not matter, as a fraction.
    pub margin: f64,
    /// Metrics that may get worse by at most this share, as a fraction. For a metric that is itself a
    /// share, such as `errors`, the largest tolerated increase.
    pub guards: Vec<(String, f64)>,
    /// Probability that any difference is claimed where there is none, as a fraction.
    pub alpha: f64,
    /// Most blocks that may count.
    pub max_blocks: u32,
    /// Continue after the verdict until the interval is narrower than half the difference.
    pub precise: bool,
    /// Whether a block of which a trial failed is run again, as far as that is reasonable.
    pub reruns: bool,
    /// Where this confirms the candidate of a search: the number of attempts among which it shares the error. It then ends
    /// as soon as the candidate is confirmed or refused.
    pub attempts: Option<u32>,
    /// Looks are after a multiple of this many blocks: the number of types of machines in a fleet, otherwise 1.
    pub round: u32,
}

impl Question {
    /// The default question: 5 % error, a margin of 0.25 %, at most 100 blocks, no guards.
    pub fn new(variants: &[&str], primary: &str) -> Self {
        Self {
            variants: variants.iter().map(|&name| name.to_owned()).collect(),
            controls: Vec::new(),
            primary: primary.to_owned(),
            also_primary: Vec::new(),
            margin: 0.0025,
            guards: Vec::new(),
            alpha: 0.05,
            max_blocks: 100,
            precise: false,
            reruns: true,
            attempts: None,
            round: 1,
        }
    }

    /// The baseline; `None` where there are no variants.
    pub fn baseline(&self) -> Option<&str> {
        self.variants.first().map(String::as_str)
    }

    /// Names of the variants after the baseline.
    pub fn compared(&self) -> &[String] {
        self.variants.get(1..).unwrap_or_default()
    }

    /// The metrics that decide.
    pub fn primaries(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.primary.as_str()).chain(self.also_primary.iter().map(String::as_str))
    }

    /// Whether a metric decides or has a guard.
    pub fn asks_for(&self, metric: &str) -> bool {
        self.primaries().any(|primary| primary == metric)
            || self.guards.iter().any(|(guard, _)| guard == metric)
    }

    /// Every comparison with the baseline.
    pub fn with_baseline(&self) -> impl Iterator<Item = VariantComparison<'_>> {
        let reference = self.baseline().unwrap_or_default();
        self.compared().iter().map(move |variant| VariantComparison { variant, reference })
    }

    /// Every comparison with a control other than the baseline.
    pub fn with_controls(&self) -> impl Iterator<Item = VariantComparison<'_>> {
        let baseline = self.baseline().unwrap_or_default();
        // A comparison with the baseline is a claim already and must not count twice.
        let named = self.controls.iter().filter(move |(variant, control)| {
            variant != baseline && control != baseline && variant != control
        });
        named.map(|(variant, control)| VariantComparison { variant, reference: control })
    }

    /// Claims that share the error: every comparison, with the baseline or with a control, in every deciding metric.
    pub fn claims(&self) -> usize {
        // All share the error, whichever reference they have.
        (self.compared().len() + self.with_controls().count()) * self.primaries().count()
    }

    /// The fewest blocks after which a claim can be decided; `None` where the budget allows none.
    pub fn first_verdict(&self) -> Option<u32> {
        self.first_verdict_within(self.max_blocks)
    }

    /// The fewest blocks after which a claim can be decided: in this experiment or, where its budget allows none, in one with a
    /// larger budget. It does not depend on any result.
    pub fn fewest_blocks(&self) -> u32 {
        self.first_verdict().or_else(|| self.first_verdict_within(FORESEEN)).unwrap_or(FORESEEN)
    }

    /// [`Self::first_verdict`] of the same question in an experiment of at most `budget` blocks.
    pub fn first_verdict_within(&self, budget: u32) -> Option<u32> {
        let alpha = self.error() / self.claims().max(1) as f64;
        Sequence::fewest_blocks(alpha, budget, self.round)
    }

    /// The error that the claims share, as a fraction: attempts share that of the whole search, so each has less of it.
    pub(crate) fn error(&self) -> f64 {
        self.attempts.map_or(self.alpha, Confirmation::alpha_of)
    }
}

/// Two variants to compare; the difference is that of `variant` to `reference`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VariantComparison<'a> {
    pub variant: &'a str,
    /// The baseline or a control.
    pub reference: &'a str,
}

/// The words for the verdicts of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VerdictWords {
    /// Amounts: smaller, larger.
    Amount,
    /// Time: less is faster.
    Time,
    /// Work per time: more is faster.
    Work,
}

/// The words for a metric; an unknown metric is an amount.
pub(crate) fn verdict_words(name: &str) -> VerdictWords {
    match metric::find(name).map(|info| (info.unit, info.better)) {
        Some((Unit::Seconds, _)) => VerdictWords::Time,
        // Only if more is better: a rate such as collections per second is an amount.
        Some((Unit::PerSecond, Better::Higher)) => VerdictWords::Work,
        _ => VerdictWords::Amount,
    }
}

impl VerdictWords {
    pub(crate) fn verdict(self, decision: Decision) -> Verdict {
        match decision {
            Decision::Less => self.less(),
            Decision::More => self.more(),
            Decision::Equivalent => Verdict::Equivalent,
            Decision::Undecided => Verdict::Undecided,
        }
    }

    /// The verdict that the variant's figure is below the baseline's.
    fn less(self) -> Verdict {
        match self {
            Self::Amount => Verdict::Smaller,
            Self::Time => Verdict::Faster,
            Self::Work => Verdict::Slower,
        }
    }

    /// The verdict that the variant's figure is above the baseline's.
    fn more(self) -> Verdict {
        match self {
            Self::Amount => Verdict::Larger,
            Self::Time => Verdict::Slower,
            Self::Work => Verdict::Faster,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_metric_has_its_own_verdict_words() {
        for (name, less, more) in [
            ("memory.pss.final", Verdict::Smaller, Verdict::Larger),
            ("latency.p95", Verdict::Faster, Verdict::Slower),
            ("throughput", Verdict::Slower, Verdict::Faster),
            ("gc.count", Verdict::Smaller, Verdict::Larger),
            ("not.a.metric", Verdict::Smaller, Verdict::Larger),
        ] {
            assert_eq!(
                (verdict_words(name).less(), verdict_words(name).more()),
                (less, more),
                "{name}"
            );
        }
    }
}
