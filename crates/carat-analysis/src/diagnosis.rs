//! What is wrong with a tree, in at most eight rows: how large against which limit, what is charged beside it, what the largest
//! part is, and what helps. The terminal, the page and JSON lay out the same rows.

use crate::advice::{Finding, findings};
use carat_model::ledger::{Basis, FileUse, Ledger, LedgerPart, PartKind};
use carat_model::{Bytes, GroupLimit, GroupUse, LimitKind, OutsideReading, count, shorten};
use serde::Serialize;
use std::collections::BTreeMap;

/// A part below this share of the whole has no row, and no suggestion is made for it.
const WORTH_A_ROW: f64 = 0.05;
/// A mapped file below this share of PSS is not named.
const NAMED_FILE: f64 = 0.01;
/// Files named in a row.
const FILES: usize = 3;
/// Characters of the name of a file.
const NAME: usize = 48;
/// Threads from which on their number is said with their stacks.
const MANY_THREADS: u32 = 50;

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiagnosisKind {
    Size,
    Limit,
    /// Charged to the group, and in the memory of no process.
    Beside,
    Growth,
    Garbage,
    Largest,
    /// What of the app is most.
    Most,
    Help,
}

impl DiagnosisKind {
    /// The word before the row.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Limit => "limit",
            Self::Beside => "beside",
            Self::Growth => "growth",
            Self::Garbage => "garbage",
            Self::Largest => "largest",
            Self::Most => "most",
            Self::Help => "help",
        }
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiagnosisRow {
    pub kind: DiagnosisKind,
    /// The amount that it is about.
    pub bytes: Option<Bytes>,
    pub text: String,
}

/// What to look at next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NextLook {
    /// Try the settings that the findings name.
    Suggest,
    /// Who holds malloc's memory.
    Owners,
    /// Why workers have memory of their own.
    Unshared,
    /// Whether it grows.
    Record,
}

/// The rows, in the order in which they are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    pub rows: Vec<DiagnosisRow>,
    pub next: NextLook,
}

/// The size of the tree at an earlier moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Earlier {
    /// Seconds before the ledger.
    pub seconds: f64,
    pub pss: Bytes,
}

/// The diagnosis of a ledger, with what was read from outside and an earlier size, where they are known.
pub fn diagnosis(
    ledger: &Ledger,
    reading: Option<&OutsideReading>,
    earlier: Option<Earlier>,
) -> Diagnosis {
    let findings = findings(ledger, reading.unwrap_or(&OutsideReading::default()));
    let help = findings.iter().find(|finding| is_help(finding, ledger));
    let rows = [
        Some(size(ledger)),
        limit(ledger),
        beside(ledger),
        earlier.and_then(|earlier| growth(ledger, earlier)),
        reading.and_then(|reading| garbage(ledger, reading)),
        largest(ledger),
        most(ledger, reading),
        Some(help_row(ledger, help)),
    ];
    let next = next_step(ledger, reading, help);
    Diagnosis { rows: rows.into_iter().flatten().collect(), next }
}

fn row(kind: DiagnosisKind, bytes: Option<Bytes>, text: String) -> DiagnosisRow {
    DiagnosisRow { kind, bytes, text }
}

fn share(part: Bytes, whole: Bytes) -> f64 {
    part.0 as f64 / whole.0.max(1) as f64
}

fn percent(part: Bytes, whole: Bytes) -> String {
    format!("{:.0} %", 100.0 * share(part, whole))
}

fn size(ledger: &Ledger) -> DiagnosisRow {
    let unread = match ledger.unread.len() {
        0 => String::new(),
        some => format!("; {} could not be read", count(some, "process")),
    };
    if ledger.processes.is_empty() && ledger.pss == Bytes(0) {
        let largest = ledger.from_status.iter().map(|one| one.rss).max();
        let largest = largest.map(|rss| format!("; the largest has {rss} resident (RSS)"));
        let text = format!("proportional memory is unknown{unread}{}", largest.unwrap_or_default());
        return row(DiagnosisKind::Size, None, text);
    }
    let least = if ledger.unread.is_empty() { "" } else { "at least " };
    let processes = match ledger.processes.len() {
        0 => String::new(),
        some => format!(" in {}", count(some, "process")),
    };
    let swap: Option<Bytes> = ledger.processes.iter().map(|process| process.swap).sum();
    let swap = swap.filter(|swap| share(*swap, ledger.pss) >= NAMED_FILE);
    let swap = swap.map(|swap| format!(", and {swap} in swap")).unwrap_or_default();
    let text = format!(
        "{least}{} (PSS){processes}, {} of it private{swap}{unread}",
        ledger.pss, ledger.uss
    );
    row(DiagnosisKind::Size, Some(ledger.pss), text)
}

