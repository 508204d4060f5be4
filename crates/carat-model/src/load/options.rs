//! What the options of all load protocols have in common.

pub(super) use super::headers::{headers_from_table, parse_header, sorted_headers};
use super::scenario::ScenarioTable;
use crate::Percent;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::path::Path;
use thiserror::Error;

/// The options of one protocol.
pub trait ProtocolOptions: clap::Args + Clone + Debug + Default {
    /// The validated load.
    type Load;

    /// What the load does, as help shows it.
    const ABOUT: &'static str;
    /// The forms of a URL, as help shows them.
    const URL_HELP: &'static str;
    /// URL schemes without and with TLS.
    const SCHEMES: [&'static str; 2];

    /// The load without its server.
    ///
    /// # Errors
    /// If the options contradict each other.
    fn validate(&self) -> Result<Self::Load, LoadOptionError>;

    /// A validated load against the server at `base`, such as `http://127.0.0.1:9292`.
    fn at(load: Self::Load, base: &str) -> Self::Load;

    /// Sets the whole URL, in a load whose server is not addressed by host and port.
    fn set_url(&mut self, _url: &str) {}

    /// Sets the path of a URL; an explicit path wins.
    fn set_url_path(&mut self, path: &str);

    /// Whether the server speaks TLS, and which certificates count.
    fn tls_options(&self) -> TlsOptions<'_>;

    /// The load that warms a server up before `load`.
    fn warmup(&self, _load: &Self::Load) -> Option<Self::Load> {
        None
    }

    /// The file of scenarios that a flag names.
    fn scenario_file(&self) -> Option<&Path> {
        None
    }

    /// Sets the scenarios that the file has.
    fn set_scenarios(&mut self, _table: ScenarioTable) {}

    /// The number of measured requests, if it is fixed.
    fn requests(&self) -> Option<u64> {
        None
    }

    /// The URL scheme for a server that an experiment starts.
    ///
    /// # Errors
    /// If the rules about certificates contradict each other.
    fn scheme(&self) -> Result<&'static str, LoadOptionError> {
        let [plain, secure] = Self::SCHEMES;
        let TlsOptions { tls, ca, insecure } = self.tls_options();
        match (tls, ca.is_some(), insecure) {
            // Rules about certificates without TLS would be ignored, and two rules contradict.
            (_, true, true) | (false, true, _) | (false, _, true) => Err(LoadOptionError::Tls),
            (tls, ..) => Ok(if tls { secure } else { plain }),
        }
    }
}

/// The options about TLS.
#[derive(Debug, Clone, Copy)]
pub struct TlsOptions<'a> {
    /// Whether the server speaks TLS.
    pub tls: bool,
    /// File of certificates that may sign the server's.
    pub ca: Option<&'a str>,
    /// Accept any certificate.
    pub insecure: bool,
}

/// Options that contradict each other.
#[derive(Debug, Error, PartialEq)]
pub enum LoadOptionError {
    /// No load or several.
    #[error(
        "[load] needs exactly one of [load.http], [load.cable], [load.sidekiq], [load.sql_queue] and [load.command]: say what to send"
    )]
    Kind,
    /// Two ways to end the load.
    #[error("load.http: requests and duration exclude each other: keep one")]
    Amount,
    /// A load of nothing.
    #[error("load.{0} must be more than 0")]
    Zero(&'static str),
    /// A load that no machine can drive.
    #[error("load.{0} must be at most {1}")]
    TooMuch(&'static str, u64),
    /// A rate that is not a number, or that no machine can send.
    #[error("load.rate must be a number of sends per second, at most {MOST_PER_SECOND}")]
    Rate,
    /// Not a path.
    #[error("load path `{0}` must start with `/`")]
    Path(String),
    /// Sidekiq jobs that are not described, or described twice.
    #[error("load.sidekiq {0}")]
    Jobs(String),
    /// Jobs in a database that are not described, or described twice.
    #[error("load.sql_queue {0}")]
    SqlQueue(String),
    /// Two ways to pace the load.
    #[error("load.cable: rate and concurrency exclude each other: keep one")]
    Pace,
    /// Certificates for a server without TLS, or two rules for them.
    #[error(
        "load: `ca` and `insecure` exclude each other and need `tls = true`: say which certificates count"
    )]
    Tls,
    /// A scenario that contradicts itself.
    #[error("load.http.scenario {0}")]
    Scenario(String),
    /// A replay that contradicts itself.
    #[error("load.http.replay {0}")]
    Replay(String),
    /// A share below nothing or above everything.
    #[error("load errors = \"{0}\" must be from 0% to 100%")]
    Errors(Percent),
    /// Arrivals without a rate.
    #[error("arrivals says how a rate is spread: add `rate`, or remove `arrivals`")]
    Arrivals,
}

/// The same of flags, which have no table: what is wrong with which, and what to give.
#[derive(Debug, Error, PartialEq)]
#[error("{}", self.text())]
pub struct LoadFlagError(pub LoadOptionError);

impl LoadFlagError {
    fn text(&self) -> String {
        // The flag has the name of the key, without the name of its table. What has a space is no key.
        let flag = |key: &str| {
            let name = key.rsplit('.').next().unwrap_or(key);
            (!key.contains(' ')).then(|| format!("--{}", name.replace('_', "-")))
        };
        match &self.0 {
            LoadOptionError::Zero(key) => flag(key).map(|flag| match flag.as_str() {
                "--requests" => format!(
                    "{flag} 0 sends nothing: give a number, such as {flag} 1000, or leave it out"
                ),
                "--jobs" => format!("{flag} 0 sends nothing: give a number, such as {flag} 1000"),
                "--duration" => format!("{flag} 0 sends nothing: give a time, such as {flag} 10s"),
                _ => format!("{flag} must be more than 0"),
            }),
            LoadOptionError::TooMuch(key, most) => {
                flag(key).map(|flag| format!("{flag} is too large: give at most {most}"))
            }
            _ => None,
        }
        .unwrap_or_else(|| self.0.to_string())
    }
}

