//! What the probe writes into the page of a real Ruby, of every generation that is at hand.

use crate::probe_ruby::{Bench, Ruby, Which, wait_for};
use carat_wire::page::{Allocator, Feature, Gc, Malloc, Own, PageReading, Pool, State};
use std::path::{Path, PathBuf};

const MB: f64 = 1e6;

/// Runs a test in each Ruby: this machine's, and those of the roots that are made.
fn in_each(test: impl Fn(&Bench, Ruby<'_>, Which)) {
    for (which, command) in Which::each() {
        let bench = Bench::new();
        test(&bench, bench.start(command), which);
    }
}

fn gc(seen: &PageReading, word: Gc) -> f64 {
    seen.gc.get(word).unwrap_or_else(|| panic!("{word:?} is unknown in {}", seen.ruby)) as f64
}

fn malloc(seen: &PageReading, word: Malloc) -> f64 {
    seen.malloc.get(word).unwrap_or_else(|| panic!("{word:?} is unknown in {}", seen.ruby)) as f64
}

fn assert_near(what: &str, found: f64, want: f64, share: f64, which: Which) {
    let off = (found - want).abs() / want;
    assert!(off <= share, "{what}: {found} for {want} ({:.2} % off) in {which:?}", off * 100.0);
}

#[test]
fn slots_and_megabytes_of_known_number_appear_in_their_own_figures() {
    in_each(|_, mut ruby, which| {
        ruby.eval("GC.start; GC.start; $keep = []");
        let before = ruby.ask();
        ruby.eval("$keep = Array.new(200_000) { Object.new }; GC.start; GC.start");
        let objects = ruby.ask();
        ruby.eval("$strings = Array.new(1_000) { 'x' * 20_000 }; GC.start; 1");
        let strings = ruby.ask();
        let slots = gc(&objects, Gc::LiveSlots) - gc(&before, Gc::LiveSlots);
        assert_near("objects", slots, 200_000.0, 0.02, which);
        let in_pools = |seen: &PageReading| -> u64 {
            seen.pools.iter().map(|pool| pool.get(Pool::LiveSlots).unwrap()).sum()
        };
        let slots = in_pools(&objects) - in_pools(&before);
        assert_near("objects in pools", slots as f64, 200_000.0, 0.02, which);
        let bytes = malloc(&strings, Malloc::InUse) - malloc(&objects, Malloc::InUse);
        assert_near("bytes of strings", bytes, 20.0 * MB, 0.02, which);
        assert!(ruby.end().is_empty());
    });
}

#[test]
fn heap_pages_are_listed_and_are_the_ones_that_ruby_has() {
    in_each(|_, mut ruby, which| {
        ruby.eval("$keep = Array.new(300_000) { Object.new }; GC.start; 1");
        let seen = ruby.ask();
        let pages = gc(&seen, Gc::EdenPages);
        assert_near("pages", seen.heap_pages.pages as f64, pages, 0.01, which);
        let bytes: u64 = seen.heap_pages.ranges.iter().map(|range| range.bytes).sum();
        assert_eq!(bytes as f64, seen.heap_pages.pages as f64 * gc(&seen, Gc::PageBytes));
        assert_eq!(seen.heap_pages.missing_ranges, 0);
        let slots = seen.pools.iter().map(|pool| pool.get(Pool::EdenSlots).unwrap()).sum::<u64>();
        let tombs = seen.gc.get(Gc::TombPages).unwrap_or(0);
        let want = gc(&seen, Gc::AvailableSlots);
        if tombs == 0 {
            assert_near("slots in pools", slots as f64, want, 0.01, which);
        }
        // An object of this Ruby lies in one of the ranges (an even address; its id was one up to 2.6).
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", ruby.pid)).unwrap();
        for range in &seen.heap_pages.ranges {
            assert!(is_mapped(&maps, range.start), "{:#x} in {which:?}", range.start);
        }
    });
}

fn is_mapped(maps: &str, address: u64) -> bool {
    maps.lines().any(|line| {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let bound = |text| u64::from_str_radix(text, 16).unwrap();
        (bound(start)..bound(end)).contains(&address)
    })
}

#[test]
fn collections_are_counted_without_being_asked_for() {
    in_each(|bench, mut ruby, which| {
        let page = bench.page(ruby.pid);
        let before = page.read().unwrap();
        ruby.eval("10.times { GC.start }; 1");
        let want = before.gc.get(Gc::Major).unwrap() + 10;
        let after = wait_for("ten collections", || {
            page.read().filter(|seen| seen.gc.get(Gc::Major) >= Some(want))
        });
        assert_eq!(after.gc.get(Gc::Major), Some(want), "{which:?}");
        assert!(after.gc.get(Gc::LastMajorNs) > Some(before.born.ns), "{which:?}");
        assert!(after.own.get(Own::HookCalls) >= Some(10), "{which:?}");
        assert_ne!(after.gc.get(Gc::TimeNs), Some(0), "{which:?}");
        assert_eq!(after.requested, 0);
    });
}

#[test]
fn a_sleeping_ruby_answers_and_goes_on_sleeping() {
    in_each(|_, mut ruby, which| {
        let asleep = "t = Process.clock_gettime(1); Thread.new { sleep }; $r, $w = IO.pipe; \
             Thread.new { $r.read(1) }; sleep 1.5; Process.clock_gettime(1) - t >= 1.5";
        let answer = std::thread::scope(|scope| {
            let pid = ruby.pid;
            let bench = ruby.bench();
            let slept = scope.spawn(|| ruby.eval(asleep));
            for _ in 0..3 {
                bench.ask(pid);
            }
            slept.join().unwrap()
        });
        assert_eq!(answer, "true", "{which:?}");
        let seen = ruby.ask();
        assert!(seen.features.contains(&(Feature::Wake, State::On)), "{which:?}");
        assert!(ruby.end().is_empty());
    });
}

#[test]
fn answers_come_while_many_threads_allocate() {
    in_each(|_, mut ruby, which| {
        ruby.eval(
            "$run = true; $threads = Array.new(12) { |n| Thread.new { \
             while $run; Array.new(100) { 'x' * (200 * n) }; Thread.pass; end } }; 1",
        );
        let first = ruby.ask();
        for _ in 0..20 {
            ruby.ask();
        }
        let last = ruby.ask();
        assert!(gc(&last, Gc::AllocatedObjects) > gc(&first, Gc::AllocatedObjects), "{which:?}");
        assert!(last.own.get(Own::Threads) >= Some(13), "{which:?}");
        assert_eq!(ruby.eval("$run = false; $threads.each(&:join).size"), "12");
        assert!(ruby.end().is_empty());
    });
}

#[test]
fn arenas_add_up_to_the_whole() {
    in_each(|_, mut ruby, which| {
        ruby.eval("Array.new(8) { Thread.new { Array.new(50) { 'x' * 9_000 } } }.each(&:join); 1");
        let seen = ruby.ask();
        assert_eq!(seen.allocator, Some(Allocator::Glibc), "{which:?}");
        assert_eq!(seen.malloc.get(Malloc::Arenas), Some(seen.arenas.len() as u64), "{which:?}");
        let sum = |word| seen.arenas.iter().map(|arena| arena.get(word).unwrap()).sum::<u64>();
        let system = sum(carat_wire::page::Arena::System) as f64;
        let mapped = malloc(&seen, Malloc::Mapped);
        assert_eq!(system + mapped, malloc(&seen, Malloc::System), "{which:?}");
        let whole = malloc(&seen, Malloc::InUse) + malloc(&seen, Malloc::Free);
        assert_eq!(whole, malloc(&seen, Malloc::System), "{which:?}");
    });
}

/// Where Debian puts a library, in a root or here.
fn library(which: Which, names: &[&str]) -> Option<PathBuf> {
    let root = match which {
        Which::Here => PathBuf::from("/"),
        Which::Root(name) => {
            let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
            let roots = std::env::var_os("CARAT_ROOTS").map(PathBuf::from);
            roots.unwrap_or_else(|| home.join(".cache/carat/roots")).join(name)
        }
    };
    let folder = Path::new("usr/lib/x86_64-linux-gnu");
    names.iter().map(|name| folder.join(name)).find(|path| root.join(path).exists())
}

#[test]
fn the_allocator_that_really_serves_is_named_and_asked() {
    let known: [(Allocator, &[&str]); 3] = [
        (Allocator::Jemalloc, &["libjemalloc.so.2"]),
        (Allocator::Mimalloc, &["libmimalloc.so.2.0", "libmimalloc.so.2", "libmimalloc.so.3"]),
        (Allocator::Tcmalloc, &["libtcmalloc_minimal.so.4"]),
    ];
    for (which, _) in Which::each() {
        for (allocator, names) in known {
            let Some(file) = library(which, names) else { continue };
            let file = Path::new("/").join(file);
            let Some(command) = which.command_with(Some(&file)) else { continue };
            let bench = Bench::new();
            let mut ruby = bench.start(command);
            let before = ruby.ask();
            ruby.eval("$strings = Array.new(2_000) { 'x' * 20_000 }; 1");
            let after = ruby.ask();
            assert_eq!(after.allocator, Some(allocator), "{which:?}: {}", after.malloc_file);
            assert!(after.arenas.is_empty());
            let word = match allocator {
                Allocator::Mimalloc => Malloc::Committed,
                _ => Malloc::InUse,
            };
            let grown = malloc(&after, word) - malloc(&before, word);
            // mimalloc only says what it committed, and it commits ahead.
            let least = if allocator == Allocator::Mimalloc { 20.0 } else { 39.0 };
            let range = least * MB..70.0 * MB;
            assert!(range.contains(&grown), "{grown} {allocator:?} in {which:?}");
            assert!(ruby.end().is_empty());
        }
    }
}

#[test]
fn what_the_probe_costs_is_in_the_page() {
    in_each(|_, mut ruby, which| {
        ruby.eval("100.times { GC.start }; 1");
        let seen = ruby.ask();
        for word in [Own::HookNs, Own::RubyNs, Own::RubyReadings, Own::ThreadNs] {
            assert!(seen.own.get(word) > Some(0), "{word:?} in {which:?}");
        }
        assert!(malloc(&seen, Malloc::CostNs) > 0.0, "{which:?}");
        assert!(seen.features.contains(&(Feature::HeapPages, State::On)), "{which:?}");
    });
}
