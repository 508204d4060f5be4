//! Slots, types and classes read from outside equal what Ruby counts inside, on every version.

use crate::needs::TestRuby;
use crate::outside_ruby::{OutsideRuby, number, pss};
use carat_outside::census::{CensusPart, LookOptions};
use carat_outside::heap::{ClassCount, HeapCensus};
use carat_outside::need::{MemoryGate, NeedPart};
use carat_outside::readings::look;
use carat_outside::refusal::Refused;
use serde_json::Value;

/// Reads slots and classes only.
fn options() -> LookOptions {
    LookOptions { malloc: false, ..LookOptions::default() }
}

fn objects(classes: &[ClassCount], name: &str) -> u64 {
    classes.iter().filter(|class| class.name == name).map(|class| class.objects).sum()
}

fn assert_slots(heap: &HeapCensus, truth: &Value, version: TestRuby) {
    let (count, stat) = (&truth["count"], &truth["stat"]);
    assert_eq!(heap.slots, number(count, "TOTAL"), "slots of {version:?}");
    let pages = heap.pages + heap.empty_pages;
    assert_eq!(pages, number(stat, "heap_allocated_pages"), "pages of {version:?}");
    let free = heap.free_slots.abs_diff(number(count, "FREE"));
    assert!(free <= 20, "free slots differ by {free} in {version:?}");
    for (kind, inside) in count.as_object().unwrap() {
        if !kind.starts_with("T_") || kind == "T_NONE" {
            continue;
        }
        let outside = heap.types.iter().find(|found| &found.name == kind);
        let outside = outside.map_or(0, |found| found.objects);
        let difference = outside.abs_diff(inside.as_u64().unwrap());
        assert!(difference <= 20, "{kind}: {outside} outside, {inside} inside in {version:?}");
    }
}

#[test]
fn slots_types_and_ages_equal_what_ruby_counts(version: TestRuby) {
    let mut ruby = OutsideRuby::start(version);
    // The first answer may need another page of the heap.
    ruby.ask("Truth.slots");
    let census = ruby.look(&options());
    let truth = ruby.ask("Truth.slots");
    assert_eq!(census.ruby, truth["ruby"].as_str().unwrap());
    let heap = census.heap.as_ref().unwrap();
    assert_slots(heap, &truth, version);
    let pools: u64 = heap.pools.iter().map(|pool| pool.slots).sum();
    let map: u64 = heap.map.iter().map(|page| page.live).sum();
    assert_eq!((pools, map), (heap.slots, heap.live_slots()), "{version:?}");
    let ages = heap.ages.unwrap_or_else(|| panic!("{:?}", census.unknown));
    let old = ages.old.abs_diff(number(&truth["stat"], "old_objects"));
    assert!(old <= 20, "old objects differ by {old} in {version:?}");
    assert_eq!(ages.by_age.iter().sum::<u64>(), heap.live_slots());
    // After `GC.start` nothing is left to sweep.
    assert_eq!(heap.unswept.map(|unswept| unswept.slots), Some(0), "{version:?}");
    assert_eq!(census.left_out, Default::default(), "{version:?}");
    assert!(census.cost.read_bytes > heap.live_bytes);
}

#[test]
fn objects_by_class_equal_what_ruby_counts(version: TestRuby) {
    let mut ruby = OutsideRuby::start(version);
    let census = ruby.look(&options());
    let inside = ruby.ask("Truth.classes");
    let classes = census.classes.as_ref().unwrap_or_else(|| panic!("{:?}", census.unknown));
    let mut wrong = Vec::new();
    for (name, count) in inside.as_object().unwrap() {
        let (outside, count) = (objects(classes, name), count.as_u64().unwrap());
        if outside.abs_diff(count) > (count / 100).max(3) {
            wrong.push(format!("{name}: {outside} outside, {count} inside"));
        }
    }
    assert!(inside.as_object().unwrap().len() >= 40, "{inside}");
    assert!(wrong.len() <= 2, "{version:?}: {wrong:?}");
    assert_eq!(objects(classes, "Wide"), 5000, "{version:?}");
    assert_eq!(objects(classes, "Deep::Inner::Node"), 10_000, "{version:?}");
    assert_eq!(objects(classes, "(anonymous < Post)"), 500, "{version:?}");
    assert_eq!(objects(classes, "(unresolved)"), 0, "{version:?}");
    let sum: u64 = classes.iter().map(|class| class.objects).sum();
    assert_eq!(sum, census.heap.unwrap().live_slots(), "{version:?}");
}

