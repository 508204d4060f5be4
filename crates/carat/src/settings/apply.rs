//! What chosen settings mean for the start of a server: pure, so that `exec` and a trial do the same.

use crate::settings::allocator::{allocator_of, packages};
use crate::settings::catalogue::{CATALOGUE, Mechanism};
use crate::settings::chosen::Settings;
use crate::settings::elf::{ElfKind, read_elf};
use carat_wire::env;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the environment depends on besides the settings themselves.
pub struct StartContext<'a> {
    /// Path of the runtime library.
    pub runtime: &'a Path,
    /// The library of an allocator by name, as [`find_allocator`](crate::settings::find_allocator) finds it.
    pub find_allocator: &'a dyn Fn(&str) -> Option<PathBuf>,
    /// The variables that the server would inherit.
    pub inherited: &'a dyn Fn(&str) -> Option<String>,
    /// Word size, machine and C library of the Ruby; `None` where unknown, and then libraries are not checked.
    pub ruby: Option<ElfKind>,
}

/// What to do when starting the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Variables to set, ready to use: what was inherited is already joined.
    pub set: BTreeMap<String, String>,
    /// Libraries that `LD_PRELOAD` in `set` puts first.
    pub preload: Vec<PathBuf>,
    /// Whether the shim must be loaded through `RUBYOPT` for the settings to take.
    pub needs_runtime: bool,
    /// The directory that becomes the root.
    pub root: Option<PathBuf>,
    /// What the user should know: settings that do nothing together.
    pub warnings: Vec<String>,
}

/// Why the settings cannot be applied here.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The allocator is not installed.
    #[error("allocator `{name}` is not installed; install it with {}", packages(.name))]
    NoAllocator {
        /// Its name.
        name: String,
    },
    /// A library to preload cannot be read.
    #[error("cannot read the library {path}: {reason}; give the path of an existing library")]
    Unreadable {
        /// The library.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A library to preload is for another kind of program.
    #[error("{path} is {library}, but this ruby is {ruby}; install the library for {ruby}")]
    OtherMachine {
        /// The library.
        path: PathBuf,
        /// Its kind.
        library: String,
        /// The kind of the Ruby.
        ruby: ElfKind,
    },
    /// A path that the loader would take for two.
    #[error(
        "the path {0:?} holds a space or a colon, which separate libraries in LD_PRELOAD; move the library"
    )]
    Separator(PathBuf),
    /// One setting makes sense only with another.
    #[error("`seal` needs `prepare_fork`; add `prepare_fork = \"warmup\"`")]
    SealAlone,
}

impl Settings {
    /// What these settings mean for the start of a server.
    pub fn environment(&self, context: &StartContext<'_>) -> Result<Environment, ApplyError> {
        if self.is_chosen("seal") && !self.is_chosen("prepare_fork") {
            return Err(ApplyError::SealAlone);
        }
        let mut made = Environment { warnings: self.contradictions(), ..Environment::default() };
        // The user's variables come first: a setting of the catalogue is the more definite wish.
        made.set.extend(self.variables().map(|(name, value)| (name.into(), value.into())));
        for setting in CATALOGUE {
            if let (Mechanism::Variable(variable), Some(value)) =
                (setting.mechanism, self.value(setting.name))
            {
                made.set.insert(variable.into(), value.into());
            }
        }
        self.join_tunables(context, &mut made);
        self.join_preload(context, &mut made)?;
        self.ask_the_runtime(context, &mut made);
        if self.value("yjit") == Some("on") {
            made.set.insert("RUBY_YJIT_ENABLE".into(), "1".into());
        }
        if let Some(folder) = self.value("ruby").and_then(|ruby| Path::new(ruby).parent()) {
            let others = inherited("PATH", context, &made);
            let folder = folder.display().to_string();
            made.set.insert(
                "PATH".into(),
                others.map_or(folder.clone(), |others| format!("{folder}:{others}")),
            );
        }
        made.root = self.value("root").map(PathBuf::from);
        Ok(made)
    }

    fn join_tunables(&self, context: &StartContext<'_>, made: &mut Environment) {
        let chosen = CATALOGUE.iter().filter_map(|setting| match setting.mechanism {
            Mechanism::Tunable(tunable) => Some(format!("{tunable}={}", self.value(setting.name)?)),
            _ => None,
        });
        // glibc takes the last of two equal names, so what was inherited stands first.
        let mut all: Vec<String> = inherited("GLIBC_TUNABLES", context, made).into_iter().collect();
        let before = all.len();
        all.extend(chosen);
        if all.len() > before {
            made.set.insert("GLIBC_TUNABLES".into(), all.join(":"));
        }
    }

