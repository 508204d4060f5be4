//! The generator as its parent sees it: a child process that works, tells how far it is, and ends with a report.

use crate::load::board::Progress;
use crate::load::error::LoadError;
use crate::load::worker::Line;
use crate::model::load::{LoadReport, LoadSpec};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// How much of the worker's error stream an error repeats, in bytes.
const STDERR_KEPT: usize = 4096;

/// A load under way in a process of its own; dropping it ends the process.
#[derive(Debug)]
pub struct Generator {
    child: Child,
    _stdin: ChildStdin,
    heard: Arc<Mutex<Heard>>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Heard {
    progress: Progress,
    report: Option<LoadReport>,
    complaint: Vec<u8>,
    closed: bool,
}

impl Generator {
    /// Starts `exe load-worker` and gives it the load.
    ///
    /// # Errors
    /// Where the process cannot be started.
    pub fn spawn(exe: &Path, spec: &LoadSpec) -> Result<Self, LoadError> {
        let failed = |source| LoadError::Spawn { exe: exe.display().to_string(), source };
        let gone = || failed(std::io::ErrorKind::BrokenPipe.into());
        let mut child = Command::new(exe)
            .arg("load-worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for the parent to answer; it ends the generator by closing its input.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let mut stdin = child.stdin.take().ok_or_else(gone)?;
        let stdout = child.stdout.take().ok_or_else(gone)?;
        let stderr = child.stderr.take().ok_or_else(gone)?;
        let heard = Arc::new(Mutex::new(Heard::default()));
        let readers =
            vec![listen(stdout, Arc::clone(&heard)), complain(stderr, Arc::clone(&heard))];
        let mut line = serde_json::to_vec(spec)?;
        line.push(b'\n');
        // A worker that dies before it has read this is found by `poll`, with what it said.
        let _ = stdin.write_all(&line);
        Ok(Self { child, _stdin: stdin, heard, readers })
    }

    /// The process that drives the load.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How far the load is, as of at most a tenth of a second ago.
    pub fn progress(&self) -> Progress {
        lock(&self.heard).progress
    }

    /// The report, once there is one; never waits.
    ///
    /// # Errors
    /// Where the process ended without a report.
    pub fn poll(&mut self) -> Result<Option<LoadReport>, LoadError> {
        let mut heard = lock(&self.heard);
        if let Some(report) = heard.report.take() {
            return Ok(Some(report));
        }
        if !heard.closed {
            return Ok(None);
        }
        drop(heard);
        let status = match self.child.try_wait().map_err(LoadError::Kernel)? {
            None => return Ok(None),
            Some(status) => status.to_string(),
        };
        for reader in self.readers.drain(..) {
            // A reader never panics; if it did, what it kept is still there.
            let _ = reader.join();
        }
        let stderr = String::from_utf8_lossy(&lock(&self.heard).complaint).trim().to_owned();
        Err(LoadError::Ended { status, stderr })
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        // It may have ended already; then there is only its entry in the process table to remove.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(stdout: ChildStdout, heard: Arc<Mutex<Heard>>) -> JoinHandle<()> {
    thread::spawn(move || {
        for text in BufReader::new(stdout).lines().map_while(Result::ok) {
            let mut heard = lock(&heard);
            match serde_json::from_str(&text) {
                Ok(Line::Progress(progress)) => heard.progress = progress,
                Ok(Line::Report(report)) => heard.report = Some(*report),
                Ok(Line::Error(error)) => heard.complaint.extend_from_slice(error.as_bytes()),
                Err(_) => heard.complaint.extend_from_slice(b"a line that is no message; "),
            }
        }
        lock(&heard).closed = true;
    })
}

fn complain(stderr: ChildStderr, heard: Arc<Mutex<Heard>>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut reader = BufReader::new(stderr);
        let mut piece = [0; 1024];
        while let Ok(length @ 1..) = reader.read(&mut piece) {
            let mut heard = lock(&heard);
            heard.complaint.extend_from_slice(&piece[..length]);
            let surplus = heard.complaint.len().saturating_sub(STDERR_KEPT);
            heard.complaint.drain(..surplus);
        }
    })
}
