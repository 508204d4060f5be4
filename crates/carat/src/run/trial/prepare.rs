//! What each variant comes to before any trial: command, directory, environment.

use crate::config::{Experiment, VariantSpec};
use crate::core::Variant;
use crate::settings::{
    ApplyError, Environment, SettingError, Settings, StartContext, find_allocator,
};
use crate::target::Libraries;
use carat_wire::env::{PADDING, PROBE, ROOTS, RUNTIME};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A variant that is ready to be started, but for the ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// Name and settings, for the results.
    pub variant: Variant,
    /// Program and arguments, with placeholders.
    pub command: Vec<String>,
    /// Working directory, absolute.
    pub dir: PathBuf,
    /// Variables over the inherited ones, with placeholders; padded to the same size in every variant.
    pub env: BTreeMap<String, String>,
    /// The settings themselves, to see whether they took.
    pub settings: Settings,
    /// What the settings came to.
    pub applied: Environment,
    /// The folder of the libraries inside Ruby.
    pub libraries: PathBuf,
}

/// Why a variant cannot be started on this machine.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A setting is unknown or has a value that it does not take.
    #[error("variant `{variant}`: {source}")]
    Setting {
        /// The variant.
        variant: String,
        /// What is wrong.
        source: SettingError,
    },
    /// A setting cannot be applied here.
    #[error("variant `{variant}`: {source}")]
    Apply {
        /// The variant.
        variant: String,
        /// What is wrong.
        source: ApplyError,
    },
    /// A program is not installed.
    #[error(
        "{who}: program `{program}` was not found; install it (bin/setup installs what the bundled workloads need) or give its path"
    )]
    Program {
        /// Which part of the experiment needs it.
        who: String,
        /// The program.
        program: String,
    },
    /// A working directory does not exist.
    #[error(
        "{who}: there is no directory {dir}; relative directories start at the experiment file"
    )]
    Directory {
        /// Which part of the experiment needs it.
        who: String,
        /// The directory.
        dir: PathBuf,
    },
}

