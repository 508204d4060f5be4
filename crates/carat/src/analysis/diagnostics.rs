//! Looks for what could mislead a reader of a judgement. Decides nothing.

use crate::analysis::outcomes::Outcomes;
use crate::analysis::pairs::{Blocks, Dropped, Pairs};
use crate::analysis::question::Question;
use crate::analysis::warning::Warning;
use crate::core::memory::tracked_memory;
use crate::core::metric::{self, METRICS};
use crate::core::{Conclusion, Outcome, Role, Trial, Unit};
use carat_stats::budget::median;
use carat_stats::{diagnose, summary};

/// Below this exploratory p value a difference of failures is worth a line.
const FAILURES_DIFFER: f64 = 0.05;
/// Fewest samples within the load from which a late rise can be told.
const ENOUGH_SAMPLES: usize = 16;

/// Everything to warn of.
pub(crate) struct Diagnostics<'a> {
    pub(crate) question: &'a Question,
    pub(crate) blocks: &'a Blocks<'a>,
    pub(crate) outcomes: &'a [Outcomes],
    pub(crate) conclusions: &'a [Conclusion],
}

impl Diagnostics<'_> {
    /// The warnings, the gravest first.
    pub(crate) fn warnings(&self, dropped: &[Dropped]) -> Vec<Warning> {
        let mut warnings = self.of_outcomes();
        warnings.extend(self.of_drops(dropped));
        warnings.extend(self.of_runs());
        for metric in self.question.primaries() {
            if self.blocks.unmeasured(metric) {
                warnings.push(Warning::Unmeasured { metric: metric.to_owned() });
            }
            warnings.extend(self.of_values(metric));
            for variant in self.question.compared() {
                warnings.extend(self.of_pairs(variant, metric));
            }
        }
        warnings.extend(self.of_requests());
        warnings
    }

    fn of_outcomes(&self) -> Vec<Warning> {
        let counts = |of: &Outcomes| (of.failed(), of.trials());
        let Some(baseline) = self.outcomes.first() else { return Vec::new() };
        let warning = |of: &Outcomes| {
            let variant = of.variant.clone();
            if of.fails_too_often() {
                return Some(Warning::Fails { variant, failed: of.failed(), trials: of.trials() });
            }
            let p = of.p.filter(|&p| p < FAILURES_DIFFER)?;
            let (of_variant, of_baseline) = (counts(of), counts(baseline));
            Some(Warning::FailsDifferently { variant, of_variant, of_baseline, p })
        };
        self.outcomes.iter().filter_map(warning).collect()
    }

    fn of_drops(&self, dropped: &[Dropped]) -> Option<Warning> {
        let mut lost: Vec<u32> = dropped.iter().map(|trial| trial.block).collect();
        lost.dedup();
        let (dropped, blocks) = (lost.len() as u32, self.blocks.count());
        (dropped > 2 && 10 * dropped > blocks).then_some(Warning::UnfitMachine { dropped, blocks })
    }

    /// Trials whose memory still rises when the load ends compare how far they came, not what they
    /// need.
    fn of_runs(&self) -> Vec<Warning> {
        if metric::find(&self.question.primary).is_none_or(|primary| primary.unit != Unit::Bytes) {
            return Vec::new();
        }
        let warning = |variant: &String| {
            let rises: Vec<f64> = self.valid(variant).filter_map(late_rise).collect();
            let rise = median(&rises).filter(|&rise| rise > self.question.margin)?;
            Some(Warning::StillRising { variant: variant.clone(), rise })
        };
        self.question.variants.iter().filter_map(warning).collect()
    }

    fn valid(&self, variant: &str) -> impl Iterator<Item = &Trial> {
        let is = move |trial: &&Trial| trial.variant == variant && trial.outcome == Outcome::Ok;
        self.blocks.trials().filter(is)
    }

    fn of_values(&self, metric: &str) -> Vec<Warning> {
        let values = |variant: &str| -> Vec<f64> {
            self.valid(variant).filter_map(|trial| trial.metrics.get(metric).copied()).collect()
        };
        let groups = |variant: &String| {
            let found = diagnose::clusters(&values(variant))?;
            let (low, high) = found.centres;
            let gap = high / low - 1.0;
            let matters = low > 0.0 && gap > self.question.margin;
            matters.then(|| Warning::TwoGroups {
                variant: variant.clone(),
                metric: metric.to_owned(),
                upper: found.upper,
                gap,
            })
        };
        let mut warnings: Vec<Warning> = self.question.variants.iter().filter_map(groups).collect();
        let baseline = values(self.question.baseline().unwrap_or_default());
        let level = median(&baseline).filter(|&level| level > 0.0);
        let change = level.and_then(|level| Some(diagnose::drift(&baseline)? / level));
        warnings.extend(
            change
                .filter(|change| change.abs() > self.question.margin)
                .map(|change| Warning::Drift { metric: metric.to_owned(), change }),
        );
        warnings
    }

    fn of_pairs(&self, variant: &str, metric: &str) -> Vec<Warning> {
        let baseline = self.question.baseline().unwrap_or_default();
        let pairs = self.blocks.pairs(baseline, variant, metric);
        let known = pairs.known();
        let agree = diagnose::neighbour_correlation(&known).map(|correlation| {
            let (variant, metric) = (variant.to_owned(), metric.to_owned());
            Warning::NeighboursAgree { variant, metric, correlation }
        });
        agree.into_iter().chain(self.shape(variant, metric, &pairs)).collect()
    }

    /// Whether mean and typical pair differ by more than half the interval's width.
    fn shape(&self, variant: &str, metric: &str, pairs: &Pairs) -> Option<Warning> {
        let is =
            |c: &&Conclusion| c.variant == variant && c.metric == metric && c.role == Role::Primary;
        let conclusion = self.conclusions.iter().find(is)?;
        let estimate = conclusion.estimate?;
        let known = pairs.known();
        let seen = known.get(..conclusion.blocks as usize)?;
        let mean = pairs.as_ratio(seen.iter().sum::<f64>() / seen.len() as f64);
        let half = 0.5 * (estimate.ratio_interval.1 - estimate.ratio_interval.0);
        ((mean - estimate.ratio).abs() > half).then(|| Warning::ShapesDiffer {
            variant: variant.to_owned(),
            metric: metric.to_owned(),
            typical: estimate.ratio,
            mean,
        })
    }

    fn of_requests(&self) -> Vec<Warning> {
        let guards = self.question.guards.iter().map(|(name, _)| name.as_str());
        let asked: Vec<&str> = self.question.primaries().chain(guards).collect();
        let completed = self.blocks.trials().filter(|trial| trial.outcome == Outcome::Ok);
        let fewest = completed.filter_map(|trial| trial.load.as_ref()).map(|l| l.completed).min();
        let Some(requests) = fewest else { return Vec::new() };
        METRICS
            .iter()
            .rev()
            .filter(|metric| asked.contains(&metric.id) && requests < metric.enough)
            .map(|metric| Warning::FewRequests {
                metric: metric.id.to_owned(),
                requests,
                needed: metric.enough,
            })
            .collect()
    }
}