fn limit(ledger: &Ledger) -> Option<DiagnosisRow> {
    let group = ledger.group.as_ref()?;
    let nearest = group.nearest_limit();
    let mut text = match nearest {
        Some(limit) => against(limit),
        None => no_limit(group)?,
    };
    let high = group.limits.iter().filter(|limit| limit.kind == LimitKind::High);
    if let Some(high) = high.min_by_key(|limit| limit.left())
        && Some(high) != nearest
        && high.left() == Bytes(0)
    {
        text += &format!("; above memory.high of {}, so it is slowed down", high.limit);
    }
    if let Some(others) = group.other_processes.filter(|others| *others > 0) {
        text += &format!("; {} of its group", counted_other(others));
    }
    if let Some(kills) = group.oom_kills.filter(|kills| *kills > 0) {
        text += &format!("; the kernel has killed {} there", count(kills, "process"));
    }
    Some(row(DiagnosisKind::Limit, nearest.map(|limit| limit.limit), text))
}

fn counted_other(others: u64) -> String {
    match others {
        1 => "1 other process is".to_owned(),
        some => format!("{some} other processes are"),
    }
}

fn against(limit: &GroupLimit) -> String {
    let what = match limit.kind {
        LimitKind::Max => "",
        LimitKind::High => " (memory.high, from which on it is slowed down)",
        LimitKind::WithSwap => " (swap included)",
    };
    format!(
        "{} of {}{what} used, {} left ({}; {})",
        limit.used,
        limit.limit,
        limit.left(),
        percent(limit.used, limit.limit),
        group_name(&limit.group)
    )
}

fn no_limit(group: &GroupUse) -> Option<String> {
    let current = group.current?;
    let set = group.working_set.map(|set| format!(", working set {set}")).unwrap_or_default();
    Some(format!("none; {} is charged {current}{set}", group_name(&group.name)))
}

fn group_name(name: &str) -> String {
    format!("control group {}", shorten(name, NAME))
}

/// What is charged and in the memory of no process.
fn beside(ledger: &Ledger) -> Option<DiagnosisRow> {
    let files = open_files(ledger);
    let in_files: Bytes = files.values().map(|(bytes, _)| *bytes).sum();
    let mut parts: Vec<String> = Vec::new();
    let group = ledger.group.as_ref();
    let whole = group.and_then(|group| group.current).unwrap_or(ledger.pss).max(ledger.pss);
    let is_much = |bytes: &Bytes| share(*bytes, whole) >= WORTH_A_ROW;
    let mut sorted: Vec<(&str, Bytes, u32)> =
        files.iter().map(|(name, (bytes, pid))| (*name, *bytes, *pid)).collect();
    sorted.sort_by_key(|(_, bytes, _)| std::cmp::Reverse(*bytes));
    if is_much(&in_files) {
        let named = sorted.iter().take(FILES);
        parts.extend(named.map(|(name, bytes, pid)| {
            format!("{bytes} in {}, open in pid {pid}", shorten(name, NAME))
        }));
        let rest: Bytes = sorted.iter().skip(FILES).map(|(_, bytes, _)| *bytes).sum();
        if rest > Bytes(0) {
            parts.push(format!("{rest} in {}", count(sorted.len() - FILES, "more file")));
        }
    }
    if let Some(group) = group {
        parts.extend(
            of_group(ledger, group, in_files)
                .into_iter()
                .filter(|(bytes, _)| is_much(bytes))
                .map(|(_, text)| text),
        );
    }
    let text = parts.join("; ");
    (!text.is_empty()).then(|| row(DiagnosisKind::Beside, Some(in_files).filter(is_much), text))
}

