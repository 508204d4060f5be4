//! The options of an HTTP load, `[load.http]` or `carat load http`, and the load they describe.

use super::data::DataFile;
use super::options::{
    Arrivals, ConnectionOptions, ERRORS, LoadOptionError, MOST_CONNECTIONS, MOST_SENDS,
    MOST_THREADS, Pace, ProtocolOptions, TlsOptions, check_errors, check_most, check_path,
    headers_from_table, parse_header, sorted_headers,
};
use super::replay::{HttpReplay, ReplayFormat, ReplayPace};
use super::scenario::{HttpScenario, ScenarioOptions, ScenarioTable};
use crate::{Percent, Span};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Options of an HTTP load.
#[derive(Debug, Clone, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpOptions {
    /// Path with its query, if the URL has none
    #[arg(long, default_value_t = Self::default().path)]
    pub path: String,
    /// Further path with its weight, such as `3=/posts`; the URL's own path is not requested then
    #[arg(long = "route", value_name = "WEIGHT=PATH", value_parser = RouteOptions::parse)]
    pub routes: Vec<RouteOptions>,
    /// File with scenarios, or an experiment file: sessions of several steps instead of one request
    #[arg(long = "scenario", value_name = "FILE", conflicts_with = "routes")]
    #[serde(skip)]
    pub scenario_file: Option<PathBuf>,
    /// The scenarios themselves.
    #[arg(skip)]
    pub scenario: Vec<ScenarioOptions>,
    /// File of comma-separated values for the scenarios; each user has a row
    #[arg(long, value_name = "FILE", requires = "scenario_file")]
    pub data: Option<String>,
    /// Access log, HAR or OpenAPI file whose requests are sent instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["routes", "scenario_file", "urls"])]
    pub replay: Option<String>,
    /// List of paths or URLs that are requested instead: one per line, a method before it, a weight after it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["routes", "scenario_file"])]
    pub urls: Option<String>,
    /// Format of the replayed file, if its content does not show it
    #[arg(long, value_enum, value_name = "FORMAT", requires = "replay")]
    pub replay_format: Option<ReplayFormat>,
    /// Send at the recorded times: `recorded`, or a factor such as `2x` [default: as fast as the connections allow]
    #[arg(long, value_name = "PACE", value_parser = ReplayPace::parse, requires = "replay", conflicts_with = "rate")]
    pub pace: Option<ReplayPace>,
    /// Also replay requests that may change data, not only GET and HEAD
    #[arg(long)]
    pub all_methods: bool,
    /// Also replay the cookies and other private headers of a HAR
    #[arg(long)]
    pub private_headers: bool,
    /// Method
    #[arg(short = 'X', long, value_parser = parse_method, default_value_t = Self::default().method)]
    pub method: String,
    /// Header, as `Name: value`
    #[arg(short = 'H', long = "header", value_name = "HEADER", value_parser = parse_header)]
    #[serde(deserialize_with = "headers_from_table")]
    pub headers: Vec<(String, String)>,
    /// Body of the request
    #[arg(long, default_value_t)]
    pub body: String,
    /// The only correct status; without it every 2xx and 3xx is correct
    #[arg(long, value_name = "STATUS")]
    pub expect_status: Option<u16>,
    /// The only correct body
    #[arg(long, value_name = "TEXT")]
    pub expect_body: Option<String>,
    /// Connections open at once
    #[arg(short, long, value_name = "N", default_value_t = Self::default().connections)]
    pub connections: u32,
    /// Number of requests
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration")]
    pub requests: Option<u64>,
    /// How long to send requests [default: 10s without --requests]
    #[arg(short, long, value_name = "SPAN", value_parser = Span::parse)]
    pub duration: Option<Span>,
    /// Requests that are sent before the measured ones; a tenth of the load if absent.
    #[arg(skip)]
    pub warmup: Option<u64>,
    /// Requests per second, whatever the server does; without it every connection waits for its answer
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// How a rate is spread
    #[arg(long, value_enum, requires = "rate")]
    pub arrivals: Option<Arrivals>,
    /// Share of requests without a correct response above which the figures are invalid
    #[arg(long, value_name = "PERCENT", value_parser = Percent::parse, default_value_t = Self::default().errors)]
    pub errors: Percent,
    /// How long to wait for a response
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
}

