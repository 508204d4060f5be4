//! What every command says of a Ruby under an allocator that is not walked: its name, how much it can have at most, and nothing
//! that is true of another allocator only.

use crate::needs::TestRuby;
use crate::outside_explain::{fork_child, table_that_adds_up};
use crate::outside_ruby::OutsideRuby;
use crate::support::Folder;
use carat_settings::find_allocator;
use serde_json::Value;
use std::path::Path;

/// Words that are true of glibc or jemalloc only: settings, functions, and forms of their memory.
const OF_OTHERS: [&str; 8] = [
    "malloc_trim",
    "arena",
    "arena_max",
    "`trim",
    "trim=",
    "malloc_conf",
    "dirty",
    "allocator-not-active",
];

/// A Ruby with about 100 MB of strings under this allocator.
fn start(allocator: &str) -> OutsideRuby {
    let library = find_allocator(Path::new("/"), allocator).unwrap();
    let mut ruby = OutsideRuby::start_command(TestRuby::OnPath.command(Some(&library)));
    ruby.eval("$kept = Array.new(100_000) { |n| 'x' * (900 + n % 200) }; 4.times { GC.start }; 1");
    ruby
}

fn assert_nothing_of_others(text: &str, context: &str) {
    for word in OF_OTHERS {
        assert!(!text.contains(word), "{word} in {context}: {text}");
    }
}

/// How many megabytes the text says that the allocator has at most.
fn at_most(text: &str, context: &str) -> u64 {
    let (_, rest) = text.split_once("; at most ").unwrap_or_else(|| panic!("{context}: {text}"));
    rest.split_once(" MB in memory").and_then(|(number, _)| number.parse().ok()).unwrap()
}

fn explain_names_it_and_says_how_much_it_has(folder: &Folder, ruby: &OutsideRuby, name: &str) {
    let pid = ruby.pid.to_string();
    let ran = folder.run(&["explain", &pid, "--json", "--owners"]);
    let explained: Value = serde_json::from_str(&ran.out).unwrap();
    let process = &explained["ledger"]["processes"][0];
    assert_eq!(process["allocator"]["active"], name, "{process}");
    let parts = process["parts"].as_array().unwrap();
    let of_kind = |kind: &str| parts.iter().find(|part| part["kind"] == kind);
    let resident = of_kind("malloc").and_then(|part| part["resident"].as_u64()).unwrap();
    assert!((100_000_000..160_000_000).contains(&resident), "{process}");
    for kind in ["malloc_live", "malloc_free", "allocator_overhead"] {
        assert_eq!(of_kind(kind), None, "{process}");
    }
    let unexplained = process["unexplained"].as_i64().unwrap().unsigned_abs();
    assert!(unexplained < process["pss"].as_u64().unwrap() / 33, "{process}");
    let short = folder.run(&["explain", &pid]);
    short.assert_code(0).assert_says(&format!("its allocator is {name}, which is not walked"));
    assert_nothing_of_others(&short.out, name);
    let said = at_most(&short.out, name);
    // What lies between is other anonymous memory: never too little, and little too much.
    assert!((resident / 1_000_000 - 1..160).contains(&said), "{said} of {resident}");
    // What was asked for and cannot be told is a failure that names the reason.
    let long = folder.run(&["explain", &pid, "--details", "--owners", "--reach", "--who"]);
    for part in ["holders of malloc's memory", "what the roots reach", "who keeps objects alive"] {
        long.assert_says(&format!("{part} unknown: its allocator is {name}, which is not walked"));
    }
    assert_nothing_of_others(&long.out, name);
}

fn host_and_recording_name_it(folder: &Folder, ruby: &OutsideRuby, name: &str) {
    let pid = ruby.pid.to_string();
    let ran = folder.run(&["ps", &pid, "--json"]);
    let host: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(host["trees"][0]["allocator"], name, "{host}");
    assert_eq!(host["trees"][0]["arenas"], Value::Null, "{host}");
    let ran = folder.run(&[
        "record", "--pid", &pid, "--for", "3s", "--every", "500ms", "--look", "1s", "-o", "r.jsonl",
    ]);
    ran.assert_code(0);
    assert_nothing_of_others(&ran.out, name);
    let recording = carat::store::recording::read(&folder.path("r.jsonl")).unwrap();
    let last = recording.ledger.unwrap();
    assert_eq!(last.processes[0].allocator.active.as_deref(), Some(name));
}

fn private_memory_of_a_worker_adds_up(folder: &Folder, ruby: &mut OutsideRuby, name: &str) {
    let child = fork_child(ruby, "20_000.times { |n| $kept[n] << 'y' }; GC.start");
    let table = table_that_adds_up(folder, ruby, child, name);
    let unknown = table["unknown"].to_string();
    assert!(unknown.contains(&format!("its allocator is {name}")), "{unknown}");
    ruby.eval("Process.kill(:KILL, $child); Process.wait($child); 1");
}

fn assert_told(name: &str) {
    let folder = Folder::new("other-allocator");
    let mut ruby = start(name);
    explain_names_it_and_says_how_much_it_has(&folder, &ruby, name);
    host_and_recording_name_it(&folder, &ruby, name);
    private_memory_of_a_worker_adds_up(&folder, &mut ruby, name);
}

#[test]
fn a_ruby_under_mimalloc_is_told_as_one_whose_malloc_is_not_walked() {
    require!(Ruby, Allocator("mimalloc"));
    assert_told("mimalloc");
}

#[test]
fn a_ruby_under_tcmalloc_is_told_as_one_whose_malloc_is_not_walked() {
    require!(Ruby, Allocator("tcmalloc"));
    assert_told("tcmalloc");
}
