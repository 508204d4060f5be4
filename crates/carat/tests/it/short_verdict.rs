//! What `carat compare` prints by default: a row per variant, what limits the figures, and what to do next.

use crate::support::{Folder, fake_experiment, finish, signal, wait_until};
use rustix::process::Signal;
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
    let line = "stopped by Ctrl-C before a trial ended; continue with \
        carat compare fake.toml -o fake.carat --resume\n";
    ran.assert_code(130).assert_says(line);
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
