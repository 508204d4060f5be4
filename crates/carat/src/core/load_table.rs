//! The tables `[load.http]` and `[load.cable]` of an experiment file, and how they become a load.

use super::load::{
    Amount, Arrivals, BroadcastEnd, CableLoad, ConnectionOptions, HttpLoad, HttpRoute, LoadSpec,
    Pace, PayloadShape,
};
use crate::core::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// The table `[load]`: exactly one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadTable {
    /// HTTP requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpTable>,
    /// Action Cable broadcasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cable: Option<CableTable>,
}

/// A load table that makes no sense.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LoadTableError {
    /// Neither kind or both.
    #[error("[load] needs exactly one of [load.http] and [load.cable]: say what to send")]
    Kind,
    /// Two ways to say when to stop.
    #[error("load.http: requests and duration exclude each other: keep one")]
    Amount,
    /// A load of nothing.
    #[error("load.{0} must be more than 0")]
    Zero(&'static str),
    /// A path that is none.
    #[error("load path `{0}` must start with `/`")]
    Path(String),
    /// Two ways to pace.
    #[error("load.cable: rate and concurrency exclude each other: keep one")]
    Pace,
    /// Certificates for a server that shows none, or two rules for them.
    #[error(
        "load: `ca` and `insecure` exclude each other and need `tls = true`: say which certificates count"
    )]
    Tls,
    /// Spread without a rate.
    #[error("arrivals says how a rate is spread: add `rate`, or remove `arrivals`")]
    Arrivals,
}

impl LoadTable {
    /// The load against a server at `host:port`.
    ///
    /// # Errors
    /// Where the table contradicts itself.
    pub fn spec(&self, authority: &str) -> Result<LoadSpec, LoadTableError> {
        match (&self.http, &self.cable) {
            (Some(http), None) => http.load(&http.base(authority)?).map(LoadSpec::Http),
            (None, Some(cable)) => cable.load(&cable.base(authority)?).map(LoadSpec::Cable),
            _ => Err(LoadTableError::Kind),
        }
    }

    /// The load that warms the server up before it; `None` where there is none.
    ///
    /// # Errors
    /// Where the table contradicts itself.
    pub fn warmup(&self, authority: &str) -> Result<Option<LoadSpec>, LoadTableError> {
        let warmup = self.http.as_ref().map(|http| http.warmup(&http.base(authority)?));
        Ok(warmup.transpose()?.flatten().map(LoadSpec::Http))
    }
}

/// `[load.http]`: HTTP/1.1 requests over kept-alive connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpTable {
    /// Path with its query.
    pub path: String,
    /// Several requests by weight, instead of `path`.
    pub routes: Vec<RouteTable>,
    /// Method in capitals.
    pub method: String,
    /// Header names and values.
    pub headers: BTreeMap<String, String>,
    /// Body of the request.
    pub body: String,
    /// The only right status; without one every 2xx and 3xx is right.
    pub expect_status: Option<u16>,
    /// The only right body.
    pub expect_body: Option<String>,
    /// Connections open at once.
    pub connections: u32,
    /// Requests that are measured; excludes `duration`.
    pub requests: Option<u64>,
    /// How long requests are sent; excludes `requests`; 10 seconds where neither is given.
    pub duration: Option<Span>,
    /// Requests before that are not measured; a tenth of `requests` or of `duration` where absent.
    pub warmup: Option<u64>,
    /// Requests per second whatever the server does; without it every connection waits for its answer.
    pub rate: Option<f64>,
    /// How a rate is spread: `fixed` or `poisson`.
    pub arrivals: Option<Arrivals>,
    /// How long one request may take.
    pub timeout: Span,
    /// Threads that share the connections.
    pub threads: u32,
    /// Least time between two wake-ups of the generator.
    pub quantum: Option<Span>,
    /// Seed of everything random.
    pub seed: u64,
    /// Whether the server speaks TLS; only for a server that an experiment starts, a URL says so itself.
    #[serde(skip_serializing_if = "is_false")]
    pub tls: bool,
    /// File of certificates (PEM) that may sign the server's; without one those that the system trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Accept any certificate; excludes `ca`.
    #[serde(skip_serializing_if = "is_false")]
    pub insecure: bool,
}

/// One request of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteTable {
    /// Path with its query.
    pub path: String,
    /// Share relative to the others.
    #[serde(default = "one")]
    pub weight: u32,
    /// Method in capitals; the table's where absent.
    #[serde(default)]
    pub method: Option<String>,
    /// Further headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Body; the table's where absent.
    #[serde(default)]
    pub body: Option<String>,
    /// The only right status.
    #[serde(default)]
    pub expect_status: Option<u16>,
    /// The only right body.
    #[serde(default)]
    pub expect_body: Option<String>,
}

