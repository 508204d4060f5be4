//! The ledger and allocations of known size, in real Rubies of every version.

use crate::needs::TestRuby;
use crate::probe_ruby::{Bench, Ruby};
use carat_model::Ledger;
use carat_model::ledger::{Basis, PartKind};
use carat_outside::census::LookOptions;
use carat_proc::observe::{ledger, outside_figures, read_outside, read_probe_figures};
use carat_proc::process::ProcRoot;
use carat_wire::page::Gc;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Bytes of the allocations: large compared with what Ruby allocates by itself meanwhile.
const SIZE: u64 = 40_000_000;
/// Allowed error of a line, as a share of the allocation.
const TOLERANCE: f64 = 0.02;

fn ledger_of(pids: &[u32]) -> Ledger {
    let root = ProcRoot::default();
    let members: Vec<_> = pids.iter().map(|&pid| root.identify(pid).unwrap()).collect();
    let seen = ledger(&root, &members, &read_probe_figures(&root, &members));
    assert_eq!(seen.unread, Vec::<String>::new());
    assert_eq!(seen.processes.len(), pids.len());
    assert!(seen.processes.iter().all(|process| process.basis == Basis::Probe), "{seen:?}");
    seen
}

fn pss(ledger: &Ledger, kind: PartKind) -> f64 {
    ledger.part(kind).map_or(0.0, |part| part.pss.0 as f64)
}

/// The ledgers before and after Ruby evaluates `line`.
fn around(ruby: &mut Ruby<'_>, line: &str) -> (Ledger, Ledger) {
    ruby.eval("4.times { GC.start }");
    let before = ledger_of(&[ruby.pid]);
    ruby.eval(line);
    ruby.eval("4.times { GC.start }");
    (before, ledger_of(&[ruby.pid]))
}

/// The growth of a part when Ruby evaluates `line`.
fn growth(ruby: &mut Ruby<'_>, line: &str, kind: PartKind) -> f64 {
    let (before, after) = around(ruby, line);
    pss(&after, kind) - pss(&before, kind)
}

fn assert_grew(version: TestRuby, what: &str, grown: f64) {
    let expected = SIZE as f64;
    let off = (grown - expected).abs() / expected;
    assert!(
        off <= TOLERANCE,
        "{version:?}, {what}: {expected} bytes show as {grown} ({:.1} %)",
        off * 100.0
    );
}

#[test]
fn allocations_of_known_size_appear_in_their_own_lines(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    // Strings of 8 kB come from the arena, strings over 128 kB from mappings of their own.
    let strings = format!("$strings = Array.new({}) {{ 'x' * 7_983 }}; nil", SIZE / 8_000);
    assert_grew(version, "malloc", growth(&mut ruby, &strings, PartKind::MallocLive));
    let block = format!("$block = 'x' * {SIZE}; nil");
    assert_grew(version, "one large block", growth(&mut ruby, &block, PartKind::MallocLive));
    // A linked list needs no array, so it consists of slots only. A Struct with one member has 40 bytes.
    ruby.eval("Cell = Struct.new(:rest); $cells = nil");
    let cells = format!("{}.times {{ $cells = Cell.new($cells) }}; nil", SIZE / 40);
    assert_grew(version, "slots", growth(&mut ruby, &cells, PartKind::SlotsLive));
    let whole = ledger_of(&[ruby.pid]);
    assert!(whole.unexplained_share() <= 0.03, "{version:?}: {whole:#?}");
    ruby.end();
}

#[test]
fn pages_that_ruby_keeps_outside_its_heaps_are_free_slots(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    // From 3.4 on; which objects leave such pages differs by version.
    let kept = ruby.eval(
        "if GC.stat.key?(:heap_empty_pages); GC.config(rgengc_allow_full_mark: false); \
         100.times { 100_000.times { |n| 'x' * 100 + n.to_s }; break if GC.stat(:heap_empty_pages) > 100 }; end; \
         GC.stat[:heap_empty_pages].to_i",
    );
    // New figures, because these are not written on every collection.
    let seen = ruby.ask();
    let kept = kept.parse::<u64>().unwrap() * seen.gc.get(Gc::PageBytes).unwrap();
    for (what, whole) in [("probe", ledger_of(&[ruby.pid])), ("outside", from_outside(ruby.pid))] {
        assert!(whole.unexplained_share() <= 0.03, "{what} of {version:?}: {whole:#?}");
        let free = pss(&whole, PartKind::SlotsFree);
        assert!(free >= kept as f64 * 0.9, "{what} of {version:?}: {free} of {kept}");
    }
    ruby.end();
}

