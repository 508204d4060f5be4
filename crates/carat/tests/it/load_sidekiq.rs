//! Loads of real Sidekiq jobs in a real Redis.

use crate::needs::TestRuby;
use crate::real_run::results;
use crate::support::{Folder, Group, Ran, TWO_VARIANTS, finish, wait_until};
use serde_json::Value;
use std::fs;
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// A Redis of its own, on a port that the kernel chose.
pub(crate) struct Redis {
    port: u16,
    _server: Group,
}

impl Redis {
    pub(crate) fn start(folder: &Folder, more: &[&str]) -> Self {
        let port = carat::target::free_port().unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()]);
        command.args(more).stdout(fs::File::create(folder.path("redis.log")).unwrap());
        let server = Group::start(command);
        wait_until("Redis listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { port, _server: server }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn ask(&self, words: &[&str]) -> String {
        let port = self.port.to_string();
        let output = Command::new("redis-cli").args(["-p", &port]).args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Waits for Sidekiq's own count of the jobs, which it writes at its heartbeat.
    fn wait_for_counts(&self, processed: &str, failed: &str) {
        wait_until("Sidekiq's heartbeat", || self.ask(&["GET", "stat:processed"]) == processed);
        let found = self.ask(&["GET", "stat:failed"]);
        assert_eq!(if found.is_empty() { "0" } else { &found }, failed);
    }
}

/// A Sidekiq with five threads.
pub(crate) fn sidekiq(folder: &Folder, ruby: TestRuby, redis_url: &str) -> Group {
    folder.write("jobs.rb", include_str!("data/jobs.rb"));
    let mut command = ruby.command(None);
    command.args([
        "-S",
        "sidekiq",
        "-r",
        "./jobs.rb",
        "-c",
        "5",
        "-q",
        "default",
        "-e",
        "production",
    ]);
    command.current_dir(folder.path("")).env("REDIS_URL", redis_url);
    for (name, file) in [("DONE", "done"), ("LATENCIES", "latencies"), ("READY", "ready")] {
        command.env(name, folder.path(file));
    }
    let log = fs::File::create(folder.path("sidekiq.log")).unwrap();
    command.stdout(log.try_clone().unwrap()).stderr(log);
    let group = Group::start(command);
    wait_until("Sidekiq has started", || folder.path("ready").exists());
    group
}

fn load(folder: &Folder, url: &str, arguments: &[&str]) -> Ran {
    folder.run(&[&["load", "sidekiq", url][..], arguments].concat())
}

fn report(ran: &Ran) -> Value {
    serde_json::from_str::<Value>(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"))["report"].clone()
}

fn lines(folder: &Folder, file: &str) -> Vec<String> {
    fs::read_to_string(folder.path(file)).unwrap().lines().map(str::to_owned).collect()
}

/// Seconds of every job by Sidekiq's own middleware, ascending.
fn true_latencies(folder: &Folder) -> Vec<f64> {
    let lines = lines(folder, "latencies");
    let mut found: Vec<f64> = lines.iter().map(|line| line.parse().unwrap()).collect();
    found.sort_by(f64::total_cmp);
    found
}

fn check_backlog(ruby: TestRuby) {
    let folder = Folder::new("backlog");
    let redis = Redis::start(&folder, &[]);
    let _sidekiq = sidekiq(&folder, ruby, &redis.url());
    let arguments = ["--class", "SleepJob", "--args", "[20, \"{number}\"]", "-n", "300", "--json"];
    let ran = load(&folder, &redis.url(), &arguments);
    ran.assert_code(0);
    let report = report(&ran);
    assert_eq!((&report["completed"], &report["errors"]), (&300.into(), &0.into()), "{report}");
    assert_eq!(report["jobs"]["threads"], 5, "{report}");
    // 300 jobs of 20 ms on five threads.
    assert!(report["seconds"].as_f64().unwrap() >= 1.2, "{report}");
    let [queued, latency] = [&report["jobs"]["queued"]["max"], &report["metrics"]["latency.p95"]];
    assert!(queued.as_f64() > Some(0.5) && latency.as_f64() > Some(0.5), "{report}");
    let mut numbers: Vec<u64> =
        lines(&folder, "done").iter().map(|line| line.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=300).collect::<Vec<_>>());
    assert_eq!(redis.ask(&["SMEMBERS", "queues"]), "default");
    redis.wait_for_counts("300", "0");
}

