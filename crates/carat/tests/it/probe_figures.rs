//! What the probe writes into the page of a real Ruby, of every version.

use crate::harness;
use crate::needs::TestRuby;
use crate::probe_ruby::{Bench, Ruby, wait_for};
use carat_proc::observe::probe_figures;
use carat_ruby::RubyVersion;
use carat_ruby::version::{
    FORK_HOOK, GC_STAT_KEYS, GC_TIME, LIVE_SLOTS_BY_SIZE, OBSERVED, PROCESS_WARMUP, SLOT_SIZES,
    heap_layout,
};
use carat_wire::page::{AllocatorKind, Feature, FeatureState, Gc, Malloc, Own, PageReading, Pool};
use std::path::{Path, PathBuf};

const MB: f64 = 1e6;

fn gc(seen: &PageReading, word: Gc) -> f64 {
    seen.gc.get(word).unwrap_or_else(|| panic!("{word:?} is unknown in {}", seen.ruby)) as f64
}

fn malloc(seen: &PageReading, word: Malloc) -> f64 {
    seen.malloc.get(word).unwrap_or_else(|| panic!("{word:?} is unknown in {}", seen.ruby)) as f64
}

fn assert_near(what: &str, found: f64, want: f64, share: f64, version: TestRuby) {
    let off = (found - want).abs() / want;
    assert!(off <= share, "{what}: {found} for {want} ({:.2} % off) in {version:?}", off * 100.0);
}

#[test]
fn allocations_of_known_size_appear_in_their_own_figures(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    ruby.eval("GC.start; GC.start; $keep = []");
    let before = ruby.ask();
    ruby.eval("$keep = Array.new(200_000) { Object.new }; GC.start; GC.start");
    let objects = ruby.ask();
    ruby.eval("$strings = Array.new(1_000) { 'x' * 20_000 }; GC.start; 1");
    let strings = ruby.ask();
    let slots = gc(&objects, Gc::LiveSlots) - gc(&before, Gc::LiveSlots);
    assert_near("objects", slots, 200_000.0, 0.02, version);
    let in_pools = |seen: &PageReading| -> u64 {
        seen.pools.iter().map(|pool| pool.get(Pool::LiveSlots).unwrap()).sum()
    };
    let slots = in_pools(&objects) - in_pools(&before);
    assert_near("objects in pools", slots as f64, 200_000.0, 0.02, version);
    let bytes = malloc(&strings, Malloc::InUse) - malloc(&objects, Malloc::InUse);
    assert_near("bytes of strings", bytes, 20.0 * MB, 0.02, version);
    assert!(ruby.end().is_empty());
}

#[test]
fn the_listed_heap_pages_are_those_of_ruby(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    ruby.eval("$keep = Array.new(300_000) { Object.new }; GC.start; 1");
    let seen = ruby.ask();
    let pages = gc(&seen, Gc::EdenPages);
    assert_near("pages", seen.heap_pages.pages as f64, pages, 0.01, version);
    let bytes: u64 = seen.heap_pages.ranges.iter().map(|range| range.bytes).sum();
    assert_eq!(bytes as f64, seen.heap_pages.pages as f64 * gc(&seen, Gc::PageBytes));
    assert_eq!(seen.heap_pages.missing_ranges, 0);
    let slots = seen.pools.iter().map(|pool| pool.get(Pool::EdenSlots).unwrap()).sum::<u64>();
    let tombs = seen.gc.get(Gc::TombPages).unwrap_or(0);
    let want = gc(&seen, Gc::AvailableSlots);
    if tombs == 0 {
        assert_near("slots in pools", slots as f64, want, 0.01, version);
    }
    // An object of this Ruby lies in one of the ranges (an even address; its id was one up to 2.6).
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", ruby.pid)).unwrap();
    for range in &seen.heap_pages.ranges {
        assert!(is_mapped(&maps, range.start), "{:#x} in {version:?}", range.start);
    }
}

#[test]
fn pages_with_objects_and_empty_pages_are_all_pages(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    // Objects that die together leave whole pages empty; those that Ruby keeps are counted.
    ruby.eval("$keep = Array.new(400_000) { Object.new }; $keep = nil; GC.start; 1");
    let seen = ruby.ask();
    let empty = seen.gc.get(Gc::TombPages).or(seen.gc.get(Gc::EmptyPages)).unwrap() as f64;
    let all = gc(&seen, Gc::HeapPages);
    assert_eq!(gc(&seen, Gc::EdenPages) + empty, all, "{version:?}");
    let (figures, bytes) = (probe_figures(&seen), gc(&seen, Gc::PageBytes));
    let found = [figures.empty_pages, figures.all_pages].map(|pages| pages.unwrap().0 as f64);
    assert_eq!(found, [empty * bytes, all * bytes], "{version:?}");
}

