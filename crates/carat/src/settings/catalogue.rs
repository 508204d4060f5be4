//! The table of every setting.

use crate::settings::value::Values;

/// How a setting reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// An environment variable that the server's own software reads.
    Variable(&'static str),
    /// A tunable of glibc, set in `GLIBC_TUNABLES`.
    Tunable(&'static str),
    /// A library that the loader maps before all others.
    Preload,
    /// The runtime library inside Ruby does it.
    Runtime,
    /// The user's own variables, as they are.
    Variables,
    /// Whoever starts the server does it.
    Starter,
}

/// One entry of the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The name in files, on the command line and in reports.
    pub name: &'static str,
    /// What it accepts.
    pub values: Values,
    /// The value that leaves everything as it is.
    pub default: &'static str,
    /// How it reaches the server.
    pub mechanism: Mechanism,
    /// The first Ruby on which it does anything; `None` where the Ruby does not matter.
    pub since: Option<&'static str>,
    /// What it does.
    pub does: &'static str,
    /// What it costs.
    pub costs: &'static str,
    /// How to see that it took.
    pub verify: &'static str,
}

const IN_THE_ENVIRONMENT: &str = "the variable stands in /proc/PID/environ";
const IN_THE_PAGE: &str = "the runtime writes it into the shared page";

