//! Which Ruby has what: the one table that the probe, the runtime, the tool and the docs read.
//!
//! A new version of Ruby gets a line in [`VERSIONS`] and, where something changed, another bound in the ranges below.
//! `docs/explanation/memory.md` shows the table; a test says when it is out of date.

use carat_wire::page::Gc;
use std::ffi::CStr;
use std::fmt;
use std::str::FromStr;

/// A version of Ruby by major and minor number; patch levels change nothing that carat relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RubyVersion {
    /// The first number.
    pub major: u16,
    /// The second number.
    pub minor: u16,
}

impl RubyVersion {
    /// The version of these numbers.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// The first version in a text such as `ruby 3.1.2p20` or `libruby-3.1.so.3.1.2`.
    pub fn find_in(text: &str) -> Option<Self> {
        let start = text.find(|letter: char| letter.is_ascii_digit())?;
        let mut numbers = text[start..].split(|letter: char| !letter.is_ascii_digit());
        Some(Self::new(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// What a list has of this version; `None` if it is not in the list.
    pub fn among<T: Copy>(self, list: &[(Self, T)]) -> Option<T> {
        list.iter().find_map(|(version, fact)| (*version == self).then_some(*fact))
    }
}

impl fmt::Display for RubyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A text that is not a version of Ruby.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidRubyVersion(pub String);

impl fmt::Display for InvalidRubyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a Ruby version; write it like 3.3 or 3.3.8", self.0)
    }
}

impl std::error::Error for InvalidRubyVersion {}

/// Parses `3.3` and `3.3.8`.
impl FromStr for RubyVersion {
    type Err = InvalidRubyVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_version = text.split('.').count() >= 2
            && text.split('.').all(|number| number.parse::<u16>().is_ok());
        is_version
            .then(|| Self::find_in(text))
            .flatten()
            .ok_or_else(|| InvalidRubyVersion(text.into()))
    }
}

/// Ruby 2.6, which has no line of its own in the table.
pub const V2_6: RubyVersion = RubyVersion::new(2, 6);
/// Ruby 2.7, the oldest that carat supports.
pub const V2_7: RubyVersion = RubyVersion::new(2, 7);
/// Ruby 3.0.
pub const V3_0: RubyVersion = RubyVersion::new(3, 0);
/// Ruby 3.1.
pub const V3_1: RubyVersion = RubyVersion::new(3, 1);
/// Ruby 3.2.
pub const V3_2: RubyVersion = RubyVersion::new(3, 2);
/// Ruby 3.3.
pub const V3_3: RubyVersion = RubyVersion::new(3, 3);
/// Ruby 3.4.
pub const V3_4: RubyVersion = RubyVersion::new(3, 4);
/// Ruby 4.0.
pub const V4_0: RubyVersion = RubyVersion::new(4, 0);
/// Ruby 4.1, in development; its facts may still change.
pub const V4_1: RubyVersion = RubyVersion::new(4, 1);

/// Every version that the table describes, the oldest first.
pub const VERSIONS: [RubyVersion; 8] = [V2_7, V3_0, V3_1, V3_2, V3_3, V3_4, V4_0, V4_1];

/// A range of versions; an open end has no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    first: Option<RubyVersion>,
    last: Option<RubyVersion>,
}

impl VersionRange {
    /// Every version.
    pub const ALL: Self = Self { first: None, last: None };

    /// Between two bounds; a bound that is `None` is open.
    pub const fn new(first: Option<RubyVersion>, last: Option<RubyVersion>) -> Self {
        Self { first, last }
    }

    /// From `first` on.
    pub const fn from(first: RubyVersion) -> Self {
        Self { first: Some(first), last: None }
    }

    /// Up to and with `last`.
    pub const fn up_to(last: RubyVersion) -> Self {
        Self { first: None, last: Some(last) }
    }

    /// From `first` up to and with `last`.
    pub const fn between(first: RubyVersion, last: RubyVersion) -> Self {
        Self { first: Some(first), last: Some(last) }
    }

