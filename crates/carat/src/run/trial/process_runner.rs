//! Runs trials with real services, a real server and real load.

use crate::config::{Experiment, TrialTask};
use crate::run::machine_facts;
use crate::run::sampled_tree::{SampledTree, TreeOptions};
use crate::run::trial::paths::{RunContext, TrialPaths};
use crate::run::trial::running::RunningTrial;
use crate::run::trial::steps::{TrialEnd, TrialSteps};
use crate::run::trial::{
    PreparedVariant, TrialError, TrialPhase, TrialPlan, TrialProgress, TrialRunner,
};
use crate::target::Reaper;
use carat_model::{MachineFacts, Observations, Outcome, Trial, metric};
use carat_proc::observe::{SampleOptions, oom_kills};
use carat_proc::process::ProcRoot;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Share of one core that sampling a command may take, as a fraction. Its memory is known from the samples alone, and it
/// may run for a second only.
const SHARE_OF_RUN: f64 = 0.05;

/// Runs trials on real servers.
#[derive(Debug)]
pub struct ProcessRunner {
    experiment: Experiment,
    prepared: Vec<PreparedVariant>,
    /// Facts of the machine as each variant's server sees it, without its Ruby.
    machine: Vec<MachineFacts>,
    context: RunContext,
    reaper: Reaper,
}

impl ProcessRunner {
    /// A runner for one experiment with prepared variants.
    pub fn new(
        experiment: Experiment,
        prepared: Vec<PreparedVariant>,
        context: RunContext,
        reaper: Reaper,
    ) -> Self {
        let machine = prepared
            .iter()
            .map(|one| {
                machine_facts(one.injection.applied.root.as_deref().unwrap_or(Path::new("/")))
            })
            .collect();
        Self { experiment, prepared, machine, context, reaper }
    }
}

impl TrialRunner for ProcessRunner {
    fn run(
        &mut self,
        plan: &TrialPlan,
        report: &mut dyn FnMut(TrialProgress),
    ) -> Result<Trial, TrialError> {
        let paths = TrialPaths::new(&self.experiment, &self.context, plan)
            .map_err(TrialError::machine("cannot prepare a trial"))?;
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let options = tree_options(&self.experiment);
        let server =
            SampledTree::new(options, self.context.interrupt.clone(), Some(&mut self.reaper))
                .map_err(TrialError::machine("cannot find carat's own binary"))?;
        let mut running = RunningTrial::new(server, report);
        let steps = TrialSteps {
            experiment: &self.experiment,
            prepared: &self.prepared[plan.variant],
            context: &self.context,
            paths: &paths,
            // Before the trial, so that only kills since then count for it.
            oom_kills: oom_kills(&ProcRoot::default()),
        };
        let mut observed = Observations::default();
        let end = steps.run(&mut running, &mut observed);
        // Before the stop: what a server prints while it ends would push the cause out.
        let printed = running.server.log_tail(50);
        running.begin(TrialPhase::Stop);
        let grace = self.experiment.server.stop_within.0;
        let stopped = running.stop_server(grace);
        observed.notes.extend(stopped.forced.then(|| forced_note(grace)));
        // The services still run, because the cleanup may need them.
        let unclean = steps.clean_up(&mut running);
        let mut survivors = stopped.survivors;
        survivors.extend(running.stop_services(grace));
        let log_tail = paths.whole_log(&printed);
        observed.samples = std::mem::take(&mut running.samples);
        observed.notes.append(&mut running.notes);
        observed.notes.extend(observed.missed_peak());
        let seconds = running.server.elapsed().as_secs_f64();
        drop(running);
        // If this fails, the folder is removed with the private directory of the run.
        let _ = fs::remove_dir_all(&paths.folder);
        // Before any outcome, because what still runs would disturb every later trial.
        if !survivors.is_empty() {
            return Err(TrialError::Survivors(survivors.join(", ")));
        }
        let (outcome, detail) = match (end.or_interrupted(&self.context.interrupt), unclean) {
            (TrialEnd::Outcome(outcome, detail), unclean) => {
                observed.notes.extend(unclean);
                (outcome, detail)
            }
            // An interrupted trial is not stored, so a note in it would be lost.
            (TrialEnd::Error(TrialError::Interrupted), Some(unclean)) => {
                return Err(TrialError::Cleanup(unclean));
            }
            (TrialEnd::Error(error), _) => return Err(error),
        };
        let started_ms = started.as_millis() as u64;
        let machine = self.machine[plan.variant].clone();
        let trial = trial(plan, machine, outcome, observed);
        Ok(Trial { detail, started_ms, seconds, log_tail, ..trial })
    }
}

/// What was observed, as a trial that still lacks its times, its detail and its log.
fn trial(
    plan: &TrialPlan,
    mut machine: MachineFacts,
    outcome: Outcome,
    observed: Observations,
) -> Trial {
    let metrics =
        if outcome == Outcome::Ok { metric::of_trial(&observed) } else { BTreeMap::new() };
    machine.extend(observed.ruby.map(|ruby| ("ruby".to_owned(), ruby)));
    Trial {
        id: plan.id.clone(),
        block: plan.block,
        position: plan.position,
        variant: plan.name.clone(),
        outcome,
        detail: None,
        started_ms: 0,
        seconds: 0.0,
        machine,
        metrics,
        samples: observed.samples,
        load_window_ms: observed.window_ms,
        load: observed.load,
        notes: observed.notes,
        log_tail: String::new(),
    }
}

fn tree_options(experiment: &Experiment) -> TreeOptions {
    let every = experiment.measure.sample_every.0;
    let share = match experiment.task {
        TrialTask::Serve { .. } => SampleOptions::default().share,
        TrialTask::Run { .. } => SHARE_OF_RUN,
    };
    TreeOptions {
        sampling: SampleOptions { every, share },
        // Each sample scans anew: a server can fork at any moment.
        rescan_after: Duration::ZERO,
        longest_pause: Duration::from_millis(20),
        full_at_requests: experiment.measure.at_requests.clone(),
    }
}

fn forced_note(grace: Duration) -> String {
    format!("still ran {} s after TERM and was killed", grace.as_secs_f64())
}
