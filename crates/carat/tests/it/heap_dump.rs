//! Heap dumps: written from outside and compared with Ruby's own, and read by carat and by another tool.

use crate::needs::TestRuby;
use crate::outside_ruby::OutsideRuby;
use crate::support::Folder;
use carat_outside::census::LookOptions;
use carat_outside::who::dump::dump_heap;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::process::Command;

/// What is planted.
const PLANTS: &str = include_str!("data/who.rb");
/// Types of data, in contrast to code.
const DATA: [&str; 5] = ["ARRAY", "HASH", "OBJECT", "STRING", "STRUCT"];
/// Part of the text of each planted object.
const CONTENT: &str = "with a long enough name";

/// A Ruby with the plants, in which nothing is collected any more.
fn start(version: TestRuby) -> OutsideRuby {
    let mut ruby = OutsideRuby::start(version);
    let plants = serde_json::to_string(PLANTS).unwrap().replace('#', "\\#");
    ruby.eval(&format!("eval({plants}, TOPLEVEL_BINDING, 'plants.rb', 1); 1"));
    ruby.eval("Broad = Struct.new(:a, :b, :c, :d, :e); class Varied; def initialize(n); @one = [n.to_s] * 9; @two = { key: n.to_s, 'x' => @one }; \
        @three = Broad.new(@one, n.to_s * 40, 3, 4, :five); @four = nil; @five = 5.5; @six = @two.dup; end; end; 1");
    ruby.eval(
        "$varied = Array.new(500) { |n| Varied.new(n) }; 3.times { GC.start }; GC.disable; 1",
    );
    ruby
}

/// The dump that Ruby writes itself.
fn inside(ruby: &mut OutsideRuby) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path();
    ruby.eval(&format!(
        "File.open({path:?}, 'w') {{ |file| ObjectSpace.dump_all(output: file) }}; 1"
    ));
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}

