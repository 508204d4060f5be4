//! A whole cable load, and one report from what it counted.

use crate::core::load::{CableLoad, LoadReport, Pace, Severity, StepReport};
use crate::core::metric;
use crate::core::observations::LoadTotals;
use crate::load::cable::engine::{BUFFER, Engine};
use crate::load::cable::merge::merge;
use crate::load::cable::shards::{Shard, Shards};
use crate::load::cable::steps::Steps;
use crate::load::cable::tally::{Tally, list};
use crate::load::descriptors::raise_descriptors;
use crate::load::error::LoadError;
use crate::load::health::{Findings, GeneratorFacts, own_cost};
use crate::load::meter::{read_listen_overflows, read_rss_peak};
use crate::load::progress::ProgressCounters;
use crate::load::stream::Dialer;
use crate::load::target::resolve;
use std::collections::BTreeMap;
use std::path::Path;
use std::thread;

/// Default microseconds between two wake-ups.
const QUANTUM_US: u32 = 1_000;

/// Drives the load, one thread per counters.
///
/// # Errors
/// Where the server cannot be addressed or the kernel has no room for the connections.
pub(crate) fn run(
    load: &CableLoad,
    counters: &[ProgressCounters],
) -> Result<LoadReport, LoadError> {
    let proc_root = Path::new("/proc");
    // Every thread has its poller and what wakes it.
    let threads = 2 * u64::from(load.threads());
    raise_descriptors(u64::from(load.steps) * u64::from(load.step_size) + threads)?;
    let dialer = Dialer::new(resolve(&load.url)?, &load.options)?;
    let dropped = read_listen_overflows(proc_root);
    let shards = Shards::new(counters.len() as u32).map_err(LoadError::Kernel)?;
    let tallies: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(counters)
            .map(|(index, counters)| {
                let (shard, dialer) = (Shard { shards: &shards, index }, &dialer);
                scope.spawn(move || {
                    let engine = Engine::new(load, dialer, counters, shard);
                    let engine = engine.inspect_err(|_| shard.shards.abandon(index));
                    engine.and_then(|engine| Steps::new(engine, quantum(load)).run())
                })
            })
            .collect();
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let mut parts = Vec::new();
    for one in tallies {
        parts.push(one.map_err(|_| LoadError::Panicked)?.map_err(LoadError::Kernel)?);
    }
    let mut tally = merge(parts);
    tally.given_up = shards.given_up();
    let drops = read_listen_overflows(proc_root)
        .zip(dropped)
        .map(|(after, before)| after.saturating_sub(before));
    Ok(report(load, tally, drops, read_rss_peak(proc_root)))
}

fn quantum(load: &CableLoad) -> u64 {
    u64::from(load.options.quantum_us.unwrap_or(QUANTUM_US)) * 1_000
}

fn report(load: &CableLoad, tally: Tally, drops: Option<u64>, rss_peak: Option<u64>) -> LoadReport {
    let sum = |of: fn(&StepReport) -> u64| tally.steps.iter().map(of).sum::<u64>();
    let (expected, received) = (sum(|step| step.expected), sum(|step| step.received));
    let millis = sum(|step| step.window_ms.1 - step.window_ms.0);
    let seconds = millis as f64 / 1e3;
    let window = tally.steps.first().zip(tally.steps.last());
    let totals = LoadTotals {
        completed: tally.delivery.count(),
        expected,
        seconds,
        latency: &|quantile| tally.delivery.quantile(quantile),
        steps: &tally.steps,
    };
    LoadReport {
        completed: received,
        errors: expected - received,
        seconds,
        window_ms: window.map(|(first, last)| (first.window_ms.0, last.window_ms.1)),
        latency_hdr: tally.delivery.encode(),
        service_hdr: None,
        errors_by: tally.disconnects.iter().chain(&tally.refused).fold(
            BTreeMap::new(),
            |mut all, (reason, count)| {
                *all.entry(reason.clone()).or_default() += count;
                all
            },
        ),
        metrics: metric::of_load(&totals),
        own: own_cost(&tally.own, rss_peak),
        flags: findings(load, &tally, seconds, drops).list(),
        steps: tally.steps,
    }
}

