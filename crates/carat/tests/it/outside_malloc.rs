//! Malloc's arenas, chunks and their owners read from outside, against glibc's own word and against planted leaks.

use crate::needs::TestRuby;
use crate::outside_ruby::{OutsideRuby, number};
use carat_outside::census::{Census, CensusPart, LookOptions};
use carat_outside::malloc::{ChunkAmount, MallocCensus};
use carat_outside::need::{MemoryGate, MemoryNeed, NeedPart};
use carat_outside::owners::{HolderKind, OwnerCensus};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// What is loaded into the Ruby.
const INSIDE: &str = include_str!("data/outside_malloc.rb");
/// Bytes of `malloc(100)`, its header included.
const LEAKED: u64 = 112;
/// Bytes of a chunk for 200 bytes.
const KEPT: u64 = 208;

/// A Ruby that can ask glibc.
fn start(version: TestRuby) -> OutsideRuby {
    let mut ruby = OutsideRuby::start(version);
    ruby.eval(&format!("eval({}); 1", serde_json::to_string(INSIDE).unwrap().replace('#', "\\#")));
    ruby
}

fn owners() -> LookOptions {
    LookOptions { owners: true, ..LookOptions::default() }
}

fn malloc(census: &Census) -> &MallocCensus {
    census.malloc.as_ref().unwrap_or_else(|| panic!("{:?}", census.unknown))
}

fn held(census: &Census) -> &OwnerCensus {
    census.owners.as_ref().unwrap_or_else(|| panic!("{:?}", census.unknown))
}

fn holder(owners: &OwnerCensus, kind: HolderKind, name: &str) -> ChunkAmount {
    let found = owners.holders.iter().find(|holder| holder.kind == kind && holder.name == name);
    found.map_or(ChunkAmount::default(), |holder| holder.amount)
}

/// The resident memory of a process by the kernel, in bytes.
fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn in_use(heap: &Value) -> u64 {
    number(heap, "system") - number(heap, "free") - number(heap, "fast")
}

#[test]
fn arenas_equal_what_glibc_counts(version: TestRuby) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut ruby = start(version);
    let ask = format!("Malloc.info({:?})", file.path());
    // The first calls fill caches.
    ruby.ask(&ask);
    ruby.ask(&ask);
    let census = ruby.look(&LookOptions::default());
    let inside = ruby.ask(&ask);
    let malloc = malloc(&census);
    let heaps = inside["heaps"].as_array().unwrap();
    assert_eq!(malloc.arenas.len(), heaps.len(), "{version:?}");
    for (at, (arena, heap)) in malloc.arenas.iter().zip(heaps).enumerate() {
        assert_eq!(arena.missing_bytes, 0, "arena {at} of {version:?}");
        let system = number(heap, "system");
        let grown = arena.system_bytes.abs_diff(system);
        assert!(grown <= system / 100, "arena {at}: {arena:?}, inside {heap} of {version:?}");
        // glibc counts the caches of threads, and malloc's headers, as in use.
        let outside = arena.in_use.bytes + arena.thread_cached.bytes + arena.header_bytes;
        let inside = in_use(heap);
        let allowed = if at == 0 { inside / 1000 } else { inside / 100 + 4096 };
        let difference = outside.abs_diff(inside);
        assert!(difference <= allowed, "arena {at}: {outside}, inside {inside}, of {version:?}");
    }
    assert!(malloc.arenas[0].main && malloc.arenas[0].in_use.bytes > 2 << 20, "{version:?}");
    assert!(malloc.thread_caches >= 1, "{version:?}");
    let mapped = inside["mapped"].as_array().unwrap();
    assert_eq!(Some(malloc.mapped.amount.bytes), mapped[1].as_u64(), "{version:?}");
    assert_eq!(malloc.mapped.counted_bytes, mapped[1].as_u64(), "{version:?}");
}

