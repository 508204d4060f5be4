//! Who keeps objects alive, read from outside, against planted leaks and Ruby's own heap dump.

use crate::needs::TestRuby;
use crate::outside_jemalloc::library;
use crate::outside_ruby::OutsideRuby;
use crate::support::Folder;
use carat_outside::census::{CensusPart, LookOptions};
use carat_outside::need::{MemoryGate, MemoryNeed, NeedPart};
use carat_outside::who::{ClassHolders, WhoCensus, WhoRequest};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// What is planted.
const PLANTS: &str = include_str!("data/who.rb");
/// Objects of each class.
const COUNT: u64 = 2000;

/// A Ruby with the plants.
fn start(version: TestRuby) -> OutsideRuby {
    let mut ruby = OutsideRuby::start(version);
    plant(&mut ruby);
    ruby
}

/// Plants the objects of each class.
pub(crate) fn plant(ruby: &mut OutsideRuby) {
    let plants = serde_json::to_string(PLANTS).unwrap().replace('#', "\\#");
    ruby.eval(&format!(
        "eval({plants}, TOPLEVEL_BINDING, 'plants.rb', 1); 3.times {{ GC.start }}; 1"
    ));
}

fn look(ruby: &OutsideRuby, classes: &[&str]) -> WhoCensus {
    let classes = classes.iter().copied().map(str::to_owned).collect();
    let who = Some(WhoRequest { classes, ..WhoRequest::default() });
    let census = ruby.look(&LookOptions { who, ..LookOptions::default() });
    census.who.unwrap_or_else(|| panic!("{:?}", census.unknown))
}

fn holders_of(ruby: &OutsideRuby, class: &str) -> ClassHolders {
    holders_of_each(ruby, &[class]).remove(0)
}

/// Who keeps the objects of each class, in this order.
fn holders_of_each(ruby: &OutsideRuby, classes: &[&str]) -> Vec<ClassHolders> {
    let mut who = look(ruby, classes);
    assert!(who.unnamed.is_empty(), "{:?}", who.unnamed);
    assert_eq!(who.classes.len(), classes.len());
    who.classes.sort_by_key(|told| classes.iter().position(|class| told.name == *class).unwrap());
    who.classes
}

/// The same text with `[n]` in place of each number in brackets.
fn without_places(text: &str) -> String {
    let mut out = String::new();
    for (at, part) in text.split('[').enumerate() {
        out += if at > 0 { "[" } else { "" };
        match part.split_once(']') {
            Some((number, rest)) if number.chars().all(|c| c.is_ascii_digit()) => {
                out += &format!("n]{rest}");
            }
            _ => out += part,
        }
    }
    out
}

/// Line of the plants on which a text stands first.
fn line(text: &str) -> usize {
    1 + PLANTS.lines().position(|line| line.contains(text)).unwrap()
}

/// References of each object, and those of the roots, by Ruby itself.
struct Inside {
    references: HashMap<u64, Vec<u64>>,
    roots: Vec<u64>,
}

impl Inside {
    fn read(ruby: &mut OutsideRuby) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path();
        ruby.eval(&format!(
            "GC.start; File.open({path:?}, 'w') {{ |file| ObjectSpace.dump_all(output: file) }}; 1"
        ));
        Self::parse(path)
    }

    fn parse(path: &Path) -> Self {
        let mut inside = Self { references: HashMap::new(), roots: Vec::new() };
        let number =
            |text: &Value| u64::from_str_radix(text.as_str()?.strip_prefix("0x")?, 16).ok();
        // Strings of other encodings are no JSON; nothing that is planted has one.
        for line in std::fs::read(path).unwrap().split(|byte| *byte == b'\n') {
            let Ok(object) = serde_json::from_slice::<Value>(line) else { continue };
            let listed = object["references"].as_array().into_iter().flatten().filter_map(number);
            let references: Vec<u64> = listed.chain(number(&object["class"])).collect();
            match number(&object["address"]) {
                Some(address) => drop(inside.references.insert(address, references)),
                None => inside.roots.extend(references),
            }
        }
        inside
    }

    fn reached_without(&self, left_out: Option<u64>) -> HashSet<u64> {
        let mut reached = HashSet::new();
        let mut waiting: Vec<u64> = self.roots.clone();
        while let Some(object) = waiting.pop() {
            let is_known = self.references.contains_key(&object) && Some(object) != left_out;
            if is_known && reached.insert(object) {
                waiting.extend(&self.references[&object]);
            }
        }
        reached
    }
}

