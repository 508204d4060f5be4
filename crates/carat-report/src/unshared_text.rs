//! Why the pages of forked processes are private, as text for a terminal, and the words for every cause and remedy.

use crate::census_cells::share_of;
use crate::layout::{INDENTED, Style, table_text};
use crate::lists::grouped_by_key;
use crate::table::{Cell, FactTable};
use crate::text::{one_line, written};
use carat_model::{Bytes, Unit};
use carat_outside::unshared::{Area, Cause, Remedy, UnsharedTable};
use std::fmt::{self, Write};

/// A remedy for less than this share of the process is left out.
const WORTHWHILE: f64 = 0.05;

/// Every table, one after the other.
pub fn unshared_text(tables: &[UnsharedTable]) -> String {
    written(|out| tables.iter().try_for_each(|table| write_table(out, table)))
}

fn write_table(out: &mut String, table: &UnsharedTable) -> fmt::Result {
    let UnsharedTable { child, parent, .. } = table;
    let [private, all] = [table.private_bytes, memory(table)].map(Bytes);
    let share = share_of(private.0, all.0);
    writeln!(
        out,
        "\nWhy process {child} has private memory, compared with its parent {parent}: {private} private of {all} ({share})"
    )?;
    let style = Style { width: usize::MAX, ..Style::default() };
    write!(out, "{}", table_text(&causes(table), style, INDENTED))?;
    writeln!(
        out,
        "  touches: pages on which the cause occurs; alone: pages that would still be shared without it"
    )?;
    write_remedies(out, table)?;
    let parted = table.parted_bytes.map(Bytes).filter(|parted| parted.0 > 0);
    let parted = parted.map(|bytes| {
        format!(
            "{bytes} are shared with other processes but not with the parent, which wrote to them"
        )
    });
    let hidden = "page frames are hidden (CAP_SYS_ADMIN): pages that several children share count as \
                  shared with the parent";
    let hidden = (!table.frames_known).then(|| hidden.to_owned());
    let unknown = table.unknown.iter().map(|reason| format!("unknown: {}", one_line(reason)));
    let mut lines = parted.into_iter().chain(hidden).chain(unknown);
    lines.try_for_each(|line| writeln!(out, "  {line}"))
}

/// A row for each cause.
pub(crate) fn causes(table: &UnsharedTable) -> FactTable {
    let rows = table.causes.iter().map(|share| {
        let part = share.bytes / table.private_bytes.max(1) as f64;
        vec![
            Cell::text(cause_words(share.cause)),
            Cell::amount(Unit::Bytes, share.bytes),
            Cell::shown(part, |_| share_of(share.bytes as u64, table.private_bytes)),
            Cell::bytes(Bytes(share.touched_bytes)),
            Cell::bytes(Bytes(share.alone_bytes)),
            Cell::text(share.remedy.map_or("–", remedy_words)),
        ]
    });
    FactTable::new("Causes")
        .long_texts(["cause"])
        .numbers(["size", "share", "touches", "alone"])
        .page_texts(["what helps"])
        .rows(rows)
}

/// Bytes that the child maps.
fn memory(table: &UnsharedTable) -> u64 {
    table.private_bytes + table.shared_bytes + table.parted_bytes.unwrap_or_default()
}

/// What helps, the largest amount first; what could save little is not worth a line.
fn write_remedies(out: &mut String, table: &UnsharedTable) -> fmt::Result {
    let remedies = table.causes.iter().filter_map(|share| Some((share.remedy?, share.bytes)));
    // Several causes can have one remedy, which saves the sum.
    let sums = grouped_by_key(remedies).into_iter();
    let mut sums: Vec<(Remedy, f64)> =
        sums.map(|(remedy, bytes)| (remedy, bytes.iter().sum())).collect();
    sums.sort_by(|one, other| other.1.total_cmp(&one.1));
    // Against the whole process: a remedy must be worth a restart.
    let least = memory(table) as f64 * WORTHWHILE;
    for (remedy, bytes) in sums.into_iter().filter(|(_, bytes)| *bytes >= least) {
        writeln!(out, "  {:>10}  {}", Bytes(bytes as u64), remedy_words(remedy))?;
    }
    Ok(())
}

pub(crate) fn cause_words(cause: Cause) -> &'static str {
    match cause {
        Cause::NewSinceFork => "new since the fork",
        Cause::SameBytes => "written with the same bytes as before",
        Cause::AgeBits => "slots: age bits, the collector marks objects as older",
        Cause::SlotsReused => "slots: allocated, freed or used again",
        Cause::ObjectsWritten => "slots: an inherited object was written",
        Cause::Compaction => "slots moved by a compaction in the worker",
        Cause::MovedFromTransientHeap => "slots: contents moved out of the transient heap",
        Cause::GcBitmaps => "the collector's bitmaps and page descriptors",
        Cause::BytecodeCaches => "bytecode: call and constant caches",
        Cause::BytecodeCounters => "bytecode: counters and flags",
        Cause::MethodTables => "tables of methods and classes",
        Cause::MallocLinks => "malloc's own headers and links",
        Cause::MallocReused => "malloc: handed out from memory free at the fork",
        Cause::Contents => "contents of inherited objects",
        Cause::VmTables => "Ruby's own tables",
        Cause::JitCode => "JIT: machine code compiled since the fork",
        Cause::JitPatches => "JIT: inherited machine code was patched",
        Cause::JitFields => "JIT: counters and entries in bytecode",
        Cause::JitTables => "JIT: its tables in malloc",
        Cause::TransientHeap => "the transient heap",
        Cause::LibraryData => "data of libraries",
        Cause::Stacks => "stacks",
        Cause::OtherMemory => "other memory",
        Cause::Files => "files that no other process maps; never shared",
        Cause::Unread => "could not be read",
    }
}