    /// Whether a version lies in the range.
    #[inline] // Asked for every object of a process, by another crate.
    pub fn contains(&self, version: RubyVersion) -> bool {
        self.first.is_none_or(|first| version >= first)
            && self.last.is_none_or(|last| version <= last)
    }
}

/// Writes `3.1 and later`, `3.3 and earlier`, `2.6 to 3.2`, `3.3` or `all`.
impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (None, None) => write!(f, "all"),
            (Some(first), None) => write!(f, "{first} and later"),
            (None, Some(last)) => write!(f, "{last} and earlier"),
            (Some(first), Some(last)) if first == last => write!(f, "{first}"),
            (Some(first), Some(last)) => write!(f, "{first} to {last}"),
        }
    }
}

/// The probe observes these versions; in others it reports the allocator's figures only. A version after the last of
/// [`VERSIONS`] is observed as far as it still has the functions, see [`is_newer_than_known`].
pub const OBSERVED: VersionRange = VersionRange::from(V2_7);
/// Heap pages come from malloc (`posix_memalign`); later Rubies map them.
pub const HEAP_PAGES_FROM_MALLOC: VersionRange = VersionRange::up_to(V3_0);
/// Young arrays, hashes and structs keep their contents in a mapping of 32 MiB (transient_heap.c).
pub const TRANSIENT_HEAP: VersionRange = VersionRange::between(V2_6, V3_2);
/// A hook on any event of the collector makes every allocation take the slow path (`gc_event_hook_available_p`, gc.c).
pub const GC_HOOK_SLOWS_ALLOCATION: VersionRange = VersionRange::up_to(V3_3);
/// `GC.stat` counts the time of collections, in milliseconds.
pub const GC_TIME: VersionRange = VersionRange::from(V3_1);
/// Objects have slots of several sizes, and `GC.stat_heap` counts them by size.
pub const SLOT_SIZES: VersionRange = VersionRange::from(V3_2);
/// `GC.stat_heap` allows live slots to be counted by size.
pub const LIVE_SLOTS_BY_SIZE: VersionRange = VersionRange::from(V3_3);
/// `Process._fork` is called by every way to fork except `Process.daemon`.
pub const FORK_HOOK: VersionRange = VersionRange::from(V3_1);
/// `Process.warmup` prepares the heap for forks.
pub const PROCESS_WARMUP: VersionRange = VersionRange::from(V3_3);
/// Postponed jobs are registered once and triggered by number; a request survives a fork.
pub const PREREGISTERED_JOBS: VersionRange = VersionRange::from(V3_3);
/// Postponed jobs can be registered each time they are requested.
pub const JOBS_REGISTERED_EACH_TIME: VersionRange = VersionRange::up_to(V4_0);
/// Ruby touches its whole main stack when it starts.
pub const TOUCHES_MAIN_STACK: VersionRange = VersionRange::between(V3_3, V3_3);
/// A full GC stores the empty call cache over itself in every call site that has no other, which copies pages of a forked
/// process without changing them (`rb_iseq_mark_and_move`, iseq.c; 3.1 leaves a cache alone that is not to be marked).
pub const REWRITES_EMPTY_CALL_CACHES: VersionRange = VersionRange::between(V3_3, V3_3);
/// `GC.stat` counts the bytes that Ruby itself allocates and frees with malloc.
pub const MALLOC_TOTALS: VersionRange = VersionRange::from(V4_1);
/// Ruby names its own mappings where the kernel allows it.
pub const NAMED_MAPPINGS: VersionRange = VersionRange::from(V3_4);

