//! Exported results become a results file again, and a run continues it: through the real programs, on the fake bench.

use crate::support::{Folder, Ran, fake_experiment, finish};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const TABLES: &str = r#"[measure]
primary = "memory.rss.final"
at_requests = [50, 500]
[trials]
max = 6
margin = "0.25%"
seed = 5
"#;

/// A shared export hides the value of FEED.
fn experiment() -> String {
    fake_experiment("sittings", TABLES)
        .replace("requests = 1", "requests = 1000")
        .replace("[load.http]", "env = { WORKERS = \"2\", FEED = \"acme\" }\n[load.http]")
}

const FAKE: &str = "71e6:9e6,71e6:9e6";

/// The block after which the first sitting ended.
const FIRST_SITTING: u64 = 3;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The example that makes a results file of an export.
fn restore_program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // A test target alone does not build the examples; where they are built already this takes a second.
        let mut command = Command::new(env!("CARGO"));
        command.args(["build", "--offline", "--quiet", "-p", "carat", "--example", "restore"]);
        let ran = command.current_dir(repository("")).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        Path::new(env!("CARGO_BIN_EXE_carat")).with_file_name("examples").join("restore")
    })
}

fn restore(folder: &Folder, options: &[&str]) -> Ran {
    let mut command = Command::new(restore_program());
    command.arg("first.json").args(options).args(["--output", "again.carat"]);
    command.current_dir(folder.path(".")).stdin(Stdio::null());
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

fn export(folder: &Folder, file: &str) -> Value {
    let ran = folder.run(&["report", file, "--json"]);
    serde_json::from_str(&ran.assert_code(0).out).unwrap()
}

fn trials(export: &Value) -> &Vec<Value> {
    export["results"]["trials"].as_array().unwrap()
}

fn blocks(export: &Value) -> Vec<u64> {
    trials(export).iter().map(|trial| trial["block"].as_u64().unwrap()).collect()
}

/// What `carat report --json --share` writes of a file, through shorten.rb.
fn shortened(folder: &Folder, file: &str) -> String {
    let shared = folder.run(&["report", file, "--json", "--share"]).assert_code(0).out.clone();
    folder.write("shared.json", &shared);
    let input = fs::File::open(folder.path("shared.json")).unwrap();
    let script = repository("docs/evidence/experiments/shorten.rb");
    let ran = Command::new("ruby").arg(script).stdin(input).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// Runs the experiment to its end; returns its export, and as `first.json` what was kept after the first sitting.
fn two_sittings(folder: &Folder) -> Value {
    folder.write("plan.toml", &experiment());
    let whole = ["compare", "plan.toml", "--fake", FAKE, "-o", "whole.carat"];
    folder.run(&whole).assert_code(3);
    let expected = export(folder, "whole.carat");
    let file = rusqlite::Connection::open(folder.path("whole.carat")).unwrap();
    let late = format!("SELECT id FROM trial WHERE block > {FIRST_SITTING}");
    file.execute_batch(&format!(
        "DELETE FROM metric WHERE trial IN ({late}); DELETE FROM sample WHERE trial IN ({late}); \
         DELETE FROM trial WHERE block > {FIRST_SITTING};"
    ))
    .unwrap();
    drop(file);
    folder.write("first.json", &shortened(folder, "whole.carat"));
    fs::remove_file(folder.path("whole.carat")).unwrap();
    expected
}

#[test]
fn kept_results_are_restored_and_only_the_missing_blocks_run() {
    require!(Ruby);
    let folder = Folder::new("restored");
    let expected = two_sittings(&folder);
    restore(&folder, &["--experiment", "plan.toml"]).assert_code(0).assert_says("copied 8 trials");
    let first = export(&folder, "again.carat");
    assert_eq!(blocks(&first), [0, 0, 1, 1, 2, 2, 3, 3]);
    assert_eq!(first["results"]["plan_text"], experiment());
    let resume = ["compare", "plan.toml", "--fake", FAKE, "-o", "again.carat", "--resume"];
    folder.run(&resume).assert_code(3).assert_says("6 blocks");
    let resumed = export(&folder, "again.carat");
    assert_eq!(trials(&resumed)[..8], trials(&first)[..], "a kept trial has changed");
    assert_eq!(blocks(&resumed), blocks(&expected));
    for (one, other) in trials(&resumed).iter().zip(trials(&expected)) {
        for name in ["id", "position", "variant", "metrics"] {
            assert_eq!(one[name], other[name], "{name}");
        }
    }
    let conclusions = &resumed["results"]["conclusions"];
    assert_eq!(conclusions[0]["blocks"], 6, "{conclusions}");
    assert_eq!(*conclusions, expected["results"]["conclusions"]);
    assert_eq!(resumed["results"]["moments"], expected["results"]["moments"]);
}

#[test]
fn shortened_results_that_are_restored_and_shortened_again_stay_the_same() {
    require!(Ruby);
    let folder = Folder::new("shortened");
    two_sittings(&folder);
    restore(&folder, &["--experiment", "plan.toml"]).assert_code(0);
    assert_eq!(
        shortened(&folder, "again.carat"),
        fs::read_to_string(folder.path("first.json")).unwrap()
    );
    for kept in ["experiments/1-cable.json", "experiments/5-copy-on-write.json"] {
        let copy = folder.path("kept.json");
        fs::copy(repository("docs/evidence").join(kept), copy).unwrap();
        let once = shortened(&folder, "kept.json");
        folder.write("kept.json", &once);
        assert_eq!(shortened(&folder, "kept.json"), once, "{kept}");
    }
}

#[test]
fn an_export_of_another_plan_is_refused_and_the_experiment_file_is_asked_for_where_it_is_needed() {
    require!(Ruby);
    let folder = Folder::new("other-plan");
    two_sittings(&folder);
    let restore = |options: &[&str]| restore(&folder, options);
    restore(&[]).assert_code(1).assert_says("name the experiment file with --experiment");
    folder.write("plan.toml", &experiment().replace("max = 6", "max = 8"));
    restore(&["--experiment", "plan.toml"]).assert_code(2).assert_says("of another plan than");
    folder.write("plan.toml", &experiment());
    restore(&["--experiment", "plan.toml", "--set", "arena_max=2"])
        .assert_code(2)
        .assert_says("of another plan than");
    assert!(!folder.path("again.carat").exists());
    restore(&["--experiment", "plan.toml"]).assert_code(0);
    restore(&["--experiment", "plan.toml"]).assert_code(1).assert_says("exists already");
    // A user's own export is read by `carat report`; salvaging is for results files.
    let salvaged = folder.run(&["salvage", "first.json", "-o", "x.carat"]);
    salvaged.assert_code(1).assert_says("is not a results file");
}

fn program(folder: &Folder, name: &str, text: &str) {
    let path = folder.write(name, text);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A checkout with the real `bin/reproduce`, one experiment, and a carat that starts no server.
fn checkout(folder: &Folder) {
    let examples = "target/release/examples";
    for path in ["bin", "docs/evidence/experiments", "workloads/replicator", examples, "path"] {
        fs::create_dir_all(folder.path(path)).unwrap();
    }
    std::os::unix::fs::symlink(restore_program(), folder.path("target/release/examples/restore"))
        .unwrap();
    for name in [
        "bin/reproduce",
        "bin/durations",
        "bin/durations.tsv",
        "docs/evidence/experiments/shorten.rb",
    ] {
        fs::copy(repository(name), folder.path(name)).unwrap();
    }
    program(folder, "bin/setup", "#!/bin/sh\n");
    program(folder, "path/cargo", "#!/bin/sh\n");
    let carat = env!("CARGO_BIN_EXE_carat");
    let fake = format!(
        "#!/bin/sh\n[ $1 = compare ] && set -- \"$@\" --fake {FAKE}\nexec {carat} \"$@\"\n"
    );
    program(folder, "target/release/carat", &fake);
    folder.write("workloads/replicator/carat.toml", &experiment());
}

fn reproduce(folder: &Folder, options: &[&str]) -> Ran {
    let path = std::env::var("PATH").unwrap();
    // Not itself: while another test forks, a script that was just written can be busy.
    let mut command = Command::new("bash");
    command
        .arg(folder.path("bin/reproduce"))
        .args(options)
        .arg("3")
        .env_clear()
        .env("PATH", format!("{}:{path}", folder.path("path").display()))
        .env("TMPDIR", folder.path("tmp"))
        .env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"))
        .stdin(Stdio::null());
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

#[test]
fn bin_reproduce_continues_kept_results_of_the_same_plan_and_says_where_it_starts_anew() {
    require!(Ruby);
    let folder = Folder::new("reproduce");
    two_sittings(&folder);
    checkout(&folder);
    let kept = "docs/evidence/experiments/3-arenas.json";
    let forget = || {
        fs::remove_dir_all(folder.path("results")).unwrap();
        fs::copy(folder.path("first.json"), folder.path(kept)).unwrap();
    };
    let first: Value =
        serde_json::from_str(&fs::read_to_string(folder.path("first.json")).unwrap()).unwrap();
    let restored = |results: &Value| {
        let begun = |trial: &Value| trial["started_ms"].as_u64();
        begun(&trials(results)[0]) == begun(&trials(&first)[0])
    };
    let results = "results/sittings.carat";

    fs::copy(folder.path("first.json"), folder.path(kept)).unwrap();
    let ran = reproduce(&folder, &["--keep"]);
    ran.assert_code(0).assert_says("restored from docs/evidence/experiments/3-arenas.json");
    ran.assert_says("3 of 7 blocks left");
    assert!(restored(&export(&folder, results)));
    let renewed: Value =
        serde_json::from_str(&fs::read_to_string(folder.path(kept)).unwrap()).unwrap();
    assert_eq!((trials(&renewed).len(), restored(&renewed)), (14, true));

    // A complete file is restored too, and then it is not written again from its own shortened samples.
    fs::remove_dir_all(folder.path("results")).unwrap();
    let before = fs::read(folder.path(kept)).unwrap();
    let ran = reproduce(&folder, &["--keep"]);
    ran.assert_code(0).assert_says("restored from").assert_says("no new trial for");
    assert_eq!(fs::read(folder.path(kept)).unwrap(), before);

    for options in [&["--keep", "--anew"][..], &[]] {
        forget();
        let ran = reproduce(&folder, options);
        assert!(!ran.assert_code(0).talk.contains("restored"), "{}", ran.talk);
        assert!(!restored(&export(&folder, results)));
    }

    forget();
    let plan = reproduce(&folder, &["--keep", "--plan"]);
    assert!(!plan.assert_code(0).talk.contains("restored"), "{}", plan.talk);
    let other = experiment().replace("requests = 1000", "requests = 2000");
    folder.write("workloads/replicator/carat.toml", &other);
    let ran = reproduce(&folder, &["--keep"]);
    ran.assert_code(0).assert_says("starts anew").assert_says("of another plan than");
    assert!(!restored(&export(&folder, results)));
}

#[test]
fn bin_reproduce_begins_no_experiment_whose_block_is_longer_than_the_sitting() {
    require!(Ruby);
    let folder = Folder::new("sitting");
    checkout(&folder);
    for (seconds, begun) in [("7500", false), ("2", true)] {
        folder.write("bin/durations.tsv", &format!("sittings\t{seconds}\testimated\n"));
        let ran = reproduce(&folder, &["--sitting", "1"]);
        assert_eq!(ran.assert_code(0).talk.contains("is left out"), !begun, "{}", ran.talk);
        assert_eq!(folder.path("results/sittings.carat").exists(), begun);
    }
}
