//! The report of an HTTP load.

use crate::health::{Findings, GeneratorFacts, RunFacts, own_cost};
use crate::http::counts::{HttpCounts, RouteCounts};
use crate::http::failures::RequestFailure;
use crate::http::session::HttpShared;
use carat_model::LoadTotals;
use carat_model::load::report::RouteFailure;
use carat_model::load::{HttpLoad, LoadReport, Pace, RouteReport, Severity};
use carat_model::{count, metric};
use std::borrow::Cow;

/// Most kinds of problems that a report describes beside the first; the others are counted only.
const PROBLEMS: usize = 4;

/// What to do if nothing says more.
const CHECK: &str = "check the server's log and the expected status and body";

/// Failures that a finding names; the report lists more.
const IN_A_FINDING: usize = 3;

/// The report from what all threads counted together.
pub(super) fn report(
    load: &HttpLoad,
    shared: &HttpShared,
    counts: &HttpCounts,
    run: &RunFacts,
) -> LoadReport {
    let names = route_names(shared);
    let window = counts.first.zip(counts.last);
    let seconds = window.map_or(0.0, |(first, last)| last.since(first) as f64 / 1e9);
    let totals = LoadTotals {
        completed: counts.completed,
        expected: counts.completed + counts.errors(),
        unanswered: counts.unanswered(),
        seconds,
        latency: &|quantile| counts.latency.quantile(quantile),
        steps: &[],
    };
    LoadReport {
        completed: counts.completed,
        errors: counts.errors(),
        seconds,
        window_ms: window.map(|(first, last)| (first.millis(), last.millis())),
        latency_hdr: counts.latency.encode(),
        service_hdr: counts.service.encode(),
        errors_by: counts.errors_by(),
        failures: failures(shared, &names, counts),
        metrics: metric::of_load(&totals),
        own: own_cost(&counts.cost, run.rss_peak),
        steps: Vec::new(),
        routes: routes(shared, counts),
        jobs: None,
        flags: findings(load, shared, &names, counts, (seconds, run)).list(),
    }
}

/// The routes or steps that were requested, in their order.
fn routes(shared: &HttpShared, counts: &HttpCounts) -> Vec<RouteReport> {
    let rows = counts.routes.iter();
    let all: Vec<RouteReport> = match &shared.scenarios {
        None => {
            let names = shared.requests.rows().iter();
            names.zip(rows).map(|(name, row)| route_report(name.clone(), row)).collect()
        }
        Some(set) => set
            .rows()
            .zip(rows)
            .map(|((scenario, step, route, redirected), row)| RouteReport {
                scenario: Some(scenario.to_owned()),
                step: Some(step),
                redirected,
                ..route_report(route.to_owned(), row)
            })
            .collect(),
    };
    // Routes that were never requested would only be rows of zeros.
    all.into_iter().filter(|row| row.completed + row.errors > 0).collect()
}

/// The most frequent failures; a body never has the values of the environment and the recorded credentials that the load sends.
fn failures(shared: &HttpShared, names: &[String], counts: &HttpCounts) -> Vec<RouteFailure> {
    let mut listed = counts.failed.list(names);
    for failure in &mut listed {
        // A server may echo what it was sent, such as a token in an error page.
        failure.body = failure.body.take().map(|body| shared.without_secrets(body));
    }
    listed
}

/// Method and path of every route or step, by the number under which its requests are counted.
fn route_names(shared: &HttpShared) -> Vec<String> {
    match &shared.scenarios {
        None => shared.requests.rows().to_vec(),
        Some(set) => set.rows().map(|(_, _, route, _)| route.to_owned()).collect(),
    }
}

fn route_report(route: String, row: &RouteCounts) -> RouteReport {
    let (completed, errors) = (row.completed, row.errors);
    RouteReport { route, completed, errors, latency: row.latency.times(), ..RouteReport::default() }
}

/// The problems that were met, each with its number, the most frequent first.
fn problems(counts: &HttpCounts) -> Vec<String> {
    let mut problems: Vec<&(u64, String)> = counts.problems.values().collect();
    problems.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    problems.into_iter().map(|(count, message)| format!("{count} times {message}")).collect()
}

