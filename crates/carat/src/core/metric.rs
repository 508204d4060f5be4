//! The registry of metrics. A row holds everything that is known about one metric; to add a metric, add a row.

use crate::core::load::StepReport;
use crate::core::observations::{LoadTotals, Observations, amount};
use crate::core::units::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The direction that users prefer. It selects the words of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Smaller is better.
    Lower,
    /// Larger is better.
    Higher,
}

/// One row of the registry.
#[derive(Debug)]
pub struct Metric {
    /// Name in files, SQL, JSON and reports.
    pub id: &'static str,
    /// Unit of the values.
    pub unit: Unit,
    /// Which direction is better.
    pub better: Better,
    /// Definition in one sentence without a full stop.
    pub what: &'static str,
    /// Name in a sentence, fit to follow "its" or "less".
    pub phrase: &'static str,
    /// Responses a trial needs for the value to be known at all.
    pub least: u64,
    /// Responses below which the value is reported with a warning.
    pub enough: u64,
    /// Where the value comes from.
    pub(crate) source: MetricSource,
}

/// Where the value of a metric comes from. A reading function returns `None` for what is unknown.
#[derive(Debug)]
pub(crate) enum MetricSource {
    /// The trial itself.
    Trial(fn(&Observations) -> Option<f64>),
    /// A quantile of the latency of the load; 1 is the maximum.
    Latency(f64),
    /// The load as a whole.
    Load(fn(&LoadTotals<'_>) -> Option<f64>),
    /// The last step of the load, the one with all connections.
    Step(fn(&StepReport) -> Option<f64>),
    /// The geometric mean of another metric over all steps of the load.
    OverSteps(&'static Metric),
}

/// A percentile is unknown where fewer values than this lie beyond it.
pub(crate) const BEYOND: u64 = 10;

macro_rules! registry {
    ($($name:ident = $row:expr;)*) => {
        $(pub(crate) static $name: Metric = $row;)*
        /// Every metric, in the order of reports.
        pub static METRICS: &[&Metric] = &[$(&$name),*];
    };
}

registry! {
    MEMORY_RSS_FINAL = Metric {
        id: "memory.rss.final",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "resident memory of the one server process after the last request",
        phrase: "memory",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.last.as_ref()?.rss)),
    };
    MEMORY_PSS_FINAL = Metric {
        id: "memory.pss.final",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "proportional memory of the whole process tree after the last request",
        phrase: "memory",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.last.as_ref()?.pss)),
    };
    MEMORY_PSS_LATE = Metric {
        id: "memory.pss.late",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "median proportional memory of the tree over the last quarter of the load",
        phrase: "memory late in the load",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| trial.late(|sample| sample.pss)),
    };
    MEMORY_RSS_LATE = Metric {
        id: "memory.rss.late",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "median resident memory of the one server process over the last quarter of the load",
        phrase: "memory late in the load",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| trial.late(|sample| sample.rss)),
    };
    MEMORY_USS_FINAL = Metric {
        id: "memory.uss.final",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "memory that only this tree's processes hold privately, after the last request",
        phrase: "private memory",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.last.as_ref()?.uss)),
    };
    MEMORY_PSS_PEAK = Metric {
        id: "memory.pss.peak",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "highest proportional memory of the tree that was sampled",
        phrase: "peak memory",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.pss_peak())),
    };
    MEMORY_RSS_PEAK = Metric {
        id: "memory.rss.peak",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "highest resident memory of the one server process, as the kernel recorded it",
        phrase: "peak memory",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.last.as_ref()?.rss_peak)),
    };
    MEMORY_PSS_READY = Metric {
        id: "memory.pss.ready",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "proportional memory of the tree when ready, before any load",
        phrase: "memory before any load",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.ready.as_ref()?.pss)),
    };
    MEMORY_RSS_READY = Metric {
        id: "memory.rss.ready",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "resident memory of the one server process when ready, before any load",
        phrase: "memory before any load",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.ready.as_ref()?.rss)),
    };
    MEMORY_SHARED_FINAL = Metric {
        id: "memory.shared.final",
        unit: Unit::Bytes,
        better: Better::Higher,
        what: "memory of the tree that is shared with another process, after the last request",
        phrase: "shared memory",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(trial.last.as_ref()?.shared)),
    };
    MEMORY_SYSTEM_FINAL = Metric {
        id: "memory.system.final",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "fall of the machine's available memory since before the server started",
        phrase: "system memory",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(Observations::available_fall),
    };
    MEMORY_PER_INSTANCE = Metric {
        id: "memory.per_instance",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "proportional memory of the tree after the last request, divided by the processes that serve: the Ruby processes whose parent is a Ruby of the tree, or all of them where none has such a parent; the memory of a master is thus spread over its workers",
        phrase: "memory per instance",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(Observations::pss_per_instance),
    };
    LATENCY_P50 = Metric {
        id: "latency.p50",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "median time from the intended send to the whole response",
        phrase: "median latency",
        least: 0,
        enough: 0,
        source: MetricSource::Latency(0.5),
    };
    LATENCY_P95 = Metric {
        id: "latency.p95",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "95th percentile of the time from the intended send to the whole response",
        phrase: "p95 latency",
        least: 0,
        enough: 200,
        source: MetricSource::Latency(0.95),
    };
    LATENCY_P99 = Metric {
        id: "latency.p99",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "99th percentile of the time from the intended send to the whole response",
        phrase: "p99 latency",
        least: 100 * BEYOND,
        enough: 100 * BEYOND,
        source: MetricSource::Latency(0.99),
    };
    LATENCY_P99_9 = Metric {
        id: "latency.p99.9",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "99.9th percentile of the time from the intended send to the whole response",
        phrase: "p99.9 latency",
        least: 1_000 * BEYOND,
        enough: 1_000 * BEYOND,
        source: MetricSource::Latency(0.999),
    };
    LATENCY_MAX = Metric {
        id: "latency.max",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "longest time from the intended send to the whole response",
        phrase: "longest latency",
        least: 0,
        enough: 0,
        source: MetricSource::Latency(1.0),
    };
    BROADCAST_COMPLETE_P50 = Metric {
        id: "broadcast.complete.p50",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "median time until every subscriber has a broadcast",
        phrase: "median time of a whole broadcast",
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("complete")?.p50)),
    };
    BROADCAST_COMPLETE_P95 = Metric {
        id: "broadcast.complete.p95",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "95th percentile of the time until every subscriber has a broadcast",
        phrase: "p95 time of a whole broadcast",
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("complete")?.p95)),
    };
    BROADCAST_COMPLETE_P50_STEPS = Metric {
        id: "broadcast.complete.p50.steps",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "geometric mean over all connection steps of the median time until every subscriber has a broadcast",
        phrase: "median time of a whole broadcast over all steps",
        least: 0,
        enough: 0,
        source: MetricSource::OverSteps(&BROADCAST_COMPLETE_P50),
    };
    BROADCAST_COMPLETE_P95_STEPS = Metric {
        id: "broadcast.complete.p95.steps",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "geometric mean over all connection steps of the 95th percentile of the time until every subscriber has a broadcast",
        phrase: "p95 time of a whole broadcast over all steps",
        least: 0,
        enough: 0,
        source: MetricSource::OverSteps(&BROADCAST_COMPLETE_P95),
    };
    BROADCAST_OWN_P50 = Metric {
        id: "broadcast.own.p50",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "median time until the sender has its own broadcast's result",
        phrase: "median time of the sender's own broadcast",
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("ack")?.p50)),
    };
    BROADCAST_OWN_P95 = Metric {
        id: "broadcast.own.p95",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "95th percentile of the time until the sender has its own broadcast's result",
        phrase: "p95 time of the sender's own broadcast",
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("ack")?.p95)),
    };
    BROADCAST_FIRST_P50 = Metric {
        id: "broadcast.first.p50",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "median time until the first subscriber has a broadcast",
        phrase: "median time to the first subscriber",
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("first")?.p50)),
    };
    BROADCAST_FIRST_P95 = Metric {
        id: "broadcast.first.p95",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "95th percentile of the time until the first subscriber has a broadcast",
        phrase: "p95 time to the first subscriber",
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("first")?.p95)),
    };
    BROADCAST_DELIVERY_P50 = Metric {
        id: "broadcast.delivery.p50",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "median time until a subscriber has a broadcast, over all deliveries",
        phrase: "median delivery time",
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("delivery")?.p50)),
    };
    BROADCAST_DELIVERY_P95 = Metric {
        id: "broadcast.delivery.p95",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "95th percentile of the time until a subscriber has a broadcast, over all deliveries",
        phrase: "p95 delivery time",
        least: 0,
        enough: 0,
        source: MetricSource::Step(|step| Some(step.times.get("delivery")?.p95)),
    };
    THROUGHPUT = Metric {
        id: "throughput",
        unit: Unit::PerSecond,
        better: Better::Higher,
        what: "correct responses or deliveries per second of load",
        phrase: "throughput",
        least: 0,
        enough: 0,
        source: MetricSource::Load(|load| load.throughput()),
    };
    ERRORS = Metric {
        id: "errors",
        unit: Unit::Fraction,
        better: Better::Lower,
        what: "share of requests without a correct response",
        phrase: "error rate",
        least: 0,
        enough: 0,
        source: MetricSource::Load(|load| load.error_share()),
    };
    CPU_SERVER = Metric {
        id: "cpu.server",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "processor time of the server tree during the load",
        phrase: "processor time",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| Some(trial.cpu?.as_secs_f64())),
    };
    BOOT_TIME = Metric {
        id: "boot.time",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "time from exec to ready",
        phrase: "boot time",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| Some(trial.boot?.as_secs_f64())),
    };
    GC_COUNT = Metric {
        id: "gc.count",
        unit: Unit::Count,
        better: Better::Lower,
        what: "collections in the tree during the load",
        phrase: "garbage collections",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| Some(trial.collections[0]? as f64)),
    };
    GC_MAJOR_COUNT = Metric {
        id: "gc.major.count",
        unit: Unit::Count,
        better: Better::Lower,
        what: "full collections in the tree during the load",
        phrase: "full garbage collections",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| Some(trial.collections[1]? as f64)),
    };
    GC_TIME = Metric {
        id: "gc.time",
        unit: Unit::Seconds,
        better: Better::Lower,
        what: "time spent collecting in the tree during the load",
        phrase: "time in garbage collection",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| Some(trial.collections[2]? as f64 / 1e9)),
    };
    HEAP_SLOTS_FREE = Metric {
        id: "heap.slots.free",
        unit: Unit::Fraction,
        better: Better::Lower,
        what: "share of the slots in Ruby's heap pages that hold no object after the last request, over all pools and all Ruby processes",
        phrase: "share of free slots",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| trial.ledger()?.free_slot_share()),
    };
    HEAP_PAGES_FREE = Metric {
        id: "heap.pages.free",
        unit: Unit::Fraction,
        better: Better::Lower,
        what: "share of Ruby's heap pages that hold no object after the last request, over all Ruby processes",
        phrase: "share of empty heap pages",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| trial.ledger()?.free_page_share()),
    };
    MALLOC_FREE = Metric {
        id: "malloc.free",
        unit: Unit::Bytes,
        better: Better::Lower,
        what: "resident memory that malloc holds free in the Ruby processes of the tree after the last request, proportional; of jemalloc only whole pages count as free",
        phrase: "free memory inside malloc",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(|trial| amount(Some(trial.ledger()?.free_and_all_malloc()?.0))),
    };
    MALLOC_FREE_SHARE = Metric {
        id: "malloc.free.share",
        unit: Unit::Fraction,
        better: Better::Lower,
        what: "share of malloc's resident memory that is free after the last request, over all Ruby processes of the tree",
        phrase: "free share of malloc's memory",
        least: 0,
        enough: 0,
        source: MetricSource::Trial(Observations::free_malloc_share),
    };
}

