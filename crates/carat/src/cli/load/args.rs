//! The options of `carat load`; every one can stand in an experiment file under the same name.

use crate::core::load::{Arrivals, BroadcastEnd, CableLoad, HttpLoad};
use crate::core::load_table::LoadTableError;
use crate::core::{CableTable, HttpTable, RouteTable, Span};
use clap::{Args, Subcommand, ValueEnum};

/// Drive a load against a server and report latency and errors
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  carat load http http://127.0.0.1:3000/hello -c 16 -d 30s
  carat load http http://127.0.0.1:3000/ -n 10000 --rate 200 --arrivals poisson
  carat load cable ws://127.0.0.1:3000/cable --steps 10 --step-size 100

Exit status: 0 the figures count, 1 the load could not be driven, 4 the figures mean nothing.")]
pub(crate) struct LoadArgs {
    /// What to drive
    #[command(subcommand)]
    pub kind: LoadKind,
}

/// What to drive.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum LoadKind {
    /// Send HTTP/1.1 requests over kept-alive connections
    Http(HttpArgs),
    /// Broadcast over Action Cable to a growing number of connections
    Cable(CableArgs),
    /// Run the built-in null server that the generator is calibrated with
    Null(NullArgs),
    /// Measure how much the generator can drive on this machine
    SelfTest(SelfTestArgs),
}

/// Options of `carat load null`.
#[derive(Debug, Clone, Args)]
pub(crate) struct NullArgs {
    /// Answer HTTP requests
    #[arg(long, conflicts_with = "cable", required_unless_present = "cable")]
    pub http: bool,
    /// Speak Action Cable
    #[arg(long)]
    pub cable: bool,
    /// Port; 0 lets the kernel choose, and the first line says which
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Bytes of every HTTP response's body
    #[arg(long, value_name = "BYTES", default_value_t = 13)]
    pub body: usize,
}

/// Options of `carat load self-test`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SelfTestArgs {
    /// How long each of the two tests runs
    #[arg(short, long, value_name = "SPAN", value_parser = Span::parse, default_value = "2s")]
    pub duration: Span,
    /// Action Cable connections
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub clients: u32,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of both kinds of load.
#[derive(Debug, Clone, Args)]
pub(crate) struct CommonArgs {
    /// How a rate is spread: evenly or as independent users arrive
    #[arg(long, value_enum, requires = "rate")]
    pub arrivals: Option<Spread>,
    /// How long to wait for an answer
    #[arg(long, value_name = "SPAN", value_parser = Span::parse, default_value = "30s")]
    pub timeout: Span,
    /// Least time between two wake-ups, for a generator that disturbs less; `0ms` turns it off
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    pub quantum: Option<Span>,
    /// Threads that share the connections
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: u32,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Certificates (PEM) that may sign the server's, instead of those that the system trusts
    #[arg(long, value_name = "FILE")]
    pub ca: Option<String>,
    /// Accept any certificate
    #[arg(long, conflicts_with = "ca")]
    pub insecure: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// How a rate is spread.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Spread {
    /// Evenly
    Fixed,
    /// With exponential gaps
    Poisson,
}

impl From<Spread> for Arrivals {
    fn from(spread: Spread) -> Self {
        match spread {
            Spread::Fixed => Self::Fixed,
            Spread::Poisson => Self::Poisson,
        }
    }
}

/// Options of `carat load http`.
#[derive(Debug, Clone, Args)]
pub(crate) struct HttpArgs {
    /// `http://host:port/path`, `https://…` or `unix:/path/of.sock`
    pub url: String,
    /// Connections open at once
    #[arg(short, long, value_name = "N", default_value_t = 8)]
    pub connections: u32,
    /// Requests in all
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration")]
    pub requests: Option<u64>,
    /// How long to send requests; 10s where neither this nor --requests is given
    #[arg(short, long, value_name = "SPAN", value_parser = Span::parse)]
    pub duration: Option<Span>,
    /// Requests per second whatever the server does; without it every connection waits for its answer
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// Path, where the URL has none (unix sockets)
    #[arg(long)]
    pub path: Option<String>,
    /// Further path, with its share: `3=/posts`; with at least one of these the URL's path is not asked for
    #[arg(long = "route", value_name = "WEIGHT=PATH", value_parser = parse_route)]
    pub routes: Vec<(u32, String)>,
    /// Method
    #[arg(short = 'X', long, default_value = "GET")]
    pub method: String,
    /// Header, as `Name: value`
    #[arg(short = 'H', long = "header", value_name = "HEADER", value_parser = parse_header)]
    pub headers: Vec<(String, String)>,
    /// Body of the request
    #[arg(long, default_value = "")]
    pub body: String,
    /// The only right status; without it every 2xx and 3xx is right
    #[arg(long, value_name = "STATUS")]
    pub expect_status: Option<u16>,
    /// The only right body
    #[arg(long, value_name = "TEXT")]
    pub expect_body: Option<String>,
    /// Options of every load
    #[command(flatten)]
    pub common: CommonArgs,
}

