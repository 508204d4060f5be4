//! A machine that sleeps, and too few file descriptors.

use crate::real_run::{experiment, results};
use crate::support::{Folder, finish, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

fn signal_all(pids: &[u32], signal: Signal) {
    for pid in pids {
        let pid = Pid::from_raw(i32::try_from(*pid).unwrap()).unwrap();
        // One may have ended since it was listed.
        let _ = kill_process(pid, signal);
    }
}

#[test]
fn a_machine_that_sleeps_during_a_trial_loses_no_trial_and_is_noticed() {
    require!(Ruby);
    let folder = experiment("asleep", "ANSWER_SLEEP = '0.05'", "");
    let mut command = folder.carat(&["compare", "real.toml"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The first five responses belong to the readiness check and the warm-up.
    let answered =
        || std::fs::read_to_string(folder.path("marks/request")).ok()?.parse::<u32>().ok();
    wait_until("under load", || answered().is_some_and(|answered| answered >= 10));
    let all = folder.pids();
    assert!(all.contains(&child.id()) && all.len() >= 3, "{all:?}");
    signal_all(&all, Signal::STOP);
    // Many times the delay at which the generator's report must set a flag.
    sleep(Duration::from_secs(2));
    signal_all(&all, Signal::CONT);
    finish(child).assert_code(3);
    folder.assert_nothing_left();
    let results = results(&folder);
    let trials = results["results"]["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4);
    // Depending on which stopped first, a response waited for the generator or a request for the server.
    let lagged = |trial: &serde_json::Value| trial["load"]["flags"].to_string().contains("gen-lag");
    let waited = |trial: &serde_json::Value| {
        trial["metrics"]["latency.max"].as_f64().is_some_and(|seconds| seconds > 1.5)
    };
    let noticed =
        |trial: &serde_json::Value| trial["outcome"] != "ok" || lagged(trial) || waited(trial);
    assert!(trials.iter().any(noticed), "{results:#}");
}

/// The program under a hard limit of file descriptors.
fn with_descriptors(folder: &Folder, limit: u32, arguments: &[&str]) -> Command {
    let carat = folder.carat(arguments);
    let limited = format!("ulimit -n {limit}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited, "sh"]).arg(carat.get_program()).args(carat.get_args());
    for (name, value) in carat.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(folder.path("")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn too_few_descriptors_are_reported_with_the_remedy_or_do_not_matter() {
    require!(Ruby);
    let folder = Folder::new("few");
    let load = ["load", "http", "http://127.0.0.1:1/", "-c", "500", "-n", "500"];
    let mut command = with_descriptors(&folder, 100, &load);
    // Root may raise the limit, so another user runs it.
    if rustix::process::geteuid().is_root() {
        std::os::unix::process::CommandExt::uid(&mut command, 65_534);
    }
    let ran = finish(command.spawn().unwrap());
    ran.assert_code(1).assert_says("ulimit -Hn 566");
    for limit in [12, 16, 24] {
        let folder = experiment("few", "", "");
        let command = with_descriptors(&folder, limit, &["compare", "real.toml"]).spawn();
        let ran = finish(command.unwrap());
        assert!(matches!(ran.code, Some(1 | 3 | 4)), "{limit}: {ran:?}");
        assert!(ran.code == Some(3) || ran.talk.contains("error:"), "{limit}: {ran:?}");
        folder.assert_nothing_left();
    }
}
