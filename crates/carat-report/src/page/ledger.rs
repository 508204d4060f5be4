//! A ledger as pictures and tables: the waterfall of its parts, and the parts of every process.

use crate::chart::Caption;
use crate::chart::icicle::{IcicleBox, THREE_LEVELS, icicle};
use crate::chart::waterfall::{WaterfallPart, waterfall};
use crate::ledger_files::LedgerFiles;
use crate::numbers::{count, percent_of};
use crate::page::elements::{scrollable, value_cell};
use crate::page::gallery::Gallery;
use crate::process_names::name;
use crate::text::{one_line, shorten};
use carat_model::ledger::{Ledger, LedgerPart, PartKind, ProcessLedger, StatusLedger};
use carat_model::{Bytes, Unit};
use maud::{Markup, html as markup};

/// Processes that get a box of their own.
const PROCESS_BOXES: usize = 24;
/// Processes in the table.
const PROCESS_ROWS: usize = 200;
/// Files named in a list.
const FILES: usize = 20;
/// Reasons listed for figures that could not be read.
const REASONS: usize = 20;

pub(super) fn section(ledger: &Ledger, gallery: &mut Gallery) -> Markup {
    let unexplained = ledger.unexplained as f64;
    let description =
        &format!("{}; unexplained {}", part_sizes(ledger), Unit::Bytes.show(unexplained));
    let title = "The parts of the memory";
    let caption = Caption { id: "ledger-waterfall", title, description };
    let total = ledger.pss.0 as f64;
    let parts = waterfall(&waterfall_parts(ledger), unexplained, (total, total), &caption);
    let title = "Processes and their parts";
    let boxes =
        icicle(&tree(ledger), &THREE_LEVELS, &Caption { id: "ledger-icicle", title, description });
    markup! {
        section #ledger {
            h2 { "What the memory is made of" }
            figure {
                figcaption { "Left: the parts and the unexplained line add up to the kernel's figure (PSS). Solid is memory that only one process maps, pale a process's proportional part of memory that others map too. Right: the same by process." }
                div.grid2 {
                    div.panel { h3 { "Parts" } (gallery.show(parts)) }
                    div.panel { h3 { "Tree, processes, parts" } (gallery.show(boxes)) }
                }
            }
            details { summary { "Numbers" } (table(ledger)) (processes(ledger)) }
            (files(&LedgerFiles::of(ledger)))
            @if !ledger.unread.is_empty() {
                ul.warn { @for reason in ledger.unread.iter().take(REASONS) { li { "Not in these figures: " (reason) } } }
            }
            @if !ledger.from_status.is_empty() { (from_status(&ledger.from_status)) }
        }
    }
}

