//! The report of a load of jobs in a database.

use crate::health::{Findings, GeneratorFacts, RunFacts, own_cost};
use crate::sql_queue::counts::SqlQueueCounts;
use carat_model::LoadTotals;
use carat_model::load::{JobsReport, LoadReport, Pace, RouteFailure, Severity, SqlQueueLoad};
use carat_model::metric;

/// Failures that a finding names; the report lists more.
const IN_A_FINDING: usize = 3;

/// The report from what the load counted.
pub(super) fn report(load: &SqlQueueLoad, counts: &SqlQueueCounts, run: &RunFacts) -> LoadReport {
    let window = counts.first.zip(counts.last);
    let seconds = window.map_or(0.0, |(first, last)| last.since(first) as f64 / 1e9);
    let completed = counts.ended.saturating_sub(counts.failures.count);
    let errors = counts.inserted.saturating_sub(completed);
    let totals = LoadTotals {
        completed,
        expected: counts.inserted,
        unanswered: counts.inserted.saturating_sub(counts.ended),
        seconds,
        latency: &|quantile| counts.latency.quantile(quantile),
        steps: &[],
    };
    let unfinished = counts.inserted.saturating_sub(counts.ended);
    let failures = counts.failures.list(&load.class, unfinished);
    LoadReport {
        completed,
        errors,
        seconds,
        window_ms: window.map(|(first, last)| (first.millis(), last.millis())),
        latency_hdr: counts.latency.encode(),
        errors_by: failures.iter().map(|failure| (failure.kind.clone(), failure.count)).collect(),
        metrics: metric::of_load(&totals),
        own: own_cost(&counts.cost, run.rss_peak),
        jobs: Some(JobsReport { queued: counts.queued.times(), ..JobsReport::default() }),
        flags: findings(load, counts, &failures, (seconds, run)).list(),
        failures,
        ..LoadReport::default()
    }
}

fn findings(
    load: &SqlQueueLoad,
    counts: &SqlQueueCounts,
    failures: &[RouteFailure],
    (seconds, run): (f64, &RunFacts),
) -> Findings {
    let mut findings = Findings::with_limit(load.options.errors);
    let named = failures.iter().take(IN_A_FINDING).map(RouteFailure::summary);
    let named = named.collect::<Vec<_>>().join(", ");
    let completed = counts.ended.saturating_sub(counts.failures.count);
    let errors = counts.inserted.saturating_sub(completed);
    if let Some(problem) = &counts.problem {
        findings.add("database", Severity::Fatal, problem.clone());
    } else if completed == 0 {
        let message = format!(
            "no job ended without a failure ({named}): check whether workers take jobs of the queue `{}`, and their log",
            load.queue
        );
        findings.add("nothing-completed", Severity::Fatal, message);
    } else {
        let message = format!(
            "jobs failed or did not end ({named}): look at the workers' log; a job that lasts longer needs a longer `timeout`"
        );
        findings.share("errors", errors, counts.inserted, &message);
    }
    if let Pace::Open { per_second, .. } = load.pace
        && let Some((first, last)) = counts.first.zip(counts.last_send)
        && let Some(pace) = counts.due_span.pace(last.since(first) as f64 / 1e9)
    {
        findings.rate(per_second, pace);
    }
    let (cost, median) = (&counts.cost, counts.latency.quantile(0.5));
    findings.generator(&GeneratorFacts { cost, seconds, median, run });
    findings
}
