//! What each word of the page means, and its name in JSON.

use crate::page::section::VALUES;

/// The words of one section: a closed list with names.
pub trait Word: Copy + 'static {
    /// Every word in the order of the page.
    const ALL: &'static [Self];
    /// Its place within its section or row.
    fn index(self) -> usize;
    /// Its name in JSON.
    fn name(self) -> &'static str;
}

macro_rules! words {
    ($(#[$doc:meta])* $list:ident { $($(#[$what:meta])* $word:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $list { $($(#[$what])* $word,)* }

        impl Word for $list {
            const ALL: &'static [Self] = &[$(Self::$word,)*];
            fn index(self) -> usize {
                self as usize
            }
            fn name(self) -> &'static str {
                match self { $(Self::$word => $name,)* }
            }
        }

        const _: () = assert!($list::ALL.len() <= VALUES);
    };
}

words! {
    /// The collector and the slots of the whole Ruby heap, from `GC.stat`. Which of them a Ruby knows
    /// differs by version (3.4 renamed several), so each may be unknown.
    Gc {
        /// Collections since start, those before a fork included.
        Count = "count",
        /// Minor collections.
        Minor = "minor",
        /// Major (full) collections.
        Major = "major",
        /// Nanoseconds of collecting as Ruby counts them, to the millisecond (Ruby 3.1 on).
        TimeNs = "time_ns",
        /// Slots with a live object.
        LiveSlots = "live_slots",
        /// Slots that are free in pages that hold objects.
        FreeSlots = "free_slots",
        /// All slots.
        AvailableSlots = "available_slots",
        /// Slots that wait for their finalizer.
        FinalSlots = "final_slots",
        /// Pages that hold objects.
        EdenPages = "eden_pages",
        /// Pages without an object that Ruby keeps (to Ruby 3.3).
        TombPages = "tomb_pages",
        /// Pages without an object that Ruby keeps (from Ruby 3.4).
        EmptyPages = "empty_pages",
        /// Pages that Ruby holds.
        HeapPages = "heap_pages",
        /// Pages that Ruby may still add without collecting.
        AllocatablePages = "allocatable_pages",
        /// Length of the table of pages (to Ruby 3.3).
        SortedLength = "sorted_length",
        /// Bytes of one page.
        PageBytes = "page_bytes",
        /// Bytes of the smallest slot.
        SlotBytes = "slot_bytes",
        /// Objects allocated since start.
        AllocatedObjects = "allocated_objects",
        /// Objects freed since start.
        FreedObjects = "freed_objects",
        /// Objects that survived long enough to be old.
        OldObjects = "old_objects",
        /// Bytes got by malloc since the last collection, as Ruby counts them.
        MallocIncrease = "malloc_increase_bytes",
        /// Bytes got by malloc since the last major collection, as Ruby counts them.
        OldmallocIncrease = "oldmalloc_increase_bytes",
        /// Nanoseconds of marking (Ruby 3.3 on).
        MarkingNs = "marking_ns",
        /// Nanoseconds of sweeping (Ruby 3.3 on).
        SweepingNs = "sweeping_ns",
        /// Compactions.
        Compactions = "compactions",
        /// Monotonic clock when the last collection was noted, which is after its marking, in nanoseconds.
        LastNotedNs = "last_noted_ns",
        /// Monotonic clock when the last major collection was noted, in nanoseconds.
        LastMajorNs = "last_major_ns",
        /// Live slots when the last major collection was noted; what is not swept yet counts as live.
        LiveAfterMajor = "live_after_major",
    }
}

words! {
    /// One size pool, from `GC.stat_heap` (Ruby 3.2 on) or, before, the one pool there is.
    Pool {
        /// Bytes of a slot, its overhead included.
        SlotBytes = "slot_bytes",
        /// Slots in pages that hold objects.
        EdenSlots = "eden_slots",
        /// Pages that hold objects.
        EdenPages = "eden_pages",
        /// Slots with a live object.
        LiveSlots = "live_slots",
        /// Free slots in pages that hold objects.
        FreeSlots = "free_slots",
        /// Pages without an object that the pool keeps.
        TombPages = "tomb_pages",
        /// Pages that the pool got since start.
        PagesAllocated = "pages_allocated",
        /// Pages that the pool gave back since start.
        PagesFreed = "pages_freed",
    }
}

