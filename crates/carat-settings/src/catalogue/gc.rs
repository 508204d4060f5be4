//! Ruby's own variables that tune its garbage collector.
//!
//! Ruby ignores a value outside its bounds (`ruby_gc_set_params` in gc.c, 2.7 to 4.1: a size must be above 0, a factor of growth
//! above 1, a ratio above 0 and at most 1), so that the types here refuse it.

use crate::environment::Environment;
use crate::observation::{ProcessObservation, SettingStatus};
use crate::setting::{Mechanism, Setting, SettingDefinition};
use crate::value::{DecimalNumber, MemorySize, NumberAbove, SettingValue, WholeNumber};
use carat_ruby::version::{RubyVersion, V2_7, V3_2, V3_3, V4_0, V4_1};

pub(super) const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition::of::<GrowthFactor>(),
    SettingDefinition::of::<GrowthMaxSlots>(),
    SettingDefinition::of::<GrowthMaxBytes>(),
    SettingDefinition::of::<InitSlots>(),
    SettingDefinition::of::<Heap0InitSlots>(),
    SettingDefinition::of::<InitBytes>(),
    SettingDefinition::of::<FreeSlots>(),
    SettingDefinition::of::<FreeSlotsMaxRatio>(),
    SettingDefinition::of::<FreeSlotsMinRatio>(),
    SettingDefinition::of::<OldobjectLimitFactor>(),
    SettingDefinition::of::<MallocLimit>(),
    SettingDefinition::of::<MallocLimitMax>(),
    SettingDefinition::of::<OldmallocLimit>(),
    SettingDefinition::of::<OldmallocLimitMax>(),
];

pub(super) struct GrowthFactor;

impl Setting for GrowthFactor {
    type Value = NumberAbove<1, 4>;
    const NAME: &'static str = "gc.growth_factor";
    const DEFAULT: &'static str = "1.8";
    const MECHANISM: Mechanism = Mechanism::Variable("RUBY_GC_HEAP_GROWTH_FACTOR");
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const LEVELS: &'static [&'static str] = &["1.1"];
    const DOES: &'static str = "How much larger the heap of slots gets each time it grows.";
    const COSTS: &'static str = "Small steps mean more GCs while the heap grows.";
}

pub(super) struct GrowthMaxSlots;

impl Setting for GrowthMaxSlots {
    type Value = WholeNumber<0, { u64::MAX }>;
    const NAME: &'static str = "gc.growth_max_slots";
    const DEFAULT: &'static str = "0, no limit";
    const MECHANISM: Mechanism = Mechanism::Variable("RUBY_GC_HEAP_GROWTH_MAX_SLOTS");
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const UNTIL: Option<RubyVersion> = Some(V4_0);
    const SUCCESSOR: Option<&'static str> = Some(GrowthMaxBytes::NAME);
    const DOES: &'static str = "Limits by how many slots the heap grows each time.";
    const COSTS: &'static str = "Small steps mean more GCs while the heap grows.";
}

pub(super) struct GrowthMaxBytes;

impl Setting for GrowthMaxBytes {
    type Value = MemorySize;
    const NAME: &'static str = "gc.growth_max_bytes";
    const DEFAULT: &'static str = "0, no limit";
    const MECHANISM: Mechanism = Mechanism::Variable("RUBY_GC_HEAP_GROWTH_MAX_BYTES");
    const SINCE: Option<RubyVersion> = Some(V4_1);
    const DOES: &'static str = "Limits by how many bytes the heap grows each time.";
    const COSTS: &'static str = "Small steps mean more GCs while the heap grows.";
}

/// Ruby 3.1 aborts at its start below 9816 slots, which are its first 24 pages (measured on 3.1.2: `[BUG] heap_page_allocate:
/// allocated(25) > sorted(24)`; 2.7 and 3.2 start with one slot). Ruby's own default is the next round number.
const LEAST_INIT_SLOTS: u64 = 10_000;

pub(super) struct InitSlots;

impl Setting for InitSlots {
    type Value = WholeNumber<LEAST_INIT_SLOTS, { u64::MAX }>;
    const NAME: &'static str = "gc.init_slots";
    const DEFAULT: &'static str = "10000";
    const MECHANISM: Mechanism = Mechanism::Variable("RUBY_GC_HEAP_INIT_SLOTS");
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const UNTIL: Option<RubyVersion> = Some(V3_2);
    const SUCCESSOR: Option<&'static str> = Some(Heap0InitSlots::NAME);
    const DOES: &'static str =
        "Slots of the heap at the start. Ruby 3.1 aborts with fewer than its default.";
    const COSTS: &'static str = "Memory for slots that may never be used.";
}

