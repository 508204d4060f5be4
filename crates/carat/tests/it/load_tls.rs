//! The same loads over TLS: correct responses, certificates that are trusted or not, and servers that close early.

use crate::load_server::{Fault, cable_server, raw_server};
use crate::load_tls_front::{Certificate, Manner, tls_front};
use crate::support::{Folder, TWO_VARIANTS};
use carat_load::drive;
use carat_model::load::{ConnectionOptions, LoadReport};
use carat_model::{CableOptions, HttpOptions, LoadSpec, Span};
use std::io::Write;
use std::net::SocketAddr;

/// Longer than a TLS record, than one read, and than rustls's send buffer.
const BODY: usize = 100_000;

/// Answers every request with the long body.
fn plain() -> SocketAddr {
    raw_server(|stream, _| {
        let body = "x".repeat(BODY);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n{body}");
        let _ = stream.write_all(answer.as_bytes());
    })
}

fn http(address: SocketAddr, options: impl FnOnce(&mut ConnectionOptions)) -> LoadReport {
    let table = HttpOptions {
        connections: 3,
        requests: Some(60),
        timeout: Span::seconds(20),
        expect_body: Some("x".repeat(BODY)),
        ..HttpOptions::default()
    };
    let mut load = table.load(&format!("https://{address}")).unwrap();
    options(&mut load.options);
    drive(&LoadSpec::Http(load), |_| {}).unwrap()
}

fn cable(address: SocketAddr, options: impl FnOnce(&mut ConnectionOptions)) -> LoadReport {
    let table = CableOptions {
        steps: 2,
        step_size: 5,
        broadcasts: 10,
        concurrency: Some(2),
        ready_within: Span::seconds(5),
        ..CableOptions::default()
    };
    let mut load = table.load(&format!("wss://{address}")).unwrap();
    load.stale_s = 600.0;
    options(&mut load.options);
    drive(&LoadSpec::Cable(load), |_| {}).unwrap()
}

/// The text of the finding of that code.
fn message<'a>(report: &'a LoadReport, code: &str) -> &'a str {
    let found = report.flags.iter().find(|flag| flag.code == code);
    &found.unwrap_or_else(|| panic!("no `{code}` in {:?}", report.flags)).message
}

#[test]
fn responses_over_tls_are_correct_if_the_certificate_is_trusted() {
    let certificate = Certificate::new();
    let folder = Folder::new("tls");
    let ca = folder.write("ca.pem", &certificate.pem).display().to_string();
    let (whole, dribbled) = (
        tls_front(plain(), &certificate, Manner::Whole),
        tls_front(plain(), &certificate, Manner::Dribble),
    );
    for report in [
        http(whole, |options| options.ca = Some(ca)),
        http(whole, |options| options.insecure = true),
        http(dribbled, |options| options.insecure = true),
    ] {
        assert_eq!((report.completed, report.errors), (60, 0), "{report:?}");
        assert!(!report.is_invalid(), "{:?}", report.flags);
    }
}

#[test]
fn broadcasts_over_tls_reach_every_subscriber_once() {
    let certificate = Certificate::new();
    for (fault, manner) in [
        (Fault::None, Manner::Whole),
        (Fault::None, Manner::Dribble),
        (Fault::Dribble, Manner::Whole),
    ] {
        let front = tls_front(cable_server(fault), &certificate, manner);
        let report = cable(front, |options| options.insecure = true);
        assert_eq!((report.completed, report.errors), (150, 0), "{fault:?} {manner:?}: {report:?}");
        assert!(!report.is_invalid(), "{:?}", report.flags);
    }
}

