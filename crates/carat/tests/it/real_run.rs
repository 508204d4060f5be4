//! Trials on real processes that misbehave: outcomes, clean-up, Ctrl-C and kill -9 in every phase.

use crate::needs::TestRuby;
use crate::support::{Folder, TWO_VARIANTS, finish, signal, wait_until};
use rustix::process::Signal;
use std::fs;
use std::net::TcpListener;
use std::process::{Child, Stdio};

/// An experiment on the misbehaving server. `env` is added to its environment and `extra` to the file.
pub(crate) fn experiment(name: &str, env: &str, extra: &str) -> Folder {
    let folder = Folder::new(name);
    fs::create_dir(folder.path("marks")).unwrap();
    folder.write("real.toml", &text(&folder, "20s", env, extra));
    folder
}

/// Two variants of the misbehaving server, which creates a file in `marks` for each phase that it reaches.
pub(crate) fn text(folder: &Folder, within: &str, env: &str, extra: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/server.rb");
    let marks = folder.path("marks").display().to_string();
    format!(
        r#"
name = "real"
[server]
command = ["ruby", "{script}"]
env = {{ PORT = "{{port}}", MARKS = "{marks}", {env} }}
ready = {{ http = "/", within = "{within}" }}
stop_within = "2s"
[load.http]
path = "/"
connections = 2
requests = 40
warmup = 4
{TWO_VARIANTS}
{extra}
"#
    )
}

pub(crate) fn results(folder: &Folder) -> serde_json::Value {
    let ran = folder.run(&["report", "real.carat", "--json"]);
    serde_json::from_str(&ran.assert_code(0).out).unwrap()
}

