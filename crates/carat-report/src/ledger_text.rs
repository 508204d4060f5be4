//! A ledger as text for a terminal: parts with bars, processes, Ruby heaps, malloc arenas, and what to try.

use crate::ledger_files::LedgerFiles;
use crate::lists::{distinct, largest_first};
use crate::numbers::{UNITS, count, grouped, or_question_mark, percent, percent_of};
use crate::text::{one_line, shorten, written};
use carat_analysis::Finding;
use carat_model::ledger::{
    Arena, Basis, Ledger, LedgerPart, PartKind, ProcessLedger, RubyHeap, SlotPool, StatusLedger,
};
use carat_model::{Bytes, Unit};
use carat_redact::{Audience, redact_ledger};
use std::fmt::{self, Write};

/// Columns of a full bar.
const BAR: usize = 24;
/// Arenas shown of each process; `--json` has all.
const ARENAS: usize = 5;
/// A share of memory that nothing divides into live and free below this is not mentioned.
const UNKNOWN: f64 = 0.01;
/// A share of memory from which on a part beside the largest is named on the first screen.
const WORTH_NAMING: f64 = 0.05;
/// Parts named by a finding; `--json` has all.
const PARTS: usize = 2;
/// Files named in one line; `--json` has more.
const FILES: usize = 6;
/// Characters shown of a process title or a file.
const TITLE: usize = 60;
/// Said below every table with resident memory.
const NOT_SUMMED: &str = "RSS counts a shared page in every process, so it is not summed.";

/// The whole ledger and the findings about it.
pub fn ledger_text(ledger: &Ledger, findings: &[Finding]) -> String {
    let (_, ledger) = redact_ledger("", ledger, Audience::Own);
    written(|out| write_ledger(out, &ledger).and_then(|()| write_findings(out, findings)))
}

/// The table of the parts alone.
pub fn parts_text(ledger: &Ledger) -> String {
    let (_, ledger) = redact_ledger("", ledger, Audience::Own);
    written(|out| write_parts(out, &ledger))
}

/// The parts beside the largest in one line, in the form of a diagnosis, with what is unexplained.
pub fn rest_text(ledger: &Ledger) -> String {
    let share = |part: &LedgerPart| part.pss.0 as f64 / ledger.pss.0.max(1) as f64;
    // Of equals the first is the largest, which has a row of its own.
    let rest = largest_first(&ledger.parts, |part| part.pss).into_iter().skip(1);
    let (named, small): (Vec<&LedgerPart>, Vec<_>) =
        rest.partition(|part| share(part) >= WORTH_NAMING);
    let named = named.iter().map(|part| format!("{} {}", part.kind.label(), part.pss));
    let sum: Bytes = small.iter().map(|part| part.pss).sum();
    let small = (sum > Bytes(0)).then(|| format!("{} {sum}", count(small.len(), "smaller part")));
    let sign = if ledger.unexplained < 0 { "−" } else { "" };
    let unexplained = percent_of(ledger.unexplained.unsigned_abs() as f64, ledger.pss, 1);
    let all = named.chain(small).chain([format!("unexplained {sign}{unexplained}")]);
    format!("rest     {}\n", all.collect::<Vec<_>>().join("; "))
}

fn write_ledger(out: &mut String, ledger: &Ledger) -> fmt::Result {
    // Nothing could be read: the parts would be a table of zeros.
    if ledger.processes.is_empty() && !ledger.from_status.is_empty() {
        writeln!(out, "{}", ledger.from_status[0].title)?;
        writeln!(out, "The proportional figure (PSS) and its parts are unknown")?;
    } else {
        write_heading(out, ledger)?;
        write_parts(out, ledger)?;
        write_files(out, ledger)?;
        write_processes(out, ledger)?;
    }
    let mut processes = ledger.processes.iter();
    processes.clone().try_for_each(|process| write_heap(out, process))?;
    processes.clone().try_for_each(|process| write_jit(out, process))?;
    processes.try_for_each(|process| write_arenas(out, process))?;
    for reason in &ledger.unread {
        writeln!(out, "\nNot in these figures: {reason}")?;
    }
    write_from_status(out, &ledger.from_status)
}