/// When the next request or broadcast is sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "pace", rename_all = "snake_case")]
pub enum Pace {
    /// When an earlier one is answered.
    Closed {
        /// Broadcasts under way at once; HTTP uses its connections.
        at_once: u32,
    },
    /// At fixed times, whatever the server does.
    Open {
        /// Sends per second.
        per_second: f64,
        /// How the sends are spread.
        arrivals: Arrivals,
    },
}

impl Pace {
    pub(super) fn new(
        rate: Option<f64>,
        arrivals: Option<Arrivals>,
        at_once: u32,
    ) -> Result<Self, LoadOptionError> {
        match (rate, arrivals) {
            // Zero and below first, for the better message; NaN fails both comparisons.
            (Some(per_second), _) if per_second <= 0.0 => Err(LoadOptionError::Zero("rate")),
            // The schedule counts nanoseconds, so a higher rate has no distance between sends.
            (Some(per_second), _) if per_second.is_nan() || per_second > MOST_PER_SECOND => {
                Err(LoadOptionError::Rate)
            }
            (Some(per_second), arrivals) => {
                Ok(Self::Open { per_second, arrivals: arrivals.unwrap_or_default() })
            }
            (None, Some(_)) => Err(LoadOptionError::Arrivals),
            (None, None) => Ok(Self::Closed { at_once }),
        }
    }
}

/// How the sends of an open load are spread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Evenly
    #[default]
    Fixed,
    /// Like independent users: with exponential gaps, drawn from the seed
    Poisson,
}

/// Options of a validated load that rarely need a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionOptions {
    /// Seconds after which an unanswered request, handshake or broadcast is an error.
    pub timeout_s: f64,
    /// Threads that share the connections.
    pub threads: u32,
    /// Least microseconds between two wake-ups; arrival times are the kernel's, so waiting costs no accuracy.
    /// `None`: 1,000 if nothing waits for the generator's answer, 0 if the next send does.
    pub quantum_us: Option<u32>,
    /// Seed of everything random.
    pub seed: u64,
    /// File of certificates (PEM) that may sign the server's; the system's if `None`.
    pub ca: Option<String>,
    /// Accept any certificate.
    pub insecure: bool,
    /// Share of errors above which the figures are invalid, as a fraction.
    // Absent where it is the usual one, so that plans from before this key keep their hash.
    #[serde(skip_serializing_if = "is_usual_share")]
    pub errors: f64,
}

/// Most sends per second. The generator's clock counts nanoseconds.
const MOST_PER_SECOND: f64 = 1e9;
/// Most connections: more than Linux gives one process by default (`fs.nr_open`).
pub(super) const MOST_CONNECTIONS: u64 = 1_000_000;
/// Most threads that share the connections.
pub(super) const MOST_THREADS: u64 = 1_024;
/// Most requests, jobs or broadcasts: a year of a million per second has 30 times as many.
pub(super) const MOST_SENDS: u64 = 1_000_000_000_000;

/// Checks that each of these values, which have the names of their keys, is at most the given one.
pub(super) fn check_most(
    limits: impl IntoIterator<Item = (&'static str, u64, u64)>,
) -> Result<(), LoadOptionError> {
    let mut limits = limits.into_iter();
    match limits.find(|(_, value, most)| value > most) {
        Some((name, _, most)) => Err(LoadOptionError::TooMuch(name, most)),
        None => Ok(()),
    }
}

/// Share of errors above which the figures of a load are invalid, unless the load sets another.
pub(super) const ERRORS: Percent = Percent(0.01);

fn is_usual_share(errors: &f64) -> bool {
    // Exactly equal: both come from the same constant, or the user set another.
    *errors == ERRORS.0
}

/// A share of errors that can be a limit.
pub(super) fn check_errors(errors: Percent) -> Result<f64, LoadOptionError> {
    // The range also refuses NaN.
    let valid = (0.0..=1.0).contains(&errors.0);
    if valid { Ok(errors.0) } else { Err(LoadOptionError::Errors(errors)) }
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            timeout_s: 30.0,
            threads: 1,
            quantum_us: None,
            seed: 1,
            ca: None,
            insecure: false,
            errors: ERRORS.0,
        }
    }
}

pub(super) fn check_path(path: &str) -> Result<(), LoadOptionError> {
    if path.starts_with('/') { Ok(()) } else { Err(LoadOptionError::Path(path.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_typed_flags_reads_of_flags_and_what_to_give_instead() {
        for (error, expected) in [
            (
                LoadOptionError::Zero("http.requests"),
                "--requests 0 sends nothing: give a number, such as --requests 1000, or leave it out",
            ),
            (LoadOptionError::Zero("sidekiq.at_once"), "--at-once must be more than 0"),
            (
                LoadOptionError::TooMuch("http.connections", 9),
                "--connections is too large: give at most 9",
            ),
        ] {
            assert_eq!(LoadFlagError(error).to_string(), expected);
        }
        let product = LoadFlagError(LoadOptionError::TooMuch("cable: steps times step_size", 9));
        assert_eq!(product.to_string(), product.0.to_string());
    }
}
