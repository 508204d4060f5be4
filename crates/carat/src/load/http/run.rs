//! A whole HTTP load: shares for the threads, and one report from what they counted.

use crate::core::load::{Amount, HttpLoad, LoadReport, Pace, Severity};
use crate::core::metric;
use crate::core::observations::LoadTotals;
use crate::load::budget::{SendPlan, part};
use crate::load::descriptors::raise_descriptors;
use crate::load::error::LoadError;
use crate::load::health::{Findings, GeneratorFacts, own_cost};
use crate::load::http::engine::{Engine, Share};
use crate::load::http::requests::Requests;
use crate::load::http::tally::Tally;
use crate::load::meter::{read_listen_overflows, read_rss_peak};
use crate::load::progress::ProgressCounters;
use crate::load::stream::Dialer;
use crate::load::target::resolve;
use std::path::Path;
use std::thread;

/// Drives the load, one thread per counters.
///
/// # Errors
/// Where the server cannot be addressed or the kernel has no room for the connections.
pub(crate) fn run(load: &HttpLoad, counters: &[ProgressCounters]) -> Result<LoadReport, LoadError> {
    let proc_root = Path::new("/proc");
    raise_descriptors(u64::from(load.connections))?;
    let dialer = Dialer::new(resolve(&load.base)?, &load.options)?;
    let requests = Requests::new(&load.routes, dialer.target());
    let shares = shares(load, counters.len() as u32);
    let dropped = read_listen_overflows(proc_root);
    let tallies: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = shares
            .iter()
            .zip(counters)
            .map(|(share, counters)| {
                let (requests, dialer) = (&requests, &dialer);
                scope.spawn(move || Engine::new(share, requests, dialer, counters)?.run())
            })
            .collect();
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let mut tally = Tally::default();
    for one in tallies {
        tally.merge(&one.map_err(|_| LoadError::Panicked)?.map_err(LoadError::Kernel)?);
    }
    let drops = read_listen_overflows(proc_root)
        .zip(dropped)
        .map(|(after, before)| after.saturating_sub(before));
    Ok(report(load, &tally, drops, read_rss_peak(proc_root)))
}

/// Microseconds between wake-ups: an answer of a closed load is waited for, one of an open load is not.
fn quantum_us(load: &HttpLoad) -> u32 {
    let usual = if matches!(load.pace, Pace::Open { .. }) { 1_000 } else { 0 };
    load.options.quantum_us.unwrap_or(usual)
}

fn shares(load: &HttpLoad, threads: u32) -> Vec<Share> {
    let threads = threads.max(1);
    let share = |index: u32| Share {
        connections: part(u64::from(load.connections), index, threads) as u32,
        plan: SendPlan {
            count: match load.amount {
                Amount::Requests(requests) => Some(part(requests, index, threads)),
                Amount::Seconds(_) => None,
            },
            seconds: match load.amount {
                Amount::Requests(_) => None,
                Amount::Seconds(seconds) => Some(seconds),
            },
            open: match load.pace {
                Pace::Open { per_second, arrivals } => {
                    Some((per_second / f64::from(threads), arrivals))
                }
                Pace::Closed { .. } => None,
            },
            seed: load.options.seed.wrapping_add(u64::from(index)),
        },
        timeout_s: load.options.timeout_s,
        quantum: u64::from(quantum_us(load)) * 1_000,
    };
    (0..threads).map(share).collect()
}

fn report(load: &HttpLoad, tally: &Tally, drops: Option<u64>, rss_peak: Option<u64>) -> LoadReport {
    let window = tally.first.zip(tally.last);
    let seconds = window.map_or(0.0, |(first, last)| last.since(first) as f64 / 1e9);
    let totals = LoadTotals {
        completed: tally.completed,
        expected: tally.completed + tally.errors(),
        seconds,
        latency: &|quantile| tally.latency.quantile(quantile),
        steps: &[],
    };
    LoadReport {
        completed: tally.completed,
        errors: tally.errors(),
        seconds,
        window_ms: window.map(|(first, last)| (first.millis(), last.millis())),
        latency_hdr: tally.latency.encode(),
        service_hdr: tally.service.encode(),
        errors_by: tally.errors_by(),
        metrics: metric::of_load(&totals),
        own: own_cost(&tally.own, rss_peak),
        steps: Vec::new(),
        flags: findings(load, tally, seconds, drops).list(),
    }
}

