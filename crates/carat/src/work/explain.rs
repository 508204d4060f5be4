//! Explains a running server or a file: its diagnosis, where its memory is, who keeps it, and an experiment that tests the findings.

use crate::input::{
    CaratFile, KnownServer, OutsideRequest, file_ledger, is_dump, load, process_ledger,
    read_explained, suggested_experiment,
};
use crate::view::{check_output, output};
use crate::work::exit::Exit;
use crate::work::explain_dump::explain_dump;
use crate::work::explain_request::{AskedLook, ExplainRequest, KeptProfile};
use crate::work::not_ruby::{NotRuby, not_ruby};
use anyhow::{Context, bail};
use carat_analysis::growth::grown_class;
use carat_analysis::{
    Diagnosis, ExplainedTree, Finding, HolderGrowths, LedgerSource, diagnosis, findings_of,
    holder_growth,
};
use carat_files::write_new;
use carat_model::{Ledger, OutsideReading, Recording, Variant};
use carat_outside::census::{Census, CensusPart, LookOptions};
use carat_outside::who::WhoRequest;
use carat_proc::observe::{be_killed_first, memory_gate};
use carat_proc::process::ProcRoot;
use carat_report::{
    Audience, CensusTextOptions, DiagnosisTarget, OutputForm, census_text, diagnosis_text,
    holder_growth_text, ledger_html, ledger_text, next_text, parts_text, redact_outside,
    redact_recording, rest_text, shell_line, unshared_text, who_text,
};
use serde::Serialize;
use std::path::Path;

/// Name and version of the JSON that `--json` prints.
const SCHEMA: &str = "carat.explain/1";

/// What keeps more than in an earlier reading, or why that is unknown.
type Grown = Result<HolderGrowths, String>;

/// Everything that is known of the target.
struct Explained {
    ledger: Ledger,
    findings: Vec<Finding>,
    diagnosis: Diagnosis,
    origin: Origin,
    grown: Option<Grown>,
    /// Where the target is a process that is no Ruby.
    not_ruby: Option<NotRuby>,
}

/// What there is beside the ledger.
enum Origin {
    /// A process, with what was read from outside.
    Process(Option<OutsideReading>),
    Recording(Box<Recording>),
    /// The variants of a results file.
    Results(Vec<Variant>),
}

impl Origin {
    fn source(&self) -> LedgerSource<'_> {
        match self {
            Self::Process(reading) => LedgerSource::Processes(reading.as_ref()),
            Self::Recording(recording) => LedgerSource::Recording(recording),
            Self::Results(variants) => LedgerSource::Results(variants),
        }
    }

    /// `name` is what was typed.
    fn target<'a>(&'a self, name: &'a str) -> DiagnosisTarget<'a> {
        match self {
            Self::Process(_) => DiagnosisTarget::Process(name),
            Self::Recording(recording) => {
                DiagnosisTarget::File(name, grown_class(recording).map(|one| one.class.as_str()))
            }
            Self::Results(_) => DiagnosisTarget::File(name, None),
        }
    }
}

