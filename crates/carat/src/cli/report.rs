//! `carat report`: a page from a results file.

use crate::cli::{Exit, watch};
use crate::input::load_input;
use crate::view::output;
use crate::work::{
    ReportFormat, check_budgets, next_for_file, open_in_browser, rendered, watched_period,
    write_rendered,
};
use anyhow::{bail, ensure};
use carat_report::{Budget, OutputForm, watch_html, watched_text};
use carat_watch::store::is_watch_store;
use clap::Args;
use std::path::{Path, PathBuf};

/// Arguments of `carat report`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  carat report arenas.carat --open\n  \
    carat report monday.carat tuesday.carat -o week.html    side by side\n  \
    carat report arenas.carat --share --format md           for a pull request\n  \
    carat report arenas.carat --budget 'memory.pss.final<+2%'")]
pub(crate) struct ReportArgs {
    /// Results files that `carat compare` wrote or their JSON, several for a comparison, or one recording or store of carat watch
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// Where to write; a file that is not an earlier report in this format is left as it is [default: a page beside the file, with
    /// .html; any other format to standard output]
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
    #[command(flatten)]
    period: watch::PeriodArgs,
}

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let format = if args.json { ReportFormat::Json } else { args.format };
    if let [path] = args.results.as_slice()
        && is_watch_store(path)
    {
        let text = render_watch(path, args, format)?;
        let form = if format == ReportFormat::Json { OutputForm::Period } else { format.form() };
        write(args, form, &text)?;
        return Ok(Exit::Fine);
    }
    ensure!(
        !args.period.is_given(),
        "--from and --to choose a part of a store of carat watch, alone; leave them out"
    );
    let inputs = args.results.iter().map(|path| load_input(path)).collect::<Result<Vec<_>, _>>()?;
    let known = args.budget.is_empty() || inputs.iter().all(|input| input.results().is_some());
    ensure!(known, "a budget is of a results file; leave out --budget");
    let text = rendered(&inputs, format, args.share)?;
    write(args, format.form(), &text)?;
    let mut exit = Exit::Fine;
    // Without a budget nobody asks for the experiment file, which is searched for.
    for (path, input) in args.results.iter().zip(&inputs).filter(|_| !args.budget.is_empty()) {
        if let Some(results) = input.results() {
            let next = next_for_file(path, results, true);
            exit = exit.worse(check_budgets(results, &args.budget, &next));
        }
    }
    Ok(exit)
}

/// A period of a store of `carat watch`.
fn render_watch(path: &Path, args: &ReportArgs, format: ReportFormat) -> anyhow::Result<String> {
    ensure!(args.budget.is_empty(), "a budget is of a results file; leave out --budget");
    let period = watched_period(path, args.period.from, args.period.to)?;
    Ok(match format {
        ReportFormat::Html => watch_html(&period, &output::page_options(args.share)),
        ReportFormat::Text => watched_text(&period),
        ReportFormat::Json if !args.share => serde_json::to_string_pretty(&period)? + "\n",
        _ => bail!(
            "a store of carat watch is written as html, text or json, and json not with --share"
        ),
    })
}

fn write(args: &ReportArgs, form: OutputForm, text: &str) -> anyhow::Result<()> {
    let path = write_rendered(text, form, &args.results, args.output.as_deref())?;
    match path.filter(|_| args.open) {
        Some(path) => open_in_browser(&path),
        None => Ok(()),
    }
}
