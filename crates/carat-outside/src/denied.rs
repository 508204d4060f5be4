//! What forbids reading a file of a process, and what helps.
//!
//! The kernel's rule (`__ptrace_may_access`, kernel/ptrace.c; `cap_ptrace_access_check`, security/commoncap.c): same user and
//! group in every form, a process that is dumpable, and no capabilities that the reader lacks; or `CAP_SYS_PTRACE` in the
//! user namespace of the process. Yama adds its own rule for `mem`. Before all that the mode of the file counts, as for every file.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Numbers of capabilities (linux/capability.h).
const DAC_OVERRIDE: u32 = 1;
const DAC_READ_SEARCH: u32 = 2;
const SYS_PTRACE: u32 = 19;
/// The file that Yama guards: opening it is an attachment, opening the others is not.
const ATTACHES: &str = "mem";

/// Why a file of a process may not be read, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeniedCause {
    /// What is in the way.
    pub barrier: Barrier,
    /// Capabilities with which it could be read, and that this process lacks.
    pub missing: Vec<&'static str>,
    /// Whether this process runs as root.
    pub as_root: bool,
}

/// What is in the way of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barrier {
    /// The process belongs to another user.
    OtherUser(u32),
    /// The process runs with another group.
    OtherGroup(u32),
    /// The process is not dumpable, as after it changed its user itself (proc_pid(5), `PR_SET_DUMPABLE`).
    NotDumpable,
    /// The process has capabilities that this one lacks.
    MoreCapabilities,
    /// Yama allows it for descendants only, for administrators only, or never.
    Yama(u8),
    /// Something else, such as a security module or a user namespace.
    Unclear,
}

impl DeniedCause {
    /// The cause for a file, such as `mem`, of a process; `proc` is the root of the process file system.
    pub fn of(proc: &Path, process: u32, file: &str) -> Self {
        let folder = proc.join(process.to_string());
        let (own, other) = (Rights::read(&proc.join("self")), Rights::read(&folder));
        let as_root = own.as_ref().is_some_and(|own| own.user() == 0);
        let (Some(own), Some(other)) = (own, other) else {
            return Self { barrier: Barrier::Unclear, missing: Vec::new(), as_root };
        };
        let metadata = fs::metadata(folder.join(file)).ok();
        let scope = fs::read_to_string(proc.join("sys/kernel/yama/ptrace_scope")).ok();
        let scope = scope.and_then(|text| text.trim().parse().ok()).filter(|_| file == ATTACHES);
        // The kernel gives the files of a process that is not dumpable to root (proc_pid(5)).
        let owner = metadata.as_ref().map(MetadataExt::uid);
        let barrier = barrier(&own, &other, owner, scope);
        // Two capabilities, because the mode of the file is checked before the rule of ptrace.
        let ptrace = (!own.has(SYS_PTRACE)).then_some("CAP_SYS_PTRACE");
        let may_open =
            metadata.is_none_or(|file| file.uid() == own.user() || file.mode() & 0o004 != 0);
        let may_open = may_open || own.has(DAC_OVERRIDE) || own.has(DAC_READ_SEARCH);
        let search = (!may_open).then_some("CAP_DAC_READ_SEARCH");
        Self { barrier, missing: ptrace.into_iter().chain(search).collect(), as_root }
    }
}

fn barrier(own: &Rights, other: &Rights, owner: Option<u32>, scope: Option<u8>) -> Barrier {
    // In the order in which a reader can do something about it: another user explains all that follows.
    if other.users.iter().any(|user| *user != own.user()) {
        return Barrier::OtherUser(other.user());
    }
    if owner.is_some_and(|owner| owner != other.user()) {
        return Barrier::NotDumpable;
    }
    if let Some(group) = other.groups.iter().find(|group| **group != own.group()) {
        return Barrier::OtherGroup(*group);
    }
    if other.permitted & !own.effective != 0 {
        return Barrier::MoreCapabilities;
    }
    scope.filter(|scope| *scope > 0).map_or(Barrier::Unclear, Barrier::Yama)
}

