//! `carat report`: a page from a results file.

use crate::cli::{Exit, output};
use crate::core::Results;
use crate::core::recording::Recording;
use crate::report::{
    Audience, Budget, CaratFile, Kept, LoadError, PageOptions, budget, comparison_html, csv, day,
    html, json, load, markdown, openmetrics, recording_html, with_conclusions,
};
use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

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
    #[arg(long, value_enum, default_value_t = Format::Html)]
    format: Format,
    /// Print the results as JSON: the same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Leave out host, user, folders, log lines and environment beyond an allow-list
    #[arg(long)]
    share: bool,
    /// End with 99 where the results break this budget, with 3 where they do not prove that it is kept
    #[arg(long, value_name = "METRIC<LIMIT", value_parser = Budget::parse)]
    budget: Vec<Budget>,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
}

/// The faces of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One self-contained page
    Html,
    /// A comment for a pull request
    Md,
    /// Everything, with the version of its schema
    Json,
    /// A row per trial
    Csv,
    /// Medians and differences for Prometheus
    Openmetrics,
}

/// What a file holds.
enum ReportInput {
    Results(Box<Results>),
    Recording(Box<Recording>),
}

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let given = args.results.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let format = if args.json { Format::Json } else { args.format };
    let text = face(&given, format, args.share)?;
    let path = match (&args.output, format) {
        (Some(path), _) => Some(path.clone()),
        (None, Format::Html) => Some(args.results[0].with_extension("html")),
        (None, _) => None,
    };
    match &path {
        Some(path) => {
            write_page(path, &text)?;
            output::say(&format!("{}\n", path.display()))?;
        }
        None => output::say(&text)?,
    }
    if let Some(path) = path.filter(|_| args.open) {
        open(&path)?;
    }
    let results = given.iter().filter_map(|one| match one {
        ReportInput::Results(results) => Some(results.as_ref()),
        ReportInput::Recording(_) => None,
    });
    Ok(results.map(|one| hold(one, &args.budget)).fold(Exit::Fine, worse))
}

fn read(path: &Path) -> Result<ReportInput, LoadError> {
    Ok(match load(path)? {
        CaratFile::Stored(results) => ReportInput::Results(Box::new(with_conclusions(*results))),
        CaratFile::Exported(results) => ReportInput::Results(results),
        CaratFile::Recording(recording) => ReportInput::Recording(recording),
    })
}

/// A page of today, for oneself or for others.
pub(crate) fn page_options(share: bool) -> PageOptions {
    let audience = if share { Audience::Shared } else { Audience::Own };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    PageOptions { audience, generated_at: Some(day(now.as_millis() as u64)) }
}

fn face(given: &[ReportInput], format: Format, share: bool) -> anyhow::Result<String> {
    let options = page_options(share);
    let audience = options.audience;
    match given {
        [ReportInput::Recording(recording)] if format == Format::Html => {
            Ok(recording_html(recording, &options))
        }
        [ReportInput::Recording(_)] => bail!("a recording has a page only; leave out --format"),
        [ReportInput::Results(results)] => Ok(match format {
            Format::Html => html(results, &options),
            Format::Md => markdown(results, audience),
            Format::Json => json(results, audience)?,
            Format::Csv => csv(results, audience),
            Format::Openmetrics => openmetrics(results, audience),
        }),
        several => {
            ensure!(
                format == Format::Html,
                "several files have a page only; give one file to --format"
            );
            let results = several.iter().map(|one| match one {
                ReportInput::Results(results) => Ok(results.as_ref().clone()),
                ReportInput::Recording(_) => {
                    bail!("a recording cannot stand beside other files; give it alone")
                }
            });
            Ok(comparison_html(&results.collect::<anyhow::Result<Vec<_>>>()?, &options))
        }
    }
}

/// Says of every budget whether the results keep it.
pub(crate) fn hold(results: &Results, budgets: &[Budget]) -> Exit {
    let outcomes = budget(results, budgets);
    outcomes.iter().fold(Exit::Fine, |exit, outcome| {
        output::tell(&outcome.to_string());
        let this = match outcome.kept {
            Kept::Yes => Exit::Fine,
            Kept::Unproven => Exit::Undecided,
            Kept::Broken => Exit::Broken,
        };
        worse(exit, this)
    })
}

/// A broken budget outweighs an unproven one, and that a kept one.
fn worse(one: Exit, other: Exit) -> Exit {
    if one.code() >= other.code() { one } else { other }
}

/// Writes a page whole or not at all.
pub(crate) fn write_page(path: &Path, page: &str) -> anyhow::Result<()> {
    let context = || {
        let path = path.display();
        format!("cannot write the page {path}; check the free space, or use -o to write elsewhere")
    };
    write_whole(path, page.as_bytes()).with_context(context)
}

/// Writes beside `path` and renames; what a killed carat left there is written over.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let _ = std::fs::remove_file(&beside);
    let written = File::create_new(&beside)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

fn open(path: &Path) -> anyhow::Result<()> {
    Command::new("xdg-open")
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot find a browser: xdg-open is not installed; open the page by hand")?;
    Ok(())
}
