//! Scenarios against a small application with a login: tokens, cookies, redirects, data and variables.

use crate::support::{Folder, TWO_VARIANTS, finish};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A Ruby that serves `data/session.rb` until it is dropped.
struct SessionServer(Child, String);

impl SessionServer {
    fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/data/session.rb");
        let mut server = Command::new("ruby").arg(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self(server, format!("http://127.0.0.1:{}/", port.trim()))
    }
}

impl Drop for SessionServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const LOGIN: &str = r#"
[[load.http.scenario]]
name = "login"
steps = [
  { get = "/login", take = { token = { css = "input[name=authenticity_token]", attribute = "value" } } },
  { post = "/login", form = { username = "{name}", password = "{name}-{env.SUFFIX}", authenticity_token = "{token}" }, expect_status = 302, expect_text = "Logged in as {name}" },
  { get = "/search?q={term}", expect_body = "found {term}" },
  { post = "/api", headers = { Authorization = "Bearer {env.API_KEY}" }, json = { id = "{term}" }, take = { id = { json = "$.items[0].id" } } },
  { get = "/my/page", take = { who = { regex = "as (\\w+)" } }, expect_text = "Logged in as" },
]
"#;

/// Runs `carat load http` with a scenario file in a folder of its own.
fn load(server: &SessionServer, scenario: &str, more: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), scenario);
    let mut command = Command::new(env!("CARGO_BIN_EXE_carat"));
    command.args(["load", "http", &server.1, "--scenario"]).arg(file).args(more);
    command.env("SUFFIX", "secret").env("API_KEY", "k3y").env_remove("NOT_SET").output().unwrap()
}

fn written(folder: &Path, scenario: &str) -> PathBuf {
    // A value with characters that a query, a form and JSON each escape differently.
    fs::write(folder.join("users.csv"), "name,term\nann,\"a & \"\"b\"\"\"\nbob,é=+\n").unwrap();
    let file = folder.join("scenario.toml");
    fs::write(&file, scenario).unwrap();
    file
}

fn report(output: &Output) -> Value {
    let json: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    json["report"].clone()
}

fn with_data(scenario: &str) -> String {
    format!("[load.http]\ndata = \"users.csv\"\n{scenario}")
}

#[test]
fn users_log_in_with_tokens_cookies_and_redirects() {
    require!(Ruby);
    let server = SessionServer::start();
    let output = load(&server, &with_data(LOGIN), &["-c", "1", "-n", "120", "--json"]);
    let report = report(&output);
    assert!(output.status.success(), "{report:#}");
    assert_eq!((&report["completed"], &report["errors"]), (&120.into(), &0.into()), "{report:#}");
    let rows: Vec<String> = report["routes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let redirected = if row["redirected"] == true { ", redirected" } else { "" };
            format!("{} {}{redirected} {}", row["step"], row["route"], row["completed"])
        })
        .collect();
    let expected = [
        "1 \"GET /login\" 20",
        "2 \"POST /login\" 20",
        "2 \"POST /login\", redirected 20",
        "3 \"GET /search?q={term}\" 20",
        "4 \"POST /api\" 20",
        "5 \"GET /my/page\" 20",
    ];
    assert_eq!(rows, expected);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("k3y"), "a value of the environment is in the report");
    assert!(text.contains("{env.API_KEY}"));
}

/// A login that each user sends once, and what needs it.
const LOGIN_ONCE: &str = r#"
[[load.http.scenario]]
name = "reader"
steps = [
  { get = "/login", once = true, take = { token = { css = "input[name=authenticity_token]", attribute = "value" } } },
  { post = "/login", once = true, form = { username = "{name}", password = "{name}-{env.SUFFIX}", authenticity_token = "{token}" }, expect_status = 302 },
  { get = "/my/page", expect_text = "Logged in as {name}" },
  { get = "/search?q={term}", expect_body = "found {term}" },
]
"#;

