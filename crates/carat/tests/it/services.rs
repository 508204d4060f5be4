//! Services beside the server: one that answers in its place, and a private PostgreSQL.

use crate::real_run::{experiment, results};
use crate::support::{Folder, wait_until};
use std::fs;
use std::path::Path;
use std::process::Stdio;

#[test]
fn a_service_in_front_of_the_server_takes_its_load_and_not_its_memory() {
    require!(Ruby);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/server.rb");
    let front = format!(
        "[services.front]\ncommand = ['ruby', '-e', 'puts %(up); $stdout.flush; load ARGV[0]', '{script}']\n\
         env = {{ PORT = '{{server.port}}' }}\nready = {{ log = 'up' }}"
    );
    let folder = experiment("front", "", &front);
    let plan = fs::read_to_string(folder.path("real.toml")).unwrap();
    let server = format!("command = [\"ruby\", \"{script}\"]");
    let plan = plan.replace(&server, "command = ['ruby', '-e', 'sleep # the server']");
    folder.write("real.toml", &plan);
    folder.run(&["compare", "real.toml"]).assert_code(3);
    folder.assert_nothing_left();
    for trial in results(&folder)["results"]["trials"].as_array().unwrap() {
        assert_eq!(
            (trial["outcome"].as_str(), trial["load"]["completed"].as_u64()),
            (Some("ok"), Some(40))
        );
        let last = trial["samples"].as_array().unwrap().last().unwrap();
        let processes = last["ledger"]["processes"].as_array().unwrap();
        let titles: Vec<_> = processes.iter().map(|one| one["title"].as_str().unwrap()).collect();
        assert!(matches!(titles[..], [title] if title.contains("the server")), "{titles:?}");
    }
}

/// The daemons of the next test.
fn daemons() -> Vec<u32> {
    running(|command| command.starts_with("dddd"))
}

#[test]
fn a_daemon_of_a_service_that_hides_its_environment_is_not_the_servers_and_is_stopped() {
    require!(Ruby);
    // A title that is longer than the arguments overwrites the environment.
    let daemon = "fork { Process.setsid; fork { $0 = 'd' * 4000; held = 'x' * 60_000_000; puts 'up'; \
                  $stdout.flush; sleep }; exit! }; sleep";
    let service = format!(
        "[services.beside]\ncommand = ['ruby', '-e', \"{daemon}\"]\nready = {{ log = 'up' }}"
    );
    let folder = experiment("service-daemon", "", &service);
    folder.run(&["compare", "real.toml"]).assert_code(3);
    folder.assert_nothing_left();
    for trial in results(&folder)["results"]["trials"].as_array().unwrap() {
        let samples = trial["samples"].as_array().unwrap();
        assert!(samples.iter().all(|sample| sample["processes"] == 1), "{trial}");
        assert!(trial["metrics"]["memory.pss.final"].as_f64().unwrap() < 60e6, "{trial}");
        assert_eq!(trial["notes"], serde_json::json!([]));
    }
    assert_eq!(daemons(), [0; 0]);
    fs::remove_file(folder.path("marks/boot")).unwrap();
    let mut command = folder.carat(&["compare", "real.toml", "--fresh"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the server boots", || folder.path("marks/boot").exists());
    assert_ne!(daemons(), [0; 0]);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the daemon is stopped", || daemons().is_empty());
    folder.assert_nothing_left();
}

/// The private PostgreSQL clusters of a test's trials: each server with its helpers.
fn postgres_processes(folder: &Folder) -> Vec<u32> {
    let data = format!("{}/", folder.path("tmp").display());
    let servers =
        running(|command| command.starts_with("postgres\0") && command.contains(&data)).into_iter();
    servers.flat_map(|server| std::iter::once(server).chain(children(server))).collect()
}

/// Pids of the processes whose command line is wanted.
fn running(is_wanted: impl Fn(&str) -> bool) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let command =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    pids.filter(|pid| is_wanted(&command(pid))).collect()
}

fn children(pid: u32) -> Vec<u32> {
    let file = format!("/proc/{pid}/task/{pid}/children");
    let list = fs::read_to_string(file).unwrap_or_default();
    list.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

fn is_gone(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

#[test]
fn a_private_postgresql_ends_with_its_trial_and_with_a_killed_carat() {
    require!(Ruby, Postgres);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/replicator/postgres");
    let service = format!(
        "[services.postgres]\ncommand = ['{script}', '{{dir}}/postgres']\n\
         ready = {{ log = 'ready to accept connections' }}"
    );
    let folder = experiment("postgres", "", &service);
    folder.run(&["compare", "real.toml"]).assert_code(3);
    assert_eq!(postgres_processes(&folder), Vec::<u32>::new());
    folder.assert_nothing_left();

    let folder = experiment("postgres-killed", "ANSWER_SLEEP = '5'", &service);
    let mut command = folder.carat(&["compare", "real.toml"]);
    let mut carat = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("under load", || Path::new(&folder.path("marks/request")).exists());
    let processes = postgres_processes(&folder);
    assert!(processes.len() > 1, "{processes:?}");
    carat.kill().unwrap();
    carat.wait().unwrap();
    folder.assert_nothing_left();
    wait_until("PostgreSQL has ended", || processes.iter().all(|&pid| is_gone(pid)));
}
