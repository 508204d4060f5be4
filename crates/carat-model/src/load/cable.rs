//! The options of an Action Cable load, `[load.cable]` or `carat load cable`, and the load they describe.

use super::options::{
    Arrivals, ConnectionOptions, ERRORS, LoadOptionError, MOST_CONNECTIONS, MOST_THREADS, Pace,
    ProtocolOptions, TlsOptions, check_errors, check_most, check_path, headers_from_table,
    parse_header, sorted_headers,
};
use crate::{Percent, Span};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The shortest payload in bytes: the token that identifies a broadcast.
pub const PAYLOAD_MIN: u32 = 32;
/// Most bytes of a payload.
const MOST_PAYLOAD: u64 = 64 << 20;
/// Most broadcasts of a step, each of which is kept until the end.
const MOST_BROADCASTS: u64 = 10_000_000;

/// Options of an Action Cable load.
#[derive(Debug, Clone, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CableOptions {
    /// Path of the cable; a URL has its own.
    #[arg(skip = Self::default().path)]
    pub path: String,
    /// Channel class
    #[arg(long, default_value_t = Self::default().channel)]
    pub channel: String,
    /// Action that broadcasts its payload to every subscriber
    #[arg(long, default_value_t = Self::default().action)]
    pub action: String,
    /// `action` of the answer that only the sender receives; empty if the channel sends none
    #[arg(long, default_value_t = Self::default().result)]
    pub result: String,
    /// Steps
    #[arg(long, value_name = "N", default_value_t = Self::default().steps)]
    pub steps: u32,
    /// Connections that every step adds
    #[arg(long, value_name = "N", default_value_t = Self::default().step_size)]
    pub step_size: u32,
    /// Broadcasts per step
    #[arg(long, value_name = "N", visible_alias = "sample-size", default_value_t = Self::default().broadcasts)]
    pub broadcasts: u32,
    /// Broadcasts under way at once [default: 8 without --rate]
    #[arg(long, value_name = "N", conflicts_with = "rate", visible_alias = "concurrent")]
    pub concurrency: Option<u32>,
    /// Broadcasts per second, whatever the server does
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// How a rate is spread
    #[arg(long, value_enum, requires = "rate")]
    pub arrivals: Option<Arrivals>,
    /// Length of the payload in bytes
    #[arg(long, value_name = "BYTES", visible_alias = "payload-padding", default_value_t = Self::default().payload)]
    pub payload: u32,
    /// Send the payload as an object instead of a string
    #[arg(long)]
    pub payload_object: bool,
    /// Handshakes under way at once while connections are added
    #[arg(long, value_name = "N", default_value_t = Self::default().ramp)]
    pub ramp: u32,
    /// How long a step may take until all of its connections are subscribed
    #[arg(long, value_name = "SPAN", value_parser = Span::parse, default_value_t = Self::default().ready_within)]
    pub ready_within: Span,
    /// Value of the Origin header [default: the server's own address]
    #[arg(long)]
    pub origin: Option<String>,
    /// Header of the handshake, as `Name: value`
    #[arg(short = 'H', long = "header", value_name = "HEADER", value_parser = parse_header)]
    #[serde(deserialize_with = "headers_from_table")]
    pub headers: Vec<(String, String)>,
    /// Reopen stale connections, as browsers do
    #[arg(long)]
    pub reopen_stale: bool,
    /// Share of missing, duplicate or late deliveries, or lost connections, above which the figures are invalid
    #[arg(long, value_name = "PERCENT", value_parser = Percent::parse, default_value_t = Self::default().errors)]
    pub errors: Percent,
    /// How long to wait for a handshake, and for a broadcast to reach every subscriber
    #[arg(long, value_name = "SPAN", value_parser = Span::parse, default_value_t = Self::default().timeout)]
    pub timeout: Span,
    /// Threads that share the connections
    #[arg(long, value_name = "N", default_value_t = Self::default().threads)]
    pub threads: u32,
    /// Least time between two wake-ups of the generator, which disturbs less; `0ms` turns it off
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    pub quantum: Option<Span>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = Self::default().seed)]
    pub seed: u64,
    /// Whether the server speaks TLS; only for a server that an experiment starts, a URL has a scheme.
    #[arg(skip)]
    pub tls: bool,
    /// Certificates (PEM) that may sign the server's, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<String>,
    /// Accept any certificate
    #[arg(long, conflicts_with = "ca")]
    pub insecure: bool,
    /// Measure and print like another tool: closed, a broadcast ends with the sender's own result
    #[arg(long, value_enum, conflicts_with = "rate")]
    #[serde(skip)]
    pub compat: Option<Compat>,
    /// Write every broadcast as a line of tab-separated values
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub rows: Option<PathBuf>,
}

