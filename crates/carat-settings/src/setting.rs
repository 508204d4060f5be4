//! What a setting is: one type each, which knows its values, how to apply it and how to verify it.

use crate::environment::{ApplyError, Environment, EnvironmentBuilder};
use crate::observation::{Moment, ProcessObservation, SettingStatus};
use crate::value::SettingValue;
use carat_ruby::RubyVersion;
use carat_ruby::version::VersionRange;
use carat_wire::page::AllocatorKind;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// How a setting reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// An environment variable that the server's own software reads.
    Variable(&'static str),
    /// A tunable of glibc, set in `GLIBC_TUNABLES`.
    Tunable(&'static str),
    /// The runtime library applies it, through the file of its name in `carat-runtime/src/ruby/settings`.
    Runtime {
        /// When that is.
        moment: Moment,
    },
    /// Functions of its own, which override `apply` and `verify`.
    Own,
}

impl Mechanism {
    const fn verified_by(self) -> &'static str {
        match self {
            Self::Variable(_) | Self::Tunable(_) => "the variable in /proc/PID/environ",
            Self::Runtime { .. } => "the runtime's report in the shared page",
            Self::Own => "",
        }
    }
}

/// One setting. The type itself is never constructed; a chosen value is a `Self::Value`.
pub trait Setting: 'static {
    type Value: SettingValue;

    /// The name in files, on the command line and in reports.
    const NAME: &'static str;
    /// The value that leaves everything as it is.
    const DEFAULT: &'static str;
    const MECHANISM: Mechanism;
    /// The first Ruby on which it does anything; `None` where the Ruby does not matter.
    const SINCE: Option<RubyVersion> = None;
    /// The last Ruby on which it does anything; `None` where there is none.
    const UNTIL: Option<RubyVersion> = None;
    /// The setting that takes its place after `UNTIL`.
    const SUCCESSOR: Option<&'static str> = None;
    /// Values that need a later Ruby than the setting itself.
    const VALUES_SINCE: &'static [(&'static str, RubyVersion)] = &[];
    /// The only malloc on which it does anything; `None` where malloc does not matter.
    const MALLOC: Option<AllocatorKind> = None;
    /// Another setting without which it makes no sense, and the value to suggest for that.
    const REQUIRES: Option<(&'static str, &'static str)> = None;
    /// Values worth trying beside the default when the best settings are searched; none where there is nothing to save or
    /// where a value must be chosen by a person.
    const LEVELS: &'static [&'static str] = &[];
    /// Whether it acts only on a server that forks workers.
    const FORKS: bool = false;
    const DOES: &'static str;
    const COSTS: &'static str;
    /// Whether the default does something that a process shows; otherwise nothing is changed for it.
    const VERIFIES_DEFAULT: bool =
        matches!(Self::MECHANISM, Mechanism::Variable(_) | Mechanism::Tunable(_));
    /// The evidence that it was applied.
    const VERIFIED_BY: &'static str = Self::MECHANISM.verified_by();

    /// Whether this value is the default, however that is written.
    fn is_default(value: &Self::Value) -> bool {
        // Some defaults are descriptions, which are no value.
        let default = Self::Value::parse(Self::DEFAULT).map(|default| default.to_string());
        default.as_deref().unwrap_or(Self::DEFAULT) == value.to_string()
    }

    /// Whether the runtime library must be loaded to apply this value.
    fn needs_runtime(value: &Self::Value) -> bool {
        // The default changes nothing, so no library is loaded into Ruby for it.
        matches!(Self::MECHANISM, Mechanism::Runtime { .. }) && !Self::is_default(value)
    }

    /// Adds what this value needs to the server's environment.
    fn apply(value: &Self::Value, server: &mut EnvironmentBuilder<'_>) -> Result<(), ApplyError> {
        match Self::MECHANISM {
            Mechanism::Variable(variable) => server.set(variable, value.to_string()),
            Mechanism::Tunable(tunable) => server.add_tunable(tunable, &value.to_string()),
            Mechanism::Runtime { .. } if Self::needs_runtime(value) => {
                server.request(Self::NAME, &value.to_string());
            }
            Mechanism::Runtime { .. } | Mechanism::Own => {}
        }
        Ok(())
    }

    /// Whether this value is in effect in a process that was started with `environment`.
    fn verify(
        value: &Self::Value,
        process: &ProcessObservation<'_>,
        environment: &Environment,
    ) -> SettingStatus {
        match Self::MECHANISM {
            Mechanism::Variable(variable) => process.has_variable(variable, &value.to_string()),
            Mechanism::Tunable(tunable) => process.has_tunable(tunable, &value.to_string()),
            Mechanism::Runtime { moment } => {
                process.runtime_status(Self::NAME, environment, moment)
            }
            Mechanism::Own => SettingStatus::Unknown("nothing in the process shows it".into()),
        }
    }
}

