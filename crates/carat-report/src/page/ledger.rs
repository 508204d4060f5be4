//! The page of a single ledger, and what the page of a recording has of it too: the waterfall of its parts, and the parts of
//! every process.

use crate::chart::{BarRow, Caption, IcicleBox, THREE_LEVELS, bars, icicle};
use crate::ledger_files::LedgerFiles;
use crate::lists::largest_first;
use crate::numbers::{count, or_dash, percent, percent_of};
use crate::page::{Gallery, PageOptions, elements, ledger_details, outside, page, prose};
use crate::process_names::name;
use crate::table::{Cell, FactTable};
use crate::text::{capital, one_line, shorten};
use carat_analysis::{Diagnosis, LedgerSource, diagnosis, findings_of};
use carat_model::ledger::{Ledger, LedgerPart, PartKind, ProcessLedger, StatusLedger};
use carat_model::{Bytes, Unit};
use carat_redact::{redact_ledger, redact_outside, redact_recording};
use maud::{Markup, html as markup};

/// Processes that get a box of their own.
const PROCESS_BOXES: usize = 24;
/// Processes in the table.
const PROCESS_ROWS: usize = 200;
/// Files named in a list.
const FILES: usize = 20;
/// Reasons listed for figures that could not be read.
const REASONS: usize = 20;

/// The page of a ledger, with what is known beside it: one file that makes no request. `server` names what it
/// describes, such as a command line.
pub fn ledger_html(
    server: &str,
    ledger: &Ledger,
    source: LedgerSource<'_>,
    options: &PageOptions,
) -> String {
    let (server, ledger) = redact_ledger(server, ledger, options.audience);
    let reading = source.reading();
    let shown = reading.map(|reading| redact_outside(reading, options.audience));
    let title = headline(&ledger);
    let found = match source {
        LedgerSource::Processes(_) => diagnosis(&ledger, LedgerSource::Processes(shown.as_ref())),
        LedgerSource::Recording(recording) => {
            let recording = redact_recording(recording, options.audience);
            diagnosis(&ledger, LedgerSource::Recording(&recording))
        }
        LedgerSource::Results(_) => diagnosis(&ledger, source),
    };
    let findings = findings_of(&ledger, source);
    let mut gallery = Gallery::default();
    let about = markup! { "Carat ledger of " b { (shorten(&server, 120)) } };
    let contents = markup! {
        h1 { (title) }
        (rows(&found))
        (section(&ledger, &mut gallery))
        (ledger_details::what_to_try(&ledger, &findings))
        (outside::sections(shown.as_ref(), &mut gallery))
        (ledger_details::details(&ledger))
    };
    page(&title, (&about, &contents), (gallery, &[]), options)
}

/// The rows of the diagnosis; the title has the size already.
fn rows(found: &Diagnosis) -> Markup {
    markup! {
        table #diagnosis {
            tbody { @for row in &found.rows {
                tr { th scope="row" { (capital(row.kind.label())) } td.l { (prose(&row.text)) } }
            } }
        }
    }
}

fn headline(ledger: &Ledger) -> String {
    // Reversed: `max_by_key` takes the last of equals, and the first part is to win.
    let largest = ledger.parts.iter().rev().max_by_key(|part| part.pss);
    let Some(largest) = largest else { return "No process could be read.".to_owned() };
    let processes = match ledger.processes.len() {
        0 => String::new(),
        some => format!(" in {}", count(some, "process")),
    };
    format!(
        "{}{processes}; the largest part, {}, is {}.",
        ledger.pss,
        percent_of(largest.pss.0 as f64, ledger.pss, 0),
        largest.kind.label()
    )
}

