//! The chosen settings, checked against the catalogue.

use crate::catalogue::{
    self, MainStack, PreloadedAllocator, RootDirectory, RubyProgram, Warm, WarmPaths,
};
use crate::profile::{self, PROFILES};
use crate::setting::{ChosenSetting, Setting};
use crate::value::{FreeText, SettingValue, alternatives};
use carat_model::did_you_mean;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::LazyLock;

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
    /// The setting does not accept this value.
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
    #[error("no profile is named `{0}`{hint}; there are {names}", hint = profile_hint(.0), names = alternatives(&profile_names()))]
    Profile(String),
    /// The name of a variable that no environment can hold.
    #[error("`{0}` cannot be the name of a variable; write letters, digits and `_`")]
    VariableName(String),
}

fn profile_names() -> Vec<&'static str> {
    PROFILES.iter().map(|profile| profile.name).collect()
}

/// The nearest profile as a question; empty where none is similar.
fn profile_hint(name: &str) -> String {
    did_you_mean(name, profile_names())
}

/// Chosen settings, each parsed and valid.
#[derive(Clone, Default)]
pub struct Settings {
    chosen: BTreeMap<&'static str, ChosenSetting>,
    /// The variables of `env`.
    variables: BTreeMap<String, String>,
    /// The profiles that were chosen.
    profiles: BTreeSet<&'static str>,
}

/// What naming pages means where `warm` is not chosen.
static IMPLIED_WARM: LazyLock<Option<ChosenSetting>> =
    LazyLock::new(|| catalogue::find(Warm::NAME)?.choose("auto"));

impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        // Values are of different types, so their canonical spellings are compared.
        self.describe() == other.describe()
    }
}

impl Eq for Settings {}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe().fmt(f)
    }
}

