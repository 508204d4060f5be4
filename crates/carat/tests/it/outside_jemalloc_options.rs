//! jemalloc with other options, linked into Ruby, and what is advised about it: on real Rubies.

use crate::needs::{TestRuby, roots_script};
use crate::outside_jemalloc::{anonymous, calm, held, library, malloc, own, owners, start_with};
use crate::outside_ruby::OutsideRuby;
use carat_outside::census::LookOptions;
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

/// For what happens within seconds on an idle machine.
const DEADLINE: Duration = Duration::from_secs(120);
/// Objects of the program, where only malloc matters.
const FEW: &str = "1000";
/// Options after which an arena has no unused pages.
const NO_UNUSED: &str = "dirty_decay_ms:0,muzzy_decay_ms:0";

fn with_options(version: TestRuby, options: &str) -> OutsideRuby {
    let mut command = version.command(Some(&library(version)));
    command.env("MALLOC_CONF", options).env("N", FEW);
    start_with(command)
}

#[test]
fn other_options_of_jemalloc_change_nothing_of_its_exactness(version: TestRuby) {
    for options in [
        "prof:true,lg_prof_sample:10",
        "slab_sizes:1-4096:16",
        "thp:always,metadata_thp:always",
        "percpu_arena:percpu",
        "retain:false",
        "background_thread:true",
        "tcache:false",
        "narenas:1",
    ] {
        let mut ruby = with_options(version, options);
        ruby.eval("Jemalloc.fragment");
        ruby.eval("Jemalloc.settle");
        let context = format!("{options} in {version:?}");
        let share = held(&ruby.look(&owners())).held_share();
        assert!(share.is_some_and(|share| share >= 0.97), "{share:?} held with {context}");
        let census = calm(&mut ruby, &context);
        assert_eq!(malloc(&census).total().missing_bytes, 0, "{context}");
        let caches = malloc(&census).thread_caches;
        assert_eq!(caches == 0, options == "tcache:false", "{caches} caches with {context}");
    }
}

#[test]
fn a_ruby_that_is_linked_with_jemalloc_is_read_as_one_with_the_library_preloaded() {
    require!(Roots("jemalloc"));
    for (program, file) in [("ruby", "libjemalloc.so.2"), ("ruby-static", "ruby-static")] {
        let mut command = Command::new(roots_script());
        command.args(["--run", "jemalloc", "--", program]).env("N", FEW);
        let mut ruby = start_with(command);
        ruby.eval("Jemalloc.fragment");
        ruby.eval("Jemalloc.settle");
        let lost = |ruby: &OutsideRuby| {
            let census = ruby.look(&owners());
            let share = held(&census).held_share();
            assert!(share.is_some_and(|share| share >= 0.97), "{share:?} held in {program}");
            assert_eq!(own(&census).copies[0].file, file);
            let sizes = &held(&census).nobody_sizes;
            sizes.iter().find(|one| one.size == 5120).map_or(0, |one| one.amount.chunks)
        };
        let before = lost(&ruby);
        // Many, because addresses of the last ones stay in the cache of the thread that allocated them.
        ruby.eval("Jemalloc.leak(2000, 5000)");
        let found = lost(&ruby) - before;
        assert!((1960..=2010).contains(&found), "{found} in {program}");
        calm(&mut ruby, program);
    }
}

