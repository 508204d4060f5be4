//! Recordings and ledgers with realistic figures, for the tests of the report.

use carat_analysis::{
    AblatedSetting, Attempt, Hint, Recommendation, TriedConfiguration, TuneOutcome, TunedMetric,
};
use carat_model::OutsideReading;
use carat_model::ledger::{
    Arena, Basis, DetectedAllocator, FileUse, Ledger, LedgerPart, PartKind, ProcessLedger,
    RubyHeap, SlotPool,
};
use carat_model::recording::{
    GrowthOutlook, Marker, MarkerKind, RECORDING_SCHEMA, RecordedLoad, RecordedLoadPlan, Recording,
    RecordingEnd, RecordingInfo,
};
use carat_model::{
    AllocationCost, AllocationProfile, AllocationSite, Bytes, ClassGrowth, Conclusion, DailyGrowth,
    Estimate, GroupLimit, GrowthKind, InsideSample, LimitKind, MemberSample, PartGrowth,
    ProgressUnit, Role, Sample, SamplerCost, TrackedPart, Verdict,
};
use carat_outside::census::Census;
use carat_outside::heap::{ClassCount, HeapCensus, HeapPageFill, PoolCensus};
use carat_outside::malloc::{ArenaCensus, ChunkAmount, MallocCensus};
use carat_outside::owners::{HolderAmount, HolderKind, OwnerCensus};
use carat_outside::unshared::{Cause, CauseShare, UnsharedTable};
use carat_report::SearchReport;
use carat_ruby::version::RubyVersion;
use std::collections::BTreeMap;

/// Holders of malloc's chunks with this name.
fn owners(text: &str) -> OwnerCensus {
    let holder = |kind| HolderAmount {
        kind,
        name: text.into(),
        amount: ChunkAmount::resident(12, 800_000),
        garbage: Some(ChunkAmount::resident(5, 300_000)),
    };
    OwnerCensus {
        holders: [HolderKind::Library, HolderKind::Thread, HolderKind::OtherMemory]
            .map(holder)
            .into(),
        nobody: ChunkAmount::resident(49_601, 5_600_000),
        ..OwnerCensus::default()
    }
}

/// A heap of 900 pages.
fn heap() -> HeapCensus {
    let page = |number: u64| HeapPageFill {
        address: 0x7f00_0000_0000 + number * 65_536,
        slot_bytes: 40,
        slots: 1_630,
        live: 1_630 * (number % 7) / 6,
        old: Some(1_000 * (number % 7) / 6),
        pinned: Some(3),
        class: Some(number % 2),
    };
    HeapCensus {
        page_bytes: 65_536,
        pages: 900,
        slots: 1_467_000,
        free_slots: 400_000,
        live_bytes: 42_680_000,
        free_bytes: 16_000_000,
        pools: vec![PoolCensus { slot_bytes: 40, pages: 900, ..PoolCensus::default() }],
        map: (0..900).map(page).collect(),
        ..HeapCensus::default()
    }
}

/// Two Rubies as they are read from outside, with a class, a library and a thread of this name.
pub(crate) fn reading(text: &str) -> OutsideReading {
    let class = |name: &str, objects| ClassCount {
        name: name.into(),
        objects,
        slot_bytes: objects * 40,
        old: Some(objects / 2),
        malloc_bytes: Some(objects * 90),
        malloc_chunks: Some(objects),
        with_held_bytes: Some(objects * 200),
        garbage_objects: Some(objects / 3),
    };
    let arena = |main, cells: u16| ArenaCensus {
        main,
        system_bytes: 20_000_000,
        in_use: ChunkAmount::resident(90_000, 14_000_000),
        free: ChunkAmount::resident(900, 5_000_000),
        resident_bytes: 19_000_000,
        map: (0..cells).map(|cell| (cell % 101) as u8).collect(),
        ..ArenaCensus::default()
    };
    let census = |process| Census {
        process,
        ruby: "3.3.8".into(),
        heap: Some(heap()),
        classes: Some(vec![class("String", 400_000), class(text, 90_000)]),
        malloc: Some(MallocCensus {
            arenas: vec![arena(true, 1_024), arena(false, 60)],
            ..MallocCensus::default()
        }),
        owners: Some(owners(text)),
        ..Census::default()
    };
    let cause = |cause: Cause| CauseShare {
        cause,
        bytes: 1_000_000.0,
        touched_bytes: 1_900_000,
        alone_bytes: 400_000,
        changed_bytes: None,
        remedy: cause.remedy(RubyVersion::new(3, 3)),
    };
    let unshared = UnsharedTable {
        parent: 4300,
        child: 4301,
        private_bytes: 20_000_000,
        causes: Cause::ALL.map(cause).into(),
        ..UnsharedTable::default()
    };
    OutsideReading {
        processes: vec![census(4300), census(4301)],
        unshared: vec![unshared],
        ..OutsideReading::default()
    }
}

