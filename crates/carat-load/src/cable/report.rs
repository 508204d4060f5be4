//! The report of a cable load.

use crate::cable::counts::CableCounts;
use crate::health::{Findings, GeneratorFacts, RunFacts, own_cost};
use crate::reactor::READ_BUFFER;
use carat_model::LoadTotals;
use carat_model::load::{CableLoad, LoadReport, Pace, Severity, StepReport};
use carat_model::metric;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The report from what all threads counted together.
pub(super) fn report(load: &CableLoad, counts: CableCounts, run: &RunFacts) -> LoadReport {
    let (expected, received) =
        (sum(&counts, |step| step.expected), sum(&counts, |step| step.received));
    let seconds = sum(&counts, |step| step.window_ms.1 - step.window_ms.0) as f64 / 1e3;
    let window = counts.steps.first().zip(counts.steps.last());
    let totals = LoadTotals {
        completed: counts.delivery.count(),
        expected,
        unanswered: expected.saturating_sub(received),
        seconds,
        latency: &|quantile| counts.delivery.quantile(quantile),
        steps: &counts.steps,
    };
    LoadReport {
        completed: received,
        errors: expected - received,
        seconds,
        window_ms: window.map(|(first, last)| (first.window_ms.0, last.window_ms.1)),
        latency_hdr: counts.delivery.encode(),
        service_hdr: None,
        errors_by: errors_by(&counts),
        failures: Vec::new(),
        metrics: metric::of_load(&totals),
        own: own_cost(&counts.cost, run.rss_peak),
        routes: Vec::new(),
        jobs: None,
        flags: findings(load, &counts, seconds, run).list(),
        steps: counts.steps,
    }
}

fn sum(counts: &CableCounts, of: fn(&StepReport) -> u64) -> u64 {
    counts.steps.iter().map(of).sum()
}

/// Lost and refused connections by reason.
fn errors_by(counts: &CableCounts) -> BTreeMap<String, u64> {
    let mut all = counts.disconnects.clone();
    for (reason, count) in &counts.refused {
        *all.entry(reason.clone()).or_default() += count;
    }
    all
}

/// Reasons with their counts as they stand in a sentence.
fn list(reasons: &BTreeMap<String, u64>) -> String {
    let each = reasons.iter().map(|(reason, count)| format!("{reason} {count}"));
    each.collect::<Vec<_>>().join(", ")
}

fn findings(load: &CableLoad, counts: &CableCounts, seconds: f64, run: &RunFacts) -> Findings {
    let mut findings = Findings::with_limit(load.options.errors);
    connection_findings(load, counts, run, &mut findings);
    delivery_findings(counts, &mut findings);
    if let Pace::Open { per_second, .. } = load.pace
        && let Some(worst) = counts.paces.iter().copied().min_by(f64::total_cmp)
    {
        findings.rate(per_second, worst);
    }
    // A full read buffer means that more may have been waiting than was read.
    if counts.cost.backlog_max >= READ_BUFFER as u64 {
        let message = format!(
            "at least {READ_BUFFER} bytes were waiting on one connection: the server's queues grew because the generator did not read in time"
        );
        findings.add("recv-backlog", Severity::Warning, message);
    }
    let (cost, median) = (&counts.cost, counts.delivery.quantile(0.5));
    findings.generator(&GeneratorFacts { cost, seconds, median, run });
    findings
}

/// What to do about connections that are missing.
fn advice(counts: &CableCounts, run: &RunFacts) -> Cow<'static, str> {
    if run.server_full.is_some() {
        return "the limit is at the server (`server-files`)".into();
    }
    let most = counts.refused.values().chain(counts.disconnects.values()).max();
    let fault = counts.faults.iter().max_by_key(|(_, count)| **count);
    // Faults of sockets have their own advice, unless a reason of the server is more frequent.
    match fault.filter(|(_, count)| Some(*count) >= most) {
        Some((fault, _)) => fault.advice(run.ports),
        None => "check the channel's name and the server's log, or raise `ready_within`".into(),
    }
}

fn connection_findings(
    load: &CableLoad,
    counts: &CableCounts,
    run: &RunFacts,
    findings: &mut Findings,
) {
    // The cause before its effects: without TLS no connection can be ready.
    if let Some(problem) = &counts.tls {
        findings.add("tls", Severity::Fatal, problem.clone());
    } else if let Some((ready, requested)) = counts.not_ready {
        let reasons = errors_by(counts);
        let why = if reasons.is_empty() { "no answer in time".to_owned() } else { list(&reasons) };
        let message = format!(
            "only {ready} of {requested} connections were subscribed when a step was due to begin ({why}): {}",
            advice(counts, run)
        );
        findings.add("not-all-ready", Severity::Fatal, message);
    } else if !counts.disconnects.is_empty() {
        let lost = counts.disconnects.values().sum();
        let requested = u64::from(load.steps) * u64::from(load.step_size);
        let message = format!("connections were lost ({})", list(&counts.disconnects));
        findings.share("disconnects", lost, requested, &message);
    }
    if counts.asked_again > 0 {
        let message = format!(
            "{} subscription requests were repeated after half a second without an answer, as browsers do: the server is slow to confirm",
            counts.asked_again
        );
        findings.add("asked-again", Severity::Info, message);
    }
    if counts.ping_gaps > 0 {
        let message = format!(
            "{} times a connection received nothing for {} s, after which a browser reconnects: the server is overloaded or sends no pings",
            counts.ping_gaps, load.stale_s
        );
        findings.add("ping-gap", Severity::Warning, message);
    }
}

fn delivery_findings(counts: &CableCounts, findings: &mut Findings) {
    let (expected, missing) = (sum(counts, |step| step.expected), sum(counts, |step| step.missing));
    if !counts.steps.is_empty() && counts.delivery.count() == 0 {
        let message =
            "no broadcast was delivered: check the channel's `action` and the server's log";
        findings.add("nothing-published", Severity::Fatal, message.to_owned());
    } else {
        // What lost connections could not receive is counted as `disconnects`, not twice.
        let missing = missing.saturating_sub(counts.lost);
        findings.share("missing", missing, expected, "deliveries never came");
        // Broadcasts that every connection received were given up for their results alone.
        if counts.given_up > 0 && missing == 0 {
            let message =
                "senders' results never came: set `result = \"\"` if the channel sends none";
            findings.share("missing-results", counts.given_up, counts.given_up, message);
        }
    }
    findings.share("duplicate", counts.duplicate, expected, "deliveries came twice");
    findings.share("late-deliveries", counts.late, expected, "deliveries came after their step");
    if counts.altered > 0 {
        let message =
            format!("{} deliveries had another payload than the one sent", counts.altered);
        findings.add("payload-mismatch", Severity::Fatal, message);
    }
    if counts.malformed > 0 {
        let message = format!(
            "{} messages were not a JSON object or not a frame that a server may send",
            counts.malformed
        );
        findings.add("malformed", Severity::Fatal, message);
    }
}