/// A tool whose definitions are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compat {
    /// hashrocket/websocket-shootout and its fork
    WebsocketBench,
}

impl Default for CableOptions {
    fn default() -> Self {
        let ConnectionOptions { threads, seed, .. } = ConnectionOptions::default();
        Self {
            path: "/cable".to_owned(),
            channel: "BenchmarkChannel".to_owned(),
            action: "broadcast".to_owned(),
            result: "broadcastResult".to_owned(),
            steps: 10,
            step_size: 100,
            broadcasts: 100,
            concurrency: None,
            rate: None,
            arrivals: None,
            payload: 200,
            payload_object: false,
            ramp: 32,
            ready_within: Span::seconds(120),
            origin: None,
            headers: Vec::new(),
            reopen_stale: false,
            errors: ERRORS,
            timeout: Span::seconds(60),
            threads,
            quantum: None,
            seed,
            tls: false,
            ca: None,
            insecure: false,
            compat: None,
            rows: None,
        }
    }
}

/// Action Cable connections in steps, and broadcasts at every step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CableLoad {
    /// `ws://host:port/cable`.
    pub url: String,
    /// Channel class; its JSON identifier is `{"channel":"…"}`.
    pub channel: String,
    /// Action that broadcasts its payload to every subscriber.
    pub action: String,
    /// Value of `action` in the answer that only the sender receives; `None` if the channel sends none.
    pub result: Option<String>,
    /// Steps.
    pub steps: u32,
    /// Connections that every step adds.
    pub step_size: u32,
    /// Broadcasts per step.
    pub broadcasts: u32,
    /// When a broadcast is sent.
    pub pace: Pace,
    /// What ends a broadcast in a closed load.
    pub ends: BroadcastEnd,
    /// Length of the payload in bytes.
    pub payload: u32,
    /// Whether the payload is a string or an object with `sendTime` and `padding`.
    pub shape: PayloadShape,
    /// Handshakes under way at once while connections are added.
    pub ramp: u32,
    /// Seconds that a step may take until all of its connections are subscribed.
    pub ready_s: f64,
    /// Value of the `Origin` header; the server's own address if absent.
    pub origin: Option<String>,
    /// Headers of the handshake.
    pub headers: Vec<(String, String)>,
    /// Seconds without a message after which a connection is stale.
    pub stale_s: f64,
    /// Whether a stale connection is reopened, as browsers do.
    pub reopen_stale: bool,
    /// Seconds to keep listening after the last broadcast, so that duplicates are counted.
    pub linger_s: f64,
    /// Options that rarely need a change.
    #[serde(default)]
    pub options: ConnectionOptions,
}

/// What ends a broadcast in a closed load, so that the next may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BroadcastEnd {
    /// Every subscriber has it.
    Everyone,
    /// The sender has its own result, as in websocket-bench.
    Own,
}

/// The form of a broadcast's payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PayloadShape {
    /// One string.
    #[default]
    String,
    /// An object of two strings, `sendTime` and `padding`.
    Object,
}

