//! The memory of processes at one moment, split into parts that add up.

mod least;

use super::{Bytes, GroupUse};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// Programs, libraries and mapped files, with the data segments of the loader.
    CodeAndFiles,
    /// Stacks of threads and fibers.
    Stacks,
    /// Machine code compiled by Ruby at run time.
    Jit,
    /// Ruby slots that hold an object.
    SlotsLive,
    /// Ruby slots without an object, and the headers of their pages.
    SlotsFree,
    /// Contents of young arrays, hashes and structs, in versions of Ruby with a transient heap.
    TransientHeap,
    /// Allocations of Ruby, gems and libraries from malloc.
    MallocLive,
    /// Memory that malloc holds and that is not allocated.
    MallocFree,
    /// The allocator's own tables, and the excess of blocks over the requested size.
    AllocatorOverhead,
    /// Memory of malloc where live and free cannot be distinguished.
    Malloc,
    /// Ruby slots and large blocks of malloc, which the kernel's figures alone cannot distinguish.
    SlotsOrMalloc,
    /// Memory without a file in a process without Ruby, such as large blocks of malloc.
    Anonymous,
    /// Explicitly shared memory, such as a memfd.
    SharedMemory,
}

impl PartKind {
    /// Every kind, in the order of a ledger.
    pub const ALL: [Self; 13] = [
        Self::CodeAndFiles,
        Self::Stacks,
        Self::Jit,
        Self::SlotsLive,
        Self::SlotsFree,
        Self::TransientHeap,
        Self::MallocLive,
        Self::MallocFree,
        Self::AllocatorOverhead,
        Self::Malloc,
        Self::SlotsOrMalloc,
        Self::Anonymous,
        Self::SharedMemory,
    ];

    /// The kinds that Ruby's slots and malloc's memory may be listed as: those from the first of slots to the last of malloc.
    pub const HEAPS: &'static [Self] = {
        // Computed from the list, so that a new kind between them cannot be forgotten.
        let all: &'static [Self] = &Self::ALL;
        let (up_to_malloc, _) = all.split_at(Self::SlotsOrMalloc as usize + 1);
        up_to_malloc.split_at(Self::SlotsLive as usize).1
    };

    /// Label for tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::CodeAndFiles => "code and files",
            Self::Stacks => "thread and fiber stacks",
            Self::Jit => "JIT code",
            Self::SlotsLive => "Ruby slots, live",
            Self::SlotsFree => "Ruby slots, free",
            Self::TransientHeap => "Ruby transient heap",
            Self::MallocLive => "malloc, live",
            Self::MallocFree => "malloc, free",
            Self::AllocatorOverhead => "allocator overhead",
            Self::Malloc => "malloc (live or free)",
            Self::SlotsOrMalloc => "Ruby slots or large malloc",
            Self::Anonymous => "other anonymous memory",
            Self::SharedMemory => "shared memory",
        }
    }
}

/// One part of the memory of a process or a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerPart {
    pub kind: PartKind,
    /// Proportional size: the contribution to the kernel's PSS.
    pub pss: Bytes,
    /// The share of `pss` that no other process maps.
    pub private: Bytes,
    /// Resident size, with shared pages counted in full; for a tree, the sum over its processes.
    pub resident: Bytes,
}

impl LedgerPart {
    /// The share of `pss` on pages that other processes also map.
    pub fn shared(&self) -> Bytes {
        self.pss.saturating_sub(self.private)
    }
}

/// The source of a ledger's figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The probe inside Ruby and the kernel.
    #[default]
    Probe,
    /// The memory of Ruby, read from outside, and the kernel.
    Outside,
    /// The kernel alone: parts are recognised by their mappings.
    ProcOnly,
}

/// The allocator behind `malloc`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetectedAllocator {
    /// `glibc`, `jemalloc`, `mimalloc`, `tcmalloc` or `musl`; `None` if unknown.
    pub active: Option<String>,
    /// Allocator libraries that are mapped, used or not.
    pub loaded: Vec<String>,
    /// The evidence, in words.
    pub evidence: String,
}

/// Ruby's slots of one size. The available figures depend on the version of Ruby.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotPool {
    /// Size of a slot in bytes.
    pub slot_size: u64,
    /// Slots in pages that hold objects.
    pub slots: Option<u64>,
    /// Slots that hold an object.
    pub live: Option<u64>,
    /// Slots without an object, in pages that hold objects.
    pub free: Option<u64>,
    /// Pages that hold objects.
    pub pages: Option<u64>,
}