/// The files of data, and those that no figure has.
fn files(files: &LedgerFiles<'_>) -> Markup {
    markup! {
        @if !files.mapped.is_empty() {
            h3 { "Largest mapped files without code" }
            (file_list(&files.mapped))
        }
        @if !files.open.is_empty() {
            h3 { "Open and not mapped" }
            p.soft { "In no figure above, but in memory and charged to the container." }
            (file_list(&files.open))
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
    let table = markup! {
        table {
            thead { tr {
                th scope="col" { "process" } th.w scope="col" { "title" } th scope="col" { "RSS" } th scope="col" { "anonymous" }
                th scope="col" { "files" } th scope="col" { "shared" } th scope="col" { "swap" } th scope="col" { "threads" }
            } }
            tbody { @for process in processes.iter().take(PROCESS_ROWS) { tr {
                th scope="row" { (process.pid) }
                td.w { (shorten(&one_line(&process.title), 80)) }
                @for bytes in [Some(process.rss), process.anonymous, process.files, process.shared, process.swap] {
                    (value_cell(Unit::Bytes, bytes.map(|bytes| bytes.0 as f64)))
                }
                td { (process.threads.map_or_else(|| "–".to_owned(), |threads| threads.to_string())) }
            } } }
        }
    };
    markup! {
        h3 { "What the kernel tells of processes that may not be read" }
        (scrollable("Processes that may not be read", &table))
    }
}

/// Every part with its size, on one line.
pub(super) fn part_sizes(ledger: &Ledger) -> String {
    let sizes = ledger.parts.iter().map(|part| format!("{} {}", part.kind.label(), part.pss));
    sizes.collect::<Vec<_>>().join(", ")
}

/// The parts of a ledger as bars of a waterfall.
pub(super) fn waterfall_parts(ledger: &Ledger) -> Vec<WaterfallPart> {
    ledger.parts.iter().map(waterfall_part).collect()
}

fn waterfall_part(part: &LedgerPart) -> WaterfallPart {
    WaterfallPart {
        label: part.kind.label().into(),
        class: colour(part.kind),
        private: part.private.0 as f64,
        shared: part.shared().0 as f64,
    }
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
    let mut sorted: Vec<&ProcessLedger> = ledger.processes.iter().collect();
    sorted.sort_by_key(|process| std::cmp::Reverse(process.pss));
    let (shown, rest) = sorted.split_at(sorted.len().min(PROCESS_BOXES));
    let named = shown.iter().map(|process| process_box(process, &ledger.processes));
    let mut inner: Vec<IcicleBox> = named.collect();
    if !rest.is_empty() {
        let size = rest.iter().map(|process| process.pss.0 as f64).sum();
        let label = count(rest.len(), "more process");
        inner.push(IcicleBox { label, size, ..IcicleBox::default() });
    }
    IcicleBox { label: "the tree".into(), size: ledger.pss.0 as f64, inner, ..IcicleBox::default() }
}

fn process_box(process: &ProcessLedger, all: &[ProcessLedger]) -> IcicleBox {
    IcicleBox {
        label: format!("{} {}", process.pid, name(process, all)),
        size: process.pss.0 as f64,
        inner: process.parts.iter().map(part_box).collect(),
        ..IcicleBox::default()
    }
}

fn part_box(part: &LedgerPart) -> IcicleBox {
    IcicleBox {
        label: part.kind.label().into(),
        class: colour(part.kind),
        size: part.pss.0 as f64,
        ..IcicleBox::default()
    }
}

/// One row: name, proportional, private and shared bytes.
type PartRow = (&'static str, f64, Option<f64>, Option<f64>);

fn part_row(part: &LedgerPart) -> PartRow {
    let (private, shared) = (part.private.0 as f64, part.shared().0 as f64);
    (part.kind.label(), part.pss.0 as f64, Some(private), Some(shared))
}

fn table(ledger: &Ledger) -> Markup {
    let mut rows: Vec<PartRow> = ledger.parts.iter().map(part_row).collect();
    rows.push(("unexplained", ledger.unexplained as f64, None, None));
    rows.push(("the kernel's figure", ledger.pss.0 as f64, Some(ledger.uss.0 as f64), None));
    let table = markup! {
        table #ledger-parts {
            thead { tr {
                th scope="col" { "part" } th scope="col" { "size" } th scope="col" { "share" }
                th scope="col" { "private" } th scope="col" { "shared" }
            } }
            tbody {
                @for (name, pss, private, shared) in rows {
                    tr {
                        th scope="row" { (name) }
                        (value_cell(Unit::Bytes, Some(pss))) td { (percent_of(pss, ledger.pss, 1)) }
                        (value_cell(Unit::Bytes, private)) (value_cell(Unit::Bytes, shared))
                    }
                }
            }
        }
    };
    scrollable("Parts of the memory", &table)
}

fn processes(ledger: &Ledger) -> Markup {
    let table = markup! {
        table {
            thead { tr {
                th scope="col" { "process" } th.w scope="col" { "title" } th scope="col" { "PSS" } th scope="col" { "private" }
                th scope="col" { "resident" } th scope="col" { "threads" } th.l scope="col" { "allocator" }
            } }
            tbody { @for process in ledger.processes.iter().take(PROCESS_ROWS) { (process_row(process)) } }
        }
    };
    scrollable("Processes", &table)
}

fn process_row(process: &ProcessLedger) -> Markup {
    let threads = process.threads.map_or_else(|| "–".to_owned(), |threads| threads.to_string());
    markup! {
        tr {
            th scope="row" { (process.pid) }
            td.w { (shorten(&one_line(&process.title), 80)) }
            @for bytes in [process.pss, process.uss, process.rss] { (value_cell(Unit::Bytes, Some(bytes.0 as f64))) }
            td { (threads) }
            td.l { (process.allocator.active.as_deref().unwrap_or("unknown")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        for part in [
            "/srv/counter_worker-0.db, 10.00 MB",
            "Open and not mapped",
            "/memfd:metrics, 10.00 MB",
            "<th scope=\"row\">4312</th>",
            "153.0 MB",
            "<td>–</td>",
        ] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
    }
}