fn findings(load: &HttpLoad, tally: &Tally, seconds: f64, syn_drops: Option<u64>) -> Findings {
    let mut findings = Findings::default();
    if let Some(problem) = tally.tls.as_ref().filter(|_| tally.gone || tally.completed == 0) {
        findings.add("tls", Severity::Fatal, problem.clone());
    } else if tally.gone {
        let message = "no connection could be opened for 3 s: look whether the server still runs";
        findings.add("server-gone", Severity::Fatal, message.to_owned());
    }
    if tally.completed == 0 {
        let message = "not one right response came: look at the server's log and at the expected status and body";
        findings.add("nothing-completed", Severity::Fatal, message.to_owned());
    } else {
        let kinds: Vec<String> =
            tally.errors_by().iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let message = format!("requests had no right response ({})", kinds.join(", "));
        findings.share("errors", tally.errors(), tally.due, &message);
    }
    let asked = u64::from(load.connections);
    if tally.connected < asked && !tally.gone {
        let message = format!(
            "only {} of {asked} connections were open when the load began: raise the server's backlog or lower `connections`",
            tally.connected
        );
        findings.add("not-all-ready", Severity::Fatal, message);
    }
    if let Pace::Open { per_second, .. } = load.pace
        && let Some(span) = tally.send_span()
    {
        findings.rate(per_second, tally.due.saturating_sub(1) as f64 / span);
        let message = "arrivals waited for a free connection: raise `connections`";
        findings.backlog(tally.waited, tally.due, message);
    }
    let quantum = f64::from(quantum_us(load)) / 1e6;
    let (own, threads) = (&tally.own, load.options.threads.max(1));
    let median = tally.latency.quantile(0.5);
    findings.own(&GeneratorFacts { own, seconds, threads, quantum, median, syn_drops });
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{HttpTable, Span};
    use crate::load::clock::{MonotonicTime, StampClock, offset};
    use crate::load::null::NullHttp;
    use std::net::TcpListener;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// The clock is set back by an hour a tenth of a second after it is first read.
    fn set_back() -> i64 {
        static BEGUN: OnceLock<MonotonicTime> = OnceLock::new();
        let passed = MonotonicTime::now().since(*BEGUN.get_or_init(MonotonicTime::now));
        offset() - if passed > 100_000_000 { 3_600_000_000_000 } else { 0 }
    }

    /// The report of a load whose stamps are read with that clock; only the clock is not the kernel's.
    fn report_by(read: fn() -> i64) -> LoadReport {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = AtomicBool::new(false);
        let table = HttpTable { duration: Some(Span::millis(400)), ..HttpTable::default() };
        let load = table.load(&url).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| NullHttp::new(listener, 5).unwrap().serve(&stop));
            let dialer = Dialer::new(resolve(&url).unwrap(), &load.options).unwrap();
            let requests = Requests::new(&load.routes, dialer.target());
            let share = shares(&load, 1).remove(0);
            let counters = ProgressCounters::default();
            let mut engine = Engine::new(&share, &requests, &dialer, &counters).unwrap();
            engine.stamps = StampClock::new(read);
            let tally = engine.run().unwrap();
            stop.store(true, Ordering::Relaxed);
            report(&load, &tally, None, None)
        })
    }

    #[test]
    fn a_clock_that_is_set_during_a_load_is_said_and_spoils_no_latency() {
        for (read, flagged) in [(set_back as fn() -> i64, true), (offset, false)] {
            let report = report_by(read);
            let found = report.flags.iter().any(|flag| flag.code == "clock-step");
            assert_eq!(found, flagged, "{:?}", report.flags);
            assert!(report.completed > 0 && report.metrics["latency.max"] < 60.0);
        }
    }
}
