//! What `carat compare` prints by default: a row per variant, what limits the figures, and what to do next.

use crate::support::{Folder, fake_experiment, finish, signal, wait_until};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const TABLES: &str =
    "[measure]\nprimary = \"memory.rss.final\"\n[trials]\nmax = 30\nmargin = \"0.25%\"\nseed = 5\n";

fn experiment() -> String {
    fake_experiment("fake", TABLES)
}

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("fake.toml", &experiment());
    folder
}

#[test]
fn stopped_before_a_trial_ended_is_one_line_with_the_command_that_continues() {
    let folder = folder("stopped-early");
    let fake = ["compare", "fake.toml", "--fake", "71e6:9e6,71e6:9e6", "--fake-pace", "60000"];
    let child = folder.carat(&fake).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the results file exists", || folder.path("fake.carat").exists());
    signal(&child, Signal::INT);
    let ran = finish(child);
    let line = "interrupted before a trial ended; continue with \
        carat compare fake.toml -o fake.carat --resume\n";
    ran.assert_code(130).assert_says(line);
    assert!(ran.out.is_empty() && !folder.path("fake.html").exists(), "{ran:?}");
}

#[test]
fn a_program_that_asked_for_json_gets_it_also_when_stopped_before_a_trial_ended() {
    let folder = folder("stopped-early-json");
    let fake = ["compare", "fake.toml", "--fake", "71e6:9e6,71e6:9e6", "--fake-pace", "60000"];
    let mut command = folder.carat(&fake);
    let child =
        command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the results file exists", || folder.path("fake.carat").exists());
    signal(&child, Signal::INT);
    let ran = finish(child);
    ran.assert_code(130)
        .assert_says("interrupted before a trial ended; continue with carat compare ");
    let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(told["results"]["trials"], serde_json::json!([]), "{told}");
}

#[test]
fn stopped_in_the_warm_up_block_is_one_line_too() {
    let folder = folder("stopped-warm-up");
    let fake = ["compare", "fake.toml", "--fake", "71e6:9e6,71e6:9e6", "--fake-pace", "2000"];
    let mut child =
        folder.carat(&fake).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.starts_with("warm-up block · ")));
    signal(&child, Signal::INT);
    let rest: Vec<String> = said.collect();
    let ran = finish(child);
    let line = "interrupted before the end of the first block: 1 finished trial kept; \
        continue with carat compare fake.toml -o fake.carat --resume";
    assert_eq!((ran.code, rest.last().map(String::as_str)), (Some(130), Some(line)), "{rest:?}");
    assert!(ran.out.is_empty() && !folder.path("fake.html").exists(), "{ran:?}");
}

#[test]
fn the_verdict_on_three_variants_is_a_row_for_each_and_what_to_do_next() {
    let folder = folder("short");
    let third = "name = \"other\"\nsettings = { arena_max = 2 }\n[[variant]]\nname = \"third\"\n";
    let guards = "memory.rss.final\"\nguards = { \"latency.p95\" = \"+10%\" }";
    let text = experiment().replace("name = \"other\"\n", third);
    folder.write("fake.toml", &text.replace("memory.rss.final\"", guards));
    let fake = ["compare", "fake.toml", "--fake", "71e6:1e5,65e6:1e5,71e6:1e5", "--fresh"];
    let ran = folder.run(&fake);
    ran.assert_says("▼ other").assert_says("= third").assert_says("Memory after ");
    ran.assert_says("Details    fake.html · carat stats fake.carat --details\n");
    assert!(ran.out.lines().count() <= 14, "{}", ran.out);
    let few = folder.run(&[&fake[..], &["--blocks", "3"]].concat());
    few.assert_code(3).assert_says(" so far").assert_says("3 blocks cannot decide; ");
    few.assert_says(
        " can, and are then the limit: carat compare fake.toml -o fake.carat --resume --blocks ",
    );
    let planned = folder.run(&["compare", "fake.toml", "--dry-run", "--blocks", "3"]);
    planned.assert_says("3 blocks cannot decide; ");
    let command = few.out.split_once(" limit: carat ").unwrap().1.lines().next().unwrap();
    let with_blocks = |blocks: &str| {
        let words = command.rsplit_once(' ').unwrap().0.split(' ');
        folder.run(&words.chain([blocks, "--fake", fake[3]]).collect::<Vec<_>>())
    };
    let fewest = command.rsplit_once(' ').unwrap().1;
    planned.assert_says(&format!("cannot decide; {fewest} can\n"));
    let page = folder.run(&["report", "fake.carat", "--format", "md"]);
    page.assert_says(&format!("; {fewest} blocks can decide (3 are allowed)"));
    // A number that was chosen after looking would not be evidence.
    with_blocks("40").assert_code(2).assert_says(&format!("or with {fewest}, the fewest"));
    let decided = with_blocks(fewest);
    assert!(
        decided.out.contains("▼ other") && !decided.out.contains("cannot decide"),
        "{}",
        decided.out
    );
    with_blocks("40").assert_code(2).assert_says("resume without --blocks, or begin");
}

