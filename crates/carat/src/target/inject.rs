//! The environment in which a server's Ruby loads carat's libraries and applies settings.
//!
//! `compare`, `record` and `exec` all start servers with it.

use crate::target::{Libraries, LibraryError};
use carat_settings::{
    ApplyError, ElfKind, Environment, Scrub, Settings, StartContext, find_allocator, linked_malloc,
    read_elf, read_ruby_version,
};
use carat_wire::env;
use carat_wire::page::{AllocatorKind, Word};
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What to inject, and into what.
pub(crate) struct InjectRequest<'a> {
    pub(crate) settings: &'a Settings,
    /// Variables that the user sets for the server.
    pub(crate) given: BTreeMap<String, String>,
    /// The variables that the server would inherit.
    pub(crate) inherited: &'a dyn Fn(&str) -> Option<String>,
    /// The Ruby; `None` if unknown, and then libraries to preload are not compared with it.
    pub(crate) ruby: Option<&'a Path>,
    /// Whether the probe is loaded.
    pub(crate) probe: bool,
    /// What the programs that the server starts do not inherit; [`Scrub::Once`] is decided here.
    pub(crate) scrub: Scrub,
}

/// What a server is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injection {
    /// Variables that override the inherited ones.
    pub(crate) env: BTreeMap<String, String>,
    /// The result of the settings: preloaded libraries, another root, warnings.
    pub(crate) applied: Environment,
    /// Carat's libraries, if any is loaded.
    libraries: Option<Libraries>,
}

/// Why a server cannot be started with these settings.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// A setting cannot be applied here.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// Carat's libraries cannot be unpacked.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The loader ignores `LD_PRELOAD` if a program gains rights when it is started (ld.so(8)).
    #[error(
        "{0} is setuid or has file capabilities, so the loader ignores LD_PRELOAD; give the rights \
         to the service instead (AmbientCapabilities in systemd)"
    )]
    SecureExecution(PathBuf),
}

/// Computes what to start a server with. `libraries` is called only if one is loaded.
pub(crate) fn inject(
    request: &InjectRequest<'_>,
    libraries: impl FnOnce() -> Result<Libraries, LibraryError>,
) -> Result<Injection, InjectError> {
    let settings = request.settings;
    // A program whose version is unknown has every setting.
    // Before anything is unpacked, because it can refuse the request.
    if let Some(version) = request.ruby.and_then(|ruby| read_ruby_version(ruby).ok().flatten()) {
        settings.check_ruby(version)?;
    }
    // Every program inherits LD_PRELOAD until the runtime inside Ruby removes it.
    let scrubs_preload = request.scrub.has_settings() && settings.preloads();
    let lasting = settings.needs_runtime() || scrubs_preload;
    let libraries = if request.probe || lasting { Some(libraries()?) } else { None };
    let scrub = match request.scrub {
        // Only the libraries inside Ruby can remove anything.
        _ if libraries.is_none() => Scrub::Nothing,
        Scrub::Nothing => Scrub::Nothing,
        Scrub::Settings if !lasting => Scrub::Nothing,
        _ if !lasting => Scrub::Once,
        chosen => chosen,
    };
    let applied = apply(request, libraries.as_ref(), scrub)?;
    let mut env = request.given.clone();
    // Settings last: what they join with the user's variables is in them already.
    env.extend(applied.set.clone());
    let mut injection = Injection { env, applied, libraries };
    injection.load_libraries(request, scrub);
    Ok(injection)
}

fn apply(
    request: &InjectRequest<'_>,
    libraries: Option<&Libraries>,
    scrub: Scrub,
) -> Result<Environment, InjectError> {
    let root = request.settings.root().unwrap_or(Path::new("/"));
    let linked = request.ruby.and_then(|ruby| linked_malloc(root, ruby));
    let context = StartContext {
        runtime: libraries.map_or(Path::new(""), |libraries| &libraries.runtime),
        find_allocator: &|name| find_allocator(root, name),
        // What the user gives the server comes before what carat inherited.
        inherited: &|name| request.given.get(name).cloned().or_else(|| (request.inherited)(name)),
        scrub,
        ruby: request.ruby.and_then(kind),
        linked,
        stack_limit: getrlimit(Resource::Stack).current,
    };
    let mut applied = request.settings.environment(&context)?;
    // Without a preload the loader's secure mode takes nothing away (ld.so(8)).
    if let Some(ruby) = request.ruby.filter(|_| !applied.preload.is_empty()) {
        if gains_rights(ruby) {
            return Err(InjectError::SecureExecution(ruby.to_owned()));
        }
        applied.warnings.extend(linked_allocator(ruby, linked));
    }
    Ok(applied)
}

