//! `carat plan`: a forecast of what an experiment can detect, from a few blocks.

use crate::cli::{Exit, compare, output};
use crate::input::load_results;
use crate::run::experiment::ExperimentRequest;
use crate::run::trial::FakeVariant;
use crate::work::{prepare_experiment, run_trials};
use anyhow::Context;
use carat_analysis::forecast;
use carat_analysis::question;
use carat_report::forecast_text;
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
    let is_experiment = args.file.extension().is_some_and(|extension| extension == "toml");
    let (path, results) = if is_experiment {
        let fake = compare::fake_trials(&args.fake, Duration::ZERO);
        let (file, output) = (args.file.clone(), args.output.clone());
        let pilot = ExperimentRequest::pilot(file, output, args.pilot, fake);
        let (store, ended) = run_trials(prepare_experiment(pilot)?, None)?;
        ended?;
        (store.path().to_owned(), store.results()?)
    } else {
        (args.file.clone(), load_results(&args.file)?)
    };
    let outlook = forecast(&question(&results.info), &results.trials).with_context(|| {
        format!("{} has too few blocks that count for a forecast; five are needed", path.display())
    })?;
    output::print_text(&forecast_text(&outlook))?;
    Ok(Exit::Fine)
}