impl Default for HttpOptions {
    fn default() -> Self {
        let ConnectionOptions { threads, seed, .. } = ConnectionOptions::default();
        Self {
            path: "/".to_owned(),
            routes: Vec::new(),
            scenario_file: None,
            scenario: Vec::new(),
            data: None,
            replay: None,
            urls: None,
            replay_format: None,
            pace: None,
            all_methods: false,
            private_headers: false,
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: String::new(),
            expect_status: None,
            expect_body: None,
            connections: 8,
            requests: None,
            duration: None,
            warmup: None,
            rate: None,
            arrivals: None,
            errors: ERRORS,
            timeout: Span::seconds(30),
            threads,
            quantum: None,
            seed,
            tls: false,
            ca: None,
            insecure: false,
        }
    }
}

/// One request of several.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteOptions {
    /// Path with its query.
    pub path: String,
    /// Share relative to the others.
    #[serde(default = "one")]
    pub weight: u32,
    /// Method in capitals; that of the whole load if absent.
    #[serde(default)]
    pub method: Option<String>,
    /// Headers beside those of the whole load.
    #[serde(default, deserialize_with = "headers_from_table")]
    pub headers: Vec<(String, String)>,
    /// Body; that of the whole load if absent.
    #[serde(default)]
    pub body: Option<String>,
    /// The only correct status.
    #[serde(default)]
    pub expect_status: Option<u16>,
    /// The only correct body.
    #[serde(default)]
    pub expect_body: Option<String>,
}

fn one() -> u32 {
    1
}

fn parse_method(text: &str) -> Result<String, String> {
    // Methods are case-sensitive (RFC 9110, 9.1); users write `post`.
    Ok(text.to_ascii_uppercase())
}

/// HTTP requests over kept-alive connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpLoad {
    /// Where the server is: `http://host:port`, `https://host:port` or `unix:/path/of.sock`.
    pub base: String,
    /// What is requested; several routes are chosen by weight. Of a replay: the headers and the correct response of every
    /// request.
    pub routes: Vec<HttpRoute>,
    /// Sessions of several steps instead of routes; each connection is a user.
    // Absent where there is none, so that plans from before this key keep their hash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<HttpScenario>,
    /// File with the users' values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataFile>,
    /// Recorded requests instead of routes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<HttpReplay>,
    /// Connections open at once; in an open load the most that may be open.
    pub connections: u32,
    /// When a request is sent.
    pub pace: Pace,
    /// When to stop.
    pub amount: Amount,
    /// Options that rarely need a change.
    #[serde(default)]
    pub options: ConnectionOptions,
}

/// One kind of request and its correct response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpRoute {
    /// Method in capitals.
    pub method: String,
    /// Path with its query, beginning with `/`.
    pub path: String,
    /// Header names and values; `Host` and `Content-Length` are added if absent.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// Body of the request.
    #[serde(default)]
    pub body: String,
    /// Share of the requests relative to the other routes.
    pub weight: u32,
    /// The only correct status; without one every 2xx and 3xx is correct.
    #[serde(default)]
    pub expect_status: Option<u16>,
    /// The only correct body, byte for byte.
    #[serde(default)]
    pub expect_body: Option<String>,
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

impl HttpOptions {
    /// The load against the server at `base`, such as `http://127.0.0.1:9292`.
    ///
    /// # Errors
    /// If the options contradict each other.
    pub fn load(&self, base: &str) -> Result<HttpLoad, LoadOptionError> {
        self.validate().map(|load| Self::at(load, base))
    }

    fn amount(&self) -> Result<Amount, LoadOptionError> {
        match (self.requests, self.duration) {
            (Some(_), Some(_)) => Err(LoadOptionError::Amount),
            // A load of nothing would end at once and have no figures.
            (Some(0), None) => Err(LoadOptionError::Zero("http.requests")),
            (Some(requests), None) => Ok(Amount::Requests(requests)),
            (None, Some(duration)) if duration.0.is_zero() => {
                Err(LoadOptionError::Zero("http.duration"))
            }
            (None, duration) => Ok(Amount::Seconds(duration.map_or(10.0, Span::as_seconds))),
        }
    }