fn is_mapped(maps: &str, address: u64) -> bool {
    maps.lines().any(|line| {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let bound = |text| u64::from_str_radix(text, 16).unwrap();
        (bound(start)..bound(end)).contains(&address)
    })
}

#[test]
fn every_ruby_has_what_the_version_table_says(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    let page = ruby.ask();
    let number = RubyVersion::find_in(&page.ruby).unwrap();
    for key in GC_STAT_KEYS {
        let has_key = ruby.eval(&format!("GC.stat.key?({:?}.to_sym)", key.name.to_str().unwrap()));
        assert_eq!(has_key, key.versions.contains(number).to_string(), "{key:?} in {number}");
        let promised =
            GC_STAT_KEYS.iter().any(|k| k.word == key.word && k.versions.contains(number));
        assert_eq!(page.gc.get(key.word).is_some(), promised, "{key:?} in {number}");
    }
    let layout = heap_layout(number).unwrap();
    assert_eq!(page.gc.get(Gc::PageBytes), Some(layout.page_bytes.into()), "{number}");
    let sizes: Vec<_> = page.pools.iter().map(|pool| pool.get(Pool::SlotBytes).unwrap()).collect();
    let expected: Vec<u64> = layout.slot_bytes.iter().map(|&bytes| bytes.into()).collect();
    assert_eq!(sizes, expected, "{number}");
    let by_size = page.pools.iter().all(|pool| pool.get(Pool::LiveSlots).is_some());
    let expected = layout.slot_bytes.len() == 1 || LIVE_SLOTS_BY_SIZE.contains(number);
    assert_eq!(by_size, expected, "{number}");
    for (expression, range) in [
        ("GC.respond_to?(:stat_heap)", SLOT_SIZES),
        ("GC.stat.key?(:time)", GC_TIME),
        ("Process.respond_to?(:_fork)", FORK_HOOK),
        ("Process.respond_to?(:warmup)", PROCESS_WARMUP),
    ] {
        let answer = ruby.eval(expression);
        assert_eq!(answer, range.contains(number).to_string(), "{expression} in {number}");
    }
    assert!(OBSERVED.contains(number), "{number}");
}

#[test]
fn collections_are_counted_without_a_request(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    let page = bench.page(ruby.pid);
    let before = page.read().unwrap();
    ruby.eval("10.times { GC.start }; 1");
    let want = before.gc.get(Gc::Major).unwrap() + 10;
    let after = wait_for("ten collections", || {
        page.read().filter(|seen| seen.gc.get(Gc::Major) >= Some(want))
    });
    assert_eq!(after.gc.get(Gc::Major), Some(want), "{version:?}");
    assert!(after.gc.get(Gc::LastMajorNs) > Some(before.born.ns), "{version:?}");
    assert!(after.own.get(Own::HookCalls) >= Some(10), "{version:?}");
    assert_ne!(after.gc.get(Gc::TimeNs), Some(0), "{version:?}");
    assert_eq!(after.requested, 0);
}

/// The value of a line that sleeps, during which the figures are requested.
fn asked_while_asleep(ruby: &mut Ruby<'_>, line: &str) -> String {
    let (pid, bench) = (ruby.pid, ruby.bench());
    std::thread::scope(|scope| {
        let slept = scope.spawn(|| ruby.eval(line));
        for _ in 0..3 {
            bench.ask(pid);
        }
        slept.join().unwrap()
    })
}

#[test]
fn a_sleeping_ruby_answers_and_continues_to_sleep(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    let asleep = "t = Process.clock_gettime(1); Thread.new { sleep }; $r, $w = IO.pipe; \
         Thread.new { $r.read(1) }; sleep 1.5; Process.clock_gettime(1) - t >= 1.5";
    let answer = asked_while_asleep(&mut ruby, asleep);
    assert_eq!(answer, "true", "{version:?}");
    let seen = ruby.ask();
    assert!(seen.features.contains(&(Feature::Wake, FeatureState::On)), "{version:?}");
    assert!(ruby.end().is_empty());
}

#[test]
fn a_reading_of_a_sleeping_ruby_runs_no_trap_of_the_server(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    // Puma forks its workers again at URG.
    let asleep = "$trapped = []; \
         %w[CHLD CONT HUP TTIN TTOU URG USR1 USR2 WINCH].each { |name| trap(name) { $trapped << name } }; \
         sleep 1.5; $trapped.join(',').inspect";
    let answer = asked_while_asleep(&mut ruby, asleep);
    assert_eq!(answer, "\"\"", "{version:?}");
    // Without this no trap could have run at all.
    let seen = ruby.ask();
    assert!(seen.features.contains(&(Feature::Wake, FeatureState::On)), "{version:?}");
    assert!(ruby.end().is_empty());
}

