//! One user: a connection that goes through scenarios, each time as a new visitor, or again and again as the same one.

use crate::clock::unix_seconds;
use crate::http::failures::{RequestFailure, RequestProblem};
use crate::http::response::KeptResponse;
use crate::http::scenario::cookies::{CookieJar, CookieUrl};
use crate::http::scenario::message::beginning;
use crate::http::scenario::set::{CompiledStep, ScenarioSet};
use crate::http::scenario::take::header;
use crate::http::scenario::template::UserValues;
use memchr::memmem;
use std::io::Write as _;

/// Redirects that one step follows; browsers follow 20.
const HOPS_MAX: u32 = 10;
/// Bytes of a body that a step can need.
const BODY_MAX: usize = 1024 * 1024;
/// Bytes of a body that are kept for a message only.
const BODY_SHOWN: usize = 512;

/// A user's place in a scenario, and what the user remembers.
#[derive(Debug, Default)]
pub struct ScenarioUser {
    /// From 0 on, over all threads.
    number: u64,
    /// Visits begun.
    begun: u64,
    scenario: usize,
    step: usize,
    /// Whether a scenario has begun and not ended.
    passing: bool,
    redirect: Option<RedirectTarget>,
    /// Redirects followed in this step.
    hops: u32,
    visits: Vec<Visit>,
    /// Which of them the scenario goes through.
    visit: usize,
    path: Vec<u8>,
    /// Host of the request that was written last.
    host: Vec<u8>,
    request: Vec<u8>,
    scratch: Vec<u8>,
}

/// What the user remembers from one request to the next.
#[derive(Debug, Default)]
struct Visit {
    jar: CookieJar,
    taken: Vec<String>,
    /// The user's row of the data.
    row: usize,
    /// Whether the steps with `once` are done.
    prepared: bool,
}

impl Visit {
    fn values<'a>(&'a self, set: &'a ScenarioSet, number: u64) -> UserValues<'a> {
        UserValues { number: number + 1, row: &set.data.rows[self.row], taken: &self.taken }
    }
}

#[derive(Debug)]
struct RedirectTarget {
    path: String,
    /// Whether method and body stay the same.
    repeats: bool,
}

impl ScenarioUser {
    /// The user of a number from 0, before the first step.
    pub fn new(number: u32) -> Self {
        Self { number: number.into(), ..Self::default() }
    }

    /// Writes the next request and returns the row in which it is counted.
    pub fn write_next(&mut self, set: &ScenarioSet, choose: impl FnOnce(&[u64]) -> usize) -> u16 {
        if !self.passing {
            self.begin(set, choose(&set.bounds));
        }
        let step = &set.scenarios[self.scenario].steps[self.step];
        self.write_path(set, step);
        self.write_request(set, step);
        // Two rows per step: its own request, and the redirects that it followed.
        2 * step.number + u16::from(self.hops > 0)
    }

    /// The request that was written last.
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// Bytes of the response's body to keep.
    pub fn body_limit(&self, set: &ScenarioSet) -> usize {
        let step = &set.scenarios[self.scenario].steps[self.step];
        // The beginning is kept for the message in case the response is wrong.
        if step.needs_body() { BODY_MAX } else { BODY_SHOWN }
    }

    /// Begins the next request as a new visitor.
    pub fn restart(&mut self) {
        self.passing = false;
        // A session that failed may be logged out, so the user logs in again.
        if let Some(visit) = self.visits.get_mut(self.visit) {
            visit.prepared = false;
        }
    }

    /// Judges a response and returns the pause before the next request, in nanoseconds.
    ///
    /// # Errors
    /// If it is not the one that the step expects; the user begins anew then.
    pub fn answer(
        &mut self,
        set: &ScenarioSet,
        status: u16,
        kept: &KeptResponse,
    ) -> Result<u64, RequestProblem> {
        let (scenario, step) = (&set.scenarios[self.scenario], self.step);
        self.judge(set, status, kept).map_err(|(failure, what)| {
            self.restart();
            let refused = self.visits[self.visit].jar.refused();
            let message = format!(
                "scenario `{}`, step {} ({}): {what}; {}{}",
                scenario.name,
                step + 1,
                scenario.steps[step].label,
                beginning(&kept.body),
                refused.map_or_else(String::new, |why| format!("; {why}")),
            );
            RequestProblem { failure, message: Some(set.without_secrets(message)) }
        })
    }

