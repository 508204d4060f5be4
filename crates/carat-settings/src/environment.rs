//! The environment in which a server is started: what settings add to it, and why they may be refused.

use crate::allocator::packages;
use crate::elf::ElfKind;
use carat_ruby::RubyVersion;
use carat_ruby::version::VersionRange;
use carat_wire::env;
use carat_wire::page::AllocatorKind;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the runtime calls the request to remove variables.
const SCRUB: &str = "scrub";
/// What settings add folders to, for every program.
const PATH: &str = "PATH";
/// The variable that holds glibc's tunables.
pub(crate) const TUNABLES: &str = "GLIBC_TUNABLES";

/// The tunable that a variable of glibc's malloc stands for. glibc prefers the tunable (elf/dl-tunables.c: a variable is read only
/// for a tunable that `GLIBC_TUNABLES` has not set).
pub(crate) fn tunable_of(variable: &str) -> Option<String> {
    let name = variable.strip_prefix("MALLOC_")?.trim_end_matches('_').to_lowercase();
    Some(format!("glibc.malloc.{name}"))
}

/// What the environment depends on besides the settings themselves.
pub struct StartContext<'a> {
    /// Path of the runtime library.
    pub runtime: &'a Path,
    /// The library of an allocator by name, as [`find_allocator`](crate::find_allocator) finds it.
    pub find_allocator: &'a dyn Fn(&str) -> Option<PathBuf>,
    /// The variables that the server would inherit.
    pub inherited: &'a dyn Fn(&str) -> Option<String>,
    /// What the runtime removes from the environment once Ruby has started.
    pub scrub: Scrub,
    /// Word size, machine and C library of the Ruby; `None` where unknown, and then libraries are not checked.
    pub ruby: Option<ElfKind>,
    /// The malloc that it calls if no library is preloaded; `None` where unknown.
    pub linked: Option<AllocatorKind>,
    /// The soft limit of the main stack that the server would inherit, in bytes; `None` if there is none.
    pub stack_limit: Option<u64>,
}

/// What the runtime removes from the environment once Ruby has started, so that the programs that the server starts do not
/// inherit it. A Ruby that serves instead of it gets it again: its restart, or the server that a launcher starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scrub {
    #[default]
    Nothing,
    /// What only the verifier needs. A restart gets it only while the verifier works.
    Verifier,
    /// That and what loads the libraries, because only the verifier needs them. The same holds for a restart.
    Once,
    /// What the settings consist of. The probe stays for every Ruby, because every Ruby is measured.
    Settings,
    /// That and what loads the libraries; a restart always gets it.
    Lasting,
    /// That and what only the verifier needs.
    Everything,
}

impl Scrub {
    /// The value for the runtime; `None` if nothing is removed.
    fn value(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Verifier => Some("verifier"),
            Self::Once => Some("libraries,verifier"),
            Self::Settings => Some("settings"),
            Self::Lasting => Some("settings,options"),
            Self::Everything => Some("settings,options,verifier"),
        }
    }

    /// Whether the variables of the settings are among it.
    pub fn has_settings(self) -> bool {
        matches!(self, Self::Settings | Self::Lasting | Self::Everything)
    }

    /// The request to the runtime of a server without settings.
    pub fn alone(self) -> Option<String> {
        self.value().map(|value| format!("{SCRUB}={value}"))
    }
}

/// What to do when starting the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Variables to set, ready to use: inherited values are already joined.
    pub set: BTreeMap<String, String>,
    /// Names of those that settings consist of, in the order of [`env::VARIABLES`].
    pub variables: Vec<String>,
    /// Options of Ruby for `RUBYOPT`, which whoever loads the libraries puts before them.
    pub ruby_options: Vec<String>,
    /// Libraries that `LD_PRELOAD` in `set` names first.
    pub preload: Vec<PathBuf>,
    /// Whether the shim must be loaded through `RUBYOPT` to apply the settings.
    pub needs_runtime: bool,
    /// The directory that becomes the root.
    pub root: Option<PathBuf>,
    /// The soft limit of the main stack to set before the start, in bytes.
    pub main_stack: Option<u64>,
    /// What the user should know: settings that do nothing together.
    pub warnings: Vec<String>,
}

/// Why the settings cannot be applied here.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The allocator is not installed.
    #[error("allocator `{name}` is not installed; install it with {}", packages(.name))]
    NoAllocator { name: String },
    /// A library to preload cannot be read.
    #[error("cannot read the library {path}: {reason}; give the path of an existing library")]
    Unreadable {
        /// The library.
        path: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// A library to preload is for another kind of program.
    #[error("{path} is {library}, but this ruby is {ruby}; install the library for {ruby}")]
    OtherMachine {
        /// The library.
        path: PathBuf,
        /// Its kind.
        library: String,
        ruby: ElfKind,
    },
    /// A path that the loader would split.
    #[error(
        "the path {0:?} contains a space or a colon, which separate libraries in LD_PRELOAD; move the library"
    )]
    Separator(PathBuf),
    /// A setting that makes sense only with another.
    #[error("`{name}` requires `{required}`; add `{required} = \"{example}\"`")]
    Requires {
        /// The setting.
        name: &'static str,
        /// The missing one.
        required: &'static str,
        /// A value for the missing one.
        example: &'static str,
    },
    /// A setting or a value that the Ruby does not have.
    #[error("`{setting}` does nothing on Ruby {ruby}: it is for Ruby {versions}{hint}")]
    OtherRuby {
        /// Setting and value.
        setting: String,
        ruby: RubyVersion,
        /// The versions that have it.
        versions: VersionRange,
        /// What to write instead.
        hint: String,
    },
}

