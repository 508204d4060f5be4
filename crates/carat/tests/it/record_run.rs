//! `carat record` and `carat explain` on real processes.

use crate::load_server::raw_server;
use crate::support::{Folder, finish, wait_until};
use carat::store;
use carat_model::ledger::Basis;
use carat_model::recording::MarkerKind;
use carat_model::{GrowthKind, PartGrowth, ProgressUnit, Recording, TrackedPart};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

/// A server with one worker that retains another 40 kB every tenth of a second.
const GROWING: &str = "fork { sleep }; kept = []; loop { kept << 'x' * 40_000; sleep 0.1 }";

fn recording(folder: &Folder, name: &str) -> Recording {
    store::recording::read(&folder.path(name)).unwrap()
}

#[test]
fn a_recording_contains_the_trees_memory_its_ledger_and_the_cost_of_recording() {
    require!(Ruby);
    let folder = Folder::new("record");
    let arguments =
        ["record", "--for", "4s", "--every", "200ms", "-o", "r.jsonl", "--", "ruby", "-e", GROWING];
    let ran = folder.run(&arguments);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.talk);
    let recording = recording(&folder, "r.jsonl");
    let ledger = recording.ledger.unwrap();
    assert_eq!(ledger.processes.len(), 2);
    assert_eq!(ledger.processes[0].basis, Basis::Probe, "{ledger:?}");
    assert!(recording.samples.iter().any(|sample| sample.pss.is_some()));
    assert!(recording.samples.iter().all(|one| one.processes != 2 || one.rss.is_none()));
    let forked = recording.markers.iter().filter_map(|marker| match marker.what {
        MarkerKind::Fork { slot, .. } => Some(slot),
        _ => None,
    });
    assert_eq!(forked.collect::<Vec<_>>(), [1], "{:?}", recording.markers);
    let end = recording.end.unwrap();
    assert!(end.cost.cpu_s > 0.0);
    assert_eq!(end.ended, "the time was over");
    assert!(ran.out.contains("Growth over"), "{}", ran.out);
    for (line, file) in
        [("recording  ", "r.jsonl"), ("log        ", "r.log"), ("page       ", "r.html")]
    {
        ran.assert_says(&format!("{line}{file}\n"));
        assert!(folder.path(file).is_file(), "{file}");
    }
    // It has no trials that a budget could be compared with.
    let judged = folder.run(&["report", "r.jsonl", "--budget", "memory.pss.final<900MB"]);
    judged.assert_code(1).assert_says("a budget is of a results file; leave out --budget");
    let explained = folder.run(&["explain", "r.jsonl", "--json"]);
    let explained: Value = serde_json::from_str(&explained.out).unwrap();
    assert_eq!(explained["schema"], "carat.explain/1");
    let explained = folder.run(&["explain", "r.jsonl"]);
    explained.assert_code(0).assert_says("Next     carat ");
    for process in &ledger.processes {
        // It has ended, and its number may be that of another by now.
        for command in ["explain", "record --pid"] {
            let named = format!("carat {command} {} ", process.pid);
            assert!(!explained.out.contains(&named), "{}", explained.out);
        }
    }
    folder.assert_nothing_left();
}

#[test]
fn a_command_that_does_not_exist_leaves_no_file_and_no_command_is_answered_with_both_ways() {
    let folder = Folder::new("nosuch");
    let ran = folder.run(&["record", "--", "nosuchcommand"]);
    ran.assert_code(1).assert_says("no such program is in PATH");
    for file in ["nosuchcommand.recording.jsonl", "nosuchcommand.recording.log"] {
        assert!(!folder.path(file).exists(), "{file}");
    }
    folder.run(&["record"]).assert_code(2).assert_says("--pid <PID>").assert_says("COMMAND");
}

/// Records `bench/growing_server.rb` in one of its modes, under load that carat drives.
fn growing(folder: &Folder, mode: &str, requests: u32) -> Recording {
    growing_at(folder, mode, requests, "5000")
}