/// Every setting, in canonical order.
pub const CATALOGUE: &[Setting] = &[
    Setting {
        name: "allocator",
        values: Values::WordsOrPath(&["system", "jemalloc", "mimalloc", "tcmalloc"]),
        default: "system",
        mechanism: Mechanism::Preload,
        since: None,
        does: "Preloads another malloc. Its settings, not its name, decide what an idle server keeps.",
        costs: "About 1 MB per process; a few percent of speed in either direction.",
        verify: "the library is mapped in /proc/PID/maps",
    },
    Setting {
        name: "arena_max",
        values: Values::Count(1, 1024),
        default: "8 per core",
        mechanism: Mechanism::Variable("MALLOC_ARENA_MAX"),
        since: None,
        does: "Limits glibc's malloc to that many arenas, so that threads share their free memory.",
        costs: "Threads wait for each other in malloc; Heroku saw 3 % slower responses with 2.",
        verify: "the variable stands in /proc/PID/environ and /proc/PID/maps shows at most that many arenas",
    },
    Setting {
        name: "malloc.trim_threshold",
        values: Values::Size,
        default: "128k, growing",
        mechanism: Mechanism::Variable("MALLOC_TRIM_THRESHOLD_"),
        since: None,
        does: "Returns the top of glibc's heap to the kernel above this size, and stops the threshold from growing.",
        costs: "More system calls while the heap's top moves.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "malloc.mmap_threshold",
        values: Values::Size,
        default: "128k, growing",
        mechanism: Mechanism::Variable("MALLOC_MMAP_THRESHOLD_"),
        since: None,
        does: "Gives larger blocks a mapping of their own, which goes back to the kernel when freed, and stops the threshold from growing.",
        costs: "A system call and fresh page faults for every such block.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "malloc.top_pad",
        values: Values::Size,
        default: "128k",
        mechanism: Mechanism::Variable("MALLOC_TOP_PAD_"),
        since: None,
        does: "Grows glibc's heap by this much more than was asked for.",
        costs: "A large pad keeps memory; a small one means more system calls.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "malloc.tcache_count",
        values: Values::Count(0, 65_535),
        default: "7",
        mechanism: Mechanism::Tunable("glibc.malloc.tcache_count"),
        since: None,
        does: "Limits how many free blocks of each size a thread keeps for itself.",
        costs: "A small count means more locking in malloc.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "malloc_conf",
        values: Values::Text,
        default: "empty",
        mechanism: Mechanism::Variable("MALLOC_CONF"),
        since: None,
        does: "Options of jemalloc, such as `dirty_decay_ms:1000,narenas:2,background_thread:true`.",
        costs: "What the option costs; short decay means more page faults.",
        verify: "the variable stands in /proc/PID/environ and jemalloc is mapped",
    },
    Setting {
        name: "compact",
        values: Values::Words(&["off", "boot", "before-fork", "auto"]),
        default: "off",
        mechanism: Mechanism::Runtime,
        since: Some("2.7"),
        does: "Compacts Ruby's heap: once when the server has booted, once before its first fork, or (`auto`, 3.0) with every full GC.",
        costs: "A stop of some tens of milliseconds; C extensions that hide objects from the GC can crash; `auto` slows every full GC.",
        verify: IN_THE_PAGE,
    },
    Setting {
        name: "trim",
        values: Values::Words(&["off", "full-gc", "idle", "in-gc"]),
        default: "off",
        mechanism: Mechanism::Runtime,
        since: Some("2.7"),
        does: "Returns free malloc memory to the kernel after a full GC has swept, from a thread outside the GVL; `idle` waits for a quiet moment too. `in-gc` does it within every full GC, as the patch of 2019 did, to compare with.",
        costs: "Some milliseconds of another core per full GC, and page faults when the memory is needed again; it backs off where little comes back. `in-gc` makes the server wait, every time.",
        verify: IN_THE_PAGE,
    },
    Setting {
        name: "prepare_fork",
        values: Values::Words(&["off", "warmup", "full"]),
        default: "off",
        mechanism: Mechanism::Runtime,
        since: Some("2.7"),
        does: "Once, right before a preloaded server forks for the first time: makes all objects old, compacts, frees empty pages and purges malloc, so that workers share more. `full` collects four times first, so that chains of weak references and finalizers are gone too.",
        costs: "A stop of some hundred milliseconds at boot; the compaction's risk, unless `compact = \"off\"` is set too.",
        verify: IN_THE_PAGE,
    },
    Setting {
        name: "seal",
        values: Values::Words(&["off", "on"]),
        default: "off",
        mechanism: Mechanism::Runtime,
        since: Some("2.7"),
        does: "With `prepare_fork`: fills free slots and free holes of malloc before the fork, or gives each child an arena of its own, so that workers do not write into shared pages.",
        costs: "The filled holes stay filled in every worker; some tens of milliseconds at boot.",
        verify: IN_THE_PAGE,
    },
    Setting {
        name: "gc_pacing",
        values: Values::Words(&["off", "idle"]),
        default: "off",
        mechanism: Mechanism::Runtime,
        since: Some("2.7"),
        does: "Runs the full GC in an idle moment instead of within a request, then trims.",
        costs: "A full GC more often than Ruby itself would; none while the server is busy.",
        verify: IN_THE_PAGE,
    },
    Setting {
        name: "gc.growth_factor",
        values: Values::Ratio(1.0, 4.0),
        default: "1.8",
        mechanism: Mechanism::Variable("RUBY_GC_HEAP_GROWTH_FACTOR"),
        since: Some("2.7"),
        does: "How much larger the heap of slots gets each time it grows.",
        costs: "Small steps mean more GCs while the heap grows.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "gc.growth_max_slots",
        values: Values::Count(0, u64::MAX),
        default: "0, no limit",
        mechanism: Mechanism::Variable("RUBY_GC_HEAP_GROWTH_MAX_SLOTS"),
        since: Some("2.7"),
        does: "Limits by how many slots the heap grows each time.",
        costs: "Small steps mean more GCs while the heap grows.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "gc.init_slots",
        values: Values::Count(1, u64::MAX),
        default: "10000",
        mechanism: Mechanism::Variable("RUBY_GC_HEAP_INIT_SLOTS"),
        since: Some("2.7, until 3.2"),
        does: "Slots of the heap at the start; Ruby 3.3 has `gc.heap_0_init_slots` instead.",
        costs: "Memory for slots that may never be used.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "gc.heap_0_init_slots",
        values: Values::Count(1, u64::MAX),
        default: "10000",
        mechanism: Mechanism::Variable("RUBY_GC_HEAP_0_INIT_SLOTS"),
        since: Some("3.3"),
        does: "Smallest number of slots in the pool of the smallest slots.",
        costs: "Memory for slots that may never be used.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "gc.free_slots",
        values: Values::Count(1, u64::MAX),
        default: "4096",
        mechanism: Mechanism::Variable("RUBY_GC_HEAP_FREE_SLOTS"),
        since: Some("2.7"),
        does: "Free slots there should be after a GC.",
        costs: "Few free slots mean more GCs.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "gc.free_slots_max_ratio",
        values: Values::Ratio(0.0, 1.0),
        default: "0.65",
        mechanism: Mechanism::Variable("RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO"),
        since: Some("2.7"),
        does: "Share of free slots above which empty pages go back to the kernel.",
        costs: "A low share means that pages are freed and taken again.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "gc.free_slots_min_ratio",
        values: Values::Ratio(0.0, 1.0),
        default: "0.20",
        mechanism: Mechanism::Variable("RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO"),
        since: Some("2.7"),
        does: "Share of free slots below which the heap grows.",
        costs: "A low share means more GCs, a high one more memory.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "gc.oldobject_limit_factor",
        values: Values::Ratio(1.0, 10.0),
        default: "2.0",
        mechanism: Mechanism::Variable("RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR"),
        since: Some("2.7"),
        does: "A full GC runs when there are this many times the old objects of the last one.",
        costs: "A low factor means more full GCs.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "gc.malloc_limit",
        values: Values::Size,
        default: "16m",
        mechanism: Mechanism::Variable("RUBY_GC_MALLOC_LIMIT"),
        since: Some("2.7"),
        does: "A minor GC runs after this much malloc at first.",
        costs: "A low limit means more GCs.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "gc.malloc_limit_max",
        values: Values::Size,
        default: "32m",
        mechanism: Mechanism::Variable("RUBY_GC_MALLOC_LIMIT_MAX"),
        since: Some("2.7"),
        does: "How far `gc.malloc_limit` may grow by itself.",
        costs: "A low limit means more GCs.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "gc.oldmalloc_limit",
        values: Values::Size,
        default: "16m",
        mechanism: Mechanism::Variable("RUBY_GC_OLDMALLOC_LIMIT"),
        since: Some("2.7"),
        does: "A full GC runs after this much malloc for old objects at first.",
        costs: "A low limit means more full GCs.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "gc.oldmalloc_limit_max",
        values: Values::Size,
        default: "128m",
        mechanism: Mechanism::Variable("RUBY_GC_OLDMALLOC_LIMIT_MAX"),
        since: Some("2.7"),
        does: "How far `gc.oldmalloc_limit` may grow by itself.",
        costs: "A low limit means more full GCs.",
        verify: IN_THE_ENVIRONMENT,
    },
    Setting {
        name: "thp",
        values: Values::Words(&["ruby", "off", "on"]),
        default: "ruby",
        mechanism: Mechanism::Runtime,
        since: Some("2.7"),
        does: "Huge pages: as Ruby decides (it switches them off at its start), off, or on again.",
        costs: "`on` copies up to 2 MB where a worker writes one byte of a shared page.",
        verify: "THP_enabled in /proc/PID/status",
    },
    Setting {
        name: "ksm",
        values: Values::Words(&["off", "on"]),
        default: "off",
        mechanism: Mechanism::Runtime,
        since: Some("2.7"),
        does: "Lets the kernel merge equal pages of the workers (Linux 6.4; an administrator must have started ksmd).",
        costs: "ksmd's processor time, and a page fault for every write into a merged page.",
        verify: "the runtime writes it into the shared page; pages merged in /proc/PID/ksm_stat",
    },
    Setting {
        name: "yjit",
        values: Values::Words(&["ruby", "on", "after-fork"]),
        default: "ruby",
        mechanism: Mechanism::Starter,
        since: Some("3.1; `after-fork` 3.3"),
        does: "Ruby's compiler: as Ruby decides, on from the start, or on in each worker after the fork.",
        costs: "Machine code of some tens of MB per process, for more speed.",
        verify: "`RubyVM::YJIT.enabled?`; RUBY_YJIT_ENABLE stands in /proc/PID/environ",
    },
    Setting {
        name: "ruby",
        values: Values::Path,
        default: "the command's own",
        mechanism: Mechanism::Starter,
        since: None,
        does: "Puts the directory of this `ruby` first in PATH.",
        costs: "Nothing.",
        verify: "/proc/PID/exe",
    },
    Setting {
        name: "root",
        values: Values::Path,
        default: "/",
        mechanism: Mechanism::Starter,
        since: None,
        does: "Makes this directory the root of the server's file system (needs root).",
        costs: "Nothing.",
        verify: "/proc/PID/root",
    },
    Setting {
        name: "env",
        values: Values::Variables,
        default: "empty",
        mechanism: Mechanism::Variables,
        since: None,
        does: "Any other variables: `env = { NAME = \"value\" }`, or `env.NAME=value` on the command line.",
        costs: "Whatever they cost.",
        verify: IN_THE_ENVIRONMENT,
    },
];