pub(super) struct Heap0InitSlots;

impl Setting for Heap0InitSlots {
    type Value = WholeNumber<1, { u64::MAX }>;
    const NAME: &'static str = "gc.heap_0_init_slots";
    const DEFAULT: &'static str = "10000";
    const MECHANISM: Mechanism = Mechanism::Variable("RUBY_GC_HEAP_0_INIT_SLOTS");
    const SINCE: Option<RubyVersion> = Some(V3_3);
    const UNTIL: Option<RubyVersion> = Some(V4_0);
    const SUCCESSOR: Option<&'static str> = Some(InitBytes::NAME);
    const DOES: &'static str = "Smallest number of slots in the pool of the smallest slots.";
    const COSTS: &'static str = "Memory for slots that may never be used.";
}

/// Ruby 4.1 aborts at its start below 768 bytes (measured on a snapshot: `[BUG] cannot create a new page after major GC`).
const LEAST_INIT_BYTES: u64 = 1 << 10;

pub(super) struct InitBytes;

impl Setting for InitBytes {
    type Value = MemorySize<LEAST_INIT_BYTES>;
    const NAME: &'static str = "gc.heap_init_bytes";
    const DEFAULT: &'static str = "2560k";
    const MECHANISM: Mechanism = Mechanism::Variable("RUBY_GC_HEAP_INIT_BYTES");
    const SINCE: Option<RubyVersion> = Some(V4_1);
    const DOES: &'static str =
        "Bytes of slots of each size up to which Ruby grows the heap rather than collects.";
    const COSTS: &'static str = "Memory for slots that may never be used.";
}

pub(super) struct FreeSlots;

impl Setting for FreeSlots {
    type Value = WholeNumber<1, { u64::MAX }>;
    const NAME: &'static str = "gc.free_slots";
    const DEFAULT: &'static str = "4096";
    const MECHANISM: Mechanism = Mechanism::Variable("RUBY_GC_HEAP_FREE_SLOTS");
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "Free slots there should be after a GC.";
    const COSTS: &'static str = "Few free slots mean more GCs.";
}

/// The variable of [`FreeSlotsMaxRatio`].
const MAX_RATIO: &str = "RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO";
/// The variable of [`FreeSlotsMinRatio`].
const MIN_RATIO: &str = "RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO";
/// Its value where it is not set (`GC_HEAP_FREE_SLOTS_MIN_RATIO`, gc.c).
const USUAL_MIN_RATIO: f64 = 0.2;

pub(super) struct FreeSlotsMaxRatio;

impl Setting for FreeSlotsMaxRatio {
    type Value = NumberAbove<0, 1>;
    const NAME: &'static str = "gc.free_slots_max_ratio";
    const DEFAULT: &'static str = "0.65";
    const MECHANISM: Mechanism = Mechanism::Variable(MAX_RATIO);
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "Share of free slots above which empty pages go back to the kernel.";
    const COSTS: &'static str = "A low share means that pages are freed and taken again. Ruby ignores a share that is not above `gc.free_slots_min_ratio`.";

    fn verify(
        value: &Self::Value,
        process: &ProcessObservation<'_>,
        environment: &Environment,
    ) -> SettingStatus {
        // The process first: it can have been started with another value than carat's.
        let known = process.variable(MIN_RATIO).or_else(|| environment.set.get(MIN_RATIO).cloned());
        let least = known.and_then(|text| NumberAbove::<0, 1>::parse(&text));
        let least = least.map_or(USUAL_MIN_RATIO, |ratio| ratio.0);
        match process.has_variable(MAX_RATIO, &value.to_string()) {
            // Ruby reads the minimum first and makes it the lower bound of this one (gc.c).
            SettingStatus::Applied(_) if value.0 <= least => SettingStatus::NotApplied(format!(
                "Ruby ignores values that are not above gc.free_slots_min_ratio, which is {least} here"
            )),
            status => status,
        }
    }
}

pub(super) struct FreeSlotsMinRatio;

