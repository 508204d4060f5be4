//! `carat explain` and `carat diff` on real Rubies without a probe.

use crate::needs::TestRuby;
use crate::outside_ruby::OutsideRuby;
use crate::probe_ruby::Bench;
use crate::support::{Folder, Ran};
use carat::target::library;
use carat_model::ledger::{Basis, PartKind};
use carat_model::{Bytes, Ledger};
use carat_outside::census::LookOptions;
use carat_proc::observe::{known_figures, ledger, outside_figures, read_outside};
use carat_proc::process::ProcRoot;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

fn explain(folder: &Folder, pid: u32, more: &[&str]) -> Ran {
    let pid = pid.to_string();
    let ran = folder.run(&[&["explain", pid.as_str()][..], more].concat());
    ran.assert_code(0);
    ran
}

fn json(folder: &Folder, pid: u32, more: &[&str]) -> Value {
    let ran = explain(folder, pid, &[&["--json"][..], more].concat());
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.out))
}

fn part(explained: &Value, kind: &str) -> u64 {
    let parts = explained["ledger"]["parts"].as_array().unwrap();
    let found = parts.iter().find(|part| part["kind"] == kind);
    found.map_or(0, |part| part["pss"].as_u64().unwrap())
}

#[test]
fn a_ruby_that_was_started_without_carat_is_explained_by_live_memory_and_classes(
    version: TestRuby,
) {
    let folder = Folder::new("outside");
    let ruby = OutsideRuby::start(version);
    let explained = json(&folder, ruby.pid, &[]);
    let process = &explained["ledger"]["processes"][0];
    assert_eq!(process["basis"], "outside", "{explained}");
    assert!(process["ruby"].as_str().unwrap().starts_with("ruby "), "{process}");
    for kind in ["slots_live", "slots_free", "malloc_live", "malloc_free"] {
        assert!(part(&explained, kind) > 0, "{kind} in {version:?}: {explained}");
    }
    for kind in ["malloc", "slots_or_malloc"] {
        assert_eq!(part(&explained, kind), 0, "{kind} in {version:?}");
    }
    let (pss, unexplained) = (&explained["ledger"]["pss"], &explained["ledger"]["unexplained"]);
    let share = unexplained.as_i64().unwrap().abs() as f64 / pss.as_f64().unwrap();
    assert!(share <= 0.03, "{version:?}: {share}");
    assert_eq!(explained["census"]["schema"], "carat.census/2");
    let classes = explained["census"]["processes"][0]["classes"].as_array().unwrap();
    let nodes = classes.iter().find(|class| class["name"] == "Deep::Inner::Node").unwrap();
    assert_eq!(nodes["objects"], 10_000, "{version:?}");
    let short = explain(&folder, ruby.pid, &[]);
    short.assert_says("size     ").assert_says("help     ").assert_says("; unexplained ");
    // At most nine lines, an empty one, the details and the next command.
    let lines = short.out.lines().count();
    assert!(!short.out.contains("from outside, Ruby ") && lines <= 12, "{}", short.out);
    let text = explain(&folder, ruby.pid, &["--classes", "40"]);
    text.assert_says("from outside, Ruby ").assert_says("Deep::Inner::Node");
    text.assert_says("nothing was stopped or written");
    assert!(!text.out.contains("cannot be told apart"), "{}", text.out);
}

#[test]
fn who_keeps_the_largest_class_is_a_line_of_the_diagnosis(version: TestRuby) {
    let folder = Folder::new("outside");
    let mut ruby = OutsideRuby::start(version);
    ruby.eval(
        "Kept = Struct.new(:number, :name); $kept = Array.new(600_000) { |n| Kept.new(n, nil) }; 4.times { GC.start }; 1",
    );
    let text = explain(&folder, ruby.pid, &[]).out;
    let line =
        text.lines().find(|line| line.starts_with("kept ")).unwrap_or_else(|| panic!("{text}"));
    assert!(
        line.contains(" by an element of Array ← global variable $kept; without that Array"),
        "{line}"
    );
    let numbers: Vec<u64> =
        line.split_whitespace().filter_map(|word| word.replace(',', "").parse().ok()).collect();
    // The objects of the way, those of the class, and those that would go.
    assert!(numbers[..3].iter().all(|number| (597_000..=603_000).contains(number)), "{line}");
    let most = text.lines().find(|line| line.starts_with("most ")).unwrap();
    assert!(most.contains(" Kept: 600,000 objects"), "{most}");
    assert!(!explain(&folder, ruby.pid, &["--no-look"]).out.contains("\nkept "));
}

