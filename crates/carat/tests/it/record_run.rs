//! `carat record` and `carat explain`: the real program on real processes.

use crate::support::{Folder, ruby_is_here};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

/// Keeps 40 kB more every tenth of a second, and a worker beside it.
const GROWING: &str = "fork { sleep }; kept = []; loop { kept << 'x' * 40_000; sleep 0.1 }";

fn recording(folder: &Folder, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.path(name)).unwrap()).unwrap()
}

#[test]
fn a_recording_holds_the_trees_memory_its_ledger_and_its_own_cost() {
    if !ruby_is_here() {
        return;
    }
    let folder = Folder::new("record");
    let arguments =
        ["record", "--for", "4s", "--every", "200ms", "-o", "r.json", "--", "ruby", "-e", GROWING];
    let ran = folder.run(&arguments);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.talk);
    let recording = recording(&folder, "r.json");
    assert_eq!(recording["schema"], "carat.recording/1");
    assert_eq!(recording["ledger"]["processes"].as_array().unwrap().len(), 2);
    assert!(recording["ledger"]["processes"][0]["basis"] == "probe", "{}", recording["ledger"]);
    let samples = recording["samples"].as_array().unwrap();
    assert!(samples.iter().any(|sample| sample["pss"].is_u64()));
    assert!(samples.iter().all(|sample| sample["processes"] != 2 || sample["rss"].is_null()));
    assert!(recording["cost"]["cpu_s"].as_f64().unwrap() > 0.0);
    assert!(ran.out.contains("Growth over"), "{}", ran.out);
    let explained = folder.run(&["explain", "r.json", "--json"]);
    let explained: Value = serde_json::from_str(&explained.out).unwrap();
    assert_eq!(explained["schema"], "carat.explain/1");
    folder.assert_nothing_left();
}

#[test]
fn a_server_that_ran_already_is_explained_and_recorded_and_runs_on() {
    let folder = Folder::new("attach");
    let mut server = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let pid = server.id().to_string();
    let explained = folder.run(&["explain", &pid]);
    assert_eq!(explained.code, Some(0), "{}", explained.talk);
    assert!(explained.out.contains("code and files"), "{}", explained.out);
    let ran = folder.run(&["record", "--for", "1s", "--every", "200ms", "--pid", &pid]);
    assert_eq!(ran.code, Some(0), "{}", ran.talk);
    assert!(folder.path(&format!("{pid}.recording.json")).is_file());
    assert!(server.try_wait().unwrap().is_none(), "it must not be stopped");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn what_cannot_be_explained_says_what_to_do() {
    let folder = Folder::new("unexplained");
    folder.write("cut.json", "{\"schema\": \"carat.recording/1\", \"samp");
    folder.write("deep.json", &"{\"ledger\":".repeat(100_000));
    for (target, expected) in [
        ("4194303", "there is no process 4194303"),
        ("no-such.json", "give a process id, a recording"),
        ("cut.json", "cut.json is not a recording"),
        ("deep.json", "deep.json is not a recording"),
    ] {
        let ran = folder.run(&["explain", target]);
        assert_eq!(ran.code, Some(1), "{target}");
        assert!(ran.talk.contains(expected), "{target}: {}", ran.talk);
    }
}
