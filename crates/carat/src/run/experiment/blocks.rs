//! Runs blocks of trials until there is a verdict or the budget is spent.

use crate::config::{block_objects, block_order, trial_id};
use crate::run::Interrupt;
use crate::run::experiment::events::{EventHandler, ExperimentEvent};
use crate::run::experiment::schedule::BlockSchedule;
use crate::run::trial::{TrialError, TrialPlan, TrialRunner};
use crate::store::{Store, StoreError};
use carat_analysis::{Judge, Judgement, NextStep};
use carat_model::{LoadReport, Outcome, Trial, mask_secrets};
use std::time::{Duration, Instant};
use tracing::debug;

/// Failures of one variant in a row after which the experiment stops: a server that failed twice will rarely
/// succeed at the third attempt.
const FAILURES_IN_A_ROW: usize = 2;

/// Why an experiment stopped without a judgement. Finished trials are in the file.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A trial could not be run.
    #[error("variant `{variant}`, block {block}: {source}")]
    Trial { variant: String, block: u32, source: TrialError },
    /// The results file could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// One variant failed in consecutive trials.
    #[error("variant `{variant}` failed {FAILURES_IN_A_ROW} times in a row ({outcome}): {detail}")]
    Failing {
        variant: String,
        /// How its last trial ended.
        outcome: Outcome,
        /// The cause, and what the server printed.
        detail: String,
    },
    /// No server becomes ready, or the load cannot be driven to one variant as planned: more trials would end the same way.
    #[error("{}", futile(variant, *outcome, detail))]
    Futile {
        variant: String,
        /// How its trial ended.
        outcome: Outcome,
        /// The cause, and what the server printed.
        detail: String,
    },
    /// The user requested to stop.
    #[error("interrupted")]
    Interrupted,
    /// The time that was given is over, or too short for another block.
    #[error("the next block takes about {} s, and {} s are left", needed.as_secs(), left.as_secs())]
    TimeOver {
        /// Expected duration of the block; zero where unknown.
        needed: Duration,
        /// The rest of the given time.
        left: Duration,
    },
}

#[derive(Debug)]
pub struct ExperimentRun {
    pub plan_hash: String,
    /// Names of the variants in order.
    pub variants: Vec<String>,
    /// Seed of the order.
    pub seed: u64,
    /// Decides when to stop.
    pub judge: Judge,
    /// The user's request to stop.
    pub interrupt: Interrupt,
    /// When blocks may begin.
    pub schedule: BlockSchedule,
}

impl ExperimentRun {
    /// Runs the trials that are missing in `store` and returns what follows from all of them.
    pub fn until_verdict(
        &self,
        store: &mut Store,
        runner: &mut dyn TrialRunner,
        events: &mut dyn EventHandler,
    ) -> Result<Judgement, RunError> {
        let mut trials = store.trials()?;
        events.handle(&ExperimentEvent::Begin { done: trials.len() });
        for block in self.schedule.first().. {
            // The trials are in the order of their blocks, in the file and here.
            let before = trials.partition_point(|trial| trial.block < block);
            // Whole blocks only: a look within one would depend on the order of its variants.
            let judgement = self.judge.judge(&trials[..before]);
            debug!(blocks = block - self.schedule.first(), next = ?judgement.next, "the judge looked");
            if block > self.schedule.first() {
                events.handle(&ExperimentEvent::BlockEnds {
                    block: block - 1,
                    judgement: &judgement,
                });
            }
            // Before any trial, so that a resumed run which is decided runs none.
            let NextStep::Continue(active) = &judgement.next else { return Ok(judgement) };
            let missing = self.missing(block, active, &trials);
            self.check_time(&missing, &trials)?;
            let bench = &mut TrialBench { runner: &mut *runner, events: &mut *events };
            self.run_block(&missing, bench, &mut |trial| {
                // In the file first, so that a kill loses no trial that has ended.
                store.add(std::slice::from_ref(trial))?;
                let place = trials.partition_point(|known| known.block <= trial.block);
                trials.insert(place, trial.clone());
                Ok(stop_on_failures(&trials, &trial.variant).err())
            })?;
        }
        unreachable!("a budget of blocks is finite")
    }

    /// Runs one block of all variants by itself, whatever its trials show, and returns its trials in their order.
    ///
    /// # Errors
    /// Where the user requested to stop, or where trials cannot be run at all.
    pub fn single_block(
        &self,
        block: u32,
        runner: &mut dyn TrialRunner,
        events: &mut dyn EventHandler,
    ) -> Result<Vec<Trial>, RunError> {
        let mut trials = Vec::new();
        let bench = &mut TrialBench { runner, events };
        self.run_block(&self.missing(block, &self.variants, &[]), bench, &mut |trial| {
            trials.push(trial.clone());
            Ok(None)
        })?;
        Ok(trials)
    }

    /// Runs the baseline once to warm the machine up; the trial is not stored.
    ///
    /// # Errors
    /// As [`Self::single_block`], and where the trial fails, because those of the block would fail too.
    pub fn warm_up(
        &self,
        runner: &mut dyn TrialRunner,
        events: &mut dyn EventHandler,
    ) -> Result<(), RunError> {
        // Block 0 is never scored, so the trial stands for none of the plan.
        let plan = self.missing(0, &self.variants[..1], &[]);
        let plan: Vec<TrialPlan> = plan.into_iter().filter(|plan| plan.variant == 0).collect();
        let bench = &mut TrialBench { runner, events };
        self.run_block(&plan, bench, &mut |trial| Ok(failed_warm_up(trial)))
    }

