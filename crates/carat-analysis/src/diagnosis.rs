//! What is wrong with a tree, in at most eight rows: how large against which limit, what is charged beside it, what the largest
//! part is, who keeps it, and what helps. The terminal, the page and JSON lay out the same rows.

mod kept;
mod recorded;
mod source;

pub use kept::keeper;
pub use source::{LedgerSource, findings_of};

use crate::advice::Finding;
use crate::used_files::{mapped_files, open_files};
use carat_model::ledger::{Basis, Ledger, LedgerPart, PartKind, ProcessLedger};
use carat_model::{
    Bytes, GroupLimit, GroupUse, LimitKind, OutsideReading, count, counted, grouped, one_line,
    shorten,
};
use carat_outside::census::{Census, CensusPart};
use carat_outside::heap::ClassCount;
use carat_outside::owners::OwnerCensus;
use carat_outside::unshared::Remedy;
use serde::Serialize;
use source::all_findings;

/// A part below this share of the whole has no row, and no suggestion is made for it.
const WORTH_A_ROW: f64 = 0.05;
/// From this share of objects and live memory on, the question is who keeps it.
const KEPT: f64 = 0.25;
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
    /// Who keeps it.
    Kept,
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
            Self::Kept => "kept",
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
pub enum FollowUp {
    /// Try the settings that the findings name.
    Suggest,
    /// Who keeps the objects and what they hold, by name.
    Who,
    /// Why workers have memory of their own.
    Unshared,
    /// Whether it grows.
    Record,
    /// What the trials of the file say.
    Verdict,
}

/// The rows, in the order in which they are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    pub rows: Vec<DiagnosisRow>,
    pub next: FollowUp,
}

/// The diagnosis of a ledger, with what is known beside it.
pub fn diagnosis(ledger: &Ledger, source: LedgerSource<'_>) -> Diagnosis {
    let reading = source.reading();
    let findings = all_findings(ledger, source);
    let mut able = findings.iter().filter(|finding| finding.can_help(ledger));
    // The first that is large enough: findings are sorted by what they could save.
    let help = able.clone().find(|finding| source.tried_as(finding).is_none());
    let tried = able.find_map(|finding| Some((finding, source.tried_as(finding)?)));
    let (helps, next) = match (help, tried) {
        (None, Some((finding, variant))) => (tried_row(finding, variant), FollowUp::Verdict),
        _ => (help_row(ledger, source, help), next_step(ledger, source, help)),
    };
    let (growth, holder) = match source {
        LedgerSource::Recording(recording) => {
            (recorded::growth(recording), recorded::holder(recording))
        }
        LedgerSource::Processes(_) | LedgerSource::Results(_) => (None, None),
    };
    let rows = [
        Some(size(ledger)),
        limit(ledger),
        beside(ledger),
        growth,
        reading.and_then(|reading| garbage(ledger, reading)),
        largest(ledger),
        most(ledger, reading),
        holder.or_else(|| reading.and_then(|reading| kept(ledger, reading))),
        Some(compacted(ledger, reading).unwrap_or(helps)),
    ];
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
    // Nothing could be read but the status, whose sum would count shared pages again and again.
    if ledger.processes.is_empty() && ledger.pss == Bytes(0) {
        let largest = ledger.from_status.iter().map(|one| one.rss).max();
        let largest = largest.map(|rss| format!("; the largest has {rss} resident (RSS)"));
        let text = format!("proportional memory is unknown{unread}{}", largest.unwrap_or_default());
        return row(DiagnosisKind::Size, None, text);
    }
    // What could not be read is missing from the sum, so that is a lower limit.
    let least = if ledger.unread.is_empty() { "" } else { "at least " };
    let processes = match ledger.processes.len() {
        0 => String::new(),
        some => format!(" in {}", count(some, "process")),
    };
    let swap = in_swap(ledger).filter(|swap| share(*swap, ledger.pss) >= NAMED_FILE);
    let swap = swap.map(|swap| format!(", and {swap} in swap")).unwrap_or_default();
    let text = format!(
        "{least}{} (PSS){processes}, {} of it private{swap}{unread}",
        ledger.pss, ledger.uss
    );
    row(DiagnosisKind::Size, Some(ledger.pss), text)
}

