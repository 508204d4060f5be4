//! `carat plan`: a forecast of what an experiment can detect, from a few blocks.

use crate::cli::{Exit, compare};
use crate::input::load_results;
use crate::run::trial::FakeVariant;
use crate::work::{Pilot, print_forecast};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  carat plan rails-hello/carat.toml
  carat plan rails-hello.carat")]
pub(crate) struct PlanArgs {
    /// Experiment file to run a pilot of, or a results file or its JSON
    file: PathBuf,
    /// Blocks of the pilot; an existing pilot is continued
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(5..=100))]
    pilot: u32,
    /// Results file of the pilot [default: the name of the experiment's folder with -pilot.carat]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Draw figures instead of starting servers: MEAN:SD[:CRASHES] in bytes, one per variant
    #[arg(long, hide = true, value_delimiter = ',', value_parser = FakeVariant::parse)]
    fake: Vec<FakeVariant>,
}

pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<Exit> {
    if args.file.extension().is_none_or(|extension| extension != "toml") {
        return print_forecast(&args.file, &load_results(&args.file)?, None);
    }
    let fake = compare::fake_trials(&args.fake, Duration::ZERO);
    let (file, output) = (args.file.clone(), args.output.clone());
    Pilot { file, output, blocks: args.pilot, fake }.run()
}
