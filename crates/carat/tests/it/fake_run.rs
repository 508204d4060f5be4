//! Whole experiments through the real program, on the fake bench: order, stopping, resuming, text.

use crate::support::{Folder, fake_experiment, finish, signal, wait_until};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::Stdio;

const TABLES: &str = r#"[measure]
primary = "memory.rss.final"
[trials]
max = 30
margin = "0.25%"
seed = 5
"#;

fn experiment() -> String {
    fake_experiment("fake", TABLES)
}

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("fake.toml", &experiment());
    folder
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// Block, position and variant of every trial, in the order they ran.
fn order(results: &serde_json::Value) -> Vec<(u64, u64, String)> {
    let trials = results["results"]["trials"].as_array().unwrap();
    let place = |trial: &serde_json::Value| {
        let number = |name: &str| trial[name].as_u64().unwrap();
        (number("block"), number("position"), trial["variant"].as_str().unwrap().to_owned())
    };
    trials.iter().map(place).collect()
}

#[test]
fn the_effect_of_the_published_experiment_is_called_smaller_with_interval_and_n() {
    let folder = folder("smaller");
    // Experiment 2: 71,162,253 +- 288,533 bytes against 70,595,031 +- 294,238 bytes.
    let ran = folder.run(&["compare", "fake.toml", "--fake", "71.162e6:289e3,70.595e6:294e3"]);
    ran.assert_code(0).assert_says("▼ other").assert_says(" blocks, intervals at ");
    let ran = folder.run(&["report", "fake.carat", "--json"]);
    let results = json(&ran.assert_code(0).out);
    let conclusion = &results["results"]["conclusions"][0];
    assert_eq!(conclusion["verdict"], "smaller", "{conclusion}");
    let interval = conclusion["estimate"]["ratio_interval"].as_array().unwrap();
    assert!(
        interval[0].as_f64() < Some(-0.008) && interval[1].as_f64() < Some(0.0),
        "{interval:?}"
    );
}

#[test]
fn two_equal_variants_are_never_called_smaller_or_larger_here() {
    let folder = folder("equal");
    // Of twenty seeds one may err; this one was not chosen, it is the first.
    let ran =
        folder.run(&["compare", "fake.toml", "--fake", "71e6:100e3,71e6:100e3", "--seed", "1"]);
    assert!(matches!(ran.code, Some(0 | 3)), "{ran:?}");
    assert!(!ran.out.contains(['▼', '▲']), "{}", ran.out);
}

/// The experiment with moments beyond those of every trial, and the metric that is read last.
fn folder_with_moments(name: &str) -> Folder {
    let folder = Folder::new(name);
    let text = experiment().replace("requests = 1\n", "requests = 3000\n").replace(
        "memory.rss.final\"",
        "memory.rss.idle\"\nat_requests = [1000, 300]\nidle = '15s'",
    );
    folder.write("fake.toml", &text);
    folder
}

#[test]
fn memory_at_every_moment_is_compared_and_the_verdict_names_its_moment() {
    let folder = folder_with_moments("moments");
    let fake = ["--fake", "71.162e6:289e3,69.595e6:294e3", "--details"];
    let ran = folder.run(&[&["compare", "fake.toml"], &fake[..]].concat());
    ran.assert_code(0).assert_says("less memory after 15 s idle than default");
    let table = ran.out.split_once("memory at each moment").expect("a table").1;
    let mut rest = table;
    for moment in [
        "ready",
        "start of the load",
        "after 300 requests",
        "after 1,000 requests",
        "after the load",
    ] {
        rest = rest.split_once(moment).unwrap_or_else(|| panic!("{moment}: {}", ran.out)).1;
        let row = rest.lines().nth(1).unwrap();
        assert!(row.contains("other") && row.contains(" % ("), "{moment}: {row}");
    }
    let ran = folder.run(&["report", "fake.carat", "--json"]);
    let results = json(&ran.assert_code(0).out);
    let moments = results["results"]["moments"].as_array().unwrap();
    let medians = |moment: serde_json::Value| {
        let is = |one: &&serde_json::Value| one["moment"] == moment && one["figure"] == "rss";
        let found: Vec<_> = moments.iter().filter(is).collect();
        assert_eq!(found.len(), 2, "{moment}: {found:?}");
        (found[0]["median"].as_f64().unwrap(), found[1]["estimate"]["ratio"].as_f64().unwrap())
    };
    let (end, ratio) = medians("end".into());
    let (idle, _) = medians("idle".into());
    assert!((idle / end - 0.8).abs() < 1e-6 && ratio < -0.01, "{end} {idle} {ratio}");
    let early = medians(serde_json::json!({"requests": 300})).0;
    assert!((early / end - 2.0 / 3.0).abs() < 1e-6, "{early} {end}");
}