/// What the kernel tells of processes that may not be read.
fn write_from_status(out: &mut String, processes: &[StatusLedger]) -> fmt::Result {
    if processes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nWhat the kernel tells of them")?;
    let sizes = ["RSS", "anonymous", "files", "shared", "swap"].map(|size| format!("{size:>12}"));
    writeln!(out, "{:>8}{}{:>9}  process", "pid", sizes.concat(), "threads")?;
    for process in processes {
        let StatusLedger { pid, rss, anonymous, files, shared, swap, threads, title } = process;
        let sizes = [anonymous, files, shared, swap].map(|size| or_question_mark(*size));
        let sizes = sizes.map(|size| format!("{size:>12}")).concat();
        let (threads, title) = (or_question_mark(*threads), shorten(title, TITLE));
        writeln!(out, "{pid:>8}{rss:>12}{sizes}{threads:>9}  {title}")?;
    }
    writeln!(out, "{NOT_SUMMED}")
}

fn write_heading(out: &mut String, ledger: &Ledger) -> fmt::Result {
    let processes = count(ledger.processes.len(), "process");
    let Some(leader) = ledger.processes.first() else {
        return writeln!(out, "{} proportional (PSS); single processes are unknown\n", ledger.pss);
    };
    let least = ledger.over_least().map_or_else(String::new, |multiple| {
        format!(", {} the least this app can have", Unit::Ratio.show(multiple))
    });
    writeln!(out, "{}\n{} proportional (PSS) in {processes}{least}\n", leader.title, ledger.pss)?;
    let allocators = ledger.processes.iter().map(|ProcessLedger { allocator, .. }| {
        let active = allocator.active.as_deref().unwrap_or("unknown");
        format!("Allocator in use: {active} ({})", allocator.evidence)
    });
    // Workers have the same allocator; one line says it.
    distinct(allocators).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    let unprobed = ledger.processes.iter().filter(|p| p.basis == Basis::ProcOnly).count();
    // Said only if it matters: a `sleep` beside the server is always unknown.
    if unprobed > 0 && is_much_unknown(ledger) {
        let without_ruby = unprobed == ledger.processes.len()
            && ledger.processes.iter().all(|process| !process.may_have_ruby());
        let why = match without_ruby {
            true => "no Ruby is loaded there",
            false => "no probe is loaded there, and Ruby was not read from outside at this moment",
        };
        write!(out, "Live and free memory cannot be told apart in {unprobed} of {processes}: ")?;
        writeln!(out, "{why}")?;
    }
    for process in &ledger.processes {
        if let Some(why) = &process.slots_unknown {
            writeln!(out, "Slots unknown in process {}: {why}", process.pid)?;
        }
    }
    writeln!(out)
}

/// Whether live and free memory that nothing divides is worth a line. A `sleep` beside a Ruby is not.
fn is_much_unknown(ledger: &Ledger) -> bool {
    let kinds = [PartKind::Malloc, PartKind::SlotsOrMalloc, PartKind::Anonymous];
    let parts = kinds.map(|kind| ledger.part(kind));
    let unknown: Bytes = parts.into_iter().flatten().map(|part| part.pss).sum();
    unknown.0 as f64 >= UNKNOWN * ledger.pss.0 as f64
}

