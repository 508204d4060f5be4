//! `carat explain`: where every megabyte of a running server is, and what might make it smaller.

use crate::cli::{Exit, output};
use crate::core::Ledger;
use crate::observe::{Finding, findings};
use crate::process::ProcRoot;
use crate::report::{
    file_ledger, ledger_html, ledger_text, load, process_ledger, suggested_experiment,
};
use anyhow::Context;
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Name and version of the JSON that `--json` prints.
const SCHEMA: &str = "carat.explain/1";

/// Arguments of `carat explain`
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:\n  carat explain 4312              the tree of process 4312\n  \
    carat explain app.recording.jsonl the end of a recording\n  \
    carat explain 4312 -o ledger.html\n  \
    carat explain 4312 --suggest try.toml && carat compare try.toml")]
pub(crate) struct ExplainArgs {
    /// Process id of the server, a recording (`carat record`), or a results file (`carat compare`) or its JSON
    target: String,
    /// Variant of a results file [default: its baseline]
    #[arg(long)]
    variant: Option<String>,
    /// Leave out the children of the process
    #[arg(long)]
    alone: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write the ledger as one HTML page
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// With --output: leave out folders, and environment beyond an allow-list
    #[arg(long, requires = "output")]
    share: bool,
    /// Write an experiment that tests the findings, for `carat compare`
    #[arg(long, value_name = "FILE")]
    suggest: Option<PathBuf>,
}

#[derive(Serialize)]
struct Explanation<'a> {
    schema: &'static str,
    ledger: &'a Ledger,
    findings: &'a [Finding],
}

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let ledger = match args.target.parse() {
        Ok(pid) => process_ledger(&ProcRoot::default(), pid, args.alone)?,
        Err(_) => of_file(Path::new(&args.target), args.variant.as_deref())?,
    };
    let findings = findings(&ledger);
    if args.json {
        let explanation = Explanation { schema: SCHEMA, ledger: &ledger, findings: &findings };
        output::print_data(&(serde_json::to_string_pretty(&explanation)? + "\n"))?;
    } else {
        output::print_data(&ledger_text(&ledger, &findings))?;
    }
    if let Some(path) = &args.output {
        let title = title(&args.target, &ledger);
        let page = ledger_html(title, &ledger, &output::page_options(args.share));
        output::write_page(path, &page)?;
        output::print_message(&format!("\npage  {}", path.display()));
    }
    if let Some(path) = &args.suggest {
        suggest(path, &ledger, &findings)?;
    }
    Ok(Exit::Fine)
}

/// The title of the first process that has one, otherwise the argument of the command.
fn title<'a>(target: &'a str, ledger: &'a Ledger) -> &'a str {
    let mut titles = ledger.processes.iter().map(|process| process.title.as_str());
    titles.find(|title| !title.is_empty()).unwrap_or(target)
}

fn suggest(path: &Path, ledger: &Ledger, findings: &[Finding]) -> anyhow::Result<()> {
    let text = suggested_experiment(ledger, findings)?;
    fs::File::create_new(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}; give the name of a new file", path.display()))?;
    let shown = path.display();
    output::print_message(&format!(
        "\nwrote {shown}; check its command, then `carat compare {shown}`"
    ));
    Ok(())
}

fn of_file(path: &Path, variant: Option<&str>) -> anyhow::Result<Ledger> {
    let file = load(path).context("give a process id, a recording, a results file or its JSON")?;
    let (ledger, note) = file_ledger(file, path, variant)?;
    note.iter().for_each(|note| output::print_message(note));
    Ok(ledger)
}
