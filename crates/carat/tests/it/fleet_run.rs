//! Fleets through the real program, on the fake bench: parts, merging, looks, attempts, engines.

use crate::namespace_cluster::{NamespaceCluster, send};
use crate::support::{Folder, Ran, fake_experiment, finish, signal, wait_until};
use rustix::process::{Pid, Signal};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

const TABLES: &str = r#"[[variant]]
name = "third"
[measure]
primary = "memory.rss.final"
guards = { "latency.p95" = "+5%" }
[trials]
max = 30
margin = "0.25%"
seed = 5
"#;

fn experiment() -> String {
    fake_experiment("fake", TABLES)
}

/// Memory of the three variants: one differs, one does not.
pub(crate) const FAKE: &str = "71.162e6:289e3,70.595e6:294e3,71.162e6:289e3";

/// A folder with a planned fleet in `fleet`.
pub(crate) struct TestFleet {
    pub(crate) folder: Folder,
    fake: &'static str,
}

impl TestFleet {
    pub(crate) fn plan(name: &str, options: &[&str]) -> Self {
        Self::of(name, &experiment(), options)
    }

    /// Of the text of an experiment.
    pub(crate) fn of(name: &str, experiment: &str, options: &[&str]) -> Self {
        let folder = Folder::new(name);
        folder.write("fake.toml", experiment);
        let plan = [&["fleet", "plan", "fake.toml", "-o", "fleet"], options].concat();
        folder.run(&plan).assert_code(0);
        Self { folder, fake: FAKE }
    }

    fn block(&self, number: u32, more: &[&str]) -> Ran {
        let number = number.to_string();
        let command = ["fleet", "block", "fleet", "--fake", self.fake, "--block", &number];
        self.folder.run(&[&command[..], more].concat())
    }

    fn blocks(&self, numbers: impl IntoIterator<Item = u32>) -> &Self {
        for number in numbers {
            self.block(number, &[]).assert_code(0).assert_says("part  ");
        }
        self
    }