#[test]
fn a_census_explains_the_saving_by_class_in_every_format() {
    let folder = Folder::new("census");
    let text = experiment().replace("memory.rss.final\"", "memory.rss.final\"\ncensus = true");
    folder.write("fake.toml", &text);
    let fake = ["--fake", "71.162e6:289e3,60.595e6:294e3", "--details"];
    let ran = folder.run(&[&["compare", "fake.toml"], &fake[..]].concat());
    ran.assert_code(0).assert_says("objects by class at the end (medians over the trials");
    ran.assert_says(" trials read) against default (");
    let line = |name: &str| {
        let found = ran.out.lines().find(|line| line.trim_start().starts_with(name));
        found.unwrap_or_else(|| panic!("no {name}: {}", ran.out)).to_owned()
    };
    assert!(line("all classes").contains("−10,"), "{}", line("all classes"));
    assert!(line("String").contains("−10,") && line("String").contains("−1.0"), "{ran:?}");
    let report = folder.run(&["report", "fake.carat", "--json"]);
    let results = &json(&report.assert_code(0).out)["results"];
    let compared = &results["classes"][0];
    assert_eq!(compared["variant"], "other", "{compared}");
    assert_eq!(compared["trials"]["read"], compared["trials"]["counted"], "{compared}");
    let classes = compared["classes"].as_array().unwrap();
    assert_eq!(classes.len(), 1, "objects of the other class are equal: {compared}");
    let number = |name: &str| classes[0][name].as_f64().unwrap();
    assert!(number("baseline_objects") - number("objects") > 9_000.0, "{compared}");
    let page = fs::read_to_string(folder.path("fake.html")).unwrap();
    let section = page.split_once("id=\"classes\"").expect("a section").1;
    assert!(section.contains("String") && section.contains("all classes"));
    let markdown = folder.run(&["report", "fake.carat", "--format", "md"]);
    markdown.assert_code(0).assert_says("| all classes | ");
}

#[test]
fn trials_keep_their_moments_when_a_run_resumes_and_when_the_file_is_salvaged() {
    let folder = folder_with_moments("kept-moments");
    let fake = ["--fake", "71e6:9e6,71e6:9e6"];
    let first = [&["compare", "fake.toml", "--blocks", "2"][..], &fake].concat();
    folder.run(&first).assert_code(3);
    let again = [&["compare", "fake.toml", "--blocks", "2", "--resume"][..], &fake].concat();
    folder.run(&again).assert_code(3);
    folder.run(&["salvage", "fake.carat", "-o", "copy.carat"]).assert_code(0);
    let read = |file: &str| json(&folder.run(&["report", file, "--json"]).out);
    let (original, copy) = (read("fake.carat"), read("copy.carat"));
    assert_eq!(original["results"]["moments"], copy["results"]["moments"]);
    for trial in original["results"]["trials"].as_array().unwrap() {
        let samples = trial["samples"].as_array().unwrap();
        assert_eq!(samples.iter().filter(|one| !one["moment"].is_null()).count(), 6, "{trial}");
    }
}

#[test]
fn too_few_blocks_for_a_verdict_are_undecided_and_exit_3() {
    let folder = folder("undecided");
    let ran = folder.run(&["compare", "fake.toml", "--fake", "71e6:5e6,70e6:5e6", "--blocks", "8"]);
    ran.assert_code(3).assert_says("undecided");
}

