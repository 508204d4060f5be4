//! A load that the server refuses names the cause: status, route, count and the start of the first wrong body.

use crate::real_run::{experiment, results};
use crate::support::{Folder, finish};
use std::fs;
use std::process::{Child, Command, Stdio};

/// What the server answers; a browser would run it and a terminal obey it.
const BODY: &str = r"SQLite3::BusyException: <b>locked</b> \u001B[31m password=hunter22hunter";
const WRONG: &str = r#"STATUS = "500 Oops", BODY = "#;

fn wrong(after: u32) -> String {
    format!("{WRONG}\"{BODY}\", WRONG_AFTER = '{after}'")
}

fn edit(folder: &Folder, from: &str, to: &str) {
    let text = fs::read_to_string(folder.path("real.toml")).unwrap();
    assert!(text.contains(from), "{text}");
    folder.write("real.toml", &text.replace(from, to));
}

#[test]
fn the_first_refused_warm_up_ends_the_run_and_the_cause_is_everywhere() {
    require!(Ruby);
    let folder = experiment("refused", &wrong(1), "");
    let ran = folder.run(&["compare", "real.toml"]);
    let cause = "GET / → 500 ×4";
    ran.assert_code(4).assert_says(cause).assert_says("SQLite3::BusyException: <b>locked</b>");
    assert!(!ran.out.contains('\u{1b}') && !ran.talk.contains('\u{1b}'), "{}{}", ran.out, ran.talk);
    ran.assert_says("the warm-up of variant").assert_says("1 finished trial kept");
    folder.assert_nothing_left();
    let results = results(&folder);
    let trials = results["results"]["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 1, "{trials:?}");
    let failure = &trials[0]["load"]["failures"][0];
    assert_eq!((&failure["status"], &failure["count"]), (&500.into(), &4.into()), "{failure}");
    let page = fs::read_to_string(folder.path("real.html")).unwrap();
    let headline = page.split("<h1>").nth(1).and_then(|rest| rest.split("</h1>").next()).unwrap();
    assert!(headline.starts_with("No trial succeeded."), "{headline}");
    assert!(headline.contains(cause) && headline.contains("&lt;b&gt;locked"), "{headline}");
    assert!(!page.contains("hunter22"), "a secret is masked for every reader");
    for format in ["html", "md", "json"] {
        let name = format!("shared.{format}");
        let arguments = ["report", "real.carat", "--format", format, "--share", "-o", &name];
        folder.run(&arguments).assert_code(0);
        let shared = fs::read_to_string(folder.path(&name)).unwrap();
        assert!(shared.contains("→ 500 ×4"), "{format}: {shared}");
        assert!(!shared.contains("SQLite3"), "{format}: {shared}");
    }
}

#[test]
fn the_share_of_errors_that_a_load_may_have_is_a_setting() {
    require!(Ruby);
    for (limit, code, outcome) in [("", 4, "load-invalid"), ("errors = '80%'", 3, "ok")] {
        let folder = experiment("limit", &wrong(30), "");
        edit(&folder, "connections = 2", &format!("connections = 2\n{limit}"));
        let ran = folder.run(&["compare", "real.toml"]);
        ran.assert_code(code);
        let results = results(&folder);
        let trial = &results["results"]["trials"][0];
        assert_eq!(trial["outcome"], outcome, "{trial}");
        if code == 4 {
            ran.assert_says("the limit is 1%, which `errors` of the load sets");
        }
    }
    let folder = experiment("limits", "", "");
    edit(&folder, "connections = 2", "connections = 2\nerrors = '101%'");
    folder.run(&["compare", "real.toml"]).assert_code(2).assert_says("from 0% to 100%");
}

/// The misbehaving server outside an experiment; killed when dropped.
struct WrongServer(Child);

impl WrongServer {
    fn start(port: u16) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/server.rb");
        let mut command = Command::new("ruby");
        command.arg(script).env("PORT", port.to_string()).env("STATUS", "500 Oops");
        let server = Self(command.env("BODY", "no such table: users").spawn().unwrap());
        crate::support::wait_until("it listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        server
    }
}

impl Drop for WrongServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_load_alone_names_route_status_count_and_body() {
    require!(Ruby);
    let folder = Folder::new("alone");
    let port = carat::target::free_port().unwrap();
    let _server = WrongServer::start(port);
    let url = format!("http://127.0.0.1:{port}/users.json");
    let ran = folder.run(&["load", "http", &url, "-X", "POST", "-n", "12", "-c", "3"]);
    ran.assert_code(4).assert_says("  POST /users.json → 500 ×12, body \"no such table: users\"\n");
    ran.assert_says("no correct response, 12 errors\n");
}

#[test]
fn a_recording_names_the_cause_of_its_refused_load() {
    require!(Ruby);
    let folder = Folder::new("recorded");
    let port = carat::target::free_port().unwrap();
    let url = format!("http://127.0.0.1:{port}/");
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/server.rb");
    let arguments = ["record", "-o", "r.jsonl", "--load", &url, "-n", "50", "--", "ruby", server];
    let mut carat = folder.carat(&arguments);
    carat.env("PORT", port.to_string()).env("STATUS", "500 Oops").env("WRONG_AFTER", "20");
    carat.env("BODY", "no such table: users").stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = finish(carat.spawn().unwrap());
    ran.assert_code(4).assert_says("GET / → 500 ×").assert_says(", body \"no such table: users\"");
    folder.run(&["report", "r.jsonl", "--format", "html", "-o", "own.html"]).assert_code(0);
    assert!(fs::read_to_string(folder.path("own.html")).unwrap().contains("no such table"));
    folder.run(&["report", "r.jsonl", "--share", "-o", "shared.html"]).assert_code(0);
    assert!(!fs::read_to_string(folder.path("shared.html")).unwrap().contains("no such table"));
}
