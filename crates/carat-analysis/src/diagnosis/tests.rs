//! Tests of the diagnosis.

use super::*;
use carat_model::ledger::{DetectedAllocator, FileUse, ProcessLedger};
use carat_model::recording::{RecordingEnd, RecordingInfo};
use carat_model::{
    ClassGrowth, GrowthKind, PartGrowth, ProgressUnit, ReadingEvidence, Recording, Sample,
    SamplerCost, TrackedPart, Variant,
};
use carat_outside::census::UnknownPart;
use carat_outside::malloc::{ChunkAmount, ChunkSize};
use carat_outside::owners::ReachCensus;
use carat_outside::unshared::{Cause, CauseShare, UnsharedTable};
use carat_outside::who::{ClassHolders, Way, WayRoot, WhoCensus};

const MB: u64 = 1_000_000;

fn part(kind: PartKind, megabytes: u64) -> LedgerPart {
    let pss = Bytes(megabytes * MB);
    LedgerPart { kind, pss, private: pss, resident: pss }
}

fn process(pid: u32, files: Vec<FileUse>) -> ProcessLedger {
    let allocator = DetectedAllocator {
        active: Some("jemalloc".into()),
        loaded: Vec::new(),
        evidence: String::new(),
    };
    ProcessLedger {
        pid,
        parent: Some(1),
        title: "ruby app.rb".into(),
        rss: Bytes(100 * MB),
        pss: Bytes(100 * MB),
        uss: Bytes(90 * MB),
        swap: Some(Bytes(0)),
        huge: None,
        threads: Some(5),
        basis: Basis::Outside,
        parts: Vec::new(),
        slots_unknown: None,
        unexplained: 0,
        allocator,
        ruby: Some("ruby 3.3.8".into()),
        heap: None,
        jit: None,
        returnable: None,
        arenas: Vec::new(),
        environment: Vec::new(),
        files,
    }
}

fn ledger(parts: Vec<LedgerPart>, files: Vec<FileUse>) -> Ledger {
    let pss = parts.iter().map(|part| part.pss).sum();
    Ledger { pss, uss: pss, parts, processes: vec![process(7, files)], ..Ledger::default() }
}

fn live() -> Vec<LedgerPart> {
    vec![
        part(PartKind::CodeAndFiles, 10),
        part(PartKind::SlotsLive, 30),
        part(PartKind::MallocLive, 60),
    ]
}

fn says(diagnosis: &Diagnosis, kind: DiagnosisKind) -> String {
    let found = diagnosis.rows.iter().find(|row| row.kind == kind);
    found.map_or_else(String::new, |row| row.text.clone())
}

fn file(name: String, bytes: u64, mapped: bool) -> FileUse {
    FileUse { name, bytes: Bytes(bytes), mapped }
}

fn of_process(census: Census) -> OutsideReading {
    OutsideReading { processes: vec![census], ..OutsideReading::default() }
}

fn of_class(class: &ClassCount, reach: Option<ReachCensus>) -> OutsideReading {
    of_process(Census { classes: Some(vec![class.clone()]), reach, ..Census::default() })
}

fn group(limit: u64, used: u64) -> GroupUse {
    GroupUse {
        name: "/app".into(),
        current: Some(Bytes(used * MB)),
        working_set: Some(Bytes(used * MB)),
        other_processes: Some(0),
        limits: vec![GroupLimit {
            group: "/app".into(),
            kind: LimitKind::Max,
            limit: Bytes(limit * MB),
            used: Bytes(used * MB),
        }],
        ..GroupUse::default()
    }
}

#[test]
fn what_is_in_swap_is_the_largest_where_it_is_and_leaves_unknown_what_helps() {
    for (megabytes, largest, help) in [
        (0, "malloc, live: 60.00 MB (60 %)", "no setting would save 5 %"),
        (4, "malloc, live: 60.00 MB (60 %)", "no setting would save 5 %"),
        (5, "malloc, live: 60.00 MB (60 %)", "unknown: 5.00 MB is in swap"),
        (
            61,
            "in swap: 61.00 MB, which is not read; in memory malloc, live: 60.00 MB (60 %)",
            "unknown: 61.00 MB is in swap",
        ),
    ] {
        let mut ledger = ledger(live(), Vec::new());
        ledger.processes[0].swap = Some(Bytes(megabytes * MB));
        let found = diagnosis(&ledger, LedgerSource::Processes(None));
        assert_eq!(says(&found, DiagnosisKind::Largest), largest);
        let said = says(&found, DiagnosisKind::Help);
        assert!(said.starts_with(help), "{megabytes} MB: {said}");
    }
}

