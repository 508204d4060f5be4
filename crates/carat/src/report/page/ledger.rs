//! A ledger as pictures and a table: the waterfall of its parts, and which process holds which.

use crate::core::Unit;
use crate::core::ledger::{Ledger, LedgerPart, PartKind, ProcessLedger};
use crate::report::chart::Caption;
use crate::report::chart::icicle::{Piece, icicle};
use crate::report::chart::waterfall::{WaterfallPart, waterfall};
use crate::report::page::gallery::Gallery;
use crate::report::page::tables;
use crate::report::text::{one_line, shorten};
use maud::{Markup, html as markup};

/// Processes that get a box of their own.
const PROCESSES: usize = 24;

/// The sections of a ledger.
pub(crate) fn sections(ledger: &Ledger, gallery: &mut Gallery) -> Markup {
    let says: Vec<String> =
        ledger.parts.iter().map(|part| format!("{} {}", part.kind.label(), part.pss)).collect();
    let says =
        format!("{}; unexplained {}", says.join(", "), Unit::Bytes.show(ledger.unexplained as f64));
    let parts = steps(ledger);
    let total = ledger.pss.0 as f64;
    let caption = Caption { id: "ledger-waterfall", title: "The parts of the memory", says: &says };
    let fall = gallery.show(waterfall(&parts, ledger.unexplained as f64, total, &caption));
    let caption = Caption { id: "ledger-icicle", title: "Processes and their parts", says: &says };
    let boxes = gallery.show(icicle(&tree(ledger), &caption));
    markup! {
        section #ledger {
            h2 { "What the memory is made of" }
            figure {
                figcaption { "Left: the parts and the unexplained line add up to the kernel's figure (PSS); solid is memory that only one process maps, pale a process's proportional part of memory that others map too. Right: the same by process." }
                div.grid2 { div.panel { h3 { "Parts" } (fall) } div.panel { h3 { "Tree, processes, parts" } (boxes) } }
            }
            details { summary { "Numbers" } (table(ledger)) (processes(ledger)) }
            @if !ledger.unread.is_empty() {
                ul.warn { @for unread in ledger.unread.iter().take(20) { li { "Not in these figures: " (unread) } } }
            }
        }
    }
}

/// The parts of a ledger as steps of a waterfall.
pub(crate) fn steps(ledger: &Ledger) -> Vec<WaterfallPart> {
    let step = |part: &LedgerPart| WaterfallPart {
        label: part.kind.label().into(),
        class: colour(part.kind),
        private: part.private.0 as f64,
        shared: part.shared().0 as f64,
    };
    ledger.parts.iter().map(step).collect()
}

/// Live memory and its free counterpart share a colour; the free one follows it in the picture.
fn colour(kind: PartKind) -> usize {
    match kind {
        PartKind::SlotsLive | PartKind::SlotsFree => 1,
        PartKind::MallocLive | PartKind::MallocFree | PartKind::Malloc => 2,
        PartKind::CodeAndFiles => 3,
        PartKind::Jit => 4,
        PartKind::AllocatorOverhead => 5,
        PartKind::TransientHeap => 6,
        PartKind::Stacks => 7,
        PartKind::SlotsOrMalloc | PartKind::SharedMemory => 0,
    }
}

fn tree(ledger: &Ledger) -> Piece {
    let mut sorted: Vec<&ProcessLedger> = ledger.processes.iter().collect();
    sorted.sort_by_key(|process| std::cmp::Reverse(process.pss));
    let (shown, rest) = sorted.split_at(sorted.len().min(PROCESSES));
    let mut pieces: Vec<Piece> = shown.iter().map(|process| process_piece(process)).collect();
    if !rest.is_empty() {
        let size = rest.iter().map(|process| process.pss.0 as f64).sum();
        let label = format!("{} more processes", rest.len());
        pieces.push(Piece { label, class: 0, size, pieces: Vec::new() });
    }
    Piece { label: "the tree".into(), class: 0, size: ledger.pss.0 as f64, pieces }
}

fn process_piece(process: &ProcessLedger) -> Piece {
    let piece = |part: &LedgerPart| Piece {
        label: part.kind.label().into(),
        class: colour(part.kind),
        size: part.pss.0 as f64,
        pieces: Vec::new(),
    };
    Piece {
        label: format!("{} {}", process.pid, one_line(&process.title)),
        class: 0,
        size: process.pss.0 as f64,
        pieces: process.parts.iter().map(piece).collect(),
    }
}

fn table(ledger: &Ledger) -> Markup {
    let share = |bytes: f64| format!("{:.1} %", 100.0 * bytes / (ledger.pss.0.max(1) as f64));
    let row = |name: &str, pss: f64, private: Option<f64>, shared: Option<f64>| {
        markup! {
            tr {
                th scope="row" { (name) }
                td data-v=(pss) { (Unit::Bytes.show(pss)) } td { (share(pss)) }
                @for value in [private, shared] {
                    (tables::cell(Unit::Bytes, value))
                }
            }
        }
    };
    markup! {
        div.scroll tabindex="0" role="region" aria-label="Parts of the memory" {
            table #ledger-parts {
                thead { tr {
                    th scope="col" { "part" } th scope="col" { "size" } th scope="col" { "share" }
                    th scope="col" { "private" } th scope="col" { "shared" }
                } }
                tbody {
                    @for part in &ledger.parts {
                        (row(part.kind.label(), part.pss.0 as f64, Some(part.private.0 as f64), Some(part.shared().0 as f64)))
                    }
                    (row("unexplained", ledger.unexplained as f64, None, None))
                    (row("the kernel's figure", ledger.pss.0 as f64, Some(ledger.uss.0 as f64), None))
                }
            }
        }
    }
}

fn processes(ledger: &Ledger) -> Markup {
    markup! {
        div.scroll tabindex="0" role="region" aria-label="Processes" {
            table {
                thead { tr {
                    th scope="col" { "process" } th.w scope="col" { "title" } th scope="col" { "PSS" } th scope="col" { "private" }
                    th scope="col" { "resident" } th scope="col" { "threads" } th.l scope="col" { "allocator" }
                } }
                tbody {
                    @for process in ledger.processes.iter().take(200) {
                        tr {
                            th scope="row" { (process.pid) }
                            td.w { (shorten(&one_line(&process.title), 80)) }
                            td data-v=(process.pss.0) { (process.pss) } td data-v=(process.uss.0) { (process.uss) }
                            td data-v=(process.rss.0) { (process.rss) }
                            td { (process.threads.map_or_else(|| "–".to_owned(), |threads| threads.to_string())) }
                            td.l { (process.allocator.active.as_deref().unwrap_or("unknown")) }
                        }
                    }
                }
            }
        }
    }
}