impl SlotPool {
    /// Share of the pool's slots that are free, as a fraction: its fragmentation.
    pub fn fragmentation(&self) -> Option<f64> {
        let (live, free) = (self.live?, self.free?);
        // An empty pool has no fragmentation, which is not the same as none.
        (live + free > 0).then(|| free as f64 / (live + free) as f64)
    }
}

/// One arena of malloc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arena {
    /// Number; 0 is the main arena.
    pub number: u32,
    /// Memory obtained from the kernel.
    pub held: Bytes,
    /// Resident memory, where the mapping is known.
    pub resident: Option<Bytes>,
    /// Free memory, if the probe or the reader from outside found it.
    pub free: Option<Bytes>,
}

/// The two ratios of the published arena experiment, for the versions of Ruby where they are defined.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClassicRatios {
    /// Live slots over slots of the pages in use, as a fraction.
    pub slots: f64,
    /// Pages in use over the length of the sorted page list, as a fraction; `None` if Ruby has no such list.
    pub pages: Option<f64>,
}

/// Ruby's heap in one process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RubyHeap {
    /// Address space of its pages, in bytes.
    pub size: Bytes,
    /// Resident memory of its pages.
    pub resident: Bytes,
    /// The share of `resident` that only this process maps.
    pub private: Bytes,
    /// Slots that hold an object, over all pools.
    pub live_slots: Option<u64>,
    /// Slots by size.
    pub pools: Vec<SlotPool>,
    /// Live slots over all slots, and pages in use over all pages; `None` if slots have several
    /// sizes.
    pub classic: Option<ClassicRatios>,
    /// Bytes in pages without any object, which a collection could return.
    pub empty_pages: Option<Bytes>,
    /// Bytes in all pages that Ruby allocated, with objects or without.
    pub all_pages: Option<Bytes>,
    /// Bytes that Ruby itself holds from malloc, as it counts them; the rest of malloc belongs to C libraries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malloc_of_ruby: Option<Bytes>,
    /// Objects that have survived several collections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_objects: Option<u64>,
}

impl RubyHeap {
    /// Free slots and all slots of the pages that hold objects, over all pools; `None` where a figure is missing or
    /// contradicts another.
    pub fn free_and_all_slots(&self) -> Option<(u64, u64)> {
        let all = self.pools.iter().try_fold(0_u64, |sum, pool| sum.checked_add(pool.slots?))?;
        // Counted at two moments, so a difference below zero means that they do not fit together.
        let free = all.checked_sub(self.live_slots?)?;
        (all > 0).then_some((free, all))
    }

    /// Bytes in pages without any object and in all pages; `None` where a figure is missing or contradicts the other.
    fn empty_and_all_pages(&self) -> Option<(u64, u64)> {
        let (empty, all) = (self.empty_pages?.0, self.all_pages?.0);
        // The same for pages: a contradiction is unknown and not a share above 1.
        (empty <= all && all > 0).then_some((empty, all))
    }
}

/// A file whose memory a process uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileUse {
    /// Its path, as the kernel shows it: ` (deleted)` stands behind that of a file without a name.
    pub name: String,
    /// The share of a mapped file in the process's PSS; the size of an open one that lies in memory.
    pub bytes: Bytes,
    /// Whether the process maps it. What it only holds open is in no figure of its memory, and is charged to its container.
    pub mapped: bool,
}

/// Ruby's compiler in one process. Its code is a part of the ledger ([`PartKind::Jit`]), what it allocates a share of malloc's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JitUse {
    /// Addresses that it reserved for code.
    pub reserved: Option<Bytes>,
    /// Bytes that it has allocated with malloc, by its own count, without malloc's headers. Only the probe asks.
    pub heap: Option<Bytes>,
    /// Methods and blocks that it has compiled; 0 while it is off.
    pub compiled: Option<u64>,
}

impl JitUse {
    /// [`heap`](Self::heap), and zero where the compiler is off: then it counts no method, has no code and tells no heap.
    pub fn heap_or_off(&self) -> Option<u64> {
        let is_off = self.compiled == Some(0) && self.reserved.is_none();
        self.heap.map(|heap| heap.0).or(is_off.then_some(0))
    }
}

