//! One connection of an HTTP load, and what all threads of the load share.

use crate::clock::MonotonicTime;
use crate::connections::{Connections, OpenPhase, ProtocolSession};
use crate::error::GeneratorError;
use crate::fault::SocketFault;
use crate::http::counts::{HttpCounts, RouteCounts};
use crate::http::failures::{RequestFailure, RequestProblem};
use crate::http::requests::RequestSet;
use crate::http::response::{ParsedResponse, ResponseParser};
use crate::http::scenario::{ScenarioSet, ScenarioUser};
use crate::target::{Target, resolve};
use carat_model::load::HttpLoad;
use std::sync::OnceLock;

/// What an open connection is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HttpPhase {
    #[default]
    Idle,
    /// Waiting for a response.
    Busy,
}

impl OpenPhase for HttpPhase {
    fn is_opening(self) -> bool {
        false
    }

    fn has_deadline(self) -> bool {
        self == Self::Busy
    }
}

/// One request that has to be answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct HttpJob {
    /// The row in which it is counted.
    pub(super) route: u16,
    /// Number of its prepared request; that of a step is written by its user.
    pub(super) request: u32,
    pub(super) intended: MonotonicTime,
    /// Whether it fell due while every connection was busy.
    pub(super) waited: bool,
    /// Whether it has already moved to a new connection.
    pub(super) retried: bool,
}

/// The HTTP side of one connection.
#[derive(Debug, Default)]
pub struct HttpSession {
    pub(super) job: Option<HttpJob>,
    pub(super) response: ResponseParser,
    /// Who goes through scenarios on this connection, in a load that has some.
    pub(super) user: Option<Box<ScenarioUser>>,
    /// Bytes of the request that the kernel has taken.
    pub(super) written: usize,
    /// Why the rest of the request cannot be sent.
    pub(super) broken: Option<SocketFault>,
    /// Responses since the connection was opened.
    pub(super) served: u64,
}

impl ProtocolSession for HttpSession {
    type Phase = HttpPhase;
}

pub(super) type HttpConnections<'a> = Connections<'a, HttpSession>;

/// What all threads of an HTTP load share.
#[derive(Debug)]
pub struct HttpShared {
    pub(super) load: HttpLoad,
    pub(super) requests: RequestSet,
    pub(super) scenarios: Option<ScenarioSet>,
    /// When the first thread began, from which all threads count their sends.
    epoch: OnceLock<MonotonicTime>,
}

impl HttpShared {
    pub(super) fn new(load: &HttpLoad, target: &Target) -> Result<Self, GeneratorError> {
        // The generator is a child of carat, so its environment is the one that carat was started with.
        let environment = |name: &str| std::env::var(name).ok();
        let requests = RequestSet::new(load, target, &environment);
        let scenarios = ScenarioSet::compile(load, target, &environment);
        Ok(Self {
            load: load.clone(),
            requests: requests.map_err(GeneratorError::Request)?,
            scenarios: scenarios.map_err(GeneratorError::Request)?,
            epoch: OnceLock::new(),
        })
    }

    /// When the first thread began; `now` if none has.
    pub(super) fn epoch(&self, now: MonotonicTime) -> MonotonicTime {
        // The first thread to begin decides, so that all threads have one schedule.
        *self.epoch.get_or_init(|| now)
    }

    /// A text from the server without the values of the environment that the load sends.
    pub(super) fn without_secrets(&self, text: String) -> String {
        let text = self.requests.without_secrets(text);
        match &self.scenarios {
            Some(set) => set.without_secrets(text),
            None => text,
        }
    }

    /// The counts of a thread, with a row for each route or step if there are several.
    pub(super) fn counts(&self) -> HttpCounts {
        let rows = match &self.scenarios {
            Some(set) => set.rows().count(),
            // A single route's figures are those of the whole load.
            None if self.requests.rows().len() > 1 => self.requests.rows().len(),
            None => 0,
        };
        HttpCounts { routes: vec![RouteCounts::default(); rows], ..HttpCounts::default() }
    }

    /// The only correct body of a prepared request; that of a step is compared when it is complete.
    pub(super) fn expected(&self, request: u32) -> Option<&[u8]> {
        // The expected body of a step contains values of its user, so no parser can compare it.
        if self.scenarios.is_some() { None } else { self.requests.at(request).body() }
    }

    /// The request of a connection.
    pub(super) fn request<'a>(&'a self, session: &'a HttpSession, request: u32) -> &'a [u8] {
        match &session.user {
            Some(user) => user.request(),
            None => &self.requests.at(request).bytes,
        }
    }

    /// Whether a response that counts as correct leads to another page, which is not requested. A scenario follows it or says that it
    /// is expected, as a route with a status does.
    pub(super) fn is_redirect(&self, request: u32, response: ParsedResponse) -> bool {
        let leads_on = matches!(response.status, 301 | 302 | 303 | 307 | 308);
        leads_on && self.scenarios.is_none() && self.requests.at(request).status.is_none()
    }

    /// Judges a complete response; returns the pause before the connection's next request, in nanoseconds.
    pub(super) fn judge(
        &self,
        session: &mut HttpSession,
        request: u32,
        response: ParsedResponse,
    ) -> Result<u64, RequestProblem> {
        if let (Some(set), Some(user)) = (&self.scenarios, &mut session.user) {
            return user.answer(set, response.status, session.response.kept());
        }
        let failure = match self.requests.at(request).accepts(response.status) {
            false => RequestFailure::Status,
            true if response.body_right => return Ok(0),
            true => RequestFailure::Body,
        };
        Err(RequestProblem { failure, message: None })
    }
}

/// Checks that everything is there that a load needs before it begins: its variables of the environment, its data and its recorded requests.
///
/// # Errors
/// If something is missing; the message names it.
pub fn check_http(load: &HttpLoad) -> Result<(), GeneratorError> {
    HttpShared::new(load, &resolve(&load.base)?).map(drop)
}