fn one() -> u32 {
    1
}

impl Default for RouteTable {
    fn default() -> Self {
        Self {
            path: "/".to_owned(),
            weight: 1,
            method: None,
            headers: BTreeMap::new(),
            body: None,
            expect_status: None,
            expect_body: None,
        }
    }
}

impl Default for HttpTable {
    fn default() -> Self {
        let options = ConnectionOptions::default();
        Self {
            path: "/".to_owned(),
            routes: Vec::new(),
            method: "GET".to_owned(),
            headers: BTreeMap::new(),
            body: String::new(),
            expect_status: None,
            expect_body: None,
            connections: 8,
            requests: None,
            duration: None,
            warmup: None,
            rate: None,
            arrivals: None,
            timeout: Span::seconds(30),
            threads: options.threads,
            quantum: None,
            seed: options.seed,
            tls: false,
            ca: None,
            insecure: false,
        }
    }
}

impl HttpTable {
    fn base(&self, authority: &str) -> Result<String, LoadTableError> {
        let scheme = scheme(["http", "https"], self.tls, self.ca.is_some(), self.insecure)?;
        Ok(format!("{scheme}://{authority}"))
    }

    /// The load against a server at `base`, such as `http://127.0.0.1:9292`.
    ///
    /// # Errors
    /// Where the table contradicts itself.
    pub fn load(&self, base: &str) -> Result<HttpLoad, LoadTableError> {
        if self.connections == 0 {
            return Err(LoadTableError::Zero("http.connections"));
        }
        let amount = self.amount()?;
        let routes = self.routes();
        for route in &routes {
            check_path(&route.path)?;
        }
        Ok(HttpLoad {
            base: base.to_owned(),
            routes,
            connections: self.connections,
            pace: pace(self.rate, self.arrivals, self.connections)?,
            amount,
            options: ConnectionOptions {
                ca: self.ca.clone(),
                insecure: self.insecure,
                ..options(self.timeout, self.threads, self.quantum, self.seed)
            },
        })
    }

    /// The requests that warm the server up before [`HttpTable::load`]; `None` where there are none.
    ///
    /// # Errors
    /// Where the table contradicts itself.
    pub fn warmup(&self, base: &str) -> Result<Option<HttpLoad>, LoadTableError> {
        let load = self.load(base)?;
        let amount = match (self.warmup, load.amount) {
            (Some(0), _) | (None, Amount::Requests(..10)) => return Ok(None),
            (Some(requests), _) => Amount::Requests(requests),
            (None, Amount::Requests(requests)) => Amount::Requests(requests / 10),
            (None, Amount::Seconds(seconds)) => Amount::Seconds(seconds / 10.0),
        };
        Ok(Some(HttpLoad { amount, ..load }))
    }

    fn amount(&self) -> Result<Amount, LoadTableError> {
        match (self.requests, self.duration) {
            (Some(_), Some(_)) => Err(LoadTableError::Amount),
            (Some(0), None) => Err(LoadTableError::Zero("http.requests")),
            (Some(requests), None) => Ok(Amount::Requests(requests)),
            (None, Some(duration)) if duration.0.is_zero() => {
                Err(LoadTableError::Zero("http.duration"))
            }
            (None, duration) => Ok(Amount::Seconds(duration.map_or(10.0, Span::as_seconds))),
        }
    }

    fn routes(&self) -> Vec<HttpRoute> {
        let own = HttpRoute {
            method: self.method.clone(),
            path: self.path.clone(),
            headers: self.headers.clone().into_iter().collect(),
            body: self.body.clone(),
            weight: 1,
            expect_status: self.expect_status,
            expect_body: self.expect_body.clone(),
        };
        if self.routes.is_empty() {
            return vec![own];
        }
        self.routes.iter().map(|route| route.under(&own)).collect()
    }
}

impl RouteTable {
    fn under(&self, table: &HttpRoute) -> HttpRoute {
        let headers = table.headers.iter().cloned().chain(self.headers.clone());
        HttpRoute {
            method: self.method.clone().unwrap_or_else(|| table.method.clone()),
            path: self.path.clone(),
            headers: headers.collect(),
            body: self.body.clone().unwrap_or_else(|| table.body.clone()),
            weight: self.weight,
            expect_status: self.expect_status.or(table.expect_status),
            expect_body: self.expect_body.clone().or_else(|| table.expect_body.clone()),
        }
    }
}