/// What to do, in words.
pub(crate) fn remedy_words(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::PrepareFork => {
            "prepare the heap before the fork: `prepare_fork = \"full\"` ages objects and fills free slots and holes"
        }
        Remedy::WarmBeforeFork => {
            "serve some requests in the parent before it forks (`warm = 20`), so that caches are filled while they are shared"
        }
        Remedy::CompileBeforeFork => {
            "compile before the fork what workers use: `warm = \"auto\"` serves pages (`warm_paths`) in the parent until nothing more is compiled"
        }
        Remedy::FillCallCaches => {
            "a full collection of Ruby 3.3 writes most of these: `fill_call_caches = \"on\"`; `ksm = \"on\"` merges such pages again"
        }
        Remedy::FewerCollections => {
            "fewer collections in workers: every one writes the bitmaps of all pages"
        }
        Remedy::NoCompaction => {
            "no `GC.compact` in workers: it moves shared objects; compact in the parent before the fork"
        }
        Remedy::FewerThreads => "fewer threads, or smaller stacks",
        Remedy::OwnWork => {
            "the worker's own work; a smaller heap growth (`worker_growth = 40000`) makes it collect sooner"
        }
    }
}

pub(crate) fn area_words(area: Area) -> &'static str {
    match area {
        Area::Slots => "Ruby slots",
        Area::Malloc => "malloc",
        Area::TransientHeap => "Ruby transient heap",
        Area::Jit => "JIT code",
        Area::LibraryData => "data of libraries",
        Area::Stacks => "stacks",
        Area::Other => "other memory",
        Area::Files => "files and shared memory",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::AssertContains as _;
    use carat_outside::unshared::CauseShare;
    use carat_ruby::version::RubyVersion;

    /// A child with 10 MB of private memory.
    pub(crate) fn example() -> UnsharedTable {
        let share = |cause: Cause, bytes: u64| CauseShare {
            cause,
            bytes: bytes as f64,
            touched_bytes: bytes * 2,
            alone_bytes: bytes / 2,
            changed_bytes: None,
            remedy: cause.remedy(RubyVersion::new(3, 3)),
        };
        UnsharedTable {
            parent: 10,
            child: 11,
            frames_known: true,
            shared_bytes: 30_000_000,
            parted_bytes: Some(0),
            private_bytes: 10_000_000,
            causes: vec![share(Cause::AgeBits, 6_000_000), share(Cause::Files, 4_000_000)],
            areas: Vec::new(),
            unknown: Vec::new(),
        }
    }

    #[test]
    fn every_cause_has_its_share_and_its_remedy_where_there_is_one() {
        let text = unshared_text(&[example()]);
        text.assert_contains([
            "process 11 has private memory, compared with its parent 10: 10.00 MB private of 40.00 MB (25.0 %)",
            "age bits, the collector marks objects as older",
            "6.00 MB  60.0 %  12.00 MB  3.00 MB",
            "`prepare_fork = \"full\"`",
            "never shared",
        ]);
        assert!(!text.contains("hidden") && !text.contains("not with the parent"), "{text}");
    }

    #[test]
    fn a_remedy_for_less_than_a_twentieth_of_the_process_is_left_out() {
        let mut table = example();
        let stacks = CauseShare { cause: Cause::Stacks, bytes: 1_900_000.0, ..table.causes[0] };
        table.causes.push(CauseShare { remedy: Some(Remedy::FewerThreads), ..stacks });
        assert!(!unshared_text(&[table.clone()]).contains("fewer threads"));
        table.causes[2].bytes = 2_100_000.0;
        assert!(unshared_text(&[table]).contains("2.10 MB  fewer threads"));
    }

    #[test]
    fn what_limits_the_comparison_is_said() {
        let table = UnsharedTable {
            frames_known: false,
            parted_bytes: None,
            unknown: vec!["malloc's chunks, so their pages are among the other memory: its allocator is jemalloc".into()],
            ..example()
        };
        let text = unshared_text(&[table]);
        text.assert_contains(["page frames are hidden", "unknown: malloc's chunks"]);
    }

    #[test]
    fn the_words_for_causes_differ() {
        let mut words: Vec<&str> = Cause::ALL.into_iter().map(cause_words).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Cause::ALL.len());
    }
}
