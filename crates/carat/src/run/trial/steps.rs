//! The steps of one trial, from the first service to the final figures.

use crate::config::{
    CommandSpec, Experiment, ReadyCheck, ReadyCondition, TrialLoad, TrialTask, fill_address,
};
use crate::run::Interrupt;
use crate::run::look_at_settings;
use crate::run::trial::command::{CommandEnd, CommandOrder, RunningCommand, status_text};
use crate::run::trial::paths::{CLEANUP, PREPARE, RunContext, TrialPaths};
use crate::run::trial::prepare::directory;
use crate::run::trial::running::{EarlyEnd, RunningTrial};
use crate::run::trial::side_process::{ServiceOrder, SideProcess, filled};
use crate::run::trial::{PreparedVariant, TrialError, TrialPhase};
use crate::target::{LaunchSpec, LogSearch, NewRoot, check_ready, local, set_tree};
use carat_load::clock::MonotonicTime;
use carat_model::load_window;
use carat_model::{LoadReport, LoadSpec, Moment, Observations, Outcome, Sample};
use carat_proc::observe::{Collections, available, merging_ticks, oom_kills, ruby_description};
use carat_proc::process::{Identity, ProcRoot, ServingBy};
use carat_settings::{SettingCheck, SettingStatus};
use carat_wire::env::OBJECTS;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use tracing::debug;

/// What is missing where nothing tells a server the port that a trial has chosen.
const NO_PORT: &str = "; nothing tells it that port: write {port} in its `command` or `env`";

/// How long the signals of a job scheduler may be apart on a busy machine. A trial that goes wrong takes this much longer.
const BETWEEN_SIGNALS: Duration = Duration::from_secs(1);

/// How the part between start and stop ended.
pub(crate) enum TrialEnd {
    /// The trial has an outcome.
    Outcome(Outcome, Option<String>),
    /// The trial could not be run.
    Error(TrialError),
}

impl TrialEnd {
    /// A trial that goes wrong while the user requests to stop is an interrupted one: a job scheduler signals every process
    /// of a job, one after the other, so the server or the generator may have ended first.
    pub(crate) fn or_interrupted(self, interrupt: &Interrupt) -> Self {
        match self {
            Self::Outcome(Outcome::Ok, _) => self,
            _ if interrupt.requested_within(BETWEEN_SIGNALS) => TrialError::Interrupted.into(),
            end => end,
        }
    }
}

impl From<TrialError> for TrialEnd {
    fn from(error: TrialError) -> Self {
        Self::Error(error)
    }
}

/// What the steps of one trial need to know.
pub(crate) struct TrialSteps<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) prepared: &'a PreparedVariant,
    pub(crate) context: &'a RunContext,
    pub(crate) paths: &'a TrialPaths,
    /// The kernel's count of out-of-memory kills before the trial.
    pub(crate) oom_kills: Option<u64>,
}