impl Settings {
    /// Reads the table of an experiment file or of `carat.toml`.
    ///
    /// `malloc = { top_pad = "1m" }` and `"malloc.top_pad" = "1m"` are the same. Explicit settings win
    /// over those of a `profile`.
    pub fn parse(table: &toml::Table) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        let mut table = table.clone();
        // First, whatever its place in the table, so that explicit settings win over it.
        if let Some(profile) = table.remove("profile") {
            settings.set("profile", profile.as_str().unwrap_or(&profile.to_string()))?;
        }
        settings.read_table("", &table)?;
        Ok(settings)
    }

    /// Reads `name=value` pairs; the later of two equal names wins.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = &'a str>) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        for pair in pairs {
            let (name, value) =
                // At the first `=`: a value can contain more of them.
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
            // By name too, because a profile can leave something undone that its settings do not show.
            self.profiles.insert(profile.name);
            return profile.settings.iter().try_for_each(|(name, value)| self.set(name, value));
        }
        if let Some(variable) = name.strip_prefix("env.") {
            return self.set_variable(variable, value);
        }
        let setting = catalogue::find(name).ok_or_else(|| SettingError::Unknown {
            name: name.to_owned(),
            hint: did_you_mean(name, catalogue::names()),
        })?;
        let chosen = setting.choose(value).ok_or_else(|| SettingError::Value {
            name: name.to_owned(),
            value: value.to_owned(),
            hint: did_you_mean(value, setting.words.iter().copied()),
            accepted: (setting.accepted)(),
        })?;
        // The catalogue's name, not the user's text, because it lives as long as the program.
        self.chosen.insert(setting.name, chosen);
        Ok(())
    }

    /// Adds every choice of `other`, which wins where both chose.
    pub fn overlay(&mut self, other: &Self) {
        self.chosen.extend(other.chosen.clone());
        self.variables.extend(other.variables.clone());
        self.profiles.extend(&other.profiles);
    }

    /// Every choice but the variables of `env`, in the order of the catalogue.
    pub fn chosen(&self) -> impl Iterator<Item = &ChosenSetting> {
        // Not in the order of the map: the runtime applies settings in the order of the request.
        catalogue::names().filter_map(|name| self.choice(name))
    }

    /// The choice of a setting, made or implied by another.
    fn choice(&self, name: &str) -> Option<&ChosenSetting> {
        let implied = || {
            let names_pages = name == Warm::NAME && self.chosen.contains_key(WarmPaths::NAME);
            IMPLIED_WARM.as_ref().filter(|_| names_pages)
        };
        self.chosen.get(name).or_else(implied)
    }

    /// What the chosen profiles leave undone for want of a choice, in words.
    pub(crate) fn left_undone(&self) -> impl Iterator<Item = &'static str> {
        let profiles = self.profiles.iter().filter_map(|name| profile::find(name));
        let undone = profiles.filter_map(|profile| profile.undone);
        undone.filter(|(setting, _)| !self.is_chosen(setting)).map(|(_, text)| text)
    }

    /// The chosen value of a setting.
    pub fn get<S: Setting>(&self) -> Option<&S::Value> {
        self.choice(S::NAME)?.value::<S>()
    }

    /// Whether a setting was chosen to be anything but its default.
    pub fn is_chosen(&self, name: &str) -> bool {
        self.choice(name).is_some_and(|setting| !setting.is_default())
    }

    /// The directory that becomes the server's root.
    pub fn root(&self) -> Option<&Path> {
        self.get::<RootDirectory>().map(|root| root.0.as_path())
    }

    /// The directory of the chosen `ruby`.
    pub fn ruby_directory(&self) -> Option<&Path> {
        self.get::<RubyProgram>()?.0.parent()
    }

    /// Whether a chosen setting acts through the runtime library.
    pub fn needs_runtime(&self) -> bool {
        self.chosen().any(ChosenSetting::needs_runtime)
    }

    /// Removes the choices that act through the runtime library; returns them as `name=value`.
    pub fn remove_runtime(&mut self) -> Vec<String> {
        let removed = self.chosen().filter(|setting| setting.needs_runtime());
        let removed = removed.map(ToString::to_string).collect();
        // With the pages goes what they imply.
        self.chosen.retain(|name, setting| *name != WarmPaths::NAME && !setting.needs_runtime());
        // What a profile would have somebody choose needs the library too.
        self.profiles.clear();
        removed
    }

    /// Whether a chosen setting preloads a library.
    pub fn preloads(&self) -> bool {
        self.is_chosen(PreloadedAllocator::NAME)
    }

    /// Whether a chosen setting limits the main stack.
    pub fn limits_main_stack(&self) -> bool {
        self.is_chosen(MainStack::NAME)
    }

    /// The chosen variables of `env`.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Name and value of every choice, as results and reports show them.
    pub fn describe(&self) -> BTreeMap<String, String> {
        let chosen =
            self.chosen().map(|setting| (setting.definition.name.to_owned(), setting.text()));
        let variables = self.variables.iter();
        chosen
            .chain(variables.map(|(name, value)| (format!("env.{name}"), value.clone())))
            .collect()
    }

    fn set_variable(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let fits = !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !fits {
            return Err(SettingError::VariableName(name.to_owned()));
        }
        let text = FreeText::parse(value.trim()).ok_or_else(|| SettingError::Value {
            name: format!("env.{name}"),
            value: value.to_owned(),
            hint: String::new(),
            accepted: FreeText::accepted(),
        })?;
        self.variables.insert(name.to_owned(), text.to_string());
        Ok(())
    }

    fn read_table(&mut self, prefix: &str, table: &toml::Table) -> Result<(), SettingError> {
        for (key, value) in table {
            let name = format!("{prefix}{key}");
            match value {
                // A nested table is a longer name: `malloc.top_pad` is one setting either way.
                toml::Value::Table(inner) => self.read_table(&format!("{name}."), inner)?,
                toml::Value::String(text) => self.set(&name, text)?,
                // A switch is a word, and TOML has values of its own for both.
                toml::Value::Boolean(true) => self.set(&name, "on")?,
                toml::Value::Boolean(false) => self.set(&name, "off")?,
                toml::Value::Array(items) => self.set(&name, &joined(items))?,
                // Numbers as TOML prints them; the setting's own type decides whether they fit.
                other => self.set(&name, &other.to_string())?,
            }
        }
        Ok(())
    }
}

