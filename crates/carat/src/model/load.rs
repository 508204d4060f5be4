//! What a load is, and what came out of it.

use serde::{Deserialize, Serialize};

/// A load to drive against a server: plain data, sent as JSON to the generator's own process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LoadSpec {
    /// HTTP/1.1 requests.
    Http(HttpLoad),
}

/// HTTP requests from a fixed number of connections, each sending its next request when it has the response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpLoad {
    /// `http://host:port/path`.
    pub url: String,
    /// Connections open at once.
    pub connections: u32,
    /// Requests in all.
    pub requests: u64,
    /// Seconds after which an unanswered request is an error.
    pub timeout_s: f64,
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
    /// Correct responses.
    pub completed: u64,
    /// Requests without a correct response.
    pub errors: u64,
    /// Seconds from the first send to the last response.
    pub seconds: f64,
    /// Latency histogram in microseconds, HdrHistogram V2, base64; absent where nothing completed.
    pub latency_hdr: Option<String>,
    /// Metrics by name, in the units of the metric list.
    pub metrics: std::collections::BTreeMap<String, f64>,
    /// Findings about the generator and the load.
    pub flags: Vec<LoadFlag>,
}
