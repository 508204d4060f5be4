//! A search for the best settings: its plan, its run in a folder, and what it recommends.

use crate::config::TuneSpec;
use crate::run::experiment::ExperimentError;
use crate::run::trial::roots;
use crate::run::tune::{FakeApp, LOOK_TRIALS, TuneError, TuneOptions, tune};
use crate::view::output;
use crate::work::exit::Exit;
use crate::work::search_folder::{FolderHost, SearchOpening, open_search, write_in_search};
use carat_report::numbers::limit;
use carat_report::{PageOptions, SearchReport, shell_line, tune_html, tune_text};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Trials of the search with `--quick`.
const QUICK: usize = 60;

/// One call of `carat tune`.
#[derive(Debug)]
pub(crate) struct SearchRequest {
    pub(crate) file: PathBuf,
    /// The search's folder; without it the name of the file's search with `-tune`.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) resume: bool,
    pub(crate) quick: bool,
    /// The seed; without it one is drawn.
    pub(crate) seed: Option<u64>,
    /// Settings of every configuration, as name and value.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) ablate: bool,
    pub(crate) details: bool,
    pub(crate) json: bool,
    /// The app that draws figures instead of starting servers, and the duration of its trials.
    pub(crate) fake: Option<FakeApp>,
    pub(crate) pace: Duration,
}

/// Prints what would be tried.
///
/// # Errors
/// Where the file is not that of a search.
pub(crate) fn print_plan(request: &SearchRequest) -> anyhow::Result<()> {
    output::print_text(&plan_text(&read_spec(request)?))?;
    Ok(())
}

fn read_spec(request: &SearchRequest) -> anyhow::Result<TuneSpec> {
    let mut spec =
        TuneSpec::read_with(&request.file, &request.settings).map_err(ExperimentError::File)?;
    if request.quick {
        spec.search_trials = spec.search_trials.min(QUICK);
    }
    Ok(spec)
}

/// Searches, confirms, and prints the outcome.
///
/// # Errors
/// Where the file is not that of a search, its folder cannot be written, or its trials cannot be run.
pub(crate) fn search(mut request: SearchRequest) -> anyhow::Result<Exit> {
    let mut spec = read_spec(&request)?;
    let folder = request.folder.clone().unwrap_or_else(|| format!("{}-tune", spec.name).into());
    let opening = SearchOpening {
        file: &request.file,
        seed: request.seed,
        resume: request.resume,
        quick: request.quick,
    };
    let begun = open_search(&folder, &spec, &opening)?;
    spec.search_trials = begun.search_trials;
    let seed = begun.seed;
    output::print_message(&format!("{}: seed {seed}, into {}", spec.name, folder.display()));
    let root = spec.root(roots(&output::variable).as_deref());
    let options = TuneOptions { seed, ablate: request.ablate, root };
    let mut host = FolderHost::new(&spec, &folder, request.fake.take(), request.pace)?;
    let found = tune(&spec, &options, &mut host);
    if host.interrupted {
        let again = continuing(&request, &folder);
        output::print_message(&format!("interrupted; continue with: {again}"));
        return Ok(Exit::Interrupted);
    }
    match found {
        Ok(outcome) => {
            let TuneSpec { name, command, env, settings, .. } = spec.clone();
            let report = SearchReport { name, command, env, settings, seed, outcome };
            conclude(&request, &folder, &report)
        }
        Err(TuneError::Trials(error)) => {
            let again = continuing(&request, &folder);
            Err(error.context(format!(
                "the search stopped; what it measured is kept, continue with: {again}"
            )))
        }
        Err(error) => {
            let exit = exit_of(&error);
            output::print_error(&anyhow::Error::new(error));
            Ok(exit)
        }
    }
}

/// The command that continues this search.
fn continuing(request: &SearchRequest, folder: &Path) -> String {
    let (file, folder) = (request.file.display().to_string(), folder.display().to_string());
    let mut words = ["carat", "tune", &file, "-o", &folder, "--resume"].map(String::from).to_vec();
    for (name, value) in &request.settings {
        words.extend(["--set".to_owned(), format!("{name}={value}")]);
    }
    shell_line(&words)
}

/// The exit code for a search that ended without an outcome.
fn exit_of(error: &TuneError) -> Exit {
    match error {
        TuneError::NothingToTry(_) | TuneError::Space(_) | TuneError::Unmeasured(_) => Exit::Usage,
        TuneError::Default { .. } => Exit::Invalid,
        TuneError::Guards(_) => Exit::Undecided,
        TuneError::Trials(_) => Exit::Failed,
    }
}

/// Writes and prints the outcome.
fn conclude(request: &SearchRequest, folder: &Path, report: &SearchReport) -> anyhow::Result<Exit> {
    let SearchReport { name, seed, outcome, .. } = report;
    let json = serde_json::json!({ "schema": "carat.tune/1", "name": name, "seed": seed, "outcome": outcome });
    let json = serde_json::to_string_pretty(&json)?;
    let path = folder.join("outcome.json");
    write_in_search(&path, &json)?;
    let page = folder.join(format!("{name}.html"));
    let options: PageOptions = output::page_options(false);
    output::write_page_beside(&page, &tune_html(report, &options))?;
    output::print_text(&if request.json { json } else { tune_text(report, request.details) })?;
    let (path, page) = (path.display(), page.display());
    if request.json || request.details {
        let lines = [format!("\nresults  {path}"), format!("page     {page}")];
        output::print_lines(lines.iter().map(String::as_str));
    } else {
        let again = continuing(request, folder);
        output::print_text(&format!("Details    {page} · {path} · {again} --details\n"))?;
    }
    Ok(if outcome.recommendation.is_some() { Exit::Fine } else { Exit::Undecided })
}

fn plan_text(spec: &TuneSpec) -> String {
    let guards: Vec<String> = spec
        .guards
        .iter()
        .map(|(metric, share)| format!("{} at most {} worse", metric.id, limit(*share)))
        .collect();
    let guards = if guards.is_empty() { "no guard".to_owned() } else { guards.join(", ") };
    let confirm = 2 * spec.confirm_blocks * spec.attempts;
    format!(
        "{}: least {}, {guards}\n{}\n{LOOK_TRIALS} trials of the default, at most {} of the search, at most {confirm} to confirm\n",
        spec.name,
        spec.least.id,
        shell_line(&spec.command),
        spec.search_trials
    )
}
