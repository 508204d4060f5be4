//! The exec helper: this binary again, which waits for a signal from carat and then becomes the server.
//!
//! The waiting process already has the server's pid, session and environment, so that sampling can start before
//! the server does. It reads a [`LaunchSpec`] as one line of JSON from its standard input, waits for a second
//! line, and calls `exec(2)`. It writes a failure to its standard output, which `exec` closes: an empty output
//! means success.

use crate::target::NewRoot;
use crate::target::replace::limit_main_stack;
use crate::target::root::enter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// A program to start and the environment it starts in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaunchSpec {
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// Working directory.
    pub(crate) dir: PathBuf,
    /// Variables that override the inherited environment.
    pub(crate) env: BTreeMap<String, String>,
    /// File for standard output and standard error.
    pub(crate) log: PathBuf,
    /// Another root directory, if the server gets one.
    #[serde(default)]
    pub(crate) root: Option<NewRoot>,
    /// The soft limit of its main stack in bytes; `None` leaves it.
    #[serde(default)]
    pub(crate) main_stack: Option<u64>,
}

/// Runs the hidden `exec-helper` command.
pub(crate) fn exec_helper_main() -> ExitCode {
    let Err(problem) = become_server() else { return ExitCode::SUCCESS };
    // The write fails if carat has ended; then no process reads it.
    let _ = writeln!(io::stdout(), "{problem}");
    ExitCode::from(127)
}

fn become_server() -> Result<(), String> {
    let mut lines = io::stdin().lock().lines();
    let spec = lines.next().and_then(Result::ok).ok_or("carat has ended")?;
    let spec: LaunchSpec = serde_json::from_str(&spec).map_err(|error| error.to_string())?;
    rustix::process::setsid().map_err(|error| format!("cannot start a session: {error}"))?;
    lines.next().and_then(Result::ok).ok_or("carat has ended")?;
    // A copy of standard output stays open until exec, to report a failure.
    let report = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)
        .map_err(|error| format!("cannot duplicate a pipe: {error}"))?;
    let error = exec(&spec).unwrap_or_else(|error| error);
    let _ = writeln!(File::from(report), "{error}");
    Err(String::new())
}

/// Replaces this process; returns only the reason why that failed.
fn exec(spec: &LaunchSpec) -> Result<String, String> {
    let log = OpenOptions::new().append(true).create(true).open(&spec.log).map_err(|error| {
        let log = spec.log.display();
        format!("cannot open the log {log}: {error}; choose another place with -o or TMPDIR")
    })?;
    let stderr = log.try_clone().map_err(|error| error.to_string())?;
    if let Some(root) = &spec.root {
        enter(root).map_err(|error| {
            format!(
                "cannot make {} the root: {error}; the setting `root` requires carat to run as root",
                root.system.display()
            )
        })?;
    }
    limit_main_stack(spec.main_stack);
    let [program, arguments @ ..] = spec.command.as_slice() else {
        return Err("the command is empty".into());
    };
    let error = Command::new(program)
        .args(arguments)
        .current_dir(&spec.dir)
        .envs(&spec.env)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(stderr)
        .exec();
    Ok(match error.kind() {
        io::ErrorKind::NotFound if spec.dir.is_dir() => {
            format!("program `{program}` was not found; install it or give its path")
        }
        io::ErrorKind::NotFound => format!("there is no directory {}", spec.dir.display()),
        _ => format!("cannot run `{program}`: {error}"),
    })
}
