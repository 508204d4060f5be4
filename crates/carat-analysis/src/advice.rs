//! What to try, given a ledger. Each finding comes with its evidence.
//!
//! A finding is a reason for an experiment, never its result: only `carat compare` can say what a setting saves, and at
//! what cost. `docs/explanation/memory.md` documents every code.

use crate::in_effect::{is_in_effect, requested};
use carat_model::OutsideReading;
use carat_model::ledger::{Ledger, LedgerPart, PartKind, ProcessLedger};
use carat_model::{Bytes, GrowthKind, PartGrowth, TrackedPart, count};
use carat_outside::census::Census;
use carat_outside::unshared::{Cause, UnsharedTable};
use carat_ruby::RubyVersion;
use carat_ruby::version::{REWRITES_EMPTY_CALL_CACHES, TOUCHES_MAIN_STACK, VersionRange};
use std::collections::BTreeMap;
use std::fmt;

mod finding;
mod jemalloc;

pub use finding::Finding;

use finding::{WORTHWHILE, is_worthwhile};
use jemalloc::jemalloc_findings;

/// Share of free slots from which a heap counts as fragmented.
const FRAGMENTED: f64 = 0.3;
/// glibc's free memory is worth another allocator, or fewer arenas, from this share of its live memory on: jemalloc needs more
/// for the same live memory. A leak of 28 MB in small blocks, beside 4 MB that were free, took 15 MB more under it.
const LOOSE: f64 = 0.5;
/// With `arena_max` of 2 to 4 a process has at most this many arenas.
const FEW_ARENAS: usize = 4;
/// A worker that shares less of its memory than this has lost most of what the fork shared.
const LITTLE_SHARED: f64 = 0.25;
const UNPREPARED: &str = "fork-not-prepared";
const ALLOCATOR: &str = "allocator";
const COMPACTION: &str = "compaction-unshares";

/// Every finding that the ledger and what was read from outside support, the largest possible saving first. On a
/// preloaded cluster a prepared fork and another allocator come first, because together they saved most there
/// (`docs/evidence/remedies.md`), and what undoes a preparation. A ledger without its single processes, such as one of a shortened export, supports none: which
/// allocator was in use is unknown.
pub fn findings(ledger: &Ledger, reading: &OutsideReading) -> Vec<Finding> {
    // Without processes nobody knows which allocator was in use.
    if ledger.processes.is_empty() {
        return Vec::new();
    }
    let compacted = compacted_workers(ledger, reading);
    let unprepared = unprepared_fork(ledger, &compacted);
    let is_cluster = unprepared.is_some();
    let of_jemalloc = jemalloc_findings(ledger, &reading.processes);
    let mut found: Vec<Finding> = [
        unprepared,
        worker_compaction(ledger, reading, &compacted),
        unused_allocator(ledger),
        other_allocator(ledger, is_cluster),
        arenas(ledger),
        // Where jemalloc's memory was read, it is known which of its options could return it.
        free_malloc(ledger).filter(|_| of_jemalloc.is_none()),
        free_slots(ledger),
        empty_pages(ledger),
        eroded_sharing(ledger, is_cluster),
        rewritten_pages(ledger, &reading.unshared),
        stacks(ledger, reading),
        huge_pages(ledger),
        swap(ledger),
    ]
    .into_iter()
    .flatten()
    .chain(of_jemalloc.unwrap_or_default())
    .collect();
    // Reversed: the largest first, and before all what a preloaded cluster gains most by.
    found.sort_by_key(|finding| {
        let first = is_cluster && [UNPREPARED, ALLOCATOR, COMPACTION].contains(&finding.code);
        std::cmp::Reverse((first, finding.at_most))
    });
    found
}

/// The same beside growth: where what is in use grows, no finding is about memory that is free. An allocator returns none
/// of a leak, and a suggestion to change it would be taken for an answer.
pub fn findings_beside_growth(ledger: &Ledger, growth: &[PartGrowth]) -> Vec<Finding> {
    // Growth is judged by sums over time; no reading from outside belongs to it.
    let mut found = findings(ledger, &OutsideReading::default());
    if grows_in_use(growth) {
        found.retain(|finding| {
            finding.shrinks.is_empty() || finding.shrinks.iter().any(|part| !FREE.contains(part))
        });
    }
    found
}