#[test]
fn requests_are_answered_while_many_threads_allocate(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    ruby.eval(
        "$run = true; $threads = Array.new(12) { |n| Thread.new { \
         while $run; Array.new(100) { 'x' * (200 * n) }; Thread.pass; end } }; 1",
    );
    let first = ruby.ask();
    for _ in 0..20 {
        ruby.ask();
    }
    let last = ruby.ask();
    assert!(gc(&last, Gc::AllocatedObjects) > gc(&first, Gc::AllocatedObjects), "{version:?}");
    assert!(last.own.get(Own::Threads) >= Some(13), "{version:?}");
    assert_eq!(ruby.eval("$run = false; $threads.each(&:join).size"), "12");
    assert!(ruby.end().is_empty());
}

#[test]
fn arenas_add_up_to_the_whole(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    ruby.eval("Array.new(8) { Thread.new { Array.new(50) { 'x' * 9_000 } } }.each(&:join); 1");
    let seen = ruby.ask();
    assert_eq!(seen.allocator, Some(AllocatorKind::Glibc), "{version:?}");
    assert_eq!(seen.malloc.get(Malloc::Arenas), Some(seen.arenas.len() as u64), "{version:?}");
    let sum = |word| seen.arenas.iter().map(|arena| arena.get(word).unwrap()).sum::<u64>();
    let system = sum(carat_wire::page::Arena::System) as f64;
    let mapped = malloc(&seen, Malloc::Mapped);
    assert_eq!(system + mapped, malloc(&seen, Malloc::System), "{version:?}");
    let whole = malloc(&seen, Malloc::InUse) + malloc(&seen, Malloc::Free);
    assert_eq!(whole, malloc(&seen, Malloc::System), "{version:?}");
}

/// The path of a library in Debian, in a root or on this machine.
fn library(version: TestRuby, names: &[&str]) -> Option<PathBuf> {
    let folder = Path::new("/usr/lib/x86_64-linux-gnu");
    let is_there = |path: &PathBuf| version.root().join(path.strip_prefix("/").unwrap()).exists();
    names.iter().map(|name| folder.join(name)).find(is_there)
}

#[test]
fn the_allocator_in_use_is_detected_and_its_figures_are_read(version: TestRuby) {
    let known: [(AllocatorKind, &[&str]); 3] = [
        (AllocatorKind::Jemalloc, &["libjemalloc.so.2"]),
        (AllocatorKind::Mimalloc, &["libmimalloc.so.2.0", "libmimalloc.so.2", "libmimalloc.so.3"]),
        (AllocatorKind::Tcmalloc, &["libtcmalloc_minimal.so.4"]),
    ];
    for (allocator, names) in known {
        // Debian 11 has no mimalloc.
        if allocator == AllocatorKind::Mimalloc && version == TestRuby::InRoot("bullseye") {
            continue;
        }
        let Some(file) = library(version, names) else {
            harness::skip(&format!("no {allocator:?} {}: run bin/setup", version.label()));
        };
        let bench = Bench::new();
        let mut ruby = bench.start(version.command(Some(&file)));
        let before = ruby.ask();
        ruby.eval("$strings = Array.new(2_000) { 'x' * 20_000 }; 1");
        let after = ruby.ask();
        assert_eq!(after.allocator, Some(allocator), "{version:?}: {}", after.malloc_file);
        assert!(after.arenas.is_empty());
        let word = match allocator {
            AllocatorKind::Mimalloc => Malloc::Committed,
            _ => Malloc::InUse,
        };
        let grown = malloc(&after, word) - malloc(&before, word);
        // mimalloc only reports what it committed, and it commits in advance.
        let least = if allocator == AllocatorKind::Mimalloc { 20.0 } else { 39.0 };
        let range = least * MB..70.0 * MB;
        assert!(range.contains(&grown), "{grown} {allocator:?} in {version:?}");
        assert!(ruby.end().is_empty());
    }
}

#[test]
fn the_cost_of_the_probe_is_in_the_page(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    ruby.eval("100.times { GC.start }; 1");
    let seen = ruby.ask();
    for word in [Own::HookNs, Own::RubyNs, Own::RubyReadings, Own::ThreadNs] {
        assert!(seen.own.get(word) > Some(0), "{word:?} in {version:?}");
    }
    assert!(malloc(&seen, Malloc::CostNs) > 0.0, "{version:?}");
    assert!(seen.features.contains(&(Feature::HeapPages, FeatureState::On)), "{version:?}");
}