fn write_parts(out: &mut String, ledger: &Ledger) -> fmt::Result {
    writeln!(out, "{:<28}{:>11}{:>9}{:>12}{:>12}", "part", "PSS", "share", "private", "shared")?;
    for part in &ledger.parts {
        let LedgerPart { pss, private, .. } = part;
        let (label, shared) = (part.kind.label(), part.shared());
        let share = percent_of(pss.0 as f64, ledger.pss, 1);
        let bar = bar(pss.0 as f64 / ledger.pss.0.max(1) as f64);
        writeln!(out, "{label:<28}{pss:>11}{share:>9}{private:>12}{shared:>12}  {bar}")?;
    }
    let share = percent_of(ledger.unexplained as f64, ledger.pss, 1);
    let size = Bytes(ledger.unexplained.unsigned_abs());
    // Sizes have no sign: the parts may exceed the total by what changed during the reading.
    let sign = if ledger.unexplained < 0 { "−" } else { "" };
    writeln!(out, "{:<28}{:>11}{share:>9}", "unexplained", format!("{sign}{size}"))?;
    let shared = ledger.pss.saturating_sub(ledger.uss);
    let all = percent(1.0, 1);
    writeln!(out, "{:<28}{:>11}{all:>9}{:>12}{shared:>12}", "total", ledger.pss, ledger.uss)?;
    writeln!(out, "{UNITS}")
}