/// The age of an object is in a bitmap of its page (`age_bits`, gc.c); an older Ruby keeps it in the object's flags.
pub const AGES_IN_BITMAP: VersionRange = VersionRange::from(V3_3);
/// A slot's bit in the bitmaps of its page has the number of the slot (`SLOT_INDEX`, gc/default/default.c), and more fields stand
/// before the bitmaps; before, there is a bit for each 40 bytes of the page. Of 64 ages the low bits stand in one word and the high bits
/// in the next; before, the two bits of an age stand side by side.
pub const BITS_BY_SLOT_NUMBER: VersionRange = VersionRange::from(V4_1);
/// An old object has both flags of the age set (`FL_PROMOTED`); later Rubies have one.
pub const OLD_IN_TWO_FLAGS: VersionRange = VersionRange::up_to(V3_2);
/// A heap page begins with the address of its description, which contains the bytes of a slot (`struct heap_page_header` and `struct
/// heap_page`, gc.c or gc/default/default.c); before, all slots have one size.
pub const SLOT_BYTES_IN_PAGE: VersionRange = VersionRange::between(V3_2, V4_0);
/// The length of a string in its slot is part of its flags (`RSTRING_EMBED_LEN_MASK`).
pub const EMBEDDED_LENGTH_IN_FLAGS: VersionRange = VersionRange::up_to(V3_1);
/// An object's instance variables outside its slot have their number in front of their address (`struct RObject`).
pub const COUNTED_OBJECT_FIELDS: VersionRange = VersionRange::up_to(V3_1);
/// A flag says that instance variables lie outside the slot (`ROBJECT_HEAP`); before, another that they lie inside
/// (`ROBJECT_EMBED`).
pub const OBJECT_FIELDS_OUTSIDE_BY_FLAG: VersionRange = VersionRange::from(V4_0);
/// Arrays fill slots of every size; the length has seven bits of the flags (`RARRAY_EMBED_LEN_MASK`), before two.
pub const ARRAYS_FILL_THEIR_SLOT: VersionRange = VersionRange::from(V3_2);
/// The same for structs (`RSTRUCT_EMBED_LEN_MASK`).
pub const STRUCTS_FILL_THEIR_SLOT: VersionRange = VersionRange::from(V3_3);
/// The table of a hash is a part of its slot (`RHASH_ST_TABLE`, internal/hash.h).
pub const HASH_TABLE_IN_SLOT: VersionRange = VersionRange::from(V3_3);
/// A match has its positions in chunks of which its slot has the addresses (`struct rb_matchext_struct`, rmatch.h); before, they
/// are in a chunk of their own (`struct rmatch`).
pub const MATCH_FILLS_ITS_SLOT: VersionRange = VersionRange::from(V3_3);
/// A call cache keeps the method that it names alive (`imemo_callcache`, gc.c).
pub const CALL_CACHES_HOLD_METHODS: VersionRange = VersionRange::up_to(V3_2);
/// The call caches of a method follow it in one list; before, the list is a chunk of its own (`struct rb_class_cc_entries`,
/// vm_callinfo.h).
pub const CALL_CACHES_IN_LIST: VersionRange = VersionRange::from(V4_0);
/// A call has its cache in it, and one cache of methods serves all classes; the collector marks neither (`struct rb_call_cache`,
/// vm_core.h). Later the caches are objects.
pub const CALLS_HAVE_CACHES: VersionRange = VersionRange::up_to(V2_7);
/// What the compiler keeps for bytecode are blocks whose forms are known (`struct Block`, yjit/src/core.rs): tested on 3.3, and read in the
/// source of 3.4. Before 3.2 YJIT was written in C.
pub const COMPILED_IN_BLOCKS: VersionRange = VersionRange::between(V3_3, V3_4);
/// What is known of a global variable ends a word earlier: it has no function for compaction (`struct rb_global_variable`, variable.c).
pub const SHORT_GLOBAL_VARIABLES: VersionRange = VersionRange::up_to(V2_7);
/// What is known of a file has no timeout, and so is a word shorter (`struct rb_io`, io.h). 3.0 and 3.2 were not tried.
pub const FILES_WITHOUT_TIMEOUT: VersionRange = VersionRange::up_to(V3_1);
/// It does not lead back to the file either, and so is another word shorter.
pub const FILES_WITHOUT_SELF: VersionRange = VersionRange::up_to(V2_7);
/// An inline cache has three words (`iseq_inline_storage_entry`, vm_core.h), later two.
pub const LONG_INLINE_CACHES: VersionRange = VersionRange::up_to(V3_0);
/// A class's list of subclasses has links in one direction only (`rb_subclass_entry`).
pub const SUBCLASSES_LINKED_ONE_WAY: VersionRange = VersionRange::up_to(V3_0);
/// The names of instance variables are in the shapes of objects (shape.h); before, in a table of their class.
pub const SHAPES: VersionRange = VersionRange::from(V3_2);
/// The fifth word of a class or module is the address of its instance variables, as many as its shape says (`iv_ptr` of
/// `rb_classext_t`, internal/class.h); in 3.2 the same was not tried.
pub const CLASS_FIELDS_IN_BUFFER: VersionRange = VersionRange::between(V3_3, V3_4);
/// Classes remember where their class variables are (`cvc_tbl` of `rb_classext_t`).
pub const CLASS_VARIABLES_CACHED: VersionRange = VersionRange::from(V3_1);
/// A string that shares its bytes has the flag `FL_USER0` (`STR_SHARED`, internal/string.h); before, `FL_USER2`.
pub const SHARED_STRINGS_BY_FIRST_FLAG: VersionRange = VersionRange::from(V3_4);
/// A shape has the number of its instance variables directly behind its name (`rb_shape`, shape.h).
pub const SHAPES_KEEP_EDGE_FIRST: VersionRange = VersionRange::between(V3_2, V3_4);
/// The table of a class's instance variables has the address of an entry for each, with its number; before, the number itself
/// (`struct rb_iv_index_tbl_entry`, internal/class.h).
pub const VARIABLE_ENTRIES: VersionRange = VersionRange::between(V3_1, V3_1);
/// The line on which code begins is an object (`rb_iseq_location_t`, vm_core.h); later a number of C.
pub const LINE_IS_OBJECT: VersionRange = VersionRange::up_to(V3_1);
/// The references of every type of slot are described here.
pub const KNOWN_REFERENCES: VersionRange = VersionRange::between(V2_7, V4_0);
/// Pages without objects wait in a tomb; later Rubies keep them for any slot size.
pub const TOMB_PAGES: VersionRange = VersionRange::up_to(V3_3);