fn findings(load: &CableLoad, tally: &Tally, seconds: f64, syn_drops: Option<u64>) -> Findings {
    let mut findings = Findings::default();
    connection_findings(load, tally, &mut findings);
    delivery_findings(tally, &mut findings);
    if let Pace::Open { per_second, .. } = load.pace
        && let Some(worst) = tally.rates.iter().copied().min_by(f64::total_cmp)
    {
        findings.rate(per_second, worst);
    }
    if tally.own.backlog_max >= BUFFER as u64 {
        let message = format!(
            "a read brought {BUFFER} bytes or more at once: the server's queues grew because the generator did not drain them"
        );
        findings.add("recv-backlog", Severity::Warning, message);
    }
    let quantum = quantum(load) as f64 / 1e9;
    let own = &tally.own;
    let median = tally.delivery.quantile(0.5);
    let threads = load.threads();
    findings.own(&GeneratorFacts { own, seconds, threads, quantum, median, syn_drops });
    findings
}

fn connection_findings(load: &CableLoad, tally: &Tally, findings: &mut Findings) {
    if let Some(problem) = &tally.tls {
        findings.add("tls", Severity::Fatal, problem.clone());
    } else if let Some((ready, asked)) = tally.not_ready {
        let why = if tally.refused.is_empty() && tally.disconnects.is_empty() {
            "no answer came in time".to_owned()
        } else {
            list(&tally.refused.iter().chain(&tally.disconnects).map(own_pair).collect())
        };
        let message = format!(
            "only {ready} of {asked} connections were subscribed when a step was to begin ({why}): look at the channel's name and at the server's log, or raise `ready_within`"
        );
        findings.add("not-all-ready", Severity::Fatal, message);
    } else if !tally.disconnects.is_empty() {
        let lost = tally.disconnects.values().sum();
        let asked = u64::from(load.steps) * u64::from(load.step_size);
        let message = format!("connections were lost ({})", list(&tally.disconnects));
        findings.share("disconnects", lost, asked, &message);
    }
    if tally.asked_again > 0 {
        let message = format!(
            "{} times a subscription was asked for again after half a second without an answer, as browsers do: the server is slow to confirm",
            tally.asked_again
        );
        findings.add("asked-again", Severity::Info, message);
    }
    if tally.ping_gaps > 0 {
        let message = format!(
            "{} times a connection heard nothing for {} s, when a browser would have come back: the server is overloaded or sends no pings",
            tally.ping_gaps, load.stale_s
        );
        findings.add("ping-gap", Severity::Warning, message);
    }
}

fn own_pair((reason, count): (&String, &u64)) -> (String, u64) {
    (reason.clone(), *count)
}

fn delivery_findings(tally: &Tally, findings: &mut Findings) {
    let expected: u64 = tally.steps.iter().map(|step| step.expected).sum();
    let missing: u64 = tally.steps.iter().map(|step| step.missing).sum();
    let began = !tally.steps.is_empty();
    if began && tally.delivery.count() == 0 {
        let message =
            "no broadcast reached anybody: look at the channel's `action` and at the server's log";
        findings.add("nothing-published", Severity::Fatal, message.to_owned());
    } else {
        let missing = missing.saturating_sub(tally.lost);
        findings.share("missing", missing, expected, "deliveries never came");
        if tally.given_up > 0 && missing == 0 {
            let message =
                "the senders' results never came: say `result = \"\"` where the channel sends none";
            findings.share("missing-results", tally.given_up, tally.given_up, message);
        }
    }
    findings.share("duplicate", tally.duplicate, expected, "deliveries came twice");
    findings.share("late-deliveries", tally.late, expected, "deliveries came after their step");
    if tally.altered > 0 {
        let message = format!("{} deliveries had another payload than was sent", tally.altered);
        findings.add("payload-mismatch", Severity::Fatal, message);
    }
    if tally.malformed > 0 {
        let message = format!(
            "{} messages were no JSON object or no frame that a server may send",
            tally.malformed
        );
        findings.add("malformed", Severity::Fatal, message);
    }
}
