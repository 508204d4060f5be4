//! The requests of a load, built once before it begins.

use crate::core::load::HttpRoute;
use crate::load::http::response::is_correct_status;
use crate::load::http::scenario::{SecretValues, UsedVariables, environment_filled};
use crate::load::target::Target;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt::Write as _;

/// One request, ready to send, and its correct response.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    pub(crate) bytes: Vec<u8>,
    pub(crate) no_body: bool,
    /// The only correct status, if there is one.
    pub(crate) status: Option<u16>,
    body: Option<Vec<u8>>,
}

impl PreparedRequest {
    fn new(route: &HttpRoute, host: &str) -> Self {
        let mut head = format!("{} {} HTTP/1.1\r\n", route.method, route.path);
        if !has_header(route, "host") {
            push_header(&mut head, "Host", host);
        }
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
            body: route.expect_body.clone().map(String::into_bytes),
        }
    }

    /// The only correct body, if there is one.
    pub(crate) fn body(&self) -> Option<&[u8]> {
        self.body.as_deref()
    }

    /// Whether a status is correct.
    pub(crate) fn accepts(&self, status: u16) -> bool {
        is_correct_status(self.status, status)
    }
}

fn has_header(route: &HttpRoute, name: &str) -> bool {
    route.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name))
}

fn push_header(head: &mut String, name: &str, value: &str) {
    // Writing to a string cannot fail.
    let _ = write!(head, "{name}: {value}\r\n");
}

/// Every request of a load with its weight.
#[derive(Debug)]
pub(crate) struct RequestSet {
    requests: Vec<PreparedRequest>,
    bounds: Vec<u64>,
    secrets: SecretValues,
}

impl RequestSet {
    /// Builds every route's request.
    ///
    /// # Errors
    /// If a route needs a variable of the environment that is not set.
    pub(crate) fn new(
        routes: &[HttpRoute],
        target: &Target,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let bounds = routes.iter().scan(0, |sum, route| {
            *sum += u64::from(route.weight);
            Some(*sum)
        });
        let variables = UsedVariables::default();
        let mut requests = Vec::new();
        for route in routes {
            let filled =
                environment_filled(route, &|name| variables.used(name, environment(name)))?;
            requests.push(PreparedRequest::new(&filled, &target.host));
        }
        Ok(Self { bounds: bounds.collect(), requests, secrets: variables.secrets() })
    }

    /// A text from the server without the values of the environment that the routes send.
    pub(crate) fn without_secrets(&self, text: String) -> String {
        self.secrets.masked(text)
    }

    /// Number of routes.
    pub(crate) fn count(&self) -> usize {
        self.requests.len()
    }

    /// Cumulated weights.
    pub(crate) fn bounds(&self) -> &[u64] {
        &self.bounds
    }

    /// The request of that number.
    pub(crate) fn at(&self, route: u16) -> &PreparedRequest {
        &self.requests[usize::from(route)]
    }
}

/// Chooses routes and scenarios by weight.
#[derive(Debug)]
pub(crate) struct RouteChooser(ChaCha8Rng);

impl RouteChooser {
    /// The same seed gives the same choices.
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// The number of the next one, by cumulated weights.
    pub(crate) fn next(&mut self, bounds: &[u64]) -> usize {
        let total = bounds.last().copied().unwrap_or(0);
        if bounds.len() < 2 || total == 0 {
            return 0;
        }
        let drawn = self.0.random_range(0..total);
        bounds.partition_point(|bound| *bound <= drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::HttpOptions;
    use crate::load::target::resolve;

    fn get(path: &str) -> HttpRoute {
        let options = HttpOptions { path: path.to_owned(), ..HttpOptions::default() };
        options.load("http://127.0.0.1:9").unwrap().routes.remove(0)
    }

    fn set(routes: &[HttpRoute]) -> Result<RequestSet, String> {
        let environment = |name: &str| (name == "KEY").then(|| "k1".to_owned());
        RequestSet::new(routes, &resolve("http://127.0.0.1:9").unwrap(), &environment)
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
}