/// The memory of one process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessLedger {
    /// Process id.
    pub pid: u32,
    /// The parent's process id.
    pub parent: Option<u32>,
    /// Its command line, as the process shows it.
    pub title: String,
    /// Resident memory.
    pub rss: Bytes,
    /// The kernel's proportional figure, to which the parts add up.
    pub pss: Bytes,
    /// Memory that only this process maps.
    pub uss: Bytes,
    /// Memory in swap, if the kernel reports it.
    pub swap: Option<Bytes>,
    /// Transparent huge pages in use.
    pub huge: Option<Bytes>,
    pub threads: Option<u32>,
    /// Where the figures come from.
    pub basis: Basis,
    /// The parts that are not zero, in the order of [`PartKind::ALL`].
    pub parts: Vec<LedgerPart>,
    /// Why slots and malloc cannot be told apart although the probe is loaded; `None` where they can, and without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots_unknown: Option<String>,
    /// `pss` minus the sum of the parts, in bytes; negative where memory changed while it was read.
    pub unexplained: i64,
    /// The allocator in use.
    pub allocator: DetectedAllocator,
    /// Version of Ruby, if the probe or the reader from outside found it.
    pub ruby: Option<String>,
    /// Ruby's heap, if the probe or the reader from outside found it.
    pub heap: Option<RubyHeap>,
    /// Ruby's compiler, where something of it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jit: Option<JitUse>,
    /// Whole free pages inside malloc: the most that a trim could return. Some may already be returned.
    pub returnable: Option<Bytes>,
    /// Arenas of malloc; where nothing was read inside the process, only the size of their mappings.
    pub arenas: Vec<Arena>,
    /// Memory settings found in its environment.
    pub environment: Vec<(String, String)>,
    /// The largest files that it maps, without code, and those in memory that it only holds open.
    #[serde(default)]
    pub files: Vec<FileUse>,
}

impl ProcessLedger {
    /// What an arena is called: its number, and that of glibc in the program break `main`.
    pub fn arena_name(&self, arena: &Arena) -> String {
        // Arena 0 of jemalloc is an arena like the others.
        let is_main = arena.number == 0 && self.allocator.active.as_deref() != Some("jemalloc");
        if is_main { "main".to_owned() } else { arena.number.to_string() }
    }

    /// Resident machine code of Ruby's compiler.
    pub fn resident_jit_code(&self) -> Bytes {
        self.parts.iter().filter(|part| part.kind == PartKind::Jit).map(|part| part.resident).sum()
    }

    /// Whether Ruby is loaded in it, as far as its mappings show.
    pub fn may_have_ruby(&self) -> bool {
        // Without a reading, memory that could be slots is the only trace of a Ruby.
        self.ruby.is_some() || self.parts.iter().any(|part| part.kind == PartKind::SlotsOrMalloc)
    }
}

/// What the kernel tells everyone of a process (`/proc/PID/status`), where reading more is denied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusLedger {
    /// Process id.
    pub pid: u32,
    /// Its command line, as the process shows it.
    pub title: String,
    /// Resident memory, with shared pages counted in full.
    pub rss: Bytes,
    /// The share of it without a file behind it, if the kernel says.
    pub anonymous: Option<Bytes>,
    /// The share of it in pages of files.
    pub files: Option<Bytes>,
    /// The share of it in shared memory.
    pub shared: Option<Bytes>,
    /// Memory in swap.
    pub swap: Option<Bytes>,
    pub threads: Option<u32>,
}

/// The memory of a tree at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// The sum over the processes, to which the parts add up.
    pub pss: Bytes,
    /// Memory that only one process of the tree maps.
    pub uss: Bytes,
    /// The parts of all processes together.
    pub parts: Vec<LedgerPart>,
    /// `pss` minus the sum of the parts, in bytes.
    pub unexplained: i64,
    /// Every process that could be read.
    pub processes: Vec<ProcessLedger>,
    /// Processes that could not be read, with the reason. Their memory is in no figure here.
    pub unread: Vec<String>,
    /// What the kernel tells of those of them that may not be read. It is in no sum here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from_status: Vec<StatusLedger>,
    /// What is charged to the control group of its first process that can be seen, and its limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Box<GroupUse>>,
    /// Whether the kernel uses transparent huge pages where no program asked for them; `None` where it does not say.
    #[serde(default)]
    pub always_huge: Option<bool>,
}

impl Ledger {
    /// The share of the total that the parts do not account for, as a fraction.
    pub fn unexplained_share(&self) -> f64 {
        // A tree of 0 bytes was not read; nothing of it is unexplained.
        if self.pss.0 == 0 {
            0.0
        } else {
            self.unexplained.unsigned_abs() as f64 / self.pss.0 as f64
        }
    }

    pub fn part(&self, kind: PartKind) -> Option<&LedgerPart> {
        self.parts.iter().find(|part| part.kind == kind)
    }

