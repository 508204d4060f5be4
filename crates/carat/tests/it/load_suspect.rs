//! Every fault of the generator itself raises its flag, and a run without the fault does not.
//!
//! The tests share the machine with others, so the thresholds are far from what a busy machine causes (a quantum of 50 ms
//! allows 100 ms of lag and lateness), and one run of several without the flag is enough: a busy machine is a fault too.
//! The test of a clock that is set is beside the protocol, where the clock is an argument.

use crate::support::{Folder, Ran, finish, signal};
use carat_load::null::{NullCable, NullHttp};
use carat_model::LoadReport;
use rustix::process::Signal;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// A null server that runs until the test process ends.
fn null(kind: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop: &'static std::sync::atomic::AtomicBool = Box::leak(Box::default());
    if kind == "http" {
        thread::spawn(move || NullHttp::new(listener, 5).unwrap().serve(stop));
        format!("http://{address}/")
    } else {
        thread::spawn(move || NullCable::new(listener).unwrap().serve(stop));
        format!("ws://{address}/cable")
    }
}

/// A server whose responses are expensive to parse: thousands of chunks of one byte.
fn expensive_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let body = "1\r\nx\r\n".repeat(100_000);
    let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}0\r\n\r\n");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while let Some(Ok(line)) = lines.next() {
                    if line.is_empty() && (&stream).write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A load in a separate process.