    fn routes(&self) -> Vec<HttpRoute> {
        let own = HttpRoute {
            method: self.method.clone(),
            path: self.path.clone(),
            headers: sorted_headers(&self.headers),
            body: self.body.clone(),
            weight: 1,
            expect_status: self.expect_status,
            expect_body: self.expect_body.clone(),
        };
        // Scenarios have requests of their own, and an unused route would have a row.
        if !self.scenario.is_empty() {
            return Vec::new();
        }
        if self.routes.is_empty() {
            return vec![own];
        }
        self.routes.iter().map(|route| route.under(&own)).collect()
    }

    fn scenarios(&self) -> Result<Vec<HttpScenario>, LoadOptionError> {
        if !self.scenario.is_empty() && !self.routes.is_empty() {
            let message = "and routes exclude each other: keep one".to_owned();
            return Err(LoadOptionError::Scenario(message));
        }
        // Compared with the defaults: a flag that was not given cannot be told otherwise.
        let plain = Self::default();
        let has_request = self.method != plain.method || self.body != plain.body;
        let expects = self.expect_status.is_some() || self.expect_body.is_some();
        if !self.scenario.is_empty() && (has_request || expects) {
            let message = "excludes `method`, `body`, `expect_status` and `expect_body` beside it: steps have their own";
            return Err(LoadOptionError::Scenario(message.to_owned()));
        }
        if self.scenario.is_empty() && self.data.is_some() {
            let message = "is missing: `data` has values for scenarios; add one".to_owned();
            return Err(LoadOptionError::Scenario(message));
        }
        // No scenario could ever be chosen.
        if !self.scenario.is_empty() && self.scenario.iter().all(|one| one.weight == 0) {
            return Err(LoadOptionError::Zero("http.scenario.weight"));
        }
        let valid = self.scenario.iter().map(|scenario| scenario.validate(&self.headers));
        valid.collect::<Result<_, _>>().map_err(LoadOptionError::Scenario)
    }
}

impl HttpOptions {
    /// The file to replay, from `replay` or `urls`.
    fn replay(&self) -> Result<Option<HttpReplay>, LoadOptionError> {
        let (file, format) = match (&self.replay, &self.urls) {
            (Some(_), Some(_)) => {
                return Err(replay_error("and `urls` exclude each other: keep one"));
            }
            (Some(file), None) => (file, self.replay_format),
            (None, Some(file)) => (file, Some(ReplayFormat::Urls)),
            // Silently ignored keys would let a user believe that they act.
            (None, None) if self.has_replay_keys() => {
                let keys = "`replay_format`, `pace`, `all_methods` and `private_headers`";
                return Err(replay_error(&format!("is missing: {keys} are about a replayed file")));
            }
            (None, None) => return Ok(None),
        };
        let plain = Self::default();
        if !self.routes.is_empty() || !self.scenario.is_empty() {
            return Err(replay_error("and `routes` or `scenario` exclude each other: keep one"));
        }
        if self.method != plain.method || self.body != plain.body {
            return Err(replay_error("excludes `method` and `body`: the file has them"));
        }
        // Recorded times and a rate are two answers to the same question.
        if self.pace.is_some() && (self.rate.is_some() || self.urls.is_some()) {
            return Err(replay_error(
                "with `pace` excludes `rate` and `urls`: `pace` sends at the times of a log",
            ));
        }
        Ok(Some(HttpReplay {
            file: file.clone(),
            format,
            pace: self.pace.map(|pace| pace.0),
            all_methods: self.all_methods,
            private_headers: self.private_headers,
            sha256: None,
        }))
    }

    fn has_replay_keys(&self) -> bool {
        let chosen = self.replay_format.is_some() || self.pace.is_some();
        chosen || self.all_methods || self.private_headers
    }
}

fn replay_error(what: &str) -> LoadOptionError {
    LoadOptionError::Replay(what.to_owned())
}

impl ProtocolOptions for HttpOptions {
    type Load = HttpLoad;