/// `RUBY_GC_HEAP_GROWTH_MAX_SLOTS` counts slots of any size, for each heap that grows (`heap_allocatable_slots_expand`,
/// gc/default/default.c); before, pages of 40-byte slots, and later bytes.
pub const GROWTH_IN_SLOTS_OF_ANY_SIZE: VersionRange = VersionRange::between(V3_4, V4_0);
/// The heap of each size of slots has a least number of slots of its own (`RUBY_GC_HEAP_0_INIT_SLOTS` …).
pub const INIT_SLOTS_BY_SIZE: VersionRange = VersionRange::between(V3_3, V4_0);
/// A minor collection that leaves a heap full lets it grow while it has fewer slots than its least number, and calls for a full
/// collection otherwise (`gc_sweep_finish_size_pool`, gc.c). From 3.4 on there is no such bound (`gc_sweep_finish_heap`,
/// gc/default/default.c of 3.4.5, and of the main branch, 001b7587).
pub const GROWS_TO_INIT_SLOTS: VersionRange = VersionRange::between(V3_3, V3_3);
/// `RUBY_GC_HEAP_GROWTH_MAX_BYTES` took the place of `RUBY_GC_HEAP_GROWTH_MAX_SLOTS`.
pub const GROWTH_IN_BYTES: VersionRange = VersionRange::from(V4_1);

/// The facts above with the words of the docs.
pub const FACTS: [(&str, VersionRange); 14] = [
    ("the probe observes it", OBSERVED),
    ("heap pages come from malloc", HEAP_PAGES_FROM_MALLOC),
    ("transient heap", TRANSIENT_HEAP),
    ("a hook on GC events slows allocation", GC_HOOK_SLOWS_ALLOCATION),
    ("GC time", GC_TIME),
    ("`GC.stat_heap`, slots of several sizes", SLOT_SIZES),
    ("live slots by size", LIVE_SLOTS_BY_SIZE),
    ("`Process._fork`", FORK_HOOK),
    ("`Process.warmup`", PROCESS_WARMUP),
    ("preregistered postponed jobs", PREREGISTERED_JOBS),
    ("postponed jobs registered each time", JOBS_REGISTERED_EACH_TIME),
    ("touches its whole main stack at start", TOUCHES_MAIN_STACK),
    ("counts its own malloc", MALLOC_TOTALS),
    ("names its mappings", NAMED_MAPPINGS),
];