#[test]
fn live_memory_of_the_app_gets_no_setting_and_the_holders_come_next() {
    let reading = of_process(Census { reach: Some(ReachCensus::default()), ..Census::default() });
    let found = diagnosis(&ledger(live(), Vec::new()), LedgerSource::Processes(Some(&reading)));
    assert!(
        says(&found, DiagnosisKind::Help).starts_with("nothing: this is what the app keeps"),
        "{found:?}"
    );
    assert_eq!(found.next, FollowUp::Who);
    assert_eq!(says(&found, DiagnosisKind::Largest), "malloc, live: 60.00 MB (60 %)");
    assert!(found.rows.len() <= 8);
}

#[test]
fn who_keeps_the_largest_class_is_said_and_where_it_cannot_be_found_out_it_is_not_suggested() {
    let class = ClassCount { name: "Row".into(), slot_bytes: 30 * MB, ..ClassCount::default() };
    let census = Census { process: 7, classes: Some(vec![class]), ..Census::default() };
    let found = |census: Census| {
        diagnosis(&ledger(live(), Vec::new()), LedgerSource::Processes(Some(&of_process(census))))
    };
    let who = WhoCensus { classes: Vec::new(), ..WhoCensus::default() };
    let told = found(Census { who: Some(who), ..census.clone() });
    // Of a process of 100 MB a twentieth counts.
    assert_eq!(says(&told, DiagnosisKind::Kept), "no single object keeps 5.00 MB or more");
    assert_eq!(told.next, FollowUp::Record);
    let open = found(census.clone());
    assert_eq!((says(&open, DiagnosisKind::Kept).as_str(), open.next), ("", FollowUp::Who));
    let unknown = vec![UnknownPart { part: CensusPart::Malloc, reason: "mimalloc".into() }];
    assert_eq!(found(Census { unknown, ..census }).next, FollowUp::Record);
}

#[test]
fn what_nobody_is_known_to_hold_is_not_called_what_the_app_keeps() {
    let found = |bytes, garbage| {
        let nobody = ChunkAmount::resident(1_000, bytes);
        let nobody_sizes = vec![ChunkSize { size: 32, amount: nobody }];
        let owners = Some(OwnerCensus { nobody, nobody_sizes, ..OwnerCensus::default() });
        let reach = Some(ReachCensus { unreached_slot_bytes: garbage, ..ReachCensus::default() });
        let reading = of_process(Census { owners, reach, ..Census::default() });
        diagnosis(&ledger(live(), Vec::new()), LedgerSource::Processes(Some(&reading)))
    };
    let told = found(30 * MB, 0);
    assert_eq!(
        says(&told, DiagnosisKind::Most),
        "30.00 MB (30 %) of malloc that nobody is known to hold, most in 1,000 chunks of 32 B: native code keeps it, or leaks it"
    );
    assert_eq!(
        says(&told, DiagnosisKind::Help),
        "no setting would save 5 %; nobody is known to hold 30.00 MB of malloc's memory, and the app keeps the rest"
    );
    assert_eq!(told.next, FollowUp::Record);
    assert_eq!(
        says(&found(30 * MB, 10 * MB), DiagnosisKind::Help),
        "no setting would save 5 %; a full collection would free 10.00 MB, nobody is known to hold 30.00 MB of malloc's memory, and the app keeps the rest"
    );
    let little = found(MB, 0);
    assert_eq!(says(&little, DiagnosisKind::Most), "");
    assert!(
        says(&little, DiagnosisKind::Help).starts_with("nothing: this is what the app keeps"),
        "{little:?}"
    );
}

