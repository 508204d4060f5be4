//! Finds what could mislead a reader of a judgement. Diagnostics warn and decide nothing.

use crate::outcomes::Outcomes;
use crate::pairs::{Blocks, Dropped, Pairs, value};
use crate::question::{Question, VariantComparison};
use crate::warning::Warning;
use carat_model::memory::tracked_memory;
use carat_model::metric::{self, METRICS};
use carat_model::{Bytes, Conclusion, Outcome, Role, Trial, Unit};
use carat_stats::summary::median;
use carat_stats::{diagnose, summary};

/// Below this exploratory p value a difference of failure rates causes a warning.
const FAILURES_DIFFER: f64 = 0.05;
/// Fewest collections per trial, in the variant or the baseline, for comparing how often Ruby collects.
const ENOUGH_COLLECTIONS: f64 = 20.0;
/// From this factor on, or its inverse, different numbers of collections cause a warning.
const COLLECTS_DIFFERENTLY: f64 = 1.5;
/// Facts of a trial's software that no two trials of a variant should differ in.
const SOFTWARE: [&str; 2] = ["ruby", "system"];
/// Fewest samples within the load for detecting a late rise.
const ENOUGH_SAMPLES: usize = 16;

/// The inputs of all diagnostics.
pub(crate) struct Diagnostics<'a> {
    pub question: &'a Question,
    pub blocks: &'a Blocks<'a>,
    pub outcomes: &'a [Outcomes],
    pub conclusions: &'a [Conclusion],
}

