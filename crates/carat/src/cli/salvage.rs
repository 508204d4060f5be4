//! `carat salvage`: copies the undamaged part of a results file into a new results file.

use crate::cli::{Exit, output};
use crate::store::{Salvaged, Store, salvage};
use crate::view::salvage_text;
use crate::work::resume_of_file;
use clap::Args;
use std::path::PathBuf;

/// Name and version of the JSON that `--json` prints.
const SCHEMA: &str = "carat.salvage/1";

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  carat salvage arenas.carat -o salvaged.carat\n  \
    carat compare arenas.toml --resume -o salvaged.carat    runs the lost trials again")]
pub(crate) struct SalvageArgs {
    /// Damaged or older results file; it is only read
    results: PathBuf,
    /// New results file
    #[arg(short, long)]
    output: PathBuf,
    /// Print the number of copied trials and the losses as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &SalvageArgs) -> anyhow::Result<Exit> {
    let salvaged = salvage(&args.results, &args.output)?;
    let text = match args.json {
        true => json(&salvaged)?,
        false => {
            let info = Store::open(&args.output)?.info()?;
            salvage_text(&salvaged, &args.output, &resume_of_file(&args.output, &info))
        }
    };
    output::print_text(&text)?;
    Ok(Exit::Fine)
}

fn json(salvaged: &Salvaged) -> serde_json::Result<String> {
    let Salvaged { copied, lost, .. } = salvaged;
    let answer = serde_json::json!({ "schema": SCHEMA, "copied": copied, "lost": lost });
    Ok(serde_json::to_string_pretty(&answer)? + "\n")
}
