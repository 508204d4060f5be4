//! The report of a load of Sidekiq jobs.

use crate::health::{Findings, GeneratorFacts, RunFacts, own_cost};
use crate::sidekiq::counts::SidekiqCounts;
use crate::sidekiq::watch::EndSeen;
use carat_model::LoadTotals;
use carat_model::load::{JobsReport, LoadReport, Pace, RouteFailure, Severity, SidekiqLoad};
use carat_model::metric;

/// Failures that a finding names; the report lists more.
const IN_A_FINDING: usize = 3;

/// The report from what the load counted.
pub(super) fn report(load: &SidekiqLoad, counts: &SidekiqCounts, run: &RunFacts) -> LoadReport {
    let watch = &counts.watch;
    let window = counts.first.zip(counts.last);
    let seconds = window.map_or(0.0, |(first, last)| last.since(first) as f64 / 1e9);
    let (completed, errors) = (counts.completed(), watch.pushed - counts.completed());
    let totals = LoadTotals {
        completed,
        expected: watch.pushed,
        unanswered: counts.unfinished(),
        seconds,
        latency: &|quantile| watch.latency.quantile(quantile),
        steps: &[],
    };
    let failures = counts.failures.list(&load.class, counts.unfinished());
    let threads = match watch.seen() {
        // By heartbeat the threads that wait are unknown, so those that are registered count.
        EndSeen::ByThreads(threads) => threads,
        EndSeen::ByHeartbeat(_) => counts.registered,
    };
    LoadReport {
        completed,
        errors,
        seconds,
        window_ms: window.map(|(first, last)| (first.millis(), last.millis())),
        latency_hdr: watch.latency.encode(),
        service_hdr: watch.service.encode(),
        errors_by: failures.iter().map(|failure| (failure.kind.clone(), failure.count)).collect(),
        metrics: metric::of_load(&totals),
        own: own_cost(&counts.cost, run.rss_peak),
        steps: Vec::new(),
        routes: Vec::new(),
        jobs: Some(JobsReport {
            queued: watch.queued.times(),
            resolution: watch.gaps.quantile(0.5).zip(watch.gaps.quantile(0.99)),
            threads: Some(threads).filter(|threads| *threads > 0),
        }),
        flags: findings(load, counts, &failures, (seconds, run)).list(),
        failures,
    }
}

fn findings(
    load: &SidekiqLoad,
    counts: &SidekiqCounts,
    failures: &[RouteFailure],
    (seconds, run): (f64, &RunFacts),
) -> Findings {
    let mut findings = Findings::with_limit(load.options.errors);
    let watch = &counts.watch;
    let named = failures.iter().take(IN_A_FINDING).map(RouteFailure::summary);
    let named = named.collect::<Vec<_>>().join(", ");
    if let Some((code, message)) = &counts.problem {
        findings.add(code, Severity::Fatal, message.clone());
    } else if counts.completed() == 0 {
        let message = format!("no job ended without a failure ({named}): {}", advice(counts));
        findings.add("nothing-completed", Severity::Fatal, message);
    } else {
        let message = format!("jobs failed or did not end ({named}): {}", advice(counts));
        findings.share("errors", watch.pushed - counts.completed(), watch.pushed, &message);
    }
    if counts.more_failed {
        let message = "more jobs failed than were read, so their number is a lower limit";
        findings.add("failures-not-read", Severity::Warning, message.to_owned());
    }
    if let EndSeen::ByHeartbeat(_) = watch.seen() {
        let message = format!(
            "fewer than the {} registered threads of Sidekiq wait for jobs in Redis, so the end of jobs is known by Sidekiq's heartbeat only, every 5 or 10 s, and their latency is unknown",
            counts.registered
        );
        findings.add("by-heartbeat", Severity::Warning, message);
    }
    if let Pace::Open { per_second, .. } = load.pace
        && let Some(pace) = counts.send_span().and_then(|span| counts.due_span.pace(span))
    {
        findings.rate(per_second, pace);
    }
    let (cost, median) = (&counts.cost, watch.latency.quantile(0.5));
    findings.generator(&GeneratorFacts { cost, seconds, median, run });
    findings
}

fn advice(counts: &SidekiqCounts) -> &'static str {
    if counts.failures.count > 0 {
        "look at Sidekiq's log and at its dead and retry sets"
    } else {
        "look at Sidekiq's log; a job that lasts longer needs a longer `timeout`"
    }
}
