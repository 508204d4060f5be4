//! The ledger of a process tree: every byte of the kernel's PSS is in a part or in the unexplained line.

use crate::observe::allocator::detect;
use crate::observe::directory::Directory;
use crate::observe::files::files_in_use;
use crate::observe::pagemap::Pagemap;
use crate::observe::parts::Groups;
use crate::observe::ruby_signs::jit_reserved;
use crate::observe::sampler::read_rollup;
use crate::observe::stacks::stack_pointers;
use crate::observe::{
    Mapping, MappingParser, ProbeFigures, Region, RegionHints, Rollup, classify, parse_status,
};
use crate::process::{Identity, ProcError, ProcRoot, parse_stat};
use carat_model::ledger::{
    Arena, Basis, DetectedAllocator, JitUse, Ledger, LedgerPart, PartKind, ProcessLedger, RubyHeap,
    StatusLedger,
};
use carat_model::{Bytes, command_line, one_line};
use carat_ruby::RubyVersion;
use carat_ruby::version::TRANSIENT_HEAP;
use std::borrow::Cow;
use std::collections::HashMap;

/// Memory changes while it is read. If more than this share of a process changed, the reading is repeated.
const SETTLED: f64 = 0.005;
const ATTEMPTS: u32 = 3;

/// The ledger of `members`, with the figures of their probes or of the reader from outside.
///
/// It reads `smaps`, `smaps_rollup` and `pagemap` of every process, which takes tens of milliseconds per gigabyte. So it
/// is meant for single moments, not for a series.
pub fn ledger(
    root: &ProcRoot,
    members: &[Identity],
    probe: &HashMap<Identity, ProbeFigures>,
) -> Ledger {
    let mut ledger = Ledger::default();
    for &member in members {
        match process_ledger(root, member, probe.get(&member)) {
            Ok(process) => ledger.processes.push(process),
            // Also if it has ended: without it, no figure over all processes is known.
            Err(error) => {
                ledger.unread.push(error.to_string());
                // `status` is readable for every user, and reading it walks no page tables.
                if matches!(error, ProcError::Denied { .. } | ProcError::TooLong { .. }) {
                    ledger.from_status.extend(status_ledger(root, member));
                }
            }
        }
    }
    ledger.always_huge = always_huge(root);
    ledger.pss = ledger.processes.iter().map(|process| process.pss).sum();
    ledger.uss = ledger.processes.iter().map(|process| process.uss).sum();
    ledger.parts = PartKind::ALL.iter().filter_map(|&kind| sum_of(kind, &ledger)).collect();
    ledger.unexplained = rest(ledger.pss, &ledger.parts);
    ledger
}

/// What the kernel tells everyone of a process; `None` if it has ended.
fn status_ledger(root: &ProcRoot, member: Identity) -> Option<StatusLedger> {
    let directory = Directory::open(root, member).ok()?;
    let status = parse_status(text_of(&directory, "status").as_bytes());
    let comm = parse_stat(&text_of(&directory, "stat")).map(|stat| stat.comm);
    Some(StatusLedger {
        pid: member.pid,
        title: title(&directory, comm.unwrap_or_default()),
        rss: status.rss?,
        anonymous: status.anonymous,
        files: status.files,
        shared: status.shared,
        swap: status.swap,
        threads: status.threads,
    })
}

/// Which processes get transparent huge pages: `always`, `madvise` or `never` (Documentation/admin-guide/mm/transhuge.rst).
/// `/sys` is mounted beside `/proc`.
pub fn huge_page_policy(root: &ProcRoot) -> Option<String> {
    let file = root.path().parent()?.join("sys/kernel/mm/transparent_hugepage/enabled");
    let text = std::fs::read_to_string(file).ok()?;
    // The chosen one is in brackets.
    let (_, chosen) = text.split_once('[')?;
    Some(chosen.split_once(']')?.0.to_owned())
}

