//! What the terminal has of a ledger besides its parts: findings, allocators, Ruby heaps, malloc arenas.

use crate::numbers::{or_question_mark, percent, percent_of};
use crate::page::elements::{scrollable, unknown_cell, value_cell};
use crate::process_names::name;
use crate::text::{capital, one_line};
use carat_analysis::Finding;
use carat_model::Unit;
use carat_model::ledger::{Arena, Basis, Ledger, ProcessLedger, RubyHeap, SlotPool};
use maud::{Markup, html as markup};
use std::cmp::Reverse;
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
    let with_heap = ledger.processes.iter().filter(|process| process.heap.is_some());
    let with_arenas = ledger.processes.iter().filter(|process| process.arenas.len() > 1);
    markup! {
        section #allocator {
            h2 { "Allocator" }
            ul.also { @for (line, processes) in allocators(ledger) { li { (line) " (" (processes.join(", ")) ")" } } }
            @if let Some(text) = without_probe(ledger) { p.soft { (text) } }
            @for process in &ledger.processes {
                @if let Some(why) = &process.slots_unknown {
                    p.soft { "Slots unknown in " (title(process, ledger)) ": " (one_line(why)) "." }
                }
            }
        }
        @if ledger.processes.iter().any(|process| process.heap.is_some()) {
            section #heap {
                h2 { "Ruby's heap" }
                @for process in with_heap.take(PROCESSES) {
                    @if let Some(heap) = &process.heap { (ruby_heap(process, heap, ledger)) }
                }
            }
        }
        @if ledger.processes.iter().any(|process| process.arenas.len() > 1) {
            section #arenas {
                h2 { "Malloc arenas" }
                @for (at, process) in with_arenas.take(PROCESSES).enumerate() { (arenas(process, ledger, at == 0)) }
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
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for process in &ledger.processes {
        let active = process.allocator.active.as_deref().unwrap_or("unknown");
        let line = one_line(&format!("{active}: {}", process.allocator.evidence));
        found.entry(line).or_default().push(title(process, ledger));
    }
    found
}

fn without_probe(ledger: &Ledger) -> Option<String> {
    let count = ledger.processes.iter().filter(|p| p.basis == Basis::ProcOnly).count();
    (count > 0).then(|| {
        format!(
            "The probe is not loaded in {count} of {} processes, so live and free memory cannot be told apart there.",
            ledger.processes.len()
        )
    })
}

fn ruby_heap(process: &ProcessLedger, heap: &RubyHeap, ledger: &Ledger) -> Markup {
    let described = process.ruby.as_deref().unwrap_or_default();
    // `ruby 3.3.0 (…)`: the second word is the version.
    let version = described.split_ascii_whitespace().nth(1).unwrap_or_default();
    let all = heap.pools.iter().map(|pool| pool.slots).sum::<Option<u64>>();
    let table = markup! {
        table {
            thead { tr {
                th scope="col" { "slot size" } th scope="col" { "live" } th scope="col" { "free" }
                th scope="col" { "free share" } th scope="col" { "pages" }
            } }
            tbody { @for pool in &heap.pools { (pool_row(pool)) } }
        }
    };
    markup! {
        h3 { (title(process, ledger)) @if !version.is_empty() { ", Ruby " (version) } }
        p.soft { (heap.size) " of pages, " (heap.resident) " resident, " (heap.private) " of it private." }
        @if !heap.pools.is_empty() { (scrollable("Slots by size", &table)) }
        @if heap.pools.iter().any(|pool| pool.live.is_none()) {
            p.soft {
                "All slots: " (or_question_mark(heap.live_slots)) " live of " (or_question_mark(all))
                "; this Ruby does not count them by size."
            }
        }
        @if let Some(classic) = heap.classic {
            p.soft {
                "Slots in use " (percent(classic.slots, 1))
                @if let Some(pages) = classic.pages { ", pages in use " (percent(pages, 1)) } "."
            }
        }
        @if let Some(bytes) = heap.malloc_of_ruby {
            p.soft { "Ruby itself holds " (bytes) " from malloc, as it counts." }
        }
    }
}

fn pool_row(pool: &SlotPool) -> Markup {
    let count = |value: Option<u64>| value_cell(Unit::Count, value.map(|count| count as f64));
    markup! {
        tr {
            th scope="row" { (pool.slot_size) " B" }
            (count(pool.live)) (count(pool.free))
            (value_cell(Unit::Fraction, pool.fragmentation()))
            (count(pool.pages))
        }
    }
}

fn arenas(process: &ProcessLedger, ledger: &Ledger, open: bool) -> Markup {
    let mut largest: Vec<&Arena> = process.arenas.iter().collect();
    // By memory, because arenas are numbered in the order of threads.
    largest.sort_by_key(|arena| Reverse(arena.held));
    let table = markup! {
        table {
            thead { tr {
                th scope="col" { "arena" } th scope="col" { "held" } th scope="col" { "resident" }
                th scope="col" { "free" } th scope="col" { "free share" }
            } }
            tbody { @for arena in largest.iter().take(ARENAS) { (arena_row(&process.arena_name(arena), arena)) } }
        }
    };
    let count = process.arenas.len();
    markup! {
        details open[open] {
            summary { (title(process, ledger)) ": " (count) " arenas" @if count > ARENAS { ", the largest " (ARENAS) } }
            (scrollable("Malloc arenas", &table))
        }
    }
}

fn arena_row(name: &str, arena: &Arena) -> Markup {
    markup! {
        tr {
            th scope="row" { (name) }
            @for bytes in [Some(arena.held), arena.resident, arena.free] {
                (value_cell(Unit::Bytes, bytes.map(|bytes| bytes.0 as f64)))
            }
            @match arena.free {
                Some(free) => td data-v=(free.0) { (percent_of(free.0 as f64, arena.held, 0)) },
                None => (unknown_cell()),
            }
        }
    }
}
