//! `carat watch` on real Rubies: who ended, how, and what had grown.

use crate::memory_group::MemoryGroup;
use crate::support::{Folder, Group, Ran, finish, signal, wait_until};
use carat_watch::store::WatchStore;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Keeps 2 kB more each millisecond from the moment on at which the file is there.
const LEAK: &str = "$kept = []; sleep 0.05 until File.exist?(ARGV[0]); \
    loop { 400.times { $kept << 'x' * 2000 }; sleep ARGV[1].to_f }";

/// A Ruby that leaks once it is told to.
pub(crate) struct Leaking {
    pub(crate) child: Child,
    begin: PathBuf,
}

impl Leaking {
    pub(crate) fn start(
        folder: &Folder,
        name: &str,
        group: Option<&MemoryGroup>,
        pause: &str,
    ) -> Self {
        let begin = folder.path(name);
        let mut command = match group {
            Some(group) => {
                let mut command = Command::new("sh");
                let enter = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;
                command.args(["-c", enter]).arg(&group.path).arg("ruby");
                command
            }
            None => Command::new("ruby"),
        };
        command.args(["-e", LEAK]).arg(&begin).arg(pause);
        command.env_remove("RUBYOPT").stdin(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().unwrap(), begin }
    }

    fn begin(&self) {
        fs::write(&self.begin, "").unwrap();
    }

    fn rss(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }
}

