//! jemalloc's regions and their owners read from outside, against jemalloc's own word and against planted leaks.

use crate::needs::TestRuby;
use crate::outside_ruby::{OutsideRuby, number};
use carat_outside::census::{Census, CensusPart, LookOptions};
use carat_outside::malloc::{DecayTimes, JemallocCensus, MallocCensus};
use carat_outside::owners::{HolderKind, OwnerCensus};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is loaded into the Ruby.
const INSIDE: &str = include_str!("data/outside_jemalloc.rb");
/// Class of 5,000 bytes, and of 1,000.
const LEAKED: u64 = 5120;
const KEPT: u64 = 1024;
/// Room for the thread-local data of a jemalloc that is loaded late (glibc 2.32 and later).
const TUNABLE: &str = "glibc.rtld.optional_static_tls=65536";
/// Attempts to find the process as it was when jemalloc was asked.
const ATTEMPTS: u32 = 10;

pub(crate) fn library(version: TestRuby) -> PathBuf {
    carat_settings::find_allocator(&version.root(), "jemalloc").unwrap()
}

/// A Ruby that can ask jemalloc.
pub(crate) fn start(version: TestRuby) -> OutsideRuby {
    start_with(version.command(Some(&library(version))))
}

pub(crate) fn start_with(command: Command) -> OutsideRuby {
    let mut ruby = OutsideRuby::start_command(command);
    let inside = serde_json::to_string(INSIDE).unwrap().replace('#', "\\#");
    ruby.eval(&format!("eval({inside}); 1"));
    ruby
}

pub(crate) fn owners() -> LookOptions {
    LookOptions { owners: true, ..LookOptions::default() }
}

pub(crate) fn malloc(census: &Census) -> &MallocCensus {
    census.malloc.as_ref().unwrap_or_else(|| panic!("{:?}", census.unknown))
}

pub(crate) fn own(census: &Census) -> &JemallocCensus {
    malloc(census).jemalloc.as_ref().unwrap_or_else(|| panic!("{:?}", census.serving))
}

pub(crate) fn held(census: &Census) -> &OwnerCensus {
    census.owners.as_ref().unwrap_or_else(|| panic!("{:?}", census.unknown))
}

/// The anonymous memory of a process by the kernel, in bytes.
pub(crate) fn anonymous(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// What jemalloc says of itself, in bytes: allocated, active, dirty, muzzy, retained.
pub(crate) fn said(inside: &Value) -> [u64; 5] {
    let pages = |key| number(inside, key) * number(inside, "page");
    [
        number(inside, "allocated"),
        number(inside, "active"),
        pages("dirty_pages"),
        pages("muzzy_pages"),
        number(inside, "retained"),
    ]
}

pub(crate) fn read(own: &JemallocCensus) -> [u64; 5] {
    let pages = [own.dirty.bytes, own.muzzy.bytes, own.retained.bytes];
    [own.allocated_bytes, own.active_bytes, pages[0], pages[1], pages[2]]
}

#[test]
fn every_figure_equals_what_jemalloc_says_to_the_byte(version: TestRuby) {
    let mut ruby = start(version);
    ruby.eval("Jemalloc.fragment");
    ruby.eval("Jemalloc.settle");
    let census = calm_with_classes(&mut ruby, &format!("{version:?}"));
    assert_eq!(own(&census).torn_slabs, 0, "{version:?}");
    assert!(malloc(&census).thread_caches >= 1, "{version:?}");
    let total = malloc(&census).total();
    assert!(total.thread_cached.bytes > 0 && total.missing_bytes == 0, "{version:?}");
}

/// A reading whose figures equal what jemalloc says of the same moment; from then on the Ruby answers questions only.
pub(crate) fn calm(ruby: &mut OutsideRuby, context: &str) -> Census {
    serve(ruby);
    same_figures(ruby, context)
}

fn serve(ruby: &mut OutsideRuby) {
    ruby.begin("Jemalloc.serve");
    // The first questions fill caches.
    (0..3).for_each(|_| drop((ruby.ask("figures"), ruby.ask("classes"))));
}

fn same_figures(ruby: &mut OutsideRuby, context: &str) -> Census {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let census = ruby.look(&LookOptions::default());
        let inside = said(&ruby.ask("figures"));
        let read = read(own(&census));
        if read == inside {
            return census;
        }
        last = Some((read, inside));
    }
    panic!("outside and inside differ: {last:?} with {context}");
}

/// A calm reading that also agrees with jemalloc's own count of every class. The classes are a question of their own, and
/// while it is answered jemalloc may empty a thread's cache, which can return a slab.
fn calm_with_classes(ruby: &mut OutsideRuby, context: &str) -> Census {
    serve(ruby);
    let mut last = Vec::new();
    for _ in 0..ATTEMPTS {
        let census = same_figures(ruby, context);
        last = class_differences(own(&census), &ruby.ask("classes"));
        if last.is_empty() {
            return census;
        }
    }
    panic!("classes differ: {last:#?} with {context}");
}