    fn begin(&mut self, set: &ScenarioSet, scenario: usize) {
        let chosen = &set.scenarios[scenario];
        self.visits.resize_with(set.visits, Visit::default);
        self.visit = chosen.visit;
        let visit = &mut self.visits[self.visit];
        // A prepared visit keeps its cookies and values: the user is still logged in.
        if !visit.prepared {
            visit.jar.clear();
            visit.taken.clear();
            visit.taken.resize(chosen.slots, String::new());
            // Users of all threads deal the rows among them without talking to each other.
            let dealt = self.number + self.begun * set.users;
            visit.row = (dealt % set.data.rows.len() as u64) as usize;
            self.begun += 1;
        }
        // A scenario whose steps are all `once` has nothing left; it begins at the first again.
        self.step = chosen.step_from(0, visit.prepared).unwrap_or(0);
        self.scenario = scenario;
        self.passing = true;
        self.redirect = None;
        self.hops = 0;
    }

    fn write_path(&mut self, set: &ScenarioSet, step: &CompiledStep) {
        self.path.clear();
        if let Some(target) = &self.redirect {
            self.path.extend_from_slice(target.path.as_bytes());
            return;
        }
        let visit = &self.visits[self.visit];
        step.path.render(&visit.values(set, self.number), &mut self.path);
        if self.path.first() != Some(&b'/') {
            // A link from a page may be a whole URL or relative; one to another server gets this server's answer.
            let link = String::from_utf8_lossy(&self.path).into_owned();
            let path = set.origin.path_of(&link, "/").unwrap_or_else(|| format!("/{link}"));
            self.path = path.into_bytes();
        }
    }

    fn write_request(&mut self, set: &ScenarioSet, step: &CompiledStep) {
        let visit = &self.visits[self.visit];
        let values = visit.values(set, self.number);
        // A redirect may have changed a POST into a GET, which it stays for the rest.
        let repeats = self.redirect.as_ref().is_none_or(|target| target.repeats);
        let method = if repeats { step.method.as_str() } else { "GET" };
        let out = &mut self.request;
        out.clear();
        for part in [method.as_bytes(), b" ", &self.path, b" HTTP/1.1\r\n"] {
            out.extend_from_slice(part);
        }
        step.headers.render(&values, out);
        self.host.clear();
        step.host.render(&values, &mut self.host);
        if !visit.jar.is_empty() {
            let url = CookieUrl { host: &self.host, path: &self.path, secure: set.secure };
            visit.jar.write(&url, unix_seconds(), out);
        }
        let Some(content) = step.body.as_ref().filter(|_| repeats) else {
            out.extend_from_slice(b"\r\n");
            return;
        };
        self.scratch.clear();
        content.text.render(&values, &mut self.scratch);
        if let Some(kind) = content.kind {
            let _ = write!(out, "Content-Type: {kind}\r\n");
        }
        // Writing to a vector cannot fail.
        let _ = write!(out, "Content-Length: {}\r\n\r\n", self.scratch.len());
        out.extend_from_slice(&self.scratch);
    }

