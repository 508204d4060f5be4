//! The words of each section: name and meaning.

use crate::page::word::{VALUES, Word};

macro_rules! words {
    ($(#[$doc:meta])* $list:ident { $($(#[doc = $meaning:literal])* $word:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $list { $($(#[doc = $meaning])* $word,)* }

        impl Word for $list {
            const ALL: &'static [Self] = &[$(Self::$word,)*];
            fn index(self) -> usize {
                self as usize
            }
            fn name(self) -> &'static str {
                match self { $(Self::$word => $name,)* }
            }
            fn meaning(self) -> &'static str {
                match self { $(Self::$word => concat!($($meaning),*),)* }.trim_ascii()
            }
        }

        const _: () = assert!($list::ALL.len() <= VALUES);
    };
}

words! {
    /// The collector and the slots of the whole Ruby heap, from `GC.stat`. Which of them a Ruby has differs by version
    /// (`carat_ruby::version`), so each may be unknown.
    Gc {
        /// Collections since start, including those before a fork.
        Count = "count",
        /// Minor collections.
        Minor = "minor",
        /// Major (full) collections.
        Major = "major",
        /// Nanoseconds of collecting as Ruby counts them, in whole milliseconds.
        TimeNs = "time_ns",
        /// Slots with a live object.
        LiveSlots = "live_slots",
        /// Free slots in pages that hold objects.
        FreeSlots = "free_slots",
        /// All slots.
        AvailableSlots = "available_slots",
        /// Slots whose object waits for its finalizer.
        FinalSlots = "final_slots",
        /// Pages that hold objects.
        EdenPages = "eden_pages",
        /// Pages without an object that Ruby keeps (tomb pages).
        TombPages = "tomb_pages",
        /// Pages without an object that Ruby keeps (empty pages).
        EmptyPages = "empty_pages",
        /// All pages of the heap.
        HeapPages = "heap_pages",
        /// Pages that Ruby may add before it collects.
        AllocatablePages = "allocatable_pages",
        /// Length of the sorted table of pages.
        SortedLength = "sorted_length",
        /// Bytes of one page.
        PageBytes = "page_bytes",
        /// Bytes of the slot of an object that needs no larger one (`RVALUE_SIZE`); Ruby 4.1 has smaller ones too.
        SlotBytes = "slot_bytes",
        /// Objects allocated since start.
        AllocatedObjects = "allocated_objects",
        /// Objects freed since start.
        FreedObjects = "freed_objects",
        /// Objects that survived enough collections to be old.
        OldObjects = "old_objects",
        /// Bytes allocated with malloc since the last collection, as Ruby counts them.
        MallocIncrease = "malloc_increase_bytes",
        /// Bytes allocated with malloc since the last major collection, as Ruby counts them.
        OldmallocIncrease = "oldmalloc_increase_bytes",
        /// Nanoseconds of marking, in whole milliseconds.
        MarkingNs = "marking_ns",
        /// Nanoseconds of sweeping, in whole milliseconds.
        SweepingNs = "sweeping_ns",
        /// Compactions.
        Compactions = "compactions",
        /// Monotonic clock when the last collection was recorded, which is after its marking, in nanoseconds.
        LastNotedNs = "last_noted_ns",
        /// Monotonic clock when the last major collection was recorded, in nanoseconds.
        LastMajorNs = "last_major_ns",
        /// Live slots when the last major collection was recorded; slots that are not swept yet count as live.
        LiveAfterMajor = "live_after_major",
        /// Bytes that Ruby itself has allocated with malloc since start, as it counts them.
        MallocAllocated = "malloc_allocated_bytes",
        /// Bytes of those that it has freed.
        MallocFreed = "malloc_freed_bytes",
        /// Bytes that a collector other than Ruby's own uses for objects.
        CollectorUsed = "collector_used_bytes",
    }
}

