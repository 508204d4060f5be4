//! `carat tune` on a real server with planted effects.

use crate::support::{Folder, PATIENCE, Ran, finish_within};
use serde_json::Value;
use std::process::Stdio;

/// The search of `bin/bench tune --planted`.
const FILE: &str = include_str!("data/knobs.toml");

/// A folder with a shorter search, whose guard a busy machine can show and C breaks clearly.
fn folder() -> Folder {
    let folder = Folder::new("tune");
    folder.write("knobs.rb", include_str!("data/knobs.rb"));
    let mut file = format!("{FILE}\n[budget]\nsearch = 36\nconfirm = 16\n");
    for (from, to) in [
        ("requests = 600", "requests = 200"),
        ("SLOWER = \"1.15\"", "SLOWER = \"2\""),
        ("\"+5%\"", "\"+20%\""),
    ] {
        assert!(file.contains(from), "{from}");
        file = file.replace(from, to);
    }
    folder.write("tune.toml", &file);
    folder
}

fn tune(folder: &Folder, more: &[&str]) -> Ran {
    let file = folder.path("tune.toml").display().to_string();
    let output = folder.path("out").display().to_string();
    let mut arguments = vec!["tune", &file, "-o", &output, "--seed", "3"];
    arguments.extend(more);
    let mut command = folder.carat(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A hundred trials of a second, and several seconds each on a busy machine.
    finish_within(4 * PATIENCE, child)
}

#[test]
fn the_planted_settings_are_found_and_confirmed_and_a_search_that_is_done_repeats_its_outcome() {
    require!(Ruby);
    let folder = folder();
    let ran = tune(&folder, &["--json"]);
    ran.assert_code(0);
    let outcome: Value = serde_json::from_str(&ran.out).unwrap();
    let env = &outcome["outcome"]["recommendation"]["env"];
    assert_eq!(
        (&env["A"], &env["C"], &env["D"]),
        (&"1".into(), &"0".into(), &"0".into()),
        "{}",
        ran.out
    );
    let again = tune(&folder, &["--json", "--resume"]);
    again.assert_code(0);
    assert_eq!(again.out, ran.out, "no trial is repeated");
}

#[test]
fn a_search_is_not_begun_over_another_and_a_default_that_fails_is_the_message() {
    require!(Ruby);
    let folder = folder();
    folder.write("knobs.rb", "abort 'no database'");
    let ran = tune(&folder, &[]);
    ran.assert_code(4);
    ran.assert_says("the server fails without any setting");
    let again = tune(&folder, &[]);
    again.assert_code(1);
    again.assert_says("continue it with --resume");
    folder.write("tune.toml", FILE);
    let changed = tune(&folder, &["--resume"]);
    changed.assert_code(1);
    changed.assert_says("has changed since the search");
}

#[test]
fn a_setting_of_the_command_line_is_in_every_block_and_the_command_that_continues_repeats_it() {
    require!(Ruby);
    let folder = folder();
    folder.write("knobs.rb", "abort ENV['MALLOC_ARENA_MAX'].to_s");
    let ran = tune(&folder, &["--set", "arena_max=3"]);
    ran.assert_code(4);
    let block = std::fs::read_to_string(folder.path("out/knobs-look.toml")).unwrap();
    assert!(block.contains("arena_max = \"3\""), "{block}");
    let without = tune(&folder, &["--resume"]);
    without.assert_code(1);
    without.assert_says("or --set has changed since the search");
    tune(&folder, &["--resume", "--set", "arena_max=3"]).assert_code(4);
}
