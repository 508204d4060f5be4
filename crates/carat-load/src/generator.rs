//! The generator as a child process that sends its progress and, at the end, its report.

use crate::error::GeneratorError;
use crate::progress::{LoadProgress, PROGRESS_INTERVAL};
use crate::worker::WorkerMessage;
use carat_model::load::{LoadReport, LoadSpec};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Bytes of the worker's error stream that an error message includes.
const STDERR_KEPT: usize = 4096;

/// A load that runs in a process of its own. Dropping it kills the process.
#[derive(Debug)]
pub struct Generator {
    child: Child,
    _stdin: ChildStdin,
    state: Arc<Mutex<WorkerState>>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct WorkerState {
    progress: LoadProgress,
    count: Option<DoneCount>,
    /// The largest count returned so far; an extrapolation is never taken back.
    reported: u64,
    report: Option<LoadReport>,
    stderr: Vec<u8>,
    closed: bool,
}

/// A count with its time and the rate before it.
#[derive(Debug, Clone, Copy)]
struct DoneCount {
    at: Instant,
    done: u64,
    per_second: f64,
}

impl DoneCount {
    fn new(before: Option<Self>, at: Instant, done: u64) -> Self {
        let rate = before.map(|before| {
            // Two messages can be read at once, and the rate must stay finite.
            let passed = at.saturating_duration_since(before.at).as_secs_f64();
            done.saturating_sub(before.done) as f64 / passed.max(1e-3)
        });
        Self { at, done, per_second: rate.unwrap_or(0.0) }
    }

    /// The count extrapolated to `now`, for at most one progress interval.
    fn extrapolated(&self, now: Instant) -> u64 {
        // No longer than one interval: after that silence says more than the old rate.
        let silent = now.saturating_duration_since(self.at).min(PROGRESS_INTERVAL);
        self.done + (self.per_second * silent.as_secs_f64()) as u64
    }
}

impl Generator {
    /// Starts `exe load-worker` and sends it the load.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn spawn(exe: &Path, spec: &LoadSpec) -> Result<Self, GeneratorError> {
        let failed = |source| GeneratorError::Spawn { exe: exe.display().to_string(), source };
        let gone = || failed(std::io::ErrorKind::BrokenPipe.into());
        let mut child = Command::new(exe)
            .arg("load-worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // The parent handles Ctrl-C; it ends the generator by closing its input.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        // Kept open: closing its input is how the parent ends the worker.
        let mut stdin = child.stdin.take().ok_or_else(gone)?;
        let stdout = child.stdout.take().ok_or_else(gone)?;
        let stderr = child.stderr.take().ok_or_else(gone)?;
        let state = Arc::new(Mutex::new(WorkerState::default()));
        // Read from the start, or a full pipe would stop the worker before its first message.
        let readers = vec![
            read_messages(stdout, Arc::clone(&state)),
            read_stderr(stderr, Arc::clone(&state)),
        ];
        let mut line = serde_json::to_vec(spec)?;
        line.push(b'\n');
        // If the worker dies before it has read this, `poll` reports that with its error stream.
        let _ = stdin.write_all(&line);
        Ok(Self { child, _stdin: stdin, state, readers })
    }

    /// The process id of the generator.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The progress, at most a tenth of a second old.
    pub fn progress(&self) -> LoadProgress {
        lock(&self.state).progress
    }

    /// How many responses or broadcasts are done by now.
    ///
    /// The last reported count is extrapolated to now. Without that it would lag by up to one progress interval, and by a
    /// slowly changing amount if samples are taken at nearly the same pace.
    pub fn done(&self) -> u64 {
        let mut state = lock(&self.state);
        let now = state.count.map_or(0, |count| count.extrapolated(Instant::now()));
        let planned = state.progress.planned.unwrap_or(u64::MAX);
        // A count that fell between two samples would look like negative work.
        state.reported = state.reported.max(now.min(planned));
        state.reported
    }