/// The ledger of a process as `explain` reads it where there is no probe.
fn from_outside(pid: u32) -> Ledger {
    let root = ProcRoot::default();
    let members = [root.identify(pid).unwrap()];
    let reading = read_outside(&members, &LookOptions::default());
    ledger(&root, &members, &outside_figures(&reading, &members))
}

#[test]
fn free_memory_between_blocks_is_not_hidden_by_blocks_that_were_never_written(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    // Below 128 kB each, so from the arena, and larger than a slot of any Ruby.
    ruby.eval(&format!(
        "$never = Array.new({}) {{ String.new(capacity: 100_000) }}; 1",
        SIZE / 50_000
    ));
    let fragments = format!(
        "$kept = Array.new({}) {{ 'x' * 1_500 }}; $kept.reject!.with_index {{ |_, n| n.odd? }}; 1",
        2 * SIZE / 1_520
    );
    assert_near_size(version, "free", growth(&mut ruby, &fragments, PartKind::MallocFree));
    let child: u32 = ruby.eval("$child = fork { sleep }").parse().unwrap();
    let free = crate::probe_ruby::wait_for("the child's figures", || {
        let root = ProcRoot::default();
        let member = [root.identify(child).unwrap()];
        let seen = ledger(&root, &member, &read_probe_figures(&root, &member));
        seen.part(PartKind::MallocFree).copied()
    });
    assert_near_size(version, "free in a child", free.resident.0 as f64);
    ruby.eval("Process.kill(:KILL, $child); Process.wait($child)");
    ruby.end();
}

/// A tenth of the size may be in memory that Ruby has freed besides.
fn assert_near_size(version: TestRuby, what: &str, found: f64) {
    let share = found / SIZE as f64;
    assert!((0.95..1.1).contains(&share), "{version:?}, {what}: {found} of {SIZE} bytes");
}

#[test]
fn mappings_of_known_size_appear_in_their_own_lines() {
    require!(Ruby);
    let bench = Bench::new();
    let file = bench.home.path().join("mapped");
    std::fs::write(&file, vec![0; SIZE as usize]).unwrap();
    let mut ruby = bench.start(TestRuby::OnPath.command(None));
    ruby.eval(
        "require 'fiddle'; P, L, I = Fiddle::TYPE_VOIDP, Fiddle::TYPE_LONG, Fiddle::TYPE_INT; \
         C = Fiddle.dlopen(nil); MAP = Fiddle::Function.new(C['mmap'], [P, L, I, I, I, L], P); \
         SET = Fiddle::Function.new(C['memset'], [P, I, L], P); \
         FIND = Fiddle::Function.new(C['memchr'], [P, I, L], P); nil",
    );
    let written = |flags: &str| {
        format!("$held = MAP.call(nil, {SIZE}, 3, {flags}, -1, 0); SET.call($held, 1, {SIZE}); nil")
    };
    let shared = growth(&mut ruby, &written("0x21"), PartKind::SharedMemory);
    assert_grew(TestRuby::OnPath, "a shared mapping", shared);
    let read = format!(
        "$file = File.open('{}'); $read = MAP.call(nil, {SIZE}, 1, 2, $file.fileno, 0); \
         FIND.call($read, 255, {SIZE}); nil",
        file.display()
    );
    // What the Rubies of other tests start or end to map of libruby changes this one's share of it, but not what is resident.
    let (before, after) = around(&mut ruby, &read);
    let resident = |ledger: &Ledger| ledger.part(PartKind::CodeAndFiles).unwrap().resident.0 as f64;
    assert_grew(TestRuby::OnPath, "a mapping of a file", resident(&after) - resident(&before));
    let share = pss(&after, PartKind::CodeAndFiles) - pss(&before, PartKind::CodeAndFiles);
    let most_of_others = resident(&before) + SIZE as f64 * TOLERANCE;
    assert!((share - SIZE as f64).abs() <= most_of_others, "{share} of {SIZE} bytes");
    // Memory that neither Ruby nor malloc knows of is unexplained, reduced by what malloc handed out and was never
    // touched, because nothing says which anonymous page is whose.
    let before = ledger_of(&[ruby.pid]).unexplained;
    ruby.eval(&written("0x22"));
    let unexplained = ledger_of(&[ruby.pid]).unexplained - before;
    let missing = SIZE as f64 - unexplained as f64;
    assert!((-0.02..0.06).contains(&(missing / SIZE as f64)), "{unexplained} of {SIZE} bytes");
    ruby.end();
}

