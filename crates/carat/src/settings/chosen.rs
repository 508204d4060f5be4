//! The settings that somebody chose, checked against the catalogue.

use crate::core::did_you_mean;
use crate::settings::catalogue::{self, CATALOGUE, Mechanism};
use crate::settings::profile::{self, PROFILES};
use crate::settings::value::Values;
use std::collections::BTreeMap;
use std::path::Path;

/// Why a setting was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No setting has this name.
    #[error("no setting is named `{name}`{hint}")]
    Unknown {
        /// The name as written.
        name: String,
        /// The nearest name in the catalogue as a question; empty where none is similar.
        hint: String,
    },
    /// The setting does not take this value.
    #[error("setting `{name}` cannot be `{value}`{hint}; write {accepted}")]
    Value {
        /// The setting.
        name: String,
        /// The value as written.
        value: String,
        /// The nearest accepted word as a question; empty where none is similar.
        hint: String,
        /// What it accepts.
        accepted: String,
    },
    /// A `name=value` without `=`.
    #[error("`{0}` is not a setting; write `name=value`")]
    NotAPair(String),
    /// No profile has this name.
    #[error("no profile is named `{0}`; there are {names}", names = profile_names())]
    Profile(String),
    /// The name of a variable that no environment can hold.
    #[error("`{0}` cannot be the name of a variable; write letters, digits and `_`")]
    VariableName(String),
}

fn profile_names() -> String {
    let names: Vec<String> = PROFILES.iter().map(|profile| format!("`{}`", profile.name)).collect();
    names.join(" and ")
}