words! {
    /// One size pool, from `GC.stat_heap`, or the only pool of a Ruby without it.
    Pool {
        /// Bytes of a slot, including its overhead.
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
        /// Pages that the pool allocated since start.
        PagesAllocated = "pages_allocated",
        /// Pages that the pool freed since start.
        PagesFreed = "pages_freed",
    }
}

words! {
    /// The figures of the allocator that serves `malloc`.
    Malloc {
        /// Bytes in use: allocated and not freed, including chunk overhead. With glibc, chunks in a thread's cache
        /// (at most 7 per size and thread) count as in use.
        InUse = "in_use",
        /// Bytes that the allocator holds and that are free.
        Free = "free",
        /// Bytes that the allocator got from the kernel and has not returned.
        System = "system",
        /// Bytes of large allocations with a mapping of their own (glibc); in use, and part of `system`.
        Mapped = "mapped",
        /// Number of those allocations.
        MappedCount = "mapped_count",
        /// Bytes of whole kernel pages inside free chunks: the most that a trim can return. Includes pages that are not
        /// resident.
        FreeWholePages = "free_whole_pages",
        /// Arenas.
        Arenas = "arenas",
        /// jemalloc `stats.active`: bytes in pages that hold at least one allocation.
        Active = "active",
        /// jemalloc `stats.metadata`.
        Metadata = "metadata",
        /// jemalloc `stats.resident`.
        Resident = "resident",
        /// jemalloc `stats.retained`: addresses kept without memory.
        Retained = "retained",
        /// mimalloc: bytes committed.
        Committed = "committed",
        /// tcmalloc: free bytes already returned to the kernel.
        Unmapped = "unmapped",
        /// Nanoseconds that reading these figures took.
        CostNs = "cost_ns",
        /// The most nanoseconds that reading these figures ever took.
        WorstCostNs = "worst_cost_ns",
    }
}

words! {
    /// One arena of glibc, from `malloc_info`.
    Arena {
        /// Its number in `malloc_info`; 0 is the main arena, which uses the program break.
        Number = "number",
        /// Bytes from the kernel.
        System = "system",
        /// The most bytes that it ever had from the kernel.
        MostSystem = "most_system",
        /// Free bytes.
        Free = "free",
        /// Bytes of whole kernel pages inside free chunks.
        FreeWholePages = "free_whole_pages",
        /// Bytes that are readable and writable, touched or not.
        Accessible = "accessible",
        /// Number of its subheaps.
        Subheaps = "subheaps",
    }
}

words! {
    /// The process, its compiler, and the cost of the probe.
    Own {
        /// Threads of the process.
        Threads = "threads",
        /// Bytes of machine code that YJIT wrote.
        YjitCode = "yjit_code",
        /// Bytes that YJIT reserved for code.
        YjitRegion = "yjit_region",
        /// Bytes that YJIT allocated with malloc.
        YjitHeap = "yjit_heap",
        /// Calls of the probe's mark function.
        HookCalls = "hook_calls",
        /// Nanoseconds spent in those calls.
        HookNs = "hook_ns",
        /// Readings with Ruby's lock held.
        RubyReadings = "ruby_readings",
        /// Nanoseconds spent in those readings; the server waits meanwhile.
        RubyNs = "ruby_ns",
        /// Readings by the probe's own thread.
        ThreadReadings = "thread_readings",
        /// Processor time of the probe's own thread, in nanoseconds.
        ThreadNs = "thread_ns",
        /// Methods and blocks that YJIT has compiled; 0 while it is off.
        YjitCompiled = "yjit_compiled",
    }
}

words! {
    /// Allocations that were sampled while carat asked for it ([`crate::page::Sites`] says where they were).
    Allocations {
        /// Mean bytes of slots from one sample to the next.
        SampleBytes = "sample_bytes",
        /// Monotonic clock when sampling began in this process, in nanoseconds.
        StartedNs = "started_ns",
        /// Monotonic clock when objects and processor time were last written, in nanoseconds.
        WrittenNs = "written_ns",
        /// Monotonic clock when it ended, in nanoseconds.
        EndedNs = "ended_ns",
        /// Samples.
        Samples = "samples",
        /// Samples for whose place there was no room.
        Unplaced = "unplaced",
        /// Objects that were allocated meanwhile.
        Objects = "objects",
        /// Processor time of the process meanwhile, in nanoseconds.
        CpuNs = "cpu_ns",
        /// Nanoseconds spent on samples.
        SampleNs = "sample_ns",
        /// Picoseconds that sampling adds to each allocation, measured when it began.
        HookPs = "hook_ps",
    }
}

