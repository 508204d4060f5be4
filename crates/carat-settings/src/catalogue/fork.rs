//! Settings for servers that load an application and fork workers: what workers share, and how they grow.

use crate::observation::Moment;
use crate::setting::{Mechanism, Setting, SettingDefinition};
use crate::value::{SettingValue, Switch, WholeNumber};
use carat_ruby::version::{RubyVersion, V2_7};
use carat_wire::page::AllocatorKind;
use std::fmt;

pub(super) const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition::of::<Warm>(),
    SettingDefinition::of::<WarmPaths>(),
    SettingDefinition::of::<CallocArena>(),
    SettingDefinition::of::<FillCallCaches>(),
    SettingDefinition::of::<WorkerGrowth>(),
];

/// How many pages are requested.
#[derive(Debug)]
pub(crate) enum WarmPages {
    Number(WholeNumber<1, 10_000>),
    /// As many as change something.
    Auto,
}

impl fmt::Display for WarmPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl SettingValue for WarmPages {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            _ => WholeNumber::parse(text).map(Self::Number),
        }
    }

    fn accepted() -> String {
        format!("`auto` or {}", WholeNumber::<1, 10_000>::accepted())
    }
}

pub(crate) struct Warm;

impl Setting for Warm {
    type Value = WarmPages;
    const NAME: &'static str = "warm";
    const DEFAULT: &'static str = "0, no page";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::PreloadedFork };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "Once, right before a preloaded server forks for the first time and before `prepare_fork`: requests this many pages of the application (`warm_paths`), so that workers share what the first requests fill. Each page is first requested in a child that is thrown away; if one fails, redirects, streams, hangs, starts a thread or opens a socket, nothing is requested and stderr has the reason. `auto` requests all of them in rounds, until ten more rounds compile no further method (where YJIT is on, which by default compiles a method at its 30th call or, in a large application, at its 120th) and a new child copies as much memory in a round as before them, but for no more than 20 s.";
    const COSTS: &'static str = "The time of the pages at boot. A page that has an effect has it once per request, so name pages that only read.";
    const VERIFIED_BY: &'static str =
        "the runtime's report in the shared page: all pages answered with a status of 200 to 299";
}

/// Absolute paths, separated by commas.
pub(crate) struct PathList(Vec<String>);

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

pub(crate) struct WarmPaths;

impl Setting for WarmPaths {
    type Value = PathList;
    const NAME: &'static str = "warm_paths";
    const DEFAULT: &'static str = "/";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::PreloadedFork };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "The pages that `warm` requests in turn. Without a choice of `warm` it means `warm=auto`: who names pages that only read wants them requested.";
    const COSTS: &'static str = "Nothing by itself.";
}

struct CallocArena;

impl Setting for CallocArena {
    type Value = Switch;
    const NAME: &'static str = "calloc_arena";
    const DEFAULT: &'static str = "off";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::Start };
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
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::PreloadedFork };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const LEVELS: &'static [&'static str] = &["on"];
    const FORKS: bool = true;
    const DOES: &'static str = "Once, right before a preloaded server forks for the first time: gives every call site without a cache one that no call matches. A full GC of Ruby 3.3 writes to call sites that have none, which copies most pages of malloc in every worker. Other versions do not do that: nothing is done there, and it is reported as not needed.";
    const COSTS: &'static str = "Milliseconds at the fork. It writes to memory that Ruby's API does not describe. Where the call sites are is found each time, in two methods of Carat's own; if anything read there does not agree, nothing is written and stderr says so.";
    const VERIFIED_BY: &'static str =
        "the runtime's report in the shared page, which also has the number of call sites";
}

struct WorkerGrowth;

/// The most that a Ruby can count in bytes, with slots of 40 bytes.
const MOST_GROWTH: u64 = u64::MAX / 40;

impl Setting for WorkerGrowth {
    type Value = WholeNumber<1_000, MOST_GROWTH>;
    const NAME: &'static str = "worker_growth";
    const DEFAULT: &'static str = "Ruby's own ratios";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::PreloadedFork };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const LEVELS: &'static [&'static str] = &["40000"];
    const FORKS: bool = true;
    const DOES: &'static str = "The most slots of 40 bytes by which the heap of a worker grows before it collects, and no more than a tenth of the objects that live at the fork. Ruby's ratios count inherited slots, so that every worker of a large application may grow by tens of megabytes first. Ruby reads its ratios once, when it starts; they are changed where it keeps them, right before a preloaded server forks, so that the boot is Ruby's own. A worker that loads the application itself gets Ruby's own ratios back. On Ruby 2.7 to 3.1 a worker also starts with two and a half times as many free slots, and a full GC leaves it as many; where it finds fewer than the limit, the heap grows. On Ruby 3.3 the heap of one size of slots may grow by as much again where a minor collection leaves it full, unless pages are requested before the fork (`warm`). Ruby 3.4 and 4.0 count slots of any size, so their limit is half as many; each of their heaps keeps 2 % free. Single settings `gc.*` override it.";
    const COSTS: &'static str = "More GCs in workers, the more of them the smaller the value and the more a request allocates (docs/evidence/remedies.md has the trials); some minor collections before the first fork. It writes to memory that Ruby's API does not describe: where the ratios are is found by their values each time, and if not exactly one place has them, nothing is written and stderr says so. Its control is the profile without it.";
    const VERIFIED_BY: &'static str = "the runtime's report in the shared page, which also has the pages by which the worker may grow";
}

#[cfg(test)]
mod tests {
    use super::*;

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
