//! `carat explain`: where every megabyte of a running server is, and what might make it smaller.

use crate::cli::{Exit, output};
use crate::input::{
    KnownServer, OutsideRequest, earlier_size, file_ledger, load, process_ledger, read_explained,
    suggested_experiment,
};
use anyhow::{Context, bail};
use carat_analysis::{
    Diagnosis, Earlier, ExplainedTree, Finding, HolderGrowths, diagnosis, findings, holder_growth,
};
use carat_files::create_new;
use carat_model::OutsideReading;
use carat_model::{Ledger, Span};
use carat_outside::census::{Census, CensusPart, LookOptions};
use carat_outside::who::WhoRequest;
use carat_proc::observe::{be_killed_first, memory_gate};
use carat_proc::process::ProcRoot;
use carat_report::{
    Audience, CensusTextOptions, census_text, diagnosis_text, holder_growth_text, ledger_html,
    ledger_text, next_text, parts_text, prepare_outside, speedscope, unshared_text, who_text,
};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Name and version of the JSON that `--json` prints.
const SCHEMA: &str = "carat.explain/1";

/// Arguments of `carat explain`
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Examples:\n  carat explain 4312                 what is wrong with the tree of process 4312, and its parts\n  \
    carat explain 4312 --details       also classes, heaps, arenas, what to try\n  \
    carat explain app.recording.jsonl  the end of a recording\n  \
    carat explain app.jsonl.zst --who  a heap dump, of `carat heap-dump` or ObjectSpace.dump_all\n  \
    carat explain 4312 --owners        also who holds malloc's memory\n  \
    carat explain 4312 --who           who keeps most memory alive, by name\n  \
    carat explain 4312 --who Post      who keeps the objects of a class alive\n  \
    carat explain 4312 --who --json > a.json; carat explain 4312 --who --since a.json   who keeps more than before\n  \
    carat explain 4312 --class Post    where the objects of a class lie\n  \
    carat explain 4312 --unshared      why the workers' memory is private\n  \
    carat explain 4312 -o ledger.html\n  \
    carat explain 4312 --suggest try.toml && carat compare try.toml"
)]
pub(crate) struct ExplainArgs {
    /// Process id of the server, a recording (`carat record`), a results file (`carat compare`) or its JSON, or a heap dump
    pub(super) target: String,
    /// Variant of a results file [default: its baseline]
    #[arg(long)]
    pub(super) variant: Option<String>,
    /// Also every part, process, heap, class and arena, and every finding
    #[arg(long)]
    pub(super) details: bool,
    /// Leave out the children of the process
    #[arg(long)]
    alone: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Write the ledger as one HTML page
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// With --who: print what is kept, by what keeps it, for this program
    #[arg(long, value_name = "FORMAT", requires = "who", conflicts_with = "json")]
    pub(super) format: Option<WhoFormat>,
    #[command(flatten)]
    pub(super) look: LookArgs,
    /// With --output: leave out folders, class names, and environment beyond an allow-list
    #[arg(long, requires = "output")]
    share: bool,
    /// Write an experiment that tests the findings, for `carat compare`
    #[arg(long, value_name = "FILE")]
    pub(super) suggest: Option<PathBuf>,
}

/// A program that shows what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum WhoFormat {
    /// A flame graph of speedscope, whose widths are bytes
    Speedscope,
}

/// What is read of a running Ruby from outside
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Reading a running Ruby from outside")]
pub(super) struct LookArgs {
    /// Do not read the memory of the process: only what the kernel and a probe report
    #[arg(long, conflicts_with_all = ["class", "owners", "reach", "who", "unshared"])]
    no_look: bool,
    /// Classes in the table of --details [default: 12]
    #[arg(long, value_name = "N")]
    pub(super) classes: Option<usize>,
    /// Also where the objects of this class lie, and how many pages they keep
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// Also who holds malloc's memory. Carat's own memory for it is some 20 bytes for each chunk of malloc
    #[arg(long)]
    owners: bool,
    /// Also what can be reached from stacks and libraries, for as much memory
    #[arg(long)]
    reach: bool,
    /// Who keeps objects alive, by name: those of this class, or those with most memory. Requires a copy of the process's memory
    #[arg(long, value_name = "CLASS", num_args = 0..=1)]
    pub(super) who: Option<Option<String>>,
    /// What keeps more objects alive than in this output of `carat explain PID --who --json`, of this or another process; of a heap
    /// dump, than in this other one
    #[arg(long, value_name = "FILE", requires = "who")]
    pub(super) since: Option<PathBuf>,
    /// Also why the memory of forked processes is private, page by page
    #[arg(long, conflicts_with = "alone")]
    unshared: bool,
    /// The longest time to read without a pause
    #[arg(long, value_name = "TIME", value_parser = Span::parse, default_value = "200us")]
    max_pause: Span,
    /// Stop reading a process after this time [default: a minute, and another for each GiB in memory]
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    max_time: Option<Span>,
}