#[test]
fn a_backlog_is_followed_to_its_end_and_sidekiq_6_4_counts_the_same() {
    require!(Sidekiq);
    check_backlog(TestRuby::OnPath);
}

#[test]
fn a_backlog_is_followed_to_its_end_and_sidekiq_6_0_counts_the_same() {
    require!(Sidekiq, Roots("bullseye"));
    check_backlog(TestRuby::InRoot("bullseye"));
}

#[test]
fn a_backlog_is_followed_to_its_end_and_sidekiq_7_3_counts_the_same() {
    require!(Sidekiq, Roots("trixie"));
    check_backlog(TestRuby::InRoot("trixie"));
}

#[test]
fn the_latency_at_a_rate_is_that_of_sidekiqs_own_clock_or_later_by_the_resolution() {
    require!(Sidekiq);
    let folder = Folder::new("rate");
    let redis = Redis::start(&folder, &[]);
    let _sidekiq = sidekiq(&folder, TestRuby::OnPath, &redis.url());
    let arguments =
        ["--class", "SleepJob", "--args", "[100]", "-n", "60", "--rate", "30", "--json"];
    let ran = load(&folder, &redis.url(), &arguments);
    ran.assert_code(0);
    let report = report(&ran);
    let known = true_latencies(&folder);
    assert_eq!((report["completed"].as_u64(), known.len()), (Some(60), 60));
    let median = report["metrics"]["latency.p50"].as_f64().unwrap();
    let expected = known[30];
    assert!(median >= 0.99 * known[29] && median < 2.0 * expected, "{median} of {expected}");
    let resolution = report["jobs"]["resolution"][0].as_f64().unwrap();
    assert!((0.004..0.1).contains(&resolution), "{report}");
    // Three jobs are under way on average, so one of five threads is free.
    assert!(report["jobs"]["queued"]["p50"].as_f64() < Some(expected), "{report}");
}

#[test]
fn jobs_are_counted_at_the_heartbeat_where_not_all_threads_wait_in_redis() {
    require!(Sidekiq);
    let folder = Folder::new("heartbeat");
    let redis = Redis::start(&folder, &[]);
    let _sidekiq = sidekiq(&folder, TestRuby::OnPath, &redis.url());
    // A process whose threads wait elsewhere, as with another fetcher.
    let info = r#"{"concurrency":50,"queues":["default"]}"#;
    redis.ask(&["SADD", "processes", "other"]);
    redis.ask(&["HSET", "other", "info", info]);
    let jobs = ["--class", "SleepJob", "--args", "[1]", "-n", "20", "--json"];
    let ran = load(&folder, &redis.url(), &jobs);
    ran.assert_code(0);
    let report = report(&ran);
    assert_eq!((&report["completed"], &report["latency_hdr"]), (&20.into(), &Value::Null));
    assert_eq!(report["flags"][0]["code"], "by-heartbeat", "{report}");
}

#[test]
fn no_more_jobs_than_requested_are_in_the_queue_at_once() {
    require!(Sidekiq);
    let folder = Folder::new("at-once");
    let redis = Redis::start(&folder, &[]);
    let _sidekiq = sidekiq(&folder, TestRuby::OnPath, &redis.url());
    let arguments = ["--class", "SleepJob", "--args", "[10]", "-n", "100", "--at-once", "2"];
    let ran = load(&folder, &redis.url(), &arguments);
    ran.assert_code(0).assert_says("100 jobs in ").assert_says("in queue  p50 ");
    ran.assert_says("5 threads of Sidekiq, read every ");
    // Two at once on five threads: none waits for a thread, so a job takes what it takes alone.
    let known = true_latencies(&folder);
    assert!(known[50] < 10.0 * known[0], "{known:?}");
}