impl Diagnostics<'_> {
    /// The warnings, most serious first.
    pub(crate) fn warnings(&self, dropped: &[Dropped]) -> Vec<Warning> {
        let mut warnings: Vec<Warning> =
            self.outcomes.iter().filter_map(|outcomes| self.failures(outcomes)).collect();
        warnings.extend(self.dropped_blocks(dropped));
        warnings.extend(self.question.variants.iter().filter_map(|one| self.mixed_software(one)));
        // Collections and late rises explain differences of memory, not of time.
        if self.is_about_memory() {
            warnings.extend(self.in_swap());
            warnings.extend(self.late_rises());
            warnings.extend(self.collections());
        }
        for metric in self.question.primaries() {
            if self.blocks.unmeasured(metric) {
                warnings.push(Warning::Unmeasured { metric: metric.to_owned() });
            }
            let variants = &self.question.variants;
            warnings.extend(variants.iter().filter_map(|variant| self.groups(variant, metric)));
            warnings.extend(self.drift(metric));
            for compared in self.question.with_baseline() {
                warnings.extend(self.pairs(compared, metric));
            }
        }
        warnings.extend(self.missing_values());
        warnings.extend(self.few_requests());
        warnings
    }

    /// A trial without a value of a metric that decides drops its block, though it succeeded.
    fn missing_values(&self) -> Vec<Warning> {
        // A missing value decides like a failure: it drops the block for this metric.
        let guards = self.question.guards.iter().map(|(guard, _)| guard.as_str());
        let metrics: Vec<&str> = self.question.primaries().chain(guards).collect();
        let variants = self.question.variants.iter();
        let all = variants.flat_map(|variant| metrics.iter().map(move |metric| (variant, *metric)));
        all.filter_map(|(variant, metric)| {
            let trials = self.valid(variant).count() as u32;
            let known = self.valid(variant).filter(|trial| value(trial, metric).is_some());
            let missing = trials - known.count() as u32;
            (missing > 0 && !self.blocks.unmeasured(metric)).then(|| Warning::MissingValues {
                variant: variant.clone(),
                metric: metric.to_owned(),
                missing: (missing, trials),
            })
        })
        .collect()
    }

    fn failures(&self, outcomes: &Outcomes) -> Option<Warning> {
        let baseline = self.outcomes.first()?;
        let (variant, failed, trials) =
            (outcomes.variant.clone(), outcomes.failed(), outcomes.trials());
        // Before the comparison of rates: a variant that mostly fails has none worth a test.
        if outcomes.fails_too_often() {
            return Some(Warning::Fails { variant, failed, trials });
        }
        let p = outcomes.p.filter(|&p| p < FAILURES_DIFFER)?;
        let of_baseline = (baseline.failed(), baseline.trials());
        Some(Warning::FailsDifferently { variant, of_variant: (failed, trials), of_baseline, p })
    }

    fn dropped_blocks(&self, dropped: &[Dropped]) -> Option<Warning> {
        let mut lost: Vec<u32> = dropped.iter().map(|trial| trial.block).collect();
        lost.dedup();
        let (dropped, blocks) = (lost.len() as u32, self.blocks.count());
        // Up to two are chance, whatever the number of blocks.
        (dropped > 2 && 10 * dropped > blocks)
            .then_some(Warning::TooManyDropped { dropped, blocks })
    }

    /// Half of an experiment on another Ruby is another experiment, and a block that was completed on it pairs both.
    fn mixed_software(&self, variant: &str) -> Option<Warning> {
        SOFTWARE.iter().find_map(|fact| {
            let mut found: Vec<(String, u32)> = Vec::new();
            for value in self.valid(variant).filter_map(|trial| trial.machine.get(*fact)) {
                match found.iter_mut().find(|(known, _)| known == value) {
                    Some((_, trials)) => *trials += 1,
                    None => found.push((value.clone(), 1)),
                }
            }
            let variant = variant.to_owned();
            (found.len() > 1).then_some(Warning::MixedSoftware { variant, found })
        })
    }

    fn is_about_memory(&self) -> bool {
        metric::find(&self.question.primary).is_some_and(|primary| primary.unit == Unit::Bytes)
    }

    /// No figure of memory has what is in swap, so the variant that needs most may look like the smallest.
    fn in_swap(&self) -> Option<Warning> {
        let most = |variant: &String| {
            let swapped =
                self.valid(variant).filter_map(|trial| most_swapped(trial, self.question.margin));
            Some((variant.clone(), swapped.max()?))
        };
        let variants: Vec<_> = self.question.variants.iter().filter_map(most).collect();
        (!variants.is_empty()).then_some(Warning::InSwap { variants })
    }

    /// Where memory still rises when the load ends, a comparison shows progress rather than requirements.
    fn late_rises(&self) -> Option<Warning> {
        let rises = self.question.variants.iter().filter_map(|variant| {
            // The median: one trial that ends in a sweep must not warn.
            let rises: Vec<f64> = self.valid(variant).filter_map(late_rise).collect();
            let rise = median(&rises).filter(|&rise| rise > self.question.margin)?;
            Some((variant.clone(), rise))
        });
        let rises: Vec<(String, f64)> = rises.collect();
        (!rises.is_empty()).then_some(Warning::StillRising { rises })
    }

    /// Garbage is in memory until Ruby collects, so rarer collections alone make a process larger.
    fn collections(&self) -> Option<Warning> {
        let per_trial = |variant: &str| median(&self.values(variant, metric::GC_COUNT.id));
        // Zero collections in the baseline have no ratio.
        let of_baseline = per_trial(self.question.baseline()?).filter(|&count| count > 0.0)?;
        let differs = |&(_, count): &(String, f64)| {
            let (fewer, more) = (count.min(of_baseline), count.max(of_baseline));
            // The smaller number is nearly all noise where both are small.
            more >= ENOUGH_COLLECTIONS && more >= COLLECTS_DIFFERENTLY * fewer
        };
        let compared = self.question.with_baseline().map(|compared| compared.variant);
        let counts = compared.filter_map(|name| Some((name.to_owned(), per_trial(name)?)));
        let variants: Vec<_> = counts.filter(differs).collect();
        (!variants.is_empty()).then_some(Warning::CollectsDifferently { variants, of_baseline })
    }

    fn valid(&self, variant: &str) -> impl Iterator<Item = &Trial> {
        self.blocks
            .trials()
            .filter(move |trial| trial.variant == variant && trial.outcome == Outcome::Ok)
    }

    fn values(&self, variant: &str, metric: &str) -> Vec<f64> {
        self.valid(variant).filter_map(|trial| trial.metrics.get(metric).copied()).collect()
    }

    fn groups(&self, variant: &str, metric: &str) -> Option<Warning> {
        let found = diagnose::clusters(&self.values(variant, metric))?;
        let (low, high) = found.centres;
        let gap = high / low - 1.0;
        // Two groups closer than the margin do not matter, however clear they are.
        (low > 0.0 && gap > self.question.margin).then(|| Warning::TwoGroups {
            variant: variant.to_owned(),
            metric: metric.to_owned(),
            upper: found.upper,
            gap,
        })
    }

    fn drift(&self, metric: &str) -> Option<Warning> {
        let baseline = self.values(self.question.baseline().unwrap_or_default(), metric);
        let level = median(&baseline).filter(|&level| level > 0.0)?;
        let change = diagnose::drift(&baseline)? / level;
        // The same for a trend: below the margin it can mislead nobody.
        (change.abs() > self.question.margin)
            .then(|| Warning::Drift { metric: metric.to_owned(), change })
    }

    fn pairs(&self, compared: VariantComparison, metric: &str) -> Vec<Warning> {
        let (variant, pairs) = (compared.variant, self.blocks.pairs(compared, metric));
        let correlated = diagnose::neighbour_correlation(&pairs.known()).map(|correlation| {
            let (variant, metric) = (variant.to_owned(), metric.to_owned());
            Warning::NeighboursAgree { variant, metric, correlation }
        });
        correlated.into_iter().chain(self.mean_differs(variant, metric, &pairs)).collect()
    }

    /// Warns where mean and typical pair differ by more than half the width of the interval.
    fn mean_differs(&self, variant: &str, metric: &str, pairs: &Pairs) -> Option<Warning> {
        let conclusion = self.conclusions.iter().find(|conclusion| {
            conclusion.variant == variant
                && conclusion.metric == metric
                && conclusion.role == Role::Primary
        })?;
        // Without a percentage there is none to compare.
        let estimate = conclusion.estimate.filter(|found| !found.in_own_unit)?;
        let known = pairs.known();
        // The pairs of the verdict, not all: later ones are not in its interval.
        let judged = known.get(..conclusion.blocks as usize)?;
        let mean = pairs.as_ratio(judged.iter().sum::<f64>() / judged.len() as f64);
        let half = 0.5 * (estimate.ratio_interval.1 - estimate.ratio_interval.0);
        (mean.is_finite() && (mean - estimate.ratio).abs() > half).then(|| Warning::MeanDiffers {
            variant: variant.to_owned(),
            metric: metric.to_owned(),
            typical: estimate.ratio,
            mean,
        })
    }

    fn few_requests(&self) -> Vec<Warning> {
        let completed = self.blocks.trials().filter(|trial| trial.outcome == Outcome::Ok);
        let fewest = completed.filter_map(|trial| trial.load.as_ref()).map(|l| l.completed).min();
        // The trial with fewest requests has the least reliable percentile.
        let Some(requests) = fewest else { return Vec::new() };
        METRICS
            .iter()
            .rev()
            .filter(|metric| self.question.asks_for(metric.id) && requests < metric.enough)
            .map(|metric| Warning::FewRequests {
                metric: metric.id.to_owned(),
                requests,
                needed: metric.enough,
            })
            .collect()
    }
}