/// Parts that hold nothing that is in use.
const FREE: [PartKind; 2] = [PartKind::MallocFree, PartKind::SlotsFree];

/// Whether objects or memory in use grow, beyond doubt or not yet beyond it.
fn grows_in_use(growth: &[PartGrowth]) -> bool {
    let in_use = [TrackedPart::KeptObjects, TrackedPart::KeptMemory, TrackedPart::MallocLive];
    growth.iter().filter(|part| in_use.contains(&part.part)).any(|part| match part.kind {
        // Rising growth has not ended either, so free memory is not the answer yet.
        GrowthKind::Linear | GrowthKind::Rising => true,
        GrowthKind::Undecided => {
            // Not proven, but its lower limit is growth: a remedy for free memory would mislead.
            let matters = part.tolerance.unwrap_or(0.0);
            part.interval.is_some_and(|(low, _)| low > matters)
        }
        _ => false,
    })
}

fn is_loose(free: Bytes, live: Bytes) -> bool {
    free.0 as f64 >= live.0 as f64 * LOOSE
}

fn percent(ledger: &Ledger, bytes: Bytes) -> f64 {
    100.0 * bytes.0 as f64 / ledger.pss.0.max(1) as f64
}

fn part(ledger: &Ledger, kind: PartKind) -> Bytes {
    ledger.part(kind).map(|part| part.pss).unwrap_or_default()
}

fn part_of(process: &ProcessLedger, kind: PartKind) -> Option<&LedgerPart> {
    process.parts.iter().find(|part| part.kind == kind)
}

fn is_glibc(process: &ProcessLedger) -> bool {
    process.allocator.active.as_deref() == Some("glibc")
}

/// An allocator that is preloaded or mapped.
fn available_allocator(process: &ProcessLedger) -> Option<&'static str> {
    let preload = process.environment.iter().find(|(name, _)| name == "LD_PRELOAD");
    let preloaded = preload.map(|(_, value)| value.as_str()).unwrap_or_default();
    let loaded = &process.allocator.loaded;
    // Either is enough: a preload can fail silently, which is what this finding reports.
    ["jemalloc", "mimalloc", "tcmalloc"]
        .into_iter()
        .find(|name| preloaded.contains(*name) || loaded.iter().any(|library| library == *name))
}

fn unused_allocator(ledger: &Ledger) -> Option<Finding> {
    let (process, library) = ledger
        .processes
        .iter()
        .filter(|process| is_glibc(process))
        .find_map(|process| Some((process, available_allocator(process)?)))?;
    Some(Finding {
        code: "allocator-not-active",
        evidence: format!(
            "process {}: {library} was requested, but glibc is in use ({})",
            process.pid, process.allocator.evidence
        ),
        remedy: format!("preload {library} before Ruby starts, then check again"),
        setting: Some(("allocator", library.to_owned())),
        shrinks: vec![PartKind::MallocFree],
        at_most: ledger.part(PartKind::MallocFree).map(|part| part.pss),
    })
}