#[test]
fn every_planted_object_is_found_by_the_way_on_which_it_is_kept(version: TestRuby) {
    assert_ways(&start(version));
}

#[test]
fn every_one_is_found_under_jemalloc_too(version: TestRuby) {
    let mut ruby = OutsideRuby::start_command(version.command(Some(&library(version))));
    plant(&mut ruby);
    assert_ways(&ruby);
}

/// Asserts that each planted object is found by the way on which it is kept.
fn assert_ways(ruby: &OutsideRuby) {
    let heard = format!("subscribe at plants.rb:{}", line("def subscribe"));
    let bound = format!("finalizer_for at plants.rb:{}", line("def finalizer_for"));
    let local = format!("wait_with at plants.rb:{}", line("def wait_with"));
    let array = format!("Array ({},000 elements)", COUNT / 1000);
    let ways = [
        (
            "Cached",
            format!("Cached ← [a String] of Hash ({},000 entries) ← @store of Cache", COUNT / 1000),
            "",
        ),
        (
            "Logged",
            format!("Logged ← [n] of {array} ← @entries of Audit ← constant Audit::CURRENT"),
            "",
        ),
        (
            "Heard",
            format!(
                "Heard ← captured variable heard of {heard} ← Proc ← [n] of {array} ← global variable $subscribers"
            ),
            "",
        ),
        ("Ticketed", format!("Ticketed ← [n] of {array} ← [:tickets] of "), ")"),
        (
            "Stored",
            format!(
                "Stored ← [n] of {array} ← [:sessions] of Hash (1 entry) ← [:list] of Hash (1 entry) ← constant Deep::Settings::STORE"
            ),
            "",
        ),
        ("Rowed", format!("Rowed ← [n] of {array} ← @@rows of Registry"), ""),
        ("Bound", format!("Bound ← captured variable bound of {bound} ← Proc ← "), "a finalizer"),
        ("Local", format!("Local ← [n] of {array} ← local variable kept of {local}"), ""),
        (
            "Listed",
            format!("Listed ← .left of Couple ← [n] of {array} ← @pairs of the main object"),
            "",
        ),
    ];
    // In one reading, because each of them takes seconds.
    let holders = holders_of_each(ruby, &ways.each_ref().map(|(class, ..)| *class));
    for ((class, start, end), found) in ways.into_iter().zip(holders) {
        assert_eq!(found.objects, COUNT, "{class}");
        let first = &found.ways[0];
        let way = without_places(&first.way.to_string());
        assert!(way.starts_with(&start) && way.ends_with(end), "{way}\nis not\n{start}…{end}");
        // On Ruby 3.4 up to one in 25 was reached in another way too, which then was told first.
        assert!(first.objects * 100 >= COUNT * 95, "{class}: {} by\n{way}", first.objects);
        if class != "Local" && class != "Bound" && class != "Ticketed" {
            assert!(end.is_empty() && way == start, "{way}\nis not\n{start}");
        }
    }
}

#[test]
fn without_a_holder_as_many_objects_would_go_as_ruby_itself_would_lose(version: TestRuby) {
    let mut ruby = start(version);
    let inside = Inside::read(&mut ruby);
    let all = inside.reached_without(None);
    let holders = ruby.ask("HOLDERS.to_json");
    let classes = ["Cached", "Logged", "Heard", "Ticketed", "Stored", "Rowed", "Couple"];
    for (class, found) in classes.into_iter().zip(holders_of_each(&ruby, &classes)) {
        let address = holders[class].as_str().unwrap();
        let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
        let expected = all.len() - inside.reached_without(Some(address)).len();
        assert!(expected as u64 > COUNT, "{class}: {expected}");
        let found = found.holder.unwrap_or_else(|| panic!("no holder of {class}"));
        let off = found.objects.abs_diff(expected as u64);
        assert!(
            off * 100 <= expected as u64,
            "{class}: {} of {expected}\n{}",
            found.objects,
            found.way
        );
        assert!(found.bytes >= found.objects * 16, "{found:?}");
    }
}