#[test]
fn memory_in_use_is_what_the_app_keeps_only_where_garbage_was_told_apart_and_is_little() {
    let help = |reading: Option<&OutsideReading>, tree: &Ledger| {
        says(&diagnosis(tree, LedgerSource::Processes(reading)), DiagnosisKind::Help)
    };
    let tree = ledger(live(), Vec::new());
    let tells = format!(
        "how much of what is in use is garbage is not known: `carat explain {} --reach` tells it",
        tree.processes[0].pid
    );
    for reading in [None, Some(of_process(Census::default()))] {
        let said = help(reading.as_ref(), &tree);
        assert!(said.ends_with(&tells), "{said}");
    }
    let unknown = vec![UnknownPart { part: CensusPart::Reach, reason: "no stack".into() }];
    let said = help(Some(&of_process(Census { unknown, ..Census::default() })), &tree);
    assert!(said.ends_with("is not known: no stack"), "{said}");
    let garbage = |bytes| {
        let reach = ReachCensus { unreached_slot_bytes: bytes, ..ReachCensus::default() };
        of_process(Census { reach: Some(reach), ..Census::default() })
    };
    let said = help(Some(&garbage(20 * MB)), &tree);
    assert!(said.contains("would free 20.00 MB, and the app keeps the rest"), "{said}");
    assert!(help(Some(&garbage(MB)), &tree).starts_with("nothing: this is what the app keeps"));
    let files = vec![part(PartKind::CodeAndFiles, 96), part(PartKind::MallocLive, 4)];
    let said = help(None, &ledger(files, Vec::new()));
    assert_eq!(said, "nothing: a setting or a full collection would save less than 5 %");
    // Of two Rubies one was not read.
    let mut two = tree;
    two.processes.push(process(8, Vec::new()));
    assert!(help(Some(&garbage(MB)), &two).ends_with(&tells));
}

#[test]
fn files_that_are_charged_and_in_no_process_are_named_with_who_has_them_open() {
    let files = ["/memfd:cache (deleted)", "/dev/shm/rows (deleted)"];
    let files = files.map(|name| file(name.into(), 67_108_864, false)).to_vec();
    let mut tree = ledger(vec![part(PartKind::CodeAndFiles, 10)], files);
    tree.group = Some(Box::new(group(512, 480)));
    let found = diagnosis(&tree, LedgerSource::Processes(None));
    let beside = says(&found, DiagnosisKind::Beside);
    for expected in
        ["67.11 MB in /memfd:cache (deleted), open in pid 7", "67.11 MB in /dev/shm/rows (deleted)"]
    {
        assert!(beside.contains(expected), "{beside}");
    }
    let limit = says(&found, DiagnosisKind::Limit);
    assert!(limit.starts_with("480.0 MB of 512.0 MB used (94 %), 32.00 MB left"), "{limit}");
}

#[test]
fn page_cache_and_tmpfs_are_said_only_where_the_group_is_the_trees_alone() {
    let mut tree = ledger(live(), Vec::new());
    let mut own = group(900, 400);
    (own.files, own.in_memory_files) = (Some(Bytes(250 * MB)), Some(Bytes(130 * MB)));
    (own.inactive_files, own.kernel) = (Some(Bytes(100 * MB)), Some(Bytes(MB)));
    tree.group = Some(Box::new(own.clone()));
    let beside = says(&diagnosis(&tree, LedgerSource::Processes(None)), DiagnosisKind::Beside);
    assert!(
        beside.contains("up to 130.0 MB in tmpfs") && beside.contains("120.0 MB of page cache"),
        "{beside}"
    );
    assert!(!beside.contains("kernel"), "{beside}");
    tree.group = Some(Box::new(GroupUse { other_processes: Some(3), ..own }));
    let found = diagnosis(&tree, LedgerSource::Processes(None));
    assert_eq!(says(&found, DiagnosisKind::Beside), "");
    assert!(says(&found, DiagnosisKind::Limit).contains("3 other processes there too"));
}

#[test]
fn what_forked_processes_share_counts_in_one_of_them() {
    let class = ClassCount {
        name: "Row".into(),
        objects: 900_000,
        slot_bytes: 36 * MB,
        ..ClassCount::default()
    };
    let census = |process, more| Census {
        process,
        classes: Some(vec![ClassCount {
            objects: class.objects + more,
            slot_bytes: class.slot_bytes + more,
            ..class.clone()
        }]),
        ..Census::default()
    };
    let reading =
        OutsideReading { processes: vec![census(7, 0), census(8, 1)], ..OutsideReading::default() };
    let found = diagnosis(&ledger(live(), Vec::new()), LedgerSource::Processes(Some(&reading)));
    let most = says(&found, DiagnosisKind::Most);
    assert!(most.starts_with("Row: 900,001 objects in process 8 with 36.00 MB of slots"), "{most}");
}

