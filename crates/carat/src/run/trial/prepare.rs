//! Command, directory and environment of each variant, checked before any trial.

use crate::config::{CommandLine, CommandSpec, Experiment, VariantSpec, fill};
use crate::target::{
    InjectError, InjectRequest, Injection, Libraries, ProgramSearch, inject, make_comparable,
    search_path, search_path_with,
};
use carat_model::Variant;
use carat_settings::{Scrub, SettingError, Settings};
use carat_wire::env::ROOTS;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A variant that can be started once ports are chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedVariant {
    /// Name and settings, for the results.
    pub variant: Variant,
    /// Program and arguments, with placeholders.
    pub command: Vec<String>,
    /// Working directory, absolute.
    pub dir: PathBuf,
    /// The settings, to verify whether they are in effect.
    pub settings: Settings,
    /// The environment, with placeholders and of equal size in every variant, and carat's libraries.
    pub(crate) injection: Injection,
}

impl PreparedVariant {
    /// Whether its command or its environment tells the server its port.
    pub(super) fn names_port(&self) -> bool {
        let mut texts = self.command.iter().chain(self.injection.env.values());
        texts.any(|text| text.contains("{port}"))
    }
}

/// Why a variant cannot be started on this machine.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A setting is unknown or has an invalid value.
    #[error("variant `{variant}`: {source}")]
    Setting { variant: String, source: SettingError },
    /// A setting cannot be applied here.
    #[error("variant `{variant}`: {source}")]
    Inject { variant: String, source: InjectError },
    /// A program is not installed.
    #[error("{user}: program `{program}` was not found in PATH; install it, or give its path")]
    Program {
        /// The variant, service or command that needs it.
        user: String,
        program: String,
    },
    /// A path leads to no program.
    #[error(
        "{user}: there is no program {program} that can be run; a relative path starts in {dir}"
    )]
    ProgramPath {
        /// The variant, service or command that needs it.
        user: String,
        program: String,
        dir: PathBuf,
    },
    /// A working directory does not exist.
    #[error(
        "{user}: there is no directory {dir}; relative directories start at the experiment file"
    )]
    Directory {
        /// The variant, service or command that needs it.
        user: String,
        dir: PathBuf,
    },
    /// A placeholder that no trial fills in.
    #[error("{user}: {reason}")]
    Placeholder {
        /// The variant, service or command that has it.
        user: String,
        reason: String,
    },
}

