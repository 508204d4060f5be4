//! Trials of a command that ends by itself: `[run]`.

use crate::real_run::results;
use crate::support::{Folder, TWO_VARIANTS, finish, signal, wait_until};
use rustix::process::Signal;
use std::process::Stdio;

/// An experiment on a Ruby script; `keys` are those of `[run]` and `tables` are added to the file.
fn experiment(name: &str, script: &str, keys: &str, tables: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("job.rb", script);
    let text = format!(
        r#"
name = "real"
[run]
command = ["ruby", "job.rb"]
{keys}
{TWO_VARIANTS}
[measure]
sample_every = "50ms"
primary = "run.time"
{tables}
"#
    );
    folder.write("real.toml", &text);
    folder
}

fn trials(folder: &Folder) -> Vec<serde_json::Value> {
    results(folder)["results"]["trials"].as_array().unwrap().clone()
}

#[test]
fn a_command_is_measured_until_it_ends_and_what_is_gone_then_is_unknown() {
    require!(Ruby);
    let script = "held = Array.new(50_000) { 'x' * 1000 }\nGC.start\nsleep 3\nputs held.size\n";
    let folder = experiment("run", script, "", "");
    let ran = folder.run(&["compare", "real.toml"]);
    ran.assert_code(3).assert_says("run time");
    folder.assert_nothing_left();
    let page = std::fs::read_to_string(folder.path("real.html")).unwrap();
    assert!(page.contains("run begins") && !page.contains("load begins"));
    let trials = trials(&folder);
    assert_eq!(trials.len(), 4, "a warm-up block and one block of two variants");
    for trial in trials {
        assert_eq!((&trial["outcome"], &trial["load"]), (&"ok".into(), &serde_json::Value::Null));
        assert_eq!(trial["notes"], serde_json::json!([]), "{trial}");
        assert_eq!(trial["log_tail"], "50000");
        assert!(trial["machine"]["ruby"].as_str().unwrap().starts_with("ruby "), "{trial}");
        let metric = |name: &str| {
            trial["metrics"][name].as_f64().unwrap_or_else(|| panic!("{name}: {trial}"))
        };
        assert!((3.0..60.0).contains(&metric("run.time")), "{trial}");
        assert!(metric("cpu.server") > 0.0 && metric("cpu.server") < metric("run.time"), "{trial}");
        // 50,000 strings of 1,000 bytes are held at the end.
        for name in ["memory.pss.late", "memory.pss.peak", "memory.rss.late", "memory.rss.peak"] {
            assert!((5e7..3e8).contains(&metric(name)), "{name}: {trial}");
        }
        assert!(metric("gc.count") >= metric("gc.major.count") && metric("gc.major.count") >= 1.0);
        let known = trial["metrics"].as_object().unwrap();
        for name in ["memory.pss.final", "memory.pss.ready", "boot.time", "throughput", "errors"] {
            assert!(!known.contains_key(name), "{name}: {trial}");
        }
    }
}

#[test]
fn a_command_that_fails_is_reported_as_crashed_with_its_last_line() {
    require!(Ruby);
    let folder = experiment("run-fails", "warn 'no rows'\nexit 3\n", "", "");
    let ran = folder.run(&["compare", "real.toml"]);
    ran.assert_code(4).assert_says("crashed: the command ended with exit status 3: no rows");
    folder.assert_nothing_left();
    assert!(trials(&folder).iter().all(|trial| trial["metrics"] == serde_json::json!({})));
}

#[test]
fn children_count_as_far_as_the_command_waited_for_them_and_the_rest_is_stopped_and_noted() {
    require!(Ruby);
    let script = "def busy\n  nil until Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) > 0.5\nend\n\
                  Process.wait(fork { busy })\nfork { Process.setsid; sleep }\nsleep 0.3\n";
    let folder = experiment("run-forks", script, "", "");
    folder.run(&["compare", "real.toml"]).assert_code(3);
    folder.assert_nothing_left();
    for trial in trials(&folder) {
        assert!(trial["metrics"]["cpu.server"].as_f64().unwrap() >= 0.5, "{trial}");
        assert!(trial["metrics"]["gc.count"].is_null(), "a child began with its parent's count");
        assert!(trial["metrics"]["memory.rss.peak"].is_null(), "of several processes");
        let notes = trial["notes"].to_string();
        assert!(notes.contains("1 process of the command still ran after its end"), "{notes}");
    }
}

