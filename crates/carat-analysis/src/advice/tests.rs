//! Findings of ledgers that are made up.

use super::*;
use carat_model::ledger::{Arena, Basis, DetectedAllocator, LedgerPart, RubyHeap, SlotPool};

use carat_model::ProgressUnit;
use carat_outside::heap::{AgeCensus, ClassCount, HeapCensus};
use carat_outside::unshared::CauseShare;
use carat_ruby::version::V3_3;

const MB: u64 = 1 << 20;

pub(crate) fn process(pid: u32, parent: u32) -> ProcessLedger {
    let allocator = DetectedAllocator {
        active: Some("glibc".into()),
        loaded: Vec::new(),
        evidence: "no other allocator library is mapped".into(),
    };
    ProcessLedger {
        pid,
        parent: Some(parent),
        title: "puma".into(),
        rss: Bytes(100 * MB),
        pss: Bytes(100 * MB),
        uss: Bytes(50 * MB),
        swap: Some(Bytes(0)),
        huge: Some(Bytes(0)),
        threads: Some(5),
        basis: Basis::Probe,
        parts: Vec::new(),
        slots_unknown: None,
        unexplained: 0,
        allocator,
        ruby: Some("ruby 3.1.2".into()),
        heap: None,
        jit: None,
        returnable: None,
        arenas: Vec::new(),
        environment: Vec::new(),
        files: Vec::new(),
    }
}

fn ledger(process: ProcessLedger) -> Ledger {
    Ledger {
        pss: process.pss,
        parts: process.parts.clone(),
        processes: vec![process],
        ..Ledger::default()
    }
}

fn plain(ledger: &Ledger) -> Vec<Finding> {
    findings(ledger, &OutsideReading::default())
}

fn codes(ledger: &Ledger) -> Vec<&'static str> {
    plain(ledger).iter().map(|finding| finding.code).collect()
}

#[test]
fn a_leak_of_what_is_in_use_is_not_answered_by_an_allocator() {
    let mut leaking = ledger(process(1, 0));
    leaking.parts = vec![LedgerPart {
        kind: PartKind::MallocFree,
        pss: Bytes(10 * MB),
        private: Bytes(10 * MB),
        resident: Bytes(10 * MB),
    }];
    leaking.processes[0].parts = leaking.parts.clone();
    leaking.processes[0].swap = Some(Bytes(MB));
    let beside = |part, kind, low| {
        let growth = PartGrowth {
            interval: Some((low, 3000.0)),
            tolerance: Some(4.0),
            ..PartGrowth::without_figures(part, kind, ProgressUnit::Requests, 2000.0)
        };
        let found = findings_beside_growth(&leaking, &[growth]);
        found.iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    let all = ["allocator", "malloc-free", "swap"];
    for part in [TrackedPart::KeptObjects, TrackedPart::KeptMemory, TrackedPart::MallocLive] {
        assert_eq!(beside(part, GrowthKind::Linear, 1000.0), ["swap"]);
        assert_eq!(beside(part, GrowthKind::Undecided, 1000.0), ["swap"], "not proven yet");
        assert_eq!(beside(part, GrowthKind::Undecided, -9.0), all);
        assert_eq!(beside(part, GrowthKind::Flat, -1.0), all);
    }
    assert_eq!(beside(TrackedPart::MallocFree, GrowthKind::Linear, 1000.0), all);
}

#[test]
fn a_single_worker_is_singular() {
    assert_eq!(workers_do(1, "shares", "share"), "1 worker shares");
    assert_eq!(workers_do(2, "was", "were"), "2 workers were");
}

#[test]
fn a_server_in_good_order_has_no_findings() {
    assert_eq!(codes(&ledger(process(10, 1))), Vec::<&str>::new());
}

#[test]
fn a_ledger_without_its_processes_has_no_findings() {
    let mut known = ledger(process(1, 0));
    known.parts = vec![LedgerPart {
        kind: PartKind::MallocFree,
        pss: known.pss,
        private: known.pss,
        resident: known.pss,
    }];
    known.processes[0].parts = known.parts.clone();
    assert_eq!(codes(&known), ["allocator", "malloc-free"]);
    known.processes.clear();
    assert_eq!(codes(&known), [""; 0]);
}

fn part(kind: PartKind, pss: u64, private: u64) -> LedgerPart {
    let resident = Bytes(pss.max(private) * MB);
    LedgerPart { kind, pss: Bytes(pss * MB), private: Bytes(private * MB), resident }
}

/// A parent with 60 MB of heap and two workers that have 50 MB of such a heap for themselves.
fn cluster() -> Ledger {
    let mut processes = vec![process(10, 1), process(11, 10), process(12, 10)];
    processes[0].parts = vec![part(PartKind::SlotsLive, 60, 0), part(PartKind::MallocFree, 5, 0)];
    for worker in &mut processes[1..] {
        worker.parts = vec![part(PartKind::SlotsLive, 50, 40), part(PartKind::MallocFree, 50, 50)];
    }
    let parts = vec![part(PartKind::SlotsLive, 160, 80), part(PartKind::MallocFree, 105, 100)];
    Ledger { pss: Bytes(300 * MB), parts, processes, ..Ledger::default() }
}

#[test]
fn on_a_preloaded_cluster_a_prepared_fork_and_another_allocator_come_first() {
    let found = plain(&cluster());
    let codes: Vec<&str> = found.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["allocator", "fork-not-prepared", "malloc-free"]);
    // Each worker lost 40 MB of slots, and 5 of malloc: its parent has no more.
    assert_eq!(found[1].at_most, Some(Bytes(90 * MB)), "{found:?}");
    assert_eq!(found[1].shrinks, [PartKind::SlotsLive, PartKind::MallocFree]);
    assert_eq!(
        (&found[0].shrinks, found[0].at_most),
        (&vec![PartKind::MallocFree], Some(Bytes(105 * MB)))
    );
}