/// Files in memory that are open and not mapped, with the first process that has them open.
fn open_files(ledger: &Ledger) -> BTreeMap<&str, (Bytes, u32)> {
    let all =
        || ledger.processes.iter().flat_map(|one| one.files.iter().map(|file| (one.pid, file)));
    let is_mapped =
        |file: &FileUse| all().any(|(_, other)| other.mapped && other.name == file.name);
    let mut open: BTreeMap<&str, (Bytes, u32)> = BTreeMap::new();
    for (pid, file) in all().filter(|(_, file)| !file.mapped) {
        if !is_mapped(file) {
            // Processes that were forked hold the same file open.
            let most = open.entry(&file.name).or_insert((Bytes(0), pid));
            most.0 = most.0.max(file.bytes);
        }
    }
    open
}

/// What the kernel counts for a group of which the tree is all: with other processes it says nothing about the tree.
fn of_group(ledger: &Ledger, group: &GroupUse, in_files: Bytes) -> Vec<(Bytes, String)> {
    if group.other_processes != Some(0) {
        return Vec::new();
    }
    let mut found = Vec::new();
    if let Some(in_memory) = group.in_memory_files {
        let mapped = ledger.part(PartKind::SharedMemory).map(|part| part.pss).unwrap_or_default();
        let rest = in_memory.saturating_sub(in_files).saturating_sub(mapped);
        found.push((rest, format!("up to {rest} in tmpfs that no process has open")));
        if let Some(files) = group.files {
            let cache = files.saturating_sub(in_memory);
            let droppable = group.inactive_files.unwrap_or_default().min(cache);
            found.push((
                cache,
                format!("{cache} of page cache, of which {droppable} can be dropped at once"),
            ));
        }
    }
    found.extend(group.kernel.map(|kernel| (kernel, format!("{kernel} of the kernel's own"))));
    found
}

fn growth(ledger: &Ledger, earlier: Earlier) -> Option<DiagnosisRow> {
    if ledger.pss == Bytes(0) || earlier.seconds <= 0.0 {
        return None;
    }
    let (now, before) = (ledger.pss, earlier.pss);
    let (sign, size) = match now >= before {
        true => ("+", now.saturating_sub(before)),
        false => ("−", before.saturating_sub(now)),
    };
    let minutes = earlier.seconds / 60.0;
    let text = format!(
        "{sign}{size} in {minutes:.1} min, from {before} to {now}; two moments prove no leak"
    );
    Some(row(DiagnosisKind::Growth, Some(size), text))
}

/// Garbage that is there because no collection has run, which is not what the app keeps.
fn garbage(ledger: &Ledger, reading: &OutsideReading) -> Option<DiagnosisRow> {
    let reached: Vec<_> = reading.processes.iter().filter_map(|one| one.reach.as_ref()).collect();
    if !reached.is_empty() {
        let objects: u64 = reached.iter().map(|one| one.unreached_objects).sum();
        let slots = Bytes(reached.iter().map(|one| one.unreached_slot_bytes).sum());
        let malloc = Bytes(reached.iter().map(|one| one.unreached_chunks.present).sum());
        let all = slots + malloc;
        let text = format!(
            "a full collection would free {}: {slots} of slots and {malloc} of malloc, {} of the memory",
            count(objects, "object"),
            percent(all, ledger.pss)
        );
        return (share(all, ledger.pss) >= NAMED_FILE)
            .then(|| row(DiagnosisKind::Garbage, Some(all), text));
    }
    let heaps = reading.processes.iter().filter_map(|one| one.heap.as_ref()?.unswept);
    let unswept = Bytes(heaps.map(|amount| amount.bytes).sum());
    let text = format!(
        "{unswept} of slots hold objects that the last collection found dead and has not swept yet"
    );
    (share(unswept, ledger.pss) >= NAMED_FILE)
        .then(|| row(DiagnosisKind::Garbage, Some(unswept), text))
}

fn largest(ledger: &Ledger) -> Option<DiagnosisRow> {
    let part = ledger.parts.iter().rev().max_by_key(|part| part.pss)?;
    let mut text =
        format!("{}: {} ({})", part.kind.label(), part.pss, percent(part.pss, ledger.pss));
    if matches!(part.kind, PartKind::CodeAndFiles | PartKind::SharedMemory) {
        text += &mapped_files(ledger, part);
    }
    let free: Bytes = [PartKind::SlotsFree, PartKind::MallocFree]
        .into_iter()
        .filter_map(|kind| ledger.part(kind).map(|part| part.pss))
        .sum();
    if share(free, ledger.pss) >= WORTH_A_ROW {
        text += &format!("; {free} ({}) is held and free", percent(free, ledger.pss));
    }
    Some(row(DiagnosisKind::Largest, Some(part.pss), text))
}

