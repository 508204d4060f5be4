//! Settings of the process itself: how the kernel treats its memory, its Ruby, root and variables.

use super::malloc::{behind_links, is_mapped};
use crate::elf::read_elf;
use crate::environment::{ApplyError, Environment, EnvironmentBuilder};
use crate::observation::{Moment, ProcessObservation, SettingStatus};
use crate::setting::{Mechanism, Setting, SettingDefinition};
use crate::value::{AbsolutePath, MemorySize, SettingValue, Switch, words};
use carat_ruby::version::{RubyVersion, V2_7};
use std::fmt;
use std::path::Path;

pub(super) const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition::of::<HugePages>(),
    SettingDefinition::of::<VmStack>(),
    SettingDefinition::of::<MainStack>(),
    SettingDefinition::of::<Ksm>(),
    SettingDefinition::of::<RubyProgram>(),
    SettingDefinition::of::<RootDirectory>(),
    SettingDefinition::of::<UserVariables>(),
];

words! {
    /// Whether the kernel may use huge pages.
    HugePageChoice { Ruby = "ruby", Off = "off", On = "on", }
}

struct HugePages;

/// What holds for all processes.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

impl Setting for HugePages {
    type Value = HugePageChoice;
    const NAME: &'static str = "thp";
    const DEFAULT: &'static str = "ruby";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::Start };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "Transparent huge pages: as Ruby decides (it switches them off when it starts), off, or on again.";
    const COSTS: &'static str =
        "`on` copies up to 2 MB where a worker writes one byte of a shared page.";
    const VERIFIED_BY: &'static str =
        "THP_enabled in /proc/PID/status, and /sys/kernel/mm/transparent_hugepage/enabled";

    fn verify(
        value: &HugePageChoice,
        process: &ProcessObservation<'_>,
        _environment: &Environment,
    ) -> SettingStatus {
        // The kernel's own state counts, so no report of the runtime is needed.
        let enabled = process
            .status
            .and_then(|status| status.lines().find_map(|line| line.strip_prefix("THP_enabled:")))
            .map(str::trim);
        match (enabled, value) {
            // The switch of the process is below that of the system.
            (Some("1"), HugePageChoice::On) if process.huge_page_policy == Some("never") => {
                SettingStatus::NotApplied(format!("{HUGE_PAGES} says `never`"))
            }
            (Some("1"), HugePageChoice::On) if process.huge_page_policy == Some("madvise") => {
                SettingStatus::Partly(format!(
                    "only for memory for which the program asks for it, because {HUGE_PAGES} says `madvise`"
                ))
            }
            (Some("1"), HugePageChoice::On) | (Some("0"), HugePageChoice::Off) => {
                SettingStatus::Applied("/proc/PID/status agrees".into())
            }
            (Some(_), _) => SettingStatus::NotApplied("/proc/PID/status disagrees".into()),
            (None, _) => SettingStatus::Unknown("this kernel does not show it".into()),
        }
    }
}

/// Ruby raises smaller values to this (`RUBY_VM_THREAD_VM_STACK_SIZE_MIN`, vm_core.h, 2.7 to 4.0).
const LEAST_VM_STACK: u64 = 16 << 10;

struct VmStack;

impl Setting for VmStack {
    type Value = MemorySize<LEAST_VM_STACK>;
    const NAME: &'static str = "vm_stack";
    const DEFAULT: &'static str = "1m";
    const MECHANISM: Mechanism = Mechanism::Variable("RUBY_THREAD_VM_STACK_SIZE");
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "Size of the stack of Ruby methods in each thread.";
    const COSTS: &'static str = "Deep recursion in a thread raises SystemStackError earlier.";
}

/// Half of what Ruby gives its other threads (`RUBY_VM_THREAD_MACHINE_STACK_SIZE`, vm_core.h): an amount in which Ruby can start.
const LEAST_MAIN_STACK: u64 = 512 << 10;

pub(crate) struct MainStack;

impl Setting for MainStack {
    type Value = MemorySize<LEAST_MAIN_STACK>;
    const NAME: &'static str = "main_stack";
    const DEFAULT: &'static str = "the limit that the server inherits, usually 8m";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::Start };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const DOES: &'static str = "Size of the stack of the main thread (`ulimit -s`), of which Ruby 3.3 touches every page when it starts. Set right before the server starts; once Ruby runs, the old limit holds again for the programs that the server starts. The hard limit is never changed.";
    const COSTS: &'static str = "Deep recursion in C functions of the main thread raises SystemStackError earlier. Threads that a C library starts without a size of their own get stacks of this size.";
    const VERIFIED_BY: &'static str =
        "the runtime's report in the shared page: the limit was this size when Ruby had started";

