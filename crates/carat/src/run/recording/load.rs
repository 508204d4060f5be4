//! The load that a recording drives, so that growth is reported per request.

use crate::config::ReadyCheck;
use crate::run::recording::RecordError;
use crate::run::recording::recorder::Recorder;
use crate::target::{LogSearch, check_ready};
use carat_load::target::resolve;
use carat_load::{Address, Generator, check};
use carat_model::load::{HttpLoad, LoadFlagError, LoadOptionError, ProtocolOptions, ScenarioTable};
use carat_model::recording::{MarkerKind, RecordedLoad, RecordedLoadPlan};
use carat_model::{HttpOptions, LoadReport, LoadSpec, Percent, Span};
use carat_proc::process::listeners;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// How long a server may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Timeout of one check. Samples wait for it.
const CHECK_TIMEOUT: Duration = Duration::from_millis(100);
/// Duration of a load that ends with the recording.
const UNLIMITED: Span = Span::seconds(365 * 24 * 3600);

/// The load that a recording requests.
#[derive(Debug)]
pub(crate) struct RecordingLoad {
    pub(crate) url: String,
    /// Requests per second; as many as the server answers if `None`.
    pub(crate) rate: Option<f64>,
    pub(crate) connections: Option<u32>,
    /// Number of requests after which the load ends.
    pub(crate) requests: Option<u64>,
    /// Sessions instead of the URL alone, and their file.
    pub(crate) scenarios: Option<(ScenarioTable, String)>,
    /// Options of a replay instead of the URL alone; the others are those of an ordinary load.
    pub(crate) replay: HttpOptions,
    /// Share of errors above which the figures are invalid.
    pub(crate) errors: Option<Percent>,
}

/// Waits until the server answers, then drives the load.
#[derive(Debug)]
pub(super) struct LoadDriver {
    url: String,
    check: ReadyCheck,
    address: SocketAddr,
    base: String,
    table: HttpOptions,
    plan: RecordedLoadPlan,
    limit: Option<Span>,
    /// A process outside the tree that answers, where none of the tree listens.
    answered_by: Option<u32>,
    state: DriverState,
}

#[derive(Debug)]
enum DriverState {
    /// The server has not answered yet; how it refused.
    Waiting(Option<Refusal>),
    Sending(Generator),
    Ended(Option<Box<LoadReport>>),
}

/// How the newest check before the load failed.
#[derive(Debug)]
struct Refusal {
    /// A predicate that follows "the server".
    words: String,
    /// Checks in a row that failed so.
    times: u32,
}

impl Refusal {
    /// This refusal, after an earlier one.
    fn after(earlier: Option<Self>, words: String) -> Self {
        let same = earlier.filter(|earlier| earlier.words == words);
        Self { words, times: same.map_or(1, |earlier| earlier.times.saturating_add(1)) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server {} (×{})", self.words, self.times)
    }
}

impl LoadDriver {
    /// # Errors
    /// If the URL cannot be resolved or the options contradict each other.
    pub(super) fn new(load: RecordingLoad, limit: Option<Span>) -> Result<Self, RecordError> {
        let target = resolve(&load.url)?;
        // The check before the load speaks plain HTTP to an address.
        let (Address::Inet(address), None) = (target.address, target.tls_name) else {
            return Err(RecordError::LoadUrl(load.url));
        };
        let base = load.url.strip_suffix(&target.path).unwrap_or(&load.url).to_owned();
        let mut plan = RecordedLoadPlan {
            connections: load.connections,
            requests: load.requests,
            rate: load.rate,
            scenario: None,
            replay: load.replay.replay.clone(),
        };
        let mut table = HttpOptions { path: target.path.clone(), ..load.replay };
        if let Some((scenarios, file)) = load.scenarios {
            table.set_scenarios(scenarios);
            plan.scenario = Some(file);
        }
        table.requests = load.requests;
        table.rate = load.rate;
        table.errors = load.errors.unwrap_or(table.errors);
        table.connections = load.connections.unwrap_or(table.connections);
        let driver = Self {
            url: load.url,
            check: ReadyCheck::Http(target.path),
            address,
            base,
            table,
            plan,
            limit,
            answered_by: None,
            state: DriverState::Waiting(None),
        };
        // Now, because a wrong option must not be found only after the server has started.
        let spec = driver
            .spec(Duration::ZERO)
            .map_err(|error| RecordError::LoadOptions(LoadFlagError(error)))?;
        check(&LoadSpec::Http(spec))?;
        Ok(driver)
    }

