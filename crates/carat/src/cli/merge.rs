//! `carat merge`: results files of one plan as one file.

use crate::cli::{Exit, output};
use crate::store::MergedParts;
use crate::view::merge_text;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  carat merge fleet/parts/*.carat -o arenas.carat\n  \
    carat report arenas.carat --open")]
pub(crate) struct MergeArgs {
    /// Results files of one plan and seed, such as the parts of a fleet; they are only read
    #[arg(required = true, value_name = "PART")]
    parts: Vec<PathBuf>,
    /// New results file
    #[arg(short, long)]
    output: PathBuf,
}

pub(crate) fn run(args: &MergeArgs) -> anyhow::Result<Exit> {
    let merged = MergedParts::read(&args.parts)?;
    merged.write_new(&args.output)?;
    output::print_text(&merge_text(&merged, &args.output))?;
    Ok(Exit::Fine)
}