#[test]
fn without_a_look_the_ledger_is_that_of_the_kernel_alone() {
    require!(Ruby);
    let folder = Folder::new("no-look");
    let ruby = OutsideRuby::start(TestRuby::OnPath);
    let explained = json(&folder, ruby.pid, &["--no-look"]);
    assert_eq!(explained["ledger"]["processes"][0]["basis"], "proc_only");
    assert!(explained.get("census").is_none(), "{explained}");
    let text = explain(&folder, ruby.pid, &["--no-look"]);
    text.assert_says("Live and free memory cannot be told apart in 1 of 1 process");
    let pid = ruby.pid.to_string();
    folder.run(&["explain", &pid, "--no-look", "--owners"]).assert_code(2);
}

#[test]
fn a_program_that_is_no_ruby_has_its_ledger_and_no_word_about_ruby() {
    let folder = Folder::new("no-ruby");
    let mut server = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let ran = explain(&folder, server.id(), &[]);
    server.kill().unwrap();
    server.wait().unwrap();
    ran.assert_says("code and files");
    assert!(!ran.out.contains("Not read from outside"), "{}", ran.out);
}

fn pss(ledger: &Ledger, kinds: &[PartKind]) -> f64 {
    kinds.iter().filter_map(|&kind| ledger.part(kind)).map(|part| part.pss.0 as f64).sum()
}

#[test]
fn the_probe_and_the_reader_from_outside_divide_memory_alike(version: TestRuby) {
    assert_divided_alike(version, None);
}

#[test]
fn they_also_do_under_jemalloc(version: TestRuby) {
    assert_divided_alike(version, Some(&jemalloc(version)));
}

fn jemalloc(version: TestRuby) -> PathBuf {
    carat_settings::find_allocator(&version.root(), "jemalloc").unwrap()
}

fn assert_divided_alike(version: TestRuby, allocator: Option<&Path>) {
    // Several, because the kernel joins the transient heap of Ruby 2.7 to 3.2 with memory of jemalloc beside it in some of them.
    for _ in 0..3 {
        let (outside, probe) = read_both(version.command(allocator));
        assert_alike(version, &outside, &probe);
    }
}

fn assert_alike(version: TestRuby, outside: &Ledger, probe: &Ledger) {
    for ledger in [outside, probe] {
        let explained: Bytes = ledger.parts.iter().map(|part| part.pss).sum();
        assert!(explained.0 as f64 > 0.97 * ledger.pss.0 as f64, "{version:?}: {ledger:#?}");
    }
    let malloc =
        [PartKind::MallocLive, PartKind::MallocFree, PartKind::AllocatorOverhead, PartKind::Malloc];
    for kinds in [&[PartKind::SlotsLive][..], &[PartKind::SlotsLive, PartKind::SlotsFree], &malloc]
    {
        let (from_outside, from_probe) = (pss(outside, kinds), pss(probe, kinds));
        let apart = (from_outside - from_probe).abs() / probe.pss.0 as f64;
        let parts = [outside, probe].map(|ledger| &ledger.parts);
        assert!(apart <= 0.01, "{version:?} {kinds:?}: {from_outside} and {from_probe} {parts:#?}");
    }
}

