//! Which requests have no correct response, by route and reason: a short list, however many fail.

use crate::fault::SocketFault;
use carat_model::load::report::{BODY_SHOWN, FAILURES_LISTED, RouteFailure};
use carat_model::{one_line, shorten};
use std::borrow::Cow;

/// Bytes shown of a route; a query can be as long as a server accepts.
const ROUTE_SHOWN: usize = 120;

/// Why a request has no correct response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestFailure {
    /// No connection, or one that broke.
    Socket(SocketFault),
    /// No TLS on the connection.
    Tls,
    /// No response in time.
    Timeout,
    /// The connection ended before the response did.
    Early,
    /// Bytes that are not a response.
    Malformed,
    /// An unexpected status.
    Status,
    /// An unexpected body.
    Body,
    /// A value that a later step needs is not in the response.
    Take,
    /// Too many redirects, or one to another server.
    Redirect,
    /// More cookies than a user can have.
    Cookies,
    /// A body too long to be read.
    TooLong,
}

impl RequestFailure {
    /// Whether no whole response has come.
    pub fn is_unanswered(self) -> bool {
        matches!(self, Self::Socket(_) | Self::Tls | Self::Timeout | Self::Early)
    }
}

/// A request without a correct response.
#[derive(Debug)]
pub struct RequestProblem {
    pub failure: RequestFailure,
    /// What was wrong, if that says more than the failure's name.
    pub message: Option<String>,
}

impl RequestFailure {
    /// The stable name under which it is counted.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Self::Socket(fault) => return fault.name(),
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Early => "closed-early",
            Self::Malformed => "malformed",
            Self::Status => "status",
            Self::Body => "body",
            Self::Take => "take",
            Self::Redirect => "redirect",
            Self::Cookies => "cookies",
            Self::TooLong => "too-long",
        }
        .into()
    }
}

/// One request without a correct response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedRequest {
    /// Number of its route.
    pub route: u16,
    pub failure: RequestFailure,
    /// Status of its response; `None` without one.
    pub status: Option<u16>,
}

#[derive(Debug, Clone)]
struct FailureRow {
    kind: FailedRequest,
    count: u64,
    body: Option<String>,
}

/// Failed requests by kind. Kinds beyond [`FAILURES_LISTED`] are left out.
#[derive(Debug, Default)]
pub struct FailureTable(Vec<FailureRow>);

impl FailureTable {
    /// Counts a failure; `body` is the start of a wrong body. Allocates only for the first of a kind.
    pub fn count(&mut self, kind: FailedRequest, body: &[u8]) {
        // The list is short, so a search is cheap, and nothing is allocated per failure.
        if let Some(row) = self.0.iter_mut().find(|row| row.kind == kind) {
            row.count += 1;
        } else if self.0.len() < FAILURES_LISTED {
            self.0.push(FailureRow { kind, count: 1, body: printable(body) });
        }
    }

    /// Adds another thread's failures.
    pub fn merge(&mut self, other: &Self) {
        for row in &other.0 {
            if let Some(known) = self.0.iter_mut().find(|known| known.kind == row.kind) {
                known.count += row.count;
            } else if self.0.len() < FAILURES_LISTED {
                self.0.push(row.clone());
            }
        }
    }

    /// The failures as a report lists them, most frequent first. `routes` names every route or step by its number.
    pub fn list(&self, routes: &[String]) -> Vec<RouteFailure> {
        let mut listed: Vec<RouteFailure> = self.0.iter().map(|row| row.describe(routes)).collect();
        listed.sort_by_key(|failure| std::cmp::Reverse(failure.count));
        listed
    }
}

impl FailureRow {
    fn describe(&self, routes: &[String]) -> RouteFailure {
        let route = routes.get(usize::from(self.kind.route));
        RouteFailure {
            route: route.map_or_else(String::new, |route| shorten(route, ROUTE_SHOWN)),
            kind: self.kind.failure.name().into_owned(),
            status: self.kind.status,
            count: self.count,
            body: self.body.clone(),
        }
    }
}

/// A wrong body as one line of printable text; `None` if it is empty.
fn printable(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let line = one_line(&text);
    let unknown = text.chars().filter(|c| *c == char::REPLACEMENT_CHARACTER).count();
    // Above a quarter: an image or compressed bytes, not a text with a few odd characters.
    if unknown * 4 > text.chars().count() {
        return Some("(a body that is not text)".to_owned());
    }
    // One byte more than is shown means that more came.
    let line = match body.len() > BODY_SHOWN {
        // The cut may be inside a character, which then decodes to a replacement.
        true => format!("{}…", line.trim_end_matches(char::REPLACEMENT_CHARACTER)),
        false => line,
    };
    (!line.is_empty()).then(|| shorten(&line, BODY_SHOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(status: u16) -> FailedRequest {
        FailedRequest { route: 0, failure: RequestFailure::Status, status: Some(status) }
    }

    #[test]
    fn failures_are_listed_by_kind_with_the_first_body_and_at_most_eight() {
        let mut table = FailureTable::default();
        for status in 500..520 {
            table.count(failed(status), b"first");
        }
        table.count(failed(503), b"second");
        let mut other = FailureTable::default();
        other.count(failed(503), b"third");
        other.count(failed(599), b"never listed");
        table.merge(&other);
        let listed = table.list(&["GET /".to_owned()]);
        assert_eq!(listed.len(), FAILURES_LISTED);
        assert_eq!(listed[0].to_string(), "GET / → 503 ×3, body \"first\"");
        assert_eq!(listed[1].count, 1);
    }

    #[test]
    fn a_body_is_shown_as_one_short_line_of_printable_text() {
        let long = "é".repeat(500);
        let kept = printable(&long.as_bytes()[..=BODY_SHOWN]).unwrap();
        assert!(kept.chars().count() <= BODY_SHOWN && kept.ends_with("é…"), "{kept}");
        for (body, shown) in [
            (&b"one\r\n\ttwo"[..], Some("one two")),
            (&b"\x1b]0;title\x07red"[..], Some("red")),
            ("a\u{202e}b".as_bytes(), Some("a\u{fffd}b")),
            (&b""[..], None),
            (&b"\x1f\x8b\xff\xfe\xfd\xfc"[..], Some("(a body that is not text)")),
        ] {
            assert_eq!(printable(body).as_deref(), shown);
        }
    }
}