fn part(kind: PartKind, pss: u64, private: u64) -> LedgerPart {
    LedgerPart { kind, pss: Bytes(pss), private: Bytes(private), resident: Bytes(pss * 2) }
}

fn glibc(evidence: &str) -> DetectedAllocator {
    DetectedAllocator {
        active: Some("glibc".into()),
        loaded: Vec::new(),
        evidence: evidence.into(),
    }
}

fn process(at: u64, text: &str) -> ProcessLedger {
    let grown = 1_000_000 * at;
    let parts = vec![
        part(PartKind::CodeAndFiles, 6_200_000, 400_000),
        part(PartKind::Stacks, 900_000, 900_000),
        part(PartKind::SlotsLive, 21_000_000 + grown, 14_000_000 + grown),
        part(PartKind::SlotsFree, 4_000_000, 3_000_000),
        part(PartKind::MallocLive, 31_000_000 + grown, 25_000_000),
        part(PartKind::MallocFree, 9_000_000, 8_500_000),
        part(PartKind::AllocatorOverhead, 700_000, 700_000),
    ];
    let sum: u64 = parts.iter().map(|part| part.pss.0).sum();
    ProcessLedger {
        pid: 4300 + at as u32,
        parent: Some(if at == 0 { 1 } else { 4300 }),
        title: match at {
            0 => format!("puma 6.6.0 (tcp://0.0.0.0:3000) [{text}]"),
            _ => format!("puma: cluster worker {}: 4300 [{text}]", at - 1),
        },
        rss: Bytes(sum * 2),
        pss: Bytes(sum + 500_000),
        uss: Bytes(52_000_000),
        swap: None,
        huge: None,
        threads: Some(9),
        basis: Basis::Probe,
        parts,
        slots_unknown: None,
        unexplained: 500_000,
        allocator: glibc(text),
        ruby: Some("3.1.2".into()),
        heap: Some(RubyHeap {
            size: Bytes(26_000_000),
            resident: Bytes(25_000_000 + grown),
            private: Bytes(17_000_000),
            pools: vec![SlotPool {
                slot_size: 40,
                slots: Some(600_000),
                live: Some(510_000),
                free: Some(90_000),
                pages: Some(1470),
            }],
            ..RubyHeap::default()
        }),
        arenas: (0..9)
            .map(|number| Arena {
                number,
                held: Bytes(5_000_000 - 300_000 * u64::from(number)),
                resident: None,
                free: Some(Bytes(1_000_000)),
            })
            .collect(),
        environment: vec![
            ("MALLOC_ARENA_MAX".into(), "2".into()),
            ("SECRET_KEY_BASE".into(), "canary-8".into()),
        ],
        files: [true, false]
            .map(|mapped| FileUse { name: text.into(), bytes: Bytes(20_000_000), mapped })
            .into(),
        ..ProcessLedger::default()
    }
}

/// A preforking server: a leader and four workers.
pub(crate) fn ledger(text: &str) -> Ledger {
    let processes: Vec<ProcessLedger> = (0..5).map(|at| process(at, text)).collect();
    let sum = |pick: fn(&LedgerPart) -> u64, kind| -> Bytes {
        let parts = processes.iter().flat_map(|process| &process.parts);
        Bytes(parts.filter(|part| part.kind == kind).map(pick).sum())
    };
    let parts = PartKind::ALL
        .into_iter()
        .filter(|kind| sum(|p| p.pss.0, *kind).0 > 0)
        .map(|kind| LedgerPart {
            kind,
            pss: sum(|p| p.pss.0, kind),
            private: sum(|p| p.private.0, kind),
            resident: sum(|p| p.resident.0, kind),
        })
        .collect();
    let pss = processes.iter().map(|process| process.pss).sum();
    let uss = processes.iter().map(|process| process.uss).sum();
    Ledger {
        group: None,
        pss,
        uss,
        parts,
        unexplained: 2_500_000,
        processes,
        unread: vec![text.into()],
        from_status: Vec::new(),
        always_huge: None,
    }
}

