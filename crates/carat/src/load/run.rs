//! Runs a load in this process: one reactor per thread, progress for the observer, one report.

use crate::core::load::{LoadReport, LoadSpec, with_load_protocols};
use crate::load::connections::Connections;
use crate::load::descriptors::raise_descriptors;
use crate::load::error::GeneratorError;
use crate::load::health::RunFacts;
use crate::load::http::check_http;
use crate::load::meter::{read_listen_overflows, read_rss_peak};
use crate::load::progress::{LoadProgress, PROGRESS_INTERVAL, ProgressCounters, ProgressReader};
use crate::load::reactor::{LoadProfile, Protocol, Reactor};
use crate::load::shard::Shard;
use crate::load::sidekiq::check_sidekiq;
use crate::load::stream::Dialer;
use crate::load::target::resolve;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

macro_rules! declare_drive {
    ($($variant:ident $key:ident $options:ident $load:ident $protocol:ident;)*) => {
        /// Runs a load in this process and passes its progress to `observe` ten times a second.
        ///
        /// # Errors
        /// If the load cannot be run at all.
        pub fn drive(
            spec: &LoadSpec,
            observe: impl FnMut(LoadProgress),
        ) -> Result<LoadReport, GeneratorError> {
            match spec {
                $(LoadSpec::$variant(load) => run::<crate::load::$key::$protocol>(load, observe),)*
            }
        }
    };
}

with_load_protocols!(declare_drive);

/// Checks what a load needs beside its server: variables of the environment, files of data, selectors.
///
/// # Errors
/// If something is missing or malformed; the message names it.
pub fn check(spec: &LoadSpec) -> Result<(), GeneratorError> {
    match spec {
        LoadSpec::Http(load) => check_http(load),
        LoadSpec::Cable(_) => Ok(()),
        LoadSpec::Sidekiq(load) => check_sidekiq(load),
    }
}

fn run<P: Protocol>(
    load: &P::Load,
    mut observe: impl FnMut(LoadProgress),
) -> Result<LoadReport, GeneratorError> {
    let profile = P::profile(load);
    let counters: Vec<_> = (0..profile.threads).map(|_| ProgressCounters::default()).collect();
    let mut reader = ProgressReader::new(profile.planned, profile.planned_s);
    let (done, wait) = mpsc::channel();
    thread::scope(|scope| {
        let counters = &counters;
        scope.spawn(move || {
            let report = run_threads::<P>(load, &profile, counters);
            // The receiver waits for this until it has it.
            let _ = done.send(report);
        });
        loop {
            match wait.recv_timeout(PROGRESS_INTERVAL) {
                Ok(report) => return report,
                Err(RecvTimeoutError::Disconnected) => return Err(GeneratorError::Panicked),
                Err(RecvTimeoutError::Timeout) => observe(reader.read(counters)),
            }
        }
    })
}

fn run_threads<P: Protocol>(
    load: &P::Load,
    profile: &LoadProfile<'_>,
    counters: &[ProgressCounters],
) -> Result<LoadReport, GeneratorError> {
    let (proc_root, threads) = (Path::new("/proc"), profile.threads);
    // Each thread has a poller and a descriptor that wakes it.
    raise_descriptors(profile.connections + 2 * u64::from(threads))?;
    let dialer = Dialer::new(resolve(profile.url)?, profile.options)?;
    let shared = P::share(load, dialer.target(), threads)?;
    let shared = Arc::new(shared);
    let overflows = read_listen_overflows(proc_root);
    let results: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..)
            .zip(counters)
            .map(|(index, counters)| {
                let protocol = P::new(Arc::clone(&shared), Shard { index, threads });
                let dialer = &dialer;
                scope.spawn(move || run_thread(protocol, profile, dialer, counters))
            })
            .collect();
        running.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let mut counts = Vec::new();
    for result in results {
        counts.push(result.map_err(|_| GeneratorError::Panicked)?.map_err(GeneratorError::Kernel)?);
    }
    let run = RunFacts {
        threads,
        quantum: f64::from(profile.quantum_us) / 1e6,
        syn_drops: read_listen_overflows(proc_root)
            .zip(overflows)
            .map(|(after, before)| after.saturating_sub(before)),
        rss_peak: read_rss_peak(proc_root),
    };
    Ok(P::report(load, &shared, counts, &run))
}

fn run_thread<P: Protocol>(
    protocol: P,
    profile: &LoadProfile<'_>,
    dialer: &Dialer,
    counters: &ProgressCounters,
) -> io::Result<P::Counts> {
    let connections = Connections::new(dialer, profile.options, counters)?;
    Reactor::new(connections, protocol, profile.quantum_us)?.run()
}
