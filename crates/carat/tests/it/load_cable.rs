//! Every fault of an Action Cable server raises exactly its flag.

use crate::load_server::{Fault, cable_server};
use carat_load::drive;
use carat_load::null::NullCable;
use carat_model::load::{Arrivals, CableLoad, ConnectionOptions, LoadReport, Pace};
use carat_model::{CableOptions, LoadSpec, Span};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Findings about the machine of the test, not about the server.
const MACHINE: [&str; 5] = ["gen-lag", "gen-cpu", "gen-runqueue", "late-sends", "bounded-stamps"];

fn load(address: SocketAddr) -> CableLoad {
    let table = CableOptions {
        steps: 2,
        step_size: 10,
        broadcasts: 20,
        concurrency: Some(2),
        ready_within: Span::seconds(2),
        timeout: Span::seconds(1),
        ..CableOptions::default()
    };
    CableLoad { stale_s: 600.0, ..table.load(&format!("ws://{address}")).unwrap() }
}

fn report(load: CableLoad) -> LoadReport {
    drive(&LoadSpec::Cable(load), |_| {}).unwrap()
}

/// The codes of the findings about the server.
fn codes(report: &LoadReport) -> Vec<&str> {
    let codes = report.flags.iter().map(|flag| flag.code.as_str());
    codes.filter(|code| !MACHINE.contains(code)).collect()
}

const FAULTS: [(Fault, &[&str]); 19] = [
    (Fault::None, &[]),
    (Fault::Reorder, &[]),
    (Fault::Dribble, &[]),
    (Fault::Drop, &["missing"]),
    (Fault::Duplicate, &["duplicate"]),
    (Fault::NeverConfirm, &["not-all-ready", "asked-again"]),
    (Fault::ForgetFirst, &["asked-again"]),
    (Fault::NeverWelcome, &["not-all-ready"]),
    (Fault::Reject, &["not-all-ready"]),
    (Fault::CloseInside, &["disconnects"]),
    (Fault::SendAway, &["not-all-ready"]),
    (Fault::Oversized, &["malformed"]),
    (Fault::Reserved, &["malformed"]),
    (Fault::NoJson, &["malformed"]),
    (Fault::NoUtf8, &["malformed"]),
    (Fault::Alter, &["payload-mismatch"]),
    (Fault::NoResult, &["missing-results"]),
    (Fault::NoDelivery, &["nothing-published"]),
    // A delivery after its step was missing in it.
    (Fault::Late, &["missing", "late-deliveries"]),
];

#[test]
fn every_fault_of_a_server_raises_exactly_its_flag() {
    // Some together, because many of them wait; not so many that one is late for want of a processor.
    for faults in FAULTS.chunks(4) {
        thread::scope(|scope| {
            for (fault, expected) in faults {
                scope.spawn(|| assert_flags(*fault, expected));
            }
        });
    }
}

fn assert_flags(fault: Fault, expected: &[&str]) {
    let whole = load(cable_server(fault));
    let load = match fault {
        // Lost connections do not come back for a second step.
        Fault::Oversized | Fault::Reserved => CableLoad { steps: 1, ..whole },
        _ => whole,
    };
    let report = report(load);
    assert_eq!(codes(&report), expected, "{fault:?}: {:?}", report.flags);
}

#[test]
fn a_load_to_which_nothing_comes_ends_with_the_broadcasts_that_were_under_way() {
    for (fault, threads) in [(Fault::NoDelivery, 1), (Fault::NoDelivery, 2), (Fault::NoResult, 1)] {
        let report = report(shared(threads, load(cable_server(fault))));
        let steps: Vec<_> =
            report.steps.iter().map(|step| (step.clients, step.broadcasts.len())).collect();
        assert_eq!(steps, [(10, 2)], "{fault:?}");
    }
}

#[test]
fn every_delivery_is_counted_once() {
    let report = report(patient(load(cable_server(Fault::None))));
    let counts: Vec<_> =
        report.steps.iter().map(|step| (step.clients, step.expected, step.received)).collect();
    assert_eq!(counts, [(10, 200, 200), (20, 400, 400)]);
    for row in report.steps.iter().flat_map(|step| &step.broadcasts) {
        assert!(row.first_us <= row.complete_us && row.own_us <= row.complete_us, "{row:?}");
    }
    assert_eq!(report.completed, 600);
}

#[test]
fn dropped_and_duplicate_deliveries_are_counted_exactly() {
    let dropped = report(load(cable_server(Fault::Drop)));
    assert_eq!(dropped.steps.iter().map(|step| step.missing).sum::<u64>(), 6);
    let doubled = report(load(cable_server(Fault::Duplicate)));
    assert_eq!(doubled.steps.iter().map(|step| step.duplicate).sum::<u64>(), 6);
    assert_eq!(doubled.steps.iter().map(|step| step.missing).sum::<u64>(), 0);
}

/// The load with its connections divided among threads.
fn shared(threads: u32, load: CableLoad) -> CableLoad {
    let options = ConnectionOptions { threads, ..load.options.clone() };
    CableLoad { options, ..load }
}

/// The load with enough time for any machine, so that nothing is given up.
fn patient(load: CableLoad) -> CableLoad {
    let options = ConnectionOptions { timeout_s: 60.0, ..load.options.clone() };
    CableLoad { ready_s: 60.0, options, ..load }
}