fn always_huge(root: &ProcRoot) -> Option<bool> {
    Some(huge_page_policy(root)? == "always")
}

fn sum_of(kind: PartKind, ledger: &Ledger) -> Option<LedgerPart> {
    let parts = ledger.processes.iter().flat_map(|process| &process.parts);
    parts.filter(|part| part.kind == kind).copied().reduce(|sum, part| LedgerPart {
        kind,
        pss: sum.pss + part.pss,
        private: sum.private + part.private,
        resident: sum.resident + part.resident,
    })
}

fn rest(pss: Bytes, parts: &[LedgerPart]) -> i64 {
    // Signed: what appeared between two reads can make the parts exceed the sum.
    let explained: Bytes = parts.iter().map(|part| part.pss).sum();
    i64::try_from(pss.0).unwrap_or(i64::MAX) - i64::try_from(explained.0).unwrap_or(i64::MAX)
}

/// Everything that is read of one process, as nearly at one moment as possible.
struct ProcessReading {
    directory: Directory,
    rollup: Rollup,
    mappings: Vec<Mapping>,
}

impl ProcessReading {
    fn take(root: &ProcRoot, identity: Identity) -> Result<Self, ProcError> {
        let directory = Directory::open(root, identity)?;
        is_read_in_time(&directory)?;
        let mut buffer = Vec::new();
        let mut attempt = 1;
        loop {
            let mut parser = MappingParser::default();
            directory.read_in_pieces("smaps", |piece| parser.feed(piece))?;
            let mappings = parser.finish();
            let rollup = read_rollup(&directory, &mut buffer)?;
            let sum: Bytes = mappings.iter().map(|mapping| mapping.pss).sum();
            let moved = sum.0.abs_diff(rollup.pss.0) as f64;
            // The last attempt counts in any case: a busy server never settles.
            if moved <= SETTLED * rollup.pss.0 as f64 || attempt == ATTEMPTS {
                return Ok(Self { directory, rollup, mappings });
            }
            attempt += 1;
        }
    }

    fn text(&self, name: &str) -> String {
        text_of(&self.directory, name)
    }
}

/// Refuses a process whose `smaps` takes long to read, during which it can map no memory.
fn is_read_in_time(directory: &Directory) -> Result<(), ProcError> {
    let status = parse_status(text_of(directory, "status").as_bytes());
    if status.is_walked_in_time() {
        return Ok(());
    }
    let (covered, resident) = (status.covered(), status.rss.unwrap_or_default());
    Err(ProcError::TooLong { path: directory.file("smaps"), covered, resident })
}

/// A file of a process as text; empty if it cannot be read.
fn text_of(directory: &Directory, name: &str) -> String {
    let mut buffer = Vec::new();
    match directory.read(name, &mut buffer) {
        Ok(()) => String::from_utf8_lossy(&buffer).into_owned(),
        Err(_) => String::new(),
    }
}