impl TrialSteps<'_> {
    pub(crate) fn run(
        &self,
        trial: &mut RunningTrial<'_>,
        observed: &mut Observations,
    ) -> TrialEnd {
        let ran = match &self.experiment.task {
            TrialTask::Serve { ready, load } => self.serve(trial, observed, ready, load),
            TrialTask::Run { within } => self.run_to_end(trial, observed, within.0),
        };
        match ran {
            Ok(()) => TrialEnd::Outcome(Outcome::Ok, None),
            Err(end) => end,
        }
    }

    /// Everything before the server.
    pub(super) fn begin(&self, trial: &mut RunningTrial<'_>) -> Result<(), TrialEnd> {
        self.start_services(trial)?;
        self.run_preparation(trial)
    }

    fn serve(
        &self,
        trial: &mut RunningTrial<'_>,
        observed: &mut Observations,
        ready: &ReadyCondition,
        load: &TrialLoad,
    ) -> Result<(), TrialEnd> {
        // Before anything is started: the difference is what the whole trial takes.
        observed.available.0 = available(&ProcRoot::default());
        self.begin(trial)?;
        let started = self.start_server(trial)?;
        self.wait_until_ready(trial, ready)?;
        observed.boot = Some(started.elapsed());
        let members = trial.server.members();
        observed.ruby = ruby_description(trial.server.root(), &members);
        let ready = trial.full_sample(Moment::Ready);
        trial.keep(ready.clone());
        observed.ready = Some(ready);
        let (before, report) = self.run_load(trial, observed, load)?;
        trial
            .rest(TrialPhase::Settle, self.experiment.measure.settle.0)
            .map_err(|end| self.early_end(end, Outcome::Crashed, "after the load"))?;
        let mut last = trial.full_sample(Moment::End);
        observed.available.1 = available(&ProcRoot::default());
        // A request to the probes makes the server work, so it comes after every other figure.
        let members = trial.server.members();
        let now = Collections::read(trial.server.root(), &members);
        observed.collections = now.since(&before);
        observed.notes = self.settings_not_in_effect(trial.server.root(), &members);
        observed.notes.extend(self.processes_that_ended(observed.start.as_ref(), &last));
        last.ledger = Some(Box::new(trial.server.ledger()));
        last.census = self.take_census(trial, observed)?;
        trial.keep(last.clone());
        let ended_ms = last.at_ms;
        observed.last = Some(last);
        let invalid = report.as_ref().and_then(LoadReport::invalid_because);
        observed.load = report;
        match invalid {
            Some(why) => Err(TrialEnd::Outcome(Outcome::LoadInvalid, Some(why))),
            None => self.wait_idle(trial, observed, ended_ms),
        }
    }

    /// Samples the idle server some time after the final figures, which were read at `ended_ms`, if the experiment asks to.
    fn wait_idle(
        &self,
        trial: &mut RunningTrial<'_>,
        observed: &mut Observations,
        ended_ms: u64,
    ) -> Result<(), TrialEnd> {
        let Some(idle) = self.experiment.measure.idle else { return Ok(()) };
        // From the final figures on, whatever the census took.
        let end = Duration::from_millis(ended_ms) + idle.0;
        trial
            .rest(TrialPhase::Idle(idle.0), end.saturating_sub(trial.server.elapsed()))
            .map_err(|end| self.early_end(end, Outcome::Crashed, "after the load"))?;
        let sample = trial.full_sample(Moment::Idle);
        trial.keep(sample.clone());
        observed.idle = Some(sample);
        Ok(())
    }

    /// Warms the server up and runs the measured load. Returns the collections before it and its report.
    fn run_load(
        &self,
        trial: &mut RunningTrial<'_>,
        observed: &mut Observations,
        load: &TrialLoad,
    ) -> Result<(Collections, Option<LoadReport>), TrialEnd> {
        let authority = format!("127.0.0.1:{}", self.paths.port);
        if let TrialLoad::Generated(load) = load
            && let Some(warmup) = load.warmup(&authority)
        {
            let report = self.drive(trial, self.located(warmup)?, TrialPhase::WarmUp)?;
            if let Some(why) = report.refused_because() {
                observed.load = Some(report);
                let why = format!("requests before the measured load: {why}");
                return Err(TrialEnd::Outcome(Outcome::LoadInvalid, Some(why)));
            }
        }
        // After the warm-up, so that its growth does not count as that of the load.
        let mut start = trial.full_sample(Moment::Start);
        // What Ruby's compiler has by now explains no growth under the load.
        let ledger = trial.server.ledger();
        let is_compiled = !ledger.jit_code_by_process().is_empty();
        start.ledger = is_compiled.then(|| Box::new(ledger));
        trial.keep(start.clone());
        observed.start = Some(start);
        let members = trial.server.members();
        let before = Collections::read(trial.server.root(), &members);
        let (from, ticks) = (trial.server.elapsed_ms(), trial.server.cpu_ticks());
        let merging = merging_ticks(&ProcRoot::default());
        // The report has the clock of the machine, the samples that of the trial.
        let began_ms = MonotonicTime::now().millis().saturating_sub(from);
        let report = match load {
            TrialLoad::Generated(load) => {
                let spec = self.located(load.measured(&authority))?;
                Some(self.drive(trial, spec, TrialPhase::Load)?)
            }
            TrialLoad::Command(spec) => self.drive_command(trial, spec)?,
        };
        let around = (from, trial.server.elapsed_ms());
        let window = report.as_ref().map_or(around, |report| load_window(report, began_ms, around));
        observed.window_ms = Some(window);
        observed.cpu = Some(time_of(trial.server.cpu_ticks().saturating_sub(ticks)));
        let merged = merging_ticks(&ProcRoot::default()).zip(merging);
        observed.merging = merged.map(|(after, before)| time_of(after.saturating_sub(before)));
        Ok((before, report))
    }

    /// A load with the folder of its files and the address of its service.
    fn located(&self, load: LoadSpec) -> Result<LoadSpec, TrialError> {
        let filled = load.filled(|text| fill_address(text, &self.paths.values));
        let filled = filled.map_err(|what| TrialError::Setup(format!("[load]: {what}")))?;
        Ok(filled.in_folder(&self.experiment.folder))
    }

    /// Requested settings that are not in effect, or only in part.
    fn settings_not_in_effect(&self, root: &ProcRoot, members: &[Identity]) -> Vec<String> {
        let (settings, applied) = (&self.prepared.settings, &self.prepared.injection.applied);
        let look = look_at_settings(root, members, settings, applied);
        match look.by {
            ServingBy::Nothing if !settings.describe().is_empty() => vec![UNKNOWN_WHERE.to_owned()],
            _ => not_in_effect(&look.checks()),
        }
    }

    /// What is to be said where a process of the server has ended while it was loaded: a worker that takes its place has little
    /// memory yet, whatever the setting does.
    fn processes_that_ended(&self, start: Option<&Sample>, end: &Sample) -> Option<String> {
        let ended = start?.processes_missing_in(end);
        // The count is of the whole machine, so this is not known of these processes.
        let kills = self.oom_kills.zip(oom_kills(&ProcRoot::default()));
        let killed = match kills.is_some_and(|(before, after)| after > before) {
            true => "; meanwhile the kernel killed processes for lack of memory",
            false => "",
        };
        (ended > 0).then(|| {
            format!(
                "processes of the server ended during the load, {ended} of those at its start; one that takes the place of \
                 another has less memory at first{killed}"
            )
        })
    }

    /// Whether this is how the kernel ends a process for lack of memory, and it has done so since the trial began.
    fn was_killed_for_memory(&self, status: ExitStatus) -> bool {
        // The count is of the whole machine, so the signal must fit as well.
        let kills = oom_kills(&ProcRoot::default());
        let more = self.oom_kills.zip(kills).is_some_and(|(before, after)| after > before);
        status.signal() == Some(libc::SIGKILL) && more
    }

    /// The meaning of an early end: `otherwise`, unless the kernel killed the server for lack of memory.
    pub(super) fn early_end(&self, end: EarlyEnd, otherwise: Outcome, when: &str) -> TrialEnd {
        let EarlyEnd::ServerEnded(status) = end else { return TrialError::Interrupted.into() };
        let why = format!("the server ended with {} {when}", status_text(status));
        let (outcome, why) = self.end_of_process(status, otherwise, why);
        TrialEnd::Outcome(outcome, Some(why))
    }

    /// The outcome of a process that ended with this status: `otherwise`, unless the kernel killed it for lack of memory,
    /// which is then added to `what`.
    pub(super) fn end_of_process(
        &self,
        status: ExitStatus,
        otherwise: Outcome,
        what: String,
    ) -> (Outcome, String) {
        if self.was_killed_for_memory(status) {
            return (
                Outcome::OomKilled,
                format!("{what}: the kernel killed it for lack of memory"),
            );
        }
        (otherwise, what)
    }

    fn start_services(&self, trial: &mut RunningTrial<'_>) -> Result<(), TrialError> {
        for (name, spec) in &self.experiment.services {
            trial.begin(TrialPhase::Services);
            let port = self.paths.service_ports[name];
            let mut values = self.paths.values.clone();
            values.insert("port".into(), port.to_string());
            let dir = directory(self.experiment, spec.dir.as_deref(), &format!("service `{name}`"))
                .map_err(|error| TrialError::Setup(error.to_string()))?;
            let order = ServiceOrder {
                name,
                spec,
                port,
                values,
                dir,
                // Not below the server's token: a service is not part of the server's tree.
                token: format!("{}/service-{name}", self.context.token),
                log: self.paths.folder.join(format!("{name}.log")),
            };
            // Kept before it is ready, so that it is stopped if it never is.
            trial.services.push(SideProcess::start(&mut trial.server, &order)?);
            if let Some(service) = trial.services.last_mut() {
                service.wait(&order, &self.context.interrupt)?;
            }
        }
        Ok(())
    }

    /// Runs the command of `[prepare]`. From here on the trial needs its `[cleanup]`.
    fn run_preparation(&self, trial: &mut RunningTrial<'_>) -> Result<(), TrialEnd> {
        trial.cleanup_due = true;
        let Some(spec) = &self.experiment.prepare else { return Ok(()) };
        trial.begin(TrialPhase::Prepare);
        match self.run_command(trial, PREPARE, spec, Interrupt::requested)? {
            Some(Ok(())) => Ok(()),
            Some(Err(problem)) => Err(TrialEnd::Outcome(Outcome::NeverReady, Some(problem))),
            None => Err(TrialError::Interrupted.into()),
        }
    }

    /// Runs the command of `[cleanup]`, whatever happened before. Returns what went wrong.
    ///
    /// A first Ctrl-C lets it finish, because the user expects to find nothing left.
    pub(crate) fn clean_up(&self, trial: &mut RunningTrial<'_>) -> Option<String> {
        let spec = self.experiment.cleanup.as_ref().filter(|_| trial.cleanup_due)?;
        trial.begin(TrialPhase::Cleanup);
        match self.run_command(trial, CLEANUP, spec, Interrupt::requested_again) {
            Ok(Some(end)) => end.err(),
            Ok(None) => Some("cleanup was stopped by a second Ctrl-C".to_owned()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Runs a command beside the server until it ends, or until `gives_up`.
    fn run_command(
        &self,
        trial: &mut RunningTrial<'_>,
        name: &str,
        spec: &CommandSpec,
        gives_up: fn(&Interrupt) -> bool,
    ) -> Result<Option<CommandEnd>, TrialError> {
        let order = self.order(name, spec)?;
        let mut running = RunningCommand::start(&mut trial.server, &order)?;
        let end = running.wait(|| gives_up(&self.context.interrupt));
        trial.notes.extend(running.log_note());
        let survivors = running.stop(|| self.grace(trial));
        match survivors.is_empty() {
            true => Ok(end),
            false => Err(TrialError::Survivors(survivors.join(", "))),
        }
    }

    /// How long a command beside the server has to end after TERM.
    pub(super) fn grace(&self, trial: &RunningTrial<'_>) -> Duration {
        trial.server.grace(self.experiment.server.stop_within.0)
    }

    pub(super) fn order<'a>(
        &'a self,
        name: &'a str,
        spec: &'a CommandSpec,
    ) -> Result<CommandOrder<'a>, TrialError> {
        let wanted = &self.prepared.variant.name;
        let variant = self.experiment.variants.iter().find(|variant| variant.name == *wanted);
        let own = variant.map(|variant| variant.env.clone()).unwrap_or_default();
        let dir = match spec.dir.as_deref() {
            None => self.prepared.dir.clone(),
            dir => directory(self.experiment, dir, name)
                .map_err(|error| TrialError::Setup(error.to_string()))?,
        };
        Ok(CommandOrder {
            name,
            spec,
            env: self.experiment.server.env.clone().into_iter().chain(own).collect(),
            values: &self.paths.values,
            dir,
            // Not below the server's token: the command is not part of the server's tree.
            token: format!("{}/{name}-command", self.context.token),
            log: self.paths.command_log(name),
        })
    }

    /// The folder of the probes' pages.
    pub(super) fn pages(&self) -> PathBuf {
        self.paths.folder.join("pages")
    }

    pub(super) fn start_server(&self, trial: &mut RunningTrial<'_>) -> Result<Instant, TrialError> {
        let pages = self.pages();
        fs::create_dir(&pages).map_err(TrialError::machine("cannot prepare a trial"))?;
        let spec = self.launch_spec(&pages)?;
        let services: Vec<u32> = trial.services.iter().map(SideProcess::pid).collect();
        trial.server.launch(&spec, services).map_err(|source| TrialError::Launch {
            what: format!("the server of variant `{}`", self.prepared.variant.name),
            source,
        })
    }

    fn launch_spec(&self, pages: &Path) -> Result<LaunchSpec, TrialError> {
        let PreparedVariant { command, injection, .. } = self.prepared;
        let (command, mut env) = filled(command, &injection.env, &self.paths.values)?;
        set_tree(&mut env, &self.paths.token, pages);
        if matches!(self.experiment.task, TrialTask::Run { .. }) {
            // Of a server, its threads and its load move the moments of collections.
            env.insert(OBJECTS.into(), format!("{:04}", self.paths.objects));
        }
        let (dir, log) = (self.prepared.dir.clone(), self.server_log());
        let main_stack = injection.applied.main_stack;
        Ok(LaunchSpec { command, dir, env, log, root: self.new_root()?, main_stack })
    }

    pub(super) fn server_log(&self) -> PathBuf {
        self.paths.folder.join("server.log")
    }

    /// The root that a setting requests. It shares the folders of the trial, the app and the libraries.
    fn new_root(&self) -> Result<Option<NewRoot>, TrialError> {
        let Some(system) = self.prepared.injection.applied.root.clone() else { return Ok(None) };
        let scratch = self.context.directory.join(format!("root-{}", self.paths.port));
        fs::create_dir_all(&scratch).map_err(TrialError::machine("cannot prepare another root"))?;
        let app = std::path::absolute(&self.experiment.folder).unwrap_or_default();
        let mut shared = vec![app, self.prepared.dir.clone(), self.paths.folder.clone()];
        shared.extend(self.prepared.injection.library_folder().map(Path::to_owned));
        Ok(Some(NewRoot { system, scratch, shared }))
    }

    fn wait_until_ready(
        &self,
        trial: &mut RunningTrial<'_>,
        ready: &ReadyCondition,
    ) -> Result<(), TrialEnd> {
        let (address, mut log) = (local(self.paths.port), LogSearch::new(self.server_log()));
        let deadline = Instant::now() + ready.within.0;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // A socket takes a timeout of zero as no timeout.
            let timeout = left.clamp(Duration::from_millis(10), Duration::from_secs(1));
            let Err(not_ready) = check_ready(&ready.check, address, &mut log, timeout) else {
                debug!(port = self.paths.port, ?left, "the server is ready");
                return Ok(());
            };
            // After the check, so that one is made at the deadline too.
            if left.is_zero() {
                debug!(
                    port = self.paths.port,
                    why = not_ready.0,
                    "the server's deadline has passed"
                );
                let within = ready.within.0.as_secs_f64();
                let has_port =
                    self.prepared.names_port() || matches!(ready.check, ReadyCheck::Log(_));
                let hint = if has_port { "" } else { NO_PORT };
                let why = format!("after {within} s the server still {}{hint}", not_ready.0);
                return Err(TrialEnd::Outcome(Outcome::NeverReady, Some(why)));
            }
            trial
                .step(TrialPhase::Boot, None)
                .map_err(|end| self.early_end(end, Outcome::NeverReady, "before it was ready"))?;
        }
    }

    fn drive(
        &self,
        trial: &mut RunningTrial<'_>,
        spec: LoadSpec,
        phase: TrialPhase,
    ) -> Result<LoadReport, TrialEnd> {
        trial.generator = Some(trial.server.spawn_generator(&spec).map_err(TrialError::from)?);
        loop {
            let Some(generator) = &mut trial.generator else {
                return Err(TrialError::Interrupted.into());
            };
            if let Some(report) = generator.poll().map_err(TrialError::from)? {
                trial.generator = None;
                return Ok(report);
            }
            let done = generator.progress().share();
            trial
                .step(phase, done)
                .map_err(|end| self.early_end(end, Outcome::Crashed, "under load"))?;
        }
    }
}