/// The entry of that name.
pub fn find(name: &str) -> Option<&'static Setting> {
    CATALOGUE.iter().find(|setting| setting.name == name)
}

/// Every name in the catalogue.
pub fn names() -> impl Iterator<Item = &'static str> {
    CATALOGUE.iter().map(|setting| setting.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_name_of_its_own_and_says_everything() {
        for (i, one) in CATALOGUE.iter().enumerate() {
            assert!(CATALOGUE[i + 1..].iter().all(|other| other.name != one.name), "{}", one.name);
            for text in [one.does, one.costs, one.verify, one.default] {
                assert!(!text.is_empty(), "{}", one.name);
            }
            for sentence in [one.does, one.costs] {
                assert!(sentence.ends_with('.'), "{}: {sentence}", one.name);
            }
        }
    }

    #[test]
    fn the_default_of_a_word_is_one_of_its_words() {
        for setting in CATALOGUE {
            let words = setting.values.words();
            assert!(words.is_empty() || words.contains(&setting.default), "{}", setting.name);
        }
    }

    #[test]
    fn a_misspelt_name_finds_its_neighbour() {
        for (written, near) in [
            ("arenamax", Some("arena_max")),
            ("compat", Some("compact")),
            ("gc.growth", Some("gc.growth_factor")),
            ("zzz", None),
        ] {
            assert_eq!(crate::core::nearest(written, names()), near);
        }
    }
}