/// The advice with this code about a process: the options, and the bytes that they return at most.
fn advice(pid: u32, code: &str) -> Option<(String, u64)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carat"));
    let output = command.args(["explain", &pid.to_string(), "--alone", "--json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = json["findings"].as_array().unwrap().iter().find(|one| one["code"] == code)?;
    assert_eq!(found["setting"][0], "malloc_conf", "{found}");
    Some((found["setting"][1].as_str().unwrap().to_owned(), found["at_most"].as_u64().unwrap()))
}

/// The same, as soon as there is one.
fn awaited_advice(pid: u32, code: &str, context: &str) -> (String, u64) {
    let end = Instant::now() + DEADLINE;
    loop {
        match advice(pid, code) {
            Some(advice) => return advice,
            None => assert!(Instant::now() < end, "no {code} with {context}"),
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Waits until a purge would return little.
fn wait_until_returned(pid: u32, at_most: u64, context: &str) {
    let end = Instant::now() + DEADLINE;
    loop {
        let census = carat_outside::readings::look(pid, &LookOptions::default()).unwrap();
        let left = malloc(&census).trimmable_bytes();
        if left < at_most / 10 {
            return;
        }
        assert!(Instant::now() < end, "{left} of {at_most} left with {context}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Large strings are made and freed; nothing is allocated afterwards.
fn leave_unused(ruby: &mut OutsideRuby) -> u32 {
    ruby.eval("$large = Array.new(900) { 'x' * 60_000 }; 1");
    ruby.eval("$large = nil; 4.times { GC.start }; 1");
    ruby.pid
}

/// The same in a process that is forked: its number.
fn leave_unused_in_fork(ruby: &mut OutsideRuby) -> u32 {
    let work = "$large = Array.new(900) { 'x' * 60_000 }; $large = nil";
    let own =
        format!("Thread.new {{ {work} }}.join; 4.times {{ GC.start }}; writer.puts(1); sleep");
    let line = format!("reader, writer = IO.pipe; $child = fork {{ {own} }}; reader.gets; $child");
    ruby.eval(&line).parse().unwrap()
}

#[test]
fn advice_about_unused_pages_returns_what_it_says(version: TestRuby) {
    type Leave = fn(&mut OutsideRuby) -> u32;
    for (options, leave, code, expected) in [
        (
            "dirty_decay_ms:-1",
            leave_unused as Leave,
            "jemalloc-decay",
            "dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true",
        ),
        (
            "dirty_decay_ms:1000",
            leave_unused,
            "jemalloc-background-thread",
            "dirty_decay_ms:1000,background_thread:true",
        ),
        // A background thread does not go on in a process that is forked.
        ("dirty_decay_ms:1000", leave_unused_in_fork, "jemalloc-decay", NO_UNUSED),
    ] {
        let context = format!("{options} in {version:?}");
        let mut ruby = with_options(version, options);
        let pid = leave(&mut ruby);
        let (advised, at_most) = awaited_advice(pid, code, &context);
        assert_eq!(advised, expected, "{context}");
        assert!(at_most > 10_000_000, "{at_most} with {context}");
        let before = anonymous(pid);
        end_child(&mut ruby);
        let mut ruby = with_options(version, &advised);
        let pid = leave(&mut ruby);
        wait_until_returned(pid, at_most, &format!("{advised} in {version:?}"));
        let returned = before.saturating_sub(anonymous(pid)) as f64 / at_most as f64;
        end_child(&mut ruby);
        assert!((0.7..1.4).contains(&returned), "{returned} of {at_most} with {context}");
    }
}

fn end_child(ruby: &mut OutsideRuby) {
    ruby.eval("$child && Process.kill(:KILL, $child) && Process.wait($child); 1");
}

/// Threads that allocate one after the other, each with an arena of its own, and free most of it again.
fn scatter(ruby: &mut OutsideRuby) {
    ruby.eval(
        "$kept = []; done = Queue.new; 8.times { Thread.new { 1.times { all = Array.new(8000) { |i| 'z' * (700 + i % 7 * 40) }; \
         $kept << all.each_slice(10).map(&:first) }; done << 1; sleep }; done.pop; 4.times { GC.start } }; 1",
    );
    ruby.eval("4.times { GC.start }; 1");
}

#[test]
fn advice_about_arenas_returns_most_of_what_it_says(version: TestRuby) {
    let mut ruby = with_options(version, &format!("narenas:8,{NO_UNUSED}"));
    scatter(&mut ruby);
    let (advised, at_most) = awaited_advice(ruby.pid, "jemalloc-arenas", "narenas:8");
    assert_eq!(advised, format!("{NO_UNUSED},narenas:2"));
    let before = anonymous(ruby.pid);
    let mut ruby = with_options(version, &advised);
    scatter(&mut ruby);
    let returned = before.saturating_sub(anonymous(ruby.pid)) as f64 / at_most as f64;
    assert!((0.5..1.2).contains(&returned), "{returned} of {at_most} in {version:?}");
}
