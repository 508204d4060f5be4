//! Commands of every trial: `[prepare]` before the server, `[load.command]` against it, `[cleanup]` after it.

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
    let ran = folder.run(&["compare", "real.toml", "--details"]);
    ran.assert_code(4).assert_says("never-ready");
    ran.assert_says("exit 3` ended with exit status 3: no seed here");
    ran.assert_says("its log ends with:\n  prepare: first\n  prepare: no seed here");
    folder.assert_nothing_left();
    assert!(!folder.path("marks/boot").exists(), "the server was started");
    assert_eq!(order(&folder), ["cleanup", "cleanup"]);
}

#[test]
fn a_prepare_command_has_a_deadline_and_leaves_no_process_behind() {
    require!(Ruby);
    let extra = "[prepare]\ncommand = ['sh', '-c', 'sleep 600 & sleep 601']\nwithin = '300ms'";
    let folder = experiment("slow-prepare", "", extra);
    let ran = folder.run(&["compare", "real.toml", "--details"]);
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
        (
            "prepare",
            "",
            "[prepare]\ncommand = ['sh', '-c', 'touch marks/preparing; sleep 600']\n",
            "preparing",
        ),
    ];
    for (name, env, prepare, mark) in phases {
        let cleanup = "[cleanup]\ncommand = ['sh', '-c', 'echo cleanup >> marks/order']";
        let folder =
            experiment(&format!("interrupted-{name}"), env, &format!("{prepare}{cleanup}"));
        let mut command = folder.carat(&["compare", "real.toml"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(name, || folder.path("marks").join(mark).exists());
        signal(&child, Signal::INT);
        finish(child).assert_code(130).assert_says("interrupted");
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

/// The misbehaving server under the load of a Ruby script; `keys` are further keys of `[load.command]`.
fn driven_by(name: &str, env: &str, script: &str, keys: &str) -> Folder {
    let folder = experiment(name, env, "");
    folder.write("load.rb", script);
    let plan = fs::read_to_string(folder.path("real.toml")).unwrap();
    let (before, rest) = plan.split_once("[load.http]").unwrap();
    let (_, after) = rest.split_once("warmup = 4\n").unwrap();
    let load = format!("[load.command]\ncommand = ['ruby', 'load.rb', '{{port}}']\n{keys}\n");
    folder.write("real.toml", &format!("{before}{load}{after}"));
    folder
}

/// Sends 60 requests, one after another.
const CLIENT: &str = "require 'net/http'\n\
    60.times { Net::HTTP.get(URI(\"http://127.0.0.1:#{ARGV[0]}/\")); sleep 0.01 }\n";

#[test]
fn a_command_drives_the_load_and_its_last_json_line_is_its_throughput() {
    require!(Ruby);
    let script = format!(
        "{CLIENT}puts ENV['OWN'], '{{\"completed\": 60, \"seconds\": 0.75, \"errors\": 0}}', 'bye'"
    );
    let folder = driven_by("driven", "", &script, "env = { OWN = 'of {port}' }");
    folder.run(&["compare", "real.toml"]).assert_code(3);
    folder.assert_nothing_left();
    for trial in results(&folder)["results"]["trials"].as_array().unwrap() {
        assert_eq!((&trial["outcome"], &trial["load"]["completed"]), (&"ok".into(), &60.into()));
        let metrics = trial["metrics"].as_object().unwrap();
        assert_eq!((&metrics["throughput"], &metrics["errors"]), (&80.0.into(), &0.0.into()));
        assert!(
            metrics["cpu.server"].as_f64().unwrap() > 0.0 && !metrics.contains_key("latency.p95")
        );
        // The server's memory, without that of the Ruby that drives the load.
        let last = trial["samples"].as_array().unwrap().last().unwrap();
        assert_eq!((&last["processes"], &last["moment"]), (&1.into(), &"end".into()), "{trial}");
        let samples = trial["samples"].as_array().unwrap();
        assert!(samples.iter().all(|sample| sample["processes"] == 1), "{trial}");
        let window = trial["load_window_ms"].as_array().unwrap();
        assert!(window[1].as_u64().unwrap() - window[0].as_u64().unwrap() >= 600, "{trial}");
        let log = trial["log_tail"].as_str().unwrap();
        assert!(log.starts_with("load: of ") && log.ends_with("load: bye"), "{log}");
    }
}

#[test]
fn an_orphan_of_the_command_that_drives_the_load_is_not_the_servers_and_is_stopped() {
    require!(Ruby);
    let orphan =
        "fork { Process.setsid; fork { held = 'x' * 60_000_000; sleep }; exit! }\nsleep 0.5\n";
    let folder = driven_by("driven-orphan", "", &format!("{CLIENT}{orphan}"), "");
    folder.run(&["compare", "real.toml"]).assert_code(3);
    folder.assert_nothing_left();
    for trial in results(&folder)["results"]["trials"].as_array().unwrap() {
        let samples = trial["samples"].as_array().unwrap();
        assert!(samples.iter().all(|sample| sample["processes"] == 1), "{trial}");
        assert_eq!(trial["notes"], serde_json::json!([]));
    }
}

#[test]
fn without_a_report_the_throughput_of_a_command_is_unknown() {
    require!(Ruby);
    let folder = driven_by("driven-silently", "", CLIENT, "");
    folder.run(&["compare", "real.toml"]).assert_code(3);
    for trial in results(&folder)["results"]["trials"].as_array().unwrap() {
        assert_eq!((&trial["outcome"], &trial["load"]), (&"ok".into(), &serde_json::Value::Null));
        assert!(trial["metrics"]["throughput"].is_null() && trial["metrics"]["errors"].is_null());
        assert!(trial["metrics"]["memory.pss.late"].is_f64(), "{trial}");
    }
    folder.assert_nothing_left();
}

#[test]
fn a_load_command_that_fails_or_is_late_makes_the_trial_invalid_and_is_stopped() {
    require!(Ruby);
    let failing = format!("{CLIENT}warn 'thresholds were crossed'\nexit 99\n");
    let late = "fork { sleep }\nsleep\n";
    for (name, script, keys, expected) in [
        ("fails", failing.as_str(), "", "ended with exit status 99: thresholds were crossed"),
        ("late", late, "within = '1s'", "still ran after 1 s and printed nothing"),
    ] {
        let folder = driven_by(&format!("driven-{name}"), "", script, keys);
        let ran = folder.run(&["compare", "real.toml"]);
        ran.assert_code(4).assert_says("load-invalid").assert_says(expected);
        folder.assert_nothing_left();
    }
}

#[test]
fn a_server_that_dies_while_a_command_drives_the_load_has_crashed() {
    require!(Ruby);
    let script = "require 'net/http'\nloop { Net::HTTP.get(URI(\"http://127.0.0.1:#{ARGV[0]}/\")) rescue sleep(0.1) }\n";
    let folder = driven_by("driven-dead", "DIE_AFTER = '20'", script, "");
    let ran = folder.run(&["compare", "real.toml"]);
    ran.assert_code(4).assert_says("crashed: the server ended with signal 9 under load");
    folder.assert_nothing_left();
}

#[test]
fn ctrl_c_stops_the_command_that_drives_the_load() {
    require!(Ruby);
    let folder = driven_by("driven-stopped", "", "File.write('up', '')\nsleep\n", "");
    let mut command = folder.carat(&["compare", "real.toml"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the command runs", || folder.path("up").exists());
    signal(&child, Signal::INT);
    finish(child).assert_code(130).assert_says("interrupted");
    folder.assert_nothing_left();
}
