//! Commands of every trial: `[prepare]` before the server, `[cleanup]` after it.

use crate::real_run::{experiment, results};
use crate::support::{Folder, finish, signal, wait_until};
use rustix::process::Signal;
use std::fs;
use std::process::Stdio;

fn order(folder: &Folder) -> Vec<String> {
    let text = fs::read_to_string(folder.path("marks/order")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// A `[cleanup]` that fails if the server was never started or still listens.
const CLEANUP: &str = r#"[cleanup]
command = ['sh', '-c', 'echo cleanup >> marks/order; rm marks/boot && ! ruby -rsocket -e "TCPSocket.new(%(127.0.0.1), {port})" 2>/dev/null']
"#;

#[test]
fn a_trial_is_prepared_before_its_server_starts_and_cleaned_up_after_it_has_stopped() {
    require!(Ruby);
    let prepare = r#"[services.beside]
command = ['sh', '-c', 'echo up; sleep 600']
ready = { log = 'up' }
[prepare]
command = ['sh', '-c', 'test ! -e marks/boot && test -d {dir} && echo "$PORT $OWN {services.beside.port}" && echo prepare >> marks/order']
env = { OWN = 'own-{port}' }
"#;
    let folder = experiment("prepared", "", &format!("{prepare}{CLEANUP}"));
    folder.run(&["compare", "real.toml"]).assert_code(3);
    folder.assert_nothing_left();
    assert_eq!(order(&folder), ["prepare", "cleanup"].repeat(4));
    for trial in results(&folder)["results"]["trials"].as_array().unwrap() {
        assert_eq!((&trial["outcome"], trial["notes"].to_string().as_str()), (&"ok".into(), "[]"));
        let log = trial["log_tail"].as_str().unwrap();
        let printed = log.strip_prefix("prepare: ").expect(log).lines().next().unwrap();
        let words: Vec<&str> = printed.split(' ').collect();
        let [port, own, beside] = words[..] else { panic!("{printed}") };
        assert_eq!(own, format!("own-{port}"), "the server's variables and the command's own");
        assert!(port.parse::<u16>().is_ok() && beside.parse::<u16>().is_ok(), "{printed}");
    }
}

#[test]
fn a_prepare_command_that_fails_is_the_outcome_of_the_trial_and_its_cleanup_still_runs() {
    require!(Ruby);
    let extra = "[prepare]\ncommand = ['sh', '-c', 'echo first; echo no seed here >&2; exit 3']\n\
                 [cleanup]\ncommand = ['sh', '-c', 'echo cleanup >> marks/order']";
    let folder = experiment("unprepared", "", extra);
    let ran = folder.run(&["compare", "real.toml"]);
    ran.assert_code(4).assert_says("never-ready");
    ran.assert_says("exit 3` ended with exit status 3: no seed here");
    ran.assert_says("its log ends with:\nprepare: first\nprepare: no seed here");
    folder.assert_nothing_left();
    assert!(!folder.path("marks/boot").exists(), "the server was started");
    assert_eq!(order(&folder), ["cleanup", "cleanup", "cleanup"]);
}

#[test]
fn a_prepare_command_has_a_deadline_and_leaves_no_process_behind() {
    require!(Ruby);
    let extra = "[prepare]\ncommand = ['sh', '-c', 'sleep 600 & sleep 601']\nwithin = '300ms'";
    let folder = experiment("slow-prepare", "", extra);
    let ran = folder.run(&["compare", "real.toml"]);
    ran.assert_code(4).assert_says("sleep 601` still ran after 0.3 s and printed nothing");
    folder.assert_nothing_left();
}

#[test]
fn a_cleanup_command_that_fails_is_a_note_on_a_trial_that_counts() {
    require!(Ruby);
    let extra = "[cleanup]\ncommand = ['sh', '-c', 'echo still in use; exit 1']";
    let folder = experiment("unclean", "", extra);
    folder.run(&["compare", "real.toml"]).assert_code(3);
    folder.assert_nothing_left();
    for trial in results(&folder)["results"]["trials"].as_array().unwrap() {
        assert_eq!(trial["outcome"], "ok");
        let note = trial["notes"][0].as_str().unwrap();
        assert!(note.starts_with("cleanup `sh -c "), "{note}");
        assert!(note.ends_with("ended with exit status 1: still in use"), "{note}");
        assert!(trial["log_tail"].as_str().unwrap().ends_with("cleanup: still in use"));
    }
}

#[test]
fn ctrl_c_under_load_and_while_preparing_runs_the_cleanup() {
    require!(Ruby);
    let phases = [
        ("load", "ANSWER_SLEEP = '5'", "", "request"),
        ("prepare", "", "[prepare]\ncommand = ['sh', '-c', 'touch marks/preparing; sleep 600']\n", "preparing"),
    ];
    for (name, env, prepare, mark) in phases {
        let cleanup = "[cleanup]\ncommand = ['sh', '-c', 'echo cleanup >> marks/order']";
        let folder = experiment(&format!("interrupted-{name}"), env, &format!("{prepare}{cleanup}"));
        let mut command = folder.carat(&["compare", "real.toml"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(name, || folder.path("marks").join(mark).exists());
        signal(&child, Signal::INT);
        finish(child).assert_code(130).assert_says("stopped by Ctrl-C");
        assert_eq!(order(&folder), ["cleanup"], "{name}");
        folder.assert_nothing_left();
    }
}

#[test]
fn after_ctrl_c_a_cleanup_that_failed_is_named() {
    require!(Ruby);
    let cleanup = "[cleanup]\ncommand = ['sh', '-c', 'echo database in use; exit 1']";
    let folder = experiment("interrupted-unclean", "ANSWER_SLEEP = '5'", cleanup);
    let mut command = folder.carat(&["compare", "real.toml"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("under load", || folder.path("marks/request").exists());
    signal(&child, Signal::INT);
    finish(child).assert_code(1).assert_says("database in use; what it should have removed");
    folder.assert_nothing_left();
}