    fn parts(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path("fleet/parts")).unwrap();
        let mut parts: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        parts.sort();
        parts
    }

    /// The first part of a block.
    fn part(&self, block: u32) -> PathBuf {
        let start = format!("b{block:04}.");
        let is_of_block =
            |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(&start);
        self.parts().into_iter().find(is_of_block).expect("the block has a part")
    }

    fn watch_once(&self) -> Ran {
        self.folder.run(&["fleet", "watch", "fleet", "--once"])
    }

    pub(crate) fn status(&self) -> serde_json::Value {
        let ran = self.folder.run(&["fleet", "status", "fleet", "--json"]);
        serde_json::from_str(&ran.assert_code(0).out).unwrap()
    }

    /// Runs carat on a cluster.
    pub(crate) fn run_on(&self, cluster: &NamespaceCluster, arguments: &[&str]) -> Ran {
        cluster.run(&self.folder.carat(arguments))
    }

    /// Watches on a cluster until there is a verdict.
    pub(crate) fn watch_on(&self, cluster: &NamespaceCluster) -> Ran {
        let ran = self.run_on(cluster, &["fleet", "watch", "fleet", "--every", "200ms"]);
        assert!(!ran.talk.contains("pending blocks may still begin"), "{}", ran.talk);
        ran
    }

    /// Conclusions, controls and warnings of a results file, as text.
    pub(crate) fn conclusions(&self, file: &str) -> String {
        let ran = self.folder.run(&["report", file, "--json"]);
        let json: serde_json::Value = serde_json::from_str(&ran.assert_code(0).out).unwrap();
        let results = &json["results"];
        assert!(!results["conclusions"].as_array().unwrap().is_empty());
        format!("{}\n{}", results["conclusions"], results["warnings"])
    }

    /// Block, variant and primary metric of every trial that counts.
    pub(crate) fn counted(&self, file: &str) -> Vec<String> {
        let ran = self.folder.run(&["report", file, "--json"]);
        let json: serde_json::Value = serde_json::from_str(&ran.assert_code(0).out).unwrap();
        let trials = json["results"]["trials"].as_array().unwrap().iter();
        trials
            .filter(|trial| trial["block"] != 0)
            .map(|trial| {
                let value = &trial["metrics"]["memory.rss.final"];
                format!("{} {} {value}", trial["block"], trial["variant"])
            })
            .collect()
    }

    /// Names of files in a folder of the fleet that are of this block.
    pub(crate) fn of_block(&self, folder: &str, number: u32) -> Vec<String> {
        let start = format!("b{number:04}.");
        let entries = fs::read_dir(self.folder.path("fleet").join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(&start)).collect()
    }

    /// Stops the process of a block if it has begun and has no result yet.
    pub(crate) fn freeze(&self, number: u32, carat: Pid) -> bool {
        send(Signal::STOP, &[carat]);
        let has_begun = !self.of_block("attempts", number).is_empty();
        let is_between = has_begun && self.of_block("parts", number).is_empty();
        if !is_between {
            send(Signal::CONT, &[carat]);
        }
        is_between
    }

    /// Fails unless the fleet's results are those of one machine with the same seed.
    pub(crate) fn assert_like_one_machine(&self, fake: &str, blocks: &str, watched: &Ran) {
        let options = ["--seed", "5", "--blocks", blocks, "-o", "one.carat"];
        let one = [&["compare", "fake.toml", "--fake", fake], &options[..]].concat();
        let compared = self.folder.run(&one);
        assert!(matches!(compared.code, Some(0 | 3)), "{compared:?}");
        assert_eq!(watched.code, compared.code, "{watched:?}");
        assert_eq!(self.conclusions("fleet/fake.carat"), self.conclusions("one.carat"));
        assert_eq!(self.counted("fleet/fake.carat"), self.counted("one.carat"));
    }

    /// The names of the machines that ran the trials that count.
    pub(crate) fn hosts(&self) -> BTreeSet<String> {
        let results = self.folder.path("fleet/fake.carat");
        let results = rusqlite::Connection::open(results).unwrap();
        let mut select = results.prepare("SELECT machine ->> 'host' FROM trial").unwrap();
        let hosts = select.query_map([], |row| row.get(0)).unwrap();
        hosts.map(Result::unwrap).collect()
    }

    /// A program in the folder `bin` that writes its arguments to `calls` and prints an answer.
    fn engine(&self, name: &str, answer: &str, exit: u8) {
        let bin = self.folder.path("bin");
        fs::create_dir_all(&bin).unwrap();
        let calls = self.folder.path("calls").display().to_string();
        let script =
            format!("#!/bin/sh\necho {name} \"$@\" >> {calls}\necho {answer}\nexit {exit}\n");
        fs::write(bin.join(name), script).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs carat with the engines of `engine` before those of the machine.
    fn run_with_engines(&self, arguments: &[&str]) -> Ran {
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.folder.path("bin").display());
        let mut command = self.folder.carat(arguments);
        command.env("PATH", path).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.folder.path("calls")).unwrap_or_default()
    }
}

#[test]
fn the_file_of_a_load_lies_beside_that_of_the_experiment() {
    let folder = Folder::new("fleet-replay");
    let text = experiment().replace("path = \"/\"", "replay = \"access.log\"");
    assert_ne!(text, experiment());
    folder.write("fake.toml", &text);
    let line = "10.0.0.7 - - [22/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 12 \"-\" \"-\"\n";
    folder.write("access.log", line);
    folder.run(&["fleet", "plan", "fake.toml", "-o", "fleet"]).assert_code(0);
    TestFleet { folder, fake: FAKE }.blocks([1]);
}