/// The same at another number of requests per second.
fn growing_at(folder: &Folder, mode: &str, requests: u32, rate: &str) -> Recording {
    let port = carat::target::free_port().unwrap();
    let url = format!("http://127.0.0.1:{port}/");
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/growing_server.rb");
    let requests = requests.to_string();
    let load = ["--load", &url, "--rate", rate, "-n", &requests, "--every", "50ms"];
    let command = ["-o", "g.jsonl", "--", "ruby", server, mode];
    let arguments = [&["record"], &load[..], &command[..]].concat();
    let mut program = folder.carat(&arguments);
    program.env("PORT", port.to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = finish(program.spawn().unwrap());
    ran.assert_code(0).assert_says("the load was over");
    folder.assert_nothing_left();
    recording(folder, "g.jsonl")
}

fn growth_of(part: TrackedPart, recording: &Recording) -> &PartGrowth {
    let growth = &recording.growth;
    growth.iter().find(|one| one.part == part).unwrap_or_else(|| panic!("{growth:?}"))
}

#[test]
fn under_the_recordings_load_a_leak_is_reported_in_bytes_per_request() {
    require!(Ruby);
    let folder = Folder::new("leak");
    let recording = growing(&folder, "leak", 60_000);
    let report = recording.load().and_then(|load| load.report.as_ref()).unwrap();
    assert_eq!(report.completed, 60_000);
    let memory = growth_of(TrackedPart::Memory, &recording);
    assert_eq!((memory.kind, memory.progress), (GrowthKind::Linear, ProgressUnit::Requests));
    let daily = memory.per_day.unwrap();
    // 5,000 were requested; a busy machine answers fewer.
    assert!((0.0..5500.0).contains(&daily.progress_per_s), "{daily:?}");
    let product = memory.rate.unwrap() * daily.progress_per_s * 86_400.0;
    assert!((daily.amount / product - 1.0).abs() < 1e-9, "{daily:?}");
    // glibc allocates 32 bytes for the 16 that leak.
    assert!((24.0..40.0).contains(&memory.rate.unwrap()), "{memory:?}");
    assert_ne!(growth_of(TrackedPart::KeptObjects, &recording).kind, GrowthKind::Linear);
}

#[test]
fn kept_objects_are_reported_as_the_cause_if_the_heap_grows_in_slabs() {
    require!(Ruby);
    let folder = Folder::new("objects");
    let recording = growing(&folder, "objects", 60_000);
    let kept = growth_of(TrackedPart::KeptObjects, &recording);
    assert_eq!(kept.kind, GrowthKind::Linear, "{kept:?}");
    assert!((0.7..1.3).contains(&kept.rate.unwrap()), "{kept:?}");
}

#[test]
fn strings_of_2_kb_that_are_kept_are_a_leak_within_4_000_requests() {
    require!(Ruby);
    let folder = Folder::new("strings");
    let recording = growing_at(&folder, "strings", 4000, "100");
    let kept = growth_of(TrackedPart::KeptMemory, &recording);
    assert_eq!(kept.kind, GrowthKind::Linear, "{kept:?}");
    assert!((1500.0..2600.0).contains(&kept.rate.unwrap()), "{kept:?}");
    assert!(kept.readings.unwrap().proven_at.is_some_and(|at| at <= 4000.0), "{kept:?}");
    let end = recording.end.as_ref().unwrap();
    assert!(end.outlook.is_some_and(|outlook| outlook.proven && outlook.per_second > 0.0));
}

#[test]
fn a_server_that_keeps_nothing_is_not_called_a_leak_by_readings_of_what_it_keeps() {
    require!(Ruby);
    let folder = Folder::new("flat");
    let recording = growing_at(&folder, "flat", 2000, "100");
    assert!(recording.samples.iter().any(|sample| sample.kept.is_some()), "it was not read");
    let parts = &recording.growth;
    assert!(parts.iter().all(|part| part.kind != GrowthKind::Linear), "{parts:?}");
}

#[test]
fn a_load_without_any_answer_makes_a_recording_invalid() {
    let folder = Folder::new("silent");
    let url = format!("http://127.0.0.1:{}/", carat::target::free_port().unwrap());
    let ran = folder.run(&["record", "--load", &url, "--for", "1s", "--", "sleep", "60"]);
    ran.assert_code(4)
        .assert_says(&format!("no load was driven to {url}: the server does not listen on"));
    folder.assert_nothing_left();
    let wrong = folder.run(&["record", "--rate", "5", "--", "sleep", "60"]);
    wrong.assert_code(2).assert_says("--load");
}

#[test]
fn a_load_that_another_process_answers_is_doubted_and_one_that_the_tree_answers_is_not() {
    let folder = Folder::new("elsewhere");
    // This process answers, and the recorded one only sleeps.
    let address = raw_server(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    let url = format!("http://{address}/");
    let load = ["record", "--load", &url, "--rate", "50", "--for", "1s"];
    let ran = folder.run(&[&load[..], &["--", "sleep", "60"]].concat());
    let own = std::process::id();
    ran.assert_says(&format!("no process of the tree listens on {address}, process {own} does"));
    let own = own.to_string();
    let ran = folder.run(&[&load[..], &["--pid", &own, "--only"]].concat());
    assert!(!(ran.out + &ran.talk).contains("no process of the tree"));
}

#[test]
fn a_running_server_is_explained_and_recorded_and_keeps_running() {
    let folder = Folder::new("attach");
    let mut server = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let pid = server.id().to_string();
    let explained = folder.run(&["explain", &pid]);
    assert_eq!(explained.code, Some(0), "{}", explained.talk);
    assert!(explained.out.contains("code and files"), "{}", explained.out);
    let no_ruby = format!("Process {pid} (sleep) is no CRuby, and none runs below it; `carat ps`");
    assert!(explained.out.starts_with(&no_ruby), "{}", explained.out);
    assert!(!explained.out.contains("help "), "no setting is about it: {}", explained.out);
    folder.run(&["explain", &pid, "--who"]).assert_code(1).assert_says(&no_ruby);
    folder.run(&["explain", &pid, "-o", "ledger.html"]).assert_code(0).assert_says("ledger.html");
    let page = fs::read_to_string(folder.path("ledger.html")).unwrap();
    assert!(page.contains("Carat ledger of ") && page.contains("sleep 60"), "{page}");
    let ran = folder.run(&["record", "--for", "1s", "--every", "200ms", "--pid", &pid]);
    assert_eq!(ran.code, Some(0), "{}", ran.talk);
    assert!(folder.path(&format!("{pid}.recording.jsonl")).is_file());
    assert!(server.try_wait().unwrap().is_none(), "it must not be stopped");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn the_error_for_an_unusable_target_of_explain_names_the_remedy() {
    let folder = Folder::new("unexplained");
    folder.write("cut.json", "{\"schema\": \"carat.recording/3\", \"samp");
    folder.write("deep.json", &"{\"ledger\":".repeat(100_000));
    let head = "{\"schema\":\"carat.recording/3\",\"what\":\"puma\",\"started_ms\":1}";
    folder.write("short.json", &format!("{head}\n{{\"marker\""));
    folder.write("later.json", &head.replace("/3", "/4"));
    for (target, expected) in [
        ("4194303", "there is no process 4194303; `carat ps` lists the Rubies here"),
        ("no-such.json", "give a process id, a recording"),
        ("cut.json", "cut.json is not a recording"),
        ("deep.json", "deep.json is not a recording"),
        ("short.json", "short.json holds no ledger"),
        ("later.json", "this carat reads `carat.recording/3`"),
    ] {
        let ran = folder.run(&["explain", target]);
        assert_eq!(ran.code, Some(1), "{target}");
        assert!(ran.talk.contains(expected), "{target}: {}", ran.talk);
    }
}

#[test]
fn a_recording_whose_carat_was_killed_keeps_its_samples_and_is_reported_as_cut_off() {
    let folder = Folder::new("cutoff");
    let record = ["record", "--every", "50ms", "-o", "r.jsonl", "--", "sleep", "60"];
    let mut carat = folder.carat(&record).stderr(Stdio::null()).spawn().unwrap();
    let lines = || fs::read_to_string(folder.path("r.jsonl")).unwrap_or_default().lines().count();
    wait_until("twenty lines are written", || lines() >= 20);
    carat.kill().unwrap();
    carat.wait().unwrap();
    folder.assert_nothing_left();
    assert!(recording(&folder, "r.jsonl").samples.len() > 10);
    folder.run(&["report", "r.jsonl", "-o", "r.html"]).assert_code(0);
    assert!(fs::read_to_string(folder.path("r.html")).unwrap().contains("cut off"));
}

#[test]
fn a_process_that_outlives_its_parent_gets_term_before_kill() {
    let folder = Folder::new("orphan");
    let orphan = "trap 'echo asked > asked; exit' TERM; while :; do sleep 0.05; done";
    folder.write("orphan.sh", orphan);
    let command = ["sh", "-c", "sh orphan.sh & exec sleep 60"];
    let arguments = [&["record", "--for", "1s", "--"], &command[..]].concat();
    folder.run(&arguments).assert_code(0);
    assert_eq!(fs::read_to_string(folder.path("asked")).unwrap_or_default(), "asked\n");
    folder.assert_nothing_left();
}
