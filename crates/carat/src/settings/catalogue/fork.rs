//! Settings for servers that load an application and fork workers: what workers share, and how they grow.

use crate::settings::environment::{ApplyError, EnvironmentBuilder};
use crate::settings::setting::{Mechanism, Setting, SettingDefinition};
use crate::settings::value::{SettingValue, Switch, WholeNumber};
use carat_ruby::version::{GROWTH_IN_SLOTS_OF_ANY_SIZE, RubyVersion, SLOT_SIZES, V2_7};
use carat_wire::page::AllocatorKind;
use std::fmt;

pub(super) const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition::of::<Warm>(),
    SettingDefinition::of::<WarmPaths>(),
    SettingDefinition::of::<CallocArena>(),
    SettingDefinition::of::<FillCallCaches>(),
    SettingDefinition::of::<WorkerGrowth>(),
];

struct Warm;

impl Setting for Warm {
    type Value = WholeNumber<1, 10_000>;
    const NAME: &'static str = "warm";
    const DEFAULT: &'static str = "0, no page";
    const MECHANISM: Mechanism =
        Mechanism::Runtime { pending: "no preloaded application has forked yet" };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "Once, right before a preloaded server forks for the first time and before `prepare_fork`: requests this many pages of the application (`warm_paths`), so that workers share what the first requests fill. Each page is first requested in a child that is thrown away; if one fails, redirects, streams, hangs, starts a thread or opens a socket, nothing is requested and stderr has the reason.";
    const COSTS: &'static str = "The time of the pages at boot. A page that has an effect has it once per request, so name pages that only read.";
    const VERIFIED_BY: &'static str =
        "the runtime's report in the shared page: all pages answered with a status of 200 to 299";
}

/// Absolute paths, separated by commas.
struct PathList(Vec<String>);

impl fmt::Display for PathList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

impl SettingValue for PathList {
    fn parse(text: &str) -> Option<Self> {
        let paths: Vec<String> = text.split(',').map(|path| path.trim().to_owned()).collect();
        // The runtime's request separates settings by semicolons.
        let fits = |path: &String| {
            path.starts_with('/') && !path.contains([';', ' ']) && !path.contains(char::is_control)
        };
        paths.iter().all(fits).then_some(Self(paths))
    }

    fn accepted() -> String {
        "paths that begin with `/`, separated by commas".into()
    }
}

struct WarmPaths;

impl Setting for WarmPaths {
    type Value = PathList;
    const NAME: &'static str = "warm_paths";
    const DEFAULT: &'static str = "/";
    const MECHANISM: Mechanism =
        Mechanism::Runtime { pending: "no preloaded application has forked yet" };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const REQUIRES: Option<(&'static str, &'static str)> = Some(("warm", "20"));
    const DOES: &'static str = "The pages that `warm` requests in turn.";
    const COSTS: &'static str = "Nothing by itself.";
}

struct CallocArena;

impl Setting for CallocArena {
    type Value = Switch;
    const NAME: &'static str = "calloc_arena";
    const DEFAULT: &'static str = "off";
    const MECHANISM: Mechanism = Mechanism::Runtime { pending: "the runtime has not started" };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const MALLOC: Option<AllocatorKind> = Some(AllocatorKind::Jemalloc);
    const LEVELS: &'static [&'static str] = &["on"];
    const FORKS: bool = true;
    const DOES: &'static str = "Until the first fork of a preloaded server, what Ruby allocates with `calloc` comes from an arena of jemalloc of its own. A full GC writes to the bitmaps of heap pages, and on Ruby 3.3 to every call site without a cache; they lie together then, and a worker copies fewer pages.";
    const COSTS: &'static str = "A lock for each of these allocations while the server boots; also later on a server that never forks.";
}

struct FillCallCaches;

impl Setting for FillCallCaches {
    type Value = Switch;
    const NAME: &'static str = "fill_call_caches";
    const DEFAULT: &'static str = "off";
    const MECHANISM: Mechanism =
        Mechanism::Runtime { pending: "no preloaded application has forked yet" };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const LEVELS: &'static [&'static str] = &["on"];
    const FORKS: bool = true;
    const DOES: &'static str = "Once, right before a preloaded server forks for the first time: gives every call site without a cache one that no call matches. A full GC of Ruby 3.3 writes to call sites that have none, which copies most pages of malloc in every worker. Other versions do not do that, and nothing is done there.";
    const COSTS: &'static str = "Milliseconds at the fork. It writes to memory that Ruby's API does not describe. Where the call sites are is found each time, in two methods of Carat's own; if anything read there does not agree, nothing is written and stderr says so.";
    const VERIFIED_BY: &'static str =
        "the runtime's report in the shared page, which also has the number of call sites";
}

struct WorkerGrowth;

