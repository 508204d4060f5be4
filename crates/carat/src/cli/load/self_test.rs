//! `carat load self-test`: how much the generator can drive on this machine.

use crate::cli::Exit;
use crate::cli::load::args::SelfTestArgs;
use crate::core::{CableTable, HttpTable, LoadReport, LoadSpec, Span, Unit, metric};
use crate::load;
use crate::load::null::{NullCable, NullHttp};
use serde_json::json;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Connections of the HTTP test.
const CONNECTIONS: u32 = 64;
/// Deliveries per second that the broadcasts of the test are planned for; the test only ends later where it is slower.
const DELIVERIES: f64 = 200_000.0;

/// Drives both null servers and prints what came out.
///
/// # Errors
/// Where a null server cannot be started or the load not be driven.
pub(crate) fn self_test(args: &SelfTestArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let http = http(args.duration)?;
    let cable = cable(args)?;
    if args.json {
        let value = json!({ "schema": "carat.load.self-test/1", "http": http, "cable": cable });
        serde_json::to_writer_pretty(&mut *out, &value)?;
        writeln!(out)?;
        return Ok(Exit::Fine);
    }
    line("http", "responses", &http, out)?;
    line("cable", "deliveries", &cable, out)?;
    writeln!(
        out,
        "Servers in this process shared the machine. A load above half of these rates says more about the generator than about its server."
    )?;
    Ok(Exit::Fine)
}

fn line(kind: &str, what: &str, report: &LoadReport, out: &mut dyn Write) -> std::io::Result<()> {
    let rate = report.metrics.get(metric::THROUGHPUT.id).copied().unwrap_or_default();
    let cost = report.own.cpu_us_per_message.unwrap_or_default();
    writeln!(
        out,
        "{kind:<6} {what} {}   generator {cost:.1} µs each, so at most {} on one core",
        Unit::PerSecond.show(rate),
        Unit::PerSecond.show(1e6 / cost.max(1e-3)),
    )
}

fn http(duration: Span) -> anyhow::Result<LoadReport> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let table =
        HttpTable { connections: CONNECTIONS, duration: Some(duration), ..HttpTable::default() };
    let spec = LoadSpec::Http(table.load(&format!("http://{address}"))?);
    beside(move |stop| NullHttp::new(listener, 13)?.serve(stop), &spec)
}

fn cable(args: &SelfTestArgs) -> anyhow::Result<LoadReport> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address: SocketAddr = listener.local_addr()?;
    let broadcasts = DELIVERIES * args.duration.as_seconds() / f64::from(args.clients.max(1));
    let table = CableTable {
        steps: 1,
        step_size: args.clients,
        broadcasts: (broadcasts as u32).max(10),
        concurrency: Some(4),
        ..CableTable::default()
    };
    let spec = LoadSpec::Cable(table.load(&format!("ws://{address}"))?);
    beside(move |stop| NullCable::new(listener)?.serve(stop).map(drop), &spec)
}

/// Runs a server on a thread of this process for as long as a load takes.
fn beside(
    serve: impl FnOnce(&AtomicBool) -> std::io::Result<()> + Send,
    spec: &LoadSpec,
) -> anyhow::Result<LoadReport> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let server = scope.spawn(|| serve(&stop));
        let report = load::drive(spec, |_| {});
        stop.store(true, Ordering::Relaxed);
        match server.join() {
            Ok(served) => served?,
            Err(_) => anyhow::bail!("the null server panicked; please report the lines above"),
        }
        Ok(report?)
    })
}