#[test]
fn what_only_weak_tables_lead_to_is_garbage_and_has_no_holder(version: TestRuby) {
    let mut ruby = start(version);
    let count: u64 = ruby
        .eval("GC.start; GC.disable; $weak = ObjectSpace::WeakMap.new; 500.times { |n| key = Keepsake.new(n); $weak[key] = key }; $weak.size")
        .parse()
        .unwrap();
    assert_eq!(count, 500);
    let found = holders_of(&ruby, "Keepsake");
    // A few are still on the stack.
    assert!(found.garbage_objects >= Some(480), "{found:?}");
    assert!(found.ways.iter().all(|way| !way.way.to_string().contains("WeakMap")), "{found:?}");
}

#[test]
fn without_a_class_the_largest_holders_are_named(version: TestRuby) {
    let mut ruby = start(version);
    ruby.eval(
        "$largest = Array.new(400_000) { |number| \"largest #{number}\" }; 3.times { GC.start }; 1",
    );
    let who = look(&ruby, &[]);
    assert_eq!(who.classes.len(), 3);
    let named: Vec<String> = who.holders.iter().map(|holder| holder.way.to_string()).collect();
    let largest = "Array (400,000 elements) ← global variable $largest";
    let found = who.holders.iter().find(|holder| holder.way.to_string() == largest);
    assert!(found.is_some_and(|found| found.objects >= 396_000), "{named:#?}");
    let sizes: Vec<u64> = who.holders.iter().map(|holder| holder.bytes).collect();
    assert!(sizes.is_sorted_by(|one, other| one >= other) && sizes.len() <= 5, "{sizes:?}");
    assert!(!named.iter().any(|way| way.contains("table of symbols")), "{named:#?}");
}

#[test]
fn a_copy_or_a_graph_for_which_there_is_no_memory_is_refused_and_the_rest_is_told() {
    require!(Ruby);
    let ruby = start(TestRuby::OnPath);
    for part in [NeedPart::Copy, NeedPart::Graph] {
        let refuse = move |need: MemoryNeed| {
            if need.part == part { Err("no room".to_owned()) } else { Ok(()) }
        };
        let memory = MemoryGate::new(refuse);
        let who = Some(WhoRequest::default());
        let census = ruby.look(&LookOptions { who, memory, ..LookOptions::default() });
        assert_eq!(census.reason(CensusPart::Who), Some("no room"), "{part:?}");
        assert!(census.who.is_none() && census.heap.is_some() && census.classes.is_some());
    }
}

/// Old words in whatever Ruby makes when classes are made: freed chunks of every small size with an address in all of their words. The
/// first two are malloc's.
const OLD_WORDS: &str = "require 'fiddle'; class Held; end; Thread.current[:held] = Array.new(2_000) { Held.new }; GC.start; GC.disable; \
    at = ObjectSpace.dump(Thread.current[:held])[/0x(\\h+)/, 1].hex; \
    fill = proc { (24..136).step(16) { |size| chunks = Array.new(400) { Fiddle.malloc(size) }; \
      chunks.each { |one| Fiddle::Pointer.new(one)[0, size] = ([1, 2] + [at] * (size / 8 - 2)).pack('Q*') }; chunks.each { |one| Fiddle.free(one) } } }; \
    60.times { |n| fill.call if n % 10 == 0; \
      over = Object.const_set(\"Over#{n}\", Class.new(BasicObject)); under = Object.const_set(\"Under#{n}\", Class.new(over)); \
      part = Object.const_set(\"Part#{n}\", Module.new); \
      under.class_eval '@a = 1; @b = 2; @@c = 3; def self.c; @@c; end; def a(b, c); b; end; X = 7; class << self; attr_accessor :z; end'; \
      part.module_eval '@d = 1; @@m = 4; def self.m; @@m; end; def p(q); q; end; refine(String) { def r; 1; end }'; \
      under.c; under.z = 4; part.m; under.include part; under.prepend Module.new }; 1";

#[test]
fn what_the_memory_of_classes_and_their_code_held_before_is_no_holder(version: TestRuby) {
    let mut ruby = OutsideRuby::start(version);
    ruby.eval(OLD_WORDS);
    let found = holders_of(&ruby, "Held");
    for way in &found.ways {
        let text = way.way.to_string();
        assert!(text.contains("[:held] of "), "{text} in {version:?}");
    }
}