fn start(folder: &Folder, arguments: &str) -> Child {
    let arguments: Vec<&str> = arguments.split(' ').chain(["--json"]).collect();
    folder.carat(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn report(child: Child) -> LoadReport {
    let Ran { out, talk, .. } = finish(child);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{talk}"));
    serde_json::from_value(json["report"].clone()).unwrap()
}

fn run(arguments: &str) -> LoadReport {
    report(start(&Folder::new("suspect"), arguments))
}

/// The report of a load whose process is stopped several times, each after half a second.
fn stopped(arguments: &str, times: u32, pause: Duration) -> LoadReport {
    let folder = Folder::new("suspect");
    let child = start(&folder, arguments);
    for _ in 0..times {
        thread::sleep(Duration::from_millis(500));
        signal(&child, Signal::STOP);
        thread::sleep(pause);
        signal(&child, Signal::CONT);
    }
    report(child)
}

fn has(report: &LoadReport, code: &str) -> bool {
    report.flags.iter().any(|flag| flag.code == code)
}

/// Fails unless a load can run without that finding, except if other processes keep the machine busy all the time.
fn assert_possible_without(code: &str, load: &str) {
    let quiet = (0..10).any(|_| !has(&run(load), code));
    assert!(quiet || is_crowded(), "`{code}` every time: {load}");
}

/// Whether a process waited for a processor in more than half of the last ten seconds, according to the kernel.
fn is_crowded() -> bool {
    let pressure = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let share = pressure.strip_prefix("some avg10=").and_then(|rest| rest.split(' ').next());
    share.is_some_and(|share| share.parse::<f64>().unwrap() > 50.0)
}

/// The codes that a part of the generator can raise.
fn codes(source: &str) -> Vec<&str> {
    let source = source.split("mod tests").next().unwrap();
    let calls = [".add(", ".share("].into_iter().flat_map(|call| source.split(call).skip(1));
    calls.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next()).collect()
}

#[test]
fn every_flag_is_explained_and_provoked() {
    let sources = [
        include_str!("../../../carat-load/src/health.rs"),
        include_str!("../../../carat-load/src/http/report.rs"),
        include_str!("../../../carat-load/src/cable/report.rs"),
    ];
    let page = include_str!("../../../../docs/reference/load.md");
    let tests = [
        include_str!("load_cable.rs"),
        include_str!("load_http.rs"),
        include_str!("load_limits.rs"),
        include_str!("load_replay.rs"),
        include_str!("load_scenario.rs"),
        include_str!("load_suspect.rs"),
        include_str!("load_tls.rs"),
        // The test of the clock is beside the protocol, where the clock is an argument.
        include_str!("../../../carat-load/src/http/protocol.rs").split("mod tests").last().unwrap(),
    ];
    let codes: Vec<&str> = sources.iter().flat_map(|source| codes(source)).collect();
    assert!(codes.len() > 20, "{codes:?}");
    for code in codes {
        assert!(
            page.contains(&format!("`{code}`")),
            "`{code}` is not explained in docs/reference/load.md"
        );
        let quoted = format!("\"{code}\"");
        assert!(tests.iter().any(|test| test.contains(&quoted)), "nothing provokes `{code}`");
    }
}

#[test]
fn a_stopped_generator_reports_that_it_sent_late() {
    let load = format!("load http {} -c 4 --rate 500 -d 3s --quantum 50ms", null("http"));
    let report = stopped(&load, 1, Duration::from_millis(800));
    assert!(has(&report, "late-sends"), "{:?}", report.flags);
    // Every request was sent, and the wait is part of the latency.
    assert_eq!((report.completed, report.errors), (1500, 0));
    assert!(report.metrics["latency.max"] > 0.3, "{:?}", report.metrics);
    assert_possible_without("late-sends", &load);
}

#[test]
fn a_stopped_generator_reports_that_it_read_late() {
    let load = format!("load http {} -c 16 -d 4s --quantum 50ms", null("http"));
    let report = stopped(&load, 3, Duration::from_millis(500));
    assert!(has(&report, "gen-lag"), "{:?} {:?}", report.own, report.flags);
    assert_possible_without("gen-lag", &load);
}

#[test]
fn a_generator_that_lets_the_servers_queues_grow_reports_it() {
    let load = |rate: u32| {
        let url = null("cable");
        format!(
            "load cable {url} --steps 1 --step-size 4 --broadcasts {rate} --rate {rate} --payload 20000"
        )
    };
    let report = stopped(&load(300), 1, Duration::from_millis(500));
    assert!(has(&report, "recv-backlog"), "{:?} {:?}", report.own, report.flags);
    // Four broadcasts a second: nothing waits long enough for three more to come.
    assert_possible_without("recv-backlog", &load(4));
}

#[test]
fn arrivals_that_share_a_time_stamp_are_reported_as_bounds() {
    let load = |at_once: u32| {
        let url = null("cable");
        format!(
            "load cable {url} --steps 1 --step-size 20 --broadcasts 80 --concurrency {at_once} --quantum 20ms"
        )
    };
    let report = run(&load(8));
    assert!(has(&report, "bounded-stamps"), "{:?}", report.own);
    assert_possible_without("bounded-stamps", &load(1));
}

#[test]
fn a_generator_at_its_limit_reports_that_it_used_its_core() {
    let report = run(&format!("load http http://{}/ -c 2 -d 3s", expensive_server()));
    // It was always ready to run, so if it did not use its core, it waited for one.
    let waited = has(&report, "gen-runqueue");
    assert!(has(&report, "gen-cpu") || waited, "{:?} {:?}", report.own, report.flags);
    let light = format!("load http {} -c 2 --rate 50 -d 2s", null("http"));
    assert_possible_without("gen-cpu", &light);
}

/// A process that uses a whole processor; it is killed when the test ends.
struct Hog(Child);

impl Hog {
    fn start() -> Self {
        Self(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // It can only be running.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_generator_on_a_busy_core_reports_that_it_waited() {
    let url = null("http");
    let busy = format!("load http {url} -c 8 -d 2s");
    // Everything that this thread starts stays on one processor.
    let pinned = thread::spawn(move || {
        let all = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
        let mut one = CpuSet::new();
        one.set(first);
        sched_setaffinity(None, &one).unwrap();
        let _hogs = [Hog::start(), Hog::start(), Hog::start()];
        run(&busy)
    });
    let report = pinned.join().unwrap();
    assert!(has(&report, "gen-runqueue"), "{:?} {:?}", report.own, report.flags);
    assert_possible_without("gen-runqueue", &format!("load http {url} -c 1 --rate 5 -d 2s"));
}