impl Drop for Leaking {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A watch that looks every 200 ms, at Rubies with this text in their command line.
pub(crate) fn watch(folder: &Folder, text: &str) -> Group {
    let mut command = folder.carat(&["watch", "--store", "watch.db", "--every", "200ms"]);
    command.args(["--budget", "100", "--match", text]);
    let talk = fs::File::create(folder.path("talk")).unwrap();
    Group::start({
        command.stdout(Stdio::null()).stderr(talk);
        command
    })
}

pub(crate) fn report(folder: &Folder) -> Value {
    let ran = folder.run(&["report", "watch.db", "--json"]);
    match ran.code {
        Some(0) => serde_json::from_str(&ran.out).unwrap(),
        _ => Value::Null,
    }
}

/// Waits until a process has so many samples.
pub(crate) fn sampled(folder: &Folder, pid: u32, number: usize) {
    wait_until("the process is sampled", || {
        let period = report(folder);
        let of = |curve: &&Value| curve["process"]["pid"] == pid;
        let curve = period["processes"].as_array().and_then(|all| all.iter().find(of));
        curve.is_some_and(|curve| curve["samples"].as_array().unwrap().len() >= number)
    });
}

/// The last words of a process, as soon as there are some.
pub(crate) fn last(folder: &Folder, pid: u32) -> Ran {
    let pid = pid.to_string();
    let mut ran = None;
    wait_until("there are last words", || {
        let found = folder.run(&["watch", "last", &pid, "--store", "watch.db"]);
        let is_there = found.code == Some(0);
        ran = Some(found);
        is_there
    });
    ran.unwrap()
}

pub(crate) fn end(watch: &mut Group) {
    signal(&watch.0, Signal::TERM);
    assert!(watch.0.wait().unwrap().success());
}

#[test]
fn a_leak_of_strings_is_in_the_last_words_of_a_server_that_somebody_killed() {
    require!(Ruby);
    let folder = Folder::new("watch-killed");
    let mut leaking = Leaking::start(&folder, "begin-killed", None, "0.1");
    let mut watch = watch(&folder, "begin-killed");
    sampled(&folder, leaking.child.id(), 3);
    let before = leaking.rss();
    leaking.begin();
    wait_until("it has leaked", || leaking.rss() > before + 60_000_000);
    wait_until("who keeps what grew is known", || {
        let store = WatchStore::open_to_read(&folder.path("watch.db"));
        let censuses = store.and_then(|store| store.censuses(1)).unwrap_or_default();
        censuses.iter().any(|census| census.kept.as_ref().is_some_and(|kept| kept.is_known))
    });
    leaking.child.kill().unwrap();
    leaking.child.wait().unwrap();
    let ran = last(&folder, leaking.child.id());
    ran.assert_says("malloc, live").assert_says("String  +").assert_says(" objects, ");
    ran.assert_says("RSS ").assert_says("ruby -e $kept");
    ran.assert_says("  kept       at ")
        .assert_says("String (")
        .assert_says("global variable $kept");
    // A kernel before 6.15 tells the status to the parent alone.
    let said = ran.out.contains("was killed by SIGKILL");
    assert!(said || ran.out.contains("whether it exited or was killed is unknown"), "{}", ran.out);
    assert!(!ran.out.contains("because memory ran out"), "{}", ran.out);
    end(&mut watch);
    folder.run(&["report", "watch.db", "--format", "text"]).assert_says("ruby").assert_says("RSS");
    folder.run(&["report", "watch.db", "--from", "1h"]).assert_code(0);
    assert!(fs::read_to_string(folder.path("watch.html")).unwrap().contains("<svg"));
}

#[test]
fn a_server_that_the_kernel_killed_for_lack_of_memory_is_known_by_its_group_and_by_what_grew() {
    require!(Ruby);
    let folder = Folder::new("watch-oom");
    let group = MemoryGroup::new("watch-oom", 150_000_000);
    let mut leaking = Leaking::start(&folder, "begin-oom", Some(&group), "0.03");
    let mut watch = watch(&folder, "begin-oom");
    sampled(&folder, leaking.child.id(), 3);
    leaking.begin();
    assert!(!leaking.child.wait().unwrap().success());
    assert_eq!(group.oom_kills(), 1);
    let ran = last(&folder, leaking.child.id());
    ran.assert_says("killed by the kernel because memory ran out");
    ran.assert_says("its control group counts 1 killed for lack of memory, and counted 0 at");
    ran.assert_says("of 150.0 MB used in").assert_says("malloc, live").assert_says("String  +");
    end(&mut watch);
}

#[test]
fn the_store_survives_a_kill_of_the_watch_and_a_second_watch_is_refused() {
    require!(Ruby);
    let folder = Folder::new("watch-twice");
    let mut waiting = Leaking::start(&folder, "begin-never", None, "1");
    let mut first = watch(&folder, "begin-never");
    sampled(&folder, waiting.child.id(), 3);
    let refused = folder.run(&["watch", "--store", "watch.db"]);
    refused.assert_code(1).assert_says(&format!("with pid {};", first.0.id()));
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    let samples = |period: &Value| period["processes"][0]["samples"].as_array().unwrap().len();
    let before = report(&folder);
    assert!(samples(&before) >= 3, "{before}");
    let mut second = watch(&folder, "begin-never");
    wait_until("the second goes on", || samples(&report(&folder)) > samples(&before) + 2);
    let after = report(&folder);
    assert_eq!(after["processes"].as_array().unwrap().len(), 1, "one process, one number");
    end(&mut second);
    // What ends between two watches is no end that anybody saw.
    waiting.child.kill().unwrap();
    waiting.child.wait().unwrap();
    let mut third = watch(&folder, "begin-never");
    last(&folder, waiting.child.id()).assert_says("ended while no watch was running");
    end(&mut third);
    let talk = fs::read_to_string(folder.path("talk")).unwrap();
    assert!(talk.contains(" in watch.db; `carat watch last`"), "{talk}");
}

/// Fails unless a text is OpenMetrics 1.0.0 as far as gauges and counters go: families in one piece that begin with their type,
/// samples of the family alone, labels in quotes, no series twice, and the mark at the end.
fn assert_openmetrics(text: &str) {
    let body = text.strip_suffix("# EOF\n").expect("the mark at the end");
    let sample = regex::Regex::new(
        r#"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-z_]+="(?:[^"\\]|\\.)*"(?:,[a-z_]+="(?:[^"\\]|\\.)*")*\})? (-?[0-9.]+(?:e-?[0-9]+)?)$"#,
    )
    .unwrap();
    let (mut family, mut is_counter) = (String::new(), false);
    let (mut families, mut series) = (BTreeSet::new(), BTreeSet::new());
    for line in body.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["#", "TYPE", name, kind @ ("gauge" | "counter")] => {
                assert!(families.insert((*name).to_owned()), "twice: {line}");
                (family, is_counter) = ((*name).to_owned(), *kind == "counter");
            }
            ["#", "UNIT", name, unit] => {
                assert!(*name == family && name.ends_with(&format!("_{unit}")), "{line}");
            }
            ["#", "HELP", name, _] => assert_eq!(*name, family, "{line}"),
            _ => {
                let found = sample.captures(line).unwrap_or_else(|| panic!("no sample: {line}"));
                let ending = if is_counter { "_total" } else { "" };
                assert_eq!(found[1], format!("{family}{ending}"), "{line}");
                let labels = found.get(2).map_or("", |labels| labels.as_str());
                assert!(series.insert(format!("{}{labels}", &found[1])), "twice: {line}");
            }
        }
    }
    assert!(series.len() > 10, "{text}");
}