/// Step, route and completed requests of every row.
fn rows(report: &Value) -> Vec<(u64, String, u64)> {
    let rows = report["routes"].as_array().unwrap().iter();
    rows.map(|row| {
        let route = row["route"].as_str().unwrap();
        let redirected = if row["redirected"] == true { ", redirected" } else { "" };
        let completed = row["completed"].as_u64().unwrap();
        (row["step"].as_u64().unwrap(), format!("{route}{redirected}"), completed)
    })
    .collect()
}

#[test]
fn a_user_logs_in_once_and_repeats_the_rest_with_the_same_session() {
    require!(Ruby);
    let server = SessionServer::start();
    let more = ["-c", "2", "--threads", "2", "-n", "126", "--json"];
    let report = report(&load(&server, &with_data(LOGIN_ONCE), &more));
    assert_eq!((&report["completed"], &report["errors"]), (&126.into(), &0.into()), "{report:#}");
    let rows = rows(&report);
    // Each user: a form, a login, its redirect, and 60 requests that need the session.
    let expected = [
        (1, "GET /login", 2),
        (2, "POST /login", 2),
        (2, "POST /login, redirected", 2),
        (3, "GET /my/page", 60),
        (4, "GET /search?q={term}", 60),
    ];
    assert_eq!(rows, expected.map(|(step, route, count)| (step, route.to_owned(), count)));
}

#[test]
fn a_user_whose_session_ends_logs_in_again() {
    require!(Ruby);
    let server = SessionServer::start();
    let logout =
        LOGIN_ONCE.replace("{ get = \"/search", "{ post = \"/logout\" },\n  { get = \"/search");
    let report = report(&load(
        &server,
        &with_data(&logout),
        &["-c", "1", "-n", "70", "--errors", "20%", "--json"],
    ));
    let rows = rows(&report);
    let of = |step| rows.iter().find(|row| row.0 == step).unwrap().2;
    // Every second pass finds that the session is gone: two passes are 3 + 3 + 2 requests.
    assert!(of(1) >= 8 && of(1) == report["errors"].as_u64().unwrap() + 1, "{report:#}");
    assert_eq!(report["errors_by"].as_object().unwrap().keys().collect::<Vec<_>>(), ["body"]);
}

#[test]
fn every_scenario_with_a_login_has_a_session_of_its_own_and_the_others_none() {
    require!(Ruby);
    let server = SessionServer::start();
    let second = LOGIN_ONCE.replace("reader", "again");
    let visitor = "[[load.http.scenario]]\nname = 'visitor'\nsteps = [{ get = '/my/page', expect_text = 'authenticity_token' }]\n";
    let all = with_data(&[LOGIN_ONCE, visitor, second.as_str()].concat());
    let report = report(&load(&server, &all, &["-c", "1", "-n", "400", "--json"]));
    assert_eq!((&report["completed"], &report["errors"]), (&400.into(), &0.into()), "{report:#}");
    let logins: Vec<u64> =
        rows(&report).iter().filter(|row| row.1 == "POST /login").map(|row| row.2).collect();
    assert_eq!(logins, [1, 1], "{report:#}");
}

#[test]
fn cookies_go_where_a_browser_sends_them() {
    require!(Ruby);
    let server = SessionServer::start();
    let scenario = "[[scenario]]\nname = 's'\nsteps = [{ get = '/cookies/set' }, \
        { get = '/cookies/seen', expect_body = 'sent: root=1; safe=1' }, \
        { get = '/admin/seen?q=/', expect_body = 'sent: admin=1; root=1; safe=1' }, \
        { get = '/none', expect_status = 404 }, { get = '/none' }]";
    let report = report(&load(&server, scenario, &["-c", "1", "-n", "50", "--json"]));
    assert_eq!(report["errors_by"], serde_json::json!({ "status": 10 }), "{report:#}");
    let message = report["flags"][0]["message"].as_str().unwrap();
    let refused = "the cookie `other` was refused: it is for the domain `elsewhere.test`";
    assert!(
        message.contains("step 5 (GET /none): status 404") && message.contains(refused),
        "{message}"
    );
}

