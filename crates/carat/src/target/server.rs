//! One server or service, from the start of its exec helper to its end.

use crate::process::{Identity, ProcRoot};
use crate::target::LaunchSpec;
use carat_wire::env::TOKEN;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// This binary could not be started again as the exec helper.
    #[error("cannot start a process: {0}")]
    Spawn(#[from] io::Error),
    /// The program could not be run.
    #[error("cannot start `{command}`: {problem}")]
    Exec {
        /// The command as written.
        command: String,
        /// The cause, and what to do.
        problem: String,
    },
}

/// A server that waits before `exec`: it has its pid and session but has not run any of its own code.
#[derive(Debug)]
pub(crate) struct PendingServer {
    server: Server,
    go: ChildStdin,
    report: ChildStdout,
    command: String,
}

/// A server that runs, or has ended.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    identity: Identity,
    log: PathBuf,
}

impl PendingServer {
    /// Starts the exec helper of `exe` for `spec`, which then waits.
    pub(crate) fn start(exe: &Path, spec: &LaunchSpec) -> Result<Self, LaunchError> {
        let mut child = Command::new(exe)
            .arg("exec-helper")
            .envs(spec.env.get_key_value(TOKEN))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (go, report) = (child.stdin.take(), child.stdout.take());
        let identity = ProcRoot::default().identify(child.id());
        let mut server = Server {
            identity: identity.unwrap_or(Identity { pid: child.id(), start_ticks: 0 }),
            child,
            log: spec.log.clone(),
        };
        let (Some(mut go), Some(report)) = (go, report) else {
            server.kill();
            return Err(io::Error::other("a pipe is missing").into());
        };
        let line = serde_json::to_string(spec).map_err(io::Error::from)?;
        writeln!(go, "{line}")?;
        Ok(Self { server, go, report, command: spec.command.join(" ") })
    }

    /// Its identity, which `exec` does not change.
    pub(crate) fn identity(&self) -> Identity {
        self.server.identity
    }

    /// Lets it become the server; returns once `exec` has happened.
    pub(crate) fn exec(mut self) -> Result<Server, LaunchError> {
        // If the helper has ended, its report says why, or the server is found to have ended.
        let _ = writeln!(self.go, "go");
        drop(self.go);
        let mut problem = String::new();
        self.report.read_to_string(&mut problem)?;
        let problem = problem.trim().to_owned();
        if problem.is_empty() {
            return Ok(self.server);
        }
        self.server.kill();
        Err(LaunchError::Exec { command: self.command, problem })
    }
}

impl Server {
    /// Its identity.
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Its exit status; `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The end of its output: at most `lines` lines and 16 KiB.
    pub(crate) fn log_tail(&self, lines: usize) -> String {
        log_tail(&self.log, lines)
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// Whatever fails above, the first process never outlives its handle. The rest of its tree is stopped by `stop`,
// or by the reaper if carat does not get that far.
impl Drop for Server {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.kill();
        }
    }
}

/// The end of a log: at most `lines` lines and 16 KiB; empty if there is no such file.
pub(crate) fn log_tail(path: &Path, lines: usize) -> String {
    const LIMIT: usize = 16 * 1024;
    let Ok(bytes) = std::fs::read(path) else { return String::new() };
    let end = &bytes[bytes.len().saturating_sub(LIMIT)..];
    let text = String::from_utf8_lossy(end);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_log_is_its_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
        assert_eq!(log_tail(&path, 2), "two\nthree");
        assert_eq!(log_tail(&folder.path().join("none"), 2), "");
    }
}