/// Checks and prepares every variant. `inherited` returns variables of carat's own environment.
pub fn prepare_variants(
    experiment: &Experiment,
    libraries: &Libraries,
    inherited: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<PreparedVariant>, PrepareError> {
    for (name, service) in &experiment.services {
        let user = format!("service `{name}`");
        let dir = directory(experiment, service.dir.as_deref(), &user)?;
        require_own_program(&user, &service.command, &dir, inherited)?;
        check_placeholders(experiment, &user, service.command.words(), &service.env)?;
    }
    for (name, spec) in experiment.commands() {
        check_command(experiment, spec, &format!("`{name}`"), inherited)?;
    }
    let mut prepared = experiment
        .variants
        .iter()
        .map(|spec| prepare_one(experiment, spec, libraries, inherited))
        .collect::<Result<Vec<_>, _>>()?;
    let mut injections: Vec<&mut Injection> =
        prepared.iter_mut().map(|one| &mut one.injection).collect();
    // All at once: only then is the largest environment known.
    make_comparable(&mut injections);
    Ok(prepared)
}

fn check_command(
    experiment: &Experiment,
    spec: &CommandSpec,
    user: &str,
    inherited: &dyn Fn(&str) -> Option<String>,
) -> Result<(), PrepareError> {
    let dir = spec.dir.as_deref().or(experiment.server.dir.as_deref());
    let dir = directory(experiment, dir, user)?;
    check_placeholders(experiment, user, spec.command.words(), &spec.env)?;
    require_own_program(user, &spec.command, &dir, inherited)
}

/// Whether a trial can fill in every placeholder: an unknown one would end each trial.
fn check_placeholders(
    experiment: &Experiment,
    user: &str,
    words: &[String],
    env: &BTreeMap<String, String>,
) -> Result<(), PrepareError> {
    // Their names alone count here.
    let known = experiment.placeholders(0, Path::new(""), |_| 0);
    let words = words.iter().map(|word| ("its command", word));
    words.chain(env.iter().map(|(name, value)| (name.as_str(), value))).try_for_each(
        |(place, text)| {
            let failed = |reason| {
                let reason = format!("{place}: {reason}");
                PrepareError::Placeholder { user: user.to_owned(), reason }
            };
            fill(text, &known).map(drop).map_err(failed)
        },
    )
}

/// Whether a program that does not run in a variant's root is there.
fn require_own_program(
    user: &str,
    command: &CommandLine,
    dir: &Path,
    inherited: &dyn Fn(&str) -> Option<String>,
) -> Result<(), PrepareError> {
    let path = search_path(inherited("PATH"));
    let search = ProgramSearch { path: &path, root: Path::new("/"), dir };
    require_program(user, command.program(), &search)
}

fn prepare_one(
    experiment: &Experiment,
    spec: &VariantSpec,
    libraries: &Libraries,
    inherited: &dyn Fn(&str) -> Option<String>,
) -> Result<PreparedVariant, PrepareError> {
    let settings = spec
        .settings(roots(inherited).as_deref())
        .map_err(|source| PrepareError::Setting { variant: spec.name.clone(), source })?;
    let given: BTreeMap<String, String> =
        // A variant's own variables come last and win.
        experiment.server.env.clone().into_iter().chain(spec.env.clone()).collect();
    let user = format!("variant `{}`", spec.name);
    let dir = spec.dir.as_deref().or(experiment.server.dir.as_deref());
    let dir = directory(experiment, dir, &user)?;
    let command = spec.command.as_ref().unwrap_or(&experiment.server.command);
    check_placeholders(experiment, &user, command.words(), &given)?;
    let root = settings.root();
    // The folders of carat's own PATH mean nothing in another root.
    let own = inherited("PATH").filter(|_| root.is_none());
    let path = search_path_with(&settings, given.get("PATH").cloned().or(own));
    let search = ProgramSearch { path: &path, root: root.unwrap_or(Path::new("/")), dir: &dir };
    require_program(&user, command.program(), &search)?;
    // What a setting sets may depend on the version, as in `carat exec`.
    let ruby = search.ruby(command.program());
    let request = InjectRequest {
        settings: &settings,
        given,
        inherited,
        ruby: ruby.as_deref(),
        probe: true,
        // No other program inherits settings; the probe stays, as every Ruby is measured.
        scrub: Scrub::Settings,
    };
    let mut injection = inject(&request, || Ok(libraries.clone()))
        .map_err(|source| PrepareError::Inject { variant: spec.name.clone(), source })?;
    // What was searched here, so that the server finds the same program.
    injection.env.insert("PATH".into(), path);
    let variant = Variant {
        name: spec.name.clone(),
        settings: settings.describe(),
        controls: spec.controls.clone(),
    };
    Ok(PreparedVariant { variant, command: command.words().to_vec(), dir, settings, injection })
}

/// The absolute path of `dir`, which must exist.
pub(crate) fn directory(
    experiment: &Experiment,
    dir: Option<&Path>,
    user: &str,
) -> Result<PathBuf, PrepareError> {
    let dir = experiment.folder.join(dir.unwrap_or(Path::new("")));
    std::path::absolute(&dir)
        .ok()
        .filter(|dir| dir.is_dir())
        .ok_or_else(|| PrepareError::Directory { user: user.to_owned(), dir })
}

/// The folder in which `bin/roots` creates systems.
pub(crate) fn roots(inherited: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    inherited(ROOTS).or_else(|| {
        let cache = inherited("XDG_CACHE_HOME")
            .or_else(|| inherited("HOME").map(|home| format!("{home}/.cache")));
        cache.map(|cache| format!("{cache}/carat/roots"))
    })
}

fn require_program(
    user: &str,
    program: &str,
    search: &ProgramSearch<'_>,
) -> Result<(), PrepareError> {
    // A path with a placeholder is not known yet. If it is wrong, the start of the server fails.
    if program.contains('{') || search.find(program).is_some() {
        return Ok(());
    }
    let (user, program) = (user.to_owned(), program.to_owned());
    // PATH is searched for plain names alone (execvp(3)).
    Err(match program.contains('/') {
        true => PrepareError::ProgramPath { user, program, dir: search.dir.to_owned() },
        false => PrepareError::Program { user, program },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_wire::env;

    fn experiment(second: &str) -> Experiment {
        let text = format!(
            "name = 'x'\n[server]\ncommand = ['sh', '-c', 'true']\nready = {{ tcp = true }}\n\
             [load.http]\npath = '/'\nrequests = 1\n\
             [[variant]]\nname = 'default'\n[[variant]]\nname = 'other'\n{second}\n"
        );
        Experiment::parse(&text, Path::new("x.toml"), Path::new(".")).unwrap()
    }

    fn libraries() -> Libraries {
        let path = |name: &str| PathBuf::from("/cache").join(name);
        Libraries {
            directory: path(""),
            shim: path("carat_shim.rb"),
            probe: path("carat_probe.so"),
            runtime: path("carat_runtime.so"),
        }
    }

    fn prepared(second: &str) -> Result<Vec<PreparedVariant>, PrepareError> {
        let inherited = |name: &str| (name == "PATH").then(|| "/usr/bin:/bin".to_owned());
        prepare_variants(&experiment(second), &libraries(), &inherited)
    }

    #[test]
    fn every_variant_has_an_environment_of_equal_size() {
        let prepared = prepared("settings = { arena_max = 2 }").unwrap();
        let size = |one: &PreparedVariant| -> usize {
            one.injection.env.iter().map(|(name, value)| name.len() + value.len() + 2).sum()
        };
        assert_eq!(size(&prepared[0]), size(&prepared[1]));
        assert_eq!(prepared[1].injection.env["MALLOC_ARENA_MAX"], "2");
        assert!(!prepared[0].injection.env.contains_key("MALLOC_ARENA_MAX"));
    }

    #[test]
    fn the_probe_is_the_same_in_every_variant() {
        let prepared = prepared("settings = { arena_max = 2 }").unwrap();
        for one in &prepared {
            assert_eq!(one.injection.env["RUBYOPT"], "-r/cache/carat_shim.rb");
            assert_eq!(one.injection.env[env::PROBE], "/cache/carat_probe.so");
        }
    }

    #[test]
    fn the_runtime_is_in_every_variant_or_in_none_and_only_settings_differ() {
        let without = prepared("settings = { arena_max = 2 }").unwrap();
        assert!(without.iter().all(|one| !one.injection.env.contains_key(env::RUNTIME)));
        let with = prepared("settings = { compact = 'boot' }").unwrap();
        assert!(
            with.iter().all(|one| one.injection.env[env::RUNTIME] == "/cache/carat_runtime.so")
        );
        let requests = [&with[0], &with[1]].map(|one| one.injection.env[env::SETTINGS].as_str());
        assert_eq!(requests, ["scrub=settings", "compact=boot;scrub=settings"]);
    }

    #[test]
    fn an_error_names_the_variant_and_the_remedy() {
        for (second, expected) in [
            ("command = ['no-such-program']", "`no-such-program` was not found in PATH"),
            ("command = ['bin/absent']", "there is no program bin/absent that can be run"),
            ("dir = 'no/such/place'", "there is no directory"),
            (
                "env = { PORT = '{prot}' }",
                "unknown placeholder {prot} (did you mean {port}?); known",
            ),
            ("command = ['sh', '-p', '{services.redis.port}']", "unknown placeholder {services"),
        ] {
            let message = prepared(second).unwrap_err().to_string();
            assert!(message.contains("`other`") && message.contains(expected), "{message}");
        }
        for (table, expected) in [
            ("[prepare]\ncommand = ['no-such-program']", "`prepare`: program `no-such-program`"),
            ("[cleanup]\ncommand = ['true']\ndir = 'no'", "`cleanup`: there is no directory"),
            (
                "[prepare]\ncommand = ['true', '{path}']",
                "`prepare`: its command: unknown placeholder {path}",
            ),
        ] {
            let message = prepared(table).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