/// Free memory of glibc, which another allocator returns sooner. It cannot return live memory, so where free memory cannot be
/// told from live, or is little beside it, there is nothing to suggest. On a preloaded cluster another allocator also keeps
/// pages shared, because it does not scatter what a collection writes to.
fn other_allocator(ledger: &Ledger, is_cluster: bool) -> Option<Finding> {
    // One finding about the allocator at a time: first make the requested one work.
    if unused_allocator(ledger).is_some() {
        return None;
    }
    // Of its processes alone: a shell that started a server with another allocator is in its tree.
    let of_glibc = ledger.processes.iter().filter(|process| is_glibc(process));
    let sum = |kind| {
        let parts = of_glibc.clone().filter_map(|process| part_of(process, kind));
        parts.map(|part| part.pss).sum::<Bytes>()
    };
    let (free, live) = (sum(PartKind::MallocFree), sum(PartKind::MallocLive));
    // On a cluster it also keeps pages shared, so even little free memory is a reason.
    let is_enough = is_cluster || is_loose(free, live);
    if !is_enough || !is_worthwhile(ledger, free) {
        return None;
    }
    Some(Finding {
        code: ALLOCATOR,
        evidence: format!(
            "glibc's malloc holds {free} ({:.0} %) that is resident and free",
            percent(ledger, free)
        ),
        remedy: "an allocator that keeps less free memory in each arena".into(),
        setting: Some(("allocator", "jemalloc".into())),
        shrinks: vec![PartKind::MallocFree],
        at_most: Some(free),
    })
}

/// The workers in which a compaction moved objects since the fork: as the comparison of their pages shows or, without one, as
/// far as the last full collection of a worker compacted and that of its parent did not.
fn compacted_workers(ledger: &Ledger, reading: &OutsideReading) -> Vec<u32> {
    let forked = ledger.processes.iter().filter_map(|worker| {
        let parent = forked_from(worker, ledger)?;
        Some((worker.pid, parent.pid))
    });
    let compacted = forked.filter(|&(worker, parent)| has_compacted(reading, worker, parent));
    compacted.map(|(worker, _)| worker).collect()
}

fn has_compacted(reading: &OutsideReading, worker: u32, parent: u32) -> bool {
    let mut tables = reading.unshared.iter();
    match tables.find(|table| table.child == worker && table.parent == parent) {
        Some(table) => moved(table) > table.private_bytes as f64 * WORTHWHILE,
        // A difference between parent and worker: a compaction before the fork is in both.
        None => compacts(reading, worker) == Some(true) && compacts(reading, parent) == Some(false),
    }
}

/// Bytes that are private because a compaction moved objects.
fn moved(table: &UnsharedTable) -> f64 {
    let shares = table.causes.iter().filter(|share| share.cause == Cause::Compaction);
    shares.map(|share| share.bytes).sum()
}

fn census(reading: &OutsideReading, pid: u32) -> Option<&Census> {
    reading.processes.iter().find(|census| census.process == pid)
}

/// Whether the last full collection compacted; `None` if unknown.
fn compacts(reading: &OutsideReading, pid: u32) -> Option<bool> {
    Some(census(reading, pid)?.heap.as_ref()?.ages?.pinned.is_some())
}

/// What a compaction in workers made private.
fn worker_compaction(
    ledger: &Ledger,
    reading: &OutsideReading,
    compacted: &[u32],
) -> Option<Finding> {
    let tables = reading.unshared.iter().filter(|table| compacted.contains(&table.child));
    let known: f64 = tables.map(moved).sum();
    let workers = ledger.processes.iter().filter(|process| compacted.contains(&process.pid));
    let heaps = workers.filter_map(|worker| worker.heap.as_ref());
    // Without the comparison of pages all private slots may have been moved: an upper limit.
    let lost = match reading.unshared.is_empty() {
        true => heaps.map(|heap| heap.private).sum(),
        false => Bytes(known as u64),
    };
    if !is_worthwhile(ledger, lost) {
        return None;
    }
    let evidence = match reading.unshared.is_empty() {
        true => format!(
            "the last full GC of {} compacted and that of the parent did not; {lost} of their slots \
             are private, and `--unshared` shows how much of it was moved",
            count(compacted.len(), "worker")
        ),
        false => format!(
            "a compaction since the fork moved objects in {}: {lost} are private because of it",
            count(compacted.len(), "worker")
        ),
    };
    Some(Finding {
        code: COMPACTION,
        evidence,
        remedy: "no `GC.compact` and no `GC.auto_compact` in workers; compact in the parent before the fork"
            .into(),
        setting: None,
        shrinks: vec![PartKind::SlotsLive, PartKind::SlotsFree],
        at_most: Some(lost),
    })
}