/// `[load.cable]`: Action Cable connections in steps, with broadcasts at every step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CableTable {
    /// Path of the cable.
    pub path: String,
    /// Channel class.
    pub channel: String,
    /// Action that broadcasts.
    pub action: String,
    /// `action` of the answer that only the sender receives; empty where the channel sends none.
    pub result: String,
    /// Steps.
    pub steps: u32,
    /// Connections that every step adds.
    pub step_size: u32,
    /// Broadcasts per step.
    pub broadcasts: u32,
    /// Broadcasts under way at once; excludes `rate`.
    pub concurrency: Option<u32>,
    /// Broadcasts per second whatever the server does; excludes `concurrency`.
    pub rate: Option<f64>,
    /// How a rate is spread: `fixed` or `poisson`.
    pub arrivals: Option<Arrivals>,
    /// Length of the payload in bytes.
    pub payload: u32,
    /// Send the payload as an object instead of a string.
    pub payload_object: bool,
    /// Handshakes under way at once while connections are added.
    pub ramp: u32,
    /// How long a step may take until all of its connections are subscribed.
    pub ready_within: Span,
    /// Value of the `Origin` header.
    pub origin: Option<String>,
    /// Headers of the handshake.
    pub headers: BTreeMap<String, String>,
    /// Open stale connections anew, as browsers do.
    pub reopen_stale: bool,
    /// How long a broadcast may take to reach everybody.
    pub timeout: Span,
    /// Threads that share the connections.
    #[serde(skip_serializing_if = "is_one")]
    pub threads: u32,
    /// Least time between two wake-ups of the generator.
    pub quantum: Option<Span>,
    /// Seed of everything random.
    pub seed: u64,
    /// Whether the server speaks TLS; only for a server that an experiment starts, a URL says so itself.
    #[serde(skip_serializing_if = "is_false")]
    pub tls: bool,
    /// File of certificates (PEM) that may sign the server's; without one those that the system trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Accept any certificate; excludes `ca`.
    #[serde(skip_serializing_if = "is_false")]
    pub insecure: bool,
}

impl Default for CableTable {
    fn default() -> Self {
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
            headers: BTreeMap::new(),
            reopen_stale: false,
            timeout: Span::seconds(60),
            threads: 1,
            quantum: None,
            seed: 1,
            tls: false,
            ca: None,
            insecure: false,
        }
    }
}

/// The shortest payload in bytes: the token that tells one broadcast from another.
pub const PAYLOAD_MIN: u32 = 32;

impl CableTable {
    fn base(&self, authority: &str) -> Result<String, LoadTableError> {
        let scheme = scheme(["ws", "wss"], self.tls, self.ca.is_some(), self.insecure)?;
        Ok(format!("{scheme}://{authority}"))
    }

    /// The load against a server at `base`, such as `ws://127.0.0.1:9292`.
    ///
    /// # Errors
    /// Where the table contradicts itself.
    pub fn load(&self, base: &str) -> Result<CableLoad, LoadTableError> {
        for (value, name) in [
            (self.steps, "steps"),
            (self.step_size, "step_size"),
            (self.broadcasts, "broadcasts"),
            (self.ramp, "ramp"),
            (self.concurrency.unwrap_or(1), "concurrency"),
        ] {
            if value == 0 {
                return Err(LoadTableError::Zero(name));
            }
        }
        check_path(&self.path)?;
        if self.rate.is_some() && self.concurrency.is_some() {
            return Err(LoadTableError::Pace);
        }
        let shape = if self.payload_object { PayloadShape::Object } else { PayloadShape::String };
        Ok(CableLoad {
            url: format!("{base}{}", self.path),
            channel: self.channel.clone(),
            action: self.action.clone(),
            result: Some(self.result.clone()).filter(|result| !result.is_empty()),
            steps: self.steps,
            step_size: self.step_size,
            broadcasts: self.broadcasts,
            pace: pace(self.rate, self.arrivals, self.concurrency.unwrap_or(8))?,
            ends: BroadcastEnd::Everyone,
            payload: self.payload.max(PAYLOAD_MIN),
            shape,
            ramp: self.ramp,
            ready_s: self.ready_within.as_seconds(),
            origin: self.origin.clone(),
            headers: self.headers.clone().into_iter().collect(),
            stale_s: 6.0,
            reopen_stale: self.reopen_stale,
            linger_s: 0.2,
            options: ConnectionOptions {
                ca: self.ca.clone(),
                insecure: self.insecure,
                ..options(self.timeout, self.threads, self.quantum, self.seed)
            },
        })
    }
}

