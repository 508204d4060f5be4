//! Loads of jobs in the tables of Solid Queue and GoodJob, with a worker that takes them as the gems do.

use crate::real_run::results;
use crate::support::{Folder, Group, Ran, TWO_VARIANTS, wait_until};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const TABLES: &str = include_str!("data/queues.sql");

/// A database with the tables, and a worker of them; ended when dropped.
struct Queue {
    url: String,
    _worker: Option<Group>,
    _server: Option<Group>,
}

fn worker(gem: &str, place: &Path) -> Group {
    let mut command = Command::new("ruby");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/queue_worker.rb"));
    command.arg(gem).arg(place).stderr(std::process::Stdio::null());
    Group::start(command)
}

fn psql(place: &Path, statement: &str) -> (bool, String) {
    let mut command = Command::new("psql");
    command.arg("-h").arg(place).args([
        "-U",
        "replicator",
        "-d",
        "postgres",
        "-X",
        "-A",
        "-t",
        "-c",
    ]);
    let output = command.arg(statement).output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

impl Queue {
    fn postgres(folder: &Folder, tables: &str, gem: &str) -> Self {
        let place = folder.path("postgres");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/replicator/postgres");
        let mut command = Command::new(script);
        command.arg(&place).stderr(std::process::Stdio::null());
        let server = Group::start(command);
        wait_until("PostgreSQL answers", || psql(&place, "SELECT 1").0);
        assert!(psql(&place, tables).0);
        let url = format!("postgresql:///postgres?host={}&user=replicator", place.display());
        Self { url, _worker: Some(worker(gem, &place)), _server: Some(server) }
    }

    fn sqlite(folder: &Folder) -> (Self, PathBuf) {
        let file = folder.path("queue.sqlite3");
        let connection = rusqlite::Connection::open(&file).unwrap();
        let tables = TABLES.split("-- good_job").next().unwrap();
        connection.execute_batch(&tables.replace("bigserial", "integer")).unwrap();
        connection.execute_batch("PRAGMA journal_mode = wal").unwrap();
        let url = format!("sqlite:{}", file.display());
        let queue = Self { url, _worker: Some(worker("solid_queue", &file)), _server: None };
        (queue, file)
    }

    fn load(&self, folder: &Folder, arguments: &[&str]) -> Ran {
        folder.run(&[&["load", "sql-queue", &self.url][..], arguments].concat())
    }
}

fn check(folder: &Folder, queue: &Queue, begins: bool) {
    let sleeps = ["--class", "SleepJob", "--args", "[20, \"{number}\"]", "--json"];
    let ran = queue.load(folder, &[&sleeps[..], &["-n", "90"]].concat());
    ran.assert_code(0);
    let report = &serde_json::from_str::<Value>(&ran.out).unwrap()["report"];
    assert_eq!((&report["completed"], &report["errors"]), (&90.into(), &0.into()), "{report}");
    // 90 jobs of 20 ms on three threads.
    assert!(report["metrics"]["latency.p95"].as_f64() > Some(0.4), "{report}");
    assert_eq!(report["jobs"]["queued"].is_object(), begins, "{report}");

    let at_a_rate = [&sleeps[..], &["-n", "40", "--rate", "40"]].concat();
    let ran = queue.load(folder, &at_a_rate);
    let report = &serde_json::from_str::<Value>(&ran.out).unwrap()["report"];
    assert_eq!(report["completed"], 40, "{report}");
    assert!(report["metrics"]["latency.p50"].as_f64() >= Some(0.019), "{report}");

    let fails = ["--class", "FailJob", "--args", "[1, \"{number}\"]", "-n", "100"];
    let ran = queue.load(folder, &fails);
    ran.assert_code(4).assert_says("FailJob → ArgumentError ×25: no order ");
    ran.assert_says("25 of 100 jobs failed or did not end");
}

#[test]
fn jobs_of_solid_queue_in_sqlite_are_followed_to_their_end() {
    require!(Ruby, SqliteGem);
    let folder = Folder::new("solid-sqlite");
    let (queue, _) = Queue::sqlite(&folder);
    check(&folder, &queue, false);
}

#[test]
fn jobs_of_solid_queue_in_postgresql_are_followed_to_their_end() {
    require!(Postgres, PgGem);
    let folder = Folder::new("solid-postgres");
    let tables = TABLES.split("-- good_job").next().unwrap();
    check(&folder, &Queue::postgres(&folder, tables, "solid_queue"), false);
}

#[test]
fn jobs_of_good_job_are_followed_to_their_end() {
    require!(Postgres, PgGem);
    let folder = Folder::new("good-job");
    let queue = Queue::postgres(&folder, TABLES.split("-- good_job").nth(1).unwrap(), "good_job");
    check(&folder, &queue, true);
}

#[test]
fn a_database_without_tables_workers_or_server_is_named() {
    require!(Ruby);
    let folder = Folder::new("no-queue");
    let run = |url: &str, more: &[&str]| {
        let arguments = ["load", "sql-queue", url, "--class", "A", "-n", "5"];
        folder.run(&[&arguments[..], more].concat())
    };
    run("sqlite:none.sqlite3", &[]).assert_code(4).assert_says("cannot open none.sqlite3");
    rusqlite::Connection::open(folder.path("empty.sqlite3"))
        .unwrap()
        .execute_batch("CREATE TABLE t (a)")
        .unwrap();
    run("sqlite:empty.sqlite3", &[]).assert_code(4).assert_says("run the gem's migrations");
    let tables = TABLES.split("-- good_job").next().unwrap().replace("bigserial", "integer");
    rusqlite::Connection::open(folder.path("idle.sqlite3"))
        .unwrap()
        .execute_batch(&tables)
        .unwrap();
    let ran = run("sqlite:idle.sqlite3", &["--timeout", "1s"]);
    ran.assert_code(4)
        .assert_says("A → not-done ×5")
        .assert_says("check whether workers take jobs");
    let nowhere = "postgresql://u:hidden-word@/d?host=/no/such/folder";
    let ran = run(nowhere, &[]);
    ran.assert_code(4).assert_says("/no/such/folder");
    assert!(!ran.out.contains("hidden-word") && !ran.talk.contains("hidden-word"), "{ran:?}");
}

#[test]
fn an_experiment_weighs_a_worker_under_jobs_in_its_own_database() {
    require!(Ruby, SqliteGem);
    let folder = Folder::new("sql-compare");
    let tables = TABLES.split("-- good_job").next().unwrap().replace("bigserial", "integer");
    folder.write("tables.sql", &format!("{tables}PRAGMA journal_mode = wal;"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/queue_worker.rb");
    let create = "SQLite3::Database.new(ARGV[0]).execute_batch2(File.read(ARGV[1]))";
    let text = format!(
        r#"
name = "real"
[server]
command = ["ruby", "{script}", "solid_queue", "{{dir}}/queue.sqlite3"]
ready = {{ log = "ready for jobs" }}
[prepare]
command = ["ruby", "-rsqlite3", "-e", "{create}", "{{dir}}/queue.sqlite3", "tables.sql"]
[load.sql_queue]
database = "sqlite:{{dir}}/queue.sqlite3"
class = "SleepJob"
args = [5, "{{number}}"]
jobs = 200
{TWO_VARIANTS}
"#
    );
    folder.write("real.toml", &text);
    let ran = folder.run(&["compare", "real.toml", "--dry-run"]);
    ran.assert_code(0).assert_says("200 jobs all at once, after 20 jobs to warm up: SleepJob");
    folder.run(&["compare", "real.toml"]).assert_code(3);
    folder.assert_nothing_left();
    for trial in results(&folder)["results"]["trials"].as_array().unwrap() {
        assert_eq!((&trial["outcome"], &trial["load"]["completed"]), (&"ok".into(), &200.into()));
        assert!(trial["metrics"]["latency.p50"].is_number(), "{trial}");
    }
}