/// Workers of a parent that was not prepared for the fork.
fn unprepared_fork(ledger: &Ledger, compacted: &[u32]) -> Option<Finding> {
    let (mut workers, mut parents) = (0_usize, Vec::new());
    let mut lost: BTreeMap<PartKind, Bytes> = BTreeMap::new();
    for worker in &ledger.processes {
        let Some(parent) = forked_from(worker, ledger) else { continue };
        // One prepared parent is enough: the setting is known here and needs no suggestion.
        if is_prepared(parent) {
            return None;
        }
        workers += 1;
        parents.push(parent.pid.to_string());
        // What a worker writes to after the fork. What a compaction in it moves, no preparation keeps shared.
        let moved: &[PartKind] = match compacted.contains(&worker.pid) {
            true => &[PartKind::SlotsLive, PartKind::SlotsFree],
            false => &[],
        };
        for &kind in PartKind::HEAPS.iter().filter(|kind| !moved.contains(kind)) {
            let private = part_of(worker, kind).map(|part| part.private).unwrap_or_default();
            // A worker can have lost only what its parent had to share.
            let inherited = part_of(parent, kind).map(|part| part.resident).unwrap_or_default();
            let sum = lost.entry(kind).or_default();
            *sum = *sum + private.min(inherited);
        }
    }
    let most: Bytes = lost.values().copied().sum();
    if !is_worthwhile(ledger, most) {
        return None;
    }
    let mut shrinks: Vec<PartKind> = lost.keys().copied().filter(|kind| lost[kind].0 > 0).collect();
    shrinks.sort_by_key(|kind| std::cmp::Reverse(lost[kind]));
    parents.sort();
    parents.dedup();
    let forkers = if parents.len() == 1 { "process" } else { "processes" };
    Some(Finding {
        code: UNPREPARED,
        evidence: format!(
            "{} forked from {forkers} {}, which loaded the app; of what they could share, {most} \
             ({:.0} %) is private in them",
            workers_do(workers, "was", "were"),
            parents.join(" and "),
            percent(ledger, most)
        ),
        remedy: "prepare the heap before the fork, so that workers write to fewer shared pages"
            .into(),
        setting: Some(("prepare_fork", "full".into())),
        shrinks,
        at_most: Some(most),
    })
}

/// Workers as the subject of a sentence: `1 worker shares`, `2 workers share`.
fn workers_do(number: usize, one: &str, several: &str) -> String {
    format!("{} {}", count(number, "worker"), if number == 1 { one } else { several })
}

fn is_prepared(process: &ProcessLedger) -> bool {
    is_in_effect(process, "prepare_fork")
}

/// Whether a Ruby of the tree is one of these versions.
fn runs(ledger: &Ledger, versions: VersionRange) -> bool {
    let texts = ledger.processes.iter().filter_map(|process| process.ruby.as_deref());
    let mut found = texts.filter_map(RubyVersion::find_in);
    found.any(|version| versions.contains(version))
}

/// Pages of workers that a full collection copied without changing them.
fn rewritten_pages(ledger: &Ledger, unshared: &[UnsharedTable]) -> Option<Finding> {
    let shares = unshared.iter().flat_map(|table| &table.causes);
    let same = shares.filter(|share| share.cause == Cause::SameBytes);
    let copied = Bytes(same.map(|share| share.bytes).sum::<f64>() as u64);
    let mut processes = ledger.processes.iter();
    // The setting may be on in one process only, the one that forked.
    let is_filled = processes.any(|one| requested(one, "fill_call_caches") == Some("on"));
    if is_filled || !is_worthwhile(ledger, copied) || !runs(ledger, REWRITES_EMPTY_CALL_CACHES) {
        return None;
    }
    Some(Finding {
        code: "full-gc-unshares",
        evidence: format!(
            "a full GC since the fork cost {copied} in {}: Ruby {REWRITES_EMPTY_CALL_CACHES} stores \
             empty call caches over themselves, so pages are copied that hold the same bytes as before",
            count(unshared.len(), "compared worker")
        ),
        remedy: "Ruby 3.4 does not do that; this one does not where every call site has a cache"
            .into(),
        setting: Some(("fill_call_caches", "on".to_owned())),
        shrinks: vec![PartKind::MallocLive],
        at_most: Some(copied),
    })
}

