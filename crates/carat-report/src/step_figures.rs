//! Figures by the number of connections of a cable load: medians over the trials that count.

use crate::facts;
use crate::lists::grouped_in_order;
use crate::mark::Mark;
use crate::table::{Cell, FactTable};
use carat_model::load::StepReport;
use carat_model::metric::{
    BROADCAST_COMPLETE_P50, BROADCAST_COMPLETE_P95, BROADCAST_DELIVERY_P50, BROADCAST_DELIVERY_P95,
    BROADCAST_OWN_P95,
};
use carat_model::{Metric, Results, Sample, Trial, Unit};
use carat_stats::summary::median;

/// The figures at one number of connections. A figure that no trial has is `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StepFigures {
    pub clients: u32,
    /// Seconds until every connection had a broadcast, median and 95th percentile.
    pub complete: [Option<f64>; 2],
    /// Seconds until a connection had a broadcast, median and 95th percentile.
    pub delivery: [Option<f64>; 2],
    /// Seconds until the sender had its own result, 95th percentile.
    pub own: Option<f64>,
    /// Proportional memory of the tree in bytes, in the last sample of the step's broadcasts that has it.
    pub memory: Option<f64>,
}

/// The figures of one variant, fewest connections first; empty without steps.
pub(crate) fn step_figures(results: &Results, variant: &str) -> Vec<StepFigures> {
    let all = facts::counted_trials(results, variant).flat_map(|trial| {
        let steps = trial.load.iter().flat_map(|load| &load.steps);
        steps.map(move |step| (step.clients, (trial, step)))
    });
    let figures = grouped_in_order(all).into_iter().map(|(clients, steps)| {
        let median_of = |metric: &Metric| {
            let values = steps.iter().filter_map(|(_, step)| metric.at_step(step));
            median(&values.collect::<Vec<f64>>())
        };
        let memory = steps.iter().filter_map(|(trial, step)| memory_at(trial, step));
        StepFigures {
            clients,
            complete: [&BROADCAST_COMPLETE_P50, &BROADCAST_COMPLETE_P95].map(median_of),
            delivery: [&BROADCAST_DELIVERY_P50, &BROADCAST_DELIVERY_P95].map(median_of),
            own: median_of(&BROADCAST_OWN_P95),
            memory: median(&memory.collect::<Vec<f64>>()),
        }
    });
    figures.collect()
}

/// A row per variant and number of connections; `None` without steps.
pub(crate) fn step_table(results: &Results) -> Option<FactTable> {
    let variants = results.info.variants.iter();
    let all: Vec<(&str, StepFigures)> = variants
        .flat_map(|one| step_figures(results, &one.name).into_iter().map(|step| (&*one.name, step)))
        .collect();
    // A load whose connections are not followed to the last knows single deliveries only.
    let is_complete = all.iter().any(|(_, step)| step.complete[1].is_some());
    let what = if is_complete { "complete" } else { "delivered" };
    let rows = all.into_iter().map(|(variant, step)| {
        let [median, p95] = if is_complete { step.complete } else { step.delivery };
        vec![
            Cell::text(variant),
            Cell::count(step.clients),
            Cell::amount(Unit::Seconds, median),
            Cell::amount(Unit::Seconds, p95),
            difference(results, variant, step.clients),
            Cell::amount(Unit::Seconds, step.own),
            Cell::amount(Unit::Bytes, step.memory),
        ]
    });
    let table = FactTable::new("Round trips by number of connections")
        .texts(["variant"])
        .numbers(["connections"])
        .page_numbers([format!("{what}, median")])
        .numbers([format!("{what}, p95")])
        .page_numbers(["difference of the p95"])
        .numbers(["sender's own result, p95", "memory"])
        .rows(rows);
    (!table.rows.is_empty()).then_some(table)
}

/// The difference of the p95 at a step, with its interval and verdict.
fn difference(results: &Results, variant: &str, clients: u32) -> Cell {
    let metric = BROADCAST_COMPLETE_P95.id;
    let curve = results.curves.iter().find(|c| c.variant == variant && c.metric == metric);
    let step = curve.and_then(|c| c.steps.iter().find(|step| step.clients == clients));
    let Some((verdict, found)) = step.and_then(|step| Some((step.verdict, step.estimate?))) else {
        return Cell::text("–");
    };
    let cell = Cell::estimate(metric, Some(&found));
    let text = format!("{} {}", Mark::of_verdict(verdict).sign(), cell.text);
    Cell { text, ..cell }
}

fn memory_at(trial: &Trial, step: &StepReport) -> Option<f64> {
    // The steps have the clock of the machine, the samples that of the trial; both have the start of the load.
    let began_ms = trial.load.as_ref()?.window_ms?.0.checked_sub(trial.load_window_ms?.0)?;
    let (from, to) = step.window_ms;
    memory_during(&trial.samples, (from.checked_sub(began_ms)?, to.checked_sub(began_ms)?))
}

/// Proportional memory of the last complete sample within a time that has it.
fn memory_during(samples: &[Sample], (from, to): (u64, u64)) -> Option<f64> {
    // The last one: memory has then seen most of the step's broadcasts.
    let during = samples.iter().rev().filter(|sample| (from..=to).contains(&sample.at_ms));
    let mut complete = during.filter(|sample| !sample.partial);
    complete.find_map(|sample| Some(sample.pss?.0 as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::Bytes;

    #[test]
    fn the_memory_of_a_step_is_that_of_its_last_complete_sample() {
        let sample = |at_ms: u64, pss: Option<u64>, partial: bool| Sample {
            at_ms,
            pss: pss.map(Bytes),
            partial,
            ..Sample::default()
        };
        let samples = [
            sample(900, Some(1), false),
            sample(1100, Some(2), false),
            sample(1200, None, false),
            sample(1300, Some(3), true),
            sample(2100, Some(4), false),
        ];
        assert_eq!(memory_during(&samples, (1000, 2000)), Some(2.0));
        assert_eq!(memory_during(&samples, (1150, 2000)), None);
    }
}