#[test]
fn a_prepared_fork_and_another_allocator_are_not_suggested_again() {
    let mut tree = cluster();
    for process in &mut tree.processes {
        process.environment = vec![("CARAT_SETTINGS".into(), "prepare_fork=full;scrub=on".into())];
        process.allocator.active = Some("jemalloc".into());
    }
    assert_eq!(codes(&tree), ["malloc-free"]);
}

#[test]
fn another_allocator_is_never_suggested_for_live_memory() {
    for kind in [PartKind::Malloc, PartKind::MallocLive] {
        let mut tree = cluster();
        tree.parts = vec![part(kind, 250, 250), part(PartKind::MallocFree, 5, 5)];
        tree.processes.iter_mut().for_each(|process| process.parts.clear());
        tree.processes[0].parts = tree.parts.clone();
        assert!(!codes(&tree).contains(&"allocator"), "{kind:?}");
    }
}

#[test]
fn another_allocator_is_not_suggested_where_little_is_free_beside_what_is_live() {
    for (live, free, expected) in [(28, 6, false), (28, 14, true), (0, 6, true)] {
        let mut tree = ledger(process(10, 1));
        tree.parts =
            vec![part(PartKind::MallocLive, live, live), part(PartKind::MallocFree, free, free)];
        tree.processes[0].parts = tree.parts.clone();
        assert_eq!(codes(&tree).contains(&"allocator"), expected, "{live} {free}");
    }
}

/// A reading of a Ruby whose last full collection compacted or did not.
fn collected(process: u32, compacted: bool) -> Census {
    let ages = AgeCensus { pinned: compacted.then_some(9), ..AgeCensus::default() };
    let heap = HeapCensus { ages: Some(ages), ..HeapCensus::default() };
    Census { process, heap: Some(heap), ..Census::default() }
}

/// A worker of which a compaction moved this much.
fn compacted_pages(child: u32, megabytes: u64) -> UnsharedTable {
    let mut table = rewritten(child, megabytes);
    table.causes[0].cause = Cause::Compaction;
    UnsharedTable { private_bytes: 100 * MB, ..table }
}

/// The most that the two findings about forks promise for a tree.
struct CompactedFindings<'a>(&'a Ledger);

impl CompactedFindings<'_> {
    fn read(&self, processes: &[(u32, bool)], unshared: &[UnsharedTable]) -> [Option<Bytes>; 2] {
        let processes = processes.iter().map(|one| collected(one.0, one.1)).collect();
        let unshared = unshared.to_vec();
        let reading = OutsideReading { processes, unshared, ..OutsideReading::default() };
        let found = findings(self.0, &reading);
        ["compaction-unshares", UNPREPARED]
            .map(|code| found.iter().find(|one| one.code == code).map(|one| one.at_most.unwrap()))
    }
}

fn mb(megabytes: u64) -> Option<Bytes> {
    Some(Bytes(megabytes * MB))
}

