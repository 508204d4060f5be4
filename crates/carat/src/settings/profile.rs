//! Named sets of settings, each backed by an experiment of this repository.

/// A set of settings that were measured together.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    /// Its name, the value of `profile`.
    pub name: &'static str,
    /// Names and values, as one would write them one by one.
    pub settings: &'static [(&'static str, &'static str)],
    /// Whom it is for, in one sentence.
    pub what: &'static str,
}

/// What of this repository shows each profile's effect and price, from the folder `docs`.
pub const EVIDENCE: &[&str] =
    &["remedies/cable.json", "remedies/prefork.json", "remedies/threads.json"];

/// Every profile.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "balanced",
        settings: &[("arena_max", "2"), ("prepare_fork", "full")],
        what: "Fewer arenas and a prepared fork: what saves most and was measured to cost least.",
    },
    Profile {
        name: "low-memory",
        settings: &[("arena_max", "2"), ("prepare_fork", "full"), ("trim", "full-gc")],
        what: "What balanced does, and free memory given back after full collections, where memory is what runs out.",
    },
];

/// The profile of that name.
pub fn find(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}