/// Sizes of the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapLayout {
    /// The versions that have it.
    pub versions: VersionRange,
    /// Bytes of a heap page.
    pub page_bytes: u32,
    /// Bytes of a slot, for each size.
    pub slot_bytes: &'static [u16],
}

/// The heap's sizes by version. The probe asks Ruby itself; these are what it should find.
pub const HEAP_LAYOUTS: [HeapLayout; 3] = [
    HeapLayout { versions: VersionRange::up_to(V3_1), page_bytes: 16 << 10, slot_bytes: &[40] },
    HeapLayout {
        versions: VersionRange::between(V3_2, V4_0),
        page_bytes: 64 << 10,
        slot_bytes: &[40, 80, 160, 320, 640],
    },
    HeapLayout {
        versions: VersionRange::from(V4_1),
        page_bytes: 64 << 10,
        slot_bytes: &[32, 40, 64, 80, 96, 128, 160, 256, 512, 640, 768, 1024],
    },
];

/// The heap's sizes in one version.
pub fn heap_layout(version: RubyVersion) -> Option<&'static HeapLayout> {
    HEAP_LAYOUTS.iter().find(|layout| layout.versions.contains(version))
}

/// Whether a version came after the last that the table describes.
pub fn is_newer_than_known(version: RubyVersion) -> bool {
    VERSIONS.last().is_some_and(|last| version > *last)
}

/// A key of `GC.stat` and the word of the shared page that it fills.
#[derive(Debug, Clone, Copy)]
pub struct GcStatKey {
    /// The key.
    pub name: &'static CStr,
    /// The word of the shared page.
    pub word: Gc,
    /// The word's value for one unit of the key.
    pub unit: u64,
    /// The versions that have the key.
    pub versions: VersionRange,
}

const fn key(name: &'static CStr, word: Gc, versions: VersionRange) -> GcStatKey {
    GcStatKey { name, word, unit: 1, versions }
}

/// Ruby counts milliseconds, the page nanoseconds.
const fn time(name: &'static CStr, word: Gc, versions: VersionRange) -> GcStatKey {
    GcStatKey { name, word, unit: 1_000_000, versions }
}

/// Every key of `GC.stat` that the probe reads. It checks each at load time, so a Ruby with other keys than listed here
/// loses figures and nothing else.
pub const GC_STAT_KEYS: [GcStatKey; 24] = [
    key(c"count", Gc::Count, VersionRange::ALL),
    key(c"minor_gc_count", Gc::Minor, VersionRange::ALL),
    key(c"major_gc_count", Gc::Major, VersionRange::ALL),
    time(c"time", Gc::TimeNs, GC_TIME),
    time(c"marking_time", Gc::MarkingNs, VersionRange::from(V3_3)),
    time(c"sweeping_time", Gc::SweepingNs, VersionRange::from(V3_3)),
    key(c"heap_live_slots", Gc::LiveSlots, VersionRange::ALL),
    key(c"heap_free_slots", Gc::FreeSlots, VersionRange::ALL),
    key(c"heap_available_slots", Gc::AvailableSlots, VersionRange::ALL),
    key(c"heap_final_slots", Gc::FinalSlots, VersionRange::ALL),
    key(c"heap_eden_pages", Gc::EdenPages, VersionRange::ALL),
    key(c"heap_tomb_pages", Gc::TombPages, VersionRange::up_to(V3_3)),
    key(c"heap_empty_pages", Gc::EmptyPages, VersionRange::from(V3_4)),
    key(c"heap_allocated_pages", Gc::HeapPages, VersionRange::ALL),
    key(c"heap_allocatable_pages", Gc::AllocatablePages, VersionRange::up_to(V3_3)),
    key(c"heap_sorted_length", Gc::SortedLength, VersionRange::up_to(V3_3)),
    key(c"total_allocated_objects", Gc::AllocatedObjects, VersionRange::ALL),
    key(c"total_freed_objects", Gc::FreedObjects, VersionRange::ALL),
    key(c"old_objects", Gc::OldObjects, VersionRange::ALL),
    key(c"malloc_increase_bytes", Gc::MallocIncrease, VersionRange::ALL),
    key(c"oldmalloc_increase_bytes", Gc::OldmallocIncrease, VersionRange::ALL),
    key(c"compact_count", Gc::Compactions, VersionRange::from(V2_7)),
    key(c"total_malloc_bytes", Gc::MallocAllocated, MALLOC_TOTALS),
    key(c"total_free_bytes", Gc::MallocFreed, MALLOC_TOTALS),
];

