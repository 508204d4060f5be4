//! A ledger for people: tables, bars, and one line on the allocator.

use crate::core::Bytes;
use crate::core::ledger::{Arena, Basis, Ledger, LedgerPart, ProcessLedger, RubyHeap};
use std::io::{self, Write};

const BAR: usize = 24;
/// Arenas shown of each process; `--json` has all.
const ARENAS: usize = 5;

/// Writes the whole ledger.
pub(crate) fn write_ledger(out: &mut dyn Write, ledger: &Ledger) -> io::Result<()> {
    write_heading(out, ledger)?;
    write_parts(out, ledger)?;
    write_processes(out, ledger)?;
    write_heaps(out, ledger)?;
    write_arenas(out, ledger)?;
    for reason in &ledger.unread {
        writeln!(out, "\nNot in these figures: {reason}")?;
    }
    Ok(())
}

fn write_heading(out: &mut dyn Write, ledger: &Ledger) -> io::Result<()> {
    let count = ledger.processes.len();
    let word = if count == 1 { "process" } else { "processes" };
    let leader = ledger.processes.first();
    let title = leader.map(|process| process.title.as_str()).unwrap_or_default();
    writeln!(out, "{title}\n{} proportional (PSS) in {count} {word}\n", ledger.pss)?;
    let mut said: Vec<String> = Vec::new();
    for process in &ledger.processes {
        let line = allocator_line(process);
        if !said.contains(&line) {
            writeln!(out, "{line}")?;
            said.push(line);
        }
    }
    let unprobed = ledger.processes.iter().filter(|p| p.basis == Basis::ProcOnly).count();
    if unprobed > 0 {
        writeln!(
            out,
            "Probe: not in {unprobed} of {count} {word}, so that live and free are not told apart there; \
             start the server with `carat record`"
        )?;
    }
    writeln!(out)
}

fn allocator_line(process: &ProcessLedger) -> String {
    let active = process.allocator.active.as_deref().unwrap_or("unknown");
    format!("Allocator in use: {active} ({})", process.allocator.evidence)
}

fn write_parts(out: &mut dyn Write, ledger: &Ledger) -> io::Result<()> {
    writeln!(out, "{:<28}{:>11}{:>9}{:>12}{:>12}", "part", "PSS", "share", "private", "shared")?;
    for part in &ledger.parts {
        write_part(out, part, ledger.pss)?;
    }
    let share = 100.0 * ledger.unexplained as f64 / ledger.pss.0.max(1) as f64;
    let size = Bytes(ledger.unexplained.unsigned_abs());
    let sign = if ledger.unexplained < 0 { "-" } else { "" };
    writeln!(out, "{:<28}{:>11}{share:>7.1} %", "unexplained", format!("{sign}{size}"))?;
    let shared = ledger.pss.saturating_sub(ledger.uss);
    writeln!(
        out,
        "{:<28}{:>11}{:>7.1} %{:>12}{:>12}",
        "whole", ledger.pss, 100.0, ledger.uss, shared
    )
}

fn write_part(out: &mut dyn Write, part: &LedgerPart, whole: Bytes) -> io::Result<()> {
    let fraction = part.pss.0 as f64 / whole.0.max(1) as f64;
    writeln!(
        out,
        "{:<28}{:>11}{:>7.1} %{:>12}{:>12}  {}",
        part.kind.label(),
        part.pss,
        fraction * 100.0,
        part.private,
        part.shared(),
        bar(fraction)
    )
}

/// A bar as long as the fraction; what is there at all is seen.
fn bar(fraction: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (fraction.clamp(0.0, 1.0) * BAR as f64 * 8.0).round().max(1.0) as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

fn write_processes(out: &mut dyn Write, ledger: &Ledger) -> io::Result<()> {
    if ledger.processes.len() < 2 {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:>8}{:>12}{:>12}{:>12}{:>9}  process",
        "pid", "PSS", "private", "RSS", "shared"
    )?;
    for process in &ledger.processes {
        let shared = process.rss.saturating_sub(process.uss).0 as f64;
        writeln!(
            out,
            "{:>8}{:>12}{:>12}{:>12}{:>7.0} %  {}",
            process.pid,
            process.pss,
            process.uss,
            process.rss,
            100.0 * shared / process.rss.0.max(1) as f64,
            shortened(&process.title)
        )?;
    }
    writeln!(out, "RSS counts shared pages in every process, so it is not added up.")
}