/// Writes about this many megabytes of this thread's stack, sends the exact number of bytes, and waits for the end.
#[inline(never)]
fn fill_stack(megabytes: u32, top: usize, said: &Sender<usize>, end: &Receiver<()>) {
    let mut block = [1_u8; 1 << 20];
    std::hint::black_box(&mut block);
    if megabytes > 1 {
        fill_stack(megabytes - 1, top, said, end);
    } else {
        said.send(top - block.as_ptr() as usize).unwrap();
        // Ends with an error when the test is over.
        let _ = end.recv();
    }
    std::hint::black_box(&mut block);
}

#[test]
fn stacks_of_threads_appear_in_their_own_line() {
    let root = ProcRoot::default();
    let own = [root.identify(std::process::id()).unwrap()];
    let stacks = || pss(&ledger(&root, &own, &HashMap::new()), PartKind::Stacks);
    let before = stacks();
    let (said, heard) = channel();
    let threads: Vec<(Sender<()>, JoinHandle<()>)> = (0..5)
        .map(|_| {
            let (said, (end, ended)) = (said.clone(), channel());
            let work = move || {
                let top = 0_u8;
                fill_stack(8, std::ptr::from_ref(&top) as usize, &said, &ended);
            };
            (end, std::thread::Builder::new().stack_size(48 << 20).spawn(work).unwrap())
        })
        .collect();
    let filled: usize = threads.iter().map(|_| heard.recv().unwrap()).sum();
    let grown = stacks() - before;
    for (end, thread) in threads {
        drop(end);
        thread.join().unwrap();
    }
    assert!(filled >= 40 << 20, "{filled}");
    let off = (grown - filled as f64).abs() / filled as f64;
    assert!(off <= TOLERANCE, "{filled} bytes of stacks show as {grown}");
}

#[test]
fn after_a_fork_slots_are_shared_and_a_write_makes_them_private() {
    require!(Ruby);
    let bench = Bench::new();
    let mut ruby = bench.start(TestRuby::OnPath.command(None));
    ruby.eval("Cell = Struct.new(:rest); $cells = nil");
    ruby.eval(&format!(
        "{}.times {{ $cells = Cell.new($cells) }}; 4.times {{ GC.start }}",
        SIZE / 40
    ));
    ruby.eval("GC.disable; $ask, $go = IO.pipe");
    let child: u32 = ruby
        .eval(
            "$child = fork { $go.close; $ask.gets; c = $cells; \
             (c.rest = c.rest; c = c.rest) while c; sleep }",
        )
        .parse()
        .unwrap();
    let slots = |ledger: &Ledger| *ledger.part(PartKind::SlotsLive).unwrap();
    // The child creates its page before `fork` returns and fills it a little later.
    crate::probe_ruby::wait_for("the child's page", || {
        let root = ProcRoot::default();
        let inside =
            read_probe_figures(&root, &[root.identify(child).unwrap()]).into_values().next();
        inside.filter(|inside| !inside.pools.is_empty())
    });
    let together = slots(&ledger_of(&[ruby.pid, child]));
    assert!(together.shared().0 as f64 > 0.9 * SIZE as f64, "{together:?}");
    assert!((together.pss.0 as f64) < 1.3 * SIZE as f64, "counted once: {together:?}");
    ruby.eval("$go.puts; 1");
    crate::probe_ruby::wait_for("the writes", || {
        let apart = slots(&ledger_of(&[ruby.pid, child]));
        (apart.private.0 as f64 > 1.8 * SIZE as f64).then_some(())
    });
    ruby.eval("Process.kill(:KILL, $child); Process.wait($child)");
    ruby.end();
}