#[test]
fn a_compaction_in_workers_is_named_and_no_preparation_is_said_to_help_there() {
    let mut tree = cluster();
    for worker in &mut tree.processes[1..] {
        worker.heap = Some(RubyHeap { private: Bytes(45 * MB), ..RubyHeap::default() });
    }
    let of = CompactedFindings(&tree);
    let workers = [(10, false), (11, true), (12, true)];
    assert_eq!(of.read(&[], &[]), [None, mb(90)], "nothing was read");
    assert_eq!(of.read(&workers, &[]), [mb(90), None], "what is left, 10 MB, is too little");
    assert_eq!(
        of.read(&[(10, true), (11, true), (12, true)], &[]),
        [None, mb(90)],
        "before the fork"
    );
    assert_eq!(of.read(&workers[1..], &[]), [None, mb(90)], "the parent is unknown");
    let tables = [compacted_pages(11, 20), compacted_pages(12, 20)];
    assert_eq!(of.read(&workers, &tables), [mb(40), None]);
    assert_eq!(of.read(&workers, &[rewritten(11, 20), rewritten(12, 20)]), [None, mb(90)]);
}

#[test]
fn a_compaction_that_made_most_private_comes_before_a_preparation_that_cannot_undo_it() {
    let mut tree = cluster();
    for worker in &mut tree.processes[1..] {
        worker.parts.push(part(PartKind::MallocLive, 20, 20));
    }
    tree.processes[0].parts.push(part(PartKind::MallocLive, 20, 20));
    let unshared = vec![compacted_pages(11, 40), compacted_pages(12, 40)];
    let reading = OutsideReading { unshared, ..OutsideReading::default() };
    let found = findings(&tree, &reading);
    let codes: Vec<&str> = found.iter().map(|finding| finding.code).collect();
    assert_eq!(codes[..3], [ALLOCATOR, COMPACTION, UNPREPARED]);
}

#[test]
fn fewer_threads_are_not_the_advice_for_the_stacks_of_fibers() {
    let class =
        |name: &str, objects| ClassCount { name: name.into(), objects, ..ClassCount::default() };
    for (threads, fibers, expected) in [
        (1, Some(900), Some("let fewer fibers live at a time")),
        (1, Some(1), None),
        (5, Some(4), Some("run fewer threads")),
        (5, None, Some("run fewer threads, or fewer fibers at a time")),
    ] {
        let stacks = vec![part(PartKind::Stacks, 9, 9)];
        let one = ProcessLedger { threads: Some(threads), parts: stacks, ..process(10, 1) };
        let classes = fibers.map(|fibers| vec![class("Thread", 900), class("Fiber", fibers)]);
        let census = Census { process: 10, classes, ..Census::default() };
        let reading = OutsideReading { processes: vec![census], ..OutsideReading::default() };
        let found = findings(&ledger(one), &reading);
        let remedy = found.first().map(|finding| finding.remedy.as_str());
        assert_eq!(remedy, expected, "{threads} {fibers:?}");
    }
}

#[test]
fn workers_are_those_of_the_ruby_that_loaded_the_app_and_not_of_a_program_above_it() {
    // A watchdog in C++, which started a Ruby that forked two workers; each has a helper that is no Ruby.
    let other = |pid, parent| ProcessLedger { ruby: None, ..process(pid, parent) };
    let mut tree = cluster();
    tree.processes[0].parent = Some(8);
    tree.processes.extend([other(7, 1), other(8, 7), other(21, 11), other(22, 12)]);
    let found = plain(&tree);
    let fork = found.iter().find(|finding| finding.code == UNPREPARED).unwrap();
    let expected = "2 workers were forked from process 10, which loaded the app";
    assert!(fork.evidence.starts_with(expected), "{}", fork.evidence);
    assert_eq!(fork.at_most, Some(Bytes(90 * MB)));
}

#[test]
fn huge_pages_are_a_finding_only_where_the_kernel_uses_them_by_default() {
    let mut tree = ledger(ProcessLedger { huge: Some(Bytes(40 * MB)), ..process(10, 1) });
    for (always, remedy) in [(Some(true), "set /sys"), (None, "if /sys"), (Some(false), "")] {
        tree.always_huge = always;
        let found = plain(&tree);
        let found = found.iter().find(|finding| finding.code == "huge-pages");
        assert_eq!(found.is_some(), always != Some(false), "{always:?}");
        assert!(found.is_none_or(|found| found.remedy.starts_with(remedy)), "{found:?}");
    }
}

#[test]
fn fewer_threads_are_suggested_only_to_a_process_with_more_than_one() {
    for (threads, expected) in [(Some(1), 0), (Some(5), 1), (None, 0)] {
        let stacks = vec![part(PartKind::Stacks, 9, 9)];
        let one = ProcessLedger { threads, parts: stacks, ..process(10, 1) };
        assert_eq!(codes(&ledger(one)).len(), expected, "{threads:?}");
    }
}

