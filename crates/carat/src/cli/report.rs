//! `carat report`: a page from a results file.

use crate::cli::{Exit, output, results};
use crate::report::{PageOptions, html};
use crate::store::Store;
use anyhow::Context;
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Arguments of `carat report`
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Results file that `carat compare` wrote
    results: PathBuf,
    /// Where to write the page [default: the results file's name with .html]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Print the results as JSON instead of writing a page
    #[arg(long)]
    json: bool,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
}

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let store = Store::open(&args.results)?;
    let (results, _) = results::concluded(&store)?;
    if args.json {
        output::say(&results::json(&results)?)?;
        return Ok(Exit::Fine);
    }
    let path = args.output.clone().unwrap_or_else(|| args.results.with_extension("html"));
    write_page(&path, &html(&results, &PageOptions::default()))?;
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