#[test]
fn thirty_blocks_in_any_order_have_the_verdict_of_one_machine_byte_for_byte() {
    let fleet = TestFleet::plan("merged", &[]);
    let one = ["compare", "fake.toml", "--fake", FAKE, "--seed", "5", "-o", "one.carat"];
    let compared = fleet.folder.run(&one);
    assert!(matches!(compared.code, Some(0 | 3)), "{compared:?}");
    // 7 is prime to 31, so every block runs once.
    fleet.blocks((1..=30).map(|n| 1 + n * 7 % 31).filter(|&n| n <= 30));
    assert!(fleet.parts().len() >= 29, "{:?}", fleet.parts());
    fleet.block(1, &[]).assert_code(0);
    let parts: Vec<String> = fleet.parts().iter().map(|path| path.display().to_string()).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let merge = |parts: &[&str], name: &str| {
        fleet.folder.run(&[&["merge"], parts, &["-o", name]].concat()).assert_code(0);
        fs::read(fleet.folder.path(name)).unwrap()
    };
    let merged = merge(&parts, "many.carat");
    let turned: Vec<&str> = parts.iter().rev().chain(&parts[3..9]).copied().collect();
    assert_eq!(merge(&turned, "turned.carat"), merged);
    assert_eq!(fleet.conclusions("many.carat"), fleet.conclusions("one.carat"));
    assert_eq!(fleet.counted("many.carat"), fleet.counted("one.carat"));
    let resumed = ["compare", "fake.toml", "--fake", FAKE, "--resume", "-o", "many.carat"];
    fleet.folder.run(&resumed).assert_code(2).assert_says("has the blocks of a fleet");
    let watched = fleet.watch_once();
    assert_eq!(watched.code, compared.code, "{watched:?}");
    assert_eq!(fleet.conclusions("fleet/fake.carat"), fleet.conclusions("one.carat"));
    fleet.folder.assert_nothing_left();
}

#[test]
fn a_crashing_variant_ends_a_fleet_as_it_ends_one_machine() {
    let mut fleet = TestFleet::plan("crashing", &[]);
    fleet.fake = "71e6:1e5,70e6:1e5:1.0,71e6:1e5";
    let one = ["compare", "fake.toml", "--fake", fleet.fake, "--seed", "5", "-o", "one.carat"];
    fleet.folder.run(&one).assert_code(4).assert_says("failed 2 times in a row");
    fleet.blocks(1..=3);
    let scored = fleet.counted("one.carat");
    let ran = fleet.watch_once();
    ran.assert_code(4).assert_says("failed 2 times in a row");
    // The first of two failures in a row is in the warm-up block of one machine, which a fleet does not have.
    let counted = fleet.counted("fleet/fake.carat");
    assert!(
        counted.len() > scored.len() && counted.starts_with(&scored),
        "{counted:?}\n{scored:?}"
    );
}

#[test]
fn a_block_begins_with_one_unscored_baseline_unless_its_machine_has_just_run_one() {
    let fleet = TestFleet::plan("warm-up", &[]);
    let block = |number: &str, node: &str| {
        let arguments = ["fleet", "block", "fleet", "--fake", FAKE, "--block", number];
        let mut command = fleet.folder.carat(&arguments);
        // A pod has a cache of its own.
        command.env("NODE_NAME", node).env("XDG_CACHE_HOME", fleet.folder.path(number));
        let ran = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        finish(ran).assert_code(0).talk.clone()
    };
    let first = block("2", "m1");
    assert!(first.contains("warm-up block · default") && first.contains("block 2/"), "{first}");
    assert_eq!(first.matches("warm-up block").count(), 1, "{first}");
    let second = block("1", "m1");
    assert!(!second.contains("warm-up block"), "{second}");
    let other = block("3", "m2");
    assert!(other.contains("warm-up block"), "{other}");
}

#[test]
fn a_block_that_is_ended_leaves_no_part_and_does_not_count_as_an_attempt() {
    let fleet = TestFleet::plan("ended", &[]);
    let command = ["fleet", "block", "fleet", "--fake", FAKE, "--block", "3", "--fake-pace", "300"];
    let mut command = fleet.folder.carat(&command);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let marks = || fs::read_dir(fleet.folder.path("fleet/attempts")).unwrap().count();
    wait_until("the attempt has begun", || marks() == 1);
    wait_until("its directory exists", || !fleet.folder.private_directories().is_empty());
    signal(&child, Signal::TERM);
    finish(child).assert_code(130).assert_says("block 3 has no result");
    assert_eq!((marks(), fleet.parts().len()), (0, 0));
    fleet.folder.assert_nothing_left();
    fleet.blocks([3]);
    fleet.block(3, &[]).assert_code(0).assert_says("block 3 has a result");
    assert_eq!(fleet.parts().len(), 1);
}