/// The ledger of a new Ruby from outside and with the probe.
fn read_both(command: Command) -> (Ledger, Ledger) {
    let bench = Bench::new();
    let mut ruby = bench.start(command);
    ruby.eval("$kept = Array.new(60_000) { |n| 'x' * (n % 900) }; 4.times { GC.start }; 1");
    let root = ProcRoot::default();
    let members = [root.identify(ruby.pid).unwrap()];
    // The page is asked last, because answering allocates.
    let reading = read_outside(&members, &LookOptions::default());
    let outside = ledger(&root, &members, &outside_figures(&reading, &members));
    // Where the transient heap lies no probe says.
    let probe = ledger(&root, &members, &known_figures(&root, &members, Some(&reading)));
    assert_eq!(outside.processes[0].basis, Basis::Outside, "{reading:?}");
    assert_eq!(probe.processes[0].basis, Basis::Probe);
    ruby.end();
    (outside, probe)
}

/// The kernel's private figure of a process, in bytes.
fn private(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("Private_"));
    let kib = lines.map(|line| line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap());
    kib.sum::<f64>() * 1024.0
}

pub(crate) fn cause(table: &Value, name: &str) -> f64 {
    let causes = table["causes"].as_array().unwrap();
    let found = causes.iter().find(|share| share["cause"] == name);
    found.map_or(0.0, |share| share["bytes"].as_f64().unwrap())
}

/// Forks a child that writes to inherited objects, allocates, collects, and is then at rest. Returns its number.
fn fork_busy_child(ruby: &mut OutsideRuby) -> u32 {
    fork_child(
        ruby,
        "KEEP[0].each_with_index { |post, n| post.title = n if post && n.even? }; \
         $more = Array.new(20_000) { |n| \"new #{n}\" * 30 }; GC.start",
    )
}

/// Forks a child that does this, and is then at rest. Returns its number.
pub(crate) fn fork_child(ruby: &mut OutsideRuby, work: &str) -> u32 {
    ruby.eval("$ready, $done = IO.pipe; 1");
    let child = ruby.eval(&format!("$child = fork {{ {work}; $done.puts; sleep }}"));
    ruby.eval("$ready.gets; 1");
    child.parse().unwrap()
}

/// The table of why the child's memory is private; its causes add up to the kernel's figure within 3 %.
pub(crate) fn table_that_adds_up(
    folder: &Folder,
    ruby: &OutsideRuby,
    child: u32,
    what: &str,
) -> Value {
    let explained = json(folder, ruby.pid, &["--unshared"]);
    let table = &explained["census"]["unshared"][0];
    assert_eq!((&table["parent"], &table["child"]), (&ruby.pid.into(), &child.into()), "{what}");
    let causes = table["causes"].as_array().unwrap();
    let sum: f64 = causes.iter().map(|share| share["bytes"].as_f64().unwrap()).sum();
    let kernel = private(child);
    let apart = (sum - kernel).abs() / kernel;
    assert!(apart <= 0.03, "{what}: the causes are {sum}, the kernel says {kernel}");
    table.clone()
}

#[test]
fn the_causes_of_a_prepared_workers_private_memory_add_up_to_the_kernels_figure(version: TestRuby) {
    let folder = Folder::new("prepared");
    // The roots see the /tmp of this system.
    let home = tempfile::Builder::new().prefix("carat-prepared-").tempdir_in("/tmp").unwrap();
    let libraries = library::unpack(&home.path().join("carat")).unwrap();
    for settings in ["prepare_fork=full;seal=on", "prepare_fork=warmup", "sham=on"] {
        let what = format!("{version:?} with {settings}");
        let mut ruby = OutsideRuby::start_with(version, &libraries, settings);
        ruby.eval("require 'socket'; $listener = TCPServer.new('127.0.0.1', 0); 1");
        let child = fork_busy_child(&mut ruby);
        let prepared = ruby.eval("CaratRuntime.report[:prepared_forks]");
        assert_eq!(prepared, if settings.starts_with("prepare") { "1" } else { "0" }, "{what}");
        let table = table_that_adds_up(&folder, &ruby, child, &what);
        for name in ["new_since_fork", "objects_written"] {
            assert!(cause(&table, name) > 0.0, "{name} in {what}: {table}");
        }
        assert_eq!(cause(&table, "unread"), 0.0, "{what}: {table}");
        ruby.eval("Process.kill(:KILL, $child); Process.wait($child); 1");
    }
}