words! {
    /// What the allocator that really serves `malloc` says of itself.
    Malloc {
        /// Bytes in use: asked for and not freed, chunk overhead included. Under glibc, chunks in a
        /// thread's cache (at most 7 per size and thread) count as in use.
        InUse = "in_use",
        /// Bytes free inside what the allocator holds.
        Free = "free",
        /// Bytes that the allocator got from the kernel and did not give back.
        System = "system",
        /// Bytes of single large allocations mapped by themselves (glibc); in use, part of `System`.
        Mapped = "mapped",
        /// Number of those.
        MappedCount = "mapped_count",
        /// Bytes of whole 4 KiB pages inside free chunks: what a trim can return at most. Pages that
        /// are not resident already count too.
        FreeWholePages = "free_whole_pages",
        /// Arenas.
        Arenas = "arenas",
        /// jemalloc `stats.active`: bytes in pages that hold at least one allocation.
        Active = "active",
        /// jemalloc `stats.metadata`.
        Metadata = "metadata",
        /// jemalloc `stats.resident`.
        Resident = "resident",
        /// jemalloc `stats.retained`: addresses kept without memory behind them.
        Retained = "retained",
        /// mimalloc: bytes committed.
        Committed = "committed",
        /// tcmalloc: free bytes already given back to the kernel.
        Unmapped = "unmapped",
        /// What reading these figures cost, in nanoseconds.
        CostNs = "cost_ns",
        /// The longest that reading them ever took, in nanoseconds.
        WorstCostNs = "worst_cost_ns",
    }
}

words! {
    /// One arena of glibc, from `malloc_info`.
    Arena {
        /// Its number in `malloc_info`; 0 is the one that uses the program break.
        Number = "number",
        /// Bytes got from the kernel.
        System = "system",
        /// The most it ever had.
        MostSystem = "most_system",
        /// Bytes free inside.
        Free = "free",
        /// Bytes of whole 4 KiB pages inside free chunks.
        FreeWholePages = "free_whole_pages",
        /// Bytes readable and writable, whether touched or not.
        Accessible = "accessible",
        /// Its heaps of addresses.
        Subheaps = "subheaps",
    }
}

words! {
    /// The process, its compiler, and what the probe itself costs.
    Own {
        /// Threads of the process.
        Threads = "threads",
        /// Bytes of machine code that YJIT wrote.
        YjitCode = "yjit_code",
        /// Bytes that YJIT holds for code, written or not.
        YjitRegion = "yjit_region",
        /// Bytes that YJIT got from malloc.
        YjitHeap = "yjit_heap",
        /// Calls of the probe while objects were marked.
        HookCalls = "hook_calls",
        /// Nanoseconds spent in those.
        HookNs = "hook_ns",
        /// Readings made with Ruby's lock held.
        RubyReadings = "ruby_readings",
        /// Nanoseconds spent in those: the server waited.
        RubyNs = "ruby_ns",
        /// Readings made by the probe's own thread.
        ThreadReadings = "thread_readings",
        /// Processor nanoseconds of the probe's own thread.
        ThreadNs = "thread_ns",
    }
}

words! {
    /// What the runtime library did. Each word is added to or set by itself, without the sequence.
    Runtime {
        /// Settings that took effect, one bit each in the order of [`RUNTIME_SETTINGS`].
        Applied = "applied",
        /// Settings asked for that could not take effect, the same bits.
        Refused = "refused",
        /// Trims done.
        Trims = "trims",
        /// Resident bytes that trims returned to the kernel.
        TrimmedBytes = "trimmed_bytes",
        /// Nanoseconds spent trimming.
        TrimNs = "trim_ns",
        /// The longest trim, in nanoseconds.
        WorstTrimNs = "worst_trim_ns",
        /// Compactions done.
        Compactions = "compactions",
        /// Nanoseconds spent compacting.
        CompactNs = "compact_ns",
        /// Times the heap was prepared for a fork.
        PreparedForks = "prepared_forks",
        /// Nanoseconds spent preparing.
        PrepareForkNs = "prepare_fork_ns",
        /// Nanoseconds that must now pass between two trims.
        TrimIntervalNs = "trim_interval_ns",
        /// Full collections after which no trim was due yet.
        TrimsSkipped = "trims_skipped",
        /// Free slots that sealing filled.
        SealedSlots = "sealed_slots",
        /// Bytes of holes of malloc that sealing filled.
        SealedBytes = "sealed_bytes",
        /// 1 in a child that allocates from an arena or heap of its own.
        OwnArena = "own_arena",
        /// Full collections run in idle moments.
        PacedCollections = "paced_collections",
    }
}

words! {
    /// Which allocator really serves `malloc`; stored as its index plus 1.
    AllocatorKind {
        /// The GNU C library's.
        Glibc = "glibc",
        /// jemalloc.
        Jemalloc = "jemalloc",
        /// mimalloc.
        Mimalloc = "mimalloc",
        /// tcmalloc of gperftools.
        Tcmalloc = "tcmalloc",
        /// musl's.
        Musl = "musl",
        /// Another one; the header names its library.
        Other = "other",
    }
}

/// The settings that the runtime library puts into effect, in the order of their bits.
pub const RUNTIME_SETTINGS: [&str; 9] =
    ["compact", "trim", "prepare_fork", "seal", "gc_pacing", "thp", "ksm", "yjit", "scrub"];
