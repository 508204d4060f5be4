//! Warnings about a judgement.

use carat_model::Bytes;
use carat_model::metric::{self, phrase};
use std::fmt;

/// A reason to doubt a judgement. The text ends with what to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Warning {
    /// A variant's trials fail too often to compare it.
    Fails {
        variant: String,
        /// Trials that crashed, were killed or never became ready.
        failed: u32,
        trials: u32,
    },
    /// A variant's trials fail at another rate than the baseline's.
    FailsDifferently {
        variant: String,
        /// Its failed trials and all its scored trials.
        of_variant: (u32, u32),
        /// The baseline's failed trials and all its scored trials.
        of_baseline: (u32, u32),
        /// Fisher's exact p value, not corrected for multiple tests.
        p: f64,
    },
    /// Too many blocks were dropped.
    TooManyDropped {
        /// Blocks in which some trial did not count.
        dropped: u32,
        blocks: u32,
    },
    /// The trials of a variant ran on several Rubies or systems, as after an upgrade between two runs of an experiment.
    MixedSoftware {
        variant: String,
        /// Each with its trials, that of the first trial first.
        found: Vec<(String, u32)>,
    },
    /// Servers had memory in swap, which is in no figure of memory.
    InSwap {
        /// Each such variant with the most that a trial had there.
        variants: Vec<(String, Bytes)>,
    },
    /// Memory still rose when the load ended.
    StillRising {
        /// Each such variant with its rise over the last eighth of the load, as a fraction.
        rises: Vec<(String, f64)>,
    },
    /// Ruby collects garbage at another rate than in the baseline.
    CollectsDifferently {
        /// Each variant with the median of its collections per trial.
        variants: Vec<(String, f64)>,
        /// Median of the baseline's collections per trial.
        of_baseline: f64,
    },
    /// The values of a variant form two groups.
    TwoGroups {
        variant: String,
        metric: String,
        /// Share of the trials in the upper group.
        upper: f64,
        /// Distance of the two groups as a fraction of the lower.
        gap: f64,
    },
    /// The typical difference and the mean difference disagree.
    MeanDiffers { variant: String, metric: String, typical: f64, mean: f64 },
    /// The baseline has a trend over the experiment.
    Drift {
        metric: String,
        /// Change of the baseline from first to last block, as a fraction.
        change: f64,
    },
    /// The differences of neighbouring blocks are correlated.
    NeighboursAgree { variant: String, metric: String, correlation: f64 },
    /// No trial has a value of a primary metric.
    Unmeasured { metric: String },
    /// Some trials of a variant succeeded without a value of a metric that decides.
    MissingValues {
        variant: String,
        metric: String,
        /// Trials that succeeded without the value, and all that succeeded.
        missing: (u32, u32),
    },
    /// A percentile is based on too few requests.
    FewRequests {
        metric: String,
        /// Fewest requests of a trial.
        requests: u64,
        /// Requests that the percentile requires.
        needed: u64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails { variant, failed, trials } => write!(
                f,
                "{variant}: {failed} of {trials} trials failed, so its figures describe only the \
                 trials that survived; read the log of a failed trial first"
            ),
            Self::FailsDifferently { variant, of_variant, of_baseline, p } => write!(
                f,
                "{variant}: {} of {} trials failed, and {} of {} of the baseline (p = {p:.3}, \
                 exploratory); read the logs of the failed trials before using its figures",
                of_variant.0, of_variant.1, of_baseline.0, of_baseline.1
            ),
            Self::TooManyDropped { dropped, blocks } => write!(
                f,
                "{dropped} of {blocks} blocks did not count; use a quieter machine or a lighter load"
            ),
            Self::MixedSoftware { variant, found } => fmt_of_mixed(f, variant, found),
            Self::InSwap { variants } => {
                let variants = variants.iter().map(|(variant, most)| format!("{variant} {most}"));
                write!(
                    f,
                    "memory of servers was in swap, which no figure of memory has (up to {}); stop other programs or take a \
                     machine with more memory",
                    variants.collect::<Vec<String>>().join(", ")
                )
            }
            Self::StillRising { rises } => {
                let rises =
                    rises.iter().map(|(variant, rise)| format!("{variant} {}", percent(*rise)));
                write!(
                    f,
                    "memory still rose over the last eighth of the load ({}); raise `requests` until it \
                     levels off, or compare growth with `carat record`",
                    rises.collect::<Vec<String>>().join(", ")
                )
            }
            Self::TwoGroups { variant, metric, upper, gap } => write!(
                f,
                "{variant}: {} has two groups: {:.0} % of the trials are {} above the rest; \
                 look at the single trials, because a difference may be in the shares of the groups \
                 rather than in their sizes",
                phrase(metric),
                100.0 * upper,
                percent(*gap)
            ),
            Self::CollectsDifferently { variants, of_baseline } => {
                fmt_of_collections(f, variants, *of_baseline)
            }
            Self::MeanDiffers { .. } | Self::Drift { .. } | Self::NeighboursAgree { .. } => {
                self.fmt_of_pairs(f)
            }
            Self::Unmeasured { .. } | Self::MissingValues { .. } | Self::FewRequests { .. } => {
                self.fmt_of_metric(f)
            }
        }
    }
}