fn arenas(ledger: &Ledger) -> Option<Finding> {
    let many: Vec<&ProcessLedger> = ledger
        .processes
        .iter()
        .filter(|process| is_glibc(process) && process.arenas.len() > FEW_ARENAS)
        .collect();
    let most = many.iter().map(|process| process.arenas.len()).max()?;
    // The main arena cannot be avoided, so it is no reason for fewer.
    let others: Vec<_> = many.iter().flat_map(|process| process.arenas.iter().skip(1)).collect();
    let held: Bytes = others.iter().map(|arena| arena.resident.unwrap_or(arena.held)).sum();
    // Fewer arenas hold the same live memory, so where free memory is unknown there is nothing to suggest.
    let free = others.iter().map(|arena| arena.free).sum::<Option<Bytes>>()?;
    // What the probe reports as free was not all touched yet; the ledger counts what is in memory.
    let free = ledger.part(PartKind::MallocFree).map_or(free, |part| part.pss.min(free));
    let is_loose = is_loose(free, held.saturating_sub(free));
    // Live memory needs its arenas' pages anyway; only loose ones shrink.
    if !is_loose || !is_worthwhile(ledger, free) {
        return None;
    }
    Some(Finding {
        code: "arenas",
        evidence: format!(
            "{} of {} processes have more than {FEW_ARENAS} malloc arenas (up to {most}); the arenas besides the \
             main one hold {held}, {free} of it free",
            many.len(),
            ledger.processes.len()
        ),
        remedy: "make threads share fewer arenas".into(),
        setting: Some(("arena_max", "2".into())),
        shrinks: vec![PartKind::MallocFree],
        at_most: Some(free),
    })
}

fn free_malloc(ledger: &Ledger) -> Option<Finding> {
    let free = part(ledger, PartKind::MallocFree);
    // Whole free pages are all that a trim can return; unknown of one process is unknown of all.
    let returnable: Option<Bytes> = ledger.processes.iter().map(|p| p.returnable).sum();
    let most = returnable.map_or(free, |returnable| returnable.min(free));
    if !is_worthwhile(ledger, most) {
        return None;
    }
    // Of the allocator that keeps most: the settings of one do nothing for another.
    let keepers = ledger.processes.iter();
    let keeper = keepers.max_by_key(|one| part_of(one, PartKind::MallocFree).map(|part| part.pss));
    let (setting, remedy) = match keeper.and_then(|one| one.allocator.active.as_deref()) {
        Some("glibc") => {
            (Some(("trim", "full-gc")), "return whole free pages to the kernel after full GCs")
        }
        Some("jemalloc") => {
            let conf = "dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true";
            (Some(("malloc_conf", conf)), "make the allocator return free memory sooner")
        }
        _ => (None, "the options of its allocator say when it returns free memory"),
    };
    Some(Finding {
        code: "malloc-free",
        evidence: format!(
            "malloc holds {free} ({:.0} %) that is resident but not in use; {most} of it in whole pages",
            percent(ledger, free)
        ),
        remedy: remedy.into(),
        setting: setting.map(|(name, value)| (name, value.to_owned())),
        shrinks: vec![PartKind::MallocFree],
        at_most: Some(most),
    })
}

/// Share of a process's slots that hold no object.
fn free_slot_share(process: &ProcessLedger) -> Option<f64> {
    let (free, all) = process.heap.as_ref()?.free_and_all_slots()?;
    Some(free as f64 / all as f64)
}