#[test]
fn the_pages_that_a_class_keeps_alive_are_counted(version: TestRuby) {
    let mut ruby = OutsideRuby::start(version);
    // The first fill free slots among other objects, the rest new pages; after this such a page holds one object.
    ruby.eval("class Filler; end; GC.start; $a = Array.new(300_000) { Filler.new }; 1");
    ruby.eval("$b = $a.each_slice(3000).map { |part| part.first }; $a = nil; GC.start; 1");
    let options = LookOptions { class: Some("Filler".into()), ..options() };
    let census = ruby.look(&options);
    let places = census.class.unwrap();
    assert_eq!(places.objects, objects(census.classes.as_ref().unwrap(), "Filler"), "{version:?}");
    // A conservative mark of the stack may keep a few more.
    assert!((100..130).contains(&places.objects), "{places:?} in {version:?}");
    assert!(places.pages >= 80 && places.pages_kept_alone >= 30, "{places:?} in {version:?}");
    assert!(places.pages_kept_alone <= places.pages);
    let page = census.heap.unwrap().page_bytes;
    let kept = places.free_bytes_kept_alone as f64 / (places.pages_kept_alone * page) as f64;
    assert!(kept > 0.9, "{places:?} in {version:?}");
    assert_eq!(places.by_age.map(|ages| ages.iter().sum()), Some(places.objects));
}

#[test]
fn garbage_that_is_not_swept_yet_is_counted_as_such() {
    require!(Ruby);
    let mut ruby = OutsideRuby::start(TestRuby::OnPath);
    ruby.eval("$garbage = Array.new(100_000) { Object.new }; GC.start; $garbage = nil; 1");
    ruby.eval("GC.start(immediate_sweep: false); 1");
    let census = ruby.look(&options());
    let heap = census.heap.unwrap();
    // Some pages are swept at once.
    let unswept = heap.unswept.unwrap();
    assert!((50_000..130_000).contains(&unswept.slots), "{unswept:?}");
    assert!(unswept.bytes >= unswept.slots * 40);
}

#[test]
fn reading_a_forked_tree_leaves_its_pages_shared(version: TestRuby) {
    let mut ruby = OutsideRuby::start(version);
    let children = "2.times.map { fork { sleep } }.inspect";
    let answer = ruby.eval(children);
    let digits = answer.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    let children: Vec<u32> = digits.map(|part| part.parse().unwrap()).collect();
    assert_eq!(children.len(), 2, "{answer}");
    let tree = [&[ruby.pid], &children[..]].concat();
    // The children run some Ruby before they sleep.
    crate::support::wait_until("the children sleep", || {
        children.iter().all(|child| {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S"))
        })
    });
    let before = pss(&tree);
    for process in &tree {
        for owners in [false, true] {
            let read = look(*process, &LookOptions { owners, ..LookOptions::default() }).unwrap();
            assert!(read.heap.is_some(), "{:?}", read.unknown);
        }
    }
    let after = pss(&tree);
    ruby.eval(&format!(
        "{children:?}.each {{ |pid| Process.kill(:KILL, pid); Process.wait(pid) }}; 1"
    ));
    assert!(before.abs_diff(after) <= 100, "{before} kB before, {after} kB after in {version:?}");
}

