//! Runs `carat load` and turns the report into an exit status.

use crate::cli::Exit;
use crate::cli::load::args::{LoadArgs, LoadKind};
use crate::cli::load::live::Live;
use crate::cli::load::show;
use crate::load;
use crate::model::LoadSpec;
use std::io::Write;

/// Drives the load and prints its report.
///
/// # Errors
/// Where the load cannot be driven or the report not be written.
pub fn run(args: &LoadArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let (spec, json) = match &args.kind {
        LoadKind::Http(http) => (LoadSpec::Http(http.load()?), http.common.json),
    };
    let live = Live::new();
    let driven = load::drive(&spec, |progress| live.show(&progress));
    live.clear();
    let report = driven?;
    if json {
        show::json(&spec, &report, out)?;
    } else {
        show::text(&report, out)?;
    }
    Ok(if report.is_invalid() { Exit::Invalid } else { Exit::Fine })
}