/// The items of a list, separated by commas.
fn joined(items: &[toml::Value]) -> String {
    let texts = items.iter().map(|item| item.as_str().map_or(item.to_string(), str::to_owned));
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(settings: &Settings) -> Vec<String> {
        settings.describe().iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    fn parsed(text: &str) -> Result<Settings, SettingError> {
        Settings::parse(&text.parse::<toml::Table>().expect("the test writes valid TOML"))
    }

    #[test]
    fn a_table_and_pairs_mean_the_same() {
        let table = parsed(
            r#"
            arena_max = 2
            compact = "boot"
            seal = true
            warm_paths = ["/", "/posts/1"]
            malloc = { top_pad = "64k" }
            "gc.growth_factor" = 1.10
            env = { RAILS_ENV = "production" }
            "#,
        );
        let pairs = Settings::from_pairs([
            "env.RAILS_ENV=production",
            "seal=on",
            "warm_paths=/,/posts/1",
            "gc.growth_factor=1.1",
            "malloc.top_pad=65536",
            "compact=boot",
            "arena_max=2",
        ]);
        assert_eq!(table, pairs);
        assert_eq!(
            written(&table.unwrap()),
            [
                "arena_max=2",
                "compact=boot",
                "env.RAILS_ENV=production",
                "gc.growth_factor=1.1",
                "malloc.top_pad=65536",
                "seal=on",
                // Pages are named to be requested.
                "warm=auto",
                "warm_paths=/,/posts/1",
            ]
        );
    }

    #[test]
    fn an_error_suggests_the_nearest_known_word() {
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
    fn a_profile_stands_for_its_settings_and_explicit_ones_win() {
        let table = parsed("arena_max = 4\nprofile = \"balanced\"").unwrap();
        assert_eq!(written(&table), ["arena_max=4", "prepare_fork=full"]);
        let from_pairs = Settings::from_pairs(["profile=balanced", "arena_max=4"]).unwrap();
        assert_eq!(from_pairs, table);
        let error = Settings::from_pairs(["profile=preforks"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "no profile is named `preforks` (did you mean `prefork`?); there are `balanced`, `low-memory`, `prefork`, `prefork-max`"
        );
    }

    #[test]
    fn pages_that_are_named_are_requested_and_a_profile_says_that_it_requests_none() {
        let chosen = |pairs: &[&str]| Settings::from_pairs(pairs.iter().copied()).unwrap();
        for (pairs, warm) in [
            (&["warm_paths=/"][..], Some("auto")),
            (&["profile=prefork", "warm_paths=/a,/b"], Some("auto")),
            (&["warm_paths=/", "warm=7"], Some("7")),
            (&["profile=prefork-max", "warm_paths=/a"], Some("20")),
            (&["profile=prefork"], None),
        ] {
            let settings = chosen(pairs);
            assert_eq!(settings.describe().get("warm").map(String::as_str), warm, "{pairs:?}");
            assert!(settings.needs_runtime(), "{pairs:?}");
            let undone = settings.left_undone().count();
            assert_eq!(undone, usize::from(warm.is_none()), "{pairs:?}");
        }
        let mut file = chosen(&["profile=prefork"]);
        file.overlay(&chosen(&["warm_paths=/"]));
        assert!(file.is_chosen("warm") && file.left_undone().next().is_none());
        file.remove_runtime();
        assert!(!file.is_chosen("warm") && !file.needs_runtime());
        assert!(file.left_undone().next().is_none(), "it was named, and cannot be had");
    }

    #[test]
    fn every_profile_names_settings_that_exist() {
        for profile in PROFILES {
            let chosen = Settings::from_pairs([format!("profile={}", profile.name).as_str()]);
            assert_eq!(
                chosen.unwrap().describe().len(),
                profile.settings.len(),
                "{}",
                profile.name
            );
        }
    }

    #[test]
    fn a_later_choice_wins() {
        let mut file = Settings::from_pairs(["compact=boot", "arena_max=2"]).unwrap();
        file.overlay(&Settings::from_pairs(["compact=off"]).unwrap());
        assert_eq!(written(&file), ["arena_max=2", "compact=off"]);
        assert!(!file.is_chosen("compact"));
        assert!(file.is_chosen("arena_max"));
    }
}
