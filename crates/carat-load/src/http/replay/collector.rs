//! Collects the requests of a file: each different one once, and the order in which they were recorded.

use crate::http::replay::shown::shown;
use crate::http::replay::traffic::{LeftOut, RecordedRequest, RecordedTraffic};
use crate::http::scenario::{Encoding, encode};
use carat_model::load::ReplayFormat;
use std::collections::{BTreeMap, HashMap};

/// Most requests of a file.
const REQUESTS_MAX: usize = 1_000_000;
/// Longest path with its query in bytes; servers refuse shorter ones.
const PATH_MAX: usize = 16 * 1024;
/// Methods, and schemes of URLs, that are counted by name; further ones are nonsense from a log.
const METHODS_NAMED: usize = 8;
/// Routes without an example that are named.
const ROUTES_NAMED: usize = 8;

/// What a reader takes over from a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayRules {
    /// Every method, not only GET and HEAD.
    pub all_methods: bool,
    /// Cookies and credentials.
    pub private_headers: bool,
}

/// Whether a URL of another server tells which server the file is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnServer {
    /// The server of the first URL.
    First,
    /// A request with a server's name is for another one, as in the log of a server.
    Unnamed,
}

/// One request as a reader found it.
#[derive(Debug, Clone, Default)]
pub(super) struct FoundRequest {
    pub(super) method: String,
    /// A path or a URL.
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
    /// Status of the recorded response.
    pub(super) status: Option<u16>,
    /// Nanoseconds since 1970.
    pub(super) at: Option<i64>,
    pub(super) weight: Option<u32>,
    pub(super) route: Option<String>,
    /// Whether the file says that no response came.
    pub(super) unanswered: bool,
}

/// The requests found so far.
#[derive(Debug)]
pub(super) struct TrafficCollector {
    pub(super) rules: ReplayRules,
    own: OwnServer,
    /// Name of the server that the file is about, once a URL has one.
    server: Option<String>,
    numbers: HashMap<RecordedRequest, u32>,
    order: Vec<u32>,
    weights: Vec<u32>,
    weighted: bool,
    times: Vec<i64>,
    unanswered: u64,
    /// Lines or entries that could be read.
    readable: u64,
    /// Why the first unreadable one cannot be read.
    first_problem: Option<String>,
    pub(super) left_out: LeftOut,
}

impl TrafficCollector {
    pub(super) fn new(rules: ReplayRules, own: OwnServer) -> Self {
        Self {
            rules,
            own,
            server: None,
            numbers: HashMap::new(),
            order: Vec::new(),
            weights: Vec::new(),
            weighted: false,
            times: Vec::new(),
            unanswered: 0,
            readable: 0,
            first_problem: None,
            left_out: LeftOut::default(),
        }
    }

    /// Whether requests of this method are sent.
    pub(super) fn sends(&self, method: &str) -> bool {
        self.rules.all_methods || matches!(method, "GET" | "HEAD")
    }

    /// Counts a request that is not sent because of its method.
    pub(super) fn leave_out_method(&mut self, method: &str) {
        count_by_name(&mut self.left_out.methods, method, "other methods");
    }

    /// Counts a URL that is not of HTTP.
    pub(super) fn leave_out_scheme(&mut self, scheme: &str) {
        count_by_name(&mut self.left_out.schemes, &shown(scheme), "other schemes");
    }

    /// Names a route that is not sent because something about it is unknown.
    pub(super) fn leave_out_route(&mut self, what: &str) {
        if self.left_out.routes.len() < ROUTES_NAMED {
            self.left_out.routes.push(shown(what));
        } else {
            self.left_out.more_routes += 1;
        }
    }

    /// Counts a line or an entry, which could be read or not; `unit` says what it is.
    pub(super) fn tolerate(&mut self, unit: &'static str, number: usize, read: Result<(), String>) {
        match read {
            Ok(()) => self.readable += 1,
            Err(why) => {
                self.left_out.unreadable += 1;
                self.left_out.first_unreadable.get_or_insert((unit, number));
                self.first_problem.get_or_insert(why);
            }
        }
    }

    /// # Errors
    /// If more than half of the lines or entries are unreadable; the message says why the first one is.
    pub(super) fn check_readable(&self) -> Result<(), String> {
        let unreadable = self.left_out.unreadable;
        match &self.first_problem {
            // More than half: then the format is another one, not a log with some broken lines.
            Some(first) if unreadable > self.readable => Err(format!(
                "{unreadable} of {} requests cannot be read; the first: {first}",
                unreadable + self.readable
            )),
            _ => Ok(()),
        }
    }

