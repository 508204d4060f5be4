//! What is asked of the trials.

use crate::core::{Better, Unit, Verdict, metric};
use carat_stats::family::Decision;

/// What is asked of the trials; another question needs no new trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Names of the variants; the first is the baseline that the others are compared with.
    pub variants: Vec<String>,
    /// Name of the metric that decides.
    pub primary: String,
    /// Further metrics that decide too; each makes every claim harder to prove.
    pub also_primary: Vec<String>,
    /// Differences below this share do not matter, as a fraction.
    pub margin: f64,
    /// Metrics that may get worse by at most this share, as a fraction; for a metric that is itself
    /// a share, such as `errors`, the largest tolerated rise.
    pub guards: Vec<(String, f64)>,
    /// Chance that any difference at all is claimed where there is none, as a fraction.
    pub alpha: f64,
    /// The most blocks that may count.
    pub max_blocks: u32,
    /// Go on after the verdict until the interval is narrower than half the difference.
    pub precise: bool,
}

impl Question {
    /// The usual question: 5 % error, a margin of 0.25 %, at most 100 blocks, no guards.
    pub fn new(variants: &[&str], primary: &str) -> Self {
        Self {
            variants: variants.iter().map(|&name| name.to_owned()).collect(),
            primary: primary.to_owned(),
            also_primary: Vec::new(),
            margin: 0.0025,
            guards: Vec::new(),
            alpha: 0.05,
            max_blocks: 100,
            precise: false,
        }
    }

    /// The baseline's name; `None` of no variants.
    pub fn baseline(&self) -> Option<&str> {
        self.variants.first().map(String::as_str)
    }

    /// Names of the variants after the baseline.
    pub fn compared(&self) -> &[String] {
        self.variants.get(1..).unwrap_or_default()
    }

    /// Metrics that decide.
    pub fn primaries(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.primary.as_str()).chain(self.also_primary.iter().map(String::as_str))
    }

    /// Claims that share the error: every compared variant in every deciding metric.
    pub fn claims(&self) -> usize {
        self.compared().len() * self.primaries().count()
    }
}

/// Which words a metric's verdicts use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Amounts: smaller, larger.
    Amount,
    /// Time: less is faster.
    Time,
    /// Work per time: more is faster.
    Work,
}

/// The family of the metric of that name; an unknown metric is an amount.
pub fn family(name: &str) -> Family {
    match metric::find(name).map(|info| (info.unit, info.better)) {
        Some((Unit::Seconds, _)) => Family::Time,
        Some((Unit::PerSecond, Better::Higher)) => Family::Work,
        _ => Family::Amount,
    }
}

impl Family {
    /// The verdict that a finding is in these words.
    pub fn verdict(self, finding: Decision) -> Verdict {
        match finding {
            Decision::Less => self.less(),
            Decision::More => self.more(),
            Decision::Equivalent => Verdict::Equivalent,
            Decision::Undecided => Verdict::Undecided,
        }
    }

    /// The verdict that the variant's figure is below the baseline's.
    pub fn less(self) -> Verdict {
        match self {
            Self::Amount => Verdict::Smaller,
            Self::Time => Verdict::Faster,
            Self::Work => Verdict::Slower,
        }
    }

    /// The verdict that the variant's figure is above the baseline's.
    pub fn more(self) -> Verdict {
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
    fn every_family_has_its_own_words() {
        for (name, less, more) in [
            ("memory.pss.final", Verdict::Smaller, Verdict::Larger),
            ("latency.p95", Verdict::Faster, Verdict::Slower),
            ("throughput", Verdict::Slower, Verdict::Faster),
            ("gc.count", Verdict::Smaller, Verdict::Larger),
            ("not.a.metric", Verdict::Smaller, Verdict::Larger),
        ] {
            assert_eq!((family(name).less(), family(name).more()), (less, more), "{name}");
        }
    }
}