fn growth(part: TrackedPart, kind: GrowthKind, rate: Option<f64>) -> PartGrowth {
    PartGrowth {
        rate,
        interval: rate.map(|rate| (rate * 0.9, rate * 1.1)),
        needed: Some(7200.0),
        per_day: rate.map(|rate| DailyGrowth {
            amount: rate * 86_400.0,
            interval: Some((rate * 77_760.0, rate * 95_040.0)),
            progress_per_s: 1.0,
        }),
        ..PartGrowth::without_figures(part, kind, ProgressUnit::Seconds, 3600.0)
    }
}

/// A class of this name that grows.
fn growing_class(text: &str) -> ClassGrowth {
    ClassGrowth {
        class: text.into(),
        progress: ProgressUnit::Seconds,
        objects: 9_300,
        rate: 3.0,
        interval: (2.9, 3.1),
        readings: 40,
        bytes_each: Some(412.0),
        kept_by: None,
    }
}

fn recorded_load(text: &str) -> RecordedLoad {
    let plan = RecordedLoadPlan { scenario: Some(text.into()), ..RecordedLoadPlan::default() };
    RecordedLoad { url: format!("http://127.0.0.1/{text}"), report: None, plan }
}

/// An hour of that server, leaking 3 kB a second.
pub(crate) fn recording(text: &str) -> Recording {
    let samples = (0..3600)
        .map(|second: u64| {
            let members: Vec<MemberSample> = (0..5)
                .map(|slot| {
                    let wave = ((second * 7 + slot * 13) % 11) * 60_000;
                    let pss = 66_000_000 + second * 600 + wave;
                    MemberSample {
                        slot: slot as u32,
                        pid: 4300 + slot as u32,
                        pss: Some(Bytes(pss)),
                        ..MemberSample::default()
                    }
                })
                .collect();
            let pss: Bytes = members.iter().filter_map(|member| member.pss).sum();
            // Each of the five counts what it shares with the others, so the sum is more than the tree.
            let inside = InsideSample {
                probes: 5,
                malloc_live: Some(Bytes(5 * (95_000_000 + second * 600))),
                malloc_free: Some(Bytes(5 * 12_000_000)),
                ..InsideSample::default()
            };
            Sample {
                at_ms: second * 1000,
                processes: 5,
                pss: Some(pss),
                uss: Some(Bytes(pss.0 * 4 / 5)),
                shared: Some(Bytes(pss.0 / 5)),
                members,
                inside: Some(inside),
                ..Sample::default()
            }
        })
        .collect();
    let info = RecordingInfo {
        schema: RECORDING_SCHEMA.into(),
        what: format!("puma -C puma.rb {text}"),
        started_ms: 1_790_000_000_000,
        command: vec!["puma".into(), text.into()],
    };
    Recording {
        info,
        samples,
        markers: vec![
            Marker { at_ms: 900_000, what: MarkerKind::Fork { slot: 3, pid: 4400 } },
            Marker { at_ms: 1_800_000, what: MarkerKind::MajorGc },
        ],
        jit_code_before: None,
        growth: vec![
            growth(TrackedPart::Memory, GrowthKind::Linear, Some(3000.0)),
            growth(TrackedPart::KeptObjects, GrowthKind::Undecided, None),
        ],
        ledger: Some(ledger(text)),
        end: Some(recording_end(text)),
    }
}

fn recording_end(text: &str) -> RecordingEnd {
    RecordingEnd {
        ended: "stopped by the user".into(),
        load: Some(recorded_load(text)),
        cost: SamplerCost { samples: 3600, core_share: 0.004, ..SamplerCost::default() },
        warnings: vec![text.into()],
        classes: vec![growing_class(text)],
        limit: Some(GroupLimit {
            group: text.into(),
            kind: LimitKind::Max,
            limit: Bytes(2_000_000_000),
            used: Bytes(1_200_000_000),
        }),
        limit_unseen: false,
        unread: Some(text.into()),
        outlook: Some(GrowthOutlook {
            proven: true,
            per_second: 3000.0,
            interval: (2700.0, 3300.0),
            limit_in_s: Some(266_667.0),
            limit_between_s: Some((242_424.0, 296_296.0)),
        }),
        allocations: Some(allocation_profile(text)),
    }
}

