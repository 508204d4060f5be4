//! The requests of a load, built once before it begins.

use crate::http::replay::{
    RecordedRequest, RecordedTraffic, file_name, group, paced, read_file, secrets,
};
use crate::http::response::is_correct_status;
use crate::http::scenario::{SecretValues, UsedVariables, environment_filled};
use crate::schedule::RecordedTimes;
use crate::target::Target;
use carat_model::load::{HttpLoad, HttpReplay, HttpRoute};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt::Write as _;

/// Most bytes of all requests of a replay together.
const REPLAY_MAX: usize = 256 * 1024 * 1024;

/// One request, ready to send, and its correct response.
#[derive(Debug)]
pub(super) struct PreparedRequest {
    pub bytes: Vec<u8>,
    pub no_body: bool,
    /// The only correct status, if there is one.
    pub status: Option<u16>,
    /// The row in which it is counted.
    pub row: u16,
    body: Option<Vec<u8>>,
    /// A further correct status: that of the recorded response.
    refused: Option<u16>,
}

impl PreparedRequest {
    fn new(route: &HttpRoute, host: &str, row: u16) -> Self {
        let mut head = format!("{} {} HTTP/1.1\r\n", route.method, route.path);
        // A load's own `Host` chooses a virtual host; two of them are an error (RFC 9112, 3.2).
        if !has_header(route, "host") {
            push_header(&mut head, "Host", host);
        }
        // A length of zero for everything but a GET: some servers wait for a body otherwise.
        let bare = route.body.is_empty() && route.method == "GET";
        if !bare && !has_header(route, "content-length") {
            push_header(&mut head, "Content-Length", &route.body.len().to_string());
        }
        for (name, value) in &route.headers {
            push_header(&mut head, name, value);
        }
        head.push_str("\r\n");
        head.push_str(&route.body);
        Self {
            bytes: head.into_bytes(),
            no_body: route.method == "HEAD",
            status: route.expect_status,
            row,
            refused: None,
            body: route.expect_body.clone().map(String::into_bytes),
        }
    }

    /// The only correct body, if there is one.
    pub(super) fn body(&self) -> Option<&[u8]> {
        self.body.as_deref()
    }

    /// Whether a status is correct.
    pub(super) fn accepts(&self, status: u16) -> bool {
        is_correct_status(self.status, status) || self.refused == Some(status)
    }
}

fn has_header(route: &HttpRoute, name: &str) -> bool {
    route.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name))
}

fn push_header(head: &mut String, name: &str, value: &str) {
    // Writing to a string cannot fail.
    let _ = write!(head, "{name}: {value}\r\n");
}

/// Every request of a load, and which is sent how often.
#[derive(Debug)]
pub(super) struct RequestSet {
    requests: Vec<PreparedRequest>,
    bounds: Vec<u64>,
    /// Numbers of the requests of a replay in their order; empty where they are chosen by weight.
    order: Vec<u32>,
    /// When the requests of `order` are sent, in a replay that keeps the times.
    times: Option<RecordedTimes>,
    /// Name of each row of the counts.
    rows: Vec<String>,
    /// What is replayed and what is not.
    note: Option<String>,
    /// What is sent and no report has: values of the environment, and recorded credentials.
    secrets: SecretValues,
}

impl RequestSet {
    /// Builds every request.
    ///
    /// # Errors
    /// If a variable of the environment is not set, or a replayed file cannot be used.
    pub(super) fn new(
        load: &HttpLoad,
        target: &Target,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        match (&load.replay, load.routes.first()) {
            (Some(replay), Some(common)) => {
                let variables = UsedVariables::default();
                let common =
                    environment_filled(common, &|name| variables.used(name, environment(name)))?;
                let traffic = read_file(replay)?;
                // What was recorded may be echoed by the server and must not stand in a report.
                let headers = traffic.requests.iter().flat_map(|request| &request.headers);
                headers
                    .flat_map(|(name, value)| secrets(name, value))
                    .for_each(|secret| variables.hide(secret));
                let secrets = variables.secrets();
                Ok(Self { secrets, ..Self::replayed(replay, &traffic, &common, target)? })
            }
            _ => Self::of_routes(&load.routes, target, environment),
        }
    }