/// How much the memory of one trial still rises at the end of its load, as a share.
fn late_rise(trial: &Trial) -> Option<f64> {
    let (from, to) = trial.load_window_ms?;
    let inside = trial.samples.iter().filter(|s| (from..=to).contains(&s.at_ms));
    let memory = tracked_memory(&trial.samples);
    let series: Vec<(f64, f64)> =
        inside.filter_map(|s| Some((s.at_ms as f64, memory(s)?.0 as f64))).collect();
    if series.len() < ENOUGH_SAMPLES {
        return None;
    }
    summary::late_rise(&series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::judge;
    use crate::analysis::pairs::tests::trial;
    use crate::core::{Bytes, LoadReport, Sample};
    use carat_stats::simulate::{Noise, SeededRng};

    const RSS: &str = "memory.rss.final";

    /// Blocks 1 to 30 of two equal variants, disturbed by `noise` with a spread of 0.4 %.
    fn equal(noise: Noise) -> Vec<Trial> {
        let drawn = noise.draw(60, &mut SeededRng::new(7));
        let value = |i: usize| 70e6 * (1.0 + 0.004 * drawn[i]);
        let one = |i: usize| trial(i as u32 / 2 + 1, ["a", "b"][i % 2], &[(RSS, value(i))]);
        (0..60).map(one).collect()
    }

    fn warnings(trials: &[Trial]) -> Vec<Warning> {
        judge(&Question::new(&["a", "b"], RSS), trials).warnings
    }

    #[test]
    fn calm_trials_raise_no_doubt() {
        assert_eq!(warnings(&equal(Noise::Normal)), []);
    }

    #[test]
    fn groups_and_drift_are_told() {
        let groups = warnings(&equal(Noise::TwoClusters));
        assert!(groups.iter().any(|w| matches!(w, Warning::TwoGroups { .. })), "{groups:?}");
        let drift = warnings(&equal(Noise::Drift));
        assert!(drift.iter().any(|w| matches!(w, Warning::Drift { .. })), "{drift:?}");
    }

    #[test]
    fn a_few_huge_trials_make_mean_and_typical_differ() {
        let mut trials = equal(Noise::Normal);
        for huge in trials.iter_mut().filter(|t| t.variant == "b").step_by(10) {
            huge.metrics.insert(RSS.to_owned(), 300e6);
        }
        let told = warnings(&trials);
        assert!(told.iter().any(|w| matches!(w, Warning::ShapesDiffer { .. })), "{told:?}");
    }

    #[test]
    fn failures_of_one_variant_are_told() {
        let mut trials = equal(Noise::Normal);
        for killed in trials.iter_mut().filter(|t| t.variant == "b").step_by(4) {
            killed.outcome = Outcome::OomKilled;
        }
        let told = warnings(&trials);
        let is = |w: &Warning| {
            matches!(w, Warning::FailsDifferently { of_variant: (8, 30), of_baseline: (0, 30), .. })
        };
        assert!(told.iter().any(is), "{told:?}");
        assert!(told.contains(&Warning::UnfitMachine { dropped: 8, blocks: 30 }));
    }

    #[test]
    fn memory_that_still_rises_and_few_requests_are_told() {
        let mut trials = equal(Noise::Normal);
        for trial in &mut trials {
            trial.load_window_ms = Some((0, 80));
            trial.samples = (0..=80)
                .map(|at_ms| Sample {
                    at_ms,
                    rss: Some(Bytes(100_000_000 + at_ms * 1_000_000)),
                    ..Sample::default()
                })
                .collect();
            trial.load = Some(LoadReport { completed: 50, ..LoadReport::default() });
        }
        let mut question = Question::new(&["a", "b"], RSS);
        question.guards.push(("latency.p99".to_owned(), 0.1));
        let told = judge(&question, &trials).warnings;
        assert!(told.iter().any(|w| matches!(w, Warning::StillRising { .. })), "{told:?}");
        let few =
            |w: &Warning| matches!(w, Warning::FewRequests { requests: 50, needed: 1000, .. });
        assert!(told.iter().any(few), "{told:?}");
    }
}
