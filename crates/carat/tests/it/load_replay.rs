//! Recorded traffic, sent to a small server that writes down what it gets.

use crate::support::{Folder, TWO_VARIANTS, finish};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/requests.rb");

/// A Ruby that serves `data/requests.rb` until it is dropped.
struct RequestServer {
    process: Child,
    url: String,
    folder: Folder,
}

impl RequestServer {
    fn start(name: &str) -> Self {
        let folder = Folder::new(name);
        let mut command = Command::new("ruby");
        command.arg(SCRIPT).env("REQUESTS", folder.path("requests.txt"));
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { process, url: format!("http://127.0.0.1:{}/", port.trim()), folder }
    }

    /// Replays a file with this content, and returns the report and the requests that arrived.
    fn replay(&self, content: &[u8], more: &[&str]) -> (Value, Vec<String>) {
        let ran = self.run(content, &[more, &["--json"]].concat());
        let json: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.talk));
        (json["report"].clone(), self.take_requests())
    }

    fn run(&self, content: &[u8], more: &[&str]) -> crate::support::Ran {
        fs::write(self.folder.path("recorded"), content).unwrap();
        let load = ["load", "http", &self.url, "--replay", "recorded"];
        self.folder.run(&[&load[..], more].concat())
    }

    fn take_requests(&self) -> Vec<String> {
        let file = self.folder.path("requests.txt");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let _ = fs::remove_file(file);
        text.lines().map(|line| line.trim_end().to_owned()).collect()
    }
}

impl Drop for RequestServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn access(second: u32, request: &str, status: u16) -> String {
    format!(
        "10.0.0.7 - - [22/Nov/2026:10:00:{second:02} +0000] \"{request} HTTP/1.1\" {status} 12 \"-\" \"Mozilla/5.0\"\n"
    )
}

fn log() -> String {
    [
        access(0, "GET /", 200),
        access(0, "GET /issues/7?token=s3cret", 200),
        "10.0.0.9 - - [22/Nov/2026:10:00:00 +0000] \"\\x16\\x03\\x01\" 400 0 \"-\" \"-\"\n"
            .to_owned(),
        access(0, "POST /login", 302),
        access(1, "GET /missing/page", 404),
        access(1, "HEAD /issues/8", 200),
        access(1, "GET /issues/8.json", 200),
    ]
    .concat()
}

const HAR: &str = r#"{"log":{"version":"1.2","entries":[
{"startedDateTime":"2026-11-22T10:00:00.000Z","request":{"method":"GET","url":"http://app.test/echo","headers":[{"name":"Accept","value":"text/html"},{"name":"Cookie","value":"id=s3cret-value"},{"name":"Authorization","value":"Bearer other-s3cret"}]},"response":{"status":200}},
{"startedDateTime":"2026-11-22T10:00:01.000Z","request":{"method":"POST","url":"http://app.test/a","headers":[],"postData":{"mimeType":"text/plain","text":"x=1"}},"response":{"status":200}},
{"startedDateTime":"2026-11-22T10:00:01.000Z","request":{"method":"GET","url":"https://fonts.test/f","headers":[]},"response":{"status":200}}]}}"#;

const OPENAPI: &str = r#"{"openapi":"3.0.3","servers":[{"url":"/v1"}],"paths":{
"/pets/{id}":{"get":{"parameters":[{"name":"id","in":"path","required":true,"schema":{"example":7}}]},"delete":{}},
"/pets":{"get":{"parameters":[{"name":"X-Tenant","in":"header","required":true,"example":"acme"}]}},
"/owners/{owner}":{"get":{"parameters":[{"name":"owner","in":"path","required":true}]}}}}"#;

const OPENAPI_YAML: &str = "openapi: 3.0.3\nservers:\n- url: /v1\npaths:\n\
  \x20 /pets/{id}:\n    get:\n      parameters: &id\n      - { name: id, in: path, required: true, schema: { example: 7 } }\n\
  \x20   delete: {}\n    head:\n      parameters: *id\n";

const RAILS: &str = "=> Booting Puma\n\
    I, [2026-11-22T10:00:00.1 #42]  INFO -- : Started GET \"/a?b=c\" for ::1 at 2026-11-22 10:00:00 +0000\n\
    I, [2026-11-22T10:00:00.1 #42]  INFO -- : Processing by AController#index as HTML\n\
    Completed 200 OK in 12ms (Views: 8.0ms)\n\
    Started POST \"/a\" for 127.0.0.1 at 2026-11-22 10:00:01 +0000\n\
    Started GET \"/\" for 127.0.0.1 at 2026-11-22 10:00:02 +0000\n";

const LOGRAGE: &str = "method=GET path=/a format=html controller=A action=index status=200 duration=5.4\n\
    method=POST path=/a format=html controller=A action=create status=302 duration=5.4\n\
    {\"method\":\"GET\",\"path\":\"/b\",\"status\":200,\"@timestamp\":\"2026-11-22T10:00:00Z\"}\n";