    fn apply(value: &Self::Value, server: &mut EnvironmentBuilder<'_>) -> Result<(), ApplyError> {
        // Before the start, because Ruby reads the limit only then.
        server.limit_main_stack(value.0);
        let inherited = server.context.stack_limit;
        let inherited = inherited.map_or("unlimited".to_owned(), |limit| limit.to_string());
        // The runtime restores the second one.
        server.request(Self::NAME, &format!("{value}:{inherited}"));
        Ok(())
    }
}

struct Ksm;

impl Setting for Ksm {
    type Value = Switch;
    const NAME: &'static str = "ksm";
    const DEFAULT: &'static str = "off";
    const MECHANISM: Mechanism = Mechanism::Runtime { moment: Moment::Fork };
    const SINCE: Option<RubyVersion> = Some(V2_7);
    const LEVELS: &'static [&'static str] = &["on"];
    const FORKS: bool = true;
    const DOES: &'static str = "Lets the kernel merge equal pages of the workers, from the first fork on (Linux 6.4; an administrator must have started ksmd). Ruby 3.3 writes to shared pages in every full GC without changing them, which `fill_call_caches` prevents; this merges such pages again, and others that are equal.";
    const COSTS: &'static str = "The CPU time of ksmd, which is none of the server's: `carat compare` has it as `cpu.merging`. A page fault for every write to a merged page. No profile contains it: on two busy cores it raised p99 by a fifth or more, for little memory or none ([remedies](../evidence/remedies.md)).";
}

pub(crate) struct RubyProgram;

impl Setting for RubyProgram {
    type Value = AbsolutePath;
    const NAME: &'static str = "ruby";
    const DEFAULT: &'static str = "the command's own";
    const MECHANISM: Mechanism = Mechanism::Own;
    const DOES: &'static str = "Puts the directory of this `ruby` first in PATH.";
    const COSTS: &'static str = "Nothing.";
    const VERIFIED_BY: &'static str = "the program in /proc/PID/maps";

    fn apply(value: &AbsolutePath, server: &mut EnvironmentBuilder<'_>) -> Result<(), ApplyError> {
        // By PATH, because launchers such as `bundle exec` look for Ruby there.
        if let Some(directory) = value.0.parent() {
            let others = server.current("PATH");
            server.prepend("PATH", &directory.display().to_string(), others);
        }
        Ok(())
    }

    fn verify(
        value: &AbsolutePath,
        process: &ProcessObservation<'_>,
        environment: &Environment,
    ) -> SettingStatus {
        let root = environment.root.as_deref().unwrap_or(Path::new("/"));
        let Some(maps) = process.maps else {
            return SettingStatus::Unknown("/proc/PID/maps cannot be read".into());
        };
        // A launcher may put a folder of its own first, or name another ruby by its path.
        match behind_links(root, &value.0) {
            Some(file) if is_mapped(maps, &file) => {
                SettingStatus::Applied(format!("{} is mapped", file.display()))
            }
            Some(file) if is_program(root, &file) => {
                SettingStatus::NotApplied(format!("{} is not mapped", file.display()))
            }
            _ => SettingStatus::Unknown(format!(
                "no program is found at {}; a script there may start one",
                value.0.display()
            )),
        }
    }
}

/// Whether a file of this root is a program itself, and not a script that starts one.
fn is_program(root: &Path, file: &Path) -> bool {
    let file = file.strip_prefix("/").unwrap_or(file);
    read_elf(&root.join(file)).is_ok_and(|kind| kind.is_some())
}

pub(crate) struct RootDirectory;

impl Setting for RootDirectory {
    type Value = AbsolutePath;
    const NAME: &'static str = "root";
    const DEFAULT: &'static str = "/";
    const MECHANISM: Mechanism = Mechanism::Own;
    const DOES: &'static str =
        "Makes this directory the root of the server's file system (requires root).";
    const COSTS: &'static str = "`carat exec` leaves out the settings that act inside Ruby, because carat's libraries are outside this directory; trials have them inside.";
    const VERIFIED_BY: &'static str = "/proc/PID/root does not point to /";