impl HttpArgs {
    /// The load that these options ask for.
    ///
    /// # Errors
    /// Where they contradict each other.
    pub(crate) fn load(&self) -> Result<HttpLoad, LoadTableError> {
        let (base, path) = split_url(&self.url);
        let route = |(weight, path): &(u32, String)| RouteTable {
            path: path.clone(),
            weight: *weight,
            ..RouteTable::default()
        };
        let table = HttpTable {
            path: self.path.clone().unwrap_or_else(|| path.to_owned()),
            routes: self.routes.iter().map(route).collect(),
            method: self.method.to_ascii_uppercase(),
            headers: self.headers.iter().cloned().collect(),
            body: self.body.clone(),
            expect_status: self.expect_status,
            expect_body: self.expect_body.clone(),
            connections: self.connections,
            requests: self.requests,
            duration: self.duration,
            warmup: None,
            rate: self.rate,
            arrivals: self.common.arrivals.map(Arrivals::from),
            timeout: self.common.timeout,
            threads: self.common.threads,
            quantum: self.common.quantum,
            seed: self.common.seed,
            tls: false,
            ca: self.common.ca.clone(),
            insecure: self.common.insecure,
        };
        table.load(base)
    }
}

/// Options of `carat load cable`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CableArgs {
    /// `ws://host:port/cable` or `wss://…`
    pub url: String,
    /// Channel class
    #[arg(long, default_value = "BenchmarkChannel")]
    pub channel: String,
    /// Action that broadcasts its payload to every subscriber
    #[arg(long, default_value = "broadcast")]
    pub action: String,
    /// `action` of the answer that only the sender receives; empty where the channel sends none
    #[arg(long, default_value = "broadcastResult")]
    pub result: String,
    /// Steps
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub steps: u32,
    /// Connections that every step adds
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub step_size: u32,
    /// Broadcasts per step
    #[arg(long, value_name = "N", default_value_t = 100, visible_alias = "sample-size")]
    pub broadcasts: u32,
    /// Broadcasts under way at once; 8 where no rate is given
    #[arg(long, value_name = "N", conflicts_with = "rate", visible_alias = "concurrent")]
    pub concurrency: Option<u32>,
    /// Broadcasts per second whatever the server does
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// Length of the payload in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 200, visible_alias = "payload-padding")]
    pub payload: u32,
    /// Send the payload as an object instead of a string
    #[arg(long)]
    pub payload_object: bool,
    /// Handshakes under way at once while connections are added
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub ramp: u32,
    /// How long a step may take until all of its connections are subscribed
    #[arg(long, value_name = "SPAN", value_parser = Span::parse, default_value = "120s")]
    pub ready_within: Span,
    /// Value of the Origin header; the server's own address without it
    #[arg(long)]
    pub origin: Option<String>,
    /// Header of the handshake, as `Name: value`
    #[arg(short = 'H', long = "header", value_name = "HEADER", value_parser = parse_header)]
    pub headers: Vec<(String, String)>,
    /// Open stale connections anew, as browsers do
    #[arg(long)]
    pub reopen_stale: bool,
    /// Measure and print as another tool does: closed, a broadcast ends with the sender's own result
    #[arg(long, value_enum, conflicts_with = "rate")]
    pub compat: Option<Compat>,
    /// Write every broadcast as a line of tab-separated values
    #[arg(long, value_name = "FILE")]
    pub rows: Option<std::path::PathBuf>,
    /// Options of every load
    #[command(flatten)]
    pub common: CommonArgs,
}

/// A tool whose definitions are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compat {
    /// hashrocket/websocket-shootout and its fork
    WebsocketBench,
}

impl CableArgs {
    /// The load that these options ask for.
    ///
    /// # Errors
    /// Where they contradict each other.
    pub(crate) fn load(&self) -> Result<CableLoad, LoadTableError> {
        let (base, path) = split_url(&self.url);
        let table = CableTable {
            path: path.to_owned(),
            channel: self.channel.clone(),
            action: self.action.clone(),
            result: self.result.clone(),
            steps: self.steps,
            step_size: self.step_size,
            broadcasts: self.broadcasts,
            concurrency: self.concurrency,
            rate: self.rate,
            arrivals: self.common.arrivals.map(Arrivals::from),
            payload: self.payload,
            payload_object: self.payload_object,
            ramp: self.ramp,
            ready_within: self.ready_within,
            origin: self.origin.clone(),
            headers: self.headers.iter().cloned().collect(),
            reopen_stale: self.reopen_stale,
            timeout: self.common.timeout,
            threads: self.common.threads,
            quantum: self.common.quantum,
            seed: self.common.seed,
            tls: false,
            ca: self.common.ca.clone(),
            insecure: self.common.insecure,
        };
        let mut load = table.load(base)?;
        if self.compat == Some(Compat::WebsocketBench) {
            load.ends = BroadcastEnd::Own;
        }
        Ok(load)
    }
}

/// The server and the path of a URL; a socket in the file system has no path.
fn split_url(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    if url.starts_with("unix:") {
        return (url, "/");
    }
    match url[host..].find('/') {
        Some(at) => url.split_at(host + at),
        None => (url, "/"),
    }
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once(':').ok_or("a header is written `Name: value`".to_owned())?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn parse_route(text: &str) -> Result<(u32, String), String> {
    let wrong = || "a route is written `WEIGHT=/path`, such as `3=/posts`".to_owned();
    let (weight, path) = text.split_once('=').ok_or_else(wrong)?;
    Ok((weight.parse().map_err(|_| wrong())?, path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_split_into_server_and_path() {
        for (url, base, path) in [
            ("http://h:1/a/b?c", "http://h:1", "/a/b?c"),
            ("http://h", "http://h", "/"),
            ("unix:/run/x.sock", "unix:/run/x.sock", "/"),
        ] {
            assert_eq!(split_url(url), (base, path));
        }
    }
}
