//! `carat salvage`: copies the undamaged part of a results file, or exported results, into a new results file.

use crate::cli::compare::setting;
use crate::cli::{Exit, output};
use crate::input::{ExperimentSource, is_json, restore};
use crate::store::{Salvaged, salvage};
use crate::view::salvage_text;
use anyhow::ensure;
use clap::Args;
use std::path::PathBuf;

/// Name and version of the JSON that `--json` prints.
const SCHEMA: &str = "carat.salvage/1";

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  carat salvage arenas.carat -o salvaged.carat\n  \
    carat salvage arenas.json --experiment arenas.toml -o arenas.carat\n  \
    carat compare arenas.toml --resume -o salvaged.carat    runs the lost trials again")]
pub(crate) struct SalvageArgs {
    /// Damaged or older results file, or exported JSON; it is only read
    results: PathBuf,
    /// New results file
    #[arg(short, long)]
    output: PathBuf,
    /// Experiment file whose plan exported JSON must have; needed where the JSON hides parts of the plan
    #[arg(long, value_name = "FILE")]
    experiment: Option<PathBuf>,
    /// The setting that `carat compare --set` added to the plan, as NAME=VALUE
    #[arg(long, value_name = "SETTING", value_parser = setting, requires = "experiment")]
    set: Vec<(String, String)>,
    /// Print the number of copied trials and the losses as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &SalvageArgs) -> anyhow::Result<Exit> {
    let salvaged = if is_json(&args.results) {
        let source = args.experiment.clone();
        let source = source.map(|path| ExperimentSource { path, settings: args.set.clone() });
        restore(&args.results, source.as_ref(), &args.output)?
    } else {
        ensure!(
            args.experiment.is_none(),
            "--experiment is for exported JSON; {} is not JSON, so leave it out",
            args.results.display()
        );
        salvage(&args.results, &args.output)?
    };
    let text = if args.json { json(&salvaged)? } else { salvage_text(&salvaged, &args.output) };
    output::print_text(&text)?;
    Ok(Exit::Fine)
}

fn json(salvaged: &Salvaged) -> serde_json::Result<String> {
    let Salvaged { copied, lost, .. } = salvaged;
    let answer = serde_json::json!({ "schema": SCHEMA, "copied": copied, "lost": lost });
    Ok(serde_json::to_string_pretty(&answer)? + "\n")
}
