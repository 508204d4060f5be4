//! The generator's own process: one line of JSON in, lines of JSON out, the last of which is the report.

use crate::core::load::{Amount, LoadReport, LoadSpec, Pace};
use crate::load::clock::MonotonicTime;
use crate::load::error::LoadError;
use crate::load::progress::{LoadProgress, ProgressCounters};
use crate::load::{cable, http};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Between two lines of progress.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// A line of the worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkerMessage {
    /// How far it is.
    Progress(LoadProgress),
    /// What came out; the last line.
    Report(Box<LoadReport>),
    /// Why nothing could; the last line.
    Error(String),
}

/// What the hidden subcommand `load-worker` runs: reads a [`LoadSpec`] as one line, drives it, and writes lines.
///
/// The worker ends when its input does: a parent that dies, however it dies, leaves no generator behind.
pub fn worker_main(input: impl Read + Send + 'static, mut output: impl Write) -> ExitCode {
    let mut input = BufReader::new(input);
    let mut text = String::new();
    let spec = match input.read_line(&mut text).map_err(LoadError::Kernel) {
        Ok(_) => serde_json::from_str::<LoadSpec>(&text).map_err(LoadError::Protocol),
        Err(error) => Err(error),
    };
    thread::spawn(move || {
        let _ = std::io::copy(&mut input, &mut std::io::sink());
        std::process::exit(1);
    });
    let mut say = |line: &WorkerMessage| {
        // A parent that has gone ends this process by closing its input.
        let _ = serde_json::to_writer(&mut output, line);
        let _ = output.write_all(b"\n");
        let _ = output.flush();
    };
    match spec.and_then(|spec| drive(&spec, |progress| say(&WorkerMessage::Progress(progress)))) {
        Ok(report) => {
            say(&WorkerMessage::Report(Box::new(report)));
            ExitCode::SUCCESS
        }
        Err(error) => {
            say(&WorkerMessage::Error(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

/// Drives a load in this process and tells `watch` ten times a second how far it is.
///
/// # Errors
/// Where the load cannot be driven at all.
pub fn drive(
    spec: &LoadSpec,
    mut watch: impl FnMut(LoadProgress),
) -> Result<LoadReport, LoadError> {
    let counters: Vec<ProgressCounters> =
        (0..threads(spec)).map(|_| ProgressCounters::default()).collect();
    let (done, wait) = mpsc::channel();
    thread::scope(|scope| {
        let counters = &counters;
        scope.spawn(move || {
            let report = match spec {
                LoadSpec::Http(load) => http::run(load, counters),
                LoadSpec::Cable(load) => cable::run(load, counters),
            };
            // The receiver waits for this until it has it.
            let _ = done.send(report);
        });
        let mut before = LoadProgress::default();
        let mut messages = 0;
        loop {
            match wait.recv_timeout(PROGRESS_INTERVAL) {
                Ok(report) => return report,
                Err(RecvTimeoutError::Disconnected) => return Err(LoadError::Panicked),
                Err(RecvTimeoutError::Timeout) => {
                    let now = look(spec, counters, &before, &mut messages);
                    before = now;
                    watch(now);
                }
            }
        }
    })
}

fn threads(spec: &LoadSpec) -> u32 {
    match spec {
        LoadSpec::Http(load) => load.options.threads.clamp(1, load.connections.max(1)),
        LoadSpec::Cable(load) => load.threads(),
    }
}

fn look(
    spec: &LoadSpec,
    counters: &[ProgressCounters],
    before: &LoadProgress,
    messages: &mut u64,
) -> LoadProgress {
    let sum = |figure: fn(&ProgressCounters) -> &std::sync::atomic::AtomicU64| -> u64 {
        counters.iter().map(|counters| ProgressCounters::read(figure(counters))).sum()
    };
    let most = |figure: fn(&ProgressCounters) -> &std::sync::atomic::AtomicU64| -> u64 {
        counters.iter().map(|counters| ProgressCounters::read(figure(counters))).max().unwrap_or(0)
    };
    let begun = most(|counters| &counters.begun_ms);
    let seconds = if begun == 0 {
        0.0
    } else {
        MonotonicTime::now().millis().saturating_sub(begun) as f64 / 1e3
    };
    let count = sum(|counters| &counters.messages);
    let passed = (seconds - before.seconds).max(1e-3);
    let per_second = count.saturating_sub(*messages) as f64 / passed;
    *messages = count;
    let (planned, planned_s) = planned(spec);
    LoadProgress {
        done: sum(|counters| &counters.done),
        planned,
        seconds,
        planned_s,
        per_second,
        errors: sum(|counters| &counters.errors),
        connections: sum(|counters| &counters.connections),
        p50_us: most(|counters| &counters.p50_us),
        p95_us: most(|counters| &counters.p95_us),
        lag_us: most(|counters| &counters.lag_us),
    }
}

fn planned(spec: &LoadSpec) -> (Option<u64>, Option<f64>) {
    match spec {
        LoadSpec::Http(load) => match (load.amount, load.pace) {
            (Amount::Requests(requests), Pace::Open { per_second, .. }) => {
                (Some(requests), Some(requests as f64 / per_second))
            }
            (Amount::Requests(requests), Pace::Closed { .. }) => (Some(requests), None),
            (Amount::Seconds(seconds), _) => (None, Some(seconds)),
        },
        LoadSpec::Cable(load) => (Some(u64::from(load.steps) * u64::from(load.broadcasts)), None),
    }
}