fn free_slots(ledger: &Ledger) -> Option<Finding> {
    let free = part(ledger, PartKind::SlotsFree);
    // The worst process, because a sum would hide one fragmented worker among many.
    let worst = ledger.processes.iter().filter_map(free_slot_share).fold(0.0, f64::max);
    (is_worthwhile(ledger, free) && worst >= FRAGMENTED).then(|| Finding {
        code: "slots-free",
        evidence: format!(
            "Ruby's heap has {free} ({:.0} %) of resident memory without objects; up to {:.0} % of a process's \
             slots are free",
            percent(ledger, free),
            worst * 100.0
        ),
        remedy: "compact once after boot, or make the heap grow in smaller steps (gc.growth_factor)"
            .into(),
        setting: Some(("compact", "boot".into())),
        shrinks: vec![PartKind::SlotsFree],
        at_most: Some(free),
    })
}

fn empty_pages(ledger: &Ledger) -> Option<Finding> {
    let heaps = ledger.processes.iter().filter_map(|process| process.heap.as_ref());
    let empty: Bytes = heaps.filter_map(|heap| heap.empty_pages).sum();
    is_worthwhile(ledger, empty).then(|| Finding {
        code: "empty-pages",
        evidence: format!("Ruby keeps {empty} in pages without a single object"),
        remedy: "reduce the growth factor of the heap".into(),
        setting: Some(("gc.growth_factor", "1.3".into())),
        shrinks: vec![PartKind::SlotsFree],
        at_most: Some(empty),
    })
}

/// The Ruby of the tree that a Ruby was forked from. A shell or another program that started Ruby is no such parent.
fn forked_from<'a>(process: &ProcessLedger, ledger: &'a Ledger) -> Option<&'a ProcessLedger> {
    let version = |one: &ProcessLedger| one.ruby.as_deref().and_then(RubyVersion::find_in);
    let own = version(process)?;
    let mut others = ledger.processes.iter();
    others.find(|other| Some(other.pid) == process.parent && version(other) == Some(own))
}

fn shared_fraction(process: &ProcessLedger) -> f64 {
    process.rss.saturating_sub(process.uss).0 as f64 / process.rss.0.max(1) as f64
}

/// Workers that share little, where preparing the fork alone would not help.
fn eroded_sharing(ledger: &Ledger, is_unprepared: bool) -> Option<Finding> {
    // Preparing the fork comes first, and may already be the answer.
    if is_unprepared {
        return None;
    }
    let unshared: Vec<(&ProcessLedger, f64)> = ledger
        .processes
        .iter()
        .filter(|process| forked_from(process, ledger).is_some())
        .map(|worker| (worker, shared_fraction(worker)))
        .filter(|(_, fraction)| *fraction < LITTLE_SHARED)
        .collect();
    let (worker, fraction) = unshared.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let largest = worker.parts.iter().max_by_key(|part| part.private)?;
    // What every worker has for itself could at best exist once.
    let private = unshared.iter().map(|(worker, _)| worker.uss);
    // One copy has to stay.
    let once = private.clone().max().unwrap_or_default();
    let most = private.sum::<Bytes>().saturating_sub(once);
    Some(Finding {
        code: "sharing-eroded",
        evidence: format!(
            "{} less than {:.0} % of memory with the parent; process {} shares {:.0} %, and \
             its largest private part is {} ({})",
            workers_do(unshared.len(), "shares", "share"),
            LITTLE_SHARED * 100.0,
            worker.pid,
            fraction * 100.0,
            largest.kind.label(),
            largest.private
        ),
        remedy: "load the app before the fork (Puma: `preload_app!`) and prepare the heap for it"
            .into(),
        setting: Some(("prepare_fork", "full".into())),
        shrinks: vec![largest.kind],
        at_most: Some(most).filter(|most| most.0 > 0),
    })
}

fn stacks(ledger: &Ledger, reading: &OutsideReading) -> Option<Finding> {
    let stacks = part(ledger, PartKind::Stacks);
    let touched = runs(ledger, TOUCHES_MAIN_STACK);
    let users = StackUsers::of(ledger, reading);
    // Of one thread there are no fewer.
    let is_smaller = touched || users.can_be_fewer();
    (is_smaller && is_worthwhile(ledger, stacks)).then(|| Finding {
        code: "stacks",
        evidence: format!("stacks hold {stacks} ({:.0} %): {users}", percent(ledger, stacks)),
        remedy: match touched {
            true => {
                format!("Ruby {TOUCHES_MAIN_STACK} touches its whole main stack: make it smaller")
            }
            false => users.remedy().to_owned(),
        },
        setting: touched.then(|| ("main_stack", "1m".to_owned())),
        shrinks: vec![PartKind::Stacks],
        at_most: Some(stacks),
    })
}