fn options(timeout: Span, threads: u32, quantum: Option<Span>, seed: u64) -> ConnectionOptions {
    let quantum_us = quantum.map(|quantum| quantum.0.as_micros() as u32);
    let timeout_s = timeout.as_seconds();
    ConnectionOptions {
        timeout_s,
        threads: threads.max(1),
        quantum_us,
        seed,
        ..ConnectionOptions::default()
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_one(value: &u32) -> bool {
    *value == 1
}

/// The plain or the secure scheme, where the certificate rules make sense.
fn scheme(
    [plain, secure]: [&'static str; 2],
    tls: bool,
    ca: bool,
    insecure: bool,
) -> Result<&'static str, LoadTableError> {
    match (tls, ca, insecure) {
        (_, true, true) | (false, true, _) | (false, _, true) => Err(LoadTableError::Tls),
        (tls, ..) => Ok(if tls { secure } else { plain }),
    }
}

fn check_path(path: &str) -> Result<(), LoadTableError> {
    if path.starts_with('/') { Ok(()) } else { Err(LoadTableError::Path(path.to_owned())) }
}

fn pace(
    rate: Option<f64>,
    arrivals: Option<Arrivals>,
    at_once: u32,
) -> Result<Pace, LoadTableError> {
    match (rate, arrivals) {
        (Some(per_second), _) if per_second <= 0.0 => Err(LoadTableError::Zero("rate")),
        (Some(per_second), arrivals) => {
            Ok(Pace::Open { per_second, arrivals: arrivals.unwrap_or_default() })
        }
        (None, Some(_)) => Err(LoadTableError::Arrivals),
        (None, None) => Ok(Pace::Closed { at_once }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn table(text: &str) -> LoadTable {
        toml::from_str(text).expect("a table")
    }

    #[test]
    fn the_smallest_table_is_a_whole_load() {
        let LoadSpec::Http(http) = table("[http]\nrequests = 5").spec("h:1").unwrap() else {
            panic!("http");
        };
        assert_eq!((http.base.as_str(), http.connections), ("http://h:1", 8));
        assert_eq!(http.amount, Amount::Requests(5));
        let LoadSpec::Cable(cable) = table("[cable]").spec("h:1").unwrap() else { panic!("cable") };
        assert_eq!(cable.url, "ws://h:1/cable");
        assert_eq!(cable.pace, Pace::Closed { at_once: 8 });
    }

    #[test]
    fn a_table_that_contradicts_itself_is_refused() {
        for (text, error) in [
            ("", LoadTableError::Kind),
            ("[http]\n[cable]", LoadTableError::Kind),
            ("[http]\nrequests = 1\nduration = '1s'", LoadTableError::Amount),
            ("[http]\nrequests = 0", LoadTableError::Zero("http.requests")),
            ("[http]\nconnections = 0", LoadTableError::Zero("http.connections")),
            ("[http]\nrate = 0.0", LoadTableError::Zero("rate")),
            ("[http]\narrivals = \"poisson\"", LoadTableError::Arrivals),
            ("[cable]\nrate = 1.0\nconcurrency = 1", LoadTableError::Pace),
            ("[http]\npath = 'a'", LoadTableError::Path("a".into())),
            ("[cable]\nsteps = 0", LoadTableError::Zero("steps")),
            ("[http]\ninsecure = true", LoadTableError::Tls),
            ("[cable]\ntls = true\nca = 'a.pem'\ninsecure = true", LoadTableError::Tls),
        ] {
            assert_eq!(table(text).spec("h:1"), Err(error), "{text}");
        }
    }

    #[test]
    fn a_server_with_tls_is_asked_over_tls() {
        let spec = |text| table(text).spec("h:1").unwrap().in_folder(Path::new("/e"));
        let LoadSpec::Http(http) = spec("[http]\ntls = true\nca = 'a.pem'") else { panic!("http") };
        assert_eq!(
            (http.base.as_str(), http.options.ca.as_deref()),
            ("https://h:1", Some("/e/a.pem"))
        );
        let LoadSpec::Cable(cable) = spec("[cable]\ntls = true\ninsecure = true") else {
            panic!("cable");
        };
        assert_eq!((cable.url.as_str(), cable.options.insecure), ("wss://h:1/cable", true));
        let plain = toml::to_string(&HttpTable::default()).unwrap();
        assert!(!plain.contains("tls"), "the identity of an older experiment stays: {plain}");
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        assert!(toml::from_str::<LoadTable>("[http]\nrequest = 5").is_err());
        assert!(toml::from_str::<LoadTable>("[cable]\nstep = 5").is_err());
    }

    #[test]
    fn routes_inherit_what_they_do_not_say() {
        let table =
            table("[http]\nexpect_status = 200\n[[http.routes]]\npath = \"/a\"\nweight = 3");
        let LoadSpec::Http(http) = table.spec("h:1").unwrap() else { panic!("http") };
        assert_eq!((http.routes[0].weight, http.routes[0].expect_status), (3, Some(200)));
    }
}