impl Warning {
    fn fmt_of_pairs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MeanDiffers { variant, metric, typical, mean } => write!(
                f,
                "{variant}: {} differs by {} in the typical trial and by {} on average, so some \
                 trials are outliers; look at the largest ones",
                phrase(metric),
                signed(*typical),
                signed(*mean)
            ),
            Self::Drift { metric, change } => write!(
                f,
                "the baseline's {} drifted by {} during the experiment; differences within blocks \
                 are not affected, but do not compare its absolute figures with other experiments",
                phrase(metric),
                signed(*change)
            ),
            Self::NeighboursAgree { variant, metric, correlation } => write!(
                f,
                "{variant}: differences in {} of neighbouring blocks are correlated \
                 ({correlation:.2}), so intervals may be too narrow; let the machine cool down \
                 between trials, or repeat the experiment on another day",
                phrase(metric)
            ),
            _ => Ok(()),
        }
    }

    fn fmt_of_metric(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Below its least number the percentile does not exist, rather than being imprecise.
            Self::FewRequests { metric, requests, needed }
                if metric::find(metric).is_some_and(|known| *requests < known.least) =>
            {
                write!(
                    f,
                    "{} is unknown: with {requests} requests per trial too few lie beyond it; raise \
                     `requests` to at least {needed}",
                    phrase(metric)
                )
            }
            Self::FewRequests { metric, requests, needed } => write!(
                f,
                "{} is based on only {requests} requests per trial; raise `requests` to at least \
                 {needed}",
                phrase(metric)
            ),
            Self::MissingValues { variant, metric, missing: (missing, trials) } => write!(
                f,
                "{variant}: {} is unknown in {missing} of {trials} trials that succeeded, and their blocks do not count for it; \
                 the figures describe the other trials only",
                phrase(metric)
            ),
            Self::Unmeasured { metric } => write!(
                f,
                "no trial has a value of `{metric}`; choose another primary metric: for a server \
                 with several processes, `{}` instead of `{}`",
                metric::MEMORY_PSS_FINAL.id,
                metric::MEMORY_RSS_FINAL.id
            ),
            _ => Ok(()),
        }
    }
}

fn fmt_of_mixed(f: &mut fmt::Formatter<'_>, variant: &str, found: &[(String, u32)]) -> fmt::Result {
    let found = found.iter().map(|(what, trials)| format!("{trials} on {what}"));
    write!(
        f,
        "{variant}: its trials did not run on the same software ({}), so the verdict mixes both; run it anew (`--fresh`)",
        found.collect::<Vec<String>>().join(", ")
    )
}

fn fmt_of_collections(
    f: &mut fmt::Formatter<'_>,
    variants: &[(String, f64)],
    of_baseline: f64,
) -> fmt::Result {
    let times = |(variant, count): &(String, f64)| {
        format!("{:.2} times in {variant} ({count:.0})", count / of_baseline)
    };
    let times: Vec<String> = variants.iter().map(times).collect();
    write!(
        f,
        "Ruby collected at other rates than in the baseline ({of_baseline:.0} collections per trial, \
         a median): {}; part of the difference may be garbage that waits for a collection, and more \
         blocks tell whether the setting causes that",
        times.join(", ")
    )
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn signed(share: f64) -> String {
    let sign = if share < 0.0 { "−" } else { "+" };
    format!("{sign}{}", percent(share.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collects_differently() -> Warning {
        let variants = vec![("jemalloc".to_owned(), 2557.0), ("trim".to_owned(), 12_000.0)];
        Warning::CollectsDifferently { variants, of_baseline: 6001.0 }
    }

    fn few_requests(metric: &str, (requests, needed): (u64, u64)) -> Warning {
        Warning::FewRequests { metric: metric.to_owned(), requests, needed }
    }

    #[test]
    fn every_warning_says_what_to_do() {
        let (variant, metric) = ("jemalloc".to_owned(), "memory.pss.final".to_owned());
        let rises = vec![(variant.clone(), 0.01), ("b".into(), 0.002)];
        for (warning, what) in [
            (Warning::Fails { variant: variant.clone(), failed: 3, trials: 4 }, "read the log"),
            (
                Warning::FailsDifferently {
                    variant: variant.clone(),
                    of_variant: (6, 20),
                    of_baseline: (0, 20),
                    p: 0.02,
                },
                "read the logs",
            ),
            (Warning::TooManyDropped { dropped: 5, blocks: 20 }, "quieter machine"),
            (
                Warning::InSwap { variants: vec![("b".into(), Bytes(3_000_000))] },
                "(up to b 3.00 MB); stop",
            ),
            (Warning::StillRising { rises }, "load (jemalloc 1.00 %, b 0.20 %); raise `requests`"),
            (
                collects_differently(),
                "0.43 times in jemalloc (2557), 2.00 times in trim (12000); part of",
            ),
            (
                Warning::TwoGroups {
                    variant: variant.clone(),
                    metric: metric.clone(),
                    upper: 0.33,
                    gap: 0.01,
                },
                "look at the single trials",
            ),
            (
                Warning::MeanDiffers {
                    variant: variant.clone(),
                    metric: metric.clone(),
                    typical: -0.01,
                    mean: 0.02,
                },
                "look at the largest",
            ),
            (Warning::Drift { metric: metric.clone(), change: 0.03 }, "do not compare"),
            (
                Warning::NeighboursAgree { variant, metric: metric.clone(), correlation: 0.5 },
                "cool down",
            ),
            (Warning::Unmeasured { metric: metric.clone() }, "choose another"),
            (few_requests(&metric, (50, 200)), "based on only 50 requests"),
            (
                few_requests("latency.p99.9", (6000, 10_000)),
                "p99.9 latency is unknown: with 6000 requests",
            ),
        ] {
            let text = warning.to_string();
            assert!(text.contains(what) && !text.ends_with('.'), "{text}");
        }
    }
}