    fn of_routes(
        routes: &[HttpRoute],
        target: &Target,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let variables = UsedVariables::default();
        let mut requests = Vec::new();
        for (row, route) in routes.iter().enumerate() {
            let filled =
                environment_filled(route, &|name| variables.used(name, environment(name)))?;
            requests.push(PreparedRequest::new(&filled, &target.host, row as u16));
        }
        Ok(Self {
            bounds: cumulated(routes.iter().map(|route| u64::from(route.weight))),
            requests,
            order: Vec::new(),
            times: None,
            rows: routes.iter().map(|route| format!("{} {}", route.method, route.path)).collect(),
            note: None,
            secrets: variables.secrets(),
        })
    }

    /// The requests of a file, each with the headers and the correct response of `common`.
    fn replayed(
        replay: &HttpReplay,
        traffic: &RecordedTraffic,
        common: &HttpRoute,
        target: &Target,
    ) -> Result<Self, String> {
        let groups = group(traffic);
        let (mut requests, mut bytes) = (Vec::with_capacity(traffic.requests.len()), 0);
        for (recorded, row) in traffic.requests.iter().zip(&groups.of) {
            let route = recorded_route(recorded, common);
            let prepared = PreparedRequest::new(&route, &target.host, *row);
            bytes += prepared.bytes.len();
            // Requests are kept whole, so their sum is what a replay takes in memory.
            if bytes > REPLAY_MAX {
                return Err(format!(
                    "{}: its requests take more than 256 MiB: replay fewer",
                    replay.file
                ));
            }
            // The load's own expectation replaces what was recorded.
            let refused = recorded.refused.filter(|_| common.expect_status.is_none());
            requests.push(PreparedRequest { refused, ..prepared });
        }
        let (order, times) = match replay.pace {
            Some(factor) => {
                let paced =
                    paced(traffic, factor).map_err(|what| format!("{}: {what}", replay.file));
                paced.map(|(order, times)| (order, Some(times)))?
            }
            None if traffic.weights.is_empty() => (traffic.order.clone(), None),
            None => (Vec::new(), None),
        };
        Ok(Self {
            bounds: cumulated(traffic.weights.iter().copied().map(u64::from)),
            requests,
            order,
            times,
            rows: groups.names,
            note: Some(traffic.summary(&file_name(replay))),
            secrets: SecretValues::default(),
        })
    }

    /// Name of each row in which requests are counted.
    pub(super) fn rows(&self) -> &[String] {
        &self.rows
    }

    /// What is replayed and what is not.
    pub(super) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// A text from the server without the values of the environment and the recorded credentials that are sent.
    pub(super) fn without_secrets(&self, text: String) -> String {
        self.secrets.masked(text)
    }

    /// When requests are sent, if that was recorded.
    pub(super) fn times(&self) -> Option<&RecordedTimes> {
        self.times.as_ref()
    }

    /// The request at a place of a replay, which begins again after its end; `None` where requests are chosen by weight.
    pub(super) fn in_turn(&self, place: u64) -> Option<u32> {
        if self.order.is_empty() {
            return None;
        }
        // By place modulo length: the file is repeated until the load ends.
        self.order.get((place % self.order.len() as u64) as usize).copied()
    }

    /// Cumulated weights.
    pub(super) fn bounds(&self) -> &[u64] {
        &self.bounds
    }

    pub(super) fn at(&self, number: u32) -> &PreparedRequest {
        &self.requests[number as usize]
    }
}

fn cumulated(weights: impl Iterator<Item = u64>) -> Vec<u64> {
    let sums = weights.scan(0, |sum, weight| {
        *sum += weight;
        Some(*sum)
    });
    sums.collect()
}

