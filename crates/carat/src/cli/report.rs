//! `carat report`: a page, or another face, from results files or a recording.

use crate::cli::{Exit, output, results};
use crate::model::Results;
use crate::model::recording::Recording;
use crate::report::{
    Audience, PageOptions, comparison_html, csv, html, json, markdown, openmetrics, recording_html,
};
use crate::store::Store;
use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Arguments of `carat report`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  carat report app.carat --open          the page, in the browser\n  \
    carat report monday.carat friday.carat   both on one page\n  \
    carat report app.carat --format md       a comment for a pull request\n  \
    carat report app.recording.json          the page of a recording"
)]
pub(crate) struct ReportArgs {
    /// Results files that `carat compare` wrote, or one recording of `carat record`
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// Where to write the page [default: the results file's name with .html]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// What to make; all but html go to standard output
    #[arg(long, value_enum, default_value_t = Format::Html)]
    format: Format,
    /// Print the results as JSON, as --format json does
    #[arg(long)]
    json: bool,
    /// For other people: leave out host, user, paths, log lines and environment
    #[arg(long)]
    share: bool,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
}

/// What `carat report` can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One self-contained page
    Html,
    /// Markdown for a pull request
    Md,
    /// Everything, with a versioned schema
    Json,
    /// One row per trial
    Csv,
    /// OpenMetrics text
    Openmetrics,
}

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let audience = if args.share { Audience::Shared } else { Audience::Own };
    let format = if args.json { Format::Json } else { args.format };
    let first = &args.results[0];
    if is_json(first) {
        ensure!(args.results.len() == 1, "a recording has a page of its own; give one at a time");
        ensure!(format == Format::Html, "a recording has no {format:?} face; it is JSON already");
        return page(args, &recording_html(&read_recording(first)?, &options(audience)));
    }
    let all = read_all(&args.results)?;
    match all.as_slice() {
        [one] if format != Format::Html => {
            output::say(&face(one, format, audience)?)?;
            Ok(Exit::Fine)
        }
        [one] => page(args, &html(one, &options(audience))),
        _ if format == Format::Html => page(args, &comparison_html(&all, &options(audience))),
        _ => bail!("several results files make a page only; give one file with --format"),
    }
}

fn options(audience: Audience) -> PageOptions {
    PageOptions { audience, ..PageOptions::default() }
}

fn read_all(paths: &[PathBuf]) -> anyhow::Result<Vec<Results>> {
    let one = |path: &PathBuf| Ok(results::concluded(&Store::open(path)?)?.0);
    paths.iter().map(one).collect()
}

fn face(results: &Results, format: Format, audience: Audience) -> anyhow::Result<String> {
    Ok(match format {
        Format::Html => html(results, &options(audience)),
        Format::Md => markdown(results, audience),
        Format::Json => json(results, audience)?,
        Format::Csv => csv(results, audience),
        Format::Openmetrics => openmetrics(results, audience),
    })
}

/// Whether the file is JSON rather than SQLite; a missing file is for the store to refuse.
fn is_json(path: &Path) -> bool {
    let mut first = [0];
    File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == *b"{"
}

fn read_recording(path: &Path) -> anyhow::Result<Recording> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the recording {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is not a recording of carat record", path.display()))
}

fn page(args: &ReportArgs, page: &str) -> anyhow::Result<Exit> {
    let path = args.output.clone().unwrap_or_else(|| args.results[0].with_extension("html"));
    write_page(&path, page)?;
    output::say(&format!("{}\n", path.display()))?;
    if args.open {
        open(&path)?;
    }
    Ok(Exit::Fine)
}

/// Writes a page whole or not at all.
pub(crate) fn write_page(path: &Path, page: &str) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let context = || format!("cannot write the page {}; use -o to write elsewhere", path.display());
    let mut file =
        tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).with_context(context)?;
    file.write_all(page.as_bytes()).with_context(context)?;
    // A temporary file is private; a page is for sharing, as the results file beside it is.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(mode).with_context(context)?;
    file.persist(path).with_context(context)?;
    Ok(())
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
