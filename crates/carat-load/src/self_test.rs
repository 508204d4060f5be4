//! How much the generator can drive on this machine: both protocols against the null servers.

use crate::error::GeneratorError;
use crate::null::{NullCable, NullHttp};
use crate::run::drive;
use carat_model::load::{CableOptions, HttpOptions, LoadReport, LoadSpec};
use carat_model::{Span, Unit, metric};
use std::io::{self, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Connections of the HTTP test.
const CONNECTIONS: u32 = 64;
/// Deliveries per second for which the broadcasts are planned; on a slower machine the test takes longer.
const DELIVERIES: f64 = 200_000.0;

/// Runs an HTTP load against a null server in this process.
///
/// # Errors
/// If the server or the load cannot be run.
pub fn test_http(duration: Span) -> Result<LoadReport, GeneratorError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(GeneratorError::Kernel)?;
    let address = listener.local_addr().map_err(GeneratorError::Kernel)?;
    let options = HttpOptions {
        connections: CONNECTIONS,
        duration: Some(duration),
        ..HttpOptions::default()
    };
    let spec = LoadSpec::Http(options.load(&format!("http://{address}"))?);
    run_beside(move |stop| NullHttp::new(listener, 13)?.serve(stop), &spec)
}

/// Runs a cable load against a null server in this process.
///
/// # Errors
/// If the server or the load cannot be run.
pub fn test_cable(duration: Span, clients: u32) -> Result<LoadReport, GeneratorError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(GeneratorError::Kernel)?;
    let address = listener.local_addr().map_err(GeneratorError::Kernel)?;
    let broadcasts = DELIVERIES * duration.as_seconds() / f64::from(clients.max(1));
    let options = CableOptions {
        steps: 1,
        step_size: clients,
        broadcasts: (broadcasts as u32).max(10),
        concurrency: Some(4),
        ..CableOptions::default()
    };
    let spec = LoadSpec::Cable(options.load(&format!("ws://{address}"))?);
    run_beside(move |stop| NullCable::new(listener)?.serve(stop).map(drop), &spec)
}

/// Runs a server on a thread of this process for as long as a load takes.
fn run_beside(
    serve: impl FnOnce(&AtomicBool) -> io::Result<()> + Send,
    spec: &LoadSpec,
) -> Result<LoadReport, GeneratorError> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let server = scope.spawn(|| serve(&stop));
        let report = drive(spec, |_| {});
        stop.store(true, Ordering::Relaxed);
        server.join().map_err(|_| GeneratorError::Panicked)?.map_err(GeneratorError::Kernel)?;
        report
    })
}

/// Writes the figures of both tests as text.
pub fn write_results(http: &LoadReport, cable: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
    write_result("http", "responses", http, out)?;
    write_result("cable", "deliveries", cable, out)?;
    writeln!(
        out,
        "The null servers shared this machine. A load above half of these rates says more about the generator than about its server."
    )
}

fn write_result(
    kind: &str,
    what: &str,
    report: &LoadReport,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rate = report.metrics.get(metric::THROUGHPUT.id).copied().unwrap_or_default();
    let cost = report.own.cpu_us_per_message.unwrap_or_default();
    writeln!(
        out,
        "{kind:<6} {what} {}   generator {cost:.1} µs each, so at most {} on one core",
        Unit::PerSecond.show(rate),
        Unit::PerSecond.show(1e6 / cost.max(1e-3)),
    )
}
