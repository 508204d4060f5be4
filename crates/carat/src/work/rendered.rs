//! Results files and recordings in the formats of `carat report`, and where they are written.

use crate::input::ReportInput;
use crate::view::{check_output, output};
use anyhow::{Context, bail, ensure};
use carat_model::Results;
use carat_report::{
    NextCommands, OutputForm, Style, comparison_html, csv, figures, html, json, markdown,
    openmetrics, recording_html, verdict_text,
};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is written of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
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

impl ReportFormat {
    /// The form of what is written of results and recordings.
    pub(crate) fn form(self) -> OutputForm {
        match self {
            Self::Html => OutputForm::Page,
            Self::Text => OutputForm::Text,
            Self::Md => OutputForm::Markdown,
            Self::Json => OutputForm::Json("carat.results"),
            Self::Figures => OutputForm::Json("carat.figures"),
            Self::Csv => OutputForm::Csv,
            Self::Openmetrics => OutputForm::Openmetrics,
        }
    }
}

/// The text in this format.
///
/// # Errors
/// Where the format is not for what was given: only a page has recordings and several results.
pub(crate) fn rendered(
    inputs: &[ReportInput],
    format: ReportFormat,
    share: bool,
) -> anyhow::Result<String> {
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

/// Writes to the `given` file, beside the first of the `inputs`, or to standard output, as the form has it. Returns the file, if
/// one was written.
///
/// # Errors
/// Where the file cannot be written, or is not earlier output in this form.
pub(crate) fn write_rendered(
    text: &str,
    form: OutputForm,
    inputs: &[PathBuf],
    given: Option<&Path>,
) -> anyhow::Result<Option<PathBuf>> {
    let read: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    let path = match (given, form) {
        (Some(path), _) => {
            check_output(path, form, &read)?;
            output::write_page(path, text)?;
            Some(path.to_owned())
        }
        (None, OutputForm::Page) => {
            let path = read.first().context("no file was given")?.with_extension("html");
            check_output(&path, form, &read)?;
            output::write_page_beside(&path, text)?;
            Some(path)
        }
        (None, OutputForm::Markdown | OutputForm::Text) => {
            output::print_report(text)?;
            None
        }
        (None, _) => {
            output::print_data(text)?;
            None
        }
    };
    // Of a pipe or a device the page is all that its reader wants, and it may be standard output.
    if let Some(path) = path.as_ref().filter(|path| is_own_file(path)) {
        output::print_text(&format!("{}\n", path.display()))?;
    }
    Ok(path)
}

fn is_own_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
}

/// Opens a page in the user's browser.
///
/// # Errors
/// Where there is no program that does so.
pub(crate) fn open_in_browser(path: &Path) -> anyhow::Result<()> {
    Command::new("xdg-open")
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot open a browser: xdg-open is not installed; open the page yourself")?;
    Ok(())
}
