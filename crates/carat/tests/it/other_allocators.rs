//! What every command says of a Ruby under an allocator that is not walked: its name, how much it can have at most, and nothing
//! that is true of another allocator only.

use crate::needs::TestRuby;
use crate::outside_explain::{fork_child, table_that_adds_up};
use crate::outside_ruby::OutsideRuby;
use crate::support::Folder;
use crate::who;
use carat_outside::census::{CensusPart, LookOptions};
use carat_outside::who::WhoRequest;
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
    for part in ["holders of malloc's memory", "what the roots reach"] {
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

/// The Rubies and the allocators whose malloc nobody walks.
fn rubies() -> Vec<(TestRuby, &'static str)> {
    let roots = ["bullseye", "bookworm", "trixie", "ruby34"].map(TestRuby::InRoot);
    let all = [TestRuby::OnPath].into_iter().chain(roots);
    let pairs = all.flat_map(|version| ["mimalloc", "tcmalloc"].map(|name| (version, name)));
    pairs.filter(|(version, name)| find_allocator(&version.root(), name).is_some()).collect()
}

/// The same Ruby with the plants of `data/who.rb`, and with objects to which only a weak table leads.
fn planted((version, name): (TestRuby, &str)) -> OutsideRuby {
    let library = find_allocator(&version.root(), name).unwrap();
    let mut ruby = OutsideRuby::start_command(version.command(Some(&library)));
    who::plant(&mut ruby);
    ruby.eval("GC.disable; $weak = ObjectSpace::WeakMap.new; 500.times { |n| key = Keepsake.new(n); $weak[key] = key }; 1");
    ruby
}

#[test]
fn where_malloc_is_not_walked_every_way_that_is_found_is_one_and_nothing_is_called_garbage() {
    require!(Ruby, Allocator("mimalloc"));
    for place in rubies() {
        let ruby = planted(place);
        let ends = [
            ("Cached", "[a String] of Hash (2,000 entries) ← @store of Cache"),
            ("Logged", "of Array (2,000 elements) ← @entries of Audit ← constant Audit::CURRENT"),
            ("Heard", "of Array (2,000 elements) ← global variable $subscribers"),
            ("Stored", "[:list] of Hash (1 entry) ← constant Deep::Settings::STORE"),
            ("Rowed", "of Array (2,000 elements) ← @@rows of Registry"),
            ("Listed", "of Array (2,000 elements) ← @pairs of the main object"),
            ("Ticketed", ""),
            ("Local", ""),
        ];
        // In one reading, because each of them takes seconds.
        let classes = ends.map(|(class, _)| class.to_owned()).into();
        let who = WhoRequest { classes, ..WhoRequest::default() };
        let census = ruby.look(&LookOptions { who: Some(who), ..LookOptions::default() });
        let found = census.who.as_ref().unwrap_or_else(|| panic!("{:?}", census.unknown));
        assert!(census.reason(CensusPart::Reach).is_some() && census.reach.is_none());
        assert_eq!((found.garbage_objects, &found.holders[..]), (None, &[][..]));
        assert_eq!(found.classes.len(), ends.len());
        for (class, end) in ends {
            let told = found.classes.iter().find(|told| told.name == class).unwrap();
            let first = &told.ways[0];
            let way = first.way.to_string();
            assert!(way.ends_with(end), "{way} under {place:?}");
            assert!(first.objects >= 1_990, "{class}: {} by {way} under {place:?}", first.objects);
            let ticketed = "[:tickets] of ";
            assert!(class != "Ticketed" || way.contains(ticketed), "{way} under {place:?}");
            assert_eq!((told.garbage_objects, &told.holder), (None, &None));
        }
        let who = Some(WhoRequest { classes: vec!["Keepsake".into()], ..WhoRequest::default() });
        let census = ruby.look(&LookOptions { who, ..LookOptions::default() });
        let weak = &census.who.unwrap().classes[0];
        assert_eq!(weak.objects, 500, "{place:?}");
        // A few are still on the stack.
        assert!(weak.unreached_objects >= 480, "{weak:?} under {place:?}");
        assert!(weak.ways.iter().all(|way| !way.way.to_string().contains("WeakMap")), "{weak:?}");
    }
}

#[test]
fn where_malloc_is_not_walked_explain_says_what_it_does_not_know_of_who_keeps_what() {
    require!(Ruby, Allocator("mimalloc"));
    let ruby = planted((TestRuby::OnPath, "mimalloc"));
    let (folder, pid) = (Folder::new("told"), ruby.pid.to_string());
    let ran = folder.run(&["explain", &pid, "--who", "Keepsake"]);
    ran.assert_code(0)
        .assert_says("what a collection would free is not known: its malloc is not walked")
        .assert_says("  are garbage, or kept in a way that was not found")
        .assert_says("Whether one object keeps nine tenths of them is not known");
    let ran = folder.run(&["explain", &pid, "--who", "--json"]);
    let first = ran.assert_code(0).out.clone();
    for word in ["would go", "would be freed", "keeps a hundredth of it alone"] {
        assert!(!folder.run(&["explain", &pid, "--who"]).out.contains(word), "{word}");
    }
    let json: Value = serde_json::from_str(&first).unwrap();
    let who = &json["census"]["processes"][0]["who"];
    assert_eq!((&who["garbage_objects"], &who["slots_only"]), (&Value::Null, &true.into()));
    std::fs::write(folder.path("who.json"), first).unwrap();
    folder
        .run(&["explain", &pid, "--who", "--since", "who.json"])
        .assert_code(0)
        .assert_says("A reading may lack part of what was kept: process");
    folder
        .run(&["heap-dump", &pid, "-o", "heap.jsonl"])
        .assert_code(1)
        .assert_says("its allocator is mimalloc, which is not walked")
        .assert_says("a dump would lack references");
}
