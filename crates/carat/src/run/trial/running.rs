//! Everything that runs during one trial, so that all of it is sampled and all of it is stopped.

use crate::run::sampled_tree::{ProbeAccess, SampledTree, TreeStep};
use crate::run::trial::command::RunningCommand;
use crate::run::trial::side_process::SideProcess;
use crate::run::trial::{TrialPhase, TrialProgress};
use crate::target::StopReport;
use carat_load::Generator;
use carat_model::{Bytes, Moment, Sample};
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The server's tree of processes and the processes beside it.
pub(crate) struct RunningTrial<'a> {
    pub(crate) server: SampledTree<'a>,
    pub(crate) services: Vec<SideProcess>,
    pub(crate) generator: Option<Generator>,
    /// The command of `[load.command]`.
    pub(crate) load_command: Option<RunningCommand>,
    pub(crate) samples: Vec<Sample>,
    /// What the reader of the trial must know.
    pub(crate) notes: Vec<String>,
    /// Whether `[prepare]` has begun, so that `[cleanup]` must run.
    pub(crate) cleanup_due: bool,
    report: &'a mut dyn FnMut(TrialProgress),
}

/// Why a phase ended before it was complete.
#[derive(Debug)]
pub(crate) enum EarlyEnd {
    /// The user requested to stop.
    Interrupted,
    /// The server ended by itself.
    ServerEnded(ExitStatus),
}

impl<'a> RunningTrial<'a> {
    pub(crate) fn new(server: SampledTree<'a>, report: &'a mut dyn FnMut(TrialProgress)) -> Self {
        Self {
            server,
            services: Vec::new(),
            generator: None,
            load_command: None,
            samples: Vec::new(),
            notes: Vec::new(),
            cleanup_due: false,
            report,
        }
    }

    /// Reports that a phase begins.
    pub(crate) fn begin(&mut self, phase: TrialPhase) {
        (self.report)(TrialProgress { phase, done: None, memory: None });
    }

    /// One short step of waiting: checks for an early end and samples if a sample is due.
    pub(crate) fn step(&mut self, phase: TrialPhase, done: Option<f64>) -> Result<(), EarlyEnd> {
        // First, so that a server which Ctrl-C ended as well does not count as crashed.
        if self.server.interrupt().requested() {
            return Err(EarlyEnd::Interrupted);
        }
        if let Some(status) = self.server.server_ended()
            // A command of `[run]` is over when it ends; a server can go on in the background.
            && (phase == TrialPhase::Run || !self.server.runs_in_background(status))
        {
            return Err(EarlyEnd::ServerEnded(status));
        }
        let load = self.generator.as_ref().filter(|_| phase == TrialPhase::Load);
        let answered = load.map(Generator::done);
        // A refresh makes the server work, so the probes' pages are only read.
        let access = match phase {
            TrialPhase::Load | TrialPhase::Run => ProbeAccess::Read,
            _ => ProbeAccess::Ignored,
        };
        if let TreeStep::Sampled(sample) = self.server.step(answered, access) {
            let memory = displayed_memory(&sample);
            self.keep(*sample);
            (self.report)(TrialProgress { phase, done, memory });
        }
        self.server.pause();
        Ok(())
    }

    /// Keeps a sample; of two within a millisecond, the one of a moment, otherwise the later one.
    pub(crate) fn keep(&mut self, sample: Sample) {
        let same = self.samples.last().filter(|last| last.at_ms == sample.at_ms);
        match same.map(|last| last.moment.is_some() && sample.moment.is_none()) {
            Some(true) => return,
            Some(false) => drop(self.samples.pop()),
            None => {}
        }
        self.samples.push(sample);
    }

    /// Steps for a fixed time.
    pub(crate) fn rest(&mut self, phase: TrialPhase, time: Duration) -> Result<(), EarlyEnd> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.step(phase, None)?;
        }
        Ok(())
    }

    /// Every figure at a moment, whatever it costs.
    pub(crate) fn full_sample(&mut self, moment: Moment) -> Sample {
        // Two moments are two samples: results identify the samples of a trial by their millisecond.
        while self.samples.last().is_some_and(|last| last.at_ms >= self.server.elapsed_ms()) {
            sleep(Duration::from_micros(200));
        }
        let at_ms = self.server.elapsed_ms();
        let sample = self.server.full_sample(ProbeAccess::Ignored);
        let sample = sample.unwrap_or_else(|| Sample { at_ms, ..Sample::default() });
        Sample { moment: Some(moment), ..sample }
    }

    /// Stops load and server.
    pub(crate) fn stop_server(&mut self, grace: Duration) -> StopReport {
        // The load first: without a server it would only count errors.
        self.generator = None;
        self.notes.extend(self.server.doubts());
        self.notes.extend(self.server.log_note());
        let within = || self.server.grace(grace);
        let load = self.load_command.take().map(|mut command| command.stop(within));
        let mut stopped = self.server.stop(grace);
        stopped.survivors.extend(load.into_iter().flatten());
        stopped
    }

    /// Stops the services, and orphans that anything left behind. Returns the names of survivors.
    pub(crate) fn stop_services(&mut self, grace: Duration) -> Vec<String> {
        let mut survivors = Vec::new();
        // In reverse, because a later service can use an earlier one.
        for mut service in self.services.drain(..).rev() {
            self.notes.extend(service.log_note());
            survivors.extend(service.stop(|| self.server.grace(grace)));
        }
        // Last, when everything that could own an orphan has been stopped.
        survivors.extend(self.server.stop_orphans(grace).survivors);
        survivors
    }
}

impl Drop for RunningTrial<'_> {
    fn drop(&mut self) {
        self.stop_server(Duration::ZERO);
        self.stop_services(Duration::ZERO);
    }
}

/// The memory shown in progress: PSS, or RSS of a single process.
fn displayed_memory(sample: &Sample) -> Option<Bytes> {
    sample.pss.or(sample.rss)
}