/// The metric of that id.
pub(crate) fn find(id: &str) -> Option<&'static Metric> {
    METRICS.iter().copied().find(|metric| metric.id == id)
}

/// The name of a metric in a sentence. An unknown id, as an older or newer file may have, stands for itself.
pub(crate) fn phrase(id: &str) -> &str {
    find(id).map_or(id, |metric| metric.phrase)
}

/// The metrics that are quantiles of the latency, the smallest first.
pub(crate) fn latencies() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().copied().filter(|metric| matches!(metric.source, MetricSource::Latency(_)))
}

/// Every metric that is followed over the steps of a load, with its mean over all steps.
pub(crate) fn over_steps() -> impl Iterator<Item = (&'static Metric, &'static Metric)> {
    METRICS.iter().filter_map(|&mean| match mean.source {
        MetricSource::OverSteps(each) => Some((each, mean)),
        _ => None,
    })
}

/// The metrics of a finished trial by id, those of its load included.
pub(crate) fn of_trial(trial: &Observations) -> BTreeMap<String, f64> {
    let load = trial.load.iter().flat_map(|load| load.metrics.clone());
    known(|metric| match metric.source {
        MetricSource::Trial(read) => read(trial),
        _ => None,
    })
    .chain(load)
    .collect()
}

/// The metrics that the generator reports of a load, by id.
pub(crate) fn of_load(load: &LoadTotals<'_>) -> BTreeMap<String, f64> {
    known(|metric| metric.read(load).filter(|_| load.completed >= metric.least)).collect()
}