fn write_heaps(out: &mut dyn Write, ledger: &Ledger) -> io::Result<()> {
    for process in &ledger.processes {
        let Some(heap) = &process.heap else { continue };
        let described = process.ruby.as_deref().unwrap_or_default();
        let ruby = described.split_ascii_whitespace().nth(1).unwrap_or_default();
        writeln!(
            out,
            "\nRuby {ruby} heap of {}: {} of pages, {} resident, {} of it private",
            process.pid, heap.size, heap.resident, heap.private
        )?;
        for pool in &heap.pools {
            let free = pool.fragmentation().map(|share| format!("{:.1} %", share * 100.0));
            writeln!(
                out,
                "  slots of {:>4} B: {:>10} live {:>10} free {:>8} free, {:>6} pages",
                pool.slot_size,
                known(pool.live),
                known(pool.free),
                free.unwrap_or_else(|| "?".into()),
                known(pool.pages)
            )?;
        }
        if heap.pools.iter().any(|pool| pool.live.is_none()) {
            let (live, slots) = (known(heap.live_slots), all_slots(heap));
            writeln!(
                out,
                "  all slots: {live} live of {slots}; this Ruby does not count them by size"
            )?;
        }
        if let Some(classic) = heap.classic {
            let pages = classic.pages.map(|pages| format!(", pages in use {:.1} %", pages * 100.0));
            let slots = classic.slots * 100.0;
            writeln!(out, "  slots in use {slots:.1} %{}", pages.unwrap_or_default())?;
        }
    }
    Ok(())
}

fn known(count: Option<u64>) -> String {
    count.map_or_else(|| "?".into(), |count| count.to_string())
}

fn all_slots(heap: &RubyHeap) -> String {
    known(heap.pools.iter().map(|pool| pool.slots).sum())
}

fn write_arenas(out: &mut dyn Write, ledger: &Ledger) -> io::Result<()> {
    for process in ledger.processes.iter().filter(|process| process.arenas.len() > 1) {
        let count = process.arenas.len();
        writeln!(out, "\nMalloc arenas of {}: {count}, the largest:", process.pid)?;
        let mut largest: Vec<&Arena> = process.arenas.iter().collect();
        largest.sort_by_key(|arena| std::cmp::Reverse(arena.held));
        for arena in largest.into_iter().take(ARENAS) {
            let name = if arena.number == 0 { "main".into() } else { arena.number.to_string() };
            let resident = arena.resident.map(|bytes| format!(", {bytes} resident"));
            let free = arena.free.map(|free| {
                let share = 100.0 * free.0 as f64 / arena.held.0.max(1) as f64;
                format!(", {free} free ({share:.0} %)")
            });
            writeln!(
                out,
                "  {name:>5}: {} held{}{}",
                arena.held,
                resident.unwrap_or_default(),
                free.unwrap_or_default()
            )?;
        }
    }
    Ok(())
}

fn shortened(title: &str) -> String {
    const MOST: usize = 60;
    if title.chars().count() <= MOST {
        return title.to_owned();
    }
    let kept: String = title.chars().take(MOST - 1).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ledger::{DetectedAllocator, PartKind, SlotPool};

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
            swap: None,
            huge: None,
            threads: Some(7),
            basis: Basis::Probe,
            parts: parts.clone(),
            unexplained: 900_000,
            allocator: DetectedAllocator {
                active: Some("glibc".into()),
                loaded: Vec::new(),
                evidence: "the probe looked up `malloc` inside the process".into(),
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
            returnable: None,
            arenas: (0..2)
                .map(|number| Arena {
                    number,
                    held: Bytes(8_000_000),
                    resident: None,
                    free: Some(Bytes(2_000_000)),
                })
                .collect(),
            environment: Vec::new(),
        };
        Ledger {
            pss: Bytes(40_000_000),
            uss: Bytes(20_000_000),
            parts,
            unexplained: 900_000,
            processes: vec![process],
            unread: Vec::new(),
        }
    }

    #[test]
    fn a_reader_finds_every_part_with_its_unit_and_share() {
        let mut text = Vec::new();
        write_ledger(&mut text, &example()).unwrap();
        let text = String::from_utf8(text).unwrap();
        for expected in [
            "40.00 MB proportional (PSS) in 1 process",
            "Allocator in use: glibc (the probe looked up",
            "malloc, live                   30.00 MB   75.0 %    15.00 MB    15.00 MB  ██████████████████",
            "unexplained                     0.90 MB    2.2 %",
            "Ruby 3.1.2p20 heap of 4312: 5.00 MB of pages",
            "slots of   40 B:      75000 live      25000 free   25.0 % free,    300 pages",
            "main: 8.00 MB held, 2.00 MB free (25 %)",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
    }

    #[test]
    fn a_bar_is_never_longer_than_the_whole_and_never_invisible() {
        assert_eq!(bar(1.5).chars().count(), BAR);
        assert_eq!(bar(0.0), "▏");
        assert_eq!(bar(0.5).chars().count(), BAR / 2);
    }
}
