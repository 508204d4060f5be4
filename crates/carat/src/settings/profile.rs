//! Named sets of settings, each backed by an experiment of this repository.

/// A set of settings that were measured together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Profile {
    /// Its name, the value of `profile`.
    pub(crate) name: &'static str,
    /// Names and values of its settings.
    pub(crate) settings: &'static [(&'static str, &'static str)],
    /// What it is for, in one sentence.
    pub(crate) what: &'static str,
}

/// The results that show each profile's effect and cost, relative to `docs`.
pub(crate) const EVIDENCE: &[&str] =
    &["remedies/cable.json", "remedies/prefork.json", "remedies/threads.json"];

/// Every profile.
pub(crate) const PROFILES: &[Profile] = &[
    Profile {
        name: "balanced",
        settings: &[("arena_max", "2"), ("prepare_fork", "full")],
        what: "Fewer arenas and a prepared fork: the largest measured saving at the smallest measured cost.",
    },
    Profile {
        name: "low-memory",
        settings: &[("arena_max", "2"), ("prepare_fork", "full"), ("trim", "full-gc")],
        what: "Like balanced, and returns free memory to the kernel after full collections; for servers that run out of memory.",
    },
];

/// The settings of every profile, as names and values.
pub fn profile_settings() -> impl Iterator<Item = &'static [(&'static str, &'static str)]> {
    PROFILES.iter().map(|profile| profile.settings)
}

/// The profile of that name.
pub(crate) fn find(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}