/// What counts of a process for reading and being read (`/proc/PID/status`).
struct Rights {
    /// Real, effective and saved user.
    users: [u32; 3],
    groups: [u32; 3],
    effective: u64,
    permitted: u64,
}

impl Rights {
    fn read(folder: &Path) -> Option<Self> {
        let status = fs::read_to_string(folder.join("status")).ok()?;
        Some(Self {
            // The fourth, that of the file system, does not count for ptrace.
            users: first_three(&status, "Uid:")?,
            groups: first_three(&status, "Gid:")?,
            effective: mask(&status, "CapEff:")?,
            permitted: mask(&status, "CapPrm:")?,
        })
    }

    /// The effective user.
    const fn user(&self) -> u32 {
        self.users[1]
    }

    const fn group(&self) -> u32 {
        self.groups[1]
    }

    const fn has(&self, capability: u32) -> bool {
        self.effective >> capability & 1 == 1
    }
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name))
}

fn first_three(status: &str, name: &str) -> Option<[u32; 3]> {
    let mut numbers = field(status, name)?.split_whitespace().map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

fn mask(status: &str, name: &str) -> Option<u64> {
    u64::from_str_radix(field(status, name)?.trim(), 16).ok()
}

impl fmt::Display for DeniedCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; ", self.barrier)?;
        let missing = self.missing.join(" and ");
        let remedy = match self.barrier {
            _ if self.missing.is_empty() => {
                return f.write_str(
                    "carat has the capabilities for it, but not in the user namespace of the process, or a security module \
                     forbids it; run carat there",
                );
            }
            _ if self.as_root => {
                return write!(
                    f,
                    "root lacks {missing} here, as in a container; add it to the container"
                );
            }
            Barrier::OtherUser(_) => "as that user or as root",
            Barrier::OtherGroup(_) => "with that group, as root",
            _ => "as root",
        };
        write!(f, "run carat {remedy}, or give it {missing}")?;
        match self.barrier {
            Barrier::Yama(3..) => {
                f.write_str("; with scope 3 not even that helps until the next boot")
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherUser(user) => write!(f, "the process belongs to user {user}"),
            Self::OtherGroup(group) => write!(f, "the process runs with group {group}"),
            Self::NotDumpable => {
                f.write_str("the process is not dumpable, as after it changed its user itself")
            }
            Self::MoreCapabilities => f.write_str("the process has capabilities that carat lacks"),
            Self::Yama(scope) => {
                write!(f, "Yama forbids it (kernel.yama.ptrace_scope is {scope})")
            }
            Self::Unclear => f.write_str("permission denied"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Masks of capabilities.
    const PTRACE: u64 = 1 << SYS_PTRACE;
    const OVERRIDE: u64 = 1 << DAC_OVERRIDE;

    /// A process file system with this process and process 7, each with user, group and capabilities. The files of 7 belong
    /// to who runs the test.
    struct Fake(tempfile::TempDir);

    impl Fake {
        fn new(own: (u32, u32, u64), other: (u32, u32, u64)) -> Self {
            let fake = Self(tempfile::tempdir().unwrap());
            for (name, (user, group, capabilities)) in [("self", own), ("7", other)] {
                let status = format!(
                    "Name:\truby\nUid:\t{user}\t{user}\t{user}\t{user}\nGid:\t{group}\t{group}\t{group}\t{group}\n\
                     CapPrm:\t{capabilities:016x}\nCapEff:\t{capabilities:016x}\n"
                );
                fake.write(&format!("{name}/status"), &status);
            }
            fake.write("7/mem", "");
            fake.write("7/smaps", "");
            fake.mode("7/mem", 0o600);
            fake.mode("7/smaps", 0o444);
            fake
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn mode(&self, name: &str, mode: u32) {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(self.0.path().join(name), mode).unwrap();
        }

        fn cause(&self, file: &str) -> DeniedCause {
            DeniedCause::of(self.0.path(), 7, file)
        }
    }

    /// The owner of every file that the test makes.
    fn us() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn only_the_capabilities_that_are_required_and_missing_are_named() {
        let stranger = us() + 1;
        for (file, capabilities, missing) in [
            ("smaps", 0, &["CAP_SYS_PTRACE"][..]),
            ("mem", 0, &["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"]),
            ("mem", PTRACE, &["CAP_DAC_READ_SEARCH"]),
            ("mem", OVERRIDE, &["CAP_SYS_PTRACE"]),
            ("mem", PTRACE | OVERRIDE, &[]),
        ] {
            let cause = Fake::new((stranger, 5, capabilities), (us(), 5, 0)).cause(file);
            assert_eq!(cause.barrier, Barrier::OtherUser(us()));
            assert_eq!(cause.missing, missing, "{file} {capabilities:x}");
        }
    }

    /// What is in the way of reading `smaps`.
    fn of(own: (u32, u32, u64), other: (u32, u32, u64)) -> Barrier {
        Fake::new(own, other).cause("smaps").barrier
    }

    #[test]
    fn what_is_in_the_way_of_the_same_user_is_named() {
        let me = us();
        assert_eq!(of((me, 5, 0), (me, 6, 0)), Barrier::OtherGroup(6));
        assert_eq!(of((me, 5, 0), (me, 5, 1 << 10)), Barrier::MoreCapabilities);
        assert_eq!(of((me, 5, 1 << 10), (me, 5, 1 << 10)), Barrier::Unclear);
        // The files belong to who runs the test, the process to another one.
        let other = me + 1;
        let changed = Fake::new((other, 5, 0), (other, 5, 0)).cause("mem");
        assert_eq!(changed.barrier, Barrier::NotDumpable);
        assert_eq!(changed.missing, ["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"]);
        let gone = DeniedCause::of(Fake::new((me, 5, 0), (me, 5, 0)).0.path(), 8, "mem");
        assert_eq!(gone.barrier, Barrier::Unclear);
    }

    #[test]
    fn yama_is_named_with_its_scope_where_nothing_else_forbids_it_and_only_for_memory() {
        for (text, file, expected) in [
            ("1\n", "mem", Barrier::Yama(1)),
            ("3\n", "mem", Barrier::Yama(3)),
            ("1\n", "smaps", Barrier::Unclear),
            ("0\n", "mem", Barrier::Unclear),
            ("no number\n", "mem", Barrier::Unclear),
        ] {
            let fake = Fake::new((us(), 5, 0), (us(), 5, 0));
            fake.write("sys/kernel/yama/ptrace_scope", text);
            let cause = fake.cause(file);
            assert_eq!(cause.barrier, expected, "{text} {file}");
            assert_eq!(cause.missing, ["CAP_SYS_PTRACE"]);
        }
    }

    fn says(barrier: Barrier, missing: &[&'static str], as_root: bool) -> String {
        DeniedCause { barrier, missing: missing.to_vec(), as_root }.to_string()
    }

    #[test]
    fn root_and_the_same_user_are_not_told_to_become_what_they_are() {
        let ptrace = &["CAP_SYS_PTRACE"][..];
        assert_eq!(
            says(Barrier::OtherUser(33), ptrace, true),
            "the process belongs to user 33; root lacks CAP_SYS_PTRACE here, as in a container; add it to the container"
        );
        assert_eq!(
            says(Barrier::OtherUser(33), ptrace, false),
            "the process belongs to user 33; run carat as that user or as root, or give it CAP_SYS_PTRACE"
        );
        assert_eq!(
            says(Barrier::NotDumpable, ptrace, false),
            "the process is not dumpable, as after it changed its user itself; run carat as root, or give it CAP_SYS_PTRACE"
        );
        assert!(says(Barrier::Yama(3), ptrace, false).ends_with("until the next boot"));
        assert!(!says(Barrier::Yama(1), ptrace, false).contains("boot"));
        let everything = says(Barrier::Unclear, &[], true);
        assert!(
            everything.contains("user namespace") && !everything.contains("as root"),
            "{everything}"
        );
    }
}
