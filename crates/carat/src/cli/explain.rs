//! `carat explain`: where every megabyte of a running server is, and what might make it smaller.

use crate::cli::{Exit, output};
use crate::core::{Ledger, Outcome, Recording, Results};
use crate::observe::{Finding, findings, ledger, read_probe_figures};
use crate::process::{ProcError, ProcRoot, Tree};
use crate::report::{CaratFile, ledger_html, ledger_text, load, suggested_experiment};
use anyhow::{Context, bail};
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
        Ok(pid) => of_process(&ProcRoot::default(), pid, args.alone)?,
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

fn of_process(root: &ProcRoot, pid: u32, alone: bool) -> anyhow::Result<Ledger> {
    let leader = root.identify(pid).map_err(|error| match error {
        ProcError::Ended(pid) => anyhow::anyhow!("there is no process {pid}; see `pgrep -af puma`"),
        error => error.into(),
    })?;
    let members = if alone {
        vec![leader]
    } else {
        let mut tree = Tree::new(root.clone(), leader, "");
        tree.members().iter().map(|stat| stat.identity()).collect()
    };
    let ledger = ledger(root, &members, &read_probe_figures(root, &members));
    match ledger.unread.first() {
        Some(reason) if ledger.processes.is_empty() => bail!("{reason}"),
        _ if ledger.processes.is_empty() => bail!("process {pid} ended while it was read"),
        _ => Ok(ledger),
    }
}

fn of_file(path: &Path, variant: Option<&str>) -> anyhow::Result<Ledger> {
    let file = load(path);
    match file.context("give a process id, a recording, a results file or its JSON")? {
        CaratFile::Stored(results) | CaratFile::Exported(results) => {
            of_results(&results, path, variant)
        }
        CaratFile::Recording(recording) => of_recording(*recording, path),
    }
}

/// The ledger at the end of the variant's last successful trial.
fn of_results(results: &Results, path: &Path, variant: Option<&str>) -> anyhow::Result<Ledger> {
    let names: Vec<&str> = results.info.variants.iter().map(|one| one.name.as_str()).collect();
    let wanted = match variant {
        Some(name) if !names.contains(&name) => {
            bail!("there is no variant `{name}` in {}; it has {}", path.display(), names.join(", "))
        }
        Some(name) => name,
        None => names.first().copied().unwrap_or_default(),
    };
    let trials = results.trials.iter().rev();
    let successful = trials.filter(|trial| trial.variant == wanted && trial.outcome == Outcome::Ok);
    let mut samples = successful.flat_map(|trial| trial.samples.iter().rev());
    let ledger = samples.find_map(|sample| sample.ledger.clone());
    let ledger =
        ledger.with_context(|| format!("variant `{wanted}` has no trial with a ledger yet"))?;
    output::print_message(&format!(
        "variant `{wanted}` of {}, at the end of its last trial",
        names.join(", ")
    ));
    Ok(*ledger)
}

fn of_recording(recording: Recording, path: &Path) -> anyhow::Result<Ledger> {
    recording.ledger.with_context(|| {
        format!(
            "{} holds no ledger: its server or carat ended before the first one, which is taken after a minute or at the end",
            path.display()
        )
    })
}
