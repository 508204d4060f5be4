//! The steps of a trial whose server is a command that ends by itself: `[run]`.
//!
//! The command is gone when its trial ends, and the kernel keeps a dead process only if a debugger holds it. So nothing is
//! read after the end except what outlives a process: its exit status, its processor time, its highest memory, and the pages
//! of the probes. All other memory is that of the samples taken while it ran.

use crate::run::look_at_settings;
use crate::run::trial::command::{failure, status_text};
use crate::run::trial::running::{EarlyEnd, RunningTrial};
use crate::run::trial::steps::{TrialEnd, TrialSteps, not_in_effect};
use crate::run::trial::{TrialError, TrialPhase};
use crate::target::ExitWatch;
use carat_model::metric::MEMORY_GROUP_PEAK;
use carat_model::{Observations, Outcome, count};
use carat_proc::observe::{collections_of, pages_left};
use carat_proc::process::children_cpu;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// The latest answer to the question whether the settings are in effect.
#[derive(Debug)]
struct SettingsSeen {
    /// Whether the variant has any.
    wanted: bool,
    /// Those that are not, and when that was read; `None` before the first reading.
    missing: Option<(Vec<String>, Instant)>,
}

impl TrialSteps<'_> {
    /// Runs the command until it ends.
    pub(super) fn run_to_end(
        &self,
        trial: &mut RunningTrial<'_>,
        observed: &mut Observations,
        within: Duration,
    ) -> Result<(), TrialEnd> {
        self.begin(trial)?;
        // Before the start: the kernel counts the children of all trials.
        let cpu = children_cpu();
        trial.server.give_own_group();
        let started = self.start_server(trial)?;
        // The start on the clock of the samples.
        let from = trial.server.elapsed().saturating_sub(started.elapsed());
        // From the start on, because a command can end before the first sample.
        let watch = trial.server.watch_exit();
        let wanted = !self.prepared.settings.describe().is_empty();
        let mut settings = SettingsSeen { wanted, missing: None };
        let status = self.follow(trial, (started, within), &mut settings)?;
        let ended = watch.and_then(ExitWatch::ended).unwrap_or_else(Instant::now);
        let time = ended.saturating_duration_since(started);
        // The kernel adds a child's time when the child is waited for (getrusage(2)).
        observed.cpu = Some(children_cpu().saturating_sub(cpu));
        observed.run_time = Some(time);
        observed.window_ms = Some((from.as_millis() as u64, (from + time).as_millis() as u64));
        let pages = pages_left(&self.pages());
        observed.ruby = pages.iter().map(|page| page.ruby.clone()).find(|ruby| !ruby.is_empty());
        observed.collections = collections_of(&pages);
        observed.notes = settings.notes(started, ended);
        observed.notes.extend(outlived(trial));
        observed.kernel_peak = trial.server.server_peak();
        self.read_group_peak(trial, observed);
        self.judge(status)
    }

    /// The peak of the command's control group; a note on why it is unknown where the experiment asks for it.
    fn read_group_peak(&self, trial: &RunningTrial<'_>, observed: &mut Observations) {
        let (id, measure) = (MEMORY_GROUP_PEAK.id, &self.experiment.measure);
        let is_asked_for = measure.primary.id == id || measure.guards.contains_key(id);
        match trial.server.group_peak() {
            Ok(peak) => observed.group_peak = Some(peak),
            Err(reason) if is_asked_for => {
                observed.notes.push(format!("{id} is unknown: {reason}"));
            }
            Err(_) => {}
        }
    }

    /// Samples the command until it ends, or until its deadline.
    fn follow(
        &self,
        trial: &mut RunningTrial<'_>,
        (started, within): (Instant, Duration),
        settings: &mut SettingsSeen,
    ) -> Result<ExitStatus, TrialEnd> {
        loop {
            let samples = trial.samples.len();
            match trial.step(TrialPhase::Run, None) {
                Ok(()) => {}
                Err(EarlyEnd::Interrupted) => return Err(TrialError::Interrupted.into()),
                Err(EarlyEnd::ServerEnded(status)) => return Ok(status),
            }
            if started.elapsed() >= within {
                let what = format!("still ran after {} s", within.as_secs_f64());
                return Err(TrialEnd::Outcome(Outcome::Crashed, Some(self.failed(&what))));
            }
            if trial.samples.len() > samples && settings.is_open() {
                self.look_at_settings(trial, settings);
            }
        }
    }

    fn look_at_settings(&self, trial: &mut RunningTrial<'_>, seen: &mut SettingsSeen) {
        let members = trial.server.members();
        let (settings, applied) = (&self.prepared.settings, &self.prepared.injection.applied);
        let checks = look_at_settings(trial.server.root(), &members, settings, applied).checks();
        if !checks.is_empty() {
            seen.missing = Some((not_in_effect(&checks), Instant::now()));
        }
    }

    /// The outcome of a command that has ended.
    fn judge(&self, status: ExitStatus) -> Result<(), TrialEnd> {
        if status.success() {
            return Ok(());
        }
        let what = format!("ended with {}", status_text(status));
        let (outcome, what) = self.end_of_process(status, Outcome::Crashed, what);
        Err(TrialEnd::Outcome(outcome, Some(self.failed(&what))))
    }

    fn failed(&self, what: &str) -> String {
        failure("the command", what, &self.server_log())
    }
}

impl SettingsSeen {
    /// Whether a further look may change the answer.
    fn is_open(&self) -> bool {
        self.wanted && self.missing.as_ref().is_none_or(|(missing, _)| !missing.is_empty())
    }

    /// Notes for the reader. While a command boots, a setting need not be in effect yet, so only the second half of the
    /// run is evidence against one.
    fn notes(self, started: Instant, ended: Instant) -> Vec<String> {
        let half = started + ended.saturating_duration_since(started) / 2;
        match self.missing {
            _ if !self.wanted => Vec::new(),
            Some((missing, at)) if missing.is_empty() || at >= half => missing,
            _ => vec!["it is unknown whether the settings were in effect: the command ended before that could be read; lower `sample_every`".to_owned()],
        }
    }
}

/// A note on processes that still run although the command has ended.
fn outlived(trial: &mut RunningTrial<'_>) -> Option<String> {
    let left = trial.server.members().len();
    (left > 0).then(|| {
        let left = count(left, "process");
        format!("{left} of the command still ran after its end; stopped, and the processor time not counted")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_missing_only_on_evidence_from_the_second_half_of_the_run() {
        let started = Instant::now();
        let at = |seconds| started + Duration::from_secs(seconds);
        let seen = |missing: &[&str], seconds| {
            let missing = missing.iter().map(ToString::to_string).collect();
            SettingsSeen { wanted: true, missing: Some((missing, at(seconds))) }
        };
        assert_eq!(seen(&["a"], 6).notes(started, at(10)), ["a"]);
        let early = seen(&["a"], 4).notes(started, at(10));
        assert!(early[0].starts_with("it is unknown"), "{early:?}");
        assert_eq!(seen(&[], 1).notes(started, at(10)), [""; 0]);
        let none = SettingsSeen { wanted: false, missing: None };
        assert!(!none.is_open());
        assert_eq!(none.notes(started, at(10)), [""; 0]);
        let never = SettingsSeen { wanted: true, missing: None }.notes(started, at(10));
        assert!(never[0].contains("lower `sample_every`"), "{never:?}");
    }
}
