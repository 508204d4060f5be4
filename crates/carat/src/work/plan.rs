//! What an experiment can detect, from a few blocks.

use crate::config::Experiment;
use crate::run::experiment::{ExperimentRequest, FakeTrials, RunError};
use crate::view::output;
use crate::work::exit::Exit;
use crate::work::trials::{prepare_experiment, run_trials};
use anyhow::Context;
use carat_analysis::{Question, forecast, question};
use carat_model::Results;
use carat_report::{count, forecast_text, shell_line};
use std::path::{Path, PathBuf};

/// A few blocks of an experiment.
pub(crate) struct Pilot {
    pub(crate) file: PathBuf,
    /// The results file, if not named after the experiment's folder.
    pub(crate) output: Option<PathBuf>,
    pub(crate) blocks: u32,
    pub(crate) fake: Option<FakeTrials>,
}

impl Pilot {
    /// Runs the missing trials and prints the forecast from all of them.
    ///
    /// # Errors
    /// Where the trials cannot be run, or are too few for a forecast.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let again = self.command();
        let Self { file, output, blocks, fake } = self;
        let request = ExperimentRequest::pilot(file, output, blocks, fake);
        let (store, ended) = run_trials(prepare_experiment(request)?, None)?;
        if matches!(ended, Err(RunError::Interrupted)) {
            let kept = count(store.trials()?.len(), "finished trial");
            output::print_message(&format!("interrupted: {kept} kept; continue with {again}"));
            return Ok(Exit::Interrupted);
        }
        ended?;
        let results = store.results()?;
        // A pilot has fewer blocks than the experiment that it is for.
        let planned = Experiment::parse(&results.info.plan_text, store.path(), Path::new(""));
        let max_blocks = planned.map_or(results.info.max_blocks, |planned| planned.trials.max);
        print_forecast(store.path(), &results, Some(max_blocks))
    }

    /// The command that continues it: of the same blocks, with the same results file.
    fn command(&self) -> String {
        let file = self.file.display().to_string();
        let mut words = ["carat", "plan", &file, "--pilot"].map(String::from).to_vec();
        words.push(self.blocks.to_string());
        if let Some(output) = &self.output {
            words.extend(["-o".to_owned(), output.display().to_string()]);
        }
        shell_line(&words)
    }
}

/// Prints the forecast from the results of a file, for an experiment with at most so many blocks; that of the file if `None`.
///
/// # Errors
/// Where they are too few.
pub(crate) fn print_forecast(
    path: &Path,
    results: &Results,
    max_blocks: Option<u32>,
) -> anyhow::Result<Exit> {
    let asked = question(&results.info);
    let outlook = forecast(&asked, &results.trials).with_context(|| {
        format!("{} has too few blocks that count for a forecast; five are needed", path.display())
    })?;
    let max_blocks = max_blocks.unwrap_or(asked.max_blocks);
    output::print_text(&forecast_text(&outlook, &Question { max_blocks, ..asked }))?;
    Ok(Exit::Fine)
}
