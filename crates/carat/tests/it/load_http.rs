//! Every fault of an HTTP server is counted under its name.

use crate::load_server::raw_server;
use carat_load::drive;
use carat_model::load::{LoadReport, Severity};
use carat_model::{HttpOptions, LoadSpec, Span};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn spec(address: SocketAddr, table: HttpOptions) -> LoadSpec {
    LoadSpec::Http(table.load(&format!("http://{address}")).unwrap())
}

fn table() -> HttpOptions {
    HttpOptions {
        connections: 4,
        requests: Some(200),
        timeout: Span::seconds(60),
        expect_body: Some("hello".into()),
        ..HttpOptions::default()
    }
}

fn report(address: SocketAddr, table: HttpOptions) -> LoadReport {
    drive(&spec(address, table), |_| {}).unwrap()
}

fn has(report: &LoadReport, code: &str) -> bool {
    report.flags.iter().any(|flag| flag.code == code)
}

fn send(stream: &mut TcpStream, text: &str) {
    let _ = stream.write_all(text.as_bytes());
}

/// Ends a connection with RST, behind what was sent.
fn reset(stream: &mut TcpStream) {
    rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO)).unwrap();
    // The end of reading ends the thread of the connection, which closes the socket.
    let _ = stream.shutdown(std::net::Shutdown::Read);
}

#[test]
fn every_fault_of_a_server_is_counted_under_its_name() {
    type Answer = fn(&mut TcpStream, usize);
    let cases: [(&str, Answer); 7] = [
        // Without a length only an orderly end is the end of the page.
        ("reset", |s, _| {
            send(s, "HTTP/1.1 200 OK\r\n\r\nhello");
            reset(s);
        }),
        ("status", |s, _| send(s, &OK.replace("200 OK", "500 Oops"))),
        ("body", |s, _| send(s, &OK.replace("hello", "hallo"))),
        ("malformed", |s, _| send(s, "nonsense\r\n\r\n")),
        ("malformed", |s, _| send(s, &format!("{OK}{OK}"))),
        ("timeout", |s, _| send(s, "HTTP/1.1 200 OK\r\n")),
        ("closed-early", |s, _| {
            send(s, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
            let _ = s.shutdown(std::net::Shutdown::Both);
        }),
    ];
    for (kind, answer) in cases {
        // Short only where nothing else can happen, so that a busy machine's delay is never counted as a timeout.
        let timeout = if kind == "timeout" { Span::millis(300) } else { table().timeout };
        let few = HttpOptions { requests: Some(8), timeout, ..table() };
        let report = report(raw_server(answer), few);
        assert_eq!(report.errors_by.keys().collect::<Vec<_>>(), [kind], "{report:?}");
        assert_eq!((report.completed, report.errors), (0, 8), "{kind}");
        assert!(has(&report, "nothing-completed") && report.is_invalid(), "{kind}");
    }
}

#[test]
fn a_path_that_only_redirects_is_a_remark_and_no_error() {
    let redirect = "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n";
    let table = HttpOptions { expect_body: None, requests: Some(20), ..table() };
    let report = report(raw_server(move |stream, _| send(stream, redirect)), table);
    assert_eq!((report.completed, report.errors), (20, 0), "{report:?}");
    assert!(has(&report, "redirects") && !report.is_invalid(), "{report:?}");
}

/// Sends the text repeatedly until the connection is closed.
fn send_forever(stream: &mut TcpStream, text: &str) {
    let many = text.repeat(64 * 1024 / text.len());
    while stream.write_all(many.as_bytes()).is_ok() {}
}

#[test]
fn answers_without_end_time_out_and_take_no_memory() {
    type Answer = fn(&mut TcpStream, usize);
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let cases: [(&str, &str, Answer); 5] = [
        ("a length that is never reached", "timeout", |s, _| {
            send(s, "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n");
            send_forever(s, "hello");
        }),
        ("until the end, which never comes", "timeout", |s, _| {
            send(s, "HTTP/1.1 200 OK\r\n\r\n");
            send_forever(s, "hello");
        }),
        ("chunks", "timeout", |s, _| {
            send(s, CHUNKED);
            send_forever(s, "5\r\nhello\r\n");
        }),
        ("the head of a chunk", "malformed", |s, _| {
            send(s, CHUNKED);
            send_forever(s, "5;x=");
        }),
        ("a head", "malformed", |s, _| {
            send(s, "HTTP/1.1 200 OK\r\n");
            send_forever(s, "X-More: hello\r\n");
        }),
    ];
    for (name, kind, answer) in cases {
        // How fast a head becomes too long depends on the server, which shares the machine with other tests.
        let timeout = if kind == "timeout" { "200ms" } else { "60s" };
        for expected in [&[][..], &["--expect-body", "hello"]] {
            let url = format!("http://{}/", raw_server(answer));
            let arguments = ["load", "http", &url, "-c", "2", "-n", "4", "--timeout", timeout];
            let carat = Command::new(env!("CARGO_BIN_EXE_carat"))
                .args(arguments)
                .args(expected)
                .arg("--json")
                .output()
                .unwrap();
            let json: serde_json::Value = serde_json::from_slice(&carat.stdout).unwrap();
            let report: LoadReport = serde_json::from_value(json["report"].clone()).unwrap();
            // A wrong body is detected at once; an incomplete response only after the timeout.
            let kinds: Vec<&str> = report.errors_by.keys().map(String::as_str).collect();
            let right = kinds == [kind] || (!expected.is_empty() && kinds == ["body"]);
            assert!(right && report.errors == 4, "{name}: {report:?}");
            assert!(
                report.own.rss_peak.is_some_and(|peak| peak < 40_000_000),
                "{name}: {report:?}"
            );
        }
    }
}

#[test]
fn responses_are_right_however_the_server_sends_them() {
    type Answer = fn(&mut TcpStream, usize);
    let cases: [(&str, Answer); 6] = [
        ("bare line feeds", |s, _| send(s, &OK.replace('\r', ""))),
        ("early hints", |s, _| {
            send(s, &format!("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n{OK}"))
        }),
        ("byte by byte", |s, _| OK.chars().for_each(|c| send(s, &c.to_string()))),
        ("chunked", |s, _| {
            send(
                s,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
            );
        }),
        ("until the end", |s, _| {
            send(s, "HTTP/1.1 200 OK\r\n\r\nhello");
            let _ = s.shutdown(std::net::Shutdown::Both);
        }),
        // The third request of a connection meets a server that has just closed it.
        ("closing idle connections", |s, served| {
            if served < 2 {
                send(s, OK);
            } else {
                let _ = s.shutdown(std::net::Shutdown::Both);
            }
        }),
    ];
    for (name, answer) in cases {
        let report = report(raw_server(answer), table());
        assert_eq!((report.completed, report.errors), (200, 0), "{name}: {report:?}");
    }
}

#[test]
fn a_server_that_goes_away_ends_the_load() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let report = report(address, HttpOptions { requests: Some(1_000_000), ..table() });
    assert!(has(&report, "server-gone") && report.is_invalid(), "{:?}", report.flags);
    assert_eq!(report.errors_by.keys().collect::<Vec<_>>(), ["refused"]);
    let flag = report.flags.iter().find(|flag| flag.code == "server-gone").unwrap();
    assert!(flag.message.contains("connection refused): nothing listens there"), "{flag:?}");
    assert!(!report.flags.iter().any(|flag| flag.message.contains("backlog")), "{report:?}");
}