/// Old words in the memory that the stacks for signals of new threads get: 16 KiB, or from glibc 2.34 on four times what the kernel says
/// that a signal needs (`AT_MINSIGSTKSZ`), if that is more.
const OLD_SIGNAL_STACKS: &str = "require 'fiddle'; class Held; end; held = Array.new(40) { Held.new }; GC.start; GC.disable; \
    needs = File.binread('/proc/self/auxv').unpack('Q*').each_slice(2).to_h[51].to_i; \
    $between = [16_384, needs * 4].flat_map { |size| made = held.map { |one| \
      place = Fiddle.malloc(size); Fiddle::Pointer.new(place)[0, size] = [Fiddle.dlwrap(one)].pack('Q') * (size / 8); [place, Fiddle.malloc(64)] }; \
      made.map { |place, between| Fiddle.free(place); between } }; \
    held = nil; $threads = Array.new(10) { Thread.new { sleep } }; sleep 0.1 until $threads.all?(&:stop?); 1";

#[test]
fn what_the_stack_for_signals_of_a_thread_held_before_is_no_holder(version: TestRuby) {
    let mut ruby = OutsideRuby::start(version);
    ruby.eval(OLD_SIGNAL_STACKS);
    let found = holders_of(&ruby, "Held");
    // The stack on which they were made may still have some.
    for way in &found.ways {
        let text = way.way.to_string();
        assert!(text.contains("the stack of thread"), "{text} in {version:?}");
    }
}

/// Instance variables of strings that are removed again. From 3.3 on the collector still marks the last one.
const REMOVED: &str = "class Held; end; GC.disable; \
    $texts = Array.new(200) { +\"\" }; $texts.each { |text| text.instance_variable_set(:@held, Held.new) }; \
    $texts.each { |text| text.remove_instance_variable(:@held) }; \
    $later = Array.new(400) { text = +\"\"; text.instance_variable_set(:@one, 1); text.instance_variable_set(:@two, 2); text }; 1";

#[test]
fn a_string_keeps_as_many_of_its_removed_variables_as_the_collector_leaves(version: TestRuby) {
    let mut ruby = OutsideRuby::start(version);
    ruby.eval(REMOVED);
    let found = holders_of(&ruby, "Held");
    let reached: u64 = found.ways.iter().map(|way| way.objects).sum();
    let left = ruby.eval("GC.enable; 4.times { GC.start }; ObjectSpace.each_object(Held).count");
    let left: u64 = left.parse().unwrap();
    assert!(reached.abs_diff(left) <= 2, "{reached}, not {left}, in {version:?}: {:?}", found.ways);
}

/// The first eight objects give their class as many shapes as it may have; the others keep their variables in tables.
const TOO_COMPLEX: &str = "class Held; end; class Bag; end; \
    $bags = Array.new(200) { |n| bag = Bag.new; bag.instance_variable_set(\"@own#{n}\", 1); bag.instance_variable_set(:@held, Held.new); bag }; 1";

#[test]
fn objects_with_too_many_shapes_keep_what_is_in_their_tables(version: TestRuby) {
    let mut ruby = OutsideRuby::start(version);
    ruby.eval(TOO_COMPLEX);
    let found = holders_of(&ruby, "Held");
    let by_variable = found.ways.iter().filter(|way| way.way.to_string().contains("@held of Bag"));
    assert_eq!(by_variable.map(|way| way.objects).sum::<u64>(), 200, "{:?}", found.ways);
}

/// Variables that the first object of a class first had in its slot, where they still are.
const GROWN: &str = "class Held; end; GC.disable; \
    $grown = Array.new(20) { begin; throw Held.new; rescue UncaughtThrowError => error; error; end }; 1";

#[test]
fn a_variable_that_left_its_slot_has_the_name_that_it_has_elsewhere(version: TestRuby) {
    let mut ruby = OutsideRuby::start(version);
    ruby.eval(GROWN);
    let found = holders_of(&ruby, "Held");
    let ways: Vec<u64> = found.ways.iter().map(|way| way.objects).collect();
    assert_eq!(ways, [20], "{:?} in {version:?}", found.ways);
}

/// A captured variable, and code with and without local variables by turns, which lies side by side under jemalloc. Each sixth of 6,500
/// pieces is looked at: most of them of one kind, as the objects before them have filled the holes of older pages.
const BY_TURNS: &str = "class Held; end; def keep; held = Held.new; proc { held }; end; $kept = keep; GC.start; GC.disable; \
    $rest_of_pages = Array.new(200_000) { Object.new }; __EXTRA__; rest = 6500 - ObjectSpace.count_imemo_objects[:imemo_iseq]; \
    Object.class_eval((0...rest / 2).map { |n| \"def named#{n}(first, second); first; end; def plain#{n}; 1; end\" }.join(';')); rest";