#[test]
fn malloc_trim_returns_what_was_predicted(version: TestRuby) {
    let mut ruby = start(version);
    ruby.eval("Malloc.fragment");
    let census = ruby.look(&LookOptions::default());
    let predicted = malloc(&census).trimmable_bytes();
    let before = resident(ruby.pid);
    assert_eq!(ruby.eval("Malloc.trim"), "1");
    let returned = before - resident(ruby.pid);
    assert!(predicted > 5 << 20, "{predicted} predicted in {version:?}");
    let difference = predicted.abs_diff(returned) as f64 / returned as f64;
    assert!(difference < 0.05, "{predicted} predicted, {returned} returned in {version:?}");
    let after = ruby.look(&LookOptions::default());
    let left = malloc(&after).trimmable_bytes();
    assert!(left < predicted / 10, "{left} left of {predicted} in {version:?}");
}

#[test]
fn nearly_all_chunks_have_an_owner_and_the_amounts_add_up(version: TestRuby) {
    let asked: Arc<Mutex<Vec<MemoryNeed>>> = Arc::default();
    let gate = Arc::clone(&asked);
    let ruby = start(version);
    let memory = MemoryGate::new(move |need| {
        gate.lock().unwrap().push(need);
        Ok(())
    });
    let census = ruby.look(&LookOptions { memory, ..owners() });
    let (malloc, owners) = (malloc(&census), held(&census));
    let total = malloc.total();
    let expected = total.in_use.plus(malloc.mapped.amount);
    assert_eq!(owners.held().plus(owners.nobody), expected, "{version:?}");
    let share = owners.held_share().unwrap();
    assert!(share >= 0.97, "{share} held, nobody {:?}, {version:?}", owners.nobody_sizes);
    for kind in [HolderKind::Class, HolderKind::Bytecode, HolderKind::Library, HolderKind::Thread] {
        assert!(owners.of_kind(kind).chunks > 0, "{kind:?} in {version:?}");
    }
    // 20 strings of 200,000 bytes and more.
    assert!(holder(owners, HolderKind::Class, "String").bytes > 4_000_000, "{version:?}");
    let asked = asked.lock().unwrap();
    assert_eq!(
        asked.iter().map(|need| need.part).collect::<Vec<_>>(),
        [NeedPart::Census, NeedPart::Chunks]
    );
    let (said, needed) = (asked[1].bytes, owners.needed_bytes);
    assert!(needed <= said && said < census.cost.present_bytes / 2, "{said} said, {needed} needed");
}

#[test]
fn owners_are_found_in_a_copy_or_in_place_if_there_is_no_room_for_one(version: TestRuby) {
    let ruby = start(version);
    let look = |memory| ruby.look(&LookOptions { copy: true, memory, ..owners() });
    let copied = look(MemoryGate::default());
    let in_place = look(MemoryGate::new(|need| match need.part {
        NeedPart::Copy => Err("no room".to_owned()),
        _ => Ok(()),
    }));
    assert_eq!((&copied.unknown, &in_place.unknown), (&vec![], &vec![]), "{version:?}");
    assert_eq!(held(&copied).held(), held(&in_place).held(), "{version:?}");
    let [once, often] = [&copied, &in_place].map(|census| census.cost.read_bytes);
    assert!(once < often && once < 2 * copied.cost.present_bytes, "{once}, {often} in {version:?}");
}

#[test]
fn a_leak_in_a_class_is_named_by_the_class(version: TestRuby) {
    let mut ruby = start(version);
    ruby.eval("$leak = Array.new(2000) { Leaky.new }; 4.times { GC.start }; 1");
    let census = ruby.look(&owners());
    let found = holder(held(&census), HolderKind::Class, "Leaky");
    // 100 instance variables of 8 bytes each. Ruby allocates more than it needs, and what is left in the unused part of a
    // chunk may lead to further ones.
    assert!((1980..=2200).contains(&found.chunks), "{found:?} in {version:?}");
    assert!(found.bytes >= 1980 * 800, "{found:?} in {version:?}");
    let classes = census.classes.as_ref().unwrap();
    let class = classes.iter().find(|class| class.name == "Leaky").unwrap();
    assert_eq!(class.malloc_bytes, Some(found.bytes), "{version:?}");
}