/// The key of `GC.stat` under which a collector other than Ruby's own, such as MMTk, counts the bytes of its objects
/// (gc/mmtk/mmtk.c, Ruby 3.4).
pub const COLLECTOR_USED: &CStr = c"used_bytes";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_ordered_and_displayed() {
        assert_eq!("3.3".parse(), Ok(V3_3));
        assert_eq!("3.3.8".parse(), Ok(V3_3));
        for text in ["", "3", "3.", "3.x", "ruby 3.3", "3.3-dev", ".3"] {
            assert!(text.parse::<RubyVersion>().is_err(), "{text}");
        }
        assert!(V2_7 < V3_0 && V3_4 < V4_0 && RubyVersion::new(3, 10) > V3_4);
        assert_eq!(V3_4.to_string(), "3.4");
        assert!(VERSIONS.is_sorted());
    }

    #[test]
    fn a_version_is_found_in_a_description_and_in_a_librarys_name() {
        for (text, version) in [
            ("ruby 3.1.2p20 (2022-04-12 revision 4491bb740a)", Some(V3_1)),
            ("-2.7.so.2.7.4", Some(V2_7)),
            (".so.3.3.8", Some(V3_3)),
            (".so", None),
        ] {
            assert_eq!(RubyVersion::find_in(text), version, "{text}");
        }
    }

    #[test]
    fn ranges_include_their_bounds_and_say_so() {
        let range = VersionRange::between(V2_7, V3_2);
        assert!(range.contains(V2_7) && range.contains(V3_2) && !range.contains(V3_3));
        assert_eq!(range.to_string(), "2.7 to 3.2");
        assert_eq!(VersionRange::from(V3_3).to_string(), "3.3 and later");
        assert_eq!(VersionRange::up_to(V3_3).to_string(), "3.3 and earlier");
        assert_eq!(TOUCHES_MAIN_STACK.to_string(), "3.3");
    }

    #[test]
    fn old_versions_are_not_observed_and_new_ones_are_as_far_as_possible() {
        let v5 = RubyVersion::new(5, 0);
        for (version, observed, newer) in [
            (V2_6, false, false),
            (V2_7, true, false),
            (V3_4, true, false),
            (V4_0, true, false),
            (V4_1, true, false),
            (v5, true, true),
        ] {
            assert_eq!(OBSERVED.contains(version), observed, "{version}");
            assert_eq!(is_newer_than_known(version), newer, "{version}");
        }
    }

    #[test]
    fn every_version_has_one_heap_layout_and_each_word_one_key() {
        for version in VERSIONS {
            let layouts = HEAP_LAYOUTS.iter().filter(|layout| layout.versions.contains(version));
            assert_eq!(layouts.count(), 1, "{version}");
            let several = heap_layout(version).is_some_and(|layout| layout.slot_bytes.len() > 1);
            assert_eq!(several, SLOT_SIZES.contains(version), "{version}");
            for key in GC_STAT_KEYS {
                let same =
                    |other: &&GcStatKey| other.word == key.word && other.versions.contains(version);
                assert!(GC_STAT_KEYS.iter().filter(same).count() <= 1, "{key:?} in {version}");
            }
        }
    }
}