#[test]
fn a_command_that_ends_before_it_is_sampled_has_a_time_and_no_memory() {
    require!(Ruby);
    let folder = experiment("run-short", "", "", "");
    let text = std::fs::read_to_string(folder.path("real.toml")).unwrap();
    let text = text.replace(r#"["ruby", "job.rb"]"#, r#"["sleep", "0.3"]"#).replace("50ms", "10s");
    folder.write("real.toml", &text);
    folder.run(&["compare", "real.toml"]).assert_code(3);
    for trial in trials(&folder) {
        let known: Vec<&String> = trial["metrics"].as_object().unwrap().keys().collect();
        assert_eq!(known, ["cpu.server", "run.time"], "{trial}");
    }
    folder.assert_nothing_left();
}

#[test]
fn a_command_is_stopped_at_its_deadline() {
    require!(Ruby);
    let folder = experiment("run-late", "sleep\n", "within = '500ms'\nstop_within = '2s'", "");
    let ran = folder.run(&["compare", "real.toml"]);
    ran.assert_code(4).assert_says("the command still ran after 0.5 s and printed nothing");
    folder.assert_nothing_left();
}

#[test]
fn services_and_commands_of_every_trial_surround_a_command_that_ends() {
    require!(Ruby);
    let tables = "[services.beside]\ncommand = ['sh', '-c', 'echo up; sleep 600']\nready = { log = 'up' }\n\
                  [prepare]\ncommand = ['sh', '-c', 'echo seed > {dir}/seed']\n\
                  [cleanup]\ncommand = ['cat', '{dir}/seed']";
    let script = "print File.read(ENV.fetch('SEED')), Integer(ENV.fetch('BESIDE')) > 0\n";
    let keys = "env = { SEED = '{dir}/seed', BESIDE = '{services.beside.port}' }";
    let folder = experiment("run-beside", script, keys, tables);
    folder.run(&["compare", "real.toml"]).assert_code(3);
    folder.assert_nothing_left();
    for trial in trials(&folder) {
        assert_eq!(trial["log_tail"], "seed\ntrue\ncleanup: seed", "{trial}");
    }
}

#[test]
fn after_ctrl_c_or_kill_9_nothing_of_a_command_is_left() {
    require!(Ruby);
    for by_signal in [true, false] {
        let folder = experiment("run-stopped", "File.write('up', '')\nsleep\n", "", "");
        let mut command = folder.carat(&["compare", "real.toml"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("the command runs", || folder.path("up").exists());
        if by_signal {
            signal(&child, Signal::INT);
            finish(child).assert_code(130).assert_says("--resume");
        } else {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        folder.assert_nothing_left();
    }
}

/// `[run]` and what surrounds it; none of the programs is started here.
const FAKE: &str = r#"
name = "fake"
[run]
command = ["true", "job"]
within = "10m"
[prepare]
command = ["cp", "seed.db", "{dir}/app.db"]
[cleanup]
command = ["rm", "{dir}/app.db"]
[[variant]]
name = "default"
[[variant]]
name = "other"
[trials]
max = 30
seed = 5
"#;

#[test]
fn a_dry_run_names_the_command_its_deadline_and_the_commands_of_every_trial() {
    let folder = Folder::new("run-dry");
    folder.write("fake.toml", FAKE);
    let ran = folder.run(&["compare", "fake.toml", "--dry-run"]);
    ran.assert_code(0).assert_says("run         until its command ends, at most 600 s");
    ran.assert_says("prepare     cp seed.db {dir}/app.db\ncleanup     rm {dir}/app.db");
    ran.assert_says("command     true job");
}

#[test]
fn a_command_gets_a_verdict_and_a_fault_in_its_file_is_wrong_usage() {
    let folder = Folder::new("run-fake");
    folder.write("fake.toml", FAKE);
    let ran = folder.run(&["compare", "fake.toml", "--fake", "71e6:1e5,70e6:1e5"]);
    ran.assert_code(0).assert_says("less memory");
    folder.write("both.toml", &format!("{FAKE}[load.http]\n"));
    let ran = folder.run(&["compare", "both.toml"]);
    ran.assert_code(2).assert_says("[run] is a command that ends by itself");
    folder.write("missing.toml", &FAKE.replace("\"cp\"", "\"no-such-program\""));
    let ran = folder.run(&["compare", "missing.toml"]);
    ran.assert_code(2).assert_says("`prepare`: program `no-such-program` was not found");
}