/// What has stacks. A fiber has one of its own within a thread, so that a process with one thread can have thousands.
struct StackUsers {
    /// Threads by the kernel's count, and processes.
    threads: u64,
    processes: u64,
    /// Objects of the class Fiber; `None` if unknown. A thread has one for itself as soon as it uses fibers.
    fibers: Option<u64>,
}

impl StackUsers {
    fn of(ledger: &Ledger, reading: &OutsideReading) -> Self {
        let rubies = ledger.processes.iter().filter(|process| process.may_have_ruby());
        Self {
            threads: ledger.processes.iter().map(|one| u64::from(one.threads.unwrap_or(1))).sum(),
            processes: ledger.processes.len() as u64,
            fibers: rubies.map(|process| fibers(reading, process.pid)).sum(),
        }
    }

    /// More fibers than threads.
    fn has_fibers(&self) -> bool {
        self.fibers.is_some_and(|fibers| fibers > self.threads)
    }

    fn can_be_fewer(&self) -> bool {
        // More of either than one each, or there are none that could be fewer.
        self.threads > self.processes || self.has_fibers()
    }

    fn remedy(&self) -> &'static str {
        match self.fibers {
            _ if self.has_fibers() => "let fewer fibers live at a time",
            Some(_) => "run fewer threads",
            None => "run fewer threads, or fewer fibers at a time",
        }
    }
}

/// Objects of the class Fiber in a process.
fn fibers(reading: &OutsideReading, pid: u32) -> Option<u64> {
    let classes = census(reading, pid)?.classes.as_ref()?;
    // A census without the class has no such object, which is a number and not unknown.
    Some(classes.iter().find(|class| class.name == "Fiber").map_or(0, |class| class.objects))
}

fn counted(number: u64, word: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), word)
}

impl fmt::Display for StackUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&counted(self.threads, "thread"))?;
        match self.fibers {
            Some(fibers) if self.has_fibers() => write!(f, ", {}", counted(fibers, "fiber")),
            _ => Ok(()),
        }
    }
}

fn huge_pages(ledger: &Ledger) -> Option<Finding> {
    let huge: Bytes = ledger.processes.iter().filter_map(|process| process.huge).sum();
    // Otherwise a program asked for them itself, and the kernel's setting is what the remedy would be.
    let is_default = ledger.always_huge != Some(false);
    (is_default && is_worthwhile(ledger, huge)).then(|| Finding {
        code: "huge-pages",
        evidence: format!(
            "{huge} ({:.0} %) is in transparent huge pages; one byte in use keeps 2 MB of them resident",
            percent(ledger, huge)
        ),
        remedy: match ledger.always_huge {
            Some(_) => "set /sys/kernel/mm/transparent_hugepage/enabled to `madvise` and compare",
            None => {
                "if /sys/kernel/mm/transparent_hugepage/enabled says `always`, set it to `madvise` and compare"
            }
        }
        .into(),
        setting: None,
        shrinks: Vec::new(),
        at_most: Some(huge),
    })
}

fn swap(ledger: &Ledger) -> Option<Finding> {
    let swapped: Bytes = ledger.processes.iter().filter_map(|process| process.swap).sum();
    // Any swap: figures of memory leave it out, so a comparison would be wrong.
    (swapped.0 > 0).then(|| Finding {
        code: "swap",
        evidence: format!("{swapped} of the tree is in swap and not part of any figure above"),
        remedy: "free memory on the machine before comparing anything".into(),
        setting: None,
        shrinks: Vec::new(),
        at_most: None,
    })
}

#[cfg(test)]
pub(super) mod tests;