/// Checks and prepares every variant; `inherited` answers for carat's own environment.
pub fn prepare(
    experiment: &Experiment,
    libraries: &Libraries,
    inherited: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Prepared>, PrepareError> {
    for (name, service) in &experiment.services {
        let who = format!("service `{name}`");
        let dir = directory(experiment, service.dir.as_deref(), &who)?;
        let path = inherited("PATH").unwrap_or_else(|| USUAL_PATH.into());
        find_program(&who, service.command.program(), (Path::new("/"), &dir), &path)?;
    }
    let mut prepared = experiment
        .variants
        .iter()
        .map(|spec| prepare_one(experiment, spec, libraries, inherited))
        .collect::<Result<Vec<_>, _>>()?;
    give_all_the_runtime(&mut prepared, libraries);
    pad(&mut prepared);
    Ok(prepared)
}

/// Loads the runtime into every variant where one needs it; without a setting it does nothing.
///
/// Loading any code shifts when Ruby first collects while booting, and with it the final size of a
/// small app by 1 to 2 %, in either direction. Only what a setting does may differ between variants.
fn give_all_the_runtime(prepared: &mut [Prepared], libraries: &Libraries) {
    if prepared.iter().any(|one| one.applied.needs_runtime) {
        let runtime = libraries.runtime.display().to_string();
        for one in prepared {
            one.env.insert(RUNTIME.into(), runtime.clone());
        }
    }
}

fn prepare_one(
    experiment: &Experiment,
    spec: &VariantSpec,
    libraries: &Libraries,
    inherited: &dyn Fn(&str) -> Option<String>,
) -> Result<Prepared, PrepareError> {
    let variant = || spec.name.clone();
    let settings = spec
        .settings(roots(inherited).as_deref())
        .map_err(|source| PrepareError::Setting { variant: variant(), source })?;
    let root = settings.root().unwrap_or(Path::new("/"));
    let given: BTreeMap<&String, &String> = experiment.server.env.iter().chain(&spec.env).collect();
    let around = StartContext {
        runtime: &libraries.runtime,
        find_allocator: &|name| find_allocator(root, name),
        inherited: &|name| {
            given.get(&name.to_owned()).map(|value| (*value).clone()).or_else(|| inherited(name))
        },
        ruby: None,
    };
    let applied = settings
        .environment(&around)
        .map_err(|source| PrepareError::Apply { variant: variant(), source })?;
    let mut env: BTreeMap<String, String> =
        given.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    env.extend(applied.set.clone());
    env.insert(PROBE.into(), libraries.probe.display().to_string());
    let own = env.get("RUBYOPT").cloned().or_else(|| inherited("RUBYOPT")).unwrap_or_default();
    env.insert("RUBYOPT".into(), format!("{own} -r{}", libraries.shim.display()).trim().to_owned());
    let who = format!("variant `{}`", spec.name);
    let dir = spec.dir.as_deref().or(experiment.server.dir.as_deref());
    let dir = directory(experiment, dir, &who)?;
    let command = spec.command.as_ref().unwrap_or(&experiment.server.command);
    let path = search_path(&env, &applied, inherited);
    let program_dir = if command.program().starts_with('/') { root } else { &dir };
    find_program(&who, command.program(), (root, program_dir), &path)?;
    env.insert("PATH".into(), path);
    let described = Variant { name: spec.name.clone(), settings: settings.describe() };
    let libraries = libraries.directory.clone();
    let command = command.words().to_vec();
    Ok(Prepared { variant: described, command, dir, env, settings, applied, libraries })
}

/// The absolute directory that `dir` means, which must exist.
pub(crate) fn directory(
    experiment: &Experiment,
    dir: Option<&Path>,
    who: &str,
) -> Result<PathBuf, PrepareError> {
    let dir = experiment.folder.join(dir.unwrap_or(Path::new("")));
    std::path::absolute(&dir)
        .ok()
        .filter(|dir| dir.is_dir())
        .ok_or_else(|| PrepareError::Directory { who: who.to_owned(), dir })
}

/// Where programs are looked for when nobody says; another system's own places.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// `PATH` of the server: what the variant says, else what carat has; another root has places of its own.
fn search_path(
    env: &BTreeMap<String, String>,
    applied: &Environment,
    inherited: &dyn Fn(&str) -> Option<String>,
) -> String {
    let here = inherited("PATH").filter(|_| applied.root.is_none());
    env.get("PATH").cloned().or(here).unwrap_or_else(|| USUAL_PATH.into())
}

/// The folder in which `bin/roots` creates systems.
fn roots(inherited: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    inherited(ROOTS).or_else(|| {
        let cache = inherited("XDG_CACHE_HOME")
            .or_else(|| inherited("HOME").map(|home| format!("{home}/.cache")));
        cache.map(|cache| format!("{cache}/carat/roots"))
    })
}

/// Looks for a program in the folders of `path` below `root`, or from `dir` where it has a slash.
fn find_program(
    who: &str,
    program: &str,
    (root, dir): (&Path, &Path),
    path: &str,
) -> Result<(), PrepareError> {
    let below = |folder: &Path| root.join(folder.strip_prefix("/").unwrap_or(folder));
    let there = |path: PathBuf| path.symlink_metadata().is_ok_and(|found| !found.is_dir());
    let found = if program.contains('/') {
        there(dir.join(program.trim_start_matches('/')))
    } else {
        std::env::split_paths(path).any(|folder| there(below(&folder).join(program)))
    };
    // A placeholder is filled in later, and a wrong path then fails at the start with its own words.
    if found || program.contains('{') {
        return Ok(());
    }
    Err(PrepareError::Program { who: who.to_owned(), program: program.to_owned() })
}

/// Gives every variant an environment of equal size.
///
/// The size alone moves the stack and with it measured results (Mytkowicz et al., ASPLOS 2009).
fn pad(prepared: &mut [Prepared]) {
    let size = |one: &Prepared| -> usize {
        one.env.iter().map(|(name, value)| name.len() + value.len() + 2).sum()
    };
    let largest = prepared.iter().map(size).max().unwrap_or(0);
    for one in prepared {
        let filler = largest - size(one);
        one.env.insert(PADDING.into(), "-".repeat(filler));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn prepared(second: &str) -> Result<Vec<Prepared>, PrepareError> {
        let inherited = |name: &str| (name == "PATH").then(|| "/usr/bin:/bin".to_owned());
        prepare(&experiment(second), &libraries(), &inherited)
    }

    #[test]
    fn every_variant_has_an_environment_of_equal_size() {
        let prepared = prepared("settings = { arena_max = 2 }").unwrap();
        let size = |one: &Prepared| -> usize {
            one.env.iter().map(|(name, value)| name.len() + value.len() + 2).sum()
        };
        assert_eq!(size(&prepared[0]), size(&prepared[1]));
        assert_eq!(prepared[1].env["MALLOC_ARENA_MAX"], "2");
        assert!(!prepared[0].env.contains_key("MALLOC_ARENA_MAX"));
    }

    #[test]
    fn the_observer_is_the_same_in_every_variant() {
        let prepared = prepared("settings = { arena_max = 2 }").unwrap();
        for one in &prepared {
            assert_eq!(one.env["RUBYOPT"], "-r/cache/carat_shim.rb");
            assert_eq!(one.env[PROBE], "/cache/carat_probe.so");
        }
    }

    #[test]
    fn the_runtime_is_in_every_variant_or_in_none_and_only_settings_differ() {
        let idle = prepared("settings = { arena_max = 2 }").unwrap();
        assert!(idle.iter().all(|one| !one.env.contains_key(RUNTIME)));
        let asked = prepared("settings = { compact = 'boot' }").unwrap();
        assert!(asked.iter().all(|one| one.env[RUNTIME] == "/cache/carat_runtime.so"));
        let settings = carat_wire::env::SETTINGS;
        assert!(!asked[0].env.contains_key(settings) && asked[1].env.contains_key(settings));
    }

    #[test]
    fn what_cannot_be_started_here_names_the_variant_and_what_to_do() {
        for (second, expected) in [
            ("command = ['no-such-program']", "`no-such-program` was not found"),
            ("dir = 'no/such/place'", "there is no directory"),
        ] {
            let message = prepared(second).unwrap_err().to_string();
            assert!(message.contains("`other`") && message.contains(expected), "{message}");
        }
    }
}
