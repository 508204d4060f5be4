//! The report of an HTTP load.

use crate::core::load::{HttpLoad, LoadReport, Pace, Severity};
use crate::core::metric;
use crate::core::observations::LoadTotals;
use crate::load::health::{Findings, GeneratorFacts, RunFacts, own_cost};
use crate::load::http::counts::HttpCounts;

/// The report from what all threads counted together.
pub(crate) fn report(load: &HttpLoad, counts: &HttpCounts, run: &RunFacts) -> LoadReport {
    let window = counts.first.zip(counts.last);
    let seconds = window.map_or(0.0, |(first, last)| last.since(first) as f64 / 1e9);
    let totals = LoadTotals {
        completed: counts.completed,
        expected: counts.completed + counts.errors(),
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
        metrics: metric::of_load(&totals),
        own: own_cost(&counts.cost, run.rss_peak),
        steps: Vec::new(),
        flags: findings(load, counts, seconds, run).list(),
    }
}

fn findings(load: &HttpLoad, counts: &HttpCounts, seconds: f64, run: &RunFacts) -> Findings {
    let mut findings = Findings::default();
    if let Some(problem) = counts.tls.as_ref().filter(|_| counts.gone || counts.completed == 0) {
        findings.add("tls", Severity::Fatal, problem.clone());
    } else if counts.gone {
        let message =
            "no connection could be opened for 3 s: check whether the server is still running";
        findings.add("server-gone", Severity::Fatal, message.to_owned());
    }
    if counts.completed == 0 {
        let message = "no correct response was received: check the server's log and the expected status and body";
        findings.add("nothing-completed", Severity::Fatal, message.to_owned());
    } else {
        let kinds = counts.errors_by().into_iter().map(|(kind, count)| format!("{kind} {count}"));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        let message = format!("requests had no correct response ({kinds})");
        findings.share("errors", counts.errors(), counts.due, &message);
    }
    let requested = u64::from(load.connections);
    if counts.connected < requested && !counts.gone {
        let message = format!(
            "only {} of {requested} connections were open when the load began: raise the server's backlog or lower `connections`",
            counts.connected
        );
        findings.add("not-all-ready", Severity::Fatal, message);
    }
    if let Pace::Open { per_second, .. } = load.pace
        && let Some(span) = counts.send_span()
    {
        findings.rate(per_second, counts.due.saturating_sub(1) as f64 / span);
        let message = "requests waited for a free connection: raise `connections`";
        findings.backlog(counts.waited, counts.due, message);
    }
    let (cost, median) = (&counts.cost, counts.latency.quantile(0.5));
    findings.generator(&GeneratorFacts { cost, seconds, median, run });
    findings
}
