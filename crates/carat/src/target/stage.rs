//! The last step before a server: this binary again, waiting for the word, then `exec(2)`.
//!
//! The waiting process already has the server's pid, session and environment, so whoever measures can
//! take its place first. It reads a [`LaunchSpec`] as one line of JSON from its standard input, waits
//! there for a second line, and becomes the server. What goes wrong is written to its standard output,
//! which `exec` closes: silence is success.

use crate::target::NewRoot;
use crate::target::root::enter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// What to start and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchSpec {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Working directory.
    pub dir: PathBuf,
    /// Variables over the inherited environment.
    pub env: BTreeMap<String, String>,
    /// Where standard output and standard error go.
    pub log: PathBuf,
    /// Another root, if the server shall have one.
    #[serde(default)]
    pub root: Option<NewRoot>,
}

/// What the hidden `stage` command does.
pub fn stage_main() -> ExitCode {
    let Err(problem) = become_server() else { return ExitCode::SUCCESS };
    // The reader of this pipe may itself be gone; then there is nobody left to tell.
    let _ = writeln!(io::stdout(), "{problem}");
    ExitCode::from(127)
}

fn become_server() -> Result<(), String> {
    let mut lines = io::stdin().lock().lines();
    let mut line = || lines.next().and_then(Result::ok).ok_or("carat is gone");
    let spec: LaunchSpec = serde_json::from_str(&line()?).map_err(|error| error.to_string())?;
    rustix::process::setsid().map_err(|error| format!("cannot start a session: {error}"))?;
    line()?;
    // Standard output stays open until exec as the way to report a failure.
    let report = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)
        .map_err(|error| format!("cannot keep a pipe: {error}"))?;
    let error = exec(&spec).unwrap_or_else(|error| error);
    let _ = writeln!(File::from(report), "{error}");
    Err(String::new())
}

fn exec(spec: &LaunchSpec) -> Result<String, String> {
    let log = OpenOptions::new().append(true).create(true).open(&spec.log).map_err(|error| {
        let log = spec.log.display();
        format!("cannot open the log {log}: {error}; use -o, or TMPDIR, for another place")
    })?;
    let log_too = log.try_clone().map_err(|error| error.to_string())?;
    if let Some(root) = &spec.root {
        enter(root).map_err(|error| {
            format!(
                "cannot make {} the root: {error}; another root needs carat to run as root",
                root.system.display()
            )
        })?;
    }
    let [program, arguments @ ..] = spec.command.as_slice() else {
        return Err("the command is empty".into());
    };
    let error = Command::new(program)
        .args(arguments)
        .current_dir(&spec.dir)
        .envs(&spec.env)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(log_too)
        .exec();
    Ok(match error.kind() {
        io::ErrorKind::NotFound if spec.dir.is_dir() => {
            format!("program `{program}` was not found; install it or give its path")
        }
        io::ErrorKind::NotFound => format!("there is no directory {}", spec.dir.display()),
        _ => format!("cannot run `{program}`: {error}"),
    })
}