fn findings(
    load: &HttpLoad,
    shared: &HttpShared,
    names: &[String],
    counts: &HttpCounts,
    (seconds, run): (f64, &RunFacts),
) -> Findings {
    let mut findings = Findings::with_limit(load.options.errors);
    let problems = problems(counts);
    // Only if it stopped the load: one failed handshake among many is an error of a request.
    if let Some(problem) = counts.tls.as_ref().filter(|_| counts.gone || counts.completed == 0) {
        findings.add("tls", Severity::Fatal, problem.clone());
    } else if counts.gone {
        let why = unopened(counts, run);
        let why = why.unwrap_or_else(|| ": check whether the server is still running".to_owned());
        let message = format!("no connection could be opened for 3 s{why}");
        findings.add("server-gone", Severity::Fatal, message);
    }
    // Without the bodies: findings are also in reports that are shared.
    let failures = counts.failed.list(names);
    let failures = failures.iter().take(IN_A_FINDING).map(RouteFailure::summary);
    let failures = failures.collect::<Vec<_>>().join(", ");
    if counts.completed == 0 {
        let message = match problems.first() {
            Some(problem) => format!("no correct response was received: {problem}"),
            None if failures.is_empty() => format!("no correct response was received: {CHECK}"),
            None => {
                let advice = advice(counts, run);
                format!("no correct response was received ({failures}): {advice}")
            }
        };
        findings.add("nothing-completed", Severity::Fatal, message);
    } else {
        let first = problems.first().map(|problem| format!("; {problem}"));
        let message =
            format!("requests had no correct response ({failures}){}", first.unwrap_or_default());
        findings.share("errors", counts.errors(), counts.due, &message);
    }
    // The first is in the finding above.
    for problem in problems.iter().skip(1).take(PROBLEMS) {
        findings.add("scenario", Severity::Warning, problem.clone());
    }
    let requested = u64::from(load.connections);
    if counts.connected < requested && !counts.gone {
        let why = unopened(counts, run).unwrap_or_else(|| {
            ", the others had no answer: raise the server's backlog or lower `connections`"
                .to_owned()
        });
        let message = format!(
            "only {} of {requested} connections were open when the load began{why}",
            counts.connected
        );
        findings.add("not-all-ready", Severity::Fatal, message);
    }
    add_redirects(&mut findings, counts);
    add_retried(&mut findings, counts);
    add_pace(&mut findings, load, shared, counts);
    if let Some(note) = shared.requests.note() {
        findings.add("replay", Severity::Info, note.to_owned());
    }
    let (cost, median) = (&counts.cost, counts.latency.quantile(0.5));
    findings.generator(&GeneratorFacts { cost, seconds, median, run });
    findings
}

/// Why most connections that could not be opened were not, and what to do; `None` if none failed.
fn unopened(counts: &HttpCounts, run: &RunFacts) -> Option<String> {
    let (fault, _) = counts.unopened.iter().max_by_key(|(_, count)| **count)?;
    Some(format!(" ({}): {}", fault.words(), fault.advice(run.ports)))
}

/// What to do about the most frequent failure.
fn advice(counts: &HttpCounts, run: &RunFacts) -> Cow<'static, str> {
    match counts.failures.iter().max_by_key(|(_, count)| **count) {
        Some((RequestFailure::Socket(fault), _)) => fault.advice(run.ports),
        _ => CHECK.into(),
    }
}

/// Whether the responses are pages: an application that asks for a login, or for https, answers fast and does no work.
fn add_redirects(findings: &mut Findings, counts: &HttpCounts) {
    let (redirects, all) = (counts.redirects, counts.completed);
    // A site has some; where they are most, the figures are not those of its pages.
    if redirects * 2 > all {
        let share = if redirects == all { "all".to_owned() } else { redirects.to_string() };
        let message = format!(
            "{share} of {} are redirects and not pages, so the figures are those of redirecting: give the path that they lead \
             to, or its status if that is meant",
            count(all, "response")
        );
        findings.add("redirects", Severity::Warning, message);
    }
}

/// Whether requests were sent again because their connection had ended: a server may do that between two requests, and a worker
/// that crashes does it to the request that it works on.
fn add_retried(findings: &mut Findings, counts: &HttpCounts) {
    if counts.retried > 0 {
        let message = format!(
            "{} sent again, and not counted as failed, because the server closed the kept-alive connection without an answer: \
             look in its log for workers that ended",
            count(counts.retried, "request")
        );
        findings.add("retried", Severity::Warning, message);
    }
}

/// Whether the requests of an open load were sent at their times.
fn add_pace(findings: &mut Findings, load: &HttpLoad, shared: &HttpShared, counts: &HttpCounts) {
    let rate = match load.pace {
        Pace::Open { per_second, .. } => Some(per_second),
        Pace::Closed { .. } => None,
    };
    let pace = counts.send_span().and_then(|span| counts.due_span.pace(span));
    if let Some((requested, pace)) = rate.zip(pace) {
        findings.rate(requested, pace);
    }
    // In a closed load a request never waits: it is sent when a connection is free.
    if rate.is_some() || shared.requests.times().is_some() {
        let message = "requests waited for a free connection: raise `connections`";
        findings.backlog(counts.waited, counts.due, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_responses_being_redirects_is_a_finding() {
        for (redirects, said) in
            [(0, None), (2, None), (3, Some("3 of 4 ")), (4, Some("all of 4 "))]
        {
            let mut findings = Findings::with_limit(0.0);
            add_redirects(
                &mut findings,
                &HttpCounts { completed: 4, redirects, ..HttpCounts::default() },
            );
            let found = findings.list().pop().map(|flag| flag.message);
            assert_eq!(found.is_some(), said.is_some(), "{found:?}");
            assert!(said.is_none_or(|said| found.unwrap().starts_with(said)), "{redirects}");
        }
    }
}