/// The facts of one setting, without its type.
#[derive(Debug, Clone, Copy)]
pub struct SettingDefinition {
    pub name: &'static str,
    pub default: &'static str,
    pub since: Option<RubyVersion>,
    pub until: Option<RubyVersion>,
    pub successor: Option<&'static str>,
    pub values_since: &'static [(&'static str, RubyVersion)],
    pub malloc: Option<AllocatorKind>,
    pub requires: Option<(&'static str, &'static str)>,
    pub levels: &'static [&'static str],
    pub forks: bool,
    pub does: &'static str,
    pub costs: &'static str,
    pub verified_by: &'static str,
    pub words: &'static [&'static str],
    pub accepted: fn() -> String,
    parse: fn(&str) -> Option<Arc<dyn ErasedValue>>,
}

impl SettingDefinition {
    pub const fn of<S: Setting>() -> Self {
        Self {
            name: S::NAME,
            default: S::DEFAULT,
            since: S::SINCE,
            until: S::UNTIL,
            successor: S::SUCCESSOR,
            values_since: S::VALUES_SINCE,
            malloc: S::MALLOC,
            requires: S::REQUIRES,
            levels: S::LEVELS,
            forks: S::FORKS,
            does: S::DOES,
            costs: S::COSTS,
            verified_by: S::VERIFIED_BY,
            words: S::Value::WORDS,
            accepted: S::Value::accepted,
            parse: parse::<S>,
        }
    }

    /// The versions of Ruby on which a value has an effect.
    pub fn versions_of(&self, value: &str) -> VersionRange {
        let value_since =
            // The value's own version is the later one, so it counts instead of the setting's.
            self.values_since.iter().find(|(word, _)| *word == value).map(|(_, since)| *since);
        VersionRange::new(value_since.or(self.since), self.until)
    }

    /// The chosen setting that `text` means; `None` where the text is not accepted.
    pub fn choose(&'static self, text: &str) -> Option<ChosenSetting> {
        // Blanks around a value in a file or on a command line mean nothing.
        Some(ChosenSetting { definition: self, value: (self.parse)(text.trim())? })
    }
}

fn parse<S: Setting>(text: &str) -> Option<Arc<dyn ErasedValue>> {
    Some(Arc::new(ValueOf::<S>(S::Value::parse(text)?)))
}

/// A setting and its value.
#[derive(Clone)]
pub struct ChosenSetting {
    pub definition: &'static SettingDefinition,
    value: Arc<dyn ErasedValue>,
}

impl ChosenSetting {
    /// The value in its canonical spelling.
    pub fn text(&self) -> String {
        self.value.text()
    }

    pub fn is_default(&self) -> bool {
        self.value.is_default()
    }

    /// The typed value, where this is the setting `S`.
    pub fn value<S: Setting>(&self) -> Option<&S::Value> {
        // The value behind the `Arc`: the type of the `Arc` itself is the same for every setting.
        let value: &dyn Any = &*self.value;
        value.downcast_ref::<ValueOf<S>>().map(|value| &value.0)
    }

    pub fn needs_runtime(&self) -> bool {
        self.value.needs_runtime()
    }

    pub fn apply(&self, server: &mut EnvironmentBuilder<'_>) -> Result<(), ApplyError> {
        self.value.apply(server)
    }

    pub fn verify(
        &self,
        process: &ProcessObservation<'_>,
        environment: &Environment,
    ) -> SettingStatus {
        self.value.verify(process, environment)
    }
}

impl fmt::Display for ChosenSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.definition.name, self.text())
    }
}

/// A value of the setting `S`.
struct ValueOf<S: Setting>(S::Value);

/// A value of any setting.
trait ErasedValue: Any + Send + Sync {
    fn text(&self) -> String;
    fn is_default(&self) -> bool;
    fn needs_runtime(&self) -> bool;
    fn apply(&self, server: &mut EnvironmentBuilder<'_>) -> Result<(), ApplyError>;
    fn verify(&self, process: &ProcessObservation<'_>, environment: &Environment) -> SettingStatus;
}

impl<S: Setting> ErasedValue for ValueOf<S> {
    fn text(&self) -> String {
        self.0.to_string()
    }

    fn is_default(&self) -> bool {
        S::is_default(&self.0)
    }

    fn needs_runtime(&self) -> bool {
        S::needs_runtime(&self.0)
    }

    fn apply(&self, server: &mut EnvironmentBuilder<'_>) -> Result<(), ApplyError> {
        S::apply(&self.0, server)
    }

    fn verify(&self, process: &ProcessObservation<'_>, environment: &Environment) -> SettingStatus {
        match S::is_default(&self.0) && !S::VERIFIES_DEFAULT {
            true => SettingStatus::Unchanged,
            false => S::verify(&self.0, process, environment),
        }
    }
}
