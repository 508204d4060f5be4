//! `carat tune` on a real server with planted effects.

use crate::support::{Folder, Ran};
use crate::tune_fake::knob_tables;
use serde_json::Value;

const FILE: &str = r#"
name = "knobs"
[server]
command = ["ruby", "knobs.rb"]
env = { PORT = "{port}" }
ready = { tcp = true, within = "20s" }
stop_within = "1s"
[load.http]
path = "/"
connections = 4
requests = 200
warmup = 8
[measure]
settle = "100ms"
sample_every = "100ms"
[goal]
least = "memory.pss.late"
guards = { "latency.p95" = "+20%" }
[search]
only = []
[budget]
search = 36
confirm = 16
"#;

fn folder(knobs: &[&str]) -> Folder {
    let folder = Folder::new("tune");
    folder.write("knobs.rb", include_str!("data/knobs.rb"));
    folder.write("tune.toml", &format!("{FILE}{}", knob_tables(knobs)));
    folder
}

fn tune(folder: &Folder, more: &[&str]) -> Ran {
    let file = folder.path("tune.toml").display().to_string();
    let output = folder.path("out").display().to_string();
    let mut arguments = vec!["tune", &file, "-o", &output, "--seed", "3"];
    arguments.extend(more);
    folder.run(&arguments)
}

#[test]
fn the_planted_settings_are_found_and_confirmed_and_a_search_that_is_done_repeats_its_outcome() {
    require!(Ruby);
    let folder = folder(&["A", "B", "C", "D", "E"]);
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
    let folder = folder(&["E"]);
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