#[test]
fn an_untrusted_certificate_ends_the_load_with_what_to_do() {
    let certificate = Certificate::new();
    let folder = Folder::new("other-ca");
    let other = folder.write("other.pem", &Certificate::new().pem).display().to_string();
    let web = tls_front(plain(), &certificate, Manner::Whole);
    let socket = tls_front(cable_server(Fault::None), &certificate, Manner::Whole);
    for ca in [None, Some(other)] {
        let choose = |options: &mut ConnectionOptions| options.ca.clone_from(&ca);
        for report in [http(web, choose), cable(socket, choose)] {
            let problem = message(&report, "tls");
            assert!(problem.contains("certificate"), "{problem}");
            assert!(problem.contains("--ca") && problem.contains("--insecure"), "{problem}");
            assert!(report.completed == 0 && report.is_invalid(), "{report:?}");
        }
    }
}

#[test]
fn a_server_without_tls_is_distinguished_from_an_untrusted_certificate() {
    let plain = raw_server(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let front = tls_front(plain, &Certificate::new(), Manner::Plain);
    let problem = http(front, |_| {});
    assert!(message(&problem, "tls").contains("whether the server speaks TLS"), "{problem:?}");
}

#[test]
fn a_server_that_closes_during_the_handshake_is_reported() {
    let certificate = Certificate::new();
    let front = |target| tls_front(target, &certificate, Manner::CloseInside);
    let report = http(front(plain()), |options| options.insecure = true);
    assert!(message(&report, "tls").contains("the server closed the connection"), "{report:?}");
    let report = cable(front(cable_server(Fault::None)), |options| options.insecure = true);
    let problem = message(&report, "not-all-ready");
    assert!(problem.contains("TLS handshake failed"), "{problem}");
}

#[test]
fn a_handshake_that_hangs_does_not_delay_others() {
    let front = tls_front(plain(), &Certificate::new(), Manner::FirstSilent);
    let report = http(front, |options| {
        options.insecure = true;
        options.timeout_s = 2.0;
    });
    assert_eq!(report.completed, 60, "{report:?}");
    assert!(message(&report, "not-all-ready").contains("only 2 of 3"), "{:?}", report.flags);
}

#[test]
fn the_options_of_the_command_reach_the_connections() {
    let certificate = Certificate::new();
    let folder = Folder::new("tls-command");
    folder.write("ca.pem", &certificate.pem);
    let url = format!("https://{}/", tls_front(plain(), &certificate, Manner::Whole));
    let run =
        |more: &[&str]| folder.run(&[&["load", "http", &url, "-n", "9", "-c", "2"], more].concat());
    for trusting in [&["--insecure"][..], &["--ca", "ca.pem"]] {
        run(trusting).assert_code(0).assert_says("9 responses in ");
    }
    run(&[]).assert_code(4).assert_says("tls");
    run(&["--ca", "nowhere.pem"]).assert_code(1).assert_says("nowhere.pem");
}

#[test]
fn an_experiment_compares_a_puma_that_speaks_tls() {
    require!(Ruby);
    let folder = Folder::new("tls-puma");
    let certificate = Certificate::new();
    folder.write("cert.pem", &certificate.pem);
    folder.write("key.pem", &certificate.key_pem);
    folder.write("config.ru", "run ->(_env) { [200, {}, ['hello']] }\n");
    folder.write(
        "tls.toml",
        &format!(
            r#"
name = "tls"
[server]
command = ["puma", "-b", "ssl://127.0.0.1:{{port}}?key=key.pem&cert=cert.pem&verify_mode=none"]
ready = {{ tcp = true, within = "60s" }}
[load.http]
tls = true
ca = "cert.pem"
requests = 100
expect_body = "hello"
{TWO_VARIANTS}
"#
        ),
    );
    folder.run(&["compare", "tls.toml"]).assert_code(3);
    let ran = folder.run(&["report", "tls.carat", "--json"]);
    let results: serde_json::Value = serde_json::from_str(&ran.assert_code(0).out).unwrap();
    for trial in results["results"]["trials"].as_array().unwrap() {
        assert_eq!((&trial["outcome"], &trial["metrics"]["errors"]), (&"ok".into(), &0.0.into()));
    }
    folder.assert_nothing_left();
}