#[test]
fn a_dry_run_says_what_a_run_with_the_same_options_would_refuse() {
    let folder = folder("dry-refused");
    let fake = ["compare", "fake.toml", "--fake", "71e6:1e5,71e6:1e5", "--blocks", "3"];
    folder.run(&fake).assert_code(3);
    let begun = std::fs::read(folder.path("fake.carat")).unwrap();
    for (options, refused) in [
        (&["--resume", "--blocks", "40"][..], Some("was begun with at most 3 blocks")),
        (&["--resume", "--seed", "6"], Some("was begun with seed 5")),
        (&[], Some("exists already")),
        (&["--resume"], None),
        (&["--fresh", "--seed", "6"], None),
        (&["-o", "other.carat"], None),
    ] {
        let ran = folder.run(&[&["compare", "fake.toml", "--dry-run"], options].concat());
        ran.assert_code(0);
        let note = ran.talk.split_once("note: without --dry-run this is refused: ");
        let said = refused.is_none_or(|said| note.is_some_and(|(_, note)| note.contains(said)));
        assert!(said && note.is_some() == refused.is_some(), "{options:?}: {ran:?}");
    }
    assert_eq!(std::fs::read(folder.path("fake.carat")).unwrap(), begun);
    // What a run leaves that was killed before it wrote anything, and what is no results file.
    for (text, is_refused) in [("", false), ("no results", true)] {
        folder.write("fake.carat", text);
        let ran = folder.run(&["compare", "fake.toml", "--dry-run", "--resume"]);
        assert_eq!(ran.talk.contains("this is refused: "), is_refused, "{ran:?}");
    }
}

/// What a run prints that Ctrl-C ends after some trials, with these options.
fn interrupted(folder: &Folder, options: &[&str]) -> String {
    let fake = ["compare", "fake.toml", "--fake", "71e6:1e5,65e6:1e5", "--fake-pace", "300"];
    let mut command = folder.carat(&[&fake[..], options].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("block 2/")), "no second block");
    signal(&child, Signal::INT);
    let ran = finish(child);
    ran.assert_code(130);
    ran.out + &lines.map(|line| line + "\n").collect::<String>()
}

#[test]
fn a_run_that_ctrl_c_ended_names_one_command_which_continues_it() {
    let folder = folder("one-command");
    for (options, blocks) in [(&[][..], ""), (&["--fresh", "--blocks", "4"], " --blocks 8")] {
        let said = interrupted(&folder, options);
        let last =
            format!("kept; continue with carat compare fake.toml -o fake.carat --resume{blocks}\n");
        assert!(said.contains("\nDecide ") && said.ends_with(&last), "{said}");
        assert_eq!(said.matches("carat compare").count(), 1, "{said}");
        assert!(!said.contains("carat plan"), "{said}");
    }
}

#[test]
fn a_pilot_that_ctrl_c_ended_names_the_command_which_continues_it() {
    let folder = Folder::new("pilot");
    folder.write("fake.toml", &experiment().replace("[\"true\"]", "[\"sleep\", \"60\"]"));
    let plan = ["plan", "fake.toml", "--pilot", "5", "-o", "a b.carat"];
    let child = folder.carat(&plan).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the results file exists", || folder.path("a b.carat").exists());
    signal(&child, Signal::INT);
    finish(child).assert_code(130).assert_says(
        "interrupted: 0 finished trials kept; continue with carat plan fake.toml --pilot 5 -o 'a b.carat'\n",
    );
}

#[test]
fn of_a_server_that_never_became_ready_nothing_is_continued() {
    let folder = Folder::new("never-ready");
    let text = experiment()
        .replace("command = [\"true\"]", "command = [\"sh\", \"-c\", \"echo stuck; sleep 60\"]")
        .replace("tcp = true", "tcp = true, within = \"500ms\"");
    folder.write("fake.toml", &text);
    let ran = folder.run(&["compare", "fake.toml"]);
    ran.assert_code(4)
        .assert_says("` never became ready: after 0.5 s the server still does not listen on ")
        .assert_says("stuck");
    ran.assert_says("; nothing tells it that port: write {port} in its `command` or `env`");
    // Not two trials of each variant.
    ran.assert_says("2 finished trials kept; ");
    ran.assert_says(
        "kept; another trial would end the same way: run its command by hand and check what `ready` waits for, \
         then begin anew with carat compare fake.toml -o fake.carat --fresh\n",
    );
    let stats = folder.run(&["stats", "fake.carat"]);
    for said in [&ran.out, &ran.talk, &stats.out] {
        assert!(!said.contains("--resume") && !said.contains("Decide"), "{said}");
    }
}

#[test]
fn stats_names_the_experiment_file_only_where_it_is_known() {
    let folder = folder("next-of-file");
    let fake = ["--fake", "71e6:1e5,65e6:1e5", "--blocks", "3", "--set", "arena_max=2"];
    folder.run(&[&["compare", "fake.toml"], &fake[..]].concat()).assert_code(3);
    let decide = |out: &str| {
        let line = out.lines().find(|line| line.starts_with("Decide ")).unwrap();
        line.split_once(" limit: ").unwrap().1.to_owned()
    };
    let command = decide(&folder.run(&["stats", "fake.carat"]).out);
    let expected = "carat compare fake.toml -o fake.carat --set arena_max=2 --resume --blocks 8";
    assert_eq!(command, expected);
    let words: Vec<&str> = command.split(' ').skip(1).chain(fake[..2].iter().copied()).collect();
    folder.run(&words).assert_code(0);
    // The file has another plan by now, as one of the same name elsewhere may have.
    folder.run(&[&["compare", "fake.toml", "--fresh"], &fake[..4]].concat()).assert_code(3);
    folder.write("fake.toml", &experiment().replace("seed = 5", "seed = 6"));
    let words = decide(&folder.run(&["stats", "fake.carat"]).out);
    let expected =
        "give its experiment file to carat compare with -o fake.carat --resume --blocks 8";
    assert_eq!(words, expected);
}
