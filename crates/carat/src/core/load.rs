//! What a load is, and what came out of it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// A load to drive against a server: plain data, sent as JSON to the generator's own process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LoadSpec {
    /// HTTP/1.1 requests.
    Http(HttpLoad),
    /// Action Cable connections and broadcasts.
    Cable(CableLoad),
}

impl LoadSpec {
    /// The same load with the files that it names looked for in `folder`, unless their paths are absolute.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Self {
        let options = match &mut self {
            Self::Http(load) => &mut load.options,
            Self::Cable(load) => &mut load.options,
        };
        options.ca = options.ca.take().map(|file| folder.join(file).display().to_string());
        self
    }
}

/// HTTP requests over kept-alive connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpLoad {
    /// Where the server is: `http://host:port`, `https://host:port` or `unix:/path/of.sock`.
    pub base: String,
    /// What is asked for; more than one is chosen by weight.
    pub routes: Vec<HttpRoute>,
    /// Connections open at once; with an open model the most that may be open.
    pub connections: u32,
    /// When a request is sent.
    pub pace: Pace,
    /// When to stop.
    pub amount: Amount,
    /// ConnectionOptions that rarely need a change.
    #[serde(default)]
    pub options: ConnectionOptions,
}

/// One kind of request and what counts as its right answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpRoute {
    /// Method in capitals.
    pub method: String,
    /// Path with its query, beginning with `/`.
    pub path: String,
    /// Header names and values; `Host` and `Content-Length` are added where absent.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// Body of the request.
    #[serde(default)]
    pub body: String,
    /// Share of the requests relative to the other routes.
    pub weight: u32,
    /// The only right status; without one every 2xx and 3xx is right.
    #[serde(default)]
    pub expect_status: Option<u16>,
    /// The only right body, byte for byte.
    #[serde(default)]
    pub expect_body: Option<String>,
}

impl HttpRoute {
    /// A plain `GET` of a path.
    pub fn get(path: &str) -> Self {
        Self {
            method: "GET".to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: String::new(),
            weight: 1,
            expect_status: None,
            expect_body: None,
        }
    }
}

/// When the next request or broadcast is sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "pace", rename_all = "snake_case")]
pub enum Pace {
    /// When an earlier one is answered: as many at once as there are connections, or as said by `at_once`.
    Closed {
        /// Broadcasts under way at once; HTTP uses its connections.
        at_once: u32,
    },
    /// At set moments, whatever the server does.
    Open {
        /// Sends per second.
        per_second: f64,
        /// How the moments are spread.
        arrivals: Arrivals,
    },
}

/// How the moments of an open load are spread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Evenly.
    #[default]
    Fixed,
    /// As independent users arrive: exponential gaps, drawn from the seed.
    Poisson,
}

/// When a load ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// After that many requests.
    Requests(u64),
    /// After that many seconds.
    Seconds(f64),
}

/// ConnectionOptions of a load that rarely need a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionOptions {
    /// Seconds after which an unanswered request, handshake or broadcast is an error.
    pub timeout_s: f64,
    /// Threads that share the connections.
    pub threads: u32,
    /// Least microseconds between two wake-ups; arrival times are the kernel's, so waiting costs no accuracy.
    /// `None`: 1,000 where nothing waits for our answer, 0 where the next send does.
    pub quantum_us: Option<u32>,
    /// Seed of everything random.
    pub seed: u64,
    /// File of certificates (PEM) that may sign the server's; without one those that the system trusts.
    pub ca: Option<String>,
    /// Accept any certificate.
    pub insecure: bool,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self { timeout_s: 30.0, threads: 1, quantum_us: None, seed: 1, ca: None, insecure: false }
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
    /// Value of `action` in the answer that only the sender receives; `None`: the channel sends none.
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
    /// Value of the `Origin` header; the server's own address where absent.
    pub origin: Option<String>,
    /// Headers of the handshake.
    pub headers: Vec<(String, String)>,
    /// Seconds without a message after which a connection is stale.
    pub stale_s: f64,
    /// Whether a stale connection is opened anew, as browsers do.
    pub reopen_stale: bool,
    /// Seconds to keep listening after the last broadcast, so that duplicates are seen.
    pub linger_s: f64,
    /// ConnectionOptions that rarely need a change.
    #[serde(default)]
    pub options: ConnectionOptions,
}

impl CableLoad {
    /// Threads that share the connections: as many as asked for, and every one has a connection in every step.
    pub fn threads(&self) -> u32 {
        self.options.threads.clamp(1, self.step_size.max(1))
    }
}

/// What ends a broadcast in a closed load, so that the next may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BroadcastEnd {
    /// Every subscriber has it.
    Everyone,
    /// The sender has its own result, as websocket-bench has it.
    Own,
}

/// How the payload of a broadcast is made up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PayloadShape {
    /// One string.
    #[default]
    String,
    /// An object of two strings, `sendTime` and `padding`.
    Object,
}

