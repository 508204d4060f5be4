//! Trials of an experiment until there is a verdict, its results, and the command that continues it.

use crate::input::{concluded, experiment_of};
use crate::run::experiment::{ExperimentRequest, PreparedExperiment, RunError, failure_detail};
use crate::store::Store;
use crate::view::{dry_run_details, dry_run_text, output};
use crate::work::budget_checks::check_budgets;
use crate::work::exit::Exit;
use crate::work::trials::{ShownResults, prepare_experiment, print_json, run_trials, show_results};
use carat_model::{ExperimentInfo, Outcome, Results, Trial, mask_secrets};
use carat_report::{Budget, NextCommands, count, never_ready, resume_command, shell_line};
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
    if let Err(refused) = prepared.check_results_file() {
        output::print_message(&format!("note: without --dry-run this is refused: {refused}"));
    }
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
    let own = || next_commands(Some((&experiment, &settings)), store.path());
    conclude(shown, shown.next.clone().unwrap_or_else(own), &store, ended)
}

/// The commands that continue an experiment and that begin it anew: its file and the settings of the command line, if the file
/// is known.
fn next_commands(experiment: Option<(&Path, &[(String, String)])>, results: &Path) -> NextCommands {
    let results = results.display().to_string();
    let plan = Some(shell_line(&["carat", "plan", &results].map(String::from)));
    let mut options = vec!["-o".to_owned(), results];
    for (name, value) in experiment.iter().flat_map(|(_, settings)| *settings) {
        options.extend(["--set".to_owned(), format!("{name}={value}")]);
    }
    let before = match experiment {
        Some((file, _)) => {
            shell_line(&["carat".to_owned(), "compare".to_owned(), file.display().to_string()])
        }
        // Words, because a command with a placeholder for the file fails.
        None => "give its experiment file to carat compare with".to_owned(),
    };
    let with = |option: &str| {
        let options = shell_line(&[options.clone(), vec![option.to_owned()]].concat());
        Some(format!("{before} {options}"))
    };
    NextCommands { resume: with("--resume"), anew: with("--fresh"), plan, details: Vec::new() }
}

/// The commands that continue the experiment of a results file and that begin it anew, or what to do where its experiment file
/// is not found.
fn commands_of_file(path: &Path, info: &ExperimentInfo) -> NextCommands {
    let found = experiment_of(path, info);
    let known = found.as_ref().map(|found| (found.path.as_path(), found.settings.as_slice()));
    next_commands(known, path)
}

/// What continues the experiment of a results file.
pub(crate) fn resume_of_file(path: &Path, info: &ExperimentInfo) -> String {
    commands_of_file(path, info).resume.unwrap_or_default()
}

/// The commands for one who has the results file alone: it has the text of its experiment, not where that is. None where
/// they would not answer the question that was asked of it, or where its trials ran elsewhere.
pub(crate) fn next_for_file(path: &Path, results: &Results, is_planned: bool) -> NextCommands {
    let is_own = path.extension().is_some_and(|extension| extension == "carat");
    match is_own && is_planned && results.info.fleet.is_none() {
        true => commands_of_file(path, &results.info),
        false => NextCommands::default(),
    }
}

/// Prints the results, also of a run that ended early: its last line then has the only command.
fn conclude(
    shown: &ShownComparison,
    next: NextCommands,
    store: &Store,
    ended: Result<(), RunError>,
) -> anyhow::Result<Exit> {
    if matches!(ended, Err(RunError::Interrupted))
        && let Some(when) = before_the_first_block(&store.trials()?, store.info()?.variants.len())
    {
        if shown.json {
            print_json(&concluded(store)?)?;
        }
        let resume = next.resume.unwrap_or_default();
        output::print_message(&format!("interrupted before {when}; continue with {resume}"));
        return Ok(Exit::Interrupted);
    }
    let offered = if ended.is_ok() { next.clone() } else { NextCommands::default() };
    let as_asked = ShownResults { json: shown.json, details: shown.details, next: offered };
    let results = show_results(store, as_asked)?;
    let Err(error) = ended else {
        return Ok(match shown.budgets.is_empty() {
            true => Exit::of_verdicts(&results),
            false => check_budgets(&results, &shown.budgets, &next),
        });
    };
    let kept = format!("{} kept", count(results.trials.len(), "finished trial"));
    let going_on = going_on(&results, &next, &error);
    match error {
        RunError::Interrupted => {
            output::print_message(&format!("interrupted: {kept}{going_on}"));
            Ok(Exit::Interrupted)
        }
        RunError::TimeOver { .. } => {
            output::print_message(&format!(
                "stopped before the time is over, because {error}: {kept}{going_on}"
            ));
            Ok(Exit::Undecided)
        }
        RunError::Failing { .. } | RunError::Futile { .. } => {
            output::print_error(&anyhow::Error::new(error));
            output::print_message(&format!("{kept}{going_on}"));
            Ok(Exit::Invalid)
        }
        _ => Err(anyhow::Error::new(error).context(format!("{kept}{going_on}"))),
    }
}