    fn judge(
        &mut self,
        set: &ScenarioSet,
        status: u16,
        kept: &KeptResponse,
    ) -> Result<u64, (RequestFailure, String)> {
        let scenario = &set.scenarios[self.scenario];
        let step = &scenario.steps[self.step];
        // First, because a redirect and an error set cookies too (RFC 6265, 5.2).
        for cookie in header(&kept.head, "set-cookie") {
            let url = CookieUrl { host: &self.host, path: &self.path, secure: set.secure };
            self.visits[self.visit].jar.store(cookie, &url, unix_seconds()).map_err(|_| {
                let what = "the server set more than 50 cookies or 16 KiB of them";
                (RequestFailure::Cookies, what.to_owned())
            })?;
        }
        if let Some(location) = redirect_of(step, status, kept) {
            // Checked before it is followed: an expected status may be that of the redirect.
            self.check_status(step, status, true)?;
            self.follow(set, status, location)?;
            return Ok(0);
        }
        self.check_status(step, status, false)?;
        // A body that was cut cannot prove that a text is missing.
        if step.needs_body() && kept.is_cut {
            return Err((RequestFailure::TooLong, "the body is longer than 1 MiB".to_owned()));
        }
        self.check_body(set, step, &kept.body)?;
        for (slot, name, finder) in &step.takes {
            self.visits[self.visit].taken[*slot] = finder
                .find(&kept.head, &kept.body)
                .map_err(|what| (RequestFailure::Take, format!("cannot take `{name}`: {what}")))?;
        }
        // Only now: what follows is the next step, with a count of redirects of its own.
        self.hops = 0;
        self.redirect = None;
        let visit = &mut self.visits[self.visit];
        match scenario.step_from(self.step + 1, visit.prepared) {
            Some(next) => self.step = next,
            None => {
                self.passing = false;
                // Only visits of scenarios with `once` stay; visit 0 begins anew each time.
                visit.prepared = self.visit > 0;
            }
        }
        Ok(step.think)
    }

    /// An expected redirect is that of the step's own request; any other expected status is that of the last response.
    fn check_status(
        &self,
        step: &CompiledStep,
        status: u16,
        leads_on: bool,
    ) -> Result<(), (RequestFailure, String)> {
        let redirect = step.expect_status.is_some_and(|expected| (300..400).contains(&expected));
        let applies =
            if leads_on { redirect && self.hops == 0 } else { !redirect || self.hops == 0 };
        let right = match step.expect_status.filter(|_| applies) {
            Some(expected) => status == expected,
            None => (200..400).contains(&status),
        };
        if right {
            return Ok(());
        }
        let expected = step.expect_status.map(|expected| format!(", not {expected}"));
        Err((RequestFailure::Status, format!("status {status}{}", expected.unwrap_or_default())))
    }

    fn check_body(
        &mut self,
        set: &ScenarioSet,
        step: &CompiledStep,
        body: &[u8],
    ) -> Result<(), (RequestFailure, String)> {
        let visit = &self.visits[self.visit];
        let values = visit.values(set, self.number);
        if let Some(expected) = &step.expect_body {
            self.scratch.clear();
            expected.render(&values, &mut self.scratch);
            if self.scratch != body {
                return Err((RequestFailure::Body, "the body is not the expected one".to_owned()));
            }
        }
        if let Some(expected) = &step.expect_text {
            self.scratch.clear();
            expected.render(&values, &mut self.scratch);
            if memmem::find(body, &self.scratch).is_none() {
                let text = String::from_utf8_lossy(&self.scratch);
                return Err((RequestFailure::Body, format!("the body does not contain `{text}`")));
            }
        }
        Ok(())
    }

    fn follow(
        &mut self,
        set: &ScenarioSet,
        status: u16,
        location: &[u8],
    ) -> Result<(), (RequestFailure, String)> {
        let location = String::from_utf8_lossy(location);
        if self.hops == HOPS_MAX {
            let what = format!("more than {HOPS_MAX} redirects, the last to `{location}`");
            return Err((RequestFailure::Redirect, what));
        }
        let current = String::from_utf8_lossy(&self.path);
        let path = set.origin.path_of(&location, &current).ok_or_else(|| {
            let what = format!("a redirect leads to another server, `{location}`");
            (RequestFailure::Redirect, what)
        })?;
        // A redirected POST becomes a GET, as in browsers, unless the status forbids that (RFC 9110, 15.4).
        let repeated_before = self.redirect.as_ref().is_none_or(|target| target.repeats);
        let keeps = matches!(status, 307 | 308);
        let is_get = set.scenarios[self.scenario].steps[self.step].method == "GET";
        self.redirect =
            Some(RedirectTarget { path, repeats: repeated_before && (keeps || is_get) });
        self.hops += 1;
        Ok(())
    }
}

/// Where a response leads, if the step follows redirects.
fn redirect_of<'a>(step: &CompiledStep, status: u16, kept: &'a KeptResponse) -> Option<&'a [u8]> {
    let leads_on = step.follow && matches!(status, 301 | 302 | 303 | 307 | 308);
    header(&kept.head, "location").next().filter(|_| leads_on)
}