fn known(read: impl Fn(&Metric) -> Option<f64>) -> impl Iterator<Item = (String, f64)> {
    METRICS.iter().filter_map(move |metric| Some((metric.id.to_owned(), read(metric)?)))
}

impl Metric {
    fn read(&self, load: &LoadTotals<'_>) -> Option<f64> {
        match self.source {
            MetricSource::Trial(_) => None,
            MetricSource::Latency(quantile) => (load.latency)(quantile),
            MetricSource::Load(read) => read(load),
            MetricSource::Step(read) => read(load.steps.last()?),
            MetricSource::OverSteps(metric) => metric.mean_over(load.steps),
        }
    }

    /// The value at one step of a load; `None` for a metric that is not one of steps.
    pub(crate) fn at_step(&self, step: &StepReport) -> Option<f64> {
        match self.source {
            MetricSource::Step(read) => read(step),
            _ => None,
        }
    }

    /// Geometric mean over all steps, so that a step counts by its ratio and not by its size; `None` where one lacks it.
    fn mean_over(&self, steps: &[StepReport]) -> Option<f64> {
        let sum: Option<f64> = steps.iter().map(|step| Some(self.at_step(step)?.ln())).sum();
        sum.filter(|sum| sum.is_finite() && !steps.is_empty())
            .map(|sum| (sum / steps.len() as f64).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ledger::tests::{ruby, tree};
    use crate::core::load::Times;
    use crate::core::memory::Sample;
    use crate::core::units::Bytes;
    use std::path::{Path, PathBuf};

    #[test]
    fn every_metric_has_an_id_and_a_phrase_for_sentences() {
        for (i, one) in METRICS.iter().enumerate() {
            assert!(METRICS[i + 1..].iter().all(|other| other.id != one.id), "{}", one.id);
            assert!(!one.what.is_empty() && !one.what.ends_with('.'), "{}", one.id);
            let first = one.phrase.split(' ').next().unwrap();
            assert!(!["", "of", "in", "the", "a"].contains(&first), "its {}", one.phrase);
            assert!(one.enough >= one.least, "{}", one.id);
        }
    }

    fn sources(folder: &Path) -> Vec<PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).fold(
            Vec::new(),
            |mut all, path| {
                if path.is_dir() {
                    all.extend(sources(&path));
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    all.push(path);
                }
                all
            },
        )
    }

