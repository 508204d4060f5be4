//! The plain generator's own process.

use crate::load::generator::die_with_parent;
use crate::model::load::HttpLoad;
use crate::model::{LoadFlag, LoadReport, LoadSpec, Severity};
use hdrhistogram::Histogram;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What `carat load-worker` runs: a spec on standard input, a report on standard output.
pub fn worker_main() -> ExitCode {
    die_with_parent(rustix::process::getppid());
    let mut line = String::new();
    let spec = io::stdin().read_line(&mut line).ok().and_then(|_| serde_json::from_str(&line).ok());
    let Some(LoadSpec::Http(http)) = spec else { return ExitCode::from(2) };
    match serde_json::to_string(&drive(&http)) {
        Ok(report) if writeln!(io::stdout(), "{report}").is_ok() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn drive(http: &HttpLoad) -> LoadReport {
    let taken = AtomicU64::new(0);
    let began = Instant::now();
    let (mut all, mut errors) = (histogram(), 0);
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..http.connections).map(|_| scope.spawn(|| connection(http, &taken))).collect();
        for thread in threads {
            if let Ok((histogram, failed)) = thread.join() {
                let _ = all.add(histogram);
                errors += failed;
            }
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    let at = |share| all.value_at_quantile(share) as f64 / 1e6;
    let metrics = [
        ("latency.p50", at(0.5)),
        ("latency.p95", at(0.95)),
        ("latency.p99", at(0.99)),
        ("latency.max", all.max() as f64 / 1e6),
        ("throughput", all.len() as f64 / seconds),
        ("errors", errors as f64 / http.requests as f64),
    ];
    let flags = (errors * 100 > http.requests).then(|| LoadFlag {
        code: "errors".into(),
        severity: Severity::Fatal,
        message: format!("{errors} of {} requests had no correct response", http.requests),
    });
    LoadReport {
        completed: all.len(),
        errors,
        seconds,
        latency_hdr: None,
        metrics: metrics.map(|(name, value)| (name.to_owned(), value)).into(),
        flags: flags.into_iter().collect(),
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("these bounds are valid")
}

fn connection(http: &HttpLoad, taken: &AtomicU64) -> (Histogram<u64>, u64) {
    let (mut times, mut errors) = (histogram(), 0);
    let mut stream = None;
    loop {
        let number = taken.fetch_add(1, Ordering::Relaxed);
        if number >= http.requests {
            return (times, errors);
        }
        if number.is_multiple_of(100) {
            let _ = writeln!(io::stdout(), "{number}");
        }
        let began = Instant::now();
        match request(&mut stream, http) {
            Ok(()) => times.saturating_record(began.elapsed().as_micros() as u64),
            Err(_) => {
                errors += 1;
                stream = None;
            }
        }
    }
}

fn request(stream: &mut Option<BufReader<TcpStream>>, http: &HttpLoad) -> io::Result<()> {
    let rest = http.url.strip_prefix("http://").unwrap_or(&http.url);
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let reader = match stream {
        Some(reader) => reader,
        None => {
            let fresh = TcpStream::connect(host)?;
            fresh.set_read_timeout(Some(Duration::from_secs_f64(http.timeout_s)))?;
            fresh.set_nodelay(true)?;
            stream.insert(BufReader::new(fresh))
        }
    };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    reader.get_mut().write_all(request.as_bytes())?;
    let mut status = String::new();
    reader.read_line(&mut status)?;
    let (mut length, mut close, mut line) = (None, false, String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok();
        }
        close |= lower.starts_with("connection: close");
    }
    let length: u64 = length.ok_or(io::ErrorKind::InvalidData)?;
    io::copy(&mut reader.by_ref().take(length), &mut io::sink())?;
    if close {
        *stream = None;
    }
    if status.get(9..10) == Some("2") { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}
