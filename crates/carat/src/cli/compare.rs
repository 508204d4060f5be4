//! `carat compare`: trials until there is a verdict.

use crate::cli::{Exit, output, report};
use crate::run::experiment::{ExperimentRequest, FakeTrials, PreparedExperiment, RunError};
use crate::run::trial::FakeVariant;
use crate::store::Store;
use crate::view::dry_run_text;
use crate::work::{ShownResults, prepare, run_trials, show_results};
use carat_model::Span;
use carat_report::{Budget, NextCommands, count, shell_line};
use carat_settings::SettingError;
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Default, Args)]
pub(crate) struct CompareArgs {
    /// Experiment file
    pub(crate) experiment: PathBuf,
    /// Results file [default: the experiment's name with .carat, in this folder]
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,
    /// Continue an existing results file
    #[arg(long)]
    pub(crate) resume: bool,
    /// Begin anew: move an existing results file and its page aside, as NAME.old-1.carat
    #[arg(long, conflicts_with = "resume")]
    pub(crate) fresh: bool,
    /// Run at most this many blocks instead of the file's `trials.max`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) blocks: Option<u32>,
    /// Seed of the order of trials [default: the file's, or one drawn at random and printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Begin no block that would probably end later than this; the exit code is then 3
    #[arg(long = "for", value_name = "TIME", value_parser = Span::parse)]
    limit: Option<Span>,
    /// Also apply this setting to every variant, as NAME=VALUE; it is part of the plan
    #[arg(long, value_name = "SETTING", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Print what would run, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Print every table after the verdict: guards, parts of memory, memory over time, the conditions
    #[arg(long, conflicts_with = "json")]
    pub(crate) details: bool,
    /// Exit with 99 if this budget is broken: METRIC<LIMIT, such as "memory.pss.final<+2%" or "latency.p95<250ms"
    #[arg(long, value_name = "BUDGET", value_parser = Budget::parse)]
    budget: Vec<Budget>,
    /// Draw figures instead of starting servers: MEAN:SD[:CRASHES] in bytes, one per variant
    #[arg(long, hide = true, value_delimiter = ',', value_parser = FakeVariant::parse)]
    pub(crate) fake: Vec<FakeVariant>,
    /// Duration of a fake trial in milliseconds
    #[arg(long, hide = true, default_value_t = 0)]
    pub(crate) fake_pace: u64,
    /// The commands that continue an interrupted run and that begin another, if not this command with options
    #[arg(skip)]
    pub(crate) next: Option<NextCommands>,
}

impl CompareArgs {
    fn request(&self) -> ExperimentRequest {
        let pace = Duration::from_millis(self.fake_pace);
        ExperimentRequest {
            experiment: self.experiment.clone(),
            output: self.output.clone(),
            resume: self.resume,
            fresh: self.fresh,
            blocks: self.blocks,
            seed: self.seed,
            settings: self.set.clone(),
            folder: None,
            once: false,
            limit: self.limit.map(|limit| limit.0),
            interrupt: None,
            fake: fake_trials(&self.fake, pace),
        }
    }
}

/// A setting as name and value.
pub(crate) fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| SettingError::NotAPair(text.to_owned()).to_string())?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

/// The value of the hidden option `--fake`.
pub(crate) fn fake_trials(variants: &[FakeVariant], pace: Duration) -> Option<FakeTrials> {
    (!variants.is_empty()).then(|| FakeTrials { variants: variants.to_vec(), pace })
}

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Exit> {
    let prepared = prepare(args.request())?;
    if args.dry_run {
        let earlier = prepared.earlier_seconds();
        let PreparedExperiment { experiment, prepared, libraries, info, .. } = &prepared;
        output::print_text(&dry_run_text(experiment, info, prepared, libraries, &earlier))?;
        return Ok(Exit::Fine);
    }
    if let Some(replayed) = prepared.replayed() {
        output::print_message(&format!("note: replay of {replayed}"));
    }
    let (store, ended) = run_trials(prepared, None)?;
    conclude(args, &store, ended)
}

/// The commands that continue this experiment and that begin it anew.
fn next_commands(args: &CompareArgs, results: &Path) -> NextCommands {
    if let Some(next) = &args.next {
        return next.clone();
    }
    let [file, results] = [&args.experiment, results].map(|path| path.display().to_string());
    let mut words = ["carat", "compare", &file, "-o", &results].map(String::from).to_vec();
    for (name, value) in &args.set {
        words.extend(["--set".to_owned(), format!("{name}={value}")]);
    }
    let [resume, anew] = ["--resume", "--fresh"]
        .map(|option| Some(shell_line(&[words.clone(), vec![option.to_owned()]].concat())));
    NextCommands { resume, anew, details: Vec::new() }
}

/// Prints the results, also of a run that ended early.
fn conclude(
    args: &CompareArgs,
    store: &Store,
    ended: Result<(), RunError>,
) -> anyhow::Result<Exit> {
    let next = next_commands(args, store.path());
    let resume = next.resume.clone().unwrap_or_default();
    if matches!(ended, Err(RunError::Interrupted)) && store.trials()?.is_empty() {
        output::print_message(&format!(
            "stopped by Ctrl-C before a trial ended; continue with {resume}"
        ));
        return Ok(Exit::Interrupted);
    }
    let shown = ShownResults { json: args.json, details: args.details, next };
    let results = show_results(store, shown)?;
    let trials = count(results.trials.len(), "finished trial");
    let kept = format!("{trials} kept; continue with {resume}");
    match ended {
        Ok(()) if args.budget.is_empty() => Ok(Exit::of_verdicts(&results)),
        Ok(()) => Ok(report::check_budgets(&results, &args.budget)),
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
