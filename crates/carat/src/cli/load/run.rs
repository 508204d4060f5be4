//! Runs `carat load` and prints the report.

use crate::cli::Exit;
use crate::cli::load::args::{LoadArgs, LoadCommand, NullArgs, RunArgs, SelfTestArgs};
use crate::config::read_text_file;
use anyhow::{Context, anyhow};
use carat_load::DrivenLoad;
use carat_load::null::{NullCable, NullHttp};
use carat_load::self_test::{test_cable, test_http, write_results};
use carat_load::target::split_url;
use carat_load::text::progress_line;
use carat_load::{GeneratorError, LoadProgress, drive};
use carat_model::load::{ProtocolOptions, ScenarioTable};
use carat_model::with_load_protocols;
use carat_model::{LoadReport, LoadSpec};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Version of the JSON; raised when a field changes its meaning or is removed.
const SCHEMA: &str = "carat.load/1";

macro_rules! declare_run {
    ($($variant:ident $key:ident $options:ident $load:ident $protocol:ident;)*) => {
        /// Runs the load and prints its report.
        ///
        /// # Errors
        /// If the load cannot be run or the report cannot be written.
        pub(crate) fn run(args: &LoadArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
            match &args.command {
                $(
                    LoadCommand::$variant(args) => {
                        run_load::<carat_load::$protocol>(args, LoadSpec::$variant, out)
                    }
                )*
                LoadCommand::Null(null) => serve_null(null, out),
                LoadCommand::SelfTest(args) => self_test(args, out),
            }
        }
    };
}

with_load_protocols!(declare_run);

fn run_load<P: DrivenLoad>(
    args: &RunArgs<P::Options>,
    spec: fn(P::Load) -> LoadSpec,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let (base, path) = split_url(&args.url);
    let mut options = args.options.clone();
    options.set_url_path(path);
    options.set_url(&args.url);
    if let Some(file) = options.scenario_file().map(Path::to_owned) {
        options.set_scenarios(read_scenarios(&file)?);
    }
    let spec = spec(P::Options::at(options.validate()?, base));
    let report = drive_with_bar(&spec)?;
    P::write_report_files(&options, &report)?;
    if args.json {
        print_json(&json!({ "schema": SCHEMA, "load": spec, "report": report }), out)?;
    } else {
        P::write_report(&options, &report, out)?;
    }
    Ok(if report.is_invalid() { Exit::Invalid } else { Exit::Fine })
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

fn print_json(value: &Value, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// Runs a load with a progress bar on stderr, which is hidden if stderr is not a terminal.
fn drive_with_bar(spec: &LoadSpec) -> Result<LoadReport, GeneratorError> {
    let bar = ProgressBar::new(1_000);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    let report = drive(spec, |progress| show_progress(&bar, &progress));
    bar.finish_and_clear();
    report
}

fn show_progress(bar: &ProgressBar, progress: &LoadProgress) {
    bar.set_position((progress.share().unwrap_or_default() * 1e3) as u64);
    bar.set_message(progress_line(progress));
}

fn serve_null(null: &NullArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let listener = TcpListener::bind(("127.0.0.1", null.port))
        .with_context(|| format!("cannot listen on port {}; choose another --port", null.port))?;
    let address = listener.local_addr()?;
    if null.cable {
        writeln!(out, "ws://{address}/cable")?;
        out.flush()?;
        NullCable::new(listener)?.serve(&AtomicBool::new(false))?;
    } else {
        writeln!(out, "http://{address}/")?;
        out.flush()?;
        NullHttp::new(listener, null.body)?.serve(&AtomicBool::new(false))?;
    }
    Ok(Exit::Fine)
}

fn self_test(args: &SelfTestArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let http = test_http(args.duration)?;
    let cable = test_cable(args.duration, args.clients)?;
    if args.json {
        let schema = "carat.load.self-test/1";
        print_json(&json!({ "schema": schema, "http": http, "cable": cable }), out)?;
        return Ok(Exit::Fine);
    }
    write_results(&http, &cable, out)?;
    Ok(Exit::Fine)
}