/// Three pieces more before them, which is odd, make it the other kind.
#[test]
fn a_variable_has_the_name_that_its_own_code_gives_it_where_other_code_is_its_neighbour(
    version: TestRuby,
) {
    for extra in ["1", "Object.class_eval('def one; end; def two; end')"] {
        let mut ruby = OutsideRuby::start_command(version.command(Some(&library(version))));
        let by_turns = ruby.eval(&BY_TURNS.replace("__EXTRA__", extra));
        assert!(by_turns.parse::<u64>().unwrap() > 2000, "{by_turns}");
        let found = holders_of(&ruby, "Held");
        let ways: Vec<String> = found.ways.iter().map(|way| way.way.to_string()).collect();
        let named = |way: &String| way.starts_with("Held ← captured variable held of keep at ");
        assert!(ways.len() == 1 && ways.iter().all(named), "{ways:?} in {version:?}");
    }
}

/// A thread that has ended, whose object nothing may collect.
const ENDED: &str = "class Stacked; end; class Local; end; GC.disable; $ended = Thread.new { \
    stacked = Array.new(200) { Stacked.new }; Thread.current[:held] = Array.new(200) { Local.new }; stacked.size }; \
    $ended.join; 1";

#[test]
fn a_thread_that_has_ended_keeps_its_locals_and_nothing_of_its_stacks(version: TestRuby) {
    let mut ruby = OutsideRuby::start(version);
    ruby.eval(ENDED);
    let found = holders_of(&ruby, "Stacked");
    assert!(found.garbage_objects >= Some(198), "{found:?} in {version:?}");
    let kept = "[:held] of Thread of block ";
    let way_of_local = |ruby: &OutsideRuby| holders_of(ruby, "Local").ways[0].way.to_string();
    let text = way_of_local(&ruby);
    assert!(text.contains(kept), "{text} in {version:?}");
    assert!(text.ends_with(" ← global variable $ended"), "{text} in {version:?}");
    // One that runs on the same stack, where the array may still be, is another thread.
    ruby.eval("$runs = Thread.new { sleep }; sleep 0.1; 1");
    let text = way_of_local(&ruby);
    assert!(text.contains(kept) || text.contains(" ← the stack "), "{text} in {version:?}");
}

#[test]
fn explain_names_who_keeps_a_class_in_a_few_lines() {
    require!(Ruby);
    let ruby = start(TestRuby::OnPath);
    let (folder, pid) = (Folder::new("who"), ruby.pid.to_string());
    let ran = folder.run(&["explain", &pid, "--who"]);
    ran.assert_code(0).assert_says("What would go without one object:");
    assert!(ran.out.lines().count() <= 12, "{}", ran.out);
    let ran = folder.run(&["explain", &pid, "--who", "Rowed"]);
    ran.assert_code(0).assert_says("@@rows of Registry").assert_says("Kept alive only by Array");
    let ran = folder.run(&["explain", &pid, "--who", "Rowd"]);
    ran.assert_code(1).assert_says("there is no object of class Rowd");
    let ran = folder.run(&["explain", &pid, "--who", "Rowed", "--json"]);
    let json: Value = serde_json::from_str(&ran.assert_code(0).out).unwrap();
    let class = &json["census"]["processes"][0]["who"]["classes"][0];
    assert_eq!((&class["name"], &class["objects"]), (&"Rowed".into(), &COUNT.into()));
    assert!(!ran.out.contains("with a long enough name"), "contents of strings are never printed");
}

#[test]
fn the_diagnosis_does_not_call_garbage_unknown_where_who_keeps_what_was_asked() {
    require!(Ruby);
    let mut ruby = OutsideRuby::start(TestRuby::OnPath);
    ruby.eval("$rows = Array.new(400_000) { |number| \"row #{number}\" }; GC.start; GC.disable; 200_000.times { |number| number.to_s }; 1");
    let (folder, pid) = (Folder::new("who-garbage"), ruby.pid.to_string());
    let ran = folder.run(&["explain", &pid, "--who", "--details"]);
    let told = ran.assert_code(0).assert_says("a full collection would free").out.clone();
    let most = told.lines().find(|line| line.starts_with("most")).unwrap();
    assert!(most.contains("String") && most.ends_with(" of them garbage"), "{told}");
    for unknown in ["not told apart", "garbage is not known"] {
        assert!(!told.contains(unknown), "{told}");
    }
}