/// A note on a trial of which no process shows whether the settings were in effect.
const UNKNOWN_WHERE: &str = "it is unknown whether the settings were in effect: no Ruby of the server listens or was forked from one that does";

/// The checks of settings that are not in effect, or only in part, in words. Where there is nothing to do for a setting,
/// nothing is missing.
pub(super) fn not_in_effect(checks: &[SettingCheck]) -> Vec<String> {
    let noted = checks.iter().filter_map(|check| match &check.status {
        // The trial is over, so a moment that has not come does not come.
        SettingStatus::NotYet(why) => Some(did_not_act(check, why)),
        SettingStatus::NotForked(why) => Some(did_not_act(check, why)),
        SettingStatus::NotApplied(_) | SettingStatus::NotPreloaded | SettingStatus::Partly(_) => {
            Some(check.to_string())
        }
        SettingStatus::Applied(_)
        // No worker has shown otherwise in the whole trial.
        | SettingStatus::Assumed
        | SettingStatus::Needless
        | SettingStatus::Unchanged
        | SettingStatus::Unknown(_) => None,
    });
    noted.collect()
}

fn did_not_act(check: &SettingCheck, why: &str) -> String {
    format!("{} did not act: {why}", check.setting)
}

/// Clock ticks of the kernel as time.
fn time_of(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_for_which_there_is_nothing_to_do_is_no_note_on_a_trial() {
        let check = |status| SettingCheck { setting: "fill_call_caches=on".into(), status };
        let noted = |status| not_in_effect(&[check(status)]).len();
        assert_eq!(noted(SettingStatus::Needless), 0);
        assert_eq!(noted(SettingStatus::Applied(String::new())), 0);
        assert_eq!(noted(SettingStatus::NotPreloaded), 1);
        assert_eq!(noted(SettingStatus::NotApplied(String::new())), 1);
        let waits = check(SettingStatus::NotForked("no worker has been forked"));
        let words = "fill_call_caches=on did not act: no worker has been forked";
        assert_eq!(not_in_effect(&[waits]), [words]);
    }
}
