//! What the terminal has of a ledger besides its parts: findings, allocators, Ruby heaps, malloc arenas.

use crate::ledger_text::{heap_lines, heap_size, largest_arenas, ruby_version};
use crate::lists::grouped_in_order;
use crate::numbers::percent_of;
use crate::page::table;
use crate::process_names::name;
use crate::table::{Cell, FactTable};
use crate::text::{capital, one_line};
use carat_analysis::Finding;
use carat_model::Unit;
use carat_model::ledger::{Arena, Basis, Ledger, ProcessLedger, RubyHeap};
use maud::{Markup, html as markup};
use std::collections::BTreeMap;

/// Arenas shown of each process; the JSON of `carat explain` has all.
const ARENAS: usize = 20;
/// Processes with a table of their own at most.
const PROCESSES: usize = 24;

/// What to try, and the evidence for it. The ledger must be prepared for its reader.
pub(super) fn what_to_try(ledger: &Ledger, findings: &[Finding]) -> Markup {
    markup! {
        section #findings {
            h2 { "What to try" }
            @if ledger.processes.is_empty() {
                p { "Nothing can be suggested, because the ledger does not have its single processes." }
            } @else if findings.is_empty() {
                p { "No setting is suggested." }
            } @else {
                p.soft { "A reason for an experiment, not its result: " code { "carat compare" } " shows what a setting saves, and at what cost." }
                ol {
                    @for finding in findings { li {
                        strong { (finding.code) }
                        @if let Some(bytes) = finding.at_most { ", at most " (bytes) }
                        ": " (finding.evidence) ". "
                        @match &finding.setting {
                            Some((name, value)) => { "Try " code { (name) " = \"" (value) "\"" } ": " (finding.remedy) "." },
                            None => { (capital(&finding.remedy)) "." },
                        }
                    } }
                }
            }
        }
    }
}

/// The allocator in use, and the Ruby heap and the arenas of every process.
pub(super) fn details(ledger: &Ledger) -> Markup {
    // A shortened export has no single processes.
    if ledger.processes.is_empty() {
        return markup! {};
    }
    let unprobed = ledger.processes.iter().filter(|one| one.basis == Basis::ProcOnly).count();
    let heaps = ledger.processes.iter().filter_map(|one| Some((one, one.heap.as_ref()?)));
    let mut heaps = heaps.take(PROCESSES).peekable();
    let with_arenas = ledger.processes.iter().filter(|process| process.arenas.len() > 1);
    let mut with_arenas = with_arenas.take(PROCESSES).enumerate().peekable();
    markup! {
        section #allocator {
            h2 { "Allocator" }
            ul.also { @for (line, processes) in allocators(ledger) { li { (line) " (" (processes.join(", ")) ")" } } }
            @if unprobed > 0 {
                p.soft { "The probe is not loaded in " (unprobed) " of " (ledger.processes.len()) " processes, so live and free memory cannot be told apart there." }
            }
            @for process in &ledger.processes {
                @if let Some(why) = &process.slots_unknown {
                    p.soft { "Slots unknown in " (title(process, ledger)) ": " (one_line(why)) "." }
                }
            }
        }
        @if heaps.peek().is_some() {
            section #heap {
                h2 { "Ruby's heap" }
                @for (process, heap) in heaps { (ruby_heap(process, heap, ledger)) }
            }
        }
        @if with_arenas.peek().is_some() {
            section #arenas {
                h2 { "Malloc arenas" }
                @for (at, process) in with_arenas { (arenas(process, ledger, at == 0)) }
            }
        }
    }
}

/// Pid and role.
fn title(process: &ProcessLedger, ledger: &Ledger) -> String {
    format!("{} {}", process.pid, name(process, &ledger.processes))
}

/// Every different allocator with its evidence, and the processes that use it.
fn allocators(ledger: &Ledger) -> BTreeMap<String, Vec<String>> {
    grouped_in_order(ledger.processes.iter().map(|process| {
        let active = process.allocator.active.as_deref().unwrap_or("unknown");
        let line = one_line(&format!("{active}: {}", process.allocator.evidence));
        (line, title(process, ledger))
    }))
}

fn ruby_heap(process: &ProcessLedger, heap: &RubyHeap, ledger: &Ledger) -> Markup {
    let version = ruby_version(process);
    let count = |value: Option<u64>| Cell::amount(Unit::Count, value.map(|count| count as f64));
    let rows = heap.pools.iter().map(|pool| {
        let share = Cell::amount(Unit::Fraction, pool.fragmentation());
        let cells = [count(pool.live), count(pool.free), share, count(pool.pages)];
        Cell::row(format!("{} B", pool.slot_size), cells)
    });
    let slots = FactTable::new("Slots by size")
        .name("slot size")
        .numbers(["live", "free", "free share", "pages"])
        .rows(rows);
    markup! {
        h3 { (title(process, ledger)) @if !version.is_empty() { ", Ruby " (version) } }
        p.soft { (heap_size(heap)) "." }
        @if !heap.pools.is_empty() { (table(&slots)) }
        @for line in heap_lines(heap) { p.soft { (capital(&line)) "." } }
    }
}

fn arenas(process: &ProcessLedger, ledger: &Ledger, open: bool) -> Markup {
    let rows = largest_arenas(process).into_iter().take(ARENAS).map(|arena| {
        let Arena { held, resident, free, .. } = *arena;
        let sizes = [Some(held), resident, free].map(Cell::bytes);
        let free = free.map(|free| free.0 as f64);
        let share = Cell::shown(free, |free| percent_of(free, held, 0));
        Cell::row(process.arena_name(arena), sizes.into_iter().chain([share]))
    });
    let shown = FactTable::new("Malloc arenas").name("arena");
    let shown = shown.numbers(["held", "resident", "free", "free share"]).rows(rows);
    let count = process.arenas.len();
    markup! {
        details.fold open[open] {
            summary { (title(process, ledger)) ": " (count) " arenas" @if count > ARENAS { ", the largest " (ARENAS) } }
            (table(&shown))
        }
    }
}
