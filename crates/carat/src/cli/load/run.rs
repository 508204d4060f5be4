//! Runs `carat load` and prints the report.

use crate::cli::Exit;
use crate::cli::load::args::{LoadArgs, LoadCommand, NullArgs, SelfTestArgs};
use crate::work::{print_json, run_load};
use anyhow::Context;
use carat_load::null::{NullCable, NullHttp};
use carat_load::self_test::{test_cable, test_http, write_results};
use carat_model::{LoadSpec, with_load_protocols};
use serde_json::json;
use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;

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
                        let options = args.options.clone();
                        let spec = LoadSpec::$variant;
                        run_load::<carat_load::$protocol>(&args.url, options, args.json, spec, out)
                    }
                )*
                LoadCommand::Null(null) => serve_null(null, out),
                LoadCommand::SelfTest(args) => self_test(args, out),
            }
        }
    };
}

with_load_protocols!(declare_run);

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