#[test]
fn a_native_leak_is_held_by_nobody_with_its_size(version: TestRuby) {
    let mut ruby = start(version);
    let before = held(&ruby.look(&owners())).nobody;
    ruby.eval("Malloc.leak(50_000)");
    let census = ruby.look(&owners());
    let owners = held(&census);
    let largest = owners.nobody_sizes[0];
    assert_eq!(largest.size, LEAKED, "{:?} in {version:?}", owners.nobody_sizes);
    // A few have their address in a register or in unused stack.
    let chunks = largest.amount.chunks;
    assert!((49_000..=50_200).contains(&chunks), "{chunks} in {version:?}");
    assert!(owners.nobody.bytes >= before.bytes + 49_000 * LEAKED, "{version:?}");
}

#[test]
fn a_leak_in_thread_local_storage_is_named_by_the_thread(version: TestRuby) {
    let mut ruby = start(version);
    ruby.eval("Malloc.leak_in_thread(5000)");
    let census = ruby.look(&owners());
    let found = holder(held(&census), HolderKind::Thread, "leaker");
    assert!(found.chunks >= 4900, "{:?} in {version:?}", held(&census).holders);
    assert!(found.bytes >= 4900 * KEPT, "{found:?} in {version:?}");
}

/// Objects that are garbage at once, each with a string of 4 kB, by the type of what holds it.
const GARBAGE: [(&str, &str); 5] = [
    ("hash", "{ a: 'x' * 4096, b: i.to_s }"),
    ("array", "['x' * 4096, i.to_s, nil, nil, nil]"),
    ("string", "'x' * 4096"),
    ("variable", "Object.new.instance_variable_set(:@a, 'x' * 4096)"),
    ("struct", "Couple.new('x' * 4096, [i])"),
];

#[test]
fn what_a_full_collection_would_free_is_what_it_frees(version: TestRuby) {
    let options = LookOptions { owners: true, reach: true, ..LookOptions::default() };
    let mut ruby = start(version);
    ruby.eval(
        "Couple = Struct.new(:a, :b); def deep(n, &b); n == 0 ? b.call : deep(n - 1, &b); end; 1",
    );
    for (kind, code) in GARBAGE {
        ruby.eval("4.times { GC.start }; GC.disable; 1");
        ruby.eval(&format!("deep(50) {{ 10_000.times {{ |i| {code} }} }}; deep(200) {{ }}; 1"));
        let before = ruby.look(&options);
        ruby.eval("GC.enable; GC.start; GC.start; 1");
        let after = ruby.look(&options);
        let live = |census: &Census| census.heap.as_ref().unwrap().live_slots() as f64;
        let bytes = |census: &Census| {
            // Heap pages that become empty are returned as well, where malloc made them.
            let pages = held(census).of_kind(HolderKind::HeapPages).bytes;
            let malloc = malloc(census);
            (malloc.total().in_use.plus(malloc.mapped.amount).bytes - pages) as f64
        };
        let reach = before.reach.unwrap_or_else(|| panic!("{:?}", before.unknown));
        for (what, freed, said) in [
            ("objects", live(&before) - live(&after), reach.unreached_objects),
            ("bytes", bytes(&before) - bytes(&after), reach.unreached_chunks.bytes),
        ] {
            let share = said as f64 / freed;
            let context = format!("{what} of {kind}: {said} said, {freed} freed in {version:?}");
            assert!((0.95..=1.05).contains(&share), "{context}");
        }
        assert!(reach.unreached_objects >= 19_000, "{kind}: {reach:?} in {version:?}");
        let left = after.reach.unwrap().unreached_objects;
        assert!(left < 1000, "{kind}: {left} left in {version:?}");
    }
}

#[test]
fn old_words_behind_the_positions_of_a_match_keep_nothing_alive(version: TestRuby) {
    let options = LookOptions { owners: true, reach: true, ..LookOptions::default() };
    let mut ruby = start(version);
    ruby.eval("4.times { GC.start }; GC.disable; Malloc.matches(2_000)");
    let census = ruby.look(&options);
    let left = census.classes.iter().flatten().find(|class| class.name == "Left").unwrap();
    let garbage = left.garbage_objects.unwrap();
    assert!(left.objects == 2_000 && garbage >= 1_980, "{left:?} in {version:?}");
}