    fn join_preload(
        &self,
        context: &StartContext<'_>,
        made: &mut Environment,
    ) -> Result<(), ApplyError> {
        let Some(name) = self.value("allocator").filter(|name| *name != "system") else {
            return Ok(());
        };
        let library = if Path::new(name).is_absolute() {
            PathBuf::from(name)
        } else {
            (context.find_allocator)(name)
                .ok_or_else(|| ApplyError::NoAllocator { name: name.to_owned() })?
        };
        let seen_from_here = match self.value("root") {
            Some(root) => Path::new(root).join(library.strip_prefix("/").unwrap_or(&library)),
            None => library.clone(),
        };
        check_library(&library, &seen_from_here, context.ruby)?;
        let others = inherited("LD_PRELOAD", context, made).map(|all| without(&all, &library));
        let others = others.filter(|others| !others.is_empty());
        made.warnings.extend(foreign_allocator(&library, others.as_deref()));
        let first = library.display().to_string();
        made.set.insert(
            "LD_PRELOAD".into(),
            others.map_or(first.clone(), |others| format!("{first}:{others}")),
        );
        made.preload.push(library);
        Ok(())
    }

    fn ask_the_runtime(&self, context: &StartContext<'_>, made: &mut Environment) {
        let asked: Vec<String> = CATALOGUE
            .iter()
            .filter(|setting| self.is_for_the_runtime(setting.name, setting.mechanism))
            .filter_map(|setting| Some(format!("{}={}", setting.name, self.value(setting.name)?)))
            .collect();
        // `compact = "off"` alone changes nothing; beside `prepare_fork` it forbids the compaction.
        made.needs_runtime = asked.iter().any(|pair| pair != "compact=off");
        if made.needs_runtime {
            made.set.insert(env::RUNTIME.into(), context.runtime.display().to_string());
            made.set.insert(env::SETTINGS.into(), asked.join(";"));
        }
    }

    fn is_for_the_runtime(&self, name: &str, mechanism: Mechanism) -> bool {
        let forbids = name == "compact" && self.value(name) == Some("off");
        let after_fork = name == "yjit" && self.value(name) == Some("after-fork");
        after_fork || mechanism == Mechanism::Runtime && (self.is_chosen(name) || forbids)
    }

    fn contradictions(&self) -> Vec<String> {
        let allocator = self.value("allocator").unwrap_or("system");
        let mut warnings = Vec::new();
        if allocator != "system" {
            let glibc = CATALOGUE.iter().map(|setting| setting.name).filter(|name| {
                (*name == "arena_max" || name.starts_with("malloc.")) && self.value(name).is_some()
            });
            warnings.extend(glibc.map(|name| {
                format!(
                    "`{name}` is a setting of glibc's malloc and does nothing under {allocator}"
                )
            }));
        }
        if self.value("malloc_conf").is_some() && !allocator.contains("jemalloc") {
            warnings.push(format!(
                "`malloc_conf` is a setting of jemalloc and does nothing under {allocator}"
            ));
        }
        warnings
    }
}

fn inherited(name: &str, context: &StartContext<'_>, made: &Environment) -> Option<String> {
    made.set
        .get(name)
        .cloned()
        .or_else(|| (context.inherited)(name))
        .filter(|value| !value.is_empty())
}

/// What `LD_PRELOAD` names besides `library`: a server that restarts itself through carat has it already.
fn without(all: &str, library: &Path) -> String {
    let others = all.split([':', ' ']).filter(|path| Path::new(path) != library);
    others.collect::<Vec<_>>().join(":")
}

fn check_library(named: &Path, here: &Path, ruby: Option<ElfKind>) -> Result<(), ApplyError> {
    if named.to_string_lossy().contains([' ', ':']) {
        return Err(ApplyError::Separator(named.to_owned()));
    }
    let kind = read_elf(here).map_err(|error| ApplyError::Unreadable {
        path: named.to_owned(),
        reason: error.to_string(),
    })?;
    match (kind, ruby) {
        (Some(library), Some(ruby)) if !ruby.can_load(library) => Err(ApplyError::OtherMachine {
            path: named.to_owned(),
            library: library.to_string(),
            ruby,
        }),
        (None, Some(ruby)) => Err(ApplyError::OtherMachine {
            path: named.to_owned(),
            library: "not a library".into(),
            ruby,
        }),
        _ => Ok(()),
    }
}