words! {
    /// What the runtime library did. Each word is updated by itself, without the sequence.
    Runtime {
        /// Settings in effect, one bit each in the order of `CARAT_SETTINGS`.
        Applied = "applied",
        /// Requested settings that could not be applied, with the same bits.
        Refused = "refused",
        /// Number of trims.
        Trims = "trims",
        /// Resident bytes that trims returned to the kernel.
        TrimmedBytes = "trimmed_bytes",
        /// Nanoseconds spent trimming.
        TrimNs = "trim_ns",
        /// Nanoseconds of the longest trim.
        WorstTrimNs = "worst_trim_ns",
        /// Number of compactions.
        Compactions = "compactions",
        /// Nanoseconds spent compacting.
        CompactNs = "compact_ns",
        /// Preparations of the heap for a fork.
        PreparedForks = "prepared_forks",
        /// Nanoseconds spent preparing.
        PrepareForkNs = "prepare_fork_ns",
        /// Nanoseconds that must currently pass between two trims.
        TrimIntervalNs = "trim_interval_ns",
        /// Full collections after which no trim was due.
        TrimsSkipped = "trims_skipped",
        /// Free slots filled by sealing.
        SealedSlots = "sealed_slots",
        /// Bytes of malloc's holes filled by sealing.
        SealedBytes = "sealed_bytes",
        /// 1 in a child that allocates from its own arena or heap.
        OwnArena = "own_arena",
        /// Full collections run in idle moments.
        PacedCollections = "paced_collections",
        /// Checksum of the `CARAT_SETTINGS` that the bits belong to.
        Requested = "requested",
        /// Pages requested of the application before the first fork.
        WarmedPages = "warmed_pages",
        /// Nanoseconds spent on them.
        WarmNs = "warm_ns",
        /// Heap pages by which a worker may grow before it must collect, when it was forked.
        GrowthPages = "growth_pages",
        /// Settings that left out a compaction because of `unfit_extension`, with the same bits.
        LeftOut = "left_out",
        /// The loaded C extension that compaction can crash: its place in carat's list, from 1 on.
        UnfitExtension = "unfit_extension",
        /// The version of that extension: 16 bits each for its first three numbers.
        UnfitVersion = "unfit_version",
        /// Bytes of jemalloc's pages with what Ruby allocated with calloc before the first fork.
        CallocBytes = "calloc_bytes",
        /// Call sites that got a cache before the first fork because they had none.
        FilledCallCaches = "filled_call_caches",
        /// Checksum of the variables named in `CARAT_VARIABLES`, with the values that Ruby was started with.
        Variables = "variables",
        /// Settings for a preloaded application in a process that loads the application itself, with the same bits.
        NotPreloaded = "not_preloaded",
        /// Settings for which there is nothing to do on this version of Ruby, with the same bits.
        Needless = "needless",
        /// Settings that were applied on an application which is only assumed to be loaded, with the same bits.
        Assumed = "assumed",
    }
}

words! {
    /// The allocator that serves `malloc`; stored as its index plus 1.
    AllocatorKind {
        /// The allocator of the GNU C library.
        Glibc = "glibc",
        /// jemalloc.
        Jemalloc = "jemalloc",
        /// mimalloc.
        Mimalloc = "mimalloc",
        /// tcmalloc of gperftools.
        Tcmalloc = "tcmalloc",
        /// The allocator of musl.
        Musl = "musl",
        /// Another allocator; the header names its file.
        Other = "other",
    }
}