/// What of the tree is in swap, which is in no part and not read; `None` if a process does not tell.
fn in_swap(ledger: &Ledger) -> Option<Bytes> {
    ledger.processes.iter().map(|process| process.swap).sum()
}

fn limit(ledger: &Ledger) -> Option<DiagnosisRow> {
    let group = ledger.group.as_ref()?;
    let nearest = group.nearest_limit();
    let mut text = match nearest {
        Some(limit) => against(limit, group),
        None => no_limit(group)?,
    };
    let high = group.limits.iter().filter(|limit| limit.kind == LimitKind::High);
    // Said only where it is not the nearest limit, which has a row of its own.
    if let Some(high) = high.min_by_key(|limit| limit.left())
        && Some(high) != nearest
        && high.left() == Bytes(0)
    {
        text += &format!("; above memory.high of {}, so it is slowed down", high.limit);
    }
    if let Some(others) = group.other_processes.filter(|others| *others > 0) {
        text += &format!("; {others} other {} there too", counted(&others, "process"));
    }
    if let Some(kills) = group.oom_kills.filter(|kills| *kills > 0) {
        text += &format!("; the kernel has killed {} in it", count(kills, "process"));
    }
    Some(row(DiagnosisKind::Limit, nearest.map(|limit| limit.limit), text))
}

fn against(limit: &GroupLimit, group: &GroupUse) -> String {
    let what = limit.kind.remark();
    let whose = match limit.group == group.name {
        true => String::new(),
        false => format!("; it is that of {} above", shorten(&limit.group, NAME)),
    };
    let (used, left) = (percent(limit.used, limit.limit), limit.left());
    format!("{} of {}{what} used ({used}), {left} left{whose}", limit.used, limit.limit)
}

fn no_limit(group: &GroupUse) -> Option<String> {
    let current = group.current?;
    let set = group.working_set.map(|set| format!(", working set {set}")).unwrap_or_default();
    Some(format!("none; its control group is charged {current}{set}"))
}

