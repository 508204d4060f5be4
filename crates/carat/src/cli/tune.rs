//! `carat tune`: the best settings for one app, searched and then confirmed.

use crate::cli::Exit;
use crate::cli::compare::setting;
use crate::run::tune::{FakeApp, FakeEffect};
use crate::work::{SearchRequest, print_plan, search};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

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
    let fake = FakeApp { effects: args.fake.clone(), p95_sd: args.fake_p95_sd };
    let request = SearchRequest {
        file: args.file.clone(),
        folder: args.output.clone(),
        resume: args.resume,
        quick: args.quick,
        seed: args.seed,
        settings: args.set.clone(),
        ablate: args.ablate,
        details: args.details,
        json: args.json,
        fake: (!args.fake.is_empty()).then_some(fake),
        pace: Duration::from_millis(args.fake_pace),
    };
    if args.dry_run {
        print_plan(&request)?;
        return Ok(Exit::Fine);
    }
    search(request)
}