#[test]
fn every_finding_that_names_a_setting_says_which_part_it_can_shrink_and_by_how_much() {
    for finding in plain(&cluster()).iter().filter(|finding| finding.setting.is_some()) {
        assert!(!finding.shrinks.is_empty() && finding.at_most.is_some(), "{finding:?}");
    }
}

#[test]
fn many_arenas_with_free_memory_are_found_and_few_are_not() {
    let arena =
        |number| Arena { number, held: Bytes(8 * MB), resident: None, free: Some(Bytes(5 * MB)) };
    let mut many = process(10, 1);
    many.arenas = (0..9).map(arena).collect();
    let found = plain(&ledger(many.clone()));
    assert_eq!(found[0].code, "arenas");
    assert_eq!(found[0].at_most, Some(Bytes(8 * 5 * MB)));
    let mut live = many.clone();
    live.arenas.iter_mut().for_each(|arena| arena.free = Some(Bytes(MB / 2)));
    assert_eq!(codes(&ledger(live.clone())), [""; 0], "what is live does not go away");
    live.arenas.iter_mut().for_each(|arena| arena.free = Some(Bytes(2 * MB)));
    assert_eq!(codes(&ledger(live.clone())), [""; 0], "little is free beside what is live");
    live.arenas.iter_mut().for_each(|arena| arena.free = None);
    assert_eq!(codes(&ledger(live)), [""; 0], "nothing is known to be free");
    many.arenas.truncate(3);
    assert_eq!(codes(&ledger(many)), Vec::<&str>::new());
}

#[test]
fn an_allocator_that_is_preloaded_and_not_used_is_named() {
    let mut mistaken = process(10, 1);
    mistaken.environment = vec![("LD_PRELOAD".into(), "/usr/lib/libjemalloc.so.2".into())];
    let found = plain(&ledger(mistaken));
    assert_eq!(found[0].setting, Some(("allocator", "jemalloc".into())));
}

#[test]
fn free_slots_matter_only_when_they_are_many_and_large() {
    let free = LedgerPart {
        kind: PartKind::SlotsFree,
        pss: Bytes(30 * MB),
        private: Bytes(30 * MB),
        resident: Bytes(30 * MB),
    };
    let mut loose = process(10, 1);
    loose.parts = vec![free];
    let pools = vec![SlotPool { slot_size: 40, slots: Some(100), ..SlotPool::default() }];
    let heap = RubyHeap { pools, live_slots: Some(50), ..RubyHeap::default() };
    loose.heap = Some(heap.clone());
    assert_eq!(codes(&ledger(loose.clone())), ["slots-free"]);
    loose.heap = Some(RubyHeap { live_slots: Some(95), ..heap });
    assert_eq!(codes(&ledger(loose)), Vec::<&str>::new());
}

#[test]
fn a_smaller_main_stack_is_suggested_only_for_a_ruby_that_touches_it() {
    for (ruby, setting) in
        [("ruby 3.3.8", Some(("main_stack", "1m".to_owned()))), ("ruby 3.4.1", None)]
    {
        let mut stacked = process(10, 1);
        stacked.parts = vec![part(PartKind::Stacks, 9, 9)];
        stacked.ruby = Some(ruby.into());
        let found = plain(&ledger(stacked));
        assert_eq!((found[0].code, &found[0].setting), ("stacks", &setting), "{ruby}");
    }
}

/// A worker of which this much was written with the same bytes.
pub(crate) fn rewritten(child: u32, megabytes: u64) -> UnsharedTable {
    let share = CauseShare {
        cause: Cause::SameBytes,
        bytes: (megabytes * MB) as f64,
        touched_bytes: megabytes * MB,
        alone_bytes: megabytes * MB,
        changed_bytes: None,
        remedy: Cause::SameBytes.remedy(V3_3),
    };
    UnsharedTable { parent: 10, child, causes: vec![share], ..UnsharedTable::default() }
}