    fn apply(value: &AbsolutePath, server: &mut EnvironmentBuilder<'_>) -> Result<(), ApplyError> {
        server.change_root(&value.0);
        Ok(())
    }

    fn verify(
        _value: &AbsolutePath,
        process: &ProcessObservation<'_>,
        _environment: &Environment,
    ) -> SettingStatus {
        let Some(root) = process.root else {
            return SettingStatus::Unknown("/proc/PID/root cannot be read".into());
        };
        // A trial runs in a private copy of the directory, so the path itself need not be the same.
        if root == Path::new("/") {
            SettingStatus::NotApplied("/proc/PID/root points to the root of this system".into())
        } else {
            SettingStatus::Applied(format!("/proc/PID/root points to {}", root.display()))
        }
    }
}

struct UserVariables;

/// What stands for the variables of `env`, which [`Settings`](crate::Settings) keeps by their own names.
pub(super) enum NamedVariables {}

impl fmt::Display for NamedVariables {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl SettingValue for NamedVariables {
    fn parse(_text: &str) -> Option<Self> {
        None
    }

    fn accepted() -> String {
        "a table of variables, or `env.NAME=value`".into()
    }
}

impl Setting for UserVariables {
    type Value = NamedVariables;
    const NAME: &'static str = "env";
    const DEFAULT: &'static str = "empty";
    const MECHANISM: Mechanism = Mechanism::Own;
    const DOES: &'static str = "Any other variables: `env = { NAME = \"value\" }`, or `env.NAME=value` on the command line.";
    const COSTS: &'static str = "Depends on the variable.";
    const VERIFIED_BY: &'static str = "the variable in /proc/PID/environ";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::tests::word;
    use std::os::unix::fs::symlink;

    #[test]
    fn huge_pages_are_on_only_where_the_kernel_has_them_for_this_process() {
        for (choice, enabled, policy, expected) in [
            (HugePageChoice::On, "1", None, "applied"),
            (HugePageChoice::On, "1", Some("always"), "applied"),
            (HugePageChoice::On, "1", Some("madvise"), "partly"),
            (HugePageChoice::On, "1", Some("never"), "not applied"),
            (HugePageChoice::On, "0", Some("always"), "not applied"),
            (HugePageChoice::Off, "0", Some("never"), "applied"),
            (HugePageChoice::Off, "1", Some("always"), "not applied"),
        ] {
            let status = format!("Name:\truby\nTHP_enabled:\t{enabled}\n");
            let process = ProcessObservation {
                status: Some(&status),
                huge_page_policy: policy,
                ..ProcessObservation::default()
            };
            let found = HugePages::verify(&choice, &process, &Environment::default());
            assert_eq!(word(&found), expected, "{enabled} {policy:?}: {found:?}");
        }
    }

    #[test]
    fn another_ruby_than_the_one_that_is_mapped_is_not_applied_and_behind_a_script_it_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let own = std::env::current_exe().unwrap();
        for name in ["chosen3.3", "other"] {
            std::fs::copy(&own, path(name)).unwrap();
        }
        symlink("chosen3.3", path("chosen")).unwrap();
        std::fs::write(path("shim"), "#!/bin/sh\n").unwrap();
        let maps = |name: &str| {
            let real = path(name).canonicalize().unwrap();
            format!("55d000000000-55d000100000 r-xp 00000000 08:01 7  {}\n", real.display())
        };
        // What started the server had the folder first in PATH, and the server has it still.
        let environ = format!("PATH={}:/usr/bin\0", folder.path().display());
        let environment = Environment {
            set: [("PATH".to_owned(), format!("{}:/usr/bin", folder.path().display()))].into(),
            ..Environment::default()
        };
        for (ruby, mapped, expected) in [
            ("chosen", Some("chosen3.3"), "applied"),
            ("chosen", Some("other"), "not applied"),
            ("shim", Some("other"), "unknown"),
            ("gone", Some("other"), "unknown"),
            ("chosen", None, "unknown"),
        ] {
            let maps = mapped.map(maps);
            let environ = Some(environ.as_bytes());
            let process =
                ProcessObservation { maps: maps.as_deref(), environ, ..Default::default() };
            let chosen = AbsolutePath(path(ruby));
            let status = RubyProgram::verify(&chosen, &process, &environment);
            assert_eq!(word(&status), expected, "{ruby} {mapped:?}: {status:?}");
        }
    }
}
