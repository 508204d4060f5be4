//! Objects that nobody keeps any longer, of which no holder may be named, against what the collector leaves of them.

use crate::jit::YJIT;
use crate::needs::TestRuby;
use crate::outside_jemalloc::library;
use crate::outside_ruby::OutsideRuby;
use carat_outside::census::{Census, LookOptions};
use carat_outside::readings::look;
use carat_outside::who::WhoRequest;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Makes the garbage.
const GARBAGE: &str = include_str!("data/garbage.rb");
/// Objects of a kind that the collector may find later and no longer, as by what is on a stack: a fiber has ten.
const MORE: u64 = 3;
const FEWER: u64 = 12;

/// Makes it possible to make it in a Ruby; returns the names of its classes.
fn prepare(ruby: &mut OutsideRuby) -> Vec<String> {
    let program = serde_json::to_string(GARBAGE).unwrap().replace('#', "\\#");
    ruby.eval(&format!("eval({program}, TOPLEVEL_BINDING, 'garbage.rb', 1); 1"));
    let names = ruby.ask("Garbage::CLASSES.values.map(&:name).to_json");
    serde_json::from_value(names).unwrap()
}

fn options(classes: &[String]) -> LookOptions {
    let who = Some(WhoRequest { classes: classes.to_vec(), ..WhoRequest::default() });
    LookOptions { who, ..LookOptions::default() }
}

/// Asserts that as many objects are reached as the collector left, but for those of old words on the main thread's stack, of which other
/// ones are there when it collects.
fn assert_reached(census: Census, classes: &[String], left: &Value, version: TestRuby) {
    let main = format!(" of thread {} ", census.process);
    let who = census.who.unwrap_or_else(|| panic!("{:?}", census.unknown));
    assert_eq!(who.classes.len(), classes.len());
    // Also where most code was loaded from a cache and not collected yet.
    assert!(who.unnamed.is_empty(), "{:?} in {version:?}", who.unnamed);
    // It is at rest, so nothing may be said to have changed meanwhile.
    assert_eq!(who.left_out, 0, "{version:?}");
    for class in &who.classes {
        let garbage = class.garbage_objects.unwrap_or_else(|| panic!("{class:?}"));
        let by_stack = class.ways.iter().filter(|way| way.way.to_string().contains(&main));
        let reached = class.objects - garbage - by_stack.map(|way| way.objects).sum::<u64>();
        let expected = left[&class.name].as_u64().unwrap();
        let ways: Vec<String> = class.ways.iter().map(|way| way.way.to_string()).collect();
        assert!(
            reached <= expected + MORE && reached + FEWER >= expected,
            "{reached} of {}, not {expected} in {version:?}: {ways:#?}",
            class.name
        );
    }
    let objects: u64 = who.classes.iter().map(|class| class.objects).sum();
    assert!(objects > 10_000, "{objects}");
}

/// Asserts it of garbage that the Ruby makes itself.
fn assert_own_garbage(mut ruby: OutsideRuby, version: TestRuby) {
    let classes = prepare(&mut ruby);
    ruby.eval("Garbage.make");
    let census = ruby.look(&options(&classes));
    let left = ruby.ask("Garbage.left.to_json");
    assert_reached(census, &classes, &left, version);
}

/// Asserts it of what a child makes that the Ruby forks, and of what the threads of its parent had.
fn assert_garbage_of_child(mut ruby: OutsideRuby, version: TestRuby) {
    let classes = prepare(&mut ruby);
    let folder = tempfile::tempdir().unwrap();
    let [ready, go, told] = ["ready", "go", "told"].map(|name| folder.path().join(name));
    ruby.eval(&format!(
        "[{ready:?}, {go:?}, {told:?}].each {{ |name| File.mkfifo(name) }}; \
         $child = Garbage.forked {{ File.write({ready:?}, ''); File.read({go:?}); File.write({told:?}, Garbage.left.to_json) }}"
    ));
    let child = ruby.eval("$child").parse().unwrap();
    std::fs::read(ready).unwrap();
    let census = look(child, &options(&classes)).unwrap_or_else(|error| panic!("{error}"));
    std::fs::write(go, "").unwrap();
    let mut left = String::new();
    BufReader::new(std::fs::File::open(told).unwrap()).read_line(&mut left).unwrap();
    ruby.eval("Process.wait($child)");
    assert_reached(census, &classes, &serde_json::from_str(&left).unwrap(), version);
}

#[test]
fn garbage_of_every_kind_has_no_holder(version: TestRuby) {
    assert_own_garbage(OutsideRuby::start(version), version);
}

#[test]
fn neither_has_it_under_jemalloc(version: TestRuby) {
    assert_own_garbage(
        OutsideRuby::start_command(version.command(Some(&library(version)))),
        version,
    );
}

#[test]
fn neither_has_what_the_threads_of_the_parent_had_in_a_forked_child(version: TestRuby) {
    assert_garbage_of_child(OutsideRuby::start(version), version);
}

#[test]
fn nor_in_one_under_jemalloc(version: TestRuby) {
    let command = version.command(Some(&library(version)));
    assert_garbage_of_child(OutsideRuby::start_command(command), version);
}

/// A Ruby that compiles whatever is called.
fn compiling(preload: Option<&Path>) -> OutsideRuby {
    let mut command = YJIT.command(preload);
    command.args(["--yjit", "--yjit-call-threshold=1"]);
    let mut ruby = OutsideRuby::start_command(command);
    assert_eq!(ruby.eval("RubyVM::YJIT.enabled?"), "true");
    ruby
}

#[test]
fn neither_has_it_where_all_code_is_compiled() {
    require!(Roots("yjit"));
    assert_own_garbage(compiling(None), YJIT);
    assert_own_garbage(compiling(Some(&library(YJIT))), YJIT);
}

#[test]
fn nor_in_a_forked_child_where_all_code_is_compiled() {
    require!(Roots("yjit"));
    assert_garbage_of_child(compiling(None), YJIT);
    assert_garbage_of_child(compiling(Some(&library(YJIT))), YJIT);
}