impl CableOptions {
    /// The load against the server at `base`, such as `ws://127.0.0.1:9292`.
    ///
    /// # Errors
    /// If the options contradict each other.
    pub fn load(&self, base: &str) -> Result<CableLoad, LoadOptionError> {
        self.validate().map(|load| Self::at(load, base))
    }

    fn check_most(&self) -> Result<(), LoadOptionError> {
        // Products of two numbers of 32 bits fit into 64.
        let connections = u64::from(self.steps) * u64::from(self.step_size);
        check_most([
            ("cable: steps times step_size", connections, MOST_CONNECTIONS),
            ("cable.broadcasts", self.broadcasts.into(), MOST_BROADCASTS),
            ("cable.payload", self.payload.into(), MOST_PAYLOAD),
            ("cable.threads", self.threads.into(), MOST_THREADS),
        ])
    }

    fn check_not_zero(&self) -> Result<(), LoadOptionError> {
        for (value, name) in [
            (self.steps, "steps"),
            (self.step_size, "step_size"),
            (self.broadcasts, "broadcasts"),
            (self.ramp, "ramp"),
            // Absent is not zero; the default applies then.
            (self.concurrency.unwrap_or(1), "concurrency"),
        ] {
            if value == 0 {
                return Err(LoadOptionError::Zero(name));
            }
        }
        Ok(())
    }
}

impl ProtocolOptions for CableOptions {
    type Load = CableLoad;

    const ABOUT: &'static str = "Broadcast over Action Cable to a growing number of connections";
    const URL_HELP: &'static str = "`ws://host:port/cable` or `wss://…`";
    const SCHEMES: [&'static str; 2] = ["ws", "wss"];

    /// The URL of the result is the path alone until [`ProtocolOptions::at`] puts the server before it.
    fn validate(&self) -> Result<CableLoad, LoadOptionError> {
        self.check_not_zero()?;
        self.check_most()?;
        check_path(&self.path)?;
        if self.rate.is_some() && self.concurrency.is_some() {
            return Err(LoadOptionError::Pace);
        }
        let own_end = self.compat == Some(Compat::WebsocketBench);
        Ok(CableLoad {
            url: self.path.clone(),
            channel: self.channel.clone(),
            action: self.action.clone(),
            // An empty name is how a user says that the channel sends no result.
            result: Some(self.result.clone()).filter(|result| !result.is_empty()),
            steps: self.steps,
            step_size: self.step_size,
            broadcasts: self.broadcasts,
            pace: Pace::new(self.rate, self.arrivals, self.concurrency.unwrap_or(8))?,
            ends: if own_end { BroadcastEnd::Own } else { BroadcastEnd::Everyone },
            // Below this length the token that identifies a broadcast would not fit.
            payload: self.payload.max(PAYLOAD_MIN),
            shape: if self.payload_object { PayloadShape::Object } else { PayloadShape::String },
            ramp: self.ramp,
            ready_s: self.ready_within.as_seconds(),
            origin: self.origin.clone(),
            headers: sorted_headers(&self.headers),
            // Action Cable pings every 3 s, and its client counts two missed pings as stale.
            stale_s: 6.0,
            reopen_stale: self.reopen_stale,
            // Long enough for a duplicate in the server's queue, short beside any step.
            linger_s: 0.2,
            options: ConnectionOptions {
                timeout_s: self.timeout.as_seconds(),
                threads: self.threads.max(1),
                quantum_us: self.quantum.map(Span::as_micros),
                seed: self.seed,
                ca: self.ca.clone(),
                insecure: self.insecure,
                errors: check_errors(self.errors)?,
            },
        })
    }

    fn at(load: CableLoad, base: &str) -> CableLoad {
        CableLoad { url: format!("{base}{}", load.url), ..load }
    }

    fn set_url_path(&mut self, path: &str) {
        path.clone_into(&mut self.path);
    }

    fn tls_options(&self) -> TlsOptions<'_> {
        TlsOptions { tls: self.tls, ca: self.ca.as_deref(), insecure: self.insecure }
    }
}