#[test]
fn a_server_running_flat_out_is_read_without_a_wrong_total(version: TestRuby) {
    let mut ruby = OutsideRuby::start(version);
    ruby.eval(
        "Thread.new { all = []; i = 0; loop { i += 1; all << \"busy #{i} \" * (i % 30); all << { k: i, v: [i] }; \
         all = all.last(2000) if all.size > 5000 } }; 1",
    );
    for pass in 0..20 {
        let census = ruby.look(&options());
        let heap = census.heap.as_ref().unwrap();
        let share = census.left_out.slots_in_flux as f64 / heap.slots as f64;
        assert!(share <= 0.01, "pass {pass}: {:?} of {} slots", census.left_out, heap.slots);
        let classes = census.classes.as_ref().unwrap();
        let sum: u64 = classes.iter().map(|class| class.objects).sum();
        assert_eq!(sum, heap.live_slots());
        // These do not change while the thread runs.
        for (name, expected) in [("Wide", 5000), ("Deep::Inner::Node", 10_000), ("Six", 5000)] {
            let found = objects(classes, name);
            assert!(found.abs_diff(expected) <= 50, "pass {pass}: {found} {name} in {version:?}");
        }
        let unresolved = objects(classes, "(unresolved)");
        assert!(unresolved <= heap.slots / 1000, "pass {pass}: {unresolved} in {version:?}");
    }
}

#[test]
fn a_ruby_that_collects_compacts_and_forks_meanwhile_gives_sums_that_agree(version: TestRuby) {
    let mut ruby = OutsideRuby::start(version);
    ruby.eval(
        "$passes = 0; $moving = Thread.new { loop { GC.start; GC.compact; Process.wait(fork { exit! }); $passes += 1 } }; 1",
    );
    for pass in 0..6 {
        let census = ruby.look(&LookOptions { owners: pass % 3 == 0, ..LookOptions::default() });
        // A compaction may move the class that says where names are.
        let Some(heap) = &census.heap else { panic!("{version:?}: {:?}", census.unknown) };
        let map: u64 = heap.map.iter().map(|page| page.live).sum();
        assert_eq!(map, heap.live_slots(), "{version:?}, pass {pass}");
        if let Some(classes) = &census.classes {
            let sum: u64 = classes.iter().map(|class| class.objects).sum();
            assert_eq!(sum, heap.live_slots(), "{version:?}, pass {pass}");
        }
    }
    let passes: u64 = ruby.eval("$moving.kill.join; $passes").parse().unwrap();
    assert!(passes >= 1, "{version:?} did not compact meanwhile");
    // Objects that moved while they were read were counted twice, or not at all. Now none moves.
    let classes = ruby.look(&options()).classes.unwrap();
    for (name, expected) in [("Wide", 5000), ("Deep::Inner::Node", 10_000)] {
        assert_eq!(objects(&classes, name), expected, "{name} in {version:?}");
    }
}

#[test]
fn a_ruby_that_becomes_another_program_while_it_is_read_gives_no_figures() {
    require!(Ruby);
    for delay in [0, 2, 5, 10, 20, 40, 80] {
        let mut ruby = OutsideRuby::start(TestRuby::OnPath);
        let pid = ruby.pid;
        let reader = std::thread::spawn(move || look(pid, &options()));
        std::thread::sleep(std::time::Duration::from_millis(delay));
        ruby.begin("exec('sleep', '60')");
        match reader.join().unwrap() {
            Ok(census) => assert!(census.heap.unwrap().live_slots() > 100_000),
            Err(refused) => {
                let expected = matches!(refused, Refused::Ended(_) | Refused::NotRuby(_));
                assert!(expected, "{refused}");
            }
        }
        let is_sleep = || look(pid, &options()).is_err_and(|e| matches!(e, Refused::NotRuby(_)));
        crate::support::wait_until("the other program runs", is_sleep);
    }
}

/// Objects of several Ractors, each of which has its own list of free slots.
fn assert_ractors(version: TestRuby) {
    let mut ruby = OutsideRuby::start(version);
    ruby.eval(
        "$VERBOSE = nil; $ractors = Array.new(3) { |n| Ractor.new(n) { |n| kept = Array.new(5_000) { |i| \"ractor #{n} #{i}\" }; \
         Ractor.yield(1); Ractor.receive; kept.size } }; $ractors.each(&:take); GC.start; 1",
    );
    // The first answer may need another page of the heap, or give one back.
    ruby.ask("Truth.slots");
    let before = ruby.look(&options());
    let truth = ruby.ask("Truth.slots");
    assert_slots(before.heap.as_ref().unwrap(), &truth, version);
    let strings = objects(before.classes.as_ref().unwrap(), "String");
    assert_eq!(ruby.eval("$ractors.each { |ractor| ractor.send(1).take }; $ractors = nil; 3.times { GC.start }; 1"), "1");
    let after = objects(ruby.look(&options()).classes.as_ref().unwrap(), "String");
    assert!(strings - after >= 14_000, "{strings} strings before, {after} after in {version:?}");
}