fn start(folder: &Folder) -> Child {
    let mut command = folder.carat(&["compare", "real.toml", "--resume"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_good_server_is_measured_and_nothing_is_left() {
    require!(Ruby);
    let folder = experiment("good", "", "[measure]\nsample_every = '50ms'");
    folder.run(&["compare", "real.toml"]).assert_code(3);
    folder.assert_nothing_left();
    let results = results(&folder);
    let trials = results["results"]["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4, "a warm-up block and one block of two variants");
    for trial in trials {
        assert_eq!(trial["outcome"], "ok", "{trial}");
        let metric = |name: &str| {
            trial["metrics"][name].as_f64().unwrap_or_else(|| panic!("{name}: {trial}"))
        };
        // A Ruby that has only loaded sockets uses more than 5 MB and less than 200 MB.
        for name in ["memory.rss.final", "memory.pss.final", "memory.pss.ready", "memory.rss.peak"]
        {
            assert!((5e6..2e8).contains(&metric(name)), "{name}: {trial}");
        }
        assert!(metric("memory.uss.final") <= metric("memory.pss.final"));
        assert_eq!(metric("memory.per_instance"), metric("memory.pss.final"), "one process");
        assert!(trial["metrics"]["memory.pss.over_least"].is_null(), "nothing forks: {trial}");
        for name in ["heap.slots.free", "malloc.free.share"] {
            assert!(metric(name) > 0.0 && metric(name) < 1.0, "{name}: {trial}");
        }
        // A heap may have no empty page.
        assert!((0.0..1.0).contains(&metric("heap.pages.free")), "{trial}");
        assert!(metric("malloc.free") > 0.0 && metric("malloc.free") < metric("memory.pss.final"));
        assert!(
            metric("throughput") > 0.0 && metric("latency.p95") > 0.0 && metric("boot.time") > 0.0
        );
        assert_eq!(metric("errors"), 0.0);
    }
}

#[test]
fn during_the_load_a_trial_counts_requests_and_reads_the_probes() {
    require!(Ruby);
    // Rarely enough for fewer samples than a shape needs, so that growth is undecided at every speed of the machine.
    let folder = experiment("grown", "", "[measure]\nsample_every = '200ms'");
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/growing_server.rb");
    let plan = fs::read_to_string(folder.path("real.toml")).unwrap();
    let command = format!("command = [\"ruby\", \"{server}\", \"leak\"]");
    let own = plan.lines().find(|line| line.starts_with("command")).unwrap();
    let plan = plan.replace(own, &command).replace("requests = 40", "requests = 18000");
    folder.write("real.toml", &plan);
    folder.run(&["compare", "real.toml"]).assert_code(3);
    let results = results(&folder);
    for trial in results["results"]["trials"].as_array().unwrap() {
        let samples = trial["samples"].as_array().unwrap();
        let answered: Vec<u64> = samples.iter().filter_map(|s| s["answered"].as_u64()).collect();
        assert!(answered.is_sorted() && *answered.last().unwrap() > 1000, "{answered:?}");
        assert!(samples.iter().any(|s| s["inside"]["kept_objects"].is_u64()), "{trial}");
        assert!(samples[0]["answered"].is_null(), "nothing is answered before the load");
    }
    let growth = results["results"]["growth"].as_array().unwrap();
    assert_eq!(growth.len(), 2, "{growth:?}");
    assert!(growth.iter().all(|one| one["parts"][0]["progress"] == "requests"), "{growth:?}");
    let told = folder.run(&["stats", "real.carat", "--growth"]);
    told.assert_code(3).assert_says("arenas: undecided: all memory, kept objects");
    folder.assert_nothing_left();
}

#[test]
fn a_trial_takes_a_complete_sample_at_every_moment_in_order() {
    require!(Ruby);
    // Far enough apart for a sample between them at every speed of the machine.
    let measure = "[measure]\nat_requests = [1000, 30000]\nidle = '1s'";
    let folder = experiment("moments", "", measure);
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/growing_server.rb");
    let plan = fs::read_to_string(folder.path("real.toml")).unwrap();
    let command = format!("command = [\"ruby\", \"{server}\", \"leak\"]");
    let own = plan.lines().find(|line| line.starts_with("command")).unwrap();
    let plan = plan.replace(own, &command).replace("requests = 40", "requests = 60000");
    folder.write("real.toml", &plan);
    let ran = folder.run(&["compare", "real.toml", "--details"]);
    ran.assert_code(3).assert_says("memory at each moment").assert_says("after 30,000 requests");
    folder.assert_nothing_left();
    let results = results(&folder);
    for trial in results["results"]["trials"].as_array().unwrap() {
        let samples = trial["samples"].as_array().unwrap();
        let at_moments: Vec<_> = samples.iter().filter(|s| !s["moment"].is_null()).collect();
        let moments: Vec<String> = at_moments.iter().map(|s| s["moment"].to_string()).collect();
        let expected = [
            "\"ready\"",
            "\"start\"",
            "{\"requests\":1000}",
            "{\"requests\":30000}",
            "\"end\"",
            "\"idle\"",
        ];
        assert_eq!(moments, expected, "{trial}");
        let at: Vec<u64> = at_moments.iter().map(|s| s["at_ms"].as_u64().unwrap()).collect();
        assert!(at.is_sorted_by(|one, two| one < two), "{at:?}");
        assert!(at[5] >= at[4] + 1000, "{at:?}");
        assert!(at_moments.iter().all(|s| s["pss"].is_u64() && s["uss"].is_u64()), "{trial}");
        assert!(at_moments[2]["answered"].as_u64() >= Some(1000), "{trial}");
        assert!(at_moments[3]["answered"].as_u64() >= Some(30_000), "{trial}");
        assert!(at_moments[4]["ledger"].is_object() && at_moments[5]["ledger"].is_null());
        for (metric, at) in [("ready", 0), ("start", 1), ("final", 4), ("idle", 5)] {
            let stored = &trial["metrics"][format!("memory.pss.{metric}")];
            assert_eq!(stored.as_f64(), at_moments[at]["pss"].as_f64(), "{metric}: {trial}");
        }
    }
    let compared = results["results"]["moments"].as_array().unwrap();
    assert_eq!(compared.len(), 6 * 2 * 2, "moments, variants, and PSS and RSS: {compared:?}");
}

#[test]
fn a_census_of_every_trial_names_the_class_that_a_variant_has_more_of() {
    require!(Ruby);
    let folder = experiment("census", "", "[measure]\ncensus = true\nidle = '1s'");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/server.rb");
    let more = format!(
        "command = ['ruby', '-e', 'class Kept; end; KEPT = Array.new(7000) do Kept.new end; load \"{script}\"']"
    );
    let plan = fs::read_to_string(folder.path("real.toml")).unwrap();
    folder.write("real.toml", &plan.replace("settings = { arena_max = 2 }", &more));
    let ran = folder.run(&["compare", "real.toml", "--details"]);
    ran.assert_code(3).assert_says("arenas (1 of 1 trials read) against default (1 of 1");
    let kept = ran.out.lines().find(|line| line.trim_start().starts_with("Kept")).unwrap();
    assert!(kept.contains("7,000"), "{kept}");
    folder.assert_nothing_left();
    for trial in results(&folder)["results"]["trials"].as_array().unwrap() {
        let samples = trial["samples"].as_array().unwrap();
        let read: Vec<_> = samples.iter().filter(|one| one["census"].is_object()).collect();
        assert_eq!(read.len(), 1, "{trial}");
        assert_eq!((&read[0]["moment"], &read[0]["census"]["rubies"]), (&"end".into(), &1.into()));
        let strings = &read[0]["census"]["classes"]["String"];
        assert!(strings["objects"].as_u64() > Some(1_000), "{strings}");
        assert!(strings["malloc_bytes"].as_u64() > Some(10_000), "{strings}");
    }
}

#[test]
fn a_daemon_outside_the_servers_descendants_and_session_is_measured_and_stopped() {
    require!(Ruby);
    let folder = experiment("daemon", "DAEMON = '1'", "");
    folder.run(&["compare", "real.toml"]).assert_code(3);
    folder.assert_nothing_left();
    let results = results(&folder);
    let trial = &results["results"]["trials"][0];
    let last = trial["samples"].as_array().unwrap().last().unwrap();
    assert_eq!(last["processes"], 2, "the server and its daemon: {last}");
    let metric = |name: &str| trial["metrics"][name].as_f64().unwrap();
    assert_eq!(metric("memory.per_instance"), metric("memory.pss.final") / 2.0, "{trial}");
    assert!(trial["metrics"]["memory.pss.over_least"].is_null(), "its parent is gone: {trial}");
}

#[test]
fn the_memory_of_a_server_that_forks_is_a_multiple_of_the_least_that_it_could_have() {
    require!(Ruby);
    let folder = experiment("forking", "", "");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/server.rb");
    let forking = format!(
        "command = ['ruby', '-e', 'KEPT = Array.new(200_000) do Object.new end; 4.times do GC.start end; \
         2.times do fork do sleep end end; load \"{script}\"']"
    );
    let plan = fs::read_to_string(folder.path("real.toml")).unwrap();
    let own = plan.lines().find(|line| line.starts_with("command")).unwrap();
    folder.write("real.toml", &plan.replace(own, &forking));
    let ran = folder.run(&["compare", "real.toml", "--details"]);
    ran.assert_code(3).assert_says("× the least this app can have: default ");
    ran.assert_says("(n = 1)");
    folder.assert_nothing_left();
    for trial in results(&folder)["results"]["trials"].as_array().unwrap() {
        let multiple = trial["metrics"]["memory.pss.over_least"].as_f64();
        // Two children that do nothing share nearly everything with their parent.
        assert!(multiple.is_some_and(|multiple| (1.0..2.0).contains(&multiple)), "{trial}");
    }
}

#[test]
fn a_server_that_never_listens_is_reported_as_never_ready_with_the_reason() {
    require!(Ruby);
    let folder = experiment("deaf", "NEVER_LISTEN = '1'", "");
    let text = fs::read_to_string(folder.path("real.toml")).unwrap();
    folder.write("real.toml", &text.replace("within = \"20s\"", "within = \"1s\""));
    let ran = folder.run(&["compare", "real.toml"]);
    ran.assert_code(4).assert_says("never-ready").assert_says("does not listen on 127.0.0.1:");
    folder.assert_nothing_left();
}

#[test]
fn a_server_that_dies_under_load_is_reported_as_crashed_with_its_signal() {
    require!(Ruby);
    let folder = experiment("dying", "DIE_AFTER = '20'", "");
    let ran = folder.run(&["compare", "real.toml"]);
    ran.assert_code(4).assert_says("crashed: the server ended with signal 9 under load");
    folder.assert_nothing_left();
    let results = results(&folder);
    let trials = results["results"]["trials"].as_array().unwrap();
    assert!(trials.iter().all(|trial| trial["outcome"] == "crashed"), "{trials:?}");
}

#[test]
fn if_the_port_is_in_use_the_servers_own_message_is_shown() {
    require!(Ruby);
    let folder = experiment("taken", "", "");
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let text = fs::read_to_string(folder.path("real.toml")).unwrap();
    folder.write("real.toml", &text.replace("{port}", &port.to_string()));
    let ran = folder.run(&["compare", "real.toml"]);
    ran.assert_code(4).assert_says("ended with exit status 1 before it was ready");
    ran.assert_says("EADDRINUSE");
    folder.assert_nothing_left();
}

#[test]
fn wrong_answers_make_the_trial_invalid() {
    require!(Ruby);
    let folder = experiment("wrong", "STATUS = '500 Oops'", "");
    let text = fs::read_to_string(folder.path("real.toml")).unwrap();
    folder.write("real.toml", &text.replace("{ http = \"/\", ", "{ tcp = true, "));
    folder.run(&["compare", "real.toml"]).assert_code(4).assert_says("load-invalid");
    folder.assert_nothing_left();
}

#[test]
fn a_failed_service_is_reported_with_its_output() {
    require!(Ruby);
    let service =
        "[services.broken]\ncommand = ['sh', '-c', 'echo no luck; exit 7']\nready = { tcp = true }";
    let folder = experiment("service", "", service);
    let ran = folder.run(&["compare", "real.toml"]);
    ran.assert_code(1)
        .assert_says("service `broken` ended with exit status: 7")
        .assert_says("no luck");
    folder.assert_nothing_left();
}

/// For each phase: its name, environment and tables that make a trial stay in it, and the file that shows that it is there.
const PHASES: [(&str, &str, &str, &str); 6] = [
    ("boot", "BOOT_SLEEP = '60'", "", "boot"),
    ("load", "ANSWER_SLEEP = '5'", "", "request"),
    ("settle", "", "[measure]\nsettle = '60s'", "request"),
    ("stop", "IGNORE_TERM = '1'", "", "term"),
    ("prepare", "", "[prepare]\ncommand = ['sleep', '60']", ""),
    ("services", "", "[services.slow]\ncommand = ['sleep', '60']\nready = { tcp = true }", ""),
];

fn started_and_started_and_held_in(phase: (&str, &str, &str, &str), how: &str) -> (Folder, Child) {
    let (name, env, extra, mark) = phase;
    let folder = experiment(&format!("{how}-{name}"), env, extra);
    let child = start(&folder);
    wait_until(name, || match mark {
        "" => folder.processes().iter().any(|process| process.starts_with("sleep 60")),
        mark => folder.path("marks").join(mark).exists(),
    });
    (folder, child)
}

#[test]
fn ctrl_c_in_every_phase_cleans_up_and_explains_how_to_resume() {
    require!(Ruby);
    for phase in PHASES {
        let (folder, child) = started_and_started_and_held_in(phase, "ctrl-c");
        signal(&child, Signal::INT);
        let ran = finish(child);
        ran.assert_code(130).assert_says("interrupted").assert_says("--resume");
        folder.assert_nothing_left();
    }
}

#[test]
fn a_second_ctrl_c_ends_the_wait_for_whatever_ignores_term() {
    require!(Ruby);
    let stubborn = "['ruby', '-e', 'trap(:TERM) { File.write(%(marks/term), %()) }; puts %(up); $stdout.flush; File.write(%(marks/up), %()); sleep 0.1 while true']";
    let service = format!("[services.stubborn]\ncommand = {stubborn}\nready = {{ log = 'up' }}");
    let load = format!("[load.command]\ncommand = {stubborn}");
    for (what, env, extra) in
        [("server", "IGNORE_TERM = '1'", ""), ("service", "", &service), ("load", "", &load)]
    {
        let folder = experiment(&format!("impatient-{what}"), env, extra);
        let mut text = fs::read_to_string(folder.path("real.toml")).unwrap();
        text = text.replace(r#"stop_within = "2s""#, r#"stop_within = "1h""#);
        if what == "load" {
            let http = text.find("[load.http]").unwrap()..text.find("[[variant]]").unwrap();
            text.replace_range(http, "");
        }
        folder.write("real.toml", &text);
        let mut child = start(&folder);
        if what == "load" {
            wait_until("it runs", || folder.path("marks/up").exists());
            signal(&child, Signal::INT);
        }
        wait_until("TERM was sent", || folder.path("marks/term").exists());
        wait_until("it stops", || {
            signal(&child, Signal::INT);
            // Signals that wait for delivery at the same time count once.
            std::thread::sleep(std::time::Duration::from_millis(100));
            child.try_wait().unwrap().is_some()
        });
        finish(child).assert_code(130).assert_says("interrupted");
        folder.assert_nothing_left();
    }
}

#[test]
fn ctrl_c_ends_the_idle_time_at_once() {
    require!(Ruby);
    let folder = experiment("ctrl-c-idle", "", "[measure]\nidle = '1h'");
    let child = start(&folder);
    // The ready check, 4 requests of the warm-up and 40 of the load.
    wait_until("the whole load is answered", || {
        let served = fs::read_to_string(folder.path("marks/request")).unwrap_or_default();
        served.parse::<u32>().is_ok_and(|served| served >= 45)
    });
    signal(&child, Signal::INT);
    let ran = finish(child);
    ran.assert_code(130).assert_says("interrupted").assert_says("--resume");
    folder.assert_nothing_left();
}

#[test]
fn after_kill_9_in_any_phase_nothing_is_left_and_the_experiment_resumes() {
    require!(Ruby);
    for phase in PHASES {
        let (folder, mut child) = started_and_started_and_held_in(phase, "kill");
        child.kill().unwrap();
        child.wait().unwrap();
        folder.assert_nothing_left();
    }
    let folder = experiment("resumed", "", "");
    for _ in 0..3 {
        let mut child = start(&folder);
        let _ = fs::remove_file(folder.path("marks/request"));
        wait_until("under load", || {
            folder.path("marks/request").exists() || child.try_wait().unwrap().is_some()
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
    folder.run(&["compare", "real.toml", "--resume"]).assert_code(3);
    folder.assert_nothing_left();
    let results = results(&folder);
    let ids: Vec<_> = results["results"]["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["id"].to_string())
        .collect();
    let unique: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!((ids.len(), unique.len()), (4, 4));
}

#[test]
fn a_second_run_of_the_same_experiment_is_rejected_while_the_first_runs() {
    require!(Ruby);
    let (folder, child) = started_and_started_and_held_in(PHASES[0], "second");
    let ran = folder.run(&["compare", "real.toml", "--resume"]);
    ran.assert_code(2).assert_says(&format!("is being written by process {}", child.id()));
    signal(&child, Signal::INT);
    finish(child).assert_code(130);
    folder.assert_nothing_left();
}

#[test]
fn a_variant_with_another_systems_root_runs_its_ruby_and_leaves_the_system_unchanged() {
    require!(Ruby, Roots("bullseye"));
    let system = TestRuby::InRoot("bullseye").root();
    let folder = experiment("root", "", "");
    let text = fs::read_to_string(folder.path("real.toml")).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/server.rb");
    fs::copy(script, folder.path("server.rb")).unwrap();
    let root = format!("settings = {{ root = \"{}\" }}", system.display());
    let text = text.replace("settings = { arena_max = 2 }", &root).replace(script, "server.rb");
    folder.write("real.toml", &text);
    folder.run(&["compare", "real.toml"]).assert_code(3);
    folder.assert_nothing_left();
    let results = results(&folder);
    let trials = results["results"]["trials"].as_array().unwrap();
    let ruby = |variant: &str| {
        let trial = trials.iter().find(|trial| trial["variant"] == variant).unwrap();
        assert_eq!(trial["outcome"], "ok", "{trial}");
        // A setting that was not applied would be noted.
        assert_eq!(trial["notes"], serde_json::json!([]), "{trial}");
        let last = trial["samples"].as_array().unwrap().last().unwrap();
        last["ledger"]["processes"][0]["ruby"].to_string()
    };
    assert!(ruby("arenas").contains("2.7"), "{}", ruby("arenas"));
    assert!(!ruby("default").contains("2.7"), "{}", ruby("default"));
    let mark = folder.path("").strip_prefix("/").unwrap().to_owned();
    assert!(!system.join(mark).exists(), "a folder was left inside the system");
}