#[test]
fn a_variable_that_the_server_echoes_is_masked_for_a_plain_route() {
    require!(Ruby);
    let server = SessionServer::start();
    let mut command = Command::new(env!("CARGO_BIN_EXE_carat"));
    command.args(["load", "http", &format!("{}echo", server.1), "-n", "20", "--json"]);
    command.args(["-H", "Authorization: Bearer {env.API_KEY}"]).env("API_KEY", "k3y&<secret>");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let body = &report(&output)["failures"][0]["body"];
    assert_eq!(body, "wrong key Bearer {env.API_KEY}", "{text}");
    assert!(!text.contains("k3y&"), "{text}");
}

#[test]
fn users_on_several_threads_have_their_own_cookies_and_rows() {
    require!(Ruby);
    let server = SessionServer::start();
    let more = ["-c", "6", "--threads", "2", "-n", "600", "--json"];
    let report = report(&load(&server, &with_data(LOGIN), &more));
    assert_eq!((&report["completed"], &report["errors"]), (&600.into(), &0.into()), "{report:#}");
}

#[test]
fn the_text_has_a_line_per_step() {
    require!(Ruby);
    let server = SessionServer::start();
    let text = String::from_utf8(load(&server, &with_data(LOGIN), &["-c", "1", "-n", "24"]).stdout)
        .unwrap();
    let steps: Vec<&str> = text.lines().filter(|line| line.starts_with("login ")).collect();
    assert_eq!(steps.len(), 6, "{text}");
    assert!(steps[2].starts_with("login 2  POST /login, redirected "), "{text}");
}

/// One step with a fault, the kind under which it is counted, and what the message says.
const FAULTS: [(&str, &str, &str); 10] = [
    ("{ get = '/loop' }", "redirect", "(GET /loop): more than 10 redirects, the last to `/loop`"),
    ("{ get = '/away' }", "redirect", "leads to another server, `http://elsewhere.test/`"),
    ("{ get = '/cookies' }", "cookies", "more than 50 cookies"),
    ("{ get = '/long', expect_text = 'y' }", "too-long", "longer than 1 MiB; the body begins `xxx"),
    ("{ get = '/none' }", "status", "status 404; the body begins `nothing here`"),
    ("{ post = '/login' }", "status", "(POST /login): status 422"),
    ("{ get = '/login', expect_status = 302 }", "status", "status 200, not 302"),
    ("{ get = '/visits', expect_body = 'no' }", "body", "the body is not the expected one"),
    ("{ get = '/visits', expect_text = 'no' }", "body", "does not contain `no`"),
    (
        "{ get = '/login', take = { t = { css = 'input[name=none]', attribute = 'value' } } }",
        "take",
        "step 1 (GET /login): cannot take `t`: no element `input[name=none]` with the attribute `value`; the body begins `<!DOCTYPE html>",
    ),
];

#[test]
fn a_step_that_fails_says_which_one_and_what_it_saw() {
    require!(Ruby);
    let server = SessionServer::start();
    for (step, kind, expected) in FAULTS {
        let scenario = format!("[[scenario]]\nname = 's'\nsteps = [{step}]");
        let output = load(&server, &scenario, &["-c", "1", "-n", "24", "--json"]);
        let report = report(&output);
        assert_eq!(output.status.code(), Some(4), "{step}");
        let kinds: Vec<&String> = report["errors_by"].as_object().unwrap().keys().collect();
        assert_eq!(kinds, [kind], "{step}");
        let message = report["flags"][0]["message"].as_str().unwrap();
        assert!(
            message.contains("scenario `s`, step 1 ") && message.contains(expected),
            "{step}: {message}"
        );
        assert!(report["own"]["rss_peak"].as_u64().is_some_and(|peak| peak < 40_000_000), "{step}");
    }
}

