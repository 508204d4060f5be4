//! Trials of a command that ends by itself: `[run]`.

use crate::memory_group::MemoryGroup;
use crate::real_run::results;
use crate::support::{Folder, TWO_VARIANTS, finish, signal, wait_until};
use rustix::process::Signal;
use std::process::{Command, Stdio};

const GROUP_PEAK: &str = "memory.group.peak";

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
    let script = "held = Array.new(50_000) { 'x' * 1000 }\nGC.start\nsleep 6\nputs held.size\n";
    let folder = experiment("run", script, "", "");
    let ran = folder.run(&["compare", "real.toml", "--details"]);
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
        assert!((6.0..90.0).contains(&metric("run.time")), "{trial}");
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
fn the_peak_of_all_processes_together_is_that_of_their_own_control_group() {
    require!(Ruby);
    // Whether a group can be made below that of this test, as carat makes one.
    drop(MemoryGroup::new("peak", 1 << 40));
    // Three processes of 60 MB at once, in bytes that are their own.
    let script = "pids = Array.new(3) { fork { held = 'x' * 60_000_000; sleep 1.5; held.size } }\n\
                  pids.each { |pid| Process.wait(pid) }\n";
    let folder = experiment("run-group", script, "", "");
    folder.run(&["compare", "real.toml"]).assert_code(3);
    for trial in trials(&folder) {
        let metric = |name: &str| trial["metrics"][name].as_f64();
        let [together, largest] = ["memory.group.peak", "memory.process.peak"].map(metric);
        let (together, largest) = (together.unwrap(), largest.unwrap());
        assert!((1.8e8..4e8).contains(&together) && largest < 1.4e8, "{trial}");
    }
    folder.assert_nothing_left();
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let left = own.lines().filter_map(|line| line.rsplit(':').next()).flat_map(|group| {
        ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(|top| format!("{top}{group}"))
    });
    for folder in left.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        // Other tests run at the same time.
        let of = name.strip_prefix("carat-run-").and_then(|rest| rest.split('-').next());
        let runs = |pid: &str| std::path::Path::new("/proc").join(pid).exists();
        assert!(of.is_none_or(runs), "{name} is left");
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
        let known: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
        // The kernel's record of its group needs no sample; such a group cannot be made everywhere.
        let known: Vec<&str> = known.into_iter().filter(|name| *name != GROUP_PEAK).collect();
        assert_eq!(known, ["cpu.server", "run.time"], "{trial}");
    }
    folder.assert_nothing_left();
}

/// Prints the kernel's record of its own highest memory, in kB, after it had much for a moment at its end.
const BURST: &str = "sleep 0.4\nheld = 'x' * 80_000_000\nheld = nil\n\
                     puts File.read('/proc/self/status')[/VmHWM:\\s+(\\d+)/, 1]\n";

#[test]
fn every_block_of_commands_begins_at_another_place_of_rubys_heap() {
    require!(Ruby);
    let folder = experiment("run-place", "puts ENV['CARAT_OBJECTS']\n", "", "");
    folder.run(&["compare", "real.toml"]).assert_code(3);
    let trials = trials(&folder);
    let objects = [0, 1].map(|block| {
        let own = trials.iter().filter(|trial| trial["block"] == block);
        own.map(|trial| trial["log_tail"].as_str().unwrap()).collect::<Vec<_>>()
    });
    let [first, second] = objects;
    assert!(first[0] == first[1] && second[0] == second[1], "{first:?} {second:?}");
    assert_ne!(first[0], second[0]);
    assert!(first[0].parse::<u32>().is_ok() && first[0].len() == 4, "{first:?}");
}

fn kilobytes(text: &str) -> f64 {
    text.trim().parse::<f64>().unwrap() * 1024.0
}

#[test]
fn the_peak_of_a_command_is_the_kernels_and_the_same_as_without_carat() {
    require!(Ruby);
    let folder = experiment("run-peak", BURST, "", "");
    let bare = Command::new("ruby").arg(folder.path("job.rb")).output().unwrap();
    let bare = kilobytes(&String::from_utf8_lossy(&bare.stdout));
    let text = std::fs::read_to_string(folder.path("real.toml")).unwrap();
    // Nothing is sampled near the end.
    let text = text.replace("50ms", "10s").replace("primary = \"run.time\"\n", "");
    folder.write("real.toml", &text);
    folder.run(&["compare", "real.toml"]).assert_code(3).assert_says("memory.process.peak");
    for trial in trials(&folder) {
        let metrics = &trial["metrics"];
        let peak = metrics["memory.process.peak"].as_f64().unwrap();
        assert_eq!(metrics["memory.rss.peak"], peak);
        assert!(metrics["memory.pss.peak"].is_null(), "it was not sampled in its last quarter");
        // The kernel counts pages of each thread in batches, so two of its records differ by up to 1 MB.
        let own = kilobytes(trial["log_tail"].as_str().unwrap());
        assert!((peak - own).abs() < 1e6, "{peak} {own}");
        // The probe has 1 MB; without it the two differ as two runs of Ruby do.
        assert!((peak / bare - 1.0).abs() < 0.03, "{peak} with carat, {bare} without");
    }
    folder.assert_nothing_left();
}

#[test]
fn a_command_that_prints_without_end_fills_neither_disk_nor_memory_and_it_is_noted() {
    require!(Ruby);
    // It ends once the log is smaller than what was printed.
    let script = "log = File.stat(File.readlink('/proc/self/fd/1'))\nline = 'x' * 1023 + \"\\n\"\n\
                  begin\n  1000.times { print line }\n  $stdout.flush\n  $printed = $printed.to_i + 1\n\
                    log = File.stat(File.readlink('/proc/self/fd/1'))\n\
                  end until $printed > 100 && log.blocks * 512 < 50_000_000\nputs 'the end'\n";
    let folder = experiment("run-prints", script, "", "");
    folder.run(&["compare", "real.toml"]).assert_code(3).assert_says("printed more than 64 MiB");
    for trial in trials(&folder) {
        assert_eq!(trial["outcome"], "ok", "{trial}");
        assert!(trial["log_tail"].as_str().unwrap().ends_with("the end"));
    }
    folder.assert_nothing_left();
}

#[test]
fn under_nohup_a_closed_terminal_does_not_end_an_experiment() {
    require!(Ruby);
    let folder = experiment("run-nohup", "File.write('up', '')\nsleep 0.5\n", "", "");
    let carat = folder.carat(&["compare", "real.toml"]);
    let mut nohup = Command::new("nohup");
    nohup.arg(carat.get_program()).args(carat.get_args()).env_remove("RUBYOPT");
    nohup.envs(carat.get_envs().filter_map(|(name, value)| Some((name, value?))));
    nohup.current_dir(folder.path("")).stdin(Stdio::null());
    let child = nohup.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the command runs", || folder.path("up").exists());
    signal(&child, Signal::HUP);
    finish(child).assert_code(3).assert_says("real.carat");
    assert_eq!(trials(&folder).len(), 4);
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
    let ran = folder.run(&["compare", "fake.toml", "--details", "--fake", "71e6:1e5,70e6:1e5"]);
    ran.assert_code(0).assert_says("less peak memory of the largest process");
    folder.write("both.toml", &format!("{FAKE}[load.http]\n"));
    let ran = folder.run(&["compare", "both.toml"]);
    ran.assert_code(2).assert_says("[run] is a command that ends by itself");
    folder.write("missing.toml", &FAKE.replace("\"cp\"", "\"no-such-program\""));
    let ran = folder.run(&["compare", "missing.toml"]);
    ran.assert_code(2).assert_says("`prepare`: program `no-such-program` was not found");
}
