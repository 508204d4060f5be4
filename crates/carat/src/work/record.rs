//! Records a running server or one that it starts, and prints whether its memory grows.

use crate::run::Interrupt;
use crate::run::recording::{ActiveRecording, RecordingRequest, RecordingSubject, is_invalid};
use crate::view::{RecordingView, output};
use crate::work::exit::Exit;
use anyhow::{Context, bail};
use carat_analysis::findings_beside_growth;
use carat_analysis::growth::grown_class;
use carat_model::LoadReport;
use carat_model::recording::Recording;
use carat_proc::process::ProcRoot;
use carat_report::{count, explain_who, growth_text, ledger_text, recording_html};
use std::fs;
use std::path::{Path, PathBuf};

/// The server whose memory is recorded, and what is printed of the recording.
#[derive(Debug)]
pub(crate) struct RecordedServer {
    /// The running server; without it the command is started.
    pub(crate) pid: Option<u32>,
    /// Whether the children of a running server are left out.
    pub(crate) alone: bool,
    pub(crate) command: Vec<String>,
    pub(crate) details: bool,
    pub(crate) json: bool,
}

/// Records until the server ends, the time is over or the user stops it.
///
/// # Errors
/// Where the server cannot be started or watched, or the recording cannot be written as a whole.
pub(crate) fn record(server: &RecordedServer, recording: RecordingRequest) -> anyhow::Result<Exit> {
    let (path, limit) = (recording.path.clone(), recording.limit);
    let interrupt = Interrupt::on_signals().context("cannot listen for Ctrl-C")?;
    let mut subject = match server.pid {
        Some(pid) => RecordingSubject::running(pid, server.alone)?,
        None => RecordingSubject::command(&server.command, &log_path(&path))?,
    };
    let title = subject.title();
    let mut active = ActiveRecording::start(recording, &mut subject, interrupt)?;
    output::print_message(&format!("recording {title} into {}", path.display()));
    let mut view = RecordingView::new(limit.map(|limit| limit.0));
    let ended = active.follow(&mut view);
    // The terminal must be back to normal before anything is printed.
    drop(view);
    let finished = active.finish(ended)?;
    drop(subject);
    print(server, &finished.recording, &path)?;
    if let Some((lines, error)) = finished.loss {
        let path = path.display();
        bail!(
            "{} of {path} could not be written ({error}); the others are complete: use -o to record elsewhere",
            count(lines, "line")
        );
    }
    if !finished.survivors.is_empty() {
        let survivors = finished.survivors.join(", ");
        bail!("these processes of the server survived: {survivors}; end them");
    }
    Ok(if is_invalid(&finished.recording) { Exit::Invalid } else { Exit::Fine })
}

impl RecordedServer {
    /// The file of a new recording: the given one, or one named after the server.
    ///
    /// # Errors
    /// Where the given file exists.
    pub(crate) fn new_file(&self, given: Option<&Path>) -> anyhow::Result<PathBuf> {
        if let Some(path) = given {
            if path.exists() {
                bail!("{} exists already; name another file with -o", path.display());
            }
            return Ok(path.to_owned());
        }
        let name = match (self.pid, self.command.first()) {
            (Some(pid), _) => pid.to_string(),
            (None, Some(program)) => {
                let file = Path::new(program).file_name().unwrap_or_default();
                file.to_string_lossy().into_owned()
            }
            (None, None) => bail!("give a command after `--`, or --pid"),
        };
        let numbered = (2..).map(|number| format!("{name}-{number}.recording.jsonl"));
        std::iter::once(format!("{name}.recording.jsonl"))
            .chain(numbered)
            .map(PathBuf::from)
            .find(|path| !path.exists())
            .context("every name is taken; give one with -o")
    }
}

fn print(server: &RecordedServer, recording: &Recording, path: &Path) -> anyhow::Result<()> {
    if server.json {
        output::print_data(&fs::read_to_string(path)?)?;
    } else {
        output::print_text(&growth_text(recording))?;
        if let Some(ledger) = recording.ledger.as_ref().filter(|_| server.details) {
            output::print_text(&format!(
                "\n{}",
                ledger_text(ledger, &findings_beside_growth(ledger, &recording.growth))
            ))?;
        }
    }
    for warning in recording.end.iter().flat_map(|end| &end.warnings) {
        output::print_message(&format!("note: {warning}"));
    }
    let report = recording.load().and_then(|load| load.report.as_ref());
    for note in report.into_iter().flat_map(|report| &report.flags).filter(|f| f.code == "replay") {
        output::print_message(&format!("note: replay: {}", note.message));
    }
    for failure in report.into_iter().flat_map(LoadReport::wrong_bodies) {
        output::print_message(&format!("note: load: {failure}"));
    }
    output::print_message(&format!("\nrecording  {}", path.display()));
    if server.pid.is_none() {
        output::print_message(&format!("log        {}", log_path(path).display()));
    }
    output::print_message(&write_recording_page(recording, path));
    // A process that has ended cannot be asked.
    if let Some(pid) = server.pid.filter(|pid| ProcRoot::default().identify_program(*pid).is_ok()) {
        output::print_message(&format!("next       {}", next_command(pid, recording)));
    }
    Ok(())
}

/// Who keeps the class that grows, or else where the memory is; of a process that runs.
fn next_command(pid: u32, recording: &Recording) -> String {
    match grown_class(recording) {
        Some(class) => explain_who(&pid.to_string(), Some(&class.class)),
        None => format!("carat explain {pid}"),
    }
}

/// Writes the page beside the recording and returns a line about it. The recording is complete without its page.
fn write_recording_page(recording: &Recording, path: &Path) -> String {
    let page = path.with_extension("html");
    if page.exists() {
        return format!(
            "note: {} exists already; `carat report -o` writes the page elsewhere",
            page.display()
        );
    }
    let html = recording_html(recording, &output::page_options(false));
    match output::write_page_beside(&page, &html) {
        Ok(()) => format!("page       {}", page.display()),
        Err(error) => format!("note: {error:#}"),
    }
}

/// What the server prints.
fn log_path(recording: &Path) -> PathBuf {
    recording.with_extension("log")
}