/// What is charged and in the memory of no process.
fn beside(ledger: &Ledger) -> Option<DiagnosisRow> {
    let files = open_files(ledger);
    let in_files: Bytes = files.values().map(|(bytes, _)| *bytes).sum();
    let mut parts: Vec<String> = Vec::new();
    let group = ledger.group.as_ref();
    let is_much = |bytes: &Bytes| share(*bytes, ledger.pss) >= WORTH_A_ROW;
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

/// What the kernel counts for a group of which the tree is all: with other processes it says nothing about the tree.
fn of_group(ledger: &Ledger, group: &GroupUse, in_files: Bytes) -> Vec<(Bytes, String)> {
    // With other processes in the group its figures are theirs too.
    if group.other_processes != Some(0) {
        return Vec::new();
    }
    let mut found = Vec::new();
    if let Some(in_memory) = group.in_memory_files {
        let mapped = ledger.part(PartKind::SharedMemory).map(|part| part.pss).unwrap_or_default();
        // Shared memory is charged as files too; mapped and open ones have a row already.
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

/// Garbage that is there because no collection has run, which is not what the app keeps. Forked processes share theirs, so it
/// is that of the process with most.
fn garbage(ledger: &Ledger, reading: &OutsideReading) -> Option<DiagnosisRow> {
    let most = reading.processes.iter().max_by_key(|one| garbage_of(one))?;
    let all = garbage_of(most)?;
    let whole = resident(ledger, most);
    // Below this it is noise of when the last collection ran.
    if share(all, whole) < NAMED_FILE {
        return None;
    }
    let place = place(reading, most);
    let text = match &most.reach {
        Some(reach) => format!(
            "a full collection would free {} {}{place}: {} of slots and {} of malloc, {} of its memory",
            grouped(reach.unreached_objects),
            counted(&reach.unreached_objects, "object"),
            Bytes(reach.unreached_slot_bytes),
            Bytes(reach.unreached_chunks.present),
            percent(all, whole)
        ),
        None => format!(
            "{all} of slots{place} hold objects that the last collection found dead and has not swept yet"
        ),
    };
    Some(row(DiagnosisKind::Garbage, Some(all), text))
}

fn garbage_of(census: &Census) -> Option<Bytes> {
    match &census.reach {
        Some(reach) => {
            Some(Bytes(reach.unreached_slot_bytes) + Bytes(reach.unreached_chunks.present))
        }
        None => census.heap.as_ref()?.unswept.map(|amount| Bytes(amount.bytes)),
    }
}

/// Resident memory of a process that was read; what a census counts is in it, shared or not.
fn resident(ledger: &Ledger, census: &Census) -> Bytes {
    let process = ledger.processes.iter().find(|one| one.pid == census.process);
    process.map_or(ledger.pss, |process| process.rss)
}

/// Which of several processes it is.
fn place(reading: &OutsideReading, census: &Census) -> String {
    match reading.processes.len() {
        1 => String::new(),
        _ => format!(" in process {}", census.process),
    }
}

fn largest(ledger: &Ledger) -> Option<DiagnosisRow> {
    // Reversed, because `max_by_key` takes the last of equals and parts have an order.
    let part = ledger.parts.iter().rev().max_by_key(|part| part.pss)?;
    let mut text =
        format!("{}: {} ({})", part.kind.label(), part.pss, percent(part.pss, ledger.pss));
    if matches!(part.kind, PartKind::CodeAndFiles | PartKind::SharedMemory) {
        text += &named_files(ledger, part);
    }
    let free: Bytes = [PartKind::SlotsFree, PartKind::MallocFree]
        .into_iter()
        .filter_map(|kind| ledger.part(kind).map(|part| part.pss))
        .sum();
    if share(free, ledger.pss) >= WORTH_A_ROW {
        text += &format!("; {free} ({}) is held and free", percent(free, ledger.pss));
    }
    let swap = in_swap(ledger).filter(|swap| *swap > part.pss);
    if let Some(swap) = swap {
        text = format!("in swap: {swap}, which is not read; in memory {text}");
    }
    Some(row(DiagnosisKind::Largest, Some(swap.unwrap_or(part.pss)), text))
}

/// The largest files of data that are mapped, by name.
fn named_files(ledger: &Ledger, part: &LedgerPart) -> String {
    let mut named: Vec<(&str, Bytes)> = mapped_files(ledger)
        .into_iter()
        .filter(|(_, bytes)| share(*bytes, ledger.pss) >= NAMED_FILE)
        .collect();
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

/// What of the app is most: its threads, what nobody holds, or the class with most bytes.
fn most(ledger: &Ledger, reading: Option<&OutsideReading>) -> Option<DiagnosisRow> {
    if let Some((threads, stacks)) = many_threads(ledger) {
        let text = format!(
            "{threads} threads, whose stacks hold {stacks} ({})",
            percent(stacks, ledger.pss)
        );
        return Some(row(DiagnosisKind::Most, Some(stacks), text));
    }
    let class = largest_class(ledger, reading?);
    let lost = held_by_nobody(ledger, &reading?.processes);
    // Where an extension leaks, no class is what one looks for.
    match lost.filter(|lost| class.as_ref().is_none_or(|class| lost.bytes > class.bytes)) {
        Some(lost) => Some(lost),
        None => class,
    }
}

/// Malloc's memory that nobody is known to hold, of the process with most, where it was asked and is worth a row.
fn held_by_nobody(ledger: &Ledger, processes: &[Census]) -> Option<DiagnosisRow> {
    let owners = most_lost(processes)?;
    let lost = Bytes(owners.nobody.present);
    if share(lost, ledger.pss) < WORTH_A_ROW {
        return None;
    }
    let sizes = owners.nobody_sizes.first().map_or(String::new(), |one| {
        format!(", most in {} chunks of {}", grouped(one.amount.chunks), Bytes(one.size))
    });
    let text = format!(
        "{lost} ({}) of malloc that nobody is known to hold{sizes}: native code keeps it, or leaks it",
        percent(lost, ledger.pss)
    );
    Some(row(DiagnosisKind::Most, Some(lost), text))
}

/// The owners of the process in which nobody holds most.
fn most_lost(processes: &[Census]) -> Option<&OwnerCensus> {
    let owners = processes.iter().filter_map(|census| census.owners.as_ref());
    owners.max_by_key(|owners| owners.nobody.present)
}

/// The threads and the memory of their stacks, if there are many.
fn many_threads(ledger: &Ledger) -> Option<(u32, Bytes)> {
    let threads = ledger.processes.iter().map(|process| process.threads).sum::<Option<u32>>()?;
    let stacks = ledger.part(PartKind::Stacks).map(|part| part.pss).unwrap_or_default();
    // Many threads are a finding only if their stacks are memory.
    let is_much = threads >= MANY_THREADS && share(stacks, ledger.pss) >= WORTH_A_ROW;
    is_much.then_some((threads, stacks))
}

/// The process and the name of the class that the diagnosis calls the largest, for which the next question is who keeps its
/// objects; `None` if none is large.
pub fn class_in_question<'a>(
    ledger: &Ledger,
    reading: &'a OutsideReading,
) -> Option<(u32, &'a str)> {
    let (census, class) =
        large_class(ledger, reading).filter(|_| many_threads(ledger).is_none())?;
    Some((census.process, &class.name))
}

/// Who keeps the objects of the largest class, where that was read.
fn kept(ledger: &Ledger, reading: &OutsideReading) -> Option<DiagnosisRow> {
    let (process, class) = class_in_question(ledger, reading)?;
    let census = reading.processes.iter().find(|census| census.process == process)?;
    let least = Bytes((resident(ledger, census).0 as f64 * WORTH_A_ROW) as u64);
    let text = kept::keeper(census.who.as_ref()?, class, least);
    Some(row(DiagnosisKind::Kept, None, text))
}

/// The class with most bytes in one process, if these are many.
fn large_class<'a>(
    ledger: &Ledger,
    reading: &'a OutsideReading,
) -> Option<(&'a Census, &'a ClassCount)> {
    let all = reading.processes.iter();
    let all =
        all.flat_map(|census| census.classes.iter().flatten().map(move |class| (census, class)));
    // Of one process, never summed: forked processes share the objects.
    let (census, class) = all.max_by_key(|(_, class)| class_size(class))?;
    let is_large = share(class_size(class), resident(ledger, census)) >= WORTH_A_ROW;
    is_large.then_some((census, class))
}

fn class_size(class: &ClassCount) -> Bytes {
    Bytes(class.slot_bytes) + Bytes(class.malloc_bytes.unwrap_or(0))
}

fn largest_class(ledger: &Ledger, reading: &OutsideReading) -> Option<DiagnosisRow> {
    let (census, class) = large_class(ledger, reading)?;
    let malloc = class.malloc_bytes.map(|bytes| format!(" and {} of malloc", Bytes(bytes)));
    let garbage = match (class.garbage_objects, garbage_read_again(census, &class.name)) {
        (Some(0), _) => ", none of them garbage".to_owned(),
        (Some(garbage), _) => format!(", {} of them garbage", grouped(garbage)),
        (None, Some(again)) => again,
        (None, None) => ", garbage among them not told apart".to_owned(),
    };
    let text = format!(
        "{}: {} {}{} with {} of slots{}{garbage}",
        shorten(&class.name, NAME),
        grouped(class.objects),
        counted(&class.objects, "object"),
        place(reading, census),
        Bytes(class.slot_bytes),
        malloc.unwrap_or_default()
    );
    Some(row(DiagnosisKind::Most, Some(class_size(class)), text))
}

/// Garbage of a class by the reading that asked who keeps it, which came later and counted anew.
fn garbage_read_again(census: &Census, class: &str) -> Option<String> {
    // Where that is unknown, what was not reached need not be garbage.
    if census.reason(CensusPart::Reach).is_some() {
        return None;
    }
    let mut classes = census.who.iter().flat_map(|who| &who.classes);
    let found = classes.find(|found| found.name == class)?;
    Some(match found.garbage_objects? {
        0 => ", none of them garbage when they were read again".to_owned(),
        garbage => format!(
            "; when they were read again, {} of {} were garbage",
            grouped(garbage),
            grouped(found.objects)
        ),
    })
}

/// Compaction in workers, which no setting mends.
fn compacted(ledger: &Ledger, reading: Option<&OutsideReading>) -> Option<DiagnosisRow> {
    let causes = reading?.unshared.iter().flat_map(|table| &table.causes);
    let moved = causes.filter(|share| share.remedy == Some(Remedy::NoCompaction));
    let bytes = Bytes(moved.map(|share| share.bytes).sum::<f64>() as u64);
    (share(bytes, ledger.pss) >= WORTH_A_ROW).then(|| {
        let text = format!(
            "no `GC.compact` in workers: it made {bytes} ({}) of them private by moving shared objects; compact before the fork",
            percent(bytes, ledger.pss)
        );
        row(DiagnosisKind::Help, Some(bytes), text)
    })
}

fn tried_row(finding: &Finding, variant: &str) -> DiagnosisRow {
    let setting = finding.setting.as_ref().map(|(name, value)| format!("`{name} = \"{value}\"`"));
    // The file may be anybody's, and its trials may have failed or changed more at once.
    let variant = shorten(&one_line(variant), NAME);
    let text = format!("perhaps {}, which variant `{variant}` has", setting.unwrap_or_default());
    row(DiagnosisKind::Help, finding.at_most, text)
}

fn help_row(ledger: &Ledger, source: LedgerSource<'_>, help: Option<&Finding>) -> DiagnosisRow {
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
    // Honest about what is unknown: what was not read could be the largest part.
    let text = if ledger.parts.is_empty() || !ledger.unread.is_empty() {
        "unknown: not all of it could be read".to_owned()
    } else if let Some(swap) =
        in_swap(ledger).filter(|swap| share(*swap, ledger.pss) >= WORTH_A_ROW)
    {
        format!("unknown: {swap} is in swap, which `swapoff -a` brings back where there is room")
    } else if share(unknown, ledger.pss) >= WORTH_A_ROW {
        let mut read = source.reading().map_or(&[][..], |reading| &reading.processes).iter();
        let why = read.find_map(|one| one.reason(CensusPart::Malloc));
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        format!("no setting is known to: {unknown} cannot be told apart into live and free{why}")
    } else if let Some((free, allocator)) = free_without_setting(ledger) {
        format!(
            "no setting is known to: {free} is free in {allocator}, whose own options say when it returns memory"
        )
    } else if ledger.processes.is_empty() {
        "unknown: the single processes are not known".to_owned()
    } else if !ledger.processes.iter().any(is_ruby) {
        "no setting: it is no Ruby, or its Ruby was not read".to_owned()
    } else {
        in_use(ledger, source)
    };
    row(DiagnosisKind::Help, None, text)
}

/// Free memory of an allocator for which there are no settings that return it, with its name.
fn free_without_setting(ledger: &Ledger) -> Option<(Bytes, &str)> {
    let free_of = |process: &ProcessLedger| {
        let free = process.parts.iter().find(|part| part.kind == PartKind::MallocFree);
        free.map(|part| part.pss).unwrap_or_default()
    };
    let others = ledger.processes.iter().filter(|process| {
        !matches!(process.allocator.active.as_deref(), None | Some("glibc" | "jemalloc"))
    });
    let free: Bytes = others.clone().map(free_of).sum();
    let keeper = others.max_by_key(|process| free_of(process))?;
    (share(free, ledger.pss) >= WORTH_A_ROW)
        .then(|| (free, keeper.allocator.active.as_deref().unwrap_or_default()))
}

/// What is said where no setting helps and garbage was told apart. Memory that nobody is known to hold may have leaked, so the
/// app need not keep it.
fn kept_by_the_app(ledger: &Ledger, processes: &[Census], garbage: Bytes) -> String {
    let collected = (share(garbage, ledger.pss) >= WORTH_A_ROW)
        .then(|| format!("a full collection would free {garbage}"));
    let lost = Bytes(most_lost(processes).map_or(0, |owners| owners.nobody.present));
    let lost = (share(lost, ledger.pss) >= WORTH_A_ROW)
        .then(|| format!("nobody is known to hold {lost} of malloc's memory"));
    match [collected, lost].into_iter().flatten().collect::<Vec<_>>() {
        none if none.is_empty() => {
            "nothing: this is what the app keeps; a setting would save less than 5 %".to_owned()
        }
        some => {
            format!("no setting would save 5 %; {}, and the app keeps the rest", some.join(", "))
        }
    }
}

/// What is said of memory that objects and malloc use, for which no setting helps. What garbage holds is in it.
fn in_use(ledger: &Ledger, source: LedgerSource<'_>) -> String {
    let reading = source.reading();
    let told = |census: &Census| census.reach.as_ref().and_then(|_| garbage_of(census));
    let processes = reading.map_or(&[][..], |reading| &reading.processes);
    let garbage: Option<Vec<Bytes>> = processes.iter().map(told).collect();
    let is_whole = processes.len() >= ledger.processes.iter().filter(|one| is_ruby(one)).count();
    match garbage.filter(|all| is_whole && !all.is_empty()) {
        None if share(live(ledger), ledger.pss) < WORTH_A_ROW => {
            "nothing: a setting or a full collection would save less than 5 %".to_owned()
        }
        None => {
            let reason = processes.iter().find_map(|one| one.reason(CensusPart::Reach));
            let reason = reason.map_or_else(|| who_tells_garbage(ledger, source), str::to_owned);
            format!(
                "no setting would save 5 %; how much of what is in use is garbage is not known: {reason}"
            )
        }
        Some(all) => {
            // Forked processes share theirs, so there is at least as much as in the one with most.
            kept_by_the_app(ledger, processes, all.into_iter().max().unwrap_or_default())
        }
    }
}

/// The command that tells garbage from what is in use.
fn who_tells_garbage(ledger: &Ledger, source: LedgerSource<'_>) -> String {
    match (source, ledger.processes.first()) {
        // The tree of any of its processes is the whole tree.
        (LedgerSource::Processes(_), Some(process)) => {
            format!("`carat explain {} --reach` tells it", process.pid)
        }
        // The processes of a file may have ended, and their ids be those of others.
        _ => "`carat explain PID --reach` tells it of a running server".to_owned(),
    }
}

/// What objects and malloc use, garbage that was not collected too.
fn live(ledger: &Ledger) -> Bytes {
    let in_use = [PartKind::MallocLive, PartKind::SlotsLive, PartKind::TransientHeap];
    in_use.into_iter().filter_map(|kind| ledger.part(kind)).map(|part| part.pss).sum()
}

fn is_ruby(process: &ProcessLedger) -> bool {
    process.basis != Basis::ProcOnly
}

fn next_step(ledger: &Ledger, source: LedgerSource<'_>, help: Option<&Finding>) -> FollowUp {
    match (source, help) {
        (LedgerSource::Processes(reading), _) => next_of_processes(ledger, reading, help),
        // What grows is the question before what could be smaller.
        (LedgerSource::Recording(recording), _) if recorded::proves_growth(recording) => {
            FollowUp::Who
        }
        (_, Some(_)) => FollowUp::Suggest,
        (LedgerSource::Recording(_), None) => FollowUp::Record,
        (LedgerSource::Results(_), None) => FollowUp::Who,
    }
}

fn next_of_processes(
    ledger: &Ledger,
    reading: Option<&OutsideReading>,
    help: Option<&Finding>,
) -> FollowUp {
    // What `--unshared` answers must not be suggested once it was asked.
    let compared = reading.is_some_and(|reading| !reading.unshared.is_empty());
    let of_sharing =
        help.is_some_and(|finding| ["fork-not-prepared", "sharing-eroded"].contains(&finding.code));
    // Where malloc is not walked, who keeps what is known only in part.
    let can_answer = |one: &Census| one.who.is_none() && one.reason(CensusPart::Malloc).is_none();
    let can_be_asked = reading.is_some_and(|reading| reading.processes.iter().all(can_answer));
    // Who keeps which objects does not tell whether native code leaks.
    let lost = reading.and_then(|reading| held_by_nobody(ledger, &reading.processes));
    match help {
        Some(_) if of_sharing && !compared && reading.is_some() => FollowUp::Unshared,
        Some(_) => FollowUp::Suggest,
        None if can_be_asked && lost.is_none() && share(live(ledger), ledger.pss) >= KEPT => {
            FollowUp::Who
        }
        None => FollowUp::Record,
    }
}

#[cfg(test)]
mod tests;