#[test]
fn compaction_in_workers_is_named_before_any_setting() {
    let share = CauseShare {
        cause: Cause::Compaction,
        bytes: 22e6,
        touched_bytes: 22 * MB,
        alone_bytes: 20 * MB,
        changed_bytes: None,
        remedy: Some(Remedy::NoCompaction),
    };
    let table =
        UnsharedTable { parent: 7, child: 8, causes: vec![share], ..UnsharedTable::default() };
    let reading = OutsideReading { unshared: vec![table], ..OutsideReading::default() };
    let help = says(
        &diagnosis(&ledger(live(), Vec::new()), LedgerSource::Processes(Some(&reading))),
        DiagnosisKind::Help,
    );
    assert!(help.starts_with("no `GC.compact` in workers: it made 22.00 MB (22 %)"), "{help}");
}

#[test]
fn mapped_files_are_named_where_they_are_the_largest_part() {
    let files = (0..3).map(|at| file(format!("/run/counter_worker-{at}.db"), 20 * MB, true));
    let tree = ledger(
        vec![part(PartKind::CodeAndFiles, 70), part(PartKind::MallocLive, 9)],
        files.collect(),
    );
    let largest = says(&diagnosis(&tree, LedgerSource::Processes(None)), DiagnosisKind::Largest);
    assert!(largest.contains("counter_worker-0.db 20.00 MB, counter_worker-1.db"), "{largest}");
}

#[test]
fn garbage_is_said_before_a_class_is_called_large_and_what_is_not_told_apart_too() {
    let class = ClassCount {
        name: "Row".into(),
        objects: 900,
        slot_bytes: 30 * MB,
        ..ClassCount::default()
    };
    let reach = ReachCensus {
        unreached_objects: 800,
        unreached_slot_bytes: 25 * MB,
        ..ReachCensus::default()
    };
    let tree = ledger(live(), Vec::new());
    let found = diagnosis(&tree, LedgerSource::Processes(Some(&of_class(&class, None))));
    assert!(
        says(&found, DiagnosisKind::Most).ends_with("garbage among them not told apart"),
        "{found:?}"
    );
    let known = ClassCount { garbage_objects: Some(800), ..class };
    let found = diagnosis(&tree, LedgerSource::Processes(Some(&of_class(&known, Some(reach)))));
    let kinds: Vec<DiagnosisKind> = found.rows.iter().map(|row| row.kind).collect();
    let order = [DiagnosisKind::Garbage, DiagnosisKind::Largest, DiagnosisKind::Most];
    assert!(kinds.windows(3).any(|kinds| kinds == order), "{found:?}");
    assert!(
        says(&found, DiagnosisKind::Garbage).contains("would free 800 objects: 25.00 MB of slots"),
        "{found:?}"
    );
    assert!(says(&found, DiagnosisKind::Most).ends_with("800 of them garbage"), "{found:?}");
}

#[test]
fn garbage_that_was_counted_when_the_keeper_was_asked_for_is_said_and_not_called_unknown() {
    let class = ClassCount {
        name: "Row".into(),
        objects: 900,
        slot_bytes: 30 * MB,
        ..ClassCount::default()
    };
    let most = |garbage_objects| {
        let counted = ClassHolders {
            name: "Row".into(),
            objects: 910,
            garbage_objects,
            ..ClassHolders::default()
        };
        let who = WhoCensus { classes: vec![counted], ..WhoCensus::default() };
        let classes = Some(vec![class.clone()]);
        let reading = of_process(Census { classes, who: Some(who), ..Census::default() });
        let found = diagnosis(&ledger(live(), Vec::new()), LedgerSource::Processes(Some(&reading)));
        says(&found, DiagnosisKind::Most)
    };
    let said = most(Some(0));
    assert!(said.ends_with(", none of them garbage when they were read again"), "{said}");
    let said = most(Some(800));
    assert!(said.ends_with("; when they were read again, 800 of 910 were garbage"), "{said}");
}