/// The parts of a ledger as pictures and tables.
pub(super) fn section(ledger: &Ledger, gallery: &mut Gallery) -> Markup {
    let unexplained = Unit::Bytes.show(ledger.unexplained as f64);
    let description = format!("{}; unexplained {unexplained}", part_sizes(ledger));
    let caption = Caption::new("ledger-waterfall", "The parts of the memory", &description);
    // At least one byte, because a scale from zero to zero has no places.
    let parts = bars(&waterfall(ledger), (0.0, ledger.pss.0.max(1) as f64), None, caption);
    let caption = Caption::new("ledger-icicle", "Processes and their parts", description);
    let boxes = icicle(&tree(ledger), &THREE_LEVELS, caption);
    let files = LedgerFiles::of(ledger);
    markup! {
        section #ledger {
            h2 { "What the memory is made of" }
            figure {
                figcaption { "Left: the parts and the unexplained line add up to the kernel's figure (PSS). Solid is memory that only one process maps, pale a process's proportional part of memory that others map too. Right: the same by process." }
                div.grid2 {
                    (gallery.panel("Parts", parts))
                    (gallery.panel("Tree, processes, parts", boxes))
                }
            }
            details { summary { "Numbers" } (elements::table(&table(ledger))) (elements::table(&processes(ledger))) }
            @if !files.mapped.is_empty() {
                h3 { "Largest mapped files without code" }
                (file_list(&files.mapped))
            }
            @if !files.open.is_empty() {
                h3 { "Open and not mapped" }
                p.soft { "In no figure above, but in memory and charged to the container." }
                (file_list(&files.open))
            }
            @if !ledger.unread.is_empty() {
                ul.warn { @for reason in ledger.unread.iter().take(REASONS) { li { "Not in these figures: " (reason) } } }
            }
            @if !ledger.from_status.is_empty() { (from_status(&ledger.from_status)) }
        }
    }
}

fn file_list(files: &[(&str, Bytes)]) -> Markup {
    markup! {
        ul.also { @for (name, bytes) in files.iter().take(FILES) {
            li { (shorten(&one_line(name), 120)) ", " (bytes) }
        } }
        @if files.len() > FILES { p.soft { "and " (files.len() - FILES) " more" } }
    }
}

/// What the kernel tells of processes that may not be read.
fn from_status(processes: &[StatusLedger]) -> Markup {
    let rows = processes.iter().take(PROCESS_ROWS).map(|process| {
        let StatusLedger { rss, anonymous, files, shared, swap, .. } = *process;
        let sizes = [Some(rss), anonymous, files, shared, swap].map(Cell::bytes);
        let title = Cell::text(shorten(&one_line(&process.title), 80));
        let threads = Cell::text(or_dash(process.threads));
        Cell::row(process.pid.to_string(), [title].into_iter().chain(sizes).chain([threads]))
    });
    let table = FactTable::new("Processes that may not be read")
        .name("process")
        .long_texts(["title"])
        .numbers(["RSS", "anonymous", "files", "shared", "swap", "threads"])
        .rows(rows);
    markup! {
        h3 { "What the kernel tells of processes that may not be read" }
        (elements::table(&table))
    }
}

/// Every part with its size, on one line.
pub(super) fn part_sizes(ledger: &Ledger) -> String {
    let sizes = ledger.parts.iter().map(|part| format!("{} {}", part.kind.label(), part.pss));
    sizes.collect::<Vec<_>>().join(", ")
}

/// The bars of a waterfall: parts that add up to the total, each beginning where the one before ends.
pub(super) fn waterfall(ledger: &Ledger) -> Vec<BarRow> {
    let (total, unexplained) = (ledger.pss.0 as f64, ledger.unexplained as f64);
    let row = |label: &str, class: Option<usize>, bytes: f64, bars| {
        let share = if total > 0.0 { bytes / total } else { 0.0 };
        let note = format!("{} · {}", Unit::Bytes.show(bytes), percent(share, 1));
        BarRow { label: label.to_owned(), note, class, bars }
    };
    let mut at = 0.0;
    let mut rows: Vec<BarRow> = Vec::new();
    for part in &ledger.parts {
        let middle = at + part.private.0 as f64;
        // Private memory first, so that all bars of it begin where the part begins.
        let end = middle + part.shared().0 as f64;
        let bars = vec![("part", at, middle), ("part shared", middle, end)];
        rows.push(row(part.kind.label(), Some(colour(part.kind)), end - at, bars));
        at = end;
    }
    // Negative where the parts exceed the kernel's figure; the bar then goes back.
    let rest = vec![("unexplained", at, at + unexplained)];
    rows.push(row("unexplained", None, unexplained, rest));
    rows.push(row("the kernel's figure", None, total, vec![("whole", 0.0, total)]));
    rows
}