    const ABOUT: &'static str = "Send HTTP/1.1 requests over kept-alive connections";
    const URL_HELP: &'static str = "`http://host:port/path`, `https://…` or `unix:/path/of.sock`";
    const SCHEMES: [&'static str; 2] = ["http", "https"];

    fn validate(&self) -> Result<HttpLoad, LoadOptionError> {
        if self.connections == 0 {
            return Err(LoadOptionError::Zero("http.connections"));
        }
        check_most([
            ("http.connections", self.connections.into(), MOST_CONNECTIONS),
            ("http.threads", self.threads.into(), MOST_THREADS),
            ("http.requests", self.requests.unwrap_or_default(), MOST_SENDS),
        ])?;
        let amount = self.amount()?;
        let routes = self.routes();
        for route in &routes {
            check_path(&route.path)?;
        }
        Ok(HttpLoad {
            base: String::new(),
            routes,
            scenarios: self.scenarios()?,
            // Any content for now: the digest is added when the experiment begins.
            data: self.data.clone().map(DataFile::Named),
            replay: self.replay()?,
            connections: self.connections,
            pace: Pace::new(self.rate, self.arrivals, self.connections)?,
            amount,
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

    fn at(load: HttpLoad, base: &str) -> HttpLoad {
        HttpLoad { base: base.to_owned(), ..load }
    }

    fn set_url_path(&mut self, path: &str) {
        // An explicit path wins over that of the URL.
        if self.path == Self::default().path {
            path.clone_into(&mut self.path);
        }
    }

    fn scenario_file(&self) -> Option<&Path> {
        self.scenario_file.as_deref()
    }

    fn set_scenarios(&mut self, table: ScenarioTable) {
        self.scenario = table.scenario;
        self.data = self.data.take().or(table.data);
        // A flag replaces the file's header of the same name.
        // Before the flags, because the last header of a name counts.
        self.headers.splice(0..0, table.headers);
    }

    fn tls_options(&self) -> TlsOptions<'_> {
        TlsOptions { tls: self.tls, ca: self.ca.as_deref(), insecure: self.insecure }
    }

    fn warmup(&self, load: &HttpLoad) -> Option<HttpLoad> {
        let amount = match (self.warmup, load.amount) {
            // A tenth of fewer than ten requests is none.
            (Some(0), _) | (None, Amount::Requests(..10)) => return None,
            (Some(requests), _) => Amount::Requests(requests),
            (None, Amount::Requests(requests)) => Amount::Requests(requests / 10),
            (None, Amount::Seconds(seconds)) => Amount::Seconds(seconds / 10.0),
        };
        Some(HttpLoad { amount, ..load.clone() })
    }

    fn requests(&self) -> Option<u64> {
        self.requests
    }
}

impl RouteOptions {
    /// Parses `WEIGHT=/path`.
    fn parse(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('=').and_then(|(weight, path)| {
            let path = path.to_owned();
            // Only the first `=`: a path may have a query.
            weight.parse().ok().map(|weight| Self { path, weight, ..Self::default() })
        });
        parsed.ok_or_else(|| "a route is written `WEIGHT=/path`, such as `3=/posts`".to_owned())
    }

    fn under(&self, load: &HttpRoute) -> HttpRoute {
        // A route's own header replaces the load's: names have no case (RFC 9110, 5.1).
        let is_replaced =
            |name: &str| self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let of_load = load.headers.iter().filter(|(name, _)| !is_replaced(name)).cloned();
        let headers = of_load.chain(sorted_headers(&self.headers));
        HttpRoute {
            method: self.method.clone().unwrap_or_else(|| load.method.clone()),
            path: self.path.clone(),
            headers: headers.collect(),
            body: self.body.clone().unwrap_or_else(|| load.body.clone()),
            weight: self.weight,
            expect_status: self.expect_status.or(load.expect_status),
            expect_body: self.expect_body.clone().or_else(|| load.expect_body.clone()),
        }
    }
}

impl Default for RouteOptions {
    fn default() -> Self {
        Self {
            path: "/".to_owned(),
            weight: 1,
            method: None,
            headers: Vec::new(),
            body: None,
            expect_status: None,
            expect_body: None,
        }
    }
}