    /// The report once it has arrived; never waits.
    ///
    /// # Errors
    /// If the process ended without a report.
    pub fn poll(&mut self) -> Result<Option<LoadReport>, GeneratorError> {
        let mut state = lock(&self.state);
        if let Some(report) = state.report.take() {
            return Ok(Some(report));
        }
        // The report may still be on its way while the process has ended, so the pipe decides.
        if !state.closed {
            return Ok(None);
        }
        // Readers need the lock to end.
        drop(state);
        let status = match self.child.try_wait().map_err(GeneratorError::Kernel)? {
            None => return Ok(None),
            Some(status) => status.to_string(),
        };
        // Joined before the error is read: its last lines may just be arriving.
        for reader in self.readers.drain(..) {
            // A reader never panics; if it did, what it has stored remains.
            let _ = reader.join();
        }
        let stderr = String::from_utf8_lossy(&lock(&self.state).stderr).trim().to_owned();
        Err(GeneratorError::Ended { status, stderr })
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        // If it has ended already, only its zombie has to be reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lock(state: &Mutex<WorkerState>) -> MutexGuard<'_, WorkerState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_messages(stdout: ChildStdout, state: Arc<Mutex<WorkerState>>) -> JoinHandle<()> {
    thread::spawn(move || {
        for text in BufReader::new(stdout).lines().map_while(Result::ok) {
            let mut state = lock(&state);
            match serde_json::from_str(&text) {
                Ok(WorkerMessage::Progress(progress)) => {
                    state.count = Some(DoneCount::new(state.count, Instant::now(), progress.done));
                    state.progress = progress;
                }
                Ok(WorkerMessage::Report(report)) => state.report = Some(*report),
                Ok(WorkerMessage::Error(error)) => state.stderr.extend_from_slice(error.as_bytes()),
                Err(_) => state.stderr.extend_from_slice(b"a line that is not a message; "),
            }
        }
        lock(&state).closed = true;
    })
}

fn read_stderr(stderr: ChildStderr, state: Arc<Mutex<WorkerState>>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut reader = BufReader::new(stderr);
        let mut piece = [0; 1024];
        while let Ok(length @ 1..) = reader.read(&mut piece) {
            let mut state = lock(&state);
            state.stderr.extend_from_slice(&piece[..length]);
            // The end says why it died; a loop of warnings before it must not grow without limit.
            let surplus = state.stderr.len().saturating_sub(STDERR_KEPT);
            state.stderr.drain(..surplus);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A worker that reports every 100.2 ms and does 10,000 per second, queried every 100 ms.
    #[test]
    fn a_steady_load_is_counted_at_its_pace_whenever_it_is_queried() {
        let start = Instant::now();
        let (mut count, mut recorded, mut errors) = (None, 0, Vec::new());
        for second_tenth in 3..1000 {
            let now = start + Duration::from_millis(100) * second_tenth;
            let beat = Duration::from_micros(100_200);
            while start + beat * (recorded + 1) <= now {
                recorded += 1;
                let at = beat * recorded;
                count =
                    Some(DoneCount::new(count, start + at, (at.as_secs_f64() * 10_000.0) as u64));
            }
            errors.push(count.unwrap().extrapolated(now) as f64 - f64::from(second_tenth) * 1000.0);
        }
        let farthest = errors.iter().fold(0.0_f64, |most, off| most.max(off.abs()));
        assert!(farthest < 5.0, "{farthest} requests off");
    }

    #[test]
    fn a_silent_worker_is_extrapolated_for_one_interval_only() {
        let start = Instant::now();
        let first = DoneCount::new(None, start, 0);
        assert_eq!(first.extrapolated(start + PROGRESS_INTERVAL), 0);
        let second = DoneCount::new(Some(first), start + PROGRESS_INTERVAL, 1000);
        assert_eq!(second.extrapolated(start + PROGRESS_INTERVAL * 50), 2000);
    }
}