    /// The processes whose Ruby was read; `None` where there are none or where a Ruby may be missing: a process could not
    /// be read, or its parent is a Ruby and nothing is known of its own.
    fn rubies(&self) -> Option<Vec<&ProcessLedger>> {
        let (rubies, others): (Vec<_>, Vec<_>) =
            self.processes.iter().partition(|process| process.basis != Basis::ProcOnly);
        // A child of a Ruby is most likely a Ruby too, just not readable.
        let complete = !others.iter().any(|process| process.has_parent_in(&rubies));
        (self.unread.is_empty() && complete && !rubies.is_empty()).then_some(rubies)
    }

    /// Processes that serve: every Ruby whose parent is a Ruby of the tree, or every Ruby where none has such a parent.
    pub fn instances(&self) -> Option<usize> {
        // One process serves whatever it is.
        if self.processes.len() == 1 && self.unread.is_empty() {
            return Some(1);
        }
        let rubies = self.rubies()?;
        // A master does not serve; without one, all do.
        match rubies.iter().filter(|process| process.has_parent_in(&rubies)).count() {
            0 => Some(rubies.len()),
            workers => Some(workers),
        }
    }

    /// Machine code of all Ruby processes, proportional; `None` where one may be missing.
    pub fn jit_code(&self) -> Option<Bytes> {
        let rubies = self.rubies()?;
        let parts = rubies.iter().flat_map(|process| &process.parts);
        Some(parts.filter(|part| part.kind == PartKind::Jit).map(|part| part.pss).sum())
    }

    /// Resident machine code of Ruby's compiler, by the processes that have any.
    pub fn jit_code_by_process(&self) -> BTreeMap<u32, Bytes> {
        let code = self.processes.iter().map(|one| (one.pid, one.resident_jit_code()));
        code.filter(|(_, code)| *code > Bytes(0)).collect()
    }

    /// A figure of the compiler, summed over all Ruby processes; `None` where one does not tell it.
    pub fn of_jit(&self, figure: impl Fn(&JitUse) -> Option<u64>) -> Option<u64> {
        self.rubies()?.iter().map(|process| figure(process.jit.as_ref()?)).sum()
    }

    /// Share of the slots of all Ruby processes that are free, as a fraction.
    pub fn free_slot_share(&self) -> Option<f64> {
        self.share_of_heaps(RubyHeap::free_and_all_slots)
    }

    /// Share of the heap pages of all Ruby processes that hold no object, as a fraction of their bytes.
    pub fn free_page_share(&self) -> Option<f64> {
        self.share_of_heaps(RubyHeap::empty_and_all_pages)
    }

    /// A part over the whole, each summed over the heaps of all Ruby processes.
    fn share_of_heaps(&self, read: impl Fn(&RubyHeap) -> Option<(u64, u64)>) -> Option<f64> {
        let (mut part, mut whole) = (0.0, 0.0);
        // One Ruby without figures leaves the share unknown: it could be the odd one.
        for process in self.rubies()? {
            let found = read(process.heap.as_ref()?)?;
            part += found.0 as f64;
            whole += found.1 as f64;
        }
        Some(part / whole)
    }

    /// Free memory of malloc and all memory of malloc in the Ruby processes; `None` where one of them does not tell free
    /// from live.
    pub fn free_and_all_malloc(&self) -> Option<(Bytes, Bytes)> {
        let (mut free, mut all) = (Bytes(0), Bytes(0));
        for process in self.rubies()? {
            let mut told_apart = false;
            for part in &process.parts {
                match part.kind {
                    PartKind::MallocLive => told_apart = true,
                    PartKind::MallocFree => free = free + part.pss,
                    // Neither free nor live, but part of what malloc has.
                    PartKind::AllocatorOverhead => {}
                    // Live and free in one figure: their share is unknown for the whole tree.
                    PartKind::Malloc | PartKind::SlotsOrMalloc => return None,
                    _ => continue,
                }
                all = all + part.pss;
            }
            // A Ruby without the part may have it merged elsewhere; 0 would be an invention.
            if !told_apart {
                return None;
            }
        }
        Some((free, all))
    }
}