    /// Runs trials of one block. `keep` gets each of them and can end the run.
    fn run_block(
        &self,
        plans: &[TrialPlan],
        bench: &mut TrialBench<'_>,
        keep: &mut dyn FnMut(&Trial) -> Result<Option<RunError>, StoreError>,
    ) -> Result<(), RunError> {
        for plan in plans {
            let trial = self.run_trial(plan, bench.runner, bench.events)?;
            // Kept first, so that whoever hears of its end finds it in the file.
            let end = keep(&trial)?;
            bench.events.handle(&ExperimentEvent::TrialEnds(&trial));
            if let Some(end) = end {
                return Err(end);
            }
        }
        Ok(())
    }

    /// The trials of a block that are not in the file, of variants that are still compared.
    fn missing(&self, block: u32, active: &[String], trials: &[Trial]) -> Vec<TrialPlan> {
        let objects = block_objects(self.seed, block);
        // Drawn for all variants, so that one which is left out moves no other.
        block_order(self.seed, block, self.variants.len())
            .into_iter()
            .map(|at| {
                let name = self.variants[at.variant].clone();
                let id = trial_id(&self.plan_hash, self.seed, block, &name);
                let (position, variant) = (at.position, at.variant);
                TrialPlan { id, block, position, variant, name, objects }
            })
            .filter(|plan| block == self.schedule.first() || active.contains(&plan.name))
            .filter(|plan| !trials.iter().any(|t| t.block == block && t.variant == plan.name))
            .collect()
    }

    fn check_time(&self, missing: &[TrialPlan], trials: &[Trial]) -> Result<(), RunError> {
        let latest = |plan: &TrialPlan| trials.iter().rev().find(|t| t.variant == plan.name);
        let seconds: Vec<f64> =
            // Without a trial the duration is unknown, and zero refuses nothing.
            missing.iter().map(|plan| latest(plan).map_or(0.0, |trial| trial.seconds)).collect();
        match self.schedule.too_short(&seconds, Instant::now()) {
            Some((needed, left)) => Err(RunError::TimeOver { needed, left }),
            None => Ok(()),
        }
    }

    fn run_trial(
        &self,
        plan: &TrialPlan,
        runner: &mut dyn TrialRunner,
        events: &mut dyn EventHandler,
    ) -> Result<Trial, RunError> {
        // Between two trials; a trial that runs asks by itself.
        if self.interrupt.requested() {
            return Err(RunError::Interrupted);
        }
        debug!(variant = plan.name, block = plan.block, id = plan.id, "trial begins");
        events.handle(&ExperimentEvent::TrialBegins(plan));
        let ran = runner
            .run(plan, &mut |progress| events.handle(&ExperimentEvent::TrialProgresses(progress)));
        match &ran {
            Ok(trial) => {
                let detail = trial.detail.as_deref().map(mask_secrets);
                debug!(outcome = %trial.outcome, seconds = trial.seconds, detail, "trial ended");
            }
            Err(error) => debug!(%error, "trial could not be run"),
        }
        ran.map_err(|source| match source {
            TrialError::Interrupted => RunError::Interrupted,
            source => RunError::Trial { variant: plan.name.clone(), block: plan.block, source },
        })
    }
}

/// Runs trials and receives their events.
struct TrialBench<'a> {
    runner: &'a mut dyn TrialRunner,
    events: &'a mut dyn EventHandler,
}

/// The error of a warm-up whose server or load failed.
fn failed_warm_up(trial: &Trial) -> Option<RunError> {
    let (variant, outcome) = (trial.variant.clone(), trial.outcome);
    let detail = failure_detail(trial);
    (outcome != Outcome::Ok).then_some(RunError::Futile { variant, outcome, detail })
}

fn futile(variant: &str, outcome: Outcome, detail: &str) -> String {
    match outcome {
        Outcome::NeverReady => format!("variant `{variant}` never became ready: {detail}"),
        _ => format!("the warm-up of variant `{variant}` failed ({outcome}): {detail}"),
    }
}

/// Ends the run if the newest trial of a variant shows that the next ones would fail too.
pub(super) fn stop_on_failures(trials: &[Trial], variant: &str) -> Result<(), RunError> {
    // Only of this variant: others can have succeeded in between.
    let mut latest = trials.iter().rev().filter(|trial| trial.variant == variant);
    let failures = latest.clone().take_while(|trial| trial.outcome != Outcome::Ok).count();
    let Some(last) = latest.next().filter(|_| failures > 0) else { return Ok(()) };
    // One server may be late for want of a warm machine; where the second is too, none will be ready.
    let none_is_ready =
        trials.len() > 1 && trials.iter().all(|trial| trial.outcome == Outcome::NeverReady);
    let in_warm_up = last.outcome == Outcome::LoadInvalid && last.block == 0;
    // A load that is refused as a whole will be refused again, so one trial is enough.
    let futile = none_is_ready || in_warm_up || last.is_refused_warm_up();
    if !futile && failures < FAILURES_IN_A_ROW {
        return Ok(());
    }
    let detail = failure_detail(last);
    let (variant, outcome) = (variant.to_owned(), last.outcome);
    Err(match futile {
        true => RunError::Futile { variant, outcome, detail },
        false => RunError::Failing { variant, outcome, detail },
    })
}

/// Why a trial failed, and what its server printed.
pub(crate) fn failure_detail(trial: &Trial) -> String {
    let mut detail = trial.detail.clone().unwrap_or_default();
    for failure in trial.load.iter().flat_map(LoadReport::wrong_bodies) {
        detail.push_str("\n  ");
        detail.push_str(&failure);
    }
    if !trial.log_tail.is_empty() {
        detail.push_str("\nits log ends with:\n");
        detail.push_str(&trial.log_tail);
    }
    detail
}
