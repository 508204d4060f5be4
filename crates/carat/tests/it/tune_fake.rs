//! Whole searches through the real program, on simulated servers.

use crate::support::{FAKE_LOAD, Folder, Ran, finish, signal, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

const TABLES: &str = r#"[goal]
least = "memory.pss.late"
guards = { "latency.p95" = "+5%" }
[search]
only = []
[budget]
search = 36
confirm = 30
"#;

/// A saves a fifth and B a tenth; C saves most but answers slowly; D fails; E does nothing.
pub(crate) const EFFECTS: &str = "A=1:-0.2,B=1:-0.1,C=1:-0.4:0.3,D=1:0:0:1,E=1:0";

/// Tables of knobs that can be off or on.
fn knob_tables(knobs: &[&str]) -> String {
    let table = |knob: &&str| {
        format!(
            "[[knob]]\nname = \"{knob}\"\nlevels = [{{ name = \"off\", env = {{ {knob} = \"0\" }} }}, \
             {{ name = \"on\", env = {{ {knob} = \"1\" }} }}]\n"
        )
    };
    knobs.iter().map(table).collect()
}

/// A folder with a search over these knobs.
pub(crate) fn folder(name: &str, knobs: &[&str]) -> Folder {
    let folder = Folder::new(name);
    let load = FAKE_LOAD.replace("requests = 1", "requests = 2000");
    folder.write("app.toml", &format!("name = \"app\"\n{load}{TABLES}{}", knob_tables(knobs)));
    folder
}

/// A folder with the search of all effects.
pub(crate) fn full_folder(name: &str) -> Folder {
    folder(name, &["A", "B", "C", "D", "E"])
}

/// The search of a folder into `output`; it continues what is there.
pub(crate) fn command(folder: &Folder, output: &str, effects: &str, more: &[&str]) -> Command {
    let arguments =
        ["tune", "app.toml", "-o", output, "--seed", "5", "--resume", "--fake", effects];
    let mut command = folder.carat(&[&arguments[..], more].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(folder: &Folder, effects: &str, more: &[&str]) -> Ran {
    finish(command(folder, "out", effects, more).spawn().unwrap())
}

/// The outcome that a search has written.
pub(crate) fn outcome(folder: &Folder) -> Value {
    let text = fs::read_to_string(folder.path("out/outcome.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_search_recommends_what_saves_within_the_limits_and_writes_a_page() {
    let folder = full_folder("tune-found");
    let ran = run(&folder, EFFECTS, &["--ablate", "--details"]);
    ran.assert_code(0)
        .assert_says("a trial takes about")
        .assert_says("the search: at most 36 trials")
        .assert_says("that it stays within 5 %; 30 are allowed")
        .assert_says("screen 6/36 (17 %)")
        .assert_says("adapt 24/36 (67 %) · best trial so far −")
        .assert_says("less memory over the last quarter of the load than the default")
        .assert_says("env A=1 B=1 C=0 D=0 E=0 true")
        .assert_says("The server fails with: D=on")
        .assert_says("that no other beats in every metric");
    let found = outcome(&folder)["outcome"].clone();
    let env = &found["recommendation"]["env"];
    for (knob, expected) in [("A", "1"), ("B", "1"), ("C", "0"), ("D", "0")] {
        assert_eq!(env[knob], expected, "{knob}: {found:#}");
    }
    let without: Vec<&Value> = found["ablation"].as_array().unwrap().iter().collect();
    let part = |name: &str| {
        let one = without.iter().find(|one| one["setting"] == name).unwrap();
        one["conclusion"]["estimate"]["ratio"].as_f64().unwrap()
    };
    assert!((part("A=on") - 0.25).abs() < 0.03, "{without:?}");
    assert!((part("B=on") - 0.111).abs() < 0.03, "{without:?}");
    let report = folder.run(&["report", "out/app-confirm-1.carat", "--json"]);
    let report: Value = serde_json::from_str(&report.assert_code(0).out).unwrap();
    let (alone, confirmed) =
        (&report["results"]["conclusions"][0], &found["recommendation"]["conclusions"][0]);
    assert_eq!(alone, confirmed, "its share of the error is in the file");
    let page = fs::read_to_string(folder.path("out/app.html")).unwrap();
    for text in ["✓ confirmed", "Which setting does the work", "the fake server crashed"] {
        assert!(page.contains(text), "{text}");
    }
    let again = run(&folder, EFFECTS, &["--ablate", "--details"]);
    assert_eq!(again.assert_code(0).out, ran.out, "a search that is done repeats its outcome");
    let short = run(&folder, EFFECTS, &["--ablate"]);
    short
        .assert_code(0)
        .assert_says("\nUse it     env A=1")
        .assert_says("\nDetails    out/app.html · ");
    assert!(short.out.lines().count() <= 14, "{}", short.out);
    folder.assert_nothing_left();
}

#[test]
fn where_no_setting_does_anything_nothing_is_recommended() {
    let folder = folder("tune-null", &["E", "F", "G"]);
    let ran = run(&folder, "E=1:0", &[]);
    ran.assert_code(3).assert_says("Nothing better than the default was confirmed");
    assert_eq!(outcome(&folder)["outcome"]["recommendation"], Value::Null);
    assert!(folder.path("out/app.html").exists());
}

#[test]
fn ctrl_c_says_how_to_continue_and_the_rest_ends_as_if_nothing_had_happened() {
    let (whole, stopped) = (full_folder("tune-whole"), full_folder("tune-stopped"));
    run(&whole, EFFECTS, &["--fake-pace", "10"]).assert_code(0);
    let child = command(&stopped, "out", EFFECTS, &["--fake-pace", "10"]).spawn().unwrap();
    wait_until("the search is under way", || stopped.path("out/app-search-03.toml").exists());
    signal(&child, Signal::INT);
    finish(child).assert_code(130).assert_says("carat tune app.toml -o out --resume");
    run(&stopped, EFFECTS, &["--fake-pace", "10"]).assert_code(0);
    assert_eq!(outcome(&stopped), outcome(&whole));
    stopped.assert_nothing_left();
}

#[test]
fn what_cannot_be_searched_or_confirmed_is_said_before_trials_are_spent() {
    let nothing = folder("tune-nothing", &[]);
    run(&nothing, "E=1:0", &[])
        .assert_code(2)
        .assert_says("no setting is left to try")
        .assert_says("[[knob]]");
    let noisy = full_folder("tune-noisy");
    run(&noisy, EFFECTS, &["--fake-p95-sd", "1"])
        .assert_code(3)
        .assert_says("its winner could hardly be confirmed: latency.p95 varies by")
        .assert_says("requests from 2000 to about")
        .assert_says("30 are allowed");
    assert!(!noisy.path("out/app-search-01.toml").exists());
    let broken = full_folder("tune-broken");
    run(&broken, "*:0:0:1", &[])
        .assert_code(4)
        .assert_says("the server fails without any setting (crashed): the fake server crashed");
    let single = folder("tune-single", &["A"]);
    let text = fs::read_to_string(single.path("app.toml")).unwrap();
    let text = text.replace(", { name = \"on\", env = { A = \"1\" } }", "");
    single.write("app.toml", &text);
    run(&single, "E=1:0", &[])
        .assert_code(2)
        .assert_says("knob `A` needs at least two levels; the first is the default");
}

#[test]
fn where_every_configuration_crashes_the_search_ends_early_and_names_them() {
    let folder = folder("tune-crashes", &["A", "B"]);
    run(&folder, "A=1:0:0:1,B=1:0:0:1", &[])
        .assert_code(3)
        .assert_says("Nothing better than the default was confirmed (10 trials)")
        .assert_says("Trials failed under 3 of 3 configurations")
        .assert_says("B=on: crashed: the fake server crashed");
}

#[test]
fn the_file_of_a_load_lies_beside_that_of_the_search_and_a_change_of_it_is_noticed() {
    let folder = full_folder("tune-replay");
    let text = fs::read_to_string(folder.path("app.toml")).unwrap();
    folder.write("app.toml", &text.replace("path = \"/\"", "replay = \"access.log\""));
    let line = "10.0.0.7 - - [22/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 12 \"-\" \"-\"\n";
    folder.write("access.log", line);
    let paced = ["--fake-pace", "10"];
    let child = command(&folder, "out", EFFECTS, &paced).spawn().unwrap();
    wait_until("the search is under way", || folder.path("out/app-search-03.toml").exists());
    folder.write("access.log", &line.repeat(2));
    let changed = "the file of load.http.replay has changed since the search";
    finish(child).assert_code(1).assert_says(changed).assert_says("--resume");
    run(&folder, EFFECTS, &paced).assert_code(1).assert_says(changed);
    folder.write("access.log", line);
    run(&folder, EFFECTS, &paced).assert_code(0);
    folder.assert_nothing_left();
}

#[test]
fn a_block_that_was_planned_is_never_exchanged_for_another() {
    let folder = full_folder("tune-exchanged");
    run(&folder, EFFECTS, &[]).assert_code(0);
    let planned = folder.path("out/app-search-02.toml");
    let text = fs::read_to_string(&planned).unwrap();
    fs::write(&planned, text.replace("seed = ", "seed = 1")).unwrap();
    run(&folder, EFFECTS, &[])
        .assert_code(1)
        .assert_says("app-search-02.toml is not the block that the search proposes now");
}