#[test]
fn metrics_are_served_at_the_loopback_only_when_asked_and_are_openmetrics() {
    require!(Ruby);
    let folder = Folder::new("watch-metrics");
    let waiting = Leaking::start(&folder, "begin-metrics", None, "1");
    let mut command = folder.carat(&["watch", "--store", "watch.db", "--every", "200ms"]);
    command.args(["--match", "begin-metrics", "--budget", "100"]);
    command.args(["--listen", "127.0.0.1:0", "--classes", "3"]);
    let talk = fs::File::create(folder.path("talk")).unwrap();
    command.stdout(Stdio::null()).stderr(talk);
    let mut watch = Group::start(command);
    let talk = || fs::read_to_string(folder.path("talk")).unwrap();
    wait_until("it listens", || talk().contains("metrics are at http://127.0.0.1:"));
    let said = talk();
    let address = said.split("http://").nth(1).unwrap().split('/').next().unwrap();
    let scrape = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    wait_until("there is a reading", || scrape().contains("ruby_process_class_objects{"));
    let answer = scrape();
    assert!(answer.contains("application/openmetrics-text; version=1.0.0"), "{answer}");
    let body = answer.split("\r\n\r\n").nth(1).unwrap();
    assert_openmetrics(body);
    for name in ["resident", "pss", "private", "swap"] {
        assert!(
            body.contains(&format!("\nruby_process_{name}_bytes{{server=\"ruby -e\"")),
            "{body}"
        );
    }
    assert!(body.contains("class=\"String\""), "{body}");
    end(&mut watch);
    drop(waiting);
    let refused = folder.run(&["watch", "--listen", "0.0.0.0:9394", "--store", "watch.db"]);
    refused.assert_code(2).assert_says("use 127.0.0.1 or a unix socket");
}

/// A master with two workers by their titles; the first of them keeps more and more, and ends at TERM.
const CLUSTER: &str = "Process.setproctitle('puma 9.9.9 (tcp://[::]:1) [ruled]'); \
    2.times { |n| fork { Process.setproctitle(%(puma: cluster worker #{n}: #{Process.ppid} [ruled])); \
    $kept = (0...(n == 0 ? 40_000 : 1)).map { 'x' * 2000 }; sleep } }; sleep";

#[test]
fn a_rule_is_a_dry_run_until_it_is_armed_and_then_ends_the_largest_worker_once() {
    require!(Ruby);
    let folder = Folder::new("watch-rules");
    let mut command = Command::new("ruby");
    command.args(["-e", CLUSTER]).env_remove("RUBYOPT").stderr(Stdio::null());
    let _cluster = Group::start(command);
    let rule = ["--on", "worker.rss > 60m", "kill -TERM {pid}"];
    let watch = |more: &[&str]| {
        let mut command = folder.carat(&["watch", "--store", "watch.db", "--every", "200ms"]);
        command.args(["--match", "ruled", "--budget", "100"]).args(rule).args(more);
        let talk = fs::File::create(folder.path("talk")).unwrap();
        command.stdout(Stdio::null()).stderr(talk);
        Group::start(command)
    };
    let events = |text: &str| {
        let period = report(&folder);
        let all = period["events"].as_array().cloned().unwrap_or_default();
        let has = |event: &&Value| event["text"].as_str().unwrap().contains(text);
        all.iter().filter(has).count()
    };
    let mut dry = watch(&[]);
    wait_until("the rule holds", || events("would run kill -TERM") > 0);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!((events("would run"), events("SIGTERM")), (1, 0), "once in its time");
    end(&mut dry);
    // With two workers that must be left, one more than there would be.
    let mut refused = watch(&["--act", "--leave", "2"]);
    wait_until("it is refused", || {
        events("1 of its kind would be left in its tree, and 2 must be") > 0
    });
    end(&mut refused);
    assert_eq!(events("runs kill"), 0);
    let mut armed = watch(&["--act"]);
    wait_until("the worker is gone", || {
        folder.run(&["watch", "last", "--store", "watch.db"]).out.contains("worker 0")
    });
    assert_eq!(events("runs kill -TERM"), 1);
    let ran = folder.run(&["watch", "last", "--store", "watch.db"]);
    let said = ran.out.contains("was ended by SIGTERM");
    assert!(said || ran.out.contains("is gone: whether it exited"), "{}", ran.out);
    end(&mut armed);
}