fn process_ledger(
    root: &ProcRoot,
    identity: Identity,
    probe: Option<&ProbeFigures>,
) -> Result<ProcessLedger, ProcError> {
    let reading = ProcessReading::take(root, identity)?;
    // First: figures of an allocator that does not serve would divide memory that is not its own.
    let allocator = detect(&reading.mappings, probe);
    let probe = probe.map(|figures| of_allocator(figures, &allocator));
    let probe = probe.as_deref();
    let pointers = stack_pointers(root, identity.pid);
    let glibc = allocator.active.as_deref() == Some("glibc");
    // Where its addresses are known, no shape of a mapping is needed.
    let is_placed = probe.is_some_and(|probe| probe.transient_heap.is_some());
    let transient_heap = !is_placed && may_have_transient_heap(&reading.mappings, probe);
    let hints = RegionHints { stack_pointers: &pointers, glibc, transient_heap };
    let regions = classify(&reading.mappings, hints);
    let pagemap = Pagemap::open(&reading.directory).ok();
    let groups = Groups::of(&reading.mappings, &regions, probe, pagemap);
    let parts = match probe {
        Some(probe) if probe.slots_unknown.is_none() => groups.parts_with_probe(probe),
        // Slots would be counted as allocated by malloc.
        Some(_) => groups.parts_without_probe(true),
        None => groups.parts_without_probe(reading.mappings.iter().any(Mapping::is_of_ruby)),
    };
    let status = parse_status(reading.text("status").as_bytes());
    let stat = parse_stat(&reading.text("stat"));
    Ok(ProcessLedger {
        pid: identity.pid,
        parent: stat.as_ref().map(|stat| stat.parent),
        title: title(&reading.directory, stat.map(|stat| stat.comm).unwrap_or_default()),
        rss: reading.rollup.rss,
        pss: reading.rollup.pss,
        uss: reading.rollup.private,
        // SwapPss counts a shared page once over all processes, VmSwap counts it in each.
        swap: reading.rollup.swap_pss.or(status.swap),
        huge: reading.rollup.huge,
        threads: status.threads,
        basis: probe.map_or(Basis::ProcOnly, |probe| probe.basis),
        unexplained: rest(reading.rollup.pss, &parts),
        parts,
        slots_unknown: probe.and_then(|probe| probe.slots_unknown.clone()),
        allocator,
        ruby: probe
            .and_then(|probe| probe.ruby.clone())
            .or_else(|| ruby_library(&reading.mappings).map(described)),
        heap: probe.and_then(|probe| ruby_heap(probe, groups)),
        jit: jit_use(&reading.mappings, probe),
        returnable: probe.and_then(|probe| probe.returnable),
        arenas: arenas(&reading.mappings, &regions, probe),
        environment: settings_in(&reading.text("environ")),
        files: files_in_use(root, identity.pid, &reading.mappings),
    })
}

/// The figures of the reader from outside for the allocator in use. If it walked another one, which holds next to nothing,
/// live and free memory is unknown.
fn of_allocator<'a>(
    figures: &'a ProbeFigures,
    allocator: &DetectedAllocator,
) -> Cow<'a, ProbeFigures> {
    if figures.basis != Basis::Outside {
        return Cow::Borrowed(figures);
    }
    let mut figures = figures.clone();
    // It can walk two allocators, and names the second.
    let walked = match figures.allocator.as_deref() {
        Some("jemalloc") => "jemalloc",
        _ => "glibc",
    };
    figures.allocator = allocator.active.clone();
    if allocator.active.as_deref() != Some(walked) {
        (figures.malloc, figures.returnable) = (None, None);
        figures.arenas.clear();
    }
    Cow::Owned(figures)
}

/// The version in the name of Ruby's library: 3.1 for `libruby-3.1.so.3.1.2`.
pub fn ruby_library(mappings: &[Mapping]) -> Option<RubyVersion> {
    let (_, rest) = mappings.iter().find_map(|mapping| mapping.name.split_once("libruby"))?;
    RubyVersion::find_in(rest)
}

fn described(version: RubyVersion) -> String {
    format!("ruby {version}")
}

fn may_have_transient_heap(mappings: &[Mapping], probe: Option<&ProbeFigures>) -> bool {
    let from_probe = probe.and_then(|probe| probe.ruby.clone());
    let version = from_probe.as_deref().and_then(RubyVersion::find_in);
    let version = version.or_else(|| ruby_library(mappings));
    version.is_some_and(|version| TRANSIENT_HEAP.contains(version))
}

fn ruby_heap(probe: &ProbeFigures, groups: Groups) -> Option<RubyHeap> {
    let (resident, private) = groups.slots();
    let size = probe.heap_pages.iter().map(|range| Bytes(range.end - range.start)).sum();
    (!probe.heap_pages.is_empty() || !probe.pools.is_empty()).then(|| RubyHeap {
        size,
        resident,
        private,
        live_slots: probe.live_slots,
        pools: probe.pools.clone(),
        classic: probe.classic,
        empty_pages: probe.empty_pages,
        all_pages: probe.all_pages,
        malloc_of_ruby: probe.malloc_of_ruby,
        old_objects: probe.old_objects,
    })
}