#[test]
fn every_format_is_found_and_its_reads_are_sent_in_their_order() {
    require!(Ruby);
    let server = RequestServer::start("formats");
    for (content, format, expected, left_out) in [
        (
            log().as_str(),
            "access log",
            &[
                "GET /",
                "GET /issues/7?token=s3cret",
                "GET /missing/page",
                "HEAD /issues/8",
                "GET /issues/8.json",
            ][..],
            "POST ×1 (`all_methods` sends every method), 1 unreadable, first line 3",
        ),
        (RAILS, "Rails log", &["GET /a?b=c", "GET /"], "POST ×1"),
        (LOGRAGE, "Lograge log", &["GET /a", "GET /b"], "POST ×1"),
        ("# pages\n/a\nHEAD http://app.test/b?c#d\n", "list of URLs", &["GET /a", "HEAD /b?c"], ""),
        (
            HAR,
            "HAR",
            &["GET /echo accept=text/html"],
            "POST ×1 (`all_methods` sends every method), 1 to other servers",
        ),
        (
            OPENAPI,
            "OpenAPI file",
            &["GET /v1/pets x-tenant=acme", "GET /v1/pets/7"],
            "DELETE ×1, GET /v1/owners/{owner} has no example of `owner`",
        ),
        (OPENAPI_YAML, "OpenAPI file", &["GET /v1/pets/7", "HEAD /v1/pets/7"], "DELETE ×1"),
    ] {
        let count = (2 * expected.len()).to_string();
        let more = ["-c", "1", "-n", &count, "--errors", "100%"];
        let (report, requests) = server.replay(content.as_bytes(), &more);
        assert_eq!(requests, [expected, expected].concat(), "{format}: {report:#}");
        let flags = report["flags"].as_array().unwrap();
        let note = flags.iter().find(|flag| flag["code"] == "replay").unwrap();
        let note = note["message"].as_str().unwrap();
        assert!(note.starts_with(&format!("recorded ({format}) with ")), "{note}");
        assert!(note.contains(left_out), "{note}");
    }
}

#[test]
fn the_report_has_a_row_per_route_without_ids_and_queries() {
    require!(Ruby);
    let server = RequestServer::start("rows");
    let (report, _) = server.replay(log().as_bytes(), &["-c", "1", "-n", "50"]);
    assert_eq!((&report["completed"], &report["errors"]), (&50.into(), &0.into()), "{report:#}");
    let routes = report["routes"].as_array().unwrap();
    let mut rows: Vec<(&str, u64)> = routes
        .iter()
        .map(|row| (row["route"].as_str().unwrap(), row["completed"].as_u64().unwrap()))
        .collect();
    rows.sort_unstable();
    let expected = [
        ("GET /", 10),
        ("GET /issues/:id", 10),
        ("GET /issues/:id.json", 10),
        ("GET /missing/page", 10),
        ("HEAD /issues/:id", 10),
    ];
    assert_eq!(rows, expected);
    assert!(routes.iter().all(|row| row["latency"]["p95"].as_f64().unwrap() > 0.0), "{routes:?}");
    let text = server.run(log().as_bytes(), &["-c", "1", "-n", "10"]).out;
    assert!(text.contains("\nGET /issues/:id ") && !text.contains("s3cret"), "{text}");
    assert!(
        text.contains(
            "\nnote: replay: recorded (access log) with 5 requests, 5 different; not sent: POST ×1"
        ),
        "{text}"
    );
}

#[test]
fn threads_share_a_log_and_a_list_with_weights_is_drawn() {
    require!(Ruby);
    let server = RequestServer::start("threads");
    let more = ["-c", "2", "--threads", "2", "-n", "10"];
    let (_, mut requests) = server.replay(log().as_bytes(), &more);
    requests.sort_unstable();
    let twice = |request: &'static str| [request, request];
    let expected = [
        twice("GET /"),
        twice("GET /issues/7?token=s3cret"),
        twice("GET /issues/8.json"),
        twice("GET /missing/page"),
        twice("HEAD /issues/8"),
    ];
    assert_eq!(requests, expected.concat());
    let (_, requests) = server.replay(b"/often 9\n/never 0\n/rare\n", &["-n", "1000"]);
    let often = requests.iter().filter(|request| *request == "GET /often").count();
    let rare = requests.iter().filter(|request| *request == "GET /rare").count();
    assert_eq!(often + rare, 1000);
    assert!((850..950).contains(&often), "{often}");
}

