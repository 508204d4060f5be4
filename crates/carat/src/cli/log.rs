//! What carat does, a line per event, for a report of a fault: `--log FILE` or `CARAT_LOG=debug`. Nothing by default.

use anyhow::Context;
use carat_files::open_to_append;
use carat_wire::env;
use clap::Args;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Mutex;
use tracing::level_filters::LevelFilter;

/// Where events go.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Append what carat does to this file, a line per event, without secrets
    #[arg(long, value_name = "FILE", global = true, help_heading = "Log")]
    log: Option<PathBuf>,
    /// How much: off, debug or trace. Without --log it goes to standard error
    #[arg(long, env = env::LOG, hide = true, global = true, value_name = "LEVEL")]
    log_level: Option<LevelFilter>,
}

/// Lets events be written. Without a file and a level there are none, and they cost nothing.
///
/// # Errors
/// Where the file cannot be opened.
pub(crate) fn start(args: &LogArgs) -> anyhow::Result<()> {
    let Some(level) = args.log_level.or(args.log.as_ref().map(|_| LevelFilter::DEBUG)) else {
        return Ok(());
    };
    let builder = tracing_subscriber::fmt().with_max_level(level);
    match &args.log {
        Some(path) => {
            let file = open_to_append(path)
                .with_context(|| format!("cannot write the log {}", path.display()))?;
            builder.with_ansi(false).with_writer(Mutex::new(file)).init();
        }
        None => builder.with_ansi(io::stderr().is_terminal()).with_writer(io::stderr).init(),
    }
    tracing::debug!(
        version = env!("CARGO_PKG_VERSION"),
        command = carat_model::command_line(&std::env::args().collect::<Vec<_>>().join(" ")),
        "carat begins"
    );
    Ok(())
}
