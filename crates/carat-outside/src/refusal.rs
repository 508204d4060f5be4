//! Why a process is not read, in the words of the cause.

use crate::canary::CanaryError;
use crate::live::OpenMemoryError;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Why a process is not read.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There is no such process.
    #[error("process {0} does not exist")]
    Gone(u32),
    /// The process ended, or started another program, while it was read.
    #[error("process {0} ended, or started another program, while it was read")]
    Ended(u32),
    /// The kernel forbids it.
    #[error("cannot open {file}: {cause}")]
    Denied {
        /// The file.
        file: String,
        /// What forbids it, and what helps.
        cause: DeniedCause,
    },
    /// Reading would change the process.
    #[error(transparent)]
    Canary(#[from] CanaryError),
    /// No file that the process has loaded is Ruby's.
    #[error("process {0} runs no Ruby: no file that it has loaded exports rb_cObject")]
    NotRuby(u32),
    /// Too old.
    #[error("Ruby {0} is older than 2.7, whose heap is not known")]
    Version(String),
    /// Not the page size that the reader knows.
    #[error("memory pages of {0} bytes are not supported, only of 4096")]
    PageSize(usize),
    /// Another error.
    #[error("cannot read {file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// The error.
        source: io::Error,
    },
}

/// What forbids reading a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedCause {
    /// It belongs to another user.
    OtherUser(u32),
    /// It changed its user itself, so that only root may read it.
    NotDumpable,
    /// Yama allows it for descendants only, for administrators only, or never.
    Yama(u8),
    /// We are root, without the capabilities.
    Capabilities,
    /// Something else, such as a security module or a user namespace.
    Unclear,
}

impl fmt::Display for DeniedCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherUser(user) => write!(
                f,
                "the process belongs to user {user}; run carat as that user or as root, or give it \
                 CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
            ),
            Self::NotDumpable => write!(
                f,
                "the process changed its user after it started, so only root may read it; run carat as root"
            ),
            Self::Yama(scope) => write!(
                f,
                "Yama forbids it (kernel.yama.ptrace_scope is {scope}); run carat as root or give it \
                 CAP_SYS_PTRACE{}",
                if *scope >= 3 {
                    "; with scope 3 not even that helps until the next boot"
                } else {
                    ""
                }
            ),
            Self::Capabilities => write!(
                f,
                "root lacks CAP_SYS_PTRACE or CAP_DAC_READ_SEARCH here, as in a container; add both to it"
            ),
            Self::Unclear => write!(
                f,
                "permission denied; the same user, root, or CAP_SYS_PTRACE with CAP_DAC_READ_SEARCH \
                 is required"
            ),
        }
    }
}

/// The refusal that an error means.
pub fn refusal(proc: &Path, process: u32, error: OpenMemoryError) -> Refused {
    match error {
        OpenMemoryError::Gone(process) => Refused::Gone(process),
        OpenMemoryError::PageSize(bytes) => Refused::PageSize(bytes),
        OpenMemoryError::Io { file, source } => Refused::Io { file, source },
        OpenMemoryError::Denied { file } => {
            let us = rustix::process::geteuid().as_raw();
            Refused::Denied { file, cause: cause(proc, process, us) }
        }
    }
}

fn cause(proc: &Path, process: u32, us: u32) -> DeniedCause {
    let folder = proc.join(process.to_string());
    let Some(user) = user_of(&folder) else { return DeniedCause::Unclear };
    let owner = fs::metadata(folder.join("mem")).map(|metadata| metadata.uid()).ok();
    let scope = fs::read_to_string(proc.join("sys/kernel/yama/ptrace_scope")).ok();
    let scope = scope.and_then(|text| text.trim().parse::<u8>().ok()).filter(|scope| *scope > 0);
    if us == 0 {
        return DeniedCause::Capabilities;
    }
    if user != us {
        return DeniedCause::OtherUser(user);
    }
    if owner.is_some_and(|owner| owner != user) {
        return DeniedCause::NotDumpable;
    }
    scope.map_or(DeniedCause::Unclear, DeniedCause::Yama)
}

/// The effective user of a process.
fn user_of(folder: &Path) -> Option<u32> {
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process file system with one process of this user.
    fn proc_with(user: u32, scope: Option<&str>) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("7");
        fs::create_dir(&process).unwrap();
        fs::write(process.join("status"), format!("Name:\truby\nUid:\t1\t{user}\t1\t1\n")).unwrap();
        fs::write(process.join("mem"), "").unwrap();
        if let Some(scope) = scope {
            let yama = folder.path().join("sys/kernel/yama");
            fs::create_dir_all(&yama).unwrap();
            fs::write(yama.join("ptrace_scope"), scope).unwrap();
        }
        folder
    }

    #[test]
    fn the_cause_is_named() {
        let us = rustix::process::geteuid().as_raw();
        let other = proc_with(us + 1, None);
        assert_eq!(cause(other.path(), 7, 4711), DeniedCause::OtherUser(us + 1));
        assert_eq!(cause(other.path(), 7, 0), DeniedCause::Capabilities);
        // The files belong to us, the process to user 4711: it is not dumpable.
        let changed = proc_with(4711, Some("1\n"));
        assert_eq!(cause(changed.path(), 7, 4711), DeniedCause::NotDumpable);
        assert_eq!(cause(changed.path(), 8, 4711), DeniedCause::Unclear);
    }

    /// A process file system with one process whose files and user are not root, and the user.
    fn proc_of_a_user(scope: Option<&str>) -> (tempfile::TempDir, u32) {
        let us = rustix::process::geteuid().as_raw();
        let user = if us == 0 { 4711 } else { us };
        let folder = proc_with(user, scope);
        if us == 0 {
            std::os::unix::fs::chown(folder.path().join("7/mem"), Some(user), None).unwrap();
        }
        (folder, user)
    }

    #[test]
    fn yama_is_named_with_its_scope_where_nothing_else_forbids_it() {
        for (scope, expected) in [
            (Some("1\n"), DeniedCause::Yama(1)),
            (Some("2\n"), DeniedCause::Yama(2)),
            (Some("3\n"), DeniedCause::Yama(3)),
            (Some("0\n"), DeniedCause::Unclear),
            (Some("no number\n"), DeniedCause::Unclear),
            (None, DeniedCause::Unclear),
        ] {
            let (folder, user) = proc_of_a_user(scope);
            assert_eq!(cause(folder.path(), 7, user), expected, "{scope:?}");
        }
        let words = [1, 2, 3].map(|scope| DeniedCause::Yama(scope).to_string());
        assert!(words[0].contains("ptrace_scope is 1") && words[1].contains("run carat as root"));
        assert!(!words[1].contains("next boot") && words[2].contains("until the next boot"));
    }

    #[test]
    fn a_denied_file_is_named_with_what_helps() {
        let denied = Refused::Denied { file: "/proc/7/mem".into(), cause: DeniedCause::Yama(1) };
        assert_eq!(
            denied.to_string(),
            "cannot open /proc/7/mem: Yama forbids it (kernel.yama.ptrace_scope is 1); run carat as root \
             or give it CAP_SYS_PTRACE"
        );
    }
}
