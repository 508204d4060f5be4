//! Who a process is: its pid together with its start time, because pids are used again.

use crate::process::{Stat, parse_stat};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// One process, told apart from a later one of the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot (proc_pid_stat(5), field 22).
    pub start_ticks: u64,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pid)
    }
}

/// Why something about a process could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The process is gone: a fact, not a fault.
    #[error("process {0} has ended")]
    Ended(u32),
    /// The kernel refused.
    #[error(
        "cannot read {path}: permission denied; run as the same user as the server, or as root"
    )]
    Denied {
        /// What was read.
        path: PathBuf,
    },
    /// Anything else.
    #[error("cannot read {path}: {source}")]
    Failed {
        /// What was read.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The text is not what the kernel documents.
    #[error("{path} does not look as proc(5) describes it")]
    Unexpected {
        /// What was read.
        path: PathBuf,
    },
}

/// The kernel's `/proc`, or a captured copy of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcRoot(PathBuf);

impl Default for ProcRoot {
    fn default() -> Self {
        Self(PathBuf::from("/proc"))
    }
}

impl ProcRoot {
    /// A tree laid out as `/proc` is.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Path of one file of one process.
    pub fn file(&self, pid: u32, name: &str) -> PathBuf {
        self.0.join(pid.to_string()).join(name)
    }

    /// The bytes of one file of one process.
    pub fn read(&self, pid: u32, name: &str) -> Result<Vec<u8>, ReadError> {
        let path = self.file(pid, name);
        fs::read(&path).map_err(|source| read_error(pid, path, source))
    }

    /// Every pid there is at this moment, in no particular order.
    pub fn pids(&self) -> io::Result<Vec<u32>> {
        let entries = fs::read_dir(&self.0)?;
        Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
    }

    /// `/proc/PID/stat`, parsed.
    pub fn stat(&self, pid: u32) -> Result<Stat, ReadError> {
        let text = self.read(pid, "stat")?;
        parse_stat(&String::from_utf8_lossy(&text))
            .ok_or_else(|| ReadError::Unexpected { path: self.file(pid, "stat") })
    }

    /// Who the process of that pid is now.
    pub fn identify(&self, pid: u32) -> Result<Identity, ReadError> {
        Ok(self.stat(pid)?.identity())
    }

    /// Whether that very process still runs; a zombie does not.
    pub fn alive(&self, identity: Identity) -> bool {
        self.stat(identity.pid).is_ok_and(|stat| stat.identity() == identity && !stat.is_dead())
    }
}

fn read_error(pid: u32, path: PathBuf, source: io::Error) -> ReadError {
    // ESRCH comes from files that were opened before the process ended.
    match source.kind() {
        ErrorKind::NotFound => ReadError::Ended(pid),
        _ if source.raw_os_error() == Some(libc::ESRCH) => ReadError::Ended(pid),
        ErrorKind::PermissionDenied => ReadError::Denied { path },
        _ => ReadError::Failed { path, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_its_pid_with_another_start_is_not() {
        let root = ProcRoot::default();
        let me = root.identify(std::process::id()).unwrap();
        assert!(root.alive(me));
        assert!(!root.alive(Identity { start_ticks: me.start_ticks + 1, ..me }));
    }

    #[test]
    fn a_vanished_process_is_ended_not_broken() {
        let error = ProcRoot::default().stat(u32::MAX - 1).unwrap_err();
        assert!(matches!(error, ReadError::Ended(_)), "{error}");
    }
}