/// Most memory of a trial in swap, where it is more than this share of what is not.
fn most_swapped(trial: &Trial, share: f64) -> Option<Bytes> {
    let memory = tracked_memory(&trial.samples);
    let swapped = trial.samples.iter().filter_map(|sample| {
        let (swap, memory) = (sample.swap?, memory(sample)?);
        (swap.0 as f64 > share * memory.0 as f64).then_some(swap)
    });
    swapped.max()
}

/// The rise of the memory of one trial at the end of its load, as a share.
fn late_rise(trial: &Trial) -> Option<f64> {
    // A command that ends by itself has no load that could go on until its memory levels off.
    trial.load.as_ref()?;
    let (from, to) = trial.load_window_ms?;
    let inside = trial.samples.iter().filter(|s| (from..=to).contains(&s.at_ms));
    let memory = tracked_memory(&trial.samples);
    let series: Vec<(f64, f64)> =
        inside.filter_map(|s| Some((s.at_ms as f64, memory(s)?.0 as f64))).collect();
    // Eighths of a short load are a sample or two.
    if series.len() < ENOUGH_SAMPLES {
        return None;
    }
    summary::late_rise(&series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::judge;
    use crate::pairs::tests::trial;
    use carat_model::{LoadReport, Sample};
    use carat_stats::simulate::{Noise, SeededRng};

    const RSS: &str = "memory.rss.final";

    /// Blocks 1 to 30 of two equal variants, with `noise` of a standard deviation of 0.4 %.
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
    fn trials_without_anomalies_cause_no_warning() {
        assert_eq!(warnings(&equal(Noise::Normal)), []);
    }

    #[test]
    fn groups_and_drift_cause_warnings() {
        let groups = warnings(&equal(Noise::TwoClusters));
        assert!(groups.iter().any(|w| matches!(w, Warning::TwoGroups { .. })), "{groups:?}");
        let drift = warnings(&equal(Noise::Drift));
        assert!(drift.iter().any(|w| matches!(w, Warning::Drift { .. })), "{drift:?}");
    }

    #[test]
    fn trials_of_a_variant_on_two_rubies_cause_a_warning_and_variants_on_one_each_none() {
        let on = |ruby: fn(&Trial) -> &'static str| {
            let mut trials = equal(Noise::Normal);
            for trial in &mut trials {
                let ruby = ruby(trial).to_owned();
                trial.machine =
                    [("ruby".to_owned(), ruby), ("kernel".to_owned(), trial.block.to_string())]
                        .into();
            }
            warnings(&trials)
        };
        assert_eq!(on(|trial| if trial.variant == "a" { "ruby 3.3.5" } else { "ruby 3.4.1" }), []);
        // Stopped within block 5, and gone on with after an upgrade.
        let mixed = on(|trial| match (trial.block, trial.variant.as_str()) {
            (..5, _) | (5, "a") => "ruby 3.3.5",
            _ => "ruby 3.3.8",
        });
        let of = |variant: &str, first| Warning::MixedSoftware {
            variant: variant.to_owned(),
            found: vec![("ruby 3.3.5".to_owned(), first), ("ruby 3.3.8".to_owned(), 30 - first)],
        };
        assert_eq!(mixed, [of("a", 5), of("b", 4)]);
        assert!(mixed[0].to_string().starts_with(
            "a: its trials did not run on the same software (5 on ruby 3.3.5, 25 on ruby 3.3.8), "
        ));
    }

    #[test]
    fn rarer_collections_cause_a_warning_where_there_are_enough() {
        for (of_variant, of_baseline, warns) in
            [(40.0, 100.0, true), (160.0, 100.0, true), (120.0, 100.0, false), (4.0, 10.0, false)]
        {
            let mut trials = equal(Noise::Normal);
            for trial in &mut trials {
                let count = if trial.variant == "a" { of_baseline } else { of_variant };
                trial.metrics.insert("gc.count".to_owned(), count);
            }
            let variants = vec![("b".to_owned(), of_variant)];
            let warning = Warning::CollectsDifferently { variants, of_baseline };
            assert_eq!(warnings(&trials), if warns { vec![warning] } else { vec![] });
        }
    }

    #[test]
    fn a_trial_that_succeeded_without_a_value_of_a_metric_that_decides_is_never_silent() {
        let mut trials = equal(Noise::Normal);
        for trial in trials.iter_mut().filter(|t| t.variant == "b").take(3) {
            trial.metrics.remove(RSS);
        }
        let missing = Warning::MissingValues {
            variant: "b".to_owned(),
            metric: RSS.to_owned(),
            missing: (3, 30),
        };
        assert_eq!(warnings(&trials), [missing]);
    }

    #[test]
    fn a_few_huge_trials_separate_the_mean_from_the_typical_trial() {
        let mut trials = equal(Noise::Normal);
        for huge in trials.iter_mut().filter(|t| t.variant == "b").step_by(10) {
            huge.metrics.insert(RSS.to_owned(), 300e6);
        }
        let warnings = warnings(&trials);
        assert!(warnings.iter().any(|w| matches!(w, Warning::MeanDiffers { .. })), "{warnings:?}");
    }

    #[test]
    fn failures_of_one_variant_cause_a_warning() {
        let mut trials = equal(Noise::Normal);
        for killed in trials.iter_mut().filter(|t| t.variant == "b").step_by(4) {
            killed.outcome = Outcome::OomKilled;
        }
        let warnings = warnings(&trials);
        let is = |w: &Warning| {
            matches!(w, Warning::FailsDifferently { of_variant: (8, 30), of_baseline: (0, 30), .. })
        };
        assert!(warnings.iter().any(is), "{warnings:?}");
        assert!(warnings.contains(&Warning::TooManyDropped { dropped: 8, blocks: 30 }));
    }

    #[test]
    fn memory_in_swap_causes_a_warning_from_the_margin_on() {
        let mut trials = equal(Noise::Normal);
        let one = trials.iter().position(|trial| trial.variant == "b").unwrap();
        let rss = Some(Bytes(100_000_000));
        let mut question = Question::new(&["a", "b"], RSS);
        question.margin = 0.02;
        for (swapped, is_told) in [(0, false), (2_000_000, false), (2_000_001, true)] {
            let swap = Some(Bytes(swapped));
            trials[one].samples =
                vec![Sample { rss, swap, ..Sample::default() }, Sample::default()];
            let told = Warning::InSwap { variants: vec![("b".to_owned(), Bytes(swapped))] };
            let warnings = judge(&question, &trials).warnings;
            assert_eq!(warnings.contains(&told), is_told, "{warnings:?}");
        }
    }

    #[test]
    fn memory_that_still_rises_and_few_requests_cause_warnings() {
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
        let warnings = judge(&question, &trials).warnings;
        assert!(warnings.iter().any(|w| matches!(w, Warning::StillRising { .. })), "{warnings:?}");
        let few =
            |w: &Warning| matches!(w, Warning::FewRequests { requests: 50, needed: 1000, .. });
        assert!(warnings.iter().any(few), "{warnings:?}");
    }
}