#[test]
fn a_full_gc_since_the_fork_is_found_by_the_pages_that_it_copied() {
    let mut tree = cluster();
    let tables = [rewritten(11, 12), rewritten(12, 13)];
    let code = "full-gc-unshares";
    let find = |tree: &Ledger, tables: &[UnsharedTable]| {
        let reading = OutsideReading { unshared: tables.to_vec(), ..OutsideReading::default() };
        findings(tree, &reading).into_iter().find(|finding| finding.code == code)
    };
    assert_eq!(find(&tree, &tables), None, "the version is unknown");
    tree.processes.iter_mut().for_each(|process| process.ruby = Some("ruby 3.3.8".into()));
    let found = find(&tree, &tables).unwrap();
    assert_eq!(
        (found.at_most, found.setting),
        (Some(Bytes(25 * MB)), Some(("fill_call_caches", "on".into())))
    );
    assert!(found.evidence.contains("in 2 compared workers"), "{}", found.evidence);
    assert!(found.remedy.contains("Ruby 3.4 does not"), "{}", found.remedy);
    assert_eq!(find(&tree, &[rewritten(11, 5)]), None, "too little");
    let one = find(&tree, &[rewritten(11, 20)]).unwrap();
    assert!(one.evidence.contains("in 1 compared worker: "), "{}", one.evidence);
    let settings = ("CARAT_SETTINGS".into(), "prepare_fork=full;fill_call_caches=on".into());
    tree.processes[0].environment = vec![settings];
    assert_eq!(find(&tree, &tables), None, "something else wrote these");
    tree.processes[0].environment.clear();
    tree.processes.iter_mut().for_each(|process| process.ruby = Some("ruby 3.4.1".into()));
    assert_eq!(find(&tree, &tables), None);
}

#[test]
fn workers_that_share_little_with_their_parent_are_found() {
    let (master, mut worker) = (process(10, 1), process(11, 10));
    worker.uss = Bytes(95 * MB);
    let tree =
        Ledger { pss: Bytes(200 * MB), processes: vec![master, worker], ..Ledger::default() };
    assert_eq!(codes(&tree), Vec::<&str>::new(), "without parts there is no largest private part");
    let mut tree = tree;
    let heap = LedgerPart {
        kind: PartKind::SlotsOrMalloc,
        pss: Bytes(60 * MB),
        private: Bytes(60 * MB),
        resident: Bytes(60 * MB),
    };
    tree.processes[1].parts = vec![heap];
    assert_eq!(codes(&tree), ["sharing-eroded"]);
}

#[test]
fn free_memory_of_malloc_that_no_trim_can_return_is_no_finding() {
    for (returnable, expected) in [(4, 0), (6, 1)] {
        let parts = vec![part(PartKind::MallocFree, 20, 20)];
        let one =
            ProcessLedger { returnable: Some(Bytes(returnable * MB)), parts, ..process(10, 1) };
        let found = codes(&ledger(one));
        let number = found.iter().filter(|code| **code == "malloc-free").count();
        assert_eq!(number, expected, "{found:?}");
    }
}

#[test]
fn free_memory_is_answered_with_settings_of_the_allocator_that_keeps_it() {
    let setting = |serving: &[(Option<&str>, u64)]| {
        let processes = serving.iter().zip(1..).map(|(&(active, free), pid)| ProcessLedger {
            parts: vec![part(PartKind::MallocFree, free, free)],
            allocator: DetectedAllocator {
                active: active.map(str::to_owned),
                ..DetectedAllocator::default()
            },
            ..process(pid, 0)
        });
        let tree = Ledger {
            pss: Bytes(100 * MB),
            parts: vec![part(PartKind::MallocFree, 30, 30)],
            processes: processes.collect(),
            ..Ledger::default()
        };
        let found = plain(&tree).into_iter().find(|finding| finding.code == "malloc-free");
        found.unwrap().setting.map(|(name, _)| name)
    };
    assert_eq!(setting(&[(Some("glibc"), 30)]), Some("trim"));
    assert_eq!(setting(&[(Some("jemalloc"), 30)]), Some("malloc_conf"));
    for other in [Some("mimalloc"), Some("tcmalloc"), Some("musl"), None] {
        assert_eq!(setting(&[(other, 30)]), None, "{other:?}");
        // A small helper beside it changes nothing.
        assert_eq!(setting(&[(Some("glibc"), 1), (other, 29)]), None, "{other:?}");
    }
}

#[test]
fn free_memory_of_another_allocator_is_not_told_as_that_of_glibc() {
    let wrapper = process(1, 0);
    let mut server = process(2, 1);
    server.parts = vec![part(PartKind::MallocFree, 30, 30), part(PartKind::MallocLive, 40, 40)];
    for (active, expected) in [("glibc", true), ("jemalloc", false), ("tcmalloc", false)] {
        server.allocator.active = Some(active.into());
        let tree = Ledger {
            pss: Bytes(100 * MB),
            parts: server.parts.clone(),
            processes: vec![wrapper.clone(), server.clone()],
            ..Ledger::default()
        };
        assert_eq!(codes(&tree).contains(&"allocator"), expected, "{active}");
    }
}