#[test]
fn every_further_problem_of_a_step_is_a_warning_of_its_own() {
    require!(Ruby);
    let server = SessionServer::start();
    let scenarios = "[[scenario]]\nname = 'a'\nsteps = [{ get = '/visits', expect_text = 'no' }]\n\
                     [[scenario]]\nname = 'b'\nsteps = [{ get = '/visits', expect_text = 'nor' }]";
    let report = report(&load(&server, scenarios, &["-c", "1", "-n", "40", "--json"]));
    let flags = report["flags"].as_array().unwrap();
    let warnings: Vec<&str> = flags
        .iter()
        .filter(|flag| flag["code"] == "scenario")
        .map(|flag| flag["message"].as_str().unwrap())
        .collect();
    assert_eq!(warnings.len(), 1, "{report:#}");
    let other = flags[0]["message"].as_str().unwrap();
    assert_ne!(warnings[0].contains("`nor`"), other.contains("`nor`"), "{report:#}");
}

#[test]
fn what_a_scenario_needs_is_missed_before_the_load_begins() {
    require!(Ruby);
    let server = SessionServer::start();
    for (scenario, expected) in [
        ("name = 'x'", "neither [[scenario]] nor"),
        ("[[scenario]]\nname = 's'\nsteps = [{ gett = '/' }]", "unknown field `gett`"),
        ("[[scenario]]\nname = 's'\nsteps = []", "`s` has no steps"),
        (
            "[[scenario]]\nname = 's'\nsteps = [{ get = '/', once = true }]",
            "nothing is left to repeat",
        ),
        ("[[scenario]]\nname = 's'\nsteps = [{ get = '/{env.NOT_SET}' }]", "`NOT_SET` is not set"),
        ("[[scenario]]\nname = 's'\nsteps = [{ get = '/{name}' }]", "unknown placeholder {name}"),
        ("data = 'no.csv'\n[[scenario]]\nname = 's'\nsteps = [{ get = '/' }]", "no.csv"),
    ] {
        let output = load(&server, scenario, &["-n", "4"]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && message.contains(expected), "{scenario}: {message}");
    }
    let visits = load(
        &server,
        "[[scenario]]\nname = 's'\nsteps = [{ get = '/visits', expect_body = '0' }]",
        &["-n", "2"],
    );
    assert!(visits.status.success(), "a refused load sent requests");
}

#[test]
fn in_an_open_load_every_request_is_due_at_its_time() {
    require!(Ruby);
    let server = SessionServer::start();
    let more = ["-c", "4", "-n", "90", "--rate", "300", "--json"];
    let report = report(&load(&server, &with_data(LOGIN), &more));
    assert_eq!((&report["completed"], &report["errors"]), (&90.into(), &0.into()), "{report:#}");
    // The last of 90 requests is due 89 periods after the first, which a busy machine may send late.
    assert!(report["seconds"].as_f64().unwrap() >= 80.0 / 300.0, "{report:#}");
}

#[test]
fn users_pause_between_steps() {
    require!(Ruby);
    let server = SessionServer::start();
    let scenario = "[[scenario]]\nname = 's'\nthink = '100ms'\nsteps = [{ get = '/visits' }, { get = '/search?q=a', think = '0ms' }]";
    let output = load(&server, scenario, &["-c", "1", "-n", "8", "--json"]);
    let report = report(&output);
    // Four passes of one user, each with a pause in the middle.
    assert_eq!(report["completed"], 8, "{report:#}");
    assert!(report["seconds"].as_f64().unwrap() >= 0.4, "{report:#}");
}