/// What a stopped run did not reach, where it has nothing to show: no block of all variants, and no failure.
fn before_the_first_block(trials: &[Trial], variants: usize) -> Option<String> {
    let counted = trials.iter().filter(|trial| trial.block > 0).count();
    match trials.len() {
        0 => Some("a trial ended".to_owned()),
        kept if counted < variants && trials.iter().all(|trial| trial.outcome == Outcome::Ok) => {
            Some(format!("the end of the first block: {} kept", count(kept, "finished trial")))
        }
        _ => None,
    }
}

/// How to go on after a run that ended early, with one command. What would end the same way is not offered again.
fn going_on(results: &Results, next: &NextCommands, error: &RunError) -> String {
    let anew = next.anew.as_deref().unwrap_or_default();
    let again = "another trial would end the same way";
    let by_hand = "run its command by hand and check what `ready` waits for";
    let is_said = matches!(error, RunError::Failing { .. } | RunError::Futile { .. });
    match (error, never_ready(results)) {
        (_, Some(_)) if is_said => format!("; {again}: {by_hand}, then begin anew with {anew}"),
        (_, Some(trial)) => format!(
            "; variant `{}` never became ready: {}\n{again}: {by_hand}, then begin anew with {anew}",
            trial.variant,
            mask_secrets(&failure_detail(trial)),
        ),
        (RunError::Futile { .. }, None) => {
            format!("; {again}: correct the load or what answers it, then begin anew with {anew}")
        }
        (_, None) => {
            let resume = resume_command(results, next).unwrap_or_default();
            let first = if is_said { "once the cause is removed, " } else { "" };
            format!("; {first}continue with {resume}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::{Outcome, Trial};

    fn results(outcomes: &[Outcome]) -> Results {
        let info: ExperimentInfo = serde_json::from_value(serde_json::json!({
            "name": "x", "about": null, "plan_hash": "", "plan_text": "", "seed": 1, "max_blocks": 30,
            "variants": [{ "name": "a", "settings": {} }, { "name": "b", "settings": {} }],
            "primary": carat_model::metric::MEMORY_PSS_FINAL.id, "margin": 0.02, "guards": {}
        }))
        .unwrap();
        let names = ["a", "b"].into_iter().cycle();
        let trials = outcomes.iter().zip(names).map(|(outcome, name)| Trial {
            outcome: *outcome,
            detail: Some("after 1 s the server still refuses connections".into()),
            log_tail: "no such file".into(),
            ..Trial::bare(1, name)
        });
        Results::unconcluded(info, trials.collect())
    }

    #[test]
    fn what_never_became_ready_is_not_continued_and_every_other_run_with_one_command() {
        let next = next_commands(Some((Path::new("e.toml"), &[])), Path::new("e.carat"));
        let said =
            |outcomes: &[Outcome], error: &RunError| going_on(&results(outcomes), &next, error);
        let (resume, anew) = (" e.toml -o e.carat --resume", " e.toml -o e.carat --fresh");
        let text = said(&[Outcome::Ok, Outcome::NeverReady], &RunError::Interrupted);
        assert!(text.contains("variant `b` never became ready: after 1 s the server"), "{text}");
        assert!(text.contains("its log ends with:\nno such file\n"), "{text}");
        assert!(text.ends_with(anew) && !text.contains(resume), "{text}");
        let failing =
            |outcome| RunError::Failing { variant: "b".into(), outcome, detail: "its log".into() };
        for (outcomes, error, end) in [
            (&[Outcome::Ok, Outcome::Ok][..], RunError::Interrupted, resume),
            (&[Outcome::Ok, Outcome::Crashed], failing(Outcome::Crashed), resume),
            (&[Outcome::Ok, Outcome::NeverReady], failing(Outcome::NeverReady), anew),
            (
                &[Outcome::Ok, Outcome::LoadInvalid],
                RunError::Futile {
                    variant: "b".into(),
                    outcome: Outcome::LoadInvalid,
                    detail: String::new(),
                },
                anew,
            ),
        ] {
            let text = said(outcomes, &error);
            assert!(text.ends_with(end), "{text}");
            assert_eq!(text.matches("carat compare").count(), 1, "{text}");
        }
    }
}