#[test]
fn failed_jobs_refuse_the_load_with_class_and_message() {
    require!(Sidekiq);
    let folder = Folder::new("failed");
    let redis = Redis::start(&folder, &[]);
    let _sidekiq = sidekiq(&folder, TestRuby::OnPath, &redis.url());
    let ran = load(&folder, &redis.url(), &["--class", "NoSuchJob", "-n", "20"]);
    ran.assert_code(4).assert_says("NoSuchJob → NameError ×20: uninitialized constant NoSuchJob");
    ran.assert_says("no job ended without a failure, 20 errors");

    let some = ["--class", "FailJob", "--args", "[\"{number}\", 4]", "-n", "100"];
    let ran = load(&folder, &redis.url(), &some);
    // Which of Sidekiq's threads fails first is not known.
    ran.assert_code(4).assert_says("FailJob → ArgumentError ×25: no order ");
    ran.assert_says("25 of 100 jobs failed or did not end").assert_says("the limit is 1%");
    let allowed = [&some[..], &["--errors", "30%", "--retry", "1"]].concat();
    let ran = load(&folder, &redis.url(), &allowed);
    ran.assert_code(0).assert_says("75 jobs in ").assert_says("25 errors");
    redis.wait_for_counts("220", "70");
}

#[test]
fn jobs_have_the_arguments_of_their_rows() {
    require!(Sidekiq);
    let folder = Folder::new("rows");
    let redis = Redis::start(&folder, &["--databases", "4"]);
    let url = format!("{}/3", redis.url());
    let _sidekiq = sidekiq(&folder, TestRuby::OnPath, &url);
    let good = folder.write("good.csv", "millis,name\n1,ann\n2,bob\n");
    let data = ["--class", "SleepJob", "-n", "5", "--data"];
    let arguments = [&data[..], &[good.to_str().unwrap()]].concat();
    load(&folder, &url, &arguments).assert_code(0);
    let mut done = lines(&folder, "done");
    done.sort_unstable();
    assert_eq!(done, ["ann", "ann", "ann", "bob", "bob"]);

    let bad = folder.write("bad.csv", "millis,name\n1\n");
    let arguments = [&data[..], &[bad.to_str().unwrap()]].concat();
    load(&folder, &url, &arguments).assert_code(1).assert_says("found record with 1 field");
    let unknown = ["--class", "SleepJob", "-n", "5", "--args", "[\"{nmae}\"]"];
    load(&folder, &url, &unknown).assert_code(1).assert_says("unknown placeholder {nmae}");
    load(&folder, &url, &["--class", "A", "-n", "5", "--args", "{}"]).assert_code(2);
    assert_eq!(redis.ask(&["-n", "3", "LLEN", "queue:default"]), "0");
}

#[test]
fn a_redis_that_refuses_or_goes_away_is_named_without_its_password() {
    require!(Sidekiq);
    let folder = Folder::new("refused");
    let redis = Redis::start(&folder, &["--requirepass", "open-sesame"]);
    let url = |password: &str| format!("redis://:{password}@127.0.0.1:{}", redis.port);
    let _sidekiq = sidekiq(&folder, TestRuby::OnPath, &url("open-sesame"));
    let jobs = ["--class", "SleepJob", "--args", "[200]", "-n", "1000"];
    let ran = load(&folder, &url("wrong-secret"), &jobs);
    ran.assert_code(4).assert_says("WRONGPASS").assert_says("check user, password and database");
    assert!(!ran.out.contains("wrong-secret") && !ran.talk.contains("wrong-secret"), "{ran:?}");
    load(&folder, &redis.url(), &jobs).assert_code(4).assert_says("NOAUTH");
    load(&folder, &url("{env.NOT_SET_HERE}"), &jobs)
        .assert_code(1)
        .assert_says("`NOT_SET_HERE` of the environment, which is not set");

    let url = url("{env.REDIS_PASSWORD}");
    let mut carat = folder.carat(&[&["load", "sidekiq", &url][..], &jobs].concat());
    carat.env("REDIS_PASSWORD", "open-sesame").stdout(Stdio::piped()).stderr(Stdio::piped());
    let carat = carat.spawn().unwrap();
    wait_until("jobs run", || folder.path("done").exists());
    drop(redis);
    let ran = finish(carat);
    ran.assert_code(4)
        .assert_says("server-gone: Redis at 127.0.0.1:")
        .assert_says(" of 1000 pushed jobs had ended");
}

