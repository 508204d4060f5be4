//! The generator's own process: reads one line of JSON and writes lines of JSON, the last of which is the report.

use crate::error::GeneratorError;
use crate::progress::LoadProgress;
use crate::run::drive;
use carat_model::load::{LoadReport, LoadSpec};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::ExitCode;
use std::thread;

/// One line of the worker's output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkerMessage {
    Progress(LoadProgress),
    /// The last line of a load that ran.
    Report(Box<LoadReport>),
    /// The last line of a load that could not be run.
    Error(String),
}

/// The hidden subcommand `load-worker`: reads a [`LoadSpec`] as one line, runs it and writes [`WorkerMessage`]s.
///
/// The worker exits when its input ends, so a parent that dies leaves no generator behind.
pub fn worker_main(input: impl Read + Send + 'static, mut output: impl Write) -> ExitCode {
    let mut input = BufReader::new(input);
    let spec = read_spec(&mut input);
    // In a thread, because the load itself never reads its input again.
    thread::spawn(move || {
        // An error ends it too: whoever wrote the load is gone.
        let _ = std::io::copy(&mut input, &mut std::io::sink());
        // At once, without the report: nobody is left to read it.
        std::process::exit(1);
    });
    let ran = spec.and_then(|spec| {
        drive(&spec, |progress| write_message(&mut output, &WorkerMessage::Progress(progress)))
    });
    match ran {
        Ok(report) => {
            write_message(&mut output, &WorkerMessage::Report(Box::new(report)));
            ExitCode::SUCCESS
        }
        Err(error) => {
            write_message(&mut output, &WorkerMessage::Error(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn read_spec(input: &mut impl BufRead) -> Result<LoadSpec, GeneratorError> {
    let mut text = String::new();
    input.read_line(&mut text).map_err(GeneratorError::Kernel)?;
    serde_json::from_str(&text).map_err(GeneratorError::Protocol)
}

fn write_message(output: &mut impl Write, message: &WorkerMessage) {
    // A parent that is gone has closed the input, and that ends this process.
    let _ = serde_json::to_writer(&mut *output, message);
    let _ = output.write_all(b"\n");
    // Flushed: the parent extrapolates from the moment at which a line arrives.
    let _ = output.flush();
}