/// How bad a finding about the generator itself is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// The figures may be off.
    Warning,
    /// The figures mean nothing.
    Fatal,
}

/// A finding about the load, with a stable code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadFlag {
    /// Stable code, such as `errors` or `late-sends`.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// What was seen and what to do.
    pub message: String,
}

/// What came out of a load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Correct responses or deliveries.
    pub completed: u64,
    /// Requests without a correct response, or deliveries that never came.
    pub errors: u64,
    /// Seconds from the first send to the last response.
    pub seconds: f64,
    /// Start and end of the measured load in milliseconds of `CLOCK_MONOTONIC`, which every process of a machine shares.
    #[serde(default)]
    pub window_ms: Option<(u64, u64)>,
    /// Latency from the intended send, in microseconds, HdrHistogram V2, base64; absent where nothing completed.
    pub latency_hdr: Option<String>,
    /// Latency from the actual send, likewise.
    #[serde(default)]
    pub service_hdr: Option<String>,
    /// Errors by kind.
    #[serde(default)]
    pub errors_by: BTreeMap<String, u64>,
    /// Metrics by name, in the units of the metric list.
    pub metrics: BTreeMap<String, f64>,
    /// The generator's own cost.
    #[serde(default)]
    pub own: OwnCost,
    /// Steps of a cable load, in order.
    #[serde(default)]
    pub steps: Vec<StepReport>,
    /// Findings about the generator and the load.
    pub flags: Vec<LoadFlag>,
}

impl LoadReport {
    /// Whether a finding says that the figures mean nothing.
    pub fn is_invalid(&self) -> bool {
        self.flags.iter().any(|flag| flag.severity == Severity::Fatal)
    }
}

/// What the generator itself used and how far it lagged behind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnCost {
    /// Processor seconds, user and system, over the measured load.
    pub cpu_s: f64,
    /// Largest share of one core that a thread used in any second.
    pub cpu_share_max: f64,
    /// Processor microseconds per response or received frame.
    pub cpu_us_per_message: Option<f64>,
    /// Peak resident memory in bytes; `None` where the kernel does not say.
    pub rss_peak: Option<u64>,
    /// Median and 99th percentile in seconds from the kernel's receipt to our reading; `None` without stamps.
    pub lag: Option<(f64, f64)>,
    /// Median and 99th percentile in seconds from the intended to the actual send; `None` in a closed load.
    pub late: Option<(f64, f64)>,
    /// Seconds that a thread was ready to run but waited for a core.
    pub run_delay_s: Option<f64>,
    /// Messages received.
    pub messages: u64,
    /// Share of messages whose arrival is only bounded, because several came in one read.
    pub bounded: f64,
}

/// One step of a cable load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// Subscribed connections when the step's broadcasts began.
    pub clients: u32,
    /// Seconds that it took to add the step's connections.
    pub ramp_s: f64,
    /// Start and end of the step's broadcasts in milliseconds of `CLOCK_MONOTONIC`.
    pub window_ms: (u64, u64),
    /// Every distribution of the step by name: `complete`, `delivery`, `first`, `own`, `ack`, `spread`, `connect`, `welcome`, `confirm`.
    pub times: BTreeMap<String, Times>,
    /// Deliveries that were due.
    pub expected: u64,
    /// Deliveries that came, duplicates not counted.
    pub received: u64,
    /// Deliveries that never came.
    pub missing: u64,
    /// Deliveries that came again.
    pub duplicate: u64,
    /// Every broadcast, in the order of sending.
    pub broadcasts: Vec<BroadcastRow>,
}

/// A distribution of durations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Shortest, in seconds.
    pub min: f64,
    /// Median, in seconds.
    pub p50: f64,
    /// 95th percentile, in seconds.
    pub p95: f64,
    /// 99th percentile, in seconds.
    pub p99: f64,
    /// Longest, in seconds.
    pub max: f64,
    /// The whole histogram in microseconds, HdrHistogram V2, base64.
    pub hdr: String,
}

/// What became of one broadcast; moments are microseconds after its intended send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct BroadcastRow {
    /// Its number in the run.
    pub number: u64,
    /// Index of the connection that sent it.
    pub sender: u32,
    /// Intended send, in microseconds of `CLOCK_MONOTONIC`.
    pub intended_us: u64,
    /// Actual send.
    pub sent_us: u64,
    /// First receipt by anybody.
    pub first_us: Option<u64>,
    /// Receipt by the sender.
    pub own_us: Option<u64>,
    /// The sender's result.
    pub ack_us: Option<u64>,
    /// Last receipt, where everybody has it.
    pub complete_us: Option<u64>,
    /// Subscribers when it was sent.
    pub expected: u32,
    /// Subscribers that received it.
    pub received: u32,
    /// Receipts beyond the first of a subscriber.
    pub duplicate: u32,
}