#[test]
fn the_slots_of_several_ractors_equal_what_ruby_counts_on_ruby_in_path() {
    require!(Ruby);
    assert_ractors(TestRuby::OnPath);
}

#[test]
fn the_slots_of_several_ractors_equal_what_ruby_counts_on_ruby_3_3() {
    require!(RubyOf(TestRuby::InRoot("trixie")));
    assert_ractors(TestRuby::InRoot("trixie"));
}

#[test]
fn the_slots_of_several_ractors_equal_what_ruby_counts_on_ruby_3_4() {
    require!(RubyOf(TestRuby::InRoot("ruby34")));
    assert_ractors(TestRuby::InRoot("ruby34"));
}

#[test]
fn objects_are_pinned_only_after_a_collection_that_compacted(version: TestRuby) {
    let mut ruby = OutsideRuby::start(version);
    let pinned = |ruby: &OutsideRuby| {
        let heap = ruby.look(&options()).heap.unwrap();
        let pages: Option<u64> = heap.map.iter().map(|page| page.pinned).sum();
        assert_eq!(heap.ages.unwrap().pinned, pages, "{version:?}");
        pages
    };
    assert_eq!(pinned(&ruby), None, "{version:?}");
    ruby.eval("GC.compact; 1");
    assert!(pinned(&ruby) > Some(0), "{version:?}");
    ruby.eval("GC.start; 1");
    assert_eq!(pinned(&ruby), None, "{version:?}");
}

#[test]
fn what_is_not_a_ruby_or_not_there_is_refused_by_name() {
    let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let refused = look(sleeper.id(), &options()).unwrap_err();
    assert!(matches!(refused, Refused::NotRuby(_)), "{refused}");
    assert!(refused.to_string().contains("runs no Ruby"), "{refused}");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let refused = look(sleeper.id(), &options()).unwrap_err();
    assert!(matches!(refused, Refused::Gone(_)), "{refused}");
}

#[test]
fn a_process_that_ends_while_it_is_read_gives_no_figures() {
    require!(Ruby);
    for delay in [0, 2, 5, 10, 20, 40] {
        let ruby = OutsideRuby::start(TestRuby::OnPath);
        let pid = ruby.pid;
        let reader =
            std::thread::spawn(move || look(pid, &LookOptions { owners: true, ..options() }));
        std::thread::sleep(std::time::Duration::from_millis(delay));
        drop(ruby);
        match reader.join().unwrap() {
            // It was read before it ended: nothing may be missing.
            Ok(census) => assert!(census.heap.unwrap().live_slots() > 100_000),
            Err(refused) => {
                let expected = matches!(refused, Refused::Gone(_) | Refused::Ended(_));
                assert!(expected, "{refused}");
            }
        }
    }
}

#[test]
fn without_room_for_the_table_of_chunks_the_owners_are_unknown_and_the_rest_is_told() {
    require!(Ruby);
    let ruby = OutsideRuby::start(TestRuby::OnPath);
    let memory = MemoryGate::new(|need| match need.part {
        NeedPart::Census => Ok(()),
        NeedPart::Chunks | NeedPart::Copy | NeedPart::Graph | NeedPart::Dump => {
            Err(format!("{} bytes are too many", need.bytes))
        }
    });
    let options = LookOptions { owners: true, memory, ..LookOptions::default() };
    let census = ruby.look(&options);
    assert!(census.owners.is_none() && census.heap.is_some());
    let reason = census.reason(CensusPart::Owners).unwrap();
    assert!(reason.ends_with(" bytes are too many"), "{reason}");
}