/// Ratios of free slots with which a worker collects before it has grown by a share of what it inherited. Ruby aborts if
/// the lower one is too close to 0 (`gc_sweep_finish_size_pool`, gc.c).
const FREE_SLOTS_MIN_RATIO: &str = "0.004";
/// A Ruby whose limit is in slots of any size asks each of its heaps for its share, also after a minor collection
/// (`gc_sweep_finish_heap`, gc/default/default.c of 3.4). With the one above, a worker of the blog collected on every third to
/// fifth page (docs/remedies.md has the trials).
const FREE_SLOTS_MIN_RATIO_OF_ANY_SIZE: &str = "0.02";
const FREE_SLOTS_GOAL_RATIO: &str = "0.05";
/// The parent of a Ruby without `Process.warmup` would otherwise keep empty pages from its boot, up to 65 %. Where there is a
/// heap for each size (3.2 and later), collections would take the last pages from those of large slots, which the lower
/// ratio then keeps from growing: a worker would collect in every request.
const FREE_SLOTS_MAX_RATIO: &str = "0.1";
/// Where there is one heap for all sizes, a full collection gives no page back while there are fewer free slots than
/// `RUBY_GC_HEAP_INIT_SLOTS` (`gc_marks_finish`, gc.c of 3.1). Of what a request holds while a minor collection runs, much
/// stays until the next full one, so that without this floor the workers of a small application would collect fully every
/// 60 pages or so. It is this many times the growth, but no more than the limit, because Ruby allocates as many when it
/// starts. With 2 a small application still collected fully twice as often as without the setting, with 3 it needed more
/// memory (docs/remedies.md).
const FREE_AFTER_FULL: f64 = 2.5;
const MOST_FREE_AFTER_FULL: u64 = 200_000;
/// Bytes that a slot counts for a Ruby that limits the growth in bytes (4.1).
const SLOT_BYTES: u64 = 40;
/// Slots of 40 bytes that one slot counts for a Ruby whose limit is in slots of any size: those of a request have 40 to 320
/// bytes.
const SLOTS_PER_SLOT: u64 = 2;

impl Setting for WorkerGrowth {
    type Value = WholeNumber<1_000, { u64::MAX / SLOT_BYTES }>;
    const NAME: &'static str = "worker_growth";
    const DEFAULT: &'static str = "Ruby's own ratios";
    const MECHANISM: Mechanism =
        Mechanism::Runtime { pending: "no preloaded application has forked yet" };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const LEVELS: &'static [&'static str] = &["40000"];
    const FORKS: bool = true;
    const DOES: &'static str = "The most slots of 40 bytes by which the heap of a worker grows before it collects. Ruby's ratios count inherited slots, so that every worker of a large application may grow by tens of megabytes first. On Ruby 2.7 to 3.1 a worker also starts with two and a half times as many free slots, and a full GC leaves it as many; where it finds fewer than the limit, the heap grows. Ruby 3.4 and 4.0 count slots of any size, so their limit is half as many; each of their heaps keeps 2 % free. Until the first fork the runtime decides when to collect, because these ratios would collect all the time while the server boots. Single settings `gc.*` override it.";
    const COSTS: &'static str = "More GCs in workers, the more of them the smaller the value and the more a request allocates (docs/remedies.md has the trials); a higher peak while booting.";
    const VERIFIED_BY: &'static str = "the runtime's report in the shared page, which also has the pages by which the worker may grow";

    fn apply(value: &Self::Value, server: &mut EnvironmentBuilder<'_>) -> Result<(), ApplyError> {
        let version = server.context.version;
        let of_any_size = version.is_some_and(|v| GROWTH_IN_SLOTS_OF_ANY_SIZE.contains(v));
        let (slots, min_ratio) = if of_any_size {
            (value.0 / SLOTS_PER_SLOT, FREE_SLOTS_MIN_RATIO_OF_ANY_SIZE)
        } else {
            (value.0, FREE_SLOTS_MIN_RATIO)
        };
        let bytes = value.0 * SLOT_BYTES;
        for (variable, value) in [
            ("RUBY_GC_HEAP_GROWTH_MAX_SLOTS", slots.to_string()),
            ("RUBY_GC_HEAP_GROWTH_MAX_BYTES", bytes.to_string()),
            ("RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO", min_ratio.to_owned()),
            ("RUBY_GC_HEAP_FREE_SLOTS_GOAL_RATIO", FREE_SLOTS_GOAL_RATIO.to_owned()),
        ] {
            server.set(variable, value);
        }
        if version.is_some_and(|version| !SLOT_SIZES.contains(version)) {
            server.set("RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO", FREE_SLOTS_MAX_RATIO.to_owned());
            server.set("RUBY_GC_HEAP_INIT_SLOTS", free_after_full(value.0).to_string());
            server.set("RUBY_GC_HEAP_FREE_SLOTS", grows_below(value.0).to_string());
        }
        server.request(Self::NAME, &value.to_string());
        Ok(())
    }
}

/// Free slots that a worker keeps after a full collection if it may grow by `growth` slots.
fn free_after_full(growth: u64) -> u64 {
    ((growth as f64 * FREE_AFTER_FULL) as u64).min(MOST_FREE_AFTER_FULL)
}

/// With one heap, Ruby lets it grow if a full collection has found fewer free slots than this, 4,096 by default, or than the
/// lower ratio. A worker whose own objects had used up what it started with collected nearly all the time: Redmine's
/// needed half as much processor time again, also with half of the growth here. A minor collection that finds fewer calls
/// for a full one, so a full one leaves one and a half growths more.
fn grows_below(growth: u64) -> u64 {
    growth.min((MOST_FREE_AFTER_FULL as f64 / FREE_AFTER_FULL) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_may_grow_without_limit_does_not_start_with_a_heap_without_limit() {
        assert_eq!((free_after_full(40_000), grows_below(40_000)), (100_000, 40_000));
        assert_eq!(free_after_full(u64::MAX / SLOT_BYTES), MOST_FREE_AFTER_FULL);
    }

    #[test]
    fn a_list_of_paths_holds_only_absolute_paths() {
        for (text, expected) in [
            ("/", Some("/")),
            ("/, /posts/1?page=2", Some("/,/posts/1?page=2")),
            ("posts", None),
            ("/a;compact=boot", None),
            ("/a b", None),
            ("", None),
            ("/,", None),
        ] {
            let parsed = PathList::parse(text).map(|list| list.to_string());
            assert_eq!(parsed.as_deref(), expected, "{text}");
        }
    }
}