    #[test]
    fn no_other_file_has_the_id_of_a_metric_as_a_literal() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut found = Vec::new();
        for file in sources(&root) {
            let text = std::fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            // `errors` is also a code of the load's findings.
            for metric in METRICS.iter().filter(|metric| metric.id != ERRORS.id) {
                let quoted = [format!("\"{}\"", metric.id), format!("\\\"{}\\\"", metric.id)];
                let exempt = file.ends_with("core/metric.rs") || file.ends_with("tests.rs");
                if !exempt && quoted.iter().any(|id| code.contains(id)) {
                    found.push(format!("{}: {}", file.display(), metric.id));
                }
            }
        }
        assert!(found.is_empty(), "use the row of core/metric.rs instead: {found:#?}");
    }

    #[test]
    fn every_metric_of_the_steps_follows_a_metric_that_a_step_has() {
        let times = Times { p50: 1.0, p95: 2.0, ..Times::default() };
        let names = ["complete", "ack", "first", "delivery"];
        let step = StepReport {
            times: names.map(|name| (name.to_owned(), times.clone())).into(),
            ..StepReport::default()
        };
        for metric in METRICS {
            match metric.source {
                MetricSource::OverSteps(each) => {
                    assert!(each.at_step(&step).is_some(), "{}", metric.id)
                }
                MetricSource::Step(_) => {
                    let expected = if metric.id.ends_with("p50") { 1.0 } else { 2.0 };
                    assert_eq!(metric.at_step(&step), Some(expected), "{}", metric.id);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn a_step_counts_by_its_ratio_and_a_missing_one_makes_the_mean_unknown() {
        let step = |p95: Option<f64>| StepReport {
            times: p95
                .map(|p95| ("complete".to_owned(), Times { p95, ..Times::default() }))
                .into_iter()
                .collect(),
            ..StepReport::default()
        };
        let found = BROADCAST_COMPLETE_P95.mean_over(&[step(Some(0.01)), step(Some(1.0))]).unwrap();
        assert!((found - 0.1).abs() < 1e-12, "{found}");
        assert_eq!(BROADCAST_COMPLETE_P95.mean_over(&[step(Some(0.01)), step(None)]), None);
        assert_eq!(BROADCAST_COMPLETE_P95.mean_over(&[]), None);
    }

    #[test]
    fn a_percentile_with_too_few_responses_beyond_it_is_unknown() {
        let totals = |completed| LoadTotals {
            completed,
            expected: completed,
            seconds: 1.0,
            latency: &|quantile| Some(quantile),
            steps: &[],
        };
        let few = of_load(&totals(999));
        assert_eq!((few.get(LATENCY_P95.id), few.get(LATENCY_P99.id)), (Some(&0.95), None));
        assert_eq!(of_load(&totals(1000))[LATENCY_P99.id], 0.99);
        assert_eq!((few[THROUGHPUT.id], few[ERRORS.id]), (999.0, 0.0));
    }

    fn sample(at_ms: u64, pss: u64) -> Sample {
        Sample { at_ms, processes: 1, pss: Some(Bytes(pss)), ..Sample::default() }
    }

    #[test]
    fn the_late_figure_is_the_median_of_the_last_quarter_and_the_final_sample() {
        let observed = Observations {
            samples: vec![sample(100, 900), sample(800, 30), sample(900, 10), sample(1000, 20)],
            window_ms: Some((0, 1000)),
            last: Some(sample(1200, 40)),
            ..Observations::default()
        };
        assert_eq!(of_trial(&observed)[MEMORY_PSS_LATE.id], 25.0);
        assert_eq!(of_trial(&observed)[MEMORY_PSS_PEAK.id], 900.0);
    }

    #[test]
    fn what_was_not_observed_is_left_out_and_never_zero() {
        assert!(of_trial(&Observations::default()).is_empty());
    }

    #[test]
    fn the_figures_of_a_ledger_are_those_after_the_last_request() {
        let cluster = tree(&[ruby(10, 1), ruby(11, 10), ruby(12, 10)]);
        let last = Sample { ledger: Some(Box::new(cluster)), ..sample(1200, 40) };
        let found = of_trial(&Observations { last: Some(last.clone()), ..Observations::default() });
        assert_eq!(found[MEMORY_PER_INSTANCE.id], 20.0);
        assert_eq!((found[HEAP_SLOTS_FREE.id], found[HEAP_PAGES_FREE.id]), (0.25, 0.1));
        assert_eq!((found[MALLOC_FREE.id], found[MALLOC_FREE_SHARE.id]), (90.0, 0.3));
        let unknown = Sample { pss: None, ledger: Some(Box::default()), ..last };
        let found = of_trial(&Observations { last: Some(unknown), ..Observations::default() });
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn memory_that_others_freed_meanwhile_makes_a_negative_figure_and_no_gap() {
        let available = (Some(Bytes(1)), Some(Bytes(3)));
        let freed = Observations { available, ..Observations::default() };
        assert_eq!(of_trial(&freed)[MEMORY_SYSTEM_FINAL.id], -2.0);
    }
}