#[test]
fn scenarios_are_chosen_by_weight() {
    require!(Ruby);
    let server = SessionServer::start();
    let one = |name: &str, weight: u32| {
        format!(
            "[[scenario]]\nname = '{name}'\nweight = {weight}\nsteps = [{{ get = '/visits' }}]\n"
        )
    };
    let scenarios = [one("often", 9), one("never", 0), one("rare", 1)].concat();
    let report = report(&load(&server, &scenarios, &["-n", "1000", "--json"]));
    let rows: Vec<(&str, u64)> = report["routes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["scenario"].as_str().unwrap(), row["completed"].as_u64().unwrap()))
        .collect();
    assert_eq!([rows[0].0, rows[1].0], ["often", "rare"], "{rows:?}");
    assert!((850..950).contains(&rows[0].1) && rows.len() == 2, "{rows:?}");
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/session.rb");

#[test]
fn an_experiment_sends_the_same_scenarios_and_stores_no_variable() {
    require!(Ruby);
    let folder = Folder::new("scenario");
    written(&folder.path(""), "");
    let experiment = format!(
        r#"
name = "session"
[server]
command = ["ruby", "{SCRIPT}"]
env = {{ PORT = "{{port}}" }}
ready = {{ http = "/visits" }}
[load.http]
connections = 2
requests = 120
data = "users.csv"
{LOGIN}
{TWO_VARIANTS}
warmup_block = false
"#
    );
    folder.write("session.toml", &experiment);
    let mut compare = folder.carat(&["compare", "session.toml"]);
    compare.env("SUFFIX", "secret").stdout(Stdio::piped()).stderr(Stdio::piped());
    let refused = finish(compare.env_remove("API_KEY").spawn().unwrap());
    refused.assert_code(2).assert_says("`API_KEY` is not set");
    let ran = finish(compare.env("API_KEY", "k3y").spawn().unwrap());
    ran.assert_code(3);
    let json = folder.run(&["report", "session.carat", "--json"]).out;
    let results: Value = serde_json::from_str(&json).unwrap();
    for trial in results["results"]["trials"].as_array().unwrap() {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        assert_eq!(trial["load"]["routes"].as_array().unwrap().len(), 6, "{trial:#}");
    }
    let stored = fs::read(folder.path("session.carat")).unwrap();
    let contains = |text: &[u8]| stored.windows(text.len()).any(|window| window == text);
    assert!(contains(b"{env.API_KEY}") && !contains(b"Bearer k3y"));

    folder.write("users.csv", "name,term\ncid,c\n");
    compare.arg("--resume");
    let changed = finish(compare.spawn().unwrap());
    changed.assert_code(2).assert_says("  content of load.http.data: SHA-256 ");
    changed.assert_says("trials before and after them cannot be compared").assert_says("--fresh");
    folder.assert_nothing_left();
}

#[test]
fn a_recording_is_driven_by_the_scenarios_of_a_file() {
    require!(Ruby);
    let folder = Folder::new("recorded-scenario");
    written(&folder.path(""), &with_data(LOGIN));
    let port = carat::target::free_port().unwrap();
    let url = format!("http://127.0.0.1:{port}/visits");
    let load = ["record", "--load", &url, "--scenario", "scenario.toml", "-c", "1", "-n", "60"];
    let mut record = folder.carat(&[&load[..], &["-o", "r.jsonl", "--", "ruby", SCRIPT]].concat());
    record.env("PORT", port.to_string()).env("SUFFIX", "secret").env("API_KEY", "k3y");
    let ran = finish(record.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    ran.assert_code(0);
    let recording = carat::store::recording::read(&folder.path("r.jsonl")).unwrap();
    let report = recording.load().unwrap().report.clone().unwrap();
    assert_eq!((report.completed, report.errors), (60, 0), "{report:?}");
    assert_eq!(report.routes.len(), 6);
    let missing =
        folder.run(&["record", "--load", &url, "--scenario", "none.toml", "--", "sleep", "9"]);
    assert!(missing.talk.contains("none.toml"), "{}", missing.talk);
    folder.assert_nothing_left();
}
