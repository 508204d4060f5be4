//! A load that a command drives: `[load.command]`.

use crate::config::CommandSpec;
use crate::run::trial::command::RunningCommand;
use crate::run::trial::paths::LOAD;
use crate::run::trial::running::RunningTrial;
use crate::run::trial::steps::{TrialEnd, TrialSteps};
use crate::run::trial::{TrialError, TrialPhase};
use crate::target::log_tail;
use carat_model::load::report_of_command;
use carat_model::{LoadReport, Outcome};

/// The last lines of a command in which its report is looked for.
const REPORT_LINES: usize = 50;

impl TrialSteps<'_> {
    /// Runs the command until it ends. Returns its report, if it printed one.
    pub(super) fn drive_command(
        &self,
        trial: &mut RunningTrial<'_>,
        spec: &CommandSpec,
    ) -> Result<Option<LoadReport>, TrialEnd> {
        let order = self.order(LOAD, spec)?;
        let running = RunningCommand::start(&mut trial.server, &order)?;
        // Otherwise orphans of the command would count as the server's.
        trial.server.exclude_tree(running.pid());
        // Kept there, so that it is stopped whatever happens.
        trial.load_command = Some(running);
        let end = loop {
            let Some(running) = &mut trial.load_command else {
                return Err(TrialError::Interrupted.into());
            };
            if let Some(end) = running.ended() {
                break end;
            }
            trial
                .step(TrialPhase::Load, None)
                .map_err(|end| self.early_end(end, Outcome::Crashed, "under load"))?;
        };
        trial.notes.extend(trial.load_command.as_ref().and_then(RunningCommand::log_note));
        // What it left running must not be in the final figures.
        let command = trial.load_command.take();
        let left = command.map(|mut running| running.stop(|| self.grace(trial)));
        if let Some(survivors) = left.filter(|left| !left.is_empty()) {
            return Err(TrialError::Survivors(survivors.join(", ")).into());
        }
        match end {
            Ok(()) => Ok(report_of_command(&log_tail(&order.log, REPORT_LINES))),
            Err(problem) => Err(TrialEnd::Outcome(Outcome::LoadInvalid, Some(problem))),
        }
    }
}
