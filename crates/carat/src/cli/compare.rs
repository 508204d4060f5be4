//! `carat compare`: trials until there is a verdict.

use crate::cli::Exit;
use crate::run::experiment::{ExperimentRequest, FakeTrials};
use crate::run::trial::FakeVariant;
use crate::work::{ShownComparison, compare, print_planned};
use carat_model::Span;
use carat_report::Budget;
use carat_settings::SettingError;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Experiment file
    #[arg(default_value = "carat.toml")]
    experiment: PathBuf,
    /// Results file [default: the experiment's name with .carat, in this folder]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Continue an existing results file
    #[arg(long)]
    resume: bool,
    /// Begin anew: move an existing results file and its page aside, as NAME.old-1.carat
    #[arg(long, conflicts_with = "resume")]
    fresh: bool,
    /// Run at most this many blocks instead of the file's `trials.max`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    blocks: Option<u32>,
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
    details: bool,
    /// Exit with 99 if this budget is broken: METRIC<LIMIT, such as "memory.pss.final<+2%" or "latency.p95<250ms"
    #[arg(long, value_name = "BUDGET", value_parser = Budget::parse)]
    budget: Vec<Budget>,
    /// Draw figures instead of starting servers: MEAN:SD[:CRASHES] in bytes, one per variant
    #[arg(long, hide = true, value_delimiter = ',', value_parser = FakeVariant::parse)]
    fake: Vec<FakeVariant>,
    /// Duration of a fake trial in milliseconds
    #[arg(long, hide = true, default_value_t = 0)]
    fake_pace: u64,
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
            limit: self.limit.map(|limit| limit.0),
            fake: fake_trials(&self.fake, pace),
            ..ExperimentRequest::default()
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
    if args.dry_run {
        print_planned(args.request(), args.details)?;
        return Ok(Exit::Fine);
    }
    let shown = ShownComparison {
        json: args.json,
        details: args.details,
        budgets: args.budget.clone(),
        next: None,
    };
    compare(args.request(), &shown)
}