/// The largest files of data that are mapped, by name.
fn mapped_files(ledger: &Ledger, part: &LedgerPart) -> String {
    let mut sums: BTreeMap<&str, Bytes> = BTreeMap::new();
    let files = ledger.processes.iter().flat_map(|process| &process.files);
    for file in files.filter(|file| file.mapped) {
        let sum = sums.entry(&file.name).or_default();
        *sum = *sum + file.bytes;
    }
    let mut named: Vec<(&str, Bytes)> =
        sums.into_iter().filter(|(_, bytes)| share(*bytes, ledger.pss) >= NAMED_FILE).collect();
    named.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    if named.is_empty() || part.pss == Bytes(0) {
        return String::new();
    }
    let shown: Vec<String> = named
        .iter()
        .take(FILES)
        .map(|(name, bytes)| {
            format!("{} {bytes}", shorten(name.rsplit('/').next().unwrap_or(name), NAME))
        })
        .collect();
    let more = match named.len().saturating_sub(FILES) {
        0 => String::new(),
        more => {
            let rest: Bytes = named.iter().skip(FILES).map(|(_, bytes)| *bytes).sum();
            format!(", {more} more {rest}")
        }
    };
    format!(", in {}{more}", shown.join(", "))
}

/// What of the app is most: its threads, or the class with most bytes.
fn most(ledger: &Ledger, reading: Option<&OutsideReading>) -> Option<DiagnosisRow> {
    let threads = ledger.processes.iter().map(|process| process.threads).sum::<Option<u32>>();
    let stacks = ledger.part(PartKind::Stacks).map(|part| part.pss).unwrap_or_default();
    let of_threads = threads.filter(|threads| *threads >= MANY_THREADS);
    if let Some(threads) = of_threads.filter(|_| share(stacks, ledger.pss) >= WORTH_A_ROW) {
        let text = format!(
            "{threads} threads, whose stacks hold {stacks} ({})",
            percent(stacks, ledger.pss)
        );
        return Some(row(DiagnosisKind::Most, Some(stacks), text));
    }
    largest_class(ledger, reading?)
}

#[derive(Debug, Default)]
struct ClassSum {
    objects: u64,
    slots: u64,
    malloc: Option<u64>,
    garbage: Option<u64>,
}

fn largest_class(ledger: &Ledger, reading: &OutsideReading) -> Option<DiagnosisRow> {
    let mut sums: BTreeMap<&str, ClassSum> = BTreeMap::new();
    for class in reading.processes.iter().flat_map(|one| one.classes.iter().flatten()) {
        let is_new = !sums.contains_key(class.name.as_str());
        let sum = sums.entry(&class.name).or_default();
        let add =
            |sum: Option<u64>, more: Option<u64>| if is_new { more } else { Some(sum? + more?) };
        sum.malloc = add(sum.malloc, class.malloc_bytes);
        sum.garbage = add(sum.garbage, class.garbage_objects);
        sum.objects += class.objects;
        sum.slots += class.slot_bytes;
    }
    let size = |sum: &ClassSum| Bytes(sum.slots + sum.malloc.unwrap_or(0));
    let (name, sum) = sums.iter().max_by_key(|(_, sum)| size(sum))?;
    if share(size(sum), ledger.pss) < WORTH_A_ROW {
        return None;
    }
    let malloc = sum.malloc.map(|bytes| format!(" and {} of malloc", Bytes(bytes)));
    let garbage = match sum.garbage {
        Some(0) => ", none of them garbage".to_owned(),
        Some(garbage) => format!(", {garbage} of them garbage"),
        None => ", garbage among them not told apart".to_owned(),
    };
    let text = format!(
        "{}: {} with {} of slots{}{garbage}",
        shorten(name, NAME),
        count(sum.objects, "object"),
        Bytes(sum.slots),
        malloc.unwrap_or_default()
    );
    Some(row(DiagnosisKind::Most, Some(size(sum)), text))
}