/// Live and free memory of the same allocator share a colour; free follows live in the picture.
pub(super) fn colour(kind: PartKind) -> usize {
    match kind {
        PartKind::SlotsLive | PartKind::SlotsFree => 1,
        PartKind::MallocLive | PartKind::MallocFree | PartKind::Malloc => 2,
        PartKind::CodeAndFiles => 3,
        PartKind::Jit => 4,
        PartKind::AllocatorOverhead => 5,
        PartKind::TransientHeap => 6,
        PartKind::Stacks => 7,
        PartKind::SlotsOrMalloc | PartKind::Anonymous | PartKind::SharedMemory => 0,
    }
}

fn tree(ledger: &Ledger) -> IcicleBox {
    // By size, because only the largest get a box of their own.
    let sorted = largest_first(&ledger.processes, |process| process.pss);
    let (shown, rest) = sorted.split_at(sorted.len().min(PROCESS_BOXES));
    let part_box = |part: &LedgerPart| IcicleBox {
        class: colour(part.kind),
        ..IcicleBox::new(part.kind.label(), part.pss.0 as f64, Vec::new())
    };
    let process_box = |process: &&ProcessLedger| {
        // Named among all of them: a role follows from the parents, which may be in the rest.
        let label = format!("{} {}", process.pid, name(process, &ledger.processes));
        let parts = process.parts.iter().map(part_box).collect();
        IcicleBox::new(label, process.pss.0 as f64, parts)
    };
    let mut inner: Vec<IcicleBox> = shown.iter().map(process_box).collect();
    if !rest.is_empty() {
        let size = rest.iter().map(|process| process.pss.0 as f64).sum();
        inner.push(IcicleBox::new(count(rest.len(), "more process"), size, Vec::new()));
    }
    IcicleBox::new("the tree", ledger.pss.0 as f64, inner)
}

fn table(ledger: &Ledger) -> FactTable {
    let row = |name: &str, pss: f64, private: Option<Bytes>, shared: Option<Bytes>| {
        let share = Cell::text(percent_of(pss, ledger.pss, 1));
        let size = Cell::amount(Unit::Bytes, pss);
        Cell::row(name, [size, share, Cell::bytes(private), Cell::bytes(shared)])
    };
    let parts = ledger.parts.iter().map(|part| {
        row(part.kind.label(), part.pss.0 as f64, Some(part.private), Some(part.shared()))
    });
    // Without a division: nobody knows which of it is shared.
    let rest = row("unexplained", ledger.unexplained as f64, None, None);
    let all = row("the kernel's figure", ledger.pss.0 as f64, Some(ledger.uss), None);
    FactTable::new("Parts of the memory")
        .id("ledger-parts")
        .name("part")
        .numbers(["size", "share", "private", "shared"])
        .rows(parts.chain([rest, all]))
}

fn processes(ledger: &Ledger) -> FactTable {
    let rows = ledger.processes.iter().take(PROCESS_ROWS).map(|process| {
        let title = Cell::text(shorten(&one_line(&process.title), 80));
        let sizes = [process.pss, process.uss, process.rss].map(Cell::bytes);
        let active = process.allocator.active.as_deref().unwrap_or("unknown");
        let last = [Cell::text(or_dash(process.threads)), Cell::text(active)];
        Cell::row(process.pid.to_string(), [title].into_iter().chain(sizes).chain(last))
    });
    FactTable::new("Processes")
        .name("process")
        .long_texts(["title"])
        .numbers(["PSS", "private", "resident", "threads"])
        .texts(["allocator"])
        .rows(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AssertContains as _;
    use carat_model::ledger::FileUse;

    #[test]
    fn files_of_data_and_what_the_kernel_tells_of_denied_processes_are_on_the_page() {
        let file =
            |name: &str, mapped| FileUse { name: name.into(), bytes: Bytes(10_000_000), mapped };
        let files = vec![file("/srv/counter_worker-0.db", true), file("/memfd:metrics", false)];
        let process = ProcessLedger { pid: 10, files, ..ProcessLedger::default() };
        let status = StatusLedger {
            pid: 4312,
            title: "puma 5.6".into(),
            rss: Bytes(153_000_000),
            ..StatusLedger::default()
        };
        let ledger =
            Ledger { processes: vec![process], from_status: vec![status], ..Ledger::default() };
        let page = section(&ledger, &mut Gallery::default()).into_string();
        page.assert_contains([
            "/srv/counter_worker-0.db, 10.00 MB",
            "Open and not mapped",
            "/memfd:metrics, 10.00 MB",
            "<th scope=\"row\">4312</th>",
            "153.0 MB",
            "<td>–</td>",
        ]);
    }
}