#[test]
fn the_causes_of_private_memory_add_up_to_the_kernels_figure(version: TestRuby) {
    let folder = Folder::new("unshared");
    let mut ruby = OutsideRuby::start(version);
    let child = fork_busy_child(&mut ruby);
    let table = table_that_adds_up(&folder, &ruby, child, &format!("{version:?}"));
    for name in ["new_since_fork", "objects_written", "gc_bitmaps", "slots_reused"] {
        assert!(cause(&table, name) > 0.0, "{name} in {version:?}: {table}");
    }
    let text = explain(&folder, ruby.pid, &["--unshared"]);
    text.assert_says(&format!("Why process {child} has private memory"));
    ruby.eval("Process.kill(:KILL, $child); Process.wait($child); 1");
    explain(&folder, ruby.pid, &["--unshared"]).assert_says("Nothing to compare");
}

#[test]
fn a_process_that_ends_while_it_is_read_is_an_error_or_an_older_ledger_and_never_a_panic() {
    require!(Ruby);
    let folder = Folder::new("ends");
    for after in [5, 20, 40, 80, 120, 200] {
        let ruby = OutsideRuby::start(TestRuby::OnPath);
        let pid = ruby.pid.to_string();
        let arguments = ["explain", &pid, "--owners"];
        let mut command = folder.carat(&arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let carat = command.spawn().unwrap();
        // Any moment will do; several make it likely that one is in the middle.
        std::thread::sleep(Duration::from_millis(after));
        drop(ruby);
        let ran = crate::support::finish(carat);
        assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
        assert!(!ran.talk.contains("panicked"), "{ran:?}");
    }
}

#[test]
fn two_readings_are_compared_by_class() {
    require!(Ruby);
    let folder = Folder::new("diff");
    let mut ruby = OutsideRuby::start(TestRuby::OnPath);
    folder.write("before.json", &explain(&folder, ruby.pid, &["--json"]).out);
    ruby.eval("$grown = Array.new(7_000) { Deep::Inner::Node.new }; 1");
    folder.write("after.json", &explain(&folder, ruby.pid, &["--json"]).out);
    let ran = folder.run(&["diff", "before.json", "after.json"]);
    ran.assert_code(0).assert_says("slots with an object");
    let line = ran.out.lines().find(|line| line.starts_with("Deep::Inner::Node")).unwrap();
    assert!(line.contains("+7,000"), "{line}");
    folder.write("none.json", "{\"ledger\": {}}");
    let refused = folder.run(&["diff", "before.json", "none.json"]);
    refused.assert_code(1).assert_says("none.json has no reading");
}

#[test]
fn the_causes_of_private_memory_are_known_under_jemalloc(version: TestRuby) {
    let folder = Folder::new("unshared-jemalloc");
    let mut ruby = OutsideRuby::start_command(version.command(Some(&jemalloc(version))));
    let child = fork_busy_child(&mut ruby);
    let table = table_that_adds_up(&folder, &ruby, child, &format!("{version:?} with jemalloc"));
    assert_eq!(table["unknown"], serde_json::json!([]), "{version:?}");
    for name in ["new_since_fork", "objects_written", "gc_bitmaps", "slots_reused"] {
        assert!(cause(&table, name) > 0.0, "{name} in {version:?}: {table}");
    }
    ruby.eval("Process.kill(:KILL, $child); Process.wait($child); 1");
    let share = cause(&table, "other_memory") / table["private_bytes"].as_f64().unwrap();
    assert!(share <= 0.03, "{share} in {version:?}: {table}");
}

#[test]
fn a_recording_that_looks_separates_live_and_free_memory_of_jemalloc() {
    require!(Ruby, Jemalloc);
    let folder = Folder::new("look-jemalloc");
    let mut ruby =
        OutsideRuby::start_command(TestRuby::OnPath.command(Some(&jemalloc(TestRuby::OnPath))));
    ruby.eval("$kept = Array.new(20_000) { 'x' * 1000 }; 1");
    let pid = ruby.pid.to_string();
    let ran = folder.run(&[
        "record", "--pid", &pid, "--for", "3s", "--every", "500ms", "--look", "1s", "-o", "r.jsonl",
    ]);
    ran.assert_code(0);
    let recording = carat::store::recording::read(&folder.path("r.jsonl")).unwrap();
    let last = recording.ledger.unwrap();
    let live = pss(&last, &[PartKind::MallocLive]);
    assert!((20e6..60e6).contains(&live), "{last:?}");
    assert!(pss(&last, &[PartKind::MallocFree]) > 0.0, "{last:?}");
}

#[test]
fn a_recording_that_looks_names_the_class_that_grows() {
    require!(Ruby);
    let folder = Folder::new("look");
    let program = "class Kept; end; kept = []; loop { 200.times { kept << Kept.new }; sleep 0.05 }";
    let ran = folder.run(&[
        "record", "--for", "14s", "--every", "500ms", "--look", "1s", "-o", "r.jsonl", "--",
        "ruby", "-e", program,
    ]);
    ran.assert_code(0).assert_says("Kept grows by ").assert_says(" objects per second (");
    let recording = carat::store::recording::read(&folder.path("r.jsonl")).unwrap();
    let classes = recording.end.unwrap().classes;
    let kept = classes.iter().find(|growth| growth.class == "Kept").unwrap();
    assert!(kept.rate > 100.0 && kept.bytes_each >= Some(40.0), "{kept:?}");
    let by = kept.kept_by.as_ref().map(|way| way.keeper());
    // The binding of the main program has its variables too, so both ways are right.
    let ways = ["local variable kept of ", "captured variable kept of "];
    let is_way = |by: &str| {
        let rest = by.strip_prefix("an element of Array ← ");
        rest.is_some_and(|rest| ways.iter().any(|way| rest.starts_with(way)))
    };
    assert!(by.as_deref().is_none_or(is_way), "{by:?}");
    let short = folder.run(&["record", "--look", "10ms", "--", "true"]);
    short.assert_code(1).assert_says("--look must be one second or longer");
}

#[test]
fn a_class_and_the_holders_of_malloc_are_printed_on_request() {
    require!(Ruby);
    let folder = Folder::new("owners");
    let ruby = OutsideRuby::start(TestRuby::OnPath);
    let ran = explain(&folder, ruby.pid, &["--class", "Deep::Inner::Node", "--owners", "--reach"]);
    ran.assert_says("Deep::Inner::Node: 10,000 objects in ");
    ran.assert_says("in malloc have a known holder").assert_says("held by nobody");
    ran.assert_says("reached from the roots: ");
    let file = folder.run(&["explain", "some.carat", "--owners"]);
    file.assert_code(1).assert_says("read a running process; give its id");
}

#[test]
fn the_page_has_maps_and_holders_and_a_shared_one_no_class_names() {
    require!(Ruby);
    let folder = Folder::new("outside-page");
    let ruby = OutsideRuby::start(TestRuby::OnPath);
    explain(&folder, ruby.pid, &["-o", "own.html", "--owners"]);
    explain(&folder, ruby.pid, &["-o", "shared.html", "--owners", "--share"]);
    let own = fs::read_to_string(folder.path("own.html")).unwrap();
    for expected in ["Who holds the memory", "Where it lies", "Deep::Inner::Node", "malloc, main"] {
        assert!(own.contains(expected), "{expected}");
    }
    assert!(own.len() < 600_000, "{} bytes", own.len());
    let shared = fs::read_to_string(folder.path("shared.html")).unwrap();
    assert!(shared.contains("Who holds the memory") && shared.contains("String"));
    assert!(!shared.contains("Deep::Inner"));
}