#[test]
fn a_setting_that_the_results_have_tried_is_not_suggested_again() {
    let mut parts = live();
    parts.push(part(PartKind::MallocFree, 40));
    let tree = ledger(parts, Vec::new());
    let [finding, ..] = &findings_of(&tree, LedgerSource::Results(&[]))[..] else { panic!() };
    let (name, value) = finding.setting.clone().unwrap();
    let variant = |name: &str, value: &str| Variant {
        name: "tuned".into(),
        settings: [(name.to_owned(), value.to_owned())].into(),
        controls: Vec::new(),
    };
    for (tried, helps, next) in [
        (variant(name, &value), ", which variant `tuned` has", FollowUp::Verdict),
        (variant(name, "another"), finding.code, FollowUp::Suggest),
        (variant("root", &value), finding.code, FollowUp::Suggest),
    ] {
        let source = LedgerSource::Results(std::slice::from_ref(&tried));
        let found = diagnosis(&tree, source);
        let help = says(&found, DiagnosisKind::Help);
        assert!(help.ends_with(helps), "{help}");
        assert_eq!(found.next, next);
        assert_eq!(findings_of(&tree, source).contains(finding), next == FollowUp::Suggest);
    }
}

#[test]
fn a_setting_is_suggested_only_where_it_can_save_a_twentieth() {
    for (free, expected) in [(3, "no setting would"), (40, "perhaps `malloc_conf")] {
        let mut parts = live();
        parts.push(part(PartKind::MallocFree, free));
        let help = says(
            &diagnosis(&ledger(parts, Vec::new()), LedgerSource::Processes(None)),
            DiagnosisKind::Help,
        );
        assert!(help.starts_with(expected), "{free}: {help}");
    }
    let unread = Ledger { unread: vec!["7: denied".into()], ..Ledger::default() };
    let found = diagnosis(&unread, LedgerSource::Processes(None));
    assert_eq!(says(&found, DiagnosisKind::Help), "unknown: not all of it could be read");
    assert!(
        says(&found, DiagnosisKind::Size).contains("unknown; 1 process could not be read"),
        "{found:?}"
    );
}

#[test]
fn many_threads_come_before_a_class() {
    let mut parts = live();
    parts.push(part(PartKind::Stacks, 12));
    let mut tree = ledger(parts, Vec::new());
    tree.processes[0].threads = Some(406);
    let found = diagnosis(&tree, LedgerSource::Results(&[]));
    assert!(
        says(&found, DiagnosisKind::Most).starts_with("406 threads, whose stacks hold 12.00 MB"),
        "{found:?}"
    );
}

/// A recording of two samples so many milliseconds apart.
fn recording(apart_ms: u64, growth: Vec<PartGrowth>) -> Recording {
    let sample =
        |at_ms, megabytes| Sample { at_ms, pss: Some(Bytes(megabytes * MB)), ..Sample::default() };
    let info = RecordingInfo {
        schema: String::new(),
        what: "puma".into(),
        started_ms: 0,
        command: Vec::new(),
    };
    let samples = vec![sample(100, 100), sample(100 + apart_ms, 112)];
    Recording { samples, growth, ..Recording::new(info) }
}

#[test]
fn no_command_names_a_process_of_a_file() {
    let tree = ledger(live(), Vec::new());
    let open = recording(400, Vec::new());
    for source in [LedgerSource::Results(&[]), LedgerSource::Recording(&open)] {
        let found = diagnosis(&tree, source);
        let help = says(&found, DiagnosisKind::Help);
        assert!(
            help.ends_with(
                "is not known: `carat explain PID --reach` tells it of a running server"
            ),
            "{help}"
        );
    }
}

#[test]
fn a_ledger_without_single_processes_is_not_said_to_be_of_no_ruby() {
    let whole = Ledger { processes: Vec::new(), ..ledger(live(), Vec::new()) };
    let found = diagnosis(&whole, LedgerSource::Results(&[]));
    assert_eq!(says(&found, DiagnosisKind::Help), "unknown: the single processes are not known");
}