#[test]
fn a_rate_that_the_server_cannot_handle_is_reported_as_not_reached() {
    let address = raw_server(|s, _| {
        thread::sleep(Duration::from_millis(20));
        send(s, OK);
    });
    let table =
        HttpOptions { connections: 1, rate: Some(500.0), timeout: Span::seconds(9), ..table() };
    let report = report(address, table);
    assert!(has(&report, "rate-not-reached") && has(&report, "backlog"), "{:?}", report.flags);
    // Latency counts from the intended send, so the last of 200 requests waited for all the others.
    assert!(report.metrics["latency.max"] > 20.0 * report.metrics["latency.p50"].min(0.02));
}

#[test]
fn the_share_of_failed_requests_decides_the_severity() {
    for (every, severity) in [(10, Severity::Fatal), (150, Severity::Warning)] {
        let count = AtomicU64::new(0);
        let address = raw_server(move |s, _| {
            let fails = (count.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(every);
            send(s, if fails { "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n" } else { OK });
        });
        let report = report(address, table());
        let flag = report.flags.iter().find(|flag| flag.code == "errors").unwrap();
        assert_eq!(flag.severity, severity, "{flag:?}");
        assert_eq!(report.errors, 200 / every);
    }
}

#[test]
fn a_worker_ends_when_its_parent_does() {
    let mut worker = Command::new(env!("CARGO_BIN_EXE_carat"))
        .arg("load-worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let address = raw_server(|s, _| send(s, OK));
    let long = HttpOptions { requests: None, duration: Some(Span::seconds(600)), ..table() };
    let mut stdin = worker.stdin.take().unwrap();
    writeln!(stdin, "{}", serde_json::to_string(&spec(address, long)).unwrap()).unwrap();
    drop(stdin);
    assert!(!worker.wait().unwrap().success());
}

#[test]
fn a_worker_that_receives_no_load_reports_that() {
    let mut worker = Command::new(env!("CARGO_BIN_EXE_carat"))
        .arg("load-worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = worker.stdin.take().unwrap();
    writeln!(stdin, "{{}}").unwrap();
    let output = worker.wait_with_output().unwrap();
    drop(stdin);
    assert!(String::from_utf8(output.stdout).unwrap().contains("something that is not a load"));
}

#[test]
fn the_command_prints_a_table_and_json_with_the_same_figures() {
    let address = raw_server(|s, _| send(s, OK));
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_carat"));
        command.args(["load", "http", &format!("http://{address}/"), "-n", "50", "-c", "2"]);
        let output = command.args(more).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run(&[]).starts_with("50 responses in "));
    let json: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    assert_eq!(json["schema"], "carat.load/1");
    assert_eq!(json["report"]["completed"], 50);
}