#[test]
fn a_rule_that_cannot_be_meant_is_refused_before_anything_is_watched() {
    let folder = Folder::new("watch-no-rule");
    for (rule, command, expected) in [
        ("worker.size > 3m", "true", "the figures are rss, pss, private and swap"),
        ("worker.pss > 3m", "kill {title}", "a placeholder other than {pid}, {tree} and {worker}"),
    ] {
        let ran = folder.run(&["watch", "--store", "watch.db", "--on", rule, command]);
        ran.assert_code(1).assert_says(expected);
    }
    assert!(!folder.path("watch.db").exists());
}

/// The folder of what comes with the watch.
fn packaging() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging/watch")
}

#[test]
fn dashboard_and_alerts_name_only_metrics_that_the_watch_has() {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../carat-watch/src/metrics.rs");
    let source = fs::read_to_string(source).unwrap();
    let name = regex::Regex::new(r"\b(ruby_(process|group)|carat_watch)_[a-z_]+").unwrap();
    for file in ["dashboard.json", "alerts.yaml"] {
        let text = fs::read_to_string(packaging().join(file)).unwrap();
        let names: Vec<&str> = name.find_iter(&text).map(|found| found.as_str()).collect();
        assert!(names.len() >= 4, "{file}: {names:?}");
        for name in names {
            let base = name.trim_end_matches("_total");
            assert!(source.contains(&format!("\"{base}\"")), "{file}: no metric {name}");
        }
    }
    let dashboard = fs::read_to_string(packaging().join("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() >= 4);
    let alerts = fs::read_to_string(packaging().join("alerts.yaml")).unwrap();
    let alerts: Value = serde_saphyr::from_str(&alerts).unwrap();
    let rules = alerts["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 4);
    for rule in rules {
        assert!(rule["alert"].is_string() && rule["expr"].is_string(), "{rule}");
    }
}

#[test]
fn the_manifests_and_the_unit_start_a_watch_with_options_that_it_has() {
    let folder = Folder::new("watch-manifests");
    let containers = |file: &str, place: &str| -> Value {
        let text = fs::read_to_string(packaging().join(file)).unwrap();
        let manifest: Value = serde_saphyr::from_str(&text).unwrap();
        assert!(manifest["apiVersion"].is_string() && manifest["kind"].is_string());
        manifest.pointer(place).unwrap().clone()
    };
    let pod = containers("sidecar.yaml", "/spec");
    assert_eq!(pod["shareProcessNamespace"], true);
    let node = containers("daemonset.yaml", "/spec/template/spec");
    assert_eq!(node["hostPID"], true);
    for spec in [pod, node] {
        let all = spec["containers"].as_array().unwrap();
        let carat = all.iter().find(|one| one["name"] == "carat").unwrap();
        assert_eq!(carat["securityContext"]["readOnlyRootFilesystem"], true);
        assert!(carat["resources"]["limits"]["memory"].is_string());
        let words: Vec<&str> =
            carat["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        // With a time of zero and a store that can be written here.
        let store = words.iter().position(|word| *word == "--store").unwrap() + 1;
        let listen = words.iter().position(|word| *word == "--listen").unwrap();
        let mut arguments = words.clone();
        arguments[store] = "watch.db";
        arguments.truncate(listen);
        arguments.extend(["--for", "0s"]);
        folder.run(&arguments).assert_code(0);
    }
    let unit = fs::read_to_string(packaging().join("carat-watch.service")).unwrap();
    for section in ["[Unit]", "[Service]", "[Install]", "ExecStart=/usr/bin/carat watch --store "] {
        assert!(unit.contains(section), "{section}");
    }
}

#[test]
fn another_programs_file_is_no_store_and_a_torn_one_is_moved_aside() {
    let folder = Folder::new("watch-torn");
    folder.write("photo.jpg", "a photo");
    let foreign = folder.run(&["watch", "--store", "photo.jpg", "--for", "1s"]);
    foreign.assert_code(1).assert_says("is not a store of `carat watch`");
    assert_eq!(fs::read_to_string(folder.path("photo.jpg")).unwrap(), "a photo");
    fs::write(folder.path("watch.db"), vec![0; 8192]).unwrap();
    let ran = folder.run(&["watch", "--store", "watch.db", "--for", "1s", "--match", "nothing"]);
    ran.assert_code(0).assert_says("watch.db was damaged and is now watch.db.damaged-");
    let none = folder.run(&["watch", "last", "--store", "watch.db"]);
    none.assert_code(0).assert_says("No process has ended");
    let missing = folder.run(&["watch", "last", "--store", "none.db"]);
    missing.assert_code(1).assert_says("`carat watch` makes one");
    let group =
        finish(folder.carat(&["watch", "--every", "1ms"]).stderr(Stdio::piped()).spawn().unwrap());
    group.assert_code(1).assert_says("give at least 200ms");
}