/// A bar of that fraction of the full length; even the smallest part has a visible bar.
fn bar(fraction: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    // At least one eighth, so that a part that exists is visible.
    let eighths = (fraction.clamp(0.0, 1.0) * BAR as f64 * 8.0).round().max(1.0) as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// The largest files of data, and those that no figure above has.
fn write_files(out: &mut String, ledger: &Ledger) -> fmt::Result {
    let files = LedgerFiles::of(ledger);
    if let Some(list) = file_list(&files.mapped) {
        writeln!(out, "Largest mapped files without code: {list}")?;
    }
    match file_list(&files.open) {
        None => Ok(()),
        Some(list) => writeln!(
            out,
            "Open and not mapped, so in no figure above, but in memory and charged to the container: {list}"
        ),
    }
}

/// Files with their bytes, the largest first; `None` without one.
fn file_list(files: &[(&str, Bytes)]) -> Option<String> {
    // Their sum is said, because many small files can be most of it.
    let rest: Bytes = files.iter().skip(FILES).map(|(_, bytes)| *bytes).sum();
    let named = files.iter().take(FILES);
    let mut parts: Vec<String> =
        named.map(|(name, bytes)| format!("{} {bytes}", shorten(&one_line(name), TITLE))).collect();
    if files.len() > FILES {
        parts.push(format!("{} more with {rest}", files.len() - FILES));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn write_processes(out: &mut String, ledger: &Ledger) -> fmt::Result {
    // The figures of a single process are those of the tree above.
    if ledger.processes.len() < 2 {
        return Ok(());
    }
    let [pss, private, rss] = ["PSS", "private", "RSS"];
    writeln!(out, "\n{:>8}{pss:>12}{private:>12}{rss:>12}{:>9}  process", "pid", "shared")?;
    for ProcessLedger { pid, pss, uss, rss, title, .. } in &ledger.processes {
        let shared = percent_of(rss.saturating_sub(*uss).0 as f64, *rss, 0);
        let title = shorten(title, TITLE);
        writeln!(out, "{pid:>8}{pss:>12}{uss:>12}{rss:>12}{shared:>9}  {title}")?;
    }
    writeln!(out, "{NOT_SUMMED}")
}

fn write_heap(out: &mut String, process: &ProcessLedger) -> fmt::Result {
    let Some(heap) = &process.heap else { return Ok(()) };
    let ruby = ruby_version(process);
    writeln!(out, "\nRuby {ruby} heap of {}: {}", process.pid, heap_size(heap))?;
    heap.pools.iter().try_for_each(|pool| write_pool(out, pool))?;
    heap_lines(heap).iter().try_for_each(|line| writeln!(out, "  {line}"))
}

/// The version of Ruby; empty where it is unknown.
pub(crate) fn ruby_version(process: &ProcessLedger) -> &str {
    let described = process.ruby.as_deref().unwrap_or_default();
    // `ruby 3.3.0 (…)`: the second word is the version.
    described.split_ascii_whitespace().nth(1).unwrap_or_default()
}

pub(crate) fn heap_size(heap: &RubyHeap) -> String {
    format!("{} of pages, {} resident, {} of it private", heap.size, heap.resident, heap.private)
}

/// What is known of the heap as a whole, without full stops.
pub(crate) fn heap_lines(heap: &RubyHeap) -> Vec<String> {
    // Some versions of Ruby count live slots only over all pools.
    let uncounted = heap.pools.iter().any(|pool| pool.live.is_none()).then(|| {
        let all = heap.pools.iter().map(|pool| pool.slots).sum::<Option<u64>>();
        let (live, slots) = (or_question_mark(heap.live_slots), or_question_mark(all));
        format!("all slots: {live} live of {slots}; this Ruby does not count them by size")
    });
    let classic = heap.classic.map(|classic| {
        let pages = classic.pages.map(|pages| format!(", pages in use {}", percent(pages, 1)));
        format!("slots in use {}{}", percent(classic.slots, 1), pages.unwrap_or_default())
    });
    let held = heap.malloc_of_ruby;
    let held = held.map(|bytes| format!("Ruby itself holds {bytes} from malloc, as it counts"));
    [uncounted, classic, held].into_iter().flatten().collect()
}

/// The arenas by memory, because they are numbered in the order of threads.
pub(crate) fn largest_arenas(process: &ProcessLedger) -> Vec<&Arena> {
    largest_first(&process.arenas, |arena| arena.held)
}

/// Ruby's compiler, unless it is off.
fn write_jit(out: &mut String, process: &ProcessLedger) -> fmt::Result {
    let Some(jit) = process.jit else { return Ok(()) };
    let code = process.parts.iter().find(|part| part.kind == PartKind::Jit);
    // With an unknown count it is shown: code is proof enough that it runs.
    let Some(code) = code.filter(|_| jit.compiled != Some(0)) else { return Ok(()) };
    let reserved = jit.reserved.map(|bytes| format!(" in {bytes} of addresses"));
    let reserved = reserved.unwrap_or_default();
    let compiled =
        jit.compiled.map(|compiled| format!(", {} methods and blocks compiled", grouped(compiled)));
    let compiled = compiled.unwrap_or_default();
    let heap = match jit.heap {
        Some(heap) => format!("{heap} of its own in malloc, as it counts"),
        None => "what it has in malloc is unknown without the probe".to_owned(),
    };
    let (pid, LedgerPart { resident, private, .. }) = (process.pid, code);
    writeln!(
        out,
        "\nJIT of {pid}: {resident} of code{reserved}, {private} of it private{compiled}; {heap}"
    )
}

fn write_pool(out: &mut String, pool: &SlotPool) -> fmt::Result {
    let [live, free, pages] = [pool.live, pool.free, pool.pages].map(or_question_mark);
    let share = or_question_mark(pool.fragmentation().map(|share| percent(share, 1)));
    write!(out, "  slots of {:>4} B: {live:>10} live {free:>10} free ", pool.slot_size)?;
    writeln!(out, "{share:>8} free, {pages:>6} pages")
}

fn write_arenas(out: &mut String, process: &ProcessLedger) -> fmt::Result {
    let count = process.arenas.len();
    // A single arena is all of malloc, which the parts have already.
    if count < 2 {
        return Ok(());
    }
    writeln!(out, "\nMalloc arenas of {}: {count}, the largest:", process.pid)?;
    for arena in largest_arenas(process).into_iter().take(ARENAS) {
        write!(out, "  {:>5}: {} held", process.arena_name(arena), arena.held)?;
        if let Some(resident) = arena.resident {
            write!(out, ", {resident} resident")?;
        }
        if let Some(free) = arena.free {
            write!(out, ", {free} free ({})", percent_of(free.0 as f64, arena.held, 0))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn write_findings(out: &mut String, findings: &[Finding]) -> fmt::Result {
    if findings.is_empty() {
        return writeln!(out, "\nNo setting is suggested.");
    }
    writeln!(out, "\nWhat to try (a reason for an experiment, not its result)")?;
    for (finding, number) in findings.iter().zip(1..) {
        writeln!(out, "{number:>3}. {}: {}", finding.code, finding.evidence)?;
        match &finding.setting {
            Some((name, value)) => {
                writeln!(out, "     try `{name} = \"{value}\"`: {}", finding.remedy)?;
            }
            None => writeln!(out, "     {}", finding.remedy)?,
        }
        if let Some(most) = finding.at_most {
            writeln!(out, "     it can shrink {} by at most {most}", shrinks(finding))?;
        }
    }
    Ok(())
}

/// The parts that a finding is about; the smallest of many are left out.
fn shrinks(finding: &Finding) -> String {
    let labels: Vec<String> =
        finding.shrinks.iter().take(PARTS).map(|kind| format!("`{}`", kind.label())).collect();
    match (labels.is_empty(), finding.shrinks.len().saturating_sub(PARTS)) {
        (true, _) => "the whole".to_owned(),
        (false, 0) => labels.join(" and "),
        (false, more) => format!("{} and {more} more parts", labels.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AssertContains as _;
    use carat_model::ledger::{DetectedAllocator, FileUse};

    fn arenas() -> Vec<Arena> {
        let (held, free) = (Bytes(8_000_000), Some(Bytes(2_000_000)));
        (0..2).map(|number| Arena { number, held, resident: None, free }).collect()
    }

    fn example() -> Ledger {
        let part = |kind, pss| LedgerPart {
            kind,
            pss: Bytes(pss),
            private: Bytes(pss / 2),
            resident: Bytes(pss),
        };
        let parts =
            vec![part(PartKind::CodeAndFiles, 9_100_000), part(PartKind::MallocLive, 30_000_000)];
        let process = ProcessLedger {
            pid: 4312,
            parent: Some(1),
            title: "puma 5.6.5 (tcp://127.0.0.1:3000) [app]".into(),
            rss: Bytes(42_000_000),
            pss: Bytes(40_000_000),
            uss: Bytes(20_000_000),
            parts: parts.clone(),
            unexplained: 900_000,
            allocator: DetectedAllocator {
                active: Some("glibc".into()),
                evidence: "the probe looked up `malloc` inside the process".into(),
                ..DetectedAllocator::default()
            },
            ruby: Some("ruby 3.1.2p20 (2022-04-12) [x86_64-linux-gnu]".into()),
            heap: Some(RubyHeap {
                size: Bytes(5_000_000),
                resident: Bytes(4_000_000),
                private: Bytes(1_000_000),
                pools: vec![SlotPool {
                    slot_size: 40,
                    slots: Some(100_000),
                    live: Some(75_000),
                    free: Some(25_000),
                    pages: Some(300),
                }],
                ..RubyHeap::default()
            }),
            arenas: arenas(),
            ..ProcessLedger::default()
        };
        Ledger {
            pss: Bytes(40_000_000),
            uss: Bytes(20_000_000),
            parts,
            unexplained: 900_000,
            processes: vec![process],
            ..Ledger::default()
        }
    }

    #[test]
    fn files_of_data_are_named_and_those_that_no_process_maps_in_a_line_of_their_own() {
        let mut ledger = example();
        let file = |name: &str, megabytes: u64, mapped| FileUse {
            name: name.into(),
            bytes: Bytes(megabytes * 1_000_000),
            mapped,
        };
        ledger.processes[0].files = (0..8)
            .map(|number| file(&format!("/srv/counter-{number}.db"), 10 + number, true))
            .chain([file("/memfd:metrics (deleted)", 67, false)])
            .collect();
        // A worker has the same file open.
        ledger.processes.push(ledger.processes[0].clone());
        let text = ledger_text(&ledger, &[]);
        text.assert_contains([
            "Largest mapped files without code: /srv/counter-7.db 34.00 MB, /srv/counter-6.db 32.00 MB, ",
            "2 more with 42.00 MB\n",
            "no figure above, but in memory and charged to the container: /memfd:metrics (deleted) 67.00 MB\n",
        ]);
        ledger.processes.iter_mut().for_each(|process| process.files.clear());
        let text = ledger_text(&ledger, &[]);
        assert!(!text.contains("mapped"), "{text}");
    }

    #[test]
    fn where_reading_is_denied_the_kernels_figures_and_the_reason_are_printed_and_no_zero() {
        let process = StatusLedger {
            pid: 4312,
            title: "puma 5.6".into(),
            rss: Bytes(153_000_000),
            anonymous: Some(Bytes(120_000_000)),
            threads: Some(9),
            ..StatusLedger::default()
        };
        let denied = Ledger {
            unread: vec!["cannot read /proc/4312/smaps: denied".into()],
            from_status: vec![process],
            ..Ledger::default()
        };
        let text = ledger_text(&denied, &[]);
        text.assert_contains([
            "puma 5.6\nThe proportional figure (PSS) and its parts are unknown\n",
            "Not in these figures: cannot read /proc/4312/smaps: denied",
            "4312    153.0 MB    120.0 MB           ?           ?           ?        9  puma 5.6",
        ]);
        assert!(!text.contains("0 B") && !text.contains("total"), "{text}");
    }

    #[test]
    fn a_reader_finds_every_part_with_its_unit_and_share() {
        let text = ledger_text(&example(), &[]);
        text.assert_contains([
            "40.00 MB proportional (PSS) in 1 process",
            "Allocator in use: glibc (the probe looked up",
            "malloc, live                   30.00 MB   75.0 %    15.00 MB    15.00 MB  ██████████████████",
            "unexplained                     0.90 MB    2.2 %",
            "Ruby 3.1.2p20 heap of 4312: 5.00 MB of pages",
            "slots of   40 B:      75000 live      25000 free   25.0 % free,    300 pages",
            "main: 8.00 MB held, 2.00 MB free (25 %)",
        ]);
    }

    #[test]
    fn the_heading_of_a_server_that_forked_says_how_far_it_is_from_the_least() {
        let mut ledger = Ledger { pss: Bytes(75_000_000), ..example() };
        let parent = &mut ledger.processes[0];
        parent.parts.push(LedgerPart {
            kind: PartKind::SlotsLive,
            pss: Bytes(900_000),
            private: Bytes(0),
            resident: Bytes(1_800_000),
        });
        let heap = parent.heap.as_mut().unwrap();
        (heap.live_slots, heap.old_objects) = (Some(75_000), Some(75_000));
        let worker = ProcessLedger { pid: 4313, parent: Some(4312), ..parent.clone() };
        ledger.processes.push(worker);
        let text = ledger_text(&ledger, &[]);
        let heading =
            "75.00 MB proportional (PSS) in 2 processes, 1.55 × the least this app can have\n";
        assert!(text.contains(heading), "{text}");
        assert!(!ledger_text(&example(), &[]).contains("the least"), "one process");
    }

    #[test]
    fn the_rest_of_the_parts_is_one_line_with_what_is_unexplained() {
        let mut ledger = example();
        let part = |kind, pss| LedgerPart { kind, pss: Bytes(pss), ..ledger.parts[0] };
        let more = [
            part(PartKind::Stacks, 100_000),
            part(PartKind::MallocFree, 200_000),
            part(PartKind::SlotsLive, 9_500_000),
        ];
        ledger.parts.extend(more);
        assert_eq!(
            rest_text(&ledger),
            "rest     Ruby slots, live 9.50 MB; code and files 9.10 MB; 2 smaller parts 0.30 MB; unexplained 2.2 %\n"
        );
        ledger.unexplained = -40_000;
        assert!(rest_text(&ledger).ends_with("; unexplained −0.1 %\n"), "{}", rest_text(&ledger));
    }

    #[test]
    fn a_bar_has_at_least_an_eighth_and_at_most_the_full_length() {
        assert_eq!(bar(1.5).chars().count(), BAR);
        assert_eq!(bar(0.0), "▏");
        assert_eq!(bar(0.5).chars().count(), BAR / 2);
    }
}