/// Whether a finding can make the tree smaller by enough.
fn is_help(finding: &Finding, ledger: &Ledger) -> bool {
    let most = finding.at_most.filter(|most| share(*most, ledger.pss) >= WORTH_A_ROW);
    finding.setting.is_some() && most.is_some()
}

fn help_row(ledger: &Ledger, help: Option<&Finding>) -> DiagnosisRow {
    if let Some(finding) = help
        && let (Some((name, value)), Some(most)) = (&finding.setting, finding.at_most)
    {
        let text = format!(
            "perhaps `{name} = \"{value}\"`, by at most {most} ({}): {}",
            percent(most, ledger.pss),
            finding.code
        );
        return row(DiagnosisKind::Help, Some(most), text);
    }
    let kinds = [PartKind::Malloc, PartKind::SlotsOrMalloc, PartKind::Anonymous];
    let unknown: Bytes =
        kinds.into_iter().filter_map(|kind| ledger.part(kind)).map(|part| part.pss).sum();
    let text = if ledger.parts.is_empty() || !ledger.unread.is_empty() {
        "unknown: not all of it could be read".to_owned()
    } else if share(unknown, ledger.pss) >= WORTH_A_ROW {
        format!("no setting is known to: {unknown} cannot be told apart into live and free")
    } else if ledger.processes.iter().all(|process| process.basis == Basis::ProcOnly) {
        "no setting: it is no Ruby, or its Ruby was not read".to_owned()
    } else {
        "nothing: this is what the app keeps; a setting would save less than 5 %".to_owned()
    };
    row(DiagnosisKind::Help, None, text)
}

