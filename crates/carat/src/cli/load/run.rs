//! Runs `carat load` and turns the report into an exit status.

use crate::cli::Exit;
use crate::cli::load::args::{CableArgs, Compat, LoadArgs, LoadKind, NullArgs};
use crate::cli::load::live::Live;
use crate::cli::load::self_test::self_test;
use crate::cli::load::{show, steps};
use crate::core::{LoadReport, LoadSpec};
use crate::load::null::{NullCable, NullHttp};
use crate::load::{self, LoadError};
use anyhow::Context;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;

/// Drives the load and prints its report.
///
/// # Errors
/// Where the load cannot be driven or the report not be written.
pub(crate) fn run(args: &LoadArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    match &args.kind {
        LoadKind::Http(http) => {
            let spec = LoadSpec::Http(http.load()?);
            let report = drive(&spec)?;
            if http.common.json {
                show::json(&spec, &report, out)?;
            } else {
                show::http(&report, out)?;
            }
            Ok(status(&report))
        }
        LoadKind::Cable(cable) => cable_load(cable, out),
        LoadKind::Null(null) => serve_null(null, out),
        LoadKind::SelfTest(options) => self_test(options, out),
    }
}

fn cable_load(cable: &CableArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let spec = LoadSpec::Cable(cable.load()?);
    let report = drive(&spec)?;
    if let Some(path) = &cable.rows {
        let written =
            File::create(path).and_then(|file| steps::rows(&report, BufWriter::new(file)));
        written.with_context(|| {
            format!("cannot write the broadcasts to {}; choose another --rows", path.display())
        })?;
    }
    if cable.common.json {
        show::json(&spec, &report, out)?;
    } else if cable.compat == Some(Compat::WebsocketBench) {
        steps::websocket_bench(&report, out)?;
        show::tail(&report, out)?;
    } else {
        steps::table(&report, out)?;
        show::tail(&report, out)?;
    }
    Ok(status(&report))
}

fn drive(spec: &LoadSpec) -> Result<LoadReport, LoadError> {
    let live = Live::new();
    let driven = load::drive(spec, |progress| live.show(&progress));
    live.clear();
    driven
}

fn status(report: &LoadReport) -> Exit {
    if report.is_invalid() { Exit::Invalid } else { Exit::Fine }
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