    /// Adds a request, or counts why it is not sent.
    ///
    /// # Errors
    /// If method or target are none; the message says what was found.
    pub(super) fn add(&mut self, found: FoundRequest) -> Result<(), String> {
        check_method(&found.method)?;
        if !self.sends(&found.method) {
            self.leave_out_method(&found.method);
            return Ok(());
        }
        // What a body asks for is not known to be a read.
        if !self.rules.all_methods && !found.body.is_empty() {
            self.leave_out_method(&format!("{} with a body", found.method));
            return Ok(());
        }
        // 101 switched protocols: what followed was no HTTP.
        if found.status == Some(101) {
            self.left_out.websockets += 1;
            return Ok(());
        }
        let Some(path) = self.path(&found.target)? else {
            self.left_out.elsewhere += 1;
            return Ok(());
        };
        // An error rather than a silent cut: the mix of routes would be another one.
        if self.order.len() == REQUESTS_MAX {
            return Err(format!("there are more than {REQUESTS_MAX} requests: replay fewer"));
        }
        let request = RecordedRequest {
            method: found.method,
            path,
            headers: found.headers,
            body: found.body,
            // A recorded refusal is a correct answer again; a recorded 500 is not.
            refused: found.status.filter(|status| (400..500).contains(status)),
            route: found.route,
        };
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(request).or_insert(next);
        if number == next {
            // A request that is in the file again keeps the number of the first.
            self.weights.push(0);
        }
        let weight = &mut self.weights[number as usize];
        *weight = weight.saturating_add(found.weight.unwrap_or(1));
        self.weighted |= found.weight.is_some();
        self.order.push(number);
        self.times.extend(found.at);
        self.unanswered += u64::from(found.unanswered);
        Ok(())
    }

    /// What was collected.
    ///
    /// # Errors
    /// If there is no request to send.
    pub(super) fn traffic(self, format: ReplayFormat) -> Result<RecordedTraffic, String> {
        let weights = if self.weighted { self.weights } else { Vec::new() };
        if self.order.is_empty() || (self.weighted && weights.iter().all(|weight| *weight == 0)) {
            let left_out = self.left_out.text().map(|text| format!("; not sent: {text}"));
            return Err(format!(
                "the {format} has no request that can be sent{}",
                left_out.unwrap_or_default()
            ));
        }
        // A hash map has no order; the numbers are those of the first occurrence.
        let mut numbered: Vec<_> = self.numbers.into_iter().collect();
        numbered.sort_unstable_by_key(|(_, number)| *number);
        let untimed = self.order.len() - self.times.len();
        // With some times missing the others would be at the wrong places.
        let times = if untimed == 0 { self.times } else { Vec::new() };
        let requests = numbered.into_iter().map(|(request, _)| request).collect();
        Ok(RecordedTraffic {
            format,
            requests,
            order: self.order,
            weights,
            times,
            untimed,
            unanswered: self.unanswered,
            left_out: self.left_out,
        })
    }

    /// The path of a target on the server that the file is about; `None` on another one.
    fn path(&mut self, target: &str) -> Result<Option<String>, String> {
        // A fragment is never sent to a server (RFC 9110, 4.2.4 and 7.1).
        let target = target.split('#').next().unwrap_or_default();
        let path = match url_parts(target) {
            Some((server, path)) => {
                if !self.is_own(server) {
                    return Ok(None);
                }
                // `http://host?x` has no path: the request line needs one (RFC 9112, 3.2.1).
                if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
            }
            None => target.to_owned(),
        };
        if !path.starts_with('/') {
            return Err(format!("`{}` is neither a path nor a URL", shown(target)));
        }
        let mut encoded = Vec::with_capacity(path.len());
        encode(&path, Encoding::Path, &mut encoded);
        if encoded.len() > PATH_MAX {
            return Err(format!("the path `{}` has more than 16 KiB", shown(&path)));
        }
        Ok(String::from_utf8(encoded).ok())
    }

    fn is_own(&mut self, server: String) -> bool {
        match self.own {
            OwnServer::Unnamed => false,
            // The first URL decides, so that a HAR's requests to other hosts are left out.
            OwnServer::First => *self.server.get_or_insert_with(|| server.clone()) == server,
        }
    }
}

/// Counts under a name, or under `others` once there are [`METHODS_NAMED`].
fn count_by_name(counts: &mut BTreeMap<String, u64>, name: &str, others: &str) {
    let known = counts.contains_key(name) || counts.len() < METHODS_NAMED;
    *counts.entry(if known { name } else { others }.to_owned()).or_default() += 1;
}

