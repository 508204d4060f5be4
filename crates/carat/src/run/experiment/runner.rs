//! Block after block until no further block would change anything.

use crate::analysis::{Judge, Judgement, NextStep};
use crate::config::{block_order, trial_id};
use crate::core::{Outcome, Trial};
use crate::run::Interrupt;
use crate::run::experiment::{Event, Listener};
use crate::run::trial::{TrialError, TrialPlan, TrialRunner};
use crate::store::{Store, StoreError};

/// Trials of one variant that may fail in a row before the experiment is given up: a server that cannot
/// even start twice needs its owner, not another sixty tries.
const FAILURES_IN_A_ROW: usize = 2;

/// Why an experiment stopped without a judgement. Finished trials are in the file.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A trial could not be run.
    #[error("variant `{variant}`, block {block}: {source}")]
    Trial {
        /// The variant.
        variant: String,
        /// The block.
        block: u32,
        /// Why.
        source: TrialError,
    },
    /// The results file could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// One variant fails again and again.
    #[error("variant `{variant}` failed {FAILURES_IN_A_ROW} times in a row ({outcome}): {detail}")]
    Failing {
        /// The variant.
        variant: String,
        /// How its last trial ended.
        outcome: Outcome,
        /// Why, and what the server printed.
        detail: String,
    },
    /// The user asked to stop.
    #[error("stopped by Ctrl-C")]
    Interrupted,
}

/// A run of one experiment.
#[derive(Debug)]
pub struct Run {
    /// Hash of the plan.
    pub plan_hash: String,
    /// Names of the variants in order.
    pub variants: Vec<String>,
    /// Seed of the order.
    pub seed: u64,
    /// What decides when to stop.
    pub judge: Judge,
    /// The user's wish to stop.
    pub interrupt: Interrupt,
}

impl Run {
    /// Runs what is missing in `store` and returns what follows from everything.
    pub fn until_verdict(
        &self,
        store: &mut Store,
        runner: &mut dyn TrialRunner,
        listener: &mut dyn Listener,
    ) -> Result<Judgement, RunError> {
        let mut trials = store.trials()?;
        listener.hear(&Event::Begin { done: trials.len() });
        for block in 0.. {
            // The file gives trials in the order of their blocks, and so are they kept.
            let before = trials.partition_point(|trial| trial.block < block);
            let judgement = self.judge.judge(&trials[..before]);
            if block > 0 {
                listener.hear(&Event::BlockEnds { block: block - 1, judgement: &judgement });
            }
            let NextStep::Continue(active) = &judgement.next else { return Ok(judgement) };
            for plan in self.missing(block, active, &trials) {
                let trial = self.one(&plan, runner, listener)?;
                store.add(std::slice::from_ref(&trial))?;
                listener.hear(&Event::TrialEnds(&trial));
                let place = trials.partition_point(|known| known.block <= trial.block);
                trials.insert(place, trial);
                give_up_on_failure(&trials, &plan.name)?;
            }
        }
        unreachable!("a budget of blocks is finite")
    }

    /// What is left to run of a block: variants that are still compared and have no trial there yet.
    fn missing(&self, block: u32, active: &[String], trials: &[Trial]) -> Vec<TrialPlan> {
        block_order(self.seed, block, self.variants.len())
            .into_iter()
            .map(|slot| {
                let name = self.variants[slot.variant].clone();
                let id = trial_id(&self.plan_hash, self.seed, block, &name);
                TrialPlan { id, block, position: slot.position, variant: slot.variant, name }
            })
            .filter(|plan| block == 0 || active.contains(&plan.name))
            .filter(|plan| !trials.iter().any(|t| t.block == block && t.variant == plan.name))
            .collect()
    }

    fn one(
        &self,
        plan: &TrialPlan,
        runner: &mut dyn TrialRunner,
        listener: &mut dyn Listener,
    ) -> Result<Trial, RunError> {
        if self.interrupt.requested() {
            return Err(RunError::Interrupted);
        }
        listener.hear(&Event::TrialBegins(plan));
        let ran = runner.run(plan, &mut |progress| listener.hear(&Event::Trial(progress)));
        ran.map_err(|source| match source {
            TrialError::Interrupted => RunError::Interrupted,
            source => RunError::Trial { variant: plan.name.clone(), block: plan.block, source },
        })
    }
}

fn give_up_on_failure(trials: &[Trial], variant: &str) -> Result<(), RunError> {
    let mut latest = trials.iter().rev().filter(|trial| trial.variant == variant);
    let failures = latest.clone().take_while(|trial| trial.outcome != Outcome::Ok).count();
    let Some(last) = latest.next().filter(|_| failures >= FAILURES_IN_A_ROW) else { return Ok(()) };
    let mut detail = last.detail.clone().unwrap_or_default();
    if !last.log_tail.is_empty() {
        detail.push_str("; the server printed at its end:\n");
        detail.push_str(&last.log_tail);
    }
    Err(RunError::Failing { variant: variant.to_owned(), outcome: last.outcome, detail })
}