#[test]
fn growth_of_a_recording_has_its_two_moments_where_nothing_is_known_of_it() {
    let tree = ledger(live(), Vec::new());
    for (apart_ms, time) in [(90_000, "90 s"), (400, "0.4 s"), (600_000, "10.0 min")] {
        let open = recording(apart_ms, Vec::new());
        let found = diagnosis(&tree, LedgerSource::Recording(&open));
        assert_eq!(
            says(&found, DiagnosisKind::Growth),
            format!("+12.00 MB in {time}, from 100.0 MB to 112.0 MB; two moments prove no leak")
        );
        assert_eq!(found.next, FollowUp::Record);
    }
    let part = PartGrowth {
        needed: Some(90.0),
        ..PartGrowth::without_figures(
            TrackedPart::Memory,
            GrowthKind::Undecided,
            ProgressUnit::Seconds,
            24.0,
        )
    };
    let found = diagnosis(&tree, LedgerSource::Recording(&recording(24_000, vec![part])));
    let growth = says(&found, DiagnosisKind::Growth);
    assert!(
        growth.ends_with(
            "whether memory grows is undecided after 24 seconds; about 90 seconds would decide"
        ),
        "{growth}"
    );
    assert_eq!(found.next, FollowUp::Record);
}

#[test]
fn what_a_recording_proves_is_said_with_the_class_and_what_keeps_it() {
    let part = PartGrowth {
        rate: Some(530.0),
        readings: Some(ReadingEvidence { readings: 12, proven_at: Some(23.0), to_come: None }),
        ..PartGrowth::without_figures(
            TrackedPart::KeptObjects,
            GrowthKind::Linear,
            ProgressUnit::Seconds,
            24.0,
        )
    };
    let class = |class: &str, interval, kept_by| ClassGrowth {
        class: class.into(),
        progress: ProgressUnit::Seconds,
        objects: 12_000,
        rate: 530.0,
        interval,
        readings: 12,
        bytes_each: None,
        kept_by,
    };
    let root = Some(WayRoot::Global { name: "$k".into() });
    let way = Way { root, ..Way::default() };
    let mut proven = recording(24_000, vec![part]);
    proven.end = Some(RecordingEnd {
        classes: vec![
            class("Hash", (529.9, 530.1), None),
            class("String", (100.0, 900.0), Some(way.clone())),
            class("Ticket", (528.0, 532.0), Some(way)),
        ],
        ..ended()
    });
    let found = diagnosis(&ledger(live(), Vec::new()), LedgerSource::Recording(&proven));
    assert_eq!(
        says(&found, DiagnosisKind::Growth),
        "the number of kept objects grows by 530.00 objects per second, proven after 23 seconds"
    );
    assert_eq!(
        says(&found, DiagnosisKind::Kept),
        "Ticket grows by 530 objects per second, kept by global variable $k"
    );
    assert_eq!(found.next, FollowUp::Who);
}

fn ended() -> RecordingEnd {
    RecordingEnd {
        ended: "the time was over".into(),
        load: None,
        cost: SamplerCost::default(),
        warnings: Vec::new(),
        classes: Vec::new(),
        limit: None,
        limit_unseen: false,
        unread: None,
        outlook: None,
        allocations: None,
    }
}

#[test]
fn of_an_allocator_that_is_not_walked_the_help_says_so_and_names_no_setting_of_another() {
    let reason = "its allocator is mimalloc, which is not walked";
    let unknown = vec![UnknownPart { part: CensusPart::Malloc, reason: reason.into() }];
    let reading = of_process(Census { unknown, ..Census::default() });
    let parts = vec![part(PartKind::SlotsLive, 4), part(PartKind::Malloc, 96)];
    let mut tree = ledger(parts, Vec::new());
    tree.processes[0].allocator.active = Some("mimalloc".into());
    let found = diagnosis(&tree, LedgerSource::Processes(Some(&reading)));
    assert_eq!(
        says(&found, DiagnosisKind::Help),
        format!(
            "no setting is known to: 96.00 MB cannot be told apart into live and free: {reason}"
        )
    );
    // With the probe the allocator itself says how much is free.
    let parts = vec![part(PartKind::MallocLive, 60), part(PartKind::MallocFree, 40)];
    let mut tree = ledger(parts.clone(), Vec::new());
    tree.processes[0].parts = parts;
    tree.processes[0].allocator.active = Some("tcmalloc".into());
    assert_eq!(
        says(&diagnosis(&tree, LedgerSource::Processes(None)), DiagnosisKind::Help),
        "no setting is known to: 40.00 MB is free in tcmalloc, whose own options say when it returns memory"
    );
}