impl LookArgs {
    /// Whether something is asked for that only a running process can answer.
    fn asks_a_process(&self) -> bool {
        self.who.is_some() || self.asks_for_more()
    }

    /// Whether something beside who keeps what is asked for.
    pub(super) fn asks_for_more(&self) -> bool {
        self.class.is_some() || self.owners || self.reach || self.unshared
    }

    /// Whether something was asked for that no process answered, or that one failed to answer.
    fn is_unanswered(&self, reading: &OutsideReading) -> bool {
        let all = &reading.processes;
        let unknown = [
            self.class.is_some() && all.iter().all(|census| census.class.is_none()),
            self.owners && all.iter().all(|census| census.owners.is_none()),
            self.reach && all.iter().all(|census| census.reach.is_none()),
            self.who.is_some() && all.iter().all(|census| census.who.is_none()),
        ];
        unknown.contains(&true) || (self.asks_a_process() && !reading.refused.is_empty())
    }

    /// `kept`: whether what is kept is counted by what keeps it.
    fn request(&self, kept: bool) -> OutsideRequest {
        let default = LookOptions::default();
        let look = LookOptions {
            class: self.class.clone(),
            owners: self.owners,
            reach: self.reach,
            who: self
                .who
                .clone()
                .map(|class| WhoRequest { classes: class.into_iter().collect(), kept }),
            max_pause: self.max_pause.0,
            longest: self.max_time.map(|time| time.0),
            memory: memory_gate(&ProcRoot::default(), output::print_message),
            ..default
        };
        OutsideRequest { look: (!self.no_look).then_some(look), unshared: self.unshared }
    }
}

impl ExplainArgs {
    /// Whether more than one screen is asked for, or nothing is known that fills one.
    fn is_detailed(&self, ledger: &Ledger) -> bool {
        let look = &self.look;
        let asked = self.details || look.asks_a_process() || look.no_look;
        asked || look.classes.is_some() || ledger.processes.is_empty()
    }
}

#[derive(Serialize)]
struct Explanation<'a> {
    schema: &'static str,
    diagnosis: &'a Diagnosis,
    ledger: &'a Ledger,
    findings: &'a [Finding],
    #[serde(skip_serializing_if = "Option::is_none")]
    census: Option<OutsideReading>,
    /// What keeps more than in an earlier reading
    #[serde(skip_serializing_if = "Option::is_none")]
    grown: Option<&'a HolderGrowths>,
}

/// What keeps more than in an earlier reading, or why that is unknown.
type Grown = Result<HolderGrowths, String>;

fn grown_since(before: &ExplainedTree, reading: Option<&OutsideReading>) -> Grown {
    let reading = reading.ok_or("no Ruby was read")?;
    // The names of both readings must have been edited in one way.
    let after = prepare_outside(reading, Audience::Own);
    match after.refused.first() {
        Some((process, reason)) => Err(format!("process {process}: {reason}")),
        None => holder_growth(&before.rubies, &after.processes),
    }
}

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let before = args.look.since.as_deref().map(read_explained).transpose()?;
    let mut earlier = None;
    let (ledger, reading) = match args.target.parse() {
        Ok(pid) => {
            let root = ProcRoot::default();
            be_killed_first(&root);
            let kept =
                args.json || before.is_some() || args.output.is_some() || args.format.is_some();
            process_ledger(&root, pid, args.alone, &args.look.request(kept))?
        }
        Err(_) if args.look.asks_a_process() => {
            bail!(
                "--class, --owners, --reach, --who and --unshared read a running process; give its id. --who also reads a heap dump"
            )
        }
        Err(_) => {
            let (ledger, first) = of_file(Path::new(&args.target), args.variant.as_deref())?;
            earlier = first;
            (ledger, None)
        }
    };
    let findings = findings(&ledger, reading.as_ref().unwrap_or(&OutsideReading::default()));
    let found = diagnosis(&ledger, reading.as_ref(), earlier);
    let grown = before.as_ref().map(|before| grown_since(before, reading.as_ref()));
    if let (Some(WhoFormat::Speedscope), Some(reading)) = (args.format, &reading) {
        print_speedscope(reading)?;
    } else if args.json {
        let census = reading.as_ref().map(without_maps);
        let explanation = Explanation {
            schema: SCHEMA,
            diagnosis: &found,
            ledger: &ledger,
            findings: &findings,
            census,
            grown: grown.as_ref().and_then(|grown| grown.as_ref().ok()),
        };
        output::print_data(&(serde_json::to_string_pretty(&explanation)? + "\n"))?;
    } else {
        print_text(args, (&ledger, &findings, &found), (reading.as_ref(), grown.as_ref()))?;
    }
    if let Some(path) = &args.output {
        let title = title(&args.target, &ledger);
        let options = output::page_options(args.share);
        let page = ledger_html(title, &ledger, reading.as_ref(), &options);
        output::write_page(path, &page)?;
        output::print_message(&format!("\npage  {}", path.display()));
    }
    if let Some(path) = &args.suggest {
        suggest(path, args, &ledger, &findings)?;
    }
    if let (true, Some(Err(reason))) = (args.json, &grown) {
        output::print_message(&format!("what keeps more than before is unknown: {reason}"));
    }
    let unanswered = grown.is_some_and(|grown| grown.is_err())
        || reading.as_ref().is_some_and(|reading| args.look.is_unanswered(reading));
    Ok(if unanswered { Exit::Failed } else { Exit::Fine })
}

