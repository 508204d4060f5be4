//! The generator as the trial sees it: a child process.

use crate::model::{LoadReport, LoadSpec};
use rustix::process::{Pid, Signal, set_parent_process_death_signal};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

/// Why a load could not be driven.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The generator's process could not be started.
    #[error("cannot start the generator: {0}")]
    Spawn(#[from] io::Error),
    /// It ended without a report.
    #[error("the generator ended without a report")]
    NoReport,
}

/// How far it is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Progress {
    done: u64,
    planned: u64,
}

impl Progress {
    /// Share that is done; `None` where nothing was planned.
    pub fn share(self) -> Option<f64> {
        (self.planned > 0).then(|| self.done as f64 / self.planned as f64)
    }
}

/// A running generator; dropping it kills it.
#[derive(Debug)]
pub struct Generator {
    child: Child,
    lines: Receiver<String>,
    progress: Progress,
}

impl Generator {
    /// Starts `exe` again as a generator for `spec`.
    pub fn spawn(exe: &Path, spec: &LoadSpec) -> Result<Self, LoadError> {
        let LoadSpec::Http(http) = spec;
        let mut child = Command::new(exe)
            .arg("load-worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let line = serde_json::to_string(spec).map_err(io::Error::from)?;
        if let Some(mut input) = child.stdin.take() {
            writeln!(input, "{line}")?;
        }
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                lines.into_iter().try_for_each(|line| sender.send(line))
            });
        }
        Ok(Self { child, lines, progress: Progress { done: 0, planned: http.requests } })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The report, once there is one.
    pub fn poll(&mut self) -> Result<Option<LoadReport>, LoadError> {
        loop {
            let line = match self.lines.try_recv() {
                Ok(line) => line,
                Err(TryRecvError::Empty) => return Ok(None),
                Err(TryRecvError::Disconnected) => return Err(LoadError::NoReport),
            };
            match line.parse() {
                Ok(done) => self.progress.done = done,
                Err(_) => {
                    return serde_json::from_str(&line).map(Some).map_err(|_| LoadError::NoReport);
                }
            }
        }
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes the kernel kill this process when its parent ends.
pub(crate) fn die_with_parent(parent: Option<Pid>) {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if rustix::process::getppid() != parent {
        std::process::exit(1);
    }
}