#[test]
fn threads_count_together_what_one_counts_alone() {
    for (threads, pace) in [
        (3, Pace::Closed { at_once: 4 }),
        // One of the threads sends nothing but receives everything.
        (3, Pace::Closed { at_once: 2 }),
        (2, Pace::Open { per_second: 100.0, arrivals: Arrivals::Fixed }),
        // More threads than connections.
        (64, Pace::Open { per_second: 100.0, arrivals: Arrivals::Poisson }),
    ] {
        let load = CableLoad { pace, ..patient(load(cable_server(Fault::None))) };
        let report = report(shared(threads, load));
        let counts = report.steps.iter().map(|step| (step.clients, step.expected, step.received));
        assert_eq!(counts.collect::<Vec<_>>(), [(10, 200, 200), (20, 400, 400)], "{pace:?}");
        let rows = report.steps.iter().flat_map(|step| &step.broadcasts);
        let numbers: Vec<u64> = rows.clone().map(|row| row.number).collect();
        assert_eq!(numbers, (0..40).collect::<Vec<_>>());
        for row in rows {
            assert!(
                row.sender != u32::MAX && row.own_us.is_some() && row.ack_us.is_some(),
                "{row:?}"
            );
            assert!(row.first_us <= row.own_us && row.own_us <= row.complete_us, "{row:?}");
        }
        assert_eq!(report.steps[1].times["complete"].count, 20);
        // A busy machine may miss a rate, and then reports it.
        let other = |code: &&str| *code != "rate-not-reached" && *code != "asked-again";
        assert!(!codes(&report).iter().any(other), "{:?}", report.flags);
    }
}

#[test]
fn faults_are_found_in_every_thread() {
    for (fault, expected) in [
        (Fault::Drop, &["missing"][..]),
        (Fault::Duplicate, &["duplicate"]),
        (Fault::NeverConfirm, &["not-all-ready", "asked-again"]),
        (Fault::CloseInside, &["disconnects"]),
        (Fault::SendAway, &["not-all-ready"]),
        (Fault::Alter, &["payload-mismatch"]),
    ] {
        let report = report(shared(3, load(cable_server(fault))));
        assert_eq!(codes(&report), expected, "{fault:?}: {:?}", report.flags);
    }
    let dropped = report(shared(3, load(cable_server(Fault::Drop))));
    assert_eq!(dropped.steps.iter().map(|step| step.missing).sum::<u64>(), 6);
}

#[test]
fn a_server_that_pings_and_never_reads_is_closed_and_named_and_takes_no_memory() {
    let url = format!("ws://{}/cable", cable_server(Fault::PingForever));
    let amount = "--steps 1 --step-size 2 --broadcasts 2 --timeout 3s --ready-within 10s --json";
    let carat = Command::new(env!("CARGO_BIN_EXE_carat"))
        .args(["load", "cable", &url])
        .args(amount.split(' '))
        .output()
        .unwrap();
    assert_eq!(carat.status.code(), Some(4), "{carat:?}");
    let json: serde_json::Value = serde_json::from_slice(&carat.stdout).unwrap();
    let report: LoadReport = serde_json::from_value(json["report"].clone()).unwrap();
    let closed = "the server does not read what is sent to it";
    assert!(report.errors_by.contains_key(closed), "{:?}", report.errors_by);
    assert!(report.flags.iter().any(|flag| flag.message.contains(closed)), "{:?}", report.flags);
    assert!(report.own.rss_peak.is_some_and(|peak| peak < 60_000_000), "{:?}", report.own);
}

#[test]
fn silence_is_noticed() {
    let load = CableLoad { stale_s: 0.1, linger_s: 1.0, ..load(cable_server(Fault::None)) };
    assert_eq!(codes(&report(load)), ["ping-gap"]);
}

#[test]
fn a_short_accept_queue_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    let address = listener.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        let server = scope.spawn(|| {
            // No connection is accepted until the queue has overflowed.
            thread::sleep(std::time::Duration::from_millis(500));
            NullCable::new(listener)?.serve(&stop)
        });
        let load = CableLoad { ready_s: 60.0, steps: 1, step_size: 6, ..load(address) };
        let report = report(CableLoad {
            options: ConnectionOptions { timeout_s: 60.0, ..load.options.clone() },
            ..load
        });
        stop.store(true, Ordering::Relaxed);
        server.join().unwrap().unwrap();
        report
    });
    assert_eq!(codes(&report), ["syn-drop"], "{:?}", report.flags);
}

#[test]
fn the_reported_completion_is_that_of_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    let (report, truths) = thread::scope(|scope| {
        let server = scope.spawn(|| NullCable::new(listener)?.serve(&stop));
        let table = CableOptions {
            steps: 1,
            step_size: 500,
            broadcasts: 60,
            concurrency: Some(1),
            ..CableOptions::default()
        };
        let report = report(table.load(&format!("ws://{address}")).unwrap());
        stop.store(true, Ordering::Relaxed);
        (report, server.join().unwrap().unwrap())
    });
    let rows = &report.steps[0].broadcasts;
    assert_eq!(rows.len(), truths.len());
    let mut errors: Vec<f64> = rows
        .iter()
        .zip(&truths)
        .map(|(row, truth)| {
            let true_us = truth.sent.0 as f64 / 1e3 - row.intended_us as f64;
            (row.complete_us.unwrap() as f64 / true_us - 1.0).abs()
        })
        .collect();
    errors.sort_by(f64::total_cmp);
    assert!(errors[errors.len() / 2] < 0.05, "median error {}", errors[errors.len() / 2]);
}
