//! The generator against real servers: Puma with Action Cable, and AnyCable, hold and deliver what it counts.

use crate::support::{Folder, finish, wait_until};
use carat_model::LoadReport;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Findings about a busy machine, not about what server and generator say to each other.
const MACHINE: [&str; 8] = [
    "gen-lag",
    "gen-cpu",
    "gen-runqueue",
    "late-sends",
    "bounded-stamps",
    "asked-again",
    "ping-gap",
    "syn-drop",
];

/// A process group that ends with the test.
struct Group(Child);

impl Group {
    fn start(command: &mut Command) -> Self {
        Self(command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let end = |signal| rustix::process::kill_process_group(group, signal);
        // Both have programs of their own to stop; what is left after that is killed.
        let _ = end(rustix::process::Signal::TERM);
        let _ = self.0.wait();
        let _ = end(rustix::process::Signal::KILL);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn is_healthy(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut answer = String::new();
    let asked = stream.write_all(b"GET /health HTTP/1.0\r\n\r\n");
    asked.is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.lines().next().is_some_and(|line| line.contains(" 200"))
}

/// What the generator says of the workload `cable`, served by `command`.
fn report(command: &[&str]) -> LoadReport {
    let workload = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/cable");
    let folder = Folder::new("conformance");
    let (redis_port, port) = (free_port(), free_port());
    let _redis = Group::start(Command::new("redis-server").current_dir(folder.path("tmp")).args([
        "--bind",
        "127.0.0.1",
        "--port",
        &redis_port.to_string(),
        "--save",
        "",
    ]));
    let _server = Group::start(
        Command::new(command[0])
            .args(&command[1..])
            .current_dir(workload)
            .env("PORT", port.to_string())
            .env("REDIS_URL", format!("redis://127.0.0.1:{redis_port}")),
    );
    wait_until("the server is healthy", || is_healthy(port));
    let url = format!("ws://127.0.0.1:{port}/cable");
    let load = "--steps 2 --step-size 25 --broadcasts 20 --concurrency 4 --json";
    let arguments: Vec<&str> = ["load", "cable", &url].into_iter().chain(load.split(' ')).collect();
    let mut carat = folder.carat(&arguments);
    let ran = finish(carat.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let json: serde_json::Value = serde_json::from_str(&ran.assert_code(0).out).unwrap();
    serde_json::from_value(json["report"].clone()).unwrap()
}

fn assert_conforms(report: &LoadReport) {
    let counts = report.steps.iter().map(|step| (step.clients, step.expected, step.received));
    assert_eq!(counts.collect::<Vec<_>>(), [(25, 500, 500), (50, 1000, 1000)]);
    for row in report.steps.iter().flat_map(|step| &step.broadcasts) {
        assert!(row.duplicate == 0 && row.ack_us.is_some() && row.complete_us.is_some(), "{row:?}");
    }
    let found = report.flags.iter().map(|flag| flag.code.as_str());
    let found: Vec<&str> = found.filter(|code| !MACHINE.contains(code)).collect();
    assert!(found.is_empty(), "{:?}", report.flags);
}

#[test]
fn action_cable_on_puma_delivers_what_is_counted() {
    require!(ActionCable);
    assert_conforms(&report(&["puma", "-C", "puma.rb", "config.ru"]));
}

#[test]
fn anycable_delivers_what_is_counted() {
    require!(ActionCable, AnyCable);
    assert_conforms(&report(&["anycable/run"]));
}