impl Injection {
    fn load_libraries(&mut self, request: &InjectRequest<'_>, scrub: Scrub) {
        let Some(libraries) = self.libraries.clone() else { return };
        for name in removed(scrub) {
            let before = self.env.get(*name).cloned().or_else(|| (request.inherited)(name));
            self.env.extend(before.map(|value| (env::inherited(name), value)));
        }
        if request.probe {
            self.env.insert(env::PROBE.into(), libraries.probe.display().to_string());
        }
        let own = self.env.get("RUBYOPT").cloned().or_else(|| (request.inherited)("RUBYOPT"));
        let (own, shim) = (own.unwrap_or_default(), format!("-r{}", libraries.shim.display()));
        // A server that restarts itself through carat has the shim already, perhaps that of another version.
        let others = own.split_ascii_whitespace().filter(|word| !is_shim(word));
        let options = self.applied.ruby_options.iter().map(String::as_str);
        let words: Vec<&str> = others.chain(options).chain([shim.as_str()]).collect();
        self.env.insert("RUBYOPT".into(), words.join(" "));
    }

    /// Loads the runtime, which hands itself on as it does under settings, and does nothing else without them.
    fn load_runtime(&mut self) {
        if let Some(libraries) = &self.libraries {
            self.env.insert(env::RUNTIME.into(), libraries.runtime.display().to_string());
            let request = Scrub::Settings.alone().unwrap_or_default();
            self.env.entry(env::SETTINGS.into()).or_insert(request);
        }
    }

    /// The folder of carat's libraries, if any is loaded.
    pub(crate) fn library_folder(&self) -> Option<&Path> {
        self.libraries.as_ref().map(|libraries| libraries.directory.as_path())
    }
}

/// The variables besides those of the settings that are removed, and whose earlier values are put back.
fn removed(scrub: Scrub) -> &'static [&'static str] {
    const VERIFIER: [&str; 4] = [env::PROBE, env::PAGES, env::TOKEN, "RUBYOPT"];
    match scrub {
        Scrub::Nothing | Scrub::Settings => &[],
        Scrub::Verifier => &VERIFIER[..3],
        Scrub::Lasting => &VERIFIER[3..],
        Scrub::Once | Scrub::Everything => &VERIFIER,
    }
}

/// Makes the environments of an experiment's variants comparable.
///
/// The runtime is loaded into all of them or into none: loading any code shifts when Ruby first collects while
/// it boots, which changes the final memory of a small app by 1 to 2 %, in either direction. All of them get the
/// same size, because the size alone moves the stack and thereby measured results (Mytkowicz et al., ASPLOS 2009).
pub(crate) fn make_comparable(injections: &mut [&mut Injection]) {
    if injections.iter().any(|injection| injection.env.contains_key(env::RUNTIME)) {
        injections.iter_mut().for_each(|injection| injection.load_runtime());
    }
    let largest = injections.iter().map(|injection| size(&injection.env)).max().unwrap_or(0);
    for injection in injections {
        let padding = largest - size(&injection.env);
        injection.env.insert(env::PADDING.into(), "-".repeat(padding));
    }
}

fn size(env: &BTreeMap<String, String>) -> usize {
    // `=` and the NUL at the end (execve(2)).
    env.iter().map(|(name, value)| name.len() + value.len() + 2).sum()
}

/// Sets the token by which a tree's processes are found and the folder of its probes' pages.
pub(crate) fn set_tree(env: &mut BTreeMap<String, String>, token: &str, pages: &Path) {
    env.insert(env::TOKEN.into(), token.to_owned());
    env.insert(env::PAGES.into(), pages.display().to_string());
}

/// Whether a word of `RUBYOPT` loads the shim of some version of carat.
fn is_shim(word: &str) -> bool {
    word.strip_prefix("-r").is_some_and(|file| Path::new(file).ends_with("carat_shim.rb"))
}

fn kind(program: &Path) -> Option<ElfKind> {
    read_elf(program).ok().flatten()
}

fn gains_rights(program: &Path) -> bool {
    let Ok(file) = std::fs::metadata(program) else { return false };
    // The value has at most 24 bytes (`vfs_ns_cap_data`, linux/capability.h).
    let mut capabilities = [0u8; 64];
    file.mode() & 0o6000 != 0
        || rustix::fs::getxattr(program, "security.capability", &mut capabilities[..]).is_ok()
}