#[test]
fn a_killed_run_goes_on_with_the_same_plan_and_loses_or_repeats_nothing() {
    let fake = ["--fake", "71e6:9e6,71e6:9e6", "--blocks", "12"];
    let whole = folder("whole");
    whole.run(&[&["compare", "fake.toml"][..], &fake].concat()).assert_code(3);
    let expected = json(&whole.run(&["report", "fake.carat", "--json"]).out);

    let killed = folder("killed");
    let slow = [&["compare", "fake.toml", "--fake-pace", "30", "--resume"][..], &fake].concat();
    let mut kills = 0;
    loop {
        let mut child =
            killed.carat(&slow).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Longer every time: where starting alone takes long, some run still gets further than the one before it.
        std::thread::sleep(std::time::Duration::from_millis(150).mul_f64(1.04_f64.powi(kills)));
        if child.try_wait().unwrap().is_some() {
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        assert!(kills < 200, "the run never came to its end");
    }
    assert!(kills > 0, "nothing was killed, so nothing was tested");
    let resumed = json(&killed.run(&["report", "fake.carat", "--json"]).out);
    assert_eq!(order(&resumed), order(&expected));
    let figures = |results: &serde_json::Value| -> Vec<f64> {
        let trials = results["results"]["trials"].as_array().unwrap();
        trials.iter().map(|trial| trial["metrics"]["memory.rss.final"].as_f64().unwrap()).collect()
    };
    assert_eq!(figures(&resumed), figures(&expected));
    assert_eq!(resumed["results"]["conclusions"], expected["results"]["conclusions"]);
}

#[test]
fn a_run_for_a_limited_time_ends_between_blocks_and_goes_on_later() {
    let folder = folder("limited");
    let fake = ["compare", "fake.toml", "--fake", "71e6:9e6,71e6:9e6", "--fake-pace", "60"];
    // Longer than one trial, also on a busy machine, and shorter than the planned 31 blocks of two trials.
    let sitting = [&fake[..], &["--resume", "--for", "2s"]].concat();
    let ran = folder.run(&sitting);
    ran.assert_code(3).assert_says("the next block takes about").assert_says("--resume");
    let first = order(&json(&folder.run(&["report", "fake.carat", "--json"]).out));
    assert!(!first.is_empty() && first.len().is_multiple_of(2), "whole blocks only: {first:?}");
    folder.run(&sitting);
    let second = order(&json(&folder.run(&["report", "fake.carat", "--json"]).out));
    assert_eq!(first, second[..first.len()], "nothing is repeated");
    folder.assert_nothing_left();
}

#[test]
fn without_a_warm_up_block_every_trial_is_scored() {
    let folder = folder("no-warm-up");
    folder.write("fake.toml", &experiment().replace("max = 30", "max = 3\nwarmup_block = false"));
    folder.run(&["compare", "fake.toml", "--fake", "71e6:1e5,71e6:1e5"]);
    let ran = order(&json(&folder.run(&["report", "fake.carat", "--json"]).out));
    assert_eq!(ran.iter().map(|trial| trial.0).collect::<Vec<_>>(), [1, 1, 2, 2, 3, 3]);
}

#[test]
fn a_setting_for_every_variant_is_part_of_the_plan() {
    let folder = folder("set");
    let fake = ["compare", "fake.toml", "--fake", "71e6:1e5,71e6:1e5", "--blocks", "1", "--resume"];
    let compare = |extra: &[&str]| folder.run(&[&fake[..], extra].concat());
    compare(&["--set", "arena_max=2"]);
    let results = json(&folder.run(&["report", "fake.carat", "--json"]).out);
    for variant in results["results"]["variants"].as_array().unwrap() {
        assert_eq!(variant["settings"]["arena_max"], "2", "{variant}");
    }
    compare(&[]).assert_code(2).assert_says("server.settings.arena_max: \"2\" → not set");
    compare(&["--set", "arena_max"]).assert_code(2).assert_says("write `name=value`");
    compare(&["--set", "arena_maxx=2"]).assert_code(2).assert_says("did you mean `arena_max`?");
}

#[test]
fn ctrl_c_keeps_finished_trials_and_says_how_to_go_on() {
    let folder = folder("interrupted");
    let arguments = ["compare", "fake.toml", "--fake", "71e6:9e6,71e6:9e6", "--fake-pace", "50"];
    let mut command = folder.carat(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the results file exists", || folder.path("fake.carat").exists());
    signal(&child, Signal::INT);
    let ran = finish(child);
    ran.assert_code(130).assert_says("; continue with").assert_says("--resume");
    folder.assert_nothing_left();
}

#[test]
fn crashes_are_counted_and_a_variant_that_always_fails_ends_the_run() {
    let folder = folder("crashes");
    let ran = folder.run(&["compare", "fake.toml", "--fake", "71e6:1e5,70e6:1e5:1.0"]);
    ran.assert_code(4).assert_says("variant `other` failed 2 times in a row (crashed)");
    ran.assert_says("2 crashed");
}

#[test]
fn an_existing_results_file_is_not_overwritten_and_another_experiments_not_resumed() {
    let folder = folder("existing");
    let fake = ["--fake", "71e6:1e5,70e6:1e5", "-o", "r.carat"];
    let compare =
        |extra: &[&str]| folder.run(&[&["compare", "fake.toml"], &fake[..], extra].concat());
    compare(&["--blocks", "8"]).assert_code(0);
    let before = std::fs::read(folder.path("r.carat")).unwrap();
    compare(&[]).assert_code(2).assert_says("r.carat exists already").assert_says("--resume");
    compare(&["--resume", "--blocks", "9"]).assert_code(2).assert_says("at most 8 blocks");
    compare(&["--resume", "--seed", "9"]).assert_code(2).assert_says("begun with seed 5");
    folder.write("fake.toml", &experiment().replace("requests = 1", "requests = 2"));
    let changed = compare(&["--resume"]);
    changed.assert_code(2).assert_says("  load.http.requests: 1 → 2\n").assert_says("--fresh");
    folder.write("fake.toml", &experiment().replace("max = 30", "max = 40"));
    compare(&["--resume"])
        .assert_code(2)
        .assert_says("trials.max: 30 → 40")
        .assert_says("evidence");
    folder.write("fake.toml", &experiment().replace("\"fake\"", "\"other\""));
    compare(&["--resume"]).assert_code(2).assert_says("the results of another experiment (`fake`)");
    assert_eq!(std::fs::read(folder.path("r.carat")).unwrap(), before);
}

#[test]
fn fresh_moves_the_old_results_aside_and_begins_anew() {
    let folder = folder("anew");
    let compare = |extra: &[&str]| {
        let fake = ["compare", "fake.toml", "--blocks", "2", "--fake", "71e6:1e5,70e6:1e5"];
        folder.run(&[&fake[..], extra].concat())
    };
    compare(&["--fresh"]).assert_code(3);
    let [first, page] = ["fake.carat", "fake.html"].map(|name| std::fs::read(folder.path(name)));
    compare(&["--fresh"]).assert_code(3).assert_says("the old results are now in fake.old-1.carat");
    compare(&["--fresh"]).assert_code(3).assert_says("fake.old-2.carat");
    let [old, old_page] =
        ["fake.old-1.carat", "fake.old-1.html"].map(|name| std::fs::read(folder.path(name)));
    assert_eq!((old.unwrap(), old_page.unwrap()), (first.unwrap(), page.unwrap()));
    compare(&["--fresh", "--resume"]).assert_code(2).assert_says("cannot be used with");
    std::os::unix::fs::symlink("/dev/zero", folder.path("device")).unwrap();
    compare(&["--fresh", "-o", "device"]).assert_code(2).assert_says("device is not a file");
}

#[test]
fn after_a_change_of_limits_trials_that_still_count_are_kept() {
    let folder = folder("limits");
    let compare =
        || folder.run(&["compare", "fake.toml", "--resume", "--fake", "71e6:1e5,70e6:1e5"]);
    folder.write("fake.toml", &experiment().replace("max = 30", "max = 2"));
    compare().assert_code(3);
    let before = order(&json(&folder.run(&["report", "fake.carat", "--json"]).out));
    let own = ["fake.new", "fake.old-1.html"].map(|name| folder.write(name, "of the user"));
    let text = experiment().replace("max = 30", "max = 2");
    folder.write("fake.toml", &text.replace("requests = 1", "requests = 1\nerrors = '5%'"));
    let ran = compare();
    ran.assert_code(3).assert_says("  load.http.errors: not set → \"5%\"\n");
    ran.assert_says("6 of 6 finished trials still count; fake.old-2.carat keeps all of them");
    assert!(own.iter().all(|file| std::fs::read_to_string(file).unwrap() == "of the user"));
    let after = folder.run(&["report", "fake.carat", "--json"]);
    assert_eq!(order(&json(&after.out)), before);
    let kept = folder.run(&["report", "fake.old-2.carat", "--json"]);
    assert_eq!(order(&json(&kept.out)), before);
}

#[test]
fn foreign_and_newer_results_files_are_refused_by_name() {
    let folder = folder("foreign");
    folder.write("text.carat", &"not a results file ".repeat(300));
    let resume = ["compare", "fake.toml", "--fake", "1:1,1:1", "--resume", "-o"];
    folder
        .run(&[&resume[..], &["text.carat"]].concat())
        .assert_code(1)
        .assert_says("not a results file");
    folder.run(&["report", "text.carat"]).assert_code(1).assert_says("not a results file");
    folder.run(&["report", "none.carat"]).assert_code(1).assert_says("there is no results file");
    folder
        .run(&["compare", "fake.toml", "--fake", "71e6:1,70e6:1", "-o", "new.carat"])
        .assert_code(0);
    let file = rusqlite::Connection::open(folder.path("new.carat")).unwrap();
    file.pragma_update(None, "user_version", 99).unwrap();
    drop(file);
    let resumed =
        ["compare", "fake.toml", "--fake", "71e6:1,70e6:1", "--resume", "-o", "new.carat"];
    for arguments in [
        &["report", "new.carat"][..],
        &["stats", "new.carat"],
        &["plan", "new.carat"],
        &["explain", "new.carat"],
        &resumed,
    ] {
        folder.run(arguments).assert_code(1).assert_says("newer carat (format 99");
    }
}

#[test]
fn exported_json_is_read_wherever_a_results_file_is() {
    let folder = folder("exported");
    folder.run(&["compare", "fake.toml", "--fake", "71e6:100e3,69e6:100e3"]).assert_code(0);
    let exported = folder.run(&["report", "fake.carat", "--json"]).assert_code(0).out.clone();
    folder.write("fake.json", &exported);
    for command in [&["report", "--format", "md"][..], &["stats"], &["plan"]] {
        let outputs = ["fake.carat", "fake.json"].map(|file| {
            let arguments = [&command[..1], &[file], &command[1..]].concat();
            folder.run(&arguments).assert_code(0).out.replace(file, "FILE")
        });
        assert_eq!(outputs[0], outputs[1], "{command:?}");
    }
    for file in ["fake.carat", "fake.json"] {
        let ran = folder.run(&["explain", file, "--variant", "other"]);
        ran.assert_code(1).assert_says("variant `other` has no trial with a ledger yet");
        folder.run(&["explain", file, "--variant", "nobody"]).assert_says("default, other");
    }
}

#[test]
fn a_file_that_is_not_results_is_refused_alike_by_every_command_that_reads_results() {
    let folder = folder("unlike");
    let head = "{\"schema\":\"carat.recording/3\",\"what\":\"puma\",\"started_ms\":1}\n";
    folder.write("recording.jsonl", head);
    folder.write("other.json", "{\"name\": 1}");
    folder.write("later.json", "{\"schema\": \"carat.results/9\", \"results\": 3}");
    for (file, expected) in [
        ("recording.jsonl", "recording.jsonl is a recording"),
        ("other.json", "other.json is not a recording or exported results"),
        ("later.json", "cannot read later.json: its schema is `carat.results/9`"),
    ] {
        for command in ["stats", "plan", "report", "explain"] {
            if file == "recording.jsonl" && matches!(command, "report" | "explain") {
                continue;
            }
            folder.run(&[command, file]).assert_code(1).assert_says(expected);
        }
    }
}

#[test]
fn a_file_of_an_older_format_is_salvaged_and_reported_but_not_resumed() {
    let folder = folder("older");
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/store/format-1.sqlite");
    std::fs::copy(old, folder.path("old.carat")).unwrap();
    let ran = folder.run(&["report", "old.carat"]);
    ran.assert_code(1).assert_says("`carat salvage old.carat -o old.salvaged.carat` ");
    let ran = folder.run(&["salvage", "old.carat", "-o", "new.carat"]);
    ran.assert_code(0).assert_says("copied 12 undamaged trials").assert_says("cannot be resumed");
    let file = rusqlite::Connection::open(folder.path("new.carat")).unwrap();
    let plan: String =
        file.query_row("SELECT plan_text FROM experiment", [], |row| row.get(0)).unwrap();
    drop(file);
    folder.write("fake.toml", &plan);
    let resume = ["compare", "fake.toml", "--fake", "1:1,1:1", "--resume", "-o", "new.carat"];
    folder.run(&resume).assert_code(2).assert_says("was begun by an older carat");
    let results = json(&folder.run(&["report", "new.carat", "--json"]).assert_code(0).out);
    assert_eq!(results["schema"], "carat.results/2");
    for trial in results["results"]["trials"].as_array().unwrap() {
        assert_eq!(trial["machine"]["kernel"], "6.1.0");
        assert_eq!(trial["machine"]["ruby"].is_string(), trial["variant"] == "default");
    }
}

#[test]
fn wrong_experiment_files_are_refused_before_anything_is_written() {
    let folder = folder("wrong");
    for (from, to, expected) in [
        ("requests = 1", "request = 1", "did you mean `requests`?"),
        ("name = \"other\"", "name = \"other\"\nsettings = { compakt = 'boot' }", "compact"),
        ("name = \"other\"", "name = \"other\"\nsettings = { compact = 'boots' }", "boot"),
        ("[\"true\"]", "[\"no-such-program\"]", "`no-such-program` was not found"),
        ("memory.rss.final", "memory.rss.last", "unknown metric"),
    ] {
        folder.write("wrong.toml", &experiment().replace(from, to));
        folder.run(&["compare", "wrong.toml"]).assert_code(2).assert_says(expected);
        assert!(!folder.path("fake.carat").exists(), "{to}");
    }
    folder
        .run(&["compare", "none.toml"])
        .assert_code(2)
        .assert_says("cannot read the experiment file");
}

#[test]
fn a_dry_run_shows_the_plan_and_runs_nothing() {
    let folder = folder("dry");
    let ran = folder.run(&["compare", "fake.toml", "--dry-run"]);
    assert!(ran.out.lines().count() <= 14, "{}", ran.out);
    ran.assert_says("details     carat compare fake.toml --dry-run --details");
    let details = folder.run(&["compare", "fake.toml", "--dry-run", "--details"]);
    details.assert_says("seed        5").assert_says("block 1").assert_says("env         ");
    assert!(details.out.starts_with(ran.out.split("details ").next().unwrap()));
    ran.assert_code(0)
        .assert_says("variant     other: ")
        .assert_says("load        1 request over 8 connections: GET /\n")
        .assert_says("trials      at most 62\n")
        .assert_says("a verdict is possible from block 8 on")
        .assert_says("time        unknown until a trial has run\n");
    let env = "name = \"other\"\nenv = { SLOW = '1', API_TOKEN = 'hunter22', DB = 'pg://u:hunter22@h/d' }";
    folder.write("env.toml", &experiment().replace("name = \"other\"", env));
    let ran = folder.run(&["compare", "env.toml", "--dry-run"]);
    ran.assert_code(0).assert_says("env SLOW=1").assert_says("API_TOKEN=");
    assert!(!ran.out.contains("hunter22"), "{}", ran.out);
    let timed = experiment().replace("requests = 1", "duration = '9500ms'\nwarmup = 0");
    folder.write("timed.toml", &timed);
    let ran = folder.run(&["compare", "timed.toml", "--dry-run"]);
    ran.assert_says("time        at least 10 s per trial (the load and the pauses alone");
    ran.assert_says("at least 3.0 min until the first possible verdict, 10 min for all\n");
    assert!(!folder.path("fake.carat").exists());
}

#[test]
fn with_few_blocks_the_typical_difference_and_every_blocks_own_are_shown() {
    let folder = folder("few");
    let fake = ["compare", "fake.toml", "--blocks", "3", "--fake", "71e6:1e5,70e6:1e5"];
    let text = folder.run(&[&fake[..], &["--details"]].concat());
    let text = text.assert_code(3).out.replace("\n  ", " ");
    let comment = folder.run(&["report", "fake.carat", "--format", "md"]).out.clone();
    for text in [text, comment] {
        let listed = text.split("; so far ").nth(1).and_then(|rest| rest.split(')').next());
        let changes = listed.map(|listed| listed.matches(" %").count());
        assert_eq!(changes, Some(4), "a typical one and three blocks: {text}");
    }
}

#[test]
fn the_page_stands_beside_the_results() {
    let folder = folder("page");
    folder.run(&["compare", "fake.toml", "--fake", "71e6:1e5,70e6:1e5"]).assert_code(0);
    let page = std::fs::read_to_string(folder.path("fake.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("less memory"));
    folder
        .run(&["report", "fake.carat", "-o", "no/such/place.html"])
        .assert_code(1)
        .assert_says("-o");
}

#[test]
fn another_question_is_answered_from_stored_trials_and_called_a_hint() {
    let folder = folder("stats");
    folder.run(&["compare", "fake.toml", "--fake", "71e6:100e3,69e6:100e3"]).assert_code(0);
    let ran = folder.run(&["stats", "fake.carat"]);
    ran.assert_code(0).assert_says("▼ other");
    assert!(!ran.talk.contains("hint"), "{}", ran.talk);
    let turned = folder.run(&["stats", "fake.carat", "--baseline", "other", "--json"]);
    let results = json(&turned.assert_code(0).out);
    assert_eq!(results["results"]["conclusions"][0]["verdict"], "larger");
    assert!(turned.talk.contains("a hint to test, not evidence"), "{}", turned.talk);
    folder.run(&["stats", "fake.carat", "--baseline", "nobody"]).assert_code(2);
    folder
        .run(&["stats", "fake.carat", "--metric", "memory.pss.finale"])
        .assert_code(2)
        .assert_says("did you mean `memory.pss.final`?");
}

#[test]
fn a_pilot_forecasts_what_an_experiment_could_find() {
    let folder = folder("plan");
    let fake = ["--fake", "71e6:289e3,71e6:289e3"];
    let ran =
        folder.run(&[&["plan", "fake.toml", "--pilot", "12", "-o", "p.carat"], &fake[..]].concat());
    ran.assert_code(0).assert_says("standard deviation of a single trial").assert_says("requires ");
    folder.run(&["plan", "p.carat"]).assert_code(0).assert_says("From 12 blocks");
}

#[test]
fn a_broken_budget_exits_99_a_kept_one_0_and_a_misspelt_one_2() {
    let folder = folder("budget");
    let judge = |budget: &str, output: &str| {
        let fake = ["--fake", "71e6:1e5,74e6:1e5", "--budget", budget, "-o", output];
        folder.run(&[&["compare", "fake.toml"], &fake[..]].concat())
    };
    judge("memory.rss.final<+2%", "a.carat").assert_code(99).assert_says("BROKEN by other");
    judge("memory.rss.final<+9%", "b.carat").assert_code(0).assert_says("kept by other");
    judge("memory.rss.finale<+9%", "c.carat").assert_code(2).assert_says("memory.rss.final");
}

/// A collection, a compaction on top of it, and a variant with a loaded library that does nothing.
const CONTROLLED: &str = r#"
[[variant]]
name = "sham"
[[variant]]
name = "gc at boot"
control = "sham"
[[variant]]
name = "compact at boot"
control = ["gc at boot", "sham"]
[measure]
"#;

fn controlled(name: &str) -> Folder {
    let folder = Folder::new(name);
    let variants = experiment().replace("[[variant]]\nname = \"other\"\n[measure]\n", CONTROLLED);
    folder.write("fake.toml", &variants);
    folder
}

#[test]
fn a_saving_that_is_in_the_control_too_is_credited_to_the_control() {
    let folder = controlled("controls");
    let fake = "71e6:100e3,71e6:100e3,70e6:100e3,70e6:100e3";
    let ran = folder.run(&["compare", "fake.toml", "--fake", fake, "--details"]);
    ran.assert_code(0)
        .assert_says("\n  gc at boot against sham ")
        // The claims are decided one after another, each at its own share of the error.
        .assert_says("intervals at 95 % to 99 %");
    let results = json(&folder.run(&["report", "fake.carat", "--json"]).assert_code(0).out);
    assert_eq!(results["schema"], "carat.results/3");
    let controls = results["results"]["controls"].as_array().unwrap();
    let field = |name: &str| controls.iter().map(|c| c[name].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(field("variant"), ["gc at boot", "compact at boot", "compact at boot"]);
    assert_eq!(field("control"), ["sham", "gc at boot", "sham"]);
    assert_eq!(field("verdict"), ["smaller", "equivalent", "smaller"]);
    assert_eq!(field("part"), ["rest", "control", "rest"]);
    assert!(controls.iter().all(|c| c["estimate"]["confidence"].as_f64() > Some(0.89)));
    let ran = folder.run(&["report", "fake.carat", "--format", "openmetrics"]);
    ran.assert_says("carat_control_difference_ratio{experiment=\"fake\",variant=\"gc at boot\",control=\"sham\"");
    folder
        .run(&["report", "fake.carat", "--format", "md"])
        .assert_says("| compact at boot against gc at boot | ")
        .assert_says(
            ": gc at boot alone has the same effect, and nothing more comes from compact at boot.",
        )
        .assert_says(
            ": sham alone makes no difference that matters, so the effect comes from what gc at boot does beyond it.",
        );
    let page = std::fs::read_to_string(folder.path("fake.html")).unwrap();
    assert!(page.contains("Against its control") && page.contains("difference to the control, %"));
    // The compaction saves no less, but the collection in it does that.
    let headline = page.split_once("<h1>").unwrap().1.split_once("</h1>").unwrap().0;
    let saves = "<strong>gc at boot</strong> uses 1.5\u{a0}% less memory";
    assert!(headline.contains(saves), "{headline}");
    let figures = json(&folder.run(&["report", "fake.carat", "--format", "figures"]).out);
    let against = &figures["variants"]["compact at boot"]["memory.rss.final"]["against"];
    assert_eq!(against["gc at boot"]["verdict"], "equivalent", "{against}");
}

#[test]
fn an_undecided_control_exits_3_and_says_which_difference_could_be_found() {
    let folder = controlled("undecided-control");
    // The compaction adds 0.2 % to a clear saving: too little for so few blocks.
    let fake = "71e6:60e3,71e6:60e3,66e6:60e3,65.9e6:150e3";
    let ran = folder.run(&["compare", "fake.toml", "--fake", fake, "--blocks", "12"]);
    ran.assert_code(3);
    folder.run(&["report", "fake.carat", "--format", "md"]).assert_says(
        ": which part does the work is undecided; the whole budget can find differences from about 0.2",
    );
    let open = json(&folder.run(&["report", "fake.carat", "--json"]).out);
    let conclusions = open["results"]["conclusions"].as_array().unwrap();
    let primary = |c: &&serde_json::Value| c["role"]["role"] == "primary";
    assert!(
        conclusions.iter().filter(primary).all(|c| c["verdict"] != "undecided"),
        "{conclusions:?}"
    );
}

#[test]
fn a_control_is_in_the_plan_and_a_file_without_controls_is_as_before() {
    let folder = controlled("control-plan");
    let dry = folder.run(&["compare", "fake.toml", "--dry-run"]);
    dry.assert_code(0)
        .assert_says("; control gc at boot, sham\n")
        .assert_says("6 (3 with the baseline, 3 with a control) share the error of 5 %");
    let fake = ["--fake", "71e6:1e5,71e6:1e5,70e6:1e5,70e6:1e5", "--resume", "--blocks", "3"];
    let compare =
        |extra: &[&str]| folder.run(&[&["compare", "fake.toml"], &fake[..], extra].concat());
    compare(&[]).assert_code(3);
    let text = std::fs::read_to_string(folder.path("fake.toml")).unwrap();
    folder.write("fake.toml", &text.replace("control = \"sham\"\n", ""));
    compare(&[]).assert_code(2).assert_says("variant.gc at boot.control: \"sham\" → not set");
    folder.write("fake.toml", &text);
    compare(&[]).assert_code(3);
    for (from, to, expected) in [
        ("\"gc at boot\", ", "\"gc at bot\", ", "did you mean `gc at boot`?"),
        ("control = \"sham\"", "control = \"compact at boot\"", "the controls form a circle"),
    ] {
        folder.write("wrong.toml", &text.replace(from, to));
        folder.run(&["compare", "wrong.toml"]).assert_code(2).assert_says(expected);
    }
    let plain = self::folder("plain");
    plain.run(&["compare", "fake.toml", "--fake", "71e6:1e5,70e6:1e5"]).assert_code(0);
    let results = json(&plain.run(&["report", "fake.carat", "--json"]).out);
    assert_eq!(results["schema"], "carat.results/2");
    assert!(results["results"]["controls"].is_null());
}

#[test]
fn exported_and_salvaged_results_keep_their_controls() {
    let folder = controlled("kept-controls");
    let fake = "71e6:100e3,71e6:100e3,70e6:100e3,70e6:100e3";
    folder.run(&["compare", "fake.toml", "--fake", fake]).assert_code(0);
    let expected = folder.run(&["stats", "fake.carat", "--json"]).assert_code(0).out.clone();
    folder.write("fake.json", &expected);
    folder.run(&["salvage", "fake.carat", "-o", "new.carat"]).assert_code(0);
    for file in ["fake.json", "new.carat"] {
        let again = folder.run(&["stats", file, "--json"]).assert_code(0).out.clone();
        assert_eq!(json(&again)["results"]["controls"], json(&expected)["results"]["controls"]);
    }
    // Seen from the control, the variant is compared once: with the baseline that the control now is.
    let turned = folder.run(&["stats", "fake.carat", "--baseline", "gc at boot", "--json"]);
    let controls = json(&turned.out)["results"]["controls"].clone();
    assert_eq!(controls.as_array().unwrap().len(), 1, "{controls}");
    assert_eq!(controls[0]["control"], "sham");
}

#[test]
fn every_format_is_made_from_the_same_file() {
    let folder = folder("faces");
    folder.run(&["compare", "fake.toml", "--fake", "71e6:1e5,70e6:1e5"]).assert_code(0);
    for (format, landmark) in [
        ("md", "less memory"),
        ("csv", "experiment,trial,block"),
        ("openmetrics", "# EOF"),
        ("json", "schema"),
    ] {
        folder
            .run(&["report", "fake.carat", "--format", format])
            .assert_code(0)
            .assert_says(landmark);
    }
    folder.run(&["report", "fake.carat", "fake.carat", "-o", "both.html"]).assert_code(0);
    assert!(folder.path("both.html").is_file());
}

#[test]
fn completions_and_the_manual_name_every_command() {
    let folder = folder("shell");
    for arguments in
        [&["completions", "bash"][..], &["completions", "zsh"], &["completions", "fish"], &["man"]]
    {
        let ran = folder.run(arguments);
        for command in ["compare", "explain", "record", "exec", "load", "report"] {
            ran.assert_code(0).assert_says(command);
        }
        assert!(
            !ran.out.contains("load-worker") || arguments[0] == "completions",
            "a hidden command is shown"
        );
    }
}