#[test]
fn malloc_of_a_server_running_flat_out_is_read_to_its_end(version: TestRuby) {
    let mut ruby = start(version);
    ruby.eval(
        "Thread.new { all = []; i = 0; loop { i += 1; all << \"busy #{i} \" * (i % 30); all << { k: i, v: [i] }; \
         all = all.last(2000) if all.size > 5000 } }; 1",
    );
    for pass in 0..10 {
        let census = ruby.look(&LookOptions { owners: pass == 0, ..LookOptions::default() });
        let total = malloc(&census).total();
        let missing = total.missing_bytes as f64 / total.system_bytes as f64;
        assert!(
            missing <= 0.01,
            "pass {pass}: {} bytes missing in {version:?}",
            total.missing_bytes
        );
        // What does not change meanwhile: 4 MB in 20 strings, and most of the rest.
        assert!(total.in_use.bytes > 6 << 20, "pass {pass}: {total:?} in {version:?}");
    }
}

/// Slots and classes are read under another allocator; malloc's chunks are not, with its name.
fn assert_refused_by_name(allocator: &str) {
    let library = carat_settings::find_allocator(Path::new("/"), allocator).unwrap();
    let mut command = Command::new("ruby");
    command.env("LD_PRELOAD", library);
    let mut ruby = OutsideRuby::start_command(command);
    let census = ruby.look(&owners());
    let slots = number(&ruby.ask("Truth.slots")["count"], "TOTAL");
    assert_eq!(census.heap.as_ref().map(|heap| heap.slots), Some(slots), "{allocator}");
    let wide = census.classes.iter().flatten().find(|class| class.name == "Wide").unwrap();
    assert_eq!((wide.objects, wide.malloc_bytes), (5000, None), "{allocator}");
    assert_eq!(census.malloc, None);
    for part in [CensusPart::Malloc, CensusPart::Owners] {
        let reason = census.reason(part).unwrap();
        assert!(reason.starts_with(&format!("its allocator is {allocator}")), "{reason}");
    }
}

#[test]
fn mimalloc_is_refused_by_name() {
    require!(Ruby, Allocator("mimalloc"));
    assert_refused_by_name("mimalloc");
}

#[test]
fn tcmalloc_is_refused_by_name() {
    require!(Ruby, Allocator("tcmalloc"));
    assert_refused_by_name("tcmalloc");
}

#[test]
fn memory_of_the_main_arena_that_is_not_at_the_program_break_is_said_to_be_missing() {
    require!(Ruby);
    let file = tempfile::NamedTempFile::new().unwrap();
    let ask = format!("Malloc.info({:?})", file.path());
    let mut ruby = start(TestRuby::OnPath);
    ruby.eval(
        "Malloc.block_break; $strings = Array.new(25_000) { |n| 'x' * (1_000 + n % 300) }; 1",
    );
    ruby.ask(&ask);
    let census = ruby.look(&owners());
    let inside = ruby.ask(&ask)["heaps"][0].clone();
    let main = &malloc(&census).arenas[0];
    let system = number(&inside, "system");
    // The strings need 29 MB, and the break could not move.
    assert!(main.missing_bytes > 15 << 20, "{main:?}, inside {inside}");
    let apart = main.system_bytes.abs_diff(system) as f64 / system as f64;
    assert!(apart <= 0.01, "{main:?}, inside {inside}");
    assert!(main.in_use.bytes <= in_use(&inside), "{main:?}, inside {inside}");
}

#[test]
fn arenas_on_huge_pages_are_read_to_their_end() {
    require!(Ruby);
    let mut command = Command::new("ruby");
    // malloc asks for transparent huge pages (glibc 2.35 and later; earlier ones ignore it).
    command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
    let mut ruby = OutsideRuby::start_command(command);
    let census = ruby.look(&owners());
    let truth = ruby.ask("Truth.slots");
    assert_eq!(census.heap.as_ref().unwrap().slots, number(&truth["count"], "TOTAL"));
    let total = malloc(&census).total();
    assert_eq!(total.missing_bytes, 0, "{total:?}");
    let share = held(&census).held_share().unwrap();
    assert!(share >= 0.97, "{share} held");
}