#[test]
fn credentials_of_a_har_are_sent_only_when_wanted_and_shown_never() {
    require!(Ruby);
    let server = RequestServer::start("credentials");
    let wanted = ["-c", "1", "-n", "2", "--private-headers", "--all-methods"];
    let sent =
        "GET /echo accept=text/html cookie=id=s3cret-value authorization=Bearer other-s3cret";
    for format in [&[][..], &["--json"]] {
        let ran = server.run(HAR.as_bytes(), &[&wanted[..], format].concat());
        ran.assert_code(4).assert_says("[hidden]");
        assert_eq!(server.take_requests(), [sent, "POST /a x=1"]);
        assert!(!ran.out.contains("s3cret") && !ran.talk.contains("s3cret"), "{}", ran.out);
    }
    let (_, requests) = server.replay(HAR.as_bytes(), &["-n", "1"]);
    assert_eq!(requests, ["GET /echo accept=text/html"]);
}

#[test]
fn the_pace_of_a_log_is_kept_or_changed_by_a_factor() {
    require!(Ruby);
    let server = RequestServer::start("pace");
    // The six requests of seconds 0 and 2 are due at 0, 333, 666, 2000, 2333 and 2666 ms. A load lasts from its first send, which
    // may be late by some milliseconds where later ones are not; without a pace it would last a few.
    let log: String = [0, 0, 0, 2, 2, 2].map(|second| access(second, "GET /", 200)).concat();
    for (pace, least) in [("recorded", 2.5), ("4x", 0.6)] {
        let (report, requests) = server.replay(log.as_bytes(), &["-n", "6", "--pace", pace]);
        assert_eq!(requests.len(), 6);
        assert!(report["seconds"].as_f64().unwrap() >= least, "{pace}: {report:#}");
    }
    let refused = server.run(b"/a\n/b\n", &["-n", "1", "--pace", "2x"]);
    refused.assert_code(1).assert_says("2 of 2 requests of the list of URLs have no time");
}

#[test]
fn expectations_apply_to_every_replayed_request() {
    require!(Ruby);
    let server = RequestServer::start("expected");
    let more = ["-c", "1", "-n", "10", "--expect-status", "200", "--errors", "100%"];
    let (report, _) = server.replay(log().as_bytes(), &more);
    let failure = &report["failures"][0];
    assert_eq!((&failure["route"], &failure["count"]), (&"GET /missing/page".into(), &2.into()));
    let (report, _) = server.replay(b"/a\n/b\n", &["-n", "4", "--expect-body", "no"]);
    assert_eq!(report["errors_by"]["body"], 4, "{report:#}");
}

#[test]
fn a_file_that_cannot_be_replayed_says_why_before_anything_is_sent() {
    require!(Ruby);
    let server = RequestServer::start("unreadable");
    let broken = [log().as_str(), "a\n", "b\x1b[2J\n", "c\n", "d\n", "e\n", "f\n"].concat();
    let long = "/a\n".repeat(23_000_000);
    for (content, more, expected) in [
        (&b""[..], &[][..], "recorded: it is empty"),
        (b"\x1f\x8b\x08\x00", &[], "recorded: it is compressed: use gunzip first"),
        (b"\x7fELF\x00\x01", &[], "recorded: it is not text: byte 4 is zero"),
        (b"\xff\xfe/\x00", &[], "recorded: it is UTF-16"),
        (b"hello\x1b[2J\n", &[], "line 1 is `hello`; name the format with"),
        (
            b"/a\n/b often\n",
            &[],
            "recorded: the list of URLs cannot be read: line 2: the weight must be a whole number",
        ),
        (
            broken.as_bytes(),
            &[],
            "recorded: the access log cannot be read: 7 of 13 requests cannot be read; the first: line 3: the request has no method",
        ),
        (
            b"{\"log\":{\n\"entries\":[{}]}}",
            &[],
            "the HAR cannot be read: 1 of 1 requests cannot be read; the first: entry 1: it has no request",
        ),
        (b"{\"log\":{\"entries\":[", &[], "it is not JSON: EOF while parsing"),
        (b"openapi: 3.0.0\npaths: [\n", &[], "the OpenAPI file cannot be read: "),
        (b"a: &a x\nopenapi: 3.0.0\nb: &b [*a, *b]\n", &[], "the OpenAPI file cannot be read: "),
        (b"swagger: '2.0'\n", &[], "OpenAPI 2 (Swagger), and version 3 is read"),
        (b"POST /a\n", &[], "no request that can be sent; not sent: POST ×1"),
        (b"/a\n", &["--replay-format", "har"], "the HAR cannot be read: expected value at line 1"),
        (b"/a\n", &["--replay-format", "rar"], "invalid value 'rar'"),
        (b"/a\n", &["--pace", "fast"], "write \"recorded\", or a factor as \"2x\""),
        (b"/a\n", &["--urls", "recorded"], "cannot be used with"),
        (b"/a\n", &["-X", "POST"], "excludes `method` and `body`"),
        (long.as_bytes(), &[], "recorded has more than 64 MiB"),
    ] {
        let ran = server.run(content, &[&["-n", "1"][..], more].concat());
        assert!(matches!(ran.code, Some(1 | 2)), "{expected}: {ran:?}");
        ran.assert_says(expected);
        assert!(!ran.talk.contains('\u{1b}'), "{}", ran.talk);
    }
    let missing = server.folder.run(&["load", "http", &server.url, "--urls", "none.txt"]);
    missing.assert_code(1).assert_says("cannot read none.txt: No such file");
    assert_eq!(server.take_requests(), [""; 0]);
}