impl ProcessLedger {
    fn has_parent_in(&self, processes: &[&Self]) -> bool {
        processes.iter().any(|other| Some(other.pid) == self.parent)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn a_compiler_that_is_off_holds_nothing_and_one_that_does_not_tell_holds_an_unknown_amount() {
        let off = JitUse { compiled: Some(0), ..JitUse::default() };
        let on = JitUse { reserved: Some(Bytes(48 << 20)), ..off };
        let telling = JitUse { heap: Some(Bytes(7)), compiled: Some(5), ..on };
        assert_eq!([off, on, telling].map(|jit| jit.heap_or_off()), [Some(0), None, Some(7)]);
        assert_eq!(JitUse::default().heap_or_off(), None);
    }

    fn pool(slot_size: u64, slots: u64) -> SlotPool {
        SlotPool { slot_size, slots: Some(slots), ..SlotPool::default() }
    }

    pub(super) fn part(kind: PartKind, pss: u64) -> LedgerPart {
        LedgerPart { kind, pss: Bytes(pss), private: Bytes(pss), resident: Bytes(pss) }
    }

    /// A Ruby with 400 slots in two pools, 300 of them live, a tenth of its pages empty, and 100 bytes of malloc, 30 of
    /// them free.
    pub(crate) fn ruby(pid: u32, parent: u32) -> ProcessLedger {
        let heap = RubyHeap {
            live_slots: Some(300),
            pools: vec![pool(40, 250), pool(80, 150)],
            empty_pages: Some(Bytes(10)),
            all_pages: Some(Bytes(100)),
            ..RubyHeap::default()
        };
        ProcessLedger {
            heap: Some(heap),
            basis: Basis::Probe,
            parts: vec![
                part(PartKind::SlotsLive, 500),
                part(PartKind::MallocLive, 60),
                part(PartKind::MallocFree, 30),
                part(PartKind::AllocatorOverhead, 10),
            ],
            ..shell(pid, parent)
        }
    }

    fn shell(pid: u32, parent: u32) -> ProcessLedger {
        ProcessLedger {
            pid,
            parent: Some(parent),
            title: String::new(),
            rss: Bytes(0),
            pss: Bytes(0),
            uss: Bytes(0),
            swap: None,
            huge: None,
            threads: None,
            basis: Basis::ProcOnly,
            parts: vec![part(PartKind::Malloc, 7)],
            slots_unknown: None,
            unexplained: 0,
            allocator: DetectedAllocator {
                active: None,
                loaded: Vec::new(),
                evidence: String::new(),
            },
            ruby: None,
            heap: None,
            jit: None,
            returnable: None,
            arenas: Vec::new(),
            environment: Vec::new(),
            files: Vec::new(),
        }
    }

    pub(crate) fn tree(processes: &[ProcessLedger]) -> Ledger {
        Ledger { processes: processes.to_vec(), ..Ledger::default() }
    }

    #[test]
    fn a_process_alone_is_one_instance_with_or_without_a_probe() {
        assert_eq!(tree(&[ruby(10, 1)]).instances(), Some(1));
        assert_eq!(tree(&[shell(10, 1)]).instances(), Some(1));
        assert_eq!(tree(&[]).instances(), None);
    }

    #[test]
    fn the_instances_of_a_cluster_are_its_workers_and_neither_the_master_nor_a_shell() {
        let cluster = [shell(9, 1), ruby(10, 9), ruby(11, 10), ruby(12, 10)];
        assert_eq!(tree(&cluster).instances(), Some(2));
        assert_eq!(tree(&cluster[1..]).instances(), Some(2));
        assert_eq!(tree(&cluster[..2]).instances(), Some(1));
        // A worker that forks the others serves as well.
        assert_eq!(tree(&[ruby(10, 1), ruby(11, 10), ruby(12, 11)]).instances(), Some(2));
        // Started one by one.
        assert_eq!(
            tree(&[shell(9, 1), ruby(10, 9), ruby(11, 9), ruby(12, 9)]).instances(),
            Some(3)
        );
    }

    #[test]
    fn where_a_ruby_may_be_missing_no_figure_over_all_of_them_is_known() {
        let mut unread = tree(&[ruby(10, 1), ruby(11, 10)]);
        assert_eq!(unread.instances(), Some(1));
        unread.unread.push("12: it ended".into());
        let no_probe = tree(&[ruby(10, 1), ruby(11, 10), shell(12, 10)]);
        let no_ruby = tree(&[shell(10, 1), shell(11, 10)]);
        for ledger in [unread, no_probe, no_ruby, Ledger::default()] {
            assert_eq!(ledger.instances(), None, "{ledger:?}");
            assert_eq!(ledger.free_slot_share(), None, "{ledger:?}");
            assert_eq!(ledger.free_page_share(), None, "{ledger:?}");
            assert_eq!(ledger.free_and_all_malloc(), None, "{ledger:?}");
        }
    }

    #[test]
    fn the_share_of_free_slots_is_over_all_pools_and_processes() {
        assert_eq!(tree(&[ruby(10, 1)]).free_slot_share(), Some(0.25));
        let mut full = ruby(12, 10);
        if let Some(heap) = &mut full.heap {
            (heap.live_slots, heap.pools) = (Some(200), vec![pool(40, 200)]);
        }
        let three = tree(&[shell(9, 1), ruby(10, 9), ruby(11, 10), full]);
        assert_eq!(three.free_slot_share(), Some(0.2));
    }

    #[test]
    fn one_heap_without_figures_makes_the_share_of_free_slots_unknown() {
        let heap = |live_slots, pools| Some(RubyHeap { live_slots, pools, ..RubyHeap::default() });
        let incomplete = SlotPool { slot_size: 80, ..SlotPool::default() };
        for heap in [
            None,
            heap(None, vec![pool(40, 9)]),
            heap(Some(5), vec![pool(40, 9), incomplete]),
            heap(Some(0), Vec::new()),
            heap(Some(10), vec![pool(40, 9)]),
        ] {
            let worker = ProcessLedger { heap, ..ruby(11, 10) };
            assert_eq!(tree(&[ruby(10, 1), worker.clone()]).free_slot_share(), None, "{worker:?}");
        }
    }

    #[test]
    fn the_share_of_empty_pages_is_over_all_processes_and_unknown_where_one_does_not_say() {
        assert_eq!(tree(&[ruby(10, 1)]).free_page_share(), Some(0.1));
        let with = |empty_pages, all_pages| {
            let heap = RubyHeap { empty_pages, all_pages, ..RubyHeap::default() };
            let worker = ProcessLedger { heap: Some(heap), ..ruby(11, 10) };
            tree(&[shell(9, 1), ruby(10, 9), worker]).free_page_share()
        };
        assert_eq!(with(Some(Bytes(0)), Some(Bytes(300))), Some(0.025));
        for (empty, all) in [
            (None, Some(Bytes(300))),
            (Some(Bytes(0)), None),
            (Some(Bytes(0)), Some(Bytes(0))),
            (Some(Bytes(301)), Some(Bytes(300))),
        ] {
            assert_eq!(with(empty, all), None, "{empty:?} of {all:?}");
        }
    }

    #[test]
    fn free_memory_of_malloc_is_summed_where_every_ruby_tells_it_from_live_memory() {
        assert_eq!(tree(&[ruby(10, 1)]).free_and_all_malloc(), Some((Bytes(30), Bytes(100))));
        let three = [shell(9, 1), ruby(10, 9), ruby(11, 10), ruby(12, 10)];
        assert_eq!(tree(&three).free_and_all_malloc(), Some((Bytes(90), Bytes(300))));
        let none_free =
            ProcessLedger { parts: vec![part(PartKind::MallocLive, 60)], ..ruby(10, 1) };
        assert_eq!(tree(&[none_free]).free_and_all_malloc(), Some((Bytes(0), Bytes(60))));
        for parts in [vec![part(PartKind::Malloc, 100)], Vec::new()] {
            let worker = ProcessLedger { parts, ..ruby(11, 10) };
            assert_eq!(tree(&[ruby(10, 1), worker]).free_and_all_malloc(), None);
        }
    }

    #[test]
    fn the_fragmentation_of_an_empty_pool_is_unknown() {
        let pool = SlotPool { live: Some(0), free: Some(0), ..SlotPool::default() };
        assert_eq!(pool.fragmentation(), None);
        let pool = SlotPool { live: Some(3), free: Some(1), ..pool };
        assert_eq!(pool.fragmentation(), Some(0.25));
    }

    #[test]
    fn every_kind_occurs_once_in_the_order_of_a_ledger() {
        for pair in PartKind::ALL.windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
        }
    }

    #[test]
    fn the_kinds_of_the_heaps_are_all_but_code_stacks_machine_code_and_memory_without_ruby() {
        let (others, heaps): (Vec<PartKind>, Vec<PartKind>) =
            PartKind::ALL.into_iter().partition(|kind| {
                use PartKind::{Anonymous, CodeAndFiles, Jit, SharedMemory, Stacks};
                [CodeAndFiles, Stacks, Jit, Anonymous, SharedMemory].contains(kind)
            });
        assert_eq!((PartKind::HEAPS, others.len()), (heaps.as_slice(), 5));
    }
}