    /// One short step. Returns why the recording ends, if it does.
    pub(super) fn step(&mut self, recorder: &mut Recorder<'_>) -> Option<String> {
        match &mut self.state {
            DriverState::Waiting(_) => self.start(recorder),
            DriverState::Sending(generator) => {
                recorder.requests = Some(generator.done());
                let (report, end) = match generator.poll() {
                    Ok(None) => return None,
                    Ok(Some(report)) => {
                        recorder.requests = Some(report.completed + report.errors);
                        (Some(Box::new(report)), "the load was over".to_owned())
                    }
                    Err(error) => (None, error.to_string()),
                };
                recorder.mark(MarkerKind::LoadEnds);
                self.state = DriverState::Ended(report);
                Some(end)
            }
            DriverState::Ended(_) => None,
        }
    }

    pub(super) fn is_sending(&self) -> bool {
        matches!(self.state, DriverState::Sending(_))
    }

    /// Why growth per request may say nothing of the tree.
    pub(super) fn doubt(&self) -> Option<String> {
        let (address, other) = (self.address, self.answered_by?);
        Some(format!(
            "no process of the tree listens on {address}, process {other} does: unless that hands the requests on, \
             what is said per request says nothing of the tree"
        ))
    }

    /// A process that listens where the load goes, if none of the tree does. A proxy may stand before the tree, so it is no error.
    fn other_listener(&self, recorder: &mut Recorder<'_>) -> Option<u32> {
        // Of another host or network nothing is known.
        let listening = match self.address.ip().is_loopback() {
            true => listeners(recorder.tree.root(), self.address.port()),
            false => Vec::new(),
        };
        let members = recorder.tree.members();
        let is_own = |pid: &u32| members.iter().any(|member| member.pid == *pid);
        listening.first().copied().filter(|_| !listening.iter().any(is_own))
    }

    /// Ends the load, even if it is not complete. Returns also why it never began.
    pub(super) fn end(self) -> (RecordedLoad, Option<String>) {
        let (report, refusal) = match self.state {
            DriverState::Ended(report) => (report.map(|report| *report), None),
            DriverState::Waiting(refusal) => (None, refusal.map(|refusal| refusal.to_string())),
            DriverState::Sending(_) => (None, None),
        };
        (RecordedLoad { url: self.url, report, plan: self.plan }, refusal)
    }

    fn start(&mut self, recorder: &mut Recorder<'_>) -> Option<String> {
        let elapsed = recorder.tree.elapsed();
        // No log is searched: the check is a request.
        let checked =
            check_ready(&self.check, self.address, &mut LogSearch::new(""), CHECK_TIMEOUT);
        if let Err(not_ready) = checked {
            if let DriverState::Waiting(refusal) = &mut self.state {
                let refused = Refusal::after(refusal.take(), not_ready.0.clone());
                recorder.load_waits = Some(refused.to_string());
                *refusal = Some(refused);
            }
            let within = READY_WITHIN.as_secs();
            return (elapsed > READY_WITHIN)
                .then(|| format!("after {within} s the server still {}", not_ready.0));
        }
        recorder.load_waits = None;
        let spec = match self.spec(elapsed) {
            Ok(spec) => LoadSpec::Http(spec),
            Err(error) => return Some(error.to_string()),
        };
        match recorder.tree.spawn_generator(&spec) {
            Ok(generator) => {
                recorder.mark(MarkerKind::LoadBegins);
                self.answered_by = self.other_listener(recorder);
                self.state = DriverState::Sending(generator);
                None
            }
            Err(error) => Some(error.to_string()),
        }
    }

    /// The load for the remaining time.
    fn spec(&self, elapsed: Duration) -> Result<HttpLoad, LoadOptionError> {
        let left = self.limit.map_or(UNLIMITED, |limit| {
            Span(limit.0.saturating_sub(elapsed).max(Duration::from_millis(1)))
        });
        let duration = self.table.requests.is_none().then_some(left);
        HttpOptions { duration, ..self.table.clone() }.load(&self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_answer_of_the_server_and_how_often_it_came() {
        let not_found = || "answers /nope with status 404".to_owned();
        let silent = Refusal::after(None, "does not listen on 127.0.0.1:9".into());
        assert_eq!(silent.to_string(), "the server does not listen on 127.0.0.1:9 (×1)");
        let first = Refusal::after(Some(silent), not_found());
        let second = Refusal::after(Some(first), not_found());
        assert_eq!(second.to_string(), "the server answers /nope with status 404 (×2)");
    }
}