/// Classes of which jemalloc counts other regions or slabs, but for the text of the first answer.
fn class_differences(own: &JemallocCensus, inside: &Value) -> Vec<String> {
    let pairs = |key: &str| inside[key].as_array().unwrap().clone();
    let (slabs, large) = (pairs("slabs"), pairs("large"));
    let mut differences = Vec::new();
    if (own.slabs.len(), own.large.len()) != (slabs.len(), large.len()) {
        differences.push(format!("{} and {} classes inside", slabs.len(), large.len()));
    }
    for (read, said) in own.slabs.iter().zip(&slabs) {
        let [size, regions, slabs] = [0, 1, 2].map(|at| said[at].as_u64().unwrap());
        let near = (read.in_use + read.cached).abs_diff(regions) <= 16 + regions / 500;
        if (read.size, read.slabs) != (size, slabs) || !near {
            differences.push(format!("{read:?}, inside {said}"));
        }
    }
    for (read, said) in own.large.iter().zip(&large) {
        if [read.size, read.regions] != [0, 1].map(|at| said[at].as_u64().unwrap()) {
            differences.push(format!("{read:?}, inside {said}"));
        }
    }
    differences
}

#[test]
fn a_purge_returns_what_was_predicted(version: TestRuby) {
    // Nothing is returned meanwhile.
    let mut command = version.command(Some(&library(version)));
    command.env("MALLOC_CONF", "dirty_decay_ms:-1,muzzy_decay_ms:-1");
    let mut ruby = start_with(command);
    // Each has an extent of its own.
    ruby.eval("$large = Array.new(900) { 'x' * 60_000 }; 1");
    ruby.eval("$large = nil; 4.times { GC.start }; 1");
    let census = ruby.look(&LookOptions::default());
    let predicted = malloc(&census).trimmable_bytes();
    let before = anonymous(ruby.pid);
    ruby.eval("Jemalloc.purge");
    let returned = before.saturating_sub(anonymous(ruby.pid));
    assert!(predicted > 5_000_000, "{predicted} predicted in {version:?}");
    let difference = predicted.abs_diff(returned) as f64 / returned as f64;
    assert!(difference < 0.02, "{predicted} predicted, {returned} returned in {version:?}");
    let left = malloc(&ruby.look(&LookOptions::default())).trimmable_bytes();
    assert!(left < predicted / 10, "{left} left of {predicted} in {version:?}");
}

#[test]
fn a_native_leak_under_jemalloc_is_held_by_nobody_with_its_class(version: TestRuby) {
    let mut ruby = start(version);
    let of_class = |census: &Census| {
        let sizes = &held(census).nobody_sizes;
        sizes.iter().find(|one| one.size == LEAKED).map_or(0, |one| one.amount.chunks)
    };
    let before = of_class(&ruby.look(&owners()));
    ruby.eval("Jemalloc.leak(2000, 5000)");
    let census = ruby.look(&owners());
    let found = of_class(&census) - before;
    assert!((1960..=2010).contains(&found), "{found} in {version:?}");
    let share = 1.0
        - (held(&census).nobody.bytes - found * LEAKED) as f64 / held(&census).held().bytes as f64;
    assert!(share >= 0.97, "{share} of the rest held in {version:?}");
}

#[test]
fn fifty_thousand_strings_of_a_hash_are_the_strings_of_their_class(version: TestRuby) {
    let mut ruby = start(version);
    let strings = |census: &Census| {
        let is_string = |one: &&carat_outside::owners::HolderAmount| {
            one.kind == HolderKind::Class && one.name == "String"
        };
        held(census).holders.iter().find(is_string).map(|one| one.amount).unwrap_or_default()
    };
    let kept = |census: &Census| {
        own(census).slabs.iter().find(|one| one.size == KEPT).map_or(0, |one| one.in_use)
    };
    ruby.eval("$kept = {}; 4.times { GC.start }; 1");
    let before = ruby.look(&owners());
    ruby.eval("50_000.times { |i| $kept[i] = 'x' * 1000 }; 4.times { GC.start }; 1");
    let after = ruby.look(&owners());
    let (chunks, bytes) = {
        let (before, after) = (strings(&before), strings(&after));
        (after.chunks - before.chunks, after.bytes - before.bytes)
    };
    // Some strings of Ruby's own come and go, more of them on a busy machine, and some are as large as a file.
    assert!((50_000..=50_200).contains(&chunks), "{chunks} in {version:?}");
    assert!((50_000 * KEPT..=50_500 * KEPT).contains(&bytes), "{bytes} in {version:?}");
    assert!(kept(&after) - kept(&before) >= 50_000, "{version:?}");
}

#[test]
fn jemalloc_of_a_server_running_flat_out_is_read_within_three_percent(version: TestRuby) {
    let mut ruby = start(version);
    ruby.eval("Jemalloc.churn");
    for pass in 0..6 {
        let before = said(&ruby.ask("Jemalloc.figures"))[0] as f64;
        let census = ruby.look(&LookOptions { owners: pass == 0, ..LookOptions::default() });
        let after = said(&ruby.ask("Jemalloc.figures"))[0] as f64;
        let read = own(&census).allocated_bytes as f64;
        // What it has changes while it is read.
        let (least, most) = (before.min(after) * 0.97, before.max(after) * 1.03);
        let context = format!("pass {pass}: {read}, inside {before} and {after} in {version:?}");
        assert!((least..=most).contains(&read), "{context}");
    }
}

