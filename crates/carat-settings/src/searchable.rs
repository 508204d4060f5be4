//! The settings that a search for the best combination may try.

use crate::catalogue::{definitions, find};
use crate::setting::SettingDefinition;
use carat_ruby::RubyVersion;

/// What decides whether a setting can act on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchedServer {
    /// Whether it forks workers; `None` if unknown, and then it may.
    pub forks: Option<bool>,
    /// Its Ruby; `None` if unknown, and then every setting may act.
    pub ruby: Option<RubyVersion>,
}

/// A setting with the values to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchableSetting {
    pub name: &'static str,
    /// The default, then the values.
    pub levels: Vec<String>,
    /// Name of the malloc that must be in use.
    pub malloc: Option<&'static str>,
    /// The setting without which it has no effect.
    pub requires: Option<&'static str>,
}

/// Why a setting is not tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOutSetting {
    pub name: &'static str,
    /// Why it cannot act.
    pub why: String,
}

/// The settings to try on a server, and those that cannot act there.
pub fn searchable_settings(
    server: SearchedServer,
) -> (Vec<SearchableSetting>, Vec<LeftOutSetting>) {
    let (mut tried, mut left_out) = (Vec::new(), Vec::new());
    for setting in definitions().filter(|setting| !setting.levels.is_empty()) {
        match searchable(setting, server) {
            Ok(searchable) => tried.push(searchable),
            Err(why) => left_out.push(LeftOutSetting { name: setting.name, why }),
        }
    }
    (tried, left_out)
}

fn searchable(
    setting: &'static SettingDefinition,
    server: SearchedServer,
) -> Result<SearchableSetting, String> {
    // Unknown counts as possible: a needless setting costs trials, a missing one the result.
    if setting.forks && server.forks == Some(false) {
        return Err("the server forks no workers".into());
    }
    // A level can need a later Ruby than its setting.
    let fits =
        |level: &&str| server.ruby.is_none_or(|ruby| setting.versions_of(level).contains(ruby));
    let levels: Vec<String> =
        setting.levels.iter().copied().filter(fits).map(str::to_owned).collect();
    if levels.is_empty() {
        let ruby = server.ruby.map(|ruby| ruby.to_string()).unwrap_or_default();
        return Err(format!("it does nothing on Ruby {ruby}"));
    }
    Ok(SearchableSetting {
        name: setting.name,
        // The default first: effects are differences to the first level.
        levels: std::iter::once(setting.default.to_owned()).chain(levels).collect(),
        malloc: setting.malloc.map(carat_wire::page::Word::name),
        requires: setting.requires.map(|(required, _)| required),
    })
}

/// Whether a setting of this name accepts this value.
pub fn accepts(name: &str, value: &str) -> bool {
    find(name).is_some_and(|setting| setting.choose(value).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    fn names(server: SearchedServer) -> Vec<&'static str> {
        searchable_settings(server).0.iter().map(|setting| setting.name).collect()
    }

    #[test]
    fn every_level_is_a_value_and_none_is_the_default() {
        let (settings, left_out) = searchable_settings(SearchedServer { forks: None, ruby: None });
        assert_eq!(left_out, []);
        for setting in settings {
            for level in &setting.levels[1..] {
                let chosen = Settings::from_pairs([format!("{}={level}", setting.name).as_str()]);
                assert!(chosen.is_ok(), "{}={level}", setting.name);
                assert_ne!(*level, setting.levels[0], "{}", setting.name);
            }
        }
    }

    #[test]
    fn what_cannot_act_is_left_out_with_the_reason() {
        let one_process = SearchedServer { forks: Some(false), ruby: "2.7".parse().ok() };
        let (_, left_out) = searchable_settings(one_process);
        let why = |name: &str| left_out.iter().find(|one| one.name == name).map(|one| &*one.why);
        assert_eq!(why("prepare_fork"), Some("the server forks no workers"));
        assert_eq!(why("yjit"), Some("it does nothing on Ruby 2.7"));
        assert!(names(one_process).contains(&"compact"));
        let cluster = SearchedServer { forks: Some(true), ruby: "3.3".parse().ok() };
        assert!(names(cluster).contains(&"prepare_fork"));
    }
}