fn outside(ruby: &OutsideRuby, strings: bool) -> String {
    let mut text = Vec::new();
    let sums = dump_heap(ruby.pid, &LookOptions::default(), strings, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let objects = text.lines().filter(|line| !line.starts_with("{\"type\":\"ROOT\"")).count();
    assert_eq!((sums.objects, sums.cut, &sums.unnamed[..]), (objects as u64, 0, &[][..]));
    text
}

/// The lines of the objects of a dump by address. Only what is compared is parsed: a dump has tens of thousands.
fn lines(text: &str) -> HashMap<&str, &str> {
    let addressed = text.lines().filter_map(|line| {
        let from = line.strip_prefix("{\"address\":\"")?;
        Some((&from[..from.find('"')?], line))
    });
    addressed.collect()
}

fn references(object: &Value) -> HashSet<&str> {
    object["references"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[test]
fn a_dump_from_outside_has_the_objects_and_references_of_rubys_own(version: TestRuby) {
    let mut ruby = start(version);
    let before = inside(&mut ruby);
    let found = outside(&ruby, false);
    let after = inside(&mut ruby);
    let (found, after) = (lines(&found), lines(&after));
    let mut counted: BTreeMap<&str, (u64, u64, f64, f64)> = BTreeMap::new();
    for (address, line) in lines(&before) {
        // What Ruby's own dumps and the commands for them change is not compared.
        if after.get(address) != Some(&line) {
            continue;
        }
        // A line that is no JSON is not compared.
        let Ok(object) = serde_json::from_str::<Value>(line) else { continue };
        let Some(&kind) = DATA.iter().find(|kind| object["type"] == **kind) else { continue };
        let other = found.get(address).unwrap_or_else(|| panic!("{object} is missing"));
        let other: Value = serde_json::from_str(other).unwrap();
        for key in ["type", "class", "length", "size", "name", "struct"] {
            assert_eq!(other[key], object[key], "{key} of\n{object}\n{other}");
        }
        let (expected, found) = (references(&object), references(&other));
        let missing: Vec<_> = expected
            .difference(&found)
            .filter(|to| **to != address && object["class"] != **to)
            .collect();
        assert!(missing.is_empty(), "{missing:?} of\n{object}\n{other}");
        let sums = counted.entry(kind).or_default();
        sums.0 += 1;
        sums.1 += expected.len() as u64;
        sums.2 += object["memsize"].as_f64().unwrap();
        sums.3 += other["memsize"].as_f64().unwrap();
    }
    for (kind, least) in
        [("ARRAY", 1000), ("HASH", 900), ("OBJECT", 9000), ("STRING", 9000), ("STRUCT", 2000)]
    {
        let (objects, references, expected, found) = counted[kind];
        assert!(objects >= least && (references > 0 || kind == "STRING"), "{kind}: {objects}");
        // Chunks of malloc are a little larger than what was asked for.
        assert!((0.98..1.12).contains(&(found / expected)), "{kind}: {found} of {expected}");
    }
}

#[test]
fn the_contents_of_strings_are_only_there_when_they_are_requested() {
    require!(Ruby);
    let ruby = start(TestRuby::OnPath);
    assert!(!outside(&ruby, false).contains(CONTENT));
    let with = outside(&ruby, true);
    assert!(with.matches(CONTENT).count() > 9000 && with.contains("\"value\":\"key 7\""));
}

#[test]
fn carat_and_heapy_read_what_was_written_and_ways_have_names() {
    require!(Ruby, Program("heapy"));
    let ruby = start(TestRuby::OnPath);
    let (folder, pid) = (Folder::new("dump"), ruby.pid.to_string());
    let ran = folder.run(&["heap-dump", &pid, "-o", "a.jsonl"]);
    assert!(ran.assert_code(0).talk.contains("and not stopped"), "{}", ran.talk);
    for (class, way) in [
        ("Cached", "Cached ← Hash (2,000 entries) ← @store of Cache"),
        ("Logged", "← @entries of Audit ← constant Audit::CURRENT"),
        ("Heard", "Heard ← captured variable heard of subscribe at plants.rb:"),
        (
            "Stored",
            "← [:sessions] of Hash (1 entry) ← [:list] of Hash (1 entry) ← constant Deep::Settings::STORE",
        ),
        ("Couple", "← @pairs of "),
        ("Rowed", "Kept alive only by Array (2,000 elements) ← @@rows of Registry"),
    ] {
        let ran = folder.run(&["explain", "a.jsonl", "--who", class]);
        ran.assert_code(0).assert_says(way);
    }
    let ran = folder.run(&["explain", "a.jsonl"]);
    ran.assert_code(0).assert_says("class\n").assert_says("Next: carat explain a.jsonl --who");
    let lines = std::fs::read_to_string(folder.path("a.jsonl")).unwrap().lines().count();
    let heapy = Command::new("heapy").arg("read").arg(folder.path("a.jsonl")).output().unwrap();
    let text = String::from_utf8_lossy(&heapy.stdout);
    assert!(heapy.status.success() && !text.contains("Could not parse"), "{text}");
    assert!(text.contains(&format!("Count: {lines}")), "{lines} in\n{text}");
}

#[test]
fn a_dump_that_ruby_wrote_itself_is_read_plain_and_compressed(version: TestRuby) {
    let mut ruby = start(version);
    let text = inside(&mut ruby);
    let folder = Folder::new("dump");
    folder.write("a.jsonl", &text);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    std::fs::write(folder.path("a.jsonl.gz"), gzip.finish().unwrap()).unwrap();
    for name in ["a.jsonl", "a.jsonl.gz"] {
        let ran = folder.run(&["explain", name, "--who", "Cached"]);
        ran.assert_code(0)
            .assert_says("Cached ← Hash (2,000 entries) ← Cache")
            .assert_says("Kept alive only by Hash (2,000 entries) ← Cache: 2,000 of them")
            .assert_says("no names of references");
    }
}

#[test]
fn what_keeps_more_than_in_another_dump_comes_first() {
    require!(Ruby);
    let mut ruby = start(TestRuby::OnPath);
    let (folder, pid) = (Folder::new("dump"), ruby.pid.to_string());
    folder.run(&["heap-dump", &pid, "-o", "a.jsonl.zst"]).assert_code(0);
    ruby.eval(
        "3000.times { |n| Registry.add(Rowed.new(n)) }; GC.enable; 5.times { GC.start }; GC.disable; 1",
    );
    folder.run(&["heap-dump", &pid, "-o", "b.jsonl.gz"]).assert_code(0);
    let ran = folder.run(&["explain", "b.jsonl.gz", "--who", "--since", "a.jsonl.zst"]);
    let line = ran.assert_code(0).out.lines().nth(1).unwrap().to_owned();
    assert!(line.contains("Rowed") && line.contains("@@rows of Registry"), "{}", ran.out);
}

#[test]
fn of_a_process_with_workers_it_is_said_that_theirs_are_other_heaps() {
    require!(Ruby);
    let folder = Folder::new("workers");
    let mut ruby = OutsideRuby::start(TestRuby::OnPath);
    let alone = folder.run(&["heap-dump", &ruby.pid.to_string(), "-o", "alone.jsonl"]);
    assert!(!alone.talk.contains("child process"), "{}", alone.talk);
    let worker = ruby.eval("$worker = fork { sleep }");
    let ran = folder.run(&["heap-dump", &ruby.pid.to_string(), "-o", "master.jsonl"]);
    ruby.eval("Process.kill(:KILL, $worker); Process.wait($worker); 1");
    ran.assert_code(0).assert_says(&format!("has nothing of: {}", worker.trim()));
}

#[test]
fn the_flame_graph_of_a_process_and_of_its_dump_has_every_byte_once() {
    require!(Ruby);
    let ruby = start(TestRuby::OnPath);
    let (folder, pid) = (Folder::new("dump"), ruby.pid.to_string());
    folder.run(&["heap-dump", &pid, "-o", "a.jsonl.zst"]).assert_code(0);
    for target in ["a.jsonl.zst", &pid] {
        let ran = folder.run(&["explain", target, "--who", "--format", "speedscope"]);
        let file: Value = serde_json::from_str(&ran.assert_code(0).out).unwrap();
        let profile = &file["profiles"][0];
        let weights = profile["weights"].as_array().unwrap().iter();
        let sum: u64 = weights.map(|weight| weight.as_u64().unwrap()).sum();
        assert_eq!(profile["endValue"].as_u64(), Some(sum), "{target}");
        let frames = file["shared"]["frames"].as_array().unwrap();
        assert!(frames.iter().any(|frame| frame["name"] == "@store of Cache"), "{frames:?}");
        assert!(sum > 1_000_000, "{target}: {sum}");
    }
}

#[test]
fn a_profile_is_read_by_pprof_and_has_what_is_kept_by_its_way() {
    require!(Ruby, Go);
    let ruby = start(TestRuby::OnPath);
    let (folder, pid) = (Folder::new("dump"), ruby.pid.to_string());
    let ran = folder.run(&["heap-dump", &pid, "-o", "kept.pb.gz"]);
    ran.assert_code(0).assert_says("next: go tool pprof -http=: kept.pb.gz");
    folder.run(&["heap-dump", &pid, "-o", "a.jsonl.zst"]).assert_code(0);
    let arguments = ["explain", "a.jsonl.zst", "--who", "--format", "pprof"];
    let profile = folder.carat(&arguments).output().unwrap().stdout;
    std::fs::write(folder.path("dumped.pb"), profile).unwrap();
    for file in ["kept.pb.gz", "dumped.pb"] {
        let mut pprof = Command::new("go");
        pprof.args(["tool", "pprof", "-unit=B", "-nodecount=2000", "-top"]).arg(folder.path(file));
        let found = pprof.output().unwrap();
        let text = String::from_utf8_lossy(&found.stdout);
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
        assert!(text.contains("Type: kept_space") && text.contains("@store of Cache"), "{text}");
    }
    let ran = folder.run(&["heap-dump", &pid, "--strings", "-o", "no.pb"]);
    ran.assert_code(1).assert_says("leave out --strings");
    assert!(!folder.path("no.pb").exists());
}

#[test]
fn a_dump_that_fails_leaves_no_file_and_a_damaged_one_is_refused_or_says_so() {
    require!(Ruby);
    let ruby = start(TestRuby::OnPath);
    let (folder, pid) = (Folder::new("dump"), ruby.pid.to_string());
    let ran = folder.run(&["heap-dump", "4194305", "-o", "a.jsonl"]);
    assert!(ran.code != Some(0) && !folder.path("a.jsonl").exists(), "{}", ran.talk);
    let ran = folder.run(&["heap-dump", &pid, "-o", "none/a.jsonl"]);
    assert!(ran.code != Some(0) && ran.talk.contains("cannot write none/a.jsonl"), "{}", ran.talk);
    assert_eq!(std::fs::read_dir(folder.path("")).unwrap().count(), 1, "only tmp is there");
    for name in ["a.jsonl", "a.zst", "a.gz"] {
        folder.run(&["heap-dump", &pid, "-o", name]).assert_code(0);
        let bytes = std::fs::read(folder.path(name)).unwrap();
        std::fs::write(folder.path(name), &bytes[..bytes.len() / 2]).unwrap();
        let ran = folder.run(&["explain", name]);
        // One cut in two hundred is between two lines.
        ran.assert_code(0).assert_says("objects are missing");
    }
    folder.write("other.jsonl", "{\"a\": 1}\n");
    let ran = folder.run(&["explain", "other.jsonl", "--who"]);
    assert_ne!(ran.code, Some(0));
    let ran = folder.run(&["explain", "a.jsonl", "--owners"]);
    assert!(ran.code != Some(0) && ran.talk.contains("read a running process"), "{}", ran.talk);
}