impl Explained {
    fn reading(&self) -> Option<&OutsideReading> {
        self.origin.source().reading()
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

/// Prints what the target's memory is, and writes what else is asked for.
///
/// # Errors
/// Where the target cannot be read, a file cannot be written, or the target cannot answer what is asked.
pub(crate) fn explain(request: &ExplainRequest) -> anyhow::Result<Exit> {
    if request.target.parse::<u32>().is_err() && is_dump(Path::new(&request.target)) {
        return explain_dump(request);
    }
    if let Some(page) = &request.page {
        // Before a process is read for nothing.
        let since = request.look.since.as_deref();
        let inputs: Vec<&Path> = since.into_iter().chain([Path::new(&request.target)]).collect();
        check_output(page, OutputForm::Page, &inputs)?;
    }
    let explained = read(request)?;
    if let (Some(found), true) = (&explained.not_ruby, request.look.asks_a_process())
        && !found.rubies_below
    {
        // What is asked is about Ruby's objects.
        bail!("{}", found.text);
    }
    print(request, &explained)?;
    let Explained { ledger, origin, grown, .. } = &explained;
    if let Some(path) = &request.page {
        let title = title(&request.target, ledger);
        let options = output::page_options(request.share);
        let page = ledger_html(title, ledger, origin.source(), &options);
        output::write_page(path, &page)?;
        output::print_message(&format!("\npage  {}", path.display()));
    }
    if let Some(path) = &request.suggest {
        suggest(path, request, &explained)?;
    }
    if let (true, Some(Err(reason))) = (request.json, grown) {
        output::print_message(&format!("what keeps more than before is unknown: {reason}"));
    }
    let unanswered = matches!(grown, Some(Err(_)))
        || explained.reading().is_some_and(|reading| request.look.is_unanswered(reading));
    Ok(if unanswered { Exit::Failed } else { Exit::Fine })
}

fn read(request: &ExplainRequest) -> anyhow::Result<Explained> {
    let look = &request.look;
    // First, because a reading that cannot be compared is no reason to read a process.
    let before = look.since.as_deref().map(read_explained).transpose()?;
    let (ledger, origin) = match request.target.parse() {
        Ok(pid) => {
            let root = ProcRoot::default();
            be_killed_first(&root);
            let kept = request.json
                || before.is_some()
                || request.page.is_some()
                || request.profile.is_some();
            let (ledger, reading) =
                process_ledger(&root, pid, request.alone, &to_read(look, kept))?;
            (ledger, Origin::Process(reading))
        }
        Err(_) if look.asks_a_process() => {
            bail!(
                "--class, --owners, --reach, --who and --unshared read a running process; give its id. --who also reads a heap dump"
            )
        }
        Err(_) => of_file(Path::new(&request.target), request.variant.as_deref())?,
    };
    let reading = origin.source().reading();
    let findings = findings_of(&ledger, origin.source());
    let diagnosis = diagnosis(&ledger, origin.source());
    let grown = before.as_ref().map(|before| grown_since(before, reading));
    let pid = request.target.parse().ok();
    let not_ruby = pid
        .zip(reading)
        .and_then(|(pid, reading)| not_ruby(pid, (&ledger, reading), request.alone));
    Ok(Explained { ledger, findings, diagnosis, origin, grown, not_ruby })
}

/// `kept`: whether what is kept is counted by what keeps it.
fn to_read(look: &AskedLook, kept: bool) -> OutsideRequest {
    let options = LookOptions {
        class: look.class.clone(),
        owners: look.owners,
        reach: look.reach,
        copy: true,
        who: look.who.clone().map(|class| WhoRequest {
            classes: class.into_iter().collect(),
            kept,
            ..WhoRequest::default()
        }),
        max_pause: look.max_pause,
        longest: look.max_time,
        memory: memory_gate(&ProcRoot::default(), output::print_message),
        ..LookOptions::default()
    };
    OutsideRequest { look: (!look.no_look).then_some(options), unshared: look.unshared }
}

fn of_file(path: &Path, variant: Option<&str>) -> anyhow::Result<(Ledger, Origin)> {
    let file = load(path).context("give a process id, a recording, a results file or its JSON")?;
    let (ledger, note) = file_ledger(&file, path, variant)?;
    note.iter().for_each(|note| output::print_message(note));
    let origin = match file {
        CaratFile::Recording(recording) => {
            Origin::Recording(Box::new(redact_recording(&recording, Audience::Own)))
        }
        CaratFile::Stored(results) | CaratFile::Exported(results) => {
            Origin::Results(results.info.variants)
        }
    };
    Ok((ledger, origin))
}

fn grown_since(before: &ExplainedTree, reading: Option<&OutsideReading>) -> Grown {
    let reading = reading.ok_or("no Ruby was read")?;
    // The names of both readings must have been edited in one way.
    let after = redact_outside(reading, Audience::Own);
    match after.refused.first() {
        Some((process, reason)) => Err(format!("process {process}: {reason}")),
        None => holder_growth(&before.rubies, &after.processes),
    }
}

fn print(request: &ExplainRequest, explained: &Explained) -> anyhow::Result<()> {
    match (request.profile, explained.reading()) {
        (Some(profile), Some(reading)) => print_profile(profile, reading),
        _ if request.json => print_json(explained),
        _ => print_text(request, explained),
    }
}

/// What every process that was read keeps, for another program.
fn print_profile(profile: KeptProfile, reading: &OutsideReading) -> anyhow::Result<()> {
    let reading = redact_outside(reading, Audience::Own);
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
    output::print_bytes(&profile.file(&trees))?;
    Ok(())
}

fn print_json(explained: &Explained) -> anyhow::Result<()> {
    let explanation = Explanation {
        schema: SCHEMA,
        diagnosis: &explained.diagnosis,
        ledger: &explained.ledger,
        findings: &explained.findings,
        census: explained.reading().map(without_maps),
        grown: explained.grown.as_ref().and_then(|grown| grown.as_ref().ok()),
    };
    output::print_data(&(serde_json::to_string_pretty(&explanation)? + "\n"))?;
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

/// Who keeps what is an answer of its own, in few lines; otherwise the diagnosis comes first, and the next command last.
fn print_text(request: &ExplainRequest, explained: &Explained) -> anyhow::Result<()> {
    let Explained { ledger, findings, diagnosis, origin, grown, not_ruby } = explained;
    let reading = explained.reading();
    let look = &request.look;
    if let Some(not_ruby) = not_ruby {
        output::print_text(&format!("{}\n\n", not_ruby.text))?;
    }
    // A diagnosis is that of a Ruby.
    let is_diagnosed = not_ruby.as_ref().is_none_or(|found| found.rubies_below);
    if let (Some(grown), Some(since)) = (grown, &look.since) {
        output::print_text(&holder_growth_text(grown, &since.display().to_string()))?;
        if look.who == Some(None) && request.is_only_who() {
            return Ok(());
        }
    }
    if let (Some(class), Some(reading)) = (&look.who, reading) {
        output::print_text(&who_text(reading, class.as_deref()))?;
        if request.is_only_who() {
            return Ok(());
        }
    }
    if is_diagnosed {
        output::print_text(&diagnosis_text(diagnosis))?;
    }
    match (request.is_detailed(ledger), is_diagnosed) {
        (true, _) => {
            let line = if is_diagnosed { "\n" } else { "" };
            output::print_text(&(line.to_owned() + &ledger_text(ledger, findings)))?;
            if let Some(reading) = reading {
                output::print_text(&outside_text(reading, look))?;
            }
        }
        (false, true) => output::print_text(&rest_text(ledger))?,
        (false, false) => output::print_text(&parts_text(ledger))?,
    }
    // The file that was asked for is written next, and has its own next command.
    if is_diagnosed && request.suggest.is_none() {
        let target = origin.target(&request.target);
        let next = next_text(diagnosis, target, request.is_detailed(ledger));
        output::print_text(&("\n".to_owned() + &next))?;
    }
    Ok(())
}

fn outside_text(reading: &OutsideReading, look: &AskedLook) -> String {
    let mut options = CensusTextOptions::default();
    options.classes = look.classes.unwrap_or(options.classes);
    let mut text = census_text(reading, options) + &unshared_text(&reading.unshared);
    if look.unshared && reading.unshared.is_empty() {
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

fn suggest(path: &Path, request: &ExplainRequest, explained: &Explained) -> anyhow::Result<()> {
    let known = match request.target.parse::<u32>() {
        Ok(pid) => KnownServer::running(&ProcRoot::default(), pid),
        Err(_) => KnownServer::of(&load(Path::new(&request.target))?, request.variant.as_deref()),
    };
    let text = suggested_experiment(&explained.ledger, &explained.findings, &known)?;
    write_new(path, text.as_bytes())
        .with_context(|| format!("cannot write {}; give the name of a new file", path.display()))?;
    let shown = path.display().to_string();
    let next = shell_line(&["carat", "compare", &shown].map(String::from));
    output::print_message(&format!("\nwrote {shown}; check its command, then `{next}`"));
    Ok(())
}
