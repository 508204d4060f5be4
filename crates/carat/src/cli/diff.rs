//! `carat diff`: what changed between two readings of running Rubies.

use crate::cli::Exit;
use crate::work::diff;
use std::path::PathBuf;

/// Arguments of `carat diff`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  carat explain 4312 --json > before.json\n  \
    carat explain 4312 --json > after.json\n  carat diff before.json after.json\n\n\
    With `carat explain 4312 --who --json` for both: also what keeps more objects alive than before, by name")]
pub(crate) struct DiffArgs {
    /// What `carat explain PID --json` printed first
    before: PathBuf,
    /// What it printed later, or for another process
    after: PathBuf,
    /// Classes in the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    classes: usize,
}

pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<Exit> {
    diff(&args.before, &args.after, args.classes)
}