#[test]
fn a_redis_without_sidekiq_and_a_port_without_redis_are_named() {
    require!(Ruby, Sidekiq);
    let folder = Folder::new("none");
    let redis = Redis::start(&folder, &[]);
    let ran = load(&folder, &redis.url(), &["--class", "A", "-n", "5"]);
    ran.assert_code(4).assert_says("no Sidekiq process is registered in database 0");
    assert_eq!(redis.ask(&["EXISTS", "queue:default", "queues"]), "0");
    let free = carat::target::free_port().unwrap();
    let ran = load(&folder, &format!("redis://127.0.0.1:{free}"), &["--class", "A", "-n", "5"]);
    ran.assert_code(4).assert_says("(connection refused): nothing listens there");
    let port = carat::target::free_port().unwrap();
    let mut server = Command::new("ruby");
    server.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/server.rb"));
    server.env("PORT", port.to_string()).stderr(Stdio::null());
    let _server = Group::start(server);
    wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let ran = load(
        &folder,
        &format!("redis://127.0.0.1:{port}"),
        &["--class", "A", "-n", "5", "--timeout", "2s"],
    );
    ran.assert_code(4);
}

const SERVED: &str = r#"
name = "real"
[server]
command = ["ruby", "-S", "sidekiq", "-r", "./jobs.rb", "-c", "5", "-e", "production"]
env = { REDIS_URL = "redis://127.0.0.1:{services.redis.port}", DONE = "{dir}/done", LATENCIES = "{dir}/latencies", READY = "{dir}/ready" }
ready = { log = "ready for jobs" }
[services.redis]
command = ["redis-server", "--bind", "127.0.0.1", "--port", "{port}", "--save", ""]
ready = { tcp = true }
[load.sidekiq]
class = "SleepJob"
args = [5, "{number}"]
jobs = 200
[measure]
primary = "memory.pss.late"
sample_every = "50ms"
at_requests = [100]
"#;

fn experiment() -> String {
    format!("{SERVED}{TWO_VARIANTS}")
}

#[test]
fn an_experiment_weighs_a_sidekiq_under_its_jobs() {
    require!(Sidekiq);
    let folder = Folder::new("compare");
    folder.write("jobs.rb", include_str!("data/jobs.rb"));
    folder.write("real.toml", &experiment());
    let ran = folder.run(&["compare", "real.toml", "--dry-run"]);
    ran.assert_code(0)
        .assert_says("200 jobs all at once, after 20 jobs to warm up: SleepJob in queue default");
    folder.run(&["compare", "real.toml"]).assert_code(3);
    folder.assert_nothing_left();
    let results = results(&folder);
    let trials = results["results"]["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4, "a warm-up block and one block of two variants");
    for trial in trials {
        assert_eq!((&trial["outcome"], &trial["load"]["completed"]), (&"ok".into(), &200.into()));
        let known = &trial["metrics"];
        for name in ["memory.pss.late", "latency.p50", "throughput", "errors"] {
            assert!(known[name].is_number(), "{name}: {trial}");
        }
    }

    folder.write("real.toml", &experiment().replace("SleepJob", "NoSuchJob"));
    let ran = folder.run(&["compare", "real.toml", "--fresh"]);
    ran.assert_code(4).assert_says("NoSuchJob → NameError ×20");
    folder.write("real.toml", &experiment().replace("jobs = 200", "jobs = 200\ndata = 'no.csv'"));
    folder
        .run(&["compare", "real.toml", "--fresh"])
        .assert_says("cannot read")
        .assert_says("no.csv");
}
