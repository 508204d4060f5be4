//! Named sets of settings, each for one purpose.

/// A set of settings that are meant to be used together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Profile {
    /// Its name, the value of `profile`.
    pub name: &'static str,
    /// Names and values of its settings.
    pub settings: &'static [(&'static str, &'static str)],
    /// What it is for, in one sentence.
    pub what: &'static str,
    /// What it needs, and what happens to the parts whose need is not met.
    pub needs: &'static str,
    pub costs: &'static str,
    /// A setting without which a part is left undone, and what to say then.
    pub undone: Option<(&'static str, &'static str)>,
}

/// The results that show effect and cost of profiles, relative to `docs/evidence`.
pub(crate) const EVIDENCE: &[&str] =
    &["remedies/cable.json", "remedies/prefork.json", "remedies/threads.json"];

const PRELOADED: &str = "a server that loads the application before it forks (Puma: `preload_app!`); elsewhere `prepare_fork` is reported as not applied, because workers load the application themselves, and the rest has its effect";
const TWO_ARENAS: &str = "two arenas make the threads of a process wait for each other in malloc: in [experiment 1](../evidence/experiments/1-cable.md#limits) those who sent broadcasts waited longer at p95";

/// Every profile.
pub(crate) const PROFILES: &[Profile] = &[
    Profile {
        name: "balanced",
        settings: &[("arena_max", "2"), ("prepare_fork", "full")],
        what: "Fewer arenas and a prepared fork, with the malloc that the server has.",
        needs: PRELOADED,
        costs: TWO_ARENAS,
        undone: None,
    },
    Profile {
        name: "low-memory",
        settings: &[("arena_max", "2"), ("prepare_fork", "full"), ("trim", "full-gc")],
        what: "Like `balanced`, and returns free memory to the kernel after full collections; for servers that run out of memory.",
        needs: PRELOADED,
        costs: TWO_ARENAS,
        undone: None,
    },
    Profile {
        name: "prefork",
        settings: &[
            ("allocator", "jemalloc"),
            ("prepare_fork", "full"),
            ("fill_call_caches", "on"),
            ("worker_growth", "40000"),
            ("main_stack", "1m"),
        ],
        what: "For preloaded clusters: what workers inherit stays shared, also after a full GC, and they collect before they have grown by a share of it. With `warm_paths` the parent also requests those pages before it forks, as `warm=auto` does; without them it requests none.",
        needs: "a server that loads the application before it forks (Puma: `preload_app!`), and jemalloc, without which the start is refused with the package to install. `main_stack` and `fill_call_caches` help Ruby 3.3 only; where a hard limit forbids `main_stack`, the server starts without it and says so",
        costs: "a longer boot, and more minor collections in workers",
        undone: Some((
            "warm",
            "not warmed: name pages that only read with warm_paths=/PATH,/PATH and workers share what the first requests fill",
        )),
    },
    Profile {
        name: "prefork-max",
        settings: &[
            ("allocator", "jemalloc"),
            ("malloc_conf", PREFORK_JEMALLOC),
            ("prepare_fork", "full"),
            ("fill_call_caches", "on"),
            ("worker_growth", "40000"),
            ("main_stack", "1m"),
            ("warm", "20"),
        ],
        what: "Like `prefork`, and requests 20 pages of the application before the fork (set `warm_paths`; the default is `/`), and keeps less free memory in jemalloc.",
        needs: "as `prefork`; an application whose pages only read and start no thread and no connection while they are requested. A part whose need is not met is left out, and stderr and `--verify` say which and why",
        costs: "as `prefork`; the time of the pages at boot; one arena for all threads of a worker",
        undone: None,
    },
];

/// One arena: the threads of a worker run Ruby one at a time. A short decay, and no large blocks in caches of threads.
const PREFORK_JEMALLOC: &str = "narenas:1,dirty_decay_ms:500,muzzy_decay_ms:0,lg_tcache_max:12";

/// Every profile: its name, and its settings as names and values.
pub fn profiles() -> impl Iterator<Item = (&'static str, &'static [(&'static str, &'static str)])> {
    PROFILES.iter().map(|profile| (profile.name, profile.settings))
}

pub(crate) fn find(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use carat_ruby::version::VERSIONS;

    #[test]
    fn every_profile_can_be_used_on_every_ruby() {
        for profile in PROFILES {
            let chosen = format!("profile={}", profile.name);
            let settings = Settings::from_pairs([chosen.as_str()]).unwrap();
            for version in VERSIONS {
                assert_eq!(settings.check_ruby(version), Ok(()), "{} on {version}", profile.name);
            }
            for sentence in [profile.what, profile.needs, profile.costs] {
                assert!(!sentence.is_empty(), "{}", profile.name);
            }
        }
    }

    #[test]
    fn the_larger_profile_of_a_pair_contains_the_smaller() {
        for (small, large) in [("balanced", "low-memory"), ("prefork", "prefork-max")] {
            let [small, large] = [small, large].map(|name| find(name).unwrap().settings);
            assert!(small.iter().all(|pair| large.contains(pair)), "{small:?} in {large:?}");
        }
    }
}