/// Chosen settings, each valid and in its canonical spelling, in the order of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    /// Reads the table of an experiment file or of `carat.toml`.
    ///
    /// `malloc = { top_pad = "1m" }` and `"malloc.top_pad" = "1m"` are the same. What stands beside a
    /// `profile` wins over it.
    pub fn parse(table: &toml::Table) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        let mut table = table.clone();
        if let Some(profile) = table.remove("profile") {
            settings.set("profile", profile.as_str().unwrap_or(&profile.to_string()))?;
        }
        settings.read_table("", &table)?;
        Ok(settings)
    }

    /// Reads `name=value` pairs, the later of two equal names winning.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = &'a str>) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        for pair in pairs {
            let (name, value) =
                pair.split_once('=').ok_or_else(|| SettingError::NotAPair(pair.to_owned()))?;
            settings.set(name.trim(), value)?;
        }
        Ok(settings)
    }

    /// Chooses one value, or with the name `profile` all values of a profile.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        if name == "profile" {
            let profile = profile::find(value.trim());
            let profile = profile.ok_or_else(|| SettingError::Profile(value.to_owned()))?;
            return profile.settings.iter().try_for_each(|(name, value)| self.set(name, value));
        }
        if let Some(variable) = name.strip_prefix("env.") {
            return self.set_variable(variable, value);
        }
        let setting = catalogue::find(name).ok_or_else(|| SettingError::Unknown {
            name: name.to_owned(),
            hint: did_you_mean(name, catalogue::names()),
        })?;
        let canonical = setting.values.canonical(value).ok_or_else(|| SettingError::Value {
            name: name.to_owned(),
            value: value.to_owned(),
            hint: did_you_mean(value, setting.values.words().iter().copied()),
            accepted: setting.values.describe(),
        })?;
        self.0.insert(name.to_owned(), canonical);
        Ok(())
    }

    /// Takes over every choice of `other`, which wins where both chose.
    pub fn overlay(&mut self, other: &Self) {
        self.0.extend(other.0.clone());
    }

    /// The chosen value of a setting; `None` where nothing was chosen.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether a setting was chosen to be anything but its default.
    pub fn is_chosen(&self, name: &str) -> bool {
        let default = catalogue::find(name).map(|setting| setting.default);
        self.value(name).is_some_and(|value| Some(value) != default)
    }

    /// The directory that becomes the server's root.
    pub fn root(&self) -> Option<&Path> {
        self.value("root").map(Path::new)
    }

    /// The directory of the chosen `ruby`.
    pub fn ruby_directory(&self) -> Option<&Path> {
        self.value("ruby").and_then(|ruby| Path::new(ruby).parent())
    }

    /// Whether a chosen setting acts through the runtime library.
    pub fn needs_runtime(&self) -> bool {
        CATALOGUE.iter().any(|setting| {
            let after_fork = setting.name == "yjit" && self.value("yjit") == Some("after-fork");
            after_fork || setting.mechanism == Mechanism::Runtime && self.is_chosen(setting.name)
        })
    }

    /// Whether a chosen setting preloads a library.
    pub fn preloads(&self) -> bool {
        self.is_chosen("allocator")
    }

    /// The chosen variables of `env`.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(name, value)| Some((name.strip_prefix("env.")?, value.as_str())))
    }

    /// Whether nothing was chosen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Name and value of every choice, as results and reports show them.
    pub fn describe(&self) -> BTreeMap<String, String> {
        self.0.clone()
    }

    /// Every choice as `name=value`, in the order of the catalogue, variables last.
    pub fn pairs(&self) -> Vec<String> {
        let known = CATALOGUE.iter().filter_map(|setting| {
            self.value(setting.name).map(|value| format!("{}={value}", setting.name))
        });
        known.chain(self.variables().map(|(name, value)| format!("env.{name}={value}"))).collect()
    }

    fn set_variable(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let fits = !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !fits {
            return Err(SettingError::VariableName(name.to_owned()));
        }
        let value = Values::Text.canonical(value).ok_or_else(|| SettingError::Value {
            name: format!("env.{name}"),
            value: value.to_owned(),
            hint: String::new(),
            accepted: "text without a line break".into(),
        })?;
        self.0.insert(format!("env.{name}"), value);
        Ok(())
    }

    fn read_table(&mut self, prefix: &str, table: &toml::Table) -> Result<(), SettingError> {
        for (key, value) in table {
            let name = format!("{prefix}{key}");
            match value {
                toml::Value::Table(inner) => self.read_table(&format!("{name}."), inner)?,
                toml::Value::String(text) => self.set(&name, text)?,
                toml::Value::Boolean(true) => self.set(&name, "on")?,
                toml::Value::Boolean(false) => self.set(&name, "off")?,
                other => self.set(&name, &other.to_string())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Settings, SettingError> {
        Settings::parse(&text.parse::<toml::Table>().expect("the test writes valid TOML"))
    }

    #[test]
    fn a_table_and_pairs_say_the_same() {
        let table = parsed(
            r#"
            arena_max = 2
            compact = "boot"
            seal = true
            malloc = { top_pad = "64k" }
            "gc.growth_factor" = 1.10
            env = { RAILS_ENV = "production" }
            "#,
        );
        let pairs = Settings::from_pairs([
            "env.RAILS_ENV=production",
            "seal=on",
            "gc.growth_factor=1.1",
            "malloc.top_pad=65536",
            "compact=boot",
            "arena_max=2",
        ]);
        assert_eq!(table, pairs);
        assert_eq!(
            table.unwrap().pairs(),
            [
                "arena_max=2",
                "malloc.top_pad=65536",
                "compact=boot",
                "seal=on",
                "gc.growth_factor=1.1",
                "env.RAILS_ENV=production",
            ]
        );
    }

    #[test]
    fn a_refusal_names_the_nearest_known_word() {
        for (pair, message) in [
            ("arenamax=2", "no setting is named `arenamax` (did you mean `arena_max`?)"),
            ("zzz=2", "no setting is named `zzz`"),
            (
                "compact=bot",
                "setting `compact` cannot be `bot` (did you mean `boot`?); write `off`, `boot`, `before-fork`, `auto`",
            ),
            (
                "arena_max=0",
                "setting `arena_max` cannot be `0`; write a whole number from 1 to 1024",
            ),
            (
                "env=1",
                "setting `env` cannot be `1`; write a table of variables, or `env.NAME=value`",
            ),
            ("env.A B=1", "`A B` cannot be the name of a variable; write letters, digits and `_`"),
            ("trim", "`trim` is not a setting; write `name=value`"),
        ] {
            let error = Settings::from_pairs([pair]).unwrap_err().to_string();
            assert_eq!(error, message, "{pair}");
        }
    }

    #[test]
    fn a_profile_stands_for_its_settings_and_what_stands_beside_it_wins() {
        let table = parsed("arena_max = 4\nprofile = \"balanced\"").unwrap();
        assert_eq!(table.pairs(), ["arena_max=4", "prepare_fork=full"]);
        let pairs = Settings::from_pairs(["profile=balanced", "arena_max=4"]).unwrap();
        assert_eq!(pairs, table);
        let error = Settings::from_pairs(["profile=tiny"]).unwrap_err().to_string();
        assert_eq!(error, "no profile is named `tiny`; there are `balanced` and `low-memory`");
    }

    #[test]
    fn every_profile_holds_settings_that_exist() {
        for profile in PROFILES {
            let chosen = Settings::from_pairs([format!("profile={}", profile.name).as_str()]);
            assert_eq!(chosen.unwrap().pairs().len(), profile.settings.len(), "{}", profile.name);
        }
    }

    #[test]
    fn a_later_choice_wins() {
        let mut file = Settings::from_pairs(["compact=boot", "arena_max=2"]).unwrap();
        file.overlay(&Settings::from_pairs(["compact=off"]).unwrap());
        assert_eq!(file.value("compact"), Some("off"));
        assert_eq!(file.value("arena_max"), Some("2"));
        assert!(!file.is_chosen("compact"));
        assert!(file.is_chosen("arena_max"));
    }
}
