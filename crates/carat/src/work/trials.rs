//! Trials of an experiment with their progress, and the results that follow.

use crate::input::concluded;
use crate::run::experiment::{ExperimentRequest, PreparedExperiment, RunError};
use crate::store::Store;
use crate::view::{ExperimentEffort, ProgressDisplay, ProgressText, check_output, output};
use carat_model::Results;
use carat_report::{Audience, NextCommands, OutputForm, html, json};
use std::io::{self, IsTerminal};
use std::path::Path;

/// Prepares an experiment and prints the warnings about its settings.
pub(crate) fn prepare_experiment(request: ExperimentRequest) -> anyhow::Result<PreparedExperiment> {
    let prepared = PreparedExperiment::new(request, &output::variable)?;
    for (variant, warning) in prepared.warnings() {
        output::print_message(&format!("note: variant `{variant}`: {warning}"));
    }
    Ok(prepared)
}

/// Runs the missing trials and shows the progress, after a `context` if the experiment is a part of something larger. The
/// second value says why they did not come to an end.
pub(crate) fn run_trials(
    prepared: PreparedExperiment,
    context: Option<&str>,
) -> anyhow::Result<(Store, Result<(), RunError>)> {
    let effort = ExperimentEffort::of(&prepared.experiment, &prepared.info);
    let experiment = prepared.open()?;
    let info = experiment.info();
    if let Some(note) = experiment.note() {
        output::print_message(note);
    }
    let live = io::stderr().is_terminal() && output::variable("CI").is_none();
    let mut progress = ProgressText::new(&info.primary, info.max_blocks, info.variants.len());
    match context {
        Some(context) => progress = progress.within(context.to_owned()),
        None => {
            progress = progress.announced(effort);
            output::print_message(&experiment.summary());
        }
    }
    let mut display = ProgressDisplay::new(live, progress);
    let ended = experiment.run(&mut display);
    display.finish();
    Ok(ended?)
}

/// How results are printed.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShownResults {
    pub(crate) json: bool,
    pub(crate) details: bool,
    pub(crate) next: NextCommands,
}

/// Prints the results of a file and writes the page beside it.
pub(crate) fn show_results(store: &Store, shown: ShownResults) -> anyhow::Result<Results> {
    let path = store.path();
    let results = concluded(store)?;
    let page = write_own_page(path, &results)?;
    let details = page.iter().cloned().chain([output::details_command(path, &[])]).collect();
    match shown {
        ShownResults { json: true, .. } => {
            print_json(&results)?;
            output::print_message(&format!("\nresults  {}", path.display()));
            say_page(page.as_deref());
        }
        ShownResults { details: true, .. } => {
            output::print_results(&results, &NextCommands::default(), true)?;
            output::print_message(&format!("\nresults  {}", path.display()));
            say_page(page.as_deref());
        }
        ShownResults { next, .. } => {
            output::print_results(&results, &NextCommands { details, ..next }, false)?;
        }
    }
    Ok(results)
}

/// Prints results for a program.
pub(crate) fn print_json(results: &Results) -> anyhow::Result<()> {
    Ok(output::print_data(&json(results, Audience::Own)?)?)
}

/// Writes the page beside the results and returns its name. The results are complete without it, so a file of the user in its
/// place is a message and no error.
fn write_own_page(results_file: &Path, results: &Results) -> anyhow::Result<Option<String>> {
    let page = results_file.with_extension("html");
    if check_output(&page, OutputForm::Page, &[results_file]).is_err() {
        output::print_message(&format!(
            "note: {} is left as it is, because carat did not write it; `carat report -o` writes the page elsewhere",
            page.display()
        ));
        return Ok(None);
    }
    output::write_page_beside(&page, &html(results, &output::page_options(false)))?;
    Ok(Some(page.display().to_string()))
}

fn say_page(page: Option<&str>) {
    if let Some(page) = page {
        output::print_message(&format!("page     {page}"));
    }
}