/// A load that does not end before its block is stopped, on two variants of a real server, whose tables come before it.
pub(crate) const LONG_LOAD: &str = r#"
[load.http]
path = "/"
requests = 10_000_000
[[variant]]
name = "default"
[[variant]]
name = "other"
env = { OTHER = "1" }
[measure]
primary = "memory.rss.final"
"#;

/// A server that ends at once. The file `ended` shows that nothing of its trial is left to do.
const ENDED: &str = r#"
name = "ended"
[server]
command = ["false"]
ready = { tcp = true }
[cleanup]
command = ["touch", "ended"]
"#;

#[test]
fn a_block_is_ended_and_has_not_failed_where_the_same_signal_ended_its_server_first() {
    let fleet = TestFleet::of("signalled", &format!("{ENDED}{LONG_LOAD}"), &[]);
    let mut command = fleet.folder.carat(&["fleet", "block", "fleet", "--block", "1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("its server has ended", || fleet.folder.path("ended").exists());
    // The signal comes after carat has found that the trial went wrong.
    sleep(Duration::from_millis(100));
    signal(&child, Signal::TERM);
    finish(child).assert_code(130).assert_says("block 1 has no result");
    assert_eq!(fleet.of_block("attempts", 1), Vec::<String>::new());
    fleet.folder.assert_nothing_left();
}

#[test]
fn after_three_attempts_without_a_result_a_block_is_given_up_and_the_next_takes_its_place() {
    let fleet = TestFleet::plan("void", &["--blocks", "10"]);
    let mut children = Vec::new();
    for _ in 0..3 {
        let command =
            ["fleet", "block", "fleet", "--fake", FAKE, "--block", "1", "--fake-pace", "60000"];
        let mut command = fleet.folder.carat(&command);
        children.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }
    let marks = || fs::read_dir(fleet.folder.path("fleet/attempts")).unwrap().count();
    wait_until("three attempts have begun", || marks() == 3);
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let given_up = fleet.block(1, &[]);
    given_up.assert_code(0).assert_says("block 1 is given up");
    fleet.blocks(2..=11);
    let status = fleet.status();
    assert_eq!(status["types"][0]["void"], 1, "{status}");
    let counted: Vec<u64> =
        status["counted"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert_eq!(counted[0], 2, "the second block takes the first place: {status}");
    let ran = fleet.watch_once();
    assert!(matches!(ran.code, Some(0 | 3)), "{ran:?}");
    let first = fleet.counted("fleet/fake.carat");
    assert!(first[0].starts_with("1 "), "{first:?}");
}

#[test]
fn more_blocks_given_up_than_one_in_ten_are_no_evidence() {
    let fleet = TestFleet::plan("unfit", &["--blocks", "8"]);
    for block in 1..=3 {
        for attempt in 0..3 {
            let mark = format!("fleet/attempts/b{block:04}.{attempt}");
            fleet.folder.write(&mark, "");
        }
        fleet.block(block, &[]).assert_code(0).assert_says("is given up");
    }
    fleet.watch_once().assert_code(4).assert_says("3 blocks given up, 2 may be");
    let stopped = fleet.block(4, &[]);
    stopped.assert_code(0).assert_says("block 4 does not begin: 3 blocks given up");
}

#[test]
fn the_lowest_attempt_counts_unless_a_look_has_used_another_and_the_others_are_kept_and_named() {
    let mut fleet = TestFleet::plan("attempts", &["--blocks", "8"]);
    fleet.blocks([1]);
    // A machine that fell silent ends its block after another has run it: both have a part.
    let (first, aside) = (fleet.part(1), fleet.folder.path("aside"));
    fs::rename(&first, &aside).unwrap();
    fleet.fake = "99e6:1e3,99e6:1e3,99e6:1e3";
    fleet.blocks([1]);
    let second = fleet.part(1).file_name().unwrap().to_string_lossy().into_owned();
    assert!(second.starts_with("b0001.a2."), "{second}");
    fs::rename(&aside, &first).unwrap();
    let is_second = |trial: &String| {
        let value: f64 = trial.split(' ').next_back().unwrap().parse().unwrap();
        value > 9e7
    };
    fleet.watch_once().assert_code(3);
    let counted = fleet.counted("fleet/fake.carat");
    assert!(counted.len() == 3 && !counted.iter().any(is_second), "{counted:?}");
    let status = fleet.status();
    let kept = status["uncounted"][0].as_str().unwrap();
    assert!(kept.starts_with("b0001.a2.") && kept.contains("does not count"), "{kept}");
    // The same, but the first attempt ends after a look.
    fs::remove_file(fleet.folder.path("fleet/fake.carat")).unwrap();
    fs::rename(&first, &aside).unwrap();
    fleet.watch_once().assert_code(3);
    fs::rename(&aside, &first).unwrap();
    fleet.watch_once().assert_code(3).assert_says("b0001.a1.").assert_says("does not count");
    let counted = fleet.counted("fleet/fake.carat");
    assert!(counted.len() == 3 && counted.iter().all(is_second), "{counted:?}");
}

#[test]
fn a_forged_a_foreign_and_a_torn_part_are_refused_by_name_and_nothing_changes() {
    let fleet = TestFleet::plan("forged", &["--blocks", "8"]);
    fleet.blocks(1..=2);
    fleet.watch_once().assert_code(3);
    let before = fs::read(fleet.folder.path("fleet/fake.carat")).unwrap();
    let extra = fleet.folder.path("fleet/parts/b0001.extra.carat");
    let refused = |names: &[&str]| {
        let ran = fleet.watch_once();
        ran.assert_code(1);
        for name in names {
            ran.assert_says(name);
        }
        fs::remove_file(&extra).unwrap();
        assert_eq!(fs::read(fleet.folder.path("fleet/fake.carat")).unwrap(), before);
    };
    fs::copy(fleet.part(1), &extra).unwrap();
    let forged = rusqlite::Connection::open(&extra).unwrap();
    forged.execute("UPDATE metric SET value = value / 2", []).unwrap();
    drop(forged);
    let original = fleet.part(1).file_name().unwrap().to_string_lossy().into_owned();
    refused(&["different content for attempt 1 at block 1", "b0001.extra.carat", &original]);

    fleet
        .folder
        .run(&["fleet", "plan", "fake.toml", "-o", "foreign", "--seed", "6"])
        .assert_code(0);
    let foreign = ["fleet", "block", "foreign", "--fake", FAKE, "--block", "1"];
    fleet.folder.run(&foreign).assert_code(0);
    let part = fs::read_dir(fleet.folder.path("foreign/parts")).unwrap().next().unwrap().unwrap();
    fs::copy(part.path(), &extra).unwrap();
    refused(&["different seeds", "b0001.extra.carat"]);

    let bytes = fs::read(fleet.part(1)).unwrap();
    fs::write(&extra, &bytes[..bytes.len() / 2]).unwrap();
    refused(&["b0001.extra.carat"]);
    fleet.watch_once().assert_code(3);
}

#[test]
fn a_changed_experiment_or_another_folder_is_refused() {
    let fleet = TestFleet::plan("changed", &[]);
    fleet.folder.run(&["fleet", "status", "nothing"]).assert_code(1).assert_says("holds no fleet");
    let again = ["fleet", "plan", "fake.toml", "-o", "fleet"];
    fleet.folder.run(&again).assert_code(2).assert_says("holds a fleet already");
    fleet.block(99, &[]).assert_code(2).assert_says("the blocks 1 to 33");
    let none = ["fleet", "block", "fleet", "--fake", FAKE];
    fleet.folder.run(&none).assert_code(2).assert_says("--block N");
    let copy = fleet.folder.path("fleet/experiment.toml");
    let text = fs::read_to_string(&copy).unwrap().replace("requests = 1", "requests = 2");
    fs::write(&copy, text).unwrap();
    fleet.block(1, &[]).assert_code(1).assert_says("is not the experiment that was planned");
    assert!(fleet.parts().is_empty());
    let plan = fleet.folder.path("fleet/fleet.toml");
    let text = fs::read_to_string(&plan).unwrap();
    let binary = text.lines().find(|line| line.starts_with("binary = ")).unwrap().to_owned();
    fs::write(&plan, text.replace(&binary, "binary = \"00\"")).unwrap();
    fleet.block(1, &[]).assert_code(1).assert_says("not the one that planned");
}

#[test]
fn a_watch_that_is_killed_twenty_times_comes_to_the_same_end() {
    let fleet = TestFleet::plan("killed", &["--blocks", "10"]);
    fleet.blocks(1..=10);
    let whole = fleet.watch_once();
    let results = fleet.folder.path("fleet/fake.carat");
    let expected = fs::read(&results).unwrap();
    fs::remove_file(&results).unwrap();
    fs::remove_file(fleet.folder.path("fleet/stop")).unwrap();
    for kill in 0..20 {
        let mut command = fleet.folder.carat(&["fleet", "watch", "fleet", "--once"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(15 * kill));
        child.kill().unwrap();
        child.wait().unwrap();
        if let Ok(found) = fs::read(&results) {
            assert_eq!(found, expected, "a killed watch leaves the old file or the new one");
        }
    }
    let ran = fleet.watch_once();
    assert_eq!((ran.code, &ran.out), (whole.code, &whole.out));
    assert_eq!(fs::read(&results).unwrap(), expected);
    let names = fs::read_dir(fleet.folder.path("fleet")).unwrap();
    let names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert!(!names.iter().any(|name| name.contains(".part")), "{names:?}");
}

#[test]
fn types_of_machines_take_turns_and_engines_get_jobs_and_are_stopped_after_the_verdict() {
    let types = ["--on", "slurm:c6i=-p c6i", "--on", "k8s:m7g=pool=m7g", "--image", "app:1"];
    let fleet = TestFleet::plan("engines", &[&types[..], &["--blocks", "16"]].concat());
    let script = fs::read_to_string(fleet.folder.path("fleet/slurm-c6i.sbatch")).unwrap();
    for line in ["#SBATCH --exclusive", "#SBATCH --requeue", "#SBATCH -p c6i"] {
        assert!(script.lines().any(|found| found == line), "no `{line}` in\n{script}");
    }
    let last = script.lines().last().unwrap();
    assert!(last.starts_with("exec '") && last.contains("' fleet block '"), "{last}");
    let job = fs::read_to_string(fleet.folder.path("fleet/k8s-m7g.yaml")).unwrap();
    for line in ["  completionMode: Indexed", "  podReplacementPolicy: TerminatingOrFailed"] {
        assert!(job.lines().any(|found| found == line), "no `{line}` in\n{job}");
    }
    assert!(job.contains(r#"nodeSelector: {"pool": "m7g"}"#), "{job}");

    fleet.engine("sbatch", "done by sbatch", 0);
    fleet.engine("kubectl", "", 0);
    fleet.engine("scancel", "", 1);
    fleet.run_with_engines(&["fleet", "submit", "fleet"]).assert_code(0).assert_says("by sbatch");
    let calls = fleet.calls();
    let array = calls.strip_prefix("sbatch --array=").unwrap().split(' ').next().unwrap();
    let slurm: Vec<u32> = array.split(',').map(|block| block.parse().unwrap()).collect();
    // 8 rounds for 16 blocks of two types, and 2 to spare.
    assert_eq!(slurm.len(), 10, "{array}");
    assert!(
        slurm.iter().enumerate().all(|(round, block)| (block - 1) / 2 == round as u32),
        "{array}"
    );

    // Kubernetes numbers the blocks of a type from 0.
    let mut command =
        fleet.folder.carat(&["fleet", "block", "fleet", "--fake", FAKE, "--type", "m7g"]);
    command.env("JOB_COMPLETION_INDEX", "0").stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap())
        .assert_code(0)
        .assert_says(&format!("b{:04}.a1.", 3 - slurm[0]));
    let mut command = fleet.folder.carat(&["fleet", "block", "fleet", "--fake", FAKE]);
    let index = slurm[0].to_string();
    command.env("SLURM_ARRAY_TASK_ID", &index).env("SLURM_RESTART_COUNT", "1");
    let ran = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    ran.assert_code(0).assert_says(&format!("b{:04}.a2.", slurm[0]));
    fleet.run_with_engines(&["fleet", "watch", "fleet", "--once"]).assert_code(3);
    assert!(!fleet.calls().contains("scancel"), "{}", fleet.calls());

    fleet.blocks(3..=16);
    let ran = fleet.run_with_engines(&["fleet", "watch", "fleet", "--once"]);
    assert!(matches!(ran.code, Some(0 | 3)), "{ran:?}");
    ran.assert_says("Machines: c6i (").assert_says("`scancel --state=PENDING --name=carat-");
    let calls = fleet.calls();
    assert!(calls.contains(r#"kubectl patch job carat-"#) && calls.contains("suspend"), "{calls}");
    fleet.block(18, &[]).assert_code(0).assert_says("block 18 does not begin");
}

#[test]
fn a_job_of_kubernetes_makes_way_for_its_successor_only_once_it_has_ended() {
    let types = ["--on", "k8s:any", "--image", "app:1", "--nodes", "3"];
    let fleet = TestFleet::plan("kubernetes-jobs", &types);
    let job = fs::read_to_string(fleet.folder.path("fleet/k8s-any.yaml")).unwrap();
    assert!(job.contains("\n  completions: 33\n  parallelism: 3\n"), "{job}");
    let submit = |state: &str| {
        fleet.engine("kubectl", state, 0);
        let before = fleet.calls().len();
        fleet.run_with_engines(&["fleet", "submit", "fleet"]).assert_code(0);
        let calls = fleet.calls().split_off(before);
        calls.lines().map(|call| call.split(' ').nth(1).unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(submit(""), ["get", "apply"]);
    assert_eq!(submit("Suspended"), ["get", "apply"]);
    assert_eq!(submit("FailureTarget Failed"), ["get", "delete", "apply"]);
    assert_eq!(submit("Complete"), ["get", "delete", "apply"]);
}

#[test]
fn machines_with_different_effects_are_reported_each_with_its_own() {
    let types = ["--on", "other:c6i", "--on", "other:m7g", "--blocks", "16"];
    let mut fleet = TestFleet::plan("differing", &types);
    let plan = fs::read_to_string(fleet.folder.path("fleet/fleet.toml")).unwrap();
    let plan: toml::Table = plan.parse().unwrap();
    for (number, machine_type) in (1..=16).zip(plan["blocks"].as_array().unwrap()) {
        fleet.fake = match machine_type.as_str().unwrap() {
            "c6i" => "71e6:2e5,62.5e6:2e5,71e6:2e5",
            _ => "71e6:2e5,68.9e6:2e5,71e6:2e5",
        };
        fleet.blocks([number]);
    }
    let ran = fleet.watch_once();
    let sentence = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let other = sentence.split_once("other").map_or("", |(_, other)| other);
    assert!(other.contains("MB differs by machine: c6i −1"), "{sentence}");
    assert!(sentence.contains("m7g −"), "{sentence}");
    let third = sentence.split_once("third").map_or("", |(_, third)| third);
    assert!(!third.contains("differs by machine"), "{sentence}");
    let page = fs::read_to_string(fleet.folder.path("fleet/fake.html")).unwrap();
    assert!(page.contains("the difference depends on the machine"), "no view by machine");
}
