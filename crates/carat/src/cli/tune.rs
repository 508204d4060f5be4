//! `carat tune`: the best settings for one app, searched and then confirmed.

use crate::cli::compare::setting;
use crate::cli::{Exit, output};
use crate::config::TuneSpec;
use crate::run::experiment::ExperimentError;
use crate::run::trial::roots;
use crate::run::tune::{FakeApp, FakeEffect, LOOK_TRIALS, TuneError, TuneOptions, tune};
use crate::work::{FolderHost, SearchOpening, open_search, write_in_search};
use carat_report::{PageOptions, SearchReport, shell_line, tune_html, tune_text};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Trials of the search with `--quick`.
const QUICK: usize = 60;
/// Largest seed: the seeds of the blocks follow it, and TOML has no larger numbers.
const LARGEST_SEED: u64 = 1 << 53;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  carat tune workloads/blog/tune.toml --dry-run
  carat tune workloads/blog/tune.toml -o blog-tune
  carat tune workloads/blog/tune.toml -o blog-tune --resume --ablate")]
pub(crate) struct TuneArgs {
    /// File with a workload, [goal], [search], [[knob]] and [budget]
    file: PathBuf,
    /// Folder for the results of every block [default: the name of the file's search with -tune]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Continue a search in its folder
    #[arg(long)]
    resume: bool,
    /// Search with 60 trials instead of the file's budget
    #[arg(long)]
    quick: bool,
    /// Seed of the search [default: drawn at random and kept in the folder]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=LARGEST_SEED))]
    seed: Option<u64>,
    /// Also apply this setting to every configuration, as NAME=VALUE; a continued search needs it again
    #[arg(long, value_name = "SETTING", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Afterwards compare the recommended settings with themselves without each of them
    #[arg(long)]
    ablate: bool,
    /// Print what would be tried, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Print every table after the answer: configurations, what single settings seem to be worth, what was not tried
    #[arg(long, conflicts_with = "json")]
    details: bool,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
    /// Draw figures instead of starting servers: NAME=VALUE:MEMORY[:P95[:CRASHES]], changes as fractions
    #[arg(long, hide = true, value_delimiter = ',', value_parser = FakeEffect::parse)]
    fake: Vec<FakeEffect>,
    /// Standard deviation of the p95 of fake trials, as a fraction
    #[arg(long, hide = true, default_value_t = 0.03)]
    fake_p95_sd: f64,
    /// Duration of a fake trial in milliseconds
    #[arg(long, hide = true, default_value_t = 0)]
    fake_pace: u64,
}

pub(crate) fn run(args: &TuneArgs) -> anyhow::Result<Exit> {
    let mut spec = TuneSpec::read_with(&args.file, &args.set).map_err(ExperimentError::File)?;
    if args.quick {
        spec.search_trials = spec.search_trials.min(QUICK);
    }
    if args.dry_run {
        output::print_text(&plan_text(&spec))?;
        return Ok(Exit::Fine);
    }
    let folder = args.output.clone().unwrap_or_else(|| format!("{}-tune", spec.name).into());
    let opening =
        SearchOpening { file: &args.file, seed: args.seed, resume: args.resume, quick: args.quick };
    let begun = open_search(&folder, &spec, &opening)?;
    spec.search_trials = begun.search_trials;
    let seed = begun.seed;
    output::print_message(&format!("{}: seed {seed}, into {}", spec.name, folder.display()));
    let root = spec.root(roots(&output::variable).as_deref());
    let options = TuneOptions { seed, ablate: args.ablate, root };
    let fake = FakeApp { effects: args.fake.clone(), p95_sd: args.fake_p95_sd };
    let fake = (!args.fake.is_empty()).then_some(fake);
    let pace = Duration::from_millis(args.fake_pace);
    let mut host = FolderHost::new(&spec, &folder, fake, pace)?;
    let found = tune(&spec, &options, &mut host);
    if host.interrupted {
        let again = continuing(args, &folder);
        output::print_message(&format!("stopped by Ctrl-C; continue with: {again}"));
        return Ok(Exit::Interrupted);
    }
    match found {
        Ok(outcome) => {
            let (name, command) = (spec.name.clone(), spec.command.clone());
            conclude(args, &folder, &SearchReport { name, command, seed, outcome })
        }
        Err(TuneError::Trials(error)) => {
            let again = continuing(args, &folder);
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
fn continuing(args: &TuneArgs, folder: &Path) -> String {
    let (file, folder) = (args.file.display().to_string(), folder.display().to_string());
    let mut words = ["carat", "tune", &file, "-o", &folder, "--resume"].map(String::from).to_vec();
    for (name, value) in &args.set {
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
fn conclude(args: &TuneArgs, folder: &Path, report: &SearchReport) -> anyhow::Result<Exit> {
    let SearchReport { name, seed, outcome, .. } = report;
    let json = serde_json::json!({ "schema": "carat.tune/1", "name": name, "seed": seed, "outcome": outcome });
    let json = serde_json::to_string_pretty(&json)?;
    let path = folder.join("outcome.json");
    write_in_search(&path, &json)?;
    let page = folder.join(format!("{name}.html"));
    let options: PageOptions = output::page_options(false);
    output::write_page_beside(&page, &tune_html(report, &options))?;
    output::print_text(&if args.json { json } else { tune_text(report, args.details) })?;
    let (path, page) = (path.display(), page.display());
    if args.json || args.details {
        let lines = [format!("\nresults  {path}"), format!("page     {page}")];
        output::print_lines(lines.iter().map(String::as_str));
    } else {
        let again = continuing(args, folder);
        output::print_text(&format!("Details    {page} · {path} · {again} --details\n"))?;
    }
    Ok(if outcome.recommendation.is_some() { Exit::Fine } else { Exit::Undecided })
}

fn plan_text(spec: &TuneSpec) -> String {
    let guards: Vec<String> = spec
        .guards
        .iter()
        .map(|(metric, limit)| format!("{} at most {:.0} % worse", metric.id, 100.0 * limit))
        .collect();
    let guards = if guards.is_empty() { "no guard".to_owned() } else { guards.join(", ") };
    let confirm = 2 * spec.confirm_blocks * spec.attempts;
    format!(
        "{}: least {}, {guards}\n{}\n{LOOK_TRIALS} trials of the default, {} of the search, at most {confirm} to confirm\n",
        spec.name,
        spec.least.id,
        shell_line(&spec.command),
        spec.search_trials
    )
}