impl Environment {
    /// The checksum that the runtime of a Ruby with every variable of the settings reports.
    pub fn variables_checksum(&self) -> u64 {
        env::variables_checksum(&self.variables.join(","), |name| self.set.get(name))
    }
}

/// Collects what each setting adds to the environment.
pub struct EnvironmentBuilder<'a> {
    pub context: &'a StartContext<'a>,
    /// The directory that becomes the root; `/` where none was chosen.
    pub root: &'a Path,
    environment: Environment,
    requests: Vec<String>,
}

impl<'a> EnvironmentBuilder<'a> {
    /// Begins with the user's own variables, so that settings override them.
    pub fn new(
        context: &'a StartContext<'a>,
        root: &'a Path,
        variables: BTreeMap<String, String>,
    ) -> Self {
        let environment = Environment { set: variables, ..Environment::default() };
        Self { context, root, environment, requests: Vec::new() }
    }

    /// The value that a variable has so far: set here, or inherited and not empty.
    pub fn current(&self, variable: &str) -> Option<String> {
        let set = self.environment.set.get(variable).cloned();
        // An empty value would be joined as an empty part, which in PATH is the working directory.
        set.or_else(|| (self.context.inherited)(variable)).filter(|value| !value.is_empty())
    }

    pub fn set(&mut self, variable: &str, value: String) {
        self.remove_overriding_tunable(variable);
        self.environment.set.insert(variable.to_owned(), value);
        let variables = &mut self.environment.variables;
        // PATH is for every program that the server starts, so the runtime must not remove it.
        if variable != PATH && !variables.iter().any(|known| known == variable) {
            variables.push(variable.to_owned());
        }
    }

    /// Removes the tunable that glibc would prefer to a variable: what is chosen here comes before what was inherited.
    fn remove_overriding_tunable(&mut self, variable: &str) {
        let (Some(tunable), Some(all)) = (tunable_of(variable), self.current(TUNABLES)) else {
            return;
        };
        let is_other = |one: &&str| one.split_once('=').is_none_or(|(name, _)| name != tunable);
        let (others, overriding): (Vec<&str>, Vec<&str>) = all.split(':').partition(is_other);
        if let Some(last) = overriding.last() {
            self.warn(format!(
                "{TUNABLES} has {last}, which glibc would prefer to {variable}; it is removed"
            ));
            self.set(TUNABLES, others.join(":"));
        }
    }

    /// Puts `first` before the other parts of a variable whose parts are separated by colons.
    pub fn prepend(&mut self, variable: &str, first: &str, others: Option<String>) {
        let joined = match others {
            Some(others) => format!("{first}:{others}"),
            None => first.to_owned(),
        };
        self.set(variable, joined);
    }

    /// Adds a tunable after the others, because glibc uses the last of two equal names.
    pub fn add_tunable(&mut self, tunable: &str, value: &str) {
        let added = format!("{tunable}={value}");
        let joined = match self.current(TUNABLES) {
            Some(others) => format!("{others}:{added}"),
            None => added,
        };
        self.set(TUNABLES, joined);
    }

    /// Requests a setting from the runtime library, which this loads.
    pub fn request(&mut self, name: &str, value: &str) {
        self.environment.needs_runtime = true;
        self.mention(name, value);
    }

    /// Passes a setting to the runtime library in case another setting loads it.
    pub fn mention(&mut self, name: &str, value: &str) {
        self.requests.push(format!("{name}={value}"));
    }

    /// Adds an option of Ruby to `RUBYOPT`, once.
    pub fn add_ruby_option(&mut self, option: String) {
        let options = &mut self.environment.ruby_options;
        if !options.contains(&option) {
            options.push(option);
        }
    }

    pub fn preload(&mut self, library: PathBuf) {
        self.environment.preload.push(library);
    }

    pub fn change_root(&mut self, root: &Path) {
        self.environment.root = Some(root.to_owned());
    }

    pub fn limit_main_stack(&mut self, bytes: u64) {
        self.environment.main_stack = Some(bytes);
    }

    pub fn warn(&mut self, warning: String) {
        self.environment.warnings.push(warning);
    }

    pub fn finish(mut self) -> Environment {
        let scrub = self.context.scrub;
        if let Some(value) = scrub.value() {
            self.mention(SCRUB, value);
        }
        let set = &mut self.environment.set;
        // The runtime is loaded without any setting too, where it must remove variables.
        if self.environment.needs_runtime || scrub.value().is_some() {
            set.insert(env::RUNTIME.into(), self.context.runtime.display().to_string());
            set.insert(env::SETTINGS.into(), self.requests.join(";"));
            let variables = self.environment.variables.join(",");
            set.extend((!variables.is_empty()).then(|| (env::VARIABLES.to_owned(), variables)));
        }
        if scrub.has_settings() {
            for name in &self.environment.variables {
                // Given back to the programs that the server starts; what carat alone has set just goes.
                let before = (self.context.inherited)(name);
                set.extend(before.map(|value| (env::inherited(name), value)));
            }
        }
        self.environment
    }
}