/// What every process that was read keeps, as a flame graph.
fn print_speedscope(reading: &OutsideReading) -> anyhow::Result<()> {
    let reading = prepare_outside(reading, Audience::Own);
    let of = |census: &'_ Census| census.who.as_ref()?.kept.clone();
    let kept = reading
        .processes
        .iter()
        .filter_map(|census| Some((format!("process {}", census.process), of(census)?)));
    let kept: Vec<_> = kept.collect();
    if kept.is_empty() {
        let reasons = reading.processes.iter().find_map(|census| census.reason(CensusPart::Who));
        bail!("who keeps what is unknown: {}", reasons.unwrap_or("no Ruby was read"));
    }
    let trees: Vec<_> = kept.iter().map(|(name, tree)| (name.clone(), tree)).collect();
    output::print_data(&speedscope(&trees))?;
    Ok(())
}

/// Who keeps what is an answer of its own, in few lines; otherwise the diagnosis comes first, and the next command last.
fn print_text(
    args: &ExplainArgs,
    (ledger, findings, found): (&Ledger, &[Finding], &Diagnosis),
    (reading, grown): (Option<&OutsideReading>, Option<&Grown>),
) -> anyhow::Result<()> {
    if let (Some(grown), Some(since)) = (grown, &args.look.since) {
        output::print_text(&holder_growth_text(grown, &since.display().to_string()))?;
        if args.look.who == Some(None) && !args.look.asks_for_more() && !args.details {
            return Ok(());
        }
    }
    if let (Some(class), Some(reading)) = (&args.look.who, reading) {
        output::print_text(&who_text(reading, class.as_deref()))?;
        if !args.look.asks_for_more() && !args.details {
            return Ok(());
        }
    }
    output::print_text(&(diagnosis_text(found) + "\n"))?;
    if args.is_detailed(ledger) {
        output::print_text(&ledger_text(ledger, findings))?;
        if let Some(reading) = reading {
            output::print_text(&outside_text(reading, &args.look))?;
        }
    } else {
        output::print_text(&parts_text(ledger))?;
    }
    output::print_text(&("\n".to_owned() + &next_text(found, &args.target)))?;
    Ok(())
}

/// The readings without the pictures of single pages, which would be most of the text.
fn without_maps(reading: &OutsideReading) -> OutsideReading {
    let mut shown = reading.clone();
    for census in &mut shown.processes {
        census.heap.iter_mut().for_each(|heap| heap.map.clear());
        let arenas = census.malloc.iter_mut().flat_map(|malloc| &mut malloc.arenas);
        arenas.for_each(|arena| arena.map.clear());
    }
    shown
}

fn outside_text(reading: &OutsideReading, args: &LookArgs) -> String {
    let mut options = CensusTextOptions::default();
    options.classes = args.classes.unwrap_or(options.classes);
    let mut text = census_text(reading, options) + &unshared_text(&reading.unshared);
    if args.unshared && reading.unshared.is_empty() {
        text +=
            "\nNothing to compare: no Ruby of this tree was forked by another one that was read.\n";
    }
    text
}

/// The title of the first process that has one, otherwise the argument of the command.
fn title<'a>(target: &'a str, ledger: &'a Ledger) -> &'a str {
    let mut titles = ledger.processes.iter().map(|process| process.title.as_str());
    titles.find(|title| !title.is_empty()).unwrap_or(target)
}

fn suggest(
    path: &Path,
    args: &ExplainArgs,
    ledger: &Ledger,
    findings: &[Finding],
) -> anyhow::Result<()> {
    let known = match args.target.parse::<u32>() {
        Ok(_) => KnownServer::default(),
        Err(_) => KnownServer::of(&load(Path::new(&args.target))?, args.variant.as_deref()),
    };
    let text = suggested_experiment(ledger, findings, &known)?;
    create_new(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}; give the name of a new file", path.display()))?;
    let shown = path.display();
    output::print_message(&format!(
        "\nwrote {shown}; check its command, then `carat compare {shown}`"
    ));
    Ok(())
}

fn of_file(path: &Path, variant: Option<&str>) -> anyhow::Result<(Ledger, Option<Earlier>)> {
    let file = load(path).context("give a process id, a recording, a results file or its JSON")?;
    let earlier = earlier_size(&file);
    let (ledger, note) = file_ledger(file, path, variant)?;
    note.iter().for_each(|note| output::print_message(note));
    Ok((ledger, earlier))
}