/// Server and path of a URL of HTTP. The server's name has no password and no usual port.
fn url_parts(target: &str) -> Option<(String, &str)> {
    let (scheme, rest) = target.split_once("://")?;
    let usual = match scheme.to_ascii_lowercase().as_str() {
        "http" => ":80",
        "https" => ":443",
        _ => return None,
    };
    let (server, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    // Credentials in a URL are no part of the server's name.
    let server = server.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
    let server = server.strip_suffix(usual).map(str::to_owned).unwrap_or(server);
    (!server.is_empty()).then_some((server, path))
}

/// # Errors
/// If a text cannot be a method.
pub(super) fn check_method(text: &str) -> Result<(), String> {
    if is_method(text) { Ok(()) } else { Err(format!("`{}` is not a method", shown(text))) }
}

/// Whether a text can be a method: letters, perhaps with a hyphen.
pub(super) fn is_method(text: &str) -> bool {
    let letters = text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    letters && (1..=20).contains(&text.len()) && !text.starts_with('-')
}

/// Method and target of `METHOD PATH VERSION`.
pub(super) fn request_line(request: &str) -> Result<(String, String), String> {
    let mut words = request.split(' ');
    let method = words.next().unwrap_or_default();
    let target = words.next().filter(|_| is_method(method)).ok_or("the request has no method")?;
    // A space in the path makes four words: no server accepted that request.
    if words.next().is_some_and(|version| !version.starts_with("HTTP/")) || words.next().is_some() {
        return Err("the request is not `METHOD PATH VERSION`".to_owned());
    }
    Ok((method.to_owned(), target.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(target: &str) -> FoundRequest {
        FoundRequest { method: "GET".into(), target: target.into(), ..FoundRequest::default() }
    }

    fn collector() -> TrafficCollector {
        TrafficCollector::new(ReplayRules::default(), OwnServer::First)
    }

    #[test]
    fn a_target_is_a_path_on_the_server_of_the_first_url() {
        let mut all = collector();
        for (target, expected) in [
            ("/a b?c=é#top", Some("/a%20b?c=%C3%A9")),
            ("http://App.test:80/x?y", Some("/x?y")),
            ("https://ann:pw@app.test:443", Some("/")),
            ("http://app.test?q=http://b.test/", Some("/?q=http://b.test/")),
            ("http://app.test:81/", None),
            ("https://fonts.test/f.woff", None),
            ("/%20{env.HOME}", Some("/%20%7Benv.HOME%7D")),
        ] {
            assert_eq!(all.path(target), Ok(expected.map(str::to_owned)), "{target}");
        }
        for target in ["", "a", "data:text/plain,x", "*", "#top", "ftp://a/b", "http://"] {
            assert!(all.path(target).unwrap_err().contains("neither a path nor"), "{target}");
        }
        let long = format!("/{}", "x".repeat(PATH_MAX));
        assert!(all.path(&long).unwrap_err().contains("16 KiB"));
    }

    #[test]
    fn equal_requests_are_kept_once_and_their_order_is_kept() {
        let mut all = collector();
        for target in ["/a", "/b", "/a", "http://x.test/b", "http://y.test/b"] {
            all.add(get(target)).unwrap();
        }
        all.add(FoundRequest { method: "POST".into(), ..get("/a") }).unwrap();
        all.add(FoundRequest { status: Some(101), ..get("/cable") }).unwrap();
        let traffic = all.traffic(ReplayFormat::Urls).unwrap();
        let paths: Vec<&str> = traffic.requests.iter().map(|one| one.path.as_str()).collect();
        assert_eq!((paths, &traffic.order), (vec!["/a", "/b"], &vec![0, 1, 0, 1]));
        assert_eq!(traffic.shares(), [2, 2]);
        assert!(traffic.weights.is_empty() && traffic.times.is_empty());
        assert_eq!(
            traffic.summary("a.txt"),
            "a.txt (list of URLs) with 4 requests, 2 different; not sent: POST ×1 (`all_methods` sends every method), 1 to other servers, 1 for WebSockets"
        );
    }

    #[test]
    fn nothing_to_send_and_nonsense_are_errors() {
        let error = collector().traffic(ReplayFormat::Har).unwrap_err();
        assert_eq!(error, "the HAR has no request that can be sent");
        let mut all = collector();
        all.add(FoundRequest { method: "PUT".into(), ..get("/") }).unwrap();
        let error = all.traffic(ReplayFormat::Rails).unwrap_err();
        assert!(
            error.ends_with("; not sent: PUT ×1 (`all_methods` sends every method)"),
            "{error}"
        );
        for method in ["", "get", "\u{1b}[31m", "-", "A-VERY-LONG-METHOD-NAME"] {
            let found = FoundRequest { method: method.into(), ..get("/") };
            let error = collector().add(found).unwrap_err();
            assert!(error.contains("is not a method") && !error.contains('\u{1b}'), "{error}");
        }
    }

    #[test]
    fn a_log_of_nonsense_has_few_names_of_methods() {
        let mut all = collector();
        for letter in 'A'..='Z' {
            let method = format!("{letter}X");
            all.add(FoundRequest { method, ..get("/") }).unwrap();
        }
        assert_eq!(all.left_out.methods.len(), METHODS_NAMED + 1);
        assert_eq!(all.left_out.methods["other methods"], 18);
    }
}
