//! `carat explain`: where every megabyte of a running server is, and what might make it smaller.

use crate::cli::ledger_text::write_ledger;
use crate::cli::suggest::experiment_file;
use crate::cli::{Exit, output, report};
use crate::core::{Ledger, Outcome, Recording, Results};
use crate::observe::{Finding, findings, ledger, read_insides};
use crate::process::{ProcRoot, ReadError, Tree};
use crate::report::{CaratFile, ledger_html, load};
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
    /// Process id of the server, a recording (`carat record`) or a results file (`carat compare`)
    target: String,
    /// Which variant of a results file [default: its baseline]
    #[arg(long)]
    variant: Option<String>,
    /// Leave out its children
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
    /// Write an experiment that would prove the findings, for `carat compare`
    #[arg(long, value_name = "FILE")]
    suggest: Option<PathBuf>,
}

#[derive(Serialize)]
struct Answer<'a> {
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
    output::say(&if args.json { json(&ledger, &findings)? } else { text(&ledger, &findings)? })?;
    if let Some(path) = &args.output {
        let options = report::page_options(args.share);
        report::write_page(path, &ledger_html(&what(&args.target, &ledger), &ledger, &options))?;
        output::tell(&format!("\npage  {}", path.display()));
    }
    if let Some(path) = &args.suggest {
        suggest(path, &ledger, &findings)?;
    }
    Ok(Exit::Fine)
}

/// What the page is called: the first process, or the file where no process has a title.
fn what(target: &str, ledger: &Ledger) -> String {
    let titles = ledger.processes.iter().map(|process| process.title.clone());
    titles.into_iter().find(|title| !title.is_empty()).unwrap_or_else(|| target.to_owned())
}

fn json(ledger: &Ledger, findings: &[Finding]) -> anyhow::Result<String> {
    let answer = Answer { schema: SCHEMA, ledger, findings };
    Ok(serde_json::to_string_pretty(&answer)? + "\n")
}

/// The ledger and its findings for people.
pub(crate) fn text(ledger: &Ledger, findings: &[Finding]) -> anyhow::Result<String> {
    let mut text = Vec::new();
    write_ledger(&mut text, ledger)?;
    write_findings(&mut text, findings)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn suggest(path: &Path, ledger: &Ledger, findings: &[Finding]) -> anyhow::Result<()> {
    let text = experiment_file(ledger, findings)?;
    fs::File::create_new(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}; name a new file", path.display()))?;
    let shown = path.display();
    output::tell(&format!("\nwritten {shown}; check its command, then `carat compare {shown}`"));
    Ok(())
}

fn of_process(root: &ProcRoot, pid: u32, alone: bool) -> anyhow::Result<Ledger> {
    let leader = root.identify(pid).map_err(|error| match error {
        ReadError::Ended(pid) => anyhow::anyhow!("there is no process {pid}; see `pgrep -af puma`"),
        error => error.into(),
    })?;
    let members = if alone {
        vec![leader]
    } else {
        let mut tree = Tree::new(root.clone(), leader, "");
        tree.members().iter().map(|stat| stat.identity()).collect()
    };
    let ledger = ledger(root, &members, &read_insides(root, &members));
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
    let names: Vec<&str> = results.header.variants.iter().map(|one| one.name.as_str()).collect();
    let wanted = match variant {
        Some(name) if !names.contains(&name) => {
            bail!("there is no variant `{name}` in {}; it has {}", path.display(), names.join(", "))
        }
        Some(name) => name,
        None => names.first().copied().unwrap_or_default(),
    };
    let trials = results.trials.iter().rev();
    let ended_well = trials.filter(|trial| trial.variant == wanted && trial.outcome == Outcome::Ok);
    let mut samples = ended_well.flat_map(|trial| trial.samples.iter().rev());
    let ledger = samples.find_map(|sample| sample.ledger.clone());
    let ledger =
        ledger.with_context(|| format!("variant `{wanted}` has no trial with a ledger yet"))?;
    output::tell(&format!(
        "variant `{wanted}` of {}, at the end of its last trial",
        names.join(", ")
    ));
    Ok(*ledger)
}

fn of_recording(recording: Recording, path: &Path) -> anyhow::Result<Ledger> {
    recording.ledger.with_context(|| {
        format!(
            "{} holds no ledger: its server or carat ended before one was drawn, which is done once a minute and at the end",
            path.display()
        )
    })
}

fn write_findings(out: &mut dyn Write, findings: &[Finding]) -> anyhow::Result<()> {
    if findings.is_empty() {
        writeln!(out, "\nNothing here asks for a setting.")?;
        return Ok(());
    }
    writeln!(out, "\nWhat to try (a reason for an experiment, not its result)")?;
    for (finding, number) in findings.iter().zip(1..) {
        let most = finding.at_most.map(|bytes| format!(", at most {bytes}")).unwrap_or_default();
        writeln!(out, "{number:>3}. {}{most}: {}", finding.code, finding.evidence)?;
        match &finding.setting {
            Some((name, value)) => {
                writeln!(out, "     try `{name} = \"{value}\"`: {}", finding.remedy)?;
            }
            None => writeln!(out, "     {}", finding.remedy)?,
        }
    }
    Ok(())
}
