//! What a metric is, and how its value is read of a trial.

use super::{
    Better, CPU_MERGING, GC_TIME, MALLOC_FREE, MEMORY_SYSTEM_FINAL, METRICS, MetricMoment,
};
use crate::load::StepReport;
use crate::observations::{LoadTotals, Observations};
use crate::units::Unit;
use std::collections::BTreeMap;

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
    /// Name in a sentence, fit to follow "its" or "less"; the moment follows it.
    pub phrase: &'static str,
    /// When a trial has the value; `None` for a figure of the whole load, such as a latency.
    pub moment: Option<MetricMoment>,
    /// Responses a trial needs for the value to be known at all.
    pub least: u64,
    /// Responses below which the value is reported with a warning.
    pub enough: u64,
    /// Where the value comes from.
    pub source: MetricSource,
}

/// Where the value of a metric comes from. A reading function returns `None` for what is unknown.
#[derive(Debug)]
pub enum MetricSource {
    /// A trial whose server waits for requests.
    Trial(fn(&Observations) -> Option<f64>),
    /// Any trial: a command that ends by itself has it too.
    AnyTrial(fn(&Observations) -> Option<f64>),
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
pub const BEYOND: u64 = 10;

/// The metrics of a command that ends by itself. Whatever is read of a process that waits for requests is unknown of it.
pub fn of_runs() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().copied().filter(|metric| metric.is_of_runs())
}

pub fn find(id: &str) -> Option<&'static Metric> {
    METRICS.iter().copied().find(|metric| metric.id == id)
}

/// The name of a metric in a sentence, with its moment. An unknown id, as an older or newer file may have, stands for itself.
pub fn phrase(id: &str) -> String {
    let Some(metric) = find(id) else { return id.to_owned() };
    match metric.moment {
        Some(moment) => format!("{} {}", metric.phrase, moment.words()),
        None => metric.phrase.to_owned(),
    }
}

/// The metrics that are quantiles of the latency, the smallest first.
pub fn latencies() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().copied().filter(|metric| matches!(metric.source, MetricSource::Latency(_)))
}

/// Why no trial can have this value; `None` if one can. A file of somebody else may hold any number.
pub fn impossible(id: &str, value: f64) -> Option<String> {
    // What a system has less of memory may be negative, because others free memory meanwhile.
    let may_be_negative = find(id).is_none() || id == MEMORY_SYSTEM_FINAL.id;
    match value {
        value if !value.is_finite() => Some(format!("{id} is no finite number")),
        value if value < 0.0 && !may_be_negative => Some(format!("{id} is {value}, below zero")),
        _ => None,
    }
}

/// Every metric that is followed over the steps of a load, with its mean over all steps.
pub fn over_steps() -> impl Iterator<Item = (&'static Metric, &'static Metric)> {
    METRICS.iter().filter_map(|&mean| match mean.source {
        MetricSource::OverSteps(each) => Some((each, mean)),
        _ => None,
    })
}

/// The metrics of a finished trial by id, those of its load included.
pub fn of_trial(trial: &Observations) -> BTreeMap<String, f64> {
    let load = trial.load.iter().flat_map(|load| load.metrics.clone());
    known(|metric| match metric.source {
        MetricSource::Trial(read) | MetricSource::AnyTrial(read) => read(trial),
        _ => None,
    })
    .chain(load)
    .collect()
}

/// The metrics that the generator reports of a load, by id.
pub fn of_load(load: &LoadTotals<'_>) -> BTreeMap<String, f64> {
    known(|metric| metric.read(load).filter(|_| load.completed >= metric.least)).collect()
}

fn known(read: impl Fn(&Metric) -> Option<f64>) -> impl Iterator<Item = (String, f64)> {
    METRICS.iter().filter_map(move |metric| Some((metric.id.to_owned(), read(metric)?)))
}

impl Metric {
    /// Whether a command that ends by itself has this metric.
    pub fn is_of_runs(&self) -> bool {
        matches!(self.source, MetricSource::AnyTrial(_))
    }

    /// Whether a measured value can be zero or below, so that two values may have no ratio.
    pub fn can_be_zero(&self) -> bool {
        self.unit == Unit::Count
            || [&MEMORY_SYSTEM_FINAL, &CPU_MERGING, &GC_TIME, &MALLOC_FREE]
                .iter()
                .any(|one| one.id == self.id)
    }

    /// Whether only carat's own load generator measures it.
    pub fn is_of_generator(&self) -> bool {
        matches!(
            self.source,
            MetricSource::Latency(_) | MetricSource::Step(_) | MetricSource::OverSteps(_)
        )
    }

    fn read(&self, load: &LoadTotals<'_>) -> Option<f64> {
        match self.source {
            MetricSource::Trial(_) | MetricSource::AnyTrial(_) => None,
            MetricSource::Latency(quantile) => load.latency_at(quantile),
            MetricSource::Load(read) => read(load),
            MetricSource::Step(read) => read(load.steps.last()?),
            MetricSource::OverSteps(metric) => metric.mean_over(load.steps),
        }
    }

    /// The value at one step of a load; `None` for a metric that is not one of steps.
    pub fn at_step(&self, step: &StepReport) -> Option<f64> {
        match self.source {
            MetricSource::Step(read) => read(step),
            _ => None,
        }
    }

    /// Geometric mean over all steps, so that a step counts by its ratio and not by its size; `None` where one lacks it.
    pub(super) fn mean_over(&self, steps: &[StepReport]) -> Option<f64> {
        let sum: Option<f64> = steps.iter().map(|step| Some(self.at_step(step)?.ln())).sum();
        sum.filter(|sum| sum.is_finite() && !steps.is_empty())
            .map(|sum| (sum / steps.len() as f64).exp())
    }
}
