//! A load driven from the command line.

use crate::config::read_text_file;
use crate::run::Interrupt;
use crate::work::exit::Exit;
use anyhow::{Context, anyhow};
use carat_load::target::split_url;
use carat_load::text::progress_line;
use carat_load::{DrivenLoad, LoadProgress, drive_until};
use carat_model::load::{LoadFlagError, ProtocolOptions, ScenarioTable};
use carat_model::{HIDDEN, LoadReport, LoadSpec, is_secret_name, mask_secrets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;

/// Version of the JSON; raised when a field changes its meaning or is removed.
const SCHEMA: &str = "carat.load/1";

/// Drives a load with a progress bar and prints its report, of what was done until then where it is stopped.
///
/// # Errors
/// If the load cannot be run or the report cannot be written.
pub(crate) fn run_load<P: DrivenLoad>(
    url: &str,
    mut options: P::Options,
    as_json: bool,
    spec: fn(P::Load) -> LoadSpec,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let (base, path) = split_url(url);
    options.set_url_path(path);
    options.set_url(url);
    if let Some(file) = options.scenario_file().map(Path::to_owned) {
        options.set_scenarios(read_scenarios(&file)?);
    }
    let spec = spec(P::Options::at(options.validate().map_err(LoadFlagError)?, base));
    let (report, stopped) = drive_with_bar(&spec)?;
    P::write_report_files(&options, &report)?;
    if as_json {
        let load = without_secrets(serde_json::to_value(&spec)?);
        let mut printed = json!({ "schema": SCHEMA, "load": load, "report": report });
        if stopped {
            printed["stopped"] = json!(true);
        }
        print_json(&printed, out)?;
    } else {
        if stopped {
            writeln!(
                out,
                "Stopped before the load was over; the figures are of what was done until then."
            )?;
        }
        P::write_report(&options, &report, out)?;
    }
    Ok(match (stopped, report.is_invalid()) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Invalid,
        (false, false) => Exit::Fine,
    })
}

/// Reads the scenarios of `--scenario FILE`.
///
/// # Errors
/// If the file cannot be read or has no valid scenario.
pub(crate) fn read_scenarios(file: &Path) -> anyhow::Result<ScenarioTable> {
    let name = file.display();
    let text = read_text_file(file).with_context(|| format!("cannot read {name}"))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    ScenarioTable::parse(&text, folder).map_err(|why| anyhow!("cannot read {name}: {why}"))
}

/// Prints JSON as people read it.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn print_json(value: &Value, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// The JSON without passwords in URLs and without the values of headers and keys that are secret.
fn without_secrets(json: Value) -> Value {
    match json {
        Value::String(text) => Value::String(mask_secrets(&text)),
        // A header is a pair of texts.
        Value::Array(pair) if pair.len() == 2 && is_secret(&pair[0]) && is_value(&pair[1]) => {
            json!([pair[0], HIDDEN])
        }
        Value::Array(parts) => parts.into_iter().map(without_secrets).collect(),
        Value::Object(parts) => {
            let hidden = |name: &str, value: Value| match value.is_string() && is_secret_name(name)
            {
                true => json!(HIDDEN),
                false => without_secrets(value),
            };
            let parts = parts.into_iter().map(|(name, value)| (name.clone(), hidden(&name, value)));
            Value::Object(parts.collect())
        }
        other => other,
    }
}

/// Whether it is a text that is sent as it is. What `{env.API_KEY}` stands for is not in the load, also behind `Bearer`.
fn is_value(text: &Value) -> bool {
    let Some(text) = text.as_str() else { return false };
    let (scheme, last) = text.rsplit_once(' ').unwrap_or(("", text));
    let inside = last.strip_prefix('{').and_then(|last| last.strip_suffix('}'));
    let is_placeholder = inside.is_some_and(|name| !name.contains(['{', '}']));
    !(is_placeholder && ["", "Bearer", "Basic", "Token"].contains(&scheme))
}

fn is_secret(name: &Value) -> bool {
    name.as_str().is_some_and(is_secret_name)
}

/// Runs a load with a progress bar on stderr, which is hidden if stderr is not a terminal. Returns its report, and whether the user
/// stopped it.
fn drive_with_bar(spec: &LoadSpec) -> anyhow::Result<(LoadReport, bool)> {
    let interrupt = Interrupt::on_signals().context("cannot listen for Ctrl-C")?;
    let bar = ProgressBar::new(1_000);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    let mut stopped = false;
    let report = drive_until(spec, |progress| {
        show_progress(&bar, &progress);
        if interrupt.requested_again() {
            // The threads may be waiting for a server that does not answer.
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
        stopped = interrupt.requested();
        if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.finish_and_clear();
    Ok((report?, stopped))
}

fn show_progress(bar: &ProgressBar, progress: &LoadProgress) {
    bar.set_position((progress.share().unwrap_or_default() * 1e3) as u64);
    bar.set_message(progress_line(progress));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_printed_without_passwords_and_secret_headers() {
        let load = json!({
            "redis": "redis://me:s3cret@127.0.0.1:1",
            "headers": [["Authorization", "Basic s3cret"], ["Accept", "*/*"], ["Api-Key", "Bearer {env.KEY}"]],
            "routes": [{ "headers": { "Cookie": "s3cret" }, "path": "/a?token=s3cret" }],
        });
        let printed = without_secrets(load);
        assert!(!printed.to_string().contains("s3cret"), "{printed}");
        assert_eq!(printed["headers"][1], json!(["Accept", "*/*"]));
        assert_eq!(printed["headers"][2], json!(["Api-Key", "Bearer {env.KEY}"]));
        assert_eq!(printed["redis"], "redis://[hidden]@127.0.0.1:1");
    }
}
