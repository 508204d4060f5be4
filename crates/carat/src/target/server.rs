//! One server or service, from the start of its exec helper to its end.

use crate::target::LaunchSpec;
use crate::target::child::{ChildProcess, Ended};
use crate::target::log::{LogLimit, log_tail};
use carat_model::{Bytes, command_line};
use carat_proc::process::Identity;
use carat_wire::env::TOKEN;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use tracing::debug;

/// Memory that a waiting process may need between its report and `exec`; measured are 1.4 MB.
const BEFORE_EXEC: Bytes = Bytes(4 << 20);

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
    report: BufReader<ChildStdout>,
    command: String,
}

/// A server that runs, or has ended.
#[derive(Debug)]
pub(crate) struct Server {
    child: ChildProcess,
    log: PathBuf,
    limit: LogLimit,
    /// Highest memory of its process before it was the server.
    before_exec: Bytes,
}

impl PendingServer {
    /// Starts the exec helper of `exe` for `spec`, which then waits.
    pub(crate) fn start(exe: &Path, spec: &LaunchSpec) -> Result<Self, LaunchError> {
        // Of its variables only the token, by which the tree is found from now on.
        let mut helper = Command::new(exe)
            .arg("exec-helper")
            .envs(spec.env.get_key_value(TOKEN))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let pipes = helper.stdin.take().zip(helper.stdout.take());
        let (mut go, report) = pipes.ok_or_else(|| io::Error::other("a pipe is missing"))?;
        let mut report = BufReader::new(report);
        let pid = read_number(&mut report);
        // The helper has forked and ends at once; its own status must be collected too.
        let forked = pid.as_ref().is_ok_and(|pid| *pid != u64::from(helper.id()));
        if forked || pid.is_err() {
            helper.wait()?;
        }
        let child = ChildProcess::of_pid(u32::try_from(pid?).unwrap_or(0))?;
        let limit = LogLimit::start(&spec.log);
        let server = Server { child, log: spec.log.clone(), limit, before_exec: Bytes(0) };
        let line = serde_json::to_string(spec).map_err(io::Error::from)?;
        writeln!(go, "{line}")?;
        let command = spec.command.join(" ");
        debug!(pid = server.identity().pid, command = command_line(&command), "process started");
        Ok(Self { server, go, report, command })
    }

    /// Its identity, which `exec` does not change.
    pub(crate) fn identity(&self) -> Identity {
        self.server.identity()
    }

    /// Lets it become the server; returns once `exec` has happened.
    pub(crate) fn exec(mut self) -> Result<Server, LaunchError> {
        // If the helper has ended, its report says why, or the server is found to have ended.
        let _ = writeln!(self.go, "go");
        drop(self.go);
        let mut report = String::new();
        self.report.read_to_string(&mut report)?;
        let (first, problem) = report.split_once('\n').unwrap_or_default();
        let before_exec = first.parse();
        self.server.before_exec = Bytes(before_exec.clone().unwrap_or_default());
        // A helper that failed early reports no number: its first line is the problem.
        let problem = if before_exec.is_ok() { problem } else { report.as_str() }.trim();
        debug!(pid = self.server.identity().pid, problem, "exec");
        if problem.is_empty() {
            return Ok(self.server);
        }
        Err(LaunchError::Exec { command: self.command, problem: problem.to_owned() })
    }
}

/// The number on the next line of a helper's report.
fn read_number(report: &mut impl BufRead) -> io::Result<u64> {
    let mut line = String::new();
    report.read_line(&mut line)?;
    line.trim().parse().map_err(|_| io::Error::other("the exec helper did not start"))
}

impl Server {
    pub(crate) fn identity(&self) -> Identity {
        self.child.identity()
    }

    /// Its exit status; `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        Some(self.child.ended()?.status)
    }

    /// Highest resident memory of the largest of its processes that were waited for, as the kernel recorded it. `None` while
    /// it runs, and if it never had more than its process before `exec`.
    pub(crate) fn peak(&mut self) -> Option<Bytes> {
        let Ended { peak, .. } = self.child.ended()?;
        Some(peak).filter(|peak| *peak > self.before_exec + BEFORE_EXEC)
    }

    /// The end of its output: at most `lines` lines and 16 KiB.
    pub(crate) fn log_tail(&self, lines: usize) -> String {
        log_tail(&self.log, lines)
    }

    /// A note if it printed more than its log may have.
    pub(crate) fn log_note(&self) -> Option<String> {
        self.limit.note()
    }
}

// Whatever fails above, the first process never outlives its handle. The rest of its tree is stopped by `stop`,
// or by the reaper if carat does not get that far.
impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill();
    }
}
