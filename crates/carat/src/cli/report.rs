//! `carat report`: a page from a results file.

use crate::cli::Exit;
use crate::input::{ReportInput, load_input};
use crate::work::{ReportFormat, check_budgets, open_in_browser, rendered, write_rendered};
use carat_report::Budget;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `carat report`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  carat report arenas.carat --open\n  \
    carat report monday.carat tuesday.carat -o week.html    side by side\n  \
    carat report arenas.carat --share --format md           for a pull request\n  \
    carat report arenas.carat --budget 'memory.pss.final<+2%'")]
pub(crate) struct ReportArgs {
    /// Results files that `carat compare` wrote or their JSON, several for a comparison, or one recording
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// Where to write [default: a page beside the file, with .html; any other format to standard output]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// What to write
    #[arg(long, value_enum, default_value_t = ReportFormat::Html)]
    format: ReportFormat,
    /// Print the results as JSON: the same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Leave out host, user, folders, log lines and environment beyond an allow-list
    #[arg(long)]
    share: bool,
    /// Exit with 99 if the results break this budget, with 3 if they do not prove that it is kept
    #[arg(long, value_name = "METRIC<LIMIT", value_parser = Budget::parse)]
    budget: Vec<Budget>,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
}

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let inputs = args.results.iter().map(|path| load_input(path)).collect::<Result<Vec<_>, _>>()?;
    let format = if args.json { ReportFormat::Json } else { args.format };
    let text = rendered(&inputs, format, args.share)?;
    let path = write_rendered(&text, format, &args.results[0], args.output.as_deref())?;
    if let Some(path) = path.filter(|_| args.open) {
        open_in_browser(&path)?;
    }
    let results = inputs.iter().filter_map(ReportInput::results);
    Ok(results.map(|one| check_budgets(one, &args.budget)).fold(Exit::Fine, Exit::worse))
}