fn experiment(folder: &Folder, prepare: &str) {
    let text = format!(
        r#"
name = "replayed"
[server]
command = ["ruby", "{SCRIPT}"]
env = {{ PORT = "{{port}}" }}
ready = {{ http = "/" }}
{prepare}
[load.http]
connections = 2
requests = 60
replay = "logs/access.log"
{TWO_VARIANTS}
warmup_block = false
"#
    );
    let _ = fs::create_dir(folder.path("logs"));
    folder.write("logs/access.log", &log());
    folder.write("replayed.toml", &text);
}

#[test]
fn an_experiment_replays_a_log_and_a_changed_log_is_explained() {
    require!(Ruby);
    let folder = Folder::new("replayed");
    experiment(&folder, "");
    let planned = folder.run(&["compare", "replayed.toml", "--dry-run"]);
    planned.assert_code(0).assert_says(
        ": replay of access.log (access log) with 5 requests, 5 different: GET / 20 %",
    );
    planned.assert_says("GET / 20 %, GET /issues/:id 20 %").assert_says(", 1 more");
    let ran = folder.run(&["compare", "replayed.toml"]);
    ran.assert_code(3)
        .assert_says("note: replay of access.log (access log)")
        .assert_says("POST ×1");
    let json = folder.run(&["report", "replayed.carat", "--json"]).out;
    let results: Value = serde_json::from_str(&json).unwrap();
    for trial in results["results"]["trials"].as_array().unwrap() {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        assert_eq!(trial["load"]["routes"].as_array().unwrap().len(), 5, "{trial:#}");
    }
    let stored = fs::read(folder.path("replayed.carat")).unwrap();
    assert!(!stored.windows(6).any(|window| window == b"s3cret"), "a query is in the results");
    folder.run(&["compare", "replayed.toml", "--resume"]).assert_code(3);

    folder.write("logs/access.log", &(log() + &access(2, "GET /new", 200)));
    let changed = folder.run(&["compare", "replayed.toml", "--resume"]);
    changed.assert_code(2).assert_says("  content of load.http.replay: SHA-256 ");
    changed.assert_says("trials before and after them cannot be compared").assert_says("--fresh");
    fs::remove_file(folder.path("logs/access.log")).unwrap();
    let missing = folder.run(&["compare", "replayed.toml", "--resume"]);
    missing.assert_code(2).assert_says("logs/access.log: No such file");
    // Results are complete without the log.
    folder.run(&["report", "replayed.carat", "--format", "text"]).assert_code(0);
    folder.assert_nothing_left();
}

#[test]
fn a_log_that_changes_during_an_experiment_invalidates_its_trials() {
    require!(Ruby);
    let folder = Folder::new("changing");
    // The first trial appends to the log before its own load is read.
    let append = "[prepare]\ncommand = ['sh', '-c', 'echo >> logs/access.log']";
    experiment(&folder, append);
    let ran = folder.run(&["compare", "replayed.toml"]);
    assert!(matches!(ran.code, Some(1..=4)), "{ran:?}");
    ran.assert_says("access.log has changed since the experiment began");
    folder.assert_nothing_left();
}

#[test]
fn a_recording_is_driven_by_a_log() {
    require!(Ruby);
    let folder = Folder::new("recorded-replay");
    folder.write("access.log", &log());
    let port = carat::target::free_port().unwrap();
    let url = format!("http://127.0.0.1:{port}/");
    let load = ["record", "--load", &url, "--replay", "access.log", "-c", "1", "-n", "60"];
    let mut record = folder.carat(&[&load[..], &["-o", "r.jsonl", "--", "ruby", SCRIPT]].concat());
    record.env("PORT", port.to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = finish(record.spawn().unwrap());
    ran.assert_code(0).assert_says("note: replay: access.log (access log) with 5 requests");
    let recording = carat::store::recording::read(&folder.path("r.jsonl")).unwrap();
    let report = recording.load().unwrap().report.clone().unwrap();
    assert_eq!((report.completed, report.errors, report.routes.len()), (60, 0, 5), "{report:?}");
    let missing = folder.run(&["record", "--load", &url, "--urls", "none", "--", "sleep", "9"]);
    assert!(missing.talk.contains("cannot read none"), "{}", missing.talk);
    folder.assert_nothing_left();
}