/// A warning if the Ruby is linked to an allocator beside the C library's.
fn linked_allocator(ruby: &Path, linked: Option<AllocatorKind>) -> Option<String> {
    use AllocatorKind::{Glibc, Musl, Other};
    let linked = linked.filter(|kind| !matches!(kind, Glibc | Musl | Other))?.name();
    Some(format!("{} is itself linked to {linked}; two allocators may mix", ruby.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn libraries() -> Libraries {
        let path = |name: &str| PathBuf::from("/cache").join(name);
        Libraries {
            directory: path(""),
            shim: path("carat_shim.rb"),
            probe: path("carat_probe.so"),
            runtime: path("carat_runtime.so"),
        }
    }

    fn injected(pairs: &[&str], probe: bool, scrub: Scrub) -> Injection {
        let settings = Settings::from_pairs(pairs.iter().copied()).unwrap();
        let inherited = |name: &str| match name {
            "RUBYOPT" => Some("-W0  -r/old/carat_shim.rb -r/cache/carat_shim.rb".to_owned()),
            "RUBY_GC_MALLOC_LIMIT" => Some("1".to_owned()),
            _ => None,
        };
        let request = InjectRequest {
            settings: &settings,
            given: BTreeMap::new(),
            inherited: &inherited,
            ruby: None,
            probe,
            scrub,
        };
        inject(&request, || Ok(libraries())).unwrap()
    }

    #[test]
    fn no_library_is_loaded_unless_something_needs_one() {
        let plain = injected(&["arena_max=2"], false, Scrub::Lasting);
        assert_eq!(plain.library_folder(), None);
        assert_eq!(plain.env, BTreeMap::from([("MALLOC_ARENA_MAX".to_owned(), "2".to_owned())]));
        let nothing = Scrub::Nothing;
        for loaded in [injected(&[], true, nothing), injected(&["compact=boot"], false, nothing)] {
            assert_eq!(loaded.library_folder(), Some(Path::new("/cache")));
        }
    }

    #[test]
    fn the_shim_is_required_once_whatever_the_version_and_after_the_users_own_options() {
        let loaded = injected(&[], true, Scrub::Nothing);
        assert_eq!(loaded.env["RUBYOPT"], "-W0 -r/cache/carat_shim.rb");
        assert_eq!(loaded.env[env::PROBE], "/cache/carat_probe.so");
        assert!(!loaded.env.contains_key(env::RUNTIME));
    }

    #[test]
    fn scrubbing_keeps_the_settings_and_what_was_inherited() {
        let loaded = injected(&["compact=boot", "gc.malloc_limit=8m"], false, Scrub::Lasting);
        assert_eq!(loaded.env[env::SETTINGS], "compact=boot;scrub=settings,options");
        assert_eq!(loaded.applied.set[env::SETTINGS], "compact=boot;scrub=settings,options");
        assert_eq!(loaded.env[env::VARIABLES], "RUBY_GC_MALLOC_LIMIT");
        assert_eq!(loaded.env[&env::inherited("RUBY_GC_MALLOC_LIMIT")], "1");
        let inherited = "-W0  -r/old/carat_shim.rb -r/cache/carat_shim.rb";
        assert_eq!(loaded.env[&env::inherited("RUBYOPT")], inherited);
        assert!(!loaded.env.contains_key(&env::inherited("LD_PRELOAD")));
        assert!(!loaded.env.contains_key(env::PROBE));
    }

    #[test]
    fn options_of_ruby_are_for_the_server_alone() {
        let loaded = injected(&["yjit_call_threshold=9"], false, Scrub::Lasting);
        let expected = "-W0 --yjit-call-threshold=9 --yjit-disable -r/cache/carat_shim.rb";
        assert_eq!(loaded.env["RUBYOPT"], expected);
        let inherited = &loaded.env[&env::inherited("RUBYOPT")];
        assert!(!inherited.contains("yjit"), "{inherited}");
        let enabled = injected(&["yjit=on", "yjit_exec_mem=16"], false, Scrub::Lasting);
        let expected = "-W0 --yjit-exec-mem-size=16 -r/cache/carat_shim.rb";
        assert_eq!(enabled.env["RUBYOPT"], expected);
    }

    #[test]
    fn what_only_the_verifier_needs_is_removed_for_good() {
        for (pairs, scrub, value) in [
            (&["arena_max=2"][..], Scrub::Everything, "scrub=libraries,verifier"),
            (&["arena_max=2"], Scrub::Verifier, "scrub=libraries,verifier"),
            (&["trim=idle"], Scrub::Verifier, "trim=idle;scrub=verifier"),
            (&["trim=idle"], Scrub::Everything, "trim=idle;scrub=settings,options,verifier"),
        ] {
            let loaded = injected(pairs, true, scrub);
            assert_eq!(loaded.env[env::SETTINGS], value, "{pairs:?}");
            let backed_up = loaded.env.contains_key(&env::inherited("RUBYOPT"));
            assert_eq!(backed_up, value != "trim=idle;scrub=verifier", "{pairs:?}");
        }
    }

    #[test]
    fn comparable_environments_have_equal_size_and_the_runtime_in_all_or_none() {
        for (pairs, runtime) in [("compact=boot", true), ("arena_max=2", false)] {
            let (mut first, mut second) =
                (injected(&[], true, Scrub::Nothing), injected(&[pairs], true, Scrub::Nothing));
            make_comparable(&mut [&mut first, &mut second]);
            assert_eq!(size(&first.env), size(&second.env));
            assert_eq!(first.env.contains_key(env::RUNTIME), runtime);
            assert_eq!(second.env.contains_key(env::RUNTIME), runtime);
        }
    }
}