fn next_step(
    ledger: &Ledger,
    reading: Option<&OutsideReading>,
    help: Option<&Finding>,
) -> NextLook {
    let compared = reading.is_some_and(|reading| !reading.unshared.is_empty());
    let of_sharing =
        help.is_some_and(|finding| ["fork-not-prepared", "sharing-eroded"].contains(&finding.code));
    let owners_known =
        reading.is_none_or(|reading| reading.processes.iter().any(|one| one.owners.is_some()));
    let live = ledger.part(PartKind::MallocLive).map(|part| part.pss).unwrap_or_default();
    match help {
        Some(_) if of_sharing && !compared && reading.is_some() => NextLook::Unshared,
        Some(_) => NextLook::Suggest,
        None if !owners_known && share(live, ledger.pss) >= 0.25 => NextLook::Owners,
        None => NextLook::Record,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::ledger::{DetectedAllocator, ProcessLedger};
    use carat_outside::census::Census;
    use carat_outside::heap::ClassCount;
    use carat_outside::owners::ReachCensus;

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
    fn live_memory_of_the_app_gets_no_setting_and_the_holders_come_next() {
        let reading =
            OutsideReading { processes: vec![Census::default()], ..OutsideReading::default() };
        let found = diagnosis(&ledger(live(), Vec::new()), Some(&reading), None);
        assert!(
            says(&found, DiagnosisKind::Help).starts_with("nothing: this is what the app keeps"),
            "{found:?}"
        );
        assert_eq!(found.next, NextLook::Owners);
        assert_eq!(says(&found, DiagnosisKind::Largest), "malloc, live: 60.00 MB (60 %)");
        assert!(found.rows.len() <= 8);
    }

    #[test]
    fn files_that_are_charged_and_in_no_process_are_named_with_who_has_them_open() {
        let open =
            |name: &str| FileUse { name: name.into(), bytes: Bytes(67_108_864), mapped: false };
        let files = vec![open("/memfd:cache (deleted)"), open("/dev/shm/rows (deleted)")];
        let mut tree = ledger(vec![part(PartKind::CodeAndFiles, 10)], files);
        tree.group = Some(group(512, 480));
        let found = diagnosis(&tree, None, None);
        let beside = says(&found, DiagnosisKind::Beside);
        for expected in [
            "67.11 MB in /memfd:cache (deleted), open in pid 7",
            "67.11 MB in /dev/shm/rows (deleted)",
        ] {
            assert!(beside.contains(expected), "{beside}");
        }
        let limit = says(&found, DiagnosisKind::Limit);
        assert!(limit.starts_with("480.0 MB of 512.0 MB used, 32.00 MB left (94 %;"), "{limit}");
    }

    #[test]
    fn page_cache_and_tmpfs_are_said_only_where_the_group_is_the_trees_alone() {
        let mut tree = ledger(live(), Vec::new());
        let mut own = group(900, 400);
        (own.files, own.in_memory_files) = (Some(Bytes(250 * MB)), Some(Bytes(130 * MB)));
        (own.inactive_files, own.kernel) = (Some(Bytes(100 * MB)), Some(Bytes(MB)));
        tree.group = Some(own.clone());
        let beside = says(&diagnosis(&tree, None, None), DiagnosisKind::Beside);
        assert!(
            beside.contains("up to 130.0 MB in tmpfs") && beside.contains("120.0 MB of page cache"),
            "{beside}"
        );
        assert!(!beside.contains("kernel"), "{beside}");
        tree.group = Some(GroupUse { other_processes: Some(3), ..own });
        let found = diagnosis(&tree, None, None);
        assert_eq!(says(&found, DiagnosisKind::Beside), "");
        assert!(says(&found, DiagnosisKind::Limit).contains("3 other processes are of its group"));
    }

    #[test]
    fn mapped_files_are_named_where_they_are_the_largest_part() {
        let file = |number: u64| FileUse {
            name: format!("/run/counter_worker-{number}.db"),
            bytes: Bytes(20 * MB),
            mapped: true,
        };
        let tree = ledger(
            vec![part(PartKind::CodeAndFiles, 70), part(PartKind::MallocLive, 9)],
            (0..3).map(file).collect(),
        );
        let largest = says(&diagnosis(&tree, None, None), DiagnosisKind::Largest);
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
        let with = |class: &ClassCount, reach| OutsideReading {
            processes: vec![Census {
                classes: Some(vec![class.clone()]),
                reach,
                ..Census::default()
            }],
            ..OutsideReading::default()
        };
        let tree = ledger(live(), Vec::new());
        let found = diagnosis(&tree, Some(&with(&class, None)), None);
        assert!(
            says(&found, DiagnosisKind::Most).ends_with("garbage among them not told apart"),
            "{found:?}"
        );
        let known = ClassCount { garbage_objects: Some(800), ..class };
        let found = diagnosis(&tree, Some(&with(&known, Some(reach))), None);
        let at = |kind| found.rows.iter().position(|row| row.kind == kind).unwrap();
        assert!(at(DiagnosisKind::Garbage) < at(DiagnosisKind::Most), "{found:?}");
        assert!(
            says(&found, DiagnosisKind::Garbage)
                .contains("would free 800 objects: 25.00 MB of slots"),
            "{found:?}"
        );
        assert!(says(&found, DiagnosisKind::Most).ends_with("800 of them garbage"), "{found:?}");
    }

    #[test]
    fn a_setting_is_suggested_only_where_it_can_save_a_twentieth() {
        for (free, expected) in [(3, "nothing"), (40, "perhaps `malloc_conf")] {
            let mut parts = live();
            parts.push(part(PartKind::MallocFree, free));
            let help =
                says(&diagnosis(&ledger(parts, Vec::new()), None, None), DiagnosisKind::Help);
            assert!(help.starts_with(expected), "{free}: {help}");
        }
        let unread = Ledger { unread: vec!["7: denied".into()], ..Ledger::default() };
        let found = diagnosis(&unread, None, None);
        assert_eq!(says(&found, DiagnosisKind::Help), "unknown: not all of it could be read");
        assert!(
            says(&found, DiagnosisKind::Size).contains("unknown; 1 process could not be read"),
            "{found:?}"
        );
    }

    #[test]
    fn many_threads_come_before_a_class_and_growth_has_its_two_moments() {
        let mut parts = live();
        parts.push(part(PartKind::Stacks, 12));
        let mut tree = ledger(parts, Vec::new());
        tree.processes[0].threads = Some(406);
        let earlier = Earlier { seconds: 90.0, pss: Bytes(100 * MB) };
        let found = diagnosis(&tree, None, Some(earlier));
        assert!(
            says(&found, DiagnosisKind::Most)
                .starts_with("406 threads, whose stacks hold 12.00 MB"),
            "{found:?}"
        );
        assert!(
            says(&found, DiagnosisKind::Growth).starts_with("+12.00 MB in 1.5 min"),
            "{found:?}"
        );
    }
}
