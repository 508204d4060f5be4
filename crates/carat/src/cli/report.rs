//! `carat report`: a page from a results file.

use crate::cli::{Exit, output};
use crate::input::{ReportInput, load_input};
use anyhow::{Context, bail, ensure};
use carat_model::Results;
use carat_report::{
    Budget, Kept, NextCommands, Style, budget, comparison_html, csv, figures, html, json, markdown,
    openmetrics, recording_html, verdict_text,
};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// One self-contained page
    Html,
    /// What `carat compare` prints at its end, without colours
    Text,
    /// A comment for a pull request
    Md,
    /// Everything, with the version of its schema
    Json,
    /// Every figure as text, by variant and metric, as JSON; for documents that quote figures
    Figures,
    /// A row per trial
    Csv,
    /// Medians and differences for Prometheus
    Openmetrics,
}

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let inputs = args.results.iter().map(|path| load_input(path)).collect::<Result<Vec<_>, _>>()?;
    let format = if args.json { ReportFormat::Json } else { args.format };
    let text = render(&inputs, format, args.share)?;
    let path = match (&args.output, format) {
        (Some(path), _) => {
            output::write_page(path, &text)?;
            Some(path.clone())
        }
        (None, ReportFormat::Html) => {
            let path = args.results[0].with_extension("html");
            output::write_page_beside(&path, &text)?;
            Some(path)
        }
        (None, ReportFormat::Md | ReportFormat::Text) => {
            output::print_report(&text)?;
            None
        }
        (None, _) => {
            output::print_data(&text)?;
            None
        }
    };
    // Of a pipe or a device the page is all that its reader wants, and it may be standard output.
    if let Some(path) = path.as_ref().filter(|path| is_own_file(path)) {
        output::print_text(&format!("{}\n", path.display()))?;
    }
    if let Some(path) = path.filter(|_| args.open) {
        open(&path)?;
    }
    let results = inputs.iter().filter_map(ReportInput::results);
    Ok(results.map(|one| check_budgets(one, &args.budget)).fold(Exit::Fine, worse))
}

fn is_own_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
}

fn render(inputs: &[ReportInput], format: ReportFormat, share: bool) -> anyhow::Result<String> {
    let options = output::page_options(share);
    let audience = options.audience;
    match inputs {
        [ReportInput::Recording(recording)] if format == ReportFormat::Html => {
            Ok(recording_html(recording, &options))
        }
        [ReportInput::Recording(_)] => {
            bail!("a recording can only be written as a page; leave out --format")
        }
        [ReportInput::Results(results)] => Ok(match format {
            ReportFormat::Html => html(results, &options),
            ReportFormat::Text => {
                let style = Style { audience, ..Style::default() };
                verdict_text(results, style, &NextCommands::default())
            }
            ReportFormat::Figures => figures(results, audience)?,
            ReportFormat::Md => markdown(results, audience),
            ReportFormat::Json => json(results, audience)?,
            ReportFormat::Csv => csv(results, audience),
            ReportFormat::Openmetrics => openmetrics(results, audience),
        }),
        several => {
            ensure!(
                format == ReportFormat::Html,
                "several files can only be written as a page; give one file with --format"
            );
            let results: Option<Vec<Results>> =
                several.iter().map(|input| input.results().cloned()).collect();
            let results = results.context("a recording cannot be compared; give it alone")?;
            Ok(comparison_html(&results, &options))
        }
    }
}

/// Prints for every budget whether the results keep it.
pub(crate) fn check_budgets(results: &Results, budgets: &[Budget]) -> Exit {
    let outcomes = budget(results, budgets);
    outcomes.iter().fold(Exit::Fine, |exit, outcome| {
        output::print_message(&outcome.to_string());
        let this = match outcome.kept {
            Kept::Yes => Exit::Fine,
            Kept::Unproven => Exit::Undecided,
            Kept::Broken => Exit::Broken,
        };
        worse(exit, this)
    })
}

/// A broken budget outweighs one not proven, and that one a kept budget.
fn worse(one: Exit, other: Exit) -> Exit {
    if one.code() >= other.code() { one } else { other }
}

fn open(path: &Path) -> anyhow::Result<()> {
    Command::new("xdg-open")
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot open a browser: xdg-open is not installed; open the page yourself")?;
    Ok(())
}