fn foreign_allocator(library: &Path, inherited: Option<&str>) -> Option<String> {
    let named = |path: &Path| allocator_of(&path.file_name()?.to_string_lossy());
    let ours = named(library);
    let theirs = inherited?
        .split([':', ' '])
        .find_map(|path| named(Path::new(path)))
        .filter(|theirs| Some(*theirs) != ours)?;
    Some(format!("LD_PRELOAD already names {theirs}; {} comes first and wins", library.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SELF: &str = "/proc/self/exe";

    fn applied(pairs: &[&str], inherited: &[(&str, &str)]) -> Result<Environment, ApplyError> {
        let settings = Settings::from_pairs(pairs.iter().copied()).expect("valid settings");
        let find =
            |name: &str| inherited.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
        settings.environment(&StartContext {
            runtime: Path::new("/x/carat_runtime.so"),
            find_allocator: &|name| (name == "jemalloc").then(|| SELF.into()),
            inherited: &find,
            ruby: read_elf(Path::new(SELF)).expect("readable"),
        })
    }

    #[test]
    fn nothing_chosen_changes_nothing() {
        assert_eq!(applied(&[], &[("LD_PRELOAD", "/a.so")]), Ok(Environment::default()));
        assert_eq!(
            applied(&["compact=off", "trim=off", "allocator=system"], &[]),
            Ok(Environment::default())
        );
    }

    #[test]
    fn variables_are_set_and_joined_with_what_was_inherited() {
        let inherited = [("LD_PRELOAD", "/a.so"), ("GLIBC_TUNABLES", "glibc.malloc.mxfast=0")];
        for (pair, name, value) in [
            ("arena_max=2", "MALLOC_ARENA_MAX", "2"),
            ("gc.growth_factor=1.1", "RUBY_GC_HEAP_GROWTH_FACTOR", "1.1"),
            ("malloc.top_pad=64k", "MALLOC_TOP_PAD_", "65536"),
            (
                "malloc.tcache_count=0",
                "GLIBC_TUNABLES",
                "glibc.malloc.mxfast=0:glibc.malloc.tcache_count=0",
            ),
            ("allocator=jemalloc", "LD_PRELOAD", "/proc/self/exe:/a.so"),
            ("allocator=/proc/self/exe", "LD_PRELOAD", "/proc/self/exe:/a.so"),
            ("env.A=b", "A", "b"),
            ("yjit=on", "RUBY_YJIT_ENABLE", "1"),
            ("ruby=/opt/ruby/bin/ruby", "PATH", "/opt/ruby/bin"),
        ] {
            let made = applied(&[pair], &inherited).expect(pair);
            assert_eq!(made.set.get(name).map(String::as_str), Some(value), "{pair}");
            assert_eq!(made.set.len(), 1, "{pair}");
            assert!(!made.needs_runtime, "{pair}");
        }
    }

    #[test]
    fn the_runtime_is_loaded_only_when_a_setting_asks() {
        for (pairs, asked) in [
            (&["compact=boot"][..], Some("compact=boot")),
            (&["compact=off", "prepare_fork=warmup"], Some("compact=off;prepare_fork=warmup")),
            (&["yjit=after-fork"], Some("yjit=after-fork")),
            (&["trim=full-gc", "arena_max=2"], Some("trim=full-gc")),
            (&["compact=off"], None),
        ] {
            let made = applied(pairs, &[]).expect("applies");
            assert_eq!(made.set.get(env::SETTINGS).map(String::as_str), asked, "{pairs:?}");
            assert_eq!(made.needs_runtime, asked.is_some(), "{pairs:?}");
            assert_eq!(made.set.contains_key(env::RUNTIME), asked.is_some(), "{pairs:?}");
        }
    }

    #[test]
    fn what_cannot_be_applied_is_refused_with_the_way_out() {
        for (pairs, part) in [
            (&["allocator=mimalloc"][..], "apt-get install libmimalloc2.0"),
            (&["allocator=/nowhere/x.so"], "cannot read the library /nowhere/x.so"),
            (&["allocator=/etc/passwd"], "is not a library, but this ruby is 64-bit"),
            (&["allocator=/a b.so"], "holds a space"),
            (&["seal=on"], "prepare_fork = \"warmup\""),
        ] {
            let error = applied(pairs, &[]).expect_err("refused").to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn settings_that_do_nothing_together_are_said() {
        for (pairs, part) in [
            (
                &["allocator=jemalloc", "arena_max=2"][..],
                "`arena_max` is a setting of glibc's malloc",
            ),
            (&["malloc_conf=narenas:2"], "does nothing under system"),
        ] {
            let made = applied(pairs, &[]).expect("applies");
            assert!(
                made.warnings.iter().any(|warning| warning.contains(part)),
                "{:?}",
                made.warnings
            );
        }
        let again = applied(&["allocator=jemalloc"], &[("LD_PRELOAD", "/proc/self/exe:/a.so")]);
        assert_eq!(again.expect("applies").set["LD_PRELOAD"], "/proc/self/exe:/a.so");
        let two = applied(&["allocator=jemalloc"], &[("LD_PRELOAD", "/lib/libtcmalloc.so.4")]);
        assert_eq!(two.expect("applies").warnings.len(), 1);
    }
}
