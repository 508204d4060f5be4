//! The list of every setting. A new setting is a type in one of the groups below and a line in the group's list.

mod fork;
mod gc;
mod heap;
mod jemalloc;
mod jit;
mod malloc;
mod process;

pub(crate) use fork::{Warm, WarmPaths};
pub(crate) use malloc::{AllocatorChoice, PreloadedAllocator};
pub(crate) use process::{MainStack, RootDirectory, RubyProgram};

use crate::setting::SettingDefinition;
use carat_ruby::RubyVersion;
use carat_ruby::version::VersionRange;

/// The runtime applies settings in this order: it requests pages and limits the growth of workers (`fork`) before it prepares
/// the heap (`heap`).
const GROUPS: [&[SettingDefinition]; 6] = [
    malloc::SETTINGS,
    fork::SETTINGS,
    heap::SETTINGS,
    gc::SETTINGS,
    jit::SETTINGS,
    process::SETTINGS,
];

/// Every setting, in canonical order.
pub(crate) fn definitions() -> impl Iterator<Item = &'static SettingDefinition> {
    GROUPS.into_iter().flatten()
}

/// The setting of that name.
pub fn find(name: &str) -> Option<&'static SettingDefinition> {
    definitions().find(|setting| setting.name == name)
}

/// The setting that has taken the place of another on this version of Ruby, perhaps after others; `None` where none has.
pub(crate) fn successor_on(setting: &SettingDefinition, ruby: RubyVersion) -> Option<&'static str> {
    let successor = find(setting.successor?)?;
    let versions = VersionRange::new(successor.since, successor.until);
    // It ends, because a successor is always for later versions.
    if versions.contains(ruby) { Some(successor.name) } else { successor_on(successor, ruby) }
}

/// The name of every setting.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    definitions().map(|setting| setting.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::nearest;
    use std::collections::BTreeSet;

    #[test]
    fn every_setting_has_a_name_of_its_own_and_is_documented() {
        let mut known = BTreeSet::new();
        for one in definitions() {
            assert!(known.insert(one.name), "{} is listed twice", one.name);
            for text in [one.does, one.costs, one.verified_by, one.default] {
                assert!(!text.is_empty(), "{}", one.name);
            }
            for sentence in [one.does, one.costs] {
                assert!(sentence.ends_with('.'), "{}: {sentence}", one.name);
            }
        }
    }

    #[test]
    fn the_words_that_a_setting_mentions_are_words_it_accepts() {
        for setting in definitions().filter(|setting| !setting.words.is_empty()) {
            let mentioned = setting.values_since.iter().map(|(word, _)| word);
            for word in mentioned.chain([&setting.default]) {
                assert!(setting.words.contains(word), "{}: {word}", setting.name);
            }
        }
        for setting in definitions() {
            if let Some((required, example)) = setting.requires {
                assert!(find(required).unwrap().choose(example).is_some(), "{}", setting.name);
            }
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
            assert_eq!(nearest(written, names()), near);
        }
    }
}