fn allocation_profile(text: &str) -> AllocationProfile {
    AllocationProfile {
        seconds: 60.0,
        processes: 2,
        samples: 400,
        every: Bytes(512 << 10),
        objects: 5_000_000,
        unplaced: 3,
        cost: AllocationCost {
            object_ns: Some(35.0),
            sample_ns: 1500.0,
            spent_s: Some(0.18),
            share: Some(0.02),
        },
        sites: vec![AllocationSite {
            class: text.into(),
            path: Some(format!("/app/{text}.rb")),
            line: Some(7),
            samples: 100,
            share: 0.25,
            interval: (0.21, 0.295),
        }],
    }
}

/// The conclusion of a confirmation.
fn confirmed(metric: &str, role: Role, ratio: f64) -> Conclusion {
    Conclusion {
        variant: "candidate 1".into(),
        metric: metric.into(),
        role,
        verdict: Verdict::Smaller,
        estimate: Some(Estimate {
            ratio,
            ratio_interval: (ratio - 0.02, ratio + 0.02),
            difference: ratio * 1e8,
            difference_interval: (ratio * 1.1e8, ratio * 0.9e8),
            confidence: 0.975,
            in_own_unit: false,
        }),
        blocks: 12,
        guard_passed: matches!(role, Role::Guard { .. }).then_some(true),
        detectable: None,
        forecast: None,
        required_confidence: None,
    }
}

/// A search of 60 configurations whose texts are all this one.
pub(crate) fn search(text: &str) -> SearchReport {
    let conclusions = vec![
        confirmed("memory.pss.late", Role::Primary, -0.31),
        confirmed("latency.p95", Role::Guard { limit: 0.05 }, 0.01),
        confirmed("throughput", Role::Exploratory, -0.01),
    ];
    let wave = |number: usize, by: usize| ((number * by) % 17) as f64 / 17.0;
    let tried = (0..60).map(|number| TriedConfiguration {
        text: format!("{text} {number}"),
        succeeded: usize::from(number > 0),
        trials: 1,
        changes: match number {
            0 => vec![None; 3],
            _ => vec![
                Some(-0.4 * wave(number, 5)),
                Some(0.2 * wave(number, 7) - 0.05),
                Some(0.05 - 0.1 * wave(number, 3)),
            ],
        },
        failure: (number == 0).then(|| format!("crashed: {text}")),
    });
    let hint = Hint { setting: text.into(), change: -0.2, standard_error: 0.01 };
    let metrics = [("memory.pss.late", None), ("latency.p95", Some(0.05)), ("throughput", None)];
    let outcome = TuneOutcome {
        metrics: metrics.map(|(metric, guard)| TunedMetric { metric: metric.into(), guard }).into(),
        recommendation: Some(Recommendation {
            text: format!("{text} 7"),
            settings: [("arena_max".to_owned(), "2".to_owned())].into(),
            env: [("WORKERS".to_owned(), text.to_owned())].into(),
            conclusions: conclusions.clone(),
            notes: vec![text.to_owned()],
        }),
        attempts: vec![Attempt {
            text: text.into(),
            why: "it is not smaller by what matters".into(),
            conclusions: conclusions.clone(),
        }],
        ablation: vec![AblatedSetting { setting: text.into(), conclusion: conclusions[0].clone() }],
        hints: vec![hint.clone(); 3],
        effects: vec![hint; 5],
        left_out: [("ksm".to_owned(), "the server forks no workers".to_owned())].into(),
        failing: vec![text.into()],
        tried: tried.collect(),
        trials: 200,
        seconds: 9000.0,
    };
    let command = vec!["puma".into(), text.into()];
    let env = [("FEED".to_owned(), text.to_owned())].into();
    let settings = BTreeMap::from([("yjit".to_owned(), text.to_owned())]);
    SearchReport { name: text.into(), command, env, settings, seed: 3, outcome }
}