#[test]
fn decay_times_and_the_background_thread_are_those_in_effect(version: TestRuby) {
    for (conf, dirty_ms, muzzy_ms, background) in [
        (
            "dirty_decay_ms:1000,muzzy_decay_ms:3000,background_thread:true,narenas:2",
            1000,
            3000,
            true,
        ),
        ("dirty_decay_ms:-1,muzzy_decay_ms:0", -1, 0, false),
        ("dirty_decay_ms:0,muzzy_decay_ms:-1", 0, -1, false),
    ] {
        let mut command = version.command(Some(&library(version)));
        command.env("MALLOC_CONF", conf);
        let mut ruby = start_with(command);
        let inside = ruby.ask("Jemalloc.figures");
        assert_eq!(inside["dirty_ms"].as_i64(), Some(dirty_ms), "{conf} in {version:?}");
        let census = ruby.look(&LookOptions::default());
        let times = DecayTimes { dirty_ms, muzzy_ms };
        assert_eq!(
            own(&census).decay.first().map(|one| one.0),
            Some(times),
            "{conf} in {version:?}"
        );
        assert_eq!(own(&census).background_thread, Some(background), "{conf} in {version:?}");
        let of_arenas = own(&census).arenas.iter().filter(|arena| arena.decay == Some(times));
        assert!(of_arenas.count() >= 1, "{:?} of {conf} in {version:?}", own(&census).arenas);
    }
}

#[test]
fn another_name_and_another_copy_that_is_loaded_late_change_nothing() {
    require!(Ruby, Jemalloc);
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["libfast.so", "libother.so"].map(|name| folder.path().join(name));
    for copy in [&first, &second] {
        std::fs::copy(library(TestRuby::OnPath), copy).unwrap();
    }
    let mut command = TestRuby::OnPath.command(Some(&first));
    command.env("GLIBC_TUNABLES", TUNABLE);
    let mut ruby = start_with(command);
    let files = |census: &Census| -> Vec<String> {
        own(census).copies.iter().map(|copy| copy.file.clone()).collect()
    };
    let census = ruby.look(&owners());
    assert_eq!(files(&census), ["libfast.so"]);
    ruby.eval(&format!("Jemalloc.load_copy({second:?}, 3000, 3000)"));
    let census = ruby.look(&owners());
    let mut both = files(&census);
    both.sort();
    assert_eq!(both, ["libfast.so", "libother.so"]);
    // The array of numbers keeps no address.
    let lost = held(&census).nobody_sizes.iter().find(|one| one.size == 3072);
    assert!(lost.is_some_and(|one| one.amount.chunks >= 2940), "{:?}", held(&census).nobody_sizes);
}

#[test]
fn a_jemalloc_that_is_loaded_and_does_not_serve_is_not_the_allocator() {
    require!(Ruby, Jemalloc);
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("libjemalloc.so.2");
    std::fs::copy(library(TestRuby::OnPath), &copy).unwrap();
    let mut command = TestRuby::OnPath.command(None);
    command.env("GLIBC_TUNABLES", TUNABLE);
    let mut ruby = OutsideRuby::start_command(command);
    ruby.eval(&format!("require 'fiddle'; $copy = Fiddle.dlopen({copy:?}); 1"));
    let census = ruby.look(&owners());
    assert!(malloc(&census).jemalloc.is_none() && malloc(&census).arenas[0].main);
    assert!(held(&census).held_share().unwrap() >= 0.97);
}

#[test]
fn the_huge_page_allocator_of_jemalloc_is_refused_by_name() {
    require!(Roots("bookworm"), Roots("trixie"));
    for version in [TestRuby::InRoot("bookworm"), TestRuby::InRoot("trixie")] {
        let mut command = version.command(Some(&library(version)));
        command.env("MALLOC_CONF", "hpa:true");
        let ruby = start_with(command);
        let census = ruby.look(&owners());
        for part in [CensusPart::Malloc, CensusPart::Owners] {
            let reason = census.reason(part).unwrap_or_else(|| panic!("{:?}", census.malloc));
            assert!(reason.contains("HPA"), "{reason} in {version:?}");
        }
        assert!(census.heap.is_some(), "{version:?}");
    }
}

#[test]
fn an_allocator_is_named_by_what_it_exports_and_not_by_its_file() {
    require!(Ruby, Allocator("mimalloc"));
    // A library of another allocator under jemalloc's name.
    let folder = tempfile::tempdir().unwrap();
    let library = carat_settings::find_allocator(Path::new("/"), "mimalloc").unwrap();
    let copy = folder.path().join("libjemalloc.so.2");
    std::fs::copy(library, &copy).unwrap();
    let ruby = OutsideRuby::start_command(TestRuby::OnPath.command(Some(&copy)));
    let census = ruby.look(&owners());
    assert_eq!(census.malloc, None);
    let reason = census.reason(CensusPart::Malloc).unwrap();
    assert!(reason.starts_with("its allocator is mimalloc"), "{reason}");
}