impl Setting for FreeSlotsMinRatio {
    type Value = NumberAbove<0, 1>;
    const NAME: &'static str = "gc.free_slots_min_ratio";
    const DEFAULT: &'static str = "0.20";
    const MECHANISM: Mechanism = Mechanism::Variable(MIN_RATIO);
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "Share of free slots below which the heap grows.";
    const COSTS: &'static str = "A low share means more GCs, a high one more memory.";
}

pub(super) struct OldobjectLimitFactor;

impl Setting for OldobjectLimitFactor {
    type Value = DecimalNumber<1, 10>;
    const NAME: &'static str = "gc.oldobject_limit_factor";
    const DEFAULT: &'static str = "2.0";
    const MECHANISM: Mechanism = Mechanism::Variable("RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR");
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const LEVELS: &'static [&'static str] = &["1.2"];
    const DOES: &'static str =
        "A full GC runs when there are this many times the old objects of the last one.";
    const COSTS: &'static str = "A low factor means more full GCs.";
}

pub(super) struct MallocLimit;

impl Setting for MallocLimit {
    type Value = MemorySize<1>;
    const NAME: &'static str = "gc.malloc_limit";
    const DEFAULT: &'static str = "16m";
    const MECHANISM: Mechanism = Mechanism::Variable("RUBY_GC_MALLOC_LIMIT");
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "A minor GC runs after this much malloc at first.";
    const COSTS: &'static str = "A low limit means more GCs.";
}

pub(super) struct MallocLimitMax;

impl Setting for MallocLimitMax {
    type Value = MemorySize<1>;
    const NAME: &'static str = "gc.malloc_limit_max";
    const DEFAULT: &'static str = "32m";
    const MECHANISM: Mechanism = Mechanism::Variable("RUBY_GC_MALLOC_LIMIT_MAX");
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "How far `gc.malloc_limit` may grow by itself.";
    const COSTS: &'static str = "A low limit means more GCs.";
}

pub(super) struct OldmallocLimit;

impl Setting for OldmallocLimit {
    type Value = MemorySize<1>;
    const NAME: &'static str = "gc.oldmalloc_limit";
    const DEFAULT: &'static str = "16m";
    const MECHANISM: Mechanism = Mechanism::Variable("RUBY_GC_OLDMALLOC_LIMIT");
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "A full GC runs after this much malloc for old objects at first.";
    const COSTS: &'static str = "A low limit means more full GCs.";
}

pub(super) struct OldmallocLimitMax;

impl Setting for OldmallocLimitMax {
    type Value = MemorySize<1>;
    const NAME: &'static str = "gc.oldmalloc_limit_max";
    const DEFAULT: &'static str = "128m";
    const MECHANISM: Mechanism = Mechanism::Variable("RUBY_GC_OLDMALLOC_LIMIT_MAX");
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "How far `gc.oldmalloc_limit` may grow by itself.";
    const COSTS: &'static str = "A low limit means more full GCs.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::tests::word;

    #[test]
    fn a_heap_with_which_ruby_could_not_start_is_refused() {
        for (name, value, accepted) in [
            ("gc.init_slots", "999", false),
            ("gc.init_slots", "9999", false),
            ("gc.init_slots", "10000", true),
            ("gc.heap_init_bytes", "767", false),
            ("gc.heap_init_bytes", "1k", true),
            ("gc.heap_0_init_slots", "1", true),
        ] {
            let found = SETTINGS.iter().find(|setting| setting.name == name).unwrap();
            assert_eq!(found.choose(value).is_some(), accepted, "{name}={value}");
        }
    }

    #[test]
    fn a_ratio_that_ruby_ignores_beside_the_other_ratio_is_not_applied() {
        for (value, environ, expected) in [
            ("0.3", "RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO=0.3\0", "applied"),
            ("0.2", "RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO=0.2\0", "not applied"),
            ("0.15", "RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO=0.15\0", "not applied"),
            (
                "0.15",
                "RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO=0.15\0RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO=0.1\0",
                "applied",
            ),
            // What Ruby ignores leaves its own ratio.
            (
                "0.15",
                "RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO=0.15\0RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO=0\0",
                "not applied",
            ),
            ("0.3", "A=b\0", "unknown"),
        ] {
            let value = NumberAbove::parse(value).unwrap();
            let process =
                ProcessObservation { environ: Some(environ.as_bytes()), ..Default::default() };
            let status = FreeSlotsMaxRatio::verify(&value, &process, &Environment::default());
            assert_eq!(word(&status), expected, "{environ} {status:?}");
        }
    }
}