/// A recorded request with the load's own headers, which replace recorded ones of the same name.
fn recorded_route(recorded: &RecordedRequest, common: &HttpRoute) -> HttpRoute {
    let kept = recorded.headers.iter().filter(|(name, _)| !has_header(common, name)).cloned();
    HttpRoute {
        method: recorded.method.clone(),
        path: recorded.path.clone(),
        headers: kept.chain(common.headers.iter().cloned()).collect(),
        body: recorded.body.clone(),
        ..common.clone()
    }
}

/// Chooses routes and scenarios by weight.
#[derive(Debug)]
pub(super) struct RouteChooser(ChaCha8Rng);

impl RouteChooser {
    /// The same seed gives the same choices.
    pub(super) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// The number of the next one, by cumulated weights.
    pub(super) fn next(&mut self, bounds: &[u64]) -> usize {
        let total = bounds.last().copied().unwrap_or(0);
        // A single route needs no random number, so it costs none.
        if bounds.len() < 2 || total == 0 {
            return 0;
        }
        let drawn = self.0.random_range(0..total);
        // The first bound above the draw; a weight of zero has an empty range and is never hit.
        bounds.partition_point(|bound| *bound <= drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::resolve;
    use carat_model::HttpOptions;

    fn get(path: &str) -> HttpRoute {
        let options = HttpOptions { path: path.to_owned(), ..HttpOptions::default() };
        options.load("http://127.0.0.1:9").unwrap().routes.remove(0)
    }

    fn environment(name: &str) -> Option<String> {
        (name == "KEY").then(|| "k1".to_owned())
    }

    fn set(routes: &[HttpRoute]) -> Result<RequestSet, String> {
        RequestSet::of_routes(routes, &resolve("http://127.0.0.1:9").unwrap(), &environment)
    }

    fn text(route: &HttpRoute) -> String {
        let requests = set(std::slice::from_ref(route)).unwrap();
        String::from_utf8(requests.at(0).bytes.clone()).unwrap()
    }

    #[test]
    fn a_request_has_the_headers_it_needs_and_no_others() {
        assert_eq!(text(&get("/a")), "GET /a HTTP/1.1\r\nHost: 127.0.0.1:9\r\n\r\n");
        let post = HttpRoute {
            method: "POST".to_owned(),
            headers: vec![("host".to_owned(), "x".to_owned())],
            body: "{}".to_owned(),
            ..get("/a")
        };
        assert_eq!(text(&post), "POST /a HTTP/1.1\r\nContent-Length: 2\r\nhost: x\r\n\r\n{}");
    }

    #[test]
    fn a_request_has_values_of_the_environment_and_keeps_other_braces() {
        let headers = vec![("Key".to_owned(), "{env.KEY}".to_owned())];
        let route = HttpRoute { headers, ..get("/{a}") };
        assert_eq!(text(&route), "GET /{a} HTTP/1.1\r\nHost: 127.0.0.1:9\r\nKey: k1\r\n\r\n");
        let requests = set(std::slice::from_ref(&route)).unwrap();
        assert_eq!(requests.without_secrets("no key k1".to_owned()), "no key {env.KEY}");
        let missing = HttpRoute { body: "{env.NOT_SET}".to_owned(), ..get("/") };
        assert!(set(&[missing]).unwrap_err().contains("`NOT_SET` is not set"));
    }

    #[test]
    fn routes_are_chosen_by_weight() {
        let routes = [1, 0, 3].map(|weight| HttpRoute { weight, ..get("/") });
        let requests = set(&routes).unwrap();
        let mut chooser = RouteChooser::new(5);
        let mut counts = [0; 3];
        for _ in 0..40_000 {
            counts[chooser.next(requests.bounds())] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((9_500..10_500).contains(&counts[0]), "{counts:?}");
    }

    /// The requests of a file with the load's own `options`, or why there are none.
    fn replayed(text: &str, options: HttpOptions) -> Result<RequestSet, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recorded");
        std::fs::write(&file, text).unwrap();
        let options = HttpOptions { replay: Some(file.display().to_string()), ..options };
        let load = options.load("http://127.0.0.1:9").unwrap();
        RequestSet::new(&load, &resolve("http://127.0.0.1:9").unwrap(), &environment)
    }

    fn access(second: u32, request: &str, status: u16) -> String {
        format!("h - - [22/Nov/2026:10:00:{second:02} +0000] \"{request} HTTP/1.1\" {status} 5\n")
    }

    #[test]
    fn recorded_requests_are_built_once_and_keep_their_order() {
        let log = [
            access(0, "GET /a?x=1", 200),
            access(1, "GET /{env.KEY}", 404),
            access(2, "GET /a?x=1", 200),
            access(2, "POST /a", 200),
        ];
        let headers = vec![("Key".to_owned(), "{env.KEY}".to_owned())];
        let set =
            replayed(&log.concat(), HttpOptions { headers, ..HttpOptions::default() }).unwrap();
        let text = |number| String::from_utf8(set.at(number).bytes.clone()).unwrap();
        assert_eq!(text(0), "GET /a?x=1 HTTP/1.1\r\nHost: 127.0.0.1:9\r\nKey: k1\r\n\r\n");
        // A log is foreign: nothing in it is a variable.
        assert!(text(1).starts_with("GET /%7Benv.KEY%7D HTTP/1.1\r\n"), "{}", text(1));
        assert_eq!([0, 1, 2, 3, 5].map(|place| set.in_turn(place).unwrap()), [0, 1, 0, 0, 0]);
        assert_eq!(set.rows(), ["GET /a", "GET /%7Benv.KEY%7D"]);
        assert_eq!((set.at(0).row, set.at(1).row), (0, 1));
        assert!(set.at(1).accepts(404) && set.at(1).accepts(200) && !set.at(1).accepts(410));
        assert!(!set.at(0).accepts(404));
        assert!(
            set.note().unwrap().ends_with("not sent: POST ×1 (`all_methods` sends every method)")
        );
        assert_eq!(set.times(), None);
    }

    #[test]
    fn the_expected_status_of_the_load_is_the_only_correct_one() {
        let options = HttpOptions { expect_status: Some(200), ..HttpOptions::default() };
        let set = replayed(&access(0, "GET /", 404), options).unwrap();
        assert!(set.at(0).accepts(200) && !set.at(0).accepts(404));
    }

    #[test]
    fn own_headers_replace_recorded_ones_and_bodies_have_their_length() {
        let har = r#"{"log":{"entries":[{"request":{"method":"POST","url":"http://a/x","headers":[{"name":"accept","value":"text/html"},{"name":"X-A","value":"1"}],"postData":{"mimeType":"text/plain","text":"hé"}}}]}}"#;
        let headers = vec![("Accept".to_owned(), "application/json".to_owned())];
        let options = HttpOptions { headers, all_methods: true, ..HttpOptions::default() };
        let set = replayed(har, options).unwrap();
        assert_eq!(
            String::from_utf8(set.at(0).bytes.clone()).unwrap(),
            "POST /x HTTP/1.1\r\nHost: 127.0.0.1:9\r\nContent-Length: 3\r\nX-A: 1\r\nContent-Type: text/plain\r\nAccept: application/json\r\n\r\nhé"
        );
    }

    #[test]
    fn a_list_with_weights_is_drawn_by_them() {
        let set = replayed("/a 3\n/b 0\n/a 1\n", HttpOptions::default()).unwrap();
        assert_eq!((set.in_turn(0), set.bounds()), (None, &[4, 4][..]));
    }

    #[test]
    fn recorded_times_need_a_time_of_every_request() {
        let pace = Some(carat_model::load::ReplayPace(2.0));
        let options = HttpOptions { pace, ..HttpOptions::default() };
        let log = [access(4, "GET /b", 200), access(0, "GET /a", 200)].concat();
        let set = replayed(&log, options.clone()).unwrap();
        let times = set.times().unwrap();
        assert_eq!((&times.offsets[..], times.period), (&[0, 2_000_000_000][..], 4_000_000_000));
        assert_eq!([0, 1].map(|place| set.at(set.in_turn(place).unwrap()).row), [0, 1]);
        let error = replayed("/a\n/b\n", options).unwrap_err();
        assert!(error.contains("2 of 2 requests of the list of URLs have no time"), "{error}");
    }
}
