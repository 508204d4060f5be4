//! Why a page that a child inherited is no longer shared with its parent.

use carat_ruby::version::{REWRITES_EMPTY_CALL_CACHES, RubyVersion};
use serde::{Deserialize, Serialize};

/// The cause of private memory in a forked process.
///
/// Several causes can meet on one page; the page is then divided among them in equal parts, so that the causes add up to
/// the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The parent had no page there at the fork, or has given it back since.
    NewSinceFork,
    /// Written with the bytes that were there before; the pages differ in nothing. Ruby 3.3 stores the empty call cache over
    /// itself in every full collection (iseq.c, `rb_vm_empty_cc`), and sets a flag that is set in the variables of each captured
    /// block (gc.c, `VM_ENV_FLAG_WB_REQUIRED`). A `super` that runs stores what it calls (vm_insnhelper.c,
    /// `vm_search_super_method`).
    SameBytes,
    /// The collector marked objects as older: only the age bits of their flags differ (gc.c, `RVALUE_AGE_INC`).
    AgeBits,
    /// Slots were allocated, freed, or used again by another object.
    SlotsReused,
    /// The flags or fields of an inherited object were written.
    ObjectsWritten,
    /// A compaction in the child moved objects to other slots, and wrote their new addresses to whatever refers to them.
    Compaction,
    /// The contents of an inherited array or hash moved from the transient heap to malloc (Ruby 2.7 to 3.2).
    MovedFromTransientHeap,
    /// The collector's bitmaps and page descriptors.
    GcBitmaps,
    /// Call and constant caches in bytecode were filled or emptied.
    BytecodeCaches,
    /// Counters and flags of bytecode other than those of the compiler.
    BytecodeCounters,
    /// Tables of methods and classes, and their caches.
    MethodTables,
    /// Malloc's own headers, lists and sizes.
    MallocLinks,
    /// Memory that malloc had free at the fork and has handed out since.
    MallocReused,
    /// Buffers and tables of inherited objects were written.
    Contents,
    /// Ruby's own tables: symbols, strings, threads.
    VmTables,
    /// Machine code that Ruby's compiler wrote since the fork, on pages of its own or behind inherited code.
    JitCode,
    /// Inherited machine code that was patched: jumps to stubs that were compiled since, and code that is no longer valid
    /// (yjit/src/core.rs, `gen_branch_stub`, `invalidate_block_version`).
    JitPatches,
    /// Counters of calls, entries and pointers of the compiler in inherited bytecode.
    JitFields,
    /// The compiler's tables in malloc: written, or on pages that are new since the fork.
    JitTables,
    /// The transient heap (Ruby 2.7 to 3.2).
    TransientHeap,
    /// Data of libraries.
    LibraryData,
    /// Stacks of threads and fibers.
    Stacks,
    /// Other anonymous memory, such as allocators that are not glibc's.
    OtherMemory,
    /// Pages of files that no other process maps. They were never shared, and cost nothing that a fork could save.
    Files,
    /// The page could not be read in one of the two processes.
    Unread,
}

/// What addresses a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Prepare the heap before the fork: `prepare_fork = "full"` fills free slots and holes and lets objects age before.
    PrepareFork,
    /// Serve some requests in the parent before it forks, so that caches are filled while they are shared.
    WarmBeforeFork,
    /// Serve requests in the parent until its compiler has compiled what workers use: `warm = "auto"`.
    CompileBeforeFork,
    /// Give call sites without a cache one before the fork: `fill_call_caches = "on"`. A full collection of Ruby 3.3 writes to them.
    FillCallCaches,
    /// Compact in the parent before the fork, and not in workers.
    NoCompaction,
    /// Fewer collections in workers: every one writes the bitmaps of all pages.
    FewerCollections,
    /// Fewer threads, or smaller stacks.
    FewerThreads,
    /// The worker's own work; a smaller heap growth returns some of it sooner.
    OwnWork,
}

impl Cause {
    /// Every cause, in the order of a table of equal amounts.
    pub const ALL: [Self; 25] = [
        Self::NewSinceFork,
        Self::SameBytes,
        Self::AgeBits,
        Self::SlotsReused,
        Self::ObjectsWritten,
        Self::Compaction,
        Self::MovedFromTransientHeap,
        Self::GcBitmaps,
        Self::BytecodeCaches,
        Self::BytecodeCounters,
        Self::MethodTables,
        Self::MallocLinks,
        Self::MallocReused,
        Self::Contents,
        Self::VmTables,
        Self::JitCode,
        Self::JitPatches,
        Self::JitFields,
        Self::JitTables,
        Self::TransientHeap,
        Self::LibraryData,
        Self::Stacks,
        Self::OtherMemory,
        Self::Files,
        Self::Unread,
    ];

    /// What addresses it in this Ruby; `None` if nothing that Carat knows does.
    pub fn remedy(self, version: RubyVersion) -> Option<Remedy> {
        Some(match self {
            Self::AgeBits
            | Self::SlotsReused
            | Self::MallocLinks
            | Self::MallocReused
            | Self::MovedFromTransientHeap
            | Self::TransientHeap => Remedy::PrepareFork,
            Self::BytecodeCaches | Self::MethodTables | Self::VmTables | Self::Contents => {
                Remedy::WarmBeforeFork
            }
            Self::JitCode | Self::JitPatches | Self::JitFields | Self::JitTables => {
                Remedy::CompileBeforeFork
            }
            Self::SameBytes if REWRITES_EMPTY_CALL_CACHES.contains(version) => {
                Remedy::FillCallCaches
            }
            Self::GcBitmaps | Self::BytecodeCounters => Remedy::FewerCollections,
            Self::Compaction => Remedy::NoCompaction,
            Self::Stacks => Remedy::FewerThreads,
            Self::NewSinceFork | Self::ObjectsWritten => Remedy::OwnWork,
            Self::SameBytes
            | Self::LibraryData
            | Self::OtherMemory
            | Self::Files
            | Self::Unread => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_ruby::version::VERSIONS;

    #[test]
    fn filled_call_caches_are_offered_only_to_a_ruby_that_rewrites_empty_ones() {
        let versions: Vec<_> = VERSIONS
            .into_iter()
            .filter(|&version| Cause::SameBytes.remedy(version) == Some(Remedy::FillCallCaches))
            .collect();
        assert_eq!(versions, [RubyVersion::new(3, 3)]);
    }

    #[test]
    fn every_cause_occurs_once_in_the_list() {
        for pair in Cause::ALL.windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
        }
    }
}
