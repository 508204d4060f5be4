//! What the generator's process and the command line need of a protocol, and how the event loop drives one.

use crate::connections::Connections;
use crate::descriptors::raise_descriptors;
use crate::error::GeneratorError;
use crate::health::RunFacts;
use crate::meter::{read_listen_overflows, read_rss_peak};
use crate::progress::{LoadProgress, PROGRESS_INTERVAL, ProgressCounters, ProgressReader};
use crate::reactor::{LoadProfile, Protocol, Reactor};
use crate::shard::Shard;
use crate::stream::Dialer;
use crate::target::resolve;
use carat_model::load::{LoadReport, ProtocolOptions};
use carat_proc::process::ProcRoot;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

/// A kind of load. One whose server is reached over sockets is a [`Protocol`] and is one by that.
pub trait DrivenLoad {
    /// The flags and keys of the load.
    type Options: ProtocolOptions<Load = Self::Load>;
    /// The validated options.
    type Load;

    /// Runs the load in this process and passes its progress to `observe` ten times a second, until that breaks.
    ///
    /// # Errors
    /// If the load cannot be run at all.
    fn drive(
        load: &Self::Load,
        observe: &mut dyn FnMut(LoadProgress) -> ControlFlow<()>,
    ) -> Result<LoadReport, GeneratorError>;

    /// Writes the report as text.
    ///
    /// # Errors
    /// If `out` cannot be written.
    fn write_report(
        options: &Self::Options,
        report: &LoadReport,
        out: &mut dyn Write,
    ) -> io::Result<()>;

    /// Writes the files that the options request beside the report.
    ///
    /// # Errors
    /// If a file cannot be written; the message names it.
    fn write_report_files(_options: &Self::Options, _report: &LoadReport) -> io::Result<()> {
        Ok(())
    }
}

impl<P: Protocol> DrivenLoad for P {
    type Options = P::Options;
    type Load = P::Load;

    fn drive(
        load: &P::Load,
        observe: &mut dyn FnMut(LoadProgress) -> ControlFlow<()>,
    ) -> Result<LoadReport, GeneratorError> {
        run::<P>(load, observe)
    }

    fn write_report(
        options: &P::Options,
        report: &LoadReport,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        P::write_text(options, report, out)
    }

    fn write_report_files(options: &P::Options, report: &LoadReport) -> io::Result<()> {
        P::write_files(options, report)
    }
}

fn run<P: Protocol>(
    load: &P::Load,
    observe: &mut dyn FnMut(LoadProgress) -> ControlFlow<()>,
) -> Result<LoadReport, GeneratorError> {
    let profile = P::profile(load);
    let counters: Vec<_> = (0..profile.threads).map(|_| ProgressCounters::default()).collect();
    let mut reader = ProgressReader::new(profile.planned, profile.planned_s);
    let (done, wait) = mpsc::channel();
    thread::scope(|scope| {
        // In a thread of its own, so that this one can report progress while threads are joined.
        let counters = &counters;
        scope.spawn(move || {
            let report = run_threads::<P>(load, &profile, counters);
            // The receiver waits for this until it has it.
            let _ = done.send(report);
        });
        loop {
            match wait.recv_timeout(PROGRESS_INTERVAL) {
                Ok(report) => return report,
                // The sender was dropped without a report, which only a panic does.
                Err(RecvTimeoutError::Disconnected) => return Err(GeneratorError::Panicked),
                Err(RecvTimeoutError::Timeout) => {
                    if observe(reader.read(counters)).is_break() {
                        counters.iter().for_each(ProgressCounters::stop);
                    }
                }
            }
        }
    })
}

fn run_threads<P: Protocol>(
    load: &P::Load,
    profile: &LoadProfile<'_>,
    counters: &[ProgressCounters],
) -> Result<LoadReport, GeneratorError> {
    let (root, threads) = (ProcRoot::default(), profile.threads);
    let proc_root = root.path();
    // Each thread has a poller and a descriptor that wakes it.
    // Before the first connection: failing in the middle would be a finding about the server.
    raise_descriptors(profile.connections + 2 * u64::from(threads))?;
    let dialer = Dialer::new(resolve(profile.url)?, profile.options, &root)?;
    // For the same reason: a machine without ports is not a server without answers.
    dialer.check_ports(profile.connections)?;
    let shared = P::share(load, dialer.target(), threads)?;
    let shared = Arc::new(shared);
    // Read before and after: the kernel's counter is of all time and of the whole machine.
    let overflows = read_listen_overflows(proc_root);
    let results: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..)
            .zip(counters)
            .map(|(index, counters)| {
                let shard = Shard { index, threads };
                let protocol = P::new(Arc::clone(&shared), shard);
                let dialer = &dialer;
                scope.spawn(move || run_thread(protocol, profile, dialer, counters, shard))
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
        ports: dialer.ports(),
        server_full: dialer.server_files.full(),
    };
    Ok(P::report(load, &shared, counts, &run))
}

fn run_thread<P: Protocol>(
    protocol: P,
    profile: &LoadProfile<'_>,
    dialer: &Dialer,
    counters: &ProgressCounters,
    shard: Shard,
) -> io::Result<P::Counts> {
    let connections = Connections::new(dialer, profile.options, counters, shard)?;
    Reactor::new(connections, protocol, profile.quantum_us)?.run()
}