/// Ruby's compiler: what its mappings show, and what is known of the inside.
fn jit_use(mappings: &[Mapping], probe: Option<&ProbeFigures>) -> Option<JitUse> {
    let inside = probe.and_then(|probe| probe.jit);
    let reserved = jit_reserved(mappings).map(Bytes);
    let known = inside.is_some() || reserved.is_some();
    let inside = inside.unwrap_or_default();
    known.then_some(JitUse { reserved, ..inside })
}

/// The arenas that were read. Without figures one for each mapping with the shape of an arena; free memory is then unknown.
fn arenas(mappings: &[Mapping], regions: &[Region], probe: Option<&ProbeFigures>) -> Vec<Arena> {
    if let Some(probe) = probe {
        return probe.arenas.clone();
    }
    mappings
        .iter()
        .zip(regions)
        .filter(|(_, region)| matches!(region, Region::MainArena | Region::Arena))
        .zip(0..)
        .map(|((mapping, _), number)| Arena {
            number,
            held: Bytes(mapping.size()),
            resident: Some(mapping.rss),
            free: None,
        })
        .collect()
}

fn title(directory: &Directory, comm: String) -> String {
    let line = command_line(&text_of(directory, "cmdline"));
    if line.is_empty() { one_line(&comm) } else { line }
}

/// Only variables with these prefixes are shown. The rest of an environment may contain secrets.
const SHOWN_PREFIXES: [&str; 11] = [
    "CARAT_SETTINGS=",
    "MALLOC_",
    "LD_PRELOAD=",
    "GLIBC_TUNABLES=",
    "RUBY_GC_",
    "RUBY_YJIT",
    "RUBY_ZJIT",
    "MIMALLOC_",
    "TCMALLOC_",
    "RUBYOPT=",
    "JE_MALLOC_CONF=",
];

fn settings_in(environ: &str) -> Vec<(String, String)> {
    environ
        .split('\0')
        .filter(|entry| SHOWN_PREFIXES.iter().any(|prefix| entry.starts_with(prefix)))
        .filter_map(|entry| entry.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_settings_of_an_environment_are_shown() {
        let environ = "SECRET=x\0MALLOC_ARENA_MAX=2\0MALLOC_CONF=a:b,c=d\0HOME=/root\0";
        let shown = settings_in(environ);
        let expected = [("MALLOC_ARENA_MAX", "2"), ("MALLOC_CONF", "a:b,c=d")];
        assert_eq!(shown, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
    }

    #[test]
    fn this_process_adds_up_to_the_kernels_figure() {
        let root = ProcRoot::default();
        let me = root.identify(std::process::id()).unwrap();
        let ledger = ledger(&root, &[me], &HashMap::new());
        let sum: i64 = ledger.parts.iter().map(|part| part.pss.0 as i64).sum();
        assert_eq!(sum + ledger.unexplained, ledger.pss.0 as i64);
        assert!(ledger.unexplained_share() < 0.1, "{ledger:?}");
        assert!(ledger.part(PartKind::CodeAndFiles).is_some());
        assert!(ledger.part(PartKind::Stacks).is_some());
        let ruby = |part: &&LedgerPart| part.kind.label().contains("Ruby");
        assert_eq!(ledger.parts.iter().find(ruby), None, "there is no Ruby in this process");
    }

    #[test]
    fn a_process_that_ends_before_it_is_read_is_named() {
        let root = ProcRoot::default();
        let me = root.identify(std::process::id()).unwrap();
        let former = Identity { start_ticks: me.start_ticks - 1, ..me };
        let ledger = ledger(&root, &[me, former], &HashMap::new());
        assert_eq!(ledger.processes.len(), 1);
        assert_eq!(ledger.unread, [format!("process {} has ended", me.pid)]);
    }
}
