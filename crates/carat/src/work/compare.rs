//! Trials of an experiment until there is a verdict, its results, and the command that continues it.

use crate::run::experiment::{ExperimentRequest, PreparedExperiment, RunError};
use crate::store::Store;
use crate::view::{dry_run_details, dry_run_text, output};
use crate::work::budget_checks::check_budgets;
use crate::work::exit::Exit;
use crate::work::trials::{ShownResults, prepare_experiment, run_trials, show_results};
use carat_model::Results;
use carat_report::{Budget, NextCommands, count, shell_line};
use std::path::Path;

/// What is printed of a comparison.
#[derive(Debug)]
pub(crate) struct ShownComparison {
    pub(crate) json: bool,
    pub(crate) details: bool,
    pub(crate) budgets: Vec<Budget>,
    /// The commands that continue an interrupted run and that begin another, if not `carat compare` with options.
    pub(crate) next: Option<NextCommands>,
}

/// Prints what would run; with `details` also how every variant is started, in which order, and where.
///
/// # Errors
/// Where the experiment could not run either.
pub(crate) fn print_planned(request: ExperimentRequest, details: bool) -> anyhow::Result<()> {
    let file = request.experiment.display().to_string();
    let prepared = prepare_experiment(request)?;
    let earlier = prepared.earlier_seconds();
    let PreparedExperiment { experiment, variants, libraries, info, .. } = &prepared;
    let plan = dry_run_text(experiment, info, variants, &earlier);
    let rest = match details {
        true => dry_run_details(experiment, info, variants, libraries),
        false => {
            let words = ["carat", "compare", &file, "--dry-run", "--details"].map(String::from);
            format!("details     {}   environment, order, machine\n", shell_line(&words))
        }
    };
    output::print_text(&format!("{plan}{rest}"))?;
    Ok(())
}

/// Runs trials until there is a verdict, and prints it.
///
/// # Errors
/// Where the experiment cannot be run or its results cannot be written.
pub(crate) fn compare(request: ExperimentRequest, shown: &ShownComparison) -> anyhow::Result<Exit> {
    let (experiment, settings) = (request.experiment.clone(), request.settings.clone());
    let prepared = prepare_experiment(request)?;
    if let Some(replayed) = prepared.replayed() {
        output::print_message(&format!("note: replay of {replayed}"));
    }
    let (store, ended) = run_trials(prepared, None)?;
    let own = || next_commands(&experiment, &settings, store.path());
    conclude(shown, shown.next.clone().unwrap_or_else(own), &store, ended)
}

/// The commands that continue this experiment and that begin it anew.
fn next_commands(experiment: &Path, settings: &[(String, String)], results: &Path) -> NextCommands {
    let [file, results] = [experiment, results].map(|path| path.display().to_string());
    let plan = Some(shell_line(&["carat", "plan", &results].map(String::from)));
    let mut words = ["carat", "compare", &file, "-o", &results].map(String::from).to_vec();
    for (name, value) in settings {
        words.extend(["--set".to_owned(), format!("{name}={value}")]);
    }
    let [resume, anew] = ["--resume", "--fresh"]
        .map(|option| Some(shell_line(&[words.clone(), vec![option.to_owned()]].concat())));
    NextCommands { resume, anew, plan, details: Vec::new() }
}

/// The commands for one who has the results file alone: it has the text of its experiment, not where that is. None where
/// they would not answer the question that was asked of it, or where its trials ran elsewhere.
pub(crate) fn next_for_file(path: &Path, results: &Results, is_planned: bool) -> NextCommands {
    let is_own = path.extension().is_some_and(|extension| extension == "carat");
    match is_own && is_planned && results.info.fleet.is_none() {
        true => next_commands(Path::new("EXPERIMENT"), &[], path),
        false => NextCommands::default(),
    }
}

/// Prints the results, also of a run that ended early.
fn conclude(
    shown: &ShownComparison,
    next: NextCommands,
    store: &Store,
    ended: Result<(), RunError>,
) -> anyhow::Result<Exit> {
    let resume = next.resume.clone().unwrap_or_default();
    if matches!(ended, Err(RunError::Interrupted)) && store.trials()?.is_empty() {
        output::print_message(&format!(
            "stopped by Ctrl-C before a trial ended; continue with {resume}"
        ));
        return Ok(Exit::Interrupted);
    }
    let as_asked = ShownResults { json: shown.json, details: shown.details, next };
    let results = show_results(store, as_asked)?;
    let trials = count(results.trials.len(), "finished trial");
    let kept = format!("{trials} kept; continue with {resume}");
    match ended {
        Ok(()) if shown.budgets.is_empty() => Ok(Exit::of_verdicts(&results)),
        Ok(()) => Ok(check_budgets(&results, &shown.budgets)),
        Err(RunError::Interrupted) => {
            output::print_message(&format!("stopped by Ctrl-C: {kept}"));
            Ok(Exit::Interrupted)
        }
        Err(error @ RunError::TimeOver { .. }) => {
            output::print_message(&format!(
                "stopped before the time is over, because {error}: {kept}"
            ));
            Ok(Exit::Undecided)
        }
        Err(error @ (RunError::Failing { .. } | RunError::WarmUp { .. })) => {
            output::print_error(&anyhow::Error::new(error));
            output::print_message(&kept);
            Ok(Exit::Invalid)
        }
        Err(error) => Err(anyhow::Error::new(error).context(kept)),
    }
}
